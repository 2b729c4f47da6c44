//! Reads what a program declares besides headers, parser and tables: errors, arrays, lists, standard metadata.

use std::collections::HashMap;

use super::action::Names;
use super::expr::RegisterRef;
use crate::image::{CoreErrors, FieldLists, LearnLists, Standard};
use crate::info::*;
use crate::load::layout::{FieldRef, Layout};
use crate::load::node::{Node, Result};

pub(crate) fn load_errors(root: &Node, info: &mut ProgramInfo) -> Result<CoreErrors> {
    for e in root.list("errors")? {
        info.errors.push((e.at(0)?.str()?.to_string(), e.at(1)?.uint(u64::from(u32::MAX) - 64)? as u32));
    }
    let mut next = info.errors.iter().map(|(_, n)| n + 1).max().unwrap_or(0);
    let mut core = |name: &str| {
        if let Some((_, n)) = info.errors.iter().find(|(e, _)| e == name) {
            return u64::from(*n);
        }
        info.errors.push((name.to_string(), next));
        next += 1;
        u64::from(next) - 1
    };
    let none = core("NoError");
    let too_short = core("PacketTooShort");
    core("NoMatch");
    Ok(CoreErrors {
        none,
        too_short,
        stack: core("StackOutOfBounds"),
        header_too_short: core("HeaderTooShort"),
        timeout: core("ParserTimeout"),
        invalid_argument: core("ParserInvalidArgument"),
    })
}

/// Cells that all arrays together may have: a damaged file must not exhaust memory.
const MAX_CELLS: u64 = 1 << 28;

pub(crate) fn load_arrays(
    root: &Node,
    info: &mut ProgramInfo,
    names: &mut Names,
) -> Result<Vec<RegisterRef>> {
    let mut registers = Vec::new();
    for r in root.list("register_arrays")? {
        r.allow(&["name", "id", "size", "bitwidth"])?;
        let name = r.get("name")?.str()?.to_string();
        let width = r.get("bitwidth")?.uint(4096)?.max(1) as u32;
        let size = r.get("size")?.uint(MAX_CELLS / u64::from(width.div_ceil(64)))? as usize;
        if names.registers.insert(name.clone(), registers.len() as u16).is_some() {
            return r.err("another register has the same name");
        }
        registers.push(RegisterRef { name: name.clone(), width });
        info.registers.push(RegisterInfo { name, size, width });
    }
    for c in root.list("counter_arrays")? {
        c.allow(&["name", "id", "size", "is_direct", "binding"])?;
        if c.opt("is_direct").map_or(Ok(false), |d| d.bool())? {
            continue;
        }
        let name = c.get("name")?.str()?.to_string();
        if names.counters.insert(name.clone(), info.counters.len() as u16).is_some() {
            return c.err("another counter has the same name");
        }
        info.counters.push(CounterInfo { name, size: c.get("size")?.uint(MAX_CELLS)? as usize });
    }
    Ok(registers)
}

pub(crate) fn load_meters(
    root: &Node,
    layout: &Layout,
    info: &mut ProgramInfo,
    names: &mut Names,
) -> Result<HashMap<String, (FieldRef, MeterUnit)>> {
    let mut direct = HashMap::new();
    for m in root.list("meter_arrays")? {
        m.allow(&["name", "id", "type", "rate_count", "size", "is_direct", "binding", "result_target"])?;
        let name = m.get("name")?.str()?.to_string();
        let unit = match m.get("type")?.str()? {
            "packets" => MeterUnit::Packets,
            "bytes" => MeterUnit::Bytes,
            other => return m.unsupported(format!("meter type '{other}'")),
        };
        if m.get("rate_count")?.int()? != 2 {
            return m.unsupported("meter with another number of rates than 2");
        }
        if m.opt("is_direct").map_or(Ok(false), |d| d.bool())? {
            direct.insert(name, (layout.field(&m.get("result_target")?)?, unit));
            continue;
        }
        if names.meters.insert(name.clone(), info.meters.len() as u16).is_some() {
            return m.err("another meter has the same name");
        }
        info.meters.push(MeterInfo { name, size: m.get("size")?.uint(MAX_CELLS / 8)? as usize, unit });
    }
    Ok(direct)
}

pub(crate) fn load_field_lists(root: &Node, layout: &Layout) -> Result<FieldLists> {
    let mut lists = HashMap::new();
    for l in root.list("field_lists")? {
        l.allow(&["id", "name", "elements"])?;
        let mut fields = Vec::new();
        for e in l.get("elements")?.array()? {
            match e.get("type")?.str()? {
                "field" => {
                    let f = layout.field(&e.get("value")?)?;
                    if f.varbit {
                        return e.unsupported("varbit in a field list");
                    }
                    fields.push((f.slot, f.limbs() as u8));
                }
                // Constants are part of a list's type but nothing is kept for them.
                "hexstr" => {}
                other => return e.unsupported(format!("field list element '{other}'")),
            }
        }
        lists.insert(l.get("id")?.uint(65535)?, fields.into());
    }
    Ok(lists)
}

pub(crate) fn load_learn_lists(root: &Node, layout: &Layout, info: &mut ProgramInfo) -> Result<LearnLists> {
    let mut lists = HashMap::new();
    for l in root.list("learn_lists")? {
        l.allow(&["id", "name", "elements"])?;
        let (mut fields, mut digest) = (Vec::new(), DigestInfo { name: String::new(), fields: Vec::new() });
        digest.name = l.get("name")?.str()?.to_string();
        for e in l.get("elements")?.array()? {
            if e.get("type")?.str()? != "field" {
                return e.unsupported(format!("digest element '{}'", e.get("type")?.str()?));
            }
            let value = e.get("value")?;
            let f = layout.field(&value)?;
            if f.varbit {
                return e.unsupported("varbit in a digest");
            }
            fields.push((f.slot, f.width));
            digest.fields.push((format!("{}.{}", value.at(0)?.str()?, value.at(1)?.str()?), f.width));
        }
        lists.insert(l.get("id")?.uint(65535)?, (info.digests.len(), fields));
        info.digests.push(digest);
    }
    Ok(lists)
}

pub(crate) fn standard(root: &Node, layout: &Layout) -> Result<Standard> {
    let find = |h: &str, f: &str| layout.find(h, f);
    let need = |f: &str| match find("standard_metadata", f) {
        Some(r) if r.width <= 64 => Ok(r.slot),
        _ => root.get("headers")?.err(format!("v1model's field standard_metadata.{f} is missing")),
    };
    let slot = |h: &str, f: &str| find(h, f).map(|r| r.slot);
    let queue = |f: &str| slot("queueing_metadata", f);
    let std = Standard {
        ingress_port: need("ingress_port")?,
        egress_spec: need("egress_spec")?,
        egress_port: need("egress_port")?,
        instance_type: need("instance_type")?,
        packet_length: need("packet_length")?,
        enq_timestamp: queue("enq_timestamp"),
        enq_qdepth: queue("enq_qdepth"),
        deq_timedelta: queue("deq_timedelta"),
        deq_qdepth: queue("deq_qdepth"),
        qid: queue("qid"),
        ingress_timestamp: find("intrinsic_metadata", "ingress_global_timestamp"),
        egress_timestamp: find("intrinsic_metadata", "egress_global_timestamp"),
        enq_timestamp_width: find("queueing_metadata", "enq_timestamp").map_or(0, |f| f.width),
        mcast_grp: slot("intrinsic_metadata", "mcast_grp"),
        egress_rid: slot("intrinsic_metadata", "egress_rid"),
        checksum_error: slot("standard_metadata", "checksum_error"),
        parser_error: slot("standard_metadata", "parser_error"),
        priority: slot("intrinsic_metadata", "priority"),
    };
    Ok(std)
}
