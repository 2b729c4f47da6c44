//! The operations of a controller. Each operation is checked against the state, then carried out by one change.

use crate::agents::CLOSED;
use crate::api::events::{of_flow, of_host};
use crate::api::pending::{UnderWay, What};
use crate::health::doubts;
use crate::link::session::Reach;
use crate::times::operations::{HOLD, LOOK, PATIENCE};
use crate::turn::batch::{Go, Wish, first_address};
use crate::turn::steps::rings_only_in;
use crate::turn::transaction::{Leave, Removal};
use crate::{Controller, Work};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::instrument;
use zsr_api::{
    agent::{self, Role},
    controller::{self as proto, EventKind},
};
use zsr_plan::dataplane::model::{Doubt, Flow, Member, Ring};
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_plan::messages;
use zsr_plan::state::{NewFlow, NewMember};
use zsr_topology::{RingRole, show_size};

/// Hosts whose agents have to make rings for a planned flow.
fn hosts_to_open(flow: &Flow) -> BTreeSet<String> {
    flow.rings().filter(|r| r.address.is_none()).map(|r| r.host.clone()).collect()
}

/// The name of a member that joins, as far as it is known.
fn joining(member: &NewMember) -> &str {
    if member.name.is_empty() { &member.host } else { &member.name }
}

/// No member can join any more.
fn has_ended(flow: &Flow) -> ControllerError {
    let message = format!(
        "flow `{}` has ended: all of its producers have closed their streams; delete it and create it anew",
        flow.name
    );
    ControllerError::new(ErrorKind::NotNow, message)
}

/// Items that would be lost.
pub(crate) struct Unsettled {
    refusal: ControllerError,
    /// The items, and the program that has to take them, for people.
    waits_for: String,
    /// Tails of all rings that were looked at.
    tails: Vec<u32>,
    /// Whether a program could be taking them.
    movable: bool,
}

impl From<Unsettled> for ControllerError {
    fn from(unsettled: Unsettled) -> Self {
        unsettled.refusal
    }
}

impl Controller {
    /// Creates a flow.
    ///
    /// # Errors
    /// The refusal; then nothing was changed. So for all operations.
    #[instrument(name = "change", skip_all, err(level = "debug"), fields(operation = "create", flow = new.name))]
    pub async fn create_flow(&self, new: &NewFlow) -> Result<Flow, ControllerError> {
        let what = What::Create(Box::new(messages::asked(new)));
        let underway = self.0.pending.begin(what, &new.name);
        let sound = self.state().plan_flow(new)?;
        self.give_back(&sound, false);
        self.0.agents.ready(hosts_to_open(&sound)).await?;
        let created = self.carry_out_with_others(&underway, Wish::Come(Box::new(new.clone()))).await;
        if created.is_err() {
            self.told(&sound).await;
        }
        created?;
        self.0.events.emit(EventKind::FlowCreated, of_flow(&new.name, ""));
        self.get_flow(&new.name)
    }

    /// A flow.
    pub fn get_flow(&self, name: &str) -> Result<Flow, ControllerError> {
        self.state().flow(name).cloned()
    }

    /// All flows, by name.
    pub fn list_flows(&self) -> Vec<Flow> {
        self.state().flows.values().cloned().collect()
    }

    /// Changes settings of a flow.
    #[instrument(name = "change", skip_all, err(level = "debug"), fields(operation = "set", flow = name))]
    pub async fn set_flow(&self, name: &str, changes: &proto::Settings) -> Result<Flow, ControllerError> {
        let underway = self.0.pending.begin(What::Other("changing settings of flow".into()), name);
        let mut work = self.turn(&underway).await;
        let flow = self.state().plan_settings(name, changes)?;
        self.change(&mut work, name, flow, Removal::default()).await?;
        self.0.events.emit(EventKind::FlowChanged, of_flow(name, "settings"));
        self.get_flow(name)
    }

    /// Adds a member to a flow.
    #[instrument(
        name = "change",
        skip_all,
        err(level = "debug"),
        fields(operation = "add", flow = name, member = joining(member))
    )]
    pub async fn add_member(
        &self,
        name: &str,
        role: RingRole,
        member: &NewMember,
    ) -> Result<Flow, ControllerError> {
        let what = format!("adding member `{}` to flow", joining(member));
        let underway = self.0.pending.begin(What::Other(what), name);
        let sound = self.state().plan_member(name, role, member, &BTreeSet::new())?;
        self.give_back(&sound, false);
        self.0.agents.ready(hosts_to_open(&sound)).await?;
        let mut work = self.turn(&underway).await;
        // A worker that does not know yet how far its rings are would not know that it has ended.
        self.resume_first(&mut work, name, &BTreeSet::new()).await?;
        let before = self.get_flow(name)?;
        // A consumer with workers of its own gets the items that are left, and the end.
        let can_miss_all = |workers| match role {
            RingRole::Consumer if !before.kind.copies() => BTreeSet::new(),
            _ => workers,
        };
        let ended = self.ended(&mut work, can_miss_all(before.workers())).await?;
        let has_worker = |m: &Member| m.rings.iter().any(|ring| !ended.contains(&ring.ids.worker));
        if !before.consumers.iter().all(has_worker) {
            return Err(has_ended(&before));
        }
        let flow = self.state().plan_member(name, role, member, &ended)?;
        self.change(&mut work, name, flow, Removal::default()).await?;
        let flow = self.get_flow(name)?;
        let (members, what) = match role {
            RingRole::Producer => (&flow.producers, "producer"),
            RingRole::Consumer => (&flow.consumers, "consumer"),
        };
        let joined = members.last().map(|m| m.name.clone()).unwrap_or_default();
        // What it joined may have come to its end meanwhile.
        let workers = match before.kind.routes() {
            true => members.last().iter().flat_map(|m| &m.rings).map(|ring| ring.ids.worker).collect(),
            false => before.workers(),
        };
        let late =
            self.ended(&mut work, can_miss_all(workers)).await.and_then(|ended| match ended.is_empty() {
                true => Ok(()),
                false => Err(has_ended(&flow)),
            });
        if let Err(refusal) = late {
            let after = self.state().plan_removal(name, &[joined])?;
            let removal = Removal { told: &refusal.message, leave: Leave::Forced };
            self.change(&mut work, name, after, removal).await?;
            drop(work);
            self.told(&flow).await;
            return Err(refusal);
        }
        drop(work);
        if role == RingRole::Consumer && flow.kind.routes() {
            self.end_lanes(&before, &flow).await;
        }
        let event = zsr_api::controller::Event {
            member: joined,
            ..of_flow(name, format!("{what} on {}", member.host))
        };
        self.0.events.emit(EventKind::MemberAdded, event);
        Ok(flow)
    }

    /// Those of `workers` that have written their last commit record: they move nothing more.
    async fn ended(&self, work: &mut Work, workers: BTreeSet<u16>) -> Result<BTreeSet<u16>, ControllerError> {
        let mut ended = BTreeSet::new();
        for worker in workers {
            if self.ask(work, worker).await?.has_ended() {
                ended.insert(worker);
            }
        }
        Ok(ended)
    }

    /// Producers that have closed their streams have also closed the rings that came with a new consumer. A program
    /// that closes its rings only now finds the new rings, since the flow has them already.
    async fn end_lanes(&self, before: &Flow, after: &Flow) {
        let rings: Vec<&Ring> = before.producers.iter().flat_map(|m| &m.rings).collect();
        let (found, _) = self.0.agents.look(rings.iter().copied()).await;
        let closed = |m: &&Member| {
            let was = before.producers.iter().find(|b| b.name == m.name);
            was.is_some_and(|was| {
                was.rings.iter().all(|r| found.get(&r.name).is_some_and(|r| r.head_flags & CLOSED != 0))
            })
        };
        let fresh: HashSet<&str> =
            rings_only_in(Some(after), Some(before)).map(|r| r.name.as_str()).collect();
        let lanes = after.producers.iter().filter(closed).flat_map(|m| &m.rings);
        self.0.agents.end(lanes.filter(|r| fresh.contains(r.name.as_str()))).await;
    }

    /// Takes a member out of a flow; as for [`remove_members`](Self::remove_members).
    pub async fn remove_member(
        &self,
        name: &str,
        member: &str,
        force: bool,
    ) -> Result<Flow, ControllerError> {
        self.remove_members(name, &[member.to_owned()], force).await
    }

    /// Takes members out of a flow, all of them or none; `force`: even if their rings hold items. Without `force`,
    /// waits for items that are on their way, as long as they move.
    #[instrument(
        name = "change",
        skip_all,
        err(level = "debug"),
        fields(operation = "remove", flow = name, member = members.join(","))
    )]
    pub async fn remove_members(
        &self,
        name: &str,
        members: &[String],
        force: bool,
    ) -> Result<Flow, ControllerError> {
        let mut named = HashSet::new();
        let members: Vec<String> = members.iter().filter(|m| named.insert(m.as_str())).cloned().collect();
        let members = members.as_slice();
        let what = format!("taking member `{}` out of flow", members.join("`, `"));
        let underway = self.0.pending.begin(What::Other(what), name);
        let (before, after) = {
            let state = self.state();
            (state.flow(name)?.clone(), state.plan_removal(name, members)?)
        };
        let removed = match force {
            true => self.take_out(&underway, name, members, Leave::Forced).await,
            false => self.take_out_in_peace(&underway, (&before, &after), members).await,
        };
        self.told(&before).await;
        removed
    }

    async fn take_out(
        &self,
        underway: &UnderWay<'_>,
        name: &str,
        members: &[String],
        leave: Leave,
    ) -> Result<Flow, ControllerError> {
        let mut work = self.turn(underway).await;
        self.remove_with(&mut work, name, members, leave, "").await
    }

    /// Takes members out when no items are on their way in their rings any more.
    async fn take_out_in_peace(
        &self,
        underway: &UnderWay<'_>,
        (before, after): (&Flow, &Flow),
        members: &[String],
    ) -> Result<Flow, ControllerError> {
        let name = &before.name;
        let going: Vec<Ring> = rings_only_in(Some(before), Some(after)).cloned().collect();
        let is_consumer = |m: &&String| before.consumers.iter().any(|c| c.name == **m);
        let told = members.iter().filter(is_consumer).filter(|_| before.kind.routes());
        let told: Vec<String> = told.cloned().collect();
        if !told.is_empty() {
            let members = told.join("`, `");
            underway.waits_for(format!("programs that push to `{members}` to leave their rings"));
            self.tell_producers(name, &told, &going).await;
        }
        let removed = match self.settle_down(name, &going, false).await {
            Ok(()) => self.take_out(underway, name, members, Leave::Empty).await,
            Err(refusal) => Err(refusal),
        };
        for member in told {
            self.state().leaving.remove(&(name.clone(), member.clone()));
            if removed.is_err() {
                self.0.events.emit(EventKind::FlowChanged, of_flow(name, format!("member `{member}` stays")));
            }
        }
        removed
    }

    /// Waits until the agents of a changed flow were told. The caller holds up no others meanwhile.
    async fn told(&self, flow: &Flow) {
        self.0.agents.told(flow.members().map(|m| m.host.clone()).collect()).await;
    }

    /// Tells programs that push to consumers that these are leaving, and gives them a moment to leave the `rings` to them. No other program
    /// can take these rings: it might have heard of nothing yet, and what it pushed would be lost with them.
    async fn tell_producers(&self, flow: &str, consumers: &[String], rings: &[Ring]) {
        self.state().leaving.extend(consumers.iter().map(|c| (flow.to_owned(), c.clone())));
        for consumer in consumers {
            let event = zsr_api::controller::Event { member: consumer.clone(), ..of_flow(flow, "") };
            self.0.events.emit(EventKind::MemberLeaving, event);
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let lanes = rings.iter().filter(|ring| ring.ids.is_producer);
            let (found, _) = self.0.agents.look_and_hold(lanes, Some(HOLD)).await;
            if !found.values().any(|ring| ring.attached) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Takes members out of a flow; the caller holds `work`; `why` goes into the event.
    pub(crate) async fn remove_with(
        &self,
        work: &mut Work,
        name: &str,
        members: &[String],
        leave: Leave,
        why: &str,
    ) -> Result<Flow, ControllerError> {
        let after = self.state().plan_removal(name, members)?;
        let which = members.join("`, `");
        let told = match why {
            "" => format!("member `{which}` was taken out of flow `{name}`"),
            why => format!("member `{which}` was taken out of flow `{name}`: {why}"),
        };
        let kind = after.kind;
        let doubts = self.change(work, name, after, Removal { told: &told, leave }).await?;
        for member in members {
            let own: Vec<Doubt> = doubts.iter().filter(|doubt| doubt.consumer == *member).cloned().collect();
            let texts = [why.to_owned(), doubts::consumed(kind, &own)];
            let text = texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
            let (member, doubts) = (member.clone(), doubts::told(&own));
            let event = zsr_api::controller::Event { member, doubts, ..of_flow(name, text) };
            self.0.events.emit(EventKind::MemberRemoved, event);
        }
        let flow = self.get_flow(name)?;
        self.end_empty_lanes(work, std::slice::from_ref(&flow)).await;
        Ok(flow)
    }

    /// Ends lanes whose producers were all taken out. Their consumers would wait for an end that does not come. One that has ended
    /// stays as it is. The next session with a switch repeats what does not reach this one.
    pub(crate) async fn end_empty_lanes(&self, work: &mut Work, flows: &[Flow]) {
        for flow in flows.iter().filter(|flow| flow.lanes > 1 && !flow.is_adrift()) {
            for worker in flow.lanes_without_producers() {
                let rto = Duration::from_micros(flow.settings.rto_us);
                if let Err(refusal) = self.end_worker(work, worker, rto).await {
                    tracing::warn!(flow = flow.name, "a lane without producers did not end: {refusal}");
                }
            }
        }
    }

    /// Ends a flow; `force`: even if its rings hold items.
    pub async fn delete_flow(&self, name: &str, force: bool) -> Result<(), ControllerError> {
        let flow = self.delete(name, Go { force, only: None }, "").await?;
        self.told(&flow).await;
        Ok(())
    }

    /// Deletes a flow that is over, unless another has its name by now. What can't be done now, as its switch or an agent is away, is
    /// found at the next look.
    pub(crate) async fn delete_ended(&self, flow: &Flow, why: &str) {
        let go = Go { force: flow.failed.is_some(), only: first_address(flow) };
        match self.delete(&flow.name, go, why).await {
            Ok(flow) => self.told(&flow).await,
            Err(refusal) => tracing::debug!(flow = flow.name, "{why}, and is not deleted now: {refusal}"),
        }
    }

    /// Ends a flow and returns it; its agents may still have to be told.
    #[instrument(name = "change", skip_all, err(level = "debug"), fields(operation = "delete", flow = name))]
    async fn delete(&self, name: &str, go: Go, why: &str) -> Result<Flow, ControllerError> {
        let flow = self.get_flow(name)?;
        let underway = self.0.pending.begin(What::Delete, name);
        let force = go.force;
        if !force && flow.failed.is_none() {
            let rings: Vec<_> = flow.rings().cloned().collect();
            self.settle_down(name, &rings, true).await?;
        }
        self.carry_out_with_others(&underway, Wish::Go { name: name.to_owned(), go }).await?;
        self.0.events.emit(EventKind::FlowDeleted, of_flow(name, why));
        Ok(flow)
    }

    /// Deletes all flows and ends.
    pub async fn shutdown(&self) -> Result<(), ControllerError> {
        // Stops workers first, so that no busy worker keeps the switch from the rest.
        let ticking =
            self.state().ticking.iter().flat_map(|(g, workers)| workers.iter().map(|w| (*w, *g))).collect();
        let mut work = self.work().await;
        self.stop_workers(&mut work, &ticking).await;
        drop(work);
        let mut result = self.can_change();
        let names: Vec<String> = self.state().flows.keys().cloned().collect();
        // Without a session no flow can be deleted, and each would wait for one.
        let lost = matches!(self.reach(), Reach::Lost(_));
        // All at once: flows that wait for their turn go together.
        let mut going = JoinSet::new();
        for name in names.into_iter().filter(|_| !lost) {
            let own = self.clone();
            going.spawn(async move { own.delete(&name, Go { force: true, only: None }, "").await });
        }
        while let Some(gone) = going.join_next().await {
            match gone {
                Ok(Err(e)) if e.kind != ErrorKind::NotFound => result = result.and(Err(e)),
                // A deletion that panics has said so.
                _ => {}
            }
        }
        self.0.agents.told(self.0.agents.hosts().cloned().collect()).await;
        self.stop();
        result
    }

    /// Ends a flow for its members, with the reason; the flow exists until it is deleted.
    pub(crate) async fn fail_flow(&self, work: &mut Work, name: &str, why: &str) {
        let (failed, ticks) = {
            let state = self.state();
            let Some(flow) = state.flows.get(name).filter(|f| f.failed.is_none()) else { return };
            let failed = Flow { failed: Some(why.to_owned()), version: flow.version + 1, ..flow.clone() };
            (failed, self.0.plane.tick_groups(flow))
        };
        // The failure is recorded before anybody is told. If it can't be written yet, it holds all the same.
        work.journal.note(name, Some(&failed));
        self.state().set(name, Some(failed.clone()));
        self.0.agents.abort(failed.rings(), why);
        self.stop_workers(work, &ticks).await;
        self.0.events.emit(EventKind::FlowFailed, of_flow(name, why));
    }

    /// Waits until no ring holds items, for as long as they become fewer. Unless `all` rings have to be empty, items
    /// that programs at consumer rings can still take are not waited for.
    async fn settle_down(&self, flow: &str, rings: &[Ring], all: bool) -> Result<(), ControllerError> {
        let mut progress = (Vec::new(), Instant::now());
        loop {
            let settled = if all { self.drained(flow, rings).await } else { self.settled(flow, rings).await };
            if let Err(unsettled) = &settled {
                self.0.pending.waits_for(flow, &unsettled.waits_for);
            }
            match settled {
                Err(Unsettled { tails, .. }) if tails != progress.0 => progress = (tails, Instant::now()),
                Err(Unsettled { refusal, movable, .. }) if !movable || progress.1.elapsed() > PATIENCE => {
                    return Err(refusal);
                }
                Err(_) => {}
                Ok(()) => {
                    self.0.pending.waits_for(flow, "");
                    return Ok(());
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether rings that are about to go hold no items that would be lost with them: a program at a consumer ring can
    /// still pop the items in it. No further program can take a producer ring for a moment.
    pub(crate) async fn settled(&self, flow: &str, rings: &[Ring]) -> Result<(), Unsettled> {
        let excused = |ring: &agent::Ring| ring.role() == Role::Consumer && ring.attached;
        self.look_for_items(flow, rings, Some(HOLD), excused).await
    }

    /// Whether no ring holds items.
    pub(crate) async fn drained(&self, flow: &str, rings: &[Ring]) -> Result<(), Unsettled> {
        self.look_for_items(flow, rings, None, |_| false).await
    }

    async fn look_for_items(
        &self,
        flow: &str,
        rings: &[Ring],
        hold: Option<Duration>,
        excused: impl Fn(&agent::Ring) -> bool,
    ) -> Result<(), Unsettled> {
        let (found, failure) = self.0.agents.look_and_hold(rings.iter(), hold).await;
        if let Some(refusal) = failure {
            let message = format!(
                "flow `{flow}`: nobody knows whether all items were delivered: {}; use --force to go on all the same",
                refusal.message
            );
            let refusal = ControllerError::new(ErrorKind::Unavailable, message);
            return Err(Unsettled { refusal, waits_for: String::new(), tails: Vec::new(), movable: false });
        }
        let found: Vec<&agent::Ring> = rings.iter().filter_map(|r| found.get(&r.name)).collect();
        let Some(ring) = found.iter().find(|r| r.head != r.tail && !excused(r)) else { return Ok(()) };
        let fill = show_size(ring.head.wrapping_sub(ring.tail).into());
        let message = match ring.role() {
            Role::Producer if ring.attached => format!(
                "flow `{flow}`: ring `{}` still holds {fill}, and a program pushes into it: end it first, or use --force to lose them",
                ring.name
            ),
            _ => format!(
                "flow `{flow}`: ring `{}` still holds {fill}: let its consumer take it, or use --force to lose it",
                ring.name
            ),
        };
        // No program empties a consumer ring without one.
        let movable = found.iter().any(|r| r.head != r.tail && (r.role() == Role::Producer || r.attached));
        let tails = found.iter().map(|r| r.tail).collect();
        let waits_for = match ring.role() {
            Role::Consumer => format!("the program at ring `{}` to take {fill}", ring.name),
            _ => format!("{fill} of ring `{}` to be delivered", ring.name),
        };
        Err(Unsettled {
            refusal: ControllerError::new(ErrorKind::NotNow, message),
            waits_for,
            tails,
            movable,
        })
    }

    pub(crate) fn host_event(&self, kind: EventKind, host: &str, text: impl Into<String>) {
        self.0.events.emit(kind, of_host(host, text));
    }

    /// Members of flow `name` on `host`.
    pub(crate) fn members_on(&self, flow: &Flow, host: &str) -> Vec<String> {
        let on = |m: &&Member| m.host == host;
        flow.members().filter(on).map(|m| m.name.clone()).collect()
    }
}
