//! A controller's whole life at a Tofino: set-up, flows of every kind, members that come and go, take-over, deletion.

use super::check::exactly;
use super::files::{compiled, compiled_for, driver, program};
use super::server::Recorder;
use bf::data_field::Value;
use p4runtime_proto::Address;
use p4runtime_proto::p4::v1 as rt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use tokio::net::UnixListener;
use zsr_api::{
    controller::controller_client::ControllerClient,
    controller::{self as proto, FlowKind},
};
use zsr_controller::store::FileStore;
use zsr_controller::{Controller, Seat, Setup, StartError, serve, start};
use zsr_host_agent::agent::Agent;
use zsr_host_agent::nic::{SoftNicBackend, nic_queue};
use zsr_link::memory_link;
use zsr_p4runtime_server::{P4RuntimeServer, bind, empty_program};
use zsr_plan::p4::{Artifacts, Schema};
use zsr_soft_nic::Nic;
use zsr_soft_switch::{Switch, SwitchConfig, control_queue};
use zsr_switch::P4RuntimeReader;
use zsr_switch::bfrt::proto as bf;
use zsr_system::parts::nic_config;
use zsr_system::run::fabric::{Fabric, FabricStats, LINK_DEPTH, Station};
use zsr_topology::{Chip, Pipes, Topology};

const HOSTS: usize = 4;
/// The program's tables that grow with flows.
pub(super) const FLOW_TABLES: [&str; 11] = [
    ".peers",
    ".routes",
    ".qps",
    ".producers",
    ".producer_rings",
    ".producer_list",
    ".members",
    ".flows",
    ".worker_rings",
    ".workers",
    ".doorbells",
];

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Hosts with NICs and agents, and a recorder in place of their switch.
pub(super) struct Rig {
    chip: Chip,
    pub(super) recorder: Recorder,
    pub(super) topology: Topology,
    folder: tempfile::TempDir,
    pub(super) runtime: tokio::runtime::Runtime,
    stop: Arc<AtomicBool>,
    fabric: Option<JoinHandle<FabricStats>>,
}

impl Rig {
    pub(super) fn new(chip: Chip, program: &str) -> Self {
        Self::speaking(chip, program, None, 1)
    }

    /// With a switch that speaks P4Runtime, and takes what is in `compiled`, if that is given. Each host is at the next of its `pipes`; of
    /// four pipes of a Tofino 1 at the next of those in which flows can be.
    fn speaking(chip: Chip, program: &str, compiled: Option<&Path>, pipes: u32) -> Self {
        Self::before(chip, Recorder::new(program, &driver(chip)), compiled, pipes, runtime())
    }

    pub(super) fn before(
        chip: Chip,
        recorder: Recorder,
        compiled: Option<&Path>,
        pipes: u32,
        runtime: tokio::runtime::Runtime,
    ) -> Self {
        let hosts: Vec<String> = (1..=HOSTS).map(|n| format!("h{n}")).collect();
        Self::with(chip, recorder, compiled, pipes, (&hosts, "flows: []"), runtime)
    }

    /// With hosts of these names, and what follows them in a topology: their links, if these are not to be the usual ones, and flows.
    pub(super) fn with(
        chip: Chip,
        recorder: Recorder,
        compiled: Option<&Path>,
        pipes: u32,
        (names, flows): (&[String], &str),
        runtime: tokio::runtime::Runtime,
    ) -> Self {
        let (handle, control) = control_queue(|| ());
        let (address, api) = runtime.block_on(async {
            let Some(compiled) = compiled else {
                let loops = if chip == Chip::Tofino { "loops: [136, 144], " } else { "" };
                let api = format!("api: bfrt, pipes: {pipes}, {loops}ports: {{speed: 100G, fec: rs}}");
                return (recorder.serve().await, api);
            };
            let listener = bind("127.0.0.1:0".parse().expect("an address")).await.expect("a port");
            let address = listener.local_addr().expect("bound");
            let server = P4RuntimeServer::new(handle, std::num::NonZeroU64::MIN);
            tokio::spawn(server.serve(listener, std::future::pending()));
            (address, format!("api: p4runtime, artifacts: '{}'", compiled.display()))
        });
        // A port of four lanes begins at each fourth of a Tofino 1, one of eight at each eighth of a Tofino 2.
        let lanes = if chip == Chip::Tofino { 4 } else { 8 };
        let step = if chip == Chip::Tofino && pipes == 4 { 2 } else { 1 };
        let (mut hosts, mut links) = (String::new(), String::new());
        for (name, n) in names.iter().zip(1..) {
            let port = Pipes::port_in(n * step % pipes, lanes * n);
            hosts += &format!("  - {{name: {name}, nic: {{interface: e{n}}}}}\n");
            links += &format!("  - {name} -> s1:{port}\n");
        }
        let links = if flows.starts_with("links:") { String::new() } else { format!("links:\n{links}") };
        let text = format!(
            "switches:\n  - {{name: s1, kind: tofino, chip: {}, address: '{address}', {api}}}\n\
             hosts:\n{hosts}{links}{flows}\n",
            chip.name()
        );
        let topology =
            Topology::parse("rig.yaml".as_ref(), text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let folder = tempfile::tempdir().expect("a folder");
        let thread: Arc<OnceLock<Thread>> = Arc::default();
        let wake = {
            let thread = thread.clone();
            move || {
                if let Some(thread) = thread.get() {
                    thread.unpark();
                }
            }
        };
        let mut stations = Vec::new();
        for (number, host) in topology.hosts.iter().enumerate() {
            let config = nic_config(&topology, number);
            let (handle, queue) = nic_queue(wake.clone());
            let backend = SoftNicBackend::new("soft0", handle, &config, host.mtu).expect("a NIC");
            let agent = Agent::with_shared_memory(&host.name, backend, None);
            let (host_end, switch_end) = memory_link(LINK_DEPTH);
            stations.push(Station::new(
                Nic::new(config),
                queue,
                (Box::new(host_end), Box::new(switch_end)),
                1,
            ));
            let listener = {
                let _inside = runtime.enter();
                UnixListener::bind(folder.path().join(&host.name)).expect("a socket")
            };
            runtime.spawn(async move { agent.serve_unix(listener, std::future::pending()).await });
        }
        // Where there is a recorder, nothing but the NICs' own work is done there.
        let switch = Switch::new(&empty_program().expect("a program"), SwitchConfig::default());
        let stop = Arc::new(AtomicBool::new(false));
        let fabric = Fabric { switch, control, stations, stop: stop.clone() };
        let fabric = std::thread::spawn(move || fabric.run());
        thread.set(fabric.thread().clone()).expect("once");
        Rig { chip, recorder, topology, folder, runtime, stop, fabric: Some(fabric) }
    }

    pub(super) fn start(&self) -> Result<Controller, StartError> {
        let agents = self.topology.hosts.iter();
        let agents = agents.map(|h| (Address::Unix(self.folder.path().join(&h.name)), None));
        let setup = Setup {
            name: "rig".into(),
            topology: &self.topology,
            artifacts: &Artifacts::built_in().expect("the program"),
            switch: Seat {
                p4runtime: self.topology.switches[0].kind.tofino().expect("a Tofino").address.into(),
                listens: None,
            },
            standby: None,
            agents: agents.collect(),
            seed: None,
            journal: Some(Box::new(FileStore::new(&self.folder.path().join("journal")))),
        };
        self.runtime.block_on(start(setup))
    }

    pub(super) fn client(&self, controller: &Controller) -> ControllerClient<tonic::transport::Channel> {
        let socket = self.folder.path().join("controller");
        let _ = std::fs::remove_file(&socket);
        self.runtime.block_on(async {
            tokio::spawn(serve(controller.clone(), UnixListener::bind(&socket).expect("a socket")));
            let uri = format!("unix://{}", socket.display());
            let endpoint = tonic::transport::Endpoint::from_shared(uri).expect("a URI");
            ControllerClient::new(endpoint.connect().await.expect("a service"))
        })
    }

    /// Ends a controller, and waits until the switch has noticed.
    pub(super) fn end(&self, controller: Controller) {
        controller.stop();
        let gone = controller.is_gone();
        drop(controller);
        self.runtime.block_on(gone);
    }

    /// A controller makes a flow, and ends.
    fn leave_a_flow(&self) {
        let controller = self.start().expect("a controller");
        let mut client = self.client(&controller);
        let shuffle = flow("shuffle", FlowKind::Shuffle, &["h1"], &["h2"]);
        self.runtime.block_on(client.create_flow(shuffle)).expect("created");
        drop(client);
        self.end(controller);
    }

    /// Nothing was wrong, and both egresses of a Tofino 1 hold the same.
    pub(super) fn sound(&self) {
        let state = self.recorder.state();
        assert_eq!(state.problems, [""; 0]);
        let twins = state.tables.0.values().filter_map(|t| t.name.strip_prefix("fold.FoldEgressShell."));
        for name in twins {
            let [first, second] = ["pipe.EgressShell", "fold.FoldEgressShell"].map(|egress| {
                let rows = state.of(&format!("{egress}.{name}")).into_iter().flatten();
                let end = |action: &str| action.rsplit('.').next().map(str::to_owned);
                rows.map(|(key, (action, data, _))| (key, end(action), data)).collect::<Vec<_>>()
            });
            assert!(first == second, "{name}: {first:?} {second:?}");
        }
    }

    fn count(&self, table: &str) -> usize {
        self.recorder.held(table).len()
    }

    fn pipes(&self) -> Pipes {
        self.topology.switches[0].pipes
    }

    /// Groups that are there without flows: of flooded frames, and where there are several pipes of each, and of all.
    fn base_groups(&self) -> usize {
        1 + if self.pipes().are_several() { self.pipes().homes().count() + 1 } else { 0 }
    }

    /// Entries of flows, less the probe; groups, less those that are always there; their nodes.
    pub(super) fn of_flows(&self) -> (usize, usize, usize) {
        let entries: usize = FLOW_TABLES.iter().map(|t| self.count(t)).sum();
        let base = self.base_groups();
        (entries - 1, self.count("$pre.mgid") - base, self.count("$pre.node") - base)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(fabric) = self.fabric.take() {
            fabric.thread().unpark();
            let _ = fabric.join();
        }
    }
}

pub(super) fn flow(
    name: &str,
    kind: FlowKind,
    producers: &[&str],
    consumers: &[&str],
) -> proto::CreateFlowRequest {
    let members = |hosts: &[&str]| {
        hosts.iter().map(|h| proto::Member { host: (*h).into(), ..Default::default() }).collect()
    };
    proto::CreateFlowRequest {
        name: name.into(),
        kind: kind.into(),
        producers: members(producers),
        consumers: members(consumers),
        item_size: 64,
        ring_size: 4096,
        ..Default::default()
    }
}

fn number(data: &std::collections::HashMap<String, Value>, name: &str) -> u64 {
    match &data[name] {
        Value::Stream(bytes) => bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b)),
        other => panic!("{name} is {other:?}"),
    }
}

/// What a chip is given before any flow.
fn set_up(rig: &Rig) {
    let (chip, pipes) = (rig.chip, rig.pipes());
    assert_eq!(rig.count(".solve_reth_0") + rig.count(".solve_bare_3"), 512);
    let (loops, ports): (Vec<_>, Vec<_>) =
        rig.recorder.held("$PORT").into_iter().partition(|(_, _, port)| port.contains_key("$LOOPBACK_MODE"));
    assert_eq!(ports.len(), HOSTS);
    let (_, _, port) = &ports[0];
    assert_eq!(port["$SPEED"], Value::StrVal("BF_SPEED_100G".into()));
    assert_eq!(port["$FEC"], Value::StrVal("BF_FEC_TYP_REED_SOLOMON".into()));
    // The generator's packets come in at the port of the first pipe; a Tofino 1 has another between two pipes.
    let in_pipe = |home, port| u64::from(Pipes::port_in(home, port));
    for home in pipes.homes() {
        let again = rig
            .runtime
            .block_on(rig.recorder.row("pktgen.port_cfg", in_pipe(home, chip.port_again()) as u32));
        let wanted = ["recirculation_enable", "pktgen_enable"].into_iter().take(1 + usize::from(home == 0));
        wanted.for_each(|name| assert_eq!(again[name], Value::BoolVal(true), "{home}: {name}"));
        if let Some(fold) = chip.port_fold() {
            let fold = rig.runtime.block_on(rig.recorder.row("pktgen.port_cfg", in_pipe(home, fold) as u32));
            assert_eq!(fold["recirculation_enable"], Value::BoolVal(true));
        }
    }
    // What is for a flow of another pipe goes there, by the port that leads back into that one.
    let homes: Vec<u32> = pipes.homes().collect();
    let (mut own, mut across) = (0, 0);
    for (key, action, data) in rig.recorder.held(".own_ip") {
        let (at, home) = (pipes.of_port(key[1] as u32), key[2] as u32);
        let known = homes.contains(&home);
        let again = in_pipe(if known { home } else { at }, chip.port_again());
        if action.ends_with("cross") {
            assert!(known && home != at && key[3] == 0 && number(&data, "way") == again, "{key:?} {data:?}");
            across += 1;
        } else {
            assert!(
                key[3] == u64::from(known && home != at) && number(&data, "again") == again,
                "{key:?} {data:?}"
            );
            own += 1;
        }
    }
    assert_eq!((own, across), (4 * HOSTS, (homes.len() - 1) * HOSTS));
    // Between both halves of a Tofino 1's ingress workers take two ways in turn; another pipe has no loops.
    let (ways, others): (Vec<_>, Vec<_>) =
        rig.recorder.held("ways").into_iter().partition(|(key, ..)| key[0] == 0);
    let [ways, others] =
        [ways, others].map(|ways| ways.iter().map(|(_, _, way)| number(way, "port")).collect::<Vec<_>>());
    assert_eq!(others, if chip == Chip::Tofino && pipes.are_several() { vec![452; 16] } else { Vec::new() });
    let loops: Vec<u64> = loops.iter().map(|(port, ..)| port[0]).collect();
    let known: Vec<u64> = rig.recorder.held("FoldParser.loops").iter().map(|(port, ..)| port[0]).collect();
    assert_eq!(known, loops);
    match rig.chip {
        Chip::Tofino => assert!(loops == [136, 144] && ways == [136, 144].repeat(8), "{loops:?} {ways:?}"),
        Chip::Tofino2 => assert!(loops.is_empty() && ways.is_empty()),
    }
    // What a flood's node has, no other has: its copies alone are pruned.
    let floods =
        rig.recorder.held("$pre.node").into_iter().filter(|(_, _, n)| number(n, "$MULTICAST_RID") == 0xffff);
    assert_eq!(floods.map(|(node, ..)| node[0]).collect::<Vec<_>>(), [2 << 16 | 0xffff]);
    for (session, action, data) in rig.recorder.held("$mirror.cfg") {
        let port = number(&data, "$ucast_egress_port");
        // A Tofino 2 has 255 sessions: 64 ports of cables in each pipe, from 8 on.
        let wanted = match pipes.are_several() && chip == Chip::Tofino2 {
            true => (port >> 7) * 64 + (port & 127) - 8 + 1,
            false => port + 1,
        };
        assert_eq!((session[0], action.as_str()), (wanted, "$normal"));
    }
    assert_eq!(rig.count("$mirror.cfg"), HOSTS);
    // One application for each class of ticks, of which the fastest is the topology's.
    let timers = rig.recorder.held("pktgen.app_cfg");
    let on = |d: &std::collections::HashMap<_, _>| d.get("app_enable") == Some(&Value::BoolVal(true));
    let periods: Vec<u64> = timers
        .iter()
        .filter(|(_, action, data)| action == "trigger_timer_periodic" && on(data))
        .map(|(_, _, data)| number(data, "timer_nanosec"))
        .collect();
    let tick = rig.topology.switches[0].tick.as_nanos() as u64;
    assert_eq!(periods, [1, 256, 4096, 65536].map(|n| n * tick));
    rig.sound();
}

fn life(chip: Chip, program: &str) {
    life_of(Rig::new(chip, program));
}

pub(super) fn life_of(rig: Rig) {
    let chip = rig.chip;
    let controller = rig.start().expect("a controller");
    set_up(&rig);
    assert_eq!(rig.of_flows(), (0, 0, 0));
    let base = rig.recorder.held("$pre.node");

    let mut client = rig.client(&controller);
    let run = &rig.runtime;
    let shuffle = flow("shuffle", FlowKind::Shuffle, &["h1", "h2"], &["h3", "h4"]);
    run.block_on(client.create_flow(shuffle)).expect("created");
    let balance = flow("balance", FlowKind::LoadBalance, &["h1"], &["h2", "h3"]);
    run.block_on(client.create_flow(balance)).expect("created");
    let replicate = flow("replicate", FlowKind::Replicate, &["h4"], &["h1", "h2"]);
    run.block_on(client.create_flow(replicate)).expect("created");
    rig.sound();
    // Ticks go round, each for a worker of its own.
    let groups = rig.recorder.held("$pre.mgid");
    let base_groups = rig.base_groups();
    assert_eq!(groups.len(), base_groups + 1 + 2, "ticks, a replicate's data and polls: {groups:?}");
    let ticks = rig.recorder.held("$pre.node").into_iter().filter(|(key, _, _)| key[0] >> 16 == 1);
    let ticks: Vec<u64> = ticks
        .map(|(_, _, data)| {
            let worker = number(&data, "$MULTICAST_RID");
            let again = Pipes::port_in(rig.pipes().of_worker(worker as u16), chip.port_again());
            let again = Value::IntArrVal(bf::data_field::IntArray { val: vec![again] });
            assert_eq!(data["$DEV_PORT"], again);
            worker
        })
        .collect();
    assert_eq!(ticks.len(), 2 + 2 + 1);
    for (worker, _, data) in rig.recorder.held(".workers") {
        // 20 and 1,000 µs, in units of 256 ns.
        if ticks.contains(&worker[0]) {
            assert_eq!((number(&data, "poll_interval"), number(&data, "poll_timeout")), (79, 3907));
        }
    }

    let before = rig.of_flows();
    let guest = proto::Member { name: "guest".into(), host: "h3".into(), ..Default::default() };
    let join = proto::AddMemberRequest { flow: "replicate".into(), member: Some(guest) };
    run.block_on(client.add_consumer(join)).expect("joined");
    assert!(rig.of_flows().0 > before.0);
    let joined = rig.recorder.state().updates.len();
    let leave = proto::RemoveMemberRequest {
        flow: "replicate".into(),
        member: "guest".into(),
        force: true,
        ..Default::default()
    };
    run.block_on(client.remove_member(leave)).expect("left");
    assert_eq!(rig.of_flows(), before);
    let slower =
        proto::Settings { rate_cap_bps: Some(1 << 30), poll_interval_us: Some(40), ..Default::default() };
    let set = proto::SetFlowRequest { name: "balance".into(), settings: Some(slower) };
    run.block_on(client.set_flow(set)).expect("set");
    let slow = rig.recorder.held(".workers");
    assert!(slow.iter().any(|(_, _, worker)| number(worker, "poll_interval") == 157), "{slow:?}");
    let stats =
        run.block_on(client.get_stats(proto::GetStatsRequest::default())).expect("counters").into_inner();
    assert_eq!(stats.flows.len(), 3);
    rig.sound();
    // Counters of what has left are set back a moment later: a successor would do what is not done yet.
    let set_back = |(_, table): &(_, String)| table.ends_with("received");
    while !rig.recorder.state().updates[joined..].iter().any(set_back) {
        std::thread::yield_now();
    }

    // A successor finds everything as it should be.
    drop(client);
    rig.end(controller);
    let written = rig.recorder.state().updates.len();
    let controller = rig.start().expect("a successor");
    let since: Vec<_> = rig.recorder.state().updates[written..].to_vec();
    let of_program =
        since.iter().filter(|(_, table)| ["pipe.", "fold.", "$pre.m"].iter().any(|of| table.starts_with(of)));
    assert_eq!(of_program.count(), 0, "{since:?}");
    let mut client = rig.client(&controller);
    for name in ["shuffle", "balance", "replicate"] {
        let delete = proto::DeleteFlowRequest { name: name.into(), force: true };
        run.block_on(client.delete_flow(delete)).expect("deleted");
    }
    assert_eq!(rig.of_flows(), (0, 0, 0));
    assert_eq!(rig.recorder.held("$pre.node"), base);
    rig.sound();
}

/// Two of a Tofino 1's four pipes take hosts, all of a Tofino 2's.
#[test]
fn flows_at_all_pipes() {
    for chip in [Chip::Tofino, Chip::Tofino2] {
        life_of(Rig::speaking(chip, &program(chip), None, 4));
    }
}

/// What comes in behind pipe 0 of a Tofino 1 is as if from a port of that pipe.
#[test]
fn flows_at_the_pipe_behind() {
    life_of(Rig::speaking(Chip::Tofino, &program(Chip::Tofino), None, 2));
}

/// The pipe behind makes only what consumers get: what is for a producer there is made before, and goes round as if the switch were a host.
#[test]
fn what_producers_at_the_pipe_behind_get_goes_round() {
    let rig = Rig::speaking(Chip::Tofino, &program(Chip::Tofino), None, 2);
    let controller = rig.start().expect("a controller");
    let mut client = rig.client(&controller);
    let shuffle = flow("shuffle", FlowKind::Shuffle, &["h1"], &["h3"]);
    rig.runtime.block_on(client.create_flow(shuffle)).expect("created");
    let ports = rig.topology.links.iter().map(|l| l.port).collect::<Vec<_>>();
    assert_eq!(ports[..3], [132, 8, 140]);
    let routes = rig.recorder.held(".routes").into_iter();
    let mut routes: Vec<u64> = routes.map(|(_, _, data)| number(&data, "port")).collect();
    routes.sort_unstable();
    assert_eq!(routes, [68, 68, 140, 140]);
    // The switch's address is taken at no port but of what has come round.
    let switch = &rig.topology.switches[0];
    let ip = u64::from(u32::from(switch.ip));
    let own = rig.recorder.held(".ip_sources").into_iter().filter(|(key, ..)| key[2] == ip);
    assert_eq!(own.map(|(key, ..)| key[0]).collect::<Vec<_>>(), [0]);
    rig.end(controller);
}

/// A controller that ends between its writes to both egresses of a Tofino 1 leaves them with different entries.
#[test]
fn both_egresses_get_the_same_again() {
    let rig = Rig::new(Chip::Tofino, &program(Chip::Tofino));
    rig.leave_a_flow();
    {
        let mut state = rig.recorder.state();
        let (id, _) = state.tables.named("fold.FoldEgressShell.zsr.peer.peers").expect("a table");
        let peers = state.entries.get_mut(&id).expect("entries");
        // One is lacking, one has what another has, and one is left of a flow that is gone.
        let (_, (action, data, lacking)) = peers.pop_first().expect("one");
        let changed = peers.first_entry().expect("another").into_mut();
        changed.1.clone_from(&data);
        changed.2.data.clone_from(&lacking.data);
        let key = bf::TableKey { fields: vec![exactly(1, 4000_u16.to_be_bytes().to_vec())] };
        let left = bf::TableEntry { value: Some(bf::table_entry::Value::Key(key)), ..lacking };
        peers.insert(vec![4000], (action, data, left));
    }
    let controller = rig.start().expect("a successor");
    rig.sound();
    rig.end(controller);
}

/// A port that is a loop no more may have a host, which is not to be believed.
#[test]
fn a_port_that_is_no_loop_any_more_is_a_hosts() {
    let rig = Rig::new(Chip::Tofino, &program(Chip::Tofino));
    {
        let mut state = rig.recorder.state();
        let (id, table) = state.tables.named("FoldParser.loops").expect("a table");
        let fields = vec![table.key_field("f1", vec![0, 152, 1, 255]).expect("a port")];
        let key = bf::TableKey { fields };
        let value = Some(bf::table_entry::Value::Key(key));
        let entry = bf::TableEntry { table_id: id, value, ..Default::default() };
        state.entries.entry(id).or_default().insert(vec![152], (String::new(), Default::default(), entry));
    }
    let controller = rig.start().expect("a controller");
    set_up(&rig);
    rig.end(controller);
}

/// A driver that was started anew has lost all, though it names a default entry in each table.
#[test]
fn an_empty_switch_gets_everything_again() {
    let rig = Rig::new(Chip::Tofino2, &program(Chip::Tofino2));
    rig.leave_a_flow();
    rig.recorder.restart();
    let controller = rig.start().expect("a successor");
    set_up(&rig);
    rig.end(controller);
}

/// A chip finds entries by hashes of their keys: a table may be full before it has as many as it says.
#[test]
fn a_chip_without_room_is_named_and_nothing_is_left() {
    let rig = Rig::new(Chip::Tofino2, &program(Chip::Tofino2));
    let controller = rig.start().expect("a controller");
    let mut client = rig.client(&controller);
    let run = &rig.runtime;
    run.block_on(client.create_flow(flow("first", FlowKind::Shuffle, &["h1"], &["h2"]))).expect("created");
    let before = rig.of_flows();
    rig.recorder.state().room = Some((".qps", rig.count(".qps") as u64 + 1));
    let second = || flow("second", FlowKind::Shuffle, &["h1"], &["h2"]);
    let e = run.block_on(client.create_flow(second())).expect_err("no room");
    assert!(e.message().contains("the chip has no room for another entry"), "{e:?}");
    assert!(e.message().contains(".qps"), "{e:?}");
    assert_eq!(rig.of_flows(), before);
    rig.recorder.state().room = None;
    run.block_on(client.create_flow(second())).expect("created");
    rig.end(controller);
}

#[test]
fn flows_of_every_kind_on_a_tofino() {
    life(Chip::Tofino, &program(Chip::Tofino));
}

#[test]
fn flows_of_every_kind_on_a_tofino_2() {
    life(Chip::Tofino2, &program(Chip::Tofino2));
}

#[test]
#[ignore = "needs ZSR_BF_RT, a folder with the Tofino compilers' output: docs/tofino.md"]
fn as_the_compiler_has_it() {
    let folder = compiled();
    for chip in [Chip::Tofino, Chip::Tofino2] {
        life(chip, &compiled_for(chip, &folder));
    }
}

#[test]
#[should_panic(expected = "ZSR_BF_RT=/nowhere: /nowhere/tofino2/bf-rt.json: No such file")]
fn a_folder_without_the_compilers_output_is_no_pass() {
    compiled_for(Chip::Tofino2, Path::new("/nowhere"));
}

#[test]
fn what_a_program_lacks_is_named() {
    let lacks = program(Chip::Tofino2)
        .replace("departure.route.routes\"", "departure.route.ways\"")
        .replace("\"mtu_mask\"", "\"mtu_bits\"");
    let rig = Rig::new(Chip::Tofino2, &lacks);
    let e = rig.start().err().expect("refused").to_string();
    for part in [
        "switch `s1`",
        "table `routes`",
        "parameter `mtu_mask` of action `worker_ring`",
        "compile p4/arch/tna",
    ] {
        assert!(e.contains(part), "{e:?} lacks {part:?}");
    }
}

#[test]
fn a_second_controller_is_refused() {
    let rig = Rig::new(Chip::Tofino, &program(Chip::Tofino));
    let first = rig.start().expect("a controller");
    let e = rig.start().err().expect("refused").to_string();
    assert!(e.contains("switch `s1`: another controller is connected"), "{e}");
    rig.sound();
    drop(first);
}

/// The software switch stands in for Stratum, with its own program for the chip's: what is special about a chip is in entries and
/// groups all the same.
#[test]
fn through_p4runtime_a_chip_gets_its_own_ports_and_times() {
    let compiled = tempfile::tempdir().expect("a folder");
    let built_in = Artifacts::built_in().expect("the program");
    let artifacts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/artifacts");
    for (from, to) in [("zsr-v1model.p4info.txtpb", "p4info.txtpb"), ("zsr-v1model.json", "device.bin")] {
        std::fs::copy(artifacts.join(from), compiled.path().join(to)).expect("copied");
    }
    let rig = Rig::speaking(Chip::Tofino2, &program(Chip::Tofino2), Some(compiled.path()), 1);
    let controller = rig.start().expect("a controller");
    let mut client = rig.client(&controller);
    let run = &rig.runtime;
    run.block_on(client.create_flow(flow("f", FlowKind::Shuffle, &["h1"], &["h2"]))).expect("created");

    let address = rig.topology.switches[0].kind.tofino().expect("a Tofino").address;
    let reader = run.block_on(P4RuntimeReader::connect("s1", address, 1)).expect("the switch");
    let groups = run.block_on(reader.groups()).expect("groups");
    // Polls once in a tick, as often as it can.
    let ticks = groups.iter().find(|g| g.multicast_group_id == 1).expect("the group of ticks");
    let port = rt::replica::PortKind::Port(vec![rig.chip.port_again() as u8]);
    assert_eq!(ticks.replicas[0].port_kind, Some(port));
    let schema = Schema::new(&built_in.p4info);
    let workers = run.block_on(reader.entries(std::iter::once(schema.table("workers").expect("a table"))));
    let times = |e: &rt::TableEntry| match e.action.as_ref().and_then(|a| a.r#type.as_ref()) {
        Some(rt::table_action::Type::Action(a)) => {
            a.params[7..9].iter().map(|p| p.value.clone()).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    // 1 and 5 ms, in units of 256 ns.
    let expected = [3907u16, 19532].map(|n| n.to_be_bytes().to_vec());
    assert!(workers.expect("entries").iter().any(|e| times(e) == expected));

    let delete = proto::DeleteFlowRequest { name: "f".into(), force: true };
    run.block_on(client.delete_flow(delete)).expect("deleted");
    let left = run.block_on(reader.groups()).expect("groups");
    assert_eq!(left.iter().filter(|g| g.multicast_group_id != 2).count(), 0, "{left:?}");
}
