//! Flows that move nothing, under the controller that users run, in virtual time. How seldom are their rings polled,
//! beside a flow that moves and on a switch that rests, and how soon is an item found all the same?

use std::time::Duration;

use zsr_api::controller as proto;
use zsr_controller::Controller;
use zsr_plan::dataplane::model::Flow;
use zsr_ring::{Consumer, Producer};
use zsr_simnet::LinkConfig;
use zsr_tests::controlled::Controlled;

const HOSTS: &str = "hosts: [h1, h2, h3, h4]\nflows: []\n";
const MS: Duration = Duration::from_millis(1);
const ITEM: [u8; 64] = [7; 64];

fn with_doorbell(doorbell: bool) -> proto::Settings {
    proto::Settings { doorbell: Some(doorbell), ..Default::default() }
}

fn flow_with(
    sim: &mut Controlled,
    controller: &Controller,
    name: &str,
    between: [&str; 2],
    settings: proto::Settings,
) -> Flow {
    let [producers, consumers] =
        between.map(|h| vec![proto::Member { host: h.into(), ..Default::default() }]);
    let request = proto::CreateFlowRequest {
        name: name.into(),
        producers,
        consumers,
        item_size: 64,
        ring_size: 4096,
        settings: Some(settings),
        ..Default::default()
    };
    sim.create(controller, request)
}

fn flow(
    sim: &mut Controlled,
    controller: &Controller,
    name: &str,
    between: [&str; 2],
    doorbell: bool,
) -> Flow {
    flow_with(sim, controller, name, between, with_doorbell(doorbell))
}

/// A flow from h3 to h4 that moves an item every other millisecond.
struct Busy(Producer, Consumer);

impl Busy {
    fn new(sim: &mut Controlled, controller: &Controller) -> Self {
        let flow = flow(sim, controller, "busy", ["h3", "h4"], true);
        Busy(sim.producer(&flow, 0), sim.consumer(&flow, 1))
    }

    fn run_for(&mut self, sim: &mut Controlled, time: Duration) {
        let end = sim.net.now() + time.as_nanos() as u64;
        while sim.net.now() < end {
            self.0.try_push(&ITEM).expect("room");
            sim.run_for(2 * MS);
            self.1.try_pop(&mut [0; 64]).expect("moved");
        }
    }
}

/// Polls of flow `name` so far.
fn polls(sim: &mut Controlled, controller: &Controller, name: &'static str) -> u64 {
    let controller = controller.clone();
    sim.drive(async move { controller.stats(name).await }).expect("counted").flows[0].polls
}

/// How long an item that is pushed now takes.
fn one_way(sim: &mut Controlled, tx: &mut Producer, rx: &mut Consumer) -> Duration {
    let begun = sim.net.now();
    tx.try_push(&ITEM).expect("room");
    while rx.try_pop(&mut [0; 64]).is_err() {
        sim.run_for(MS / 50);
        assert!(sim.net.now() - begun < 1_000_000_000, "nothing moves");
    }
    Duration::from_nanos(sim.net.now() - begun)
}

#[test]
fn a_flow_that_moves_nothing_beside_a_busy_one_is_polled_rarely_and_an_item_is_found_at_once() {
    for (doorbell, longest) in [(true, MS / 5), (false, 10 * MS)] {
        let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 1);
        let controller = sim.controller(None).expect("a controller");
        let mut busy = Busy::new(&mut sim, &controller);
        let flow = flow(&mut sim, &controller, "f", ["h1", "h2"], doorbell);
        let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
        let mut polled = |sim: &mut Controlled| {
            let before = polls(sim, &controller, "f");
            busy.run_for(sim, 200 * MS);
            polls(sim, &controller, "f") - before
        };
        let first = polled(&mut sim);
        // Producers that ring need not be asked.
        assert_eq!(first > 1000, !doorbell, "{first} polls in the first 200 ms");
        while sim.net.now() < 2_000_000_000 {
            polled(&mut sim);
        }
        let rare = polled(&mut sim);
        assert!((20..=50).contains(&rare), "{rare} polls in 200 ms, two seconds later");
        let time = one_way(&mut sim, &mut tx, &mut rx);
        assert!(time <= longest, "{time:?}, doorbell: {doorbell}");
        // A flow that moves is looked at as before, also when the controller has noticed late.
        polled(&mut sim);
        one_way(&mut sim, &mut tx, &mut rx);
        polled(&mut sim);
        let again = polled(&mut sim);
        assert!(again > 1000, "{again} polls in 200 ms behind an item");
    }
}

#[test]
fn polls_that_only_find_lost_doorbells_become_very_rare_on_a_switch_that_rests() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 2);
    let controller = sim.controller(None).expect("a controller");
    for (name, doorbell) in [("rings", true), ("polled", false)] {
        flow(&mut sim, &controller, name, ["h1", "h2"], doorbell);
    }
    sim.run_for(3000 * MS);
    let before = ["rings", "polled"].map(|name| polls(&mut sim, &controller, name));
    sim.run_for(1000 * MS);
    let after = ["rings", "polled"].map(|name| polls(&mut sim, &controller, name));
    assert!((10..=30).contains(&(after[0] - before[0])), "{} polls in a second", after[0] - before[0]);
    assert!((90..=110).contains(&(after[1] - before[1])), "{} polls in a second", after[1] - before[1]);
}

#[test]
fn an_idle_flow_goes_on_when_its_controller_has_ended() {
    for doorbell in [true, false] {
        let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 3);
        let controller = sim.controller(None).expect("a controller");
        let flow = flow(&mut sim, &controller, "f", ["h1", "h2"], doorbell);
        let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
        sim.run_for(2000 * MS);
        controller.stop();
        let gone = controller.is_gone();
        drop(controller);
        sim.drive(gone);
        sim.run_for(1000 * MS);
        let (mut pushed, mut popped) = (0, 0);
        let begun = sim.net.now();
        // Many times what its rings hold.
        while popped < 1000 {
            while pushed < 1000 && tx.try_push(&ITEM).is_ok() {
                pushed += 1;
            }
            sim.run_for(MS / 10);
            while rx.try_pop(&mut [0; 64]).is_ok() {
                popped += 1;
            }
            assert!(sim.net.now() - begun < 1_000_000_000, "{popped} of 1000 items in a second");
        }
    }
}

/// Polls are rarest where `dead_after` allows it just so.
#[test]
fn a_member_of_an_idle_flow_that_falls_silent_is_noticed_in_time() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 4);
    let controller = sim.controller(None).expect("a controller");
    let settings = proto::Settings { dead_after_us: Some(2_000_000), ..with_doorbell(true) };
    flow_with(&mut sim, &controller, "f", ["h1", "h2"], settings);
    sim.run_for(6000 * MS);
    let (_, mut events) = controller.events(None);
    // From now on nothing reaches h1, and nothing comes from there.
    sim.switch().cut(Some(1));
    let cut = sim.net.now();
    let silent = loop {
        sim.run_for(10 * MS);
        match events.try_recv() {
            Ok(event) if event.kind() == proto::EventKind::MemberSilent => break event,
            _ => assert!(sim.net.now() - cut < 3_100_000_000, "not within 1.5 times dead_after"),
        }
    };
    assert_eq!(silent.member, "h1");
}

#[test]
fn every_producer_of_an_idle_flow_is_polled_where_polls_are_due_at_every_tick() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 1);
    let controller = sim.controller(None).expect("a controller");
    let member = |host: &str| proto::Member { host: host.into(), ..Default::default() };
    let request = proto::CreateFlowRequest {
        name: "f".into(),
        producers: ["h1", "h2", "h4"].map(member).into(),
        consumers: vec![member("h3")],
        item_size: 64,
        ring_size: 4096,
        settings: Some(with_doorbell(false)),
        ..Default::default()
    };
    let flow = sim.create(&controller, request);
    // Beside it the switch does not rest: ticks are regular.
    let mut busy = Busy::new(&mut sim, &controller);
    let (mut producers, mut rx) = ([0, 1, 2].map(|at| sim.producer(&flow, at)), sim.consumer(&flow, 3));
    for at in [0, 1, 2] {
        // Long enough for ticks to be rarer than polls.
        busy.run_for(&mut sim, 2000 * MS);
        let time = one_way(&mut sim, &mut producers[at], &mut rx);
        assert!(time <= 20 * MS, "{time:?} for three producers, one of which is asked every 5 ms");
    }
}
