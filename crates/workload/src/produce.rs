//! The producing side: records into segments into rings, nothing but memory operations.

use zsr_ring::Producer;
use zsr_ring::segment::{SegmentConfig, SegmentPushError, SegmentWriter};

use zsr_topology::FlowKind;

use super::drive::{Control, Meter};
use super::error::WorkloadError;
use super::item::{self, Stamp};
use super::pace::Pace;
use super::source::{Prepared, Source};
use super::tally::Tally;

/// Synthetic items that are routed before any is pushed.
const BLOCK: u64 = 512;
/// Records between two updates of the progress counter.
const METER_EVERY: u64 = 256;

/// A ring to one consumer and what went into it.
pub(crate) struct Lane<H> {
    pub name: String,
    pub ring: H,
    pub tally: Tally,
}

impl Lane<Producer> {
    pub fn new(name: String, ring: Producer) -> Self {
        Lane { name, ring, tally: Tally::default() }
    }

    /// The same ring for segments of records.
    pub fn segmented(self, prepared: &Prepared, producer: u32) -> Result<Lane<SegmentWriter>, WorkloadError> {
        let Lane { name, ring, tally } = self;
        let config = SegmentConfig { producer, ..SegmentConfig::default() };
        let writer = match prepared.record_size() {
            Some(size) => SegmentWriter::tuples(ring, config, size),
            None => SegmentWriter::records(ring, config),
        };
        match writer {
            Ok(ring) => Ok(Lane { name, ring, tally }),
            Err(cause) => Err(WorkloadError::Segments { ring: name, cause }),
        }
    }
}

/// Pushes all records of `source`, each to the consumer of its key. A stop request ends it early, with
/// everything pushed that was begun; then the answer is false.
pub(crate) fn records(
    prepared: &Prepared,
    source: &mut Source,
    lanes: &mut [Lane<SegmentWriter>],
    mut pace: Option<Pace>,
    control: &Control,
    meter: &Meter,
) -> Result<bool, WorkloadError> {
    let mut number = 0;
    let mut complete = false;
    while !control.stopped() {
        // The record borrows the source, which is asked for the place only when something is wrong with it.
        let step = match source.next()? {
            None => {
                complete = true;
                break;
            }
            Some(record) => push_record(prepared, record, number, lanes),
        };
        if let Err(problem) = step {
            return Err(problem.at(source));
        }
        number += 1;
        pace.iter_mut().for_each(|pace| pace.passed(1));
        if number % METER_EVERY == 0 {
            meter.pushed(METER_EVERY);
        }
    }
    meter.pushed(number % METER_EVERY);
    for lane in lanes {
        lane.ring.flush().map_err(|cause| WorkloadError::PushRecord { ring: lane.name.clone(), cause })?;
    }
    Ok(complete)
}

/// Why a record was not pushed.
enum Problem {
    Key(zsr_records::KeyError),
    Route(zsr_records::RouteError),
    Push { ring: String, cause: SegmentPushError },
}

impl Problem {
    /// With the place of the record, which is looked up only now.
    fn at(self, source: &Source) -> WorkloadError {
        match self {
            Problem::Key(cause) => WorkloadError::Key { place: source.place(), cause },
            Problem::Route(cause) => WorkloadError::Route { place: source.place(), cause },
            Problem::Push { cause: SegmentPushError::RecordTooLong { record, max, item }, .. } => {
                let (place, length) = (source.place(), record.to_string());
                let open = String::new();
                WorkloadError::RecordTooLong { place, open, length, item_size: item, max }
            }
            Problem::Push { ring, cause } => WorkloadError::PushRecord { ring, cause },
        }
    }
}

#[inline]
fn push_record(
    prepared: &Prepared,
    record: &[u8],
    number: u64,
    lanes: &mut [Lane<SegmentWriter>],
) -> Result<(), Problem> {
    let target = if lanes.len() == 1 {
        0
    } else {
        let key = prepared.key.key(record).map_err(Problem::Key)?;
        prepared.router.tuple(&key, prepared.key.form(), number).map_err(Problem::Route)?
    };
    let Some(lane) = lanes.get_mut(target) else { return Ok(()) };
    match lane.ring.push(record) {
        Ok(()) => {
            match prepared.flow {
                FlowKind::LoadBalance => lane.tally.shared_record(record),
                FlowKind::Shuffle | FlowKind::Replicate => lane.tally.record(record),
            }
            Ok(())
        }
        Err(cause) => Err(Problem::Push { ring: lane.name.clone(), cause }),
    }
}

/// Pushes `count` numbered items, routed block by block and written in bulk. False if stopped before the end.
pub(crate) fn items(
    prepared: &Prepared,
    producer: u32,
    count: u64,
    lanes: &mut [Lane<Producer>],
    mut pace: Option<Pace>,
    control: &Control,
    meter: &Meter,
) -> Result<bool, WorkloadError> {
    let mut targets: Vec<Vec<u64>> = vec![Vec::with_capacity(BLOCK as usize); lanes.len()];
    let block = if pace.is_some() { 1 } else { BLOCK };
    let mut next = 0;
    while next < count && !control.stopped() {
        let end = count.min(next + block);
        if let [lane] = lanes {
            push_items(prepared, producer, lane, (0..(end - next) as u32).map(|n| next + u64::from(n)))?;
        } else {
            for sequence in next..end {
                if let Some(list) = targets.get_mut(prepared.router.item(sequence)) {
                    list.push(sequence);
                }
            }
            for (lane, list) in lanes.iter_mut().zip(&mut targets) {
                push_items(prepared, producer, lane, list.drain(..))?;
            }
        }
        meter.pushed(end - next);
        pace.iter_mut().for_each(|pace| pace.passed(end - next));
        next = end;
    }
    Ok(next == count)
}

fn push_items(
    prepared: &Prepared,
    producer: u32,
    lane: &mut Lane<Producer>,
    mut sequences: impl ExactSizeIterator<Item = u64>,
) -> Result<(), WorkloadError> {
    while sequences.len() > 0 {
        let cause = match lane.ring.reserve_wait(sequences.len()) {
            Ok(mut slots) => {
                let room = slots.len();
                let size = prepared.item_size as usize;
                for (slot, sequence) in slots.bytes().chunks_exact_mut(size).zip(&mut sequences) {
                    item::write(slot, Stamp { producer, sequence }, prepared.seed);
                }
                slots.publish(room);
                lane.tally.bare(room as u64, prepared.item_size);
                continue;
            }
            Err(cause) => cause,
        };
        return Err(WorkloadError::Push { ring: lane.name.clone(), cause });
    }
    Ok(())
}
