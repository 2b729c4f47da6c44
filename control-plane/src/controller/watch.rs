//! What happens while nobody asks: agents come and go, programs leave their rings, the switch reports. Each becomes an
//! event, and for flows that it concerns, what their policy says.

use super::Controller;
use super::alloc::Resting;
use super::change::Leave;
use super::events::of_flow;
use super::links::End;
use super::model::{Flow, Member, Ring};
use super::proto::{self, EventKind};
use super::refusal::Kind;
use super::rest::WorkerState;
use super::settings::Policy;
use super::silence::{Heard, Listening};
use super::state::User;
use crate::p4::Digests;
use crate::plan::report::{Reason, Report};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;
use zsr_host_agent::proto::ring_event::Kind as RingKind;
use zsr_host_agent::proto::{self as agent, event::Event as AgentEvent};

/// Between two attempts to reach an agent.
const AGAIN: Duration = Duration::from_millis(200);

impl Controller {
    /// Starts watching agents and the switch, until the controller ends.
    pub(super) fn watch(&self, digests: Digests, resting: mpsc::UnboundedReceiver<Resting>) {
        let own = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = own.stopped() => {}
                () = own.recycle(resting) => {}
            }
        });
        for host in self.0.agents.hosts().cloned().collect::<Vec<_>>() {
            let own = self.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = own.stopped() => {}
                    () = own.watch_agent(&host) => {}
                }
            });
        }
        let own = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = own.stopped() => {}
                () = own.watch_switch(digests) => {}
            }
        });
        let own = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = own.stopped() => {}
                () = own.keep_shares() => {}
                () = own.keep_patience() => {}
                () = own.watch_vlans() => {}
            }
        });
    }

    pub(super) fn is_connected(&self, host: &str) -> bool {
        self.0.connected.borrow().get(host).copied().unwrap_or(false)
    }

    fn set_connected(&self, host: &str, is: bool) -> bool {
        let is_news = |known: &mut HashMap<String, bool>| known.insert(host.to_owned(), is) != Some(is);
        self.0.connected.send_if_modified(is_news)
    }

    /// Why a flow waits, if it does.
    pub(super) fn waits_for(&self, flow: &Flow) -> Option<String> {
        let away = flow.members().find(|m| !self.is_connected(&m.host));
        if let Some(member) = away {
            return Some(format!("host `{}` of member `{}`: its agent is away", member.host, member.name));
        }
        let state = self.state();
        flow.rings().find_map(|r| state.troubles.get(&r.name).cloned())
    }

    async fn watch_agent(&self, host: &String) {
        let Ok(mut client) = self.0.agents.of(host) else { return };
        loop {
            let kinds = [RingKind::Attached, RingKind::Left, RingKind::Died].map(i32::from).to_vec();
            match client.watch_events(agent::WatchEventsRequest { kinds }).await {
                Ok(stream) => {
                    if self.set_connected(host, true) {
                        self.host_event(EventKind::AgentFound, host, "its agent answers");
                        self.check_rings_of(host).await;
                        self.close_strays_of(host).await;
                    }
                    let mut stream = stream.into_inner();
                    while let Ok(Some(event)) = stream.message().await {
                        match event.event {
                            Some(AgentEvent::Link(link)) => {
                                self.link_is(End::Host(host.to_owned()), &link.interface, &link.trouble);
                            }
                            Some(AgentEvent::Ring(ring)) => self.ring_event(host, &ring).await,
                            // The state of rings is looked up when it is needed; only departures can be missed.
                            Some(AgentEvent::Missed(_)) => self.check_rings_of(host).await,
                            None => {}
                        }
                    }
                }
                Err(_) => {
                    if self.set_connected(host, false) {
                        self.0.links.forget(host);
                        self.host_event(EventKind::AgentLost, host, "its agent does not answer");
                        self.host_gone(host, "its host's agent does not answer").await;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
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
            // Those of a member that somebody is taking out are gone, too, in a moment: its other rings are not looked at.
            let lost = |r: &&Ring| r.host == host && !found.contains_key(&r.name);
            let members = flow.members().flat_map(|m| m.rings.iter().map(move |r| (m, r)));
            let gone = members.filter(|(_, r)| lost(r)).map(|(m, r)| User::new(&flow, m, r));
            let gone: Vec<User> = gone.collect();
            let why = "its host's agent was started anew and has lost its rings";
            for user in &gone {
                let member = &user.member;
                let trouble = format!("member `{member}`: {why}: remove it with --force and add it again");
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
        // Rings that this controller has just closed, or is about to make known, concern nobody. A program may be at one that was
        // closed for as long as it likes, and the name be another ring's meanwhile.
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
    }

    /// Notes what troubles a ring, or that nothing does, unless it has gone meanwhile.
    fn trouble(&self, user: &User, trouble: Option<String>) {
        let mut state = self.state();
        if state.has(user) {
            match trouble {
                Some(trouble) => drop(state.troubles.insert(user.ring.clone(), trouble)),
                None => drop(state.troubles.remove(&user.ring)),
            }
        }
    }

    /// What the flow's policy says when those who had these rings are gone, who leave like this.
    pub(super) async fn members_gone(&self, flow: &str, gone: &[User], leave: Leave, why: &str) {
        let mut others = None;
        loop {
            let mut work = self.0.work.lock().await;
            let (settings, members) = {
                let state = self.state();
                let Some(flow) = state.flows.get(flow).filter(|f| f.failed.is_none()) else { return };
                // Somebody else may have taken them out, and others may have come under their names.
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
                    if refusal.kind == Kind::Stuck {
                        drop(work);
                        // Whoever stays may be gone, too, and not be known to be.
                        let others = others.get_or_insert_with(|| Listening::new(settings.dead_after_us));
                        if self.listen(flow, others).await {
                            continue;
                        }
                        work = self.0.work.lock().await;
                    }
                    self.fail_flow(&mut work, flow, &format!("{why}; {}", refusal.message)).await;
                }
            }
            return;
        }
    }

    /// Those who go, and those of whom it is known meanwhile that they are gone.
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

    async fn watch_switch(&self, mut digests: Digests) {
        loop {
            let why = tokio::select! {
                () = self.take_reports(digests) => {
                    format!("switch `{}` has ended its session", self.0.switch_name)
                }
                why = self.silence() => why,
            };
            self.switch_lost(&why).await;
            digests = self.meet_switch().await;
        }
    }

    /// Reports, until there are no more.
    async fn take_reports(&self, mut digests: Digests) {
        // What follows from a report may wait for the change under way, which may wait for the answer behind that report.
        let (to_policies, mut reports) = mpsc::unbounded_channel::<Report>();
        let own = self.clone();
        tokio::spawn(async move {
            let mut heard = Heard::default();
            while let Some(report) = reports.recv().await {
                match report.reason {
                    Reason::Silent(_) => own.no_progress(&report, &mut heard).await,
                    _ => own.fatal(&report).await,
                }
            }
        });
        while let Ok(list) = digests.next().await {
            for report in list.iter().filter_map(|digest| Report::decode(digest)) {
                let Report { worker, producer, phase, psn, .. } = report;
                match report.reason {
                    Reason::Closed => {}
                    Reason::State(head) => {
                        // Fails only when nobody has asked.
                        let _ = self.0.states.send(WorkerState { worker, producer, phase, head, psn });
                    }
                    // The other end is there as long as this one.
                    _ => drop(to_policies.send(report)),
                }
            }
        }
    }

    /// A worker has stopped: whose fault that is, and the end of its flow.
    async fn fatal(&self, report: &Report) {
        let Report { worker, producer, qp, .. } = *report;
        let who = {
            let state = self.state();
            let Some(flow) = state.flow_of_worker(worker) else { return };
            let producer = state.user_of_producer(producer).filter(|_| report.is_producers());
            producer.cloned().or_else(|| consumer_of(flow, worker, qp))
        };
        let Some(who) = who else { return };
        let mut work = self.0.work.lock().await;
        // Its flow may be gone by now, and another be called so.
        if self.state().flow_of_worker(worker).is_none_or(|flow| flow.name != who.flow) {
            return;
        }
        self.fail_flow(&mut work, &who.flow, &format!("ring `{}` {}", who.ring, report.reason)).await;
    }
}

/// The consumer that connection `qp` belongs to, else the first one of the worker.
fn consumer_of(flow: &Flow, worker: u16, qp: u16) -> Option<User> {
    let rings = || flow.consumers.iter().flat_map(|m| m.rings.iter().map(move |r| (m, r)));
    let here = rings().find(|(_, r)| [r.ids.data.index, r.ids.poll.index].contains(&qp));
    let (member, ring) = here.or_else(|| rings().find(|(_, r)| r.ids.worker == worker))?;
    Some(User::new(flow, member, ring))
}
