//! A ring as the agent sees it: shape, memory, who is attached, and how far it got.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::abi::{self, ByteOrder, ControlWord, Flags, from_raw, to_raw};
use super::begun::Begun;
use super::consumer::Consumer;
use super::latency::{self, Latency};
use super::producer::Producer;
use super::spec::RingSpec;
use super::wait::Cancel;
use super::wake;
use super::words::{Control, Items};
use crate::memory::{HostMemory, Memory, MemoryError};

/// Which way a ring runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Filled by this processing unit, drained by the switch.
    Producer,
    /// Filled by the switch, drained by this processing unit.
    Consumer,
    /// Filled and drained here: a plain single-producer single-consumer queue without any network.
    Loopback,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Loopback => "loopback",
        })
    }
}

/// A ring could not be laid into memory.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The memory offered is shorter than control page and items.
    #[error("a ring of {ring} B needs {need} B of memory, but the memory offered has {got} B")]
    MemoryTooShort {
        /// Bytes of items.
        ring: u32,
        /// Bytes needed.
        need: usize,
        /// Bytes offered.
        got: usize,
    },
    /// The memory belongs to a processing unit with another byte order than the ring's.
    #[error(
        "the ring's control words are to be {ring:?}-endian, but its memory belongs to a {memory:?}-endian unit"
    )]
    ByteOrder {
        /// Byte order asked for.
        ring: ByteOrder,
        /// Byte order of the memory's owner.
        memory: ByteOrder,
    },
}

/// A handle could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The ring runs the other way.
    #[error("a {wanted} handle cannot be attached to a {role} ring")]
    WrongRole {
        /// The ring's role.
        role: Role,
        /// What was asked for.
        wanted: Role,
    },
    /// There is a handle already, and a ring has only one on each side.
    #[error("the ring has its {0} already; it takes one at a time")]
    Attached(Role),
    /// The ring was closed by an earlier handle.
    #[error("the ring was closed; nothing can be pushed after that")]
    Closed,
    /// The ring was aborted.
    #[error("the ring was aborted")]
    Aborted,
    /// It is in memory of this GPU, where only its kernels push and pop.
    #[error(
        "the ring is in memory of GPU {0}, which no processor reaches: have kernels push and pop there (zsr_rings, docs/gpu.md), or write \
         `memory: gpu:{0}:host`"
    )]
    OnGpu(u32),
    /// This side's word holds a value that no handle writes: a program before has written into it.
    #[error(
        "the ring's {word} word is corrupt: {counter} is not a multiple of its items' {item} B; delete the flow and create it again"
    )]
    Corrupt {
        /// `head` or `tail`.
        word: &'static str,
        /// What it holds, bytes.
        counter: u32,
        /// The ring's item size, bytes.
        item: u32,
    },
}

/// One ring in memory. Handles ([`Producer`], [`Consumer`]) are attached to it, one per side, and keep
/// it alive; a NIC reaches the same memory by [`memory`](Self::memory).
pub struct Ring {
    spec: RingSpec,
    role: Role,
    epoch: u16,
    memory: Arc<dyn Memory>,
    pub(crate) control: Control,
    pub(crate) items: Items,
    /// Where `head` was at first, and how far it was when last looked at, counted on in 64 bits.
    start: u32,
    reached: AtomicU64,
    producer_attached: AtomicBool,
    consumer_attached: AtomicBool,
    abort_reason: OnceLock<String>,
    pub(crate) begun: Begun,
    /// Counts and events that handles report here on their slow paths and when they go.
    pub(crate) pushed: SideTotals,
    pub(crate) popped: SideTotals,
}

#[derive(Default)]
pub(crate) struct SideTotals {
    bytes: AtomicU64,
    blocked: AtomicU64,
}

/// What one side of a ring has done so far, as last reported by its handle.
///
/// Handles count privately, at no cost, and report when they find the ring full or empty, publish in
/// bulk, or go away; so the figures are exact once the handle is gone and recent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingStats {
    /// Items pushed or popped.
    pub items: u64,
    /// Bytes pushed or popped: items times item size.
    pub bytes: u64,
    /// How often a push found the ring full, or a pop found it empty.
    pub blocked: u64,
}

impl RingStats {
    /// Network operations that the processing unit executed to push or pop. Zero by construction:
    /// handles own nothing but the ring's memory, and no type in this crate knows a NIC.
    pub const COMMUNICATION_OPERATIONS: u64 = 0;
}

/// The control words of a ring at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSnapshot {
    /// Word at offset 0: written by the side that fills the ring.
    pub head: ControlWord,
    /// Word at offset 64: written by the side that drains it.
    pub tail: ControlWord,
    /// Second half of a consumer ring's commit record: whose items the newest head covers.
    pub producer_id: u32,
    /// What that producer's tail becomes.
    pub producer_tail: u32,
}

impl RingSnapshot {
    /// Bytes in the ring. Between two ends in motion this is a moment's view.
    pub fn fill(&self) -> u32 {
        self.head.counter.wrapping_sub(self.tail.counter)
    }
}

impl Ring {
    /// A ring on fresh host memory, counters at 0, epoch 0.
    ///
    /// # Errors
    /// [`RingError::Memory`] when there is not enough memory.
    pub fn allocate(role: Role, spec: RingSpec) -> Result<Arc<Self>, RingError> {
        Self::with_start(role, spec, 0, 0)
    }

    /// As [`allocate`](Self::allocate), with all counters at `start` (rounded down to a whole item) and
    /// the given epoch. Rings that are registered again start where the last registration ended.
    ///
    /// # Errors
    /// [`RingError::Memory`] when there is not enough memory.
    pub fn with_start(role: Role, spec: RingSpec, start: u32, epoch: u16) -> Result<Arc<Self>, RingError> {
        let memory = HostMemory::with_order(spec.memory_len(), spec.byte_order())?;
        Self::over(role, spec, Arc::new(memory), start, epoch)
    }

    /// A ring in memory of the caller's choice, which it takes over: control words are written.
    ///
    /// # Errors
    /// [`RingError`] when the memory is too short or of another byte order.
    pub fn over(
        role: Role,
        spec: RingSpec,
        memory: Arc<dyn Memory>,
        start: u32,
        epoch: u16,
    ) -> Result<Arc<Self>, RingError> {
        Self::check(spec, &*memory)?;
        let control = Control::new(&memory);
        let first = ControlWord { counter: spec.align_down(start), flags: Flags::with_epoch(epoch) };
        let raw = to_raw(first, spec.byte_order());
        latency::clear(&*memory);
        control.source.store(0, Ordering::Relaxed);
        control.head.store(raw, Ordering::Release);
        control.tail.store(raw, Ordering::Release);
        Ok(Self::laid(role, spec, memory, control, first.counter, epoch, Begun::default()))
    }

    /// A ring that another process has laid into `memory`, which is taken as it is: nothing is written.
    ///
    /// # Errors
    /// [`RingError`] when the memory is too short or of another byte order.
    pub fn join(
        role: Role,
        spec: RingSpec,
        memory: Arc<dyn Memory>,
        epoch: u16,
    ) -> Result<Arc<Self>, RingError> {
        Self::join_begun(role, spec, memory, epoch, Begun::default())
    }

    /// As [`join`](Self::join), knowing how far the item at its tail is.
    pub fn join_begun(
        role: Role,
        spec: RingSpec,
        memory: Arc<dyn Memory>,
        epoch: u16,
        begun: Begun,
    ) -> Result<Arc<Self>, RingError> {
        Self::check(spec, &*memory)?;
        let control = Control::new(&memory);
        let head = from_raw(control.head.load(Ordering::Acquire), spec.byte_order());
        Ok(Self::laid(role, spec, memory, control, head.counter, epoch, begun))
    }

    /// How far the last program came with the item at its tail.
    pub fn begun(&self) -> &Begun {
        &self.begun
    }

    /// How long stamped segments took that were popped here. `None`: there were none, or the ring is in a device's memory.
    pub fn latency(&self) -> Option<Latency> {
        Latency::at(&*self.memory)
    }

    fn check(spec: RingSpec, memory: &dyn Memory) -> Result<(), RingError> {
        let (need, got) = (spec.memory_len(), memory.len());
        if got < need {
            return Err(RingError::MemoryTooShort { ring: spec.ring_size(), need, got });
        }
        if memory.byte_order() != spec.byte_order() {
            return Err(RingError::ByteOrder { ring: spec.byte_order(), memory: memory.byte_order() });
        }
        Ok(())
    }

    fn laid(
        role: Role,
        spec: RingSpec,
        memory: Arc<dyn Memory>,
        control: Control,
        start: u32,
        epoch: u16,
        begun: Begun,
    ) -> Arc<Self> {
        Arc::new(Self {
            spec,
            role,
            epoch,
            items: Items::new(&*memory, spec),
            control,
            memory,
            start,
            reached: AtomicU64::new(u64::from(start)),
            producer_attached: AtomicBool::new(false),
            consumer_attached: AtomicBool::new(false),
            abort_reason: OnceLock::new(),
            begun,
            pushed: SideTotals::default(),
            popped: SideTotals::default(),
        })
    }

    /// A local queue: both handles of one ring, no switch and no NIC. The two rings' layouts agree such
    /// that a producer's words are just those a consumer expects, so this is the very code that also
    /// runs at the ends of a flow; meant for tests, benchmarks and programs without a network.
    ///
    /// # Errors
    /// [`RingError::Memory`] when there is not enough memory.
    pub fn loopback(spec: RingSpec) -> Result<(Producer, Consumer), RingError> {
        Self::loopback_from(spec, 0)
    }

    /// As [`loopback`](Self::loopback), counters starting at `start`.
    ///
    /// # Errors
    /// [`RingError::Memory`] when there is not enough memory.
    pub fn loopback_from(spec: RingSpec, start: u32) -> Result<(Producer, Consumer), RingError> {
        let ring = Self::with_start(Role::Loopback, spec, start, 0)?;
        ring.producer_attached.store(true, Ordering::Relaxed);
        ring.consumer_attached.store(true, Ordering::Relaxed);
        Ok((Producer::new(Arc::clone(&ring), Cancel::new()), Consumer::new(ring, Cancel::new())))
    }

    /// The handle that pushes. `cancel` ends its blocking calls.
    ///
    /// # Errors
    /// [`AttachError`] when the ring is a consumer's, in a GPU's memory, has its handle already, or was closed or aborted.
    pub fn attach_producer(self: &Arc<Self>, cancel: Cancel) -> Result<Producer, AttachError> {
        self.near()?;
        self.take_producer()?;
        Ok(Producer::new(Arc::clone(self), cancel))
    }

    /// Whether processors reach the memory, as handles do.
    fn near(&self) -> Result<(), AttachError> {
        self.memory.gpu().map_or(Ok(()), |gpu| Err(AttachError::OnGpu(gpu.number)))
    }

    fn take_producer(&self) -> Result<(), AttachError> {
        if self.role == Role::Consumer {
            return Err(AttachError::WrongRole { role: self.role, wanted: Role::Producer });
        }
        claim(&self.producer_attached, Role::Producer)?;
        let own = self.snapshot().head;
        if own.flags.closed() || own.flags.aborted() || self.abort_reason.get().is_some() {
            self.producer_attached.store(false, Ordering::Release);
            return Err(if own.flags.closed() { AttachError::Closed } else { AttachError::Aborted });
        }
        self.whole("head", own).inspect_err(|_| self.release_producer())
    }

    /// Whether a side's own word is one from which a handle can go on.
    fn whole(&self, word: &'static str, own: ControlWord) -> Result<(), AttachError> {
        let (counter, item) = (own.counter, self.spec.item_size());
        if counter.is_multiple_of(item) { Ok(()) } else { Err(AttachError::Corrupt { word, counter, item }) }
    }

    /// The handle that pops. `cancel` ends its blocking calls.
    ///
    /// # Errors
    /// [`AttachError`] when the ring is a producer's, in a GPU's memory, has its handle already, or an earlier handle
    /// aborted it. A ring that the switch closed or aborted can still be drained.
    pub fn attach_consumer(self: &Arc<Self>, cancel: Cancel) -> Result<Consumer, AttachError> {
        self.near()?;
        self.take_consumer()?;
        Ok(Consumer::new(Arc::clone(self), cancel))
    }

    fn take_consumer(&self) -> Result<(), AttachError> {
        if self.role == Role::Producer {
            return Err(AttachError::WrongRole { role: self.role, wanted: Role::Consumer });
        }
        claim(&self.consumer_attached, Role::Consumer)?;
        let own = self.snapshot().tail;
        if own.flags.aborted() {
            self.consumer_attached.store(false, Ordering::Release);
            return Err(AttachError::Aborted);
        }
        self.whole("tail", own).inspect_err(|_| self.release_consumer())
    }

    /// Takes the processing unit's side for a program in another process; dropping the lease gives it back.
    ///
    /// # Errors
    /// [`AttachError`] as for the handle of that side in this process.
    pub fn lease(self: &Arc<Self>) -> Result<Lease, AttachError> {
        match self.role {
            Role::Consumer => self.take_consumer()?,
            Role::Producer | Role::Loopback => self.take_producer()?,
        }
        Ok(Lease(Arc::clone(self)))
    }

    /// Bytes that were put into the ring since it was made. To be asked at least once per 4 GiB.
    pub fn filled_bytes(&self) -> u64 {
        let head = self.snapshot().head.counter;
        let before = self.reached.load(Ordering::Relaxed);
        // Modulo 2^32 forward; a word that moved back is a damaged one, and counts nothing.
        let step = head.wrapping_sub(before as u32);
        let now = if step < 1 << 31 { before + u64::from(step) } else { before };
        self.reached.fetch_max(now, Ordering::Relaxed).max(now) - u64::from(self.start)
    }

    pub(crate) fn release_producer(&self) {
        self.producer_attached.store(false, Ordering::Release);
    }

    pub(crate) fn release_consumer(&self) {
        self.consumer_attached.store(false, Ordering::Release);
    }

    /// Whether a [`Producer`] is attached.
    pub fn has_producer(&self) -> bool {
        self.producer_attached.load(Ordering::Acquire)
    }

    /// Whether a [`Consumer`] is attached.
    pub fn has_consumer(&self) -> bool {
        self.consumer_attached.load(Ordering::Acquire)
    }

    /// Shape of the ring.
    pub fn spec(&self) -> RingSpec {
        self.spec
    }

    /// Which way it runs.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The registration's epoch, as it stands in this side's flags.
    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    /// The memory to register with a NIC, at I/O virtual address 0, and nothing but it.
    pub fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// The control words now.
    pub fn snapshot(&self) -> RingSnapshot {
        let order = self.spec.byte_order();
        // Tail before head: seen in this order the fill is never negative.
        let tail = from_raw(self.control.tail.load(Ordering::Acquire), order);
        let head = from_raw(self.control.head.load(Ordering::Acquire), order);
        let source = from_raw(self.control.source.load(Ordering::Relaxed), order);
        RingSnapshot { head, tail, producer_id: source.counter, producer_tail: source.flags.0 }
    }

    /// What the producer handle has done.
    pub fn push_stats(&self) -> RingStats {
        self.pushed.get(self.spec)
    }

    /// What the consumer handle has done.
    pub fn pop_stats(&self) -> RingStats {
        self.popped.get(self.spec)
    }

    /// Gives up on the ring for `reason`: pushes fail, pops fail once drained, and blocked callers
    /// notice. To be called when no switch writes to the ring any more. The first reason stands.
    pub fn abort(&self, reason: impl Into<String>) {
        let flag = ControlWord { counter: 0, flags: Flags::ABORTED };
        let flag = to_raw(flag, self.spec.byte_order());
        // Also in memory, where units without this library look.
        let word = if self.role == Role::Producer { &self.control.tail } else { &self.control.head };
        let _ = self.abort_reason.set(reason.into());
        word.set(flag);
        self.nudge();
    }

    /// Ends a consumer ring's stream behind what is in it: pops succeed until it is empty. To be called when no switch writes to
    /// the ring any more.
    pub fn finish(&self) {
        let flag = ControlWord { counter: 0, flags: Flags::CLOSED };
        self.control.head.set(to_raw(flag, self.spec.byte_order()));
        self.nudge();
    }

    /// Wakes a handle that sleeps until the other side has done something: there is something else to do.
    pub fn nudge(&self) {
        wake::tell(&*self.memory);
    }

    /// Ends a producer ring's stream in place of a program, unless one has the ring; says whether it ended it.
    pub fn end_unattended(&self) -> bool {
        // As a program would: whoever takes the side has it alone.
        if self.take_producer().is_err() {
            return false;
        }
        self.finish();
        self.producer_attached.store(false, Ordering::Release);
        true
    }

    /// Why the agent aborted the ring, if it did.
    pub fn abort_reason(&self) -> Option<&str> {
        self.abort_reason.get().map(String::as_str)
    }

    pub(crate) fn is_aborted_here(&self) -> bool {
        self.abort_reason.get().is_some()
    }
}

/// A ring's side while a program in another process has it.
#[derive(Debug)]
pub struct Lease(Arc<Ring>);

impl Lease {
    /// The ring.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.0
    }

    /// How the program has left its side of the ring.
    pub fn left(&self) -> Left {
        let words = self.0.snapshot();
        let (own, peer) = match self.0.role {
            Role::Consumer => (words.tail, words.head),
            Role::Producer | Role::Loopback => (words.head, words.tail),
        };
        if own.flags.aborted() {
            Left::GaveUp
        } else if own.flags.closed() || (peer.flags.closed() && words.fill() == 0) {
            Left::Finished
        } else {
            Left::Open
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.0.role {
            Role::Consumer => self.0.release_consumer(),
            Role::Producer | Role::Loopback => self.0.release_producer(),
        }
    }
}

/// How a program has left its side of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Left {
    /// In the middle: another program may take the side and go on.
    Open,
    /// At the end of the stream: a producer closed it, a consumer drained it.
    Finished,
    /// It set ABORTED.
    GaveUp,
}

impl SideTotals {
    /// Only the one attached handle adds, so load and store do; a locked add would cost more than a push.
    pub(crate) fn add(&self, bytes: u64, blocked: u64) {
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        self.blocked.store(self.blocked.load(Ordering::Relaxed) + blocked, Ordering::Relaxed);
    }

    fn get(&self, spec: RingSpec) -> RingStats {
        let bytes = self.bytes.load(Ordering::Relaxed);
        RingStats {
            items: bytes >> spec.item_size().trailing_zeros(),
            bytes,
            blocked: self.blocked.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("role", &self.role)
            .field("spec", &self.spec)
            .field("epoch", &self.epoch)
            .field("words", &self.snapshot())
            .finish_non_exhaustive()
    }
}

fn claim(attached: &AtomicBool, role: Role) -> Result<(), AttachError> {
    match attached.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(()),
        Err(_) => Err(AttachError::Attached(role)),
    }
}

const _: () = assert!(abi::ITEMS_OFFSET.is_multiple_of(4096));
