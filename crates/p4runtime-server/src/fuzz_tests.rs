//! Damaged updates and damaged P4Info: nothing panics, and a batch that is taken back leaves no trace.

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use prost::Message;

use super::super::agree::agree;
use super::super::reads;
use super::super::target::Pipeline;
use super::super::updates::Reader;
use super::*;
use zsr_soft_switch::{Program, SwitchConfig};

const JSON: &str = include_str!("../../soft-switch/tests/programs/p4runtime.json");
const INFO: &str = include_str!("../../soft-switch/tests/programs/p4runtime.p4info.txtpb");

fn p4info() -> P4Info {
    p4runtime_proto::p4info::parse(INFO).unwrap()
}

fn pipeline(program: &Program) -> Pipeline {
    let schema = agree(&p4info(), program.info()).unwrap();
    let mut switch = Switch::new(program, SwitchConfig::default());
    for table in schema.tables.values() {
        if let Some(size) = table.initial_size {
            switch.table_unlock(table.engine, size).unwrap();
        }
    }
    Pipeline::saved(schema, pb::ForwardingPipelineConfig::default(), switch)
}

/// Legal updates, in text, with names for the ids.
fn seeds() -> Vec<pb::Update> {
    let info = p4info();
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
    let update = |text: &str| {
        let named = names.iter().fold(text.to_string(), |text, (name, id)| text.replace(name, id));
        let entity: pb::Entity =
            p4runtime_proto::text::parse(&named).unwrap_or_else(|error| panic!("{error}: {named}"));
        pb::Update { r#type: 0, entity: Some(entity) }
    };
    include_str!("fuzz_seeds.txt").lines().map(update).collect()
}

/// Everything that can be read.
fn everything(pipeline: &Pipeline) -> Vec<pb::Entity> {
    let group = pb::packet_replication_engine_entry::Type::MulticastGroupEntry(Default::default());
    let session = pb::packet_replication_engine_entry::Type::CloneSessionEntry(Default::default());
    let entry = |default| pb::TableEntry {
        is_default_action: default,
        counter_data: Some(Default::default()),
        meter_config: Some(Default::default()),
        ..Default::default()
    };
    let wanted = [
        Entity::TableEntry(entry(false)),
        Entity::TableEntry(entry(true)),
        Entity::ActionProfileMember(Default::default()),
        Entity::ActionProfileGroup(Default::default()),
        Entity::CounterEntry(Default::default()),
        Entity::MeterEntry(Default::default()),
        Entity::RegisterEntry(Default::default()),
        Entity::ValueSetEntry(Default::default()),
        Entity::DigestEntry(Default::default()),
        Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(group) }),
        Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(session) }),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let read = |entity| {
        let request = pb::Entity { entity: Some(entity) };
        runtime.block_on(reads::read(pipeline, &request)).expect("a wildcard read is legal")
    };
    wanted.into_iter().flat_map(read).collect()
}

fn run(pipeline: &Pipeline, updates: &[pb::Update], all_or_nothing: bool) -> Vec<Outcome<()>> {
    let reader = Reader { schema: &pipeline.schema, cpu_port: 510 };
    let batch = updates.iter().map(|update| reader.read(update)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let apply =
        move |switch: &mut Switch, extras: &mut Extras| apply_batch(switch, extras, batch, all_or_nothing);
    runtime.block_on(pipeline.call(apply)).expect("a saved pipeline answers")
}

/// Which update, which verb, and which of its bytes become what.
type Step = (usize, i32, Vec<(usize, u8)>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let damage = proptest::collection::vec((any::<usize>(), any::<u8>()), 0..3);
    let damage = prop_oneof![3 => Just(Vec::new()), 1 => damage];
    proptest::collection::vec((any::<usize>(), 0i32..4, damage), 1..40)
}

/// Deletes what is not there.
fn absent() -> pb::Update {
    let group = pb::MulticastGroupEntry { multicast_group_id: 0x7777, ..Default::default() };
    let of = pb::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
    let entity = Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(of) });
    pb::Update { r#type: pb::update::Type::Delete as i32, entity: Some(pb::Entity { entity: Some(entity) }) }
}

fn damaged(seeds: &[pb::Update], steps: &[Step]) -> Vec<pb::Update> {
    let make = |(which, verb, damage): &Step| {
        let seed = pb::Update { r#type: *verb, ..seeds[which % seeds.len()].clone() };
        let mut bytes = seed.encode_to_vec();
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = *byte;
        }
        pb::Update::decode(&bytes[..]).unwrap_or(seed)
    };
    steps.iter().map(make).collect()
}

#[test]
fn the_seeds_are_legal() {
    let pipeline = pipeline(&Program::from_json(JSON).unwrap());
    let mut seeds = seeds();
    let order = |update: &pb::Update| match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
        Some(Entity::ActionProfileMember(_)) => 0,
        Some(Entity::ActionProfileGroup(_)) => 1,
        Some(Entity::TableEntry(_)) => 2,
        _ => 3,
    };
    seeds.sort_by_key(order);
    for update in seeds {
        let tried = |verb| run(&pipeline, &[pb::Update { r#type: verb, ..update.clone() }], false).remove(0);
        let (insert, modify) = (tried(1), tried(2));
        assert!(insert.is_ok() || modify.is_ok(), "{update:?}: {insert:?}, {modify:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn damaged_updates(steps in steps()) {
        let pipeline = pipeline(&Program::from_json(JSON).unwrap());
        run(&pipeline, &damaged(&seeds(), &steps), false);
        everything(&pipeline);
    }

    #[test]
    fn a_batch_that_is_taken_back_leaves_no_trace(first in steps(), second in steps()) {
        let program = Program::from_json(JSON).unwrap();
        let (pipeline, copy) = (pipeline(&program), pipeline(&program));
        let seeds = seeds();
        for pipeline in [&pipeline, &copy] {
            run(pipeline, &damaged(&seeds, &first), false);
        }
        let before = everything(&pipeline);
        // The second batch has the steps that go well one after the other, and then one that does not.
        let mut second = damaged(&seeds, &second);
        let tried = run(&copy, &second, false);
        let mut tried = tried.iter();
        second.retain(|_| tried.next().is_some_and(Result::is_ok));
        second.push(absent());
        let outcomes = run(&pipeline, &second, true);
        prop_assert!(outcomes.iter().all(Result::is_err));
        let at_fault = outcomes.iter().filter(|outcome| matches!(outcome, Err(e) if e.code != tonic::Code::Aborted));
        prop_assert_eq!(at_fault.count(), 1, "{:?}", outcomes);
        // Entries that were deleted and came back are at the end of their table.
        let after = everything(&pipeline);
        let lost: Vec<_> = before.iter().filter(|entity| !after.contains(entity)).collect();
        let left: Vec<_> = after.iter().filter(|entity| !before.contains(entity)).collect();
        prop_assert!(lost.is_empty() && left.is_empty(), "lost: {:#?}\nleft: {:#?}", lost, left);
        prop_assert_eq!(after.len(), before.len());
    }

    #[test]
    fn damaged_p4info(damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6)) {
        let program = Program::from_json(JSON).unwrap();
        let mut bytes = p4info().encode_to_vec();
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(info) = P4Info::decode(&bytes[..])
            && let Err(refusal) = agree(&info, program.info())
        {
            prop_assert!(refusal.message.contains('\''), "names no object: {}", refusal.message);
        }
    }
}
