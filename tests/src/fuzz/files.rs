//! Files and streams that people and other processes wrote.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Instant;

use zsr_api::controller as proto;
use zsr_controller::journal::Journal;
use zsr_link::TapRecord;
use zsr_plan::p4::Schema;
use zsr_soft_switch::{Program, Switch, SwitchConfig};
use zsr_system::capture::{Annotator, Names};
use zsr_topology::Topology;
use zsr_wire::{Frame, FramePool};

/// A topology file: accepted, or refused with places and words.
pub fn topology(bytes: &[u8]) {
    if let Err(wrong) = Topology::parse(Path::new("fuzz.yaml"), bytes) {
        assert!(!wrong.to_string().is_empty(), "an error says what is wrong");
    }
}

/// The controller's store: the contents are the same when they are written and read again.
pub fn journal(bytes: &[u8]) {
    static FILE: LazyLock<PathBuf> =
        LazyLock::new(|| std::env::temp_dir().join(format!("zsr-fuzz-{}.journal", std::process::id())));
    let path = FILE.as_path();
    std::fs::write(path, bytes).expect("the temporary folder takes a file");
    if let Ok((journal, first)) = Journal::open(path) {
        drop(journal);
        let (_, again) = Journal::open(path).expect("what it wrote itself is sound");
        // Unfinished changes stay unfinished until the store has their outcome.
        assert_eq!((first.flows, first.unfinished), (again.flows, again.unfinished));
    }
    let _ = std::fs::remove_file(path);
}

/// A compiled program (bmv2 JSON): refused, or run on some packets.
pub fn program(bytes: &[u8]) {
    let Ok(program) = Program::from_json(&String::from_utf8_lossy(bytes)) else { return };
    let mut switch = Switch::new(&program, SwitchConfig::default());
    let (mut pool, mut out) = (FramePool::default(), Vec::new());
    for len in [0, 14, 60, 128, 1500] {
        let content: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let frame = Frame::copy_from(&content).expect("it fits");
        switch.process(0, 1, frame, &mut pool, &mut out);
        // A program that sends a packet round for ever is sound.
        for _ in 0..16 {
            switch.run_pending(0, 16, &mut pool, &mut out);
        }
        out.clear();
    }
}

/// P4Info in text.
pub fn p4info(bytes: &[u8]) {
    match p4runtime_proto::p4info::parse(&String::from_utf8_lossy(bytes)) {
        Ok(info) => drop(Schema::new(&info)),
        Err(wrong) => assert!(!wrong.to_string().is_empty()),
    }
}

/// The stream of a process that owns a link to `zsr pcap`, and frames of any content in it.
pub fn capture(bytes: &[u8]) {
    static NAMES: LazyLock<Names> = LazyLock::new(names);
    let (mut annotator, mut rest, now, mut frames) = (Annotator::default(), bytes, Instant::now(), 0);
    while let Some((record, behind)) = TapRecord::split(rest) {
        rest = behind;
        if let Some(frame) = record.frame {
            let _ = Annotator::lacks(&frame, &NAMES);
            annotator.take(now, (record.time_ns, record.lost), &frame, &NAMES);
            frames += 1;
        }
    }
    assert_eq!(std::iter::from_fn(|| annotator.next_noted(now, true)).count(), frames);
}

/// A flow from ring 1 at 10.0.0.1 to ring 2 at 10.0.0.2. Ring 1 has queue pairs 1 and 2 to the switch, 3 and 4 to the
/// NIC; ring 2 has 5 to 8.
fn names() -> Names {
    let member = |host: &str, role: proto::Role, first: u32| proto::FlowMember {
        name: host.into(),
        host: host.into(),
        rings: vec![proto::Ring {
            name: format!("f.{host}"),
            host: host.into(),
            role: role.into(),
            size: 8192,
            number: first.div_ceil(4),
            data_qpn: first,
            poll_qpn: first + 1,
            nic_data_qpn: first + 2,
            nic_poll_qpn: first + 3,
            ..Default::default()
        }],
        ..Default::default()
    };
    let flow = proto::Flow {
        name: "f".into(),
        kind: proto::FlowKind::Shuffle.into(),
        mtu: 1024,
        producers: vec![member("h1", proto::Role::Producer, 1)],
        consumers: vec![member("h2", proto::Role::Consumer, 5)],
        ..Default::default()
    };
    let host = |name: &str, ip: &str| proto::Host { name: name.into(), ip: ip.into(), ..Default::default() };
    Names::new(&[flow], &[host("h1", "10.0.0.1"), host("h2", "10.0.0.2")])
}
