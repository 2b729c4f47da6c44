//! Events that no call asks for: agents come and go, programs leave their rings, the switch reports. Each becomes an
//! event, and the policies of the flows that it concerns are applied.

use crate::Controller;
use crate::api::events::of_flow;
use crate::health::doubts;
use crate::health::failure_detector::{Heard, Listening};
use crate::health::link_faults::End;
use crate::link::session::Reach;
use crate::times::watch::{AGAIN, JOURNAL, SAY};
use crate::turn::quiesce::WorkerState;
use crate::turn::transaction::Leave;
use std::collections::HashMap;
use tokio::sync::mpsc;
use tracing::Instrument;
use zsr_api::{
    agent::ring_event::Kind as RingKind,
    agent::{self, event::Event as AgentEvent},
    controller::{self as proto, EventKind},
};
use zsr_plan::dataplane::alloc::Resting;
use zsr_plan::dataplane::model::{Flow, Member, Ring};
use zsr_plan::dataplane::report::{Reason, Report};
use zsr_plan::error::ErrorKind;
use zsr_plan::state::User;
use zsr_switch::ClientError;
use zsr_switch::Digests;
use zsr_switch::patience::within;
use zsr_topology::{Policy, WhenEnded};

impl Controller {
    /// Starts watching agents and the switch, until the controller ends.
    pub(crate) fn watch(&self, digests: Digests, resting: mpsc::UnboundedReceiver<Resting>) {
        let own = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = own.stopped() => {}
                () = own.recycle(resting) => {}
            }
        });
        for host in self.0.agents.hosts().cloned().collect::<Vec<_>>() {
            let own = self.clone();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = own.stopped() => {}
                    () = own.watch_agent(&host) => {}
                }
            });
        }
        let own = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = own.stopped() => {}
                () = own.watch_switch(digests) => {}
            }
        });
        let own = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = own.stopped() => {}
                () = own.keep_shares() => {}
                () = own.keep_timeouts() => {}
                () = own.watch_stalls() => {}
                () = own.keep_ticks() => {}
                () = own.keep_adapting() => {}
                () = own.keep_journal() => {}
                () = own.watch_polls() => {}
                () = own.keep_resuming() => {}
                () = own.watch_strangers() => {}
                () = own.keep_standby() => {}
            }
        });
    }

    pub(crate) fn is_connected(&self, host: &str) -> bool {
        self.0.connected.borrow().get(host).copied().unwrap_or(false)
    }

    fn set_connected(&self, host: &str, is: bool) -> bool {
        let is_news = |known: &mut HashMap<String, bool>| known.insert(host.to_owned(), is) != Some(is);
        self.0.connected.send_if_modified(is_news)
    }

    /// Why a flow waits, if it does.
    pub(crate) fn waits_for(&self, flow: &Flow) -> Option<String> {
        if let Some(waiting) = doubts::waiting(flow) {
            return Some(waiting);
        }
        let away = flow.members().find(|m| !self.is_connected(&m.host));
        if let Some(member) = away {
            return Some(format!("host `{}` of member `{}`: its agent is away", member.host, member.name));
        }
        if let Reach::Lost(why) | Reach::Gone(why) = self.reach() {
            return Some(why);
        }
        if flow.is_adrift() {
            return Some(format!("{}: what the flow's rings hold is being looked at", self.why_adrift(flow)));
        }
        let cut_off =
            flow.members().map(|m| (m, self.0.link_faults.at_host(&m.host))).find(|(_, why)| !why.is_empty());
        if let Some((member, why)) = cut_off {
            return Some(format!("host `{}` of member `{}`: {why}", member.host, member.name));
        }
        let state = self.state();
        flow.rings().find_map(|r| state.troubles.get(&r.name).or(state.silent.get(&r.name)).cloned())
    }

    /// Tells of a journal that can't be written, and writes what it lacks as soon as that goes.
    async fn keep_journal(&self) {
        let mut trouble = self.0.unwritten.clone();
        loop {
            // The other end of the channel is in this controller.
            let Ok(why) = trouble.wait_for(Option::is_some).await.map(|why| why.clone()) else { return };
            self.0.events.emit(EventKind::JournalFailed, of_flow("", why.unwrap_or_default()));
            while trouble.borrow().is_some() {
                tokio::time::sleep(JOURNAL).await;
                self.any_turn().await.journal.try_again();
            }
            self.0.events.emit(EventKind::JournalWorks, of_flow("", "the journal can be written again"));
        }
    }

    async fn watch_agent(&self, host: &String) {
        let Ok(mut client) = self.0.agents.of(host) else { return };
        let mut attempts = 0;
        loop {
            let kinds = [RingKind::Attached, RingKind::Left, RingKind::Died].map(i32::from).to_vec();
            let asked = client.watch_events(agent::WatchEventsRequest { kinds });
            match within(SAY, asked).await {
                Ok(Ok(stream)) => {
                    attempts = 0;
                    self.learn_place(host).await;
                    if self.set_connected(host, true) {
                        self.host_event(EventKind::AgentFound, host, "its agent answers");
                    }
                    // Changes since the last stream ended.
                    self.check_rings_of(host).await;
                    self.close_strays_of(host).await;
                    self.abort_failed_of(host);
                    let mut stream = stream.into_inner();
                    while let Ok(Some(event)) = stream.message().await {
                        match event.event {
                            Some(AgentEvent::Link(link)) => {
                                self.link_is(End::Host(host.to_owned()), &link.interface, &link.trouble);
                            }
                            Some(AgentEvent::Late(text)) => {
                                self.host_event(EventKind::ProcessLate, host, text);
                            }
                            Some(AgentEvent::Ring(ring)) => self.ring_event(host, &ring).await,
                            // The state of rings is looked up when it is needed; only departures can be missed.
                            Some(AgentEvent::Missed(_)) => self.check_rings_of(host).await,
                            None => {}
                        }
                    }
                }
                lost => {
                    attempts += 1;
                    // A connection may have ended while this process had no time for it: the agent may be well.
                    let is_lost = lost.is_err() || attempts > 1;
                    if is_lost && self.set_connected(host, false) {
                        self.0.link_faults.forget(host);
                        self.host_event(EventKind::AgentLost, host, "its agent does not answer");
                        self.host_gone(host, "its host's agent does not answer").await;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Programs of flows that have failed are told so again: the agent, or the controller of that time, may not have heard or said it.
    fn abort_failed_of(&self, host: &str) {
        for flow in self.list_flows() {
            if let Some(why) = &flow.failed {
                self.0.agents.abort(flow.rings().filter(|ring| ring.host == host), why);
            }
        }
    }

    /// An agent that has started anew knows nothing of rings made before.
    async fn check_rings_of(&self, host: &str) {
        let flows: Vec<Flow> = {
            let state = self.state();
            let here = |f: &&Flow| f.failed.is_none() && f.members().any(|m| m.host == host);
            state.flows.values().filter(here).cloned().collect()
        };
        for flow in flows {
            let rings: Vec<_> = flow.rings().filter(|r| r.host == host).cloned().collect();
            let (found, failure) = self.0.agents.look(rings.iter()).await;
            if failure.is_some() {
                return;
            }
            // A controller that gave the flow up and died before it could note that.
            if let Some(ring) = found.values().find(|r| r.state() == agent::RingState::Aborted) {
                let why = format!(
                    "ring `{}` was given up by a controller that ended before it could say why",
                    ring.name
                );
                let mut work = self.work_at_last().await;
                self.fail_flow(&mut work, &flow.name, &why).await;
                continue;
            }
            if is_back(&flow, &found) {
                self.found_again(&flow.name).await;
            }
            // Rings of a member that is being taken out will be gone in a moment, too: the member's other rings are not
            // looked at.
            let lost = |r: &&Ring| r.host == host && !found.contains_key(&r.name);
            let members = flow.members().flat_map(|m| m.rings.iter().map(move |r| (m, r)));
            let gone = members.filter(|(_, r)| lost(r)).map(|(m, r)| User::new(&flow, m, r));
            let gone: Vec<User> = gone.collect();
            let why = "its host's agent was started anew and has lost its rings";
            for user in &gone {
                let member = &user.member;
                // The last member of its side can't be taken out, nor a consumer of a shuffle by range.
                let goes = self.state().plan_removal(&flow.name, std::slice::from_ref(member)).is_ok();
                let advice = match goes {
                    true => "remove it with --force and add it again",
                    false => "delete the flow and create it again",
                };
                let trouble = format!("member `{member}`: {why}: {advice}");
                self.trouble(user, Some(trouble));
            }
            self.members_gone(&flow.name, &gone, Leave::Dead, why).await;
            // Programs may have died while no controller heard of it.
            for ring in found.into_values().filter(|r| !r.died.is_empty()) {
                if !self.state().troubles.contains_key(&ring.name) {
                    let kind = RingKind::Died.into();
                    let (name, detail, epoch) = (ring.name, ring.died, ring.epoch);
                    let died = agent::RingEvent { name, kind, detail, epoch, ..Default::default() };
                    self.ring_event(host, &died).await;
                }
            }
        }
    }

    /// Rings that a flow has just gone on without may still exist: their agents did not answer in time, and are not
    /// known to be away. Rings of agents that are away are looked at when the agents are found again.
    pub(crate) fn look_for_lost(&self, flow: &str) {
        let (own, flow) = (self.clone(), flow.to_owned());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = own.stopped() => {}
                () = own.have_lost_looked_at(&flow) => {}
            }
        });
    }

    async fn have_lost_looked_at(&self, name: &str) {
        loop {
            let flow = self.state().flows.get(name).filter(|f| f.failed.is_none()).cloned();
            let Some(flow) = flow else { return };
            let is_lost = |r: &&Ring| flow.lost.iter().any(|lost| lost.ring == r.name);
            let lost: Vec<&Ring> =
                flow.rings().filter(is_lost).filter(|r| self.is_connected(&r.host)).collect();
            if lost.is_empty() {
                return;
            }
            let (found, failure) = self.0.agents.look(lost.into_iter()).await;
            if is_back(&flow, &found) {
                self.found_again(name).await;
            }
            if failure.is_none() {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn host_gone(&self, host: &str, why: &str) {
        let flows = self.list_flows();
        for flow in flows.iter().filter(|f| f.failed.is_none()) {
            let names = self.members_on(flow, host);
            let gone = flow.members().filter(|m| names.contains(&m.name));
            let gone: Vec<User> = gone.flat_map(|m| User::all(flow, m)).collect();
            self.members_gone(&flow.name, &gone, Leave::Dead, why).await;
        }
    }

    async fn ring_event(&self, host: &str, ring: &agent::RingEvent) {
        let user = self.state().user_of_ring(&ring.name).cloned();
        // Rings that this controller has just closed, or is about to make known, concern nobody. A program may stay at
        // a closed ring for as long as it likes, and another ring may have the name meanwhile.
        let is_it = |user: &User| user.address.is_some_and(|a| u32::from(a.epoch) == ring.epoch);
        let Some(user) = user.filter(is_it) else { return };
        let kind = match ring.kind() {
            RingKind::Attached => EventKind::ProgramAttached,
            RingKind::Left => EventKind::ProgramLeft,
            RingKind::Died => EventKind::ProgramDied,
            _ => return,
        };
        let User { flow, member, .. } = user.clone();
        let what = format!("ring `{}`: {}", ring.name, ring.detail);
        let died = kind == EventKind::ProgramDied;
        self.trouble(&user, died.then(|| format!("member `{member}`, {what}")));
        let event = proto::Event {
            member,
            ring: ring.name.clone(),
            host: host.to_owned(),
            ..of_flow(&flow, ring.detail.clone())
        };
        self.0.events.emit(kind, event);
        if died {
            self.members_gone(&flow, &[user], Leave::Forced, &what).await;
        }
        if kind != EventKind::ProgramAttached {
            self.look_if_over(&flow);
        }
    }

    /// A program has left a flow, which may be the last one.
    fn look_if_over(&self, flow: &str) {
        let goes = |flow: &Flow| flow.settings.when_ended == WhenEnded::Delete;
        if self.state().flows.get(flow).is_some_and(goes) {
            self.0.stalls.nudge.notify_one();
        }
    }

    /// Notes a ring's trouble, or that it has none, unless the ring has gone meanwhile.
    fn trouble(&self, user: &User, trouble: Option<String>) {
        let mut state = self.state();
        if state.has(user) {
            match trouble {
                Some(trouble) => drop(state.troubles.insert(user.ring.clone(), trouble)),
                None => drop(state.troubles.remove(&user.ring)),
            }
        }
    }

    /// Applies the flow's policy when the members that had these rings are gone; `leave` says how they leave.
    pub(crate) async fn members_gone(&self, flow: &str, gone: &[User], leave: Leave, why: &str) {
        let mut others = None;
        loop {
            let mut work = self.work_at_last().await;
            let (settings, members) = {
                let state = self.state();
                let Some(flow) = state.flows.get(flow).filter(|f| f.failed.is_none()) else { return };
                // Another change may have taken these members out, and new members may have their names.
                let mut members: Vec<String> = Vec::new();
                for user in gone.iter().filter(|user| state.has(user)) {
                    if !members.contains(&user.member) {
                        members.push(user.member.clone());
                    }
                }
                (flow.settings.clone(), members)
            };
            if members.is_empty() {
                return;
            }
            let why = |who: &[String]| format!("member `{}`: {why}", who.join("`, `"));
            match settings.policy {
                Policy::Wait => {}
                Policy::Abort => self.fail_flow(&mut work, flow, &why(&members)).await,
                Policy::DropMember => {
                    let going = self.with_others(flow, members, others.as_ref());
                    let why = why(&going);
                    let removed = self.remove_with(&mut work, flow, &going, leave, &why).await;
                    let Err(refusal) = removed else { return };
                    // The refusal is not the flow's fault, and passes.
                    if refusal.kind == ErrorKind::Unwritten || matches!(self.reach(), Reach::Lost(_)) {
                        drop(work);
                        tokio::time::sleep(JOURNAL).await;
                        continue;
                    }
                    if refusal.kind == ErrorKind::Stuck {
                        drop(work);
                        // A member that stays may be gone, too, without being known to be.
                        let others = others.get_or_insert_with(|| Listening::new(settings.dead_after_us));
                        if self.listen(flow, others).await {
                            continue;
                        }
                        work = self.any_turn().await;
                    }
                    self.fail_flow(&mut work, flow, &format!("{why}; {}", refusal.message)).await;
                }
            }
            return;
        }
    }

    /// The members in `going`, and the members that have been found to be gone meanwhile.
    fn with_others(&self, flow: &str, mut going: Vec<String>, others: Option<&Listening>) -> Vec<String> {
        let is_away = |host: &str| self.0.connected.borrow().get(host) == Some(&false);
        let state = self.state();
        let Some(flow) = state.flows.get(flow) else { return going };
        let silent =
            |m: &Member| others.is_some_and(|o| m.rings.iter().any(|r| o.is_silent(r.ids.data.index)));
        let more = flow.members().filter(|m| is_away(&m.host) || silent(m));
        let more: Vec<String> = more.map(|m| m.name.clone()).filter(|name| !going.contains(name)).collect();
        going.extend(more);
        going
    }

    /// Takes reports until the stream ends; returns the reason.
    pub(crate) async fn take_reports(&self, mut digests: Digests) -> ClientError {
        // Handling a report may wait for the change under way, which may wait for an answer that comes after that
        // report.
        let (to_policies, mut reports) = mpsc::unbounded_channel::<Report>();
        let own = self.clone();
        let policies = async move {
            let mut heard = Heard::default();
            while let Some(report) = reports.recv().await {
                match report.reason {
                    Reason::Silent(_) => own.no_progress(&report, &mut heard).await,
                    _ => own.fatal(&report).await,
                }
            }
        };
        tokio::spawn(policies.in_current_span());
        loop {
            let list = match digests.next().await {
                Ok(list) => list,
                Err(end) => return end,
            };
            for report in list.iter().filter_map(|digest| Report::decode(digest)) {
                let Report { worker, producer, phase, psn, .. } = report;
                match report.reason {
                    Reason::Closed => self.0.stalls.nudge.notify_one(),
                    Reason::State(head) => {
                        // Fails only when no query waits for it.
                        let _ = self.0.states.send(WorkerState { worker, producer, phase, head, psn });
                    }
                    // The other end is there as long as this one.
                    _ => drop(to_policies.send(report)),
                }
            }
        }
    }

    /// Handles a worker that has stopped: finds the ring at fault, and fails its flow or tries again.
    async fn fatal(&self, report: &Report) {
        let Report { worker, producer, qp, .. } = *report;
        let who = {
            let state = self.state();
            let Some(flow) = state.flow_of_worker(worker) else { return };
            let producer = state.user_of_producer(producer).filter(|_| report.is_producers());
            producer.cloned().or_else(|| consumer_of(flow, worker, qp))
        };
        let Some(who) = who else { return };
        if let Reason::Refused(_) = report.reason {
            return self.refused(worker, who, report.reason.to_string()).await;
        }
        let mut work = self.work_at_last().await;
        // The worker's flow may be gone by now, and another flow may have its name.
        if self.state().flow_of_worker(worker).is_none_or(|flow| flow.name != who.flow) {
            return;
        }
        self.fail_flow(&mut work, &who.flow, &format!("ring `{}` {}", who.ring, report.reason)).await;
    }
}

/// Whether agents have `found` a ring that the flow takes for lost. A ring that was made anew under the same name is
/// another ring.
fn is_back(flow: &Flow, found: &HashMap<String, agent::Ring>) -> bool {
    let same = |ring: &Ring| {
        let epoch = found.get(&ring.name).map(|r| r.epoch);
        ring.address.is_some_and(|a| Some(u32::from(a.epoch)) == epoch)
    };
    flow.rings().any(|ring| flow.lost.iter().any(|lost| lost.ring == ring.name) && same(ring))
}

/// The consumer of connection `qp`, or else the first consumer of the worker.
pub(crate) fn consumer_of(flow: &Flow, worker: u16, qp: u16) -> Option<User> {
    let rings = || flow.consumers.iter().flat_map(|m| m.rings.iter().map(move |r| (m, r)));
    let here = rings().find(|(_, r)| [r.ids.data.index, r.ids.poll.index].contains(&qp));
    let (member, ring) = here.or_else(|| rings().find(|(_, r)| r.ids.worker == worker))?;
    Some(User::new(flow, member, ring))
}
