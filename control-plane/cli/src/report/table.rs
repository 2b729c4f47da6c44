//! The report as text for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use zsr_topology::{RingRole, show_size};

use super::columns::{Column, Columns, Room, not_shown, numbers, words};
use super::figures::{FlowReport, Outcome, Report, RingReport, SwitchCounts};

/// Rings that the table lists per flow and role; of more, only their sum is shown (`--json` has them all).
const MAX_RINGS: usize = 64;

const COLUMNS: [Column; 11] = [
    words(0, "flow / ring"),
    numbers(0, "items"),
    numbers(0, "records"),
    numbers(0, "bytes"),
    numbers(0, "goodput"),
    numbers(3, "transfers"),
    numbers(1, "mean batch"),
    numbers(4, "polls"),
    numbers(4, CONTROL_PACKETS),
    numbers(4, CONTROL_BYTES),
    numbers(0, "retries"),
];
const CONTROL_PACKETS: &str = "ctl pkts/GB";
const CONTROL_BYTES: &str = "ctl bytes/GB";

/// The report as lines of text, the last one with a line end. Lines are no longer than there is room, but for paths.
pub fn to_text(report: &Report, room: Room) -> String {
    room.fold(&lines(report, room))
}

fn lines(report: &Report, room: Room) -> String {
    let (mut out, mut hidden) = (String::new(), BTreeSet::new());
    for flow in &report.flows {
        let _ = writeln!(
            out,
            "{} '{}': {} to {}, items of {}, at most {} per transfer",
            flow.kind,
            flow.name,
            count(flow.producers as u64, "producer"),
            count(flow.consumers as u64, "consumer"),
            show_size(u64::from(flow.item_size)),
            show_size(u64::from(flow.max_batch)),
        );
        let (table, without) = flow_table(flow).lines(room);
        out += &table;
        hidden.extend(without);
        let operations = flow.pu_operations_per_item();
        let _ = writeln!(out, "PU-side communication operations per item: {}", plain(operations));
        verdict(&mut out, flow);
    }
    for path in &report.outputs {
        let _ = writeln!(out, "wrote {}", path.display());
    }
    for link in report.links.iter().filter(|l| l.pcap.is_some()) {
        let path = link.pcap.as_deref().unwrap_or("".as_ref());
        let _ = writeln!(out, "wrote {}", path.display());
    }
    out += &not_shown(hidden.iter().copied(), room);
    if !hidden.contains(&CONTROL_PACKETS) {
        out += "ctl: packets without items; GB: 10⁹ bytes of items\n";
    }
    let _ = writeln!(
        out,
        "set up in {:.3} s, moved in {:.3} s, torn down in {:.3} s",
        report.setup.as_secs_f64(),
        report.transfer.as_secs_f64(),
        report.teardown.as_secs_f64()
    );
    let _ = match &report.outcome {
        Outcome::Delivered => {
            writeln!(out, "OK: every item arrived exactly once, {}", promise(report))
        }
        Outcome::Interrupted => writeln!(out, "INTERRUPTED: {}", delivered(report)),
        Outcome::Failed(why) => writeln!(out, "FAILED: {why}\n{}", delivered(report)),
    };
    out
}

/// The guarantees of the flows' kinds.
fn promise(report: &Report) -> &'static str {
    let mut kinds: Vec<&str> = report.flows.iter().map(|f| f.kind).collect();
    kinds.dedup();
    match kinds[..] {
        ["load-balance"] => "at one of the consumers, in order per producer",
        ["replicate"] => "at every consumer, in one order",
        _ => "at the right consumer, in order per producer",
    }
}

/// Amounts that were and were not delivered.
fn delivered(report: &Report) -> String {
    let (mut pushed, mut arrived, mut records) = (0, 0, 0);
    for flow in &report.flows {
        pushed += flow.verification.pushed.items;
        arrived += flow.verification.delivered.items;
        records += flow.verification.delivered.records;
    }
    let missing = pushed.saturating_sub(arrived);
    format!(
        "{} of {} pushed were delivered ({}), {} not",
        arrived,
        count(pushed, "item"),
        count(records, "record"),
        missing
    )
}

fn flow_table(flow: &FlowReport) -> Columns {
    let mut table = Columns::ruled(&COLUMNS);
    let d = &flow.verification.delivered;
    let mut row = vec![flow.name.clone(), d.items.to_string(), d.records.to_string(), show_size(d.bytes)];
    row.push(rate(flow.goodput()));
    row.extend(switch_cells(Some(&flow.switch), flow.item_bytes()));
    table.add(row);
    for role in [RingRole::Producer, RingRole::Consumer] {
        let rings: Vec<&RingReport> = flow.rings.iter().filter(|r| r.role == role).collect();
        let arrow = if role == RingRole::Producer { "▸" } else { "◂" };
        for ring in rings.iter().take(MAX_RINGS) {
            let mut row = vec![
                format!("  {arrow} {}", ring.name),
                ring.items.to_string(),
                ring.records.to_string(),
                show_size(ring.bytes),
                rate(ring.bytes as f64 / flow.elapsed.as_secs_f64().max(1e-9)),
            ];
            row.extend(switch_cells(ring.switch.as_ref(), ring.items * u64::from(flow.item_size)));
            table.add(row);
        }
        if rings.len() > MAX_RINGS {
            table.add([format!("  {arrow} and {} more", rings.len() - MAX_RINGS)]);
        }
    }
    table
}

/// transfers, mean batch, polls, control packets and bytes per GB, retries.
fn switch_cells(counts: Option<&SwitchCounts>, item_bytes: u64) -> [String; 6] {
    let Some(c) = counts else { return std::array::from_fn(|_| String::new()) };
    let gigabytes = item_bytes as f64 / 1e9;
    let per_gb = |n: u64, show: fn(f64) -> String| {
        if item_bytes == 0 { "-".into() } else { show(n as f64 / gigabytes) }
    };
    let batch = item_bytes.checked_div(c.transfers).map_or("-".into(), show_size);
    [
        c.transfers.to_string(),
        batch,
        c.polls.to_string(),
        per_gb(c.control_packets, |n| format!("{n:.0}")),
        per_gb(c.control_bytes, |n| show_size(n as u64)),
        c.retries.to_string(),
    ]
}

fn verdict(out: &mut String, flow: &FlowReport) {
    let v = &flow.verification;
    if v.discrepancies() == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "verification of '{}': {} lost, {} repeated, {} misrouted, {} altered",
        flow.name, v.lost, v.repeated, v.misrouted, v.altered
    );
    for d in &v.first {
        let from = d.producer.as_ref().map_or(String::new(), |p| format!(" from {p}"));
        let _ = writeln!(out, "  {}{from}: {}", d.ring, d.what);
    }
}

/// `1 item`, `2 items`.
fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A number without needless digits.
fn plain(n: f64) -> String {
    if n == n.trunc() { format!("{n:.0}") } else { format!("{n:.4}") }
}

/// Bytes per second, decimal as network rates are.
fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        r if r >= 1e9 => format!("{:.2} GB/s", r / 1e9),
        r if r >= 1e6 => format!("{:.1} MB/s", r / 1e6),
        r if r >= 1e3 => format!("{:.1} kB/s", r / 1e3),
        r => format!("{r:.0} B/s"),
    }
}
