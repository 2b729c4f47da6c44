//! A program that pops records of a flow, where they lie in its ring.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zsr_api::controller as proto;
use zsr_records::{Combiner, Schema};
use zsr_ring::segment::{Segment, SegmentReadError, SegmentReader};
use zsr_ring::{Consumer, Held, PopError, Ring};

use crate::contact::Contact;
use crate::counts::Counts;
use crate::error::ProgramError;
use crate::flow::{Found, Options, get};
use crate::pu::{self, Pass};
use crate::reach::members_here;
use crate::session::{Session, with_pass};

/// The popping side of one member of a flow.
///
/// One that is dropped before the end of the stream aborts its ring, so that the flow does not wait for it;
/// [`leave`](Self::leave) does not.
pub struct FlowConsumer {
    session: Session,
    flow: String,
    member: String,
    schema: Option<Schema>,
    reader: SegmentReader,
    /// Items whose batches are held.
    held: Held,
    counts: Arc<Counts>,
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
    /// Takes the ring of a consumer of `flow`.
    ///
    /// # Errors
    /// [`ProgramError`]: no system, flow or member of that name, rings taken by others.
    pub fn attach(
        controller: impl Into<Contact>,
        flow: &str,
        options: &Options,
    ) -> Result<Self, ProgramError> {
        let session = Session::shared(controller)?;
        let Found { flow: found, schema, .. } = Found::of(&session, flow, options)?;
        let mut why = None;
        for member in members_here(flow, &found.consumers, options.member.as_deref())? {
            for ring in &member.rings {
                let (socket, name, cancel) = (Path::new(&ring.programs), &ring.name, &options.cancel);
                let attach = |pass: Option<&Pass>| pu::attach_consumer_by(pass, socket, name, cancel.clone());
                let taken = with_pass(|| session.pass(name), attach);
                match taken {
                    Ok(ring) => {
                        let reader = SegmentReader::new(ring);
                        // Of a producer's segments, each consumer of a load balance gets some.
                        let some = found.kind() == proto::FlowKind::LoadBalance;
                        let counts = Arc::<Counts>::default();
                        counts.wait_for("items");
                        return Ok(FlowConsumer {
                            session,
                            flow: flow.to_owned(),
                            member: member.name.clone(),
                            schema,
                            reader: if some { reader.with_gaps() } else { reader },
                            held: Held::default(),
                            counts,
                        });
                    }
                    Err(e) => why = why.or(Some(e)),
                }
            }
        }
        Err(match why {
            Some(e) => e,
            None => ProgramError::Ended {
                flow: flow.to_owned(),
                why: "it has no consumer ring on this machine".to_owned(),
            },
        })
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
        let waited = self.reader.consumer().wait_some();
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
        let waited = self.reader.consumer().wait_timeout(time).map(|view| view.keep());
        self.found(waited)
    }

    /// The newest batch, waiting for one as long as it takes; older ones are popped unread, and [counted](Self::counts). `None` at the
    /// end of the stream. For who wants to know what is so now, such as a price: its ring never fills, however late it looks.
    ///
    /// [`Batch::newest`] is the newest record of all. In a flow of several producers, that is the one that came last, whoever pushed it.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_newest(&mut self) -> Result<Option<Batch<'_>>, ProgramError> {
        self.has_room()?;
        let waited = self.reader.consumer().wait_some();
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
        let waited = self.reader.consumer().wait_timeout(time).map(|view| view.keep());
        self.newest(waited)
    }

    /// The last batch in the ring, if waiting for one has gone well.
    fn newest(&mut self, waited: Result<(), PopError>) -> Result<Popped<'_>, ProgramError> {
        while waited.is_ok() && self.reader.consumer().unread().is_ok_and(|items| items > 1) {
            self.found(Ok(()))?;
        }
        self.found(waited)
    }

    /// Waits for records for `time`, or until it is cancelled.
    ///
    /// # Errors
    /// It was cancelled.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<(), ProgramError> {
        match self.reader.consumer().wait_timeout(time).map(|view| view.keep()) {
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
        match self.reader.consumer().unread() {
            Ok(_) => Ok(Some(true)),
            Err(PopError::Empty) => Ok(Some(false)),
            Err(PopError::Closed) => Ok(None),
            Err(e) => self.found(Err(e)).map(|_| Some(false)),
        }
    }

    /// The next records, waiting for them until `stop` says that there is something else to do. `stop` is asked often.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_unless(&mut self, stop: impl Fn() -> bool) -> Result<Popped<'_>, ProgramError> {
        self.has_room()?;
        let waited = self.reader.consumer().wait_unless(stop);
        self.found(waited)
    }

    /// What is in the ring, if waiting for it has gone well.
    fn found(&mut self, waited: Result<(), PopError>) -> Result<Popped<'_>, ProgramError> {
        let segment = match waited {
            Ok(()) => self.reader.try_next_segment(),
            Err(e) => Err(e.into()),
        };
        match segment {
            Ok(segment) => {
                let (counts, held) = (&*self.counts, &mut self.held);
                Ok(Popped::Batch(Batch { segment: Some(segment), counts, held }))
            }
            Err(SegmentReadError::Ring(PopError::Closed)) => Ok(Popped::End),
            Err(SegmentReadError::Ring(PopError::Empty | PopError::TimedOut)) => Ok(Popped::Nothing),
            Err(SegmentReadError::Ring(e @ PopError::Aborted(_))) => Err(ended(&self.session, &self.flow, e)),
            Err(e) => Err(e.into()),
        }
    }

    /// Gives back the memory of a batch that was [held](Batch::hold). What is held no more, or was not, is passed over.
    pub fn give_back(&mut self, held: &HeldBatch) {
        self.held.give_back(held.number, self.reader.consumer());
    }

    /// How many items are popped and not given back, and how many the ring has. What is given back while something older is
    /// [held](Batch::hold) counts until that is given back, too.
    pub fn held(&mut self) -> (usize, usize) {
        let ring = self.reader.consumer();
        (ring.held(), ring.spec().capacity() as usize)
    }

    /// Its ring, for whoever maps the memory once more.
    pub fn ring(&mut self) -> &Arc<Ring> {
        self.reader.consumer().ring()
    }

    /// Tells the flow at once that this program pops no more, and keeps what is [held](Batch::hold) where it is.
    pub fn abort(&mut self) {
        self.reader.consumer().abort();
    }

    /// Whether more can come before batches that are [held](Batch::hold) are given back.
    ///
    /// # Errors
    /// [`ProgramError::AllHeld`].
    fn has_room(&mut self) -> Result<(), ProgramError> {
        let ring = self.reader.consumer();
        let items = ring.spec().capacity();
        if ring.held() < items as usize {
            return Ok(());
        }
        match ring.peek_at_most(1).map(|view| view.keep()) {
            Err(PopError::Empty) => Err(ProgramError::AllHeld { flow: self.flow.clone(), items }),
            _ => Ok(()),
        }
    }

    /// Leaves: what was not popped, or [kept](Batch::keep), or is [held](Batch::hold), is for the next program.
    pub fn leave(self) {
        Consumer::detach(self.reader.into_consumer());
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
}

/// Records that are popped and still lie in the ring, until they are [given back](FlowConsumer::give_back). For languages whose
/// objects have no lifetimes.
#[derive(Debug)]
pub struct HeldBatch {
    number: u64,
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
        HeldBatch { number, begin, bytes, records, record_size }
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
