//! Timeouts of a crowd. Packets of many busy workers wait for one another, in the switch as in NICs. With timeouts that
//! suit a few workers, workers would repeat packets that are only late. The repetitions delay the other packets, until
//! nothing moves. So no timeout is shorter than a round of all busy workers may take.

use crate::times::timeouts::PER_WORKER;
use crate::{Controller, Work};
use std::time::Duration;
use zsr_plan::dataplane::GROUP_TICK;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::error::ControllerError;
use zsr_plan::surroundings::Surroundings;

/// The smallest number of workers that is a crowd.
const CROWD: usize = 64;

/// The shortest timeout for `busy` workers, where it is `now`. It grows by powers of two, and shrinks only when there
/// are far fewer workers, so that entries are seldom written for it.
fn shortest(busy: usize, now: Duration) -> Duration {
    let round = PER_WORKER * busy.next_power_of_two() as u32;
    let wanted = if busy < CROWD { Duration::ZERO } else { round };
    if wanted > now || round * 4 <= now { wanted } else { now }
}

impl Controller {
    /// Keeps timeouts as long as the crowd needs them, for as long as it is polled.
    pub(crate) async fn keep_timeouts(&self) {
        loop {
            self.0.crowd.notified().await;
            if self.0.plane.queues() {
                let mut work = self.any_turn().await;
                // The switch has gone, or will refuse flows' changes as well.
                let _ = self.write_timeouts(&mut work).await;
            }
        }
    }

    async fn write_timeouts(&self, work: &mut Work) -> Result<(), ControllerError> {
        let (before, after, flows) = {
            let state = self.state();
            // Idle workers may begin at any time.
            let busy = state.ticking.get(&GROUP_TICK).map_or(0, |workers| workers.len()) + state.idle.len();
            let min_timeout = shortest(busy, state.min_timeout);
            if min_timeout == state.min_timeout {
                return Ok(());
            }
            let before = Surroundings::of(&state);
            let flows: Vec<Flow> = state.flows.values().cloned().collect();
            (before.clone(), Surroundings { min_timeout, ..before }, flows)
        };
        self.rewrite(work, &flows, (&before, &after)).await?;
        self.state().min_timeout = after.min_timeout;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_grow_with_the_crowd_and_stay_while_it_changes_little() {
        let ms = |tenths: u64| Duration::from_micros(tenths * 100);
        assert_eq!(shortest(63, Duration::ZERO), Duration::ZERO);
        assert_eq!(shortest(64, Duration::ZERO), ms(128));
        assert_eq!(shortest(65, ms(128)), ms(256));
        assert_eq!(shortest(1000, ms(256)), ms(2048));
        assert_eq!(shortest(300, ms(2048)), ms(2048));
        assert_eq!(shortest(256, ms(2048)), ms(512));
        assert_eq!(shortest(63, ms(128)), ms(128));
        assert_eq!(shortest(16, ms(128)), Duration::ZERO);
        assert_eq!(shortest(0, ms(2048)), Duration::ZERO);
    }
}
