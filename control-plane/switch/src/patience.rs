//! Waiting in time that this machine has had.

use std::pin::pin;
use std::time::Duration;
use tokio::time::{error::Elapsed, timeout};

/// Parts of a wait. A pause is counted as one of them at most.
const PARTS: u32 = 8;

/// As [`tokio::time::timeout`], for an answer whose absence has consequences. A machine may stand still (a virtual one
/// that is moved or paused, one that swaps). Then the process that is asked stops, too, and all timers are over when
/// the machine wakes up. Such a pause is an eighth of `time` here, however long it was.
///
/// # Errors
/// `future` was not ready within `time`.
pub async fn within<F: Future>(time: Duration, future: F) -> Result<F::Output, Elapsed> {
    let (mut future, part) = (pin!(future), time / PARTS);
    for _ in 1..PARTS {
        if let Ok(done) = timeout(part, &mut future).await {
            return Ok(done);
        }
    }
    timeout(part, future).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;
    use tokio::time::{Instant, advance, sleep};

    const TIME: Duration = Duration::from_secs(8);

    #[tokio::test(start_paused = true)]
    async fn an_answer_behind_a_pause_is_heard() {
        let (answer, heard) = oneshot::channel();
        let waits = tokio::spawn(within(TIME, heard));
        tokio::task::yield_now().await;
        advance(TIME * 10).await;
        // Timers are polled first.
        sleep(TIME / 1000).await;
        answer.send(7).expect("somebody waits");
        assert_eq!(waits.await.expect("it ends"), Ok(Ok(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_answer_it_ends_in_time() {
        let begun = Instant::now();
        assert!(within(TIME, std::future::pending::<()>()).await.is_err());
        assert_eq!(begun.elapsed(), TIME);
    }
}
