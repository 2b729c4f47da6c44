//! Watches whether loops that have to come round again and again do so.

pub use crate::times::watchdog::LOOK;
use std::time::Duration;

/// Looks without a sign after which the loop is reported.
const LATE: u32 = 10;

/// A loop or lock that is watched.
pub struct Watched {
    /// The name of the item, for people.
    pub what: String,
    /// A number that changes whenever the item comes round; `None` while it has nothing to do.
    pub sign: Box<dyn Fn() -> Option<u64> + Send + Sync>,
}

/// News about a watched item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The item has not come round for this time.
    Late(Duration),
    /// The item has come round, after this time.
    Round(Duration),
}

impl News {
    /// A sentence about `what`.
    pub fn of(self, what: &str) -> String {
        match self {
            News::Late(time) => format!("{what} for {} s", time.as_secs()),
            News::Round(time) => format!("{what} for {} s, and is over now", time.as_secs()),
        }
    }
}

/// Looks at all that is `watched`, for as long as it is polled. Time is counted in looks: a machine that stands still
/// as a whole (a virtual one that is moved, one that swaps) looks no more either. So such a pause counts as one look,
/// however long it was.
pub async fn watch(watched: &[Watched], mut tell: impl FnMut(&Watched, News)) {
    let mut seen: Vec<(Option<u64>, u32)> = watched.iter().map(|_| (None, 0)).collect();
    loop {
        tokio::time::sleep(LOOK).await;
        for (one, (before, looks)) in watched.iter().zip(&mut seen) {
            let sign = (one.sign)();
            if sign.is_some() && sign == *before {
                *looks += 1;
                if *looks == LATE {
                    tell(one, News::Late(LOOK * LATE));
                }
                continue;
            }
            if *looks >= LATE {
                tell(one, News::Round(LOOK * *looks));
            }
            (*before, *looks) = (sign, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_round_is_told_of_once_and_that_it_does_again() {
        let (beats, told) = (Arc::new(AtomicU64::new(1)), Arc::new(Mutex::new(Vec::new())));
        let (looked, tells) = (beats.clone(), told.clone());
        // 0: the item has nothing to do.
        let sign = move || Some(looked.load(Ordering::Relaxed)).filter(|sign| *sign > 0);
        let watched = [Watched { what: "the loop".into(), sign: Box::new(sign) }];
        tokio::spawn(async move { watch(&watched, |_, news| tells.lock().unwrap().push(news)).await });
        let news = || std::mem::take(&mut *told.lock().unwrap());
        let pass = |seconds| tokio::time::sleep(Duration::from_secs(seconds) + LOOK / 2);
        for beat in 2..50 {
            pass(0).await;
            beats.store(beat, Ordering::Relaxed);
        }
        assert_eq!(news(), []);
        // The machine stands still, and all its timers are over when it goes on.
        tokio::time::advance(LOOK * 1000).await;
        pass(5).await;
        assert_eq!(news(), []);
        pass(30).await;
        assert_eq!(news(), [News::Late(LOOK * LATE)]);
        beats.store(100, Ordering::Relaxed);
        pass(1).await;
        assert!(matches!(news()[..], [News::Round(time)] if time > LOOK * 30));
        beats.store(0, Ordering::Relaxed);
        pass(30).await;
        assert_eq!(news(), []);
    }
}
