//! Whether what was pushed was delivered, as far as a producer's rings can tell: what the switch has taken out of them lies in
//! the consumers' rings.

use std::fmt;
use std::time::{Duration, Instant};

use super::{FlowProducer, LOOK};
use crate::error::ProgramError;
use zsr_ring::{Cancel, PushError};

/// Records that still lie in a producer's ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The ring.
    pub ring: String,
    /// To whom; empty for flows in which all consumers share the producer's one ring.
    pub consumer: String,
    /// How many.
    pub records: u64,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records in ring `{}`", self.records, self.ring)?;
        if !self.consumer.is_empty() {
            write!(f, " to consumer `{}`", self.consumer)?;
        }
        Ok(())
    }
}

impl FlowProducer {
    /// Pushes what is kept to fill items, and waits until all of it lies in the rings of its consumers. Ends sooner when nothing
    /// has moved for `patience`, or `hurry` is cancelled; says what still lies in the producer's own rings then, from where it is
    /// delivered when its consumer has room, also without this program.
    ///
    /// # Errors
    /// As [`push`](Self::push). After [`ProgramError::Lost`], which is about records before, it can be called again.
    pub fn settle(&mut self, patience: Duration, hurry: &Cancel) -> Result<Vec<Held>, ProgramError> {
        let mut moved = (None, Instant::now());
        loop {
            self.flush()?;
            let (mut free, mut drained, mut given_up) = (0u64, true, None);
            for (at, lane) in self.lanes.iter_mut().enumerate() {
                let ring = lane.writer.producer();
                match ring.free_items() {
                    Ok(items) => {
                        free += u64::from(items);
                        drained &= items == ring.spec().capacity();
                    }
                    Err(PushError::Aborted(_)) => given_up = Some(at),
                    Err(e) => return Err(zsr_ring::segment::SegmentPushError::from(e).into()),
                }
            }
            if let Some(lane) = given_up {
                self.given_up(lane)?;
                continue;
            }
            if drained {
                return Ok(Vec::new());
            }
            if moved.0 != Some(free) {
                moved = (Some(free), Instant::now());
            }
            if moved.1.elapsed() >= patience || hurry.is_cancelled() {
                return Ok(self.held());
            }
            self.counts.wait_for("what was pushed to be delivered");
            std::thread::sleep(LOOK);
        }
    }

    /// What lies in its rings, of what it has pushed.
    fn held(&self) -> Vec<Held> {
        let held = self.lanes.iter().map(|lane| Held {
            ring: lane.ring.clone(),
            consumer: lane.consumer.clone(),
            records: lane.writer.untaken(),
        });
        held.filter(|held| held.records > 0).collect()
    }
}
