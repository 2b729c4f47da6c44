//! Changes that a controller had begun when it ended, as its successor finds them. Changes that only add are taken
//! back. Members that were being taken out are taken out anew, as long as all of their rings are there. Where rings are
//! gone, only the remaining steps are carried out. Nobody knows whether items could be lost (`--force`), so none are.

use crate::Controller;
use crate::agents::{Agents, answer};
use crate::api::events::of_flow;
use crate::ledger::journal::Recovered;
use crate::times::unfinished::FIRST;
use crate::turn::transaction::Leave;
use std::collections::{HashMap, HashSet};
use zsr_api::{
    agent::{CloseRingsRequest, ListRingsRequest, Ring as Held},
    controller::EventKind,
};
use zsr_plan::dataplane::model::{Flow, Member, Ring};
use zsr_plan::error::ControllerError;
use zsr_plan::state::State;
use zsr_topology::Policy;

/// Members to be taken out again.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) flow: String,
    members: Vec<String>,
}

/// Rings by host, of agents that answer.
pub(crate) type Holdings = HashMap<String, Vec<Held>>;

/// The rings that the agents of `hosts` hold.
pub(crate) async fn holdings(agents: &Agents, hosts: impl Iterator<Item = &String>) -> Holdings {
    let mut out = Holdings::new();
    for host in hosts {
        let Ok(mut client) = agents.of(host) else { continue };
        // Agents that do not answer are met again by their watchers.
        if let Ok(held) = answer(host, client.list_rings(ListRingsRequest::default())).await {
            out.insert(host.clone(), held.rings);
        }
    }
    out
}

/// Members to be taken out again: their flows have the values from before.
pub(crate) fn begin_again(recovered: &mut Recovered, holdings: &Holdings) -> Vec<Leaving> {
    let Recovered { flows, unfinished, .. } = recovered;
    let mut out = Vec::new();
    for (name, was) in unfinished.iter() {
        let (Some(was), Some(is)) = (was, flows.get_mut(name)) else { continue };
        let stays = |m: &&Member| is.members().any(|n| n.name == m.name);
        let members: Vec<String> = was.members().filter(|m| !stays(m)).map(|m| m.name.clone()).collect();
        let is_gone = |ring: &Ring| {
            holdings.get(&ring.host).is_some_and(|held| held.iter().all(|r| r.name != ring.name))
        };
        let going = was.rings().filter(|ring| is.rings().all(|r| r.name != ring.name));
        // Rings are only closed when nothing moves in them any more.
        if !members.is_empty() && !going.into_iter().any(is_gone) {
            // Members that were given up may be among those that are taken out once more.
            *is = Flow { told: is.told.clone(), ..was.clone() };
            out.push(Leaving { flow: name.clone(), members });
        }
    }
    out
}

/// The text for programs in rings that go with an unfinished change, and whether they see the end of the stream.
fn farewells(recovered: &Recovered) -> HashMap<&str, (String, bool)> {
    let mut out = HashMap::new();
    for (name, was) in &recovered.unfinished {
        let is = recovered.flows.get(name);
        for (member, ring) in
            was.iter().flat_map(|f| f.members().flat_map(|m| m.rings.iter().map(move |r| (m, r))))
        {
            let told = match is {
                Some(_) => format!("member `{}` was taken out of flow `{name}`", member.name),
                None => format!("flow `{name}` was deleted"),
            };
            out.insert(ring.name.as_str(), (told, is.is_some()));
        }
    }
    out
}

/// Names of all rings of flows.
pub(crate) fn known(state: &State) -> HashSet<String> {
    state.flows.values().flat_map(|f| f.rings()).map(|r| r.name.clone()).collect()
}

/// Has agents destroy rings that are in no flow: an earlier change was about to make or destroy them.
pub(crate) async fn close_strays(
    agents: &Agents,
    known: &HashSet<String>,
    holdings: &Holdings,
    recovered: &Recovered,
) {
    for (host, request) in strays(known, holdings, recovered) {
        let Ok(mut client) = agents.of(host) else { continue };
        let _ = answer(host, client.close_rings(request)).await;
    }
}

/// The requests by which agents destroy rings that are in no flow.
fn strays<'h>(
    known: &HashSet<String>,
    holdings: &'h Holdings,
    recovered: &Recovered,
) -> Vec<(&'h str, CloseRingsRequest)> {
    let farewells = farewells(recovered);
    let mut out = Vec::new();
    for (host, rings) in holdings {
        let mut strays: HashMap<(&str, bool), Vec<String>> = HashMap::new();
        for ring in rings.iter().filter(|r| !known.contains(&r.name)) {
            let told = farewells.get(ring.name.as_str());
            let (reason, finished) =
                told.map_or(("its flow is not there any more", false), |(told, finished)| (told, *finished));
            strays.entry((reason, finished)).or_default().push(ring.name.clone());
        }
        for ((reason, finished), names) in strays {
            let request = CloseRingsRequest { names, reason: reason.to_owned(), finished };
            out.push((host.as_str(), request));
        }
    }
    out
}

impl Controller {
    /// Takes members out as an earlier controller was about to, or reports that they stay.
    pub(crate) async fn take_out_again(&self, leaving: &Leaving) {
        let Leaving { flow: name, members } = leaving;
        let Ok(flow) = self.get_flow(name) else { return };
        let going: Vec<&Member> = flow.members().filter(|m| members.contains(&m.name)).collect();
        let mut connected = self.0.connected.subscribe();
        let met = connected.wait_for(|known| going.iter().all(|m| known.contains_key(&m.host)));
        // An agent that has not answered by then is away.
        let _ = tokio::time::timeout(FIRST, met).await.map(drop);
        let mut work = self.work_at_last().await;
        let Err(refusal) = self.remove_with(&mut work, name, members, Leave::Empty, "").await else { return };
        let drops = flow.settings.policy == Policy::DropMember && self.is_deserted(&going).await;
        let kept: Result<Flow, ControllerError> = match drops {
            true => self.remove_with(&mut work, name, members, Leave::Forced, &refusal.message).await,
            false => Err(refusal),
        };
        if let Err(refusal) = kept {
            work.journal.note(name, Some(&flow));
            let why = format!("member `{}` stays: {}", members.join("`, `"), refusal.message);
            self.0.events.emit(EventKind::FlowChanged, of_flow(name, why));
        }
    }

    /// Has an agent that did not answer when its rings were to be closed, and is met again, close them now.
    pub(crate) async fn close_strays_of(&self, host: &String) {
        let holdings = holdings(&self.0.agents, std::iter::once(host)).await;
        // Rings of changes that were under way are known now, or to be destroyed.
        let _work = self.any_turn().await;
        let known = known(&self.state());
        for (host, request) in strays(&known, &holdings, &Recovered::default()) {
            self.0.agents.close_as(host, request, "destroy rings of flows that are gone".to_owned());
        }
    }

    /// Whether no program is at the rings of one of these members.
    async fn is_deserted(&self, members: &[&Member]) -> bool {
        let (found, _) = self.0.agents.look(members.iter().flat_map(|m| &m.rings)).await;
        let is_at = |ring: &Ring| found.get(&ring.name).is_some_and(|r| r.attached);
        members.iter().any(|m| !self.is_connected(&m.host) || !m.rings.iter().any(is_at))
    }
}
