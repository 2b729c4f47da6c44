//! A program that pops records of a flow, where they lie in its ring.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zsr_api::controller as proto;
use zsr_records::{Combiner, Schema};
use zsr_ring::segment::{Segment, SegmentReadError};
use zsr_ring::{Held, PopError, Ring};

use crate::contact::Contact;
use crate::counts::Counts;
use crate::error::ProgramError;
use crate::flow::{Found, Options, get};
use crate::lanes::{Lanes, Look};
use crate::layouts::Registered;
use crate::reach::members_here;
use crate::session::Session;

/// The popping side of one member of a flow.
///
/// One that is dropped before the end of the stream aborts its ring, so that the flow does not wait for it;
/// [`leave`](Self::leave) does not.
pub struct FlowConsumer {
    session: Session,
    flow: String,
    member: String,
    schema: Option<Schema>,
    pub(crate) lanes: Lanes,
    pub(crate) counts: Arc<Counts>,
}

/// What a pop that does not wait for ever finds.
pub enum Popped<'c> {
    /// Records.
    Batch(Batch<'c>),
    /// None now.
    Nothing,
    /// The end of the stream: all producers have closed, and all is popped.
    End,
}

impl FlowConsumer {
    /// Takes all rings of a consumer of `flow`.
    ///
    /// # Errors
    /// [`ProgramError`]: no system, flow or member of that name, rings taken by others.
    pub fn attach(
        controller: impl Into<Contact>,
        flow: &str,
        options: &Options,
    ) -> Result<Self, ProgramError> {
        Self::attach_with(controller.into(), flow, options, &[]).map(|(consumer, _)| consumer)
    }

    /// As [`attach`](Self::attach), with memory that layouts name. Says what the flow is, too.
    pub(crate) fn attach_with(
        controller: Contact,
        flow: &str,
        options: &Options,
        registered: &[Registered],
    ) -> Result<(Self, proto::Flow), ProgramError> {
        let session = Session::shared(controller)?;
        let Found { flow: found, schema, .. } = Found::of(&session, flow, options)?;
        let mut why = None;
        for member in members_here(flow, &found.consumers, options.member.as_deref())? {
            match Lanes::take(&session, &found, member, options, registered) {
                Ok(lanes) => {
                    let counts = Arc::<Counts>::default();
                    counts.wait_for("items");
                    let (flow, member) = (flow.to_owned(), member.name.clone());
                    let consumer = FlowConsumer { session, flow, member, schema, lanes, counts };
                    return Ok((consumer, found));
                }
                Err(e) => why = why.or(Some(e)),
            }
        }
        let none = || ProgramError::Ended {
            flow: flow.to_owned(),
            why: "it has no consumer on this machine".to_owned(),
        };
        Err(why.unwrap_or_else(none))
    }

    /// The flow's name.
    pub fn flow(&self) -> &str {
        &self.flow
    }

    /// The member that it is.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// What the flow's records are, if it says so. Where they have a size, records are tuples of that size.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    /// How far it is: what batches held that were dropped, and what of others was not kept.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// The next records, waiting for them as long as it takes; `None` at the end of the stream: all producers have closed, and
    /// all is popped.
    ///
    /// # Errors
    /// [`ProgramError`]: cancelled, the flow has failed, its member was taken out, or, after which popping may go on, what came is
    /// no segment or does not follow the last one ([`ProgramError::Pop`]).
    pub fn pop(&mut self) -> Result<Option<Batch<'_>>, ProgramError> {
        self.has_room()?;
        let waited = self.lanes.wait(|| false, None);
        match self.found(waited)? {
            Popped::Batch(batch) => Ok(Some(batch)),
            Popped::Nothing | Popped::End => Ok(None),
        }
    }

    /// Pops until the end of the stream, and gives all records to `combiner`, where they lie. `combiner` keeps what it was given before an
    /// error.
    ///
    /// # Errors
    /// As [`pop`](Self::pop), and [`ProgramError::Combine`]: records are not of the size of the combiner's tuples.
    pub fn combine(&mut self, combiner: &mut Combiner) -> Result<(), ProgramError> {
        let flow = self.flow.clone();
        while let Some(batch) = self.pop()? {
            let (records, size) = batch.as_they_lie();
            let mut done = 0;
            let taken = match size {
                Some(_) => combiner.add(records),
                // What is behind a record that can't be read can't be, either: the next pop says so.
                None => batch.records().flatten().try_for_each(|record| {
                    combiner.add(record)?;
                    done += 1;
                    Ok(())
                }),
            };
            if let Err(why) = taken {
                batch.keep(done);
                return Err(ProgramError::Combine { flow, why });
            }
        }
        Ok(())
    }

    /// The next records if there are some now.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn try_pop(&mut self) -> Result<Popped<'_>, ProgramError> {
        self.has_room()?;
        self.found(Ok(()))
    }

    /// The next records, waiting for them for `time`.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_timeout(&mut self, time: Duration) -> Result<Popped<'_>, ProgramError> {
        self.has_room()?;
        let waited = self.lanes.wait(|| false, Instant::now().checked_add(time));
        self.found(waited)
    }

    /// The newest batch, waiting for one as long as it takes; older ones are popped unread, and [counted](Self::counts). `None` at the
    /// end of the stream. For who wants to know what is so now, such as a price: its ring never fills, however late it looks.
    ///
    /// [`Batch::newest`] is the newest record of all. In a flow of several producers, that is the one that came last, whoever pushed it;
    /// in one with [lanes](Self::lanes), the one that came last by one of them, and by another with the next call.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_newest(&mut self) -> Result<Option<Batch<'_>>, ProgramError> {
        self.has_room()?;
        let waited = self.lanes.wait(|| false, None);
        match self.newest(waited)? {
            Popped::Batch(batch) => Ok(Some(batch)),
            Popped::Nothing | Popped::End => Ok(None),
        }
    }

    /// As [`pop_newest`](Self::pop_newest), waiting for a batch for `time`.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_newest_timeout(&mut self, time: Duration) -> Result<Popped<'_>, ProgramError> {
        self.has_room()?;
        let waited = self.lanes.wait(|| false, Instant::now().checked_add(time));
        self.newest(waited)
    }

    /// The last batch of a lane, if waiting for one has gone well.
    fn newest(&mut self, waited: Result<(), PopError>) -> Result<Popped<'_>, ProgramError> {
        if waited.is_ok() {
            for lane in 0..self.lanes.count() {
                while self.lanes.at(lane).reader.consumer().unread().is_ok_and(|items| items > 1) {
                    self.found_at(lane)?;
                }
            }
        }
        self.found(waited)
    }

    /// Waits for records for `time`, or until it is cancelled.
    ///
    /// # Errors
    /// It was cancelled.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<(), ProgramError> {
        match self.lanes.wait(|| false, Instant::now().checked_add(time)) {
            Err(e @ PopError::Cancelled) => Err(SegmentReadError::from(e).into()),
            // The next look says what there is.
            _ => Ok(()),
        }
    }

    /// Whether there are records now; `None` at the end of the stream.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub(crate) fn has_some(&mut self) -> Result<Option<bool>, ProgramError> {
        self.has_room()?;
        match self.lanes.look() {
            Look::Nothing => Ok(Some(false)),
            Look::End => Ok(None),
            Look::At(lane) => match self.lanes.at(lane).reader.consumer().unread() {
                Ok(_) => Ok(Some(true)),
                Err(e) => Err(self.failed(e.into())),
            },
        }
    }

    /// The next records, waiting for them until `stop` says that there is something else to do, or `end` is over. `stop` is asked every
    /// few milliseconds, and whenever the [ring](Self::ring) is [nudged](Ring::nudge).
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_unless(
        &mut self,
        stop: impl Fn() -> bool,
        end: Option<Instant>,
    ) -> Result<Popped<'_>, ProgramError> {
        self.has_room()?;
        let waited = self.lanes.wait(stop, end);
        self.found(waited)
    }

    /// What is in a ring, if waiting for it has gone well.
    fn found(&mut self, waited: Result<(), PopError>) -> Result<Popped<'_>, ProgramError> {
        match waited {
            Ok(()) if self.lanes.count() == 1 => self.found_at(0),
            Ok(()) => match self.lanes.look() {
                Look::At(lane) => self.found_at(lane),
                Look::Nothing => Ok(Popped::Nothing),
                Look::End => Ok(Popped::End),
            },
            Err(PopError::Closed) => Ok(Popped::End),
            Err(e) => Err(self.failed(e.into())),
        }
    }

    /// What is in this lane, where something is.
    fn found_at(&mut self, at: usize) -> Result<Popped<'_>, ProgramError> {
        let lane = self.lanes.at(at);
        match lane.reader.try_next_segment() {
            Ok(segment) => {
                let (counts, held) = (&*self.counts, &mut lane.held);
                Ok(Popped::Batch(Batch { segment: Some(segment), counts, held, lane: at }))
            }
            Err(SegmentReadError::Ring(PopError::Closed)) => Ok(Popped::End),
            Err(SegmentReadError::Ring(PopError::Empty)) => Ok(Popped::Nothing),
            Err(e) => Err(failed(&self.session, &self.flow, e)),
        }
    }

    pub(crate) fn failed(&self, e: SegmentReadError) -> ProgramError {
        failed(&self.session, &self.flow, e)
    }

    /// Gives back the memory of a batch that was [held](Batch::hold). What is held no more, or was not, is passed over.
    pub fn give_back(&mut self, held: &HeldBatch) {
        let lane = self.lanes.at(held.lane);
        lane.held.give_back(held.number, lane.reader.consumer());
    }

    /// How many items are popped and not given back, and how many the ring has. What is given back while something older is
    /// [held](Batch::hold) counts until that is given back, too. Of several lanes, those of the one with the most.
    pub fn held(&mut self) -> (usize, usize) {
        let held = self.lanes.consumers().map(|ring| (ring.held(), ring.spec().capacity() as usize));
        held.max().unwrap_or_default()
    }

    /// How many rings it has. A flow with lanes has several for each consumer, and each is filled from some of the producers. Records
    /// of one producer come in order; the lanes are read in turns.
    pub fn lanes(&self) -> usize {
        self.lanes.count()
    }

    /// Its ring, for whoever maps the memory once more; none where it has several.
    pub fn ring(&mut self) -> Option<&Arc<Ring>> {
        match self.lanes.count() {
            1 => Some(self.lanes.at(0).reader.consumer().ring()),
            _ => None,
        }
    }

    /// Tells the flow at once that this program pops no more, and keeps what is [held](Batch::hold) where it is.
    pub fn abort(&mut self) {
        self.lanes.abort();
    }

    /// Whether more can come before batches that are [held](Batch::hold) are given back.
    ///
    /// # Errors
    /// [`ProgramError::AllHeld`].
    fn has_room(&mut self) -> Result<(), ProgramError> {
        for ring in self.lanes.consumers() {
            let items = ring.spec().capacity();
            if ring.held() < items as usize {
                continue;
            }
            if let Err(PopError::Empty) = ring.peek_at_most(1).map(|view| view.keep()) {
                return Err(ProgramError::AllHeld { flow: self.flow.clone(), items });
            }
        }
        Ok(())
    }

    /// Leaves: what was not popped, or [kept](Batch::keep), or is [held](Batch::hold), is for the next program.
    pub fn leave(self) {
        self.lanes.leave();
    }
}

fn failed(session: &Session, flow: &str, e: SegmentReadError) -> ProgramError {
    match e {
        SegmentReadError::Ring(e @ PopError::Aborted(_)) => ended(session, flow, e),
        e => e.into(),
    }
}

/// What became of the flow whose ring says `e`, which is all that a ring can say.
fn ended(session: &Session, flow: &str, e: PopError) -> ProgramError {
    let why = match get(session, flow) {
        Ok(found) if found.state() == proto::FlowState::Failed => {
            return ProgramError::Failed { flow: flow.to_owned(), reason: found.reason };
        }
        Ok(_) => format!("{e}: its member was taken out, or lost its agent"),
        Err(why) => format!("{e}: {why}"),
    };
    ProgramError::Ended { flow: flow.to_owned(), why }
}

/// Records that lie side by side in the ring. Dropping it gives their room back.
pub struct Batch<'c> {
    /// There until it is dropped or kept.
    segment: Option<Segment<'c>>,
    counts: &'c Counts,
    held: &'c mut Held,
    lane: usize,
}

/// Records that are popped and still lie in the ring, until they are [given back](FlowConsumer::give_back). For languages whose
/// objects have no lifetimes.
#[derive(Debug)]
pub struct HeldBatch {
    number: u64,
    /// The lane whose ring its records lie in.
    lane: usize,
    /// The first record's first byte, or that of its length. It can be read until the batch is given back or the consumer is dropped.
    pub begin: *const u8,
    /// How many bytes.
    pub bytes: usize,
    /// How many records.
    pub records: usize,
    /// Bytes of each record, which lie side by side; `None`: each lies behind its length, which is a `u32`, little-endian.
    pub record_size: Option<u32>,
}

impl Batch<'_> {
    /// How many records.
    pub fn len(&self) -> usize {
        self.segment.as_ref().map_or(0, Segment::len)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records in the order in which they were pushed, where they lie. An error is the last: what is behind it can't be read.
    pub fn records(&self) -> impl Iterator<Item = Result<&[u8], ProgramError>> {
        let records = self.segment.as_ref().map(Segment::records);
        records.into_iter().flatten().map(|record| record.map_err(ProgramError::from))
    }

    /// The record that was pushed last.
    ///
    /// # Errors
    /// It can't be read.
    pub fn newest(&self) -> Result<Option<&[u8]>, ProgramError> {
        self.records().last().transpose()
    }

    /// The records as they lie in the ring, side by side and of this size; where there is none, each behind its length, which is
    /// a `u32`, little-endian.
    pub fn as_they_lie(&self) -> (&[u8], Option<u32>) {
        self.segment.as_ref().map_or((&[], None), Segment::as_they_lie)
    }

    /// Takes the records out of the stream; others can be popped while they are read where they lie. Their room is not given back
    /// before [`FlowConsumer::give_back`].
    pub fn hold(mut self) -> HeldBatch {
        let ((bytes, record_size), records) = (self.as_they_lie(), self.len());
        let (begin, bytes) = (bytes.as_ptr(), bytes.len());
        let mut number = 0;
        if let Some(segment) = self.segment.take() {
            self.counts.add(records as u64, segment.record_bytes() as u64);
            number = segment.hold();
            self.held.add(number);
        }
        HeldBatch { number, lane: self.lane, begin, bytes, records, record_size }
    }

    /// Leaves the batch in the ring without the first `done` of its records: the others come next again, here or at the next
    /// program.
    pub fn keep(mut self, done: usize) {
        if let Some(segment) = self.segment.take() {
            let bytes = segment.records().take(done).flatten().map(<[u8]>::len).sum::<usize>();
            self.counts.add(done as u64, bytes as u64);
            segment.keep(u32::try_from(done).unwrap_or(u32::MAX));
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if let Some(segment) = &self.segment {
            self.counts.add(segment.len() as u64, segment.record_bytes() as u64);
        }
    }
}
