//! The switch's part: items from producers' rings to consumers', one at a time, so that those of several producers mix.

use std::sync::Arc;

use zsr_api::controller::FlowKind;
use zsr_ring::Ring;

pub(super) struct Mover {
    kind: FlowKind,
    /// Of each producer: one ring per consumer in a shuffle, else one.
    producers: Vec<Vec<Arc<Ring>>>,
    consumers: Vec<Arc<Ring>>,
    /// Which consumers were told the end.
    ended: Vec<bool>,
    /// Whose turn it is in a load balance.
    turn: usize,
}

impl Mover {
    pub(super) fn new(kind: FlowKind, producers: Vec<Vec<Arc<Ring>>>, consumers: Vec<Arc<Ring>>) -> Self {
        let ended = vec![false; consumers.len()];
        Mover { kind, producers, consumers, ended, turn: 0 }
    }

    /// Moves at most one item out of each producer's ring, and tells the end where there is one. Says whether anything was done.
    pub(super) fn round(&mut self) -> bool {
        let mut moved = false;
        for producer in &self.producers {
            for (at, from) in producer.iter().enumerate() {
                let count = self.consumers.len();
                let to: Vec<&Ring> = match self.kind {
                    FlowKind::Shuffle => vec![&self.consumers[at]],
                    FlowKind::LoadBalance => {
                        let turns = (0..count).map(|n| &*self.consumers[(self.turn + n) % count]);
                        turns.filter(|ring| has_room(ring)).take(1).collect()
                    }
                    _ => self.consumers.iter().map(|ring| &**ring).collect(),
                };
                if move_one(from, &to) {
                    self.turn = (self.turn + 1) % count;
                    moved = true;
                }
            }
        }
        for (at, consumer) in self.consumers.iter().enumerate() {
            let lane = if self.kind == FlowKind::Shuffle { at } else { 0 };
            if !self.ended[at] && self.producers.iter().all(|rings| has_ended(&rings[lane])) {
                consumer.finish();
                self.ended[at] = true;
                moved = true;
            }
        }
        moved
    }

    /// Whether all consumers were told the end.
    pub(super) fn is_done(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }
}

fn has_room(ring: &Ring) -> bool {
    ring.snapshot().fill() < ring.spec().ring_size()
}

fn has_ended(ring: &Ring) -> bool {
    let words = ring.snapshot();
    words.head.flags.closed() && words.fill() == 0
}

/// Moves one item to all of `to`, if there is one, and all have room.
fn move_one(from: &Ring, to: &[&Ring]) -> bool {
    let (words, item) = (from.snapshot(), from.spec().item_size());
    if words.fill() == 0 || to.is_empty() || !to.iter().all(|ring| has_room(ring)) {
        return false;
    }
    // A program can write any number into its ring: what is no item is not moved.
    let Ok(bytes) = from.items_at(words.tail.counter, item as usize) else { return false };
    for ring in to {
        let head = ring.snapshot().head.counter.wrapping_add(item);
        if ring.complete(head, &bytes).is_err() {
            return false;
        }
    }
    from.taken(words.tail.counter.wrapping_add(item));
    true
}
