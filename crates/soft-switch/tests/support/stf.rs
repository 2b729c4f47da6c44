//! Runs p4c's packet tests (STF files) against the switch.

use std::collections::{BTreeMap, HashMap, VecDeque};

use zsr_soft_switch::*;
use zsr_wire::frame::{Frame, FramePool};

/// Runs one test, as machine code and interpreted; `Err` says what differs.
pub fn run(program: &Program, stf: &str) -> Result<(), String> {
    run_with(program, stf, false)?;
    run_with(program, stf, true).map_err(|e| format!("interpreted: {e}"))
}

fn run_with(program: &Program, stf: &str, interpret: bool) -> Result<(), String> {
    let config = SwitchConfig { cpu_port: 600, interpret, ..SwitchConfig::default() };
    let mut r = Runner {
        switch: Switch::new(program, config),
        pool: FramePool::default(),
        expected: BTreeMap::new(),
        any: Vec::new(),
        received: BTreeMap::new(),
        nodes: Vec::new(),
        groups: HashMap::new(),
        entries: HashMap::new(),
        now: 1_000_000_000,
    };
    for (i, line) in stf.lines().enumerate() {
        let line = without_quotes(line);
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            r.line(line).map_err(|e| format!("line {}: {line}: {e}", i + 1))?;
        }
    }
    r.compare()
}

struct Runner {
    switch: Switch,
    pool: FramePool,
    expected: BTreeMap<u16, VecDeque<String>>,
    any: Vec<u16>,
    received: BTreeMap<u16, Vec<Vec<u8>>>,
    nodes: Vec<Vec<Replica>>,
    groups: HashMap<u32, Vec<Replica>>,
    /// Entries that tests have named.
    entries: HashMap<String, (TableId, Vec<MatchField>, i32)>,
    now: u64,
}

/// The line with what is in quotes moved to where nothing of it is punctuation.
fn without_quotes(line: &str) -> String {
    let mut quoted = false;
    let moved = |c: char| {
        quoted ^= c == '"';
        let out = if quoted { char::from_u32(QUOTED + u32::from(c)) } else { Some(c) };
        out.filter(|_| c != '"')
    };
    line.chars().filter_map(moved).collect()
}

/// A name that may have been in quotes.
fn name_of(text: &str) -> String {
    let back = |c: char| u32::from(c).checked_sub(QUOTED).and_then(char::from_u32).unwrap_or(c);
    text.chars().map(back).collect()
}

/// The first of the characters for private use.
const QUOTED: u32 = 0xe000;

fn number(text: &str) -> Result<u64, String> {
    let parse = |digits: &str, radix| u64::from_str_radix(digits, radix).map_err(|e| format!("{text}: {e}"));
    match text.get(..2) {
        Some("0x" | "0X") => parse(&text[2..], 16),
        Some("0b" | "0B") => parse(&text[2..], 2),
        Some("0o") => parse(&text[2..], 8),
        _ => parse(text, 10),
    }
}

/// Value and mask bytes of a constant, in which `*` is a digit that does not matter.
fn ternary(text: &str, width: u32) -> Result<(Vec<u8>, Vec<u8>), String> {
    let (digits, bits) = match text.get(..2) {
        Some("0x" | "0X") => (text[2..].to_string(), 4),
        Some("0b" | "0B") => (text[2..].to_string(), 1),
        _ => (format!("{:x}", number(text)?), 4),
    };
    let bytes = (width as usize).div_ceil(8).max((digits.len() * bits).div_ceil(8));
    let (mut value, mut mask) = (vec![0u8; bytes], vec![0u8; bytes]);
    for (i, c) in digits.chars().rev().enumerate() {
        let (v, m) = match c {
            '*' => (0, 0),
            _ => (c.to_digit(1 << bits).ok_or(format!("{text}: bad digit"))?, (1u32 << bits) - 1),
        };
        for b in 0..bits {
            let at = i * bits + b;
            let (byte, bit) = (bytes - 1 - at / 8, at % 8);
            value[byte] |= ((v >> b & 1) as u8) << bit;
            mask[byte] |= ((m >> b & 1) as u8) << bit;
        }
    }
    // Digits that were not written count as written zeros.
    for at in digits.len() * bits..width as usize {
        mask[bytes - 1 - at / 8] |= 1 << (at % 8);
    }
    for at in width as usize..bytes * 8 {
        mask[bytes - 1 - at / 8] &= !(1 << (at % 8));
    }
    Ok((value, mask))
}

fn suffix<'a, T>(list: &'a [T], name: &str, of: impl Fn(&T) -> &str) -> Result<(usize, &'a T), String> {
    let name = &*name_of(name);
    if let Some(i) = list.iter().position(|x| of(x) == name) {
        return Ok((i, &list[i]));
    }
    let hits: Vec<usize> = (0..list.len()).filter(|&i| of(&list[i]).ends_with(name)).collect();
    match hits[..] {
        [i] => Ok((i, &list[i])),
        _ => Err(format!("'{name}' names {} objects", hits.len())),
    }
}

/// `name(a:1, b:2)` as name and arguments.
fn call(text: &str) -> Result<(String, Vec<(String, String)>), String> {
    let (name, rest) = text.split_once('(').ok_or("an action was expected")?;
    let args = rest.split_once(')').ok_or("a ) was expected")?.0;
    let arg = |a: &str| -> Result<(String, String), String> {
        let (k, v) = a.split_once(':').ok_or("an argument was expected")?;
        Ok((name_of(k.trim()), v.trim().to_string()))
    };
    let args: Result<_, String> = args.split(',').filter(|a| !a.trim().is_empty()).map(arg).collect();
    Ok((name.trim().to_string(), args?))
}

impl Runner {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let arg = |i: usize| words.get(i).copied().ok_or("too few arguments".to_string());
        let err = |e: ControlError| e.to_string();
        match command.to_lowercase().as_str() {
            "packet" => {
                let hex: String = words[1..].concat();
                let bytes: Result<Vec<u8>, _> =
                    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16)).collect();
                let frame = Frame::copy_from(&bytes.map_err(|e| e.to_string())?).ok_or("too long")?;
                let (mut out, port) = (Vec::new(), number(arg(0)?)? as u16);
                self.now += 1_000_000;
                self.switch.process(self.now, port, frame, &mut self.pool, &mut out);
                for (port, f) in out {
                    self.received.entry(port).or_default().push(f.bytes().to_vec());
                }
            }
            "expect" => {
                let port = number(arg(0)?)? as u16;
                if words.len() > 1 {
                    let data = words[1..].concat().to_uppercase();
                    self.expected.entry(port).or_default().push_back(data);
                } else {
                    self.any.push(port);
                }
            }
            "no_packet" | "wait" => {}
            "add" => self.add(rest)?,
            "setdefault" => {
                let (table, action) = rest.split_once(char::is_whitespace).ok_or("too few arguments")?;
                let (t, _) = suffix(&self.switch.info().tables, table, |t| &t.name)?;
                let t = TableId(t as u32);
                let action = EntryAction::Call(self.action(t, action)?);
                self.switch.set_default(t, action).map_err(err)?;
            }
            "mirroring_add" => {
                let replicas = vec![Replica { port: number(arg(1)?)? as u16, instance: 0 }];
                let session = CloneSession { replicas, ..CloneSession::default() };
                self.switch.clone_session_insert(number(arg(0)?)? as u32, session).map_err(err)?;
            }
            "mc_mgrp_create" => {
                let id = number(arg(0)?)? as u32;
                self.groups.insert(id, Vec::new());
                self.switch.multicast_group_insert(id, Vec::new()).map_err(err)?;
            }
            "mc_node_create" => {
                let instance = number(arg(0)?)? as u16;
                let replica = |p: &&str| Ok(Replica { port: number(p)? as u16, instance });
                let replicas: Result<_, String> = words[1..].iter().map(replica).collect();
                self.nodes.push(replicas?);
            }
            "mc_node_associate" => {
                let (id, node) = (number(arg(0)?)? as u32, number(arg(1)?)? as usize);
                let group = self.groups.get_mut(&id).ok_or("no such group")?;
                group.extend(self.nodes.get(node).ok_or("no such node")?);
                self.switch.multicast_group_modify(id, group.clone()).map_err(err)?;
            }
            "register_write" => {
                let (r, _) = suffix(&self.switch.info().registers, arg(0)?, |r| &r.name)?;
                let value = number(arg(2)?)?.to_be_bytes();
                let index = number(arg(1)?)? as usize;
                self.switch.register_write(RegisterId(r as u32), index, &value).map_err(err)?;
            }
            "check_counter" => self.check_counter(rest)?,
            other => return Err(format!("command '{other}' is not known")),
        }
        Ok(())
    }

    /// `NAME(INDEX) packets == N`; the index is a number, or `$` and the name of an entry that has the counter.
    fn check_counter(&self, text: &str) -> Result<(), String> {
        let (name, rest) = text.split_once('(').ok_or("a counter was expected")?;
        let (index, condition) = rest.split_once(')').ok_or("a ) was expected")?;
        let value = match index.strip_prefix('$') {
            Some(entry) => {
                let (t, key, priority) = self.entries.get(entry).ok_or("no entry has that name")?;
                self.switch.entry_counter(*t, key, *priority)
            }
            None => {
                let (counter, _) = suffix(&self.switch.info().counters, name, |counter| &counter.name)?;
                self.switch.counter_read(CounterId(counter as u32), number(index)? as usize)
            }
        };
        let value = value.map_err(|e| e.to_string())?;
        let (counted, wanted) = match *condition.split_whitespace().collect::<Vec<_>>() {
            [] => return Ok(()),
            ["packets", "==", wanted] => (value.packets, number(wanted)?),
            ["bytes", "==", wanted] => (value.bytes, number(wanted)?),
            _ => return Err(format!("condition '{condition}' is not known")),
        };
        if counted == wanted { Ok(()) } else { Err(format!("it is {counted}")) }
    }

    fn action(&self, t: TableId, text: &str) -> Result<ActionCall, String> {
        let info = self.switch.info();
        let (name, args) = call(text)?;
        let actions = &info.tables[t.index()].actions;
        let names: Vec<&str> = actions.iter().map(|a| info.actions[a.index()].name.as_str()).collect();
        let (i, _) = suffix(&names, &name, |n| n)?;
        let action = &info.actions[actions[i].index()];
        let mut params = Vec::new();
        for p in &action.params {
            let (_, v) =
                args.iter().find(|(k, _)| *k == p.name).ok_or(format!("no argument '{}'", p.name))?;
            params.push(ternary(v, p.width)?.0);
        }
        Ok(ActionCall { action: actions[i], params })
    }

    fn add(&mut self, rest: &str) -> Result<(), String> {
        let head = rest.find('(').ok_or("an action was expected")?;
        let start = rest[..head].rfind(char::is_whitespace).ok_or("a key was expected")?;
        let mut words = rest[..start].split_whitespace();
        let table = words.next().ok_or("a table was expected")?;
        let (t, info) = suffix(&self.switch.info().tables, table, |t| &t.name)?;
        let (mut priority, mut given) = (0, HashMap::new());
        for w in words {
            match w.split_once(':') {
                Some((k, v)) => {
                    let (i, _) = key_named(&info.keys, k)?;
                    given.insert(i, v);
                }
                None => priority = number(w)? as i32,
            }
        }
        let mut key = Vec::new();
        for (i, k) in info.keys.iter().enumerate() {
            let v = given.get(&i).copied();
            key.push(match k.kind {
                MatchKind::Exact => MatchField::Exact(ternary(v.unwrap_or("0"), k.width)?.0),
                MatchKind::Lpm => {
                    let v = v.unwrap_or("0/0");
                    let (value, len) = match v.split_once('/') {
                        Some((v, l)) => (v.to_string(), number(l)? as u32),
                        None => {
                            let mask = ternary(v, k.width)?.1;
                            (v.replace('*', "0"), mask.iter().map(|byte| byte.count_ones()).sum())
                        }
                    };
                    MatchField::Lpm { value: ternary(&value, k.width)?.0, prefix_len: len }
                }
                MatchKind::Ternary | MatchKind::Optional => match v {
                    None => MatchField::Optional(None),
                    Some(v) => {
                        let (value, mask) = ternary(v, k.width)?;
                        MatchField::Ternary { value, mask }
                    }
                },
                MatchKind::Range => return Err("range keys are not in STF".into()),
            });
        }
        let info_priority = info.has_priority;
        let t = TableId(t as u32);
        let action = EntryAction::Call(self.action(t, &rest[start..])?);
        let priority = if info_priority { priority + 1 } else { 0 };
        if let Some((_, name)) = rest.rsplit_once(" = ") {
            self.entries.insert(name.trim().to_owned(), (t, key.clone(), priority));
        }
        let entry = TableEntry { key, priority, action, idle_timeout_ns: 0, metadata: Vec::new() };
        self.switch.table_insert(t, entry).map_err(|e| e.to_string())
    }

    fn compare(&self) -> Result<(), String> {
        let ports: std::collections::BTreeSet<u16> =
            self.expected.keys().chain(self.received.keys()).copied().collect();
        for port in ports {
            if self.any.contains(&port) {
                continue;
            }
            let none = (VecDeque::new(), Vec::new());
            let want = self.expected.get(&port).unwrap_or(&none.0);
            let got = self.received.get(&port).unwrap_or(&none.1);
            let hex = |b: &[u8]| b.iter().map(|b| format!("{b:02X}")).collect::<String>();
            if want.len() != got.len() {
                let got: Vec<String> = got.iter().map(|g| hex(g)).collect();
                return Err(format!(
                    "port {port}: {} packets expected, got {}: {got:?}",
                    want.len(),
                    got.len()
                ));
            }
            for (i, (w, g)) in want.iter().zip(got).enumerate() {
                let g = hex(g);
                let (pattern, exact) = w.strip_suffix('$').map_or((w.as_str(), false), |w| (w, true));
                let equal = g.len() >= pattern.len()
                    && (!exact || g.len() == pattern.len())
                    && pattern.chars().zip(g.chars()).all(|(p, c)| p == '*' || p == c);
                if !equal {
                    return Err(format!("port {port}, packet {i}:\n  expected {w}\n  got      {g}"));
                }
            }
        }
        for port in &self.any {
            if !self.received.contains_key(port) {
                return Err(format!("port {port}: no packet"));
            }
        }
        Ok(())
    }
}

/// A key by one of the names that STF gives it.
fn key_named<'a>(keys: &'a [KeyInfo], name: &str) -> Result<(usize, &'a KeyInfo), String> {
    // Stack indices are written with a dollar sign.
    let mut plain = name_of(name);
    if let Some(at) = plain.find('$')
        && plain[at + 1..].starts_with(|c: char| c.is_ascii_digit())
    {
        let end = plain[at + 1..].find(|c: char| !c.is_ascii_digit()).map_or(plain.len(), |e| at + 1 + e);
        plain = format!("{}[{}]{}", &plain[..at], &plain[at + 1..end], &plain[end..]);
    }
    for candidate in [plain.clone(), format!("{plain}$"), format!("{plain}.$valid$")] {
        if let Some(i) = keys.iter().position(|k| k.name == candidate) {
            return Ok((i, &keys[i]));
        }
    }
    suffix(keys, &format!(".{plain}"), |k| &k.name)
}
