//! Settings of a flow that can be changed while it runs, and their limits.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::time::Duration;
use zsr_records::Fault;
use zsr_topology::{Pace, rules};

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
    pub fn with(&self, changes: &Changes, flow: &str, item_size: u32) -> Result<Self, Fault> {
        let mut new = self.clone();
        let what = rules::flow(flow);
        let us = |key: &str, to: &mut u64, from: Option<u64>, range: &RangeInclusive<Duration>| {
            let Some(value) = from else { return Ok(()) };
            *to = value;
            rules::time(&what, key, Duration::from_micros(value), range)
        };
        us("poll_interval", &mut new.poll_interval_us, changes.poll_interval_us, &rules::POLLS)?;
        us("poll_timeout", &mut new.poll_timeout_us, changes.poll_timeout_us, &rules::TIMEOUTS)?;
        us("rto", &mut new.rto_us, changes.rto_us, &rules::TIMEOUTS)?;
        us("dead_after", &mut new.dead_after_us, changes.dead_after_us, &rules::DEAD_AFTER)?;
        if let Some(bits) = changes.rate_cap_bps {
            // 0: none.
            if bits != 0 {
                rules::rate_cap(&what, bits / 8)?;
            }
            new.rate_cap_bps = bits;
        }
        if let Some(weight) = changes.weight {
            rules::in_range(&what, "weight", weight.into(), &rules::WEIGHTS, |w| w.to_string())?;
            new.weight = weight;
        }
        if let Some(batch) = changes.max_batch {
            new.max_batch = rules::max_batch(batch.into(), item_size)
                .map_err(|e| Fault { message: format!("max_batch of {what}: {}", e.message), ..e })?;
        }
        new.doorbell = changes.doorbell.unwrap_or(new.doorbell);
        new.hint = changes.hint.unwrap_or(new.hint);
        new.policy = changes.policy.unwrap_or(new.policy);
        Ok(new)
    }
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
        let refused =
            |changes: Changes| Settings::of_items(64).with(&changes, "f", 64).unwrap_err().to_string();
        for (changes, part) in [
            (
                Changes { weight: Some(0), ..Default::default() },
                "'weight' of flow 'f' is 0, which is too small: expected 1 to 1000",
            ),
            (
                Changes { poll_interval_us: Some(0), ..Default::default() },
                "'poll_interval' of flow 'f' is 0ns",
            ),
            (
                Changes { max_batch: Some(100), ..Default::default() },
                "100 bytes are no multiple of the item size, 64 bytes",
            ),
            (
                Changes { max_batch: Some(0), ..Default::default() },
                "max_batch of flow 'f': 0 bytes hold no whole item",
            ),
            (Changes { dead_after_us: Some(u64::MAX), ..Default::default() }, "'dead_after' of flow 'f' is"),
        ] {
            let message = refused(changes);
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
    }
}
