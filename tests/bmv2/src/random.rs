//! Random entries that a program's P4Info allows, and random packets, from a seed.

use p4runtime_proto::p4::config::v1::{self as p4, P4Info, match_field::MatchType};
use p4runtime_proto::p4::v1 as rt;
use rt::entity::Entity;
use rt::field_match::FieldMatchType;
use rt::packet_replication_engine_entry::Type as Replication;
use rt::update::Type;
use zsr_simnet::Rng;

use crate::script::{Step, canonical, replicas, update};
use crate::stf::{has_priority, replicate};

/// Entries that are tried for each table.
const ENTRIES: usize = 4;
/// Ports that packets come in through and actions send them to: few, so that things meet.
const PORTS: u64 = 8;
/// Longest packet made from nothing, in bytes.
const LENGTH: u64 = 160;

/// A value of `bits` bits: often small, since programs compare with small numbers.
fn value(rng: &mut Rng, bits: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..bits.div_ceil(8)).map(|_| rng.bits() as u8).collect();
    if let Some(first) = bytes.first_mut() {
        *first &= 0xff >> (bits.div_ceil(8) * 8 - bits);
    }
    if rng.chance(0.6)
        && let Some((last, rest)) = bytes.split_last_mut()
    {
        rest.fill(0);
        *last &= 0x07;
    }
    bytes
}

fn field(rng: &mut Rng, key: &p4::MatchField) -> Option<FieldMatchType> {
    let bits = key.bitwidth as u32;
    let Some(p4::match_field::Match::MatchType(kind)) = key.r#match else { return None };
    let bytes = match (bits, &key.type_name) {
        (0, Some(_)) => vec![b'0' + rng.below(8) as u8],
        (_, Some(_)) => prefix(bits, bits).iter().map(|_| 0).chain([rng.below(8) as u8]).skip(1).collect(),
        (_, None) => value(rng, bits),
    };
    Some(match MatchType::try_from(kind).ok()? {
        MatchType::Exact => FieldMatchType::Exact(rt::field_match::Exact { value: canonical(&bytes) }),
        MatchType::Lpm => {
            let prefix_len = rng.below(u64::from(bits) + 1) as u32;
            if prefix_len == 0 {
                return None;
            }
            let mask = prefix(bits, prefix_len);
            let value = canonical(&and(&bytes, &mask));
            FieldMatchType::Lpm(rt::field_match::Lpm { value, prefix_len: prefix_len as i32 })
        }
        MatchType::Ternary => {
            let mask = if rng.chance(0.5) { prefix(bits, bits) } else { value(rng, bits) };
            if mask.iter().all(|b| *b == 0) {
                return None;
            }
            let value = canonical(&and(&bytes, &mask));
            FieldMatchType::Ternary(rt::field_match::Ternary { value, mask: canonical(&mask) })
        }
        MatchType::Range => {
            let other = value(rng, bits);
            let (low, high) = if bytes <= other { (bytes, other) } else { (other, bytes) };
            if low.iter().all(|b| *b == 0) && high == prefix(bits, bits) {
                return None;
            }
            FieldMatchType::Range(rt::field_match::Range { low: canonical(&low), high: canonical(&high) })
        }
        MatchType::Optional => {
            if rng.chance(0.3) {
                return None;
            }
            FieldMatchType::Optional(rt::field_match::Optional { value: canonical(&bytes) })
        }
        MatchType::Unspecified => return None,
    })
}

/// The mask of the first `len` bits of `bits`.
pub fn prefix(bits: u32, len: u32) -> Vec<u8> {
    let bytes = bits.div_ceil(8);
    let pad = bytes * 8 - bits;
    let set = |at: u32| at >= pad && at < pad + len;
    (0..bytes).map(|i| (0..8).fold(0, |b, j| b << 1 | u8::from(set(i * 8 + j)))).collect()
}

fn and(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a & b).collect()
}

fn action(rng: &mut Rng, info: &P4Info, table: &p4::Table, default: bool) -> Option<rt::Action> {
    let forbidden =
        if default { p4::action_ref::Scope::TableOnly } else { p4::action_ref::Scope::DefaultOnly };
    let refs: Vec<_> = table.action_refs.iter().filter(|r| r.scope != forbidden as i32).collect();
    let chosen = refs.get(rng.below(refs.len() as u64) as usize)?;
    let is = |a: &&p4::Action| a.preamble.as_ref().is_some_and(|p| p.id == chosen.id);
    let action = info.actions.iter().find(is)?;
    let param = |p: &p4::action::Param| rt::action::Param {
        param_id: p.id,
        // A parameter of nine bits is most likely a port.
        value: match (p.bitwidth, &p.type_name) {
            (9, _) => vec![rng.below(PORTS) as u8],
            // Of a translated type: it may be narrower in the data plane, or a number in digits.
            (0, Some(_)) => vec![b'0' + rng.below(8) as u8],
            (_, Some(_)) => vec![rng.below(8) as u8],
            (bits, None) => canonical(&value(rng, bits as u32)),
        },
    };
    Some(rt::Action { action_id: chosen.id, params: action.params.iter().map(param).collect() })
}

/// Entries for every table that takes any, and default actions: one Write each, so that one that is refused (a duplicate,
/// a full table) does not stand in the way of others.
pub fn entries(rng: &mut Rng, info: &P4Info) -> Vec<Step> {
    let mut steps = Vec::new();
    for table in info.tables.iter().filter(|t| !t.is_const_table) {
        let table_id = table.preamble.as_ref().map_or(0, |p| p.id);
        if table.const_default_action_id == 0
            && table.implementation_id == 0
            && rng.chance(0.5)
            && let Some(action) = action(rng, info, table, true)
        {
            let entry = rt::TableEntry {
                table_id,
                action: Some(rt::TableAction { r#type: Some(rt::table_action::Type::Action(action)) }),
                is_default_action: true,
                ..Default::default()
            };
            steps.push(Step::Write(vec![update(Type::Modify, Entity::TableEntry(entry))]));
        }
        for n in 0..ENTRIES {
            let Some(one) = action(rng, info, table, false).filter(|_| !table.match_fields.is_empty()) else {
                break;
            };
            let kind = match table.implementation_id {
                0 => rt::table_action::Type::Action(one),
                profile => {
                    let with_selector = info.action_profiles.iter().any(|p| {
                        p.with_selector && p.preamble.as_ref().is_some_and(|preamble| preamble.id == profile)
                    });
                    if !with_selector {
                        break;
                    }
                    // Groups of one, since which member a packet gets is the switch's choice.
                    let member =
                        rt::ActionProfileAction { action: Some(one), weight: 1, ..Default::default() };
                    let set = rt::ActionProfileActionSet {
                        action_profile_actions: vec![member],
                        ..Default::default()
                    };
                    rt::table_action::Type::ActionProfileActionSet(set)
                }
            };
            let fields = table.match_fields.iter().filter_map(|k| {
                let kind = field(rng, k)?;
                Some(rt::FieldMatch { field_id: k.id, field_match_type: Some(kind) })
            });
            let entry = rt::TableEntry {
                table_id,
                r#match: fields.collect(),
                action: Some(rt::TableAction { r#type: Some(kind) }),
                // Different ones: which of two equals wins is the switch's choice.
                priority: if has_priority(table) { 10 * n as i32 + 1 + rng.below(9) as i32 } else { 0 },
                ..Default::default()
            };
            steps.push(Step::Write(vec![update(Type::Insert, Entity::TableEntry(entry))]));
        }
    }
    steps
}

/// A few multicast groups and clone sessions, for actions that name them. Not with port 0, which bmv2 refuses.
pub fn replication(rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    for id in 1..6 {
        let ports = (0..=id % 3).map(|i| (1 + (rng.below(PORTS) as u32 + i * 3) % 9, i + 1));
        let group = rt::MulticastGroupEntry {
            multicast_group_id: id,
            replicas: replicas(ports),
            ..Default::default()
        };
        steps.push(replicate(Type::Insert, Replication::MulticastGroupEntry(group)));
        let session = rt::CloneSessionEntry {
            session_id: id,
            replicas: replicas([(1 + rng.below(PORTS) as u32, 1)]),
            ..Default::default()
        };
        steps.push(replicate(Type::Insert, Replication::CloneSessionEntry(session)));
    }
    steps
}

/// A packet: one of `known` with damage, or bytes from nothing.
pub fn packet(rng: &mut Rng, known: &[Vec<u8>]) -> Step {
    let port = rng.below(PORTS) as u16;
    let mut bytes = match known.get(rng.below(known.len() as u64) as usize) {
        Some(one) if rng.chance(0.85) => one.clone(),
        _ => (0..=rng.below(LENGTH)).map(|_| rng.bits() as u8).collect(),
    };
    if rng.chance(0.2) {
        bytes.truncate(1 + rng.below(bytes.len() as u64) as usize);
    }
    if rng.chance(0.2) {
        bytes.extend((0..rng.below(40)).map(|_| rng.bits() as u8));
    }
    for _ in 0..rng.below(4) {
        let at = rng.below(bytes.len() as u64) as usize;
        match bytes.get_mut(at) {
            Some(byte) if rng.chance(0.5) => *byte = rng.bits() as u8,
            Some(byte) => *byte ^= 1 << rng.below(8),
            None => {}
        }
    }
    Step::Packet { port, bytes }
}
