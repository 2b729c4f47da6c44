//! A schedule in one system: carries the steps out, lets the programs work, and checks every guarantee.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::time::Duration;

use zsr_api::controller::{self as proto, EventKind};
use zsr_controller::{Controller, StartError};
use zsr_host_agent::agent::RingInfo;
use zsr_link::FaultRates;
use zsr_plan::dataplane::model::{Flow, Member};
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_plan::state::NewMember;
use zsr_simnet::LinkConfig;
use zsr_tests::controlled::{Controlled, MemoryStore, Task};
use zsr_topology::{Pipes, Policy, RingRole};

use crate::forger::Forger;
use crate::programs::Programs;
use crate::schedule::{HOSTS, NewFlow, Schedule, Step, TURN_US, What};

/// Virtual time between two turns of the programs.
const STEP: Duration = Duration::from_micros(TURN_US);
/// The same after a long wait in vain: the event will hardly come.
const RARELY: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(5);
/// Turns of the programs between two looks for rings without a program.
const LOOK: u64 = 5;
/// Time between two attempts to start a controller.
const AGAIN: Duration = Duration::from_millis(100);
/// Time after the last fault within which all items have to arrive; after the same time again, all deleted flows have
/// to be gone.
pub const DRAINED: Duration = Duration::from_secs(60);

/// The result of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub items: u64,
    pub packets: u64,
    /// Equal hashes mean equal runs.
    pub hash: u64,
    pub virtual_time: Duration,
    /// Time from the last fault until all items had arrived.
    pub drained_in: Duration,
}

/// The answer that the operator got about a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Exists,
    Gone,
    /// The controller died before it answered.
    Nothing,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { items, packets, hash, virtual_time, drained_in } = self;
        write!(
            f,
            "{items} items popped, {packets} packets (trace {hash:016x}), {:.3} s of virtual time, everything had arrived {:.3} s \
             after the last fault",
            virtual_time.as_secs_f64(),
            drained_in.as_secs_f64()
        )
    }
}

type Events = tokio::sync::broadcast::Receiver<proto::Event>;

/// A call of the operator.
struct Wish {
    what: What,
    /// Whether no item is pushed into its flow meanwhile.
    pauses: bool,
    task: Task<Result<Option<Flow>, ControllerError>>,
}

struct Run<'s> {
    sim: Controlled,
    programs: Programs,
    schedule: &'s Schedule,
    store: MemoryStore,
    controller: Option<Controller>,
    starting: Option<Task<Result<Controller, StartError>>>,
    /// Whether there should be a controller, and when its start is tried (again).
    wanted: Option<Duration>,
    events: Option<Events>,
    asked: Vec<Wish>,
    told: BTreeMap<usize, Told>,
    /// Reasons why flows have failed, as operators were told.
    reasons: BTreeMap<usize, String>,
    /// Flows of which nobody knows whether a requested member joined or left.
    unsure: BTreeSet<usize>,
    turn: u64,
    /// Only packets are lost or damaged: no flow has a reason to end.
    blameless: bool,
    forger: Option<Forger>,
    trace: bool,
}

fn host(number: usize) -> String {
    format!("h{number}")
}

/// The switch and, if it has a standby, the standby; then the switch counts as dead after this silence. Where there are
/// several pipes, each host is at the next one.
fn switches(schedule: &Schedule) -> String {
    let (pipes, names) = (schedule.pipes, if schedule.standby { &["s1", "s2"][..] } else { &["s1"] });
    let (dead_after, standby) = match schedule.standby {
        true => (", p4runtime: {dead_after: 500ms}", ", {name: s2, standby: true}"),
        false => ("", ""),
    };
    let switches = format!("switches: [{{name: s1, pipes: {pipes}{dead_after}}}{standby}]\n");
    if pipes == 1 {
        return switches;
    }
    let port = |number: u32| Pipes::port_in(number % pipes, 1 + number / pipes);
    let link = |number: usize| {
        names.iter().map(move |name| format!("'{} -> {name}:{}'", host(number), port(number as u32)))
    };
    let links: Vec<String> = (0..HOSTS).flat_map(link).collect();
    format!("{switches}links: [{}]\n", links.join(", "))
}

fn topology(schedule: &Schedule) -> String {
    let order = |number| if schedule.big_endian.contains(&number) { "big" } else { "little" };
    // NICs that keep what comes too early, and such that don't.
    let window = |number| [64, 0, 8][(schedule.seed as usize).wrapping_add(number) % 3];
    let hosts = (0..HOSTS)
        .map(|n| format!("{{name: {}, byte_order: {}, reorder_window: {}}}", host(n), order(n), window(n)));
    let hosts: Vec<String> = hosts.collect();
    let psn = schedule.first_psn.map_or(String::new(), |psn| format!(", first_psn: {psn}"));
    let switches = switches(schedule);
    format!("{switches}defaults: {{mtu: {}{psn}}}\nhosts: [{}]\nflows: []\n", schedule.mtu, hosts.join(", "))
}

fn member(prefix: char, number: usize) -> proto::Member {
    proto::Member { name: format!("{prefix}{number}"), host: host(number), ..Default::default() }
}

fn request(flow: &NewFlow) -> proto::CreateFlowRequest {
    let settings = proto::Settings {
        max_batch: Some(flow.max_batch),
        doorbell: Some(flow.doorbell),
        policy: Some(flow.policy.into()),
        rate_cap_bps: flow.rate_cap,
        dead_after_us: flow.dead_after_us,
        ..Default::default()
    };
    proto::CreateFlowRequest {
        name: format!("f{}", flow.name),
        kind: flow.kind.into(),
        producers: flow.producers.iter().map(|h| member('p', *h)).collect(),
        consumers: flow.consumers.iter().map(|h| member('c', *h)).collect(),
        item_size: flow.item_size,
        ring_size: flow.ring_size,
        lanes: flow.lanes,
        settings: Some(settings),
        ..Default::default()
    }
}

/// Runs a schedule. Panics with the error, if there is one. `trace` prints each event.
pub fn run(schedule: &Schedule, trace: bool) -> Summary {
    let link = LinkConfig { bandwidth_bps: Some(schedule.bandwidth_bps), ..LinkConfig::FAST };
    let mut sim = Controlled::new(&topology(schedule), link.with_faults(schedule.rates), schedule.seed);
    if schedule.pass_ns > 0 {
        sim.set_pass_time(schedule.pass_ns);
    }
    let forges = schedule.steps.iter().any(|step| matches!(step.what, What::Forges(..)));
    let forger = forges.then(|| Forger::new(schedule.seed, &mut sim));
    let store = MemoryStore::default();
    let controller = sim.controller(Some(Box::new(store.clone()))).expect("the first controller");
    let empty = sim.switch_holds(0);
    let mut run = Run {
        programs: Programs::new(schedule.seed),
        schedule,
        store,
        controller: None,
        starting: None,
        wanted: Some(Duration::ZERO),
        events: None,
        asked: Vec::new(),
        told: BTreeMap::new(),
        reasons: BTreeMap::new(),
        unsure: BTreeSet::new(),
        turn: 0,
        blameless: schedule.steps.iter().all(|step| step.what.is_asked_for()),
        forger,
        trace,
        sim,
    };
    let begun = run.now();
    run.has_controller(controller);
    for step in &schedule.steps {
        run.pass(begun + step.at);
        run.say(&step.to_string());
        run.act(step);
    }
    run.pass(begun + schedule.calm);
    run.heal();
    let calm = run.now();
    run.say("nothing goes wrong any more");
    run.until("everything has arrived", |run| run.lacking());
    let drained_in = run.now() - calm;
    run.say("everything has arrived");
    run.check_told();
    if run.take_out_lost() {
        run.until("those are taken out who are lost", |run| run.idle().err());
        run.pass(run.now() + AGAIN);
        run.until("everything has arrived", |run| run.lacking());
    }
    if let Some(unsaid) = run.programs.unsaid() {
        panic!("{unsaid}");
    }
    run.programs.leave_all();
    run.until("all flows are gone", Run::delete_all);
    run.until("rings and queue pairs are gone", |run| run.sim.hosts_hold());
    // A switch that has just come back is given its program first.
    run.until("a switch holds what it held in the beginning", |run| {
        run.switches().find_map(|number| {
            let holds = run.sim.switch_holds(number);
            let names = || empty.keys().chain(holds.keys());
            let other = names().find(|name| holds.get(*name) != empty.get(*name))?;
            Some(format!(
                "of {other} switch {number} held {:?}, and holds {:?}",
                empty.get(other),
                holds.get(other)
            ))
        })
    });
    let net = &run.sim.net;
    Summary {
        items: run.programs.popped,
        packets: net.deliveries(),
        hash: net.trace_hash(),
        virtual_time: run.now() - begun,
        drained_in,
    }
}

impl Run<'_> {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.sim.net.now())
    }

    /// Numbers of the switches: the switch, and its standby if there is one.
    fn switches(&self) -> std::ops::Range<usize> {
        0..if self.schedule.standby { 2 } else { 1 }
    }

    fn say(&self, what: &str) {
        if self.trace {
            println!("[{:>12.3} ms] {what}", self.now().as_secs_f64() * 1e3);
        }
    }

    fn pass(&mut self, until: Duration) {
        while self.now() < until {
            self.turn();
        }
    }

    /// Lets time pass until `lacking` returns `None`.
    fn until(&mut self, what: &str, mut lacking: impl FnMut(&mut Self) -> Option<String>) {
        let (begun, end) = (self.now(), self.now() + DRAINED);
        loop {
            for _ in 0..10 {
                self.turn_of(if self.now() - begun > LONG { RARELY } else { STEP });
            }
            let Some(still) = lacking(self) else { return };
            if self.now() > end {
                panic!(
                    "{} s after the last fault it is not so that {what}: {still}\n{}",
                    DRAINED.as_secs(),
                    self.picture()
                );
            }
        }
    }

    /// Lets virtual time pass, lets the programs do a little, and handles calls that have ended meanwhile.
    fn turn(&mut self) {
        self.turn_of(STEP);
    }

    fn turn_of(&mut self, time: Duration) {
        self.sim.run_for(time);
        self.turn += 1;
        if self.turn.is_multiple_of(LOOK)
            && let Some(controller) = &self.controller
        {
            // Programs know of rings what the controller says.
            let flows = controller.list_flows();
            let known: BTreeSet<&str> =
                flows.iter().flat_map(|f| f.rings()).map(|r| r.name.as_str()).collect();
            for (number, agent) in self.sim.agents.iter().enumerate().filter(|(n, _)| self.sim.lives(*n)) {
                self.programs.attach(number, agent, &known);
            }
        }
        self.programs.step();
        if let Some(forger) = &mut self.forger {
            forger.step(&mut self.sim);
        }
        if self.store.died() {
            self.say("the controller dies in the middle of a line of its journal");
            self.kill_controller();
        }
        self.look_at_controller();
        self.look_at_events();
        let ended = self.asked.extract_if(.., |wish| wish.task.is_finished()).collect::<Vec<_>>();
        ended.into_iter().for_each(|wish| self.ended(wish));
    }

    fn has_controller(&mut self, controller: Controller) {
        let (past, events) = controller.events(Some(0));
        past.iter().for_each(|event| self.happened(event));
        self.events = Some(events);
        self.controller = Some(controller);
        self.wanted = None;
    }

    fn look_at_controller(&mut self) {
        if self.starting.as_ref().is_some_and(Task::is_finished)
            && let Some(task) = self.starting.take()
        {
            match self.sim.result(task) {
                Some(Ok(controller)) => {
                    self.say("a controller has started");
                    self.has_controller(controller);
                }
                Some(Err(why)) => {
                    self.say(&format!("no controller: {why}"));
                    self.wanted = Some(self.now() + AGAIN);
                }
                None => self.wanted = Some(self.now() + AGAIN),
            }
        }
        let due = self.wanted.is_some_and(|at| at <= self.now());
        if due && self.controller.is_none() && self.starting.is_none() {
            self.starting = Some(self.sim.begin_controller(Some(Box::new(self.store.clone()))));
        }
    }

    fn look_at_events(&mut self) {
        while let Some(event) = self.events.as_mut().and_then(|events| events.try_recv().ok()) {
            self.happened(&event);
        }
    }

    fn happened(&mut self, event: &proto::Event) {
        if self.trace {
            let proto::Event { flow, member, ring, host, text, .. } = event;
            self.say(&format!("event {:?} {flow} {member} {ring} {host}: {text}", event.kind()));
        }
        let flow = event.flow.get(1..).and_then(|f| f.parse::<usize>().ok()).unwrap_or(usize::MAX);
        if event.kind() == EventKind::MemberRemoved {
            let again = event.text.starts_with("as an earlier controller");
            self.programs.doubted(flow, &event.doubts, again);
        }
        match event.kind() {
            EventKind::MemberLeaving => self.programs.leave(flow, &event.member, true),
            EventKind::FlowChanged if event.text.ends_with("stays") => {
                self.programs.leave(flow, event.text.split('`').nth(1).unwrap_or(""), false);
            }
            EventKind::FlowFailed => self.flow_failed(flow, &event.text),
            EventKind::MemberRemoved if !self.is_removed(flow, &event.member) => {
                let (member, why) = (&event.member, &event.text);
                assert!(
                    !self.blameless,
                    "member {member} of f{flow} was taken out, though it did nothing: {why}"
                );
                self.programs.excuse(flow, "its policy took a member out");
            }
            EventKind::AgentLost if !self.agent_is_away(&event.host) => {
                panic!("the agent of {} is said to be lost, and is there", event.host)
            }
            EventKind::MemberSilent if self.answers(&event.member) => {
                panic!("member {} of f{flow} is said to be silent, and answers: {}", event.member, event.text)
            }
            _ => {}
        }
    }

    /// Connections known to programs and forgers are over.
    fn switch_died(&mut self) {
        self.programs.switch_died();
        if self.schedule.first_psn.is_some() {
            self.forger.iter_mut().for_each(Forger::forget);
        }
    }

    /// A flow was ended: was there a reason?
    fn flow_failed(&mut self, flow: usize, why: &str) {
        // By what its own programs have put into its rings, or NICs that have forgotten it.
        let is_its_fault = why.contains("refused a request") || why.contains("outside of its ring");
        if self.programs.excused(flow).is_none() && (is_its_fault || self.blameless) {
            panic!("f{flow} was ended, though nobody did it harm: {why}");
        }
        self.programs.excuse(flow, why);
        self.reasons.insert(flow, why.to_owned());
    }

    /// Whether a host's agent may have seemed to be gone: broken connections alone do not count.
    fn agent_is_away(&self, name: &str) -> bool {
        let is = |at: usize| host(at) == name;
        let mut held_up = 0;
        self.schedule.steps.iter().any(|step| match &step.what {
            What::AgentReachable(at, false) if is(*at) => {
                held_up += 1;
                held_up > 1
            }
            What::KillHost(at) | What::StallHost(at, true) | What::AgentJumps(at, _) => is(*at),
            What::StallController(_) | What::ControllerJumps(_) => true,
            _ => false,
        })
    }

    /// Whether nothing ever kept a member's host from answering the switch. On links that always lose every tenth
    /// frame, that is unknown.
    fn answers(&self, member: &str) -> bool {
        if self.schedule.rates.loss + self.schedule.rates.corrupt >= 0.1 {
            return false;
        }
        let Some(at) = member.get(1..).and_then(|host| host.parse::<usize>().ok()) else { return false };
        self.schedule.steps.iter().all(|step| match &step.what {
            What::Faults { host, .. } | What::Cut { host } | What::KillHost(host) => *host != at,
            What::KillSwitch(_) | What::HangSwitch(..) => false,
            _ => true,
        })
    }

    /// Whether the operator may have taken the member out of the flow.
    fn is_removed(&self, flow: usize, member: &str) -> bool {
        let host = member.get(1..).and_then(|host| host.parse::<usize>().ok());
        let removes = |what: &What| matches!(what, What::Remove { flow: of, host: at } if *of == flow && Some(*at) == host);
        self.schedule.steps.iter().any(|step| removes(&step.what))
    }

    fn kill_controller(&mut self) {
        self.look_at_events();
        self.sim.kill_controller();
        (self.controller, self.starting, self.events, self.wanted) = (None, None, None, None);
    }

    fn act(&mut self, step: &Step) {
        let sim = &mut self.sim;
        match &step.what {
            What::Faults { host, rates } => sim.set_faults(*host, *rates),
            What::Cut { host } => sim.set_faults(*host, FaultRates { loss: 1.0, ..FaultRates::NONE }),
            What::Mend { host } => sim.set_faults(*host, self.schedule.rates),
            What::KillController => self.kill_controller(),
            What::StartController => self.wanted = Some(Duration::ZERO),
            What::StallController(stalls) => sim.stall_controller(*stalls),
            What::KillHost(host) => {
                sim.kill_host(*host);
                self.programs.bury(*host);
            }
            What::KillSwitch(number) => {
                sim.kill_switch(*number);
                self.switch_died();
            }
            What::ReturnSwitch(number) => sim.return_switch(*number),
            What::HangSwitch(number, hangs) => {
                sim.hang_switch(*number, *hangs);
                self.switch_died();
            }
            What::ReturnHost(host) => sim.return_host(*host),
            What::StallHost(host, stalls) => sim.stall_host(*host, *stalls),
            What::AgentReachable(host, is) => sim.set_reachable(*host, *is),
            What::AgentBreaks(host) => sim.break_agent(*host),
            What::SwitchReachable(number, is) => sim.set_switch_reachable(*number, *is),
            What::JournalFull(full) => self.store.set_full(*full),
            What::JournalCut(part) => self.store.cut_next(*part),
            What::ProgramsPause(host, pause) => self.programs.pause_host(*host, *pause),
            What::ProgramsChange(host) => self.programs.change(*host),
            What::Nonsense(host) => {
                if let Some((flow, nonsense)) = self.programs.spoil(*host) {
                    self.say(&format!("a program of f{flow} on h{host} writes nonsense: {nonsense:?}"));
                }
            }
            What::Forges(host, forges) => self.forger.iter_mut().for_each(|f| f.set(*host, *forges)),
            What::ControllerJumps(by) => sim.jump_controller(*by),
            What::AgentJumps(host, by) => sim.jump_agent(*host, *by),
            asked => self.ask(asked),
        }
    }

    /// The operator makes a call, if there is a controller.
    fn ask(&mut self, what: &What) {
        let Some(controller) = self.controller.clone() else { return };
        let name = |flow: &usize| format!("f{flow}");
        let mut pauses = matches!(what, What::Delete { .. });
        let task = match what.clone() {
            What::Create(flow) => {
                self.programs.know(&flow);
                self.told.insert(flow.name, Told::Nothing);
                self.sim.begin(async move { controller.create(request(&flow)).await.map(Some) })
            }
            What::SetRateAndWeight { flow, weight } => {
                let changes = proto::Settings { weight: Some(weight), ..Default::default() };
                self.sim.begin(async move { controller.set_flow(&name(&flow), &changes).await.map(Some) })
            }
            What::AddProducer { flow, host: at } | What::AddConsumer { flow, host: at } => {
                let is_producer = matches!(what, What::AddProducer { .. });
                self.programs.joined(flow, at, is_producer);
                let (prefix, role) =
                    if is_producer { ('p', RingRole::Producer) } else { ('c', RingRole::Consumer) };
                let member =
                    NewMember { name: format!("{prefix}{at}"), host: host(at), ..NewMember::default() };
                self.sim
                    .begin(async move { controller.add_member(&name(&flow), role, &member).await.map(Some) })
            }
            What::Remove { flow, host: at } => {
                let at = [format!("c{at}"), format!("p{at}")];
                let known = controller.get_flow(&name(&flow));
                let member =
                    known.ok().and_then(|f| f.members().map(|m| m.name.clone()).find(|m| at.contains(m)));
                // A producer is told that a consumer leaves, and need not know before.
                let surprises = member.as_ref().is_some_and(|m| m.starts_with('c')) && self.programs.coin();
                pauses = !surprises;
                self.sim.begin(async move {
                    let Some(member) = member else { return Ok(None) };
                    controller.remove_member(&name(&flow), &member, false).await.map(Some)
                })
            }
            What::Delete { flow } => self
                .sim
                .begin(async move { controller.delete_flow(&name(&flow), false).await.map(|()| None) }),
            _ => None,
        };
        if let (true, Some(flow)) = (pauses, what.flow()) {
            self.programs.pause_flow(flow, true);
        }
        if let Some(task) = task {
            self.asked.push(Wish { what: what.clone(), pauses, task });
        }
    }

    /// Handles a call that has ended: it is done, or refused, or nobody will ever answer.
    fn ended(&mut self, Wish { what, pauses, task }: Wish) {
        let result = self.sim.result(task);
        match &result {
            Some(Ok(_)) => self.say(&format!("done: {what:?}")),
            Some(Err(e)) => self.say(&format!("refused: {what:?}: {e}")),
            None => self.say(&format!("nobody answers: {what:?}")),
        }
        let is_change = matches!(what, What::AddConsumer { .. } | What::Remove { .. });
        if is_change && !matches!(result, Some(Ok(_))) {
            self.unsure.extend(what.flow());
        }
        let goes = matches!(what, What::Delete { .. } | What::Remove { .. });
        if let (true, Some(Ok(_)), Some(flow)) = (goes, &result, what.flow()) {
            self.programs.went_in_peace(flow);
        }
        // Nothing is pushed into what may be gone.
        let stays = match (&what, &result) {
            (What::Delete { .. }, result) => matches!(result, Some(Err(_))),
            _ => true,
        };
        if let (true, true, Some(flow)) = (pauses, stays, what.flow()) {
            self.programs.pause_flow(flow, false);
        }
        match (&what, result) {
            (What::Create(flow), Some(Ok(_))) => drop(self.told.insert(flow.name, Told::Exists)),
            (What::Create(flow), Some(Err(_))) => drop(self.told.insert(flow.name, Told::Gone)),
            (What::Delete { flow }, Some(Ok(_))) => {
                if self.programs.excused(*flow).is_none()
                    && let Some(lacking) = self.programs.lacking(*flow)
                {
                    panic!("f{flow} was deleted, not by force, while {lacking}");
                }
                self.told.insert(*flow, Told::Gone);
            }
            (What::Delete { flow }, None) => drop(self.told.insert(*flow, Told::Nothing)),
            // The next controller completes a deletion that could not be finished.
            (What::Delete { flow }, Some(Err(e))) if e.kind == ErrorKind::Unavailable => {
                self.told.insert(*flow, Told::Nothing);
            }
            _ => {}
        }
    }

    /// From now on there are no faults.
    fn heal(&mut self) {
        self.programs.hurry();
        for number in 0..HOSTS {
            self.sim.return_host(number);
            self.sim.stall_host(number, false);
            self.sim.set_reachable(number, true);
            self.sim.set_faults(number, FaultRates::NONE);
            self.programs.pause_host(number, false);
            self.forger.iter_mut().for_each(|f| f.set(number, false));
        }
        for number in self.switches() {
            self.sim.hang_switch(number, false);
            self.sim.return_switch(number);
            self.sim.set_switch_reachable(number, true);
        }
        self.sim.stall_controller(false);
        self.store.set_full(false);
        self.store.forget_cut();
        if self.controller.is_none() && self.starting.is_none() {
            self.wanted = Some(Duration::ZERO);
        }
    }

    /// The controller, if there is one and no call to it is under way.
    fn idle(&self) -> Result<Controller, String> {
        if let Some(Wish { what, .. }) = self.asked.first() {
            return Err(format!("{what:?} is under way"));
        }
        self.controller.clone().ok_or_else(|| "there is no controller".to_owned())
    }

    /// The reason why the system is not at rest.
    fn lacking(&mut self) -> Option<String> {
        let controller = match self.idle() {
            Ok(controller) => controller,
            Err(why) => return Some(why),
        };
        let there = self.rings();
        let is_there = |at: &str, name: &str| there.iter().any(|(n, r)| host(*n) == at && r.name == name);
        let programs = &mut self.programs;
        for flow in controller.list_flows() {
            let number = flow.name[1..].parse().unwrap_or(usize::MAX);
            let lacking = match (&flow.failed, programs.excused(number)) {
                (Some(_), _) => programs
                    .present(number)
                    .map(|who| format!("{who} does not know that {} failed", flow.name)),
                (None, None) => programs.lacking(number).or_else(|| programs.unended(number)),
                (None, Some(_)) => {
                    // The switch does not look into a ring that has gone with its host or its member, or while its
                    // worker stands: at its end, or for a member whose ring has gone.
                    let stands = flow.rings().any(|r| !is_there(&r.host, &r.name));
                    let looks = flow.lost.is_empty() && !stands && !programs.has_ended(number);
                    let unnoticed = looks && programs.is_spoilt(number, &there);
                    unnoticed
                        .then(|| format!("nobody says that a program of {} has written nonsense", flow.name))
                }
            };
            // Only a flow that waits goes on without a ring.
            let waits = flow.failed.is_some() || flow.settings.policy == Policy::Wait;
            let lost = flow.rings().find(|r| !waits && !is_there(&r.host, &r.name));
            let lost = lost
                .map(|r| format!("ring `{}` of {} is not there, and the flow goes on", r.name, flow.name));
            let lacking = lacking.or(lost);
            if lacking.is_some() {
                return lacking;
            }
        }
        self.programs.lost().or_else(|| self.programs.untold(&there))
    }

    /// Checks that operators and programs were told the truth.
    fn check_told(&self) {
        let Some(controller) = &self.controller else { return };
        let flows = controller.list_flows();
        for (number, told) in &self.told {
            let name = format!("f{number}");
            let there = flows.iter().find(|f| f.name == name);
            match told {
                Told::Exists => {
                    assert!(there.is_some(), "{name} was created, nobody has deleted it, and it is not there")
                }
                Told::Gone => assert!(there.is_none(), "{name} was refused, or deleted, and is there"),
                Told::Nothing => {}
            }
        }
        // The next controller does not know what could not be written.
        let is_unwritten = |step: &Step| matches!(step.what, What::JournalFull(_) | What::JournalCut(_));
        for (number, why) in self.reasons.iter().filter(|_| !self.schedule.steps.iter().any(is_unwritten)) {
            let flow = flows.iter().find(|f| f.name == format!("f{number}"));
            let failed = flow.map(|f| f.failed.as_ref());
            assert!(
                failed.is_none_or(|f| f == Some(why)),
                "f{number} failed because of {why}, and says {failed:?}"
            );
        }
        let rings = self.rings();
        for flow in flows.iter().filter(|f| f.failed.is_none()) {
            let number = flow.name[1..].parse().unwrap_or(usize::MAX);
            // A consumer that is taken out sees the end of its stream.
            if self.programs.excused(number).is_none()
                && !self.unsure.contains(&number)
                && let Some(member) = self.programs.aborted(number).next()
            {
                panic!("consumer {member} of {} was told that the flow is over; it runs", flow.name);
            }
            if let Some(ring) = self.programs.misled(number, &rings) {
                panic!("the program at `{ring}` was told that its flow has failed; it runs");
            }
        }
    }

    /// The operator takes members out by force whose rings are gone and for whom flows wait. Returns whether there are
    /// any.
    fn take_out_lost(&mut self) -> bool {
        let Some(controller) = self.controller.clone() else { return false };
        let there = self.rings();
        let is_there = |at: &str, name: &str| there.iter().any(|(n, r)| host(*n) == at && r.name == name);
        let mut some = false;
        for flow in controller.list_flows().iter().filter(|f| f.failed.is_none()) {
            let gone = flow.members().filter(|m| m.rings.iter().any(|r| !is_there(&r.host, &r.name)));
            let gone: Vec<String> = gone.map(|m| m.name.clone()).collect();
            let stays = |side: &[Member]| side.iter().any(|m| !gone.contains(&m.name));
            if gone.is_empty() || !stays(&flow.producers) || !stays(&flow.consumers) {
                continue;
            }
            let at = gone[0][1..].parse().unwrap_or(usize::MAX);
            let what = What::Remove { flow: flow.name[1..].parse().unwrap_or(usize::MAX), host: at };
            let (controller, name) = (controller.clone(), flow.name.clone());
            let removing = async move { controller.remove_members(&name, &gone, true).await.map(Some) };
            if let Some(task) = self.sim.begin(removing) {
                self.asked.push(Wish { what, pauses: false, task });
                some = true;
            }
        }
        some
    }

    fn rings(&self) -> Vec<(usize, RingInfo)> {
        let agents = self.sim.agents.iter().enumerate();
        agents.flat_map(|(n, a)| a.rings().unwrap_or_default().into_iter().map(move |r| (n, r))).collect()
    }

    /// Deletes the flows that are left; returns those that still are.
    fn delete_all(&mut self) -> Option<String> {
        let controller = match self.idle() {
            Ok(controller) => controller,
            Err(why) => return Some(why),
        };
        let flows = controller.list_flows();
        let names: Vec<String> = flows.iter().map(|f| f.name.clone()).collect();
        for flow in flows {
            let number = flow.name[1..].parse().unwrap_or(usize::MAX);
            let force = flow.failed.is_some() || self.programs.excused(number).is_some();
            let (what, controller) = (What::Delete { flow: number }, controller.clone());
            let deleting = async move { controller.delete_flow(&flow.name, force).await.map(|()| None) };
            if let Some(task) = self.sim.begin(deleting) {
                self.asked.push(Wish { what, pauses: false, task });
            }
        }
        (!names.is_empty()).then(|| format!("there are {names:?}"))
    }

    /// The state of the system, to find out why nothing goes on.
    fn picture(&self) -> String {
        let mut out = String::new();
        if let Some(controller) = &self.controller {
            for flow in controller.list_flows() {
                let _ = writeln!(out, "flow {} {:?} failed: {:?}", flow.name, flow.kind, flow.failed);
            }
        }
        for (number, ring) in self.rings() {
            let _ = writeln!(out, "h{number} {} {:?} {:?}", ring.name, ring.state, ring.ring.snapshot());
        }
        out
    }
}
