//! Record batches divided by hash, on one core: scattered over rings in memory by `zsr-arrow`, against what DataFusion does in its own
//! repartition: its `BatchPartitioner`, and the whole operator `RepartitionExec` with somebody who drains its outputs. Contenders take
//! turns; `bench/sql` is the command.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::{BatchPartitioner, RepartitionExec};
use futures::StreamExt;
use zsr_arrow::{Rings, Sender};
use zsr_datafusion::tpch::Table;
use zsr_ring::segment::{SegmentConfig, SegmentReader, SegmentWriter};
use zsr_ring::{Ring, RingSpec};

const ROUNDS: usize = 30;
const BATCHES: usize = 16;
/// As those of the exchange's flows.
const ITEM: u64 = 64 << 10;
const RING: u64 = 1 << 20;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println!(
        "| columns of lineitem | targets | zsr: into rings, GB/s | BatchPartitioner | RepartitionExec | zsr / BatchPartitioner | zsr / RepartitionExec |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let all = Table::LineItem.batches(0.05, 0, 1)?;
    // Keys, numbers and a date; and the same with what is text.
    for (name, columns) in [("4 of fixed width", &[0, 1, 4, 10][..]), ("all 16, 5 of them text", &[])] {
        let batches: Vec<RecordBatch> = all.iter().take(BATCHES).cloned().collect();
        let batches = match columns {
            [] => batches,
            some => batches.iter().map(|batch| batch.project(some)).collect::<Result<_, _>>()?,
        };
        for targets in [2, 4, 16] {
            contend(&runtime, name, &batches, targets)?;
        }
    }
    Ok(())
}

fn contend(
    runtime: &tokio::runtime::Runtime,
    name: &str,
    batches: &[RecordBatch],
    targets: usize,
) -> Result<()> {
    let schema = batches[0].schema();
    let bytes: usize = batches
        .iter()
        .flat_map(RecordBatch::columns)
        .map(|c| c.to_data().get_slice_memory_size().unwrap_or(0))
        .sum();
    let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(0).name(), 0));
    let (writers, mut readers): (Vec<_>, Vec<_>) = (0..targets)
        .map(|_| {
            let (tx, rx) = Ring::loopback(RingSpec::new(ITEM, RING).expect("a shape")).expect("memory");
            (
                SegmentWriter::records(tx, SegmentConfig::default()).expect("large items"),
                SegmentReader::new(rx),
            )
        })
        .unzip();
    let mut sender = Sender::over(Rings::new(writers), schema.clone()).expect("types that can be sent");
    let mut partitioner = BatchPartitioner::new_hash_partitioner(vec![key.clone()], targets, Time::new())?;
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..ROUNDS {
        let mut time = Duration::ZERO;
        for batch in batches {
            let begun = Instant::now();
            sender.send_by_hash(batch, &[0]).expect("room");
            time += begun.elapsed();
            // Not timed: it is the switch's work.
            readers.iter_mut().for_each(|reader| while reader.try_next_segment().is_ok() {});
        }
        times[0].push(time);

        let begun = Instant::now();
        for batch in batches {
            partitioner.partition(batch.clone(), |_, part| {
                drop(black_box(part));
                Ok(())
            })?;
        }
        times[1].push(begun.elapsed());

        let source = MemorySourceConfig::try_new_exec(&[batches.to_vec()], schema.clone(), None)?;
        let plan = RepartitionExec::try_new(source, Partitioning::Hash(vec![key.clone()], targets))?;
        let context = Arc::new(TaskContext::default());
        let begun = Instant::now();
        runtime.block_on(async {
            let streams = (0..targets).map(|part| plan.execute(part, context.clone()));
            let mut all = futures::stream::select_all(streams.collect::<Result<Vec<_>>>()?);
            while let Some(part) = all.next().await {
                drop(black_box(part?));
            }
            Result::<()>::Ok(())
        })?;
        times[2].push(begun.elapsed());
    }
    let [zsr, partitioner, operator] = times.map(|mut times| {
        times.sort_unstable();
        bytes as f64 / times[ROUNDS / 2].as_secs_f64() / 1e9
    });
    println!(
        "| {name} | {targets} | {zsr:.2} | {partitioner:.2} | {operator:.2} | {:.2} | {:.2} |",
        zsr / partitioner,
        zsr / operator
    );
    Ok(())
}
