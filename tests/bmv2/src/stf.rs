//! p4c's packet tests (STF) as scripts. What they expect is not read: the other switch is the judge.

use std::collections::HashMap;

use p4runtime_proto::p4::config::v1::{self as p4, P4Info, match_field::MatchType};
use p4runtime_proto::p4::v1 as rt;
use rt::entity::Entity;
use rt::field_match::FieldMatchType;
use rt::packet_replication_engine_entry::Type as Replication;
use rt::update::Type;

use crate::script::{Step, canonical, replicas, update};

/// The steps of a test. `Err` names the line that is not understood.
pub fn steps(info: &P4Info, stf: &str) -> Result<Vec<Step>, String> {
    let mut reader = Reader { info, nodes: Vec::new(), groups: HashMap::new() };
    let mut steps = Vec::new();
    for (i, line) in stf.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let step = reader.line(line).map_err(|e| format!("line {}: {line}: {e}", i + 1))?;
            steps.extend(step);
        }
    }
    Ok(steps)
}

struct Reader<'i> {
    info: &'i P4Info,
    nodes: Vec<Vec<(u32, u32)>>,
    groups: HashMap<u32, Vec<(u32, u32)>>,
}

fn number(text: &str) -> Result<u64, String> {
    let parse = |digits: &str, radix| u64::from_str_radix(digits, radix).map_err(|e| format!("{text}: {e}"));
    match text.get(..2) {
        Some("0x" | "0X") => parse(&text[2..], 16),
        Some("0b" | "0B") => parse(&text[2..], 2),
        Some("0o") => parse(&text[2..], 8),
        _ => parse(text, 10),
    }
}

fn number32(text: &str) -> Result<u32, String> {
    u32::try_from(number(text)?).map_err(|e| format!("{text}: {e}"))
}

/// Value and mask of a constant, in which `*` is a digit that does not matter.
fn ternary(text: &str, bits: u32) -> Result<(Vec<u8>, Vec<u8>), String> {
    let (digits, per_digit) = match text.get(..2) {
        Some("0x" | "0X") => (text[2..].to_string(), 4),
        Some("0b" | "0B") => (text[2..].to_string(), 1),
        _ => (format!("{:x}", number(text)?), 4),
    };
    let width = (bits as usize).max(digits.len() * per_digit);
    let (mut value, mut mask) = (vec![0; width.div_ceil(8)], vec![0; width.div_ceil(8)]);
    // What is not written is zero, and matters.
    let mut set = |at: usize, v: u32, m: u32| {
        let byte = value.len() - 1 - at / 8;
        value[byte] |= ((v & 1) << (at % 8)) as u8;
        mask[byte] |= ((m & 1) << (at % 8)) as u8;
    };
    for (i, c) in digits.chars().rev().enumerate() {
        let wild = c == '*';
        let v =
            if wild { 0 } else { c.to_digit(1 << per_digit).ok_or_else(|| format!("{text}: bad digit"))? };
        (0..per_digit).for_each(|b| set(i * per_digit + b, v >> b, u32::from(!wild)));
    }
    (digits.len() * per_digit..width).for_each(|at| set(at, 0, 1));
    // A mask has no bits beyond the field.
    let excess = (mask.len() * 8).saturating_sub(bits as usize);
    for at in 0..excess {
        mask[at / 8] &= !(0x80 >> (at % 8));
    }
    Ok((canonical(&value), canonical(&mask)))
}

/// The one item whose name is `name` or ends in it.
fn suffix<'a, T>(list: &'a [T], name: &str, of: impl Fn(&T) -> &str) -> Result<&'a T, String> {
    if let Some(item) = list.iter().find(|x| of(x) == name) {
        return Ok(item);
    }
    let hits: Vec<&T> = list.iter().filter(|x| of(x).ends_with(name)).collect();
    match hits[..] {
        [one] => Ok(one),
        _ => Err(format!("'{name}' names {} objects", hits.len())),
    }
}

fn key<'a>(keys: &'a [p4::MatchField], name: &str) -> Result<&'a p4::MatchField, String> {
    // Stack indices are written with a dollar sign.
    let mut plain = name.to_string();
    if let Some(at) = plain.find('$')
        && plain[at + 1..].starts_with(|c: char| c.is_ascii_digit())
    {
        let end = plain[at + 1..].find(|c: char| !c.is_ascii_digit()).map_or(plain.len(), |e| at + 1 + e);
        plain = format!("{}[{}]{}", &plain[..at], &plain[at + 1..end], &plain[end..]);
    }
    let exact = [plain.clone(), format!("{plain}$"), format!("{plain}.$valid$")];
    match keys.iter().find(|k| exact.contains(&k.name)) {
        Some(key) => Ok(key),
        None => suffix(keys, &format!(".{plain}"), |k| &k.name),
    }
}

impl Reader<'_> {
    fn line(&mut self, line: &str) -> Result<Option<Step>, String> {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let arg = |i: usize| words.get(i).copied().ok_or("too few arguments".to_string());
        Ok(match command.to_lowercase().as_str() {
            "packet" => {
                let hex = words.get(1..).unwrap_or_default().concat();
                let byte = |i| hex.get(i..i + 2).and_then(|d| u8::from_str_radix(d, 16).ok());
                let bytes = (0..hex.len() / 2 * 2).step_by(2).map(byte).collect::<Option<Vec<u8>>>();
                Some(Step::Packet { port: number(arg(0)?)? as u16, bytes: bytes.ok_or("not hexadecimal")? })
            }
            "expect" | "no_packet" | "wait" => None,
            "add" => Some(self.add(rest)?),
            "setdefault" => {
                let (table, action) = rest.split_once(char::is_whitespace).ok_or("too few arguments")?;
                let table = self.table(table)?;
                let entry = rt::TableEntry {
                    table_id: table.preamble.as_ref().map_or(0, |p| p.id),
                    action: Some(self.action(table, action)?),
                    is_default_action: true,
                    ..Default::default()
                };
                Some(Step::Write(vec![update(Type::Modify, Entity::TableEntry(entry))]))
            }
            "mirroring_add" => {
                let session = rt::CloneSessionEntry {
                    session_id: number32(arg(0)?)?,
                    replicas: replicas([(number32(arg(1)?)?, 1)]),
                    ..Default::default()
                };
                Some(replicate(Type::Insert, Replication::CloneSessionEntry(session)))
            }
            "mc_mgrp_create" => {
                let id = number32(arg(0)?)?;
                self.groups.insert(id, Vec::new());
                Some(group(Type::Insert, id, &[]))
            }
            "mc_node_create" => {
                let instance = number32(arg(0)?)?;
                let ports = words[1..].iter().map(|p| Ok((number32(p)?, instance)));
                self.nodes.push(ports.collect::<Result<_, String>>()?);
                None
            }
            "mc_node_associate" => {
                let (id, node) = (number32(arg(0)?)?, number(arg(1)?)? as usize);
                let list = self.groups.get_mut(&id).ok_or("no such group")?;
                list.extend(self.nodes.get(node).ok_or("no such node")?);
                Some(group(Type::Modify, id, list))
            }
            "register_write" => {
                let register = suffix(&self.info.registers, arg(0)?, |r| {
                    r.preamble.as_ref().map_or("", |p| p.name.as_str())
                })?;
                let name = register.preamble.clone().unwrap_or_default().name;
                Some(Step::Register { name, index: number32(arg(1)?)?, value: number(arg(2)?)? })
            }
            other => return Err(format!("command '{other}' is not known")),
        })
    }

    fn table(&self, name: &str) -> Result<&p4::Table, String> {
        suffix(&self.info.tables, name, |t| t.preamble.as_ref().map_or("", |p| p.name.as_str()))
    }

    /// `name(a:1, b:2)`.
    fn action(&self, table: &p4::Table, text: &str) -> Result<rt::TableAction, String> {
        let (name, rest) = text.split_once('(').ok_or("an action was expected")?;
        let args = rest.split_once(')').ok_or("a ) was expected")?.0;
        let of_table = |a: &&p4::Action| {
            let id = a.preamble.as_ref().map(|p| p.id);
            table.action_refs.iter().any(|r| Some(r.id) == id)
        };
        let actions: Vec<&p4::Action> = self.info.actions.iter().filter(of_table).collect();
        let action = suffix(&actions, name.trim(), |a| a.preamble.as_ref().map_or("", |p| p.name.as_str()))?;
        let mut given = HashMap::new();
        for arg in args.split(',').map(str::trim).filter(|a| !a.is_empty()) {
            let (k, v) = arg.split_once(':').ok_or("an argument was expected")?;
            given.insert(k.trim(), v.trim());
        }
        let param = |p: &p4::action::Param| {
            let value = given.get(p.name.as_str()).ok_or(format!("no argument '{}'", p.name))?;
            Ok(rt::action::Param { param_id: p.id, value: ternary(value, p.bitwidth as u32)?.0 })
        };
        let params = action.params.iter().map(param).collect::<Result<_, String>>()?;
        let action_id = action.preamble.as_ref().map_or(0, |p| p.id);
        let kind = rt::table_action::Type::Action(rt::Action { action_id, params });
        Ok(rt::TableAction { r#type: Some(kind) })
    }

    fn add(&self, rest: &str) -> Result<Step, String> {
        let head = rest.find('(').ok_or("an action was expected")?;
        let start = rest[..head].rfind(char::is_whitespace).ok_or("a key was expected")?;
        let mut words = rest[..start].split_whitespace();
        let table = self.table(words.next().ok_or("a table was expected")?)?;
        let (mut priority, mut given) = (0, HashMap::new());
        for w in words {
            match w.split_once(':') {
                Some((k, v)) => {
                    given.insert(key(&table.match_fields, k)?.id, v);
                }
                None => priority = number32(w)?,
            }
        }
        let mut fields = Vec::new();
        for k in &table.match_fields {
            let bits = k.bitwidth as u32;
            let match_type = match &k.r#match {
                Some(p4::match_field::Match::MatchType(t)) => MatchType::try_from(*t).ok(),
                _ => None,
            };
            let kind = match (match_type, given.get(&k.id)) {
                (Some(MatchType::Exact), v) => {
                    let value = ternary(v.unwrap_or(&"0"), bits)?.0;
                    FieldMatchType::Exact(rt::field_match::Exact { value })
                }
                (Some(MatchType::Lpm), Some(v)) => {
                    let (value, prefix_len) = match v.split_once('/') {
                        Some((v, l)) => (ternary(v, bits)?.0, number32(l)? as i32),
                        None => (ternary(v, bits)?.0, k.bitwidth),
                    };
                    FieldMatchType::Lpm(rt::field_match::Lpm { value, prefix_len })
                }
                (Some(MatchType::Ternary), Some(v)) => {
                    let (value, mask) = ternary(v, bits)?;
                    FieldMatchType::Ternary(rt::field_match::Ternary { value, mask })
                }
                (Some(MatchType::Optional), Some(v)) => {
                    FieldMatchType::Optional(rt::field_match::Optional { value: ternary(v, bits)?.0 })
                }
                (_, None) => continue,
                (kind, Some(_)) => return Err(format!("keys of kind {kind:?} are not in STF")),
            };
            fields.push(rt::FieldMatch { field_id: k.id, field_match_type: Some(kind) });
        }
        let entry = rt::TableEntry {
            table_id: table.preamble.as_ref().map_or(0, |p| p.id),
            r#match: fields,
            priority: if has_priority(table) { priority as i32 + 1 } else { 0 },
            action: Some(self.action(table, &rest[start..])?),
            ..Default::default()
        };
        Ok(Step::Write(vec![update(Type::Insert, Entity::TableEntry(entry))]))
    }
}

/// Whether entries of a table have a priority.
pub fn has_priority(table: &p4::Table) -> bool {
    let kinds = [MatchType::Ternary as i32, MatchType::Range as i32, MatchType::Optional as i32];
    let is = |k: &p4::MatchField| matches!(k.r#match, Some(p4::match_field::Match::MatchType(t)) if kinds.contains(&t));
    table.match_fields.iter().any(is)
}

/// A write to the packet replication engine.
pub fn replicate(kind: Type, what: Replication) -> Step {
    let entry = rt::PacketReplicationEngineEntry { r#type: Some(what) };
    Step::Write(vec![update(kind, Entity::PacketReplicationEngineEntry(entry))])
}

fn group(kind: Type, id: u32, list: &[(u32, u32)]) -> Step {
    let replicas = replicas(list.iter().copied());
    let group = rt::MulticastGroupEntry { multicast_group_id: id, replicas, ..Default::default() };
    replicate(kind, Replication::MulticastGroupEntry(group))
}
