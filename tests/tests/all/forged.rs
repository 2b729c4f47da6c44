//! Forged packets at a port of the switch while a flow runs, one kind after another. Nothing leaves the switch for
//! them, no register changes, each is counted under its cause, and all items arrive, once and in order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use zsr_plan::p4::names;
use zsr_ring::doorbell;
use zsr_simnet::{LinkConfig, Rng};
use zsr_soft_switch::{RegisterId, Switch};
use zsr_tests::rig::Rig;
use zsr_tests::system::{Spec, System, TWO_BY_TWO, drops};
use zsr_tests::tickets::{self, Counter, Tickets};
use zsr_wire::roce::{BTH_AT, EXT_AT, IP_AT, UDP_AT};
use zsr_wire::{Frame, FramePool, Opcode, icrc};

const SPEC: Spec = Spec { items: 40, ..TWO_BY_TWO };
const PORTS: u16 = 4;
/// Of a switch with several.
const PIPES: u32 = 4;
/// Cells of registers that a flow of [`SPEC`] may touch.
const CELLS: usize = 32;
/// Where the source MAC address and the EtherType of a frame are, and the source IPv4 address.
const SRC_AT: usize = 6;
const TYPE_AT: usize = 12;
const SRC_IP_AT: usize = IP_AT + 12;

type Arrivals = Rc<RefCell<Vec<(u16, Vec<u8>)>>>;

fn registers(switch: &Switch) -> Vec<Vec<u8>> {
    let ids = (0..switch.info().registers.len() as u32).map(RegisterId);
    let of_pipes = ids.flat_map(|id| (0..PIPES as u8).map(move |pipe| (pipe, id)));
    let read = |(pipe, id)| (0..CELLS).map_while(move |i| switch.register_read_in(pipe, id, i).ok());
    of_pipes.flat_map(read).collect()
}

/// Something comes in at `port`, and nothing comes of it but that it is counted under `cause`.
#[track_caller]
fn comes_to_nothing(switch: &mut Switch, now: u64, port: u16, bytes: &[u8], cause: u8) {
    let (before, counted) = (registers(switch), drops(switch, cause.into()));
    let mut out = Vec::new();
    let frame = Frame::copy_from(bytes).expect("a frame that fits");
    switch.process(now, port, frame, &mut FramePool::default(), &mut out);
    assert!(out.is_empty(), "{} frames leave for {bytes:02x?} at port {port}", out.len());
    assert_eq!(
        drops(switch, cause.into()),
        counted + 1,
        "{bytes:02x?} at port {port} was not counted as {cause}"
    );
    assert!(registers(switch) == before, "{bytes:02x?} at port {port} has changed a register");
}

/// Runs a flow, and forges of each packet that comes to the switch what `forge` makes of it: ports and bytes.
fn forged(seed: u64, cause: u8, forge: impl FnMut(&mut Rng, u16, &[u8]) -> Vec<(u16, Vec<u8>)>) {
    forged_with(Spec { seed, ..SPEC }, cause, forge);
}

fn forged_with(spec: Spec, cause: u8, mut forge: impl FnMut(&mut Rng, u16, &[u8]) -> Vec<(u16, Vec<u8>)>) {
    let seed = spec.seed;
    let mut system = System::new(spec);
    let (arrivals, at) = (Arrivals::default(), system.switch.0);
    let sink = arrivals.clone();
    system.net.observe(move |_, end, bytes| {
        if end.node.0 == at {
            sink.borrow_mut().push((end.port, bytes.to_vec()));
        }
    });
    let (mut rng, mut sent) = (Rng::new(seed), 0);
    system.run(|system| {
        let now = system.net.now();
        for (port, frame) in std::mem::take(&mut *arrivals.borrow_mut()) {
            for (port, bytes) in forge(&mut rng, port, &frame) {
                comes_to_nothing(&mut system.switch().switch, now, port, &bytes, cause);
                sent += 1;
            }
        }
    });
    assert!(sent >= 50, "only {sent} were forged");
}

/// Makes the ICRC right for what is in front of it.
fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    assert!(icrc::write(&mut frame[IP_AT..]));
    frame
}

/// `frame` with `change` at `at`, and a right ICRC.
fn with(frame: &[u8], at: usize, change: &[u8]) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    bytes[at..at + change.len()].copy_from_slice(change);
    sealed(bytes)
}

fn opcode(frame: &[u8]) -> u8 {
    frame[BTH_AT]
}

#[test]
fn wrong_ingress_port() {
    forged(1, names::DROP_SOURCE, |_, port, frame| {
        (1..=PORTS).filter(|p| *p != port).map(|p| (p, frame.to_vec())).collect()
    });
}

/// Another host's connection, under a host's own addresses; also where the connection's registers are in another pipe.
#[test]
fn connections_of_others() {
    own_addresses(SPEC);
    own_addresses(Spec { pipes: PIPES, ..SPEC });
}

fn own_addresses(spec: Spec) {
    let mut hosts = BTreeMap::new();
    forged_with(Spec { seed: 15, ..spec }, names::DROP_UNKNOWN_QP, |_, port, frame| {
        let own = |at: usize, n: usize| frame[at..at + n].to_vec();
        hosts.insert(port, (own(SRC_AT, 6), own(SRC_IP_AT, 4)));
        let others = hosts.iter().filter(|(other, _)| **other != port);
        others
            .map(|(other, (mac, ip))| {
                let mut bytes = frame.to_vec();
                bytes[SRC_AT..SRC_AT + 6].copy_from_slice(mac);
                (*other, with(&bytes, SRC_IP_AT, ip))
            })
            .collect()
    });
}

#[test]
fn wrong_source_address() {
    other_address(SPEC);
    other_address(Spec { pipes: PIPES, ..SPEC });
}

fn other_address(spec: Spec) {
    forged_with(Spec { seed: 2, ..spec }, names::DROP_SOURCE, |rng, port, frame| {
        let at = SRC_IP_AT;
        let mut own = [0; 4];
        own.copy_from_slice(&frame[at..at + 4]);
        let any = u32::from_be_bytes(own) ^ (1 + rng.below(u64::from(u32::MAX) - 1) as u32);
        // The address of the switch itself, too.
        let switch = [frame[at + 4], frame[at + 5], frame[at + 6], frame[at + 7]];
        vec![(port, with(frame, at, &any.to_be_bytes())), (port, with(frame, at, &switch))]
    });
}

#[test]
fn wrong_source_mac() {
    forged(16, names::DROP_SOURCE, |rng, port, frame| {
        let mut any = frame.to_vec();
        any[SRC_AT + rng.below(6) as usize] ^= 1 << rng.below(8);
        // The address of the switch itself, too.
        let mut switch = frame.to_vec();
        switch.copy_within(..SRC_AT, SRC_AT);
        vec![(port, any), (port, switch)]
    });
}

#[test]
fn wrong_queue_pair() {
    // The first byte of a number says how often its place was used: none of this flow's has one above 1.
    forged(3, names::DROP_UNKNOWN_QP, |rng, port, frame| {
        let number = [2 + rng.below(254) as u8, rng.bits() as u8, rng.bits() as u8];
        vec![(port, with(frame, BTH_AT + 5, &number))]
    });
}

#[test]
fn psn_outside_of_the_window() {
    forged(4, names::DROP_STALE, |rng, port, frame| {
        let own = u32::from_be_bytes([0, frame[BTH_AT + 9], frame[BTH_AT + 10], frame[BTH_AT + 11]]);
        // Transfers of this flow are of at most nine packets.
        let far = own.wrapping_add(64 + rng.below(0xff_ffff - 128) as u32);
        vec![(port, with(frame, BTH_AT + 9, &far.to_be_bytes()[1..]))]
    });
}

#[test]
fn opcodes_that_nobody_asked_for() {
    let answers = [13, 14, 15, 16, 17];
    forged(5, names::DROP_UNKNOWN_QP, |_, port, frame| {
        let all = (0..=255u8).filter(|code| Opcode::from_code(*code).is_some() && !answers.contains(code));
        // A congestion notification of a consumer is believed, and slows its producer down (docs/security.md).
        all.filter(|code| *code != Opcode::Cnp.code())
            .map(|code| (port, with(frame, BTH_AT, &[code])))
            .collect()
    });
}

/// Hosts with producers come first.
const FIRST_CONSUMER: u16 = 3;

#[test]
fn consumers_that_answer_with_items() {
    forged(6, names::DROP_UNKNOWN_QP, |_, port, frame| {
        let is_ack = opcode(frame) == Opcode::Acknowledge.code() && port >= FIRST_CONSUMER;
        let answers: &[u8] = if is_ack { &[13, 14, 15] } else { &[] };
        answers.iter().map(|code| (port, with(frame, BTH_AT, &[*code]))).collect()
    });
}

#[test]
fn damaged_words_and_acks() {
    forged(7, names::DROP_BAD_ICRC, |rng, port, frame| {
        // Items are not believed by the switch, and their ICRC is the consumer's to check.
        let is_word = opcode(frame) == Opcode::ReadResponseOnly.code() && frame.len() == EXT_AT + 4 + 8 + 4;
        if !is_word && opcode(frame) != Opcode::Acknowledge.code() {
            return Vec::new();
        }
        let mut damaged = || {
            let mut bytes = frame.to_vec();
            let at = EXT_AT + rng.below((frame.len() - EXT_AT) as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
            (port, bytes)
        };
        (0..4).map(|_| damaged()).collect()
    });
}

#[test]
fn replays() {
    let mut old: Vec<(u16, Vec<u8>)> = Vec::new();
    forged(8, names::DROP_STALE, |rng, port, frame| {
        old.push((port, frame.to_vec()));
        // Such old packets have been answered, and their transfers are over.
        let Some(over) = old.len().checked_sub(100) else { return Vec::new() };
        (0..3).map(|_| old[rng.below(over as u64 + 1) as usize].clone()).collect()
    });
}

#[test]
fn internal_frames_from_outside() {
    forged(9, names::DROP_FORGED, |rng, port, frame| {
        let event = |event: u8, rng: &mut Rng| {
            let mut bytes: Vec<u8> = (0..64).map(|_| rng.bits() as u8).collect();
            bytes[..TYPE_AT].copy_from_slice(&frame[..TYPE_AT]);
            bytes[TYPE_AT..TYPE_AT + 2].copy_from_slice(&[0x88, 0xb5]);
            bytes[14] = event;
            // Workers and producers that there are.
            bytes[16..20].copy_from_slice(&[0, rng.below(4) as u8, 0, rng.below(6) as u8]);
            (port, bytes)
        };
        vec![event(names::EV_TICK + rng.below(32) as u8, rng), event(rng.bits() as u8, rng)]
    });
}

#[test]
fn internal_frames_behind_a_tag() {
    forged(10, names::DROP_NO_ROUTE, |rng, port, frame| {
        let mut bytes: Vec<u8> = (0..68).map(|_| rng.bits() as u8).collect();
        bytes[..TYPE_AT].copy_from_slice(&frame[..TYPE_AT]);
        bytes[TYPE_AT..18].copy_from_slice(&[0x81, 0x00, 0, 0, 0x88, 0xb5]);
        vec![(port, bytes)]
    });
}

/// An ARP frame to the switch alone.
fn arp(frame: &[u8], operation: u8, sender: ([u8; 6], [u8; 4]), target: ([u8; 6], [u8; 4])) -> Vec<u8> {
    let mut bytes = frame[..TYPE_AT].to_vec();
    bytes.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation]);
    for (mac, ip) in [sender, target] {
        bytes.extend(mac);
        bytes.extend(ip);
    }
    bytes.resize(60, 0);
    bytes
}

/// The switch learns no address from anybody: where hosts are is what the controller says.
#[test]
fn arp_lies_to_the_switch() {
    forged(11, names::DROP_SOURCE, |rng, port, frame| {
        let (mac, own) = ([2, 0, 0, 0, 0, rng.bits() as u8], |at: usize| -> [u8; 4] {
            frame[IP_AT + at..IP_AT + at + 4].try_into().expect("four bytes")
        });
        let (host, switch) = (own(12), own(16));
        let other = [host[0], host[1], host[2], host[3] ^ 3];
        vec![
            // "I am the other host", "I am the switch", unasked; and a question about somebody else.
            (port, arp(frame, 2, (mac, other), (mac, switch))),
            (port, arp(frame, 2, (mac, switch), (mac, switch))),
            (port, arp(frame, 1, (mac, other), ([0; 6], other))),
        ]
    });
}

/// A frame of a host's to another one: what is behind the EtherType `kind`, with a tag of VLAN 0 in front if `tagged`.
fn between(to: [u8; 6], from: [u8; 6], tagged: bool, kind: u16, rest: &[u8]) -> Vec<u8> {
    let tag: &[u8] = if tagged { &[0x81, 0, 0, 0] } else { &[] };
    [&to[..], &from, tag, &kind.to_be_bytes(), rest, &[0; 40]].concat()
}

/// Frames of a host to another one in its own name pass. Frames in the name of the switch, of the other host or of
/// nobody are dropped, also behind a tag. Frames with several tags, one of them of VLAN 0, are dropped, too.
#[test]
fn hosts_speak_to_each_other_in_their_own_names_only() {
    let mut system = System::new(SPEC);
    let (own, other, switch) = (system.mac(0), system.mac(1), [2, 0, 0, 0, 0, 1]);
    let [own_ip, other_ip, switch_ip, none] = [[10, 0, 1, 1], [10, 0, 1, 2], [10, 0, 0, 1], [0; 4]];
    let ipv4 =
        |from: [u8; 4]| [&[0x45, 0, 0, 60, 0, 0, 0x20, 0, 64, 17, 0, 0][..], &from, &other_ip].concat();
    let says = |operation, mac: [u8; 6], ip: [u8; 4]| {
        [&[0, 1, 8, 0, 6, 4, 0, operation][..], &mac, &ip, &other, &other_ip].concat()
    };
    let (ip, arp, ipv6) = (0x0800, 0x0806, 0x86dd);
    for tagged in [false, true] {
        // A host that asks for an address, or whether one is free, has none yet.
        let honest = [
            between(other, own, tagged, ip, &ipv4(own_ip)),
            between(other, own, tagged, ip, &ipv4(none)),
            between(other, own, tagged, arp, &says(1, own, own_ip)),
            between(other, own, tagged, arp, &says(2, own, own_ip)),
            between(other, own, tagged, arp, &says(1, own, none)),
            between(other, own, tagged, ipv6, &[0x60]),
            between(other, own, tagged, 0x88b6, &[1, 2, 3]),
        ];
        for frame in honest {
            assert_eq!(system.switch().ask(1, &frame).as_ref(), Some(&frame));
            // Not at another host's port.
            comes_to_nothing(&mut system.switch().switch, 0, 3, &frame, names::DROP_SOURCE);
        }
        let mut lies = Vec::new();
        for mac in [other, switch, [0; 6], [0xff; 6]] {
            lies.push(between(other, mac, tagged, ip, &ipv4(own_ip)));
            lies.push(between(other, mac, tagged, arp, &says(2, own, own_ip)));
            lies.push(between(other, mac, tagged, ipv6, &[0x60]));
            lies.push(between(other, mac, tagged, 0x88b6, &[]));
            lies.push(between(other, own, tagged, arp, &says(2, mac, own_ip)));
        }
        for address in [other_ip, switch_ip, [10, 0, 1, 9], [255; 4]] {
            lies.push(between(other, own, tagged, ip, &ipv4(address)));
            for to in [other, [0xff; 6]] {
                lies.push(between(to, own, tagged, arp, &says(1, own, address)));
                lies.push(between(to, own, tagged, arp, &says(2, own, address)));
            }
        }
        for frame in lies {
            comes_to_nothing(&mut system.switch().switch, 0, 1, &frame, names::DROP_SOURCE);
        }
    }
    // Receivers take tags of VLAN 0 away, however many there are.
    let lie = [&[8, 6][..], &says(2, own, switch_ip), &[0; 40]].concat();
    let tags: [&[u8]; 6] = [
        &[0x81, 0, 0, 0, 0x81, 0, 0, 0],
        &[0x81, 0, 0, 0, 0x81, 0, 0, 7],
        &[0x81, 0, 0x60, 7, 0x81, 0, 0xe0, 0],
        &[0x81, 0, 0, 7, 0x88, 0xa8, 0, 0],
        &[0x81, 0, 0, 0, 0x88, 0xa8, 0, 7],
        &[0x88, 0xa8, 0, 0],
    ];
    for tags in tags {
        let frame = [&other[..], &own, tags, &lie].concat();
        comes_to_nothing(&mut system.switch().switch, 0, 1, &frame, names::DROP_MALFORMED);
    }
}

/// A flow whose producer rings, and a doorbell of it as it came to the switch.
fn with_doorbell() -> (Rig, u16, Vec<u8>) {
    let yaml = "
hosts: [h1, h2, h3]
flows:
  - {name: f, producers: [h1], consumers: [h2], item_size: 64, ring_size: 4KiB, max_batch: 1KiB, poll_interval: 1s, doorbell: true}
workload: {kind: synthetic, items: 1}
";
    let mut rig = Rig::new(yaml, LinkConfig::FAST, 0);
    rig.feeds[0].closes = false;
    let heard = Arrivals::default();
    let sink = heard.clone();
    rig.net.observe(move |_, end, bytes| {
        let is_bell = bytes.get(UDP_AT + 2..UDP_AT + 4) == Some(&doorbell::PORT.to_be_bytes()[..]);
        if is_bell {
            sink.borrow_mut().push((end.port, bytes.to_vec()));
        }
    });
    rig.one_way();
    let (port, frame) = heard.borrow_mut().pop().expect("a doorbell");
    (rig, port, frame)
}

#[test]
fn doorbells_with_wrong_secrets_ports_and_addresses() {
    let (mut rig, port, bell) = with_doorbell();
    let at = UDP_AT + 8;
    let secret = u32::from_be_bytes(bell[at..at + 4].try_into().expect("four bytes"));
    let ring = |secret: u32, head: u32| {
        let mut bytes = bell.clone();
        bytes[at..at + doorbell::LEN].copy_from_slice(&doorbell::payload(secret, head, 0));
        bytes
    };
    assert_eq!(ring(secret, 64), bell, "a doorbell as the ring's owner makes it");
    let now = rig.net.now();
    let mut rng = Rng::new(1);
    let mut guesses: Vec<u32> = (0..32).map(|bit| secret ^ 1 << bit).collect();
    guesses.extend((0..200).map(|_| rng.bits() as u32).filter(|guess| *guess != secret));
    for guess in guesses {
        // The doorbell says that there is much to fetch.
        comes_to_nothing(rig.switch(), now, port, &ring(guess, 4096), names::DROP_UNKNOWN_QP);
    }
    let mut stranger = ring(secret, 4096);
    stranger[IP_AT + 15] ^= 1;
    comes_to_nothing(rig.switch(), now, port, &stranger, names::DROP_SOURCE);
    for other in [2, 3] {
        comes_to_nothing(rig.switch(), now, other, &ring(secret, 4096), names::DROP_SOURCE);
        // Packets of that host itself, which knows the secret.
        let mut own = ring(secret, 4096);
        own[SRC_AT + 5] = other as u8;
        own[SRC_IP_AT + 3] = other as u8;
        comes_to_nothing(rig.switch(), now, other, &own, names::DROP_UNKNOWN_QP);
    }
    // The two bytes behind the check fill the frame.
    for byte in at + 4..at + doorbell::LEN - 2 {
        let mut damaged = bell.clone();
        damaged[byte] ^= 1;
        comes_to_nothing(rig.switch(), now, port, &damaged, names::DROP_BAD_ICRC);
    }
    // The flow works as before.
    assert!(rig.one_way() < 1_000_000);
}

const TICKETS: tickets::Spec = tickets::Spec {
    counter: Counter::Switch,
    clients: 3,
    requests: 20,
    most: 5,
    first: 1000,
    link: LinkConfig::FAST,
    seed: 17,
};

/// The requests of clients of a sequencer, by port, after all of them were answered.
fn requests_for_tickets() -> (Tickets, BTreeMap<u16, Vec<Vec<u8>>>) {
    let mut tickets = Tickets::new(TICKETS);
    let (arrivals, at) = (Arrivals::default(), tickets.switch.0);
    let sink = arrivals.clone();
    tickets.net.observe(move |_, end, bytes| {
        if end.node.0 == at {
            sink.borrow_mut().push((end.port, bytes.to_vec()));
        }
    });
    tickets.run(|_| ());
    let mut by_port: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for (port, frame) in arrivals.take() {
        by_port.entry(port).or_default().push(frame);
    }
    assert_eq!(by_port.values().map(Vec::len).collect::<Vec<_>>(), [TICKETS.requests; TICKETS.clients]);
    (tickets, by_port)
}

fn psn(frame: &[u8]) -> u32 {
    u32::from_be_bytes([0, frame[BTH_AT + 9], frame[BTH_AT + 10], frame[BTH_AT + 11]])
}

fn with_psn(frame: &[u8], psn: u32) -> Vec<u8> {
    with(frame, BTH_AT + 9, &psn.to_be_bytes()[1..])
}

#[test]
fn tickets_for_others() {
    let (mut tickets, requests) = requests_for_tickets();
    let (now, mut rng) = (tickets.net.now(), Rng::new(18));
    let forge = |tickets: &mut Tickets, port, bytes: &[u8], cause| {
        comes_to_nothing(tickets.switch(), now, port, bytes, cause)
    };
    for (&port, frames) in &requests {
        let last = frames.last().expect("requests");
        let next = with_psn(last, psn(last) + 1);
        for (&other, others) in requests.iter().filter(|(other, _)| **other != port) {
            forge(&mut tickets, other, &next, names::DROP_SOURCE);
            // Under the other's own addresses.
            let mut own = next.clone();
            own[SRC_AT..SRC_AT + 6].copy_from_slice(&others[0][SRC_AT..SRC_AT + 6]);
            let own = with(&own, SRC_IP_AT, &others[0][SRC_IP_AT..SRC_IP_AT + 4]);
            forge(&mut tickets, other, &own, names::DROP_UNKNOWN_QP);
        }
        forge(&mut tickets, port, &with(&next, SRC_IP_AT, &[10, 9, 8, 7]), names::DROP_SOURCE);
        forge(
            &mut tickets,
            port,
            &with(&next, BTH_AT + 5, &[0x80 ^ next[BTH_AT + 5]]),
            names::DROP_UNKNOWN_QP,
        );
        // Address, key, and the upper word of the amount.
        for at in [0, 7, 8, 11, 12, 15] {
            forge(
                &mut tickets,
                port,
                &with(&next, EXT_AT + at, &[next[EXT_AT + at] ^ 8]),
                names::DROP_UNKNOWN_QP,
            );
        }
        let opcodes = (0..=255u8).filter(|code| Opcode::from_code(*code).is_some());
        for code in opcodes.filter(|code| *code != Opcode::FetchAdd.code() && *code != Opcode::Cnp.code()) {
            let is_word = code == Opcode::ReadResponseOnly.code();
            let cause = if is_word { names::DROP_MALFORMED } else { names::DROP_UNKNOWN_QP };
            forge(&mut tickets, port, &with(&next, BTH_AT, &[code]), cause);
        }
        for _ in 0..20 {
            let mut bytes = next.clone();
            let at = EXT_AT + rng.below((next.len() - EXT_AT) as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
            forge(&mut tickets, port, &bytes, names::DROP_BAD_ICRC);
        }
        // All but the next request and the last one, which is answered again.
        let far = 2 + rng.below(0xff_fffd) as u32;
        for psn in [psn(last) + 2, psn(last).wrapping_sub(1), psn(last) + far] {
            forge(&mut tickets, port, &with_psn(last, psn), names::DROP_STALE);
        }
        for earlier in &frames[..frames.len() - 1] {
            forge(&mut tickets, port, earlier, names::DROP_STALE);
        }
    }
    tickets.check().unwrap_or_else(|e| panic!("{e}"));
}

/// Before a client's first request there is no answer to repeat. Afterwards its last answer is repeated, and nothing
/// changes.
#[test]
fn repeated_requests_for_tickets() {
    let (_, requests) = requests_for_tickets();
    let mut fresh = Tickets::new(TICKETS);
    let mut ask = |port: u16, bytes: &[u8]| {
        let mut out = Vec::new();
        let frame = Frame::copy_from(bytes).expect("a frame that fits");
        fresh.switch().process(0, port, frame, &mut FramePool::default(), &mut out);
        let answers = out.iter().map(|(port, frame)| (*port, frame.bytes().to_vec())).collect::<Vec<_>>();
        (answers, registers(fresh.switch()), drops(fresh.switch(), names::DROP_STALE.into()))
    };
    for (stale, (&port, frames)) in requests.iter().enumerate() {
        let first = &frames[0];
        let before = ask(port, &with_psn(first, psn(first).wrapping_sub(1)));
        assert_eq!((&before.0[..], before.2), (&[][..], stale as u64 + 1));
        let answered = ask(port, first);
        assert_eq!(answered.0.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [port]);
        assert!(answered.1 != before.1, "a ticket was taken");
        assert!(ask(port, first) == answered, "not the same answer, or something has changed");
    }
}
