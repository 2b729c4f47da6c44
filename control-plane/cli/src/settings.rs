//! A flow's settings as options of commands, and as they are shown. Their limits are in `crates/topology/src/settings.rs`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use zsr_api::controller as proto;
use zsr_topology::{MAX_BATCH, SIZE_HELP, parse_duration, parse_rate, parse_size, show_size};

/// Settings that can be changed while a flow runs.
#[derive(Debug, Default, Args)]
pub struct SettingsArgs {
    /// Share against other flows that want more than they get, 1 to 1000 [default: 1]
    ///
    /// The bytes per second of these flows are in proportion to their weights.
    #[arg(long, value_name = "N")]
    pub weight: Option<u32>,
    /// Highest rate of the flow, such as 400Mbit; 0 is no cap
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_cap: Option<u64>,
    /// Time between two polls of a producer without items [default: 100us]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub poll_interval: Option<Duration>,
    /// Time after which an unanswered poll is repeated [default: 5ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub poll_timeout: Option<Duration>,
    /// Time after which a transfer without progress is retried for the first time [default: 20ms]
    ///
    /// The time is shorter while packets are lost.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub rto: Option<Duration>,
    /// Time after which a silent member counts as dead [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub dead_after: Option<Duration>,
    /// Most bytes of one transfer [default: 1MiB]
    ///
    /// Transfers have fewer bytes while packets are lost.
    #[arg(long, value_name = "B", value_parser = batch_size)]
    pub max_batch: Option<u32>,
    /// Whether producers ring a doorbell when items come into an empty ring [default: true]
    ///
    /// With doorbells, latency does not depend on the poll interval. The setting is chosen when the flow is created.
    #[arg(long, value_name = "BOOL")]
    pub doorbell: Option<bool>,
    /// Goal that the flow optimizes for [default: bandwidth]
    #[arg(long, value_enum)]
    pub hint: Option<HintArg>,
    /// Reaction to a member that is silent, or whose program or agent ends [default: wait]
    #[arg(long, value_enum)]
    pub policy: Option<PolicyArg>,
}

/// What a flow optimizes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HintArg {
    /// Many bytes per transfer: programs fill items before they push them
    Bandwidth,
    /// Few microseconds per record: programs push at once what they have, and producers are polled at least every 20us while
    /// something moves
    Latency,
}

/// What happens when a member is silent or its program dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// The flow waits for the member or a successor
    Wait,
    /// The member is taken out of the flow, with the items that it had not popped
    DropMember,
    /// The flow fails for all members
    Abort,
}

impl SettingsArgs {
    /// As the controller takes them.
    pub fn message(&self) -> proto::Settings {
        let us = |d: Option<Duration>| d.map(|d| d.as_micros() as u64);
        proto::Settings {
            weight: self.weight,
            rate_cap_bps: self.rate_cap,
            poll_interval_us: us(self.poll_interval),
            poll_timeout_us: us(self.poll_timeout),
            rto_us: us(self.rto),
            dead_after_us: us(self.dead_after),
            max_batch: self.max_batch,
            doorbell: self.doorbell,
            hint: self.hint.map(|h| match h {
                HintArg::Bandwidth => proto::Hint::Bandwidth.into(),
                HintArg::Latency => proto::Hint::Latency.into(),
            }),
            policy: self.policy.map(|p| match p {
                PolicyArg::Wait => proto::Policy::Wait.into(),
                PolicyArg::DropMember => proto::Policy::DropMember.into(),
                PolicyArg::Abort => proto::Policy::Abort.into(),
            }),
        }
    }
}

/// Settings in the JSON of a flow.
pub(crate) fn json(s: &proto::Settings) -> Value {
    json!({
        "weight": s.weight(),
        "rate_cap_bps": s.rate_cap_bps(),
        "poll_interval_us": s.poll_interval_us(),
        "poll_timeout_us": s.poll_timeout_us(),
        "rto_us": s.rto_us(),
        "dead_after_us": s.dead_after_us(),
        "max_batch": s.max_batch(),
        "doorbell": s.doorbell(),
        "hint": word(s.hint().as_str_name(), "HINT_"),
        "policy": word(s.policy().as_str_name(), "POLICY_"),
    })
}

/// Settings in the text of a flow: two lines.
pub(crate) fn text(s: &proto::Settings) -> String {
    let cap = match s.rate_cap_bps() {
        0 => "none".to_owned(),
        bps => format!("{} Mbit/s", bps as f64 / 1e6),
    };
    format!(
        "  weight {}, rate cap {cap}, batches up to {}, hint {}, policy {}, doorbell {}\n  \
         poll every {} us (again after {} us), retry after {} us, dead after {} ms\n",
        s.weight(),
        show_size(s.max_batch().into()),
        word(s.hint().as_str_name(), "HINT_"),
        word(s.policy().as_str_name(), "POLICY_"),
        s.doorbell(),
        s.poll_interval_us(),
        s.poll_timeout_us(),
        s.rto_us(),
        s.dead_after_us() / 1000,
    )
}

/// The name of an enum's value without its prefix, in lower case: `FLOW_KIND_LOAD_BALANCE` is `load-balance`.
pub(crate) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase().replace('_', "-")
}

/// A size of at most `most` bytes.
pub(crate) fn size(text: &str, most: u64) -> Result<u32, String> {
    let bytes = parse_size(text).ok_or_else(|| format!("expected {SIZE_HELP}"))?;
    if bytes == 0 {
        return Err(format!("0 is too small: expected at most {}, and more than nothing", show_size(most)));
    }
    let fits = u32::try_from(bytes).ok().filter(|_| bytes <= most);
    fits.ok_or_else(|| format!("{} is too much: expected at most {}", show_size(bytes), show_size(most)))
}

fn batch_size(text: &str) -> Result<u32, String> {
    size(text, MAX_BATCH.into())
}

pub(crate) fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a number with ns, us, ms or s (such as 20us)".into())
}

fn rate(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    parse_rate(text).ok_or_else(|| "expected a number with Kbit, Mbit or Gbit (such as 400Mbit), or 0".into())
}
