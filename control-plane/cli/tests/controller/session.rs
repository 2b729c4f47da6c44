//! A session with the switch that is lost, a switch that another client takes, and flows that go on all the same.

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as rt;
use zsr_api::controller::{self as proto, EventKind};
use zsr_plan::dataplane::flow::DataPlane;
use zsr_plan::p4::Schema;
use zsr_ring::{Consumer, Producer};
use zsr_switch::P4RuntimeSession;

use super::changes::{consumer, next, pop, producer, push, watch};
use super::rig::{Client, Rig, Way, shuffle};

type Events = tonic::Streaming<proto::Event>;

/// Other clients may keep what they have.
const YIELDING: &str = "switches: [{name: s1, p4runtime: {keep_primary: false}}]\n";

/// The next event of this kind; no flow is lost before.
async fn without_loss(events: &mut Events, kind: EventKind) -> proto::Event {
    loop {
        let event = events.message().await.expect("a stream").expect("no end");
        let lost =
            [EventKind::FlowFailed, EventKind::FlowDeleted, EventKind::SwitchLost, EventKind::SwitchFound];
        assert!(!lost.contains(&event.kind()), "{event:?}");
        if event.kind() == kind {
            return event;
        }
    }
}

fn moves(tx: &mut Producer, rx: &mut Consumer, items: std::ops::Range<u64>) {
    std::thread::scope(|s| {
        s.spawn(|| push(tx, items.clone()));
        assert!(items.clone().all(|n| pop(rx) == n));
    });
}

fn system(rig: &Rig, client: &mut Client) -> proto::System {
    rig.runtime.block_on(client.get_system(proto::GetSystemRequest {})).expect("a controller").into_inner()
}

/// A client of the switch that becomes primary.
fn intruder(rig: &Rig, election_id: u128) -> P4RuntimeSession {
    let session = P4RuntimeSession::connect("s1", &rig.p4runtime, 1, election_id);
    rig.runtime.block_on(session).expect("nobody has a higher id")
}

#[test]
fn flows_go_on_when_the_session_is_lost() {
    // Also where the switch does not know that the session is over.
    for half in [false, true] {
        let rig = Rig::new(2, "");
        let (controller, mut client) = rig.control();
        let mut events = watch(&rig, &mut client);
        rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
        let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
        moves(&mut tx, &mut rx, 0..100);
        let (flow, held) = (controller.get_flow("f").expect("there"), rig.held());
        for round in 1..4 {
            let way = if half { Way::HalfOpen(round) } else { Way::Open(round) };
            rig.way.send_replace(way);
            let found = rig.runtime.block_on(async {
                without_loss(&mut events, EventKind::SessionLost).await;
                without_loss(&mut events, EventKind::SessionFound).await
            });
            assert!(found.text.contains("0 entries set right, 0 taken away"), "{found:?}");
            let from = 100 * u64::from(round);
            moves(&mut tx, &mut rx, from..from + 100);
            assert_eq!((controller.get_flow("f").expect("there"), rig.held()), (flow.clone(), held));
            assert!(system(&rig, &mut client).switch.is_some_and(|s| s.connected));
        }
        // The controller can do all that it could.
        rig.runtime.block_on(client.create_flow(shuffle("g", &["h1"], &["h2"]))).expect("created");
        tx.detach();
        rx.detach();
        for name in ["f", "g"] {
            let delete = proto::DeleteFlowRequest { name: name.into(), force: false };
            rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
        }
        assert!(rig.is_clean());
    }
}

#[test]
fn what_cannot_be_done_without_a_session_waits_or_says_why() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    rig.way.send_replace(Way::Cut);
    rig.runtime.block_on(without_loss(&mut events, EventKind::SessionLost));
    let get = proto::GetFlowRequest { name: "f".into() };
    let flow = rig.runtime.block_on(client.get_flow(get)).expect("there").into_inner();
    assert_eq!(flow.state(), proto::FlowState::Impaired);
    assert!(flow.reason.contains("switch `s1` has ended its session"), "{}", flow.reason);
    let switch = system(&rig, &mut client).switch.expect("a switch");
    assert!(!switch.connected && switch.trouble.contains("`s1`"), "{switch:?}");
    // Asked for while there is no session, done when there is one.
    let created = rig.runtime.block_on(async {
        let asked = shuffle("g", &["h1"], &["h2"]);
        let (created, ()) = tokio::join!(client.create_flow(asked), async {
            rig.way.send_replace(Way::Open(1));
            without_loss(&mut events, EventKind::SessionFound).await;
        });
        created
    });
    assert_eq!(created.expect("created").into_inner().state(), proto::FlowState::Running);
}

#[test]
fn a_switch_that_another_client_has_taken_is_taken_back() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
    for id in [u128::from(u64::MAX), 1 << 100] {
        let _stays = intruder(&rig, id);
        rig.runtime.block_on(async {
            let lost = without_loss(&mut events, EventKind::PrimaryLost).await;
            assert!(lost.text.contains(&id.to_string()), "{lost:?}");
            without_loss(&mut events, EventKind::SessionFound).await;
        });
        moves(&mut tx, &mut rx, 0..100);
    }
    rig.runtime.block_on(client.create_flow(shuffle("g", &["h1"], &["h2"]))).expect("created");
    tx.detach();
    rx.detach();
}

/// Deletes all entries and groups of the switch.
async fn delete_everything(intruder: &mut P4RuntimeSession, info: &P4Info) {
    use rt::entity::Entity;
    let reader = intruder.reader();
    let schema = Schema::new(info);
    let of_flows = DataPlane::flow_tables().into_iter();
    let tables =
        of_flows.chain(["stations", "own_ip", "solve_reth_0"]).map(|t| schema.table(t).expect("a table"));
    let entries = reader.entries(tables).await.expect("entries");
    let keys = entries.into_iter().map(|e| Entity::TableEntry(rt::TableEntry { action: None, ..e }));
    let groups = reader.groups().await.expect("groups").into_iter().map(|g| {
        let r#type = Some(rt::packet_replication_engine_entry::Type::MulticastGroupEntry(g));
        Entity::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type })
    });
    let sessions = reader.sessions().await.expect("sessions");
    let all = keys.chain(groups).chain(sessions.into_iter().map(Entity::PacketReplicationEngineEntry));
    let digest = rt::DigestEntry { digest_id: schema.digest("report_t").expect("a digest"), config: None };
    let all = all.chain([Entity::DigestEntry(digest)]);
    let delete = |e| rt::Update {
        r#type: rt::update::Type::Delete.into(),
        entity: Some(rt::Entity { entity: Some(e) }),
    };
    intruder.update(all.map(delete)).await.expect("deleted");
}

#[test]
fn entries_that_another_client_has_deleted_are_set_right_and_its_own_go() {
    let rig = Rig::new(2, YIELDING);
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
    moves(&mut tx, &mut rx, 0..100);
    let held = rig.held();
    let mut other = intruder(&rig, 77);
    rig.runtime.block_on(async {
        without_loss(&mut events, EventKind::PrimaryLost).await;
        delete_everything(&mut other, &rig.artifacts.p4info).await;
        let group = rt::MulticastGroupEntry { multicast_group_id: 999, ..Default::default() };
        let r#type = Some(rt::packet_replication_engine_entry::Type::MulticastGroupEntry(group));
        let own = rt::PacketReplicationEngineEntry { r#type };
        let entity = Some(rt::entity::Entity::PacketReplicationEngineEntry(own));
        let insert =
            rt::Update { r#type: rt::update::Type::Insert.into(), entity: Some(rt::Entity { entity }) };
        other.update([insert].into_iter()).await.expect("inserted");
    });
    // It may keep the switch, and everybody can see that it does.
    let get = proto::GetFlowRequest { name: "f".into() };
    let flow = rig.runtime.block_on(client.get_flow(get)).expect("there").into_inner();
    assert!(flow.state() == proto::FlowState::Impaired && flow.reason.contains("election id 77"), "{flow:?}");
    push(&mut tx, 100..120);
    drop(other);
    let found = rig.runtime.block_on(without_loss(&mut events, EventKind::SessionFound));
    assert!(found.text.contains(", 1 taken away"), "{found:?}");
    assert_eq!(rig.held(), held);
    assert!((100..120).all(|n| pop(&mut rx) == n), "nothing is lost, and nothing comes twice");
    moves(&mut tx, &mut rx, 120..200);
    // The digest is there again, too: without it nothing is known of workers at rest.
    tx.detach();
    rx.detach();
    let delete = proto::DeleteFlowRequest { name: "f".into(), force: false };
    rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
    assert!(rig.is_clean());
}

#[test]
fn flows_go_on_at_a_switch_that_was_given_another_pipeline() {
    let rig = Rig::new(2, YIELDING);
    let (controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
    moves(&mut tx, &mut rx, 0..100);
    let mut other = intruder(&rig, 2);
    rig.runtime.block_on(async {
        next(&mut events, EventKind::PrimaryLost).await;
        // The same program, and nothing of what it remembered.
        other.set_pipeline(&rig.artifacts.p4info, &rig.artifacts.json, None).await.expect("loaded");
        drop(other);
        next(&mut events, EventKind::SwitchLost).await;
        next(&mut events, EventKind::SwitchFound).await;
        assert_eq!(next(&mut events, EventKind::FlowResumed).await.flow, "f");
    });
    moves(&mut tx, &mut rx, 100..200);
    assert_eq!(controller.list_flows().len(), 1);
    tx.detach();
    rx.detach();
}

#[test]
fn a_worker_that_stopped_while_nobody_listened_goes_on() {
    let rig = Rig::new(2, YIELDING);
    let (controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    for name in ["f", "sound"] {
        rig.runtime.block_on(client.create_flow(shuffle(name, &["h1"], &["h2"]))).expect("created");
    }
    let worker = *controller.get_flow("f").expect("there").workers().first().expect("a worker");
    let mut other = intruder(&rig, 2);
    let registers = &rig.artifacts.p4info.registers;
    let is_phase = |r: &&p4runtime_proto::p4::config::v1::Register| {
        r.preamble.as_ref().is_some_and(|p| p.name.ends_with(".phase"))
    };
    let register_id = registers.iter().find(is_phase).and_then(|r| r.preamble.as_ref()).expect("there").id;
    let fault = rt::RegisterEntry {
        register_id,
        index: Some(rt::Index { index: worker.into() }),
        data: Some(rt::P4Data { data: Some(rt::p4_data::Data::Bitstring(vec![6])) }),
    };
    let entity = Some(rt::entity::Entity::RegisterEntry(fault));
    let update = rt::Update { r#type: rt::update::Type::Modify.into(), entity: Some(rt::Entity { entity }) };
    rig.runtime.block_on(async {
        next(&mut events, EventKind::PrimaryLost).await;
        other.update([update].into_iter()).await.expect("written");
        drop(other);
        let resumed = next(&mut events, EventKind::FlowResumed).await;
        assert!(resumed.flow == "f" && resumed.text.contains("stopped while"), "{resumed:?}");
    });
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
    push(&mut tx, 0..10);
    assert!((0..10).all(|n| pop(&mut rx) == n));
    tx.detach();
    rx.detach();
}
