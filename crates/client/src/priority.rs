//! Several flows, of which some are more urgent than others.

use std::borrow::BorrowMut;
use std::time::{Duration, Instant};

use crate::consumer::{Batch, FlowConsumer, Popped};
use crate::error::ProgramError;

/// Between two looks at all flows, at first and at last.
const LOOK: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(500));

/// Consumers of flows in the order of their urgency: what is popped next comes from the first that has something. A flow that always has
/// something keeps those behind it waiting.
pub struct Priority {
    /// `None`: it has ended, or failed, which was said.
    flows: Vec<Option<FlowConsumer>>,
}

/// What a pop from several flows finds.
pub enum PoppedFrom<'c> {
    /// Records of the flow at this place, from 0.
    Batch(usize, Batch<'c>),
    /// None now.
    Nothing,
    /// The end of all streams.
    End,
}

impl Priority {
    /// Pops from all of these; the first is the most urgent.
    pub fn new(flows: Vec<FlowConsumer>) -> Self {
        Priority { flows: flows.into_iter().map(Some).collect() }
    }

    /// The next records, waiting for them as long as it takes, and the place of the flow that they came from; `None` at the end of all
    /// streams.
    ///
    /// # Errors
    /// As [`FlowConsumer::pop`]. A flow that has failed says so once; popping may go on with the others.
    pub fn pop(&mut self) -> Result<Option<(usize, Batch<'_>)>, ProgramError> {
        match self.pop_until(None)? {
            PoppedFrom::Batch(at, batch) => Ok(Some((at, batch))),
            PoppedFrom::Nothing | PoppedFrom::End => Ok(None),
        }
    }

    /// The next records, waiting for them for `time`.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_timeout(&mut self, time: Duration) -> Result<PoppedFrom<'_>, ProgramError> {
        // A time beyond what the clock can count is for ever.
        self.pop_until(Instant::now().checked_add(time))
    }

    /// The consumers whose streams have not ended, each with its place.
    pub fn into_flows(self) -> impl Iterator<Item = (usize, FlowConsumer)> {
        self.flows.into_iter().enumerate().filter_map(|(at, flow)| Some((at, flow?)))
    }

    fn pop_until(&mut self, end: Option<Instant>) -> Result<PoppedFrom<'_>, ProgramError> {
        let at = match most_urgent_until(&mut self.flows, end).map_err(|(_, e)| e)? {
            Urgent::At(at) => at,
            Urgent::Nothing => return Ok(PoppedFrom::Nothing),
            Urgent::End => return Ok(PoppedFrom::End),
        };
        match self.flows[at].as_mut().map(FlowConsumer::try_pop).transpose()? {
            Some(Popped::Batch(batch)) => Ok(PoppedFrom::Batch(at, batch)),
            _ => Ok(PoppedFrom::Nothing),
        }
    }
}

/// What a look at several flows finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgent {
    /// The flow at this place, from 0, has records, and none in front of it has.
    At(usize),
    /// No flow has records now.
    Nothing,
    /// All streams have ended.
    End,
}

/// Waits until one of `flows`, of which the first is the most urgent, has records to be popped: for `time`, or, without one, as long as it
/// takes. Pops nothing. Flows that have ended or failed become `None`. It ends with the cancel of the first that is left.
///
/// # Errors
/// As [`FlowConsumer::pop`], with the place of the flow that says so.
pub fn most_urgent<C: BorrowMut<FlowConsumer>>(
    flows: &mut [Option<C>],
    time: Option<Duration>,
) -> Result<Urgent, (usize, ProgramError)> {
    most_urgent_until(flows, time.and_then(|time| Instant::now().checked_add(time)))
}

fn most_urgent_until<C: BorrowMut<FlowConsumer>>(
    flows: &mut [Option<C>],
    end: Option<Instant>,
) -> Result<Urgent, (usize, ProgramError)> {
    let (mut pause, longest) = LOOK;
    loop {
        let mut first = None;
        for (at, place) in flows.iter_mut().enumerate() {
            let Some(flow) = place else { continue };
            match flow.borrow_mut().has_some() {
                Ok(Some(true)) => return Ok(Urgent::At(at)),
                Ok(Some(false)) => first = first.or(Some(at)),
                Ok(None) => *place = None,
                Err(e) => {
                    if matches!(e, ProgramError::Ended { .. } | ProgramError::Failed { .. }) {
                        *place = None;
                    }
                    return Err((at, e));
                }
            }
        }
        let Some((at, flow)) = first.and_then(|at| Some((at, flows[at].as_mut()?))) else {
            return Ok(Urgent::End);
        };
        let left = end.map_or(longest, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(Urgent::Nothing);
        }
        // Where a record is most urgent, and where the wait can be cancelled.
        flow.borrow_mut().wait(pause.min(left)).map_err(|e| (at, e))?;
        pause = (2 * pause).min(longest);
    }
}
