//! The commands of `simple_switch_CLI` that change something, as text.

use zsr_soft_switch::{
    ActionCall, ActionId, ControlError, CounterValue, CrcParams, EntryAction, MatchField, MatchKind, TableId,
};

use crate::cells::{Rate, meter_config};
use crate::error::{Error, Result};
use crate::multicast::MirrorTo;
use crate::session::Session;

/// Carries out one line: a command, or nothing (an empty line, or a comment behind `#`).
///
/// Names can be shortened to what stands behind their last dots, as long as that names one object only.
///
/// # Errors
/// The command is unknown or only shows something, or what it asks for is refused; one sentence.
pub fn run_word(session: &mut Session<'_>, line: &str) -> std::result::Result<(), String> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let Some(command) = words.next() else { return Ok(()) };
    let words: Vec<&str> = words.collect();
    run(session, command, &words).map_err(|e| format!("{command}: {e}"))
}

fn run(session: &mut Session<'_>, command: &str, words: &[&str]) -> Result<()> {
    if let Some(kind) = command.strip_prefix("table_indirect_") {
        return indirect(session, kind, words);
    }
    if let Some(kind) = command.strip_prefix("act_prof_") {
        return profile(session, kind, words);
    }
    if let Some(kind) = command.strip_prefix("mc_") {
        return multicast(session, kind, words);
    }
    match (command, words) {
        ("table_set_default", [table, action, data @ ..]) => {
            let t = find_table(session, table)?;
            let call = call(session, t, action, data)?;
            session.default_set(t, EntryAction::Call(call))
        }
        ("table_reset_default", [table]) => {
            let t = find_table(session, table)?;
            Ok(session.switch.reset_default(t)?)
        }
        ("table_clear", [table]) => {
            let t = find_table(session, table)?;
            session.entries_clear(t, false)
        }
        ("table_add", [table, action, rest @ ..]) => {
            let t = find_table(session, table)?;
            let (key, data, priority) = key_and_data(session, t, rest)?;
            let call = call(session, t, action, &data)?;
            session.entry_add(t, key, priority, EntryAction::Call(call)).map(drop)
        }
        ("table_modify", [table, action, handle, data @ ..]) => {
            let t = find_table(session, table)?;
            let data = data.strip_prefix(&["=>"]).unwrap_or(data);
            let call = call(session, t, action, data)?;
            session.entry_modify(t, int(handle)?, EntryAction::Call(call))
        }
        ("table_delete", [table, handle]) => {
            let t = find_table(session, table)?;
            session.entry_delete(t, int(handle)?)
        }
        ("table_set_timeout", [table, handle, ms]) => {
            let t = find_table(session, table)?;
            session.entry_timeout(t, int(handle)?, int(ms)?)
        }
        ("counter_write", [name, index, packets, bytes]) => {
            let name = counter(session, name)?;
            let value = CounterValue { packets: int(packets)?, bytes: int(bytes)? };
            session.counter_set(&name, int(index)?, value)
        }
        ("counter_reset", [name]) => {
            let name = counter(session, name)?;
            session.counter_reset(&name)
        }
        ("meter_set_rates", [name, index, rates @ ..]) => {
            let name = meter(session, name)?;
            session.meter_set(&name, Some(int(index)?), meter_config(&rates_of(rates)?)?)
        }
        ("meter_array_set_rates", [name, rates @ ..]) => {
            let name = meter(session, name)?;
            session.meter_set(&name, None, meter_config(&rates_of(rates)?)?)
        }
        ("register_write", [name, index, value]) => {
            let (name, index) = (register(session, name)?, int::<i32>(index)?);
            session.register_set(&name, index..index.saturating_add(1), int(value)?)
        }
        ("register_reset", [name]) => {
            let name = register(session, name)?;
            session.register_reset(&name)
        }
        ("pvs_add" | "pvs_remove", [name, value]) => {
            let names =
                session.info().value_sets.iter().map(|set| (&*set.name, (set.name.clone(), set.width)));
            let (name, width) = one_of("parser value set", name, names)?;
            session.value_set_change(&name, &number(value, width)?, command == "pvs_add")
        }
        ("pvs_clear", [name]) => {
            let names = session.info().value_sets.iter().map(|set| (&*set.name, set.name.clone()));
            let name = one_of("parser value set", name, names)?;
            session.value_set_clear(&name)
        }
        ("mirroring_add", [id, port]) => {
            session.mirror_set(int(id)?, MirrorTo { port: Some(int(port)?), group: None })
        }
        ("mirroring_add_mc", [id, group]) => {
            session.mirror_set(int(id)?, MirrorTo { port: None, group: Some(int(group)?) })
        }
        ("mirroring_delete", [id]) => session.mirror_delete(int(id)?),
        ("set_crc16_parameters" | "set_crc32_parameters", [name, polynomial, init, xor, input, output]) => {
            let params = CrcParams {
                polynomial: int(polynomial)?,
                init: int(init)?,
                xor_out: int(xor)?,
                reflect_in: truth(input)?,
                reflect_out: truth(output)?,
            };
            session.crc(name, if command == "set_crc16_parameters" { 16 } else { 32 }, params)
        }
        ("reset_state", []) => {
            session.reset();
            Ok(())
        }
        _ => Err(unknown(command, words)),
    }
}

fn unknown(command: &str, words: &[&str]) -> Error {
    let many = words.len();
    Error::Arguments(format!(
        "no command '{command}' with {many} arguments changes entries, cells or groups: others need simple_switch_CLI"
    ))
}

fn indirect(session: &mut Session<'_>, kind: &str, words: &[&str]) -> Result<()> {
    let [table, rest @ ..] = words else { return Err(unknown(kind, words)) };
    let t = find_table(session, table)?;
    let action = |session: &Session<'_>, handle: &str, is_group: bool| {
        let handle: i32 = int(handle)?;
        match is_group {
            true => session.group_action(session.info().tables[t.index()].profile, handle),
            false => Ok(EntryAction::Member(handle as u32)),
        }
    };
    match (kind, rest) {
        ("add" | "add_with_group", rest) => {
            let (key, data, priority) = key_and_data(session, t, rest)?;
            let [handle] = data[..] else {
                return Err(Error::Arguments("expected one handle behind '=>'".into()));
            };
            let action = action(session, handle, kind == "add_with_group")?;
            session.entry_add(t, key, priority, action).map(drop)
        }
        ("delete", [handle]) => session.entry_delete(t, int(handle)?),
        ("set_default" | "set_default_with_group", [handle]) => {
            let action = action(session, handle, kind == "set_default_with_group")?;
            session.default_set(t, action)
        }
        ("reset_default", []) => Ok(session.switch.reset_default(t)?),
        _ => Err(unknown(kind, words)),
    }
}

fn profile(session: &mut Session<'_>, kind: &str, words: &[&str]) -> Result<()> {
    let [name, rest @ ..] = words else { return Err(unknown(kind, words)) };
    let names = session.info().profiles.iter().map(|profile| (&*profile.name, profile.name.clone()));
    let p = session.profile(&one_of("action profile", name, names)?)?;
    let of_member = |session: &Session<'_>, name: &str, data: &[&str]| {
        let info = session.info();
        let actions = info.profile_tables(p).flat_map(|t| info.tables[t.index()].actions.clone());
        named_call(session, actions.collect(), name, data)
    };
    match (kind, rest) {
        ("create_member", [action, data @ ..]) => {
            let call = of_member(session, action, data)?;
            session.member_add(p, call).map(drop)
        }
        ("modify_member", [action, member, data @ ..]) => {
            let data = data.strip_prefix(&["=>"]).unwrap_or(data);
            let call = of_member(session, action, data)?;
            session.member_modify(p, int(member)?, call)
        }
        ("delete_member", [member]) => session.member_delete(p, int(member)?),
        ("create_group", []) => session.group_create(p).map(drop),
        ("delete_group", [group]) => session.group_delete(p, int(group)?),
        ("add_member_to_group", [member, group]) => session.group_join(p, int(member)?, int(group)?),
        ("remove_member_from_group", [member, group]) => session.group_leave(p, int(member)?, int(group)?),
        _ => Err(unknown(kind, words)),
    }
}

fn multicast(session: &mut Session<'_>, kind: &str, words: &[&str]) -> Result<()> {
    let lists = |words: &[&str]| {
        let (ports, lags) = match words.iter().position(|word| *word == "|") {
            Some(bar) => (&words[..bar], &words[bar + 1..]),
            None => (words, &[][..]),
        };
        Ok::<_, Error>((numbers(ports)?, numbers(lags)?))
    };
    match (kind, words) {
        ("mgrp_create", [group]) => session.multicast_create(int(group)?).map(drop),
        ("mgrp_destroy", [group]) => session.multicast_destroy(int(group)?),
        ("node_create", [rid, ports @ ..]) => {
            let (ports, lags) = lists(ports)?;
            session.node_create(int(rid)?, ports, lags).map(drop)
        }
        ("node_update", [node, ports @ ..]) => {
            let (ports, lags) = lists(ports)?;
            session.node_update(int(node)?, ports, lags)
        }
        ("node_associate", [group, node]) => session.node_associate(int(group)?, int(node)?),
        ("node_dissociate", [group, node]) => session.node_dissociate(int(group)?, int(node)?),
        ("node_destroy", [node]) => session.node_destroy(int(node)?),
        ("set_lag_membership", [lag, ports @ ..]) => session.lag_set(int(lag)?, numbers(ports)?),
        _ => Err(unknown(kind, words)),
    }
}

/// The object whose name it is, or ends with a dot and it.
fn one_of<'a, T>(what: &str, name: &str, all: impl Iterator<Item = (&'a str, T)>) -> Result<T> {
    let mut found = Vec::new();
    for (full, object) in all {
        if full == name {
            return Ok(object);
        }
        if full.strip_suffix(name).is_some_and(|before| before.ends_with('.')) {
            found.push((full, object));
        }
    }
    match found.len() {
        1 => Ok(found.remove(0).1),
        0 => Err(Error::Arguments(format!("there is no {what} '{name}'"))),
        _ => {
            let names: Vec<&str> = found.iter().map(|(full, _)| *full).collect();
            Err(Error::Arguments(format!("'{name}' may be {what} {}", names.join(" or "))))
        }
    }
}

fn find_table(session: &Session<'_>, name: &str) -> Result<TableId> {
    let tables = session.info().tables.iter().enumerate();
    one_of("table", name, tables.map(|(i, table)| (&*table.name, TableId(i as u32))))
}

fn counter(session: &Session<'_>, name: &str) -> Result<String> {
    one_of("counter", name, session.info().counters.iter().map(|c| (&*c.name, c.name.clone())))
}

fn meter(session: &Session<'_>, name: &str) -> Result<String> {
    one_of("meter", name, session.info().meters.iter().map(|m| (&*m.name, m.name.clone())))
}

fn register(session: &Session<'_>, name: &str) -> Result<String> {
    one_of("register", name, session.info().registers.iter().map(|r| (&*r.name, r.name.clone())))
}

fn call(session: &Session<'_>, t: TableId, name: &str, data: &[&str]) -> Result<ActionCall> {
    named_call(session, session.info().tables[t.index()].actions.clone(), name, data)
}

fn named_call(session: &Session<'_>, legal: Vec<ActionId>, name: &str, data: &[&str]) -> Result<ActionCall> {
    let actions = &session.info().actions;
    // In the tables of one profile the same name is the same action.
    let mut names: Vec<&str> = Vec::new();
    let mut firsts = Vec::new();
    for id in legal {
        let name = &*actions[id.index()].name;
        if !names.contains(&name) {
            names.push(name);
            firsts.push((name, id));
        }
    }
    let action = one_of("action", name, firsts.into_iter())?;
    let params = &actions[action.index()].params;
    if params.len() != data.len() {
        let why = format!("action '{name}' takes {} arguments, not {}", params.len(), data.len());
        return Err(Error::Arguments(why));
    }
    let params = params.iter().zip(data).map(|(param, text)| number(text, param.width));
    Ok(ActionCall { action, params: params.collect::<Result<_>>()? })
}

/// What stands in front of `=>`, what stands behind it, and the priority, which is the last word.
fn key_and_data<'a>(
    session: &Session<'_>,
    t: TableId,
    words: &[&'a str],
) -> Result<(Vec<MatchField>, Vec<&'a str>, i32)> {
    let info = &session.info().tables[t.index()];
    let (words, priority) = match words {
        [rest @ .., last] if info.has_priority => {
            let no_priority = |_| Error::Arguments(format!("'{last}': the last word has to be a priority"));
            (rest, int(last).map_err(no_priority)?)
        }
        words => (words, 0),
    };
    let arrow = words.iter().position(|word| *word == "=>").unwrap_or(words.len());
    let (key, data) = (&words[..arrow], words.get(arrow + 1..).unwrap_or_default());
    if key.len() != info.keys.len() {
        return Err(ControlError::KeyCount { got: key.len(), expected: info.keys.len() }.into());
    }
    let fields = key.iter().zip(&info.keys).map(|(text, info)| field(text, info.kind, info.width));
    Ok((fields.collect::<Result<_>>()?, data.to_vec(), priority))
}

fn field(text: &str, kind: MatchKind, width: u32) -> Result<MatchField> {
    let pair = |between: &str, example: &str| {
        let none = || Error::Arguments(format!("'{text}': expected {example}"));
        text.split_once(between).ok_or_else(none)
    };
    Ok(match kind {
        MatchKind::Exact => MatchField::Exact(number(text, width)?),
        MatchKind::Lpm => {
            let (value, bits) = pair("/", "a prefix such as 10.0.0.0/8")?;
            MatchField::Lpm { value: number(value, width)?, prefix_len: int(bits)? }
        }
        MatchKind::Ternary | MatchKind::Optional => {
            let (value, mask) = pair("&&&", "a value and a mask such as 0x10&&&0xf0")?;
            MatchField::Ternary { value: number(value, width)?, mask: number(mask, width)? }
        }
        MatchKind::Range => {
            let (low, high) = pair("->", "a range such as 1->10")?;
            MatchField::Range { low: number(low, width)?, high: number(high, width)? }
        }
    })
}

/// A value of a field: an address where the width is that of one, or a number.
fn number(text: &str, width: u32) -> Result<Vec<u8>> {
    let wrong = |what: &str| Error::Arguments(format!("'{text}' is no {what}"));
    match width {
        32 if text.contains('.') => {
            let address: std::net::Ipv4Addr = text.parse().map_err(|_| wrong("IPv4 address"))?;
            Ok(address.octets().to_vec())
        }
        48 if text.contains(':') => {
            let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16));
            let bytes = bytes.collect::<std::result::Result<Vec<u8>, _>>().ok();
            bytes.filter(|bytes| bytes.len() == 6).ok_or_else(|| wrong("MAC address"))
        }
        128 if text.contains(':') => {
            let address: std::net::Ipv6Addr = text.parse().map_err(|_| wrong("IPv6 address"))?;
            Ok(address.octets().to_vec())
        }
        _ => {
            let (base, digits) = base(text);
            big(digits, base).ok_or_else(|| wrong("number: 10, 0xa, 0o12 or 0b1010 are some"))
        }
    }
}

fn base(text: &str) -> (u32, &str) {
    let prefixes = [("0x", 16), ("0X", 16), ("0o", 8), ("0b", 2)];
    let found = prefixes.iter().find_map(|(prefix, base)| Some((*base, text.strip_prefix(prefix)?)));
    found.unwrap_or((10, text))
}

/// The bytes of a number of any length, big-endian.
fn big(digits: &str, base: u32) -> Option<Vec<u8>> {
    let mut value: Vec<u8> = vec![0];
    for digit in digits.chars().filter(|digit| *digit != '_') {
        let mut carry = digit.to_digit(base)?;
        for byte in value.iter_mut().rev() {
            carry += u32::from(*byte) * base;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            value.insert(0, carry as u8);
        }
    }
    (!digits.is_empty()).then_some(value)
}

/// A number of the command itself: an index, a handle, a port.
fn int<T: TryFrom<i128>>(text: &str) -> Result<T> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (base, digits) = base(digits);
    let value = i64::from_str_radix(digits, base).ok().filter(|_| !digits.starts_with(['+', '-']));
    let value = value.map(|value| i128::from(value) * sign).and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| Error::Arguments(format!("'{text}' is no number that can stand here")))
}

/// Numbers of ports or LAGs, each once, the smallest first: bmv2 has them as a map of bits.
fn numbers(words: &[&str]) -> Result<Vec<u16>> {
    let mut all = words.iter().map(|word| int(word)).collect::<Result<Vec<u16>>>()?;
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn truth(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(Error::Arguments(format!("'{text}': expected true or false"))),
    }
}

fn rates_of(words: &[&str]) -> Result<Vec<Rate>> {
    let rate = |word: &&str| {
        let (per_us, burst) = word.split_once(':')?;
        Some(Rate { per_us: per_us.parse().ok()?, burst: burst.parse().ok()? })
    };
    let wrong = |word: &str| Error::Arguments(format!("'{word}': expected a rate such as 0.5:10"));
    words.iter().map(|word| rate(word).ok_or_else(|| wrong(word))).collect()
}
