//! The source's ends: segments of its own that are sent by WRITEs.

use zsr_link::Rng;

use super::super::Hint;
use super::super::memory::Block;
use super::super::verbs::{Done, SendQueue};
use super::layout::{CONSUMABLE, FOOTER, LAST, Shape, landed};

/// A source's ends, to one target or to several.
pub trait Source: Send + Sized {
    /// The hint that the target ring is laid out for.
    fn hint() -> Hint;

    /// A source that has `queues` to its targets.
    fn new(block: Block, shape: Shape, queues: Vec<SendQueue>) -> Self;

    /// Number of the source's own segments.
    fn segments(shape: Shape) -> usize;

    /// Pushes a tuple. `false`: look for completions and try again.
    fn try_push(&mut self, tuple: &[u8]) -> bool;

    /// Sends the tuples that are kept, as the last ones.
    fn try_finish(&mut self) -> bool;

    /// A completion of target `out`'s connection.
    fn completed(&mut self, out: usize, done: Done);

    /// Does the work that needs no tuple.
    fn go_on(&mut self) {}
}

/// Segments of one tuple at the source.
const SLOTS: usize = 32;
/// The source looks at the credit counter when it has this part of all credits left.
const LOW: u64 = 4;
/// Most looks that are left out between two looks at a footer that was not writable.
const BACKOFF: u64 = 16;

/// The source's knowledge of the target's next segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A READ of its footer is under way.
    Asked,
    /// The footer has come.
    Known,
    /// The segment was not writable; the source asks again after this number of calls.
    Later(u64),
    Writable,
}

/// A target of a source that optimizes for bandwidth.
struct Out {
    queue: SendQueue,
    /// The target's segment that is written next.
    segment: usize,
    next: Next,
    /// The place where its footer lands.
    landing: usize,
}

/// Bytes of a source's memory for `segments` of its own and `targets`.
pub(super) fn memory(shape: Shape, segments: usize, targets: usize) -> usize {
    segments * shape.stride() + FOOTER * targets
}

/// A ring of segments that are sent when they are full, to one target or to several.
pub struct BatchSource {
    block: Block,
    shape: Shape,
    outs: Vec<Out>,
    at: usize,
    /// Start of the open segment, and its filled bytes.
    start: usize,
    fill: usize,
    /// Bytes to which it may be filled: none as long as WRITEs of the last lap have not completed.
    room: usize,
    /// The signaled ones of these.
    waiting: usize,
    rng: Rng,
}

impl Source for BatchSource {
    fn hint() -> Hint {
        Hint::Bandwidth
    }

    fn new(block: Block, shape: Shape, queues: Vec<SendQueue>) -> BatchSource {
        let landing = |n| shape.segments * shape.stride() + FOOTER * n;
        // The target's ring is empty at first.
        let out = |(n, queue)| Out { queue, segment: 0, next: Next::Writable, landing: landing(n) };
        let outs = queues.into_iter().enumerate().map(out).collect();
        let room = shape.segment;
        BatchSource { block, shape, outs, at: 0, start: 0, fill: 0, room, waiting: 0, rng: Rng::new(1) }
    }

    fn segments(shape: Shape) -> usize {
        shape.segments
    }

    #[inline(always)]
    fn try_push(&mut self, tuple: &[u8]) -> bool {
        let end = self.fill + tuple.len();
        if end > self.room {
            return false;
        }
        self.block.write(self.start + self.fill, tuple);
        self.fill = end;
        if end + tuple.len() > self.shape.segment {
            // If the target has no room, the next tuple waits for it.
            self.room = 0;
            self.try_send(false);
        }
        true
    }

    fn try_finish(&mut self) -> bool {
        // A full segment is sent first.
        if self.room == 0 && self.fill > 0 && !self.try_send(false) {
            return false;
        }
        self.waiting == 0 && self.try_send(true)
    }

    fn completed(&mut self, out: usize, done: Done) {
        if done.read {
            self.outs[out].next = Next::Known;
        } else {
            self.waiting -= 1;
        }
    }

    /// Sends the full segment; then there is room again.
    fn go_on(&mut self) {
        if self.room == 0 && self.fill > 0 {
            self.try_send(false);
        }
        if self.room == 0 && self.fill == 0 && self.waiting == 0 {
            self.room = self.shape.segment;
        }
    }
}

impl BatchSource {
    /// Sends the open segment, if all targets have room for it.
    #[inline(never)]
    fn try_send(&mut self, last: bool) -> bool {
        let mut ready = true;
        for out in &mut self.outs {
            ready &= out.queue.has_room(2) && out.is_writable(&self.block, self.shape, &mut self.rng);
        }
        if !ready {
            return false;
        }
        let (shape, from) = (self.shape, self.shape.at(self.at));
        let flags = CONSUMABLE | if last { LAST } else { 0 };
        self.block.store(shape.state(self.at), flags | self.fill as u64);
        // One completion covers all WRITEs before it.
        let signaled = self.at + 1 == shape.segments;
        for out in &mut self.outs {
            let to = shape.at(out.segment);
            out.segment = if out.segment + 1 == shape.segments { 0 } else { out.segment + 1 };
            if !last {
                // First, so that its answer comes while the segment is on its way.
                out.queue.read(shape.footer(out.segment), FOOTER, out.landing);
                out.next = Next::Asked;
            }
            out.queue.write(from, shape.stride(), to, signaled);
        }
        if signaled {
            self.waiting += self.outs.len();
        }
        self.at = if signaled { 0 } else { self.at + 1 };
        (self.start, self.fill) = (shape.at(self.at), 0);
        self.room = if self.waiting == 0 { shape.segment } else { 0 };
        true
    }
}

impl Out {
    fn is_writable(&mut self, block: &Block, shape: Shape, rng: &mut Rng) -> bool {
        match self.next {
            Next::Writable => true,
            Next::Asked => false,
            Next::Known if block.load(landed(self.landing)) & CONSUMABLE == 0 => {
                self.next = Next::Writable;
                true
            }
            Next::Known => {
                self.next = Next::Later(rng.bits() % BACKOFF);
                false
            }
            Next::Later(0) => {
                self.queue.read(shape.footer(self.segment), FOOTER, self.landing);
                self.next = Next::Asked;
                false
            }
            Next::Later(n) => {
                self.next = Next::Later(n - 1);
                false
            }
        }
    }
}

/// A source that sends each tuple at once to one target, as long as it has credits.
pub struct CreditSource {
    block: Block,
    shape: Shape,
    queue: SendQueue,
    /// The next segment here, and at the target.
    at: usize,
    segment: usize,
    sent: u64,
    credits: u64,
    asked: bool,
    /// The signaled WRITE of the last lap has not completed.
    waiting: bool,
}

impl Source for CreditSource {
    fn hint() -> Hint {
        Hint::Latency
    }

    fn segments(_: Shape) -> usize {
        SLOTS
    }

    fn new(block: Block, shape: Shape, mut queues: Vec<SendQueue>) -> CreditSource {
        let queue = queues.pop().expect("a target");
        let credits = shape.segments as u64;
        CreditSource {
            block,
            shape,
            queue,
            at: 0,
            segment: 0,
            sent: 0,
            credits,
            asked: false,
            waiting: false,
        }
    }

    #[inline(always)]
    fn try_push(&mut self, tuple: &[u8]) -> bool {
        self.try_send(tuple, CONSUMABLE)
    }

    fn try_finish(&mut self) -> bool {
        self.try_send(&[], CONSUMABLE | LAST)
    }

    fn completed(&mut self, _: usize, done: Done) {
        if done.read {
            let consumed = self.block.load(SLOTS * self.shape.stride());
            self.credits = self.shape.segments as u64 - (self.sent - consumed);
            self.asked = false;
        } else {
            self.waiting = false;
        }
    }
}

impl CreditSource {
    #[inline(always)]
    fn try_send(&mut self, tuple: &[u8], flags: u64) -> bool {
        let shape = self.shape;
        if !self.queue.has_room(2) {
            return false;
        }
        if !self.asked && self.credits * LOW <= shape.segments as u64 {
            self.queue.read(shape.credits(), 8, SLOTS * shape.stride());
            self.asked = true;
        }
        if self.credits == 0 || self.waiting {
            return false;
        }
        let from = shape.at(self.at);
        self.block.write(from, tuple);
        self.block.store(shape.state(self.at), flags | tuple.len() as u64);
        let signaled = self.at + 1 == SLOTS;
        self.queue.write(from, shape.stride(), shape.at(self.segment), signaled);
        self.waiting = signaled;
        self.at = if signaled { 0 } else { self.at + 1 };
        self.segment = if self.segment + 1 == shape.segments { 0 } else { self.segment + 1 };
        self.sent += 1;
        self.credits -= 1;
        true
    }
}
