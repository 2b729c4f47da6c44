//! Ties P4Info to a loaded program. They must agree on every object that P4Info names; the first that does not is
//! reported.

use std::collections::{BTreeMap, HashMap, HashSet};

use p4runtime_proto::p4::config::v1 as config;
use p4runtime_proto::p4::v1 as pb;

use super::data::DataType;
use super::refusal::{Outcome, Refusal};
use super::repr::Repr;
use super::schema::{
    Action, Counter, Digest, Field, GroupSize, Meter, MeterType, Param, Profile, Register, Schema, Scope,
    Table, TableAction, ValueSet,
};
use zsr_soft_switch::{ActionInfo, KeyInfo, MatchKind, MeterUnit, ProgramInfo, TableId};

/// Builds the schema of a pipeline.
///
/// # Errors
/// INVALID_ARGUMENT with the kind and name of the first object on which the two don't agree.
pub(super) fn agree(info: &config::P4Info, program: &ProgramInfo) -> Outcome<Schema> {
    Builder::new(info, program).build().map_err(|message| {
        Refusal::invalid(format!("P4Info and device config don't agree: {message}; compile both in one go"))
    })
}

struct Builder<'a> {
    info: &'a config::P4Info,
    program: &'a ProgramInfo,
    types: HashMap<String, config::P4NewTypeSpec>,
    actions: HashMap<u32, &'a config::Action>,
    seen: HashSet<u32>,
    /// Objects of P4Info that the compiler has removed from the device config, being of no effect.
    removed: HashSet<u32>,
    schema: Schema,
}

fn missing(kind: &str, name: &str) -> String {
    format!("{kind} '{name}' is not in the device config")
}

impl<'a> Builder<'a> {
    fn new(info: &'a config::P4Info, program: &'a ProgramInfo) -> Self {
        let types = info.type_info.as_ref().map(|types| types.new_types.clone()).unwrap_or_default();
        Self {
            info,
            program,
            types,
            actions: HashMap::new(),
            seen: HashSet::new(),
            removed: HashSet::new(),
            schema: Schema::default(),
        }
    }

    /// Id and name of an object; both must be there, and the id must be new.
    fn name(&mut self, kind: &str, preamble: Option<&'a config::Preamble>) -> Result<(u32, &'a str), String> {
        let preamble = preamble.ok_or_else(|| format!("a {kind} has no preamble"))?;
        let name = preamble.name.as_str();
        if preamble.id == 0 || name.is_empty() {
            return Err(format!("{kind} '{name}' has id {}; id and name must be set", preamble.id));
        }
        if !self.seen.insert(preamble.id) {
            return Err(format!("{kind} '{name}' has id {}, as another object has", preamble.id));
        }
        Ok((preamble.id, name))
    }

    fn build(mut self) -> Result<Schema, String> {
        let arch = self.info.pkg_info.as_ref().map_or("", |package| package.arch.as_str());
        if !matches!(arch, "" | "v1model") {
            return Err(format!("P4Info is for architecture '{arch}', and this switch is a 'v1model'"));
        }
        self.actions()?;
        self.profiles()?;
        self.tables()?;
        self.direct_resources()?;
        self.arrays()?;
        self.value_sets()?;
        self.digests()?;
        if let Some(first) = self.info.externs.first() {
            return Err(format!("extern '{}' is not one of v1model's", first.extern_type_name));
        }
        Ok(self.schema)
    }

    /// Takes note that P4Info has an object that the device config lacks. p4c writes P4Info before it removes objects
    /// without effect. If the device config in turn has a table that P4Info lacks, the two come from different
    /// programs.
    fn remove(&mut self, id: u32, kind: &str, name: &str) -> Result<(), String> {
        let known = |table: &str| {
            let named = |t: &config::Table| t.preamble.as_ref().is_some_and(|p| p.name == table);
            self.info.tables.iter().any(named)
        };
        // Tables that the compiler makes of statements are in no control.
        let stranger = self.program.tables.iter().find(|t| t.name.contains('.') && !known(&t.name));
        match stranger {
            Some(stranger) => Err(format!(
                "{}, which has '{}' instead, unknown to P4Info",
                missing(kind, name),
                stranger.name
            )),
            None => {
                self.removed.insert(id);
                Ok(())
            }
        }
    }

    fn actions(&mut self) -> Result<(), String> {
        for action in &self.info.actions {
            let (id, _) = self.name("action", action.preamble.as_ref())?;
            self.actions.insert(id, action);
        }
        Ok(())
    }

    fn profiles(&mut self) -> Result<(), String> {
        for profile in &self.info.action_profiles {
            let (id, name) = self.name("action profile", profile.preamble.as_ref())?;
            let Some(engine) = self.program.profile(name) else {
                self.remove(id, "action profile", name)?;
                continue;
            };
            let selector = self.program.profiles.get(engine.index()).is_some_and(|p| p.selector);
            if selector != profile.with_selector {
                return Err(format!("action profile '{name}' has a selector on one side only"));
            }
            let group_size = match &profile.selector_size_semantics {
                Some(config::action_profile::SelectorSizeSemantics::SumOfMembers(semantics)) => {
                    GroupSize::SumOfMembers {
                        max_weight: u32::try_from(semantics.max_member_weight).unwrap_or(0),
                    }
                }
                _ => GroupSize::SumOfWeights,
            };
            let max_group_size = u32::try_from(profile.max_group_size)
                .map_err(|_| format!("action profile '{name}' has a negative max_group_size"))?;
            let profile = Profile {
                name: name.to_owned(),
                engine,
                selector,
                max_group_size,
                group_size,
                weights_disallowed: profile.weights_disallowed,
                actions: BTreeMap::new(),
            };
            self.schema.profiles.insert(id, profile);
        }
        Ok(())
    }

    fn tables(&mut self) -> Result<(), String> {
        for table in &self.info.tables {
            let (id, name) = self.name("table", table.preamble.as_ref())?;
            let Some(engine) = self.program.table(name) else {
                self.remove(id, "table", name)?;
                continue;
            };
            let of = self.program.tables.get(engine.index()).ok_or_else(|| missing("table", name))?;
            let place = |what: String| format!("table '{name}' {what}");
            let fields = self.fields(&table.match_fields, &of.keys).map_err(place)?;
            let mut actions = BTreeMap::new();
            for reference in &table.action_refs {
                let engine = self.table_action(engine, reference.id).map_err(place)?;
                let scope = match reference.scope() {
                    config::action_ref::Scope::TableAndDefault => Scope::Both,
                    config::action_ref::Scope::TableOnly => Scope::EntryOnly,
                    config::action_ref::Scope::DefaultOnly => Scope::DefaultOnly,
                    config::action_ref::Scope::GroupAction => Scope::GroupOnly,
                };
                actions.insert(reference.id, TableAction { engine, scope });
            }
            let profile = (table.implementation_id != 0).then_some(table.implementation_id);
            let engine_profile = profile.and_then(|id| self.schema.profiles.get(&id)).map(|p| p.engine);
            if profile.is_some() != engine_profile.is_some() || engine_profile != of.profile {
                return Err(place(format!("has another implementation than {}", table.implementation_id)));
            }
            if let Some(profile) = profile.and_then(|id| self.schema.profiles.get_mut(&id)) {
                for (id, action) in &actions {
                    profile.actions.entry(*id).or_insert(action.engine);
                }
            }
            let idle_timeout =
                table.idle_timeout_behavior() == config::table::IdleTimeoutBehavior::NotifyControl;
            if idle_timeout && !of.idle_timeout {
                return Err(place("has idle timeouts in P4Info only".into()));
            }
            self.schema.by_engine.tables.insert(engine, id);
            let table = Table {
                id,
                name: name.to_owned(),
                engine,
                fields,
                actions,
                has_priority: of.has_priority,
                is_const: table.is_const_table,
                initial_size: (!table.is_const_table && of.const_entries)
                    .then(|| usize::try_from(table.size).unwrap_or(0).max(of.size)),
                const_default: table.const_default_action_id != 0,
                initial_default: initial_default(table),
                profile,
                direct_counter: false,
                direct_meter: None,
                idle_timeout,
            };
            self.schema.tables.insert(id, table);
        }
        Ok(())
    }

    /// Key fields in the program's order: by name where that tells them apart, else by position.
    fn fields(&self, fields: &[config::MatchField], keys: &[KeyInfo]) -> Result<Vec<Field>, String> {
        if fields.len() != keys.len() {
            return Err(format!(
                "has {} key fields in P4Info and {} in the device config",
                fields.len(),
                keys.len()
            ));
        }
        let by_name = |key: &KeyInfo| {
            let mut named = fields.iter().filter(|field| field.name == key.name);
            named.next().filter(|_| named.next().is_none())
        };
        let all_named = keys.iter().all(|key| by_name(key).is_some());
        let mut ids = HashSet::new();
        let pairs =
            keys.iter().zip(fields).map(|(key, at)| (key, by_name(key).filter(|_| all_named).unwrap_or(at)));
        pairs
            .map(|(key, field)| {
                let name = if field.name.is_empty() { key.name.as_str() } else { field.name.as_str() };
                let place = |what: String| format!("has key field '{name}', which {what}");
                if field.id == 0 || !ids.insert(field.id) {
                    return Err(place(format!("has id {}, which must be set and unique", field.id)));
                }
                let kind = match_kind(field, key.kind).map_err(place)?;
                let repr = Repr::agree(field.bitwidth, field.type_name.as_ref(), &self.types, key.width);
                Ok(Field { id: field.id, name: name.to_owned(), kind, repr: repr.map_err(place)? })
            })
            .collect()
    }

    /// The program's copy of an action for a table.
    fn table_action(&mut self, table: TableId, id: u32) -> Result<zsr_soft_switch::ActionId, String> {
        let action = *self.actions.get(&id).ok_or_else(|| format!("has action {id}, which P4Info lacks"))?;
        let name = action.preamble.as_ref().map_or("", |preamble| preamble.name.as_str());
        let engine = self.program.table_action(table, name);
        let engine = engine.ok_or_else(|| format!("has action '{name}', which the device config lacks"))?;
        let of = self.program.actions.get(engine.index());
        let of = of.ok_or_else(|| format!("has action '{name}', which the device config lacks"))?;
        let params = self.params(action, of).map_err(|what| format!("has action '{name}', which {what}"))?;
        self.schema.by_engine.actions.insert(engine, id);
        self.schema.actions.entry(id).or_insert_with(|| Action { id, name: name.to_owned(), params });
        Ok(engine)
    }

    fn params(&self, action: &config::Action, of: &ActionInfo) -> Result<Vec<Param>, String> {
        if action.params.len() != of.params.len() {
            return Err(format!(
                "has {} parameters in P4Info and {} in the device config",
                action.params.len(),
                of.params.len()
            ));
        }
        let mut ids = HashSet::new();
        let pairs = action.params.iter().zip(&of.params);
        pairs
            .map(|(param, of)| {
                let place = |what: String| format!("has parameter '{}', which {what}", param.name);
                if param.name != of.name {
                    return Err(place(format!("is '{}' in the device config", of.name)));
                }
                if param.id == 0 || !ids.insert(param.id) {
                    return Err(place(format!("has id {}, which must be set and unique", param.id)));
                }
                let repr = Repr::agree(param.bitwidth, param.type_name.as_ref(), &self.types, of.width);
                Ok(Param { id: param.id, name: param.name.clone(), repr: repr.map_err(place)? })
            })
            .collect()
    }

    fn direct_resources(&mut self) -> Result<(), String> {
        for counter in &self.info.direct_counters {
            let (_, name) = self.name("direct counter", counter.preamble.as_ref())?;
            if self.removed.contains(&counter.direct_table_id) {
                continue;
            }
            let table = self.schema.tables.get_mut(&counter.direct_table_id);
            let table = table.ok_or_else(|| format!("direct counter '{name}' has no table"))?;
            let of = self.program.tables.get(table.engine.index());
            if !of.is_some_and(|of| of.direct_counter) {
                return Err(format!("direct counter '{name}' is not in the device config"));
            }
            table.direct_counter = true;
        }
        for meter in &self.info.direct_meters {
            let (_, name) = self.name("direct meter", meter.preamble.as_ref())?;
            if self.removed.contains(&meter.direct_table_id) {
                continue;
            }
            let table = self.schema.tables.get_mut(&meter.direct_table_id);
            let table = table.ok_or_else(|| format!("direct meter '{name}' has no table"))?;
            let unit = self.program.tables.get(table.engine.index()).and_then(|of| of.direct_meter);
            let unit = unit.ok_or_else(|| format!("direct meter '{name}' is not in the device config"))?;
            table.direct_meter = Some(meter_type("direct meter", name, meter.spec.as_ref(), unit)?);
        }
        Ok(())
    }

    fn arrays(&mut self) -> Result<(), String> {
        for counter in &self.info.counters {
            let (id, name) = self.name("counter", counter.preamble.as_ref())?;
            let Some(engine) = self.program.counter(name) else {
                self.remove(id, "counter", name)?;
                continue;
            };
            let of = self.program.counters.get(engine.index()).ok_or_else(|| missing("counter", name))?;
            let size = cells("counter", name, counter.size, of.size)?;
            self.schema.counters.insert(id, Counter { name: name.to_owned(), engine, size });
        }
        for meter in &self.info.meters {
            let (id, name) = self.name("meter", meter.preamble.as_ref())?;
            let Some(engine) = self.program.meter(name) else {
                self.remove(id, "meter", name)?;
                continue;
            };
            let of = self.program.meters.get(engine.index()).ok_or_else(|| missing("meter", name))?;
            let size = cells("meter", name, meter.size, of.size)?;
            let kind = meter_type("meter", name, meter.spec.as_ref(), of.unit)?;
            self.schema.meters.insert(id, Meter { name: name.to_owned(), engine, size, kind });
        }
        for register in &self.info.registers {
            let (id, name) = self.name("register", register.preamble.as_ref())?;
            let Some(engine) = self.program.register(name) else {
                self.remove(id, "register", name)?;
                continue;
            };
            let of = self.program.registers.get(engine.index()).ok_or_else(|| missing("register", name))?;
            let size = cells("register", name, register.size.into(), of.size)?;
            let types = self.info.type_info.as_ref();
            let data = DataType::resolve(register.type_spec.as_ref(), types, &[of.width])
                .map_err(|what| format!("register '{name}' {what}"))?;
            if data.widths() != [of.width] {
                return Err(format!(
                    "register '{name}' is {} in P4Info and {} bits wide in the device config",
                    data.name(),
                    of.width
                ));
            }
            self.schema.registers.insert(id, Register { name: name.to_owned(), engine, size, data });
        }
        Ok(())
    }

    fn value_sets(&mut self) -> Result<(), String> {
        for set in &self.info.value_sets {
            let (id, name) = self.name("value set", set.preamble.as_ref())?;
            let Some(engine) = self.program.value_set(name) else {
                self.remove(id, "value set", name)?;
                continue;
            };
            let of = self.program.value_sets.get(engine.index()).ok_or_else(|| missing("value set", name))?;
            let widths: Vec<u32> = if of.widths.is_empty() {
                set.r#match.iter().map(|field| u32::try_from(field.bitwidth).unwrap_or(0)).collect()
            } else {
                of.widths.clone()
            };
            // The artifact has no names here. It matches exactly whatever P4Info says; p4c warns of it.
            let key = |(width, field): (&u32, &config::MatchField)| {
                let kind = given_kind(field).unwrap_or(MatchKind::Exact);
                KeyInfo { name: field.name.clone(), kind, width: *width }
            };
            let total: u64 = widths.iter().map(|width| u64::from(*width)).sum();
            if widths.len() != set.r#match.len() || total != u64::from(of.width) {
                return Err(format!(
                    "value set '{name}' has {} fields in P4Info, and {} of {} bits in all in the device config",
                    set.r#match.len(),
                    widths.len(),
                    of.width
                ));
            }
            let keys: Vec<KeyInfo> = widths.iter().zip(&set.r#match).map(key).collect();
            let fields = self.fields(&set.r#match, &keys);
            let fields = fields.map_err(|what| format!("value set '{name}' {what}"))?;
            let size = usize::try_from(set.size).unwrap_or(0);
            self.schema.value_sets.insert(id, ValueSet { name: name.to_owned(), engine, size, fields });
        }
        Ok(())
    }

    fn digests(&mut self) -> Result<(), String> {
        for digest in &self.info.digests {
            let (id, name) = self.name("digest", digest.preamble.as_ref())?;
            let Some(engine) = self.program.digest(name) else {
                self.remove(id, "digest", name)?;
                continue;
            };
            let of = self.program.digests.get(engine.index()).ok_or_else(|| missing("digest", name))?;
            let widths: Vec<u32> = of.fields.iter().map(|(_, width)| *width).collect();
            let types = self.info.type_info.as_ref();
            let data = DataType::resolve(digest.type_spec.as_ref(), types, &widths)
                .map_err(|what| format!("digest '{name}' {what}"))?;
            if data.widths() != widths {
                return Err(format!(
                    "digest '{name}' has fields of {:?} bits in P4Info and {widths:?} in the device config",
                    data.widths()
                ));
            }
            self.schema.by_engine.digests.insert(engine, id);
            self.schema.digests.insert(id, Digest { name: name.to_owned(), engine, data });
        }
        Ok(())
    }
}

fn initial_default(table: &config::Table) -> Option<pb::Action> {
    let call = table.initial_default_action.as_ref()?;
    let params = call.arguments.iter();
    let params = params
        .map(|given| pb::action::Param { param_id: given.param_id, value: given.value.clone() })
        .collect();
    Some(pb::Action { action_id: call.action_id, params })
}

/// The kind of a field; p4c makes optional fields ternary for bmv2.
fn match_kind(field: &config::MatchField, of: MatchKind) -> Result<MatchKind, String> {
    let kind = given_kind(field)?;
    let same = kind == of || (kind == MatchKind::Optional && of == MatchKind::Ternary);
    if same { Ok(kind) } else { Err(format!("is {kind:?} in P4Info and {of:?} in the device config")) }
}

fn given_kind(field: &config::MatchField) -> Result<MatchKind, String> {
    use config::match_field::{Match, MatchType};
    Ok(match &field.r#match {
        Some(Match::MatchType(number)) => match MatchType::try_from(*number) {
            Ok(MatchType::Exact) => MatchKind::Exact,
            Ok(MatchType::Lpm) => MatchKind::Lpm,
            Ok(MatchType::Ternary) => MatchKind::Ternary,
            Ok(MatchType::Range) => MatchKind::Range,
            Ok(MatchType::Optional) => MatchKind::Optional,
            _ => return Err(format!("has match type {number}, which P4Runtime lacks")),
        },
        Some(Match::OtherMatchType(name)) => {
            return Err(format!("has match type '{name}', which v1model lacks"));
        }
        None => return Err("has no match type".into()),
    })
}

fn meter_type(
    object: &str,
    name: &str,
    spec: Option<&config::MeterSpec>,
    unit: MeterUnit,
) -> Result<MeterType, String> {
    let spec = spec.ok_or_else(|| format!("{object} '{name}' has no spec"))?;
    let same = match spec.unit() {
        config::meter_spec::Unit::Bytes => unit == MeterUnit::Bytes,
        config::meter_spec::Unit::Packets => unit == MeterUnit::Packets,
        config::meter_spec::Unit::Unspecified => false,
    };
    if !same {
        return Err(format!("{object} '{name}' counts {unit:?} in the device config, not {:?}", spec.unit()));
    }
    Ok(spec.r#type().into())
}

fn cells(object: &str, name: &str, size: i64, of: usize) -> Result<u32, String> {
    match u32::try_from(of) {
        Ok(cells) if size == i64::from(cells) => Ok(cells),
        _ => Err(format!("{object} '{name}' has {size} cells in P4Info and {of} in the device config")),
    }
}
