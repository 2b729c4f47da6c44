//! Pipes as the data plane knows them: ports that lead back into them, and groups by which the controller's packets get
//! there.

use super::{FIRST_RESERVED_PORT, PORT_RECIRCULATE, forward};
use p4runtime_proto::p4::v1 as rt;
use zsr_topology::{Pipes, Switch};

/// Multicast group of all pipes; in front of it, one for each of them.
pub(super) const GROUP_ALL: u32 = GROUP_FIRST + MAX_PIPES;
const GROUP_FIRST: u32 = 0x10;
/// Most pipes of a switch.
pub const MAX_PIPES: u32 = 4;

/// The port that leads back into `pipe`, as v1model numbers them.
pub fn port_again(pipe: u32) -> u32 {
    PORT_RECIRCULATE + pipe
}

/// The port that leads back into `pipe`, as `switch` numbers its ports.
pub(super) fn port_again_of(switch: &Switch, pipe: u32) -> u32 {
    match switch.kind.tofino() {
        Some(tofino) => Pipes::port_in(pipe, tofino.chip.port_again()),
        None => port_again(pipe),
    }
}

/// The port by which a producer at `port` gets its packets. A pipe may make packets for consumers only
/// (p4/arch/tna/folded.p4). Then packets to a producer there go round by the pipe before, as frames of the switch's
/// own.
pub(super) fn to_producers(switch: &Switch, port: u32) -> u32 {
    match switch.pipes.is_behind(port) {
        true => port_again_of(switch, switch.pipes.of_port(port)),
        false => port,
    }
}

/// The multicast group of `pipe` alone.
pub(super) fn group_of(pipe: u32) -> u32 {
    GROUP_FIRST + pipe
}

/// Whether a group is one of [`groups`].
pub(super) fn is_group(id: u32) -> bool {
    (GROUP_FIRST..=GROUP_ALL).contains(&id)
}

/// The multicast groups of the pipes.
pub(super) fn groups(pipes: Pipes) -> Vec<rt::PacketReplicationEngineEntry> {
    if !pipes.are_several() {
        return Vec::new();
    }
    let one = |pipe| forward::group(group_of(pipe), [(port_again(pipe), 1)].into_iter());
    let all = forward::group(GROUP_ALL, pipes.homes().map(|pipe| (port_again(pipe), 1)));
    pipes.homes().map(one).chain([all]).collect()
}

/// The pipe of each of a software switch's ports, for its configuration. Timers and the controller are at the first
/// one.
pub fn of_ports(pipes: Pipes) -> Vec<u8> {
    if !pipes.are_several() {
        return Vec::new();
    }
    let again = |port| pipes.homes().find(|pipe| port_again(*pipe) == port).unwrap_or(0);
    let of = |port| if port < FIRST_RESERVED_PORT { pipes.of_port(port) } else { again(port) };
    (0..port_again(MAX_PIPES)).map(|port| of(port) as u8).collect()
}
