//! Runs a flow's producers and consumers over attached rings, one thread each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use zsr_ring::{Cancel, Consumer, Producer, RingStats};

use zsr_topology::{Endpoint, Topology};

use super::compare::{Received, compare};
use super::consume::{Intake, Peer};
use super::error::WorkloadError;
use super::output::{OutputFile, OutputPlan};
use super::pace::Pace;
use super::produce::{self, Lane};
use super::source::Prepared;
use super::stock::{Feed, Stock};

use super::tally::Tally;
use super::verify::Verification;

/// How long producers and consumers have after a stop request before they are cancelled.
const GRACE: Duration = Duration::from_secs(5);
/// How often the caller hears of progress.
const TICK: Duration = Duration::from_millis(50);

/// Counters that all threads of a run add to, for progress.
#[derive(Debug, Default)]
pub struct Meter {
    pushed: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Meter {
    #[inline]
    pub(crate) fn pushed(&self, records: u64) {
        self.pushed.fetch_add(records, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn delivered(&self, records: u64, bytes: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records pushed so far.
    pub fn pushed_records(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    /// Records delivered so far.
    pub fn delivered_records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Bytes of records delivered so far.
    pub fn delivered_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// How a run is ended from outside: `stop` makes producers finish what they began and close, `cancel` ends
/// every wait at once.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Ends producers politely; everything pushed is still delivered.
    pub stop: Cancel,
    /// Ends everything. Rings must have been attached with this token.
    pub cancel: Cancel,
}

impl Control {
    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.stop.is_cancelled() || self.cancel.is_cancelled()
    }
}

/// A flow to run.
pub struct FlowInput<'a> {
    /// Index of the flow in the topology.
    pub flow: usize,
    /// The flow's workload.
    pub prepared: &'a Prepared,
    /// The segments that its producers push.
    pub stock: Stock,
    /// Handles of each producer's rings, in the order of the flow's lists.
    pub producers: Vec<Vec<Producer>>,
    /// Handles of each consumer's rings, likewise.
    pub consumers: Vec<Vec<Consumer>>,
    /// Records per second that each producer keeps to; `None`, or nothing here: as many as it can push.
    pub producer_paces: Vec<Option<u32>>,
    /// Records per second that each consumer keeps to, likewise.
    pub consumer_paces: Vec<Option<u32>>,
}

/// The load that one ring carried, as its PU counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingOutcome {
    /// Index of the ring in the topology.
    pub ring: usize,
    /// Items, records and bytes.
    pub tally: Tally,
    /// The handle's own counts.
    pub stats: RingStats,
}

/// The outcome of a flow.
#[derive(Debug, Default)]
pub struct FlowOutcome {
    /// Index of the flow in the topology.
    pub flow: usize,
    /// From the start of the threads to the end of the last consumer.
    pub elapsed: Duration,
    /// The load that producer rings took in.
    pub producer_rings: Vec<RingOutcome>,
    /// The load that consumer rings gave out.
    pub consumer_rings: Vec<RingOutcome>,
    /// Both ends compared.
    pub verification: Verification,
    /// Whether every producer came to the end of its input.
    pub complete: bool,
    /// Why it ended early.
    pub error: Option<WorkloadError>,
}

/// The result of a thread.
enum Done {
    Producer {
        flow: usize,
        number: usize,
        lanes: Vec<RingOutcome>,
        complete: bool,
        error: Option<WorkloadError>,
    },
    Consumer(Box<ConsumerDone>),
}

struct ConsumerDone {
    flow: usize,
    number: usize,
    rings: Vec<RingOutcome>,
    peers: Vec<Peer>,
    order: u64,
    verdict: Verification,
    error: Option<WorkloadError>,
}

/// Waits until the stocks of all `inputs` are made, runs them to their end, calling `tick` some 20 times a second, and verifies them.
///
/// The first error cancels everything; outcomes then say what was pushed and delivered until then. After a
/// stop request what was pushed is still delivered, for at most 5 seconds.
pub fn run_flow(
    topology: &Topology,
    inputs: Vec<FlowInput<'_>>,
    output: Option<&OutputPlan>,
    control: &Control,
    meter: &Meter,
    tick: &mut dyn FnMut(&Meter),
) -> Vec<FlowOutcome> {
    let mut outcomes: Vec<FlowOutcome> =
        inputs.iter().map(|i| FlowOutcome { flow: i.flow, ..FlowOutcome::default() }).collect();
    let mut jobs = Vec::new();
    for (mut input, outcome) in inputs.into_iter().zip(&mut outcomes) {
        input.stock.wait(control);
        match jobs_of(topology, input, output) {
            Ok(more) => jobs.extend(more),
            Err(e) => {
                outcome.error = Some(e);
                control.cancel.cancel();
                return outcomes;
            }
        }
    }
    let started = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<Done> = Vec::new();
    std::thread::scope(|scope| {
        let mut running = 0;
        for job in jobs {
            let (sender, flow, name) = (sender.clone(), job.flow(), job.name());
            let spawned = std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, move || {
                let work = std::panic::AssertUnwindSafe(|| job.run(control, meter));
                let done = std::panic::catch_unwind(work).unwrap_or_else(|_| Done::Producer {
                    flow,
                    number: usize::MAX,
                    lanes: Vec::new(),
                    complete: false,
                    error: Some(WorkloadError::Panicked(name)),
                });
                // The receiver outlives the scope.
                let _ = sender.send(done);
            });
            match spawned {
                Ok(_) => running += 1,
                Err(cause) => {
                    if let Some(outcome) = outcomes.iter_mut().find(|o| o.flow == flow) {
                        outcome
                            .error
                            .get_or_insert(WorkloadError::Thread { name: "an endpoint".into(), cause });
                    }
                    control.cancel.cancel();
                    break;
                }
            }
        }
        let mut deadline = None;
        while running > 0 {
            match receiver.recv_timeout(TICK) {
                Ok(done) => {
                    running -= 1;
                    let failed = match &done {
                        Done::Producer { error, .. } => error.is_some(),
                        Done::Consumer(done) => done.error.is_some(),
                    };
                    if failed {
                        control.cancel.cancel();
                    }
                    if let Some(outcome) = outcomes.iter_mut().find(|o| o.flow == done.flow()) {
                        outcome.elapsed = started.elapsed();
                    }
                    results.push(done);
                }
                Err(_) => tick(meter),
            }
            if control.stop.is_cancelled() {
                let end = *deadline.get_or_insert_with(|| Instant::now() + GRACE);
                if Instant::now() >= end {
                    control.cancel.cancel();
                }
            }
        }
    });
    tick(meter);
    for outcome in &mut outcomes {
        collect(topology, outcome, &mut results);
    }
    outcomes
}

/// Sorts the threads' results into an outcome and compares both ends of every pair.
fn collect(topology: &Topology, outcome: &mut FlowOutcome, results: &mut Vec<Done>) {
    let Some(flow) = topology.flows.get(outcome.flow) else { return };
    outcome.complete = true;
    let lanes = flow.kind.rings_per_producer(flow.consumers.len());
    let mut pushed = vec![vec![Tally::default(); lanes]; flow.producers.len()];
    let mut consumers = Vec::new();
    let mut errors = Vec::new();
    let (mine, others) = std::mem::take(results).into_iter().partition(|d: &Done| d.flow() == outcome.flow);
    *results = others;
    let mine: Vec<Done> = mine;
    for done in mine {
        match done {
            Done::Producer { number, lanes, complete, error, .. } => {
                outcome.complete &= complete;
                for (c, lane) in lanes.iter().enumerate() {
                    if let Some(cell) = pushed.get_mut(number).and_then(|row| row.get_mut(c)) {
                        *cell = lane.tally;
                    }
                }
                outcome.producer_rings.extend(lanes);
                errors.extend(error);
            }
            Done::Consumer(done) => consumers.push(done),
        }
    }
    consumers.sort_by_key(|c| c.number);
    outcome.producer_rings.sort_by_key(|r| r.ring);
    let ring_name = |number: usize| {
        let ring = flow.consumers.get(number).and_then(|e| e.rings.first());
        ring.and_then(|r| topology.rings.get(*r)).map_or("", |r| r.name.as_str())
    };
    let received: Vec<Received<'_>> = consumers
        .iter()
        .map(|c| Received { ring: ring_name(c.number), peers: &c.peers, order: c.order })
        .collect();
    let producers: Vec<&str> = flow.producers.iter().map(|p| p.name.as_str()).collect();
    let mut verdict = Verification::default();
    compare(flow.kind, &producers, &pushed, &received, &mut verdict);
    drop(received);
    for done in consumers {
        outcome.consumer_rings.extend(done.rings);
        outcome.verification.merge(done.verdict);
        errors.extend(done.error);
    }
    outcome.verification.merge(verdict);
    errors.sort_by_key(|e| std::cmp::Reverse(e.rank()));
    if outcome.error.is_none() {
        outcome.error = errors.into_iter().next();
    }
}

impl Done {
    fn flow(&self) -> usize {
        match self {
            Done::Producer { flow, .. } => *flow,
            Done::Consumer(done) => done.flow,
        }
    }
}

/// An endpoint before its thread starts.
#[allow(clippy::large_enum_variant, reason = "one per thread, and moved once")]
enum Job<'a> {
    Producer {
        flow: usize,
        number: usize,
        parts: usize,
        prepared: &'a Prepared,
        /// The producer's segments; for synthetic items there are none.
        feed: Option<Feed>,
        lanes: Vec<(usize, Lane)>,
        pace: Option<u32>,
    },
    Consumer {
        flow: usize,
        number: usize,
        prepared: &'a Prepared,
        producers: Vec<String>,
        name: String,
        rings: Vec<(usize, Consumer)>,
        output: Option<OutputFile>,
        pace: Option<u32>,
    },
}

/// Makes one job per endpoint of a flow.
fn jobs_of<'a>(
    topology: &Topology,
    input: FlowInput<'a>,
    output: Option<&OutputPlan>,
) -> Result<Vec<Job<'a>>, WorkloadError> {
    let FlowInput { flow: index, prepared, stock, producers, consumers, producer_paces, consumer_paces } =
        input;
    let wrong = |name: &str, found: String, wanted: String| WorkloadError::WrongRings {
        flow: name.to_owned(),
        found,
        wanted,
    };
    let Some(flow) = topology.flows.get(index) else {
        return Err(wrong("?", format!("index {index}"), format!("one below {}", topology.flows.len())));
    };
    let shapes =
        [producers.iter().map(Vec::len).collect(), consumers.iter().map(Vec::len).collect::<Vec<_>>()];
    let of = |members: &[Endpoint]| members.iter().map(|member| member.rings.len()).collect();
    let wanted: [Vec<usize>; 2] = [of(&flow.producers), of(&flow.consumers)];
    if shapes != wanted {
        let text = |[p, c]: &[Vec<usize>; 2]| format!("{p:?} producer rings and {c:?} consumer rings");
        return Err(wrong(&flow.name, text(&shapes), text(&wanted)));
    }
    let ring_name = |ring: usize| topology.rings.get(ring).map_or_else(String::new, |r| r.name.clone());
    let mut jobs = Vec::new();
    let mut feeds = stock.into_feeds()?.into_iter();
    // Consumers first, so that rings fill up as late as possible.
    for (number, (endpoint, handles)) in flow.consumers.iter().zip(consumers).enumerate() {
        let name = endpoint.rings.first().map_or_else(String::new, |ring| ring_name(*ring));
        let output = match output {
            Some(plan) => plan.open(index, number)?,
            None => None,
        };
        jobs.push(Job::Consumer {
            flow: index,
            number,
            prepared,
            producers: flow.producers.iter().map(|p| p.name.clone()).collect(),
            name,
            rings: endpoint.rings.iter().copied().zip(handles).collect(),
            output,
            pace: consumer_paces.get(number).copied().flatten(),
        });
    }
    for (number, (endpoint, handles)) in flow.producers.iter().zip(producers).enumerate() {
        let lanes = endpoint
            .rings
            .iter()
            .zip(handles)
            .map(|(ring, handle)| (*ring, Lane::new(ring_name(*ring), handle)))
            .collect();
        let (parts, pace) = (flow.producers.len(), producer_paces.get(number).copied().flatten());
        let feed = feeds.next();
        jobs.push(Job::Producer { flow: index, number, parts, prepared, feed, lanes, pace });
    }
    Ok(jobs)
}

impl Job<'_> {
    fn flow(&self) -> usize {
        match self {
            Job::Producer { flow, .. } | Job::Consumer { flow, .. } => *flow,
        }
    }

    /// Thread names are cut to 15 bytes by the system.
    fn name(&self) -> String {
        match self {
            Job::Producer { flow, number, .. } => format!("produce-{flow}.{number}"),
            Job::Consumer { flow, number, .. } => format!("consume-{flow}.{number}"),
        }
    }

    fn run(self, control: &Control, meter: &Meter) -> Done {
        match self {
            Job::Producer { flow, number, parts, prepared, mut feed, lanes, pace } => {
                let pace = pace.map(|rate| Pace::new(rate, &control.cancel));
                let (rings, lanes): (Vec<usize>, Vec<Lane>) = lanes.into_iter().unzip();
                let (done, result) = push(lanes, |lanes| match &mut feed {
                    Some(feed) => produce::segments(prepared, feed, lanes, pace, control, meter),
                    None => {
                        let count = prepared.items_of(number, parts);
                        produce::items(prepared, number as u32, count, lanes, pace, control, meter)
                    }
                });
                let lanes = rings
                    .into_iter()
                    .zip(done)
                    .map(|(ring, (tally, stats))| RingOutcome { ring, tally, stats })
                    .collect();
                Done::Producer {
                    flow,
                    number,
                    lanes,
                    complete: matches!(result, Ok(true)),
                    error: result.err(),
                }
            }
            Job::Consumer { flow, number, prepared, producers, name, rings, output, pace } => {
                let mut intake = Intake::new(&name, number, &producers, prepared, meter, output);
                intake.pace = pace.map(|rate| Pace::new(rate, &control.cancel));
                let (rings, handles): (Vec<usize>, Vec<Consumer>) = rings.into_iter().unzip();
                let (stats, result) = intake.drain(handles);
                let Intake { peers, order, verdict, .. } = intake;
                let of_lane = |(lane, (ring, stats)): (usize, (usize, RingStats))| {
                    let mut tally = Tally::default();
                    peers.iter().filter(|peer| peer.lane == lane).for_each(|peer| tally.add(&peer.tally));
                    RingOutcome { ring, tally, stats }
                };
                let rings = rings.into_iter().zip(stats).enumerate().map(of_lane).collect();
                Done::Consumer(Box::new(ConsumerDone {
                    flow,
                    number,
                    rings,
                    peers,
                    order,
                    verdict,
                    error: result.err(),
                }))
            }
        }
    }
}

/// Pushes what a producer has. Rings are closed only if all went well: one dropped unclosed tells its consumer that the stream
/// broke off.
fn push(
    mut lanes: Vec<Lane>,
    work: impl FnOnce(&mut [Lane]) -> Result<bool, WorkloadError>,
) -> (Vec<(Tally, RingStats)>, Result<bool, WorkloadError>) {
    let result = work(&mut lanes);
    let mut done = Vec::with_capacity(lanes.len());
    for mut lane in lanes {
        done.push((lane.tally, lane.ring.stats()));
        if result.is_ok() {
            lane.ring.close();
        }
    }
    (done, result)
}
