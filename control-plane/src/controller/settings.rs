//! Settings of a flow that can be changed while it runs, and their limits.

use super::refusal::{Kind, Refusal};
use crate::topology::Pace;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// What a flow optimizes for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hint {
    /// Many bytes per transfer.
    #[default]
    Bandwidth,
    /// Few microseconds per item.
    Latency,
}

/// What happens when a member is silent or its program dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// The flow waits for it.
    #[default]
    Wait,
    /// It is taken out of the flow.
    DropMember,
    /// The flow ends for all.
    Abort,
}

/// Settings, all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Share against other flows, 1 to 1000.
    pub weight: u32,
    /// Bits per second, 0 for none.
    pub rate_cap_bps: u64,
    /// Between looks at a producer without items.
    pub poll_interval_us: u64,
    /// Until an unanswered look is repeated.
    pub poll_timeout_us: u64,
    /// Until a transfer without progress is retried for the first time.
    pub rto_us: u64,
    /// Until a silent member counts as dead.
    pub dead_after_us: u64,
    /// Most bytes of one transfer.
    pub max_batch: u32,
    /// Whether producers ring.
    pub doorbell: bool,
    /// What the flow optimizes for.
    pub hint: Hint,
    /// What happens when a member is silent.
    pub policy: Policy,
}

/// Settings to change; those that are `None` stay, or take their default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in Settings")]
pub struct Changes {
    pub weight: Option<u32>,
    pub rate_cap_bps: Option<u64>,
    pub poll_interval_us: Option<u64>,
    pub poll_timeout_us: Option<u64>,
    pub rto_us: Option<u64>,
    pub dead_after_us: Option<u64>,
    pub max_batch: Option<u32>,
    pub doorbell: Option<bool>,
    pub hint: Option<Hint>,
    pub policy: Option<Policy>,
}

const MAX_BATCH: u32 = 4 << 20;
const DEFAULT_BATCH: u32 = 1 << 20;

impl Settings {
    /// What a flow has that asks for nothing else.
    pub fn of_items(item_size: u32) -> Self {
        Settings {
            weight: 1,
            rate_cap_bps: 0,
            poll_interval_us: 100,
            poll_timeout_us: 5_000,
            rto_us: 20_000,
            dead_after_us: 10_000_000,
            max_batch: DEFAULT_BATCH.max(item_size),
            doorbell: true,
            hint: Hint::default(),
            policy: Policy::default(),
        }
    }

    /// What a flow has that asks for nothing else, on a switch that `pace` suits.
    pub fn on(pace: &Pace, item_size: u32) -> Self {
        let us = |time: std::time::Duration| time.as_micros() as u64;
        Settings {
            poll_interval_us: us(pace.poll_interval),
            poll_timeout_us: us(pace.poll_timeout),
            rto_us: us(pace.rto),
            max_batch: pace.batch.max(item_size),
            ..Settings::of_items(item_size)
        }
    }

    /// These settings with `changes`, for a flow with items of `item_size` bytes.
    ///
    /// # Errors
    /// What is out of range, with flow, setting and range.
    pub fn with(&self, changes: &Changes, flow: &str, item_size: u32) -> Result<Self, Refusal> {
        let mut new = self.clone();
        let us = |what: &str, to: &mut u64, from: Option<u64>, range: RangeInclusive<u64>| {
            let Some(value) = from else { return Ok(()) };
            *to = in_range(flow, what, value, range)?;
            Ok::<_, Refusal>(())
        };
        us("poll_interval_us", &mut new.poll_interval_us, changes.poll_interval_us, 1..=10_000_000)?;
        us("poll_timeout_us", &mut new.poll_timeout_us, changes.poll_timeout_us, 1..=60_000_000)?;
        us("rto_us", &mut new.rto_us, changes.rto_us, 1..=60_000_000)?;
        us("dead_after_us", &mut new.dead_after_us, changes.dead_after_us, 1..=3_600_000_000)?;
        us("rate_cap_bps", &mut new.rate_cap_bps, changes.rate_cap_bps, 0..=1_000_000_000_000)?;
        if let Some(weight) = changes.weight {
            new.weight = in_range(flow, "weight", weight, 1..=1000)?;
        }
        if let Some(batch) = changes.max_batch {
            if batch == 0 || batch > MAX_BATCH || !batch.is_multiple_of(item_size) {
                let message = format!(
                    "flow `{flow}`: max_batch is {batch} B: expected a multiple of its item size of {item_size} B up to {MAX_BATCH}"
                );
                return Err(Refusal::new(Kind::Invalid, message));
            }
            new.max_batch = batch;
        }
        new.doorbell = changes.doorbell.unwrap_or(new.doorbell);
        new.hint = changes.hint.unwrap_or(new.hint);
        new.policy = changes.policy.unwrap_or(new.policy);
        Ok(new)
    }
}

fn in_range<T: PartialOrd + fmt::Display + Copy>(
    flow: &str,
    what: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<T, Refusal> {
    if range.contains(&value) {
        return Ok(value);
    }
    let message = format!("flow `{flow}`: {what} is {value}: expected {} to {}", range.start(), range.end());
    Err(Refusal::new(Kind::Invalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_stays() {
        let before = Settings::of_items(64);
        let after = before.with(&Changes { weight: Some(3), ..Default::default() }, "f", 64).unwrap();
        assert_eq!(after, Settings { weight: 3, ..before });
    }

    #[test]
    fn values_out_of_range_name_flow_setting_and_range() {
        let refused = |changes: Changes| Settings::of_items(64).with(&changes, "f", 64).unwrap_err().message;
        for (changes, part) in [
            (Changes { weight: Some(0), ..Default::default() }, "`f`: weight is 0: expected 1 to 1000"),
            (Changes { poll_interval_us: Some(0), ..Default::default() }, "poll_interval_us is 0"),
            (Changes { max_batch: Some(100), ..Default::default() }, "multiple of its item size of 64 B"),
            (Changes { max_batch: Some(0), ..Default::default() }, "max_batch is 0"),
            (Changes { dead_after_us: Some(u64::MAX), ..Default::default() }, "dead_after_us is"),
        ] {
            let message = refused(changes);
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
    }
}
