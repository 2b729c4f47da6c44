//! A flow's settings as options of commands, and as they are shown. Their table and their limits are in
//! `crates/topology/src/settings.rs`.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use serde_json::{Value, json};
use zsr_api::{controller as proto, word};
use zsr_plan::settings::Value as _;
use zsr_topology::{
    Hint, MAX_BATCH, Policy, SIZE_HELP, WhenEnded, parse_duration, parse_rate, parse_size, show_size,
};

macro_rules! options {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:expr, $key:literal, $read:ident($option:literal, $value:literal);)*) => {
        /// Settings that can be changed while a flow runs.
        #[derive(Debug, Default, Args)]
        pub struct SettingsArgs {
            $($(#[$doc])*
            #[arg(long = $option, value_name = $value, value_parser = $read())]
            pub $field: Option<$type>,)*
        }

        impl SettingsArgs {
            /// As the controller takes them.
            pub fn message(&self) -> proto::Settings {
                proto::Settings { $($field: self.$field.map(|value| value.message()),)* }
            }
        }

        /// Settings in the JSON of a flow.
        pub(crate) fn json(settings: &proto::Settings) -> Value {
            json!({ $(stringify!($field): settings.$field.and_then(|m| <$type>::of(m).ok()?).map(Shown::json),)* })
        }
    };
}
zsr_topology::for_each_setting!(options);

/// How a value is shown.
trait Shown {
    fn json(self) -> Value;
}

macro_rules! as_it_is {
    ($($type:ty),*) => {$(
        impl Shown for $type {
            fn json(self) -> Value {
                self.into()
            }
        }
    )*};
}
as_it_is!(u32, u64, bool);

macro_rules! by_name {
    ($($type:ty),*) => {$(
        impl Shown for $type {
            fn json(self) -> Value {
                <$type>::NAMES.iter().find(|(_, value)| *value == self).map(|(name, _)| *name).into()
            }
        }
    )*};
}
by_name!(Hint, Policy, WhenEnded);

/// One of `names`, each with its line of help.
fn choice<T: Copy + Send + Sync + 'static, const N: usize>(
    names: &'static [(&'static str, T); N],
    help: [&'static str; N],
) -> ValueParser {
    let values = names.iter().zip(help).map(|((name, _), help)| PossibleValue::new(*name).help(help));
    let value = |name: String| names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    PossibleValuesParser::new(values).try_map(move |name| value(name).ok_or("no such value")).into()
}

fn hint() -> ValueParser {
    choice(
        &Hint::NAMES,
        [
            "Many bytes per transfer: programs fill items before they push them",
            "Few microseconds per record: programs push at once what they have, and producers are polled at least every 20us while \
             something moves",
        ],
    )
}

fn policy() -> ValueParser {
    choice(
        &Policy::NAMES,
        [
            "The flow waits for the member or a successor",
            "The member is taken out of the flow, with the items that it had not popped",
            "The flow fails for all members",
        ],
    )
}

fn when_ended() -> ValueParser {
    choice(
        &WhenEnded::NAMES,
        [
            "The flow stays until it is deleted",
            "The flow is deleted once its programs have read all streams to their end, or it has failed, and no program is at its rings",
        ],
    )
}

fn number() -> ValueParser {
    clap::value_parser!(u32).into()
}

fn flag() -> ValueParser {
    clap::value_parser!(bool)
}

fn micros() -> ValueParser {
    ValueParser::new(|text: &str| time(text).map(|time| time.as_micros() as u64))
}

fn batch_size() -> ValueParser {
    ValueParser::new(|text: &str| size(text, MAX_BATCH.into()))
}

fn rate() -> ValueParser {
    ValueParser::new(bits_per_second)
}

/// Settings in the text of a flow: two lines.
pub(crate) fn text(s: &proto::Settings) -> String {
    let cap = match s.rate_cap_bps() {
        0 => "none".to_owned(),
        bps => format!("{} Mbit/s", bps as f64 / 1e6),
    };
    format!(
        "  weight {}, rate cap {cap}, batches up to {}, hint {}, policy {}, doorbell {}, when ended {}\n  \
         poll every {} us (again after {} us), retry after {} us, dead after {} ms\n",
        s.weight(),
        show_size(s.max_batch().into()),
        word(s.hint().as_str_name(), "HINT_"),
        word(s.policy().as_str_name(), "POLICY_"),
        s.doorbell(),
        word(s.when_ended().as_str_name(), "WHEN_ENDED_"),
        s.poll_interval_us(),
        s.poll_timeout_us(),
        s.rto_us(),
        s.dead_after_us() / 1000,
    )
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

pub(crate) fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a number with ns, us, ms or s (such as 20us)".into())
}

fn bits_per_second(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    parse_rate(text).ok_or_else(|| "expected a number with Kbit, Mbit or Gbit (such as 400Mbit), or 0".into())
}
