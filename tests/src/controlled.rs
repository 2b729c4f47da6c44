//! A whole system under one seed and one virtual clock: the controller that users run, its P4Runtime session, agents, NICs, the switch
//! with the shipped program, and links with faults. Nothing runs beside the caller: no thread, no socket, no real time.
//!
//! ```text
//!  network: switch, NICs ── a span of virtual time ─► calls to the switch ─► controller, agents, servers: up to the same time ─► again
//! ```

use std::future::Future;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use p4runtime_proto::{Address, local};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use zsr_api::controller as proto;
use zsr_control_plane::controller::store::Store;
use zsr_control_plane::controller::{self, Controller, Setup, StartError};
use zsr_control_plane::dataplane::model::Flow;
use zsr_control_plane::p4::Artifacts;
use zsr_control_plane::parts::{bare_switch, nic_config};
use zsr_host_agent::agent::Agent;
use zsr_host_agent::nic::{NicHandle, SoftNicBackend};
use zsr_p4runtime_server::P4RuntimeServer;
use zsr_ring::{Cancel, Consumer, Producer};
use zsr_sim::{End, LinkConfig, Network, Node, NodeId, Stop};
use zsr_soft_nic::Nic;
use zsr_soft_switch::{ControlQueue, control_queue};
use zsr_topology::Topology;
use zsr_wire::{Frame, FramePool};

use crate::nodes::SwitchNode;
use crate::wire::Wire;

/// Virtual time that the network runs before controller and agents have their turn, in nanoseconds: what a call between them and the
/// switch takes at least.
const SPAN: u64 = 20_000;
/// Turns that controller, agents and switch may have at one time.
const TURNS: usize = 64;

/// A NIC that its agent calls in the same thread.
struct HeldNic(Arc<Mutex<Nic>>);

impl HeldNic {
    fn nic(&self) -> std::sync::MutexGuard<'_, Nic> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node for HeldNic {
    fn handle(&mut self, now_ns: u64, _port: u16, frame: Frame, pool: &mut FramePool) {
        self.nic().handle(now_ns, frame, pool);
    }

    fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        self.nic().poll_transmit(now_ns, pool).map(|frame| (0, frame))
    }

    fn next_timer(&self) -> Option<u64> {
        self.nic().next_timeout()
    }

    fn on_timer(&mut self, now_ns: u64) {
        self.nic().on_timeout(now_ns);
    }
}

/// The system.
pub struct Controlled {
    /// The network.
    pub net: Network,
    /// Its hosts' agents, in the topology's order.
    pub agents: Vec<Agent>,
    topology: Topology,
    seed: u64,
    switch: NodeId,
    nics: Vec<NodeId>,
    control: ControlQueue,
    places: Vec<Address>,
    p4runtime: Address,
    runtime: Runtime,
    /// When virtual time began, on the runtime's clock.
    start: Instant,
}

impl Controlled {
    /// Everything but the controller. `yaml` is a topology with one switch, all links are as `link`.
    pub fn new(yaml: &str, link: LinkConfig, seed: u64) -> Controlled {
        let topology =
            Topology::parse(Path::new("sim.yaml"), yaml.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let start = runtime.block_on(async { Instant::now() });
        let mut net = Network::new(seed);
        let switch = bare_switch(&topology.switches[0]).expect("a switch");
        let (handle, control) = control_queue(|| ());
        let switch = net.add(SwitchNode::new(switch, Wire::default()));
        let (place, listener) = local();
        runtime.spawn(P4RuntimeServer::new(handle, NonZeroU64::MIN).serve(listener, std::future::pending()));
        let (mut nics, mut agents, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (number, host) in topology.hosts.iter().enumerate() {
            let config = nic_config(host, &topology.traffic);
            let nic = Arc::new(Mutex::new(Nic::new(config)));
            let backend = SoftNicBackend::new("soft0", NicHandle::held(nic.clone()), &config, host.mtu);
            let agent = Agent::new(&host.name, backend.expect("a NIC"));
            let node = net.add(HeldNic(nic));
            let port = topology.link_of(number).expect("a link").port as u16;
            net.connect(End { node: switch, port }, End { node, port: 0 }, link).expect("free ports");
            let (place, incoming) = local();
            let serving = agent.clone();
            runtime.spawn(async move { serving.serve_incoming(incoming, std::future::pending()).await });
            nics.push(node);
            agents.push(agent);
            places.push(place.into());
        }
        let p4runtime = place.into();
        Controlled { net, agents, topology, seed, switch, nics, control, places, p4runtime, runtime, start }
    }

    /// A controller, with its journal in `store`.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn controller(&mut self, store: Option<Box<dyn Store>>) -> Result<Controller, StartError> {
        let (topology, p4runtime, seed) = (self.topology.clone(), self.p4runtime.clone(), self.seed);
        let agents = self.places.iter().map(|place| (place.clone(), None)).collect();
        self.drive(async move {
            let setup = Setup {
                name: "sim".into(),
                topology: &topology,
                artifacts: &Artifacts::built_in().expect("the program"),
                p4runtime,
                listens: None,
                agents,
                own: Vec::new(),
                seed: Some(seed),
                journal: store,
            };
            controller::start(setup).await
        })
    }

    /// Creates a flow of small items.
    pub fn create(&mut self, controller: &Controller, request: proto::CreateFlowRequest) -> Flow {
        let controller = controller.clone();
        self.drive(async move { controller.create(request).await }).expect("created")
    }

    /// Lets virtual time pass until `work` is done.
    pub fn drive<R: Send + 'static>(&mut self, work: impl Future<Output = R> + Send + 'static) -> R {
        let task = self.runtime.spawn(work);
        while !task.is_finished() {
            self.span();
        }
        self.runtime.block_on(task).unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()))
    }

    /// Lets `time` of virtual time pass.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.net.now() + time.as_nanos() as u64;
        while self.net.now() < end {
            self.span();
        }
    }

    fn span(&mut self) {
        assert_eq!(self.net.run_for(SPAN), Stop::Time);
        let now = self.start + Duration::from_nanos(self.net.now());
        // Agents may have given their NICs something to send.
        for nic in &self.nics {
            self.net.node_mut::<HeldNic>(*nic).expect("a NIC");
        }
        for _ in 0..TURNS {
            self.runtime.block_on(async { tokio::time::sleep_until(now).await });
            let time = self.net.now();
            let switch = self.net.node_mut::<SwitchNode>(self.switch).expect("a switch");
            if !switch.serve(time, &self.control) {
                return;
            }
        }
    }

    /// The switch.
    pub fn switch(&mut self) -> &mut SwitchNode {
        self.net.node_mut(self.switch).expect("a switch")
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
