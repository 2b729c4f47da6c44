//! One topology brought up inside this process: hosts with soft NICs and their agents, links, the software switch with its
//! P4Runtime server, and the controller between them.

use super::error::RunError;
use super::fabric::{Fabric, FabricStats, LINK_DEPTH, Station};
use super::hosts::Hosts;
use super::install;
use super::watch::{Names, Reports};
use crate::p4::names::digest::REPORT_T;
use crate::p4::{Artifacts, Schema, SwitchClient};
use crate::plan::{FIRST_RESERVED_PORT, Plan, ticks};
use crate::process::with_faults;
use p4runtime_proto::Address;
use p4runtime_proto::p4::v1 as rt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use zsr_link::{Capture, PcapSink, Port, memory_link};
use zsr_p4runtime_server::{Listener, P4RuntimeServer, ServeError, bind, bind_unix, empty_program};
use zsr_ring::Cancel;
use zsr_soft_switch::{Switch, SwitchConfig, control_queue};
use zsr_topology::{Link, Switch as SwitchSpec, Topology};

/// Election id of the embedded controller: it is alone.
const ELECTION_ID: u128 = 1;

/// A running system.
pub struct System<'t> {
    topology: &'t Topology,
    /// Numbers of workers, rings and queue pairs.
    pub plan: Plan<'t>,
    /// Names of the program.
    pub schema: Schema,
    /// The hosts' agents, and the rings behind them.
    pub hosts: Hosts,
    /// The controller's session with the switch; taken by whoever listens to it.
    pub client: SwitchClient,
    /// What the data plane has reported.
    pub reports: Reports,
    runtime: tokio::runtime::Runtime,
    fabric: Option<JoinHandle<FabricStats>>,
    stop: Arc<AtomicBool>,
    shutdown: Option<tokio::sync::oneshot::Sender<()>>,
    server: Option<tokio::task::JoinHandle<Result<(), ServeError>>>,
    captures: Vec<PcapSink>,
    entries: Vec<rt::TableEntry>,
    /// Of the servers' sockets.
    _folder: tempfile::TempDir,
}

impl<'t> System<'t> {
    /// Brings everything up and creates the flows; data moves from then on. `pcap` is a folder for one capture per link.
    pub fn start(
        topology: &'t Topology,
        artifacts: &Artifacts,
        pcap: Option<&Path>,
        cancel: &Cancel,
    ) -> Result<Self, RunError> {
        let switch_spec = match topology.switches.as_slice() {
            [one] => one,
            many => return Err(RunError::Switches { count: many.len() }),
        };
        if let Some(what) = topology.needs_processes() {
            return Err(RunError::NeedsProcesses { what, file: topology.file.clone() });
        }
        if let Some(link) = topology.links.iter().find(|l| l.port >= FIRST_RESERVED_PORT) {
            return Err(RunError::ReservedPort { link: link.name.clone(), port: link.port });
        }
        let plan = Plan::new(topology, 0, 1)?;
        let schema = Schema::new(&artifacts.p4info);

        // The controller brings the program.
        let program = empty_program().map_err(|e| RunError::Program(e.to_string()))?;
        let mut switch = Switch::new(
            &program,
            SwitchConfig { cpu_port: switch_spec.cpu_port as u16, ..Default::default() },
        );
        for timer in ticks::timers(switch_spec.tick) {
            switch.add_timer(timer)?;
        }

        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("zsr-control")
            .enable_all()
            .build()
            .map_err(|e| RunError::Io { what: "starting the control threads".into(), source: e })?;
        let folder = install::private_folder()?;
        let (listener, p4runtime) = runtime.block_on(p4runtime(switch_spec, folder.path()))?;

        let mut captures = Vec::new();
        let thread: Arc<OnceLock<Thread>> = Arc::default();
        let (mut hosts, nics) = runtime.block_on(Hosts::start(topology, folder.path(), &thread, cancel))?;
        let mut stations = Vec::new();
        for (host, (nic, queue)) in nics.into_iter().enumerate() {
            let Some(link) = topology.link_of(host) else { continue };
            let ends = cable(topology, link, pcap, &mut captures)?;
            stations.push(Station::new(nic, queue, ends, link.port as u16));
        }

        let stop = Arc::new(AtomicBool::new(false));
        let to_wake = thread.clone();
        let (handle, control) = control_queue(move || {
            if let Some(t) = to_wake.get() {
                t.unpark();
            }
        });
        let fabric = Fabric { switch, control, stations, stop: stop.clone() };
        let fabric = std::thread::Builder::new()
            .name("zsr-fabric".into())
            .spawn(move || fabric.run())
            .map_err(|e| RunError::Io { what: "starting the fabric's thread".into(), source: e })?;
        let _ = thread.set(fabric.thread().clone());

        let (shutdown, ended) = tokio::sync::oneshot::channel::<()>();
        let device_id = std::num::NonZeroU64::new(switch_spec.device_id).unwrap_or(std::num::NonZeroU64::MIN);
        // The server ends when the sender is used or dropped.
        let server = P4RuntimeServer::new(handle, device_id).keep_alive(switch_spec.keep_alive);
        let server = server.serve(listener, async {
            let _ = ended.await;
        });
        let server = runtime.spawn(server);

        let mut entries = Vec::new();
        let reports = Reports::default();
        let client = runtime.block_on(async {
            let mut client =
                SwitchClient::connect(&switch_spec.name, &p4runtime, device_id.get(), ELECTION_ID).await?;
            install::base(&mut client, artifacts, &schema, &plan, None).await?;
            client.enable_digest(schema.digest(REPORT_T)?).await?;
            let addresses = hosts.create_rings(topology, &plan).await?;
            entries = install::flows(&mut client, &schema, &plan, &addresses).await?;
            if let Some(mut digests) = client.digests() {
                install::registers(&mut client, &mut digests, &plan).await?;
                let names = Names::new(topology, &plan, &hosts.agents());
                tokio::spawn(reports.clone().watch(digests, names));
            }
            install::workers(&mut client, &plan).await?;
            Ok::<_, RunError>(client)
        });
        let system = System {
            topology,
            plan,
            schema,
            hosts,
            client: match client {
                Ok(client) => client,
                Err(e) => {
                    stop.store(true, Ordering::Relaxed);
                    fabric.thread().unpark();
                    let _ = fabric.join();
                    return Err(e);
                }
            },
            reports,
            runtime,
            fabric: Some(fabric),
            stop,
            shutdown: Some(shutdown),
            server: Some(server),
            captures,
            entries,
            _folder: folder,
        };
        Ok(system)
    }

    /// The topology that runs.
    pub fn topology(&self) -> &'t Topology {
        self.topology
    }

    /// Runs `f` on the controller's runtime, with the session to the switch.
    pub fn block_on<R>(&mut self, f: impl AsyncFnOnce(&mut SwitchClient) -> R) -> R {
        self.runtime.block_on(f(&mut self.client))
    }

    /// Takes the flows down: workers stop, entries go, queue pairs and keys are given back, servers and threads end.
    pub fn stop(mut self) -> Result<FabricStats, RunError> {
        let mut groups = self.plan.tick_groups();
        groups.extend(self.plan.flow_groups()?);
        let entries = std::mem::take(&mut self.entries);
        let runtime = &self.runtime;
        let client = &mut self.client;
        let hosts = &mut self.hosts;
        let result = runtime.block_on(async {
            client.delete_replication(groups).await?;
            client.delete(entries).await?;
            hosts.stop().await
        });
        let stats = self.end();
        result?;
        for sink in std::mem::take(&mut self.captures) {
            sink.finish()?;
        }
        Ok(stats)
    }

    fn end(&mut self) -> FabricStats {
        let _ = self.shutdown.take().map(|s| s.send(()));
        if let Some(server) = self.server.take() {
            let _ = self.runtime.block_on(server);
        }
        self.stop.store(true, Ordering::Relaxed);
        let Some(fabric) = self.fabric.take() else { return FabricStats::default() };
        fabric.thread().unpark();
        fabric.join().unwrap_or_default()
    }
}

impl Drop for System<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

type Ends = (Box<dyn Port + Send>, Box<dyn Port + Send>);

/// Where the P4Runtime server listens: at the address that the topology names, else in `folder`.
async fn p4runtime(switch: &SwitchSpec, folder: &Path) -> Result<(Listener, Address), RunError> {
    let refused = |source| RunError::Listen { switch: switch.name.clone(), source };
    let Some(at) = switch.listen else {
        let path = folder.join(install::P4RUNTIME);
        return Ok((bind_unix(&path).map_err(refused)?.into(), Address::Unix(path)));
    };
    let listener = bind(at).await.map_err(refused)?;
    let address = listener
        .local_addr()
        .map_err(|e| RunError::Io { what: "reading the P4Runtime server's address".into(), source: e })?;
    Ok((listener.into(), address.into()))
}

/// The two ends of a link, with its faults and its capture.
fn cable(
    topology: &Topology,
    link: &Link,
    pcap: Option<&Path>,
    captures: &mut Vec<PcapSink>,
) -> Result<Ends, RunError> {
    let (host_end, switch_end) = memory_link(LINK_DEPTH);
    let mut switch_end = with_faults(Box::new(switch_end), link, topology)?;
    if let Some(dir) = pcap {
        let sink = PcapSink::create(&dir.join(format!("{}.pcap", link.name)))?;
        captures.push(sink.clone());
        switch_end = Box::new(Capture::new(switch_end, sink));
    }
    Ok((Box::new(host_end), switch_end))
}
