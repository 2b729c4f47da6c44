//! The consuming side: items from the ring, checked one by one, and written out if wanted.

use zsr_ring::segment::{Segment, SegmentReadError, SegmentReader};
use zsr_ring::{Consumer, PopError, RingStats, wait_for_any};

use super::drive::Meter;
use super::error::WorkloadError;
use super::item;
use super::output::OutputFile;
use super::pace::Pace;
use super::source::Prepared;
use super::stock;
use super::tally::{Tally, follow};
use super::verify::Verification;
use zsr_topology::FlowKind;

/// A consumer's account of one producer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// Counts of what arrived from the producer.
    pub tally: Tally,
    /// Items that are missing in front of one that came.
    pub missed: u64,
    /// Pieces that came here of a stream that is divided among consumers: first number and length.
    pub runs: Vec<(u64, u64)>,
    /// The number of the item that comes next; `None` for synthetic items when none is left.
    next: Option<u64>,
    /// Synthetic items numbered from here on were never made.
    end: u64,
    /// The consumer's ring that they come by, from 0.
    pub lane: usize,
}

impl Peer {
    /// Item `number` came.
    fn extend_run(&mut self, number: u64) {
        match self.runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => self.runs.push((number, 1)),
        }
    }
}

/// An item in an order: item `number` of `producer`.
fn placed(producer: u32, number: u64) -> u64 {
    u64::from(producer) << 48 ^ number
}

/// A consumer endpoint at work.
pub(crate) struct Intake<'a> {
    pub name: &'a str,
    pub producers: &'a [String],
    pub number: usize,
    pub prepared: &'a Prepared,
    pub meter: &'a Meter,
    pub output: Option<OutputFile>,
    pub pace: Option<Pace>,
    pub peers: Vec<Peer>,
    pub verdict: Verification,
    /// Hash over the producers and numbers of all items in the order of their arrival.
    pub order: u64,
    /// The ring that is read now.
    lane: usize,
    /// Records of this consumer without their number in the producer's stream can't be checked by turns.
    check_keys: bool,
}

impl<'a> Intake<'a> {
    pub fn new(
        name: &'a str,
        number: usize,
        producers: &'a [String],
        prepared: &'a Prepared,
        meter: &'a Meter,
        output: Option<OutputFile>,
    ) -> Self {
        // Only a shuffle's items belong to one consumer.
        let number = if prepared.flow == FlowKind::Shuffle { number } else { 0 };
        let peers = (0..producers.len())
            .map(|p| {
                let end = prepared.items_of(p, producers.len());
                let next = if prepared.is_synthetic() {
                    prepared.router.next_item_for(number, 0, end)
                } else {
                    Some(0)
                };
                Peer { next, end, ..Peer::default() }
            })
            .collect();
        Intake {
            name,
            producers,
            number,
            prepared,
            meter,
            output,
            pace: None,
            peers,
            verdict: Verification::default(),
            order: 0,
            lane: 0,
            check_keys: prepared.flow == FlowKind::Shuffle && prepared.router.uses_key(),
        }
    }

    /// Takes everything out of `rings` until their streams end. Gives the handles' own counts.
    pub fn drain(&mut self, mut rings: Vec<Consumer>) -> (Vec<RingStats>, Result<(), WorkloadError>) {
        let result;
        if self.prepared.is_synthetic() {
            result = self.drain_items(&mut rings);
        } else {
            let mut readers: Vec<SegmentReader> = rings.drain(..).map(SegmentReader::new).collect();
            result = self.drain_segments(&mut readers);
            // Handles of streams that broke off are dropped as they are, which tells their producers.
            rings.extend(readers.into_iter().map(SegmentReader::into_consumer));
        }
        let finish = |output: &mut Option<OutputFile>| match output {
            Some(output) => Ok(output.finish()?),
            None => Ok(()),
        };
        let stats = rings.iter_mut().map(Consumer::stats).collect();
        (stats, result.and_then(|()| finish(&mut self.output)))
    }

    fn drain_items(&mut self, rings: &mut [Consumer]) -> Result<(), WorkloadError> {
        loop {
            let mut found = false;
            for (lane, ring) in rings.iter_mut().enumerate() {
                self.lane = lane;
                match ring.peek() {
                    Ok(view) => self.items(view.bytes())?,
                    Err(PopError::Empty | PopError::Closed) => continue,
                    Err(cause) => return Err(self.broken(cause)),
                }
                found = true;
            }
            if !found && !self.wait(&mut rings.iter_mut().collect::<Vec<_>>())? {
                return Ok(());
            }
        }
    }

    fn drain_segments(&mut self, readers: &mut [SegmentReader]) -> Result<(), WorkloadError> {
        loop {
            let mut found = false;
            for (lane, reader) in readers.iter_mut().enumerate() {
                self.lane = lane;
                match reader.try_next_segment() {
                    Ok(segment) => self.segment(&segment)?,
                    // Numbers are followed here, where what is missing and what came twice is told apart; the
                    // segment comes with the next call.
                    Err(SegmentReadError::Sequence { .. }) => {}
                    Err(SegmentReadError::Fault(fault)) => {
                        self.verdict.altered += 1;
                        let text = || format!("an item is no sound segment: {fault}");
                        self.verdict.note(self.name, None, text);
                    }
                    Err(SegmentReadError::Ring(PopError::Empty | PopError::Closed)) => continue,
                    Err(SegmentReadError::Ring(cause)) => return Err(self.broken(cause)),
                }
                found = true;
            }
            let rings = readers.iter_mut().map(SegmentReader::consumer);
            if !found && !self.wait(&mut rings.collect::<Vec<_>>())? {
                return Ok(());
            }
        }
    }

    /// Waits for items; `false`: all streams have ended.
    fn wait(&self, rings: &mut [&mut Consumer]) -> Result<bool, WorkloadError> {
        match wait_for_any(rings, || false, None) {
            Ok(()) => Ok(true),
            Err(PopError::Closed) => Ok(false),
            Err(cause) => Err(self.broken(cause)),
        }
    }

    fn broken(&self, cause: PopError) -> WorkloadError {
        WorkloadError::Pop { ring: self.name.to_owned(), cause }
    }

    fn items(&mut self, bytes: &[u8]) -> Result<(), WorkloadError> {
        let size = self.prepared.item_size as usize;
        let mut count = 0;
        for bytes in bytes.chunks_exact(size) {
            self.item(bytes);
            count += 1;
        }
        if let Some(output) = &mut self.output {
            output.raw(bytes)?;
        }
        self.meter.delivered(count, count * size as u64);
        self.keep_pace(count);
        Ok(())
    }

    #[inline]
    fn item(&mut self, bytes: &[u8]) {
        let (stamp, intact) = item::read(bytes, self.prepared.seed);
        let Some(peer) = self.peers.get_mut(stamp.producer as usize) else {
            self.verdict.altered += 1;
            self.verdict.note(self.name, None, || {
                format!("an item names producer {}, which does not exist", stamp.producer)
            });
            return;
        };
        peer.lane = self.lane;
        peer.tally.bare(1, self.prepared.item_size);
        let mask = item::sequence_mask(bytes.len());
        if intact && peer.next.is_some_and(|next| next & mask == stamp.sequence) {
            let next = peer.next.unwrap_or(0) + 1;
            peer.next = self.prepared.router.next_item_for(self.number, next, peer.end);
            match self.prepared.flow {
                FlowKind::Shuffle => {}
                FlowKind::LoadBalance => peer.extend_run(next - 1),
                FlowKind::Replicate => self.order = follow(self.order, placed(stamp.producer, next - 1)),
            }
            return;
        }
        self.odd_item(stamp, intact, mask);
    }

    /// Finds out what is wrong with an item that is not the expected one.
    #[cold]
    fn odd_item(&mut self, stamp: item::Stamp, intact: bool, mask: u64) {
        let index = stamp.producer as usize;
        let (name, producer) = (self.name, self.producers.get(index).map(String::as_str));
        if !intact {
            self.verdict.altered += 1;
            self.verdict.note(name, producer, || {
                format!("the contents of item {} are not those pushed", stamp.sequence)
            });
            return;
        }
        let router = &self.prepared.router;
        if mask > u64::from(u32::MAX) && router.item(stamp.sequence) != self.number {
            self.verdict.misrouted += 1;
            self.verdict.note(name, producer, || {
                format!("item {} belongs to consumer {}", stamp.sequence, router.item(stamp.sequence))
            });
            return;
        }
        let peer = &mut self.peers[index];
        let expected = peer.next.unwrap_or(peer.end);
        let ahead = stamp.sequence.wrapping_sub(expected) & mask;
        if peer.next.is_none() || ahead > mask / 2 {
            self.verdict.repeated += 1;
            self.verdict.note(name, producer, || {
                format!("item {} came again or late; item {expected} was next", stamp.sequence)
            });
            return;
        }
        let found = expected + ahead;
        if self.prepared.flow == FlowKind::LoadBalance {
            // Items between went to other consumers.
            peer.extend_run(found);
            peer.next = router.next_item_for(self.number, found + 1, peer.end);
            return;
        }
        // Every number between that is routed here is missing.
        let mut missing = 0;
        let mut at = peer.next;
        while let Some(next) = at.filter(|next| *next < found) {
            missing += 1;
            at = router.next_item_for(self.number, next + 1, peer.end);
        }
        peer.next = router.next_item_for(self.number, found + 1, peer.end);
        self.verdict.lost += missing;
        peer.missed += missing;
        self.verdict.note(name, producer, || {
            format!("item {found} came where item {expected} was next: {missing} items are missing")
        });
    }

    fn segment(&mut self, segment: &Segment<'_>) -> Result<(), WorkloadError> {
        let header = *segment.header();
        let Some(peer) = self.peers.get_mut(header.producer as usize) else {
            self.verdict.altered += 1;
            self.verdict.note(self.name, None, || {
                format!("a segment names producer {}, which does not exist", header.producer)
            });
            return Ok(());
        };
        peer.lane = self.lane;
        let producer = self.producers.get(header.producer as usize).map(String::as_str);
        let (found, expected) = (header.sequence, peer.next.unwrap_or(0));
        if found >= expected && self.prepared.flow == FlowKind::LoadBalance {
            peer.extend_run(found);
        } else if found > expected {
            self.verdict.lost += found - expected;
            peer.missed += found - expected;
            self.verdict.note(self.name, producer, || {
                format!("segment {found} came where segment {expected} was next")
            });
        } else if found < expected {
            self.verdict.repeated += 1;
            self.verdict.note(self.name, producer, || {
                format!("segment {found} came again or late; segment {expected} was next")
            });
        }
        peer.next = Some(found.max(expected).saturating_add(u64::from(found >= expected)));
        self.order = follow(self.order, placed(header.producer, found));
        let (records, bytes) = (u64::from(header.count), segment.record_bytes() as u64);
        peer.tally.segment(self.prepared.flow, records, bytes, stock::hash(segment.as_they_lie().0, found));
        if self.check_keys || self.output.is_some() {
            self.records(segment, found, producer)?;
        }
        self.meter.delivered(records, bytes);
        self.keep_pace(records);
        Ok(())
    }

    /// Goes through the records of segment `found`.
    fn records(
        &mut self,
        segment: &Segment<'_>,
        found: u64,
        producer: Option<&str>,
    ) -> Result<(), WorkloadError> {
        for record in segment.records() {
            let record = match record {
                Ok(record) => record,
                Err(fault) => {
                    self.verdict.altered += 1;
                    self.verdict
                        .note(self.name, producer, || format!("segment {found} is not sound: {fault}"));
                    break;
                }
            };
            if self.check_keys {
                check_key(self.prepared, self.number, record, &mut self.verdict, self.name, producer);
            }
            if let Some(output) = &mut self.output {
                output.record(record)?;
            }
        }
        Ok(())
    }

    fn keep_pace(&mut self, records: u64) {
        if let Some(pace) = &mut self.pace {
            pace.passed(records);
        }
    }
}

/// Routes a record again, as its producer did.
#[inline]
fn check_key(
    prepared: &Prepared,
    number: usize,
    record: &[u8],
    verdict: &mut Verification,
    ring: &str,
    producer: Option<&str>,
) {
    let key = &prepared.key;
    let target = key.key(record).ok().and_then(|bytes| prepared.router.tuple(&bytes, key.form(), 0).ok());
    if target != Some(number) {
        verdict.misrouted += 1;
        verdict.note(ring, producer, || {
            let text = String::from_utf8_lossy(&record[..record.len().min(60)]).into_owned();
            match target {
                Some(other) => format!("a record of consumer {other} came here: {text}"),
                None => format!("a record without a usable key came here: {text}"),
            }
        });
    }
}
