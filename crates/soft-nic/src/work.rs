//! Work requests and completions: the verbs of the requester side.

use std::collections::VecDeque;

use thiserror::Error;
use zsr_wire::{Qpn, Rkey};

use crate::qp::QpState;
use crate::ud::Address;

/// Most packets of one message: a quarter of the PSN space, so that old and new are always told apart.
pub(crate) const MAX_PACKETS: u32 = 1 << 22;

/// A stretch of registered local memory. Local and remote keys are the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sge {
    /// Key of the region.
    pub lkey: Rkey,
    /// I/O virtual address of the first byte.
    pub address: u64,
    /// Length in bytes, at most 2³¹.
    pub len: u32,
}

/// The operation of a work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// RDMA READ: remote memory into local memory.
    Read,
    /// RDMA WRITE: local memory into remote memory.
    Write,
    /// RDMA WRITE that uses up a receive of the peer and gives it these 32 bits.
    WriteImm(u32),
    /// SEND: local memory into that of the peer's oldest receive.
    Send,
    /// SEND that gives the peer these 32 bits, too.
    SendImm(u32),
    /// An unreliable datagram, the only operation of a queue pair without a connection.
    Datagram(To),
    /// Atomic: adds this to the remote word, modulo 2⁶⁴. The word's value before goes to local memory. Both are 8 bytes
    /// at an address that is a multiple of 8, in their host's byte order.
    FetchAdd(u64),
    /// Atomic: likewise, but stores `swap` if the word is `compare`.
    CompareSwap {
        /// The value that the word must have.
        compare: u64,
        /// The value that it gets then.
        swap: u64,
    },
}

/// Where a datagram goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct To {
    /// The host.
    pub address: Address,
    /// The queue pair.
    pub qpn: Qpn,
    /// The queue pair's key.
    pub qkey: u32,
    /// Bits that its receive gets, too.
    pub immediate: Option<u32>,
}

/// A place for one message of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receive {
    /// Given back in the completion.
    pub wr_id: u64,
    /// Where a SEND or a datagram goes. The payload of a datagram lies behind [`crate::DATAGRAM_HEADER`] bytes. A WRITE with
    /// immediate data needs none.
    pub local: Option<Sge>,
}

impl Receive {
    /// A receive for a WRITE with immediate data.
    pub fn without_memory(wr_id: u64) -> Receive {
        Receive { wr_id, local: None }
    }

    /// Bytes of its memory.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        self.local.map_or(0, |local| local.len)
    }
}

impl Operation {
    /// Whether remote memory, or what it was, comes into local memory.
    #[inline]
    pub(crate) const fn fetches(self) -> bool {
        matches!(self, Operation::Read) || self.is_atomic()
    }

    /// Whether the peer says where it goes.
    #[inline]
    pub(crate) const fn is_send(self) -> bool {
        matches!(self, Operation::Send | Operation::SendImm(_))
    }

    #[inline]
    pub(crate) const fn is_atomic(self) -> bool {
        matches!(self, Operation::FetchAdd(_) | Operation::CompareSwap { .. })
    }
}

/// One operation to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkRequest {
    /// Given back in the completion.
    pub wr_id: u64,
    /// The operation.
    pub operation: Operation,
    /// Local memory; its length is the message's.
    pub local: Sge,
    /// I/O virtual address of the first remote byte. SENDs and datagrams have none.
    pub remote_address: u64,
    /// Key of the remote region. SENDs and datagrams have none.
    pub rkey: Rkey,
}

/// How a work request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Carried out.
    Success,
    /// The local memory's key, range or rights do not fit.
    LocalProtection,
    /// The message is longer than the memory of the receive that it got.
    LocalLength,
    /// The peer calls the request invalid (NAK 0x61).
    RemoteInvalidRequest,
    /// The peer refuses access: key, range or rights (NAK 0x62).
    RemoteAccess,
    /// The peer could not carry it out (NAK 0x63).
    RemoteOperational,
    /// The peer did not answer, or lost packets, more often than the retry count allows.
    RetryExceeded,
    /// The peer was not ready more often than the RNR retry count allows.
    RnrRetryExceeded,
    /// The peer answered a READ with packets of the wrong length.
    BadResponse,
    /// Never carried out: the queue pair went to the error state before.
    Flushed,
}

/// The subject of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionKind {
    /// An operation posted by `post_send`.
    Send(Operation),
    /// A receive used up by the peer's SEND, or its WRITE with immediate data.
    Receive {
        /// The immediate data.
        immediate: Option<u32>,
    },
    /// A receive used up by a datagram. The message's length counts its header.
    Datagram {
        /// Queue pair that has sent it. Its host is in the IPv4 header.
        from: Qpn,
        /// The immediate data.
        immediate: Option<u32>,
    },
}

/// The end of a work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Queue pair that it was posted to.
    pub qpn: Qpn,
    /// As given when posting.
    pub wr_id: u64,
    /// The work request's kind.
    pub kind: CompletionKind,
    /// How the work request ended.
    pub status: Status,
    /// Message length in bytes.
    pub len: u32,
}

/// Why a work request can't be posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PostError {
    /// No queue pair has this number.
    #[error("queue pair {0} does not exist")]
    UnknownQp(Qpn),
    /// The queue pair's state does not allow posting.
    #[error("queue pair {qpn} is in state {state:?}: {expected}")]
    State {
        /// The queue pair.
        qpn: Qpn,
        /// The queue pair's state.
        state: QpState,
        /// The state that is needed.
        expected: &'static str,
    },
    /// The queue pair does not do that.
    #[error("queue pair {qpn} does not do {operation:?}: {expected}")]
    Service {
        /// The queue pair.
        qpn: Qpn,
        /// The operation that was asked for.
        operation: Operation,
        /// The operations that it does.
        expected: &'static str,
    },
    /// The NIC did not give that address.
    #[error("no address has the number {}: create it first", .0.0)]
    UnknownAddress(Address),
    /// The queue is full.
    #[error("queue pair {qpn} already holds {depth} work requests: poll completions first")]
    QueueFull {
        /// The queue pair.
        qpn: Qpn,
        /// The queue's depth.
        depth: usize,
    },
    /// Completions have not been polled for so long that one more would have no place.
    #[error("{waiting} completions wait to be polled, one more work request would have no place for its own")]
    CompletionsFull {
        /// Completions waiting.
        waiting: usize,
    },
    /// The message is too long.
    #[error("a message of {len} bytes is too long: at most 2147483648 bytes and {MAX_PACKETS} packets")]
    TooLong {
        /// Length in bytes.
        len: u32,
    },
    /// A datagram that does not go into one packet.
    #[error("a datagram of {len} bytes is too long: at most {mtu}, the path MTU")]
    LongDatagram {
        /// Length in bytes.
        len: u32,
        /// Path MTU in bytes.
        mtu: u32,
    },
    /// An atomic operation whose local memory is not one word.
    #[error("an atomic operation gives 8 bytes, and its local memory has {len}: say 8")]
    AtomicLength {
        /// Length in bytes.
        len: u32,
    },
    /// The local memory does not fit.
    #[error("key {lkey} does not allow a {operation:?} of {len} bytes at local address {address:#x}")]
    LocalMemory {
        /// Key given.
        lkey: Rkey,
        /// The operation that was to be done.
        operation: Operation,
        /// Length in bytes.
        len: u32,
        /// Address given.
        address: u64,
    },
    /// The memory of a receive does not fit.
    #[error("key {} does not allow a receive of {} bytes at local address {:#x}", .0.lkey, .0.len, .0.address)]
    ReceiveMemory(Sge),
}

/// Completions waiting to be polled. Posting reserves the place of each, so that pushing never allocates.
#[derive(Default)]
pub(crate) struct CompletionQueue {
    waiting: VecDeque<Completion>,
    /// Work requests posted and not yet completed.
    promised: usize,
    capacity: usize,
}

impl CompletionQueue {
    /// Makes room for `n` more.
    pub(crate) fn grow(&mut self, n: usize) {
        self.capacity += n;
        self.waiting.reserve(self.capacity - self.waiting.len());
    }

    /// Gives the room of a destroyed queue pair back.
    pub(crate) fn shrink(&mut self, n: usize) {
        self.capacity = self.capacity.saturating_sub(n);
    }

    /// Promises a place to one more work request.
    pub(crate) fn promise(&mut self) -> Result<(), PostError> {
        if self.waiting.len() + self.promised >= self.capacity {
            return Err(PostError::CompletionsFull { waiting: self.waiting.len() });
        }
        self.promised += 1;
        Ok(())
    }

    /// Takes back `n` promises that will not be kept.
    pub(crate) fn forget(&mut self, n: usize) {
        self.promised = self.promised.saturating_sub(n);
    }

    pub(crate) fn push(&mut self, completion: Completion) {
        self.forget(1);
        self.waiting.push_back(completion);
    }

    pub(crate) fn pop(&mut self) -> Option<Completion> {
        self.waiting.pop_front()
    }
}
