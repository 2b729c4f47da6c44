//! Loading: from the JSON text to code, tables and plans.

use std::collections::HashMap;
use std::sync::Arc;

use crate::compile::action::{self, Names};
use crate::compile::asm::Asm;
use crate::compile::calc::CalcPlan;
use crate::compile::control;
use crate::compile::expr::{Args, Cx, RegisterRef};
use crate::compile::optimize::{SlotSet, add_inputs, fuse, optimize};
use crate::compile::parser::{self, SetUse};
use crate::compile::tables::{ActionDef, TableDraft, TableRefs, load_profile};
use crate::error::LoadError;
use crate::exec::plan::HeaderPlan;
use crate::info::*;
use crate::load::expr::HeaderExpr;
use crate::load::layout::{FieldRef, Layout};
use crate::load::node::{Node, Result, parse};
use crate::op::{Op, Pc, R};
use crate::table::TableDef;

/// Stack of the thread that loads: nesting in the JSON is bounded, so this suffices.
const LOADER_STACK: usize = 64 << 20;

/// A loaded program. Cheap to clone; any number of switches can run it.
#[derive(Clone)]
pub struct Program {
    pub(crate) image: Arc<Image>,
}

/// Slots of the standard metadata; those that a program lacks are `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standard {
    pub ingress_port: R,
    pub egress_spec: R,
    pub egress_port: R,
    pub instance_type: R,
    pub packet_length: R,
    pub enq_timestamp: Option<R>,
    pub enq_qdepth: Option<R>,
    pub deq_timedelta: Option<R>,
    pub deq_qdepth: Option<R>,
    pub qid: Option<R>,
    pub ingress_timestamp: Option<FieldRef>,
    pub egress_timestamp: Option<FieldRef>,
    pub enq_timestamp_width: u32,
    pub mcast_grp: Option<R>,
    pub egress_rid: Option<R>,
    pub checksum_error: Option<R>,
    pub parser_error: Option<R>,
    pub priority: Option<R>,
}

impl Standard {
    fn slots(&self) -> impl Iterator<Item = R> {
        let some = [
            self.enq_timestamp,
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
            self.qid,
            self.ingress_timestamp.map(|f| f.slot),
            self.egress_timestamp.map(|f| f.slot),
            self.mcast_grp,
            self.egress_rid,
            self.checksum_error,
            self.parser_error,
            self.priority,
        ];
        let always =
            [self.ingress_port, self.egress_spec, self.egress_port, self.instance_type, self.packet_length];
        some.into_iter().flatten().chain(always)
    }
}

/// Numbers of the core library's parser errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreErrors {
    pub none: u64,
    pub too_short: u64,
    pub stack: u64,
    pub header_too_short: u64,
    pub timeout: u64,
    pub invalid_argument: u64,
}

/// A header stack: slot of the next index, header numbers.
#[derive(Clone, Debug)]
pub(crate) struct StackPlan {
    pub next: R,
    pub elems: Box<[u16]>,
}

/// A union stack: slot of the next index, header numbers of each union.
#[derive(Clone, Debug)]
pub(crate) struct UnionStackPlan {
    pub next: R,
    pub elems: Box<[Box<[u16]>]>,
}

/// By id: slots and limbs of the fields that survive a copy.
pub(crate) type FieldLists = HashMap<u64, Box<[(R, u8)]>>;

/// Everything that running needs; immutable.
pub(crate) struct Image {
    pub info: ProgramInfo,
    pub code: Vec<Op>,
    /// What fused copies and arguments name.
    pub pairs: Vec<(R, R)>,
    pub first_const: usize,
    pub consts: Vec<u64>,
    pub parser: Pc,
    pub verify: Pc,
    pub ingress: Pc,
    pub egress: Pc,
    /// Checksum updates, then the deparser's primitives.
    pub update: Pc,
    pub deparse: Pc,
    pub deparse_order: Vec<u16>,
    pub headers: Vec<HeaderPlan>,
    pub stacks: Vec<StackPlan>,
    pub union_stacks: Vec<UnionStackPlan>,
    pub calcs: Vec<CalcPlan>,
    pub actions: Vec<ActionPlan>,
    pub tables: Vec<TableDef>,
    /// Selector hash of each profile: a calculation's number.
    pub selectors: Vec<Option<usize>>,
    /// Unit of each indirect meter.
    pub set_uses: Vec<SetUse>,
    /// By id: slots and limbs of the fields that survive a copy.
    pub field_lists: FieldLists,
    /// By learn list id: the digest's number, and slots and widths of its fields.
    pub learn_lists: HashMap<u64, (usize, Vec<(R, u32)>)>,
    pub standard: Standard,
    pub errors: CoreErrors,
    /// Slots of metadata whose values matter: what a new packet must find at 0.
    pub metadata_runs: Vec<std::ops::Range<usize>>,
    pub metadata_slots: usize,
    pub phv_slots: usize,
}

/// Code and parameters of an action.
#[derive(Clone, Debug)]
pub(crate) struct ActionPlan {
    pub start: Pc,
    pub params: Vec<(usize, u32)>,
    pub words: usize,
}

impl Program {
    /// Loads the JSON that `p4c-bm2-ss` wrote for v1model. What this switch does not know, it refuses by name and
    /// place; damaged input is an error, never a panic.
    pub fn from_json(text: &str) -> std::result::Result<Program, LoadError> {
        // Nested JSON recurses; a thread of our own has a stack of known size.
        let run = || load(text);
        let failed = || LoadError::Malformed { place: "$".into(), reason: "the loader failed".into() };
        std::thread::scope(|s| {
            let thread = std::thread::Builder::new().name("p4-loader".into()).stack_size(LOADER_STACK);
            thread.spawn_scoped(s, run).map_err(|_| failed())?.join().map_err(|_| failed())?
        })
        .map(|image| Program { image: Arc::new(image) })
    }

    /// What the program declares, by name.
    pub fn info(&self) -> &ProgramInfo {
        &self.image.info
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} tables, {} instructions)", self.image.tables.len(), self.image.code.len())
    }
}

fn load(text: &str) -> Result<Image> {
    let json = parse(text)?;
    let root = Node::root(&json);
    root.allow(&[
        "header_types",
        "headers",
        "header_stacks",
        "header_union_types",
        "header_unions",
        "header_union_stacks",
        "field_lists",
        "errors",
        "enums",
        "parsers",
        "parse_vsets",
        "deparsers",
        "meter_arrays",
        "counter_arrays",
        "register_arrays",
        "calculations",
        "learn_lists",
        "actions",
        "pipelines",
        "checksums",
        "force_arith",
        "extern_instances",
        "field_aliases",
        "program",
        "__meta__",
        "config_options",
    ])?;
    if let Some(version) = root.opt("__meta__").and_then(|m| m.opt("version")) {
        let major = version.at(0)?.int()?;
        if major != 2 {
            return version.unsupported(format!("bmv2 JSON version {major}; this switch reads version 2"));
        }
    }
    if let Some(e) = root.list("extern_instances")?.first() {
        return e.unsupported(format!("extern '{}'", e.get("type")?.str()?));
    }
    let layout = Layout::load(&root)?;
    let mut asm = Asm::new(layout.phv_slots);
    let mut info = ProgramInfo::default();
    let errors = load_errors(&root, &mut info)?;
    let mut names = Names::default();
    let registers = load_arrays(&root, &mut info, &mut names)?;
    let direct_meters = load_meters(&root, &layout, &mut info, &mut names)?;
    let mut calcs = Vec::new();
    for c in root.list("calculations")? {
        let calc = CalcPlan::load(&c, &layout, &mut asm)?;
        if names.calcs.insert(calc.name.clone(), calcs.len() as u16).is_some() {
            return c.err("another calculation has the same name");
        }
        calcs.push(calc);
    }
    for v in root.list("parse_vsets")? {
        v.allow(&["name", "id", "compressed_bitwidth", "max_size"])?;
        info.value_sets.push(ValueSetInfo {
            name: v.get("name")?.str()?.to_string(),
            widths: Vec::new(),
            width: v.get("compressed_bitwidth")?.uint(4096)? as u32,
        });
    }
    let mut actions = Vec::new();
    for a in root.get("actions")?.array()? {
        let (def, action) = ActionDef::load(&a)?;
        if actions.iter().any(|d: &ActionDef| d.id == def.id) {
            return a.err("another action has the same id");
        }
        actions.push(def);
        info.actions.push(action);
    }

    let mut cx = Cx { layout: &layout, asm: &mut asm, args: Args::None, registers: &registers };
    let mut set_uses = Vec::new();
    let parsers = root.get("parsers")?.array()?;
    let [parser] = &parsers[..] else { return root.unsupported(format!("{} parsers", parsers.len())) };
    let parser = parser::compile(&mut cx, &names, parser, &mut info.value_sets, &mut set_uses)?;
    let pipelines = root.get("pipelines")?.array()?;
    let mut drafts = Vec::new();
    let mut selectors = Vec::new();
    let mut controls = HashMap::new();
    for p in &pipelines {
        p.allow(&["name", "id", "init_table", "tables", "action_profiles", "conditionals", "action_calls"])?;
        let mut profiles: HashMap<String, usize> = HashMap::new();
        for a in p.list("action_profiles")? {
            let (profile, selector) = load_profile(&a, &layout, cx.asm)?;
            profiles.insert(profile.name.clone(), info.profiles.len());
            info.profiles.push(profile);
            selectors.push(selector.map(|s| {
                calcs.push(s);
                calcs.len() - 1
            }));
        }
        let mut numbers = HashMap::new();
        for t in p.list("tables")? {
            let refs = TableRefs {
                layout: &layout,
                actions: &actions,
                action_infos: &info.actions,
                profiles: &profiles,
                direct_meters: &direct_meters,
            };
            let draft = TableDraft::load(&t, &refs)?;
            if numbers.insert(draft.info.name.clone(), drafts.len()).is_some() || drafts.len() > 65535 {
                return t.err("another table has the same name");
            }
            drafts.push(draft);
        }
        let start = control::compile(&mut cx, &names, p, &mut drafts, &numbers, &actions)?;
        controls.insert(p.get("name")?.str()?, start);
    }
    let control = |name: &str| match controls.get(name) {
        Some(&l) => Ok(l),
        None => root.get("pipelines")?.err(format!("there is no pipeline '{name}'")),
    };
    let (ingress, egress) = (control("ingress")?, control("egress")?);
    if let Some(other) =
        pipelines.iter().find(|p| !matches!(p.get("name").and_then(|n| n.str()), Ok("ingress" | "egress")))
    {
        return other.unsupported("pipeline besides ingress and egress");
    }
    // Actions that only ever run in place have no code of their own.
    let mut called = vec![false; actions.len()];
    for d in &drafts {
        if d.always(&actions)?.is_none() {
            d.info.actions.iter().for_each(|a| called[a.index()] = true);
        }
    }
    let mut starts = Vec::new();
    for ((a, action), called) in actions.iter().zip(&info.actions).zip(called) {
        starts.push(cx.asm.here());
        let primitives = a.primitives()?;
        cx.args = Args::Runtime(a.params.clone());
        let code = cx.asm.code.len();
        action::body(&mut cx, &names, &primitives)
            .map_err(|e| within(e, &format!("action '{}'", action.name)))?;
        if !called {
            cx.asm.cut(code);
        }
        cx.asm.emit(Op::Ret);
    }
    cx.args = Args::None;
    let (verify, update) = checksums(&mut cx, &root, &names)?;
    let (deparse, deparse_order) = deparser(&mut cx, &root, &names)?;

    let kept = kept_slots(&root, &asm, &layout, &drafts, &calcs, &selectors, &set_uses)?;
    let live = optimize(&mut asm, &mut calcs, kept);
    let pairs = fuse(&mut asm);
    asm.finish()?;
    let mut tables = Vec::new();
    for d in drafts {
        let (def, table) = d.finish(&asm);
        tables.push(def);
        info.tables.push(table);
    }
    let learn_lists = load_learn_lists(&root, &layout, &mut info)?;
    let plans = actions.iter().zip(&starts).map(|(a, l)| ActionPlan {
        start: asm.address(*l),
        params: a.params.clone(),
        words: a.words,
    });
    let stack = |s: &crate::load::layout::Stack| StackPlan {
        next: s.next as R,
        elems: s.elems.iter().map(|&h| h as u16).collect(),
    };
    let union_stack = |s: &crate::load::layout::Stack| UnionStackPlan {
        next: s.next as R,
        elems: s
            .elems
            .iter()
            .map(|&u| layout.unions[u].members.iter().map(|&h| h as u16).collect())
            .collect(),
    };
    Ok(Image {
        actions: plans.collect(),
        parser: asm.address(parser),
        verify: asm.address(verify),
        ingress: asm.address(ingress),
        egress: asm.address(egress),
        update: asm.address(update),
        deparse: asm.address(deparse),
        deparse_order,
        first_const: layout.phv_slots,
        consts: std::mem::take(&mut asm.consts),
        code: std::mem::take(&mut asm.code),
        pairs,
        headers: (0..layout.headers.len()).map(|h| HeaderPlan::new(&layout, h)).collect(),
        stacks: layout.stacks.iter().map(stack).collect(),
        union_stacks: layout.union_stacks.iter().map(union_stack).collect(),
        calcs,
        tables,
        selectors,
        set_uses,
        field_lists: load_field_lists(&root, &layout)?,
        learn_lists,
        standard: standard(&root, &layout)?,
        errors,
        metadata_runs: live.runs(layout.metadata_slots),
        metadata_slots: layout.metadata_slots,
        phv_slots: layout.phv_slots,
        info,
    })
}

/// Slots whose values matter besides what code reads: headers, standard metadata, keys, lists of fields.
fn kept_slots(
    root: &Node,
    asm: &Asm,
    layout: &Layout,
    drafts: &[TableDraft],
    calcs: &[CalcPlan],
    selectors: &[Option<usize>],
    uses: &[SetUse],
) -> Result<SlotSet> {
    let mut kept = SlotSet::new();
    kept.add(layout.metadata_slots as R, layout.phv_slots - layout.metadata_slots);
    for h in layout.headers.iter().filter(|h| h.metadata) {
        // Metadata that has been given a header's life (by validity or whole copies) is kept as a whole.
        let ty = &layout.types[h.ty];
        if h.name == "standard_metadata" || ty.varbit().is_some() {
            kept.add(h.base as R, ty.slots);
        }
    }
    for h in asm.whole_headers(layout.headers.len()) {
        kept.add(layout.headers[h].base as R, layout.header_type(h).slots);
    }
    drafts.iter().flat_map(|d| d.key_slots()).for_each(|r| kept.add(r, 1));
    for s in selectors.iter().flatten() {
        add_inputs(&calcs[*s], &mut kept);
    }
    for (slot, width, _) in uses.iter().flat_map(|u| &u.elements) {
        kept.add(*slot, (*width as usize).div_ceil(64).max(1));
    }
    for list in ["field_lists", "learn_lists"] {
        for e in
            root.list(list)?.iter().map(|l| l.list("elements")).collect::<Result<Vec<_>>>()?.iter().flatten()
        {
            if e.get("type")?.str()? == "field" {
                let f = layout.field(&e.get("value")?)?;
                kept.add(f.slot, f.limbs());
            }
        }
    }
    standard(root, layout)?.slots().for_each(|r| kept.add(r, 1));
    Ok(kept)
}

fn within(e: LoadError, what: &str) -> LoadError {
    match e {
        LoadError::Malformed { place, reason } => {
            LoadError::Malformed { place: format!("{place} in {what}"), reason }
        }
        LoadError::Unsupported { place, what: w } => {
            LoadError::Unsupported { place: format!("{place} in {what}"), what: w }
        }
        other => other,
    }
}

fn load_errors(root: &Node, info: &mut ProgramInfo) -> Result<CoreErrors> {
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

fn load_arrays(root: &Node, info: &mut ProgramInfo, names: &mut Names) -> Result<Vec<RegisterRef>> {
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

fn load_meters(
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

/// Code that verifies checksums after parsing, and code that updates them before deparsing.
fn checksums(
    cx: &mut Cx,
    root: &Node,
    names: &Names,
) -> Result<(crate::compile::asm::Label, crate::compile::asm::Label)> {
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
                let test = crate::load::expr::Test::Valid(HeaderExpr::Fixed(target.header));
                cx.branch_unless(&test, skip)?;
                cx.asm.emit(Op::CheckSum { a: target.slot, calc });
            } else {
                let m = cx.asm.konst(crate::compile::expr::mask(target.width));
                cx.asm.emit(Op::Calc { d: target.slot, calc, m });
            }
            cx.asm.bind(skip);
            cx.asm.reset_temps();
        }
        cx.asm.emit(Op::End);
    }
    Ok((starts[0], starts[1]))
}

fn deparser(cx: &mut Cx, root: &Node, names: &Names) -> Result<(crate::compile::asm::Label, Vec<u16>)> {
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

fn load_field_lists(root: &Node, layout: &Layout) -> Result<FieldLists> {
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

type LearnLists = HashMap<u64, (usize, Vec<(R, u32)>)>;

fn load_learn_lists(root: &Node, layout: &Layout, info: &mut ProgramInfo) -> Result<LearnLists> {
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

fn standard(root: &Node, layout: &Layout) -> Result<Standard> {
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
