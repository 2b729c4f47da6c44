//! Timeouts of many busy flows.

use std::time::{Duration, Instant};

use p4runtime_proto::p4::v1::{action, entity, table_action};
use zsr_api::controller as proto;
use zsr_plan::p4::Schema;
use zsr_switch::SwitchReader;

use super::rig::{Rig, shuffle};

/// From how many on there is a crowd.
const CROWD: usize = 64;

/// How many workers have `micros` among their times.
fn workers_with(rig: &Rig, micros: u16) -> usize {
    let schema = Schema::new(&rig.artifacts.p4info);
    let table = schema.table("workers").expect("a table");
    let entities = rig.runtime.block_on(async {
        let reader = SwitchReader::connect("s1", &rig.p4runtime, 1).await.expect("the switch");
        reader.entities([table].into_iter(), |_| false).await.expect("entries")
    });
    let has = |e: &&p4runtime_proto::p4::v1::Entity| {
        let Some(entity::Entity::TableEntry(entry)) = &e.entity else { return false };
        let Some(table_action::Type::Action(action)) = entry.action.as_ref().and_then(|a| a.r#type.as_ref())
        else {
            return false;
        };
        action.params.iter().any(|p: &action::Param| p.value == micros.to_be_bytes())
    };
    // Less the probe, which is no flow's.
    entities.iter().filter(has).count().saturating_sub(usize::from(micros == OWN))
}

/// Default of `poll_timeout`, in microseconds.
const OWN: u16 = 5000;
/// 200 us per worker.
const LONGER: u16 = 12_800;

fn until(rig: &Rig, micros: u16, workers: usize) {
    let begun = Instant::now();
    while workers_with(rig, micros) != workers {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{} workers with {micros}",
            workers_with(rig, micros)
        );
    }
}

#[test]
fn timeouts_grow_with_the_number_of_busy_workers() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    for n in 0..CROWD {
        let request = shuffle(&format!("f{n}"), &["h1"], &["h2"]);
        rig.runtime.block_on(client.create_flow(request)).expect("created");
    }
    until(&rig, LONGER, CROWD);
    assert_eq!(workers_with(&rig, OWN), 0);
    // One that comes later has them at once.
    rig.runtime.block_on(client.create_flow(shuffle("late", &["h1"], &["h2"]))).expect("created");
    assert_eq!(workers_with(&rig, OWN), 0);
    // Far fewer: as the flows say.
    for n in 0..CROWD - 10 {
        let request = proto::DeleteFlowRequest { name: format!("f{n}"), force: true };
        rig.runtime.block_on(client.delete_flow(request)).expect("deleted");
    }
    until(&rig, OWN, 11);
}
