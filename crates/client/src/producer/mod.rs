//! A program that pushes records into a flow, and follows it: consumers that join get their share from then on, to those that
//! leave it pushes nothing any more.
//!
//! Records of one program arrive in order at each consumer. While the flow's consumers stay the same, the flow's routing sends
//! equal keys to one consumer; when consumers join or leave, keys are dealt anew from the next record on, so that records
//! of one key before and behind that moment may be at different consumers. A consumer that leaves gets what was pushed to it; what
//! could not be delivered all the same is an error, [`ProgramError::Lost`], after which the program goes on.

mod delivered;
mod follow;
mod lay_out;
mod put;
mod rings;
mod route;

use std::sync::Arc;
use std::time::Duration;

use zsr_api::controller as proto;
use zsr_records::Schema;
use zsr_ring::segment::{HEADER_LEN, LENGTH_LEN, SegmentPushError, SegmentWriter};
use zsr_ring::{Producer, PushError};

use crate::contact::Contact;
use crate::counts::Counts;
use crate::error::{Lost, ProgramError};
use crate::flow::{Found, Options};
use crate::reach::members_here;
use crate::session::Session;
use follow::Follower;
use put::Until;

pub use delivered::Held;
pub use lay_out::Ticket;
pub use put::{To, Wait};
pub use route::KeyRoute;

/// Between two looks at what a change of the flow has come to.
const LOOK: Duration = Duration::from_millis(10);

/// Chooses a consumer: of a record and the number of consumers, a number below that.
pub type Route<'r> = &'r mut dyn FnMut(&[u8], usize) -> Result<usize, String>;

struct Lane {
    ring: String,
    /// Empty for flows in which all consumers share the producer's one ring.
    consumer: String,
    /// Of all rings that this program has taken, which one it is.
    number: u32,
    /// By which number layouts in the ring name the first of the registered regions, if there may be layouts.
    layouts: Option<u32>,
    writer: SegmentWriter,
}

impl Lane {
    /// Pushes the item that has begun. If the ring was aborted meanwhile, the next call finds that out.
    fn send(&mut self) {
        let _ = self.writer.flush();
    }
}

fn wants_latency(flow: &proto::Flow) -> bool {
    flow.settings.as_ref().is_some_and(|settings| settings.hint() == proto::Hint::Latency)
}

/// The pushing side of one member of a flow.
pub struct FlowProducer {
    session: Session,
    follower: Follower,
    flow: String,
    member: String,
    options: Options,
    schema: Option<Schema>,
    kind: proto::FlowKind,
    item_size: u32,
    /// The flow's own routing, or why this program can't compute it. Taken out while it is asked.
    route: Option<Result<KeyRoute, ProgramError>>,
    lanes: Vec<Lane>,
    /// Rings with layouts to consumers that were leaving, and the numbers of their lanes: the switch may still read from them.
    left: Vec<(u32, String)>,
    /// How many rings it has had.
    attached: u32,
    /// Of the flow, when it was last looked at.
    version: u64,
    /// Whether what a call pushes goes at once: the flow's hint, when it was last looked at.
    at_once: bool,
    /// What has not been told yet.
    lost: Vec<Lost>,
    /// Why it can't go on.
    over: Option<String>,
    /// The lane and length of what was reserved last, if nothing has happened since.
    reserved: Option<(usize, usize)>,
    counts: Arc<Counts>,
}

impl FlowProducer {
    /// Takes all rings of a member of `flow`.
    ///
    /// # Errors
    /// [`ProgramError`]: no system, flow or member of that name, rings taken by others.
    pub fn attach(
        controller: impl Into<Contact>,
        flow: &str,
        options: &Options,
    ) -> Result<Self, ProgramError> {
        let stamp_every = Some(options.stamps()?);
        let session = Session::shared(controller)?;
        let Found { flow: found, schema, record_size } = Found::of(&session, flow, options)?;
        let follower = Follower::start(&session, flow, found.newest_event);
        let route = KeyRoute::of(&found, schema.as_ref(), options.record_size);
        let members = members_here(flow, &found.producers, options.member.as_deref())?;
        let mut producer = FlowProducer {
            session,
            follower,
            flow: flow.to_owned(),
            member: String::new(),
            options: Options { record_size, stamp_every, ..options.clone() },
            schema,
            kind: found.kind(),
            item_size: found.item_size,
            route: Some(route),
            lanes: Vec::new(),
            left: Vec::new(),
            attached: 0,
            version: found.version,
            at_once: wants_latency(&found),
            lost: Vec::new(),
            over: None,
            reserved: None,
            counts: Arc::default(),
        };
        let mut why = None;
        for member in members {
            member.name.clone_into(&mut producer.member);
            match producer.take_up(&found, member) {
                Ok(()) => return Ok(producer),
                Err(e) => why = why.or(Some(e)),
            }
            // Rings of a member that it is not to be after all.
            producer.leave_all()?;
        }
        let member = || options.member.clone().unwrap_or_default();
        Err(why.unwrap_or_else(|| ProgramError::NoMember { flow: flow.to_owned(), member: member() }))
    }

    /// The flow's name.
    pub fn flow(&self) -> &str {
        &self.flow
    }

    /// The member that it is.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// What the flow's records are, if it says so. Where they have a size, [`push`](Self::push) takes tuples of that size.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    /// How far it is.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// How many consumers records can be routed to.
    pub fn consumers(&self) -> usize {
        self.lanes.len()
    }

    /// Whether a ring was taken from it since it was last used: its flow was deleted or has failed, or a consumer has left. Asks nobody.
    pub fn has_lost_a_ring(&self) -> bool {
        self.lanes.iter().any(|lane| lane.writer.is_aborted())
    }

    /// Of which kind the flow is.
    pub fn kind(&self) -> proto::FlowKind {
        self.kind
    }

    /// Bytes of the longest record of any length.
    pub fn max_record(&self) -> usize {
        (self.item_size as usize).saturating_sub(HEADER_LEN + LENGTH_LEN)
    }

    /// Bytes of the longest record of any length that goes into the item that has begun for this consumer; 0 if none has.
    pub fn left(&self, consumer: usize) -> usize {
        self.lanes.get(consumer).map_or(0, |lane| lane.writer.left())
    }

    /// A number of the ring to this consumer that no other ring of this producer has or had: of two calls that answer differently,
    /// consumers have joined or left in between. `None` if there is no such consumer.
    pub fn ring(&self, consumer: usize) -> Option<u32> {
        self.lanes.get(consumer).map(|lane| lane.number)
    }

    /// Pushes a record to the consumer that the flow's routing says, by the record's key, waiting for room as long as it takes.
    /// Columns of lines of text are divided by commas, as `zsr produce` has it if it is told nothing else.
    ///
    /// # Errors
    /// [`ProgramError`]: the flow has failed, the record has no key or no such consumer, it is too long, cancelled. The record was
    /// not taken then, nor with [`ProgramError::Lost`], which is about records before it: push it again.
    pub fn push(&mut self, record: &[u8]) -> Result<(), ProgramError> {
        self.push_to(record, To::Key, Wait::Forever).map(|_| ())
    }

    /// Pushes a record to the consumer that `route` chooses, whatever the flow's routing is, waiting for room as long as it takes.
    /// Consumers are numbered in the flow's order. `route` is asked again when consumers join or leave meanwhile.
    ///
    /// It is for records that come one after the other, as in a file: an item that has begun stays open until it is full or
    /// [`flush`](Self::flush) is called, whatever the flow's hint.
    ///
    /// # Errors
    /// As [`push`](Self::push), or `route` has refused.
    pub fn push_by(&mut self, record: &[u8], route: Route<'_>) -> Result<(), ProgramError> {
        let choose = |lanes: &[Lane]| if lanes.len() == 1 { Ok(0) } else { route(record, lanes.len()) };
        self.at_lane(choose, Until::after(Wait::Forever), |writer, _| writer.try_push(record))?;
        self.counts.add(1, record.len() as u64);
        Ok(())
    }

    /// Pushes what is kept to fill items. In a flow with the hint `latency` only [`push_by`](Self::push_by) keeps anything.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn flush(&mut self) -> Result<(), ProgramError> {
        self.flush_all()?;
        self.tell_losses()
    }

    fn flush_all(&mut self) -> Result<(), ProgramError> {
        self.reserved = None;
        self.refresh()?;
        let mut lane = 0;
        while let Some(to) = self.lanes.get_mut(lane) {
            match to.writer.flush() {
                Err(SegmentPushError::Ring(PushError::Aborted(_))) => {
                    self.given_up(lane)?;
                    // The lanes are others now, and those that were flushed have nothing to flush.
                    lane = 0;
                }
                done => {
                    done?;
                    lane += 1;
                }
            }
        }
        Ok(())
    }

    /// Ends the stream. Everything pushed is still delivered.
    ///
    /// # Errors
    /// As [`push`](Self::push). The stream has ended also with [`ProgramError::Lost`].
    pub fn close(mut self) -> Result<(), ProgramError> {
        self.flush_all()?;
        let mut ended: Vec<String> = Vec::new();
        loop {
            for lane in std::mem::take(&mut self.lanes) {
                if lane.writer.is_aborted() {
                    self.lose(lane);
                    continue;
                }
                ended.push(lane.ring);
                lane.writer.close()?;
            }
            // A consumer that has joined meanwhile is told the end, too.
            let Ok(flow) = self.ask() else { return self.tell_losses() };
            let Some(member) = flow.producers.iter().find(|m| m.name == self.member) else {
                return self.tell_losses();
            };
            let mut waits = false;
            for ring in &member.rings {
                if ended.contains(&ring.name) {
                    continue;
                }
                match self.take(ring, "") {
                    // Nobody can take it until its consumer has left, or stays after all.
                    Err(ProgramError::Ring(_)) if self.is_going(&ring.name) => waits = true,
                    // The controller has ended it in our place, or the ring is gone again.
                    Ok(()) | Err(ProgramError::Ring(_)) => ended.push(ring.name.clone()),
                    Err(e) => return Err(e),
                }
            }
            if self.lanes.is_empty() && (!waits || self.options.cancel.sleep(LOOK)) {
                return self.tell_losses();
            }
        }
    }

    /// Leaves without ending the stream: what was pushed is delivered, and another program can go on.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn leave(mut self) -> Result<(), ProgramError> {
        self.leave_all()?;
        self.tell_losses()
    }

    fn leave_all(&mut self) -> Result<(), ProgramError> {
        std::mem::take(&mut self.lanes).into_iter().try_for_each(|lane| self.leave_ring(lane))
    }

    /// Another program can go on; a ring that was given up has nobody to go on.
    fn leave_ring(&mut self, mut lane: Lane) -> Result<(), ProgramError> {
        lane.writer.flush()?;
        if lane.writer.is_aborted() {
            self.lose(lane);
            return Ok(());
        }
        if lane.layouts.is_some() {
            self.left.push((lane.number, lane.ring));
        }
        Ok(lane.writer.into_producer().map(Producer::detach)?)
    }

    /// A ring is gone, and what it held.
    fn lose(&mut self, lane: Lane) {
        let records = lane.writer.abandon();
        if records > 0 {
            self.lost.push(Lost { ring: lane.ring, consumer: lane.consumer, records });
        }
    }

    fn tell_losses(&mut self) -> Result<(), ProgramError> {
        if self.lost.is_empty() {
            return Ok(());
        }
        Err(ProgramError::Lost { flow: self.flow.clone(), lost: std::mem::take(&mut self.lost) })
    }

    fn ended(&self, why: &str) -> ProgramError {
        let lost = self.lanes.iter().map(|lane| lane.writer.untaken()).sum::<u64>()
            + self.lost.iter().map(|lost| lost.records).sum::<u64>();
        let lost =
            if lost > 0 { format!("; {lost} records that were pushed are lost") } else { String::new() };
        ProgramError::Ended { flow: self.flow.clone(), why: format!("{why}{lost}") }
    }
}
