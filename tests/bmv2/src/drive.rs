//! Our controller drives bmv2: it pushes the program, writes the plan of a topology, sends packet-outs, and reads digests and
//! counters, over P4Runtime alone; data moves between rings through bmv2's ports, to the last item; all is taken down.

use std::path::Path;
use std::time::{Duration, Instant};

use zsr_bmv2::{Bmv2, Bridge, Dataplane, Options, Ticks};
use zsr_control_plane::p4::{Artifacts, ClientError, Schema, SwitchClient};
use zsr_control_plane::plan::report::{Reason, Report};
use zsr_control_plane::plan::{Plan, admin, ticks};
use zsr_control_plane::run::install;
use zsr_control_plane::topology::Topology;
use zsr_link::{MemoryPort, Port, SendError, thread_link};
use zsr_wire::FramePool;

use crate::hosts::Hosts;

/// Items that each producer has for each consumer.
const ITEMS: u32 = 12;
/// bmv2 moves some thousand packets a second, so times are longer than the software switch's.
const TICK: Duration = Duration::from_millis(2);
/// How long nothing may arrive.
const PATIENCE: Duration = Duration::from_secs(60);
/// Frames that wait on a link.
const DEPTH: usize = 1024;

/// Brings everything up, moves the data, takes everything down; returns a line of figures.
pub async fn run(binary: &Path, topology: &Path, log: Option<&Path>) -> Result<String, String> {
    let topology = Topology::load(topology).map_err(|e| e.to_string())?;
    let topology = paced(topology);
    let plan = Plan::new(&topology, 0, 1).map_err(|e| e.to_string())?;
    let artifacts = Artifacts::built_in().map_err(|e| e.to_string())?;
    let schema = Schema::new(&artifacts.p4info);
    let switch = plan.switch;
    let options = Options {
        device_id: switch.device_id,
        cpu_port: Some(switch.cpu_port as u16),
        log: log.map(Path::to_path_buf),
        ..Options::new(binary)
    };
    let bmv2 = Bmv2::start(options).await.map_err(|e| e.to_string())?;
    let mut hosts = Hosts::new(&topology, &plan, ITEMS, 1)?;

    let client = SwitchClient::connect(&switch.name, bmv2.p4runtime(), bmv2.device_id(), 1).await;
    let mut client = client.map_err(|e| e.to_string())?;
    let failed = |e: zsr_control_plane::run::RunError| e.to_string();
    install::base(&mut client, &artifacts, &schema, &plan).await.map_err(failed)?;
    let report = schema.digest("report_t").map_err(|e| e.to_string())?;
    client.enable_digest(report).await.map_err(|e| e.to_string())?;
    let entries = install::flows(&mut client, &schema, &plan, &hosts.addresses).await.map_err(failed)?;

    let (host_ends, switch_ends) = cables(&hosts);
    let dataplane =
        Dataplane::connect(bmv2.dataplane(), bmv2.device_id()).await.map_err(|e| e.to_string())?;
    let timer = ticks::timer(TICK);
    let ticks =
        Ticks { port: timer.port, interval: TICK, packet: timer.template, number_at: timer.index_offset };
    let trouble = |port: u16, e: &zsr_link::LinkError| eprintln!("port {port}: {e}");
    let bridge = Bridge::start(dataplane, switch_ends, Some(ticks), trouble).map_err(|e| e.to_string())?;
    install::workers(&mut client, &plan).await.map_err(failed)?;

    let expected = hosts.expected(&topology);
    let moved = tokio::task::block_in_place(|| move_data(&mut hosts, host_ends, &bridge, &bmv2));
    let seconds = moved.map_err(|e| format!("{} of {expected} items arrived: {e}", hosts.popped()))?;
    if hosts.popped() != expected {
        return Err(format!("{} of {expected} items arrived", hosts.popped()));
    }
    let sent = schema.counter("sent").map_err(|e| e.to_string())?;
    let counted = client.counters(sent).await.map_err(|e| e.to_string())?;
    let packets: u64 = counted.iter().map(|(_, packets, _)| packets).sum();
    if packets == 0 {
        return Err("bmv2 counted no packet".into());
    }

    // A packet-out asks about the first worker; the answer is a digest, maybe behind others.
    let mut digests = client.digests().ok_or("the stream is taken")?;
    client.packet_out(admin::query(1)).await.map_err(|e| e.to_string())?;
    let answer = async {
        let is_answer = |digest: &Vec<u64>| {
            matches!(Report::decode(digest), Some(Report { reason: Reason::State(_), worker: 1, .. }))
        };
        while !digests.next().await?.iter().any(is_answer) {}
        Ok::<_, ClientError>(())
    };
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    answer.map_err(|_| "no digest answers a packet-out")?.map_err(|e| e.to_string())?;

    client.delete_replication(plan.tick_groups()).await.map_err(|e| e.to_string())?;
    client.delete(entries).await.map_err(|e| e.to_string())?;
    let stats = bridge.stop();
    if stats.lost > 0 {
        return Err(format!("the bridge lost {} packets", stats.lost));
    }
    bmv2.stop();
    Ok(format!(
        "{expected} items in {seconds:.1} s: every one once and in order; {} packets in, {} out, {} ticks, {packets} counted",
        stats.to_switch, stats.to_links, stats.ticks
    ))
}

/// The topology with times for a switch that takes a millisecond where others take a microsecond.
fn paced(mut topology: Topology) -> Topology {
    topology.switches[0].tick = TICK;
    for flow in &mut topology.flows {
        flow.poll_interval = Duration::from_millis(4);
        flow.poll_timeout = Duration::from_secs(1);
        flow.rto = Duration::from_secs(1);
    }
    topology
}

type Cables = (Vec<MemoryPort>, Vec<(u16, Box<dyn Port + Send>)>);

fn cables(hosts: &Hosts) -> Cables {
    let cable = |(port, _): &(u16, zsr_soft_nic::Nic)| {
        let (host, switch) = thread_link(DEPTH);
        (host, (*port, Box::new(switch) as Box<dyn Port + Send>))
    };
    hosts.nics.iter().map(cable).unzip()
}

/// Runs the hosts until every consumer has seen the end; returns the seconds that this took.
fn move_data(
    hosts: &mut Hosts,
    mut links: Vec<MemoryPort>,
    bridge: &Bridge,
    bmv2: &Bmv2,
) -> Result<f64, String> {
    let start = Instant::now();
    let mut last = (start, 0);
    let mut pool = FramePool::with_frames(256);
    while !hosts.are_done() {
        let now = start.elapsed().as_nanos() as u64;
        hosts.work()?;
        let mut moved = false;
        for ((_, nic), link) in hosts.nics.iter_mut().zip(&mut links) {
            while let Some(frame) = link.recv(now, &mut pool) {
                nic.handle(now, frame, &mut pool);
                moved = true;
            }
            while let Some(frame) = nic.poll_transmit(now, &mut pool) {
                moved = true;
                if let Err(SendError::Full(frame) | SendError::Closed(frame)) =
                    link.send(now, frame, &mut pool)
                {
                    pool.put(frame);
                    return Err("a link to the bridge is full or closed".into());
                }
            }
        }
        if let Some(e) = bridge.error() {
            return Err(format!("{e}; {}", bmv2.ended().unwrap_or_default()));
        }
        if hosts.popped() > last.1 {
            last = (Instant::now(), hosts.popped());
        } else if last.0.elapsed() > PATIENCE {
            return Err(format!("nothing for {} s", PATIENCE.as_secs()));
        }
        if !moved {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    Ok(start.elapsed().as_secs_f64())
}
