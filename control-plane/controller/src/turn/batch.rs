//! Flows that come and flows that go. Changes run one at a time, and flows that wait for their turn have it together.
//! So two writes of the journal, one call to each agent and two writes of the switch serve all of them.
//!
//! ```text
//!  journal: begins ─► agents open rings ─► registers are set ─► journal: what comes is there ─► switch: entries come, workers stop and
//!           start ─► entries go ─► agents close rings ─► journal: what goes is gone
//! ```
//! A caller puts its wish into a queue, and waits for an answer or for its turn; the caller with the turn carries out
//! the whole queue. If that fails, each wish is carried out by itself, so that a refused wish does not keep the others
//! waiting.

use crate::api::pending::UnderWay;
use crate::turn::transaction::Failure;
use crate::{Controller, Work};
use std::collections::{HashSet, VecDeque};
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot::{self, error::TryRecvError};
use zsr_plan::dataplane::diff::Diff;
use zsr_plan::dataplane::flow::Ticks;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_plan::requests::NewFlow;
use zsr_plan::surroundings::Surroundings;

/// The most wishes at once: agents have to answer in time for all of their rings.
const AT_ONCE: usize = 64;
/// How often a wish is tried with another switch, when the switch before went away in the middle of it.
const SWITCHES: usize = 3;

/// A caller's wish: a flow to create, or a flow to delete.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// A flow to create.
    Come(Box<NewFlow>),
    /// A flow to delete; `force`: even if its rings hold items.
    Go { name: String, force: bool },
}

/// A wish that was checked: the flow that comes, or the one that goes.
enum Step {
    Comes(Flow),
    Goes(Flow),
}

impl Step {
    fn flow(&self) -> &Flow {
        let (Step::Comes(flow) | Step::Goes(flow)) = self;
        flow
    }
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
            let (mut asked, mut steps, mut later) = (Vec::new(), Vec::new(), Vec::new());
            let mut names = HashSet::new();
            for one in round {
                match self.step(work, &one.wish).await {
                    Err(refusal) => one.answer(Err(refusal)),
                    Ok(step) if is_apart(step.flow(), &mut names) => {
                        asked.push(one);
                        steps.push(step);
                    }
                    // Whether there is room for the flow is known when the others have come or gone.
                    Ok(step) => {
                        if let Step::Comes(flow) = &step {
                            self.give_back(flow, false);
                        }
                        later.push(one);
                    }
                }
            }
            match self.come_and_go(work, steps).await {
                Err(_) if asked.len() > 1 => rounds.extend(asked.into_iter().map(|one| vec![one])),
                done => asked.into_iter().for_each(|one| one.answer(done.clone())),
            }
            if !later.is_empty() {
                rounds.push_back(later);
            }
        }
    }

    /// Checks `wish` against the present state and plans its step. The caller has the turn.
    async fn step(&self, work: &mut Work, wish: &Wish) -> Result<Step, ControllerError> {
        match wish {
            Wish::Come(new) => {
                self.can_change()?;
                Ok(Step::Comes(self.state().plan_flow(new)?))
            }
            Wish::Go { name, force } => {
                let flow = self.get_flow(name)?;
                if !force && flow.failed.is_none() {
                    self.drained(name, &flow.rings().cloned().collect::<Vec<_>>()).await?;
                }
                self.can_change()?;
                let all = flow.members().map(|m| m.name.clone()).collect();
                self.resume_first(work, name, &all).await?;
                Ok(Step::Goes(self.get_flow(name)?))
            }
        }
    }

    /// Creates and deletes flows that have nothing in common: all of them, or none.
    async fn come_and_go(&self, work: &mut Work, steps: Vec<Step>) -> Result<(), ControllerError> {
        if steps.is_empty() {
            return Ok(());
        }
        let (mut coming, mut going) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Comes(flow) => coming.push(flow),
                Step::Goes(flow) => going.push(flow),
            }
        }
        let names: Vec<String> = coming.iter().chain(&going).map(|f| f.name.clone()).collect();
        let done = match self.written(work, &names, |journal| journal.begin_whole(&names)) {
            Ok(()) => self.replace(work, &mut coming, &going).await,
            Err(e) => Err(ControllerError::from(e).into()),
        };
        if let Err(Failure { refusal, touched }) = done {
            for flow in &coming {
                let opened = flow.rings().filter(|r| r.address.is_some());
                self.0.agents.close(opened, &refusal.message, false);
                self.give_back(flow, touched);
                work.journal.note(&flow.name, None);
            }
            for flow in &going {
                work.journal.note(&flow.name, Some(flow));
            }
            return Err(refusal);
        }
        for flow in coming {
            let name = flow.name.clone();
            self.state().set(&name, Some(flow));
        }
        for flow in &going {
            self.state().set(&flow.name, None);
            self.0.agents.close(flow.rings(), &format!("flow `{}` was deleted", flow.name), false);
            work.journal.deleted(&flow.name);
            self.give_back(flow, true);
        }
        self.0.reweighed.notify_one();
        Ok(())
    }

    /// Changes rings and switch, up to where rings are closed.
    async fn replace(&self, work: &mut Work, coming: &mut [Flow], going: &[Flow]) -> Result<(), Failure> {
        let plane = &self.0.plane;
        let around = Surroundings::of(&self.state());
        let entities = |flows: &[Flow]| {
            let each = flows.iter().map(|flow| plane.entities(flow, &around.context(false)));
            Ok::<_, ControllerError>(each.collect::<Result<Vec<_>, _>>()?.concat())
        };
        let before = entities(going)?;
        self.0.agents.open(coming, plane, &around.hosts).await?;
        let touched = |refusal: ControllerError| Failure { refusal, touched: true };
        let resets: Vec<_> = coming.iter().flat_map(Flow::rings).map(|r| r.ids.reset(r.start)).collect();
        self.reset(work, &resets).await.map_err(touched)?;
        let difference = Diff::between(before, entities(coming).map_err(touched)?);
        let had: Ticks = going.iter().flat_map(|flow| plane.tick_groups(flow)).collect();
        let rare: Ticks = coming.iter().filter_map(|flow| plane.new_groups(flow)).flatten().collect();
        let often = |flow: &Flow| plane.new_groups(flow).unwrap_or_else(|| plane.tick_groups(flow));
        let has: Ticks = coming.iter().flat_map(often).collect();
        // New flows exist as soon as they are written: items may move as soon as the switch has the entries.
        let names: Vec<String> = coming.iter().map(|flow| flow.name.clone()).collect();
        self.written(work, &names, |journal| journal.end_whole(coming)).map_err(|e| touched(e.into()))?;
        match self.write(work, &difference, &had, &has).await {
            Ok(()) => {
                self.state().idle.extend(rare);
                Ok(())
            }
            Err(refusal) => {
                self.take_back(work, &difference, &has, &had).await;
                Err(touched(refusal.into()))
            }
        }
    }
}

/// Whether neither the flow nor one of its rings is among `names`; adds them to `names`.
fn is_apart(flow: &Flow, names: &mut HashSet<String>) -> bool {
    let own = || flow.rings().map(|ring| &ring.name).chain([&flow.name]);
    let apart = own().all(|name| !names.contains(name));
    if apart {
        names.extend(own().cloned());
    }
    apart
}
