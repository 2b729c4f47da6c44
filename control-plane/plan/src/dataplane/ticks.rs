//! How often each worker looks for something to do. Timer packets are numbered, and the number selects the workers.
//! Seven of eight numbers are for the workers of busy flows, the eighth for one of many groups in turn
//! (p4/pipeline/ingress.p4). So thousands of flows that poll rarely cost little, and never all at once.

use super::pipes::port_again;
use super::{admin, forward};
use crate::p4::names;
use p4runtime_proto::p4::v1 as rt;
use std::collections::BTreeMap;
use std::time::Duration;
use zsr_topology::{Pipes, Switch, SwitchKind};

/// A kind of timer packet, for a switch that makes none itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerPacket {
    /// Time between two packets.
    pub every: Duration,
    /// The packet.
    pub packet: Vec<u8>,
}

/// Multicast group of workers that every timer packet is for (P4: `TICKS_OFTEN`).
pub const GROUP_TICK: u32 = names::TICKS_OFTEN as u32;

/// Workers by how often they tick: first group, groups, and timer packets between two ticks.
const CLASSES: [(u32, u32, u32); 4] =
    [(GROUP_TICK, 1, 1), (0x100, 8, 256), (0x200, 128, 4096), (0x800, 2046, 65536)];

/// Multicast groups that the classes leave free, for a switch whose timers rest. The first has workers that have moved
/// nothing for a while and whose producers ring, the second has workers of new flows.
const GROUP_IDLE: u32 = 0xfff;
const GROUP_NEW: u32 = 0xffe;
/// Numbers of timer packets for these groups (P4: `TickGroup`).
pub const NUMBER_IDLE: u16 = 0xfff7;
/// As [`NUMBER_IDLE`], for the workers of new flows.
pub const NUMBER_NEW: u16 = 0xffd7;
/// How often workers that have moved nothing for a while tick, while other workers move items.
pub const IDLE_TICK: Duration = Duration::from_millis(5);
/// How often the workers of new flows tick, while other workers move items.
pub const NEW_TICK: Duration = Duration::from_micros(500);

/// The longest time between ticks that become rare because nothing moves.
pub const LONGEST_REST: Duration = Duration::from_millis(10);

/// The way in which workers tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    tick: Duration,
    /// A timer packet names its group itself (p4/arch/tna/ops.p4), and there are as many kinds of timer packets as
    /// classes.
    named: bool,
    /// The timers are those of the software switch, which rest while nothing moves.
    rests: bool,
}

impl Timer {
    /// How many kinds of timer packets there are.
    pub const CLASSES: usize = CLASSES.len();

    /// The timer of `switch`.
    pub fn of(switch: &Switch) -> Self {
        let rests = matches!(switch.kind, SwitchKind::Soft);
        Timer { tick: switch.tick, named: switch.kind.tofino().is_some(), rests }
    }

    /// The time between ticks of workers that tick most often.
    pub fn tick(&self) -> Duration {
        self.tick
    }

    /// Whether timer packets name their group.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// The multicast group that makes `worker` tick, for a flow that polls at `poll_interval`.
    pub fn group_of(&self, worker: u16, poll_interval: Duration) -> u32 {
        let ratio = poll_interval.as_nanos() / self.tick.as_nanos().max(1);
        let fits = |(_, _, every): &&(u32, u32, u32)| u128::from(*every) <= ratio.max(1);
        let (first, groups, _) = CLASSES.iter().rev().find(fits).unwrap_or(&CLASSES[0]);
        first + if self.named { 0 } else { u32::from(worker) % groups }
    }

    /// The same while its flow moves nothing; `None` if the worker does not tick more rarely then. A worker whose
    /// producers ring (`rings`) may tick more rarely than a worker that has to find items by itself.
    pub fn idle_group_of(&self, worker: u16, poll_interval: Duration, rings: bool) -> Option<u32> {
        if !self.rests || self.group_of(worker, poll_interval) != GROUP_TICK || self.tick >= IDLE_TICK {
            return None;
        }
        let polled = self.group_of(worker, LONGEST_REST);
        Some(if rings { GROUP_IDLE } else { polled }).filter(|group| *group != GROUP_TICK)
    }

    /// The same for a new flow whose producers ring. The worker ticks more often than where nothing moves, since
    /// packets of its first transfers may be lost. It ticks more rarely than the worker of a flow that is known to
    /// move.
    pub fn new_group_of(&self, worker: u16, poll_interval: Duration) -> Option<u32> {
        let group = self.idle_group_of(worker, poll_interval, true)?;
        Some(if self.tick < NEW_TICK { GROUP_NEW } else { group })
    }

    /// The timer packets of a switch whose timer packets name their group.
    pub fn packets(&self) -> Vec<TimerPacket> {
        let packet = |(group, _, every): &(u32, u32, u32)| TimerPacket {
            every: self.tick * *every,
            packet: admin::timer_packet(*group as u16),
        };
        CLASSES.iter().map(packet).collect()
    }
}

/// The multicast group `id` with these workers.
pub fn group(id: u32, workers: impl Iterator<Item = u16>, pipes: Pipes) -> rt::PacketReplicationEngineEntry {
    forward::group(id, workers.map(|w| (port_again(pipes.of_worker(w)), w.into())))
}

/// All groups of these workers, each given with its own.
pub fn groups(
    workers: impl Iterator<Item = (u16, u32)>,
    pipes: Pipes,
) -> Vec<rt::PacketReplicationEngineEntry> {
    let mut by_group: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
    for (worker, id) in workers {
        by_group.entry(id).or_default().push(worker);
    }
    by_group.into_iter().map(|(id, workers)| group(id, workers.into_iter(), pipes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_tick_at_least_as_often_as_they_poll() {
        let timer = Timer { tick: Duration::from_micros(20), named: false, rests: true };
        let group = |worker, poll| timer.group_of(worker, poll);
        assert_eq!(group(7, Duration::from_micros(1)), GROUP_TICK);
        assert_eq!(group(7, Duration::from_millis(5)), GROUP_TICK);
        assert_eq!(group(7, Duration::from_millis(6)), 0x107);
        assert_eq!(group(8, Duration::from_millis(6)), 0x100);
        assert_eq!(group(300, Duration::from_millis(100)), 0x200 + 300 % 128);
        assert_eq!(group(4000, Duration::from_secs(5)), 0x800 + 4000 % 2046);
    }

    #[test]
    fn idle_workers_tick_more_rarely_where_timers_rest() {
        let us = Duration::from_micros;
        let timer = |tick, rests| Timer { tick: us(tick), named: false, rests };
        let idle = |worker, poll, rings| timer(20, true).idle_group_of(worker, us(poll), rings);
        assert_eq!(idle(7, 100, true), Some(GROUP_IDLE));
        assert_eq!(idle(7, 100, false), Some(0x107));
        // Their workers tick rarely already.
        assert_eq!(idle(7, 6000, true), None);
        assert_eq!(timer(20, false).idle_group_of(7, us(100), true), None);
        // The next class would be too rare, or no rarer.
        assert_eq!(timer(1000, true).idle_group_of(7, us(1000), false), None);
        assert_eq!(timer(1000, true).idle_group_of(7, us(1000), true), Some(GROUP_IDLE));
        assert_eq!(timer(5000, true).idle_group_of(7, us(1000), true), None);
        // No class has these groups.
        let last = |(first, groups, _): &(u32, u32, u32)| first + groups - 1;
        assert!(CLASSES.iter().all(|class| last(class) < GROUP_NEW.min(GROUP_IDLE)));
    }

    #[test]
    fn new_workers_tick_more_rarely_than_busy_ones() {
        let us = Duration::from_micros;
        let new = |tick, rests| Timer { tick: us(tick), named: false, rests }.new_group_of(7, us(100));
        assert_eq!((new(20, true), new(20, false)), (Some(GROUP_NEW), None));
        assert_eq!(new(500, true), Some(GROUP_IDLE));
    }

    #[test]
    fn where_packets_name_their_group_a_class_is_one() {
        let timer = Timer { tick: Duration::from_micros(20), named: true, rests: false };
        assert_eq!(timer.idle_group_of(7, Duration::from_micros(20), true), None);
        assert_eq!(timer.group_of(4000, Duration::from_secs(5)), 0x800);
        let packets = timer.packets();
        let groups: Vec<_> = packets
            .iter()
            .map(|p| u16::from_be_bytes([p.packet[admin::NEXT], p.packet[admin::NEXT + 1]]))
            .collect();
        assert_eq!(groups, [1, 0x100, 0x200, 0x800]);
        assert_eq!(packets[1].every, Duration::from_micros(20 * 256));
    }

    #[test]
    fn each_group_has_its_workers() {
        let one = Pipes::default();
        let made = groups([(1, 1), (2, 0x105), (3, 1)].into_iter(), one);
        assert_eq!(made, vec![group(1, [1, 3].into_iter(), one), group(0x105, [2].into_iter(), one)]);
    }
}
