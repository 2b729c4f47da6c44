//! Whose silence it is. The switch only says that a transfer does not move, once per retry; what it hears from each of the
//! transfer's members between two retries says who is gone, and is told once. A producer that is not heard comes first: without items, consumers
//! have nothing to answer.

use super::Controller;
use super::events::of_flow;
use super::model::{Flow, Member, Ring};
use super::proto::{self, EventKind};
use super::refusal::Refusal;
use super::state::User;
use crate::plan::{PlanError, RECEIVED, report::Report};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

// Phases (p4/common/types.p4).
const TAIL: u8 = 3;
const CLOSING: u8 = 4;

/// What was heard of the members of transfers that did not move, by worker.
#[derive(Debug, Default)]
pub(super) struct Heard(HashMap<u16, Transfer>);

#[derive(Debug)]
struct Transfer {
    flow: String,
    /// Of its consumers, which says which transfer it is.
    psn: u32,
    phase: u8,
    /// Packets by connection.
    packets: HashMap<u16, u64>,
    /// Whose silence was told.
    told: Option<Vec<User>>,
}

impl Transfer {
    fn is(&self, other: &Transfer) -> bool {
        (&self.flow, self.psn, self.phase) == (&other.flow, other.psn, other.phase)
    }
}

/// Who may be keeping a transfer, and their connections.
#[derive(Debug, Default, PartialEq, Eq)]
struct Suspects {
    producer: Option<(User, u16)>,
    consumers: Vec<(User, u16)>,
}

impl Suspects {
    fn of(flow: &Flow, report: &Report) -> Self {
        let all = || flow.members().flat_map(|m| m.rings.iter().map(move |r| (m, r)));
        let of = |(member, ring): (&Member, &Ring)| (User::new(flow, member, ring), ring.ids.data.index);
        let producer = all().find(|(_, r)| r.ids.is_producer && r.ids.id == report.producer).map(of);
        let consumers = all().filter(|(_, r)| !r.ids.is_producer && r.ids.worker == report.worker).map(of);
        match report.phase {
            TAIL => Suspects { producer, consumers: Vec::new() },
            CLOSING => Suspects { producer: None, consumers: consumers.collect() },
            _ => Suspects { producer, consumers: consumers.collect() },
        }
    }

    fn connections(&self) -> impl Iterator<Item = u16> {
        self.producer.iter().chain(&self.consumers).map(|(_, qp)| *qp)
    }

    /// Who of them has not been heard.
    fn silent(self, is_silent: impl Fn(u16) -> bool) -> Vec<User> {
        match self.producer {
            Some((user, qp)) if is_silent(qp) => vec![user],
            _ => self.consumers.into_iter().filter(|(_, qp)| is_silent(*qp)).map(|(user, _)| user).collect(),
        }
    }
}

impl Controller {
    /// A transfer has used up its retries: who is silent, and what the flow's policy says to that.
    pub(super) async fn no_progress(&self, report: &Report, heard: &mut Heard) {
        let (flow, suspects) = {
            let state = self.state();
            let Some(flow) = state.flow_of_worker(report.worker) else { return };
            (flow.name.clone(), Suspects::of(flow, report))
        };
        let connections: Vec<u16> = suspects.connections().collect();
        // A switch that can't be read has a report of its own, and this one comes again.
        let Ok(packets) = self.received(&connections).await else { return };
        let now = Transfer { flow: flow.clone(), psn: report.psn, phase: report.phase, packets, told: None };
        let before = match heard.0.entry(report.worker) {
            Entry::Occupied(before) if before.get().is(&now) => before.into_mut(),
            other => {
                other.insert_entry(now);
                return;
            }
        };
        let silent = suspects.silent(|qp| before.packets.get(&qp) == now.packets.get(&qp));
        before.packets = now.packets;
        if before.told.as_ref() == Some(&silent) {
            return;
        }
        before.told = Some(silent.clone());
        let what = |user: &User| format!("ring `{}` {}", user.ring, report.reason);
        for user in &silent {
            let event = proto::Event {
                member: user.member.clone(),
                ring: user.ring.clone(),
                ..of_flow(&user.flow, what(user))
            };
            self.0.events.emit(EventKind::MemberSilent, event);
        }
        if silent.is_empty() {
            let text = format!("worker {} {}, though all of its rings answer", report.worker, report.reason);
            self.0.events.emit(EventKind::MemberSilent, of_flow(&flow, text));
            return;
        }
        let members: Vec<String> = silent.iter().map(|user| user.member.clone()).collect();
        let why = silent.iter().map(what).collect::<Vec<_>>().join("; ");
        self.members_gone(&flow, &members, &why).await;
    }

    /// Packets that came on connections so far.
    async fn received(&self, connections: &[u16]) -> Result<HashMap<u16, u64>, Refusal> {
        let counter = self.0.plane.schema().counter(RECEIVED).map_err(PlanError::from)?;
        let cells: Vec<(u32, u16)> = connections.iter().map(|&qp| (counter, qp)).collect();
        let counted = self.reader().cells(&cells).await?;
        Ok(connections.iter().copied().zip(counted.iter().map(|c| c.packets)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::report::Reason;

    fn user(member: &str) -> User {
        User { flow: "f".into(), member: member.into(), ring: format!("f.{member}") }
    }

    fn suspects() -> Suspects {
        Suspects { producer: Some((user("p"), 1)), consumers: vec![(user("c0"), 2), (user("c1"), 3)] }
    }

    fn members(silent: Vec<User>) -> Vec<String> {
        silent.into_iter().map(|u| u.member).collect()
    }

    #[test]
    fn consumers_have_nothing_to_answer_while_the_producer_is_silent() {
        assert_eq!(members(suspects().silent(|_| true)), ["p"]);
        assert_eq!(members(suspects().silent(|qp| qp != 1)), ["c0", "c1"]);
        assert_eq!(members(suspects().silent(|qp| qp == 3)), ["c1"]);
        assert!(members(suspects().silent(|_| false)).is_empty());
    }

    #[test]
    fn the_phase_says_who_can_keep_a_transfer() {
        let flow: Flow = serde_json::from_value(serde_json::json!({
            "name": "f", "number": 1, "kind": "Shuffle", "item_size": 64, "ring_size": 4096, "mtu": 1024, "owner": "",
            "settings": crate::controller::settings::Settings::of_items(64), "routing": "hash", "version": 1, "failed": null,
            "producers": [{"name": "p", "host": "h1", "rings": [ring("f.p", 7, true, 1)]}],
            "consumers": [
                {"name": "c0", "host": "h2", "rings": [ring("f.c0", 1, false, 2)]},
                {"name": "c1", "host": "h3", "rings": [ring("f.c1", 1, false, 3)]},
            ],
        }))
        .unwrap();
        let of = |phase| {
            let [worker, producer] = [1, 7];
            let report =
                Report { reason: Reason::Silent(9), worker, producer, qp: 0, role: None, phase, psn: 0 };
            Suspects::of(&flow, &report)
        };
        assert_eq!(of(2), suspects());
        assert_eq!(of(TAIL), Suspects { consumers: Vec::new(), ..suspects() });
        assert_eq!(of(CLOSING), Suspects { producer: None, ..suspects() });
    }

    fn ring(name: &str, id: u16, is_producer: bool, qp: u16) -> serde_json::Value {
        let qp = serde_json::json!({"index": qp, "qpn": 0, "psn": 0});
        serde_json::json!({
            "name": name, "host": "h", "declared": false, "owner": "", "size": 4096, "start": 0, "address": null,
            "ids": {"id": id, "worker": 1, "is_producer": is_producer, "member": 0, "data": qp, "poll": qp, "secret": 0},
        })
    }
}
