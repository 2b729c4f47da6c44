//! Reads (specification, "Read RPC"): one request may name one entity or, by leaving parts of its key out, many.

use std::collections::BTreeMap;

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;

use super::refusal::{Outcome, Refusal};
use super::target::Pipeline;
use super::updates::{no_colors, no_object, read_index};
use zsr_soft_switch::{CounterValue, DigestConfig, Group, MeterConfig};

/// Cells that one step on the switch's thread reads, so that packets don't wait for long.
const CELLS_PER_STEP: u32 = 4096;

/// The entities that one request of a Read gives.
pub(super) async fn read(pipeline: &Pipeline, request: &pb::Entity) -> Outcome<Vec<pb::Entity>> {
    let request = request.entity.as_ref().ok_or_else(|| Refusal::invalid("the request has no entity"))?;
    let entities = match request {
        Entity::TableEntry(filter) => pipeline.read_tables(filter).await?,
        Entity::DirectCounterEntry(filter) => pipeline.read_direct_counters(filter).await?,
        Entity::DirectMeterEntry(filter) => pipeline.read_direct_meters(filter).await?,
        Entity::ActionProfileMember(filter) => pipeline.read_members(filter).await?,
        Entity::ActionProfileGroup(filter) => pipeline.read_groups(filter).await?,
        Entity::CounterEntry(filter) => pipeline.read_counters(filter).await?,
        Entity::MeterEntry(filter) => pipeline.read_meters(filter).await?,
        Entity::RegisterEntry(filter) => pipeline.read_registers(filter).await?,
        Entity::PacketReplicationEngineEntry(filter) => pipeline.read_replication(filter).await?,
        Entity::ValueSetEntry(filter) => pipeline.read_value_sets(filter).await?,
        Entity::DigestEntry(filter) => pipeline.read_digests(filter).await?,
        Entity::ExternEntry(filter) if filter.extern_type_id == 0 && filter.extern_id == 0 => Vec::new(),
        Entity::ExternEntry(_) => return Err(Refusal::unimplemented("v1model has no externs of its own")),
    };
    Ok(entities.into_iter().map(|entity| pb::Entity { entity: Some(entity) }).collect())
}

/// The single cells of counters among `requests`, by their place: many of them in one step, since each step waits for
/// the switch's thread. What can't be read so is left to [`read`], which says why.
pub(super) async fn counter_cells(pipeline: &Pipeline, requests: &[pb::Entity]) -> Vec<Option<pb::Entity>> {
    let mut found = vec![None; requests.len()];
    let wanted = requests.iter().enumerate().filter_map(|(place, request)| {
        let Some(Entity::CounterEntry(filter)) = &request.entity else { return None };
        let of = pipeline.schema.counters.get(&filter.counter_id)?;
        let cell = read_index(filter.index.as_ref(), of.size).ok()??;
        Some((place, filter.counter_id, of.engine, cell))
    });
    let wanted: Vec<_> = wanted.collect();
    for step in wanted.chunks(CELLS_PER_STEP as usize) {
        let cells: Vec<_> = step.iter().map(|&(_, _, counter, cell)| (counter, cell as usize)).collect();
        let values = pipeline.call(move |switch, _| {
            cells
                .into_iter()
                .map(|(counter, cell)| switch.counter_read(counter, cell).ok())
                .collect::<Vec<_>>()
        });
        let Ok(values) = values.await else { return found };
        for (&(place, counter_id, _, cell), value) in step.iter().zip(values) {
            found[place] = value.map(|value| {
                let data = Some(write_counter(value));
                let entry = pb::CounterEntry { counter_id, index: index(cell), data };
                pb::Entity { entity: Some(Entity::CounterEntry(entry)) }
            });
        }
    }
    found
}

/// Objects that an id names: all of them for 0.
pub(super) fn select<'a, T>(
    objects: &'a BTreeMap<u32, T>,
    id: u32,
    kind: &str,
) -> Outcome<Vec<(u32, &'a T)>> {
    if id == 0 {
        return Ok(objects.iter().map(|(id, object)| (*id, object)).collect());
    }
    let object = objects.get(&id).ok_or_else(|| no_object(kind, id))?;
    Ok(vec![(id, object)])
}

/// Nothing but the id may be chosen from among all objects.
fn no_cell_of_all(id: u32, cell: bool, what: &str) -> Outcome<()> {
    if id == 0 && cell {
        Err(Refusal::invalid(format!("{what} needs an object's id with it")))
    } else {
        Ok(())
    }
}

fn steps(index: Option<u32>, size: u32) -> impl Iterator<Item = std::ops::Range<u32>> {
    let all = match index {
        Some(index) => index..index.saturating_add(1),
        None => 0..size,
    };
    let end = all.end;
    all.step_by(CELLS_PER_STEP as usize).map(move |from| from..end.min(from.saturating_add(CELLS_PER_STEP)))
}

fn index(cell: u32) -> Option<pb::Index> {
    Some(pb::Index { index: i64::from(cell) })
}

/// Counts beyond what P4Runtime can say stay at its largest.
pub(super) fn write_counter(value: CounterValue) -> pb::CounterData {
    pb::CounterData {
        byte_count: i64::try_from(value.bytes).unwrap_or(i64::MAX),
        packet_count: i64::try_from(value.packets).unwrap_or(i64::MAX),
    }
}

pub(super) fn write_meter(config: MeterConfig) -> pb::MeterConfig {
    let number = |value| i64::try_from(value).unwrap_or(i64::MAX);
    pb::MeterConfig {
        cir: number(config.cir),
        cburst: number(config.cburst),
        pir: number(config.pir),
        pburst: number(config.pburst),
        eburst: 0,
    }
}

impl Pipeline {
    async fn read_counters(&self, filter: &pb::CounterEntry) -> Outcome<Vec<Entity>> {
        no_cell_of_all(filter.counter_id, filter.index.is_some(), "an index")?;
        let mut entities = Vec::new();
        for (id, of) in select(&self.schema.counters, filter.counter_id, "counter")? {
            let (counter, cell) = (of.engine, read_index(filter.index.as_ref(), of.size)?);
            for step in steps(cell, of.size) {
                let cells = step.clone();
                let values = self.call(move |switch, _| {
                    cells
                        .map(|cell| switch.counter_read(counter, cell as usize))
                        .collect::<Result<Vec<_>, _>>()
                });
                let values = step.zip(values.await??);
                entities.extend(values.map(|(cell, value)| {
                    let data = Some(write_counter(value));
                    Entity::CounterEntry(pb::CounterEntry { counter_id: id, index: index(cell), data })
                }));
            }
        }
        Ok(entities)
    }

    async fn read_meters(&self, filter: &pb::MeterEntry) -> Outcome<Vec<Entity>> {
        no_cell_of_all(filter.meter_id, filter.index.is_some(), "an index")?;
        no_colors(filter.counter_data.as_ref())?;
        let mut entities = Vec::new();
        for (id, of) in select(&self.schema.meters, filter.meter_id, "meter")? {
            let (meter, cell) = (of.engine, read_index(filter.index.as_ref(), of.size)?);
            for step in steps(cell, of.size) {
                let cells = step.clone();
                let values = self.call(move |switch, _| {
                    cells.map(|cell| switch.meter_read(meter, cell as usize)).collect::<Result<Vec<_>, _>>()
                });
                let values = step.zip(values.await??);
                entities.extend(values.map(|(cell, config)| {
                    let config = config.map(write_meter);
                    Entity::MeterEntry(pb::MeterEntry {
                        meter_id: id,
                        index: index(cell),
                        config,
                        counter_data: None,
                    })
                }));
            }
        }
        Ok(entities)
    }

    async fn read_registers(&self, filter: &pb::RegisterEntry) -> Outcome<Vec<Entity>> {
        no_cell_of_all(filter.register_id, filter.index.is_some(), "an index")?;
        let mut entities = Vec::new();
        for (id, of) in select(&self.schema.registers, filter.register_id, "register")? {
            let (register, cell) = (of.engine, read_index(filter.index.as_ref(), of.size)?);
            for step in steps(cell, of.size) {
                let cells = step.clone();
                let values = self.call(move |switch, _| {
                    cells
                        .map(|cell| switch.register_read(register, cell as usize))
                        .collect::<Result<Vec<_>, _>>()
                });
                let values = step.zip(values.await??);
                entities.extend(values.map(|(cell, value)| {
                    let data = Some(of.data.fold(&mut std::iter::once(value)));
                    Entity::RegisterEntry(pb::RegisterEntry { register_id: id, index: index(cell), data })
                }));
            }
        }
        Ok(entities)
    }

    async fn read_members(&self, filter: &pb::ActionProfileMember) -> Outcome<Vec<Entity>> {
        let (profile_id, member_id) = (filter.action_profile_id, filter.member_id);
        no_cell_of_all(profile_id, member_id != 0, "a member_id")?;
        let mut entities = Vec::new();
        for (id, of) in select(&self.schema.profiles, profile_id, "action profile")? {
            let profile = of.engine;
            let members = self.call(move |switch, _| switch.members(profile)).await??;
            let members = members.into_iter().filter(|(member, _)| member_id == 0 || member_id == *member);
            entities.extend(members.map(|(member_id, call)| {
                let action = Some(self.schema.write_action(&call));
                Entity::ActionProfileMember(pb::ActionProfileMember {
                    action_profile_id: id,
                    member_id,
                    action,
                })
            }));
        }
        Ok(entities)
    }

    async fn read_groups(&self, filter: &pb::ActionProfileGroup) -> Outcome<Vec<Entity>> {
        let (profile_id, group_id) = (filter.action_profile_id, filter.group_id);
        no_cell_of_all(profile_id, group_id != 0, "a group_id")?;
        let mut entities = Vec::new();
        for (id, of) in select(&self.schema.profiles, profile_id, "action profile")? {
            if !of.selector {
                if profile_id != 0 {
                    return Err(Refusal::invalid("it has no selector"));
                }
                continue;
            }
            let profile = of.engine;
            let groups = self.call(move |switch, _| switch.groups(profile)).await??;
            let groups = groups.into_iter().filter(|(group, _)| group_id == 0 || group_id == *group);
            entities.extend(groups.map(|(group_id, group)| {
                Entity::ActionProfileGroup(write_group(id, group_id, &group, of.weights_disallowed))
            }));
        }
        Ok(entities)
    }

    async fn read_replication(&self, filter: &pb::PacketReplicationEngineEntry) -> Outcome<Vec<Entity>> {
        use pb::packet_replication_engine_entry::Type;
        let wanted = match &filter.r#type {
            Some(Type::MulticastGroupEntry(group)) => (true, group.multicast_group_id),
            Some(Type::CloneSessionEntry(session)) => (false, session.session_id),
            None => {
                return Err(Refusal::invalid("the entry is neither a multicast group nor a clone session"));
            }
        };
        let entries = self.call(move |_, extras| match wanted {
            (true, id) => {
                let groups =
                    extras.multicast.values().filter(|group| id == 0 || id == group.multicast_group_id);
                groups.map(|group| Type::MulticastGroupEntry(group.clone())).collect::<Vec<_>>()
            }
            (false, id) => {
                let sessions = extras.clones.values().filter(|session| id == 0 || id == session.session_id);
                sessions.map(|session| Type::CloneSessionEntry(session.clone())).collect()
            }
        });
        let entity =
            |of| Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(of) });
        Ok(entries.await?.into_iter().map(entity).collect())
    }

    async fn read_value_sets(&self, filter: &pb::ValueSetEntry) -> Outcome<Vec<Entity>> {
        let mut entities = Vec::new();
        for (id, of) in select(&self.schema.value_sets, filter.value_set_id, "value set")? {
            let set = of.engine;
            let members = self.call(move |switch, _| switch.value_set(set)).await??;
            let members = members
                .iter()
                .map(|key| pb::ValueSetMember { r#match: super::keys::write_member(&of.fields, key) })
                .collect();
            entities.push(Entity::ValueSetEntry(pb::ValueSetEntry { value_set_id: id, members }));
        }
        Ok(entities)
    }

    async fn read_digests(&self, filter: &pb::DigestEntry) -> Outcome<Vec<Entity>> {
        let mut entities = Vec::new();
        for (id, of) in select(&self.schema.digests, filter.digest_id, "digest")? {
            let digest = of.engine;
            if let Some(config) = self.call(move |switch, _| switch.digest(digest)).await?? {
                let config = Some(write_digest_config(config));
                entities.push(Entity::DigestEntry(pb::DigestEntry { digest_id: id, config }));
            }
        }
        Ok(entities)
    }
}

fn write_digest_config(config: DigestConfig) -> pb::digest_entry::Config {
    pb::digest_entry::Config {
        max_timeout_ns: i64::try_from(config.max_timeout_ns).unwrap_or(i64::MAX),
        max_list_size: i32::try_from(config.max_list_size).unwrap_or(i32::MAX),
        ack_timeout_ns: i64::try_from(config.ack_timeout_ns).unwrap_or(i64::MAX),
    }
}

fn write_group(profile: u32, id: u32, group: &Group, no_weights: bool) -> pb::ActionProfileGroup {
    use pb::action_profile_group::member::WatchKind;
    let members = group.members.iter().map(|member| pb::action_profile_group::Member {
        member_id: member.member,
        weight: if no_weights { 0 } else { i32::try_from(member.weight).unwrap_or(i32::MAX) },
        watch_kind: member.watch_port.map(|port| WatchKind::WatchPort(super::ports::write(port))),
    });
    pb::ActionProfileGroup {
        action_profile_id: profile,
        group_id: id,
        members: members.collect(),
        max_size: i32::try_from(group.max_size).unwrap_or(i32::MAX),
    }
}
