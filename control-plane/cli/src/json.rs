//! The JSON of commands for a running system (docs/json.md). Fields may be added, none is renamed or removed.

use crate::settings;
use serde_json::{Value, json};
use zsr::lock::is_stopped;
use zsr_api::{controller as proto, word};

/// An object, on one line.
pub(super) fn one(value: &Value) -> String {
    format!("{value}\n")
}

/// Objects, one per line.
pub(super) fn lines(values: impl Iterator<Item = Value>) -> String {
    values.map(|v| one(&v)).collect()
}

pub(super) fn kind(f: &proto::Flow) -> String {
    word(f.kind().as_str_name(), "FLOW_KIND_")
}

pub(super) fn state(f: &proto::Flow) -> String {
    word(f.state().as_str_name(), "FLOW_STATE_")
}

/// A flow.
pub(super) fn flow(f: &proto::Flow) -> Value {
    let member = |m: &proto::FlowMember| {
        let rings: Vec<Value> = m.rings.iter().map(ring).collect();
        json!({"name": m.name, "host": m.host, "leaving": m.leaving, "rings": rings})
    };
    let s = f.settings.unwrap_or_default();
    json!({
        "name": f.name,
        "kind": kind(f),
        "state": state(f),
        "reason": f.reason,
        "pending": some(&f.pending),
        "item_size": f.item_size,
        "ring_size": f.ring_size,
        "lanes": f.lanes,
        "mtu": f.mtu,
        "routing": f.routing,
        "schema": f.schema,
        "tuple_size": f.tuple_size,
        "version": f.version,
        "settings": settings::json(&s),
        "producers": f.producers.iter().map(member).collect::<Vec<_>>(),
        "consumers": f.consumers.iter().map(member).collect::<Vec<_>>(),
    })
}

/// A ring.
pub(super) fn ring(r: &proto::Ring) -> Value {
    let flow = (!r.flow.is_empty()).then_some(&r.flow);
    json!({
        "name": r.name,
        "host": r.host,
        "role": word(r.role().as_str_name(), "ROLE_"),
        "item_size": r.item_size,
        "size": r.size,
        "memory": r.memory,
        "owner": r.owner,
        "flow": flow,
        "member": flow.map(|_| &r.member),
        "programs": r.programs,
        "number": flow.map(|_| r.number),
        "data_qp": flow.map(|_| r.data_qp),
        "poll_qp": flow.map(|_| r.poll_qp),
        "data_qpn": flow.map(|_| r.data_qpn),
        "poll_qpn": flow.map(|_| r.poll_qpn),
        "nic_data_qpn": flow.map(|_| r.nic_data_qpn),
        "nic_poll_qpn": flow.map(|_| r.nic_poll_qpn),
        "first_psn": flow.map(|_| r.first_psn),
    })
}

/// A text, or nothing.
fn some(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

/// An event.
pub(super) fn event(e: &proto::Event) -> Value {
    json!({
        "number": e.number,
        "time_ms": e.time_ms,
        "kind": word(e.kind().as_str_name(), "EVENT_KIND_"),
        "flow": some(&e.flow),
        "member": some(&e.member),
        "ring": some(&e.ring),
        "host": some(&e.host),
        "port": (e.port != 0).then_some(e.port),
        "interface": some(&e.interface),
        "text": e.text,
        "doubts": e.doubts.iter().map(doubt).collect::<Vec<_>>(),
    })
}

/// Items that a consumer may have consumed.
fn doubt(d: &proto::Doubt) -> Value {
    json!({ "consumer": d.consumer, "producer": d.producer, "ring": d.ring, "items": d.items })
}

/// The state of a process.
fn doing(pid: Option<u32>) -> &'static str {
    match pid {
        Some(pid) if is_stopped(pid) => "stopped",
        Some(_) => "runs",
        None => "died",
    }
}

/// A system and its processes: (name, process number or none if it has died).
pub(super) fn status(
    name: &str,
    processes: &[(String, Option<u32>)],
    system: Option<&proto::System>,
) -> Value {
    let processes: Vec<Value> =
        processes.iter().map(|(p, pid)| json!({"name": p, "pid": pid, "state": doing(*pid)})).collect();
    let host = |h: &proto::Host| {
        json!({
            "name": h.name, "ip": h.ip, "port": h.port, "mtu": h.mtu, "connected": h.connected,
            "rings": h.rings, "agent": h.agent, "programs": h.programs, "trouble": some(&h.trouble),
        })
    };
    let port = |p: &proto::Port| json!({"port": p.port, "link": p.link, "interface": some(&p.interface), "trouble": some(&p.trouble)});
    let switch = system.and_then(|s| s.switch.as_ref()).map(|s| {
        json!({
            "name": s.name, "p4runtime": s.p4runtime, "connected": s.connected, "workers": s.workers,
            "producer_rings": s.producer_rings, "queue_pairs": s.queue_pairs,
            "ports": s.ports.iter().map(port).collect::<Vec<_>>(), "trouble": some(&s.trouble),
        })
    });
    let pending = |p: &proto::Pending| json!({"flow": p.flow, "what": p.what, "waits_for": some(&p.waits_for), "since_ms": p.since_ms});
    json!({
        "system": name,
        "pending": system.map(|s| s.pending.iter().map(pending).collect::<Vec<_>>()),
        "processes": processes,
        "version": system.map(|s| &s.version),
        "journal_trouble": system.map(|s| some(&s.journal_trouble)),
        "switch": switch,
        "standby": system.and_then(|s| s.standby.as_ref()).map(|s| {
            json!({"name": s.name, "p4runtime": s.p4runtime, "ready": s.connected, "trouble": some(&s.trouble)})
        }),
        "hosts": system.map(|s| s.hosts.iter().map(host).collect::<Vec<_>>()),
    })
}
