//! Record batches scattered by hash over rings in memory, on one core. Compares scattering into the rings at once with
//! partitions made by arrow's `take`, as query engines repartition. The partitions are measured alone, and with the
//! copy into the same rings.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_select::take::take_record_batch;
use zsr_arrow::{Rings, Sender, hash_rows};
use zsr_random::XorShift64Star;
use zsr_ring::segment::{SegmentConfig, SegmentReader, SegmentWriter};
use zsr_ring::{Ring, RingSpec};

const ROUNDS: usize = 40;
/// Batches of one round.
const BATCHES: usize = 16;
const ROWS: usize = 8192;
const ITEM: u64 = 256 << 10;

/// Rows as of a line of an order: five columns, one of them text.
fn batch(seed: u64, with_text: bool) -> RecordBatch {
    let mut random = XorShift64Star::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut roll = || random.bits();
    let keys = Int64Array::from_iter_values((0..ROWS).map(|_| (roll() >> 20) as i64));
    let sums = Float64Array::from_iter_values((0..ROWS).map(|_| roll() as f64));
    let days = Int32Array::from_iter_values((0..ROWS).map(|_| roll() as i32));
    let more = Int64Array::from_iter((0..ROWS).map(|n| (n % 9 > 0).then(|| roll() as i64)));
    let mut columns: Vec<(&str, Arc<dyn arrow_array::Array>)> = vec![
        ("key", Arc::new(keys)),
        ("sum", Arc::new(sums)),
        ("day", Arc::new(days)),
        ("more", Arc::new(more)),
    ];
    if with_text {
        let texts = (0..ROWS).map(|_| format!("{:x}", roll() >> (roll() % 48)));
        columns.push(("text", Arc::new(StringArray::from_iter_values(texts))));
    }
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn rings(count: usize) -> (Vec<SegmentWriter>, Vec<SegmentReader>) {
    let ring = |_| {
        let (tx, rx) = Ring::loopback(RingSpec::new(ITEM, 64 * ITEM).expect("a shape")).expect("memory");
        let writer = SegmentWriter::records(tx, SegmentConfig::default()).expect("large items");
        (writer, SegmentReader::new(rx))
    };
    (0..count).map(ring).unzip()
}

/// Pops all there is, unread. Not timed: other programs' work.
fn drain(readers: &mut [SegmentReader]) {
    for reader in readers {
        while reader.try_next_segment().is_ok() {}
    }
}

fn partitions(batch: &RecordBatch, targets: usize) -> Vec<RecordBatch> {
    let mut rows = vec![Vec::new(); targets];
    for (row, hash) in hash_rows(batch, &[0]).expect("a key").into_iter().enumerate() {
        rows[((u128::from(hash) * targets as u128) >> 64) as usize].push(row as u32);
    }
    rows.into_iter().map(|rows| take_record_batch(batch, &UInt32Array::from(rows)).expect("rows")).collect()
}

fn main() {
    println!(
        "{ROWS} rows per batch, {BATCHES} batches per round, medians of {ROUNDS} rounds, GB/s of the batches' own bytes"
    );
    println!(
        "| columns | targets | scattered into rings | take | take, then into rings | memcpy | scattered / take | scattered / take and send |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for with_text in [false, true] {
        for targets in [4, 16, 64] {
            measure(with_text, targets);
        }
    }
}

fn measure(with_text: bool, targets: usize) {
    let batches: Vec<RecordBatch> = (0..BATCHES as u64).map(|seed| batch(seed + 1, with_text)).collect();
    let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    let (writers, mut readers) = rings(targets);
    let mut sender = Sender::over(Rings::new(writers), batches[0].schema()).expect("types that can be sent");
    let mut copy = vec![0u8; bytes];
    let source = vec![1u8; bytes];
    let mut times: [Vec<Duration>; 4] = Default::default();
    let mut timed = |what: usize, work: &mut dyn FnMut()| {
        let begun = Instant::now();
        work();
        times[what].push(begun.elapsed());
    };
    for _ in 0..ROUNDS {
        timed(0, &mut || {
            batches.iter().for_each(|batch| sender.send_by_hash(batch, &[0]).expect("room"));
            sender.flush().expect("rings");
        });
        drain(&mut readers);
        timed(1, &mut || batches.iter().for_each(|batch| drop(black_box(partitions(batch, targets)))));
        timed(2, &mut || {
            for batch in &batches {
                for (target, part) in partitions(batch, targets).iter().enumerate() {
                    sender.send_to(part, target).expect("room");
                }
            }
            sender.flush().expect("rings");
        });
        drain(&mut readers);
        timed(3, &mut || black_box(&mut copy).copy_from_slice(black_box(&source)));
    }
    let rates = times.map(|mut times| {
        times.sort_unstable();
        bytes as f64 / times[ROUNDS / 2].as_secs_f64() / 1e9
    });
    let [scattered, taken, sent, copied] = rates;
    let columns = if with_text { "4 fixed, 1 text" } else { "4 fixed" };
    println!(
        "| {columns} | {targets} | {scattered:.2} | {taken:.2} | {sent:.2} | {copied:.1} | {:.2} | {:.2} |",
        scattered / taken,
        scattered / sent
    );
}
