//! Conversions between the controller's types and the messages of `zsr.controller.v1`.

use crate::dataplane::model::{DeclaredRing, Flow, FlowKind, Host, Member, Ring};
use crate::error::{ControllerError, ErrorKind};
use crate::settings;
use crate::state::{NewFlow, NewMember};
use zsr_api::controller as proto;
use zsr_topology::{MemoryKind, RingRole};

fn unknown(flow: &str, what: &str, value: i32) -> ControllerError {
    ControllerError::new(
        ErrorKind::Invalid,
        format!("flow `{flow}`: {what} {value} is not known to this controller"),
    )
}

/// A request to create a flow.
pub fn new_flow(request: proto::CreateFlowRequest) -> Result<NewFlow, ControllerError> {
    let kind = match proto::FlowKind::try_from(request.kind) {
        Ok(proto::FlowKind::Unspecified | proto::FlowKind::Shuffle) => FlowKind::Shuffle,
        Ok(proto::FlowKind::LoadBalance) => FlowKind::LoadBalance,
        Ok(proto::FlowKind::Replicate) => FlowKind::Replicate,
        Err(_) => return Err(unknown(&request.name, "kind", request.kind)),
    };
    Ok(NewFlow {
        kind,
        settings: request.settings.unwrap_or_default(),
        name: request.name,
        producers: request.producers.into_iter().map(new_member).collect(),
        consumers: request.consumers.into_iter().map(new_member).collect(),
        lanes: request.lanes,
        item_size: request.item_size,
        ring_size: request.ring_size,
        routing: request.routing,
        schema: request.schema,
    })
}

/// A requested member.
pub fn new_member(member: proto::Member) -> NewMember {
    NewMember { name: member.name, host: member.host, rings: member.rings, memory: member.memory }
}

/// The fields about a host in a ring's message: the socket for programs, and the kind of memory of rings that declare
/// none.
pub type OfHost<'a> = &'a dyn Fn(&str) -> (String, MemoryKind);

/// The message of a flow, with the reason why it waits, if it does.
pub fn flow(f: &Flow, waits: Option<String>, of: OfHost<'_>) -> proto::Flow {
    let state = match (&f.failed, &waits) {
        (Some(_), _) => proto::FlowState::Failed,
        (None, Some(_)) => proto::FlowState::Impaired,
        (None, None) => proto::FlowState::Running,
    };
    let member = |m: &Member| proto::FlowMember {
        name: m.name.clone(),
        host: m.host.clone(),
        rings: m.rings.iter().map(|r| ring(f, m, r, of)).collect(),
        ..Default::default()
    };
    proto::Flow {
        name: f.name.clone(),
        kind: kind(f.kind).into(),
        state: state.into(),
        reason: f.failed.clone().or(waits).unwrap_or_default(),
        item_size: f.item_size,
        ring_size: f.ring_size,
        mtu: f.mtu,
        settings: Some(settings::message(&f.settings)),
        routing: f.routing.clone(),
        producers: f.producers.iter().map(member).collect(),
        consumers: f.consumers.iter().map(member).collect(),
        lanes: f.lanes,
        version: f.version,
        schema: f.schema.clone(),
        tuple_size: f.tuple_size(),
        ..Default::default()
    }
}

/// The message of a flow that is being made, as it was asked for: without rings.
pub fn asked(new: &NewFlow) -> proto::Flow {
    let member = |m: &NewMember| proto::FlowMember {
        name: if m.name.is_empty() { m.host.clone() } else { m.name.clone() },
        host: m.host.clone(),
        ..Default::default()
    };
    proto::Flow {
        name: new.name.clone(),
        kind: kind(new.kind).into(),
        state: proto::FlowState::Creating.into(),
        item_size: new.item_size,
        ring_size: new.ring_size,
        lanes: new.lanes.max(1),
        routing: new.routing.clone(),
        schema: new.schema.clone(),
        producers: new.producers.iter().map(member).collect(),
        consumers: new.consumers.iter().map(member).collect(),
        ..Default::default()
    }
}

/// The kind of a flow.
pub fn kind(kind: FlowKind) -> proto::FlowKind {
    match kind {
        FlowKind::Shuffle => proto::FlowKind::Shuffle,
        FlowKind::LoadBalance => proto::FlowKind::LoadBalance,
        FlowKind::Replicate => proto::FlowKind::Replicate,
    }
}

fn ring(f: &Flow, m: &Member, r: &Ring, of: OfHost<'_>) -> proto::Ring {
    let (programs, memory) = of(&r.host);
    let role = if r.ids.is_producer { proto::Role::Producer } else { proto::Role::Consumer };
    proto::Ring {
        name: r.name.clone(),
        host: r.host.clone(),
        role: role.into(),
        item_size: f.item_size,
        size: r.size,
        owner: r.owner.clone(),
        flow: f.name.clone(),
        member: m.name.clone(),
        programs,
        memory: r.memory.unwrap_or(memory).to_string(),
        number: r.ids.id.into(),
        data_qp: r.ids.data.index.into(),
        poll_qp: r.ids.poll.index.into(),
        data_qpn: r.ids.data.qpn,
        poll_qpn: r.ids.poll.qpn,
        nic_data_qpn: r.address.map_or(0, |a| a.data_qpn),
        nic_poll_qpn: r.address.map_or(0, |a| a.poll_qpn),
        first_psn: r.ids.data.psn,
    }
}

/// All rings of a flow.
pub fn rings(f: &Flow, of: OfHost<'_>) -> Vec<proto::Ring> {
    f.members().flat_map(|m| m.rings.iter().map(|r| ring(f, m, r, of))).collect()
}

/// A declared ring that no flow uses.
pub fn free_ring(r: &DeclaredRing, of: OfHost<'_>) -> proto::Ring {
    let (programs, memory) = of(&r.host);
    let role = match r.role {
        RingRole::Producer => proto::Role::Producer,
        RingRole::Consumer => proto::Role::Consumer,
    };
    proto::Ring {
        name: r.name.clone(),
        host: r.host.clone(),
        role: role.into(),
        item_size: r.item_size,
        size: r.size,
        owner: r.owner.clone(),
        programs,
        memory: r.memory.unwrap_or(memory).to_string(),
        ..Default::default()
    }
}

/// The message of a host, with the known state of its agent and its link.
pub fn host(h: &Host, connected: bool, rings: u32, trouble: String) -> proto::Host {
    proto::Host {
        name: h.name.clone(),
        ip: h.station.ip.to_string(),
        port: h.station.port,
        mtu: h.mtu,
        agent: h.agent.uri(),
        connected,
        rings,
        trouble,
        ..Default::default()
    }
}
