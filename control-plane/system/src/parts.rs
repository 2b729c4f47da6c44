//! Parts of systems in one process (`run`) and of processes (`process`): a switch without a program, a NIC's
//! configuration, a link's latency, rate and faults, and zsr's own programs.

use crate::timers::timers;
use std::path::PathBuf;
use zsr_link::{AnyPort, FaultError, FaultRates, Faulty, Pace, Paced};
use zsr_p4runtime_server::empty_program;
use zsr_plan::dataplane::pipes;
use zsr_soft_nic::NicConfig;
use zsr_soft_switch::{Switch, SwitchConfig};
use zsr_topology::{Link, Switch as SwitchSpec, Topology};
use zsr_wire::Mac;

/// The path of another program of zsr: beside this program, or else the name, for PATH.
pub fn own_program(name: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(name));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

/// The reason why there is no switch.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The program that a switch runs until it is given another.
    #[error("the software switch's empty program does not load: {0}")]
    Program(String),
    /// The switch refuses a timer or a packet.
    #[error(transparent)]
    Refused(#[from] zsr_soft_switch::ControlError),
}

/// A switch with the timers of `spec`, whose program the controller brings.
///
/// # Errors
/// [`SwitchError`].
pub fn bare_switch(spec: &SwitchSpec) -> Result<Switch, SwitchError> {
    let mut switch = switch_without_timers(spec)?;
    for timer in timers(spec.tick) {
        switch.add_timer(timer)?;
    }
    Ok(switch)
}

/// A switch without timers, for callers that make ticks otherwise.
///
/// # Errors
/// [`SwitchError::Program`].
pub fn switch_without_timers(spec: &SwitchSpec) -> Result<Switch, SwitchError> {
    let program = empty_program().map_err(|e| SwitchError::Program(e.to_string()))?;
    let config = SwitchConfig {
        cpu_port: spec.cpu_port as u16,
        pipes: pipes::of_ports(spec.pipes),
        ..Default::default()
    };
    Ok(Switch::new(&program, config))
}

/// The configuration of the soft NIC of host `number` for repeatable runs: its keys follow from its addresses. All of
/// its packets have the priority of data. If the topology gives the rate of its link, the NIC slows down when it is
/// told of congestion.
pub fn nic_config(topology: &Topology, number: usize) -> NicConfig {
    let host = &topology.hosts[number];
    let line_rate = topology.link_of(number).and_then(|link| link.rate);
    let tci = topology.traffic.tci(host.vlan, false);
    let reorder_window = host.reorder_window;
    NicConfig { tci, line_rate, reorder_window, ..NicConfig::new(Mac(host.mac.0), host.ip) }
}

/// As [`nic_config`], for a NIC whose keys and numbers nobody should be able to guess.
pub fn secret_nic_config(topology: &Topology, number: usize) -> NicConfig {
    NicConfig { seed: None, ..nic_config(topology, number) }
}

/// `port` with the latency, the rate and the faults of `link`, if it has any.
///
/// # Errors
/// A probability that is out of range.
pub fn with_faults(port: AnyPort, link: &Link, topology: &Topology) -> Result<AnyPort, FaultError> {
    let latency_ns = u64::try_from(link.latency.as_nanos()).unwrap_or(u64::MAX);
    let pace = Pace { latency_ns, rate: link.rate };
    let port: AnyPort = if pace.is_none() { port } else { Box::new(Paced::new(port, pace)) };
    let f = &link.faults;
    if f.is_none() {
        return Ok(port);
    }
    let rates = FaultRates {
        loss: f.loss,
        duplicate: f.duplicate,
        reorder: f.reorder,
        corrupt: f.corrupt,
        ..Default::default()
    };
    let seed = f.seed.unwrap_or(topology.seed ^ u64::from(link.port) << 32);
    Ok(Box::new(Faulty::new(port, rates, rates, seed)?))
}
