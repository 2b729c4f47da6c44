//! Tables of commands for a running system.

use super::json::{kind, state};
use crate::settings::{self, word};
use comfy_table::{Table, presets::NOTHING};
use std::time::{Duration, UNIX_EPOCH};
use zsr::lock::is_stopped;
use zsr_api::controller as proto;
use zsr_topology::show_size;

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec());
    table
}

pub(super) fn text(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// All flows.
pub(super) fn flows(flows: &[proto::Flow]) -> String {
    let mut t = table(&["FLOW", "KIND", "STATE", "PRODUCERS", "CONSUMERS", "ITEM", "WEIGHT", "REASON"]);
    let names = |members: &[proto::FlowMember]| {
        let names: Vec<&str> = members.iter().take(4).map(|m| m.name.as_str()).collect();
        match members.len() {
            0..=4 => names.join(","),
            n => format!("{},… ({n})", names.join(",")),
        }
    };
    for f in flows {
        t.add_row([
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
    text(&t)
}

/// One flow.
pub(super) fn flow(f: &proto::Flow) -> String {
    let s = f.settings.unwrap_or_default();
    let mut out = format!("flow {}: {}, {}", f.name, kind(f), state(f));
    if !f.reason.is_empty() {
        out += &format!(" ({})", f.reason);
    }
    if !f.pending.is_empty() {
        out += &format!("\n  {}", f.pending);
    }
    out += &format!(
        "\n  items of {}, path MTU {} B, routing {}, version {}\n{}",
        show_size(f.item_size.into()),
        f.mtu,
        f.routing,
        f.version,
        settings::text(&s),
    );
    if !f.schema.is_empty() {
        let size = if f.tuple_size == 0 { "lines".into() } else { format!("{} B each", f.tuple_size) };
        out += &format!("  tuples ({}), {size}\n", f.schema);
    }
    let all: Vec<proto::Ring> =
        f.producers.iter().chain(&f.consumers).flat_map(|m| m.rings.iter().cloned()).collect();
    out + &rings(&all)
}

/// Rings.
pub(super) fn rings(rings: &[proto::Ring]) -> String {
    let mut t = table(&["RING", "ROLE", "HOST", "FLOW", "MEMBER", "ITEM", "SIZE", "MEMORY", "OWNER"]);
    for r in rings {
        t.add_row([
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
    text(&t)
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
) -> String {
    let mut out = format!("system {name}\n");
    let mut t = table(&["PROCESS", "PID", "STATE"]);
    for (process, pid) in processes {
        let (pid, state) = match pid {
            Some(pid) if is_stopped(*pid) => (pid.to_string(), "is stopped"),
            Some(pid) => (pid.to_string(), "runs"),
            None => ("-".into(), "has died"),
        };
        t.add_row([process.as_str(), &pid, state]);
    }
    out += &text(&t);
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
    let mut t = table(&["HOST", "IP", "PORT", "MTU", "RINGS", "AGENT"]);
    for h in &system.hosts {
        let agent = if h.connected { "answers" } else { "LOST" };
        t.add_row([
            h.name.as_str(),
            &h.ip,
            &h.port.to_string(),
            &h.mtu.to_string(),
            &h.rings.to_string(),
            agent,
        ]);
    }
    out += &text(&t);
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
