//! Sound inputs, to begin with.

use std::path::Path;

use p4runtime_proto::p4::v1 as pb;
use prost::Message as _;
use zsr_api::{agent, controller};
use zsr_link::{Direction, TapFrame, TapRecord};
use zsr_ring::segment::{SegmentConfig, SegmentWriter};
use zsr_ring::{Ring, RingSpec};
use zsr_wire::message::Message;
use zsr_wire::roce::{Path as Way, Repr};
use zsr_wire::{Frame, Mac, Psn, Qpn, Rkey, reth};

use super::ATTACH;
use super::services::{AGENT, CONTROLLER, ELECTION, P4RUNTIME, member, script_of};

/// Sound inputs of a target.
///
/// # Panics
/// If there is no such target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let files = |texts: &[&[u8]]| texts.iter().map(|text| text.to_vec()).collect();
    match target {
        "topology" => files(&[
            include_bytes!("../../../topologies/shuffle-2x2.yaml"),
            include_bytes!("../../../topologies/replicate.yaml"),
            include_bytes!("../../../topologies/load-balance.yaml"),
            include_bytes!("../../../topologies/groups.yaml"),
        ]),
        "journal" => files(&[
            br#"{"End":{"name":"g","flow":null}}
{"Begin":{"name":"f","fallback":null}}
{"End":{"name":"f","flow":null}}
{"Begin":{"name":"h","fallback":null}}
"#,
            b"",
            b"{\"End\":{\"name\":\"\xc3",
        ]),
        "segments" => vec![segments(true), segments(false)],
        "rings" => rings(),
        "program" => files(&[
            include_bytes!("../../../crates/soft-switch/tests/programs/drops.json"),
            include_bytes!("../../../crates/soft-switch/tests/programs/tables.json"),
        ]),
        "p4info" => files(&[include_bytes!("../../../crates/soft-switch/tests/programs/p4runtime.p4info.txtpb")]),
        "programs" => vec![
            ATTACH.to_vec(),
            [&ATTACH[..11], &[1, 64, 0, 0, 0, 0, 0, 0, 0, 0]].concat(),
            vec![0xff, 0xff, 0xff, 0xff, 8, 1],
        ],
        "capture" => vec![capture()],
        "records" => files(&[
            b"\x20a: i32, b: bytes(4)\nhash(a)\n-7,abcd\n8,\n9999999999,x\n",
            b"\x2cid: u64, d: date, m: decimal, t: text\nrange(t, [g, p])\n1,2026-01-31,3.14,\"x, y\"\r\n2,1999-12-01,-0.5,\"\"\"\"\n",
            b"\x41x: f64, y: u8, z: i64\nexplicit(y)\n1e300|2|-5\nnan|0|9223372036854775807\n",
            b"\x66s: bytes(16), n: u16\nhash(0:4)\n\"a\tb\"\t65535\n",
        ]),
        "switch" => switch(),
        "controller" => vec![of_the_controller()],
        "agent" => vec![of_an_agent()],
        "p4runtime" => of_p4runtime(),
        // Their inputs are frames of any bytes.
        "wire" | "soft_nic" => vec![vec![0x20; 64], (0..=255).collect()],
        _ => panic!("no target `{target}`"),
    }
}

/// Writes the sound inputs of a target into the folder that ZSR_FUZZ_SEEDS names, if it names one.
///
/// # Panics
/// If that folder takes no files.
pub fn write_seeds(target: &str) {
    let Some(folder) = std::env::var_os("ZSR_FUZZ_SEEDS") else { return };
    for (number, seed) in seeds(target).iter().enumerate() {
        std::fs::write(Path::new(&folder).join(format!("sound-{number}")), seed).expect("a folder for seeds");
    }
}

fn segments(checksum: bool) -> Vec<u8> {
    let spec = RingSpec::new(128, 1024).expect("powers of two");
    let (producer, mut consumer) = Ring::loopback(spec).expect("memory");
    let config = SegmentConfig { producer: 3, checksum, stamp_every: 1, ..SegmentConfig::default() };
    let mut writer = SegmentWriter::records(producer, config).expect("128 B are enough");
    for n in 0..9 {
        writer.try_push(&[n; 40]).expect("room");
    }
    writer.close().expect("room");
    let (mut seed, mut item) = (Vec::new(), [0; 128]);
    while consumer.try_pop(&mut item).is_ok() {
        seed.extend(item);
    }
    seed
}

/// Pushes and pops, heads and tails that go on as they should, and one of each that does not.
fn rings() -> Vec<Vec<u8>> {
    let head = |at: u8, counter: u32| [&[0x80, at, 8][..], &counter.to_le_bytes(), &[0, 0, 1, 0]].concat();
    let tail = |at: u8, counter: u32| [&[0, at, 8][..], &counter.to_le_bytes(), &[0, 0, 1, 0]].concat();
    let mut all = Vec::new();
    for how in [0, 2] {
        let mut script = vec![how, 5, 0, 5, 2, 3, 2, 5, 1];
        for at in (0..128).step_by(8) {
            script.extend(head(at, 256));
            script.extend([9, 0, 9, 2, 2, 0, 9, 1, 9, 7]);
            script.extend(tail(at, 128));
            script.extend([5, 0, 5, 1, 5, 3, 5, 7, 2, 0x8d, 0, 64, 0, 0, 0, 0, 0, 0, 0]);
        }
        all.push(script);
    }
    // A program breaks its own word and leaves; the next one must not go on from there.
    let broken = |at: u64, script: &[u8]| [&[0][..], &[0x80, at as u8, 4, 0xff, 3, 0, 0], script].concat();
    all.push(broken(zsr_wire::ring::CONSUMER_TAIL, &[9, 6, 9, 2, 20, 0, 9, 0]));
    let mut own = broken(zsr_wire::ring::PRODUCER_HEAD, &[5, 6, 5, 2, 20, 20, 5, 0]);
    own[1] = 0;
    all.push(own);
    all
}

fn capture() -> Vec<u8> {
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let way = |to| Way {
        src_mac: mac,
        dst_mac: mac,
        src_ip: [10, 0, 0, 254].into(),
        dst_ip: to,
        src_port: 1,
        tos: 0,
        ttl: 64,
    };
    let reth = |address, length| reth::Repr { address, rkey: Rkey(1), length };
    let mut commit = [0; 16];
    commit[8] = 1;
    let packets = [
        ((1, 3), 9, Message::ReadRequest(reth(4096, 1500)), &[][..]),
        ((2, 7), 5, Message::WriteFirst(reth(4096, 1100)), &[1; 1024]),
        ((2, 7), 6, Message::WriteLast, &[1; 76]),
        ((2, 7), 7, Message::WriteOnly(reth(0, 16)), &commit),
    ];
    let mut seed = Vec::new();
    for ((host, qpn), psn, message, payload) in packets {
        let to = [10, 0, 0, host];
        let mut frame = Frame::new();
        Repr::new(way(to.into()), Qpn::new(qpn), Psn::new(psn), message)
            .emit(payload, &mut frame)
            .expect("it fits");
        let frame = TapFrame { direction: Direction::Out, len: frame.len(), bytes: frame.bytes() };
        TapRecord { time_ns: 1, lost: 0, frame: Some(frame) }.write(&mut seed);
    }
    seed
}

/// Frames that were seen, as they were, with another PSN, another opcode, another port; and an internal packet.
fn switch() -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    for number in 0..32u8 {
        all[0].extend([number, 0, 0, 0x40 | number, 1, 0]);
    }
    let changed = |at: u8, change: &[u8]| {
        let one = |number: u8| [&[0x40 | number, at << 1, change.len() as u8], change].concat();
        (0..16).flat_map(one).collect::<Vec<u8>>()
    };
    // Opcode, QPN, PSN, what is behind the BTH, source address.
    all.extend(
        [(42, &[3][..]), (47, &[0, 0, 1]), (51, &[0, 0, 1]), (54, &[1, 2, 3, 4]), (26, &[0, 0, 0, 3])]
            .map(|(at, c)| changed(at, c)),
    );
    let mut internal = vec![0x80, 0, 64];
    internal.extend([0xff; 12]);
    internal.extend([0x88, 0xb5, 4, 0, 0, 1, 0, 1]);
    internal.resize(67, 0);
    all.push(internal);
    all
}

fn of_the_controller() -> Vec<u8> {
    let settings = controller::Settings {
        weight: Some(3),
        rate_cap_bps: Some(80_000_000),
        poll_interval_us: Some(50),
        rto_us: Some(5000),
        max_batch: Some(1024),
        doorbell: Some(true),
        policy: Some(controller::Policy::DropMember.into()),
        ..Default::default()
    };
    let create = |name: &str, kind: controller::FlowKind| controller::CreateFlowRequest {
        name: name.into(),
        kind: kind.into(),
        producers: member("h1"),
        consumers: member("h2"),
        item_size: 64,
        lanes: 1,
        ring_size: 4096,
        settings: Some(settings),
        routing: "hash(id)".into(),
        schema: "id: u64, note: bytes(8)".into(),
    };
    let add = controller::AddMemberRequest { flow: "f".into(), member: Some(member("h3").remove(0)) };
    let remove = controller::RemoveMemberRequest {
        flow: "f".into(),
        member: "h3".into(),
        force: true,
        ..Default::default()
    };
    let said = [
        ("CreateFlow", create("f", controller::FlowKind::Shuffle).encode_to_vec()),
        ("CreateFlow", create("g", controller::FlowKind::Replicate).encode_to_vec()),
        ("AddConsumer", add.encode_to_vec()),
        ("AddProducer", add.encode_to_vec()),
        (
            "SetFlow",
            controller::SetFlowRequest { name: "f".into(), settings: Some(settings) }.encode_to_vec(),
        ),
        ("RemoveMember", remove.encode_to_vec()),
        ("GetFlow", controller::GetFlowRequest { name: "f".into() }.encode_to_vec()),
        ("ListRings", controller::ListRingsRequest { flow: "f".into() }.encode_to_vec()),
        ("GetStats", Vec::new()),
        (
            "WatchEvents",
            controller::WatchEventsRequest { after: Some(0), past_only: true, ..Default::default() }
                .encode_to_vec(),
        ),
        ("Barrier", controller::BarrierRequest { name: "b".into(), participants: 1 }.encode_to_vec()),
        ("GetSystem", Vec::new()),
        ("DeleteFlow", controller::DeleteFlowRequest { name: "g".into(), force: false }.encode_to_vec()),
    ];
    script_of(CONTROLLER, &said)
}

fn of_an_agent() -> Vec<u8> {
    let ring = |name: &str, role: agent::Role| agent::CreateRingRequest {
        name: name.into(),
        role: role.into(),
        item_size: 64,
        ring_size: 4096,
        ..Default::default()
    };
    let target = Some(agent::QpTarget {
        qpn: 7,
        ip: "10.0.0.254".into(),
        rq_psn: 1,
        sq_psn: 2,
        path_mtu: 1024,
        ..Default::default()
    });
    let connect = agent::ConnectRingRequest {
        name: "r".into(),
        data: target.clone(),
        poll: target.clone(),
        doorbell_secret: Some(9),
    };
    let open = agent::OpenRing {
        ring: Some(ring("s", agent::Role::Consumer)),
        data: target.clone(),
        poll: target.clone(),
        doorbell_secret: None,
    };
    let names = || vec!["s".to_owned()];
    let resume = agent::ResumeRing {
        name: "s".into(),
        data: target.clone(),
        poll: target,
        tail: None,
        head: Some(64),
        items: vec![1; 64],
    };
    let said = [
        ("CreateRing", ring("r", agent::Role::Producer).encode_to_vec()),
        ("ConnectRing", connect.encode_to_vec()),
        ("OpenRings", agent::OpenRingsRequest { rings: vec![open] }.encode_to_vec()),
        ("GetRing", agent::GetRingRequest { name: "r".into() }.encode_to_vec()),
        ("SuspendRings", agent::SuspendRingsRequest { names: names() }.encode_to_vec()),
        ("ReadItems", agent::ReadItemsRequest { name: "s".into(), from: 0, length: 64 }.encode_to_vec()),
        ("ResumeRings", agent::ResumeRingsRequest { rings: vec![resume] }.encode_to_vec()),
        ("ListRings", Vec::new()),
        ("GetInfo", Vec::new()),
        ("EndRings", agent::EndRingsRequest { names: vec!["r".into()] }.encode_to_vec()),
        (
            "CloseRings",
            agent::CloseRingsRequest { names: names(), reason: "x".into(), finished: true }.encode_to_vec(),
        ),
        ("AbortRing", agent::AbortRingRequest { name: "r".into(), reason: "x".into() }.encode_to_vec()),
        ("DisconnectRing", agent::DisconnectRingRequest { name: "r".into() }.encode_to_vec()),
        ("DestroyRing", agent::DestroyRingRequest { name: "r".into() }.encode_to_vec()),
    ];
    script_of(AGENT, &said)
}

const JSON: &str = include_str!("../../../crates/soft-switch/tests/programs/p4runtime.json");
const INFO: &str = include_str!("../../../crates/soft-switch/tests/programs/p4runtime.p4info.txtpb");

/// A small program with everything that P4Runtime has.
pub(super) fn pipeline() -> pb::ForwardingPipelineConfig {
    pb::ForwardingPipelineConfig {
        p4info: Some(p4runtime_proto::p4info::parse(INFO).expect("a sound file")),
        p4_device_config: JSON.into(),
        cookie: None,
    }
}

pub(super) fn arbitration(election: pb::Uint128) -> pb::StreamMessageRequest {
    let update =
        pb::MasterArbitrationUpdate { device_id: 1, election_id: Some(election), ..Default::default() };
    pb::StreamMessageRequest { update: Some(pb::stream_message_request::Update::Arbitration(update)) }
}

pub(super) fn group(id: u32) -> pb::Entity {
    let group = pb::MulticastGroupEntry { multicast_group_id: id, ..Default::default() };
    let of = pb::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
    let entry = pb::PacketReplicationEngineEntry { r#type: Some(of) };
    pb::Entity { entity: Some(pb::entity::Entity::PacketReplicationEngineEntry(entry)) }
}

pub(super) fn write(kind: pb::update::Type, entity: pb::Entity) -> pb::WriteRequest {
    pb::WriteRequest {
        device_id: 1,
        election_id: Some(ELECTION),
        updates: vec![pb::Update { r#type: kind.into(), entity: Some(entity) }],
        ..Default::default()
    }
}

pub(super) fn read(entity: pb::Entity) -> pb::ReadRequest {
    pb::ReadRequest { device_id: 1, entities: vec![entity], ..Default::default() }
}

/// Every kind of entity written, changed, read and deleted; sessions, and a pipeline.
fn of_p4runtime() -> Vec<Vec<u8>> {
    let info = pipeline().p4info.expect("set");
    let preambles = (info.tables.iter().map(|object| &object.preamble))
        .chain(info.actions.iter().map(|object| &object.preamble))
        .chain(info.action_profiles.iter().map(|object| &object.preamble))
        .chain(info.counters.iter().map(|object| &object.preamble))
        .chain(info.meters.iter().map(|object| &object.preamble))
        .chain(info.registers.iter().map(|object| &object.preamble))
        .chain(info.value_sets.iter().map(|object| &object.preamble))
        .chain(info.digests.iter().map(|object| &object.preamble));
    let names: Vec<(String, String)> = preambles
        .flatten()
        .map(|preamble| (format!("@{} ", preamble.alias), format!("{} ", preamble.id)))
        .collect();
    let texts = include_str!("../../../crates/p4runtime-server/src/fuzz_seeds.txt").lines();
    let entity = |text: &str| {
        let named = names.iter().fold(text.to_owned(), |text, (name, id)| text.replace(name, id));
        p4runtime_proto::text::parse::<pb::Entity>(&named).expect("a sound entity")
    };
    let mut all: Vec<Vec<u8>> = texts
        .map(entity)
        .map(|entity| {
            let update = |kind| ("Write", write(kind, entity.clone()).encode_to_vec());
            let said = [
                update(pb::update::Type::Insert),
                update(pb::update::Type::Modify),
                ("Read", read(entity.clone()).encode_to_vec()),
                update(pb::update::Type::Delete),
            ];
            script_of(P4RUNTIME, &said)
        })
        .collect();
    let config = pb::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(ELECTION),
        action: pb::set_forwarding_pipeline_config_request::Action::Verify.into(),
        config: Some(pb::ForwardingPipelineConfig { p4_device_config: b"{}".to_vec(), ..pipeline() }),
        ..Default::default()
    };
    let get = pb::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 2 };
    let said = [
        ("StreamChannel", arbitration(pb::Uint128 { high: 0, low: 9 }).encode_to_vec()),
        ("SetForwardingPipelineConfig", config.encode_to_vec()),
        ("GetForwardingPipelineConfig", get.encode_to_vec()),
        ("Capabilities", Vec::new()),
    ];
    all.push(script_of(P4RUNTIME, &said));
    all
}
