//! Commands, options and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

use super::live_args::WideArg;
use super::live_args::{
    AgentArgs, BarrierArgs, CaArgs, CompletionArgs, ConsumeArgs, ControllerArgs, DashArgs, DownArgs,
    EventsArgs, FlowArgs, MetricsArgs, PcapArgs, ProduceArgs, RestartArgs, RingArgs, StatusArgs, SwitchArgs,
    TopArgs, UpArgs,
};
use super::measure_args::{BwArgs, LatArgs};
use zsr_topology::{InputFormat, Overrides, parse_delimiter};

/// Zero-sided RDMA: the switch moves data between rings in the memory of hosts, which only push and pop.
#[derive(Debug, Parser)]
#[command(
    name = "zsr",
    version = zsr_version::VERSION,
    after_help = "Exit codes: 0 if all went well, 1 if something failed or was refused, 2 if the command, a value in it, or the \
                  topology is wrong.\n\nStart here:  zsr run topologies/shuffle-2x2.yaml",
    after_long_help = include_str!("help/zsr.md")
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring up a topology inside this process, move its data, verify it, tear everything down
    Run(Box<RunArgs>),
    /// Say what is wrong with topologies: file, line, column, and what was expected
    Check(CheckArgs),
    /// Start a whole system in the background: switch, agents, controller, and the topology's flows
    Up(UpArgs),
    /// End a system that runs in the background, whatever state it is in
    Down(DownArgs),
    /// Say what survives a restart of one process, then end the process and start it anew
    Restart(RestartArgs),
    /// Show processes, switch and hosts of a running system
    Status(StatusArgs),
    /// Create, change and delete flows of a running system
    Flow(FlowArgs),
    /// List the rings of a running system
    Ring(RingArgs),
    /// Show what has happened in a running system
    Events(EventsArgs),
    /// Show live rates, fill and retries of flows and rings
    Top(TopArgs),
    /// Give figures of a running system to Prometheus
    Metrics(MetricsArgs),
    /// Show a running system as a page in a browser: hosts, rates, rings, events
    Dash(DashArgs),
    /// Watch a link of a running system: live, as pcapng, with a comment per packet
    Pcap(PcapArgs),
    /// Push standard input into a flow, as one of its producers
    Produce(ProduceArgs),
    /// Pop from a flow to standard output, as one of its consumers
    Consume(ConsumeArgs),
    /// Measure how many bytes per second go from one host to another
    Bw(Box<BwArgs>),
    /// Measure how long a message takes from one host to another
    Lat(Box<LatArgs>),
    /// Wait at a barrier until a given number of programs, on any hosts, wait there
    Barrier(BarrierArgs),
    /// Answer SQL queries at the hosts of a topology, by DataFusion (program zsr-sql, docs/sql.md)
    #[command(disable_help_flag = true)]
    Sql(SqlArgs),
    /// Run the switch of a system, in the foreground unless --daemon is given
    Switch(SwitchArgs),
    /// Run agent and NIC of one host of a system, in the foreground unless --daemon is given
    Agent(AgentArgs),
    /// Run the controller of a system, in the foreground unless --daemon is given
    Controller(ControllerArgs),
    /// Make an authority for development, and certificates for a system's parts and clients
    Ca(CaArgs),
    /// Print a script that completes commands in a shell
    Completion(CompletionArgs),
    /// Print docs/reference.md, or write manual pages
    #[command(hide = true)]
    Reference {
        /// Folder for the manual pages of all commands
        #[arg(long, value_name = "DIR")]
        man: Option<PathBuf>,
    },
}

/// Options of `zsr sql`.
#[derive(Debug, clap::Args)]
pub struct SqlArgs {
    /// Arguments of zsr-sql; zsr sql --help lists them
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

/// Options of `zsr check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Topology files
    #[arg(required = true, value_name = "TOPOLOGY")]
    pub topologies: Vec<PathBuf>,
}

/// Options of `zsr run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --input and --items, tuples come from the workload that the topology names.\n\n\
                  Examples:\n  \
                  zsr run topologies/shuffle-2x2.yaml --scale 1\n  \
                  zsr run topologies/shuffle-2x2.yaml --input orders.csv --key customer --output out\n  \
                  zsr run topologies/one-to-one.yaml --items 1000000 --item-size 64 --json",
    after_long_help = include_str!("help/run.md")
)]
pub struct RunArgs {
    /// Topology file
    #[arg(value_name = "TOPOLOGY")]
    pub topology: PathBuf,

    /// Read tuples from a file; each producer reads its own share of it
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub input: Option<PathBuf>,
    /// Format of the file's records [default: the one that other options imply, else lines]
    #[arg(long, value_enum, help_heading = "Input")]
    pub format: Option<Format>,
    /// Read rows of CSV, as with --format csv: quotes protect delimiters and line ends
    #[arg(long, conflicts_with = "format", help_heading = "Input")]
    pub csv: bool,
    /// With --csv, take rows that RFC 4180 does not allow, and say how many they are
    ///
    /// Text behind a quote that ends a column is part of the column. A carriage return alone is text. A quote that is not closed is
    /// closed at the end.
    #[arg(long, help_heading = "Input")]
    pub lenient: bool,
    /// Character between columns, or the word tab [default: | for .tbl, tab for .tsv, else a comma]
    #[arg(long, value_name = "CHAR", value_parser = delimiter, help_heading = "Input")]
    pub delimiter: Option<u8>,
    /// The first line names the columns (implied by a --key that is a name)
    #[arg(long, help_heading = "Input")]
    pub header: bool,
    /// Column to hash: its name, or its number from 1 [default: the whole record]
    ///
    /// The key of binary records is OFFSET:LENGTH in bytes.
    #[arg(long, value_name = "COL", help_heading = "Input")]
    pub key: Option<String>,
    /// Bytes of a binary record
    #[arg(long, value_name = "N", value_parser = size, help_heading = "Input")]
    pub record_size: Option<u64>,
    /// Make N synthetic items per flow instead of reading a file
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40),
        conflicts_with_all = ["input", "format", "csv", "lenient", "delimiter", "header", "key", "record_size"],
        help_heading = "Input"
    )]
    pub items: Option<u64>,
    /// Bytes of an item: a power of two from 4 to 1MiB [default: the topology's]
    #[arg(long, value_name = "B", value_parser = size, help_heading = "Input")]
    pub item_size: Option<u64>,
    /// TPC-H scale factor, 0.001 to 1000 [default: the topology's]
    #[arg(
        long, value_name = "SF", value_parser = scale, conflicts_with_all = ["input", "items"],
        help_heading = "Input"
    )]
    pub scale: Option<f64>,

    /// Write the records of each consumer to a file of its own in this folder, named for its ring
    ///
    /// Records are written as they were read, lines with their line end. Header lines are not written. Files appear when
    /// everything has been verified, or not at all.
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Overwrite files that --output finds
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,
    /// Print one JSON object instead of the table (docs/json.md describes it)
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Whether the table has all columns
    #[command(flatten)]
    pub wide: WideArg,
    /// Write one capture per link into this folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub pcap: Option<PathBuf>,
    /// Don't show progress
    #[arg(short, long, action = ArgAction::SetTrue, help_heading = "Output")]
    pub quiet: bool,

    /// Folder with the compiled P4 program, instead of the built-in one
    #[arg(long, value_name = "DIR")]
    pub artifacts: Option<PathBuf>,
}

/// How a file divides into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines of text, whose key is the whole line
    Lines,
    /// Lines of columns, with quotes as text like any other
    Delimited,
    /// Rows of CSV (RFC 4180)
    Csv,
    /// Records of equal size
    Binary,
}

impl RunArgs {
    /// What these options change in a topology.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            input: self.input.clone(),
            format: self.csv.then_some(Format::Csv).or(self.format).map(|f| match f {
                Format::Lines => InputFormat::Lines,
                Format::Delimited => InputFormat::Delimited,
                Format::Csv => InputFormat::Csv,
                Format::Binary => InputFormat::Binary,
            }),
            lenient: self.lenient.then_some(true),
            delimiter: self.delimiter,
            header: self.header.then_some(true),
            key: self.key.clone(),
            record_size: self.record_size,
            items: self.items,
            item_size: self.item_size,
            scale: self.scale,
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    zsr_topology::parse_size(text).ok_or_else(|| format!("expected {}", zsr_topology::SIZE_HELP))
}

fn delimiter(text: &str) -> Result<u8, String> {
    parse_delimiter(text).ok_or_else(|| "expected one ASCII character, or tab".into())
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=1000.0).contains(&scale) => Ok(scale),
        _ => Err("expected a number from 0.001 to 1000".into()),
    }
}
