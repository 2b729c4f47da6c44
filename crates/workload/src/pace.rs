//! A producer or consumer that pushes or takes records no faster than it is told.

use std::time::{Duration, Instant};

use zsr_ring::Cancel;

/// The longest delay that is caught up with, if the machine could not push or take a record in time.
const LAG: Duration = Duration::from_millis(50);

/// When the next record may be pushed or taken.
#[derive(Debug)]
pub(crate) struct Pace {
    records_per_second: u32,
    due: Instant,
    cancel: Cancel,
}

impl Pace {
    /// From now on so many. `cancel` ends its waits.
    pub fn new(records_per_second: u32, cancel: &Cancel) -> Self {
        Pace { records_per_second, due: Instant::now(), cancel: cancel.clone() }
    }

    /// Returns when so many records, which were pushed or taken just now, have had their time.
    pub fn passed(&mut self, records: u64) {
        let now = Instant::now();
        let least = now.checked_sub(LAG).unwrap_or(now);
        let time = Duration::from_secs_f64(records as f64 / f64::from(self.records_per_second));
        self.due = self.due.max(least) + time;
        if self.due > now {
            self.cancel.sleep(self.due - now);
        }
    }
}
