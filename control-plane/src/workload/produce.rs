//! The producing side: records into segments into rings, nothing but memory operations.

use zsr_host_agent::ring::{Producer, PushError};

use super::drive::{Control, Meter};
use super::error::WorkloadError;
use super::item::{self, Stamp};
use super::segment::{Fill, max_record};
use super::source::{Prepared, Source};
use super::tally::Tally;

/// Synthetic items that are routed before any is pushed.
const BLOCK: u64 = 512;

/// A ring to one consumer and what went into it.
pub(crate) struct Lane {
    pub name: String,
    pub ring: Producer,
    pub tally: Tally,
    fill: Fill,
}

impl Lane {
    pub fn new(name: String, ring: Producer) -> Self {
        Lane { name, ring, tally: Tally::default(), fill: Fill::default() }
    }

    fn error(&self, cause: PushError) -> WorkloadError {
        WorkloadError::Push { ring: self.name.clone(), cause }
    }

    /// Completes the segment under construction and pushes it.
    fn flush(&mut self, producer: u32, meter: &Meter) -> Result<(), WorkloadError> {
        if self.fill.records == 0 {
            return Ok(());
        }
        let sequence = self.tally.items;
        let cause = match self.ring.reserve_wait(1) {
            Ok(mut slot) => {
                if let Some(item) = slot.item(0) {
                    let body = self.fill.seal(item, producer, sequence);
                    self.tally.segment(self.fill.records, body);
                }
                slot.publish(1);
                meter.pushed(u64::from(self.fill.records));
                self.fill = Fill::default();
                return Ok(());
            }
            Err(cause) => cause,
        };
        Err(self.error(cause))
    }
}

/// Pushes all records of `source`, each to the consumer of its key. A stop request ends it early, with
/// everything pushed that was begun.
pub(crate) fn records(
    prepared: &Prepared,
    producer: u32,
    source: &mut Source,
    lanes: &mut [Lane],
    control: &Control,
    meter: &Meter,
) -> Result<(), WorkloadError> {
    let item_size = prepared.item_size as usize;
    let mut number = 0;
    while !control.stopped() {
        // The record borrows the source, which is asked for the place only when something is wrong with it.
        let step = match source.next()? {
            None => break,
            Some(record) => push_record(prepared, record, number, item_size, producer, lanes, meter),
        };
        if let Err(problem) = step {
            return Err(problem.at(source, prepared));
        }
        number += 1;
    }
    for lane in lanes {
        lane.flush(producer, meter)?;
    }
    Ok(())
}

/// Why a record was not pushed.
enum Problem {
    Key(super::key::KeyError),
    Route(super::route::RouteError),
    TooLong(usize),
    Other(WorkloadError),
}

impl Problem {
    fn at(self, source: &Source, prepared: &Prepared) -> WorkloadError {
        let place = || source.place();
        match self {
            Problem::Key(cause) => WorkloadError::Key { place: place(), cause },
            Problem::Route(cause) => WorkloadError::Route { place: place(), cause },
            Problem::TooLong(length) => WorkloadError::RecordTooLong {
                place: place(),
                length: length.to_string(),
                item_size: prepared.item_size,
                max: max_record(prepared.item_size as usize),
            },
            Problem::Other(e) => e,
        }
    }
}

#[inline]
fn push_record(
    prepared: &Prepared,
    record: &[u8],
    number: u64,
    item_size: usize,
    producer: u32,
    lanes: &mut [Lane],
    meter: &Meter,
) -> Result<(), Problem> {
    let target = if lanes.len() == 1 {
        0
    } else {
        let key = prepared.key.key(record).map_err(Problem::Key)?;
        prepared.router.tuple(key, prepared.key.form(), number).map_err(Problem::Route)?
    };
    let Some(lane) = lanes.get_mut(target) else { return Ok(()) };
    if !lane.fill.fits(item_size, record.len()) {
        if record.len() > max_record(item_size) || lane.fill.records == 0 {
            return Err(Problem::TooLong(record.len()));
        }
        lane.flush(producer, meter).map_err(Problem::Other)?;
    }
    match lane.ring.reserve_wait(1) {
        Ok(mut slot) => {
            if let Some(item) = slot.item(0) {
                lane.fill.append(item, record);
            }
            // Not published: the next reservation is the same item.
            Ok(())
        }
        Err(cause) => Err(Problem::Other(lane.error(cause))),
    }
}

/// Pushes `count` numbered items, routed block by block and written in bulk.
pub(crate) fn items(
    prepared: &Prepared,
    producer: u32,
    count: u64,
    lanes: &mut [Lane],
    control: &Control,
    meter: &Meter,
) -> Result<(), WorkloadError> {
    let mut targets: Vec<Vec<u64>> = vec![Vec::with_capacity(BLOCK as usize); lanes.len()];
    let mut next = 0;
    while next < count && !control.stopped() {
        let end = count.min(next + BLOCK);
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
        next = end;
    }
    Ok(())
}

fn push_items(
    prepared: &Prepared,
    producer: u32,
    lane: &mut Lane,
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
        return Err(lane.error(cause));
    }
    Ok(())
}
