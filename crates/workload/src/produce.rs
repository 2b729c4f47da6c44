//! The producing side: segments that are there, or numbered items, into rings; nothing but memory operations.

use zsr_ring::Producer;

use super::drive::{Control, Meter};
use super::error::WorkloadError;
use super::item::{self, Stamp};
use super::pace::Pace;
use super::source::Prepared;
use super::stock::Feed;
use super::tally::Tally;

/// Synthetic items that are routed before any is pushed.
const BLOCK: u64 = 512;

/// A ring to one consumer and what went into it.
pub(crate) struct Lane {
    pub name: String,
    pub ring: Producer,
    pub tally: Tally,
}

impl Lane {
    pub fn new(name: String, ring: Producer) -> Self {
        Lane { name, ring, tally: Tally::default() }
    }
}

/// Pushes all segments of `feed`, each into the ring that it was made for. A stop request ends it early, between two segments; then
/// the answer is false.
pub(crate) fn segments(
    prepared: &Prepared,
    feed: &mut Feed,
    lanes: &mut [Lane],
    mut pace: Option<Pace>,
    control: &Control,
    meter: &Meter,
) -> Result<bool, WorkloadError> {
    while !control.stopped() {
        let Some(block) = feed.next(control)? else { return Ok(!control.stopped()) };
        for (made, item) in block.segments() {
            if control.stopped() {
                return Ok(false);
            }
            let Some(lane) = lanes.get_mut(made.lane) else { continue };
            let pushed = lane.ring.reserve_wait(1).map(|mut slot| {
                slot.bytes()[..item.len()].copy_from_slice(item);
                slot.publish(1);
            });
            pushed.map_err(|cause| WorkloadError::Push { ring: lane.name.clone(), cause })?;
            lane.tally.segment(prepared.flow, made.records, made.bytes, made.hash);
            meter.pushed(made.records);
            pace.iter_mut().for_each(|pace| pace.passed(made.records));
        }
    }
    Ok(false)
}

/// Pushes `count` numbered items, routed block by block and written in bulk. False if stopped before the end.
pub(crate) fn items(
    prepared: &Prepared,
    producer: u32,
    count: u64,
    lanes: &mut [Lane],
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
        return Err(WorkloadError::Push { ring: lane.name.clone(), cause });
    }
    Ok(())
}
