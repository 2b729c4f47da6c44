//! `zsr run`: workloads over an embedded system, from the check of the inputs to the report.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::options::RunOptions;
use crate::p4::{ArtifactError, Artifacts, ClientError};
use crate::plan::Plan;
use crate::report::{ConnectionCounts, FlowReport, LinkReport, Outcome, Progress, Report, SwitchCounts};
use crate::run::fabric::FabricStats;
use crate::run::{Delays, RunError, System};
use crate::workload::{
    Control, Estimate, FlowInput, FlowOutcome, Meter, OutputError, OutputPlan, Prepared, Unit, WorkloadError,
    prepare, run_flow,
};
use zsr_records::rows::QUOTES_HELP;
use zsr_topology::{Flow, Topology};

/// How often a wait looks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// Why nothing was moved, or nothing can be said about it.
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
    #[error("cannot use the folder {} for captures: {cause}", path.display())]
    PcapFolder {
        /// The folder.
        path: std::path::PathBuf,
        /// What the system says.
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
/// When it can't be brought up or taken down. What goes wrong while data moves is in the report.
pub fn run(
    topology: &Topology,
    options: &RunOptions,
    control: &Control,
    progress: &mut dyn Progress,
) -> Result<Report, JobError> {
    let started = Instant::now();
    // What is cheap to find wrong comes first.
    let artifacts = artifacts(topology, options)?;
    progress.phase("preparing the input");
    let prepared = prepare_all(topology, control)?;
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
    for (flow, (spec, prepared)) in topology.flows.iter().zip(&prepared).enumerate() {
        inputs.push(attach(&system, flow, spec, prepared)?);
    }
    let setup = started.elapsed();

    let meter = Meter::default();
    progress.start(total(&prepared));
    let mut delays = Delays::default();
    let mut outcomes = run_flow(topology, inputs, output.as_ref(), control, &meter, &mut |m| {
        if let Some(text) = delays.look(&mut system, m.delivered_records()) {
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
    let transfer = outcomes.iter().map(|o| o.elapsed).max().unwrap_or_default();

    progress.phase("tearing down");
    let ended = Instant::now();
    let counts = read_counts(&mut system)?;
    let flows = outcomes.iter().filter_map(|o| report_flow(topology, &system.plan, o, &counts)).collect();
    let fatal = system.reports.fatal();
    let fabric = system.stop()?;
    let outcome = match fatal {
        // Everything else that went wrong came of this.
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

/// Prepares the flows' inputs. What reads files or makes text can't be broken off, so it runs in a thread of its own, which an
/// interruption leaves alone: the process is about to end.
fn prepare_all(topology: &Topology, control: &Control) -> Result<Vec<Prepared>, JobError> {
    let (flows, seed) = (topology.flows.clone(), topology.seed);
    let (tell, done) = mpsc::channel();
    let work = move || {
        let prepared: Result<Vec<Prepared>, _> = flows.iter().map(|flow| prepare(flow, seed)).collect();
        // Nobody wants it any more: the run was interrupted.
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

/// The program: the command line's, else the switch's own, else the built-in one.
fn artifacts(topology: &Topology, options: &RunOptions) -> Result<Artifacts, ArtifactError> {
    let own = topology.switches.first().and_then(|s| s.artifacts.as_deref());
    match options.artifacts.as_deref().or(own) {
        Some(folder) => Artifacts::load(folder),
        None => Artifacts::built_in(),
    }
}

/// Handles of a flow's rings.
fn attach<'p>(
    system: &System<'_>,
    index: usize,
    flow: &Flow,
    prepared: &'p Prepared,
) -> Result<FlowInput<'p>, RunError> {
    let mut producers = Vec::new();
    for endpoint in &flow.producers {
        let lanes: Result<_, _> = endpoint.rings.iter().map(|r| system.hosts.producer(*r)).collect();
        producers.push(lanes?);
    }
    let consumers: Result<_, _> =
        flow.consumers.iter().flat_map(|e| &e.rings).map(|r| system.hosts.consumer(*r)).collect();
    Ok(FlowInput { flow: index, prepared, producers, consumers: consumers? })
}

/// What to expect over all flows; different units are not added.
fn total(prepared: &[Prepared]) -> Estimate {
    let unit = prepared.first().map_or(Unit::Items, |p| p.estimate.unit);
    let same = prepared.iter().filter(|p| p.estimate.unit == unit);
    Estimate { unit, total: same.map(|p| p.estimate.total).sum() }
}

/// The switch's counters, by name and index: packets.
type Counts = HashMap<(&'static str, usize), u64>;

fn read_counts(system: &mut System<'_>) -> Result<Counts, RunError> {
    let mut ids = Vec::new();
    for name in ["received", "sent", "transfers", "producer_transfers", "retries"] {
        ids.push((name, system.schema.counter(name)?));
    }
    let cells: Result<Counts, ClientError> = system.block_on(async |client| {
        let mut counts = Counts::new();
        for (name, id) in ids {
            for (index, packets, _) in client.counters(id).await? {
                counts.insert((name, index), packets);
            }
        }
        Ok(counts)
    });
    Ok(cells?)
}

/// What a ring's two connections carried, by their indices.
fn connection(data: u16, poll: u16, counts: &Counts) -> ConnectionCounts {
    let get = |name, index: u16| counts.get(&(name, usize::from(index))).copied().unwrap_or(0);
    ConnectionCounts {
        polls: get("sent", poll),
        poll_answers: get("received", poll),
        sent: get("sent", data),
        received: get("received", data),
    }
}

fn report_flow(
    topology: &Topology,
    plan: &Plan<'_>,
    outcome: &FlowOutcome,
    counts: &Counts,
) -> Option<FlowReport> {
    let flow = topology.flows.get(outcome.flow)?;
    let ids = |ring: usize| plan.rings.get(ring).copied().flatten();
    let of_worker = |name, index: u16| counts.get(&(name, usize::from(index))).copied().unwrap_or(0);
    let carried = |ring| ids(ring).map(|ids| connection(ids.data.index, ids.poll.index, counts));
    let producer = |ring| {
        let transfers = of_worker("producer_transfers", ids(ring)?.id);
        Some(SwitchCounts::of_producer(&carried(ring)?, transfers))
    };
    let consumer = |ring| {
        let ids = ids(ring)?;
        let (transfers, retries) = (of_worker("transfers", ids.worker), of_worker("retries", ids.worker));
        Some(SwitchCounts::of_consumer(&carried(ring)?, transfers, retries))
    };
    let by_ring = |ring: usize| {
        if ids(ring)?.is_producer { producer(ring) } else { consumer(ring) }
    };
    let mut sum = SwitchCounts::default();
    for endpoint in flow.producers.iter().chain(&flow.consumers) {
        for ring in &endpoint.rings {
            sum.add(&by_ring(*ring).unwrap_or_default());
        }
    }
    // Items pass a producer's connection and a consumer's; transfers and retries are their worker's.
    let consumers = flow.consumers.iter().flat_map(|e| &e.rings).filter_map(|r| consumer(*r));
    sum.data_packets = consumers.map(|c| c.data_packets).sum();
    let workers = || plan.workers.iter().filter(|w| w.flow == outcome.flow);
    sum.transfers = workers().map(|w| of_worker("transfers", w.id)).sum();
    sum.retries = workers().map(|w| of_worker("retries", w.id)).sum();
    FlowReport::new(topology, outcome, sum, by_ring)
}

/// How it ended; takes the errors out of the outcomes.
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
