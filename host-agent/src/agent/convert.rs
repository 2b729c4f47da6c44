//! Between the agent's types and the messages of `zsr.agent.v1`.

use std::net::Ipv4Addr;

use zsr_wire::{Mac, Psn, Qpn};

use super::{
    AgentError, AgentEvent, EventKind, LinkState, OpenRing, QueuePair, ResumeRing, RingInfo, RingRequest,
    RingState,
};
use crate::nic::{NicInfo, QpTarget};
use zsr_api::agent::{self as proto, ring_event::Kind};
use zsr_ring::latency::Latency;
use zsr_ring::memory::{MemoryKind, UnknownMemory};
use zsr_ring::{ByteOrder, Role};

const MAX_24_BITS: u32 = (1 << 24) - 1;

fn argument(name: &str, message: impl Into<String>) -> AgentError {
    AgentError::Argument { name: name.to_owned(), message: message.into() }
}

pub(super) fn ring_request(request: proto::CreateRingRequest) -> Result<RingRequest, AgentError> {
    let name = request.name;
    let role = match proto::Role::try_from(request.role) {
        Ok(proto::Role::Producer) => Role::Producer,
        Ok(proto::Role::Consumer) => Role::Consumer,
        _ => return Err(argument(&name, "role is missing: expected ROLE_PRODUCER or ROLE_CONSUMER")),
    };
    let byte_order = match proto::ByteOrder::try_from(request.byte_order) {
        Ok(proto::ByteOrder::Unspecified) => ByteOrder::NATIVE,
        Ok(proto::ByteOrder::Little) => ByteOrder::Little,
        Ok(proto::ByteOrder::Big) => ByteOrder::Big,
        Err(unknown) => return Err(argument(&name, format!("byte order: {unknown}"))),
    };
    let memory = match request.memory.as_str() {
        "" => MemoryKind::Host,
        said => said.parse().map_err(|e: UnknownMemory| argument(&name, format!("memory: {e}")))?,
    };
    let (item_size, ring_size, start) = (request.item_size, request.ring_size, request.start);
    Ok(RingRequest { name, role, item_size, ring_size, byte_order, start, memory })
}

pub(super) fn open_ring(open: proto::OpenRing) -> Result<OpenRing, AgentError> {
    let ring = ring_request(open.ring.unwrap_or_default())?;
    let data = target(&ring.name, "data", open.data.as_ref())?;
    let poll = target(&ring.name, "poll", open.poll.as_ref())?;
    Ok(OpenRing { ring, data, poll, doorbell: open.doorbell_secret })
}

pub(super) fn resume_ring(resume: proto::ResumeRing) -> Result<ResumeRing, AgentError> {
    let proto::ResumeRing { name, data, poll, tail, head, items } = resume;
    let (data, poll) = (target(&name, "data", data.as_ref())?, target(&name, "poll", poll.as_ref())?);
    Ok(ResumeRing { name, data, poll, tail, lacks: head.map(|head| (head, items)) })
}

/// `which` is "data" or "poll".
pub(super) fn target(
    name: &str,
    which: &str,
    target: Option<&proto::QpTarget>,
) -> Result<QpTarget, AgentError> {
    let target =
        target.ok_or_else(|| argument(name, format!("the {which} queue pair's target is missing")))?;
    let bits24 = |field: &str, value: u32| {
        if value <= MAX_24_BITS {
            return Ok(value);
        }
        Err(argument(name, format!("{which}.{field} is {value}: expected at most {MAX_24_BITS} (24 bits)")))
    };
    let ip: Ipv4Addr = target
        .ip
        .parse()
        .map_err(|_| argument(name, format!("{which}.ip is `{}`: expected an IPv4 address", target.ip)))?;
    let mac: Mac = target.mac.parse().map_err(|_| {
        let message =
            format!("{which}.mac is `{}`: expected a MAC address like 02:00:00:00:00:01", target.mac);
        argument(name, message)
    })?;
    Ok(QpTarget {
        qpn: Qpn::new(bits24("qpn", target.qpn)?),
        ip,
        mac,
        rq_psn: Psn::new(bits24("rq_psn", target.rq_psn)?),
        sq_psn: Psn::new(bits24("sq_psn", target.sq_psn)?),
        path_mtu: target.path_mtu,
        traffic_class: target.traffic_class.try_into().map_err(|_| {
            let said = target.traffic_class;
            argument(name, format!("{which}.traffic_class is {said}: expected at most 255 (8 bits)"))
        })?,
    })
}

fn queue_pair(qp: &QueuePair) -> proto::QueuePair {
    let remote = qp.remote.map(|remote| proto::QpTarget {
        qpn: remote.qpn.get(),
        ip: remote.ip.to_string(),
        mac: remote.mac.to_string(),
        rq_psn: remote.rq_psn.get(),
        sq_psn: remote.sq_psn.get(),
        path_mtu: remote.path_mtu,
        traffic_class: remote.traffic_class.into(),
    });
    proto::QueuePair { qpn: qp.qpn.get(), remote }
}

pub(super) fn ring(info: &RingInfo, nic: &NicInfo) -> proto::Ring {
    let (ring, words) = (&info.ring, info.ring.snapshot());
    let producer = ring.role() == Role::Producer;
    let stats = if producer { ring.push_stats() } else { ring.pop_stats() };
    let order = match ring.spec().byte_order() {
        ByteOrder::Little => proto::ByteOrder::Little,
        ByteOrder::Big => proto::ByteOrder::Big,
    };
    let state = match info.state {
        RingState::Registered => proto::RingState::Registered,
        RingState::Connected => proto::RingState::Connected,
        RingState::Aborted => proto::RingState::Aborted,
    };
    proto::Ring {
        name: info.name.clone(),
        role: if producer { proto::Role::Producer } else { proto::Role::Consumer }.into(),
        item_size: ring.spec().item_size(),
        ring_size: ring.spec().ring_size(),
        byte_order: order.into(),
        ring_id: info.id,
        rkey: info.rkey.0,
        iova: 0,
        data_qp: Some(queue_pair(&info.data)),
        poll_qp: Some(queue_pair(&info.poll)),
        mac: nic.mac.to_string(),
        ip: nic.ip.to_string(),
        path_mtu_limit: nic.path_mtu,
        epoch: ring.epoch().into(),
        state: state.into(),
        abort_reason: ring.abort_reason().unwrap_or_default().to_owned(),
        head: words.head.counter,
        head_flags: words.head.flags.0,
        tail: words.tail.counter,
        tail_flags: words.tail.flags.0,
        producer_id: words.producer_id,
        producer_tail: words.producer_tail,
        attached: ring.has_producer() || ring.has_consumer(),
        items: stats.items,
        blocked: stats.blocked,
        memory: ring.memory().describe(),
        bytes: ring.filled_bytes(),
        died: info.died.clone().unwrap_or_default(),
        finished: info.finished,
        latency: ring
            .latency()
            .filter(|_| !producer)
            .map(|Latency { buckets, sum_us }| proto::Latency { segments: buckets.to_vec(), sum_us }),
    }
}

pub(super) fn nic(info: &NicInfo) -> proto::Nic {
    proto::Nic {
        name: info.name.clone(),
        backend: info.backend.to_owned(),
        mac: info.mac.to_string(),
        ip: info.ip.to_string(),
        path_mtu_limit: info.path_mtu,
        gids: info.gids().iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn kind(kind: EventKind) -> Kind {
    match kind {
        EventKind::Created => Kind::Created,
        EventKind::Connected => Kind::Connected,
        EventKind::Disconnected => Kind::Disconnected,
        EventKind::Aborted => Kind::Aborted,
        EventKind::Destroyed => Kind::Destroyed,
        EventKind::Attached => Kind::Attached,
        EventKind::Left => Kind::Left,
        EventKind::Died => Kind::Died,
    }
}

pub(super) fn event(event: AgentEvent) -> proto::Event {
    let ring = proto::RingEvent {
        kind: kind(event.kind).into(),
        name: event.name,
        ring_id: event.id,
        epoch: event.epoch.into(),
        detail: event.detail,
    };
    proto::Event { event: Some(proto::event::Event::Ring(ring)) }
}

pub(super) fn link(link: &LinkState) -> proto::Event {
    let LinkState { interface, trouble } = link.clone();
    let link = proto::LinkEvent { interface, trouble: trouble.unwrap_or_default() };
    proto::Event { event: Some(proto::event::Event::Link(link)) }
}

pub(super) fn missed(events: u64) -> proto::Event {
    proto::Event { event: Some(proto::event::Event::Missed(events)) }
}
