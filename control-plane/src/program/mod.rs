//! A program that pushes records into a flow, and follows it: consumers that join get their share from then on, to those that
//! leave it pushes nothing any more. What `zsr produce` is made of, and any program of its own can be.
//!
//! ```no_run
//! use zsr_control_plane::process::Place;
//! use zsr_control_plane::program::{FlowProducer, Options};
//!
//! let mut flow = FlowProducer::attach(&Place::find(None)?, "rows", &Options::default())?;
//! flow.push(b"to the consumer that a function of the program's own chooses", &mut |record, consumers| {
//!     Ok(record.len() % consumers)
//! })?;
//! flow.push(b"to the second one", &mut |_, _| Ok(1))?;
//! flow.close()?;
//! # Ok::<(), zsr_control_plane::program::ProgramError>(())
//! ```
//!
//! Records of one program arrive in order at each consumer. While the flow's consumers stay the same, a function of the record
//! sends equal keys to one consumer; when consumers join or leave, keys are dealt anew from the next record on, so that records
//! of one key before and behind that moment may be at different consumers.

mod follow;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::cli::client::{ClientError, Session};
use crate::controller::proto;
use crate::process::{Place, PlaceError};
use crate::tuples::{Schema, SchemaTextError};
use follow::Follower;
use tonic::Code;
use zsr_host_agent::pu::{self, PuError};
use zsr_host_agent::ring::{Cancel, Producer, PushError};
use zsr_host_agent::segment::{SegmentConfig, SegmentPushError, SegmentSetupError, SegmentWriter};

/// How long a ring that was given up may stay in the flow: the controller's change is about to end.
const CHANGE: Duration = Duration::from_secs(10);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(10);

/// What a program says when it attaches.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which member of the flow to be; `None`: the first whose rings are free.
    pub member: Option<String>,
    /// Bytes of a record; `None`: those of the flow's tuples, or they differ.
    pub record_size: Option<u32>,
    /// Ends blocking calls.
    pub cancel: Cancel,
}

/// A program could not push.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No system.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The controller.
    #[error(transparent)]
    Controller(#[from] ClientError),
    /// A ring.
    #[error(transparent)]
    Ring(#[from] PuError),
    /// The flow has no such member.
    #[error("flow `{flow}` has no such member `{member}`")]
    NoMember {
        /// The flow.
        flow: String,
        /// The member asked for.
        member: String,
    },
    /// The program's records are not the flow's.
    #[error("flow `{flow}` has tuples ({schema}), {size}: not records of {asked} B")]
    Tuples {
        /// The flow.
        flow: String,
        /// What it carries.
        schema: String,
        /// How many bytes these have.
        size: String,
        /// What the program wants to push.
        asked: u32,
    },
    /// The flow's schema is not known to this version.
    #[error("flow `{flow}`: {why}")]
    Schema {
        /// The flow.
        flow: String,
        /// What is not known.
        why: SchemaTextError,
    },
    /// Records do not fit into the flow's items.
    #[error(transparent)]
    Records(#[from] SegmentSetupError),
    /// A push.
    #[error(transparent)]
    Push(#[from] SegmentPushError),
    /// The flow has failed, or the program's member is not in it any more.
    #[error("flow `{flow}`: {why}")]
    Ended {
        /// The flow.
        flow: String,
        /// What became of it.
        why: String,
    },
    /// At a barrier.
    #[error("barrier `{name}`: not all {participants} participants came within {} s", .after.as_secs_f64())]
    Alone {
        /// The barrier.
        name: String,
        /// Who had to come.
        participants: u32,
        /// How long was waited.
        after: Duration,
    },
    /// The function that chooses a consumer.
    #[error("{0}")]
    Route(String),
}

impl ProgramError {
    /// Whether a [`Cancel`] has ended the call.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, ProgramError::Push(SegmentPushError::Ring(PushError::Cancelled)))
    }
}

/// Chooses a consumer: of a record and the number of consumers, a number below that.
pub type Route<'r> = &'r mut dyn FnMut(&[u8], usize) -> Result<usize, String>;

struct Lane {
    ring: String,
    /// Empty for flows in which all consumers share the producer's one ring.
    consumer: String,
    writer: SegmentWriter,
}

/// The pushing side of one member of a flow.
pub struct FlowProducer {
    session: Session,
    follower: Follower,
    flow: String,
    member: String,
    options: Options,
    schema: Option<Schema>,
    lanes: Vec<Lane>,
    /// How many rings it has had.
    attached: u32,
}

impl FlowProducer {
    /// Takes all rings of a member of `flow`.
    ///
    /// # Errors
    /// [`ProgramError`]: no system, flow or member of that name, rings taken by others.
    pub fn attach(place: &Place, flow: &str, options: &Options) -> Result<Self, ProgramError> {
        // Followed before it is looked at, so that no change is missed.
        let follower = Follower::start(place, flow);
        let session = Session::open(place)?;
        let found = get(&session, flow)?;
        let schema = schema_of(&found)?;
        let record_size = check_size(&found, schema.as_ref(), options.record_size)?;
        let mut producer = FlowProducer {
            session,
            follower,
            flow: flow.to_owned(),
            member: String::new(),
            options: Options { record_size, ..options.clone() },
            schema,
            lanes: Vec::new(),
            attached: 0,
        };
        let mut why = None;
        let wanted = |m: &&proto::FlowMember| options.member.as_ref().is_none_or(|name| *name == m.name);
        for member in found.producers.iter().filter(wanted) {
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

    /// The member that it is.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// What the flow's records are, if it says so. Where they have a size, [`push`](Self::push) takes tuples of that size.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    /// How many consumers records can be routed to.
    pub fn consumers(&self) -> usize {
        self.lanes.len()
    }

    /// Pushes a record to the consumer that `route` chooses, waiting for room as long as it takes. Consumers are numbered in the
    /// flow's order.
    ///
    /// # Errors
    /// [`ProgramError`]: the flow has failed, `route` has refused, the record is too long, cancelled.
    pub fn push(&mut self, record: &[u8], route: Route<'_>) -> Result<(), ProgramError> {
        loop {
            if self.follower.has_news() {
                self.refresh()?;
            }
            let consumers = self.lanes.len();
            let lane =
                if consumers == 1 { 0 } else { route(record, consumers).map_err(ProgramError::Route)? };
            let Some(to) = self.lanes.get_mut(lane) else {
                let why = format!("consumer {lane} was chosen, there are {consumers}, from 0");
                return Err(ProgramError::Route(why));
            };
            match to.writer.push(record) {
                Err(SegmentPushError::Ring(PushError::Aborted(_))) => self.given_up(lane)?,
                done => return Ok(done?),
            }
        }
    }

    /// Pushes what is kept to fill items.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn flush(&mut self) -> Result<(), ProgramError> {
        if self.follower.has_news() {
            self.refresh()?;
        }
        let mut lane = 0;
        while lane < self.lanes.len() {
            match self.lanes[lane].writer.flush() {
                // Its consumer was taken out of the flow, and what was for it is lost with it.
                Err(SegmentPushError::Ring(PushError::Aborted(_))) => self.given_up(lane)?,
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
    /// As [`push`](Self::push).
    pub fn close(mut self) -> Result<(), ProgramError> {
        self.flush()?;
        let mut ended: Vec<String> = Vec::new();
        loop {
            for lane in self.lanes.drain(..) {
                ended.push(lane.ring);
                match lane.writer.close() {
                    // Its consumer was taken out of the flow.
                    Err(SegmentPushError::Ring(PushError::Aborted(_))) => {}
                    done => done?,
                }
            }
            // A consumer that has joined meanwhile is told the end, too.
            let Ok(flow) = get(&self.session, &self.flow) else { return Ok(()) };
            let Some(member) = flow.producers.iter().find(|m| m.name == self.member) else { return Ok(()) };
            for ring in &member.rings {
                if ended.contains(&ring.name) {
                    continue;
                }
                match self.take(ring, "") {
                    // The controller has ended it in our place, or the ring is gone again.
                    Ok(()) | Err(ProgramError::Ring(_)) => ended.push(ring.name.clone()),
                    Err(e) => return Err(e),
                }
            }
            if self.lanes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Leaves without ending the stream: what was pushed is delivered, and another program can go on.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn leave(mut self) -> Result<(), ProgramError> {
        self.leave_all()
    }

    fn leave_all(&mut self) -> Result<(), ProgramError> {
        self.lanes.drain(..).try_for_each(|lane| Ok(leave(lane.writer)?))
    }

    /// Brings the rings to what the flow is now.
    fn refresh(&mut self) -> Result<(), ProgramError> {
        let flow = match get(&self.session, &self.flow) {
            Ok(flow) => flow,
            Err(ClientError::Refused { message, code: Code::NotFound }) => return Err(self.ended(message)),
            // Flows outlive their controller; its successor has news for the follower.
            Err(_) => return Ok(()),
        };
        self.adapt(&flow)
    }

    fn adapt(&mut self, flow: &proto::Flow) -> Result<(), ProgramError> {
        if flow.state() == proto::FlowState::Failed {
            return Err(self.ended(format!("it has failed: {}", flow.reason)));
        }
        let Some(member) = flow.producers.iter().find(|m| m.name == self.member) else {
            return Err(self.ended(format!("member `{}` was taken out of it", self.member)));
        };
        self.take_up(flow, member)
    }

    /// Takes rings that are new, leaves those to consumers that leave, forgets those that are gone.
    fn take_up(&mut self, flow: &proto::Flow, member: &proto::FlowMember) -> Result<(), ProgramError> {
        let per_consumer = flow.kind() == proto::FlowKind::Shuffle;
        let mut before = std::mem::take(&mut self.lanes);
        for (at, ring) in member.rings.iter().enumerate() {
            let consumer = flow.consumers.get(at).filter(|_| per_consumer);
            let had = before.iter().position(|lane| lane.ring == ring.name).map(|at| before.swap_remove(at));
            match (had, consumer.is_some_and(|c| c.leaving)) {
                (Some(lane), false) => self.lanes.push(lane),
                (Some(lane), true) => leave(lane.writer)?,
                (None, true) => {}
                (None, false) => match self.take(ring, consumer.map_or("", |c| &c.name)) {
                    Err(ProgramError::Ring(_)) if self.is_gone(&ring.name) => {}
                    done => done?,
                },
            }
        }
        Ok(())
    }

    /// Whether a ring has left the flow meanwhile.
    fn is_gone(&self, ring: &str) -> bool {
        let rings = |f: &proto::Flow| f.producers.iter().flat_map(|m| &m.rings).any(|r| r.name == ring);
        get(&self.session, &self.flow).is_ok_and(|flow| !rings(&flow))
    }

    fn take(&mut self, ring: &proto::Ring, consumer: &str) -> Result<(), ProgramError> {
        let producer =
            pu::attach_producer(Path::new(&ring.programs), &ring.name, self.options.cancel.clone())?;
        // Numbers of its own for each ring that it takes, so that a successor's are not taken for gaps.
        let number = std::process::id() ^ self.attached << 22;
        self.attached = self.attached.wrapping_add(1);
        let config = SegmentConfig { producer: number, ..SegmentConfig::default() };
        let writer = match self.options.record_size {
            Some(size) => SegmentWriter::tuples(producer, config, size)?,
            None => SegmentWriter::records(producer, config)?,
        };
        self.lanes.push(Lane { ring: ring.name.clone(), consumer: consumer.to_owned(), writer });
        Ok(())
    }

    /// A ring was given up: its consumer was taken out of the flow, whose next state says so, or the flow has failed.
    fn given_up(&mut self, lane: usize) -> Result<(), ProgramError> {
        let Lane { ring, consumer, .. } = self.lanes.remove(lane);
        let begun = Instant::now();
        while begun.elapsed() < CHANGE && !self.options.cancel.is_cancelled() {
            let flow = match get(&self.session, &self.flow) {
                Ok(flow) => flow,
                Err(ClientError::Refused { message, code: Code::NotFound }) => return Err(self.ended(message)),
                Err(ClientError::Lost(_)) => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                Err(e) => return Err(e.into()),
            };
            let member = flow.producers.iter().find(|m| m.name == self.member);
            if member.is_none_or(|m| m.rings.iter().all(|r| r.name != ring))
                || flow.state() == proto::FlowState::Failed
            {
                return self.adapt(&flow);
            }
            std::thread::sleep(LOOK);
        }
        Err(self.ended(format!("ring `{ring}` to consumer `{consumer}` was given up")))
    }

    fn ended(&self, why: String) -> ProgramError {
        ProgramError::Ended { flow: self.flow.clone(), why }
    }
}

/// Waits until as many programs as `participants`, on any hosts of the system, wait at the barrier `name`.
///
/// # Errors
/// [`ProgramError`]: no system, `timeout` is over, others wait there for another number, the controller ends.
pub fn barrier(
    place: &Place,
    name: &str,
    participants: u32,
    timeout: Option<Duration>,
) -> Result<(), ProgramError> {
    let session = Session::open(place)?;
    let request = proto::BarrierRequest { name: name.to_owned(), participants };
    let met = session
        .call_within(timeout.unwrap_or(Duration::MAX), |mut c| async move { c.barrier(request).await });
    match met {
        Ok(_) => Ok(()),
        Err(ClientError::Late { after }) => {
            Err(ProgramError::Alone { name: name.to_owned(), participants, after })
        }
        Err(e) => Err(e.into()),
    }
}

/// What records of `flow` are, if it says so.
///
/// # Errors
/// [`ProgramError::Schema`].
pub(crate) fn schema_of(flow: &proto::Flow) -> Result<Option<Schema>, ProgramError> {
    if flow.schema.is_empty() {
        return Ok(None);
    }
    let schema = Schema::parse(&flow.schema);
    schema.map(Some).map_err(|why| ProgramError::Schema { flow: flow.name.clone(), why })
}

/// The size that a program's records have, which asks for `asked`.
///
/// # Errors
/// [`ProgramError::Tuples`].
pub(crate) fn check_size(
    flow: &proto::Flow,
    schema: Option<&Schema>,
    asked: Option<u32>,
) -> Result<Option<u32>, ProgramError> {
    let Some(schema) = schema else { return Ok(asked) };
    match (schema.tuple_size(), asked) {
        (size, None) => Ok(size),
        (Some(size), Some(asked)) if size == asked => Ok(Some(size)),
        (size, Some(asked)) => Err(ProgramError::Tuples {
            flow: flow.name.clone(),
            schema: flow.schema.clone(),
            size: size.map_or("lines of any length".into(), |s| format!("{s} B each")),
            asked,
        }),
    }
}

fn get(session: &Session, flow: &str) -> Result<proto::Flow, ClientError> {
    let request = proto::GetFlowRequest { name: flow.to_owned() };
    session.call(|mut c| async move { c.get_flow(request).await })
}

/// Another program can go on; a ring that was given up has nobody to go on.
fn leave(writer: SegmentWriter) -> Result<(), SegmentPushError> {
    match writer.into_producer().map(Producer::detach) {
        Err(SegmentPushError::Ring(PushError::Aborted(_))) => Ok(()),
        done => done,
    }
}
