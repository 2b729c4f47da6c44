//! Between the controller's types and the messages of `zsr.controller.v1`.

use super::error::{ControllerError, ErrorKind};
use super::state::{NewFlow, NewMember};
use crate::dataplane::model::{DeclaredRing, Flow, FlowKind, Host, Member, Ring};
use std::ops::RangeInclusive;
use std::time::Duration;
use zsr_api::controller as proto;
use zsr_records::Fault;
use zsr_topology::{Hint, Policy, RingRole, Settings, rules};

fn unknown(flow: &str, what: &str, value: i32) -> ControllerError {
    ControllerError::new(
        ErrorKind::Invalid,
        format!("flow `{flow}`: {what} {value} is not known to this controller"),
    )
}

/// A request to create a flow.
pub(super) fn new_flow(request: proto::CreateFlowRequest) -> Result<NewFlow, ControllerError> {
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
        item_size: request.item_size,
        ring_size: request.ring_size,
        routing: request.routing,
        schema: request.schema,
    })
}

/// A member asked for.
pub(super) fn new_member(member: proto::Member) -> NewMember {
    NewMember { name: member.name, host: member.host, rings: member.rings }
}

/// A flow's settings with those that `changes` says, for items of `item_size` bytes.
///
/// # Errors
/// What is unknown or out of range, with flow, setting and range.
pub(super) fn changed(
    settings: &Settings,
    changes: &proto::Settings,
    flow: &str,
    item_size: u32,
) -> Result<Settings, ControllerError> {
    let mut new = settings.clone();
    let what = rules::flow(flow);
    let us = |key: &str, to: &mut u64, from: Option<u64>, range: &RangeInclusive<Duration>| {
        let Some(value) = from else { return Ok(()) };
        *to = value;
        rules::time(&what, key, Duration::from_micros(value), range)
    };
    us("poll_interval", &mut new.poll_interval_us, changes.poll_interval_us, &rules::POLLS)?;
    us("poll_timeout", &mut new.poll_timeout_us, changes.poll_timeout_us, &rules::TIMEOUTS)?;
    us("rto", &mut new.rto_us, changes.rto_us, &rules::TIMEOUTS)?;
    us("dead_after", &mut new.dead_after_us, changes.dead_after_us, &rules::DEAD_AFTER)?;
    if let Some(bits) = changes.rate_cap_bps {
        // 0: none.
        if bits != 0 {
            rules::rate_cap(&what, bits / 8)?;
        }
        new.rate_cap_bps = bits;
    }
    if let Some(weight) = changes.weight {
        rules::in_range(&what, "weight", weight.into(), &rules::WEIGHTS, |w| w.to_string())?;
        new.weight = weight;
    }
    if let Some(batch) = changes.max_batch {
        new.max_batch = rules::max_batch(batch.into(), item_size)
            .map_err(|e| Fault { message: format!("max_batch of {what}: {}", e.message), ..e })?;
    }
    new.doorbell = changes.doorbell.unwrap_or(new.doorbell);
    match changes.hint.map(|h| (h, proto::Hint::try_from(h))) {
        None | Some((_, Ok(proto::Hint::Unspecified))) => {}
        Some((_, Ok(proto::Hint::Bandwidth))) => new.hint = Hint::Bandwidth,
        Some((_, Ok(proto::Hint::Latency))) => new.hint = Hint::Latency,
        Some((value, Err(_))) => return Err(unknown(flow, "hint", value)),
    }
    match changes.policy.map(|p| (p, proto::Policy::try_from(p))) {
        None | Some((_, Ok(proto::Policy::Unspecified))) => {}
        Some((_, Ok(proto::Policy::Wait))) => new.policy = Policy::Wait,
        Some((_, Ok(proto::Policy::DropMember))) => new.policy = Policy::DropMember,
        Some((_, Ok(proto::Policy::Abort))) => new.policy = Policy::Abort,
        Some((value, Err(_))) => return Err(unknown(flow, "policy", value)),
    }
    Ok(new)
}

/// Settings as they are asked for and shown, none left out.
pub(super) fn settings(s: &Settings) -> proto::Settings {
    proto::Settings {
        weight: Some(s.weight),
        rate_cap_bps: Some(s.rate_cap_bps),
        poll_interval_us: Some(s.poll_interval_us),
        poll_timeout_us: Some(s.poll_timeout_us),
        rto_us: Some(s.rto_us),
        dead_after_us: Some(s.dead_after_us),
        max_batch: Some(s.max_batch),
        doorbell: Some(s.doorbell),
        hint: Some(match s.hint {
            Hint::Bandwidth => proto::Hint::Bandwidth.into(),
            Hint::Latency => proto::Hint::Latency.into(),
        }),
        policy: Some(match s.policy {
            Policy::Wait => proto::Policy::Wait.into(),
            Policy::DropMember => proto::Policy::DropMember.into(),
            Policy::Abort => proto::Policy::Abort.into(),
        }),
    }
}

/// A flow, with why it waits, if it does; `programs` is the socket of a host's agent.
pub(super) fn flow(f: &Flow, waits: Option<String>, programs: &dyn Fn(&str) -> String) -> proto::Flow {
    let state = match (&f.failed, &waits) {
        (Some(_), _) => proto::FlowState::Failed,
        (None, Some(_)) => proto::FlowState::Impaired,
        (None, None) => proto::FlowState::Running,
    };
    let member = |m: &Member| proto::FlowMember {
        name: m.name.clone(),
        host: m.host.clone(),
        rings: m.rings.iter().map(|r| ring(f, m, r, programs)).collect(),
        leaving: false,
    };
    proto::Flow {
        name: f.name.clone(),
        kind: kind(f.kind).into(),
        state: state.into(),
        reason: f.failed.clone().or(waits).unwrap_or_default(),
        item_size: f.item_size,
        ring_size: f.ring_size,
        mtu: f.mtu,
        settings: Some(settings(&f.settings)),
        routing: f.routing.clone(),
        producers: f.producers.iter().map(member).collect(),
        consumers: f.consumers.iter().map(member).collect(),
        version: f.version,
        schema: f.schema.clone(),
        tuple_size: f.tuple_size(),
        pending: String::new(),
    }
}

/// A flow that is being made, as it was asked for: without rings.
pub(super) fn asked(new: &NewFlow) -> proto::Flow {
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
        routing: new.routing.clone(),
        schema: new.schema.clone(),
        producers: new.producers.iter().map(member).collect(),
        consumers: new.consumers.iter().map(member).collect(),
        ..Default::default()
    }
}

/// What a flow does with items.
pub(super) fn kind(kind: FlowKind) -> proto::FlowKind {
    match kind {
        FlowKind::Shuffle => proto::FlowKind::Shuffle,
        FlowKind::LoadBalance => proto::FlowKind::LoadBalance,
        FlowKind::Replicate => proto::FlowKind::Replicate,
    }
}

fn ring(f: &Flow, m: &Member, r: &Ring, programs: &dyn Fn(&str) -> String) -> proto::Ring {
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
        programs: programs(&r.host),
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
pub(super) fn rings(f: &Flow, programs: &dyn Fn(&str) -> String) -> Vec<proto::Ring> {
    f.members().flat_map(|m| m.rings.iter().map(|r| ring(f, m, r, programs))).collect()
}

/// A declared ring that no flow uses.
pub(super) fn free_ring(r: &DeclaredRing, programs: &dyn Fn(&str) -> String) -> proto::Ring {
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
        programs: programs(&r.host),
        ..Default::default()
    }
}

/// A host with what is known of its agent and its link.
pub(super) fn host(h: &Host, connected: bool, rings: u32, trouble: String) -> proto::Host {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_stays() {
        let before = Settings::of_items(64);
        let changes = proto::Settings { weight: Some(3), ..Default::default() };
        let after = changed(&before, &changes, "f", 64).unwrap();
        assert_eq!(after, Settings { weight: 3, ..before });
        assert_eq!(changed(&Settings::of_items(4), &settings(&after), "f", 64).unwrap(), after);
    }

    #[test]
    fn values_out_of_range_name_flow_setting_and_range() {
        use proto::Settings as Asked;
        let refused =
            |asked: Asked| changed(&Settings::of_items(64), &asked, "f", 64).unwrap_err().to_string();
        for (asked, part) in [
            (
                Asked { weight: Some(0), ..Default::default() },
                "'weight' of flow 'f' is 0, which is too small: expected 1 to 1000",
            ),
            (Asked { poll_interval_us: Some(0), ..Default::default() }, "'poll_interval' of flow 'f' is 0ns"),
            (
                Asked { max_batch: Some(100), ..Default::default() },
                "100 bytes are no multiple of the item size, 64 bytes",
            ),
            (
                Asked { max_batch: Some(0), ..Default::default() },
                "max_batch of flow 'f': 0 bytes hold no whole item",
            ),
            (Asked { dead_after_us: Some(u64::MAX), ..Default::default() }, "'dead_after' of flow 'f' is"),
            (Asked { hint: Some(99), ..Default::default() }, "hint 99 is not known to this controller"),
        ] {
            let message = refused(asked);
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
    }
}
