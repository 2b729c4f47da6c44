//! The consuming side: items from the ring, checked one by one, and written out if wanted.

use zsr_host_agent::ring::{Consumer, PopError};

use super::drive::Meter;
use super::error::WorkloadError;
use super::item;
use super::output::OutputFile;
use super::segment::Segment;
use super::source::Prepared;
use super::tally::Tally;
use super::verify::Verification;

/// What a consumer knows of one producer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer {
    /// What arrived from it.
    pub tally: Tally,
    /// The number of the item that comes next; `None` for synthetic items when none is left.
    next: Option<u64>,
    /// Synthetic items numbered from here on were never made.
    end: u64,
}

/// A consumer endpoint at work.
pub(crate) struct Intake<'a> {
    pub name: &'a str,
    pub producers: &'a [String],
    pub number: usize,
    pub prepared: &'a Prepared,
    pub meter: &'a Meter,
    pub output: Option<OutputFile>,
    pub peers: Vec<Peer>,
    pub verdict: Verification,
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
        let peers = (0..producers.len())
            .map(|p| {
                let end = prepared.items_of(p, producers.len());
                let next = if prepared.is_synthetic() {
                    prepared.router.next_item_for(number, 0, end)
                } else {
                    Some(0)
                };
                Peer { tally: Tally::default(), next, end }
            })
            .collect();
        Intake {
            name,
            producers,
            number,
            prepared,
            meter,
            output,
            peers,
            verdict: Verification::default(),
            check_keys: prepared.router.uses_key(),
        }
    }

    /// Takes everything out of `ring` until its stream ends.
    pub fn drain(&mut self, ring: &mut Consumer) -> Result<(), WorkloadError> {
        loop {
            match ring.wait() {
                Ok(view) => {
                    if self.prepared.is_synthetic() {
                        self.items(view.bytes())?;
                    } else {
                        for bytes in &view {
                            self.segment(bytes)?;
                        }
                    }
                }
                Err(PopError::Closed) => break,
                Err(cause) => return Err(WorkloadError::Pop { ring: self.name.to_owned(), cause }),
            }
        }
        if let Some(output) = &mut self.output {
            output.finish()?;
        }
        Ok(())
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
        peer.tally.bare(1, self.prepared.item_size);
        let mask = item::sequence_mask(bytes.len());
        if intact && peer.next.is_some_and(|next| next & mask == stamp.sequence) {
            let next = peer.next.unwrap_or(0) + 1;
            peer.next = self.prepared.router.next_item_for(self.number, next, peer.end);
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
        // Every number between that is routed here is missing.
        let found = expected + ahead;
        let mut missing = 0;
        let mut at = peer.next;
        while let Some(next) = at.filter(|next| *next < found) {
            missing += 1;
            at = router.next_item_for(self.number, next + 1, peer.end);
        }
        peer.next = router.next_item_for(self.number, found + 1, peer.end);
        self.verdict.lost += missing;
        self.verdict.note(name, producer, || {
            format!("item {found} came where item {expected} was next: {missing} items are missing")
        });
    }

    fn segment(&mut self, bytes: &[u8]) -> Result<(), WorkloadError> {
        let segment = match Segment::parse(bytes) {
            Ok(segment) => segment,
            Err(e) => {
                self.verdict.altered += 1;
                self.verdict.note(self.name, None, || format!("an item is no segment: {e}"));
                return Ok(());
            }
        };
        let header = segment.header;
        let Some(peer) = self.peers.get_mut(header.producer as usize) else {
            self.verdict.altered += 1;
            self.verdict.note(self.name, None, || {
                format!("a segment names producer {}, which does not exist", header.producer)
            });
            return Ok(());
        };
        peer.tally.segment(header.records, segment.body);
        let (found, expected) = (header.sequence, peer.next.unwrap_or(0));
        let producer = self.producers.get(header.producer as usize).map(String::as_str);
        if found > expected {
            self.verdict.lost += found - expected;
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
        if self.check_keys {
            self.check_keys(&segment, producer);
        }
        if let Some(output) = &mut self.output {
            for record in segment.records() {
                output.record(record)?;
            }
        }
        let framing = super::segment::RECORD_HEADER as u64 * u64::from(header.records);
        let content = (segment.body.len() as u64).saturating_sub(framing);
        self.meter.delivered(u64::from(header.records), content);
        Ok(())
    }

    /// Routes every record again, as its producer did.
    fn check_keys(&mut self, segment: &Segment<'_>, producer: Option<&str>) {
        let key = &self.prepared.key;
        for record in segment.records() {
            let target =
                key.key(record).ok().and_then(|bytes| self.prepared.router.tuple(bytes, key.form(), 0).ok());
            if target != Some(self.number) {
                self.verdict.misrouted += 1;
                self.verdict.note(self.name, producer, || {
                    let text = String::from_utf8_lossy(&record[..record.len().min(60)]).into_owned();
                    match target {
                        Some(other) => format!("a record of consumer {other} came here: {text}"),
                        None => format!("a record without a usable key came here: {text}"),
                    }
                });
            }
        }
    }
}
