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

/// What happens to a flow that has ended or failed, once no program is at its rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenEnded {
    /// The flow stays until it is deleted.
    #[default]
    Keep,
    /// The flow is deleted.
    Delete,
}

impl Hint {
    /// All hints, as topologies and commands name them.
    pub const NAMES: [(&'static str, Hint); 2] = [("bandwidth", Hint::Bandwidth), ("latency", Hint::Latency)];
}

impl Policy {
    /// All policies, as topologies and commands name them.
    pub const NAMES: [(&'static str, Policy); 3] =
        [("wait", Policy::Wait), ("drop-member", Policy::DropMember), ("abort", Policy::Abort)];
}

impl WhenEnded {
    /// All of them, as topologies and commands name them.
    pub const NAMES: [(&'static str, WhenEnded); 2] =
        [("keep", WhenEnded::Keep), ("delete", WhenEnded::Delete)];
}

/// The table of settings. It calls the given macro with a row for each setting. A row has the documentation, which options of
/// commands show, too; the field of [`Settings`] and of `zsr.controller.v1.Settings`; its type; its default (of `max_batch`: for small
/// items); its key in topologies; the function of `control-plane/cli/src/settings.rs` that reads it; its option and value.
#[macro_export]
macro_rules! for_each_setting {
    ($with:ident) => {
        $with! {
            /// Share against other flows that want more than they get, 1 to 1000 [default: 1]
            ///
            /// The bytes per second of these flows are in proportion to their weights.
            weight: u32 = 1, "weight", number("weight", "N");
            /// Highest rate of the flow, such as 400Mbit; 0 is no cap
            rate_cap_bps: u64 = 0, "rate_cap", rate("rate-cap", "RATE");
            /// Time between two polls of a producer without items [default: 100us]
            poll_interval_us: u64 = 100, "poll_interval", micros("poll-interval", "TIME");
            /// Time after which an unanswered poll is repeated [default: 5ms]
            poll_timeout_us: u64 = 5_000, "poll_timeout", micros("poll-timeout", "TIME");
            /// Time after which a transfer without progress is retried for the first time [default: 20ms]
            ///
            /// The time is shorter while packets are lost.
            rto_us: u64 = 20_000, "rto", micros("rto", "TIME");
            /// Time after which a silent member counts as dead [default: 10s]
            dead_after_us: u64 = 10_000_000, "dead_after", micros("dead-after", "TIME");
            /// Most bytes of one transfer [default: 1MiB]
            ///
            /// Transfers have fewer bytes while packets are lost.
            max_batch: u32 = 1 << 20, "max_batch", batch_size("max-batch", "B");
            /// Whether producers ring a doorbell when items come into an empty ring [default: true]
            ///
            /// With doorbells, latency does not depend on the poll interval. The setting is chosen when the flow is created.
            doorbell: bool = true, "doorbell", flag("doorbell", "BOOL");
            /// Goal that the flow optimizes for [default: bandwidth]
            hint: $crate::Hint = $crate::Hint::Bandwidth, "hint", hint("hint", "HINT");
            /// Reaction to a member that is silent, or whose program or agent ends [default: wait]
            policy: $crate::Policy = $crate::Policy::Wait, "policy", policy("policy", "POLICY");
            /// Whether the flow is deleted when it has ended or failed, and its programs have gone [default: keep]
            when_ended: $crate::WhenEnded = $crate::WhenEnded::Keep, "when_ended", when_ended("when-ended", "WHAT");
        }
    };
}

macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:expr, $key:literal, $read:ident($option:literal, $value:literal);)*) => {
        /// Settings of a flow, all of them, and within their limits. Times are in microseconds, rates in bits per second.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Settings {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Settings { $($field: $default,)* }
            }
        }

        /// Keys of settings in a topology's flow.
        pub(crate) const KEYS: &[&str] = &[$($key),*];
    };
}
for_each_setting!(settings);

impl Settings {
    /// The settings of a flow that asks for nothing else.
    pub fn of_items(item_size: u32) -> Self {
        let common = Settings::default();
        Settings { max_batch: common.max_batch.max(item_size), ..common }
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
        let hint = self.reader.choice(table, "hint", &Hint::NAMES).map_or(defaults.hint, |at| at.value);
        let policy =
            self.reader.choice(table, "policy", &Policy::NAMES).map_or(defaults.policy, |at| at.value);
        let when_ended = self.reader.choice(table, "when_ended", &WhenEnded::NAMES);
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
            when_ended: when_ended.map_or(defaults.when_ended, |at| at.value),
        };
        Read { settings, max_batch: rule, doorbell_said: doorbell.is_some() }
    }

    /// `max_batch` as bytes or items.
    pub(crate) fn max_batch(&mut self, table: &Table<'_>) -> Option<At<MaxBatch>> {
        self.reader.opt(table, "max_batch", BATCH_HELP, parse_batch)
    }
}
