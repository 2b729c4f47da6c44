//! A whole system under one seed and one virtual clock. It has the controller that users run with its P4Runtime
//! session, agents, NICs, the switch with the shipped program, and links with faults. Nothing runs beside the caller:
//! no thread, no socket, no real time.
//!
//! ```text
//!  network: switch, NICs ── a span of virtual time ─► calls to the switch ─► controller, agents, servers: up to the same time ─► again
//! ```
//! Controller, switch and every host are processes of their own, which can be killed, stalled, and cut off from one
//! another.

mod process;
mod relay;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use p4runtime_proto::Local;
pub use tokio::task::JoinHandle as Task;
use zsr_api::controller as proto;
use zsr_controller::store::Store;
use zsr_controller::{Controller, Seat, Setup, StartError};
use zsr_host_agent::agent::Agent;
use zsr_host_agent::nic::{NicHandle, SoftNicBackend};
use zsr_p4runtime_server::{P4RuntimeServer, empty_program};
use zsr_plan::dataplane::model::Flow;
use zsr_plan::dataplane::pipes;
use zsr_ring::{Cancel, Consumer, Producer};
use zsr_simnet::{End, FaultRates, LinkConfig, Network, Node, NodeId, Stop};
use zsr_soft_nic::Nic;
use zsr_soft_switch::{
    ControlQueue, Program, Recirculation, Switch, SwitchConfig, TableEntry, TableId, control_queue,
};
use zsr_system::parts::{bare_switch, nic_config};
use zsr_system::timers::timers;
use zsr_topology::Topology;
use zsr_wire::{Frame, FramePool, Mac};

use crate::nodes::SwitchNode;
use crate::setup::program;
use crate::wire::Wire;
use relay::Way;

pub use process::Process;
pub use store::MemoryStore;

/// Virtual time that the network runs before controller and agents have their turn, in nanoseconds: the least time of a
/// call between them and the switch. It is longer while they exchange no messages.
const SPAN: u64 = 20_000;
const QUIET_SPAN: u64 = 200_000;
/// Spans without a message after which the system counts as quiet.
const QUIET: u32 = 50;
/// The same where it has been quiet for long.
const SILENT_SPAN: u64 = 1_000_000;
const SILENT: u32 = 1000;
/// Packets that may wait for another pass through the switch.
const QUEUED: usize = 4096;
/// Turns that the processes may have at one time.
const TURNS: usize = 64;

/// Loads the program, and that of a switch without one, and compiles them to machine code. As long as the result is
/// there, systems are made in a fraction of the time. No other thread is at work any more.
pub fn load() -> [Program; 2] {
    let shipped = Program::from_json(std::str::from_utf8(&program().json).expect("text"));
    let programs = [shipped.expect("a sound program"), empty_program().expect("the empty program")];
    for program in &programs {
        program.is_native();
    }
    programs
}

/// A host's NIC, which its agent calls in the same thread.
struct HeldNic {
    /// `None` while the host is dead.
    nic: Option<Arc<Mutex<Nic>>>,
    /// The switches that the NIC's ports lead to, in their order.
    switches: Vec<Mac>,
}

impl HeldNic {
    fn nic(&self) -> Option<std::sync::MutexGuard<'_, Nic>> {
        Some(self.nic.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Node for HeldNic {
    fn handle(&mut self, now_ns: u64, _port: u16, frame: Frame, pool: &mut FramePool) {
        match self.nic() {
            Some(mut nic) => nic.handle(now_ns, frame, pool),
            None => pool.put(frame),
        }
    }

    fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        let frame = self.nic()?.poll_transmit(now_ns, pool)?;
        let to = self.switches.iter().position(|mac| frame.bytes().starts_with(&mac.0));
        Some((to.unwrap_or(0) as u16, frame))
    }

    fn next_timer(&self) -> Option<u64> {
        self.nic()?.next_timeout()
    }

    fn on_timer(&mut self, now_ns: u64) {
        if let Some(mut nic) = self.nic() {
            nic.on_timeout(now_ns);
        }
    }
}

/// A switch: its node, the way to its P4Runtime server, and the server's process while the switch lives.
struct SwitchSide {
    node: NodeId,
    control: ControlQueue,
    server: Option<Process>,
    way: Way,
    /// The switch does not run at the moment.
    hangs: bool,
}

/// A host: its NIC's node, the way to its agent, and the agent's process while it lives.
struct HostSide {
    node: NodeId,
    port: u16,
    way: Way,
    process: Option<Process>,
    /// How often the host was started.
    lives: u64,
}

/// The system.
pub struct Controlled {
    /// The network.
    pub net: Network,
    /// The agents of the hosts, in the topology's order; of a dead host, the last one.
    pub agents: Vec<Agent>,
    topology: Topology,
    seed: u64,
    /// The switch, and its standby if the topology has one.
    switches: Vec<SwitchSide>,
    hosts: Vec<HostSide>,
    /// The network between controller, agents and switch.
    relay: Process,
    carried: Arc<AtomicU64>,
    silent_spans: u32,
    /// The controller's process, while there is one.
    controller: Option<Process>,
    /// Hosts that do not run at the moment.
    stalled: BTreeSet<usize>,
    controller_stalled: bool,
    pass_ns: u64,
}

impl Controlled {
    /// The system without a controller. `yaml` is a topology with one switch, and perhaps its standby; all links are as
    /// `link`.
    pub fn new(yaml: &str, link: LinkConfig, seed: u64) -> Controlled {
        let topology =
            Topology::parse(Path::new("sim.yaml"), yaml.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let mut net = Network::new(seed);
        let (relay, carried) = (Process::new(0), Arc::<AtomicU64>::default());
        let way = || {
            let (way, carrying) = Way::new(carried.clone());
            relay.spawn(carrying);
            way
        };
        let switches = topology.switches.iter().map(|spec| {
            let nothing = bare_switch(spec).expect("a switch");
            let node = net.add(SwitchNode::new(nothing, Wire::default()));
            SwitchSide { node, control: control_queue(|| ()).1, server: None, way: way(), hangs: false }
        });
        let switches: Vec<SwitchSide> = switches.collect();
        let macs: Vec<Mac> = topology.switches.iter().map(|spec| Mac(spec.mac.0)).collect();
        let hosts = (0..topology.hosts.len()).map(|number| {
            let node = net.add(HeldNic { nic: None, switches: macs.clone() });
            let port = topology.link_of(number).expect("a link").port as u16;
            for (own, switch) in switches.iter().enumerate() {
                let (a, b) = (End { node: switch.node, port }, End { node, port: own as u16 });
                net.connect(a, b, link).expect("free ports");
            }
            HostSide { node, port, way: way(), process: None, lives: 0 }
        });
        let hosts: Vec<HostSide> = hosts.collect();
        let mut sim = Controlled {
            net,
            agents: Vec::new(),
            topology,
            seed,
            switches,
            hosts,
            relay,
            carried,
            silent_spans: 0,
            controller: None,
            stalled: BTreeSet::new(),
            controller_stalled: false,
            pass_ns: 0,
        };
        (0..sim.switches.len()).for_each(|number| sim.start_switch(number));
        for host in 0..sim.hosts.len() {
            let agent = sim.start_host(host);
            sim.agents.push(agent);
        }
        sim
    }

    /// Has the switch queue packets for another pass, each of which takes this time in nanoseconds, while others come
    /// in. So the switch is like a chip rather than a thread. Must be called before anything else.
    pub fn set_pass_time(&mut self, ns: u64) {
        self.pass_ns = ns;
        (0..self.switches.len()).for_each(|number| self.start_switch(number));
    }

    fn fresh_switch(&self, number: usize) -> SwitchNode {
        let spec = &self.topology.switches[number];
        if self.pass_ns == 0 {
            return SwitchNode::new(bare_switch(spec).expect("a switch"), Wire::default());
        }
        let recirculation = Recirculation::Queued { capacity: QUEUED };
        let config = SwitchConfig {
            cpu_port: spec.cpu_port as u16,
            pipes: pipes::of_ports(spec.pipes),
            recirculation,
            ..Default::default()
        };
        let mut switch = Switch::new(&empty_program().expect("the empty program"), config);
        for timer in timers(spec.tick) {
            switch.add_timer(timer).expect("a timer");
        }
        let mut node = SwitchNode::new(switch, Wire::default());
        node.pass_ns = self.pass_ns;
        node
    }

    /// A switch without any state.
    fn start_switch(&mut self, number: usize) {
        let (handle, control) = control_queue(|| ());
        *self.switch_number(number) = self.fresh_switch(number);
        let process = Process::new(self.net.now());
        let device_id = NonZeroU64::new(self.topology.switches[number].device_id).expect("not 0");
        let server = P4RuntimeServer::new(handle, device_id);
        let side = &mut self.switches[number];
        process.spawn(server.serve(side.way.listen(), std::future::pending()));
        (side.control, side.server, side.hangs) = (control, Some(process), false);
    }

    /// Switch `number` (1: the standby) dies, and with it its tables and registers, and the packets in it.
    pub fn kill_switch(&mut self, number: usize) {
        *self.switch_number(number) = self.fresh_switch(number);
        (self.switches[number].server, self.switches[number].hangs) = (None, false);
    }

    /// A switch that has died is there again, without any state.
    pub fn return_switch(&mut self, number: usize) {
        if self.switches[number].server.is_none() {
            self.start_switch(number);
        }
    }

    /// A switch hangs, or goes on with what has come in meanwhile.
    pub fn hang_switch(&mut self, number: usize, hangs: bool) {
        let (now, lives) = (self.net.now(), self.switches[number].server.is_some());
        self.switch_number(number).hang(now, hangs && lives);
        self.switches[number].hangs = hangs && lives;
    }

    /// A NIC and an agent, both without earlier state.
    fn start_host(&mut self, number: usize) -> Agent {
        let host = &self.topology.hosts[number];
        let mut config = nic_config(&self.topology, number);
        // Keys and queue pairs of a host that has come back are others, as the system's generator has them.
        let lives = &mut self.hosts[number].lives;
        config.seed = config.seed.map(|seed| seed.wrapping_add(*lives));
        *lives += 1;
        let nic = Arc::new(Mutex::new(Nic::new(config)));
        let backend = SoftNicBackend::new("soft0", NicHandle::held(nic.clone()), &config, host.mtu);
        let agent = Agent::new(&host.name, backend.expect("a NIC"));
        let side = &mut self.hosts[number];
        self.net.node_mut::<HeldNic>(side.node).expect("a NIC").nic = Some(nic);
        let (process, incoming, serving) = (Process::new(self.net.now()), side.way.listen(), agent.clone());
        process.spawn(async move { serving.serve_incoming(incoming, std::future::pending()).await });
        side.process = Some(process);
        agent
    }

    /// A host dies: its NIC, its agent, and the memory of its rings. Its programs have lost their rings, too.
    pub fn kill_host(&mut self, number: usize) {
        let side = &mut self.hosts[number];
        side.process = None;
        self.net.node_mut::<HeldNic>(side.node).expect("a NIC").nic = None;
    }

    /// A host that has died is there again, without any state.
    pub fn return_host(&mut self, number: usize) {
        if self.hosts[number].process.is_none() {
            self.agents[number] = self.start_host(number);
        }
    }

    /// A host's NIC, while the host lives.
    pub fn nic(&self, number: usize) -> Option<Arc<Mutex<Nic>>> {
        self.net.node::<HeldNic>(self.hosts[number].node).expect("a NIC").nic.clone()
    }

    /// Whether a host lives.
    pub fn lives(&self, number: usize) -> bool {
        self.hosts[number].process.is_some()
    }

    /// Stalls a host's agent, or lets it go on. Its NIC, like one of hardware, goes on.
    pub fn stall_host(&mut self, number: usize, stalls: bool) {
        match stalls {
            true => self.stalled.insert(number),
            false => self.stalled.remove(&number),
        };
    }

    /// Stalls the controller, or lets it go on.
    pub fn stall_controller(&mut self, stalls: bool) {
        self.controller_stalled = stalls;
    }

    /// Lets the controller's clock alone jump ahead.
    pub fn jump_controller(&mut self, by: Duration) {
        self.controller.iter_mut().for_each(|process| process.jump(by));
    }

    /// Lets the clock of a host's agent alone jump ahead.
    pub fn jump_agent(&mut self, number: usize, by: Duration) {
        self.hosts[number].process.iter_mut().for_each(|process| process.jump(by));
    }

    /// A frame comes in at the switch, and at its standby, as if from this host.
    pub fn inject(&mut self, number: usize, bytes: &[u8]) {
        let (now, port) = (self.net.now(), self.hosts[number].port);
        for switch in 0..self.switches.len() {
            self.switch_number(switch).inject(now, port, bytes);
        }
    }

    /// Calls `seen` with each frame that comes in at the switch or its standby, and the host of the frame.
    pub fn observe(&mut self, mut seen: impl FnMut(usize, &[u8]) + 'static) {
        let ports: Vec<u16> = self.hosts.iter().map(|host| host.port).collect();
        let switches: Vec<NodeId> = self.switches.iter().map(|side| side.node).collect();
        self.net.observe(move |_, end, bytes| {
            if switches.contains(&end.node)
                && let Some(host) = ports.iter().position(|port| end.port == *port)
            {
                seen(host, bytes);
            }
        });
    }

    /// Whether controller and agent of a host reach each other.
    pub fn set_reachable(&mut self, number: usize, is: bool) {
        self.hosts[number].way.set_open(is);
    }

    /// The controller's connections to the agent of a host break; new ones can be made at once.
    pub fn break_agent(&self, number: usize) {
        self.hosts[number].way.break_all();
    }

    /// Whether controller and switch `number` reach each other.
    pub fn set_switch_reachable(&mut self, number: usize, is: bool) {
        self.switches[number].way.set_open(is);
    }

    /// Faults of a host's links, both ways, from now on.
    pub fn set_faults(&mut self, number: usize, rates: FaultRates) {
        let side = &self.hosts[number];
        for (own, switch) in self.switches.iter().enumerate() {
            for end in [End { node: switch.node, port: side.port }, End { node: side.node, port: own as u16 }]
            {
                self.net.set_faults(end, rates).expect("sound rates");
            }
        }
    }

    /// A controller, with its journal in `store`. An earlier one must have ended, or is killed.
    ///
    /// # Errors
    /// The error of its start.
    pub fn controller(&mut self, store: Option<Box<dyn Store>>) -> Result<Controller, StartError> {
        let starting = self.begin_controller(store);
        self.finish(starting)
    }

    /// As [`controller`](Self::controller), without waiting until it has started.
    pub fn begin_controller(
        &mut self,
        store: Option<Box<dyn Store>>,
    ) -> Task<Result<Controller, StartError>> {
        let (topology, seed) = (self.topology.clone(), self.seed ^ self.net.now());
        let seat = |side: &SwitchSide| Seat { p4runtime: side.way.place.clone().into(), listens: None };
        let (switch, standby) = (seat(&self.switches[0]), self.switches.get(1).map(seat));
        let agents = self.hosts.iter().map(|host| (host.way.place.clone().into(), None)).collect();
        let process = Process::new(self.net.now());
        let starting = process.spawn(async move {
            let setup = Setup {
                name: "sim".into(),
                topology: &topology,
                artifacts: program(),
                switch,
                standby,
                agents,
                seed: Some(seed),
                journal: store,
            };
            zsr_controller::start(setup).await
        });
        self.controller = Some(process);
        self.controller_stalled = false;
        starting
    }

    /// The controller dies where it is.
    pub fn kill_controller(&mut self) {
        self.controller = None;
    }

    /// Creates a flow of small items.
    pub fn create(&mut self, controller: &Controller, request: proto::CreateFlowRequest) -> Flow {
        let controller = controller.clone();
        self.drive(async move { controller.create(request).await }).expect("created")
    }

    /// Starts `work` in the controller's process; `None` if there is none.
    pub fn begin<R: Send + 'static>(
        &self,
        work: impl Future<Output = R> + Send + 'static,
    ) -> Option<Task<R>> {
        self.controller.as_ref().map(|process| process.spawn(work))
    }

    /// Lets virtual time pass until `work` is done, in the controller's process.
    pub fn drive<R: Send + 'static>(&mut self, work: impl Future<Output = R> + Send + 'static) -> R {
        let task = self.begin(work).expect("a controller");
        self.finish(task)
    }

    /// Starts the work of a client that is no part of the system.
    pub fn outside<R: Send + 'static>(&self, work: impl Future<Output = R> + Send + 'static) -> Task<R> {
        self.relay.spawn(work)
    }

    /// The address of a host's agent.
    pub fn agent_place(&self, number: usize) -> Local {
        self.hosts[number].way.place.clone()
    }

    /// The address of the switch's P4Runtime server.
    pub fn p4runtime_place(&self) -> Local {
        self.switches[0].way.place.clone()
    }

    fn finish<R>(&mut self, task: Task<R>) -> R {
        while !task.is_finished() {
            self.span();
        }
        self.relay.result(task).expect("its process lives")
    }

    /// The result of a task that has ended; `None` if its process was killed before.
    pub fn result<R>(&self, task: Task<R>) -> Option<R> {
        self.relay.result(task)
    }

    /// Lets `time` of virtual time pass.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.net.now() + time.as_nanos() as u64;
        while self.net.now() < end {
            self.span_until(end);
        }
    }

    fn span(&mut self) {
        self.span_until(u64::MAX);
    }

    fn span_until(&mut self, end: u64) {
        let span = match self.silent_spans {
            spans if spans <= QUIET => SPAN,
            spans if spans <= SILENT => QUIET_SPAN,
            _ => SILENT_SPAN,
        };
        assert_eq!(self.net.run_for(span.min(end - self.net.now())), Stop::Time);
        let now = self.net.now();
        // Agents may have given their NICs something to send.
        for side in &self.hosts {
            self.net.node_mut::<HeldNic>(side.node).expect("a NIC");
        }
        let before = self.carried.load(Ordering::Relaxed);
        for _ in 0..TURNS {
            let carried = self.carried.load(Ordering::Relaxed);
            if let Some(controller) = self.controller.as_ref().filter(|_| !self.controller_stalled) {
                controller.advance(now);
            }
            self.relay.advance(now);
            let runs = |(number, _): &(usize, &HostSide)| !self.stalled.contains(number);
            for (_, side) in self.hosts.iter().enumerate().filter(runs) {
                if let Some(process) = &side.process {
                    process.advance(now);
                }
            }
            let mut served = false;
            for side in self.switches.iter().filter(|side| !side.hangs) {
                if let Some(server) = &side.server {
                    server.advance(now);
                }
                let switch = self.net.node_mut::<SwitchNode>(side.node).expect("a switch");
                served |= switch.serve(now, &side.control);
            }
            if !served && carried == self.carried.load(Ordering::Relaxed) {
                break;
            }
        }
        let said = before != self.carried.load(Ordering::Relaxed);
        self.silent_spans = if said { 0 } else { self.silent_spans.saturating_add(1) };
    }

    /// The entries of switch `number` by table, and its multicast groups with their members.
    pub fn switch_holds(&mut self, number: usize) -> BTreeMap<String, usize> {
        let switch = &self.switch_number(number).switch;
        let tables = switch.info().tables.iter().enumerate();
        let mut holds: BTreeMap<String, usize> = tables
            .map(|(id, table)| (table.name.clone(), switch.table_len(TableId(id as u32)).expect("a table")))
            .collect();
        for (id, members) in switch.multicast_groups() {
            holds.insert(format!("multicast group {id}"), members.len());
        }
        holds
    }

    /// The entries of a table whose name ends so.
    pub fn entries(&mut self, table: &str) -> Vec<TableEntry> {
        let switch = &self.switch().switch;
        let at = switch.info().tables.iter().position(|t| t.name.ends_with(table)).expect("a table");
        switch.table_entries(TableId(at as u32)).expect("a table")
    }

    /// A host that has rings, memory regions or queue pairs, and how many.
    pub fn hosts_hold(&self) -> Option<String> {
        self.hosts.iter().zip(&self.agents).find_map(|(side, agent)| {
            let nic = self.net.node::<HeldNic>(side.node).expect("a NIC").nic()?;
            let (rings, (regions, qps)) = (agent.rings().map_or(0, |rings| rings.len()), nic.held());
            (rings + regions + qps > 0).then(|| {
                format!(
                    "host {} has {rings} rings, {regions} memory regions, {qps} queue pairs",
                    agent.name()
                )
            })
        })
    }

    /// The switch.
    pub fn switch(&mut self) -> &mut SwitchNode {
        self.switch_number(0)
    }

    fn switch_number(&mut self, number: usize) -> &mut SwitchNode {
        self.net.node_mut(self.switches[number].node).expect("a switch")
    }

    /// The program's end of ring number `at` of `flow`, all of producers' first.
    pub fn producer(&self, flow: &Flow, at: usize) -> Producer {
        let ring = flow.rings().nth(at).expect("a ring");
        self.agent(&ring.host).attach_producer(&ring.name, Cancel::default()).expect("a free ring")
    }

    /// The same of a consumer ring.
    pub fn consumer(&self, flow: &Flow, at: usize) -> Consumer {
        let ring = flow.rings().nth(at).expect("a ring");
        self.agent(&ring.host).attach_consumer(&ring.name, Cancel::default()).expect("a free ring")
    }

    fn agent(&self, host: &str) -> &Agent {
        self.agents.iter().find(|a| a.name() == host).expect("a host")
    }
}
