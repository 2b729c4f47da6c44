//! An endpoint's memory: send buffers, receive buffers, and words.

use zsr_soft_nic::DATAGRAM_HEADER;

use super::super::memory::Block;
use super::{Design, Setup, Way};

/// Bytes of a row: two u64.
pub(super) const ROW: usize = 16;
/// Bytes in front of a message's rows, and the word behind them.
const HEADER: usize = 16;
const SEAL: usize = 8;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Rows, and more will come.
    More,
    /// The last rows.
    Depleted,
    /// Nothing: it only uses up a receive.
    Empty,
    /// Credit, as a datagram.
    Credit,
}

/// The metadata in front of a message's rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) state: State,
    pub(super) source: u16,
    /// Rows in it.
    pub(super) rows: u32,
    /// Its number in the stream, or the credit.
    pub(super) number: u64,
}

impl Header {
    pub(super) fn write(&self, block: &Block, at: usize) {
        let Self { state, source, rows, number } = *self;
        block.store(at, u64::from(rows) | u64::from(source) << 32 | (state as u64) << 48);
        block.store(at + 8, number);
    }

    pub(super) fn read(block: &Block, at: usize) -> Self {
        let word = block.load(at);
        let states = [State::More, State::Depleted, State::Empty, State::Credit];
        Self {
            state: states[(word >> 48) as usize & 3],
            source: (word >> 32) as u16,
            rows: word as u32,
            number: block.load(at + 8),
        }
    }
}

/// A kind of words. There are as many for each node as an endpoint has send buffers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// Credit that the node gives.
    Credit,
    /// `ValidArr`, filled by the node.
    Valid,
    /// `FreeArr`, filled by the node.
    Free,
    /// What goes into these words at the node.
    CreditOut,
    ValidOut,
    FreeOut,
}

/// Of a word in `ValidArr` and `FreeArr`: the lap and place, so that an old one is not taken for a new one, and a buffer.
pub(super) fn entry(count: u64, buffer: u16) -> u64 {
    (count + 1) << 16 | u64::from(buffer)
}

/// The buffer in such a word, if it is the one of that lap and place.
pub(super) fn entry_in(word: u64, count: u64) -> Option<u16> {
    (word >> 16 == count + 1).then_some(word as u16)
}

/// The places in an endpoint's memory, which are the same at all endpoints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Bytes of a message.
    pub(super) message: usize,
    /// Buffers for each node, at either end.
    pub(super) depth: usize,
    nodes: usize,
    /// Bytes before the message in a receive buffer.
    before: usize,
    /// Receive buffers beside those for messages.
    extra: usize,
    /// Receives at a time that hold no buffer.
    without: usize,
}

impl Layout {
    pub(super) fn new(setup: &Setup, design: Design) -> Self {
        let (nodes, depth) = (setup.nodes, setup.depth(design));
        let datagrams = design.way == Way::Datagram;
        Self {
            message: setup.message,
            depth,
            nodes,
            before: if datagrams { DATAGRAM_HEADER as usize } else { 0 },
            extra: if datagrams { nodes * (depth.div_ceil(setup.credit_every as usize) + 2) } else { 0 },
            without: if matches!(design.way, Way::Write(_)) { 2 * depth } else { 0 },
        }
    }

    /// Rows that a message holds.
    pub(super) fn rows(&self) -> u32 {
        ((self.message - HEADER - SEAL) / ROW) as u32
    }

    /// Send buffers, and receive buffers for messages.
    pub(super) fn buffers(&self) -> usize {
        self.nodes * self.depth
    }

    /// Receives that a queue pair has posted at most.
    pub(super) fn receives(&self) -> usize {
        match (self.before, self.without) {
            (0, 0) => self.depth,
            (0, without) => without,
            _ => self.buffers() + self.extra,
        }
    }

    /// Credit that a node has before it was given any: the receives that are posted for it at the start.
    pub(super) fn first_credit(&self) -> u64 {
        if self.before == 0 { self.receives() as u64 } else { self.depth as u64 }
    }

    /// Receive buffers, for messages and for credits.
    pub(super) fn receive_buffers(&self) -> usize {
        self.buffers() + self.extra
    }

    fn receive_stride(&self) -> usize {
        (self.before + self.message).next_multiple_of(8)
    }

    pub(super) fn send(&self, buffer: u16) -> usize {
        usize::from(buffer) * self.message
    }

    /// Where a receive's memory begins, and its length.
    pub(super) fn receive(&self, buffer: u16) -> (usize, usize) {
        let at = self.buffers() * self.message + usize::from(buffer) * self.receive_stride();
        (at, self.before + self.message)
    }

    /// Where the message in a receive buffer begins.
    pub(super) fn came(&self, buffer: u16) -> usize {
        self.receive(buffer).0 + self.before
    }

    /// The word behind a message that begins at `at`.
    pub(super) fn seal(&self, at: usize) -> usize {
        at + self.message - SEAL
    }

    pub(super) fn row(&self, at: usize, number: u32) -> usize {
        at + HEADER + number as usize * ROW
    }

    pub(super) fn word(&self, kind: Word, node: usize, number: u64) -> usize {
        let words = self.buffers() * self.message + self.receive_buffers() * self.receive_stride();
        let slot = (number % self.buffers() as u64) as usize;
        words + ((kind as usize * self.nodes + node) * self.buffers() + slot) * 8
    }

    /// A message without rows, for all that only has a header.
    pub(super) fn short(&self, number: u64) -> usize {
        self.word(Word::FreeOut, self.nodes, 0) + (number % self.shorts()) as usize * HEADER
    }

    pub(super) fn shorts(&self) -> u64 {
        (2 * self.receives() * self.nodes) as u64
    }

    pub(super) const fn short_len() -> usize {
        HEADER
    }

    pub(super) fn len(&self) -> usize {
        self.short(self.shorts() - 1) + HEADER
    }

    /// Bytes of buffers that an endpoint pins at either end.
    pub(super) fn pinned(&self) -> usize {
        self.buffers() * self.message
    }
}
