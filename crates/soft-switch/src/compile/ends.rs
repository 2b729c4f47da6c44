//! Compiles what surrounds the controls: checksum verification and update, and the deparser.

use super::action::{self, Names};
use super::asm::Label;
use super::expr::{Cx, mask};
use crate::load::expr::{HeaderExpr, Test};
use crate::load::node::{Node, Result};
use crate::op::Op;

/// Code that verifies checksums after parsing, and code that updates them before deparsing.
pub(crate) fn checksums(cx: &mut Cx, root: &Node, names: &Names) -> Result<(Label, Label)> {
    let list = root.list("checksums")?;
    let mut starts = Vec::new();
    for verify in [true, false] {
        starts.push(cx.asm.here());
        for c in &list {
            c.allow(&["name", "id", "target", "type", "calculation", "verify", "update", "if_cond"])?;
            let wanted = c.opt(if verify { "verify" } else { "update" }).map_or(Ok(true), |v| v.bool())?;
            if c.get("type")?.str()? != "generic" {
                return c.unsupported(format!("checksum type '{}'", c.get("type")?.str()?));
            }
            let target = cx.layout.field(&c.get("target")?)?;
            let calc = c.get("calculation")?;
            let Some(&calc) = names.calcs.get(calc.str()?) else {
                return calc.err("there is no such calculation");
            };
            if !wanted {
                continue;
            }
            if target.width > 64 {
                return c.unsupported("checksum of more than 64 bits");
            }
            let skip = cx.asm.label();
            if let Some(cond) = c.opt("if_cond") {
                let test = cx.layout.test(&cond)?;
                cx.branch_unless(&test, skip)?;
            }
            if verify {
                let test = Test::Valid(HeaderExpr::Fixed(target.header));
                cx.branch_unless(&test, skip)?;
                cx.asm.emit(Op::CheckSum { a: target.slot, calc });
            } else {
                let m = cx.asm.konst(mask(target.width));
                cx.asm.emit(Op::Calc { d: target.slot, calc, m });
            }
            cx.asm.bind(skip);
            cx.asm.reset_temps();
        }
        cx.asm.emit(Op::End);
    }
    Ok((starts[0], starts[1]))
}

pub(crate) fn deparser(cx: &mut Cx, root: &Node, names: &Names) -> Result<(Label, Vec<u16>)> {
    let deparsers = root.get("deparsers")?.array()?;
    let [d] = &deparsers[..] else { return root.unsupported(format!("{} deparsers", deparsers.len())) };
    d.allow(&["name", "id", "order", "primitives"])?;
    let start = cx.asm.here();
    for p in d.list("primitives")? {
        let op = p.get("op")?.str()?;
        if matches!(op, "exit") {
            return p.unsupported("exit in a deparser");
        }
        action::primitive(cx, names, &p, op, &p.get("parameters")?.array()?)?;
        cx.asm.reset_temps();
    }
    cx.asm.emit(Op::End);
    let mut order = Vec::new();
    for h in d.get("order")?.array()? {
        let header = cx.layout.header(&h)?;
        if cx.layout.headers[header].metadata {
            return h.err("metadata cannot be deparsed");
        }
        order.push(header as u16);
    }
    Ok((start, order))
}
