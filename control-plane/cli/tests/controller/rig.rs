//! A whole system in this process, its parts talking through their sockets as processes would: switch, NICs, agents, links
//! in one fabric thread; the controller as a service; programs over the agents' sockets.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};

use p4runtime_proto::Address;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};
use tonic::transport::{Channel, Endpoint};
use zsr_api::{controller as proto, controller::controller_client::ControllerClient};
use zsr_controller::store::{FileStore, Store};
use zsr_controller::{Controller, Seat, Setup, StartError, serve, start};
use zsr_host_agent::agent::Agent;
use zsr_host_agent::nic::{SoftNicBackend, nic_queue};
use zsr_link::{MemoryPort, Port, SendError, memory_link};
use zsr_p4runtime_server::{P4RuntimeServer, bind_unix};
use zsr_plan::dataplane::flow::DataPlane;
use zsr_plan::dataplane::{FIRST_FLOW_GROUP, GROUP_FLOOD};
use zsr_plan::p4::{Artifacts, Schema};
use zsr_soft_nic::{Nic, NicConfig};
use zsr_soft_switch::{SwitchHandle, control_queue};
use zsr_switch::SwitchReader;
use zsr_system::parts::{bare_switch, nic_config};
use zsr_system::run::fabric::{Fabric, FabricStats, LINK_DEPTH, Station};
use zsr_topology::Topology;
use zsr_wire::{Frame, FramePool};

pub type Client = ControllerClient<Channel>;

/// How connections of the controller to the switch fare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They last. Those of an earlier number are cut.
    Open(u32),
    /// As `Open`; the switch does not notice the end of those that are cut.
    HalfOpen(u32),
    /// They are cut at once.
    Cut,
}

async fn carry(mut from: UnixStream, to: PathBuf, mut way: watch::Receiver<Way>) {
    let open = *way.borrow_and_update();
    if open == Way::Cut {
        return;
    }
    let Ok(mut to) = UnixStream::connect(to).await else { return };
    let changed = async {
        // The rig ends, or the way changes.
        let _ = way.wait_for(|now| *now != open).await.map(drop);
    };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut from, &mut to) => return,
        () = changed => drop(from),
    }
    let now = *way.borrow();
    if let Way::HalfOpen(_) = now {
        std::future::pending::<()>().await;
    }
}

/// Whether frames from the switch to a host are lost, and how many were.
#[derive(Default)]
pub struct Loss {
    on: AtomicBool,
    lost: Mutex<u64>,
    more: Condvar,
}

impl Loss {
    /// From now on frames are lost, or no longer.
    pub fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Waits until so many frames were lost.
    pub fn wait_for(&self, frames: u64) {
        let lost = self.lost.lock().expect("nobody panics");
        drop(self.more.wait_while(lost, |lost| *lost < frames).expect("nobody panics"));
    }
}

/// The switch's end of a link.
struct Lossy(MemoryPort, Arc<Loss>);

impl Port for Lossy {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        if !self.1.on.load(Ordering::Relaxed) {
            return self.0.send(now_ns, frame, pool);
        }
        pool.put(frame);
        *self.1.lost.lock().expect("nobody panics") += 1;
        self.1.more.notify_all();
        Ok(())
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        self.0.recv(now_ns, pool)
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// Everything but the controller.
pub struct Rig {
    pub topology: Topology,
    pub artifacts: Artifacts,
    /// The switch, as its server has it.
    pub switch: SwitchHandle,
    /// The switch's server.
    pub p4runtime: Address,
    /// The controller's way there.
    pub way: watch::Sender<Way>,
    pub agents: Vec<Agent>,
    /// Per host: frames to it that are lost.
    pub losses: Vec<Arc<Loss>>,
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
        Self::with_nics(text, nic_config)
    }

    /// With NICs that may be other than the topology says.
    pub fn with_nics(text: &str, config: impl Fn(&Topology, usize) -> NicConfig) -> Self {
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
        let switch = bare_switch(&topology.switches[0]).expect("a switch");
        let (handle, control) = control_queue(wake.clone());
        let switch_handle = handle.clone();
        let (mut agents, mut stations, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        for (at, host) in topology.hosts.iter().enumerate() {
            let config = config(&topology, at);
            let (nic_handle, queue) = nic_queue(wake.clone());
            let backend = SoftNicBackend::new("soft0", nic_handle, &config, host.mtu).expect("a NIC");
            agents.push(Agent::with_shared_memory(&host.name, backend, None));
            let (host_end, switch_end) = memory_link(LINK_DEPTH);
            let loss = Arc::new(Loss::default());
            let switch_end = Lossy(switch_end, loss.clone());
            losses.push(loss);
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
        let way = watch::channel(Way::Open(0)).0;
        let p4runtime = folder.path().join("switch");
        runtime.block_on(async {
            let listener = bind_unix(&p4runtime).expect("a socket");
            tokio::spawn(P4RuntimeServer::new(handle, std::num::NonZeroU64::MIN).serve(listener, async {
                let _ = ended.await;
            }));
            let listener = UnixListener::bind(folder.path().join("way")).expect("a socket");
            let (to, way) = (p4runtime.clone(), way.subscribe());
            tokio::spawn(async move {
                while let Ok((from, _)) = listener.accept().await {
                    tokio::spawn(carry(from, to.clone(), way.clone()));
                }
            });
        });
        let mut rig = Rig {
            ends: topology.hosts.iter().map(|_| Vec::new()).collect(),
            topology,
            artifacts: Artifacts::built_in().expect("the program"),
            switch: switch_handle,
            p4runtime: Address::Unix(p4runtime),
            way,
            agents,
            losses,
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

    pub fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    pub fn try_start(&self) -> Result<Controller, StartError> {
        self.start_on(Box::new(FileStore::new(&self.journal())))
    }

    fn start_on(&self, store: Box<dyn Store>) -> Result<Controller, StartError> {
        let uris = self
            .topology
            .hosts
            .iter()
            .enumerate()
            .map(|(at, h)| (Address::Unix(self.agent_socket(&h.name)), Some(self.programs(at + 1))));
        let setup = Setup {
            name: "rig".into(),
            topology: &self.topology,
            artifacts: &self.artifacts,
            switch: Seat { p4runtime: Address::Unix(self.folder.path().join("way")), listens: None },
            standby: None,
            agents: uris.collect(),
            seed: None,
            journal: Some(store),
        };
        self.runtime.block_on(start(setup))
    }

    /// A controller, and a client of its service.
    pub fn control(&self) -> (Controller, Client) {
        self.control_on(Box::new(FileStore::new(&self.journal())))
    }

    /// The same, with the journal in another store.
    pub fn control_on(&self, store: Box<dyn Store>) -> (Controller, Client) {
        let controller = self.start_on(store).expect("a controller");
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

    /// Waits until a controller has met the agent of host `number`: from then on it hears what happens there.
    pub fn meet(&self, client: &mut Client, number: usize) {
        loop {
            let asked = self.runtime.block_on(client.get_system(proto::GetSystemRequest {}));
            if asked.expect("a controller").into_inner().hosts[number - 1].connected {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Entries and groups of flows, and workers, that the switch holds.
    pub fn held(&self) -> (usize, usize) {
        let schema = Schema::new(&self.artifacts.p4info);
        let tables = DataPlane::flow_tables().map(|t| schema.table(t).expect("a table"));
        self.runtime.block_on(async {
            let reader = SwitchReader::connect("s1", &self.p4runtime, 1).await.expect("the switch");
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

/// A file that can't be written while it is told so.
#[derive(Debug)]
pub struct Failing {
    file: FileStore,
    /// Lines that have this in them can't be written.
    pub refuses: Arc<std::sync::Mutex<Option<&'static str>>>,
}

impl Failing {
    pub fn new(path: &Path) -> Self {
        Failing { file: FileStore::new(path), refuses: Arc::default() }
    }
}

impl Store for Failing {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn read(&mut self) -> std::io::Result<Vec<u8>> {
        self.file.read()
    }

    fn replace(&mut self, text: &[u8]) -> std::io::Result<()> {
        self.file.replace(text)
    }

    fn append(&mut self, line: &[u8]) -> std::io::Result<()> {
        let refuses = *self.refuses.lock().expect("nobody panics");
        match refuses {
            // Of spaces, to see whether there is room.
            Some(what) if line.trim_ascii().is_empty() || String::from_utf8_lossy(line).contains(what) => {
                Err(std::io::Error::from_raw_os_error(28))
            }
            _ => self.file.append(line),
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
