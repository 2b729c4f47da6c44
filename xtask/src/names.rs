//! The Rust module that `cargo xtask p4` writes beside the artifact: a type per table and action, and every number that
//! P4 and Rust share. A renamed or swapped parameter in P4 then no longer compiles in Rust.

use p4runtime_proto::p4::config::v1::{P4Info, Preamble};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Sources of constants, in the order in which they name one another.
const CONSTANTS: [&str; 2] = ["p4/common/types.p4", "p4/arch/v1model/main.p4"];
/// The header of packets from the switch to itself, and from the controller to it.
const INTERNAL: &str = "internal_t";
/// Bytes of an Ethernet header, which an internal frame begins with.
const ETHERNET: u64 = 14;

/// The module's text, from P4Info (text form), the bmv2 JSON and the P4 sources below `root`.
pub fn module(root: &Path, p4info: &str, json: &[u8]) -> Result<String, String> {
    let info = p4runtime_proto::p4info::parse(p4info).map_err(|e| format!("P4Info: {e}"))?;
    let json: Value = serde_json::from_slice(json).map_err(|e| format!("bmv2 JSON: {e}"))?;
    let mut out = String::from(
        "//! Names and numbers of the P4 program. Written by `cargo xtask p4`, not by hand.\n\n\
         #![allow(missing_docs, reason = \"P4 says what its names mean\")]\n\n\
         use super::typed::{actions, tables};\n",
    );
    tables_and_actions(&info, &mut out)?;
    names(&info, &mut out);
    internal_frame(&json, &mut out)?;
    constants(root, &mut out)?;
    Ok(out)
}

/// A type per table that the controller fills, and per action of its entries.
fn tables_and_actions(info: &P4Info, out: &mut String) -> Result<(), String> {
    let mut used = BTreeMap::new();
    let mut tables = String::new();
    for t in info.tables.iter().filter(|t| !t.is_const_table) {
        let Some(preamble) = &t.preamble else { continue };
        let keys: Vec<_> = t.match_fields.iter().map(|f| (last(&f.name), f.bitwidth)).collect();
        let mut runs = Vec::new();
        for r in t.action_refs.iter().filter(|r| r.id != t.const_default_action_id) {
            for a in &info.actions {
                let of = |p: &&Preamble| p.id == r.id && p.alias != "NoAction";
                let Some(action) = a.preamble.as_ref().filter(of) else { continue };
                runs.push(camel(&action.alias));
                used.insert(action.alias.clone(), a);
            }
        }
        let fields = fields(&preamble.alias, &keys)?;
        let (alias, name, runs) = (&preamble.alias, camel(&preamble.alias), runs.join(", "));
        let _ = writeln!(tables, "    {name} = \"{alias}\" {{ {fields} }} runs {runs};");
    }
    let mut actions = String::new();
    for (alias, a) in used {
        let params: Vec<_> = a.params.iter().map(|p| (p.name.as_str(), p.bitwidth)).collect();
        let _ = writeln!(actions, "    {} = \"{alias}\" {{ {} }};", camel(&alias), fields(&alias, &params)?);
    }
    let _ = writeln!(
        out,
        "\n// Tables that the controller fills (a value is an entry's key), and the actions of their entries."
    );
    let _ = writeln!(
        out,
        "tables! {{\n{tables}}}\n\n// Actions of entries: a value is the action with its parameters.\nactions! {{\n{actions}}}"
    );
    Ok(())
}

/// Keys or parameters in the program's order, each in the narrowest type that holds it.
fn fields(owner: &str, fields: &[(&str, i32)]) -> Result<String, String> {
    let one = |(field, bits): &(&str, i32)| match bits {
        1..=64 => Ok(format!("{field}: u{}", width_for(*bits as u32))),
        _ => Err(format!("`{owner}`: `{field}` has {bits} bits, 1 to 64 can be told in Rust")),
    };
    Ok(fields.iter().map(one).collect::<Result<Vec<_>, String>>()?.join(", "))
}

/// Bits of the narrowest unsigned integer that holds so many.
fn width_for(bits: u32) -> u32 {
    bits.next_power_of_two().clamp(8, 64)
}

/// Names of counters, registers and digests, as constants.
fn names(info: &P4Info, out: &mut String) {
    let aliases = |preambles: Vec<&Option<Preamble>>| {
        let mut all = String::new();
        for p in preambles.into_iter().flatten() {
            let name = last(&p.alias).to_uppercase();
            let _ = writeln!(all, "    pub const {name}: &str = \"{}\";", p.alias);
        }
        all
    };
    for (module, about, all) in [
        ("counter", "Counters", aliases(info.counters.iter().map(|c| &c.preamble).collect())),
        ("register", "State registers", aliases(info.registers.iter().map(|r| &r.preamble).collect())),
        ("digest", "Digests", aliases(info.digests.iter().map(|d| &d.preamble).collect())),
    ] {
        let _ = write!(out, "\n/// {about}, by name.\npub mod {module} {{\n{all}}}\n");
    }
    for d in &info.digests {
        let name = d.preamble.as_ref().map_or("", |p| &p.alias);
        let Some(structure) = info.type_info.as_ref().and_then(|t| t.structs.get(name)) else { continue };
        let members: Vec<_> = structure.members.iter().map(|m| format!("\"{}\"", m.name)).collect();
        let _ = writeln!(
            out,
            "\n/// Members of digest `{name}`, in their order.\npub const {}: [&str; {}] = [{}];",
            name.to_uppercase(),
            members.len(),
            members.join(", ")
        );
    }
}

/// Where an internal frame has its fields, Ethernet header included, in bytes.
fn internal_frame(json: &Value, out: &mut String) -> Result<(), String> {
    let types = json["header_types"].as_array().map_or(&[][..], Vec::as_slice);
    let header = types.iter().find(|t| t["name"] == INTERNAL);
    let fields = header.and_then(|h| h["fields"].as_array());
    let fields = fields.ok_or_else(|| format!("bmv2 JSON: there is no header type `{INTERNAL}`"))?;
    let _ = write!(
        out,
        "\n/// Where an internal frame has its fields: byte offsets, Ethernet header included.\npub mod internal {{\n"
    );
    let (mut members, mut stores, mut at) = (String::new(), String::new(), ETHERNET);
    for field in fields {
        let (name, bits) = (field[0].as_str().unwrap_or_default(), field[1].as_u64().unwrap_or_default());
        if u64::from(width_for(bits as u32)) != bits {
            return Err(format!("{INTERNAL}.{name}: a field of {bits} bits has no type in Rust"));
        }
        let end = at + bits / 8;
        let _ = writeln!(out, "    pub const {}: usize = {at};", name.to_uppercase());
        let _ = writeln!(members, "    pub {name}: u{bits},");
        let _ = writeln!(stores, "        frame[{at}..{end}].copy_from_slice(&self.{name}.to_be_bytes());");
        at = end;
    }
    let _ = write!(out, "    /// Bytes of a whole frame.\n    pub const FRAME: usize = {at};\n}}\n");
    let _ = write!(
        out,
        "\n/// The header of an internal frame.\n#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\n\
         pub struct Internal {{\n{members}}}\n\nimpl Internal {{\n    /// The frame, Ethernet header included.\n    \
         pub fn frame(&self) -> Vec<u8> {{\n        let mut frame = vec![0; internal::FRAME];\n        \
         frame[{}..{ETHERNET}].copy_from_slice(&ETHERTYPE_INTERNAL.to_be_bytes());\n{stores}        frame\n    }}\n}}\n",
        ETHERNET - 2
    );
    Ok(())
}

/// Every `const` of the P4 sources.
fn constants(root: &Path, out: &mut String) -> Result<(), String> {
    let (mut types, mut values) = (BTreeMap::<String, String>::new(), BTreeMap::new());
    for file in CONSTANTS {
        let text = std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
        let _ = writeln!(out, "\n// {file}");
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default().trim().trim_end_matches(';');
            let words: Vec<&str> = code.split_whitespace().collect();
            match words.as_slice() {
                ["#define", name, of] if of.starts_with("bit<") => {
                    drop(types.insert((*name).into(), (*of).into()))
                }
                ["typedef", of, name] => drop(types.insert((*name).into(), (*of).into())),
                ["const", of, name, "=", value @ ..] => {
                    let at = |what: String| format!("{file}:{}: const {name}: {what}", number + 1);
                    let bits = bits_of(of, &types).ok_or_else(|| at(format!("unknown type `{of}`")))?;
                    let value = sum(value, &values).ok_or_else(|| at("no sum of numbers".into()))?;
                    values.insert(name.to_string(), value);
                    let width = width_for(bits);
                    let shown = if value > 0xffff { format!("{value:#x}") } else { value.to_string() };
                    let _ = writeln!(out, "pub const {name}: u{width} = {shown};");
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn bits_of(of: &str, types: &BTreeMap<String, String>) -> Option<u32> {
    if let Some(of) = types.get(of) {
        return bits_of(of, types);
    }
    of.strip_prefix("bit<")?.strip_suffix('>')?.parse().ok()
}

fn sum(words: &[&str], known: &BTreeMap<String, u64>) -> Option<u64> {
    words.iter().filter(|w| **w != "+").try_fold(0u64, |sum, word| {
        let value = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => word.parse().ok().or_else(|| known.get(*word).copied())?,
        };
        Some(sum + value)
    })
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn camel(name: &str) -> String {
    last(name).split('_').map(|w| w[..1].to_uppercase() + &w[1..]).collect()
}
