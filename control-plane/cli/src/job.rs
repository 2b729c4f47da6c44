//! `zsr run`: workloads over an embedded system, from the check of the inputs to the report.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::options::RunOptions;
use crate::report::{ConnectionCounts, FlowReport, LinkReport, Outcome, Progress, Report, SwitchCounts};
use zsr_plan::dataplane::model::{self, Ring};
use zsr_plan::p4::names::counter::{PRODUCER_TRANSFERS, RECEIVED, RETRIES, SENT, TRANSFERS};
use zsr_plan::p4::{ArtifactError, Artifacts};
use zsr_records::rows::QUOTES_HELP;
use zsr_system::run::fabric::FabricStats;
use zsr_system::run::{Delays, End, RunError, System};
use zsr_topology::{Flow, Topology};
use zsr_workload::{
    Control, Estimate, FlowInput, FlowOutcome, KEPT, Meter, OutputError, OutputPlan, Prepared, Stock, Unit,
    WorkloadError, prepare, run_flow,
};

/// How often a wait looks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// The reason why no item was moved, or why the result is unknown.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The compiled program.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The input.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The output.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The system.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Somebody has changed their mind before anything was moved.
    #[error("interrupted while the input was prepared; nothing was moved")]
    Interrupted,
    /// The folder for captures.
    #[error("cannot use the folder {} for captures: {}", path.display(), zsr_workload::no_folder(.cause))]
    PcapFolder {
        /// The folder.
        path: std::path::PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
}

impl JobError {
    /// Whether the command is wrong, and not what it works on.
    pub fn is_usage(&self) -> bool {
        matches!(self, JobError::Workload(e) if e.is_usage())
    }
}

/// Brings `topology` up, runs its workloads, verifies, tears down.
///
/// # Errors
/// When the topology can't be brought up or taken down. Errors while data moves are in the report.
pub fn run(
    topology: &Topology,
    options: &RunOptions,
    control: &Control,
    progress: &mut dyn Progress,
) -> Result<Report, JobError> {
    let started = Instant::now();
    // Cheap checks come first.
    let artifacts = artifacts(topology, options)?;
    progress.phase("preparing the input");
    let prepared = prepare_all(topology, control)?;
    let stocks = stocks(topology, &prepared)?;
    let output = match &options.output {
        Some(folder) => Some(OutputPlan::new(folder, topology, options.force)?),
        None => None,
    };
    if let Some(folder) = &options.pcap {
        std::fs::create_dir_all(folder)
            .map_err(|cause| JobError::PcapFolder { path: folder.clone(), cause })?;
    }
    progress.phase(&format!(
        "bringing up {} hosts, {} links, {} flows",
        topology.hosts.len(),
        topology.links.len(),
        topology.flows.len()
    ));
    let mut system = System::start(topology, &artifacts, options.pcap.as_deref(), &control.cancel)?;
    let mut inputs = Vec::new();
    for (flow, (spec, (prepared, stock))) in
        topology.flows.iter().zip(prepared.iter().zip(stocks)).enumerate()
    {
        inputs.push(attach(&mut system, flow, spec, (prepared, stock), control, progress)?);
    }
    inputs.iter_mut().for_each(|input| input.stock.wait(control));
    let setup = started.elapsed();

    let meter = Meter::default();
    progress.start(total(&prepared));
    let mut delays = Delays::default();
    let mut outcomes = run_flow(topology, inputs, output.as_ref(), control, &meter, &mut |m| {
        if let Some(text) = delays.look(&system, m.delivered_records()) {
            progress.details(&text);
        }
        progress.update(m.into());
        for note in system.reports.take_notes() {
            progress.phase(&note);
        }
    });
    progress.finish((&meter).into());
    if let Some(place) = prepared.iter().find_map(Prepared::quotes_at) {
        progress.warn(&format!("warning: {place}: {QUOTES_HELP}"));
    }
    for (flow, taken) in topology.flows.iter().zip(&prepared).filter_map(|(f, p)| Some((f, p.taken()?))) {
        progress.warn(&format!("warning: flow '{}': {taken}", flow.name));
    }
    let transfer = outcomes.iter().map(|o| o.elapsed).max().unwrap_or_default();

    progress.phase("tearing down");
    let ended = Instant::now();
    let counts = read_counts(&system)?;
    let flows = outcomes.iter().filter_map(|o| report_flow(topology, &system.flows, o, &counts)).collect();
    let fatal = system.reports.fatal();
    let fabric = system.stop()?;
    let outcome = match fatal {
        // All other errors are consequences of this one.
        Some(report) => Outcome::Failed(report),
        None => judge(&mut outcomes, control),
    };
    let outputs = match (output, &outcome) {
        (Some(plan), Outcome::Delivered) => plan.commit()?,
        _ => Vec::new(),
    };
    Ok(Report {
        topology: topology.name.clone(),
        file: topology.file.clone(),
        outcome,
        setup,
        transfer,
        teardown: ended.elapsed(),
        flows,
        links: links(topology, &fabric, options.pcap.as_deref()),
        outputs,
    })
}

/// Prepares the flows' inputs. Reading files and making text can't be interrupted, so a thread of its own does it. An
/// interruption leaves the thread alone: the process is about to end.
fn prepare_all(topology: &Topology, control: &Control) -> Result<Vec<Prepared>, JobError> {
    let (flows, seed) = (topology.flows.clone(), topology.seed);
    let (tell, done) = mpsc::channel();
    let work = move || {
        let prepared: Result<Vec<Prepared>, _> = flows.iter().map(|flow| prepare(flow, seed)).collect();
        // Nobody needs the result any more: the run was interrupted.
        let _ = tell.send(prepared);
    };
    let thread = std::thread::Builder::new().name("zsr-prepare".into()).spawn(work);
    thread.map_err(|cause| WorkloadError::Thread { name: "the input".into(), cause })?;
    loop {
        if control.stop.is_cancelled() || control.cancel.is_cancelled() {
            return Err(JobError::Interrupted);
        }
        match done.recv_timeout(SIGNALS) {
            Ok(prepared) => return Ok(prepared?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(WorkloadError::Panicked("the input".into()).into());
            }
        }
    }
}

/// Begins to make what producers push, while the system comes up. Producers of all flows share the memory.
fn stocks(topology: &Topology, prepared: &[Prepared]) -> Result<Vec<Stock>, WorkloadError> {
    let producers: usize = topology.flows.iter().map(|flow| flow.producers.len()).sum();
    let flows = topology.flows.iter().zip(prepared);
    flows
        .map(|(flow, prepared)| {
            let own = flow.producers.len();
            Stock::begin(prepared, own, KEPT / producers.max(1) * own)
        })
        .collect()
}

/// The program: the command line's, else the switch's own, else the built-in one.
fn artifacts(topology: &Topology, options: &RunOptions) -> Result<Artifacts, ArtifactError> {
    let own = topology.switches.first().and_then(|s| s.artifacts.as_deref());
    match options.artifacts.as_deref().or(own) {
        Some(folder) => Artifacts::load(folder),
        None => Artifacts::built_in(),
    }
}

/// Handles of a flow's rings. Reports devices at rings that are no CPU, and CPUs that stand in for devices.
fn attach<'p>(
    system: &mut System<'_>,
    index: usize,
    flow: &Flow,
    (prepared, stock): (&'p Prepared, Stock),
    control: &Control,
    progress: &mut dyn Progress,
) -> Result<FlowInput<'p>, RunError> {
    let (mut producers, mut producer_paces) = (Vec::new(), Vec::new());
    for endpoint in &flow.producers {
        let mut ends = Vec::new();
        for ring in &endpoint.rings {
            ends.push(system.producer(&endpoint.name, *ring, &control.cancel)?);
        }
        announce(&ends, progress);
        // One thread fills all rings of a producer.
        producer_paces.push(ends.iter().find_map(|end| end.pace));
        producers.push(ends.into_iter().map(|end| end.handle).collect());
    }
    let (mut consumers, mut consumer_paces) = (Vec::new(), Vec::new());
    for endpoint in &flow.consumers {
        let mut ends = Vec::new();
        for ring in &endpoint.rings {
            ends.push(system.consumer(&endpoint.name, *ring, &control.cancel)?);
        }
        announce(&ends, progress);
        consumer_paces.push(ends.iter().find_map(|end| end.pace));
        consumers.push(ends.into_iter().map(|end| end.handle).collect());
    }
    Ok(FlowInput { flow: index, prepared, stock, producers, consumers, producer_paces, consumer_paces })
}

/// Reports what an endpoint has at its rings, each device once.
fn announce<H>(ends: &[End<H>], progress: &mut dyn Progress) {
    let devices: BTreeSet<_> = ends.iter().filter_map(|end| end.device.as_deref()).collect();
    let stand_ins: BTreeSet<_> = ends.iter().filter_map(|end| end.stand_in.as_deref()).collect();
    devices.into_iter().for_each(|text| progress.phase(text));
    stand_ins.into_iter().for_each(|text| progress.warn(text));
}

/// The expected amount over all flows; different units are not added.
fn total(prepared: &[Prepared]) -> Estimate {
    let unit = prepared.first().map_or(Unit::Items, |p| p.estimate.unit);
    let same = prepared.iter().filter(|p| p.estimate.unit == unit);
    Estimate { unit, total: same.map(|p| p.estimate.total).sum() }
}

/// The switch's counters, by name and index: packets.
type Counts = HashMap<(&'static str, u16), u64>;

fn read_counts(system: &System<'_>) -> Result<Counts, RunError> {
    let (schema, mut wanted) = (system.controller.schema(), Vec::new());
    for ring in system.flows.iter().flat_map(model::Flow::rings) {
        let (data, poll, worker) = (ring.ids.data.index, ring.ids.poll.index, ring.ids.worker);
        wanted.extend([(RECEIVED, data), (SENT, data), (RECEIVED, poll), (SENT, poll)]);
        wanted.extend([(TRANSFERS, worker), (RETRIES, worker)]);
        if ring.ids.is_producer {
            wanted.push((PRODUCER_TRANSFERS, ring.ids.id));
        }
    }
    let mut cells = Vec::new();
    for (name, index) in &wanted {
        cells.push((schema.counter(name)?, *index));
    }
    let counted = system.block_on(async { system.controller.reader().cells(&cells).await })?;
    Ok(wanted.into_iter().zip(counted.iter().map(|cell| cell.packets)).collect())
}

/// Packets of a ring's two connections.
fn connection(ring: &Ring, counts: &Counts) -> ConnectionCounts {
    let get = |name, index: u16| counts.get(&(name, index)).copied().unwrap_or(0);
    let (data, poll) = (ring.ids.data.index, ring.ids.poll.index);
    ConnectionCounts {
        polls: get(SENT, poll),
        poll_answers: get(RECEIVED, poll),
        sent: get(SENT, data),
        received: get(RECEIVED, data),
    }
}

fn report_flow(
    topology: &Topology,
    flows: &[model::Flow],
    outcome: &FlowOutcome,
    counts: &Counts,
) -> Option<FlowReport> {
    let (flow, made) = (topology.flows.get(outcome.flow)?, flows.get(outcome.flow)?);
    let indices = flow.producers.iter().chain(&flow.consumers).flat_map(|e| e.rings.iter().copied());
    let rings: HashMap<usize, &Ring> = indices.zip(made.rings()).collect();
    let counted = |name, index: u16| counts.get(&(name, index)).copied().unwrap_or(0);
    let by_ring = |ring: usize| {
        let ring = rings.get(&ring)?;
        let carried = connection(ring, counts);
        Some(match ring.ids.is_producer {
            true => SwitchCounts::of_producer(&carried, counted(PRODUCER_TRANSFERS, ring.ids.id)),
            false => {
                let (transfers, retries) =
                    (counted(TRANSFERS, ring.ids.worker), counted(RETRIES, ring.ids.worker));
                SwitchCounts::of_consumer(&carried, transfers, retries)
            }
        })
    };
    let mut sum = SwitchCounts::default();
    rings.keys().for_each(|ring| sum.add(&by_ring(*ring).unwrap_or_default()));
    // Items pass a producer's connection and a consumer's; transfers and retries are their worker's.
    let consumers = flow.consumers.iter().flat_map(|e| &e.rings).filter_map(|r| by_ring(*r));
    sum.data_packets = consumers.map(|c| c.data_packets).sum();
    sum.transfers = made.workers().iter().map(|w| counted(TRANSFERS, *w)).sum();
    sum.retries = made.workers().iter().map(|w| counted(RETRIES, *w)).sum();
    FlowReport::new(topology, outcome, sum, by_ring)
}

/// The outcome of the run; takes the errors out of the flows' outcomes.
fn judge(outcomes: &mut [FlowOutcome], control: &Control) -> Outcome {
    let errors: Vec<WorkloadError> = outcomes.iter_mut().filter_map(|o| o.error.take()).collect();
    if let Some(error) = errors.iter().find(|e| !e.is_cancelled()) {
        return Outcome::Failed(error.to_string());
    }
    if !errors.is_empty() {
        return Outcome::Interrupted;
    }
    // A request that came when everything had been pushed changes nothing.
    let stopped = control.stop.is_cancelled() || control.cancel.is_cancelled();
    if stopped && outcomes.iter().any(|o| !o.complete) {
        return Outcome::Interrupted;
    }
    match outcomes.iter().find(|o| !o.verification.is_exact()) {
        None => Outcome::Delivered,
        Some(bad) => {
            let v = &bad.verification;
            Outcome::Failed(format!(
                "not everything arrived as it was pushed: {} items lost, {} repeated, {} misrouted, {} altered",
                v.lost, v.repeated, v.misrouted, v.altered
            ))
        }
    }
}

fn links(topology: &Topology, fabric: &FabricStats, pcap: Option<&Path>) -> Vec<LinkReport> {
    let report = |link: &zsr_topology::Link| {
        let counted =
            fabric.links.iter().find(|l| u32::from(l.port) == link.port).copied().unwrap_or_default();
        LinkReport {
            name: link.name.clone(),
            to_switch_frames: counted.to_switch_frames,
            to_switch_bytes: counted.to_switch_bytes,
            to_host_frames: counted.to_host_frames,
            to_host_bytes: counted.to_host_bytes,
            faults: counted.faults,
            pcap: pcap.map(|folder| folder.join(format!("{}.pcap", link.name))),
        }
    };
    topology.links.iter().map(report).collect()
}
