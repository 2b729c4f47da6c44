//! Compiles actions and the primitives that they, parsers and deparsers call.

use std::collections::HashMap;

use super::asm::Label;
use super::expr::{Cx, mask};
use crate::image::AssertSite;
use crate::load::big::Big;
use crate::load::expr::{Any, Bin, Expr, HeaderExpr, Test};
use crate::load::layout::FieldRef;
use crate::load::node::{Node, Result};
use crate::op::{Op, R};

/// Names that primitives refer to, with their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub counters: HashMap<String, u16>,
    pub meters: HashMap<String, u16>,
    pub registers: HashMap<String, u16>,
    pub calcs: HashMap<String, u16>,
}

impl Names {
    fn find(map: &HashMap<String, u16>, n: &Node, kind: &str) -> Result<u16> {
        let v = n.get("value")?;
        let name = v.str()?;
        map.get(name).copied().map_or_else(|| v.err(format!("there is no {kind} '{name}'")), Ok)
    }
}

/// Whether any of the primitives is an `exit`.
pub(crate) fn has_exit(primitives: &[Node]) -> Result<bool> {
    for p in primitives {
        if p.get("op")?.str()? == "exit" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Compiles the primitives of an action; control flows on behind them.
pub(crate) fn body(cx: &mut Cx, names: &Names, primitives: &[Node]) -> Result<()> {
    // `_jump` counts in primitives.
    let labels: Vec<Label> = (0..=primitives.len()).map(|_| cx.asm.label()).collect();
    for (i, p) in primitives.iter().enumerate() {
        cx.asm.bind(labels[i]);
        p.allow(&["op", "parameters"])?;
        let params = p.get("parameters")?.array()?;
        let op = p.get("op")?.str()?;
        let target = |n: &Node| -> Result<Label> {
            let to = Big::hex(&n.get("value")?)?.to_u64().unwrap_or(u64::MAX);
            labels.get(to as usize).copied().map_or_else(|| n.err("jump beyond the end of the action"), Ok)
        };
        match (op, &params[..]) {
            ("_jump", [to]) => {
                let to = target(to)?;
                jump(cx, to, &labels[..=i]);
            }
            ("_jump_if_zero", [cond, to]) => {
                let test = match cx.layout.expr(cond)? {
                    Any::Num(e) => Test::NonZero(e),
                    Any::Test(t) => t,
                    _ => return cond.err("a number or truth value was expected"),
                };
                let to = target(to)?;
                if labels[..=i].contains(&to) {
                    let on = cx.asm.label();
                    cx.branch(&test, on, true)?;
                    jump(cx, to, &labels[..=i]);
                    cx.asm.bind(on);
                } else {
                    cx.branch(&test, to, false)?;
                }
            }
            // Nothing behind them may run.
            ("exit" | "assert" | "assume", _) => {
                statement(cx, p, None);
                primitive(cx, names, p, op, &params)?;
            }
            // It says its text itself.
            ("log_msg", _) => primitive(cx, names, p, op, &params)?,
            _ => {
                primitive(cx, names, p, op, &params)?;
                let written = match op {
                    "execute_meter" => params.last(),
                    // Their first parameter is read.
                    "truncate" | "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => None,
                    _ => params.first(),
                };
                statement(cx, p, written);
            }
        }
        cx.asm.reset_temps();
    }
    cx.asm.bind(labels[primitives.len()]);
    Ok(())
}

/// Jumps; a jump back counts as an iteration of a loop.
fn jump(cx: &mut Cx, to: Label, behind: &[Label]) {
    cx.asm.emit(if behind.contains(&to) { Op::JmpBack { t: to.0 } } else { Op::Jmp { t: to.0 } });
}

/// Compiles one primitive.
pub(crate) fn primitive(cx: &mut Cx, names: &Names, p: &Node, op: &str, params: &[Node]) -> Result<()> {
    let layout = cx.layout;
    let num = |n: &Node| layout.num(n);
    let bin = |b, x, y| Expr::Bin(b, Box::new(x), Box::new(y));
    match (op, params) {
        ("assign" | "modify_field", [d, s]) => {
            if let Some((d, s)) = varbits(cx, d, s)? {
                cx.asm.emit(Op::CopyVarbit { d, a: s });
                return Ok(());
            }
            let (dst, e) = (num(d)?, truth_as_number(cx, s)?);
            store(cx, d, &dst, &e)
        }
        ("assign_VL", [d, s]) => match varbits(cx, d, s)? {
            Some((d, s)) => {
                cx.asm.emit(Op::CopyVarbit { d, a: s });
                Ok(())
            }
            None => p.err("two varbit fields were expected"),
        },
        ("add_to_field", [d, s]) => {
            let dst = num(d)?;
            store(cx, d, &dst.clone(), &bin(Bin::Add, dst, num(s)?))
        }
        ("subtract_from_field", [d, s]) => {
            let dst = num(d)?;
            store(cx, d, &dst.clone(), &bin(Bin::Sub, dst, num(s)?))
        }
        ("add" | "subtract" | "bit_xor" | "bit_or" | "bit_and" | "shift_left" | "shift_right", [d, a, b]) => {
            let b_op = match op {
                "add" => Bin::Add,
                "subtract" => Bin::Sub,
                "bit_xor" => Bin::Xor,
                "bit_or" => Bin::Or,
                "bit_and" => Bin::And,
                "shift_left" => Bin::Shl,
                _ => Bin::Shr,
            };
            store(cx, d, &num(d)?, &bin(b_op, num(a)?, num(b)?))
        }
        ("assign_header" | "copy_header", [d, s]) => {
            let (d, s) = (layout.header_expr(d)?, layout.header_expr(s)?);
            copy_header(cx, &d, &s)
        }
        ("assign_union", [d, s]) => {
            let (Any::Union(d), Any::Union(s)) = (layout.expr(d)?, layout.expr(s)?) else {
                return p.err("two header unions were expected");
            };
            assign_union(cx, &d, &s)
        }
        ("assign_header_stack", [d, s]) => {
            let (Any::Stack(d), Any::Stack(s)) = (layout.expr(d)?, layout.expr(s)?) else {
                return p.err("two header stacks were expected");
            };
            let (d, s) = (&layout.stacks[d], &layout.stacks[s]);
            if d.elems.len() != s.elems.len() || d.ty != s.ty {
                return p.err("the stacks differ in type or size");
            }
            cx.asm.emit(Op::Copy { d: d.next as R, a: s.next as R });
            for (d, s) in d.elems.iter().zip(&s.elems) {
                cx.asm.emit(Op::CopyHeader { d: *d as u16, s: *s as u16 });
            }
            Ok(())
        }
        ("assign_union_stack", [d, s]) => {
            let (Any::UnionStack(d), Any::UnionStack(s)) = (layout.expr(d)?, layout.expr(s)?) else {
                return p.err("two header union stacks were expected");
            };
            let (d, s) = (&layout.union_stacks[d], &layout.union_stacks[s]);
            if d.elems.len() != s.elems.len() || d.ty != s.ty {
                return p.err("the stacks differ in type or size");
            }
            cx.asm.emit(Op::Copy { d: d.next as R, a: s.next as R });
            for (d, s) in d.elems.iter().zip(&s.elems) {
                for (d, s) in layout.unions[*d].members.iter().zip(&layout.unions[*s].members) {
                    cx.asm.emit(Op::CopyHeader { d: *d as u16, s: *s as u16 });
                }
            }
            Ok(())
        }
        ("push" | "pop", [stack, n]) => {
            let count = num(n)?;
            let n = cx.low(&count)?;
            cx.asm.emit(match (layout.expr(stack)?, op) {
                (Any::Stack(s), "push") => Op::Push { stack: s as u16, n },
                (Any::Stack(s), _) => Op::Pop { stack: s as u16, n },
                (Any::UnionStack(s), "push") => Op::PushUnion { stack: s as u16, n },
                (Any::UnionStack(s), _) => Op::PopUnion { stack: s as u16, n },
                _ => return stack.err("a header stack was expected"),
            });
            Ok(())
        }
        ("add_header" | "add_header_fast" | "remove_header", [h]) => {
            let h = layout.header_expr(h)?;
            let add = op != "remove_header";
            if let HeaderExpr::Fixed(h) = h {
                let h = h as u16;
                cx.asm.emit(if add { Op::SetValid { h } } else { Op::SetInvalid { h } });
            } else {
                let a = cx.header_number(&h)?;
                cx.asm.emit(if add { Op::SetValidDyn { a } } else { Op::SetInvalidDyn { a } });
            }
            Ok(())
        }
        ("mark_to_drop", [h]) => mark_to_drop(cx, h),
        ("drop" | "mark_to_drop", []) => {
            cx.asm.emit(Op::Drop);
            Ok(())
        }
        ("exit", []) => {
            cx.asm.emit(Op::Exit);
            Ok(())
        }
        ("no_op", []) => Ok(()),
        ("log_msg", [text]) => {
            let text = text.get("value")?.str()?;
            cx.asm.note(|| format!("  log_msg: {text}"), &[]);
            Ok(())
        }
        ("log_msg", [text, args]) => {
            let text = text.get("value")?.str()?;
            // Logging has no effect on packets, but its arguments must be sound.
            let args = args.get("value")?;
            let mut values = Vec::new();
            // p4c writes an empty object where there are none.
            if !args.is_empty_object() {
                for a in args.array()? {
                    let e = match layout.expr(&a)? {
                        Any::Num(e) => e,
                        Any::Test(t) => Expr::FromBool(Box::new(t)),
                        _ => continue,
                    };
                    match (&e, &cx.asm.notes) {
                        (_, None) => {}
                        (Expr::Field(f), _) if !f.varbit => values.push((f.slot, f.width)),
                        // Of computed values the low 64 bits.
                        _ => values.push((cx.low(&e)?, 64)),
                    }
                }
            }
            cx.asm.note(|| format!("  log_msg: {text}"), &values);
            Ok(())
        }
        ("assert" | "assume", [t]) => {
            let test = match layout.expr(t)? {
                Any::Test(t) => t,
                Any::Num(e) => Test::NonZero(e),
                _ => return t.err("a truth value was expected"),
            };
            let good = cx.asm.label();
            cx.branch(&test, good, true)?;
            cx.asm.note(|| "    it does not hold".into(), &[]);
            let site = cx.asm.asserts.len() as u32;
            cx.asm.asserts.push(assert_site(op, p));
            cx.asm.emit(Op::AssertFailed { site });
            cx.asm.bind(good);
            Ok(())
        }
        _ => stateful(cx, names, p, op, params),
    }
}

/// The place of a primitive in its P4 source, and its text there, if the compiler wrote them down.
fn source(p: &Node) -> (Option<String>, Option<String>) {
    let source = p.opt("source_info");
    let text = |key: &str| source.as_ref()?.opt(key)?.str().ok();
    let number = |key: &str| source.as_ref()?.opt(key)?.int().ok();
    let place = match (text("filename"), number("line"), number("column")) {
        (Some(file), Some(line), Some(column)) => Some(format!("{file}:{line}:{column}")),
        (Some(file), Some(line), None) => Some(format!("{file}:{line}")),
        _ => None,
    };
    // p4c escapes quotes twice.
    let fragment = |text: &str| text.trim_end_matches(';').trim().replace("\\\"", "\"");
    (place, text("source_fragment").map(fragment))
}

/// Where an `assert` or `assume` stands.
fn assert_site(op: &str, p: &Node) -> AssertSite {
    let (place, text) = source(p);
    AssertSite { text: text.unwrap_or_else(|| op.into()), place: place.unwrap_or_else(|| p.place()) }
}

/// Says that a statement of the P4 source is carried out, and the value of the field that it has written.
pub(crate) fn statement(cx: &mut Cx, p: &Node, written: Option<&Node>) {
    if cx.asm.notes.is_none() {
        return;
    }
    let (Some(place), Some(text)) = source(p) else { return };
    let text = format!("    {place} {text}");
    match written.and_then(|field| written_field(cx, field)) {
        Some((name, slot, width)) => {
            cx.asm.note_parts(|| vec![format!("{text}: {name}="), String::new()], &[(slot, width)])
        }
        None => cx.asm.note_parts(|| vec![text], &[]),
    }
}

/// The name of a header, or of a field whose parts are listed.
pub(crate) fn field_name(value: &Node) -> String {
    let Ok(parts) = value.array() else { return value.str().unwrap_or_default().into() };
    let parts: Vec<&str> = parts.iter().filter_map(|part| part.str().ok()).collect();
    parts.join(".")
}

/// A field: its name, its first slot and its width in bits.
pub(crate) fn written_field(cx: &Cx, n: &Node) -> Option<(String, R, u32)> {
    if n.get("type").ok()?.str().ok()? != "field" {
        return None;
    }
    let Ok(Any::Num(Expr::Field(field))) = cx.layout.expr(n) else { return None };
    let name = field_name(&n.get("value").ok()?);
    (!field.varbit).then_some((name, field.slot, field.width))
}

/// Primitives that touch state beyond the packet's headers.
fn stateful(cx: &mut Cx, names: &Names, p: &Node, op: &str, params: &[Node]) -> Result<()> {
    let layout = cx.layout;
    match (op, params) {
        ("modify_field_rng_uniform", [d, lo, hi]) => {
            let (lo, hi) = (layout.num(lo)?, layout.num(hi)?);
            let (lo, hi) = (cx.low(&lo)?, cx.low(&hi)?);
            store_with(cx, d, |d, m| Op::Random { d, lo, hi, m })
        }
        ("modify_field_with_hash_based_offset", [d, base, calc, size]) => {
            let (base, size) = (layout.num(base)?, layout.num(size)?);
            let calc = Names::find(&names.calcs, calc, "calculation")?;
            if let (Expr::Const(b), Expr::Const(s)) = (&base, &size)
                && b.to_u64() == Some(0)
                && let Some(s) = s.to_u64()
                && s.is_power_of_two()
            {
                // The remainder is a mask.
                let low = cx.asm.konst(s - 1);
                let t = cx.asm.temp(1);
                cx.asm.emit(Op::Calc { d: t, calc, m: low });
                return store_with(cx, d, |d, m| Op::Mov { d, a: t, m });
            }
            let (base, size) = (cx.low(&base)?, cx.low(&size)?);
            store_with(cx, d, |d, m| Op::Hash { d, calc, base, size, m })
        }
        ("execute_meter", [meter, index, d]) => {
            let meter = Names::find(&names.meters, meter, "meter")?;
            let index = layout.num(index)?;
            let idx = cx.low(&index)?;
            store_with(cx, d, |d, m| Op::Meter { d, meter, idx, m })
        }
        ("count", [counter, index]) => {
            let counter = Names::find(&names.counters, counter, "counter")?;
            let index = layout.num(index)?;
            let idx = cx.low(&index)?;
            cx.asm.emit(Op::Count { counter, idx });
            Ok(())
        }
        ("register_read", [d, reg, index]) => {
            let reg = Names::find(&names.registers, reg, "register")?;
            let r = &cx.registers[reg as usize];
            if r.width <= 64 {
                let index = layout.num(index)?;
                let idx = cx.low(&index)?;
                return store_with(cx, d, |d, m| Op::RegRead { d, reg, idx, m });
            }
            store(cx, d, &layout.num(d)?, &cell(&r.name, layout.num(index)?))
        }
        ("register_write", [reg, index, value]) => {
            let reg = Names::find(&names.registers, reg, "register")?;
            let r = &cx.registers[reg as usize];
            let cell = cell(&r.name, layout.num(index)?);
            let value = truth_as_number(cx, value)?;
            cx.assign_indexed(&cell, &value).map(|_| ())
        }
        ("generate_digest", [_, list]) => {
            let list = layout.num(list)?;
            let a = cx.low(&list)?;
            cx.asm.emit(Op::Digest { a });
            Ok(())
        }
        ("clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress", [session, list]) => {
            let (session, list) = (layout.num(session)?, layout.num(list)?);
            let (session, list) = (cx.low(&session)?, cx.low(&list)?);
            cx.asm.emit(Op::Clone { session, list });
            Ok(())
        }
        ("resubmit" | "recirculate" | "truncate", [n]) => {
            let n = layout.num(n)?;
            let a = cx.low(&n)?;
            cx.asm.emit(match op {
                "resubmit" => Op::Resubmit { list: a },
                "recirculate" => Op::Recirculate { list: a },
                _ => Op::Truncate { a },
            });
            Ok(())
        }
        (op, params) => p.unsupported(format!("primitive '{op}' with {} parameters", params.len())),
    }
}

/// A register's cell; that there is such a register is known.
fn cell(register: &str, index: Expr) -> Expr {
    Expr::Register { register: register.to_string(), place: String::new(), index: Box::new(index) }
}

/// A number, or a truth value as 0 or 1.
fn truth_as_number(cx: &Cx, n: &Node) -> Result<Expr> {
    Ok(match cx.layout.expr(n)? {
        Any::Num(e) => e,
        Any::Test(t) => Expr::FromBool(Box::new(t)),
        _ => return n.err("a number was expected"),
    })
}

/// Both fields' slots if both are varbits.
fn varbits(cx: &Cx, d: &Node, s: &Node) -> Result<Option<(R, R)>> {
    let var = |n: &Node| -> Result<Option<FieldRef>> {
        Ok(match n.get("type")?.str()? {
            "field" | "header" => match cx.layout.expr(n)? {
                Any::Varbit(field) => Some(field),
                _ => None,
            },
            _ => None,
        })
    };
    Ok(match (var(d)?, var(s)?) {
        (Some(d), Some(s)) if d.width >= s.width => Some((d.slot, s.slot)),
        (Some(_), Some(_)) => return s.unsupported("assignment of a varbit to a shorter one"),
        _ => None,
    })
}

fn store(cx: &mut Cx, place: &Node, dst: &Expr, e: &Expr) -> Result<()> {
    if !cx.assign_indexed(dst, e)? {
        return place.err("this cannot be assigned to");
    }
    Ok(())
}

/// Emits an instruction that writes one word to a destination.
fn store_with(cx: &mut Cx, place: &Node, op: impl FnOnce(R, R) -> Op) -> Result<()> {
    let dst = cx.layout.num(place)?;
    if let Expr::Field(f) = &dst
        && f.width <= 64
    {
        let m = cx.asm.konst(mask(f.width));
        cx.asm.emit(op(f.slot, m));
        return Ok(());
    }
    let (t, m) = (cx.asm.temp(1), cx.asm.konst(u64::MAX));
    cx.asm.emit(op(t, m));
    let word = FieldRef { header: 0, slot: t, width: 64, signed: false, varbit: false };
    store(cx, place, &dst, &Expr::Field(word))
}

fn copy_header(cx: &mut Cx, d: &HeaderExpr, s: &HeaderExpr) -> Result<()> {
    if let (HeaderExpr::Fixed(d), HeaderExpr::Fixed(s)) = (d, s) {
        cx.asm.emit(Op::CopyHeader { d: *d as u16, s: *s as u16 });
        return Ok(());
    }
    let (d, s) = (cx.header_number(d)?, cx.header_number(s)?);
    cx.asm.emit(Op::CopyHeaderDyn { d, s });
    Ok(())
}

fn assign_union(
    cx: &mut Cx,
    d: &crate::load::expr::UnionExpr,
    s: &crate::load::expr::UnionExpr,
) -> Result<()> {
    for (d, s) in cx.union_members(d).iter().zip(&cx.union_members(s)) {
        copy_header(cx, d, s)?;
    }
    Ok(())
}

/// Marks a struct of the standard metadata's type. p4c hands a copy of it to an action with an `inout` parameter, and
/// copies it back behind the call.
fn mark_to_drop(cx: &mut Cx, struct_: &Node) -> Result<()> {
    let HeaderExpr::Fixed(marked) = cx.layout.header_expr(struct_)? else {
        return struct_.err("a fixed struct was expected");
    };
    let standard = ["egress_spec", "mcast_grp"].map(|f| cx.layout.find("standard_metadata", f));
    if standard.iter().flatten().any(|f| f.header == marked) {
        cx.asm.emit(Op::Drop);
        return Ok(());
    }
    // The switch alone knows the drop port, and puts it into its own struct: which is put aside meanwhile.
    let of = |f| cx.layout.find(&cx.layout.headers[marked].name, f).map(|f| f.slot);
    let copies = ["egress_spec", "mcast_grp"].map(of);
    let mut pairs = Vec::new();
    for (own, copy) in standard.iter().zip(copies) {
        if let (Some(own), Some(copy)) = (own, copy) {
            pairs.push((own.slot, copy, cx.asm.temp(1)));
        }
    }
    if pairs.is_empty() {
        return struct_.err("the struct has no field 'egress_spec'");
    }
    pairs.iter().for_each(|&(own, _, aside)| cx.asm.emit(Op::Copy { d: aside, a: own }));
    cx.asm.emit(Op::Drop);
    for &(own, copy, aside) in &pairs {
        cx.asm.emit(Op::Copy { d: copy, a: own });
        cx.asm.emit(Op::Copy { d: own, a: aside });
    }
    Ok(())
}
