//! Queries of TPC-H over two workers, whose batches travel in four ways that take turns: handed over in memory, by the engine's own transport
//! (Arrow Flight over gRPC and TCP) with and without its compression, and through flows. All workers are in this program, and so is who asks;
//! what differs between two ways is what it takes to get batches from one to another. `bench/sql` is the command.

mod carriers;
#[allow(dead_code, reason = "the benchmarks' own, which count otherwise, too")]
#[path = "../../../../bench/src/baseline/valgrind.rs"]
mod valgrind;

use std::ffi::CString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use clap::Parser;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use zsr::Place;
use zsr_datafusion::tpch;

use carriers::{Carried, Carrier};

/// TPC-H by four transports. A system of topologies/tpch.yaml is up
#[derive(Debug, Parser)]
struct Args {
    /// Scale factor
    #[arg(long, default_value_t = 0.1)]
    scale: f64,
    /// Times that each query is asked, of which the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Ask each query once more, and count instructions: under valgrind --tool=callgrind --instr-atstart=no
    #[arg(long)]
    instructions: bool,
    /// The transports, of memory, grpc, grpc-lz4, flows
    #[arg(long, value_delimiter = ',', default_value = "memory,grpc,grpc-lz4,flows")]
    transports: Vec<String>,
    /// Files with a query each
    #[arg(required = true)]
    queries: Vec<PathBuf>,
}

type Fault = Box<dyn std::error::Error>;

/// Time and bytes that one run has taken.
#[derive(Clone, Copy, Default)]
struct Taken {
    /// Until the rows are there.
    clock: Duration,
    /// Until nothing of the query is left.
    whole: Duration,
    /// Processor time of this program.
    own: Duration,
    /// Processor time of the system's processes: switch, NICs, controller.
    system: Duration,
    /// Bytes that came in at the loopback interface.
    loopback: u64,
}

fn main() -> Result<(), Fault> {
    let args = Args::parse();
    // Plans are nested, and so are calls.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(16 << 20).build()?;
    runtime.block_on(measure(&args))
}

async fn measure(args: &Args) -> Result<(), Fault> {
    let system = Place::find(None)?;
    let sockets = tempfile::tempdir()?;
    let carried = Carried::default();
    let mut contenders = Vec::new();
    for name in &args.transports {
        let carrier = match name.as_str() {
            "memory" => Carrier::Memory(carried.clone()),
            "grpc" => Carrier::Grpc(None),
            "grpc-lz4" => Carrier::Grpc(Some(datafusion_distributed::CompressionType::LZ4_FRAME)),
            "flows" => Carrier::Flows,
            other => return Err(format!("`{other}` is no transport").into()),
        };
        let (state, flows) = carriers::session(carrier, &system, sockets.path()).await?;
        let context = SessionContext::new_with_state(state);
        tpch::register(&context, args.scale, 2)?;
        contenders.push((name.as_str(), context, flows));
    }
    println!(
        "| query | rows that went to another host | MB | transport | ms: least | median | until flows are gone | processor ms | of the system | MB at lo |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut sums = vec![Taken::default(); contenders.len()];
    for path in &args.queries {
        let query = std::fs::read_to_string(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // The tables are made now, and connections; and the rows counted.
        carried.take();
        let mut rows = None;
        let mut went = (0, 0);
        for (transport, context, flows) in &contenders {
            let got = ask(context, &query).await.map_err(|e| format!("{name}, {transport}: {e}"))?;
            carriers::gone(flows).await?;
            if *transport == "memory" {
                went = carried.take();
            }
            let count = got.iter().map(RecordBatch::num_rows).sum::<usize>();
            if *rows.get_or_insert(count) != count {
                return Err(format!("{name}: {count} rows by {transport}, others have other rows").into());
            }
        }
        if args.instructions {
            for (transport, context, flows) in &contenders {
                let text = CString::new(format!("{name} {transport} rows={} bytes={}", went.0, went.1))?;
                valgrind::start();
                ask(context, &query).await?;
                carriers::gone(flows).await?;
                valgrind::dump(&text);
                valgrind::stop();
            }
            continue;
        }
        let mut taken = vec![Vec::new(); contenders.len()];
        for _ in 0..args.rounds {
            for ((_, context, flows), taken) in contenders.iter().zip(&mut taken) {
                let before = now(&system);
                let begun = Instant::now();
                ask(context, &query).await?;
                let clock = begun.elapsed();
                // Flows are deleted while the rows are read on; who asks next waits for it.
                carriers::gone(flows).await?;
                let whole = begun.elapsed();
                let after = now(&system);
                taken.push(Taken {
                    clock,
                    whole,
                    own: after.own - before.own,
                    system: after.system.saturating_sub(before.system),
                    loopback: after.loopback - before.loopback,
                });
            }
        }
        for (((transport, ..), taken), sum) in contenders.iter().zip(&taken).zip(&mut sums) {
            let middle = Taken {
                clock: median(taken.iter().map(|t| t.clock)),
                whole: median(taken.iter().map(|t| t.whole)),
                own: median(taken.iter().map(|t| t.own)),
                system: median(taken.iter().map(|t| t.system)),
                loopback: median(taken.iter().map(|t| t.loopback)),
            };
            let least = taken.iter().map(|t| t.clock).min().unwrap_or_default();
            print_row(&name, went, transport, least, &middle);
            sum.clock += middle.clock;
            sum.whole += middle.whole;
            sum.own += middle.own;
            sum.system += middle.system;
            sum.loopback += middle.loopback;
        }
    }
    if !args.instructions {
        for ((transport, ..), sum) in contenders.iter().zip(&sums) {
            print_row("sum of medians", (0, 0), transport, sum.clock, sum);
        }
    }
    Ok(())
}

fn print_row(query: &str, went: (u64, u64), transport: &str, least: Duration, taken: &Taken) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "| {query} | {} | {:.1} | {transport} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.2} |",
        went.0,
        mb(went.1),
        ms(least),
        ms(taken.clock),
        ms(taken.whole),
        ms(taken.own),
        ms(taken.system),
        mb(taken.loopback)
    );
}

async fn ask(context: &SessionContext, query: &str) -> datafusion::common::Result<Vec<RecordBatch>> {
    let plan = context.sql(query.trim().trim_end_matches(';')).await?.create_physical_plan().await?;
    collect(plan, context.task_ctx()).await
}

fn median<T: Ord + Default + Copy>(of: impl Iterator<Item = T>) -> T {
    let mut all: Vec<T> = of.collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// What was taken so far, but for the clock.
fn now(system: &Place) -> Taken {
    let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let lo = devices.lines().find_map(|line| line.trim().strip_prefix("lo:"));
    let loopback = lo.and_then(|counts| counts.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    Taken {
        clock: Duration::ZERO,
        whole: Duration::ZERO,
        own: Duration::new(own.tv_sec as u64, own.tv_nsec as u32),
        system: processes(system),
        loopback,
    }
}

/// Processor time of all processes of the system, in steps of 10 ms.
fn processes(system: &Place) -> Duration {
    let mut ticks = 0;
    for entry in std::fs::read_dir(system.folder()).into_iter().flatten().flatten() {
        if entry.path().extension().is_none_or(|e| e != "pid") {
            continue;
        }
        let pid = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        ticks += fields.iter().skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum::<u64>();
    }
    Duration::from_millis(ticks * 10)
}
