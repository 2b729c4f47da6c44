//! Members that come and go while numbered items move, settings that change, flows that come and go beside: a seeded script over
//! real processes, for every kind of flow. Every item is accounted for, and in the end nothing is left of anything.
//!
//! `ZSR_CHURN` sets how many steps the script has (the usual few keep the suite short), `ZSR_SEED` where it begins:
//!
//! ```text
//! ZSR_CHURN=1000 cargo test --release -p zsr-cli --test live churn
//! ```

use std::collections::HashMap;
use std::time::Instant;

use zsr_api::controller::{self as proto, FlowKind};

use super::members::{Log, Popper, Pusher, moves_on};
use super::remains::Remains;
use super::system::{Client, HOSTS, System};

/// Steps of the script in the suite.
const STEPS: u64 = 30;
/// Members of each role at a time.
const MOST: usize = 4;
/// The consumer that stays from begin to end.
const STEADY: &str = "steady";

/// The same numbers for the same seed (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

/// A flow `f` with members in this process, and what became of those that have left.
struct Churn {
    kind: FlowKind,
    client: Client,
    dice: Dice,
    producers: HashMap<String, Pusher>,
    consumers: HashMap<String, Popper>,
    /// Items that each producer has pushed, by its number.
    pushed: HashMap<u64, u64>,
    popped: Vec<Log>,
    made: u64,
}

pub fn member(name: &str, host: usize) -> proto::Member {
    proto::Member { name: name.into(), host: format!("h{}", host + 1), ..Default::default() }
}

impl Churn {
    fn begin(system: &System, kind: FlowKind, seed: u64) -> Self {
        let mut client = system.client();
        let flow = client.call(async |c| {
            c.create_flow(proto::CreateFlowRequest {
                name: "f".into(),
                kind: kind.into(),
                producers: vec![member("p0", 0)],
                consumers: vec![member(STEADY, 1)],
                item_size: 64,
                ring_size: 4096,
                settings: Some(proto::Settings { rto_us: Some(5000), ..Default::default() }),
                ..Default::default()
            })
            .await
        });
        let mut churn = Churn {
            kind,
            client,
            dice: Dice(seed),
            producers: HashMap::new(),
            consumers: HashMap::new(),
            pushed: HashMap::new(),
            popped: Vec::new(),
            made: 1,
        };
        churn.attend(&flow);
        churn
    }

    /// Puts programs where the flow has members without one, and producers at rings for consumers that are new.
    fn attend(&mut self, flow: &proto::Flow) {
        for m in &flow.consumers {
            self.consumers.entry(m.name.clone()).or_insert_with(|| Popper::start(&m.rings[0]));
        }
        for m in &flow.producers {
            let number = m.name[1..].parse().expect("p and a number");
            let pusher = self.producers.entry(m.name.clone()).or_insert_with(|| Pusher::start(number));
            let consumer = |at: usize| match self.kind {
                FlowKind::Shuffle => flow.consumers[at].name.clone(),
                _ => String::new(),
            };
            m.rings.iter().enumerate().for_each(|(at, ring)| pusher.attach(&consumer(at), ring));
        }
    }

    fn any(&mut self, of: impl Fn(&Self) -> Vec<String>) -> String {
        let mut names = of(self);
        names.sort();
        let at = self.dice.below(names.len());
        names.swap_remove(at)
    }

    fn step(&mut self, system: &System) {
        let what = self.dice.below(12);
        // Shown when the test fails.
        println!("{what}: {} producers, {} consumers", self.producers.len(), self.consumers.len());
        let begun = Instant::now();
        match what {
            0..=1 if self.producers.len() < MOST => self.add(true),
            2..=3 if self.producers.len() > 1 => self.remove_producer(),
            4..=5 if self.consumers.len() < MOST => self.add(false),
            6..=7 if self.consumers.len() > 1 => self.remove_consumer(),
            8 => self.beside(),
            9 => self.refused(system),
            _ => self.set(),
        }
        // Whatever was done, items move on.
        let before = self.consumers.values().map(Popper::popped).sum();
        println!("after {:?}", begun.elapsed());
        moves_on(self.consumers.values(), before, &|| {
            let said = [&["top", "-n", "1", "--json"][..], &["flow", "list"], &["events"]]
                .map(|a| system.zsr(a).out);
            said.concat()
        });
    }

    fn add(&mut self, producer: bool) {
        let name = format!("{}{}", if producer { 'p' } else { 'c' }, self.made);
        self.made += 1;
        let member = Some(member(&name, self.dice.below(3)));
        let request = proto::AddMemberRequest { flow: "f".into(), member };
        let flow = self.client.call(async |c| match producer {
            true => c.add_producer(request).await,
            false => c.add_consumer(request).await,
        });
        self.attend(&flow);
    }

    fn remove(&mut self, member: &str) {
        let member = member.to_owned();
        let request =
            proto::RemoveMemberRequest { flow: "f".into(), member, force: false, ..Default::default() };
        self.client.call(async |c| c.remove_member(request).await);
    }

    fn remove_producer(&mut self) {
        let name = self.any(|s| s.producers.keys().cloned().collect());
        let pusher = self.producers.remove(&name).expect("it is there");
        // Some wait until all is taken, some just go, some end their stream.
        let (number, count) = match self.dice.below(3) {
            0 => pusher.leave_drained(),
            1 => pusher.leave(),
            _ => pusher.close(),
        };
        self.pushed.insert(number, count);
        self.remove(&name);
    }

    fn remove_consumer(&mut self) {
        let name = self.any(|s| s.consumers.keys().filter(|n| *n != STEADY).cloned().collect());
        if self.kind == FlowKind::Shuffle {
            self.producers.values().for_each(|p| p.forget(&name));
        }
        self.remove(&name);
        // It takes what it was given, then sees its end.
        let popper = self.consumers.remove(&name).expect("it is there");
        self.popped.push(popper.log());
    }

    fn set(&mut self) {
        let pick = |dice: &mut Dice, values: &[u64]| values[dice.below(values.len())];
        let dice = &mut self.dice;
        let settings = proto::Settings {
            weight: Some(pick(dice, &[1, 3, 1000]) as u32),
            rate_cap_bps: Some(pick(dice, &[0, 0, 80_000_000])),
            poll_interval_us: Some(pick(dice, &[20, 100, 5000])),
            max_batch: Some(pick(dice, &[64, 1024, 1 << 20]) as u32),
            hint: Some(pick(dice, &[1, 2]) as i32),
            ..Default::default()
        };
        println!("{settings:?}");
        let request = proto::SetFlowRequest { name: "f".into(), settings: Some(settings) };
        self.client.call(async |c| c.set_flow(request).await);
    }

    /// Another flow with a few items.
    fn beside(&mut self) {
        let kind = [FlowKind::Shuffle, FlowKind::LoadBalance, FlowKind::Replicate][self.dice.below(3)];
        let request = proto::CreateFlowRequest {
            name: "g".into(),
            kind: kind.into(),
            producers: vec![member("p0", self.dice.below(3))],
            consumers: vec![member("c0", self.dice.below(3))],
            item_size: 64,
            ring_size: 1024,
            settings: Some(proto::Settings { doorbell: Some(self.dice.below(2) == 0), ..Default::default() }),
            ..Default::default()
        };
        let flow = self.client.call(async |c| c.create_flow(request).await);
        let popper = Popper::start(&flow.consumers[0].rings[0]);
        let mut pusher = Pusher::start(0);
        pusher.attach("", &flow.producers[0].rings[0]);
        let (_, count) = pusher.close();
        let log: Log = (0..count).map(|n| (0, n)).collect();
        assert!(popper.log() == log, "flow g has its items");
        let request = proto::DeleteFlowRequest { name: "g".into(), force: false };
        self.client.call(async |c| c.delete_flow(request).await);
    }

    /// What is refused changes nothing.
    fn refused(&mut self, system: &System) {
        let before = system.json(&["flow", "show", "f"]);
        for args in [
            &["flow", "add-consumer", "f", "steady@h1"][..],
            &["flow", "add-producer", "f", "x@h7"],
            &["flow", "remove-member", "f", "nobody"],
            &["flow", "set", "f", "--weight", "0"],
            &["flow", "create", "f", "-p", "h1", "-c", "h2"],
        ] {
            let done = system.zsr(args);
            assert!(
                matches!(done.code, Some(1 | 2)) && done.err.lines().count() == 1,
                "{args:?}: {}",
                done.err
            );
        }
        assert_eq!(system.json(&["flow", "show", "f"]), before);
    }

    /// All producers end their streams, all consumers see the end; then everything is accounted for.
    fn finish(mut self) {
        for (_, pusher) in self.producers.drain() {
            let (number, count) = pusher.close();
            self.pushed.insert(number, count);
        }
        let steady = self.consumers.remove(STEADY).expect("it stays").log();
        self.popped.extend(self.consumers.drain().map(|(_, popper)| popper.log()));
        assert!(self.pushed.values().sum::<u64>() > 0);
        if self.kind == FlowKind::Replicate {
            each_once(&self.pushed, [&steady].into_iter());
            self.popped.iter().for_each(|log| part_of(&steady, log));
        } else {
            self.popped.push(steady);
            each_once(&self.pushed, self.popped.iter());
        }
        let request = proto::DeleteFlowRequest { name: "f".into(), force: false };
        self.client.call(async |c| c.delete_flow(request).await);
    }
}

/// Each item once, in order per producer at each consumer.
pub fn each_once<'l>(pushed: &HashMap<u64, u64>, logs: impl Iterator<Item = &'l Log>) {
    let mut got: HashMap<u64, Vec<bool>> =
        pushed.iter().map(|(number, count)| (*number, vec![false; *count as usize])).collect();
    for log in logs {
        let mut last: HashMap<u64, u64> = HashMap::new();
        for (producer, item) in log {
            let seen = &mut got.get_mut(producer).expect("a producer that there was")[*item as usize];
            assert!(!*seen, "item {item} of producer {producer} came twice");
            *seen = true;
            let before = last.insert(*producer, *item);
            assert!(before.is_none_or(|b| b < *item), "item {item} of producer {producer} behind {before:?}");
        }
    }
    for (producer, seen) in got {
        let lost: Vec<usize> = (0..seen.len()).filter(|at| !seen[*at]).collect();
        assert!(lost.is_empty(), "of producer {producer}'s {} items were lost: {lost:?}", seen.len());
    }
}

/// A member of a replicate flow that came later or left earlier sees what the others see between, without a gap.
pub fn part_of(all: &Log, log: &Log) {
    let Some(first) = log.first() else { return };
    let at = all.iter().position(|item| item == first).expect("an item that all have");
    assert!(all[at..].starts_with(log), "one order for all, from item {first:?} on");
}

fn steps() -> u64 {
    let steps = std::env::var("ZSR_CHURN").ok().map_or(STEPS, |n| n.parse().expect("ZSR_CHURN is a number"));
    assert!(steps > 0, "ZSR_CHURN=0 would try nothing");
    steps
}

fn churn(kind: FlowKind, seed: u64) {
    let seed = std::env::var("ZSR_SEED").ok().map_or(seed, |n| n.parse().expect("ZSR_SEED is a number"));
    let system = System::up(HOSTS);
    // Whatever is made once and stays is there from a first flow on.
    Churn::begin(&system, kind, seed).finish();
    let before = Remains::of(&system);
    let mut churn = Churn::begin(&system, kind, seed);
    (0..steps()).for_each(|_| churn.step(&system));
    churn.finish();
    before.are_all_there_is(&system);
    system.down();
}

#[test]
fn churn_of_a_shuffle() {
    churn(FlowKind::Shuffle, 1);
}

#[test]
fn churn_of_a_load_balance() {
    churn(FlowKind::LoadBalance, 2);
}

#[test]
fn churn_of_a_replicate() {
    churn(FlowKind::Replicate, 3);
}
