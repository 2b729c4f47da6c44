//! Agents (and with them NICs and rings) that are killed in the middle of transfers: what each policy says comes to pass, for every
//! kind of flow, and of what the others push and pop nothing is lost, doubled or out of order.

use std::collections::HashMap;

use zsr_api::controller::{self as proto, FlowKind, Policy};

use super::churn::{each_once, member, part_of};
use super::members::{Log, Popper, Pusher, moves_on};
use super::system::{Client, Events, System, signal};

const FIVE: &str = "name: s\nhosts: [h1, h2, h3, h4, h5]\nflows: []\n";

/// A flow from p0 on h1 and p1 on h2 to c0 on h3 and c1 on h4, with its programs.
struct Scene {
    system: System,
    client: Client,
    events: Events,
    pushers: Vec<Pusher>,
    poppers: Vec<Popper>,
}

impl Scene {
    fn of(kind: FlowKind, policy: Policy) -> Self {
        Scene::with(kind, policy, vec![member("c0", 2), member("c1", 3)])
    }

    fn with(kind: FlowKind, policy: Policy, consumers: Vec<proto::Member>) -> Self {
        let system = System::up(FIVE);
        let events = system.events();
        let mut client = system.client();
        let request = proto::CreateFlowRequest {
            name: "f".into(),
            kind: kind.into(),
            producers: vec![member("p0", 0), member("p1", 1)],
            consumers,
            item_size: 64,
            ring_size: 4096,
            settings: Some(proto::Settings {
                policy: Some(policy.into()),
                rto_us: Some(5000),
                dead_after_us: Some(1_000_000),
                ..Default::default()
            }),
            ..Default::default()
        };
        let flow = client.call(async |c| c.create_flow(request).await);
        let poppers = flow.consumers.iter().map(|m| Popper::start(&m.rings[0])).collect();
        let mut pushers: Vec<Pusher> = Vec::new();
        for (number, m) in flow.producers.iter().enumerate() {
            let mut pusher = Pusher::start(number as u64);
            for (at, ring) in m.rings.iter().enumerate() {
                pusher.attach(&format!("c{at}"), ring);
            }
            pushers.push(pusher);
        }
        let scene = Scene { system, client, events, pushers, poppers };
        scene.moves();
        scene
    }

    /// Items come at the consumer that stays.
    fn moves(&self) {
        let first = std::iter::once(&self.poppers[0]);
        moves_on(first, self.poppers[0].popped() + 50, &|| self.system.zsr(&["flow", "list"]).out);
    }

    fn kill(&mut self, host: &str) {
        self.signal(host, "-KILL");
        assert_eq!(self.events.next("agent-lost")["host"], host);
    }

    fn signal(&self, host: &str, signal_name: &str) {
        signal(self.system.pid(&format!("agent.{host}")), signal_name);
    }

    /// A host hangs, and `member` is found missing: by its silence in a transfer, if one was under way, or else its agent's.
    fn hang(&mut self, host: &str, member: &str) {
        let agent = self.system.pid(&format!("agent.{host}"));
        signal(agent, "-STOP");
        loop {
            let event = self.events.next_of(&["member-silent", "member-removed"]);
            assert_eq!(event["member"], member, "{event}");
            if event["kind"] == "member-removed" {
                break;
            }
        }
        signal(agent, "-KILL");
    }

    /// A host is lost, and with it `member`.
    fn lose(&mut self, host: &str, member: &str, loss: Loss) {
        match loss {
            Loss::Hangs => self.hang(host, member),
            Loss::Killed => {
                self.signal(host, "-KILL");
                // Who is awaited in a transfer may be missed before its agent is.
                let mut missing = vec!["agent-lost", "member-removed"];
                while !missing.is_empty() {
                    let event = self.events.next_of(&missing);
                    let lost = event["kind"] == "agent-lost";
                    assert!(if lost { event["host"] == host } else { event["member"] == member }, "{event}");
                    missing.retain(|kind| event["kind"] != *kind);
                }
            }
        }
    }

    /// All who are left end, nothing stays.
    fn end(self, dead: Option<usize>) -> (HashMap<u64, u64>, Log, Log) {
        let mut pushed = HashMap::new();
        for (at, pusher) in self.pushers.into_iter().enumerate() {
            let (number, count) = if dead == Some(at) { pusher.leave() } else { pusher.close() };
            pushed.insert(number, count);
        }
        let [c0, c1] = <[Popper; 2]>::try_from(self.poppers).ok().expect("two");
        let (c0, c1) = (c0.log(), if dead.is_none() { c1.stop() } else { c1.log() });
        // Shown if the test fails.
        println!("{}", self.system.zsr(&["events"]).out);
        let mut client = self.client;
        let delete = proto::DeleteFlowRequest { name: "f".into(), force: false };
        client.call(async |c| c.delete_flow(delete).await);
        self.system.down_after_deaths();
        (pushed, c0, c1)
    }
}

/// How a host is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Killed,
    Hangs,
}

/// A consumer's host is lost, the others go on.
fn consumer_dropped(kind: FlowKind, loss: Loss) -> (HashMap<u64, u64>, Log, Log) {
    let mut scene = Scene::of(kind, Policy::DropMember);
    scene.lose("h4", "c1", loss);
    scene.moves();
    scene.end(None)
}

#[test]
fn a_load_balance_goes_on_without_a_dead_consumer() {
    balance_goes_on(Loss::Killed);
}

#[test]
fn a_load_balance_goes_on_without_a_consumer_that_hangs() {
    balance_goes_on(Loss::Hangs);
}

fn balance_goes_on(loss: Loss) {
    let (pushed, stays, dead) = consumer_dropped(FlowKind::LoadBalance, loss);
    // Nothing comes twice to those who are left, and nothing is missing but what the dead one had been given.
    let mut had: HashMap<u64, Vec<u64>> = HashMap::new();
    let lost: std::collections::HashSet<_> = dead.iter().collect();
    let mut last = HashMap::new();
    for (producer, item) in &stays {
        assert!(last.insert(*producer, *item).is_none_or(|before| before < *item), "in order, once");
        had.entry(*producer).or_default().push(*item);
    }
    for (producer, count) in pushed {
        let had: std::collections::HashSet<_> = had[&producer].iter().copied().collect();
        assert!((0..count).all(|item| had.contains(&item) || lost.contains(&(producer, item))));
    }
}

#[test]
fn a_replicate_goes_on_without_a_lost_consumer() {
    for loss in [Loss::Killed, Loss::Hangs] {
        let (pushed, stays, dead) = consumer_dropped(FlowKind::Replicate, loss);
        each_once(&pushed, std::iter::once(&stays));
        part_of(&stays, &dead);
    }
}

/// Two hosts are lost at the same moment: neither is there to let the other go.
#[test]
fn a_replicate_goes_on_without_two_consumers_lost_at_once() {
    for loss in [Loss::Killed, Loss::Hangs] {
        let consumers = vec![member("c0", 2), member("c1", 3), member("c2", 4)];
        let mut scene = Scene::with(FlowKind::Replicate, Policy::DropMember, consumers);
        let agents = ["agent.h4", "agent.h5"].map(|name| scene.system.pid(name));
        let lost = if loss == Loss::Killed { "-KILL" } else { "-STOP" };
        agents.iter().for_each(|agent| signal(*agent, lost));
        let mut removed = [(); 2].map(|()| scene.events.next("member-removed")["member"].clone());
        removed.sort_by_key(|name| name.to_string());
        assert_eq!(removed, ["c1", "c2"]);
        scene.moves();
        if loss == Loss::Hangs {
            agents.iter().for_each(|agent| signal(*agent, "-KILL"));
        }
        let second = scene.poppers.pop().expect("three").stop();
        let (pushed, stays, first) = scene.end(None);
        each_once(&pushed, std::iter::once(&stays));
        part_of(&stays, &first);
        part_of(&stays, &second);
    }
}

/// A producer's host is lost; what it had pushed comes up to some item, what the others push comes all.
fn producer_dropped(kind: FlowKind, loss: Loss) {
    let mut scene = Scene::of(kind, Policy::DropMember);
    scene.lose("h1", "p0", loss);
    scene.moves();
    let (mut pushed, c0, c1) = scene.end(Some(0));
    let all = c0.iter().chain(if kind == FlowKind::Replicate { &[][..] } else { &c1[..] });
    let came = all.filter(|(producer, _)| *producer == 0).count() as u64;
    assert!(came <= pushed[&0]);
    if kind == FlowKind::Shuffle {
        // Each of its rings has lost its own end.
        for log in [&c0, &c1] {
            let of_dead: Log = log.iter().copied().filter(|(producer, _)| *producer == 0).collect();
            assert!(of_dead.is_sorted(), "in order");
        }
        pushed.remove(&0);
        let others = |log: &Log| log.iter().copied().filter(|(p, _)| *p != 0).collect::<Log>();
        each_once(&pushed, [others(&c0), others(&c1)].iter());
        return;
    }
    pushed.insert(0, came);
    match kind {
        FlowKind::Replicate => {
            each_once(&pushed, std::iter::once(&c0));
            assert!(c0 == c1, "one order for both");
        }
        _ => each_once(&pushed, [&c0, &c1].into_iter()),
    }
}

#[test]
fn a_shuffle_goes_on_without_a_dead_producer() {
    producer_dropped(FlowKind::Shuffle, Loss::Killed);
}

#[test]
fn a_load_balance_goes_on_without_a_dead_producer() {
    producer_dropped(FlowKind::LoadBalance, Loss::Killed);
}

#[test]
fn a_replicate_goes_on_without_a_dead_producer() {
    producer_dropped(FlowKind::Replicate, Loss::Killed);
}

#[test]
fn flows_go_on_without_a_producer_that_hangs() {
    producer_dropped(FlowKind::Shuffle, Loss::Hangs);
    producer_dropped(FlowKind::Replicate, Loss::Hangs);
}

#[test]
fn an_aborted_flow_tells_all_who_are_left() {
    for (kind, host) in [(FlowKind::LoadBalance, "h4"), (FlowKind::Replicate, "h1")] {
        let mut scene = Scene::of(kind, Policy::Abort);
        scene.kill(host);
        let failed = scene.events.next("flow-failed");
        assert!(failed["text"].as_str().expect("why").contains("agent does not answer"), "{failed}");
        let Scene { system, mut client, mut pushers, mut poppers, .. } = scene;
        let _told = pushers.swap_remove(1).aborted();
        let _told = poppers.swap_remove(0).aborted();
        assert_eq!(system.json(&["flow", "show", "f"])[0]["state"], "failed");
        pushers.into_iter().for_each(|p| _ = p.leave());
        poppers.into_iter().for_each(|p| drop(p.stop()));
        let delete = proto::DeleteFlowRequest { name: "f".into(), force: false };
        client.call(async |c| c.delete_flow(delete).await);
        system.down_after_deaths();
    }
}

#[test]
fn a_flow_that_waits_can_do_without_its_dead_by_hand() {
    let mut scene = Scene::of(FlowKind::LoadBalance, Policy::Wait);
    scene.kill("h4");
    let flow = &scene.system.json(&["flow", "show", "f"])[0];
    assert_eq!(flow["state"], "impaired");
    assert!(flow["reason"].as_str().expect("why").contains("`h4`"), "{flow}");
    let refused = scene.system.zsr(&["flow", "remove-member", "f", "c1"]);
    assert!(refused.code == Some(1) && refused.err.contains("--force"), "{}", refused.err);
    scene.system.well(&["flow", "remove-member", "f", "c1", "--force"]);
    scene.moves();
    assert_eq!(scene.system.json(&["flow", "show", "f"])[0]["state"], "running");
    scene.end(None);
}
