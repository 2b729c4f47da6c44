//! The least work of a shuffle: a tuple is copied to its target's tuples, and is looked at there. Nothing is sent.

use super::{BATCH, Ends, RING, Took};

/// Memory for one target.
struct Lane {
    memory: Vec<u8>,
    /// Bytes written.
    head: usize,
    /// Bytes looked at.
    tail: usize,
}

/// A node that is its own target.
pub struct FloorEnds {
    lanes: Vec<Lane>,
    finished: bool,
}

impl FloorEnds {
    /// For `targets` targets.
    pub fn new(targets: usize) -> FloorEnds {
        let lane = |_| Lane { memory: vec![0; RING], head: 0, tail: 0 };
        FloorEnds { lanes: (0..targets).map(lane).collect(), finished: false }
    }
}

impl Ends for FloorEnds {
    #[inline]
    fn try_push(&mut self, to: usize, tuple: &[u8]) -> bool {
        let lane = &mut self.lanes[to];
        let Some(place) = lane.memory.get_mut(lane.head..lane.head + tuple.len()) else { return false };
        place.copy_from_slice(tuple);
        lane.head += tuple.len();
        true
    }

    fn try_finish(&mut self) -> bool {
        self.finished = true;
        true
    }

    #[inline]
    fn consume(&mut self, sink: &mut impl FnMut(&[u8])) -> Took {
        for lane in &mut self.lanes {
            if lane.tail < lane.head {
                let end = lane.head.min(lane.tail + BATCH);
                sink(&lane.memory[lane.tail..end]);
                lane.tail = end;
                if lane.tail == lane.head {
                    (lane.head, lane.tail) = (0, 0);
                }
                return Took::Some;
            }
        }
        if self.finished { Took::End } else { Took::Nothing }
    }
}
