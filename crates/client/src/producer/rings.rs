//! A producer's rings follow its flow: those to consumers that join are taken, those to consumers that leave are left.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use zsr_api::controller as proto;
use zsr_ring::AttachError;
use zsr_ring::segment::{SegmentConfig, SegmentWriter};

use super::follow::News;
use super::{FlowProducer, LOOK, Lane, wants_latency};
use crate::error::ProgramError;
use crate::flow::get;
use crate::pu::{self, Pass, PuError};
use crate::session::{ClientError, with_pass};

/// How long a ring that was given up may stay in the flow: the controller's change is about to end. So long may the controller
/// be away when it has to be asked.
const CHANGE: Duration = Duration::from_secs(10);
/// Between two questions what it has become.
const ASK: Duration = Duration::from_millis(100);

impl FlowProducer {
    /// Brings the rings to what the flow is now. Says whether they are others.
    pub(super) fn refresh(&mut self) -> Result<bool, ProgramError> {
        if let Some(why) = &self.over {
            return Err(self.ended(why));
        }
        let Some(news) = self.follower.take() else { return Ok(false) };
        let before = (self.attached, self.lanes.len());
        let done = self.hear(&news);
        self.catch_up(done)?;
        Ok(before != (self.attached, self.lanes.len()))
    }

    pub(super) fn hear(&mut self, news: &News) -> Result<(), ProgramError> {
        match news {
            News::Gone(why) => Err(self.ended(why)),
            // What it was before this program looked at it.
            News::Flow(flow) if flow.version < self.version => Ok(()),
            News::Flow(flow) => self.adapt(flow),
        }
    }

    /// Waits for a change that is under way: a ring that was given up is about to leave the flow, or to be made anew.
    pub(super) fn catch_up(&mut self, mut done: Result<(), ProgramError>) -> Result<(), ProgramError> {
        let begun = Instant::now();
        let mut asked = begun;
        while matches!(done, Err(ProgramError::Ring(_))) && begun.elapsed() < CHANGE {
            // Events come when all of a change is done, which waits for agents that hang; what the flow is now is known before.
            let mut news = self.follower.take();
            if news.is_none() && asked.elapsed() >= ASK {
                asked = Instant::now();
                news = get(&self.session, &self.flow).ok().map(|flow| News::Flow(Box::new(flow)));
            }
            if let Some(news) = news {
                done = self.hear(&news);
            } else if self.options.cancel.sleep(LOOK) {
                break;
            }
        }
        self.over = done.as_ref().err().map(ToString::to_string);
        done
    }

    fn adapt(&mut self, flow: &proto::Flow) -> Result<(), ProgramError> {
        self.version = flow.version;
        self.at_once = wants_latency(flow);
        if flow.state() == proto::FlowState::Failed {
            return Err(self.ended(&format!("it has failed: {}", flow.reason)));
        }
        let Some(member) = flow.producers.iter().find(|m| m.name == self.member) else {
            return Err(self.ended(&format!("member `{}` was taken out of it", self.member)));
        };
        self.take_up(flow, member)
    }

    /// Takes rings that are new, leaves those to consumers that leave, forgets those that are gone.
    pub(super) fn take_up(
        &mut self,
        flow: &proto::Flow,
        member: &proto::FlowMember,
    ) -> Result<(), ProgramError> {
        let per_consumer = flow.kind() == proto::FlowKind::Shuffle;
        let mut before = std::mem::take(&mut self.lanes);
        let mut done = Ok(());
        for (at, ring) in member.rings.iter().enumerate() {
            let consumer = flow.consumers.get(at).filter(|_| per_consumer);
            let mut had = before.iter().position(|lane| lane.ring == ring.name).map(|at| before.remove(at));
            // One that was given up is gone, and this may be another of its name.
            if let Some(gone) = had.take_if(|lane| lane.writer.is_aborted()) {
                self.lose(gone);
            }
            match (had, consumer.is_some_and(|c| c.leaving)) {
                (Some(lane), false) => self.lanes.push(lane),
                (Some(lane), true) => done = done.and(self.leave_ring(lane)),
                (None, true) => {}
                // Whoever can't have all leaves the others to others.
                (None, false) if done.is_err() => {}
                (None, false) => {
                    done = match self.take(ring, consumer.map_or("", |c| &c.name)) {
                        Err(
                            ProgramError::Ring(_) | ProgramError::Controller(ClientError::Refused { .. }),
                        ) if self.is_going(&ring.name) => Ok(()),
                        taken => taken,
                    };
                }
            }
        }
        before.into_iter().for_each(|lane| self.lose(lane));
        done
    }

    /// Whether a ring has left the flow meanwhile, or is about to leave it with its consumer.
    pub(super) fn is_going(&self, ring: &str) -> bool {
        get(&self.session, &self.flow).is_ok_and(|flow| {
            let at = |m: &proto::FlowMember| m.rings.iter().position(|r| r.name == ring);
            let leaves = |c: &proto::FlowMember| flow.kind() == proto::FlowKind::Shuffle && c.leaving;
            let at = flow.producers.iter().find_map(at);
            at.is_none_or(|at| flow.consumers.get(at).is_some_and(leaves))
        })
    }

    /// What the flow is, from a controller that may be away for a moment.
    pub(super) fn ask(&self) -> Result<proto::Flow, ClientError> {
        self.patiently(|| get(&self.session, &self.flow))
    }

    fn patiently<T>(&self, ask: impl Fn() -> Result<T, ClientError>) -> Result<T, ClientError> {
        let begun = Instant::now();
        loop {
            match ask() {
                Err(ClientError::Lost(_)) if begun.elapsed() < CHANGE && !self.options.cancel.sleep(LOOK) => {
                }
                done => return done,
            }
        }
    }

    pub(super) fn take(&mut self, ring: &proto::Ring, consumer: &str) -> Result<(), ProgramError> {
        let (socket, name, cancel) = (Path::new(&ring.programs), &ring.name, &self.options.cancel);
        let registered = &self.options.registered;
        let attach =
            |pass: Option<&Pass>| pu::attach_producer_with(pass, registered, socket, name, cancel.clone());
        let (producer, layouts) = with_pass(|| self.patiently(|| self.session.pass(name)), attach)?;
        let number = self.attached;
        self.attached = self.attached.wrapping_add(1);
        if producer.is_aborted() {
            producer.detach();
            return Err(aborted(&ring.name));
        }
        let stamp_every = self.options.stamp_every.unwrap_or(0);
        let config = SegmentConfig { producer: stream_number(ring), stamp_every, ..SegmentConfig::default() };
        let writer = match self.options.record_size {
            Some(size) => SegmentWriter::tuples(producer, config, size)?,
            None => SegmentWriter::records(producer, config)?,
        };
        self.lanes.push(Lane {
            ring: ring.name.clone(),
            consumer: consumer.to_owned(),
            number,
            layouts,
            writer,
        });
        Ok(())
    }

    /// A ring was given up: its consumer was taken out of the flow, whose next state says so, or the flow has failed.
    pub(super) fn given_up(&mut self, lane: usize) -> Result<(), ProgramError> {
        let lane = self.lanes.remove(lane);
        let why = format!("ring `{}` to consumer `{}` was given up", lane.ring, lane.consumer);
        let given_up = aborted(&lane.ring);
        self.lose(lane);
        match self.catch_up(Err(given_up)) {
            Err(ProgramError::Ring(_)) => Err(self.ended(&why)),
            done => done,
        }
    }
}

/// By what consumers tell this program's stream in `ring` from all others: from those in other rings by the ring's number, which has 15
/// bits, and from those of programs that had the ring before by chance.
fn stream_number(ring: &proto::Ring) -> u32 {
    let chance = RandomState::new().build_hasher().finish() as u32;
    chance << 15 | ring.number & 0x7fff
}

fn aborted(ring: &str) -> ProgramError {
    ProgramError::Ring(PuError::Attach { ring: ring.to_owned(), source: AttachError::Aborted })
}
