//! Frames that nobody should send, at every port, while a flow runs: it delivers all the same.

use std::cell::RefCell;
use std::rc::Rc;

use zsr_simnet::Rng;
use zsr_tests::nodes::NicNode;
use zsr_tests::system::{Spec, System, TWO_BY_TWO};
use zsr_tests::wire::mended;
use zsr_wire::roce::{BTH_AT, IP_AT, UDP_AT};
use zsr_wire::{Frame, FramePool, Opcode, icrc};

const SPEC: Spec = Spec { items: 60, ..TWO_BY_TWO };
const PORTS: u64 = 4;

// Indices of the counter `drops` (p4/common/types.p4).
const UNKNOWN_QP: usize = 1;
const BAD_ICRC: usize = 2;
const STALE: usize = 3;
const FORGED: usize = 4;
const MALFORMED: usize = 6;
const SOURCE: usize = 8;

/// Receiving node, its port, bytes.
type Delivered = (usize, u16, Vec<u8>);
type Seen = Rc<RefCell<Vec<Delivered>>>;

/// Runs a flow; before each step of time, `attack` gets the system, randomness and what was delivered in the step
/// before.
fn under_attack(seed: u64, attack: impl FnMut(&mut System, &mut Rng, &[Delivered])) -> System {
    under_attack_of(Spec { seed, ..SPEC }, attack)
}

fn under_attack_of(spec: Spec, mut attack: impl FnMut(&mut System, &mut Rng, &[Delivered])) -> System {
    let mut system = System::new(spec);
    let seen: Seen = Rc::default();
    let sink = seen.clone();
    system.net.observe(move |_, end, bytes| sink.borrow_mut().push((end.node.0, end.port, bytes.to_vec())));
    let mut rng = Rng::new(spec.seed);
    system.run(|system| {
        let frames = std::mem::take(&mut *seen.borrow_mut());
        attack(system, &mut rng, &frames);
    });
    system
}

/// At a port of the switch.
fn inject(system: &mut System, port: u16, bytes: &[u8]) {
    let now = system.net.now();
    system.switch().inject(now, port, bytes);
}

/// At a NIC.
fn inject_at_nic(system: &mut System, nic: usize, bytes: &[u8]) {
    let (now, id) = (system.net.now(), system.nics[nic]);
    let frame = Frame::copy_from(bytes).expect("a frame that fits");
    let nic: &mut NicNode = system.net.node_mut(id).expect("a NIC");
    nic.0.handle(now, frame, &mut FramePool::default());
}

/// Frames that came in at the switch, as (port, bytes).
fn arrivals<'a>(system: &System, frames: &'a [Delivered]) -> Vec<(u16, &'a [u8])> {
    let switch = system.switch.0;
    frames.iter().filter(|f| f.0 == switch).map(|f| (f.1, &f.2[..])).collect()
}

/// Makes the trailer right for what is in front of it.
fn seal(frame: &mut [u8]) {
    assert!(icrc::write(&mut frame[IP_AT..]));
}

#[test]
fn noise() {
    let mut system = under_attack(31, |system, rng, _| {
        for port in 1..=PORTS {
            let mut bytes: Vec<u8> = (0..rng.below(400)).map(|_| rng.bits() as u8).collect();
            // Half of it looks like RoCE for somebody.
            if rng.chance(0.5) && bytes.len() > BTH_AT {
                bytes[12..14].copy_from_slice(&[0x08, 0x00]);
                bytes[IP_AT..IP_AT + 10].copy_from_slice(&[0x45, 0, 0, 100, 0, 0, 0x40, 0, 64, 17]);
                bytes[UDP_AT + 2..UDP_AT + 4].copy_from_slice(&4791u16.to_be_bytes());
            }
            inject(system, port as u16, &bytes);
            inject_at_nic(system, port as usize - 1, &bytes);
        }
    });
    let drops = [SOURCE, MALFORMED].map(|reason| system.drops(reason));
    assert!(drops[0] > 50 && drops[1] > 0, "{drops:?}");
}

#[test]
fn flipped_bits() {
    let mut system = under_attack(32, |system, rng, frames| {
        for (node, port, frame) in frames {
            let mut frame = frame.clone();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(frame.len() as u64) as usize;
                frame[at] ^= 1 << rng.below(8);
            }
            if *node == system.switch.0 {
                inject(system, *port, &frame);
            } else {
                let nic = system.nics.iter().position(|n| n.0 == *node).expect("a NIC");
                inject_at_nic(system, nic, &frame);
            }
        }
    });
    assert!(system.drops(BAD_ICRC) > 10 && system.drops(UNKNOWN_QP) > 0);
}

#[test]
fn every_length() {
    let mut cut = 0;
    let mut system = under_attack(33, |system, _, frames| {
        for (node, port, frame) in frames {
            cut = (cut + 1) % frame.len();
            if *node == system.switch.0 {
                inject(system, *port, &frame[..cut]);
            } else {
                let nic = system.nics.iter().position(|n| n.0 == *node).expect("a NIC");
                inject_at_nic(system, nic, &frame[..cut]);
            }
        }
    });
    assert!(system.drops(MALFORMED) > 10);
}

#[test]
fn strangers_with_a_right_icrc() {
    let mut sent = 0;
    let mut system = under_attack(34, |system, rng, frames| {
        for (port, frame) in arrivals(system, frames) {
            // From another host's port.
            let other = 1 + (u64::from(port) + rng.below(PORTS - 1)) % PORTS;
            inject(system, other as u16, frame);
            // From another address.
            let mut bytes = frame.to_vec();
            bytes[IP_AT + 15] ^= 0x40;
            seal(&mut bytes);
            inject(system, port, &bytes);
            // For a queue pair that does not exist.
            let mut bytes = frame.to_vec();
            bytes[BTH_AT + 6] ^= 0x10;
            seal(&mut bytes);
            inject(system, port, &bytes);
            sent += 3;
        }
    });
    assert!(sent > 300 && system.drops(UNKNOWN_QP) >= sent / 3 && system.drops(SOURCE) >= sent / 3 * 2);
}

#[test]
fn opcodes_that_nobody_asked_for() {
    let mut sent = 0;
    let mut system = under_attack(35, |system, rng, frames| {
        for (port, frame) in arrivals(system, frames) {
            // Requests have no meaning at the switch: SENDs, WRITEs, READs, atomics.
            let mut bytes = frame.to_vec();
            bytes[BTH_AT] = rng.below(13) as u8;
            seal(&mut bytes);
            inject(system, port, &bytes);
            sent += 1;
        }
    });
    assert!(sent > 100 && system.drops(UNKNOWN_QP) >= sent);
}

#[test]
fn old_packets() {
    let mut old: Vec<(u16, Vec<u8>)> = Vec::new();
    let mut system = under_attack(36, |system, rng, frames| {
        let new = arrivals(system, frames);
        old.extend(new.iter().map(|(port, frame)| (*port, frame.to_vec())));
        for _ in 0..50.min(old.len()) {
            let (port, frame) = old[rng.below(old.len() as u64) as usize].clone();
            inject(system, port, &frame);
        }
    });
    assert!(system.drops(STALE) > 100);
}

/// An old request of the switch comes again to the NIC, which answers with the PSN of the newest request that it has
/// executed.
#[test]
fn old_requests() {
    for (seed, batch) in [(38, 4096), (39, 256)] {
        let mut old: Vec<(usize, Vec<u8>)> = Vec::new();
        let spec = Spec { max_batch: batch, producers: 1, consumers: 1, items: 300, seed, ..SPEC };
        under_attack_of(spec, |system, rng, frames| {
            for (node, _, frame) in frames {
                old.extend(system.nics.iter().position(|n| n.0 == *node).map(|nic| (nic, frame.clone())));
            }
            let some = old.len().min(20);
            for _ in 0..some.min(4) {
                let at = old.len() - 1 - rng.below(some as u64) as usize;
                let (nic, frame) = old[at].clone();
                inject_at_nic(system, nic, &frame);
            }
        });
    }
}

#[test]
fn forged_internal_packets() {
    let mut sent = 0;
    let mut system = under_attack(37, |system, rng, _| {
        for port in 1..=PORTS {
            let mut bytes: Vec<u8> = (0..64).map(|_| rng.bits() as u8).collect();
            bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
            // All events, workers and producers that there are, and some that there are not.
            bytes[14] = rng.below(30) as u8;
            bytes[16..20].copy_from_slice(&[0, rng.below(4) as u8, 0, rng.below(6) as u8]);
            inject(system, port as u16, &bytes);
            sent += 1;
        }
    });
    assert!(sent > 100 && system.drops(FORGED) == sent);
}

/// Not an enemy, but a full queue: what consumers' NICs answer to marks reaches the NICs of their producers.
#[test]
fn marks_of_congestion_slow_producers_down() {
    // A consumer's NIC says so once in 50 us, of whichever producer's transfer is under way then.
    let spec = Spec { seed: 44, items: 1000, ..SPEC };
    let mut system = under_attack_of(spec, |system, _, frames| {
        for (node, _, frame) in frames {
            let Some(nic) = system.nics.iter().position(|n| n.0 == *node) else { continue };
            let opcode = frame.get(BTH_AT).copied().unwrap_or_default();
            // A fragment that comes a second time, marked on its way.
            if (Opcode::WriteFirst.code()..=Opcode::WriteOnly.code()).contains(&opcode) {
                let mut frame = frame.clone();
                frame[IP_AT + 1] |= 3;
                inject_at_nic(system, nic, &mended(&frame).expect("an IPv4 header"));
            }
        }
    });
    let mut counts = |nic: usize| {
        let id = system.nics[nic];
        let nic: &mut NicNode = system.net.node_mut(id).expect("a NIC");
        let stats = nic.0.stats();
        (stats.cnps_sent, stats.cnps_received)
    };
    // Two producers, two consumers.
    for producer in [0, 1] {
        assert!(counts(producer).1 > 0, "NIC {producer} was not told");
    }
    for consumer in [2, 3] {
        assert!(counts(consumer).0 > 0, "NIC {consumer} has seen no mark");
    }
}
