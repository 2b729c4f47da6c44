//! Requests for a flow and a member, and the checks of them that need no state.

use crate::dataplane::model::FlowKind;
use crate::error::ControllerError;
use crate::state::invalid;
use zsr_api::controller as proto;
use zsr_records::{ROUTING_HELP, Schema, check_any_routing, parse_routing};
use zsr_ring::memory::UnknownMemory;
use zsr_topology::{MemoryKind, rules};

const MAX_NAME: usize = 63;

/// A requested member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMember {
    /// Name of the member; empty: the host's.
    pub name: String,
    /// The member's host.
    pub host: String,
    /// Declared rings of the member; empty: the flow makes its rings.
    pub rings: Vec<String>,
    /// The memory for rings that the flow makes, as a topology writes it; empty: the memory that the host declares.
    pub memory: String,
}

impl NewMember {
    /// The memory for the rings that the flow makes for the member.
    pub fn memory(&self, flow: &str) -> Result<Option<MemoryKind>, ControllerError> {
        let (host, memory) = (&self.host, &self.memory);
        if memory.is_empty() {
            return Ok(None);
        }
        if let Some(ring) = self.rings.first() {
            return Err(invalid(format!(
                "flow `{flow}`: memory `{memory}` was asked for ring `{ring}`, which the topology declares: write `memory:` there"
            )));
        }
        let kind = memory.parse().map_err(|e: UnknownMemory| {
            invalid(format!("flow `{flow}`, memory of a member on host `{host}`: {e}"))
        })?;
        Ok(Some(kind))
    }
}

/// A requested flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFlow {
    /// The flow's name.
    pub name: String,
    /// The flow's kind.
    pub kind: FlowKind,
    /// Members that push.
    pub producers: Vec<NewMember>,
    /// Members that pop.
    pub consumers: Vec<NewMember>,
    /// Rings of each consumer, or 0 for one.
    pub lanes: u32,
    /// Bytes, or 0.
    pub item_size: u32,
    /// Bytes, or 0.
    pub ring_size: u32,
    /// Settings that differ from the defaults.
    pub settings: proto::Settings,
    /// How producers route; empty for hash.
    pub routing: String,
    /// The schema of its records; empty for records of any kind.
    pub schema: String,
}

/// Routing and schema, and that they go with each other.
pub fn check_records(new: &NewFlow) -> Result<Option<Schema>, ControllerError> {
    let (name, consumers) = (&new.name, new.consumers.len());
    let what = rules::flow(name);
    let schema = match new.schema.as_str() {
        "" => None,
        text => {
            rules::schema_text(&what, text.len())?;
            Some(Schema::parse(text).map_err(|e| invalid(format!("schema of {what}: {e}")))?)
        }
    };
    if new.routing.is_empty() {
        return Ok(schema);
    }
    rules::is_routed(&what, new.kind)?;
    let Some(routing) = parse_routing(&new.routing) else {
        return Err(invalid(format!("routing of {what} is '{}': expected {ROUTING_HELP}", new.routing)));
    };
    let checked = match &schema {
        Some(schema) => schema.resolve(&routing, b',', consumers).map(drop),
        None => check_any_routing(&routing, consumers),
    };
    checked.map_err(|e| invalid(format!("routing of {what}: {e}")))?;
    Ok(schema)
}

/// Whether a name consists of letters, digits, `_`, `-` and `more`, with a letter first.
pub fn check_name(what: &str, name: &str, more: &str) -> Result<(), ControllerError> {
    let sound = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= MAX_NAME
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c) || more.contains(c));
    if sound {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(invalid(format!(
        "`{}` can't be a {what}'s name: expected 1 to {MAX_NAME} letters, digits, `_` and `-`, a letter first",
        shown.escape_debug()
    )))
}
