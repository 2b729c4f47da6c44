//! `zsr bw` and `zsr lat`: their options and help.

use clap::{Args, value_parser};

use super::live_args::{JsonArg, SystemArg, WideArg};
use crate::settings::SettingsArgs;
use zsr_topology::parse_size;

/// Smallest and largest message, as powers of two: those of items.
const SIZES: std::ops::RangeInclusive<u32> = 2..=20;

/// Options of `zsr bw`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/bw.md"))]
pub struct BwArgs {
    /// As for both
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Number of messages of each size that are measured
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5000, value_parser = value_parser!(u64).range(1..))]
    pub iterations: u64,
}

/// Options of `zsr lat`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/lat.md"))]
pub struct LatArgs {
    /// As for both
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Number of messages of each size that are measured, one at a time
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub iterations: u64,
    /// Percentiles to print, with commas between them
    #[arg(short, long, value_name = "P", value_delimiter = ',', default_value = "99,99.9", value_parser = percentile)]
    pub percentile: Vec<f64>,
}

/// Options of both.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Which system
    #[command(flatten)]
    pub system: SystemArg,
    /// Host that sends; the agents of both hosts have to run on this machine
    pub from: String,
    /// Host that receives
    pub to: String,
    /// Bytes of a message, a power of two from 4 to 1MiB [default: 64KiB for bw, 64 for lat]
    ///
    /// Several sizes have commas between them.
    #[arg(short, long, value_name = "B", value_delimiter = ',', value_parser = size)]
    pub size: Vec<u32>,
    /// Measure all sizes, from 4 bytes to 1MiB
    #[arg(short, long, conflicts_with = "size")]
    pub all: bool,
    /// Number of messages before the measured ones
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub warm_up: u64,
    /// Bytes of the rings, a power of two [default: 1MiB, or four messages]
    #[arg(long, value_name = "B", value_parser = bytes)]
    pub ring_size: Option<u32>,
    /// How the results are printed
    #[command(flatten)]
    pub json: JsonArg,
    /// Which columns tables have
    #[command(flatten)]
    pub wide: WideArg,
    /// Print CSV with a header line
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Settings of the flow that is made for it
    #[command(flatten)]
    pub settings: SettingsArgs,
}

impl MeasureArgs {
    /// The sizes to measure, `default` if none is named.
    pub fn sizes(&self, default: u32) -> Vec<u32> {
        match (self.all, self.size.is_empty()) {
            (true, _) => SIZES.map(|power| 1 << power).collect(),
            (false, true) => vec![default],
            (false, false) => self.size.clone(),
        }
    }
}

fn bytes(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).and_then(|v| u32::try_from(v).ok());
    bytes.ok_or_else(|| "expected a number of bytes, or one with KiB or MiB (such as 64KiB)".into())
}

fn size(text: &str) -> Result<u32, String> {
    let fits = |size: &u32| size.is_power_of_two() && SIZES.contains(&size.ilog2());
    bytes(text)
        .ok()
        .filter(fits)
        .ok_or_else(|| "expected a power of two from 4 to 1MiB (such as 64KiB)".into())
}

fn percentile(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|p| (0.0..=100.0).contains(p));
    value.ok_or_else(|| "expected a number from 0 to 100 (such as 99.9)".into())
}
