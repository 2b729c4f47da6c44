//! Settings of a flow that can be changed while it runs. Their limits are in [`super::rules`].

use super::model::Pace;
use serde::{Deserialize, Serialize};

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

/// Settings of a flow, all of them, and within their limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Share against other flows, 1 to 1000.
    pub weight: u32,
    /// Bits per second that it may move at most, 0 for no limit.
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
}
