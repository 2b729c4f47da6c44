//! The plan's names in bf-rt.json. Tables, keys, actions and parameters are found by name, and put into the order of
//! the built-in program, in which the plan fills them.

use super::BfrtError;
use super::info::{Field, Form, Info};
use p4runtime_proto::p4::config::v1::P4Info;
use zsr_plan::dataplane::report;
use zsr_plan::p4::names::{counter, digest::REPORT_T, table};
use zsr_plan::p4::schema::{Object, Part, Parts, Schema};
use zsr_plan::p4::{COUNTERS, Clock, OPTIONAL};

/// The schema with the plan's names and the numbers of `info`; `built_in` has the order of keys and parameters.
///
/// # Errors
/// All names that the program lacks.
pub fn schema(info: &Info, built_in: &P4Info) -> Result<Schema, BfrtError> {
    let reference = Schema::new(built_in);
    let mut parts = Parts { clock: Clock::Slices, ..Default::default() };
    let mut missing = Vec::new();
    for &(name, action) in table::ALL {
        let table = match info.table(name) {
            Ok(table) => table,
            Err(e @ BfrtError::Ambiguous { .. }) => return Err(e),
            Err(_) if OPTIONAL.contains(&name) => continue,
            Err(_) => {
                missing.push(format!("table `{name}`"));
                continue;
            }
        };
        let mut place = |kind: &str, of: &str, wanted: &[Part], found: &[Field]| {
            let mut lacks = |what: String| {
                missing.push(what);
                None
            };
            wanted
                .iter()
                .filter_map(|w| match found.iter().find(|f| f.name == w.name && !f.loose && !f.repeated) {
                    Some(Field { id, form: Form::Bits(bits), .. }) => {
                        Some(Part { id: *id, name: w.name.clone(), bits: *bits })
                    }
                    Some(f) => {
                        lacks(format!("{kind} `{}` of {of} that is a number (it is {})", w.name, f.form))
                    }
                    None => lacks(format!("{kind} `{}` of {of}", w.name)),
                })
                .collect::<Vec<_>>()
        };
        let (Some(keys), Some(params)) = (reference.keys(name), reference.params(name, action)) else {
            return Err(BfrtError::Unfit(format!(
                "the built-in program has no table `{name}` with `{action}`"
            )));
        };
        let fields = place("key", &format!("table `{name}`"), keys, &table.keys);
        // A key that the plan does not fill would be matched against nothing.
        let unknown = table.keys.iter().find(|k| keys.iter().all(|w| w.name != k.name));
        if let Some(more) = unknown {
            return Err(BfrtError::Unfit(format!(
                "{}: table `{name}` has a key `{}` that this controller does not know; compile p4/arch/tna/main.p4 again",
                info.source, more.name
            )));
        }
        let object = Object { id: table.id, fields, size: table.size };
        match table.action(action) {
            Some(found) => {
                let fields =
                    place("parameter", &format!("action `{action}` of `{name}`"), params, &found.data);
                let object = Object { id: found.id, fields, size: 0 };
                parts.actions.insert(Schema::action_of(name, action), object);
            }
            None => missing.push(format!("action `{action}` of table `{name}`")),
        }
        parts.tables.insert(name.into(), object);
    }
    for name in COUNTERS.into_iter().chain([counter::OTHER_VLAN]) {
        match info.table(name) {
            Ok(counter) => drop(parts.counters.insert(name.into(), counter.id)),
            Err(_) => missing.push(format!("counter `{name}`")),
        }
    }
    match report_of(info) {
        Some(filter) => {
            parts.digests.insert(REPORT_T.into(), filter.id);
            for field in report::FIELDS.iter().filter(|n| filter.fields.iter().all(|f| f.name != **n)) {
                missing.push(format!("field `{field}` of digest `{}`", filter.name));
            }
        }
        None => missing.push("digest `report`".into()),
    }
    if missing.is_empty() { Ok(Schema::of(parts)) } else { Err(info.missing(missing.join(", nor "))) }
}

/// The digest of reports: its instance has this name.
pub(super) fn report_of(info: &Info) -> Option<&super::info::Filter> {
    info.filters().iter().find(|f| {
        f.name == "report"
            || f.name == REPORT_T
            || f.name.ends_with(".report")
            || f.name.ends_with(".report_t")
    })
}
