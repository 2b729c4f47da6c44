//! Barriers by name: programs on any hosts wait for each other. Barriers are not stored: programs that wait when a
//! controller ends are told so, and ask its successor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_records::{NAME_HELP, is_name};

/// Most who can wait for each other.
const MAX: u32 = 65_536;

/// Barriers at which a program waits.
#[derive(Debug, Default)]
pub struct Barriers(Mutex<HashMap<String, Meeting>>);

#[derive(Debug)]
struct Meeting {
    participants: u32,
    here: u32,
    /// Turns true when all are here. The pointer identifies the meeting, as a name is used again and again.
    all: Arc<watch::Sender<bool>>,
}

/// A place in a meeting; given up when it is dropped.
struct Waiting<'b> {
    barriers: &'b Barriers,
    name: &'b str,
    all: Arc<watch::Sender<bool>>,
}

impl Barriers {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Meeting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when as many as `participants` wait at the barrier `name`, this caller included. A caller that drops
    /// the future no longer waits.
    ///
    /// # Errors
    /// No name, no number; others wait there for another number.
    pub async fn meet(&self, name: &str, participants: u32) -> Result<(), ControllerError> {
        if !is_name(name) {
            return Err(ControllerError::new(
                ErrorKind::Invalid,
                format!("barrier `{name}`: expected {NAME_HELP}"),
            ));
        }
        if !(1..=MAX).contains(&participants) {
            let message = format!("barrier `{name}`: {participants} participants: expected 1 to {MAX}");
            return Err(ControllerError::new(ErrorKind::Invalid, message));
        }
        let waiting = {
            let mut all = self.lock();
            let meeting = all.entry(name.to_owned()).or_insert_with(|| Meeting {
                participants,
                here: 0,
                all: Arc::new(watch::channel(false).0),
            });
            if meeting.participants != participants {
                let (wanted, here) = (meeting.participants, meeting.here);
                let message = format!(
                    "barrier `{name}`: {here} wait there for {wanted} participants, not for {participants}: all \
                     have to name the same number"
                );
                return Err(ControllerError::new(ErrorKind::NotNow, message));
            }
            meeting.here += 1;
            if meeting.here == participants {
                meeting.all.send_replace(true);
                all.remove(name);
                return Ok(());
            }
            Waiting { barriers: self, name, all: meeting.all.clone() }
        };
        // The sender lives as long as somebody waits.
        let _ = waiting.all.subscribe().wait_for(|&all| all).await;
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut all = self.barriers.lock();
        if let Some(meeting) = all.get_mut(self.name).filter(|m| Arc::ptr_eq(&m.all, &self.all)) {
            meeting.here -= 1;
            if meeting.here == 0 {
                all.remove(self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn look<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn all_go_when_the_last_has_come_and_meet_again() {
        let barriers = Barriers::default();
        for _ in 0..2 {
            let (mut a, mut b) = (pin!(barriers.meet("x", 3)), pin!(barriers.meet("x", 3)));
            assert!(look(a.as_mut()).is_pending() && look(b.as_mut()).is_pending());
            let mut other = pin!(barriers.meet("y", 2));
            assert!(look(other.as_mut()).is_pending());
            assert_eq!(look(pin!(barriers.meet("x", 3))), Poll::Ready(Ok(())));
            assert!(look(a).is_ready() && look(b).is_ready());
            assert!(look(other).is_pending());
        }
        assert!(barriers.lock().is_empty(), "nobody waits, nothing is left");
    }

    #[test]
    fn who_goes_away_does_not_count() {
        let barriers = Barriers::default();
        let mut stays = pin!(barriers.meet("x", 3));
        assert!(look(stays.as_mut()).is_pending());
        for _ in 0..5 {
            assert!(look(pin!(barriers.meet("x", 3))).is_pending());
        }
        let mut second = pin!(barriers.meet("x", 3));
        assert!(look(second.as_mut()).is_pending());
        assert!(look(stays.as_mut()).is_pending());
        assert!(look(pin!(barriers.meet("x", 3))).is_ready());
        assert!(look(stays).is_ready() && look(second).is_ready());
    }

    #[test]
    fn a_place_in_a_meeting_that_is_over_is_nobody_elses() {
        let barriers = Barriers::default();
        let mut late = Box::pin(barriers.meet("x", 2));
        assert!(look(late.as_mut()).is_pending());
        assert!(look(pin!(barriers.meet("x", 2))).is_ready());
        let mut next = pin!(barriers.meet("x", 2));
        assert!(look(next.as_mut()).is_pending());
        // The late caller was let go, and leaves without having looked.
        drop(late);
        assert!(look(pin!(barriers.meet("x", 2))).is_ready());
        assert!(look(next).is_ready());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let barriers = Barriers::default();
        let why = |name: &str, n| match look(pin!(barriers.meet(name, n))) {
            Poll::Ready(Err(refusal)) => (refusal.kind, refusal.message),
            other => panic!("{other:?}"),
        };
        assert_eq!(why("a b", 2).0, ErrorKind::Invalid);
        assert_eq!(why("x", 0).0, ErrorKind::Invalid);
        assert_eq!(why("x", u32::MAX).0, ErrorKind::Invalid);
        let mut first = pin!(barriers.meet("x", 2));
        assert!(look(first.as_mut()).is_pending());
        let (kind, message) = why("x", 3);
        assert_eq!(kind, ErrorKind::NotNow);
        assert!(message.contains("1 wait there for 2 participants, not for 3"), "{message}");
    }
}
