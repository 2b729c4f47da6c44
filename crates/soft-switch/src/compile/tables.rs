//! Reads tables, their entries and action profiles.

use std::collections::HashMap;

use super::asm::{Asm, Label};
use super::calc::CalcPlan;
use super::range::{Range, range};
use crate::control::{ActionCall, EntryAction, MatchField, TableEntry};
use crate::info::{
    ActionId, ActionInfo, KeyInfo, MatchKind, MeterUnit, ParamInfo, ProfileId, ProfileInfo, TableInfo,
};
use crate::load::big::{Big, hex_bytes};
use crate::load::expr::Expr;
use crate::load::layout::{FieldRef, Layout};
use crate::load::node::{Node, Result};
use crate::table::TableDef;
use crate::table::key::{KeyPlan, MAX_WORDS, canonical};

/// An action: its place in the JSON and its parameters.
pub(crate) struct ActionDef<'a> {
    pub id: i64,
    json: Node<'a>,
    /// First argument word and width in bits of each parameter.
    pub params: Vec<(usize, u32)>,
    pub words: usize,
}

impl<'a> ActionDef<'a> {
    pub(crate) fn name(&self) -> Result<&str> {
        self.json.get("name")?.str()
    }

    pub(crate) fn load(n: &Node<'a>) -> Result<(ActionDef<'a>, ActionInfo)> {
        n.allow(&["name", "id", "runtime_data", "primitives"])?;
        let mut info = ActionInfo { name: n.get("name")?.str()?.to_string(), params: Vec::new() };
        let mut def = ActionDef { id: n.get("id")?.int()?, json: *n, params: Vec::new(), words: 0 };
        for p in n.list("runtime_data")? {
            let width = p.get("bitwidth")?.uint(4096)? as u32;
            info.params.push(ParamInfo { name: p.get("name")?.str()?.to_string(), width });
            def.params.push((def.words, width));
            def.words += (width as usize).div_ceil(64).max(1);
        }
        Ok((def, info))
    }

    pub(crate) fn primitives(&self) -> Result<Vec<Node<'a>>> {
        self.json.get("primitives")?.array()
    }
}

/// The objects that tables refer to by name.
pub(crate) struct TableRefs<'a> {
    pub layout: &'a Layout,
    pub actions: &'a [ActionDef<'a>],
    pub action_infos: &'a [ActionInfo],
    /// Number of each profile.
    pub profiles: &'a HashMap<String, usize>,
    /// Target field and unit of each direct meter.
    pub direct_meters: &'a HashMap<String, (FieldRef, MeterUnit)>,
}

/// A table, before code addresses are known.
pub(crate) struct TableDraft {
    pub info: TableInfo,
    def: TableDef,
    next: HashMap<usize, Option<String>>,
    hit_miss: Option<[Option<String>; 2]>,
    base_next: Option<String>,
    default_args: Vec<Big>,
    /// Key fields that are expressions: where their value goes before the table is applied.
    pub computed: Vec<(FieldRef, Expr)>,
    /// Labels of `next`, `hit_miss` and `base_next`, in that order.
    next_labels: Vec<(usize, Label)>,
    hit_miss_labels: Option<(Label, Label)>,
    base_label: Option<Label>,
}

/// The fixed behaviour of a table: an action, its arguments, and the node behind it.
pub(crate) type Always = (usize, Vec<Big>, Option<String>);

impl TableDraft {
    pub(crate) fn load(n: &Node, refs: &TableRefs, asm: &mut Asm) -> Result<TableDraft> {
        n.allow(&[
            "name",
            "id",
            "key",
            "match_type",
            "type",
            "max_size",
            "with_counters",
            "support_timeout",
            "direct_meters",
            "action_ids",
            "actions",
            "base_default_next",
            "next_tables",
            "default_entry",
            "entries",
            "action_profile",
        ])?;
        let (key, computed) = load_key(n, refs, asm)?;
        let flag = |k: &str| n.opt(k).map_or(Ok(false), |v| v.bool());
        let entries = n.list("entries")?;
        let size = match n.opt("max_size") {
            Some(s) if n.opt("entries").is_none() => s.uint(1 << 32)? as usize,
            _ => entries.len(),
        };
        let mut actions = Vec::new();
        for id in n.get("action_ids")?.array()? {
            actions.push(action_number(&id, refs)?);
        }
        let profile = match n.get("type")?.str()? {
            "simple" => None,
            "indirect" | "indirect_ws" => {
                let p = n.get("action_profile")?;
                let found = refs.profiles.get(p.str()?).copied();
                Some(found.map_or_else(|| p.err("there is no such action profile"), Ok)?)
            }
            other => return n.unsupported(format!("table type '{other}'")),
        };
        let meter = match n.opt("direct_meters") {
            None => None,
            Some(m) => match refs.direct_meters.get(m.str()?) {
                Some(&x) => Some(x),
                None => return m.err("there is no such direct meter"),
            },
        };
        let is_const = |k: &str| -> Result<bool> {
            n.opt("default_entry").and_then(|d| d.opt(k)).map_or(Ok(false), |v| v.bool())
        };
        let has_priority = key.infos.iter().any(|k| !matches!(k.kind, MatchKind::Exact | MatchKind::Lpm));
        let info = TableInfo {
            name: n.get("name")?.str()?.to_string(),
            keys: key.infos.clone(),
            actions: actions.iter().map(|&a| ActionId(a as u32)).collect(),
            size,
            has_priority,
            priorities_from: None,
            const_entries: n.opt("entries").is_some(),
            const_default: is_const("action_const")? || is_const("action_entry_const")?,
            profile: profile.map(|p| ProfileId(p as u32)),
            direct_counter: flag("with_counters")?,
            direct_meter: meter.map(|(_, unit)| unit),
            idle_timeout: flag("support_timeout")?,
        };
        let def = TableDef {
            key,
            size,
            next: vec![None; refs.actions.len()],
            hit_miss: None,
            next_default: 0,
            profile,
            counter: info.direct_counter,
            meter: meter.map(|(f, unit)| (f.slot, unit == MeterUnit::Bytes)),
            idle: info.idle_timeout,
            entries: Vec::new(),
            default: None,
        };
        let base_next = n.opt("base_default_next").map(|b| b.str().map(str::to_string)).transpose()?;
        let mut draft = TableDraft {
            info,
            def,
            next: HashMap::new(),
            hit_miss: None,
            base_next,
            default_args: Vec::new(),
            computed,
            next_labels: Vec::new(),
            hit_miss_labels: None,
            base_label: None,
        };
        draft.load_next(n, refs, &actions)?;
        draft.load_entries(n, refs, &entries)?;
        Ok(draft)
    }

    fn load_next(&mut self, n: &Node, refs: &TableRefs, actions: &[usize]) -> Result<()> {
        let name = |v: &Node| if v.is_null() { Ok(None) } else { v.str().map(|s| Some(s.to_string())) };
        let next = n.get("next_tables")?;
        let entries = next.entries()?;
        let of = |key: &str| entries.iter().find(|(k, _)| *k == key).map(|(_, v)| v);
        if let (Some(hit), Some(miss)) = (of("__HIT__"), of("__MISS__")) {
            self.hit_miss = Some([name(hit)?, name(miss)?]);
            return Ok(());
        }
        for &a in actions {
            let wanted = refs.action_infos[a].name.as_str();
            match of(wanted) {
                Some(v) => self.next.insert(a, name(v)?),
                None => return next.err(format!("action '{wanted}' is missing")),
            };
        }
        Ok(())
    }

    fn load_entries(&mut self, n: &Node, refs: &TableRefs, entries: &[Node]) -> Result<()> {
        if let Some(d) = n.opt("default_entry") {
            d.allow(&["action_id", "action_const", "action_data", "action_entry_const"])?;
            let (call, args) = load_call(&d, refs)?;
            self.default_args = args;
            self.def.default = Some(EntryAction::Call(call));
        }
        // In the JSON the smallest priority wins; in the control API the largest.
        let mut top = 0;
        for e in entries {
            top = top.max(e.get("priority")?.int()?);
        }
        let has_priorities = self.info.has_priority && !entries.is_empty();
        self.info.priorities_from = i32::try_from(top + 1).ok().filter(|_| has_priorities);
        for e in entries {
            e.allow(&["match_key", "action_entry", "priority"])?;
            let fields = e.get("match_key")?.array()?;
            if fields.len() != self.info.keys.len() {
                return e.err("the key has the wrong number of fields");
            }
            let mut key = Vec::new();
            for (f, info) in fields.iter().zip(&self.info.keys) {
                key.push(load_match(f, info)?);
            }
            let entry = TableEntry {
                key,
                priority: if self.info.has_priority {
                    i32::try_from(top + 1 - e.get("priority")?.int()?).unwrap_or(i32::MAX).max(1)
                } else {
                    0
                },
                action: EntryAction::Call(load_call(&e.get("action_entry")?, refs)?.0),
                idle_timeout_ns: 0,
                metadata: Vec::new(),
            };
            self.def.key.rule(&entry.key, entry.priority).or_else(|err| e.err(err))?;
            self.def.entries.push(entry);
        }
        Ok(())
    }

    /// Slots that make up the key.
    pub(crate) fn key_slots(&self) -> impl Iterator<Item = crate::op::R> + '_ {
        self.def.key.parts.iter().map(|p| p.slot)
    }

    /// Names of all nodes that may follow.
    pub(crate) fn next_names(&self) -> Vec<Option<String>> {
        let mut all: Vec<_> = self.next.values().cloned().collect();
        all.extend(self.hit_miss.iter().flatten().cloned());
        all.push(self.base_next.clone());
        all.sort();
        all.dedup();
        all
    }

    /// The action and arguments that the table always runs, and the node behind it. Only a table without key whose
    /// default entry is const has them.
    pub(crate) fn always(&self, actions: &[ActionDef]) -> Result<Option<Always>> {
        let plain = self.def.key.words == 0 && self.def.profile.is_none() && self.info.const_default;
        let Some(EntryAction::Call(call)) = &self.def.default else { return Ok(None) };
        let a = call.action.index();
        if !plain || self.def.counter || self.def.meter.is_some() || a >= actions.len() {
            return Ok(None);
        }
        let next = match &self.hit_miss {
            Some([_, miss]) => miss.clone(),
            None => self.next.get(&a).cloned().unwrap_or_else(|| self.base_next.clone()),
        };
        Ok(Some((a, self.default_args.clone(), next)))
    }

    /// Looks the labels of the following nodes up.
    pub(crate) fn resolve(&mut self, label_of: &dyn Fn(&Option<String>) -> Label) {
        self.next_labels = self.next.iter().map(|(a, n)| (*a, label_of(n))).collect();
        self.hit_miss_labels = self.hit_miss.as_ref().map(|[h, m]| (label_of(h), label_of(m)));
        self.base_label = Some(label_of(&self.base_next));
    }

    /// Where control may go on behind the table.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Label> + '_ {
        let hit_miss = self.hit_miss_labels.iter().flat_map(|(h, m)| [*h, *m]);
        self.next_labels.iter().map(|(_, l)| *l).chain(hit_miss).chain(self.base_label)
    }

    /// The table with code addresses.
    pub(crate) fn finish(mut self, asm: &Asm) -> (TableDef, TableInfo) {
        for (a, l) in &self.next_labels {
            self.def.next[*a] = Some(asm.address(*l));
        }
        self.def.hit_miss = self.hit_miss_labels.map(|(h, m)| (asm.address(h), asm.address(m)));
        self.def.next_default = self.base_label.map_or(0, |l| asm.address(l));
        (self.def, self.info)
    }
}

fn action_number(id: &Node, refs: &TableRefs) -> Result<usize> {
    let found = refs.actions.iter().position(|a| Ok(a.id) == id.int());
    found.map_or_else(|| id.err("there is no action with this id"), Ok)
}

fn load_call(n: &Node, refs: &TableRefs) -> Result<(ActionCall, Vec<Big>)> {
    let action = action_number(&n.get("action_id")?, refs)?;
    let data = n.list("action_data")?;
    let params = &refs.actions[action].params;
    if data.len() != params.len() {
        return n.err(format!("{} arguments for an action of {}", data.len(), params.len()));
    }
    let (mut call, mut args) =
        (ActionCall { action: ActionId(action as u32), params: Vec::new() }, Vec::new());
    for (d, (_, width)) in data.iter().zip(params) {
        let v = Big::hex(d)?;
        // Negative arguments are two's complement of the parameter's width.
        let limbs = v.twos((*width as usize).div_ceil(64).max(1));
        let bytes: Vec<u8> = limbs.iter().rev().flat_map(|l| l.to_be_bytes()).collect();
        let keep = (*width as usize).div_ceil(8).max(1);
        let mut bytes = bytes[bytes.len().saturating_sub(keep)..].to_vec();
        if *width % 8 != 0 {
            bytes[0] &= (1u8 << (width % 8)) - 1;
        }
        args.push(Big::from_bytes(&bytes));
        call.params.push(canonical(bytes));
    }
    Ok((call, args))
}

fn load_key(table: &Node, refs: &TableRefs, asm: &mut Asm) -> Result<(KeyPlan, Vec<(FieldRef, Expr)>)> {
    let layout = refs.layout;
    let mut computed = Vec::new();
    let mut plan = KeyPlan::default();
    for k in table.get("key")?.array()? {
        k.allow(&["match_type", "name", "target", "mask"])?;
        let target = k.get("target")?;
        let kind = k.get("match_type")?.str()?;
        let (field, default_name) = if target.is_object() {
            let e = layout.num(&target)?;
            let none = |_: usize| Range::unsigned(1);
            let r = range(&e, layout, &none, &|_| 64);
            if r.signed || r.bits > 2048 {
                return target.unsupported("signed or very wide expression as a key");
            }
            let slot = asm.reserve((r.bits as usize).div_ceil(64).max(1));
            let field = FieldRef { header: 0, slot, width: r.bits.max(1), signed: false, varbit: false };
            computed.push((field, e));
            (field, format!("key {}", plan.infos.len()))
        } else if kind == "valid" {
            let h = layout.header(&target)?;
            let name = target.str()?;
            match layout.find(name, "$valid$") {
                Some(f) => (f, format!("{}.$valid$", layout.headers[h].name)),
                None => return target.err("there is no such header"),
            }
        } else {
            let (h, f) = (target.at(0)?, target.at(1)?);
            (layout.field(&target)?, format!("{}.{}", h.str()?, f.str()?))
        };
        if field.varbit {
            return k.unsupported("varbit in a table key");
        }
        let kind = match kind {
            "exact" | "valid" => MatchKind::Exact,
            "lpm" => MatchKind::Lpm,
            "ternary" => MatchKind::Ternary,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            other => return k.unsupported(format!("match type '{other}'")),
        };
        let name = k.opt("name").map_or(Ok(default_name), |n| n.str().map(str::to_string))?;
        let mask = match k.opt("mask") {
            None => None,
            Some(m) => {
                let bytes = hex_bytes(&m)?;
                crate::table::key::to_limbs(&bytes, field.width.div_ceil(8).max(1) * 8)
                    .map_or_else(|| m.err("the mask is wider than the field"), |l| Ok(Some(l)))?
            }
        };
        plan.push(KeyInfo { name, kind, width: field.width.max(1) }, field.slot, mask.as_deref());
    }
    if plan.words > MAX_WORDS {
        return table.unsupported(format!("key of more than {} bits", MAX_WORDS * 64));
    }
    if plan.infos.iter().filter(|k| k.kind == MatchKind::Lpm).count() > 1 {
        return table.err("two lpm fields in one key");
    }
    Ok((plan, computed))
}

fn load_match(n: &Node, info: &KeyInfo) -> Result<MatchField> {
    n.allow(&["match_type", "key", "mask", "prefix_length", "start", "end"])?;
    let bytes = |k: &str| hex_bytes(&n.get(k)?);
    let masked = |mut v: Vec<u8>, m: &[u8]| {
        for (v, m) in v.iter_mut().zip(m) {
            *v &= m;
        }
        v
    };
    Ok(match (n.get("match_type")?.str()?, info.kind) {
        ("valid", MatchKind::Exact) => MatchField::Exact(vec![u8::from(n.get("key")?.bool()?)]),
        ("exact", MatchKind::Exact) => MatchField::Exact(canonical(bytes("key")?)),
        ("lpm", MatchKind::Lpm) => {
            let prefix_len = n.get("prefix_length")?.uint(u64::from(info.width))? as u32;
            let value = bytes("key")?;
            // Bits beyond the prefix do not count; drop them, as a controller would have to.
            let pad = (value.len() * 8).saturating_sub(info.width as usize);
            let keep = (0..value.len() * 8).map(|b| b < pad + prefix_len as usize);
            let mut mask = vec![0u8; value.len()];
            for (b, keep) in keep.enumerate() {
                mask[b / 8] |= u8::from(keep) << (7 - b % 8);
            }
            MatchField::Lpm { value: canonical(masked(value, &mask)), prefix_len }
        }
        ("ternary", MatchKind::Ternary) => {
            let (value, mask) = (bytes("key")?, bytes("mask")?);
            if value.len() != mask.len() {
                return n.err("key and mask differ in length");
            }
            MatchField::Ternary { value: canonical(masked(value, &mask)), mask: canonical(mask) }
        }
        ("range", MatchKind::Range) => {
            MatchField::Range { low: canonical(bytes("start")?), high: canonical(bytes("end")?) }
        }
        ("optional" | "exact", MatchKind::Optional) => MatchField::Optional(Some(canonical(bytes("key")?))),
        (other, _) => return n.err(format!("match type '{other}' is not that of the table's key")),
    })
}

/// An action profile and, with a selector, its hash.
pub(crate) fn load_profile(
    n: &Node,
    layout: &Layout,
    asm: &mut Asm,
) -> Result<(ProfileInfo, Option<CalcPlan>)> {
    n.allow(&["name", "id", "max_size", "selector"])?;
    let size = n.get("max_size")?.uint(1 << 32)? as usize;
    let name = n.get("name")?.str()?.to_string();
    let selector = match n.opt("selector") {
        None => None,
        Some(s) => {
            s.allow(&["algo", "input"])?;
            Some(CalcPlan::build(name.clone(), &s.get("algo")?, &s.get("input")?, layout, asm)?)
        }
    };
    Ok((ProfileInfo { name, size, selector: selector.is_some() }, selector))
}
