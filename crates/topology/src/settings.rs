//! Settings of a flow that can be changed while it runs: keys, defaults and limits. `control-plane/cli/src/settings.rs` has them as
//! messages and options, `dataplane/flow.rs` as entries.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zsr_records::{Fault, integer};

use super::build::Builder;
use super::diag::Place;
use super::model::{MaxBatch, Pace, SwitchKind};
use super::read::{At, Table};
use super::rules::{in_range, time};
use super::units;

/// Keys of settings in a topology's flow.
pub(crate) const KEYS: [&str; 10] = [
    "max_batch",
    "poll_interval",
    "poll_timeout",
    "rto",
    "dead_after",
    "hint",
    "policy",
    "weight",
    "rate_cap",
    "doorbell",
];

/// Shares against other flows.
const WEIGHTS: RangeInclusive<u64> = 1..=1000;
/// Bytes per second that a flow can be held to.
const RATE_CAPS: RangeInclusive<u64> = 1000..=1_000_000_000_000;
/// Poll intervals that make sense.
pub(crate) const POLLS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(10);
/// Times until something is repeated.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(60);
/// Times until a silent member counts as dead.
const DEAD_AFTER: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(3600);
/// Largest transfer that the protocol advises.
pub const MAX_BATCH: u32 = 4 << 20;
/// Longest poll interval of flows that want their first item soon: a tick of the software switch.
pub const LATENCY_POLL: Duration = Duration::from_micros(20);

const BATCH_HELP: &str = "bytes (such as 64KiB) or items (such as '1 item'), at most 4 MiB";

/// The goal that a flow optimizes for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hint {
    /// Many bytes per transfer.
    #[default]
    Bandwidth,
    /// Few microseconds per item.
    Latency,
}

/// The consequence of a member that is silent or whose program dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// The flow waits for it.
    #[default]
    Wait,
    /// The member is taken out of the flow.
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
    /// The goal that the flow optimizes for.
    pub hint: Hint,
    /// The consequence of a silent member.
    pub policy: Policy,
}

const DEFAULT_BATCH: u32 = 1 << 20;

impl Settings {
    /// The settings of a flow that asks for nothing else.
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

    /// The settings of a flow that asks for nothing else, on a switch that `pace` suits.
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

    /// Whether all are within their limits, for items of `item_size` bytes; `what` is whose they are.
    ///
    /// # Errors
    /// The first that is not, with its range.
    pub fn check(&self, what: &str, item_size: u32) -> Result<(), Fault> {
        for (key, us, range) in [
            ("poll_interval", self.poll_interval_us, &POLLS),
            ("poll_timeout", self.poll_timeout_us, &TIMEOUTS),
            ("rto", self.rto_us, &TIMEOUTS),
            ("dead_after", self.dead_after_us, &DEAD_AFTER),
        ] {
            time(what, key, Duration::from_micros(us), range)?;
        }
        check_rate_cap(what, self.rate_cap_bps)?;
        check_weight(what, self.weight.into())?;
        check_max_batch(self.max_batch.into(), item_size)
            .map(drop)
            .map_err(|e| Fault { message: format!("max_batch of {what}: {}", e.message), ..e })
    }
}

fn check_weight(what: &str, weight: u64) -> Result<(), Fault> {
    in_range(what, "weight", weight, &WEIGHTS, |w| w.to_string())
}

/// Bits per second that a flow is held to, 0 for no limit.
fn check_rate_cap(what: &str, bits: u64) -> Result<(), Fault> {
    let bytes = bits / 8;
    if bits == 0 || RATE_CAPS.contains(&bytes) {
        return Ok(());
    }
    Err(Fault::new(format!("rate_cap of {what} is {bytes} bytes per second"), "8 kbit/s to 8 Tbit/s"))
}

/// Bytes of one transfer.
fn check_max_batch(bytes: u64, item_size: u32) -> Result<u32, Fault> {
    let item = u64::from(item_size.max(1));
    if bytes > u64::from(MAX_BATCH) {
        let expected = format!("at most 4 MiB ({} items)", u64::from(MAX_BATCH) / item);
        return Err(Fault::new(format!("{bytes} bytes are too much for one transfer"), expected));
    }
    if bytes < item {
        return Err(Fault::new(
            format!("{bytes} bytes hold no whole item of {item} bytes"),
            format!("at least {item} bytes, or '1 item'"),
        ));
    }
    if !bytes.is_multiple_of(item) {
        let expected = format!("a multiple of {item}, such as {}", bytes - bytes % item);
        return Err(Fault::new(
            format!("{bytes} bytes are no multiple of the item size, {item} bytes"),
            expected,
        ));
    }
    Ok(bytes as u32)
}

/// As settings have times. A shorter time than a microsecond counts as one.
fn micros(time: Duration) -> u64 {
    time.as_micros().max(1) as u64
}

/// `64KiB`, `8 items`, `1 item`.
fn parse_batch(text: &str) -> Option<MaxBatch> {
    let count = text.strip_suffix("items").or_else(|| text.strip_suffix("item"));
    let (value, is_items) = match count {
        Some(count) => (integer(count.trim())?, true),
        None => (units::size(text)?, false),
    };
    let value = u32::try_from(value).ok().filter(|v| (1..=MAX_BATCH).contains(v))?;
    Some(if is_items { MaxBatch::Items(value) } else { MaxBatch::Bytes(value) })
}

/// The batch in bytes.
///
/// # Errors
/// The fault of the batch.
pub(crate) fn batch_bytes(rule: MaxBatch, item_size: u32) -> Result<u32, Fault> {
    let bytes = match rule {
        MaxBatch::Bytes(bytes) => u64::from(bytes),
        MaxBatch::Items(items) => u64::from(items) * u64::from(item_size.max(1)),
    };
    check_max_batch(bytes, item_size)
}

/// Settings as a topology's flow has them.
pub(crate) struct Read {
    pub settings: Settings,
    pub max_batch: MaxBatch,
    pub doorbell_said: bool,
}

impl Builder<'_> {
    /// The settings of a flow of `item_size` bytes an item. `flow` is where its name stands.
    pub(crate) fn settings(&mut self, table: &Table<'_>, flow: Place, item_size: u32) -> Read {
        let pace = self.topology.switches.first().map_or(SwitchKind::Soft.pace(), |s| s.kind.pace());
        let defaults = Settings::on(&pace, item_size);
        let batch = self.max_batch(table);
        let rule = batch.as_ref().map(|at| at.value).or(self.defaults.max_batch);
        let rule = rule.unwrap_or(MaxBatch::Bytes(pace.batch.max(item_size)));
        let max_batch = match batch_bytes(rule, item_size) {
            Ok(bytes) => bytes,
            // The item size itself was refused.
            Err(_) if item_size == 0 => 0,
            Err(Fault { message, expected }) => {
                let place = batch.as_ref().map_or(flow, |at| at.place);
                self.reader.error(place, format!("max_batch of {}: {message}", table.what), expected);
                item_size
            }
        };
        let hints = [("bandwidth", Hint::Bandwidth), ("latency", Hint::Latency)];
        let hint = self.reader.choice(table, "hint", &hints).map_or(defaults.hint, |at| at.value);
        let policies =
            [("wait", Policy::Wait), ("drop-member", Policy::DropMember), ("abort", Policy::Abort)];
        let policy = self.reader.choice(table, "policy", &policies).map_or(defaults.policy, |at| at.value);
        let weight = self.reader.integer(table, "weight", 0..=u64::MAX);
        let weight = weight.filter(|at| self.reader.obey(at.place, check_weight(&table.what, at.value)));
        let cap = self.reader.opt(table, "rate_cap", units::RATE_HELP, units::rate).filter(|at| {
            // None is said by leaving it out.
            let bits = at.value.max(1);
            self.reader.obey(at.place, check_rate_cap(&table.what, bits))
        });
        let doorbell = self.reader.choice(table, "doorbell", &[("false", false), ("true", true)]);
        let poll = self.defaults.poll_interval.map_or(defaults.poll_interval_us, micros);
        let poll = match hint {
            Hint::Bandwidth => poll,
            Hint::Latency => poll.min(micros(LATENCY_POLL)),
        };
        let mut time = |key: &str, default: u64, range| {
            self.reader.duration(table, key, range).map_or(default, |at| micros(at.value))
        };
        let settings = Settings {
            weight: weight.map_or(defaults.weight, |at| at.value as u32),
            rate_cap_bps: cap.map_or(defaults.rate_cap_bps, |at| at.value / 8 * 8),
            poll_timeout_us: time("poll_timeout", defaults.poll_timeout_us, TIMEOUTS),
            rto_us: time("rto", defaults.rto_us, TIMEOUTS),
            dead_after_us: time("dead_after", defaults.dead_after_us, DEAD_AFTER),
            poll_interval_us: time("poll_interval", poll, POLLS),
            max_batch,
            doorbell: doorbell.as_ref().map_or(defaults.doorbell, |at| at.value),
            hint,
            policy,
        };
        Read { settings, max_batch: rule, doorbell_said: doorbell.is_some() }
    }

    /// `max_batch` as bytes or items.
    pub(crate) fn max_batch(&mut self, table: &Table<'_>) -> Option<At<MaxBatch>> {
        self.reader.opt(table, "max_batch", BATCH_HELP, parse_batch)
    }
}
