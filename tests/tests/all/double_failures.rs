//! Two failures at a time, of switch, hosts and controller: items that come twice or in another order are reported, and
//! no others come so. In each schedule a consumer pops an item a moment after it has come, and all that know of that
//! are lost: the switch, which has not heard it yet, and the host with its rings.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::broadcast;
use tonic::Request;
use zsr_api::controller::controller_server::Controller as Service;
use zsr_api::controller::{self as proto, EventKind, FlowKind, FlowState, Policy};
use zsr_controller::Controller;
use zsr_plan::error::ErrorKind;
use zsr_ring::{Consumer, PopError, Producer};
use zsr_simnet::LinkConfig;
use zsr_tests::controlled::{Controlled, MemoryStore};

const MS: Duration = Duration::from_millis(1);
/// Virtual time in which everything here has to come to pass. An agent that can't be reached is lost after 18 s.
const PATIENCE: Duration = Duration::from_secs(25);
/// Less than a packet takes, so that what is done when an item has come is done before the switch hears that it has.
const STEP: Duration = Duration::from_micros(50);
const ITEM: u32 = 64;

/// A flow `f` from h1 and h2 to h3 and h4, whose members are called as their hosts, and its programs.
struct System {
    sim: Controlled,
    store: MemoryStore,
    controller: Controller,
    events: broadcast::Receiver<proto::Event>,
    /// Events of a restarted controller until it was ready.
    past: Vec<proto::Event>,
    /// By member: the program, and the number of items it has pushed.
    producers: BTreeMap<String, (Producer, u32)>,
    consumers: BTreeMap<String, Consumer>,
    /// Items that consumers have popped: consumer, ring, number.
    log: Vec<(String, String, u32)>,
}

impl System {
    fn new(kind: FlowKind, policy: Policy) -> System {
        let link = LinkConfig { latency_ns: 200_000, ..LinkConfig::FAST };
        let mut sim = Controlled::new("hosts: [h1, h2, h3, h4]\nflows: []\n", link, 40);
        let store = MemoryStore::default();
        let controller = sim.controller(Some(Box::new(store.clone()))).expect("a controller");
        let members =
            |hosts: [&str; 2]| hosts.map(|h| proto::Member { host: h.into(), ..Default::default() }).to_vec();
        let settings = proto::Settings {
            policy: Some(policy.into()),
            dead_after_us: Some(1_000_000),
            max_batch: Some(ITEM * 4),
            ..Default::default()
        };
        let request = proto::CreateFlowRequest {
            name: "f".into(),
            kind: kind.into(),
            producers: members(["h1", "h2"]),
            consumers: members(["h3", "h4"]),
            item_size: ITEM,
            ring_size: 4096,
            settings: Some(settings),
            ..Default::default()
        };
        let flow = sim.create(&controller, request);
        let (mut producers, mut consumers) = (BTreeMap::new(), BTreeMap::new());
        for (at, ring) in flow.rings().enumerate() {
            match ring.ids.is_producer {
                true => drop(producers.insert(ring.name.clone(), (sim.producer(&flow, at), 0))),
                false => drop(consumers.insert(ring.host.clone(), sim.consumer(&flow, at))),
            }
        }
        let events = controller.events(Some(0)).1;
        let past = Vec::new();
        let log = Vec::new();
        let mut system = System { sim, store, controller, events, past, producers, consumers, log };
        system.run(MS * 5);
        system
    }

    /// Pushes into a producer's ring.
    fn push(&mut self, ring: &str, items: u32) {
        let (tx, pushed) = self.producers.get_mut(ring).expect("a ring");
        for _ in 0..items {
            let mut item = [0; ITEM as usize];
            item[..4].copy_from_slice(&pushed.to_le_bytes());
            item[4..4 + ring.len()].copy_from_slice(ring.as_bytes());
            tx.try_push(&item).expect("room");
            *pushed += 1;
        }
    }

    fn pop(&mut self) {
        let mut item = [0; ITEM as usize];
        for (member, rx) in &mut self.consumers {
            loop {
                match rx.try_pop(&mut item) {
                    Ok(()) => {
                        let number = u32::from_le_bytes(item[..4].try_into().expect("4 bytes"));
                        let ring = String::from_utf8_lossy(&item[4..]).trim_end_matches('\0').to_owned();
                        self.log.push((member.clone(), ring, number));
                    }
                    Err(PopError::Empty | PopError::Closed | PopError::Aborted(_)) => break,
                    Err(e) => panic!("{member}: {e}"),
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.sim.net.now() + time.as_nanos() as u64;
        while self.sim.net.now() < end {
            self.sim.run_for(STEP);
            self.pop();
        }
    }

    fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let begun = self.sim.net.now();
        loop {
            if let Some(done) = done(self) {
                return done;
            }
            let late = self.sim.net.now() - begun > PATIENCE.as_nanos() as u64;
            assert!(!late, "{what}: {:?}, {:?}", self.log, self.controller.get_flow("f"));
            self.sim.run_for(STEP);
            self.pop();
        }
    }

    fn event(&mut self, kind: EventKind) -> proto::Event {
        self.until(kind.as_str_name(), |s| {
            std::iter::from_fn(|| s.events.try_recv().ok()).find(|event| event.kind() == kind)
        })
    }

    /// The consumers that have popped an item, once for each time.
    fn who(&self, ring: &str, number: u32) -> Vec<&str> {
        self.log.iter().filter(|(_, r, n)| r == ring && *n == number).map(|(by, ..)| by.as_str()).collect()
    }

    /// Whether an item has been popped.
    fn has(&self, ring: &str, number: u32) -> Option<()> {
        (!self.who(ring, number).is_empty()).then_some(())
    }

    /// Until an item has been popped, by whom is returned.
    fn popped(&mut self, ring: &str, number: u32) -> String {
        self.until("an item arrives", |s| s.who(ring, number).first().map(|by| (*by).to_owned()))
    }

    fn kill_host(&mut self, host: &str) {
        self.sim.kill_host(number(host));
        self.consumers.remove(host);
        self.producers.retain(|ring, _| ring.split('.').nth(1) != Some(host));
    }

    fn flow(&mut self) -> proto::Flow {
        let controller = self.controller.clone();
        let asked = async move {
            let request = proto::GetFlowRequest { name: "f".into() };
            Service::get_flow(&controller, Request::new(request)).await
        };
        self.sim.drive(asked).expect("it is there").into_inner()
    }

    fn remove(&mut self, members: &[&str], force: bool) -> Result<(), (ErrorKind, String)> {
        let (controller, members) = (self.controller.clone(), members.iter().map(|m| (*m).to_owned()));
        let members: Vec<String> = members.collect();
        let removing = async move { controller.remove_members("f", &members, force).await };
        self.sim.drive(removing).map(drop).map_err(|e| (e.kind, e.message))
    }

    fn next_controller(&mut self) {
        self.sim.kill_controller();
        self.run(MS);
        self.controller = self.sim.controller(Some(Box::new(self.store.clone()))).expect("the next one");
        let (past, events) = self.controller.events(Some(0));
        self.events = events;
        assert!(past.iter().any(|event| event.kind() == EventKind::ControllerStarted));
        self.past = past;
    }

    /// As [`switch_and_consumer_die`](Self::switch_and_consumer_die), of a group whose other member can't be reached
    /// meanwhile.
    fn switch_and_consumer_die_alone(&mut self, ring: &str) -> String {
        let who = self.switch_and_consumer_die(ring, 1);
        assert_eq!(self.log.len(), 1, "nobody else has it");
        who
    }

    /// The switch dies, and the host that has just popped the first item of `ring`; both are there again.
    fn switch_and_consumer_die(&mut self, ring: &str, items: u32) -> String {
        self.push(ring, items);
        let who = self.popped(ring, 0);
        self.sim.kill_switch(0);
        self.kill_host(&who);
        self.run(MS * 2);
        self.sim.return_switch(0);
        self.sim.return_host(number(&who));
        self.event(EventKind::FlowResumed);
        who
    }
}

fn number(host: &str) -> usize {
    host[1..].parse::<usize>().expect("a number") - 1
}

fn other(consumer: &str) -> &'static str {
    if consumer == "h3" { "h4" } else { "h3" }
}

/// The report about a consumer that may have had up to `items` of h1.
fn doubt(consumer: &str, items: u32) -> proto::Doubt {
    let (producer, ring) = ("h1".into(), "f.h1".into());
    proto::Doubt { consumer: consumer.into(), producer, ring, items }
}

#[test]
fn a_transfer_to_a_consumer_that_is_lost_with_its_switch_waits_for_it_and_comes_again_only_by_force() {
    let mut all = System::new(FlowKind::LoadBalance, Policy::Wait);
    let who = all.switch_and_consumer_die("f.h1", 1);
    let waits = all.event(EventKind::FlowChanged);
    assert_eq!(waits.doubts, [doubt(&who, 1)], "{waits:?}");
    // The item's producer waits, and says for which consumer; the other producer does not.
    all.push("f.h1", 2);
    all.push("f.h2", 60);
    all.until("the other producer goes on", |s| s.has("f.h2", 59));
    all.run(MS * 1500);
    assert_eq!((all.who("f.h1", 0), all.who("f.h1", 1)), (vec![&*who], vec![]));
    let flow = all.flow();
    assert_eq!(flow.state(), FlowState::Impaired);
    let says = [
        format!("`h1` waits for host `{who}` of member `{who}`"),
        "may have consumed 1 item of producer `h1`".to_owned(),
        format!("zsr flow remove-member f {who} --force"),
    ];
    assert!(says.iter().all(|part| flow.reason.contains(part)), "{}", flow.reason);
    // Nor does a consumer get it that comes now.
    let (kind, why) = all.remove(&[&who], false).expect_err("an item may come twice");
    assert_eq!(kind, ErrorKind::NotNow);
    assert!(why.contains("may have consumed 1 item of producer `h1`") && why.contains("--force"), "{why}");
    // Holds under the next controller, too.
    all.next_controller();
    all.run(MS * 100);
    assert!(all.past.iter().all(|event| event.doubts.is_empty()), "{:?}", all.past);
    assert_eq!(all.who("f.h1", 1).len(), 0);
    all.remove(&[&who], true).expect("by force");
    let removed = all.event(EventKind::MemberRemoved);
    assert_eq!((&removed.member, &removed.doubts[..]), (&who, &[doubt(&who, 1)][..]));
    assert!(removed.text.contains("comes once more, to another consumer"), "{}", removed.text);
    all.until("the producer goes on", |s| s.has("f.h1", 2));
    let twice = [&*who, other(&who)];
    assert_eq!((all.who("f.h1", 0), all.who("f.h1", 1)), (twice.to_vec(), vec![other(&who)]));
    assert!((0..60).all(|number| all.who("f.h2", number).len() == 1), "{:?}", all.log);
    assert_eq!(all.flow().state(), FlowState::Running);
    // The next controller tells it once more: this one may have died before it could.
    all.next_controller();
    let told = all.past.iter().find(|event| event.kind() == EventKind::MemberRemoved).expect("told again");
    assert_eq!((&told.member, &told.doubts[..]), (&who, &[doubt(&who, 1)][..]));
}

#[test]
fn as_many_may_come_again_as_a_transfer_has() {
    let mut all = System::new(FlowKind::LoadBalance, Policy::Wait);
    // The first transfer is of what the first look sees, four items at most; nobody knows afterwards.
    let who = all.switch_and_consumer_die("f.h1", 9);
    let waits = all.event(EventKind::FlowChanged);
    let had = all.log.len() as u32;
    let [told] = &waits.doubts[..] else { panic!("{waits:?}") };
    assert!(told.items == 4 && (1..=told.items).contains(&had), "{had} of {told:?}");
    all.remove(&[&who], true).expect("by force");
    all.until("the producer goes on", |s| s.has("f.h1", 8));
    let often: Vec<usize> = (0..9).map(|n| all.who("f.h1", n).len()).collect();
    assert!(
        often.iter().enumerate().all(|(n, times)| *times == 1 + usize::from((n as u32) < had)),
        "{often:?}"
    );
}

#[test]
fn a_policy_that_drops_members_tells_what_comes_again() {
    let mut all = System::new(FlowKind::LoadBalance, Policy::DropMember);
    let who = all.switch_and_consumer_die("f.h1", 1);
    let removed = all.event(EventKind::MemberRemoved);
    assert_eq!((&removed.member, &removed.doubts[..]), (&who, &[doubt(&who, 1)][..]));
    all.until("it comes again", |s| (s.who("f.h1", 0).len() == 2).then_some(()));
}

#[test]
fn what_a_host_says_that_was_only_away_is_believed() {
    // Known to be away, or not yet.
    [EventKind::AgentLost, EventKind::SwitchFound].into_iter().for_each(was_only_away);
}

/// A host can't be reached when its switch dies, and when its member is to be taken out, some time after `then`.
fn was_only_away(then: EventKind) {
    let mut all = System::new(FlowKind::LoadBalance, Policy::Wait);
    all.push("f.h1", 1);
    let who = all.popped("f.h1", 0);
    all.sim.set_reachable(number(&who), false);
    all.sim.kill_switch(0);
    all.run(MS);
    all.sim.return_switch(0);
    all.event(then);
    // The flow goes on without it, and then its member stays after all.
    all.store.set_full(true);
    let (kind, why) = all.remove(&[&who], true).expect_err("the disk is full");
    assert_eq!(kind, ErrorKind::Unwritten, "{why}");
    all.store.set_full(false);
    assert_eq!(all.event(EventKind::FlowChanged).doubts, [doubt(&who, 1)]);
    all.push("f.h1", 1);
    all.run(MS * 100);
    assert_eq!(all.who("f.h1", 1).len(), 0);
    all.sim.set_reachable(number(&who), true);
    all.until("the producer goes on", |s| s.has("f.h1", 1));
    assert_eq!(all.who("f.h1", 0), [&*who]);
    all.run(MS * 5);
    let flow = all.controller.get_flow("f").expect("it is there");
    assert!(flow.lost.is_empty() && flow.held.is_empty(), "{flow:?}");
    // The flow moves items again.
    all.push("f.h1", 60);
    all.push("f.h2", 60);
    all.until("both get some", |s| (s.who("f.h1", 61).len() + s.who("f.h2", 59).len() == 2).then_some(()));
    all.run(MS * 20);
    assert!(all.log.iter().filter(|(by, ..)| *by == who).count() > 1, "{:?}", all.log);
    assert_eq!(all.log.len(), 122);
}

#[test]
fn members_that_stay_and_are_away_are_waited_for_when_others_leave() {
    let mut all = System::new(FlowKind::LoadBalance, Policy::Wait);
    all.push("f.h1", 1);
    let who = all.popped("f.h1", 0);
    all.sim.kill_switch(0);
    all.kill_host(other(&who));
    all.sim.set_reachable(number(&who), false);
    all.run(MS);
    all.sim.return_switch(0);
    all.event(EventKind::SwitchFound);
    let (kind, why) = all.remove(&[other(&who)], true).expect_err("the other one has not said what it has");
    assert_eq!(kind, ErrorKind::Stuck);
    assert!(why.contains(&format!("host `{who}` of member `{who}` has not said yet")), "{why}");
    all.sim.set_reachable(number(&who), true);
    all.until("it goes now", |s| s.remove(&[other(&who)], true).ok());
    all.push("f.h1", 2);
    all.until("the producer goes on", |s| s.has("f.h1", 2));
    assert_eq!(all.log.len(), 3);
}

#[test]
fn a_group_waits_for_a_member_that_is_lost_with_the_switch_and_tells_what_it_may_have_had() {
    for policy in [Policy::Wait, Policy::DropMember] {
        let mut all = System::new(FlowKind::Replicate, policy);
        // The last member is farther away, so that the first one pops while the switch waits for the other.
        all.sim.switch().cut(Some(4));
        let who = "h3".to_owned();
        assert_eq!(all.switch_and_consumer_die_alone("f.h1"), who);
        if policy == Policy::Wait {
            assert_eq!(all.event(EventKind::FlowChanged).doubts, [doubt(&who, 1)]);
            all.push("f.h2", 1);
            all.run(MS * 1500);
            assert_eq!(all.log.len(), 1);
            let flow = all.flow();
            assert_eq!(flow.state(), FlowState::Impaired);
            assert!(flow.reason.contains("the flow waits for host `h3` of member `h3`"), "{}", flow.reason);
            all.remove(&[&who], true).expect("by force");
        }
        let removed = all.event(EventKind::MemberRemoved);
        assert_eq!(removed.doubts, [doubt(&who, 1)]);
        assert!(removed.text.contains("perhaps in another order"), "{}", removed.text);
        all.until("the other one has it", |s| (s.who("f.h1", 0) == ["h3", "h4"]).then_some(()));
    }
}

#[test]
fn a_transfer_that_is_given_up_with_its_consumer_is_told() {
    for policy in [Policy::Wait, Policy::DropMember] {
        let mut all = System::new(FlowKind::LoadBalance, policy);
        all.push("f.h1", 1);
        let who = all.popped("f.h1", 0);
        // The answer of the consumer is lost, and then its host.
        all.sim.switch().cut(Some(number(&who) as u16 + 1));
        all.run(MS);
        all.kill_host(&who);
        if policy == Policy::Wait {
            all.event(EventKind::MemberSilent);
            all.push("f.h1", 2);
            all.run(MS * 1000);
            assert_eq!(all.log.len(), 1, "its producer waits");
            all.remove(&[&who], true).expect("by force");
        }
        let removed = all.event(EventKind::MemberRemoved);
        let [told] = &removed.doubts[..] else { panic!("{removed:?}") };
        assert_eq!((told.consumer.as_str(), told.ring.as_str()), (&*who, "f.h1"));
        all.until("it comes again", |s| (s.who("f.h1", 0) == [&*who, other(&who)]).then_some(()));
        // Should the controller have died meanwhile, the next one tells it.
        all.next_controller();
        let again = all.past.iter().find(|event| event.kind() == EventKind::MemberRemoved).expect("told");
        assert_eq!(again.doubts, removed.doubts);
    }
}

#[test]
fn nothing_comes_again_of_a_shuffle() {
    let mut all = System::new(FlowKind::Shuffle, Policy::Wait);
    all.push("f.h1.h3", 1);
    let who = all.switch_and_consumer_die("f.h1.h3", 1);
    assert_eq!(who, "h3");
    all.remove(&[&who], true).expect("by force");
    let removed = all.event(EventKind::MemberRemoved);
    assert!(removed.doubts.is_empty(), "{removed:?}");
    all.push("f.h1.h4", 10);
    all.until("the other one gets its items", |s| s.has("f.h1.h4", 9));
    assert_eq!(all.log.iter().filter(|(_, ring, n)| ring == "f.h1.h3" && *n == 0).count(), 1);
}
