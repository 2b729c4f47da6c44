//! The pipe that has a flow's registers, and the traffic from pipe to pipe that follows. Packets that come in at
//! another pipe get there through the port that leads back into the flow's pipe (p4/pipeline/forward.p4), whose rate is
//! limited. On a Tofino 1, packets that come in at a pipe without flows first take that port of the pipe before it
//! (p4/arch/tna/folded.p4).

use crate::dataplane::model::Flow;
use crate::error::{ControllerError, ErrorKind};
use crate::requests::{NewFlow, NewMember};
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};
use zsr_topology::Switch;

const GIGA: u64 = 1_000_000_000;
/// Gigabits per second of a port without a given speed.
const USUAL_SPEED: u32 = 100;

/// Rates at which packets get from one pipe to another, bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loops {
    /// Rate of a port that leads back into a pipe.
    capacity: u64,
    /// Rate of a host's port.
    port: u64,
}

impl Loops {
    /// The rates of `switch`; `None` if nothing limits them.
    pub fn of(switch: &Switch) -> Option<Loops> {
        let tofino = switch.kind.tofino().filter(|_| switch.pipes.cross())?;
        let speed = tofino.ports.as_ref().map_or(USUAL_SPEED, |setup| setup.speed);
        Some(Loops { capacity: u64::from(tofino.chip.recirculation()) * GIGA, port: u64::from(speed) * GIGA })
    }
}

impl State {
    /// The pipe for a flow: where least traffic crosses pipes, and of these the one with fewest workers. Items cross
    /// where their producer is at another pipe; acknowledgements, which are few bytes, where a consumer is.
    pub fn home_for(&self, new: &NewFlow) -> u32 {
        if !self.pipes.are_several() {
            return 0;
        }
        let mut workers: BTreeMap<u32, usize> = BTreeMap::new();
        for worker in self.workers() {
            *workers.entry(self.pipes.of_worker(worker)).or_default() += 1;
        }
        let cost = |home: &u32| {
            let across = |side: &[NewMember]| {
                side.iter().filter(|m| self.pipe_of(&m.host).is_some_and(|pipe| pipe != *home)).count()
            };
            (across(&new.producers), across(&new.consumers), workers.get(home).copied().unwrap_or(0))
        };
        self.pipes.homes().min_by_key(cost).unwrap_or(0)
    }

    /// The pipe that has a flow's registers.
    pub fn home_of(&self, flow: &Flow) -> u32 {
        flow.workers().first().map_or(0, |worker| self.pipes.of_worker(*worker))
    }

    /// The pipe at which a host is.
    fn pipe_of(&self, host: &str) -> Option<u32> {
        self.hosts.get(host).map(|h| self.pipes.of_port(h.station.port))
    }

    /// Whether packets from a host to flows of pipe `home` come in at `pipe` from another pipe.
    fn crosses_into(&self, pipe: u32, host: &str, home: u32) -> bool {
        let Some(port) = self.hosts.get(host).map(|h| h.station.port) else { return false };
        let first = self.pipes.of_port(port);
        (pipe == first && self.pipes.is_behind(port)) || (pipe == home && pipe != first)
    }

    /// Whether the ports between pipes can carry all traffic, with `flow` in place.
    ///
    /// # Errors
    /// When they can't.
    pub fn check_crossing(&self, flow: &Flow) -> Result<(), ControllerError> {
        let Some(loops) = self.loops else { return Ok(()) };
        self.pipes.homes().try_for_each(|pipe| self.check_crossing_into(pipe, flow, loops))
    }

    fn check_crossing_into(&self, pipe: u32, flow: &Flow, loops: Loops) -> Result<(), ControllerError> {
        let away = |flow: &Flow| -> BTreeSet<String> {
            let home = self.home_of(flow);
            let hosts = flow.producers.iter().map(|m| m.host.clone());
            hosts.filter(|host| self.crosses_into(pipe, host, home)).collect()
        };
        if away(flow).is_empty() {
            return Ok(());
        }
        let others = self.flows.values().filter(|f| f.name != flow.name && f.failed.is_none());
        let (mut hosts, mut demand) = (BTreeSet::new(), 0u64);
        for flow in others.chain([flow]) {
            let away = away(flow);
            let sends = (away.len() as u64).saturating_mul(loops.port);
            let takes = (flow.consumers.len() as u64).saturating_mul(loops.port);
            let cap = Some(flow.settings.rate_cap_bps).filter(|cap| *cap != 0).unwrap_or(u64::MAX);
            demand = demand.saturating_add(sends.min(takes).min(cap));
            hosts.extend(away);
        }
        // However many flows there are, a port brings no more than it can.
        let demand = demand.min((hosts.len() as u64).saturating_mul(loops.port));
        if demand <= loops.capacity {
            return Ok(());
        }
        let message = format!(
            "flow `{}`: up to {} Gbit/s would come from other pipes of switch `{}` into pipe {pipe}, and no more than {} Gbit/s get there: \
             cap the rate of flows (rate_cap), or have their producers at ports of one pipe{}",
            flow.name,
            demand.div_ceil(GIGA),
            self.switch,
            loops.capacity / GIGA,
            if hosts.iter().any(|host| self.is_behind(host)) { ", which is not 1 or 3" } else { "" }
        );
        Err(ControllerError::new(ErrorKind::Full, message))
    }

    fn is_behind(&self, host: &str) -> bool {
        self.hosts.get(host).is_some_and(|h| self.pipes.is_behind(h.station.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Draft;
    use crate::p4::{Artifacts, Schema};
    use std::path::Path;
    use zsr_topology::Topology;

    /// The pipe of each of `flows`, by its first connection; their hosts are at these ports of a switch.
    fn placed(switch: &str, ports: &[u32], flows: &[&str]) -> Result<Vec<u32>, ControllerError> {
        // Cables of a chip are its own.
        let nic = |h: usize| {
            if switch.contains("tofino") { format!(", nic: {{interface: eth{h}}}") } else { String::new() }
        };
        let hosts: Vec<String> = (0..ports.len()).map(|h| format!("{{name: h{h}{}}}", nic(h))).collect();
        let links: Vec<String> =
            ports.iter().enumerate().map(|(h, port)| format!("'h{h} -> s1:{port}'")).collect();
        let flows: Vec<String> = flows.iter().map(|flow| format!("{{{flow}}}")).collect();
        let text = format!(
            "switches: [{{name: s1, {switch}}}]\nhosts: [{}]\nlinks: [{}]\nflows: [{}]\n",
            hosts.join(", "),
            links.join(", "),
            flows.join(", ")
        );
        let topology =
            Topology::parse(Path::new("test.yaml"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let artifacts = Artifacts::built_in().expect("artifacts that fit");
        let draft = Draft::new(&topology, Schema::new(&artifacts.p4info))?;
        let pipe_of =
            |flow: usize| draft.rings().iter().find(|r| r.flow == flow).map_or(9, |r| r.ids.data.qpn >> 22);
        Ok((0..topology.flows.len()).map(pipe_of).collect())
    }

    #[test]
    fn a_flow_is_where_least_goes_across() {
        let flows = [
            // At its producers.
            "name: a, producers: [h2], consumers: [h0, h1]",
            "name: b, producers: [h0, h2, h3], consumers: [h0]",
            // Or at its consumers, if that is all the same.
            "name: c, producers: [h0, h2], consumers: [h2]",
            // Or where fewest workers are.
            "name: d, producers: [h0, h2, h4], consumers: [h0, h2, h4]",
        ];
        let pipes = placed("pipes: 4", &[1, 2, 129, 130, 257], &flows).expect("flows");
        assert_eq!(pipes, [1, 1, 1, 0]);
        assert_eq!(placed("kind: soft", &[1, 2, 129, 130, 257], &flows).expect("flows"), [0; 4]);
    }

    const FOLDED: &str =
        "kind: tofino, chip: tofino, address: '127.0.0.1:50052', pipes: 4, ports: {speed: 100G}";

    #[test]
    fn a_loop_takes_so_much() {
        let two = "name: f, producers: [h0, h1, h2], consumers: [h3, h4]";
        // Of three producers one is away.
        assert_eq!(placed(FOLDED, &[4, 8, 260, 12, 264], &[two]).expect("100 Gbit/s"), [0]);
        let all = "name: g, producers: [h0, h1, h2, h3, h4], consumers: [h0, h4]";
        let e = placed(FOLDED, &[4, 8, 260, 12, 264], &[all]).expect_err("200 Gbit/s").to_string();
        assert!(
            e.contains("flow `g`: up to 200 Gbit/s would come from other pipes of switch `s1` into pipe 0, and no more than"),
            "{e}"
        );
        assert!(e.contains("no more than 100 Gbit/s get there") && !e.contains("not 1 or 3"), "{e}");
        // So little that both fit, and one more that does not; nobody is away in the last one.
        let capped = |name, cap| {
            format!("name: {name}, producers: [h0, h1, h2, h3, h4], consumers: [h0, h4], rate_cap: {cap}")
        };
        let (g, h) = (capped("g", "60Gbit"), capped("h", "40Gbit"));
        assert_eq!(placed(FOLDED, &[4, 8, 260, 12, 264], &[&g, &h]).expect("100 Gbit/s"), [0, 0]);
        let (more, near) = (capped("i", "1Gbit"), "name: j, producers: [h2], consumers: [h0]");
        let e = placed(FOLDED, &[4, 8, 260, 12, 264], &[&g, &h, near, &more]).expect_err("101 Gbit/s");
        assert!(e.to_string().contains("flow `i`: up to 101 Gbit/s"), "{e}");
        // Packets from pipe 1 cross to pipe 0, and from there to pipe 2 if the flow is there. The places of consumers
        // do not matter.
        let behind = |ports| placed(FOLDED, ports, &["name: k, producers: [h0, h1], consumers: [h2, h3]"]);
        assert_eq!(behind(&[4, 136, 140, 144]).expect("100 Gbit/s"), [0]);
        assert_eq!(behind(&[260, 136, 388, 392]).expect("100 Gbit/s, twice"), [2]);
        let e = behind(&[132, 136, 4, 8]).expect_err("200 Gbit/s").to_string();
        assert!(
            e.contains("up to 200 Gbit/s") && e.contains("into pipe 0,") && e.contains("not 1 or 3"),
            "{e}"
        );
        let near = "name: n, producers: [h3], consumers: [h2], rate_cap: 60Gbit";
        let far = "name: f, producers: [h0, h1], consumers: [h2], rate_cap: 60Gbit";
        let e = placed(FOLDED, &[260, 136, 264, 132], &[near, far]).expect_err("120 Gbit/s").to_string();
        assert!(e.contains("flow `f`") && e.contains("into pipe 0,"), "{e}");
        let two_pipes = FOLDED.replace("pipes: 4", "pipes: 2");
        let e = placed(&two_pipes, &[132, 136, 4, 8], &["name: k, producers: [h0, h1], consumers: [h2, h3]"]);
        assert!(e.expect_err("200 Gbit/s").to_string().contains("into pipe 0,"));
        // A Tofino 2 has ports that lead back four times as fast.
        let faster = FOLDED.replace("chip: tofino,", "chip: tofino2,");
        assert_eq!(placed(&faster, &[8, 12, 136, 16, 140], &[all]).expect("200 Gbit/s"), [0]);
    }
}
