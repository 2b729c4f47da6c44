//! Loading: from the JSON text to code, tables and plans.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::compile::action::{self, Names};
use crate::compile::asm::Asm;
use crate::compile::calc::CalcPlan;
use crate::compile::control;
use crate::compile::ends::{checksums, deparser};
use crate::compile::expr::{Args, Cx};
use crate::compile::objects::{
    load_arrays, load_errors, load_field_lists, load_learn_lists, load_meters, standard,
};
use crate::compile::optimize::{SlotSet, add_inputs, fuse, optimize};
use crate::compile::parser::{self, SetUse};
use crate::compile::tables::{ActionDef, TableDraft, TableRefs, load_profile};
use crate::error::LoadError;
use crate::exec::core::{Register, counter_layout};
use crate::exec::plan::HeaderPlan;
use crate::image::{ActionPlan, Image, StackPlan, UnionStackPlan};
use crate::info::*;
use crate::load::layout::Layout;
use crate::load::node::{Node, Result, parse};
use crate::native::Native;
use crate::op::{Op, R};

/// Stack of the thread that loads: nesting in the JSON is bounded, so this suffices.
const LOADER_STACK: usize = 64 << 20;

/// A loaded program. Cheap to clone; any number of switches can run it.
#[derive(Clone)]
pub struct Program {
    pub(crate) image: Arc<Image>,
}

impl Program {
    /// Loads the JSON that `p4c-bm2-ss` wrote for v1model. A construct that this switch does not know is refused by
    /// name and place; damaged input is an error, never a panic. A text whose program was loaded before and is still
    /// there is not loaded again.
    pub fn from_json(text: &str) -> std::result::Result<Program, LoadError> {
        static LOADED: Mutex<Vec<Weak<Image>>> = Mutex::new(Vec::new());
        let loaded = || LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let known = loaded().iter().filter_map(Weak::upgrade).find(|image| *image.text == *text);
        if let Some(image) = known {
            return Ok(Program { image });
        }
        apart(text, false).map(|image| {
            let image = Arc::new(image);
            let mut loaded = loaded();
            loaded.retain(|image| image.strong_count() > 0);
            loaded.push(Arc::downgrade(&image));
            compile_meanwhile(&image);
            Program { image }
        })
    }

    /// The same program, which tells what packets meet ([`crate::Switch::take_trace`]). It is interpreted, and much slower.
    pub fn traced(text: &str) -> std::result::Result<Program, LoadError> {
        let image = apart(text, true)?;
        // Nobody else has set it.
        let _ = image.native.set(None);
        Ok(Program { image: Arc::new(image) })
    }

    /// Whether there is machine code of this host for it, which takes a moment to make: blocks until that is known. Switches do not
    /// wait for it, but interpret the program meanwhile, which is much slower. For good they do so on hosts that cranelift does not know
    /// or that forbid to make memory executable, and with very big programs.
    pub fn is_native(&self) -> bool {
        self.image.native.wait().is_some()
    }

    /// The JSON that the program was loaded from.
    pub fn text(&self) -> &str {
        &self.image.text
    }

    /// The objects that the program declares, by name.
    pub fn info(&self) -> &ProgramInfo {
        &self.image.info
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} tables, {} instructions)", self.image.tables.len(), self.image.code.len())
    }
}

/// Loads in a thread of its own: nested JSON recurses, and that thread's stack has a known size.
fn apart(text: &str, traced: bool) -> std::result::Result<Image, LoadError> {
    let run = || load(text, traced);
    let failed = || LoadError::Malformed { place: "$".into(), reason: "the loader failed".into() };
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new().name("p4-loader".into()).stack_size(LOADER_STACK);
        thread.spawn_scoped(s, run).map_err(|_| failed())?.join().map_err(|_| failed())?
    })
}

pub(crate) fn load(text: &str, traced: bool) -> Result<Image> {
    let json = parse(text)?;
    let root = Node::root(&json);
    refuse_old_compiler(&root)?;
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
    asm.notes = traced.then(Vec::new);
    let mut info = ProgramInfo { header_types: layout.fixed_types(), ..ProgramInfo::default() };
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
            let draft = TableDraft::load(&t, &refs, cx.asm)?;
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

    let mut kept = kept_slots(&root, &asm, &layout, &drafts, &calcs, &selectors, &set_uses)?;
    let live = if traced {
        // Whatever the program stores can be told of.
        kept.add(0, 65536);
        kept
    } else {
        optimize(&mut asm, &mut calcs, kept)
    };
    let pairs = fuse(&mut asm);
    asm.finish()?;
    let mut tables = Vec::new();
    for d in drafts {
        let (def, table) = d.finish(&asm);
        tables.push(def);
        info.tables.push(table);
    }
    let learn_lists = load_learn_lists(&root, &layout, &mut info)?;
    let mut plans = Vec::new();
    for (a, l) in actions.iter().zip(&starts) {
        let (start, exits) = (asm.address(*l), action::has_exit(&a.primitives()?)?);
        plans.push(ActionPlan { start, params: a.params.clone(), words: a.words, exits });
    }
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
    let image = Image {
        text: text.into(),
        native: OnceLock::new(),
        has_idle_tables: tables.iter().any(|table| table.idle),
        registers: Register::layout(&info.registers),
        counters: counter_layout(&info.counters),
        actions: plans,
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
        asserts: std::mem::take(&mut asm.asserts),
        names: asm.notes.take().map(|notes| crate::trace::Names::new(notes, &layout)),
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
    };
    Ok(image)
}

/// Makes machine code of `image` in a thread of its own, so that a switch that was started anew forwards at once.
fn compile_meanwhile(image: &Arc<Image>) {
    let compile = |image: &Image| image.native.get_or_init(|| Native::compile(image).ok()).is_some();
    let thread = std::thread::Builder::new().name("p4-compiler".into());
    let own = Arc::clone(image);
    // A system that gives no thread gives time.
    if thread.spawn(move || compile(&own)).is_err() {
        compile(image);
    }
}

/// Refuses the output of p4c-bm, whose tables name their actions where those of p4c-bm2-ss number them.
fn refuse_old_compiler(root: &Node) -> Result<()> {
    for pipeline in root.list("pipelines")? {
        for table in pipeline.list("tables")? {
            if table.opt("action_ids").is_none() && table.opt("actions").is_some() {
                return table.unsupported(
                    "actions without numbers (no 'action_ids'): this is the output of p4c-bm, the old compiler for \
                     P4_14; compile the program with p4c-bm2-ss --std p4-14",
                );
            }
        }
    }
    Ok(())
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
