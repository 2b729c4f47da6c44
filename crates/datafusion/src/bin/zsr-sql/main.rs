//! `zsr sql`: queries over the hosts of a topology.

mod explain;
mod query;
mod serve;
mod system;
mod tables;
mod workers;

use std::io::{BufRead, BufReader, Cursor, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::{Parser, ValueEnum};
use datafusion::common::DataFusionError;
use query::Queries;
use serve::{Address, ServeArgs};
use tables::OwnTable;
use tokio::sync::mpsc;

/// Exit code of who was told to end by a signal.
const INTERRUPTED: u8 = 130;

/// Answer SQL queries at the hosts of a topology, whose workers exchange rows through flows
#[derive(Debug, Parser)]
#[command(
    name = "zsr sql",
    bin_name = "zsr sql",
    version,
    after_help = "Without --worker the first host asks, and all others are workers, which are started here. Tables: those of --table, and of TPC-H region, nation, supplier, customer, part, partsupp, orders, lineitem.\n\
                  Exit codes: 0 all went well, 1 a query or the system failed, 2 the command or the topology is wrong, 130 interrupted."
)]
struct Args {
    /// Topology file. Its system is brought up, unless it is up, and then taken down again
    #[arg(value_name = "TOPOLOGY", required_unless_present_any = ["serve", "be", "tables"])]
    topology: Option<PathBuf>,
    /// Queries, also EXPLAIN [default: those on standard input, each ended by `;`]
    #[arg(value_name = "QUERY")]
    queries: Vec<String>,
    /// Read queries from a file, each ended by `;` at the end of a line
    #[arg(long, short, value_name = "FILE", conflicts_with = "queries")]
    file: Option<PathBuf>,
    /// A table of one's own: a file or a folder of files, Parquet, CSV with a line of names, or a JSON object per line
    ///
    /// It can be given several times. It hides a table of TPC-H that has its name.
    #[arg(long = "table", value_name = "NAME=PATH")]
    own_tables: Vec<OwnTable>,
    /// Scale factor of TPC-H's tables: 1 is about 1 GB of text
    #[arg(long, value_name = "FACTOR", default_value_t = 0.01)]
    scale: f64,
    /// Partitions of each worker, 2 or more
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=256))]
    partitions: u16,
    /// How results are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Print on standard error how long each query has taken, and its number of rows
    #[arg(long)]
    timing: bool,
    /// The worker of a host, which somebody has started there with --serve
    ///
    /// It can be given several times. Only these hosts work then.
    #[arg(long = "worker", value_name = "HOST=ADDRESS:PORT", requires = "topology")]
    addresses: Vec<Address>,
    /// The host that asks [default: the first of the topology]
    #[arg(long, value_name = "HOST", requires = "topology")]
    head: Option<String>,
    #[command(flatten)]
    serve: ServeArgs,
    /// Be the worker of a host
    #[arg(long, value_name = "HOST", hide = true, requires_all = ["place", "prefix", "sockets"])]
    be: Option<String>,
    /// The worker's system
    #[arg(long, hide = true)]
    place: Option<PathBuf>,
    /// The worker's flows
    #[arg(long, hide = true)]
    prefix: Option<String>,
    /// Where workers meet
    #[arg(long, hide = true)]
    sockets: Option<PathBuf>,
    /// Write all tables as CSV into a folder
    #[arg(long, value_name = "FOLDER", hide = true)]
    tables: Option<PathBuf>,
}

/// The form in which results are printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A table.
    Table,
    /// CSV with a line of names.
    Csv,
    /// A JSON object per row and line. Fields that are null are left out.
    Json,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if !(args.scale > 0.0 && args.scale <= 1000.0) {
        complain(format_args!("error: --scale {}: expected a number above 0, at most 1000", args.scale));
        return ExitCode::from(2);
    }
    // Plans are nested, and so are calls.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(16 << 20).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => {
            complain(format_args!("error: starting threads: {e}"));
            return ExitCode::FAILURE;
        }
    };
    if let Some(folder) = &args.tables {
        return said(query::tables(folder, args.scale));
    }
    if let (Some(host), Some(place), Some(prefix), Some(sockets)) =
        (&args.be, &args.place, &args.prefix, &args.sockets)
    {
        return said(runtime.block_on(workers::be(host, place, prefix, sockets)));
    }
    if args.serve.serve.is_some() {
        return said(runtime.block_on(args.serve.run()));
    }
    let Some(path) = &args.topology else { return ExitCode::from(2) };
    let topology = match zsr_topology::Topology::load(path) {
        Ok(topology) => topology,
        Err(e) => {
            complain(format_args!("{e}"));
            return ExitCode::from(2);
        }
    };
    let (head, workers) = match roles(&args, &topology) {
        Ok(roles) => roles,
        Err(why) => {
            complain(format_args!("error: {}: {why}", path.display()));
            return ExitCode::from(2);
        }
    };
    let caught = {
        let _within = runtime.enter();
        system::Signals::catch()
    };
    let up = caught.and_then(|stop| Ok((stop, system::System::up(path, &topology.name, &args.serve)?)));
    let (stop, system) = match up {
        Ok(up) => up,
        Err(e) => return said(Err(e)),
    };
    // Threads that wait for the terminal would keep the program.
    let result = run(&runtime, &args, &system, &head, &workers, stop);
    runtime.shutdown_background();
    let down = system.down();
    match (result, down) {
        (Ok(INTERRUPTED), _) => ExitCode::from(INTERRUPTED),
        (Ok(code), Ok(())) => ExitCode::from(code),
        (Err(e), _) | (_, Err(e)) => said(Err(e)),
    }
}

/// The host that asks, and those that work.
fn roles(args: &Args, topology: &zsr_topology::Topology) -> Result<(String, Vec<String>), String> {
    let hosts: Vec<&str> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
    let known = |host: &str| match hosts.contains(&host) {
        true => Ok(host.to_owned()),
        false => Err(format!("no host `{host}`: it has {}", hosts.join(", "))),
    };
    let first = hosts.first().ok_or("no host: expected one that asks, and at least one worker")?;
    let head = known(args.head.as_deref().unwrap_or(first))?;
    let workers = if args.addresses.is_empty() {
        hosts.iter().filter(|host| **host != head).map(|host| (*host).to_owned()).collect()
    } else {
        args.addresses.iter().map(|worker| known(&worker.host)).collect::<Result<Vec<_>, _>>()?
    };
    if workers.is_empty() {
        return Err(format!("only host `{head}`: expected one that asks, and at least one worker"));
    }
    if workers.contains(&head) {
        return Err(format!("host `{head}` asks, so it is no worker: choose another one with --head"));
    }
    Ok((head, workers))
}

/// The exit code.
fn run(
    runtime: &tokio::runtime::Runtime,
    args: &Args,
    system: &system::System,
    head: &str,
    workers: &[String],
    stop: system::Signals,
) -> Result<u8, String> {
    let file = args
        .file
        .as_ref()
        .map(|path| std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display())));
    let file = file.transpose()?;
    let mut queries = runtime.block_on(Queries::new(system, head, workers, args, stop))?;
    let mut code = 0;
    let mut one = |queries: &mut Queries, text: &str| {
        let done = runtime.block_on(queries.answer(text, args));
        code = code.max(done);
        done != INTERRUPTED
    };
    if args.queries.is_empty() {
        let mut lines = match file {
            Some(text) => lines(Cursor::new(text)),
            None => standard_input(),
        };
        let mut text = String::new();
        loop {
            let Some(next) = runtime.block_on(queries.unless_stopped(lines.recv())) else {
                complain(format_args!("error: interrupted"));
                runtime.block_on(queries.end())?;
                return Ok(INTERRUPTED);
            };
            let Some(line) = next else { break };
            let line = line.map_err(|e| format!("standard input: {e}"))?;
            text.push_str(&line);
            text.push('\n');
            if line.trim_end().ends_with(';') && !one(&mut queries, &std::mem::take(&mut text)) {
                break;
            }
        }
        if !text.trim().is_empty() {
            one(&mut queries, &text);
        }
    } else {
        for text in &args.queries {
            if !one(&mut queries, text) {
                break;
            }
        }
    }
    runtime.block_on(queries.end())?;
    Ok(code)
}

/// Lines of standard input.
fn standard_input() -> mpsc::Receiver<std::io::Result<String>> {
    let input = std::io::stdin();
    if input.is_terminal() {
        complain(format_args!("queries, each ended by `;`:"));
    }
    lines(BufReader::new(input))
}

/// Lines of `input`. A thread reads them, as signals do not end a read.
fn lines(input: impl BufRead + Send + 'static) -> mpsc::Receiver<std::io::Result<String>> {
    let (to, lines) = mpsc::channel(1);
    thread::spawn(move || {
        for line in input.lines() {
            if to.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The exit code, with what went wrong on standard error.
fn said(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            complain(format_args!("error: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// An error without what says of which kind it is.
pub(crate) fn words(e: DataFusionError) -> String {
    match e {
        DataFusionError::Execution(why) => why,
        DataFusionError::External(why) => why.to_string(),
        e => e.strip_backtrace(),
    }
}

/// A line to standard error, which may be closed.
fn complain(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
