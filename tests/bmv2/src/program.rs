//! Our own program in both switches: the plan's controls as the controller writes them, then transfers between real rings,
//! packet by packet. What one switch sends, the other has to send too; so either could have moved the data.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use p4runtime_proto::p4::v1::update::Type;
use zsr_plan::dataplane::{PORT_TIMER, admin};
use zsr_plan::draft::Draft;
use zsr_plan::p4::Artifacts;
use zsr_simnet::Rng;
use zsr_topology::Topology;
use zsr_wire::FramePool;

use crate::compare::{Difference, Pair};
use crate::hosts::Hosts;
use crate::peer::{Ours, Theirs};
use crate::script::{Step, update};

/// Updates in one Write.
const BATCH: usize = 256;
/// Packets by which a scenario has to be over.
const MOST_PACKETS: usize = 20_000;
/// How the names of registers end that hold times, each switch's own.
const TIMES: [&str; 2] = ["due", "refill"];

/// A flow to run.
struct Scenario {
    name: &'static str,
    /// The flow's kind, producers, consumers.
    flow: (&'static str, usize, usize),
    /// How the flow's times lie to those between packets.
    pace: Pace,
    /// Share of packets between switch and hosts that are lost.
    loss: f64,
    items: u32,
}

/// Times are each switch's own, so a scenario must not depend on them: whatever a worker waits for is over by the next packet, or
/// never is; and within a packet with all its passes, which take bmv2 some microseconds, none begins and ends. All in
/// milliseconds.
struct Pace {
    /// Between two polls.
    poll_interval: u64,
    /// Until a poll or request counts as lost.
    timeout: u64,
    /// From packet to packet.
    step: u64,
}

/// No timeout happens: a minute is more than any scenario takes. Polls are due with each packet.
const PATIENT: Pace = Pace { poll_interval: 8, timeout: 60_000, step: 20 };
/// Every tick finds a timeout, also after three without progress, each of which doubles the time.
const HASTY: Pace = Pace { poll_interval: 8, timeout: 8, step: 80 };
/// On a busy machine bmv2 may be late. What differs is tried again, so much slower: what then is the same was a matter of time.
const SLOWER: u64 = 4;

const SCENARIOS: [Scenario; 6] = [
    Scenario { name: "one to one", flow: ("shuffle", 1, 1), pace: PATIENT, loss: 0.0, items: 120 },
    Scenario { name: "shuffle", flow: ("shuffle", 3, 2), pace: PATIENT, loss: 0.0, items: 60 },
    Scenario { name: "load balance", flow: ("load-balance", 2, 3), pace: PATIENT, loss: 0.0, items: 80 },
    Scenario { name: "replicate", flow: ("replicate", 2, 3), pace: PATIENT, loss: 0.0, items: 60 },
    Scenario { name: "shuffle with losses", flow: ("shuffle", 2, 2), pace: HASTY, loss: 0.03, items: 20 },
    Scenario { name: "replicate with losses", flow: ("replicate", 1, 2), pace: HASTY, loss: 0.03, items: 30 },
];

/// Runs every scenario; returns whether nothing differs.
pub async fn run(binary: &Path, seed: u64, log: Option<&Path>) -> Result<bool, String> {
    let artifacts = Artifacts::built_in().map_err(|e| e.to_string())?;
    let mut same = true;
    for scenario in &SCENARIOS {
        let failed = |e| format!("{}: {e}", scenario.name);
        let mut outcome = play(scenario, 1, binary, &artifacts, seed, log).await.map_err(failed)?;
        if !outcome.differences.is_empty() {
            outcome = play(scenario, SLOWER, binary, &artifacts, seed, log).await.map_err(failed)?;
        }
        for d in &outcome.differences {
            println!("{}: {} differ: {}", scenario.name, d.kind, d.text);
        }
        let verdict = if outcome.differences.is_empty() { "same" } else { "DIFFER" };
        println!("{}: {verdict}; {}", scenario.name, outcome.figures);
        same &= outcome.differences.is_empty();
    }
    Ok(same)
}

/// What a scenario showed.
struct Outcome {
    differences: Vec<Difference>,
    figures: String,
}

fn topology(scenario: &Scenario, slower: u64) -> Result<Topology, String> {
    let (kind, producers, consumers) = scenario.flow;
    // A minute is the most that a topology may ask for.
    let timeout = (scenario.pace.timeout * slower).min(60_000);
    let names = |kind, n| (0..n).map(|i| format!("{kind}{i}")).collect::<Vec<_>>().join(", ");
    let (p, c) = (names("p", producers), names("c", consumers));
    let text = format!(
        "defaults: {{mtu: 1024, first_psn: 0xfffff8}}\nhosts: [{p}, {c}]\nflows:\n  - {{name: f, kind: {kind}, producers: [{p}], consumers: [{c}], \
         item_size: 512, ring_size: 16KiB, max_batch: 4KiB, poll_interval: {}ms, poll_timeout: {timeout}ms, \
         rto: {timeout}ms, doorbell: false}}\nworkload: {{kind: synthetic, items: 1}}\n",
        scenario.pace.poll_interval * slower
    );
    let topology = Topology::parse(Path::new("scenario.yaml"), text.as_bytes());
    let mut topology = topology.map_err(|e| e.to_string())?;
    topology.switches[0].tick = Duration::from_micros(topology.flows[0].settings.poll_interval_us);
    Ok(topology)
}

/// The controller's writes, in its order.
fn controls(draft: &Draft) -> Result<Vec<Step>, String> {
    let mut all = draft.base().map_err(|e| e.to_string())?;
    all.extend(draft.flows().map_err(|e| e.to_string())?);
    all.extend(draft.ticks());
    let updates = Vec::from_iter(all.into_iter().filter_map(|e| Some(update(Type::Insert, e.entity?))));
    Ok(updates.chunks(BATCH).map(|c| Step::Write(c.to_vec())).collect())
}

async fn play(
    scenario: &Scenario,
    slower: u64,
    binary: &Path,
    artifacts: &Artifacts,
    seed: u64,
    log: Option<&Path>,
) -> Result<Outcome, String> {
    let topology = topology(scenario, slower)?;
    let mut hosts = Hosts::new(&topology, artifacts, scenario.items, seed)?;
    let (mut ours, mut theirs) = (Ours::start(None).await?, Theirs::start(binary, None, log).await?);
    let step = Duration::from_millis(scenario.pace.step * slower);
    (ours.step, theirs.step) = (step, step);
    let pair = Pair::load(ours, theirs, artifacts.p4info.clone(), &artifacts.json).await;
    let mut pair = pair.map_err(|d| d.text)?;
    let mut differences = Vec::new();
    for step in controls(&hosts.draft)? {
        pair.step(&step).await.map_err(|d| d.text)?;
    }
    for reset in hosts.draft.resets().collect::<Vec<_>>() {
        let step = Step::Packet { port: PORT_TIMER, bytes: reset };
        pair.step(&step).await.map_err(|d| d.text)?;
    }
    let mut rng = Rng::new(!seed);
    let mut pool = FramePool::with_frames(64);
    let mut waiting: VecDeque<(u16, Vec<u8>)> = VecDeque::new();
    let mut seen: Vec<(u16, Vec<u8>)> = Vec::new();
    let (mut steps, mut ticks) = (0u64, 0u16);
    while differences.is_empty() && !(hosts.are_done() && waiting.is_empty()) {
        steps += 1;
        if pair.tally.packets > MOST_PACKETS {
            let (got, all) = (hosts.popped(), hosts.expected(&topology));
            return Err(format!("{got} of {all} items arrived in {MOST_PACKETS} packets"));
        }
        hosts.work()?;
        let (port, bytes) = waiting.pop_front().unwrap_or_else(|| {
            ticks = ticks.wrapping_add(1);
            (PORT_TIMER, admin::timer_packet(ticks))
        });
        if port != PORT_TIMER {
            seen.push((port, bytes.clone()));
            if rng.chance(scenario.loss) {
                continue;
            }
        }
        match pair.step(&Step::Packet { port, bytes }).await {
            Ok(out) => {
                for (port, bytes) in out {
                    if !rng.chance(scenario.loss) {
                        hosts.deliver(steps * 1000, port, &bytes, &mut pool);
                    }
                }
            }
            Err(d) => {
                differences.push(d);
                // What the switches remember may say why.
                differences.extend(pair.state(|register| TIMES.iter().any(|t| register.ends_with(t))).await);
            }
        }
        waiting.extend(hosts.transmit(steps * 1000, &mut pool));
    }
    let (got, all) = (hosts.popped(), hosts.expected(&topology));
    if differences.is_empty() && got != all {
        return Err(format!("{got} of {all} items arrived"));
    }
    // What comes of packets that nobody should send: earlier ones again, damaged, and at other ports.
    for _ in 0..200 {
        let Some((port, mut bytes)) = seen.get(rng.below(seen.len() as u64) as usize).cloned() else { break };
        let port = if rng.chance(0.2) { rng.below(8) as u16 } else { port };
        for _ in 0..rng.below(4) {
            let at = rng.below(60.min(bytes.len() as u64)) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        if rng.chance(0.1) {
            bytes.truncate(1 + rng.below(bytes.len() as u64) as usize);
        }
        if !differences.is_empty() {
            break;
        }
        differences.extend(pair.step(&Step::Packet { port, bytes }).await.err());
    }
    if differences.is_empty() {
        differences = pair.state(|register| TIMES.iter().any(|t| register.ends_with(t))).await;
    }
    let t = pair.tally;
    let mut figures = format!(
        "{got} of {all} items, {} packets in, {} out; {} table entries, {} counters, {} register cells read back",
        t.packets, t.out, t.entries, t.counters, t.registers
    );
    if !pair.reads_registers() {
        figures += " (this bmv2 was built without thrift, which alone shows registers)";
    }
    Ok(Outcome { differences, figures })
}
