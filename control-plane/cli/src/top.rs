//! `zsr top`: live rates, fill and retries of flows and rings.

use super::live_args::TopArgs;
use super::{FAILED, OK, complain, json, try_print};
use crate::report::{Columns, Room, words};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use zsr::{ClientError, Session};
use zsr_api::controller as proto;
use zsr_topology::show_size;

/// `zsr top`.
pub(super) fn top(args: &TopArgs) -> u8 {
    let done = args.contact.open().and_then(|session| match (args.json, std::io::stdout().is_terminal()) {
        (true, _) => each(args, &session, |lines, seconds, drops| json::one(&object(lines, seconds, drops))),
        (false, false) => each(args, &session, as_text),
        (false, true) => live(args, &session),
    });
    match done {
        Ok(()) => OK,
        Err(e) => {
            complain(format_args!("error: {e}"));
            FAILED
        }
    }
}

/// The object of `--json` for the time between two looks.
pub(super) fn figures(before: &proto::Stats, after: &proto::Stats) -> Value {
    object(&rates(before, after), seconds(before, after), &after.drops)
}

fn seconds(before: &proto::Stats, after: &proto::Stats) -> f64 {
    after.time_ns.saturating_sub(before.time_ns) as f64 / 1e9
}

fn look(session: &Session) -> Result<proto::Stats, ClientError> {
    session.call(|mut c| async move { c.get_stats(proto::GetStatsRequest::default()).await })
}

/// A flow or ring in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line1 {
    name: String,
    ring: bool,
    role: &'static str,
    bytes_per_second: f64,
    items_per_second: f64,
    transfers_per_second: f64,
    polls_per_second: f64,
    retries: u64,
    fill: Option<f64>,
    attached: bool,
    died: bool,
    silent: bool,
    bytes: u64,
    items: u64,
    /// Age of the figures, if an agent or the switch does not answer.
    old_ms: u64,
}

/// Rates between two looks, flows with their rings below them.
fn rates(before: &proto::Stats, after: &proto::Stats) -> Vec<Line1> {
    let seconds = seconds(before, after);
    let per_second = |now: u64, then: u64| match seconds > 0.0 {
        true => now.saturating_sub(then) as f64 / seconds,
        false => 0.0,
    };
    let old_flows: HashMap<&str, &proto::FlowStats> =
        before.flows.iter().map(|f| (f.name.as_str(), f)).collect();
    let old_rings: HashMap<&str, &proto::RingStats> =
        before.flows.iter().flat_map(|f| &f.rings).map(|r| (r.name.as_str(), r)).collect();
    let mut out = Vec::new();
    for f in &after.flows {
        // A flow or ring that is new counts from its beginning.
        let then = old_flows.get(f.name.as_str()).copied().cloned().unwrap_or_default();
        out.push(Line1 {
            name: f.name.clone(),
            bytes_per_second: per_second(f.bytes, then.bytes),
            items_per_second: per_second(f.items, then.items),
            transfers_per_second: per_second(f.transfers, then.transfers),
            polls_per_second: per_second(f.polls, then.polls),
            retries: f.retries,
            bytes: f.bytes,
            items: f.items,
            old_ms: f.old_ms,
            ..Default::default()
        });
        for r in &f.rings {
            let then = old_rings.get(r.name.as_str()).copied().cloned().unwrap_or_default();
            out.push(Line1 {
                name: r.name.clone(),
                ring: true,
                role: if r.role() == proto::Role::Producer { "producer" } else { "consumer" },
                bytes_per_second: per_second(r.bytes, then.bytes),
                items_per_second: per_second(r.items, then.items),
                transfers_per_second: per_second(r.transfers, then.transfers),
                polls_per_second: per_second(r.polls, then.polls),
                retries: r.retries,
                fill: Some(f64::from(r.fill) / f64::from(r.size.max(1))),
                attached: r.attached,
                died: r.died,
                silent: r.silent,
                bytes: r.bytes,
                items: r.items,
                old_ms: r.old_ms,
            });
        }
    }
    out
}

/// Packets that the switch has dropped, in words; empty if there are none.
fn dropped(drops: &[proto::Drops]) -> String {
    let causes = drops.iter().filter(|d| d.packets > 0).map(|d| format!("{} {}", d.cause, d.packets));
    let causes: Vec<String> = causes.collect();
    if causes.is_empty() { String::new() } else { format!("dropped: {}", causes.join(", ")) }
}

fn object(lines: &[Line1], seconds: f64, drops: &[proto::Drops]) -> Value {
    let value = |l: &Line1| {
        json!({
            "name": l.name,
            "bytes_per_second": l.bytes_per_second,
            "items_per_second": l.items_per_second,
            "transfers_per_second": l.transfers_per_second,
            "polls_per_second": l.polls_per_second,
            "retries": l.retries,
            "bytes": l.bytes,
            "items": l.items,
            "old_ms": l.old_ms,
        })
    };
    let mut flows: Vec<Value> = Vec::new();
    for l in lines {
        let mut v = value(l);
        match (l.ring, flows.last_mut()) {
            (true, Some(flow)) => {
                v["role"] = l.role.into();
                v["fill"] = l.fill.into();
                v["attached"] = l.attached.into();
                v["died"] = l.died.into();
                v["silent"] = l.silent.into();
                if let Some(rings) = flow["rings"].as_array_mut() {
                    rings.push(v);
                }
            }
            _ => {
                v["rings"] = json!([]);
                flows.push(v);
            }
        }
    }
    let drops: serde_json::Map<String, Value> =
        drops.iter().map(|d| (d.cause.clone(), d.packets.into())).collect();
    json!({"seconds": seconds, "flows": flows, "drops": drops})
}

/// Prints the rates of each interval.
fn each(
    args: &TopArgs,
    session: &Session,
    print: impl Fn(&[Line1], f64, &[proto::Drops]) -> String,
) -> Result<(), ClientError> {
    let mut before = look(session)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        left -= 1;
        std::thread::sleep(args.interval);
        let after = look(session)?;
        if try_print(&print(&rates(&before, &after), seconds(&before, &after), &after.drops)).is_err() {
            break;
        }
        before = after;
    }
    Ok(())
}

const HEADER: [&str; 9] =
    ["FLOW / RING", "ROLE", "B/s", "ITEMS/s", "TRANSFERS/s", "POLLS/s", "FILL", "RETRIES", "PROGRAM"];

/// A flow or ring, as it is displayed.
fn cells(l: &Line1) -> [String; 9] {
    let name = if l.ring { format!("  {}", l.name) } else { l.name.clone() };
    let program = match (l.ring, l.attached) {
        _ if l.old_ms > 0 => format!("old: {} s", l.old_ms.div_ceil(1000)),
        (false, _) => String::new(),
        _ if l.silent => "silent".to_owned(),
        _ if l.died => "died".to_owned(),
        (true, true) => "attached".to_owned(),
        (true, false) => "-".to_owned(),
    };
    [
        name,
        l.role.to_owned(),
        show_size(l.bytes_per_second as u64),
        format!("{:.0}", l.items_per_second),
        format!("{:.0}", l.transfers_per_second),
        format!("{:.0}", l.polls_per_second),
        l.fill.map_or(String::new(), |f| format!("{:.0} %", f * 100.0)),
        l.retries.to_string(),
        program,
    ]
}

/// A table, dropped packets, and an empty line behind it.
fn as_text(lines: &[Line1], _seconds: f64, drops: &[proto::Drops]) -> String {
    let mut table = Columns::new(&HEADER.map(|name| words(0, name)));
    for line in lines {
        table.add(cells(line));
    }
    let dropped = dropped(drops);
    let dropped = if dropped.is_empty() { dropped } else { dropped + "\n" };
    table.text(Room::ANY) + &dropped + "\n"
}

fn live(args: &TopArgs, session: &Session) -> Result<(), ClientError> {
    let mut before = look(session)?;
    let no_terminal = |source| ClientError::Io { what: "the terminal", source };
    let mut terminal = ratatui::try_init().map_err(no_terminal)?;
    let done = view(args, session, &mut terminal, &mut before);
    ratatui::restore();
    done
}

fn view(
    args: &TopArgs,
    session: &Session,
    terminal: &mut DefaultTerminal,
    before: &mut proto::Stats,
) -> Result<(), ClientError> {
    let io = |source| ClientError::Io { what: "the terminal", source };
    let mut lines = rates(before, before);
    let mut shown = TableState::default().with_selected(0);
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut next = Instant::now() + args.interval;
    // A look that is not answered yet, and the time when it began. Keys are read meanwhile.
    let mut asked = None;
    let mut foot = FOOT.to_owned();
    while left > 0 {
        terminal.draw(|frame| draw(frame, &lines, &foot, &mut shown)).map_err(io)?;
        let wait =
            if asked.is_some() { Duration::ZERO } else { next.saturating_duration_since(Instant::now()) };
        if event::poll(wait.min(KEYS)).map_err(io)?
            && let Event::Key(key) = event::read().map_err(io)?
        {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if control => return Ok(()),
                KeyCode::Down | KeyCode::Char('j') => shown.select_next(),
                KeyCode::Up | KeyCode::Char('k') => shown.select_previous(),
                KeyCode::PageDown => shown.scroll_down_by(20),
                KeyCode::PageUp => shown.scroll_up_by(20),
                _ => {}
            }
        }
        if Instant::now() < next {
            continue;
        }
        let (look, since) = asked.get_or_insert_with(|| {
            let mut client = session.client.clone();
            let look = async move { client.get_stats(proto::GetStatsRequest::default()).await };
            (Box::pin(session.quiet_answer(look)), Instant::now())
        });
        match session.runtime.block_on(async { tokio::time::timeout(KEYS, look).await }) {
            Ok(after) => {
                let after = after?;
                lines = rates(before, &after);
                *before = after;
                (asked, left, next) = (None, left - 1, Instant::now() + args.interval);
                foot = format!("{FOOT}   {}", dropped(&before.drops));
            }
            Err(_) => foot = format!("no answer for {} s   {FOOT}", since.elapsed().as_secs()),
        }
    }
    Ok(())
}

/// Time between two looks at the keys.
const KEYS: Duration = Duration::from_millis(250);
const FOOT: &str = "q: leave   up, down: scroll";

/// Columns behind the names: their widths, and the order in which they are left out where there is no room for all;
/// columns with 0 stay.
const WIDTHS: [(u16, u8); 8] = [(8, 2), (10, 0), (9, 3), (11, 4), (9, 5), (5, 0), (7, 0), (10, 0)];

/// The columns that fit beside names of this number of characters.
fn that_fit(room: u16, names: u16) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..WIDTHS.len()).collect();
    let total = |shown: &[usize]| shown.iter().map(|n| WIDTHS[*n].0 + 1).fold(names, u16::saturating_add);
    while total(&shown) > room {
        let Some(least) = shown.iter().copied().filter(|n| WIDTHS[*n].1 > 0).max_by_key(|n| WIDTHS[*n].1)
        else {
            break;
        };
        shown.retain(|n| *n != least);
    }
    shown
}

fn draw(frame: &mut Frame<'_>, lines: &[Line1], foot_line: &str, shown: &mut TableState) {
    let [body, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    let cells: Vec<[String; 9]> = lines.iter().map(cells).collect();
    let longest = cells.iter().map(|c| c[0].chars().count()).max().unwrap_or(0).max(HEADER[0].len());
    let columns = that_fit(body.width, u16::try_from(longest).unwrap_or(u16::MAX));
    let row = |cells: [&str; 9]| {
        let others: Vec<String> = columns.iter().map(|n| cells[n + 1].to_owned()).collect();
        Row::new([cells[0].to_owned()].into_iter().chain(others))
    };
    let header = row(HEADER).style(Style::new().add_modifier(Modifier::BOLD));
    let rows = lines.iter().zip(&cells).map(|(l, cells)| {
        let style = if l.ring { Style::new() } else { Style::new().add_modifier(Modifier::BOLD) };
        row(cells.each_ref().map(String::as_str)).style(style)
    });
    let widths = columns.iter().map(|n| Constraint::Length(WIDTHS[*n].0));
    let table = Table::new(rows, [Constraint::Fill(1)].into_iter().chain(widths))
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, body, shown);
    frame.render_widget(Line::from(foot_line), foot);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(time_ns: u64, bytes: u64) -> proto::Stats {
        let ring = proto::RingStats {
            name: "f.h2".into(),
            role: proto::Role::Consumer.into(),
            bytes,
            items: bytes / 64,
            fill: 1024,
            size: 4096,
            attached: true,
            ..Default::default()
        };
        let flow = proto::FlowStats {
            name: "f".into(),
            bytes,
            items: bytes / 64,
            retries: 2,
            rings: vec![ring],
            ..Default::default()
        };
        proto::Stats { time_ns, flows: vec![flow], ..Default::default() }
    }

    #[test]
    fn rates_are_of_the_interval() {
        let lines = rates(&stats(1_000_000_000, 6400), &stats(3_000_000_000, 19200));
        assert_eq!(
            (lines[0].bytes_per_second, lines[0].items_per_second, lines[0].retries),
            (6400.0, 100.0, 2)
        );
        assert_eq!((lines[1].fill, lines[1].role), (Some(0.25), "consumer"));
        let value = object(&lines, 2.0, &[]);
        assert_eq!(value["flows"][0]["rings"][0]["name"], "f.h2");
        assert_eq!(value["flows"][0]["items_per_second"], 100.0);
    }

    #[test]
    fn no_time_is_no_rate_and_new_flows_count_from_their_beginning() {
        assert_eq!(rates(&stats(5, 64), &stats(5, 64))[0].bytes_per_second, 0.0);
        assert_eq!(rates(&proto::Stats::default(), &stats(1_000_000_000, 64))[0].bytes_per_second, 64.0);
    }

    #[test]
    fn without_a_terminal_the_same_is_a_table() {
        let text = as_text(&rates(&stats(0, 0), &stats(1_000_000_000, 64_000)), 1.0, &[]);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[0].contains("FLOW / RING") && rows[1].trim_start().starts_with("f "), "{text}");
        assert!(
            rows[2].contains("f.h2") && rows[2].contains("25 %") && rows[2].contains("attached"),
            "{text}"
        );
    }

    #[test]
    fn what_the_switch_dropped_is_shown_by_cause() {
        let drops = [("stale", 3), ("forged", 0), ("unknown-qp", 12)]
            .map(|(cause, packets)| proto::Drops { cause: cause.into(), packets });
        assert_eq!(dropped(&drops), "dropped: stale 3, unknown-qp 12");
        assert!(as_text(&[], 1.0, &drops).ends_with("dropped: stale 3, unknown-qp 12\n\n"));
        assert_eq!(object(&[], 1.0, &drops)["drops"]["unknown-qp"], 12);
        assert_eq!(dropped(&drops[1..2]), "");
    }

    #[test]
    fn what_is_old_says_so() {
        let mut old = stats(1_000_000_000, 64_000);
        (old.flows[0].old_ms, old.flows[0].rings[0].old_ms) = (11_500, 11_500);
        let lines = rates(&stats(0, 64_000), &old);
        assert_eq!(object(&lines, 1.0, &[])["flows"][0]["rings"][0]["old_ms"], 11_500);
        let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(120, 6)).unwrap();
        terminal.draw(|frame| draw(frame, &lines, FOOT, &mut TableState::default())).unwrap();
        let text = terminal.backend().to_string();
        assert_eq!(text.matches("old: 12 s").count(), 2, "{text}");
        assert!(!text.contains("attached"), "{text}");
    }

    #[test]
    fn the_view_shows_flows_and_rings() {
        let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(120, 6)).unwrap();
        let lines = rates(&stats(0, 0), &stats(1_000_000_000, 64_000));
        terminal.draw(|frame| draw(frame, &lines, FOOT, &mut TableState::default())).unwrap();
        let text = terminal.backend().to_string();
        for part in ["FLOW / RING", "f.h2", "62.50 KiB", "1000", "25 %", "attached", "q: leave"] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }

    #[test]
    fn names_are_whole_and_other_columns_go_first() {
        let mut stats = stats(1_000_000_000, 64_000);
        stats.flows[0].rings[0].name = "lineitem-of-tpch.h1.h3".into();
        let lines = rates(&proto::Stats::default(), &stats);
        let shown = |width| {
            let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(width, 6)).unwrap();
            terminal.draw(|frame| draw(frame, &lines, FOOT, &mut TableState::default())).unwrap();
            terminal.backend().to_string()
        };
        for (width, columns, without) in [
            (120, "ROLE B/s ITEMS/s TRANSFERS/s POLLS/s FILL RETRIES PROGRAM", ""),
            (80, "ROLE B/s ITEMS/s FILL RETRIES PROGRAM", "TRANSFERS/s POLLS/s"),
            (60, "B/s FILL RETRIES PROGRAM", "ROLE ITEMS/s"),
        ] {
            let text = shown(width);
            for word in columns.split(' ').chain(["lineitem-of-tpch.h1.h3", "62.50 KiB", "attached"]) {
                assert!(text.contains(word), "{word} is missing in\n{text}");
            }
            assert!(without.split_whitespace().all(|word| !text.contains(word)), "{text}");
        }
    }
}
