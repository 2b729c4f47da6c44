//! Commands for a running system: their options and help.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::report::Room;
use crate::settings::{SettingsArgs, size, time};
use zsr::{ClientError, Contact, PlaceError, Session};
use zsr_ring::memory::UnknownMemory;
use zsr_system::process::{Filter, Format, Log};
use zsr_topology::limits::MAX_LANES;
use zsr_topology::{ITEM_SIZES, Layout, MemoryKind, RING_SIZES, SwitchKind, parse_delimiter};

/// Which system is meant.
#[derive(Debug, Clone, Args)]
pub struct SystemArg {
    /// Name of the system, if several are up
    #[arg(long, value_name = "NAME", env = "ZSR_SYSTEM", global = true)]
    pub system: Option<String>,
}

/// Options of commands that print results.
#[derive(Debug, Clone, Args)]
pub struct JsonArg {
    /// Print JSON (docs/json.md describes it)
    #[arg(long, global = true)]
    pub json: bool,
}

/// Options of commands that print tables.
#[derive(Debug, Clone, Args)]
pub struct WideArg {
    /// Print all columns of tables, even where the terminal is too narrow for them
    #[arg(long, global = true)]
    pub wide: bool,
}

impl WideArg {
    /// How long the lines of tables may be.
    pub(super) fn room(&self) -> Room {
        Room::of_output(self.wide)
    }
}

/// How processes log.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Lines to log: off, error, warn, info, debug or trace, or parts with a level [default: troubles, without time and level]
    ///
    /// Parts are named after crates and modules: warn,zsr_controller::agents=debug. In front of the = can be a field of
    /// what is under way, too: [{flow=rows}]=debug.
    #[arg(long, value_name = "FILTER", env = "ZSR_LOG", help_heading = "Log")]
    pub log: Option<Filter>,
    /// How a line is written
    #[arg(long, value_name = "FORMAT", env = "ZSR_LOG_FORMAT", default_value = "text", help_heading = "Log")]
    pub log_format: LogFormat,
}

/// How a line of a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// A JSON object
    Json,
}

impl LogArgs {
    /// The log that is asked for.
    pub fn log(&self) -> Log {
        let format = match self.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        Log { filter: self.log.clone().unwrap_or_default(), format }
    }
}

/// Options of `zsr up`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/up.md"))]
pub struct UpArgs {
    /// Topology file
    #[arg(value_name = "TOPOLOGY")]
    pub topology: PathBuf,
    /// Name of the system [default: the topology's]
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// Don't create the topology's flows
    #[arg(long)]
    pub no_flows: bool,
    /// Program that runs the switch [default: the topology's]
    #[arg(long, value_name = "KIND", value_enum)]
    pub switch: Option<SwitchWord>,
    /// Path of simple_switch_grpc, or address of one that runs [default: the one on PATH]
    #[arg(long, value_name = "PATH|IP:PORT")]
    pub bmv2: Option<String>,
    /// Address at which a running bmv2 takes packets (its --dp-grpc-server-addr)
    #[arg(long, value_name = "IP:PORT", requires = "bmv2")]
    pub packets: Option<SocketAddr>,
    /// Put every host into a network namespace of its own, behind a veth pair (needs root)
    #[arg(long)]
    pub netns: bool,
    /// Where the controller listens for programs on other machines (see ControllerArgs)
    #[command(flatten)]
    pub listen: ListenArg,
    /// Where the controller keeps its journal
    #[command(flatten)]
    pub journal: JournalArg,
    /// Then show the system as a page in a browser, until Ctrl-C, as zsr dash does; the system stays up
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:9465")]
    pub dash: Option<SocketAddr>,
    /// Folder with the compiled P4 program, instead of the built-in one
    #[arg(long, value_name = "DIR")]
    pub artifacts: Option<PathBuf>,
    /// How the system's processes log
    #[command(flatten)]
    pub log: LogArgs,
}

/// What runs a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SwitchWord {
    /// The software switch
    Soft,
    /// bmv2's simple_switch_grpc
    Bmv2,
}

impl UpArgs {
    /// What these options say beside the topology.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn layout(&self) -> Result<Layout, String> {
        let switch = match (self.switch, &self.bmv2) {
            (Some(SwitchWord::Soft), Some(_)) => return Err("--bmv2 goes with --switch bmv2".into()),
            (Some(SwitchWord::Soft), None) => Some(SwitchKind::Soft),
            (None, None) => None,
            (_, word) => Some(SwitchKind::Bmv2(Layout::bmv2(word.as_deref(), self.packets)?)),
        };
        let journal = self.journal.file();
        Ok(Layout { switch, netns: self.netns, listen: self.listen.listen, journal })
    }
}

/// Options of `zsr down`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/down.md"))]
pub struct DownArgs {
    /// Name of the system, if several are up; the same as --system
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Which system
    #[command(flatten)]
    pub system: SystemArg,
}

impl DownArgs {
    /// The system that is meant.
    ///
    /// # Errors
    /// Two are named.
    pub fn named(&self) -> Result<Option<&str>, String> {
        let by_environment = std::env::var("ZSR_SYSTEM").ok();
        match (&self.name, &self.system.system) {
            (Some(name), Some(other)) if name != other && by_environment.as_ref() != Some(other) => {
                Err(format!("both `{name}` and --system {other} are named: which system is meant?"))
            }
            (Some(name), _) | (None, Some(name)) => Ok(Some(name)),
            (None, None) => Ok(None),
        }
    }
}

/// Options of `zsr restart`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/restart.md"))]
pub struct RestartArgs {
    /// Process, as zsr status names it: switch, switch.STANDBY, controller, or agent.HOST
    #[arg(value_name = "PROCESS")]
    pub process: String,
    /// Only say what survives and what ends
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Which system
    #[command(flatten)]
    pub system: SystemArg,
}

/// Options of `zsr status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Which system
    #[command(flatten)]
    pub system: SystemArg,
    /// How it is printed
    #[command(flatten)]
    pub json: JsonArg,
    /// Which columns tables have
    #[command(flatten)]
    pub wide: WideArg,
}

/// Options of the processes of a system.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/role.md"))]
pub struct RoleArgs {
    /// Topology file
    #[arg(value_name = "TOPOLOGY")]
    pub topology: PathBuf,
    /// Name of the system [default: the topology's]
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// Go on in the background, with messages in a log; the command ends once the process is ready
    #[arg(long)]
    pub daemon: bool,
    /// Leave the terminal, and say `ready` on standard output: what a process in the background is started with
    #[arg(long, hide = true)]
    pub ready: bool,
    /// How the process logs
    #[command(flatten)]
    pub log: LogArgs,
}

/// Options of `zsr switch`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/role.md"))]
pub struct SwitchArgs {
    /// As for all processes
    #[command(flatten)]
    pub role: RoleArgs,
    /// Standby to run, by its name in the topology [default: the switch that it stands by for]
    #[arg(value_name = "STANDBY")]
    pub standby: Option<String>,
}

/// Options of `zsr agent`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/agent.md"))]
pub struct AgentArgs {
    /// As for all processes
    #[command(flatten)]
    pub role: RoleArgs,
    /// Host of the topology
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Address at which the agent listens for the controller [default: the topology's]
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<SocketAddr>,
}

/// Where a controller listens beside its socket.
#[derive(Debug, Clone, Args)]
pub struct ListenArg {
    /// Address at which the controller listens for clients on other machines, with TLS
    ///
    /// The topology names the folder of the certificates (`tls: FOLDER`), and zsr ca makes them. A port alone is at 127.0.0.1.
    #[arg(long, value_name = "[IP:]PORT", value_parser = listen_at)]
    pub listen: Option<SocketAddr>,
}

/// Where the controller keeps its journal.
#[derive(Debug, Clone, Args)]
pub struct JournalArg {
    /// File of the controller's journal, which outlives the system then [default: in the system's folder]
    ///
    /// A controller that finds flows in it takes them up.
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
}

impl JournalArg {
    /// The file, wherever processes of the system run.
    pub fn file(&self) -> Option<PathBuf> {
        let file = self.journal.as_ref()?;
        Some(std::path::absolute(file).unwrap_or_else(|_| file.clone()))
    }
}

/// Options of `zsr controller`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/controller.md"))]
pub struct ControllerArgs {
    /// As for all processes
    #[command(flatten)]
    pub role: RoleArgs,
    /// Noted in the system's folder, for the controllers behind this one
    #[command(flatten)]
    pub listen: ListenArg,
    /// Noted likewise
    #[command(flatten)]
    pub journal: JournalArg,
    /// Folder with the compiled P4 program, instead of the built-in one
    #[arg(long, value_name = "DIR")]
    pub artifacts: Option<PathBuf>,
}

/// `zsr flow ...`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/flow.md"))]
pub struct FlowArgs {
    /// Which controller
    #[command(flatten)]
    pub contact: ContactArgs,
    /// How it is printed
    #[command(flatten)]
    pub json: JsonArg,
    /// Which columns tables have
    #[command(flatten)]
    pub wide: WideArg,
    /// What to do
    #[command(subcommand)]
    pub command: FlowCommand,
}

/// What to do with flows.
#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Create a flow
    Create(Box<CreateArgs>),
    /// List all flows
    List,
    /// Show one flow, with its members and rings
    Show {
        /// Name of the flow
        name: String,
    },
    /// Change settings of a running flow
    #[command(after_long_help = include_str!("help/settings.md"))]
    Set {
        /// Name of the flow
        name: String,
        /// What changes
        #[command(flatten)]
        settings: Box<SettingsArgs>,
    },
    /// Add a producer to a running flow
    #[command(after_long_help = include_str!("help/add.md"))]
    AddProducer {
        /// Name of the flow
        name: String,
        /// Producer: HOST, NAME@HOST, or rings that the topology declares, HOST.RING[,HOST.RING...]
        member: String,
        /// Kind of memory for its rings, as `memory` of a topology [default: its host's]
        #[arg(long, value_name = "KIND")]
        memory: Option<MemoryKind>,
    },
    /// Add a consumer to a running flow
    #[command(after_long_help = include_str!("help/add.md"))]
    AddConsumer {
        /// Name of the flow
        name: String,
        /// Consumer: HOST, NAME@HOST, or a ring that the topology declares, HOST.RING
        member: String,
        /// Kind of memory for its ring, as `memory` of a topology [default: its host's]
        #[arg(long, value_name = "KIND")]
        memory: Option<MemoryKind>,
    },
    /// Take members out of a running flow
    #[command(after_long_help = include_str!("help/remove-member.md"))]
    RemoveMember {
        /// Name of the flow
        name: String,
        /// Member to take out, or several that go together
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<String>,
        /// Take them out even if items of their rings are lost
        #[arg(long)]
        force: bool,
    },
    /// End a flow and give back everything that it had
    #[command(after_long_help = include_str!("help/delete.md"))]
    Delete {
        /// Name of the flow
        name: String,
        /// Delete the flow even if items are lost
        #[arg(long)]
        force: bool,
    },
}

/// Options of `zsr flow create`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/create.md"))]
pub struct CreateArgs {
    /// Name of the flow
    pub name: String,
    /// Rule by which items go to consumers
    #[arg(long, value_enum, default_value_t = Kind::Shuffle)]
    pub kind: Kind,
    /// Producers: HOST, NAME@HOST, or rings HOST.RING[,HOST.RING...]; can be repeated
    #[arg(short, long, required = true, value_name = "MEMBER", num_args = 1..)]
    pub producer: Vec<String>,
    /// Consumers: HOST, NAME@HOST, or a ring HOST.RING; can be repeated
    #[arg(short, long, required = true, value_name = "MEMBER", num_args = 1..)]
    pub consumer: Vec<String>,
    /// Kind of memory for the rings of a member, or of all members on a host [default: its host's]
    ///
    /// KIND is as `memory` of a topology, such as gpu:0:host. The option can be repeated.
    #[arg(long, value_name = "MEMBER=KIND", value_parser = memory_of)]
    pub memory: Vec<(String, MemoryKind)>,
    /// Bytes of an item, a power of two [default: as its declared rings, else 32KiB]
    #[arg(long, value_name = "B", value_parser = item_size)]
    pub item_size: Option<u32>,
    /// Bytes of the rings that the flow makes, a power of two up to 1GiB [default: 1MiB, or four items]
    #[arg(long, value_name = "B", value_parser = ring_size)]
    pub ring_size: Option<u32>,
    /// Rings of each consumer, 1 to 16, which are read from different producers at the same time; shuffles only [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_LANES as i64))]
    pub lanes: Option<u32>,
    /// Function that chooses the consumer of a record [default: hash]
    ///
    /// It is hash(KEY), range(KEY, [BOUND, ...]), explicit(KEY) or round-robin.
    #[arg(long, value_name = "FUNCTION")]
    pub routing: Option<String>,
    /// Columns of its records: NAME: TYPE, NAME: TYPE, ... [default: any records]
    ///
    /// Types are i8 to i64, u8 to u64, f32, f64, bytes(N), decimal, date and text.
    #[arg(long, value_name = "COLUMNS")]
    pub schema: Option<String>,
    /// Settings
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// What a flow does with items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// An item goes to the consumer that its producer chose
    Shuffle,
    /// An item goes to the consumer that has room first
    LoadBalance,
    /// An item goes to every consumer, in one order
    Replicate,
}

/// `zsr ring ...`.
#[derive(Debug, Args)]
pub struct RingArgs {
    /// Which controller
    #[command(flatten)]
    pub contact: ContactArgs,
    /// How it is printed
    #[command(flatten)]
    pub json: JsonArg,
    /// Which columns tables have
    #[command(flatten)]
    pub wide: WideArg,
    /// What to do
    #[command(subcommand)]
    pub command: RingCommand,
}

/// What to do with rings.
#[derive(Debug, Subcommand)]
pub enum RingCommand {
    /// List the rings of flows, and rings that the topology declares for flows to come
    List {
        /// List only the rings of this flow
        flow: Option<String>,
    },
}

/// Options of `zsr events`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/events.md"))]
pub struct EventsArgs {
    /// Which controller
    #[command(flatten)]
    pub contact: ContactArgs,
    /// How they are printed: with --json, one object per line
    #[command(flatten)]
    pub json: JsonArg,
    /// Go on and print events as they happen
    #[arg(short, long)]
    pub follow: bool,
    /// Print only events behind this number
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub after: u64,
}

/// Options of `zsr top`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/top.md"))]
pub struct TopArgs {
    /// Which controller
    #[command(flatten)]
    pub contact: ContactArgs,
    /// Print one JSON object per interval (docs/json.md describes it)
    ///
    /// The objects replace the live view, or the table where there is no terminal.
    #[arg(long)]
    pub json: bool,
    /// Time between two looks, at least 1ms
    #[arg(short, long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    pub interval: Duration,
    /// End after N intervals
    #[arg(short = 'n', long, value_name = "N")]
    pub count: Option<u64>,
}

/// Options of `zsr metrics`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/metrics.md"))]
pub struct MetricsArgs {
    /// Which controller
    #[command(flatten)]
    pub contact: ContactArgs,
    /// Answer scrapes at an address of this machine, in clear: http://ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Answer scrapes at a UNIX socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// Options of `zsr dash`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/dash.md"))]
pub struct DashArgs {
    /// Which controller
    #[command(flatten)]
    pub contact: ContactArgs,
    /// Address of this machine at which the page is
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9465")]
    pub listen: SocketAddr,
}

/// Options of `zsr pcap`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/pcap.md"))]
pub struct PcapArgs {
    /// Which system
    #[command(flatten)]
    pub system: SystemArg,
    /// How links, or a summary of a capture to a file, are printed
    #[command(flatten)]
    pub json: JsonArg,
    /// Name of the link, or its port at the switch [default: print which links there are]
    #[arg(value_name = "LINK")]
    pub link: Option<String>,
    /// File for the capture, or - for standard output [default: standard output, unless it is a terminal]
    #[arg(short, long, value_name = "FILE", requires = "link")]
    pub write: Option<PathBuf>,
    /// End after N packets
    #[arg(short = 'n', long, value_name = "N", requires = "link", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after S seconds
    #[arg(long, value_name = "S", requires = "link", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Keep this many bytes of each packet, at least 96
    #[arg(short, long, value_name = "BYTES", default_value_t = 9216, requires = "link",
          value_parser = clap::value_parser!(u16).range(96..=9216))]
    pub snaplen: u16,
    /// Capture at the host's end of the link instead of the switch's
    #[arg(long, requires = "link")]
    pub host_end: bool,
}

/// Which controller is meant.
#[derive(Debug, Clone, Args)]
pub struct ContactArgs {
    /// Which system on this machine
    #[command(flatten)]
    pub system: SystemArg,
    /// Address of the controller, if the system is not on this machine (zsr up --listen)
    ///
    /// With an address, --system has no effect.
    #[arg(long, value_name = "HOST:PORT", env = "ZSR_CONTROLLER", global = true)]
    pub controller: Option<String>,
    /// Certificate to show to a controller at an address; its key and ca.pem are beside it (zsr ca)
    #[arg(long, value_name = "NAME.pem", env = "ZSR_CERTIFICATE", global = true)]
    pub certificate: Option<PathBuf>,
}

impl ContactArgs {
    /// The controller at the address that is given, else that of the system that is named, or of the only one.
    pub(super) fn find(&self) -> Result<Contact, PlaceError> {
        let certificate = self.certificate.as_deref();
        Contact::find(self.controller.as_deref(), certificate, self.system.system.as_deref())
    }

    /// A session with it.
    pub(super) fn open(&self) -> Result<Session, ClientError> {
        Ok(Session::open(self.find()?)?.telling())
    }
}

/// Options of `zsr produce` and `zsr consume`.
#[derive(Debug, Args)]
pub struct StreamArgs {
    /// Which controller
    #[command(flatten)]
    pub contact: ContactArgs,
    /// Name of the flow
    pub flow: String,
    /// Member of the flow to act as [default: the first whose rings are free]
    #[arg(long, value_name = "NAME")]
    pub member: Option<String>,
    /// Bytes of a record [default: records are lines of text]
    ///
    /// Lines of a flow with a schema stand for its tuples.
    #[arg(long, value_name = "N", value_parser = item_size)]
    pub record_size: Option<u32>,
    /// Character between columns, or the word tab
    #[arg(long, value_name = "CHAR", value_parser = delimiter, default_value = ",")]
    pub delimiter: u8,
    /// Records are rows of CSV (RFC 4180): quotes protect delimiters and line ends
    ///
    /// Without this option, quotes are text like any other.
    #[arg(long, conflicts_with = "record_size")]
    pub csv: bool,
    /// Print neither progress nor a summary on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Options of `zsr produce`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/produce.md"))]
pub struct ProduceArgs {
    /// As for both
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Column to hash: its name, or its number from 1 [default: the key of the flow's routing]
    ///
    /// A name is one of the schema or of the header. The key of records of equal size is OFFSET:LENGTH in bytes. `*` is the whole
    /// record.
    #[arg(long, value_name = "COL")]
    pub key: Option<String>,
    /// The first record names the columns, and is not pushed
    ///
    /// The names can be used in --key. A schema has to have the same names.
    #[arg(long, conflicts_with = "record_size")]
    pub header: bool,
    /// With --csv, take rows that RFC 4180 does not allow, and say how many they are
    ///
    /// Text behind a quote that ends a column is part of the column. A carriage return alone is text. A quote that is not closed is
    /// closed at the end.
    #[arg(long, requires = "csv")]
    pub lenient: bool,
    /// Pass over the first N records of the input, which a program before has pushed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: u64,
    /// Don't end the stream at the end of the input, so that another program can go on
    #[arg(long)]
    pub keep_open: bool,
}

/// Options of `zsr consume`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/consume.md"))]
pub struct ConsumeArgs {
    /// As for both
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Begin with a line that names the columns of the flow's schema
    #[arg(long, conflicts_with = "record_size")]
    pub header: bool,
    /// Leave after N records; the rest is for the next program
    #[arg(short = 'n', long, value_name = "N")]
    pub count: Option<u64>,
    /// Print the newest record whenever there is a newer one, and pass over older ones
    ///
    /// Older records came before the newest one was printed, or while it was printed.
    #[arg(long)]
    pub newest: bool,
    /// Print aggregates of all records, in place of the records
    ///
    /// FUNCTIONS are count, sum(COLUMN), min(COLUMN), max(COLUMN) and avg(COLUMN), with commas between them. The flow has to have a
    /// schema whose columns have a width.
    #[arg(long, value_name = "FUNCTIONS", conflicts_with_all = ["count", "newest", "record_size"])]
    pub aggregate: Option<String>,
    /// Print a line for each group of records that are equal in these columns
    ///
    /// There are commas between the columns.
    #[arg(long, value_name = "COLUMNS", requires = "aggregate")]
    pub group_by: Option<String>,
}

/// Options of `zsr barrier`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/barrier.md"))]
pub struct BarrierArgs {
    /// Which controller
    #[command(flatten)]
    pub contact: ContactArgs,
    /// Name of the barrier
    pub name: String,
    /// Number of programs that wait for each other; all of them give the same number
    #[arg(short = 'n', long, value_name = "N")]
    pub participants: u32,
    /// Give up after this time, such as 10s [default: never]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,
}

/// Options of `zsr ca`.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/ca.md"))]
pub struct CaArgs {
    /// Topology file, with the folder of the certificates (tls: FOLDER)
    #[arg(value_name = "TOPOLOGY")]
    pub topology: PathBuf,
    /// Make one certificate for a client or part of this name, signed by the existing authority
    #[arg(long, value_name = "NAME", value_parser = certificate_name)]
    pub name: Option<String>,
    /// Role of the certificate's owner [default: reader]
    #[arg(long, value_enum, requires = "name")]
    pub role: Option<RoleWord>,
    /// Flow to which the certificate is confined; can be repeated [default: all flows]
    ///
    /// `etl-*` stands for all flows whose names begin with `etl-`.
    #[arg(long = "flow", value_name = "NAME", requires = "name")]
    pub flows: Vec<String>,
    /// Address or host name of a part, for clients that check it; can be repeated
    #[arg(long = "address", value_name = "IP|NAME", requires = "name")]
    pub addresses: Vec<String>,
    /// Take the certificate in NAME.pem back
    ///
    /// The file ca.crl then lists it. Copy ca.crl to the folders of all parts and clients of the system.
    #[arg(long, value_name = "NAME", conflicts_with = "name", value_parser = certificate_file)]
    pub revoke: Option<String>,
    /// Days for which certificates are valid
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleWord {
    /// A client that only looks
    Reader,
    /// A client that takes part in flows
    Program,
    /// A client that makes, changes and deletes flows
    Operator,
    /// The controller
    Controller,
    /// The P4Runtime server of the switch NAME
    Switch,
    /// The agent of the host NAME
    Agent,
    /// The worker of `zsr sql` at the host NAME
    Worker,
}

impl From<RoleWord> for zsr_tls::Role {
    fn from(word: RoleWord) -> Self {
        match word {
            RoleWord::Reader => zsr_tls::Role::Reader,
            RoleWord::Program => zsr_tls::Role::Program,
            RoleWord::Operator => zsr_tls::Role::Operator,
            RoleWord::Controller => zsr_tls::Role::Controller,
            RoleWord::Switch => zsr_tls::Role::Switch,
            RoleWord::Agent => zsr_tls::Role::Agent,
            RoleWord::Worker => zsr_tls::Role::Worker,
        }
    }
}

fn certificate_name(text: &str) -> Result<String, String> {
    let is_name = zsr_records::is_name(text) && text != "ca";
    is_name.then(|| text.to_owned()).ok_or_else(|| format!("expected {}, and not ca", zsr_records::NAME_HELP))
}

/// The name of a certificate's file, such as `agent.h1`, without its ending.
fn certificate_file(text: &str) -> Result<String, String> {
    let text = text.strip_suffix(zsr_tls::CERTIFICATE_ENDS).unwrap_or(text);
    let is_file = !text.is_empty() && !text.contains('/') && text != "ca";
    is_file.then(|| text.to_owned()).ok_or_else(|| {
        "expected the name of a certificate's file, such as operator or agent.h1, and not ca".to_owned()
    })
}

/// Options of `zsr completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// Shell that reads the script
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

fn listen_at(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    port.or_else(|_| text.parse())
        .map_err(|_| "expected PORT or IP:PORT, such as 7700 or 10.0.0.5:7700".into())
}

fn item_size(text: &str) -> Result<u32, String> {
    size(text, *ITEM_SIZES.end())
}

fn memory_of(text: &str) -> Result<(String, MemoryKind), String> {
    let (of, kind) = text.split_once('=').ok_or("expected MEMBER=KIND, such as h1=gpu:0:host")?;
    Ok((of.to_owned(), kind.parse().map_err(|e: UnknownMemory| e.to_string())?))
}

fn ring_size(text: &str) -> Result<u32, String> {
    size(text, *RING_SIZES.end())
}

fn interval(text: &str) -> Result<Duration, String> {
    let fits = |t: &Duration| *t >= Duration::from_millis(1);
    time(text).and_then(|t| Some(t).filter(fits).ok_or_else(|| "expected 1ms or more".into()))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    // A year is no limit, and far from what clocks can count.
    seconds
        .filter(|s| !s.is_zero() && *s <= Duration::from_secs(31_536_000))
        .ok_or_else(|| "expected a number of seconds, such as 2 or 0.5".into())
}

fn delimiter(text: &str) -> Result<u8, String> {
    parse_delimiter(text).ok_or_else(|| "expected one ASCII character, or tab".into())
}
