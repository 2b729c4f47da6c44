//! Compiles the parser's states.

use std::collections::HashMap;

use super::action::{self, Names, field_name};
use super::asm::Label;
use super::expr::Cx;
use crate::info::ValueSetInfo;
use crate::load::big::{Big, hex_bytes};
use crate::load::expr::{Expr, Test};
use crate::load::node::{Node, Result};
use crate::op::{Cmp, Op, R};
use crate::table::key::to_limbs;

/// One place where the parser asks a value set.
#[derive(Clone, Debug)]
pub(crate) struct SetUse {
    pub set: usize,
    /// Slot, width in bits and static mask (a limb each) of the key's elements.
    pub elements: Vec<(R, u32, Vec<u64>)>,
}

/// One element of a select key: first slot and width in bits.
type Element = (R, u32);

/// Width in bits of an index of a header stack, which the JSON does not tell.
const INDEX_WIDTH: u32 = 32;

/// Compiles the parser and returns where it starts.
pub(crate) fn compile(
    cx: &mut Cx,
    names: &Names,
    parser: &Node,
    sets: &mut [ValueSetInfo],
    uses: &mut Vec<SetUse>,
) -> Result<Label> {
    parser.allow(&["name", "id", "init_state", "parse_states"])?;
    let states = parser.get("parse_states")?.array()?;
    let mut labels = HashMap::new();
    for (i, s) in states.iter().enumerate() {
        let label = cx.asm.label();
        if labels.insert(s.get("name")?.str()?, (i, label)).is_some() {
            return s.err("another state has the same name");
        }
    }
    let accept = cx.asm.label();
    let target = |n: Option<Node>| -> Result<(usize, Label)> {
        match n {
            None => Ok((usize::MAX, accept)),
            Some(n) => match labels.get(n.str()?) {
                Some(&x) => Ok(x),
                None => n.err(format!("there is no parser state '{}'", n.str()?)),
            },
        }
    };
    // States that a transition enters from behind (or from themselves) may be on a cycle.
    let mut guarded = vec![false; states.len()];
    for (i, s) in states.iter().enumerate() {
        for t in s.get("transitions")?.array()? {
            let to = target(t.opt("next_state"))?.0;
            if to <= i {
                guarded[to] = true;
            }
        }
    }
    for (i, s) in states.iter().enumerate() {
        s.allow(&["name", "id", "parser_ops", "transitions", "transition_key"])?;
        let name = s.get("name")?.str()?;
        cx.asm.bind(labels[name].1);
        if guarded[i] {
            cx.asm.emit(Op::Guard);
        }
        cx.asm.note(|| format!("  parser state {name}"), &[]);
        for op in s.get("parser_ops")?.array()? {
            parser_op(cx, names, &op)?;
            cx.asm.reset_temps();
        }
        let key = select_key(cx, s)?;
        note_key(cx, s, &key)?;
        let mut default = accept;
        for t in s.get("transitions")?.array()? {
            t.allow(&["type", "value", "mask", "next_state"])?;
            let to = target(t.opt("next_state"))?.1;
            let ty = t.opt("type").map_or(Ok("hexstr"), |n| n.str())?;
            match ty {
                "default" => default = to,
                "hexstr" if t.get("value")?.str()? == "default" => default = to,
                "hexstr" => case(cx, &t, &key, to)?,
                "parse_vset" => value_set_case(cx, &t, &key, to, sets, uses)?,
                other => return t.unsupported(format!("transition type '{other}'")),
            }
        }
        cx.asm.jump(default);
        cx.asm.reset_temps();
    }
    cx.asm.bind(accept);
    cx.asm.emit(Op::End);
    let start = target(parser.opt("init_state"))?.1;
    cx.asm.pin(start);
    Ok(start)
}

fn parser_op(cx: &mut Cx, names: &Names, n: &Node) -> Result<()> {
    n.allow(&["op", "parameters"])?;
    let params = n.get("parameters")?.array()?;
    let layout = cx.layout;
    match (n.get("op")?.str()?, &params[..]) {
        ("extract", [what]) => extract(cx, what, None),
        ("extract_VL", [what, len]) => {
            let len = layout.num(len)?;
            let len = cx.low(&len)?;
            extract(cx, what, Some(len))
        }
        ("set", [d, s]) => {
            if d.get("type")?.str()? != "field" {
                return d.unsupported("parser 'set' of something else than a field");
            }
            let dst = layout.field(&d.get("value")?)?;
            let src = s.get("value")?;
            if s.get("type")?.str()? == "lookahead" {
                let (slot, width) = lookahead(cx, &src)?;
                let wide =
                    crate::load::layout::FieldRef { header: 0, slot, width, signed: false, varbit: false };
                cx.assign(dst, &Expr::Field(wide))?;
                note_set(cx, d);
                return Ok(());
            }
            if dst.varbit {
                let from = layout.field(&src)?;
                if !from.varbit || from.width > dst.width {
                    return n.unsupported("parser 'set' of a varbit from something else");
                }
                cx.asm.emit(Op::CopyVarbit { d: dst.slot, a: from.slot });
                let name = field_name(&d.get("value")?);
                cx.asm.note_parts(|| vec![format!("    set {name}")], &[]);
                return Ok(());
            }
            let e = match layout.expr(s)? {
                crate::load::expr::Any::Num(e) => e,
                crate::load::expr::Any::Test(t) => Expr::FromBool(Box::new(t)),
                _ => return s.err("a number was expected"),
            };
            cx.assign(dst, &e)?;
            note_set(cx, d);
            Ok(())
        }
        ("verify", [cond, error]) => {
            let test = match layout.expr(cond)? {
                crate::load::expr::Any::Test(t) => t,
                crate::load::expr::Any::Num(e) => Test::NonZero(e),
                _ => return cond.err("a truth value was expected"),
            };
            let good = cx.asm.label();
            cx.branch(&test, good, true)?;
            cx.asm.note(|| "    verify: it does not hold".into(), &[]);
            let error = if error.is_int() {
                Expr::Const(Big::from_u64(error.uint(u64::from(u32::MAX))?))
            } else {
                layout.num(error)?
            };
            let a = cx.low(&error)?;
            cx.asm.emit(Op::ParseError { a });
            cx.asm.bind(good);
            Ok(())
        }
        ("shift", [bytes]) => {
            let a = cx.asm.konst(bytes.uint(9216)? * 8);
            advance(cx, a);
            Ok(())
        }
        ("advance", [bits]) => {
            let bits = layout.num(bits)?;
            let a = cx.low(&bits)?;
            advance(cx, a);
            Ok(())
        }
        ("primitive", [p]) => {
            let (op, params) = (p.get("op")?.str()?, p.get("parameters")?.array()?);
            match p.opt("source_info") {
                _ if op == "log_msg" => {}
                Some(_) => action::statement(cx, p, None),
                None => {
                    let of = params.iter().filter_map(|p| Some(field_name(&p.opt("value")?)));
                    let words: Vec<String> = [op.into()].into_iter().chain(of).collect();
                    cx.asm.note_parts(|| vec![format!("    {}", words.join(" ").trim_end())], &[]);
                }
            }
            action::primitive(cx, names, p, op, &params)
        }
        (op, params) => n.unsupported(format!("parser operation '{op}' with {} parameters", params.len())),
    }
}

/// Skips as many bits as the slot says.
fn advance(cx: &mut Cx, a: R) {
    cx.asm.emit(Op::Advance { a });
    cx.asm.note(|| "    advance by {} bits".into(), &[(a, 64)]);
}

fn extract(cx: &mut Cx, what: &Node, len: Option<R>) -> Result<()> {
    let value = what.get("value")?;
    let layout = cx.layout;
    let kind = what.get("type")?.str()?;
    let (ty, op) = match kind {
        "regular" => {
            let header = layout.header(&value)?;
            let h = header as u16;
            let op = len.map_or(Op::Extract { h }, |len| Op::ExtractVar { h, len });
            (layout.headers[header].ty, op)
        }
        "stack" => {
            let s = layout.stack(&value)?;
            let stack = s as u16;
            let op = len.map_or(Op::ExtractNext { stack }, |len| Op::ExtractVarNext { stack, len });
            (layout.stacks[s].ty, op)
        }
        "union_stack" => {
            let s = layout.union_stack(&value.at(0)?)?;
            let (stack, name) = (s as u16, value.at(1)?);
            let members = &layout.union_types[layout.union_stacks[s].ty].members;
            let Some(m) = members.iter().position(|(m, _)| Ok(m.as_str()) == name.str()) else {
                return name.err("the union has no such member");
            };
            let member = m as u8;
            let op = len.map_or(Op::ExtractNextUnion { stack, member }, |len| Op::ExtractVarNextUnion {
                stack,
                member,
                len,
            });
            (members[m].1, op)
        }
        other => return what.unsupported(format!("extraction to '{other}'")),
    };
    if layout.types[ty].varbit().is_some() != len.is_some() {
        return what.err("extract_VL goes with a header that has a varbit, extract with one that has none");
    }
    cx.asm.emit(op);
    let name = || match kind {
        "regular" => field_name(&value),
        _ => element_name(&value, "next"),
    };
    cx.asm.note(|| format!("    extract {}", name()), &[]);
    Ok(())
}

/// The name of an element of a stack, or of what is in it.
fn element_name(value: &Node, element: &str) -> String {
    match value.array().as_deref() {
        Ok([stack, of @ ..]) => {
            let of = of.iter().map(|part| format!(".{}", field_name(part)));
            format!("{}.{element}{}", field_name(stack), of.collect::<String>())
        }
        _ => format!("{}.{element}", field_name(value)),
    }
}

/// Says which value a `set` has written.
fn note_set(cx: &mut Cx, field: &Node) {
    if let Some((name, slot, width)) = action::written_field(cx, field) {
        cx.asm.note_parts(|| vec![format!("    set {name}="), String::new()], &[(slot, width)]);
    }
}

/// Says what a state selects by.
fn note_key(cx: &mut Cx, state: &Node, key: &[Element]) -> Result<()> {
    if cx.asm.notes.is_none() || key.is_empty() {
        return Ok(());
    }
    let mut parts = Vec::new();
    for k in state.list("transition_key")? {
        let before = if parts.is_empty() { "    select by " } else { ", " };
        let name = match k.get("type")?.str()? {
            "field" => field_name(&k.get("value")?),
            "stack_field" | "union_stack_field" => element_name(&k.get("value")?, "last"),
            "lookahead" => "lookahead".into(),
            _ => "lastIndex".into(),
        };
        parts.push(format!("{before}{name}="));
    }
    parts.push(String::new());
    cx.asm.note_parts(|| parts, key);
    Ok(())
}

/// Bits ahead of the cursor in fresh slots.
fn lookahead(cx: &mut Cx, value: &Node) -> Result<Element> {
    let bit = value.at(0)?.uint(9216 * 8)? as u32;
    let width = value.at(1)?.uint(4096)? as u32;
    let limbs = width.div_ceil(64).max(1);
    let d = cx.asm.temp(limbs as usize);
    for l in (0..limbs).rev() {
        let w = (width - 64 * l).min(64);
        if w > 0 {
            cx.asm.emit(Op::Lookahead { d: d + l as R, bit: bit + width - 64 * l - w, width: w as u8 });
        }
    }
    Ok((d, width))
}

fn select_key(cx: &mut Cx, state: &Node) -> Result<Vec<Element>> {
    let mut key = Vec::new();
    for k in state.list("transition_key")? {
        k.allow(&["type", "value"])?;
        let value = k.get("value")?;
        let layout = cx.layout;
        key.push(match k.get("type")?.str()? {
            "field" => {
                let f = layout.field(&value)?;
                if f.varbit {
                    return k.unsupported("varbit in a select");
                }
                (f.slot, f.width)
            }
            "lookahead" => lookahead(cx, &value)?,
            "stack_field" => {
                let stack = layout.stack(&value.at(0)?)?;
                let field = layout.type_field(layout.stacks[stack].ty, &value.at(1)?)?;
                let (slot, width, _) = cx.load_indexed(&Expr::Last { stack, field })?;
                (slot, width)
            }
            "union_stack_field" => {
                let stack = layout.union_stack(&value.at(0)?)?;
                let name = value.at(1)?;
                let members = &layout.union_types[layout.union_stacks[stack].ty].members;
                let Some(member) = members.iter().position(|(m, _)| Ok(m.as_str()) == name.str()) else {
                    return name.err("the union has no such member");
                };
                let field = layout.type_field(members[member].1, &value.at(2)?)?;
                let last = Expr::Bin(
                    crate::load::expr::Bin::Sub,
                    Box::new(Expr::UnionStackSize(stack)),
                    Box::new(Expr::Const(Big::from_u64(1))),
                );
                let e = Expr::UnionElem { stack, index: Box::new(last), member, field };
                let (slot, width, _) = cx.load_indexed(&e)?;
                (slot, width)
            }
            "expression" => {
                let index = layout.num(&k)?;
                if !matches!(index, Expr::LastIndex(_)) {
                    return k.unsupported("select key of another expression than a stack's lastIndex");
                }
                let slot = cx.asm.temp(1);
                cx.low_to(&index, Some(slot), super::expr::mask(INDEX_WIDTH))?;
                (slot, INDEX_WIDTH)
            }
            other => return k.unsupported(format!("select key '{other}'")),
        });
    }
    Ok(key)
}

/// Splits a byte string by the key's elements, each padded to whole bytes.
fn split(n: &Node, key: &[Element]) -> Result<Vec<Vec<u64>>> {
    let bytes = hex_bytes(n)?;
    let expected: usize = key.iter().map(|(_, w)| (*w as usize).div_ceil(8)).sum();
    if bytes.len() != expected {
        return n.err(format!("{} bytes instead of the key's {expected}", bytes.len()));
    }
    let mut at = 0;
    let mut out = Vec::new();
    for (_, w) in key {
        let len = (*w as usize).div_ceil(8);
        let limbs = to_limbs(&bytes[at..at + len], (len * 8) as u32).unwrap_or_default();
        out.push(limbs);
        at += len;
    }
    Ok(out)
}

fn case(cx: &mut Cx, t: &Node, key: &[Element], to: Label) -> Result<()> {
    let value = split(&t.get("value")?, key)?;
    let mask = t.opt("mask").map(|m| split(&m, key)).transpose()?;
    let next = cx.asm.label();
    // Differences to test: slot, wanted value, mask.
    let mut tests = Vec::new();
    for (e, (slot, width)) in key.iter().enumerate() {
        let limbs = (*width as usize).div_ceil(64).max(1);
        for l in 0..limbs {
            let full = super::expr::mask((*width - 64 * l as u32).min(64));
            let m = mask.as_ref().map_or(u64::MAX, |m| m[e].get(l).copied().unwrap_or(0));
            let v = value[e].get(l).copied().unwrap_or(0) & m;
            if m & full == full {
                tests.push((slot + l as R, v, None));
            } else if m & full != 0 || v != 0 {
                tests.push((slot + l as R, v, Some(m)));
            }
        }
    }
    let last = tests.len().wrapping_sub(1);
    for (i, (slot, v, m)) in tests.into_iter().enumerate() {
        let b = cx.asm.konst(v);
        let mut a = slot;
        if let Some(m) = m {
            let m = cx.asm.konst(m);
            a = cx.asm.temp(1);
            cx.asm.emit(Op::And { d: a, a: slot, b: m });
        }
        if i == last {
            cx.asm.emit(Op::Br { a, b, cmp: Cmp::Eq, t: to.0 });
        } else {
            cx.asm.emit(Op::Br { a, b, cmp: Cmp::Ne, t: next.0 });
        }
    }
    if last == usize::MAX {
        cx.asm.jump(to);
    }
    cx.asm.bind(next);
    Ok(())
}

fn value_set_case(
    cx: &mut Cx,
    t: &Node,
    key: &[Element],
    to: Label,
    sets: &mut [ValueSetInfo],
    uses: &mut Vec<SetUse>,
) -> Result<()> {
    let name = t.get("value")?;
    let Some(set) = sets.iter().position(|s| Ok(s.name.as_str()) == name.str()) else {
        return name.err("there is no such value set");
    };
    let widths: Vec<u32> = key.iter().map(|(_, w)| *w).collect();
    if sets[set].widths.is_empty() {
        sets[set].widths.clone_from(&widths);
    }
    if sets[set].widths != widths || widths.iter().sum::<u32>() != sets[set].width {
        return t.err("the select key's widths are not those of the value set");
    }
    let mask = t.opt("mask").map(|m| split(&m, key)).transpose()?;
    let elements = key.iter().enumerate().map(|(i, (slot, width))| {
        let n = (*width as usize).div_ceil(64).max(1);
        (*slot, *width, mask.as_ref().map_or(vec![u64::MAX; n], |m| m[i].clone()))
    });
    uses.push(SetUse { set, elements: elements.collect() });
    cx.asm.emit(Op::BrSet { set: uses.len() as u16 - 1, t: to.0 });
    Ok(())
}
