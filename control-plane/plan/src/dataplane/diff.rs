//! From the entries that the switch holds to those that it should hold, with as few writes as possible.

use p4runtime_proto::p4::v1 as rt;
use prost::Message;
use rt::entity::Entity;
use rt::packet_replication_engine_entry::Type as Replication;
use rt::update::Type;
use std::collections::HashMap;

/// Updates that turn one list of table entries and multicast groups into another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// New entries, in the order of the new list.
    pub inserts: Vec<rt::Entity>,
    /// Entries with another action or other replicas, with their old values, in the order of the new list.
    pub modifies: Vec<(rt::Entity, rt::Entity)>,
    /// Entries that go, in the opposite order of the old list.
    pub deletes: Vec<rt::Entity>,
}

/// The identity of an entry or group: the entity without its content.
fn name_of(entity: &rt::Entity) -> rt::Entity {
    let bare = match &entity.entity {
        Some(Entity::TableEntry(e)) => Some(Entity::TableEntry(rt::TableEntry {
            table_id: e.table_id,
            r#match: e.r#match.clone(),
            priority: e.priority,
            ..Default::default()
        })),
        Some(Entity::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry {
            r#type: Some(Replication::MulticastGroupEntry(g)),
        })) => {
            let bare =
                rt::MulticastGroupEntry { multicast_group_id: g.multicast_group_id, ..Default::default() };
            let r#type = Some(Replication::MulticastGroupEntry(bare));
            Some(Entity::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type }))
        }
        Some(Entity::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry {
            r#type: Some(Replication::CloneSessionEntry(s)),
        })) => {
            let bare = rt::CloneSessionEntry { session_id: s.session_id, ..Default::default() };
            let r#type = Some(Replication::CloneSessionEntry(bare));
            Some(Entity::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type }))
        }
        other => other.clone(),
    };
    rt::Entity { entity: bare }
}

/// Whether two entities of one identity have the same content. Values that a switch adds when it is read (counters,
/// times) do not count.
fn same(one: &rt::Entity, other: &rt::Entity) -> bool {
    match (&one.entity, &other.entity) {
        (Some(Entity::TableEntry(a)), Some(Entity::TableEntry(b))) => a.action == b.action,
        (a, b) => a == b,
    }
}

impl Diff {
    /// The updates that turn `old` into `new`.
    pub fn between(old: Vec<rt::Entity>, new: Vec<rt::Entity>) -> Self {
        let mut had: HashMap<Vec<u8>, (usize, rt::Entity)> =
            old.into_iter().enumerate().map(|(at, e)| (name_of(&e).encode_to_vec(), (at, e))).collect();
        let mut out = Diff::default();
        for entity in new {
            match had.remove(&name_of(&entity).encode_to_vec()) {
                None => out.inserts.push(entity),
                Some((_, before)) if !same(&before, &entity) => out.modifies.push((before, entity)),
                Some(_) => {}
            }
        }
        let mut gone: Vec<_> = had.into_values().collect();
        gone.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        out.deletes = gone.into_iter().map(|(_, e)| e).collect();
        out
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.inserts.is_empty() && self.modifies.is_empty() && self.deletes.is_empty()
    }

    /// The updates that take this difference back.
    pub fn inverse(&self) -> Self {
        Diff {
            inserts: self.deletes.iter().rev().cloned().collect(),
            modifies: self.modifies.iter().rev().map(|(a, b)| (b.clone(), a.clone())).collect(),
            deletes: self.inserts.iter().rev().cloned().collect(),
        }
    }

    /// Inserts, then modifications: after these, no entry refers to an entry that is to go.
    pub fn additions(&self) -> Vec<rt::Update> {
        let inserts = self.inserts.iter().map(|e| update(Type::Insert, e.clone()));
        inserts.chain(self.modifies.iter().map(|(_, e)| update(Type::Modify, e.clone()))).collect()
    }

    /// Deletions.
    pub fn removals(&self) -> Vec<rt::Update> {
        self.deletes.iter().map(|e| update(Type::Delete, name_of(e))).collect()
    }
}

fn update(kind: Type, entity: rt::Entity) -> rt::Update {
    rt::Update { r#type: kind.into(), entity: Some(entity) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(table: u32, key: u8, value: Option<u8>) -> rt::Entity {
        let entry = rt::TableEntry {
            table_id: table,
            r#match: vec![rt::FieldMatch {
                field_id: 1,
                field_match_type: Some(rt::field_match::FieldMatchType::Exact(rt::field_match::Exact {
                    value: vec![key],
                })),
            }],
            action: value.map(|v| rt::TableAction {
                r#type: Some(rt::table_action::Type::Action(rt::Action {
                    action_id: v.into(),
                    params: vec![],
                })),
            }),
            ..Default::default()
        };
        rt::Entity { entity: Some(Entity::TableEntry(entry)) }
    }

    fn group(id: u32, replicas: &[u32]) -> rt::Entity {
        super::super::flow::replication(super::super::group(id, replicas.iter().map(|r| (1, *r))))
    }

    #[test]
    fn groups_are_told_apart_by_their_number() {
        let d = Diff::between(
            vec![group(1, &[1]), group(2, &[1]), group(3, &[1])],
            vec![group(2, &[1]), group(3, &[1, 2])],
        );
        assert_eq!((d.inserts.len(), d.modifies.len(), d.deletes.len()), (0, 1, 1));
        assert_eq!(d.removals()[0].entity, Some(group(1, &[])));
    }

    #[test]
    fn only_what_differs_is_written_and_the_inverse_takes_it_back() {
        let old =
            vec![entry(1, 1, Some(1)), entry(1, 2, Some(1)), entry(2, 1, Some(1)), entry(2, 2, Some(1))];
        let new = vec![entry(1, 2, Some(1)), entry(2, 2, Some(9)), entry(3, 7, Some(1))];
        let d = Diff::between(old.clone(), new.clone());
        assert_eq!(d.inserts, [entry(3, 7, Some(1))]);
        assert_eq!(d.modifies, [(entry(2, 2, Some(1)), entry(2, 2, Some(9)))]);
        assert_eq!(d.deletes, [entry(2, 1, Some(1)), entry(1, 1, Some(1))]);
        assert_eq!((d.additions().len(), d.removals().len()), (2, 2));
        assert_eq!(d.inverse().inserts, [entry(1, 1, Some(1)), entry(2, 1, Some(1))]);
        assert_eq!(d.inverse().inverse(), d);
        assert!(Diff::between(new.clone(), new).is_empty());
    }
}
