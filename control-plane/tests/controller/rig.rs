//! A whole system in this process, its parts talking through their sockets as processes would: switch, NICs, agents, links
//! in one fabric thread; the controller as a service; programs over the agents' sockets.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};

use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};
use zsr_control_plane::controller::dataplane::DataPlane;
use zsr_control_plane::controller::proto::controller_client::ControllerClient;
use zsr_control_plane::controller::{Controller, Setup, StartError, proto, serve, start};
use zsr_control_plane::p4::{Artifacts, Schema, SwitchReader};
use zsr_control_plane::plan::{FIRST_FLOW_GROUP, GROUP_FLOOD, ticks};
use zsr_control_plane::run::fabric::{Fabric, FabricStats, LINK_DEPTH, Station};
use zsr_control_plane::topology::{Host, Topology, Traffic};
use zsr_host_agent::agent::Agent;
use zsr_host_agent::nic::{SoftNicBackend, nic_queue};
use zsr_link::memory_link;
use zsr_soft_nic::{Nic, NicConfig};
use zsr_soft_switch::p4runtime::{P4RuntimeServer, bind, empty_program};
use zsr_soft_switch::{Switch, SwitchConfig, control_queue};

pub type Client = ControllerClient<Channel>;

/// Everything but the controller.
pub struct Rig {
    pub topology: Topology,
    pub artifacts: Artifacts,
    pub p4runtime: SocketAddr,
    pub agents: Vec<Agent>,
    pub folder: tempfile::TempDir,
    pub runtime: tokio::runtime::Runtime,
    /// Per host: ends its agent's servers.
    ends: Vec<Vec<oneshot::Sender<()>>>,
    end_server: Option<oneshot::Sender<()>>,
    stop: Arc<AtomicBool>,
    fabric: Option<JoinHandle<FabricStats>>,
}

impl Rig {
    /// Hosts h1 to hN behind one switch, with what `more` adds to the topology (in YAML).
    pub fn new(hosts: usize, more: &str) -> Self {
        let names: Vec<String> = (1..=hosts).map(|n| format!("h{n}")).collect();
        Self::of(&format!("hosts: [{}]\nflows: []\n{more}", names.join(", ")))
    }

    pub fn of(text: &str) -> Self {
        Self::with_nics(text, |host, traffic| host.nic_config(traffic))
    }

    /// With NICs that may be other than the topology says.
    pub fn with_nics(text: &str, config: impl Fn(&Host, &Traffic) -> NicConfig) -> Self {
        let topology = Topology::parse("rig.yaml".as_ref(), text.as_bytes()).expect("a sound topology");
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let thread: Arc<OnceLock<Thread>> = Arc::default();
        let wake = {
            let thread = thread.clone();
            move || {
                if let Some(thread) = thread.get() {
                    thread.unpark();
                }
            }
        };
        let mut switch = Switch::new(&empty_program().expect("a program"), SwitchConfig::default());
        for timer in ticks::timers(topology.switches[0].tick) {
            switch.add_timer(timer).expect("a timer");
        }
        let (handle, control) = control_queue(wake.clone());
        let (mut agents, mut stations) = (Vec::new(), Vec::new());
        for (at, host) in topology.hosts.iter().enumerate() {
            let config = config(host, &topology.traffic);
            let (nic_handle, queue) = nic_queue(wake.clone());
            let backend = SoftNicBackend::new("soft0", nic_handle, &config, host.mtu).expect("a NIC");
            agents.push(Agent::with_shared_memory(&host.name, backend, None));
            let (host_end, switch_end) = memory_link(LINK_DEPTH);
            let port = topology.link_of(at).expect("a link").port as u16;
            stations.push(Station::new(
                Nic::new(config),
                queue,
                (Box::new(host_end), Box::new(switch_end)),
                port,
            ));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let fabric = Fabric { switch, control, stations, stop: stop.clone() };
        let fabric = std::thread::spawn(move || fabric.run());
        thread.set(fabric.thread().clone()).expect("once");
        let (end_server, ended) = oneshot::channel::<()>();
        let p4runtime = runtime.block_on(async {
            let listener = bind("127.0.0.1:0".parse().expect("an address")).await.expect("a port");
            let address = listener.local_addr().expect("bound");
            tokio::spawn(P4RuntimeServer::new(handle, std::num::NonZeroU64::MIN).serve(listener, async {
                let _ = ended.await;
            }));
            address
        });
        let mut rig = Rig {
            ends: topology.hosts.iter().map(|_| Vec::new()).collect(),
            topology,
            artifacts: Artifacts::built_in().expect("the program"),
            p4runtime,
            agents,
            folder,
            runtime,
            end_server: Some(end_server),
            stop,
            fabric: Some(fabric),
        };
        (0..rig.agents.len()).for_each(|host| rig.serve_agent(host));
        rig
    }

    pub fn agent_socket(&self, host: &str) -> PathBuf {
        self.folder.path().join(format!("{host}.agent"))
    }

    /// The socket for programs of a host, by its number from 1.
    pub fn programs(&self, host: usize) -> PathBuf {
        self.folder.path().join(format!("h{host}.programs"))
    }

    pub fn serve_agent(&mut self, host: usize) {
        let agent = &self.agents[host];
        let (socket, programs) = (self.agent_socket(agent.name()), self.programs(host + 1));
        let _ = (std::fs::remove_file(&socket), std::fs::remove_file(&programs));
        let _inside = self.runtime.enter();
        let (listener, programs) = (UnixListener::bind(socket), UnixListener::bind(programs));
        let (end, ended) = oneshot::channel::<()>();
        let (end_programs, programs_ended) = oneshot::channel::<()>();
        let (calls, attaching) = (agent.clone(), agent.clone());
        tokio::spawn(async move {
            let ended = async { drop(ended.await) };
            calls.serve_unix(listener.expect("a socket"), ended).await.expect("served");
        });
        tokio::spawn(async move {
            attaching.serve_programs(programs.expect("a socket"), async { drop(programs_ended.await) }).await;
        });
        self.ends[host] = vec![end, end_programs];
    }

    /// As if the agent's process had died: nobody answers at its socket.
    pub fn kill_agent(&mut self, host: usize) {
        let _ = std::fs::remove_file(self.agent_socket(self.agents[host].name()));
        self.ends[host].clear();
    }

    pub fn try_start(&self) -> Result<Controller, StartError> {
        let uris = self.topology.hosts.iter().enumerate().map(|(at, h)| {
            (format!("unix://{}", self.agent_socket(&h.name).display()), Some(self.programs(at + 1)))
        });
        let setup = Setup {
            name: "rig".into(),
            topology: &self.topology,
            artifacts: &self.artifacts,
            p4runtime: self.p4runtime,
            listens: None,
            agents: uris.collect(),
            journal: Some(&self.folder.path().join("journal")),
        };
        self.runtime.block_on(start(setup))
    }

    /// A controller, and a client of its service.
    pub fn control(&self) -> (Controller, Client) {
        let controller = self.try_start().expect("a controller");
        let socket = self.folder.path().join("controller");
        let _ = std::fs::remove_file(&socket);
        let client = self.runtime.block_on(async {
            let listener = UnixListener::bind(&socket).expect("a socket");
            tokio::spawn(serve(controller.clone(), listener));
            let uri = format!("unix://{}", socket.display());
            Endpoint::from_shared(uri).expect("a URI").connect().await.expect("a service")
        });
        (controller, ControllerClient::new(client))
    }

    /// Entries and groups of flows, and workers, that the switch holds.
    pub fn held(&self) -> (usize, usize) {
        let schema = Schema::new(&self.artifacts.p4info);
        let tables = DataPlane::flow_tables().map(|t| schema.table(t).expect("a table"));
        self.runtime.block_on(async {
            let reader = SwitchReader::connect("s1", self.p4runtime, 1).await.expect("the switch");
            let of_flows = |group: u32| group >= FIRST_FLOW_GROUP.into();
            // Less the probe, which is no flow's.
            let entries = reader.entities(tables.into_iter(), of_flows).await.expect("entries").len() - 1;
            let groups = reader.groups().await.expect("groups");
            let ticks = groups.iter().map(|g| (g.multicast_group_id, g.replicas.len()));
            let ticks = ticks.filter(|(id, _)| *id != GROUP_FLOOD && !of_flows(*id));
            (entries, ticks.map(|(_, replicas)| replicas).sum())
        })
    }

    /// Rings that all agents hold.
    pub fn rings(&self) -> usize {
        self.agents.iter().map(|a| a.rings().expect("an agent").len()).sum()
    }

    /// Queue pairs, keys and rings are gone from hosts, entries and workers from the switch.
    pub fn is_clean(&self) -> bool {
        self.held() == (0, 0) && self.rings() == 0
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.end_server.take());
        self.ends.clear();
        self.stop.store(true, Ordering::Relaxed);
        if let Some(fabric) = self.fabric.take() {
            fabric.thread().unpark();
            let _ = fabric.join();
        }
    }
}

/// A shuffle of small items between single endpoints of these hosts.
pub fn shuffle(name: &str, producers: &[&str], consumers: &[&str]) -> proto::CreateFlowRequest {
    let members = |hosts: &[&str]| {
        hosts.iter().map(|h| proto::Member { host: (*h).into(), ..Default::default() }).collect()
    };
    proto::CreateFlowRequest {
        name: name.into(),
        producers: members(producers),
        consumers: members(consumers),
        item_size: 64,
        ring_size: 4096,
        ..Default::default()
    }
}

/// A flow as asked for, with this policy.
pub fn with(policy: proto::Policy, flow: proto::CreateFlowRequest) -> proto::CreateFlowRequest {
    let settings = proto::Settings { policy: Some(policy.into()), ..Default::default() };
    proto::CreateFlowRequest { settings: Some(settings), ..flow }
}
