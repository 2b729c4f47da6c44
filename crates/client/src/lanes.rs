//! The rings of a consumer. A flow with lanes has several for each, and each is filled from some of the producers.

use std::path::Path;
use std::time::Instant;

use zsr_api::controller as proto;
use zsr_ring::segment::SegmentReader;
use zsr_ring::{Consumer, Held, PopError, wait_for_any};

use crate::error::ProgramError;
use crate::flow::Options;
use crate::layouts::Registered;
use crate::pu::{self, Pass};
use crate::session::{Session, with_pass};

/// One of the rings of a consumer.
pub(crate) struct Lane {
    pub(crate) reader: SegmentReader,
    /// The items of this ring whose batches are held.
    pub(crate) held: Held,
    /// By which number layouts in the ring name the first of the registered regions, if there may be layouts.
    pub(crate) layouts: Option<u32>,
}

/// Where a look at all lanes finds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// In this lane: items, or an error.
    At(usize),
    /// Nowhere now.
    Nothing,
    /// Nowhere any more: all have ended.
    End,
}

/// The rings of one member, at least one, which are read in turns.
pub(crate) struct Lanes {
    all: Vec<Lane>,
    /// The lane that is looked at first.
    first: usize,
}

impl Lanes {
    /// Takes all rings of `member`, or none.
    pub(crate) fn take(
        session: &Session,
        flow: &proto::Flow,
        member: &proto::FlowMember,
        options: &Options,
        registered: &[Registered],
    ) -> Result<Self, ProgramError> {
        // Of a producer's segments, each consumer of a load balance gets some.
        let some = flow.kind() == proto::FlowKind::LoadBalance;
        let mut lanes = Lanes { all: Vec::with_capacity(member.rings.len()), first: 0 };
        for ring in &member.rings {
            let (socket, name, cancel) = (Path::new(&ring.programs), &ring.name, &options.cancel);
            let attach = |pass: Option<&Pass>| {
                pu::attach_consumer_with(pass, registered, socket, name, cancel.clone())
            };
            match with_pass(|| session.pass(name), attach) {
                Ok((ring, layouts)) => {
                    let reader = SegmentReader::new(ring);
                    let mut reader = if some { reader.with_gaps() } else { reader };
                    reader.skip_empty();
                    lanes.all.push(Lane { reader, held: Held::default(), layouts });
                }
                Err(e) => {
                    lanes.leave();
                    return Err(e);
                }
            }
        }
        if lanes.all.is_empty() {
            let why = "it has no consumer ring on this machine".to_owned();
            return Err(ProgramError::Ended { flow: flow.name.clone(), why });
        }
        Ok(lanes)
    }

    /// How many rings there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// The lane with this number, from 0.
    pub(crate) fn at(&mut self, lane: usize) -> &mut Lane {
        &mut self.all[lane]
    }

    /// The ring's handle of each.
    pub(crate) fn consumers(&mut self) -> impl Iterator<Item = &mut Consumer> {
        self.all.iter_mut().map(|lane| lane.reader.consumer())
    }

    /// Looks for something, first in the lane behind the one where it was found last.
    pub(crate) fn look(&mut self) -> Look {
        let mut nothing = Look::End;
        for n in 0..self.all.len() {
            let at = (self.first + n) % self.all.len();
            match self.all[at].reader.consumer().unread() {
                Err(PopError::Closed) => {}
                Err(PopError::Empty) => nothing = Look::Nothing,
                Ok(_) | Err(_) => {
                    self.first = at + 1;
                    return Look::At(at);
                }
            }
        }
        nothing
    }

    /// Waits until there is something in a lane, `stop` says that there is something else to do, or `end` is over.
    ///
    /// # Errors
    /// [`PopError::Closed`] when all have ended, and [`PopError::Cancelled`]. Where there is one ring, what that says.
    pub(crate) fn wait(&mut self, stop: impl Fn() -> bool, end: Option<Instant>) -> Result<(), PopError> {
        match &mut self.all[..] {
            [lane] => lane.reader.consumer().wait_unless(stop, end),
            _ => wait_for_any(&mut self.consumers().collect::<Vec<_>>(), stop, end),
        }
    }

    /// Tells the flow that nobody pops any more.
    pub(crate) fn abort(&mut self) {
        self.consumers().for_each(Consumer::abort);
    }

    /// Leaves what was not popped to the next program.
    pub(crate) fn leave(self) {
        self.all.into_iter().for_each(|lane| Consumer::detach(lane.reader.into_consumer()));
    }
}
