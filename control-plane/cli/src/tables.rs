//! Tables of commands for a running system.

use super::json::{kind, state};
use crate::report::{Columns, Room, numbers, words};
use crate::settings;
use std::time::{Duration, UNIX_EPOCH};
use zsr::lock::is_stopped;
use zsr_api::{controller as proto, word};
use zsr_topology::show_size;

/// All flows.
pub(super) fn flows(flows: &[proto::Flow], room: Room) -> String {
    let mut t = Columns::new(&[
        words(0, "FLOW"),
        words(1, "KIND"),
        words(0, "STATE"),
        words(0, "PRODUCERS"),
        words(0, "CONSUMERS"),
        numbers(2, "ITEM"),
        numbers(3, "WEIGHT"),
        words(0, "REASON"),
    ]);
    let names = |members: &[proto::FlowMember]| {
        let names: Vec<&str> = members.iter().take(4).map(|m| m.name.as_str()).collect();
        match members.len() {
            0..=4 => names.join(","),
            n => format!("{},… ({n})", names.join(",")),
        }
    };
    for f in flows {
        t.add([
            f.name.clone(),
            kind(f),
            state(f),
            names(&f.producers),
            names(&f.consumers),
            show_size(f.item_size.into()),
            f.settings.unwrap_or_default().weight().to_string(),
            [f.reason.as_str(), &f.pending]
                .into_iter()
                .filter(|t| !t.is_empty())
                .collect::<Vec<_>>()
                .join("; "),
        ]);
    }
    t.text(room)
}

/// A single flow.
pub(super) fn flow(f: &proto::Flow, room: Room) -> String {
    let s = f.settings.unwrap_or_default();
    let mut out = format!("flow {}: {}, {}", f.name, kind(f), state(f));
    if !f.reason.is_empty() {
        out += &format!(" ({})", f.reason);
    }
    if !f.pending.is_empty() {
        out += &format!("\n  {}", f.pending);
    }
    out += &format!(
        "\n  items of {}, path MTU {} B, routing {}{}, version {}\n{}",
        show_size(f.item_size.into()),
        f.mtu,
        f.routing,
        if f.lanes > 1 { format!(", {} lanes", f.lanes) } else { String::new() },
        f.version,
        settings::text(&s),
    );
    if !f.schema.is_empty() {
        let size = if f.tuple_size == 0 { "lines".into() } else { format!("{} B each", f.tuple_size) };
        out += &format!("  tuples ({}), {size}\n", f.schema);
    }
    let all: Vec<proto::Ring> =
        f.producers.iter().chain(&f.consumers).flat_map(|m| m.rings.iter().cloned()).collect();
    room.fold(&out) + &rings(&all, room)
}

/// Rings.
pub(super) fn rings(rings: &[proto::Ring], room: Room) -> String {
    let mut t = Columns::new(&[
        words(0, "RING"),
        words(0, "ROLE"),
        words(0, "HOST"),
        words(2, "FLOW"),
        words(4, "MEMBER"),
        numbers(1, "ITEM"),
        numbers(0, "SIZE"),
        words(0, "MEMORY"),
        words(3, "OWNER"),
    ]);
    for r in rings {
        t.add([
            r.name.clone(),
            word(r.role().as_str_name(), "ROLE_"),
            r.host.clone(),
            if r.flow.is_empty() { "-".into() } else { r.flow.clone() },
            if r.flow.is_empty() { "-".into() } else { r.member.clone() },
            show_size(r.item_size.into()),
            show_size(r.size.into()),
            r.memory.clone(),
            if r.owner.is_empty() { "-".into() } else { r.owner.clone() },
        ]);
    }
    t.text(room)
}

/// An event.
pub(super) fn event(e: &proto::Event) -> String {
    let time = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(e.time_ms));
    let mut out = format!("{:>6}  {time}  {}", e.number, word(e.kind().as_str_name(), "EVENT_KIND_"));
    if e.port != 0 {
        out += &format!("  port {}", e.port);
    }
    let about = [("flow", &e.flow), ("member", &e.member), ("ring", &e.ring), ("host", &e.host)];
    for (what, name) in about.into_iter().chain([("interface", &e.interface)]) {
        if !name.is_empty() {
            out += &format!("  {what} {name}");
        }
    }
    if !e.text.is_empty() {
        out += &format!("  {}", e.text);
    }
    out + "\n"
}

/// A system and its processes.
pub(super) fn status(
    name: &str,
    processes: &[(String, Option<u32>)],
    system: Option<&proto::System>,
    room: Room,
) -> String {
    room.fold(&status_lines(name, processes, system, room))
}

fn status_lines(
    name: &str,
    processes: &[(String, Option<u32>)],
    system: Option<&proto::System>,
    room: Room,
) -> String {
    let mut out = format!("system {name}\n");
    let mut t = Columns::new(&[words(0, "PROCESS"), numbers(0, "PID"), words(0, "STATE")]);
    for (process, pid) in processes {
        let (pid, state) = match pid {
            Some(pid) if is_stopped(*pid) => (pid.to_string(), "is stopped"),
            Some(pid) => (pid.to_string(), "runs"),
            None => ("-".into(), "has died"),
        };
        t.add([process.clone(), pid, state.to_owned()]);
    }
    out += &t.text(room);
    let Some(system) = system else { return out + "the controller does not answer\n" };
    if let Some(s) = &system.switch {
        let state = if s.connected { "connected" } else { "LOST" };
        out += &format!(
            "switch {} at {}, {state}; {} workers, {} producer rings, {} queue pairs in use\n",
            s.name, s.p4runtime, s.workers, s.producer_rings, s.queue_pairs
        );
        if !s.trouble.is_empty() {
            out += &format!("switch {}: {}\n", s.name, s.trouble);
        }
    }
    if let Some(s) = &system.standby {
        let state = if s.connected { "can take over" } else { "CAN'T TAKE OVER" };
        out += &format!("standby {} at {}, {state}\n", s.name, s.p4runtime);
        if !s.trouble.is_empty() {
            out += &format!("standby {}: {}\n", s.name, s.trouble);
        }
    }
    let mut t = Columns::new(&[
        words(0, "HOST"),
        words(0, "IP"),
        numbers(0, "PORT"),
        numbers(0, "MTU"),
        numbers(0, "RINGS"),
        words(0, "AGENT"),
    ]);
    for h in &system.hosts {
        let agent = if h.connected { "answers" } else { "LOST" };
        t.add([
            h.name.clone(),
            h.ip.clone(),
            h.port.to_string(),
            h.mtu.to_string(),
            h.rings.to_string(),
            agent.to_owned(),
        ]);
    }
    out += &t.text(room);
    for c in &system.pending {
        let whom =
            if c.waits_for.is_empty() { String::new() } else { format!(", waits for {}", c.waits_for) };
        out += &format!("{}: under way for {} s{whom}\n", c.what, c.seconds);
    }
    if !system.journal_trouble.is_empty() {
        out += &format!("changes are refused: {}\n", system.journal_trouble);
    }
    for p in system.switch.iter().flat_map(|s| &s.ports).filter(|p| !p.trouble.is_empty()) {
        out += &format!("port {} ({}): {}\n", p.port, p.link, p.trouble);
    }
    for h in system.hosts.iter().filter(|h| !h.trouble.is_empty()) {
        out += &format!("host {}: {}\n", h.name, h.trouble);
    }
    out
}
