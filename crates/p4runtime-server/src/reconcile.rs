//! RECONCILE_AND_COMMIT: the content of the running pipeline, written again to the new one. Changes by packets to
//! counters and registers between the copy and the swap are lost; controllers can't write in between.

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;

use super::apply::apply_batch;
use super::reads;
use super::refusal::{Outcome, Refusal};
use super::target::Pipeline;
use super::updates::Reader;

fn update(kind: pb::update::Type, entity: Entity) -> pb::Update {
    pb::Update { r#type: kind as i32, entity: Some(pb::Entity { entity: Some(entity) }) }
}

async fn all(pipeline: &Pipeline, entity: Entity) -> Outcome<impl Iterator<Item = Entity> + use<>> {
    let entities = reads::read(pipeline, &pb::Entity { entity: Some(entity) }).await?;
    Ok(entities.into_iter().filter_map(|entity| entity.entity))
}

/// Writes everything that was written to `from` to `to` as well.
///
/// # Errors
/// INVALID_ARGUMENT if `to` can't take it; `to` is then of no use any more.
pub(super) async fn carry_over(from: &Pipeline, to: &Pipeline, cpu_port: u16) -> Outcome<()> {
    use pb::update::Type::{Delete, Insert, Modify};
    // Entries that the new program brings along give way to those that are there now.
    let fresh = all(to, Entity::TableEntry(pb::TableEntry::default())).await?;
    let mut steps =
        vec![fresh.filter(|entity| !is_const(entity)).map(|entity| update(Delete, entity)).collect()];
    for entity in [
        Entity::ActionProfileMember(Default::default()),
        Entity::ActionProfileGroup(Default::default()),
        Entity::PacketReplicationEngineEntry(multicast()),
        Entity::PacketReplicationEngineEntry(clones()),
        Entity::DigestEntry(Default::default()),
        Entity::TableEntry(pb::TableEntry {
            counter_data: Some(Default::default()),
            meter_config: Some(Default::default()),
            ..Default::default()
        }),
    ] {
        let entities = all(from, entity).await?.filter(|entity| !is_const(entity));
        steps.push(entities.map(|entity| update(Insert, entity)).collect::<Vec<_>>());
    }
    for entity in [
        Entity::CounterEntry(Default::default()),
        Entity::MeterEntry(Default::default()),
        Entity::RegisterEntry(Default::default()),
        Entity::ValueSetEntry(Default::default()),
    ] {
        let entities = all(from, entity).await?.filter(|entity| !is_untouched(entity));
        steps.push(entities.map(|entity| update(Modify, entity)).collect());
    }
    let defaults = pb::TableEntry {
        is_default_action: true,
        counter_data: Some(Default::default()),
        meter_config: Some(Default::default()),
        ..Default::default()
    };
    let defaults = all(from, Entity::TableEntry(defaults)).await?;
    steps.push(defaults.filter(|entity| changed_default(from, entity)).map(|e| update(Modify, e)).collect());

    let reader = Reader { schema: &to.schema, cpu_port };
    for step in steps {
        let batch: Vec<_> = step.iter().map(|update| reader.read(update)).collect();
        let mut outcomes = to.call(move |switch, extras| apply_batch(switch, extras, batch, false)).await?;
        reader.name(&step, &mut outcomes);
        if let Some(refusal) = outcomes.into_iter().find_map(Result::err) {
            return Err(Refusal::invalid(format!(
                "the new pipeline can't keep the present state: {}",
                refusal.message
            )));
        }
    }
    Ok(())
}

fn multicast() -> pb::PacketReplicationEngineEntry {
    let group = pb::packet_replication_engine_entry::Type::MulticastGroupEntry(Default::default());
    pb::PacketReplicationEngineEntry { r#type: Some(group) }
}

fn clones() -> pb::PacketReplicationEngineEntry {
    let session = pb::packet_replication_engine_entry::Type::CloneSessionEntry(Default::default());
    pb::PacketReplicationEngineEntry { r#type: Some(session) }
}

fn is_const(entity: &Entity) -> bool {
    matches!(entity, Entity::TableEntry(entry) if entry.is_const)
}

/// Cells as they are in a fresh program.
fn is_untouched(entity: &Entity) -> bool {
    match entity {
        Entity::CounterEntry(entry) => entry.data == Some(pb::CounterData::default()),
        Entity::MeterEntry(entry) => entry.config.is_none(),
        Entity::RegisterEntry(entry) => match entry.data.as_ref().and_then(|data| data.data.as_ref()) {
            Some(pb::p4_data::Data::Bitstring(bits) | pb::p4_data::Data::EnumValue(bits)) => *bits == [0],
            Some(pb::p4_data::Data::Bool(value)) => !value,
            _ => true,
        },
        Entity::ValueSetEntry(entry) => entry.members.is_empty(),
        _ => false,
    }
}

/// Whether a default entry is another than the program's own.
fn changed_default(from: &Pipeline, entity: &Entity) -> bool {
    let Entity::TableEntry(entry) = entity else { return false };
    let Some(table) = from.schema.tables.get(&entry.table_id) else { return false };
    if entry.is_const || table.profile.is_some() {
        return false;
    }
    let counted = entry.counter_data.is_some_and(|data| data != pb::CounterData::default());
    let action = entry.action.as_ref().and_then(|action| action.r#type.as_ref());
    let now = match action {
        Some(pb::table_action::Type::Action(action)) => Some(action),
        _ => None,
    };
    counted
        || entry.meter_config.is_some()
        || !entry.metadata.is_empty()
        || now != table.initial_default.as_ref()
}
