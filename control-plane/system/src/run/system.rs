//! A topology brought up inside this process: hosts with soft NICs and their agents, links, the software switch with
//! its P4Runtime server, and the controller between them. The controller is the one of a running system; nothing here
//! knows entries or numbers.

use super::design::Design;
use super::error::RunError;
use super::fabric::{Fabric, FabricStats, LINK_DEPTH, Station};
use super::hosts::Hosts;
use super::watch::Reports;
use crate::parts::{bare_switch, with_faults};
use p4runtime_proto::{Address, local};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use zsr_api::controller as proto;
use zsr_controller::{Controller, Seat, Setup};
use zsr_link::{Capture, PcapSink, Port, memory_link};
use zsr_p4runtime_server::{Listener, P4RuntimeServer, ServeError, bind};
use zsr_plan::dataplane::FIRST_RESERVED_PORT;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::from_topology::create_flow_request;
use zsr_plan::p4::Artifacts;
use zsr_ring::Cancel;
use zsr_soft_switch::{SwitchHandle, control_queue};
use zsr_tls::{CERTIFICATE_ENDS, Identity, Peer, switch_name};
use zsr_topology::{Link, Switch as SwitchSpec, Topology};

/// A running system.
pub struct System<'t> {
    topology: &'t Topology,
    /// The hosts' agents, and the rings behind them.
    pub hosts: Hosts,
    /// The controller.
    pub controller: Controller,
    /// The topology's flows, in its order.
    pub flows: Vec<Flow>,
    /// Reports of the controller.
    pub reports: Reports,
    /// Designs at the system's rings.
    pub(super) designs: Vec<Design>,
    base: Base,
}

/// Threads and servers, which end with their owner.
struct Base {
    runtime: Runtime,
    fabric: Option<JoinHandle<FabricStats>>,
    stop: Arc<AtomicBool>,
    end_server: Option<oneshot::Sender<()>>,
    server: Option<tokio::task::JoinHandle<Result<(), ServeError>>>,
    captures: Vec<PcapSink>,
}

impl<'t> System<'t> {
    /// Brings the system up and creates the flows; data moves from then on. `pcap` is a folder for one capture per
    /// link.
    pub fn start(
        topology: &'t Topology,
        artifacts: &Artifacts,
        pcap: Option<&Path>,
        cancel: &Cancel,
    ) -> Result<Self, RunError> {
        if let Some(what) = topology.needs_processes() {
            return Err(RunError::NeedsProcesses { what, file: topology.file.clone() });
        }
        let spec = match topology.switches.as_slice() {
            [one] => one,
            many => return Err(RunError::Switches { count: many.len() }),
        };
        if let Some(link) = topology.links.iter().find(|l| l.port >= FIRST_RESERVED_PORT) {
            return Err(RunError::ReservedPort { link: link.name.clone(), port: link.port });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("zsr-control")
            .enable_all()
            .build()
            .map_err(|e| RunError::Io { what: "starting the control threads".into(), source: e })?;
        let (listener, p4runtime) = runtime.block_on(p4runtime(topology, spec))?;

        let (thread, mut captures) = (Arc::<OnceLock<Thread>>::default(), Vec::new());
        let (hosts, nics) = runtime.block_on(async { Hosts::start(topology, &thread, cancel) })?;
        let mut stations = Vec::new();
        for (host, (nic, queue)) in nics.into_iter().enumerate() {
            let Some(link) = topology.link_of(host) else { continue };
            let ends = cable(topology, link, pcap, &mut captures)?;
            stations.push(Station::new(nic, queue, ends, link.port as u16));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (handle, fabric) = fabric(spec, stations, &stop, &thread)?;

        let (end_server, ended) = oneshot::channel::<()>();
        let device_id = std::num::NonZeroU64::new(spec.device_id).unwrap_or(std::num::NonZeroU64::MIN);
        let server = P4RuntimeServer::new(handle, device_id).keep_alive(spec.keep_alive);
        // The server ends when the sender is used or dropped.
        let server = server.serve(listener, async { drop(ended.await) });
        let server = Some(runtime.spawn(server));
        let base =
            Base { runtime, fabric: Some(fabric), stop, end_server: Some(end_server), server, captures };

        let setup = Setup {
            name: topology.name.clone(),
            topology,
            artifacts,
            switch: Seat { p4runtime, listens: None },
            standby: None,
            agents: hosts.places().map(|place| (place, None)).collect(),
            seed: None,
            journal: None,
        };
        let controller = base.runtime.block_on(zsr_controller::start(setup))?;
        let reports = Reports::default();
        base.runtime.spawn(reports.clone().watch(controller.clone()));
        let flows = base.runtime.block_on(async {
            let mut flows = Vec::new();
            for flow in &topology.flows {
                flows.push(controller.create(as_run(create_flow_request(topology, flow))).await?);
            }
            Ok::<_, RunError>(flows)
        })?;
        let mut system = System { topology, hosts, controller, flows, reports, designs: Vec::new(), base };
        system.hosts.name_rings(topology, &system.flows);
        Ok(system)
    }

    /// The topology that runs.
    pub fn topology(&self) -> &'t Topology {
        self.topology
    }

    /// Runs `f` on the controller's runtime.
    pub fn block_on<R>(&self, f: impl Future<Output = R>) -> R {
        self.base.runtime.block_on(f)
    }

    /// Takes the flows down: workers stop, entries go, queue pairs and keys are given back, servers and threads end.
    pub fn stop(mut self) -> Result<FabricStats, RunError> {
        self.reports.end();
        self.designs.clear();
        let (controller, hosts) = (&self.controller, &mut self.hosts);
        let result = self.base.runtime.block_on(async {
            let deleted = controller.shutdown().await;
            let stopped = hosts.stop().await;
            deleted.map_err(RunError::from).and(stopped)
        });
        let stats = self.base.end();
        result?;
        for sink in std::mem::take(&mut self.base.captures) {
            sink.finish()?;
        }
        Ok(stats)
    }
}

impl Base {
    fn end(&mut self) -> FabricStats {
        drop(self.end_server.take());
        if let Some(server) = self.server.take() {
            let _ = self.runtime.block_on(server);
        }
        self.stop.store(true, Ordering::Relaxed);
        let Some(fabric) = self.fabric.take() else { return FabricStats::default() };
        fabric.thread().unpark();
        fabric.join().unwrap_or_default()
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        self.end();
    }
}

/// A flow in a run: producers that push all the time do not ring, unless the topology says so.
fn as_run(request: proto::CreateFlowRequest) -> proto::CreateFlowRequest {
    let settings = request.settings.map(|s| proto::Settings { doorbell: s.doorbell.or(Some(false)), ..s });
    proto::CreateFlowRequest { settings, ..request }
}

/// A switch without a program, in a thread with the stations.
fn fabric(
    spec: &SwitchSpec,
    stations: Vec<Station>,
    stop: &Arc<AtomicBool>,
    thread: &Arc<OnceLock<Thread>>,
) -> Result<(SwitchHandle, JoinHandle<FabricStats>), RunError> {
    let switch = bare_switch(spec)?;
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
    Ok((handle, fabric))
}

type Ends = (Box<dyn Port + Send>, Box<dyn Port + Send>);

/// The address of the P4Runtime server: the one that the topology names, else one in this process.
async fn p4runtime(topology: &Topology, switch: &SwitchSpec) -> Result<(Listener, Address), RunError> {
    let Some(at) = switch.listen else {
        let (place, listener) = local();
        return Ok((listener.into(), place.into()));
    };
    let refused = |source| RunError::Listen { switch: switch.name.clone(), source };
    let listener = bind(at).await.map_err(refused)?;
    let address = listener
        .local_addr()
        .map_err(|e| RunError::Io { what: "reading the P4Runtime server's address".into(), source: e })?;
    let Some(folder) = &topology.tls else { return Ok((listener.into(), address.into())) };
    let [own, controller] =
        ["switch", "controller"].map(|part| folder.join(format!("{part}{CERTIFICATE_ENDS}")));
    let (own, identity) = (Identity::open(&own)?, Identity::open(&controller)?);
    let peer = Peer { address: address.to_string(), name: switch_name(&switch.name), identity };
    Ok((Listener::Tls(listener, own), peer.into()))
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
