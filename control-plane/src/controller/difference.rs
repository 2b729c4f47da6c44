//! From what the switch holds to what it is to hold, with as few writes as it takes.

use p4runtime_proto::p4::v1 as rt;
use prost::Message;
use rt::update::Type;
use std::collections::HashMap;

/// Updates that turn one list of entries into another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// New entries, in the order of the new list.
    pub inserts: Vec<rt::TableEntry>,
    /// Entries with another action, with what they were, in the order of the new list.
    pub modifies: Vec<(rt::TableEntry, rt::TableEntry)>,
    /// Entries that go, in the opposite order of the old list.
    pub deletes: Vec<rt::TableEntry>,
}

/// What tells an entry from others: table and match.
fn key(entry: &rt::TableEntry) -> Vec<u8> {
    let key = rt::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        ..Default::default()
    };
    key.encode_to_vec()
}

impl Difference {
    /// From `old` to `new`.
    pub fn between(old: Vec<rt::TableEntry>, new: Vec<rt::TableEntry>) -> Self {
        let mut had: HashMap<Vec<u8>, (usize, rt::TableEntry)> =
            old.into_iter().enumerate().map(|(at, e)| (key(&e), (at, e))).collect();
        let mut out = Difference::default();
        for entry in new {
            match had.remove(&key(&entry)) {
                None => out.inserts.push(entry),
                Some((_, before)) if before.action != entry.action => out.modifies.push((before, entry)),
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

    /// What undoes it.
    pub fn inverse(&self) -> Self {
        Difference {
            inserts: self.deletes.iter().rev().cloned().collect(),
            modifies: self.modifies.iter().rev().map(|(a, b)| (b.clone(), a.clone())).collect(),
            deletes: self.inserts.iter().rev().cloned().collect(),
        }
    }

    /// Inserts, then modifications: after these, nothing that is to go is named by anything any more.
    pub fn additions(&self) -> Vec<rt::Update> {
        let inserts = self.inserts.iter().map(|e| update(Type::Insert, e.clone()));
        inserts.chain(self.modifies.iter().map(|(_, e)| update(Type::Modify, e.clone()))).collect()
    }

    /// Deletions.
    pub fn removals(&self) -> Vec<rt::Update> {
        let bare = |e: &rt::TableEntry| rt::TableEntry { action: None, ..e.clone() };
        self.deletes.iter().map(|e| update(Type::Delete, bare(e))).collect()
    }
}

fn update(kind: Type, entry: rt::TableEntry) -> rt::Update {
    let entity = rt::Entity { entity: Some(rt::entity::Entity::TableEntry(entry)) };
    rt::Update { r#type: kind.into(), entity: Some(entity) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(table: u32, key: u8, value: Option<u8>) -> rt::TableEntry {
        rt::TableEntry {
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
        }
    }

    #[test]
    fn only_what_differs_is_written_and_the_inverse_takes_it_back() {
        let old =
            vec![entry(1, 1, Some(1)), entry(1, 2, Some(1)), entry(2, 1, Some(1)), entry(2, 2, Some(1))];
        let new = vec![entry(1, 2, Some(1)), entry(2, 2, Some(9)), entry(3, 7, Some(1))];
        let d = Difference::between(old.clone(), new.clone());
        assert_eq!(d.inserts, [entry(3, 7, Some(1))]);
        assert_eq!(d.modifies, [(entry(2, 2, Some(1)), entry(2, 2, Some(9)))]);
        assert_eq!(d.deletes, [entry(2, 1, Some(1)), entry(1, 1, Some(1))]);
        assert_eq!((d.additions().len(), d.removals().len()), (2, 2));
        assert_eq!(d.inverse().inserts, [entry(1, 1, Some(1)), entry(2, 1, Some(1))]);
        assert_eq!(d.inverse().inverse(), d);
        assert!(Difference::between(new.clone(), new).is_empty());
    }
}
