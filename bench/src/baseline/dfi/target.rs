//! The target's end: it polls the footers of its rings, one ring per source.

use super::super::Took;
use super::super::memory::Block;
use super::layout::{CONSUMABLE, LAST, Shape, used};

/// The ring that one source writes.
pub(super) struct TargetRing {
    pub(super) block: Block,
    next: usize,
    /// The segment whose tuples were handed out. It goes back to the source when the next one is asked for.
    handed: Option<usize>,
    ended: bool,
    consumed: u64,
}

impl TargetRing {
    pub(super) fn new(shape: Shape) -> TargetRing {
        let block = Block::new(shape.credits() + 8);
        TargetRing { block, next: 0, handed: None, ended: false, consumed: 0 }
    }
}

/// A node's rings, one per source.
pub(super) struct Target {
    rings: Vec<TargetRing>,
    shape: Shape,
    /// Sources count what is consumed, rather than look at footers.
    credits: bool,
    /// The source whose ring is looked at next.
    turn: usize,
}

impl Target {
    pub(super) fn new(rings: Vec<TargetRing>, shape: Shape, credits: bool) -> Target {
        Target { rings, shape, credits, turn: 0 }
    }

    #[inline]
    pub(super) fn consume(&mut self, sink: &mut impl FnMut(&[u8])) -> Took {
        let (shape, mut ended) = (self.shape, 0);
        for _ in 0..self.rings.len() {
            let ring = &mut self.rings[self.turn];
            if let Some(handed) = ring.handed.take() {
                ring.block.store(shape.state(handed), 0);
                if self.credits {
                    ring.consumed += 1;
                    ring.block.store(shape.credits(), ring.consumed);
                }
            }
            if ring.ended {
                ended += 1;
            } else {
                let state = ring.block.load(shape.state(ring.next));
                if state & CONSUMABLE != 0 {
                    // SAFETY: the source writes a consumable segment again only when it has become writable.
                    let tuples =
                        unsafe { ring.block.bytes(shape.at(ring.next), used(state).min(shape.segment)) };
                    if !tuples.is_empty() {
                        sink(tuples);
                    }
                    ring.handed = Some(ring.next);
                    ring.next = if ring.next + 1 == shape.segments { 0 } else { ring.next + 1 };
                    ring.ended = state & LAST != 0;
                    // As long as there are segments, the same ring: its lines are in the cache.
                    return Took::Some;
                }
            }
            self.turn = if self.turn + 1 == self.rings.len() { 0 } else { self.turn + 1 };
        }
        if ended == self.rings.len() { Took::End } else { Took::Nothing }
    }
}
