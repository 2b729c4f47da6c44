//! Flows that come and flows that go. Changes run one at a time, and flows that wait for their turn have it together.
//! So two writes of the journal, one call to each agent and two writes of the switch serve all of them.
//!
//! A caller puts its wish into a queue, and waits for an answer or for its turn; the caller with the turn carries out
//! the whole queue. If that fails, each wish is carried out by itself, so that a refused wish does not keep the others
//! waiting.

use crate::api::pending::UnderWay;
use crate::turn::steps::Change;
use crate::turn::transaction::Removal;
use crate::{Controller, Work};
use std::collections::{HashSet, VecDeque};
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot::{self, error::TryRecvError};
use zsr_plan::dataplane::RingAddress;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_plan::requests::NewFlow;

/// The most wishes at once: agents have to answer in time for all of their rings.
const AT_ONCE: usize = 64;
/// How often a wish is tried with another switch, when the switch before went away in the middle of it.
const SWITCHES: usize = 3;

/// A caller's wish: a flow to create, or a flow to delete.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// A flow to create.
    Come(Box<NewFlow>),
    /// A flow to delete.
    Go { name: String, go: Go },
}

/// The conditions of a deletion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Go {
    /// Even if its rings hold items.
    pub(crate) force: bool,
    /// Only the flow whose first consumer ring is there, and no later one of its name.
    pub(crate) only: Option<RingAddress>,
}

#[derive(Debug)]
struct Asked {
    wish: Wish,
    answer: oneshot::Sender<Result<(), ControllerError>>,
}

impl Asked {
    fn answer(self, answer: Result<(), ControllerError>) {
        // A caller that has gone does not get it.
        let _ = self.answer.send(answer);
    }
}

/// Wishes that wait for a turn, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<VecDeque<Asked>>);

impl Queue {
    fn put(&self, wish: Wish) -> oneshot::Receiver<Result<(), ControllerError>> {
        let (answer, answered) = oneshot::channel();
        self.lock().push_back(Asked { wish, answer });
        answered
    }

    fn take(&self, at_once: usize) -> Vec<Asked> {
        let mut queue = self.lock();
        let many = queue.len().min(at_once);
        // Wishes whose callers no longer wait are dropped.
        queue.drain(..many).filter(|asked| !asked.answer.is_closed()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller {
    /// Carries out `wish`, with all others that wait for a turn. If the switch goes away meanwhile, uses its successor.
    ///
    /// # Errors
    /// The refusal; then nothing was changed.
    pub(crate) async fn carry_out_with_others(
        &self,
        underway: &UnderWay<'_>,
        wish: Wish,
    ) -> Result<(), ControllerError> {
        for _ in 1..SWITCHES {
            let before = self.session_number();
            match self.carry_out_in_turn(underway, wish.clone()).await {
                // An agent that does not answer would not answer after a switch-over either.
                Err(refusal)
                    if refusal.kind == ErrorKind::Unavailable
                        && before.is_some()
                        && before != self.session_number() => {}
                done => return done,
            }
        }
        self.carry_out_in_turn(underway, wish).await
    }

    async fn carry_out_in_turn(&self, underway: &UnderWay<'_>, wish: Wish) -> Result<(), ControllerError> {
        let ended =
            || ControllerError::new(ErrorKind::Internal, "the change that this one was part of ended early");
        // A caller that has waited longer for a session must not have others refused.
        self.await_session(underway).await;
        let mut answer = self.0.coming_and_going.put(wish);
        let mut work = tokio::select! {
            biased;
            answer = &mut answer => return answer.unwrap_or_else(|_| Err(ended())),
            work = self.turn_for(underway, Location::caller()) => work,
        };
        loop {
            match answer.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Empty) => self.carry_out_some(&mut work).await,
                Err(TryRecvError::Closed) => return Err(ended()),
            }
        }
    }

    async fn carry_out_some(&self, work: &mut Work) {
        // The flows that are there decide which of several pipes a flow gets, and whether the pipe has room for it.
        let at_once = if self.state().pipes.are_several() { 1 } else { AT_ONCE };
        let mut rounds = VecDeque::from([self.0.coming_and_going.take(at_once)]);
        while let Some(round) = rounds.pop_front() {
            let (mut asked, mut changes, mut later) = (Vec::new(), Vec::new(), Vec::new());
            let mut names = HashSet::new();
            for one in round {
                match self.plan(work, &one.wish).await {
                    Err(refusal) => one.answer(Err(refusal)),
                    Ok(change) if is_apart(&change, &mut names) => {
                        asked.push(one);
                        changes.push(change);
                    }
                    // Whether there is room for the flow is known when the others have come or gone.
                    Ok(change) => {
                        if let Change { old: None, new: Some(flow) } = &change {
                            self.give_back(flow, false);
                        }
                        later.push(one);
                    }
                }
            }
            let done = match changes.is_empty() {
                true => Ok(()),
                false => self.transact(work, changes, Removal::default()).await.map(drop),
            };
            match done {
                Err(_) if asked.len() > 1 => rounds.extend(asked.into_iter().map(|one| vec![one])),
                done => asked.into_iter().for_each(|one| one.answer(done.clone())),
            }
            if !later.is_empty() {
                rounds.push_back(later);
            }
        }
    }

    /// Checks `wish` against the present state and plans its change. The caller has the turn.
    async fn plan(&self, work: &mut Work, wish: &Wish) -> Result<Change, ControllerError> {
        match wish {
            Wish::Come(new) => {
                self.can_change()?;
                Ok(Change { old: None, new: Some(self.state().plan_flow(new)?) })
            }
            Wish::Go { name, go: Go { force, only } } => {
                let flow = self.get_flow(name)?;
                if only.is_some() && *only != first_address(&flow) {
                    return Err(ControllerError::new(ErrorKind::NotFound, "another flow has its name now"));
                }
                if !force && flow.failed.is_none() {
                    self.drained(name, &flow.rings().cloned().collect::<Vec<_>>()).await?;
                }
                self.can_change()?;
                let all = flow.members().map(|m| m.name.clone()).collect();
                self.resume_first(work, name, &all).await?;
                Ok(Change { old: Some(self.get_flow(name)?), new: None })
            }
        }
    }
}

/// Where a flow's first consumer ring is, which no other flow has or had.
pub(crate) fn first_address(flow: &Flow) -> Option<RingAddress> {
    flow.consumers.iter().flat_map(|member| &member.rings).next()?.address
}

/// Whether neither the flow nor one of its rings is among `names`; adds them to `names`.
fn is_apart(change: &Change, names: &mut HashSet<String>) -> bool {
    let rings = || change.closing().chain(change.opening()).map(|ring| ring.name.as_str());
    let own = || rings().chain([change.name()]);
    let apart = own().all(|name| !names.contains(name));
    if apart {
        names.extend(own().map(str::to_owned));
    }
    apart
}
