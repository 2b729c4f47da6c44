//! What can be asked of a controller. Each operation is checked against the state, then carried out by one change.

use super::events::{of_flow, of_host};
use super::model::{Flow, Member};
use super::proto::EventKind;
use super::refusal::{Kind, Refusal};
use super::settings::Changes;
use super::state::{NewFlow, NewMember};
use super::{Controller, Work};
use crate::topology::{RingRole, show_size};
use std::collections::BTreeMap;

impl Controller {
    /// Creates a flow.
    ///
    /// # Errors
    /// Why not; then nothing was changed. So for all operations.
    pub async fn create_flow(&self, new: &NewFlow) -> Result<Flow, Refusal> {
        let mut work = self.0.work.lock().await;
        let flow = self.state().plan_flow(new)?;
        self.change(&mut work, &new.name, Some(flow), "").await?;
        self.0.events.emit(EventKind::FlowCreated, of_flow(&new.name, ""));
        self.get_flow(&new.name)
    }

    /// A flow.
    pub fn get_flow(&self, name: &str) -> Result<Flow, Refusal> {
        self.state().flow(name).cloned()
    }

    /// All flows, by name.
    pub fn list_flows(&self) -> Vec<Flow> {
        self.state().flows.values().cloned().collect()
    }

    /// Changes settings of a flow.
    pub async fn set_flow(&self, name: &str, changes: &Changes) -> Result<Flow, Refusal> {
        let mut work = self.0.work.lock().await;
        let flow = self.state().plan_settings(name, changes)?;
        self.change(&mut work, name, Some(flow), "").await?;
        self.0.events.emit(EventKind::FlowChanged, of_flow(name, "settings"));
        self.get_flow(name)
    }

    /// Adds a member to a flow.
    pub async fn add_member(&self, name: &str, role: RingRole, member: &NewMember) -> Result<Flow, Refusal> {
        let mut work = self.0.work.lock().await;
        let flow = self.state().plan_member(name, role, member)?;
        self.change(&mut work, name, Some(flow), "").await?;
        let flow = self.get_flow(name)?;
        let (members, what) = match role {
            RingRole::Producer => (&flow.producers, "producer"),
            RingRole::Consumer => (&flow.consumers, "consumer"),
        };
        let joined = members.last().map(|m| m.name.clone()).unwrap_or_default();
        let event =
            super::proto::Event { member: joined, ..of_flow(name, format!("{what} on {}", member.host)) };
        self.0.events.emit(EventKind::MemberAdded, event);
        Ok(flow)
    }

    /// Takes a member out of a flow; `force`: even if its rings hold items.
    pub async fn remove_member(&self, name: &str, member: &str, force: bool) -> Result<Flow, Refusal> {
        let mut work = self.0.work.lock().await;
        self.remove_with(&mut work, name, member, force, "").await
    }

    /// As [`remove_member`](Self::remove_member), by who holds `work`; `why` goes into the event.
    pub(super) async fn remove_with(
        &self,
        work: &mut Work,
        name: &str,
        member: &str,
        force: bool,
        why: &str,
    ) -> Result<Flow, Refusal> {
        let after = self.state().plan_removal(name, member)?;
        if !force {
            let before = self.get_flow(name)?;
            let stays = |ring: &super::model::Ring| after.rings().any(|r| r.name == ring.name);
            let going = before.rings().filter(|r| !stays(r)).cloned().collect::<Vec<_>>();
            self.drained(name, &going).await?;
        }
        let told = match why {
            "" => format!("member `{member}` was taken out of flow `{name}`"),
            why => format!("member `{member}` was taken out of flow `{name}`: {why}"),
        };
        self.change(work, name, Some(after), &told).await?;
        let event = super::proto::Event { member: member.into(), ..of_flow(name, why) };
        self.0.events.emit(EventKind::MemberRemoved, event);
        self.get_flow(name)
    }

    /// Ends a flow; `force`: even if its rings hold items.
    pub async fn delete_flow(&self, name: &str, force: bool) -> Result<(), Refusal> {
        let mut work = self.0.work.lock().await;
        let flow = self.get_flow(name)?;
        if !force && flow.failed.is_none() {
            let rings: Vec<_> = flow.rings().cloned().collect();
            self.drained(name, &rings).await?;
        }
        self.change(&mut work, name, None, &format!("flow `{name}` was deleted")).await?;
        self.0.events.emit(EventKind::FlowDeleted, of_flow(name, ""));
        Ok(())
    }

    /// Deletes all flows and ends.
    pub async fn shutdown(&self) -> Result<(), Refusal> {
        let names: Vec<String> = self.state().flows.keys().cloned().collect();
        let mut result = Ok(());
        for name in names {
            match self.delete_flow(&name, true).await {
                Err(e) if e.kind != Kind::NotFound => result = result.and(Err(e)),
                _ => {}
            }
        }
        self.stop();
        result
    }

    /// Ends a flow for its members, who are told why; it is there until it is deleted.
    pub(super) async fn fail_flow(&self, work: &mut Work, name: &str, why: &str) {
        let failed = {
            let state = self.state();
            let Some(flow) = state.flows.get(name).filter(|f| f.failed.is_none()) else { return };
            Flow { failed: Some(why.to_owned()), version: flow.version + 1, ..flow.clone() }
        };
        // Known to be over before anybody is told.
        let _ = work.journal.end(name, Some(&failed));
        self.state().set(name, Some(failed.clone()));
        self.0.agents.abort(failed.rings(), why).await;
        // A switch that does not answer runs no workers.
        let _ = self.run_workers(work, &self.0.plane.tick_groups(&failed), &BTreeMap::new()).await;
        self.0.events.emit(EventKind::FlowFailed, of_flow(name, why));
    }

    /// Whether no ring holds items.
    async fn drained(&self, flow: &str, rings: &[super::model::Ring]) -> Result<(), Refusal> {
        let (found, failure) = self.0.agents.look(rings.iter()).await;
        if let Some(refusal) = failure {
            let message = format!(
                "flow `{flow}`: nobody knows whether all items were delivered: {}; use --force to go on all the same",
                refusal.message
            );
            return Err(Refusal::new(Kind::Unavailable, message));
        }
        for ring in rings {
            let fill = found.get(&ring.name).map_or(0, |r| r.head.wrapping_sub(r.tail));
            if fill != 0 {
                let message = format!(
                    "flow `{flow}`: ring `{}` still holds {}: let its consumer take it, or use --force to lose it",
                    ring.name,
                    show_size(fill.into())
                );
                return Err(Refusal::new(Kind::NotNow, message));
            }
        }
        Ok(())
    }

    pub(super) fn host_event(&self, kind: EventKind, host: &str, text: impl Into<String>) {
        self.0.events.emit(kind, of_host(host, text));
    }

    /// Members of flow `name` on `host`.
    pub(super) fn members_on(&self, flow: &Flow, host: &str) -> Vec<String> {
        let on = |m: &&Member| m.host == host;
        flow.members().filter(on).map(|m| m.name.clone()).collect()
    }
}
