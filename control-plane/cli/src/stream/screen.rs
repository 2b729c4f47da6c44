//! Output of a program on standard error: on a terminal a line that is drawn again and again, and at the end a summary.

use super::super::complain;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zsr::Counts;
use zsr_topology::show_size;

/// Time between two drawings of the line.
const DRAWN: Duration = Duration::from_millis(200);
/// Number of drawings over which the rate is taken: a second.
const WINDOW: usize = 5;

/// The line, as long as it is shown.
struct Shown {
    bar: ProgressBar,
    end: Sender<()>,
    thread: JoinHandle<()>,
}

/// Standard error of one program.
pub(super) struct Screen {
    counts: Arc<Counts>,
    begun: Instant,
    quiet: bool,
    shown: Option<Shown>,
}

impl Screen {
    /// `line`: whether a line may be drawn, if standard error is a terminal; `quiet`: only errors and warnings are
    /// printed.
    pub(super) fn new(counts: Arc<Counts>, line: bool, quiet: bool) -> Self {
        let begun = Instant::now();
        let shown =
            (line && !quiet && std::io::stderr().is_terminal()).then(|| show(counts.clone())).flatten();
        Screen { counts, begun, quiet, shown }
    }

    /// Prints a message beside the line.
    pub(super) fn say(&self, text: impl std::fmt::Display) {
        match &self.shown {
            Some(shown) => shown.bar.suspend(|| complain(text)),
            None => complain(text),
        }
    }

    /// Removes the line, and prints a summary: `verb` so many records, and `more`.
    pub(super) fn end(&mut self, verb: &str, more: &str) {
        self.clear();
        if !self.quiet {
            let (records, bytes) = (self.counts.records(), self.counts.bytes());
            complain(summary(verb, records, bytes, self.begun.elapsed()) + more);
        }
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        if let Some(shown) = self.shown.take() {
            drop(shown.end);
            // The thread does nothing that could fail.
            let _ = shown.thread.join();
            shown.bar.finish_and_clear();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Draws the line in a thread of its own, as the program waits in calls of the library. `None`: no room for a thread.
fn show(counts: Arc<Counts>) -> Option<Shown> {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    let (end, ended) = channel::<()>();
    let drawn = bar.clone();
    let draw = move || {
        let mut before: Vec<(u64, u64, Instant)> = Vec::new();
        loop {
            let now = (counts.records(), counts.bytes(), Instant::now());
            before.push(now);
            if before.len() > WINDOW {
                before.remove(0);
            }
            let past = before[0];
            let waits = (past.0 == now.0 && before.len() > 1).then(|| counts.waits());
            drawn.set_message(line((now.0, now.1), now.1 - past.1, now.2 - past.2, waits.as_deref()));
            drawn.tick();
            if ended.recv_timeout(DRAWN) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("zsr-screen".into()).spawn(draw).ok()?;
    Some(Shown { bar, end, thread })
}

/// `120 records, 3.50 KiB, 1.20 MiB/s`, and what is waited for if nothing moves.
fn line((records, bytes): (u64, u64), lately: u64, over: Duration, waits: Option<&str>) -> String {
    let rate = lately as f64 / over.as_secs_f64().max(0.001);
    let waits = waits.filter(|w| !w.is_empty()).map_or(String::new(), |w| format!(", waiting for {w}"));
    format!("{records} records, {}, {}/s{waits}", show_size(bytes), show_size(rate as u64))
}

fn summary(verb: &str, records: u64, bytes: u64, time: Duration) -> String {
    let (seconds, rate) = (time.as_secs_f64(), bytes as f64 / time.as_secs_f64().max(0.001));
    format!("{verb} {records} records, {} in {seconds:.1} s ({}/s)", show_size(bytes), show_size(rate as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_waited_for_when_nothing_moves() {
        let second = Duration::from_secs(1);
        assert_eq!(line((3, 4096), 2048, second, None), "3 records, 4 KiB, 2 KiB/s");
        let waits = line((3, 4096), 0, second, Some("room in ring `f.h1.h2`"));
        assert_eq!(waits, "3 records, 4 KiB, 0 B/s, waiting for room in ring `f.h1.h2`");
        assert_eq!(summary("pushed", 2, 1024, 2 * second), "pushed 2 records, 1 KiB in 2.0 s (512 B/s)");
    }
}
