//! Progress on standard error: a bar on a terminal, plain lines otherwise, nothing when asked for.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use zsr_workload::{Estimate, Meter, Unit};

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// How often a bar is drawn at least.
const TICK: Duration = Duration::from_millis(500);

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Records delivered.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl From<&Meter> for Snapshot {
    fn from(meter: &Meter) -> Self {
        Snapshot { records: meter.delivered_records(), bytes: meter.delivered_bytes() }
    }
}

/// A receiver of a run's progress.
pub trait Progress {
    /// A new phase begins: "bringing up 4 hosts", "tearing down".
    fn phase(&mut self, text: &str);
    /// A message that the user should get, also without progress.
    fn warn(&mut self, text: &str) {
        say(&mut std::io::stderr(), text);
    }
    /// Moving data begins; this amount is expected.
    fn start(&mut self, expected: Estimate);
    /// This amount was delivered so far.
    fn update(&mut self, now: Snapshot);
    /// Further details: retries, and the reasons for waiting.
    fn details(&mut self, _text: &str) {}
    /// Moving data is over.
    fn finish(&mut self, now: Snapshot);
}

/// A bar if standard error is a terminal, else lines; nothing if `quiet`.
pub fn progress(quiet: bool) -> Box<dyn Progress> {
    if quiet {
        Box::new(Silent)
    } else if std::io::stderr().is_terminal() {
        Box::new(Terminal::default())
    } else {
        Box::new(Lines::new(std::io::stderr()))
    }
}

/// Prints nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&mut self, _: &str) {}
    fn start(&mut self, _: Estimate) {}
    fn update(&mut self, _: Snapshot) {}
    fn finish(&mut self, _: Snapshot) {}
}

/// A progress bar.
#[derive(Debug, Default)]
pub struct Terminal {
    bar: Option<(ProgressBar, Unit)>,
}

impl Progress for Terminal {
    fn phase(&mut self, text: &str) {
        match &self.bar {
            Some((bar, _)) => bar.println(text),
            None => say(&mut std::io::stderr(), text),
        }
    }

    fn start(&mut self, expected: Estimate) {
        let template = match expected.unit {
            Unit::Bytes => "{bar:40} {percent:>3}% {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}",
            Unit::Rows => "{bar:40} {percent:>3}% {human_pos} rows {per_sec} {eta} {msg}",
            Unit::Items => "{bar:40} {percent:>3}% {human_pos}/{human_len} items {per_sec} {eta} {msg}",
        };
        let bar = ProgressBar::new(expected.total.max(1));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        // Time goes on also where nothing else does.
        bar.enable_steady_tick(TICK);
        self.bar = Some((bar, expected.unit));
    }

    fn update(&mut self, now: Snapshot) {
        if let Some((bar, unit)) = &self.bar {
            let position = position(*unit, now);
            // A table's number of rows is an estimate.
            if bar.length().is_some_and(|length| position > length) {
                bar.set_length(position);
            }
            bar.set_position(position);
        }
    }

    fn details(&mut self, text: &str) {
        if let Some((bar, _)) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    fn finish(&mut self, now: Snapshot) {
        self.update(now);
        if let Some((bar, _)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some((bar, _)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Prints a line per phase, and a line every two seconds while data moves.
#[derive(Debug)]
pub struct Lines<W: Write> {
    to: W,
    expected: Option<(Estimate, Instant)>,
    /// The time of the last line, and the amount delivered by then.
    last: Option<(Instant, u64)>,
    details: String,
}

impl<W: Write> Lines<W> {
    /// Lines to `to`.
    pub fn new(to: W) -> Self {
        Lines { to, expected: None, last: None, details: String::new() }
    }

    /// Prints a line, whenever the last one was printed.
    pub(crate) fn now(&mut self, now: Snapshot) {
        self.line(now, false);
    }

    fn line(&mut self, now: Snapshot, done: bool) {
        let Some((Estimate { unit, total }, started)) = self.expected else { return };
        let at = position(unit, now);
        let percent = if done { 100.0 } else { (at as f64 / total.max(1) as f64 * 100.0).min(99.0) };
        let what = match unit {
            Unit::Bytes => "bytes",
            Unit::Rows => "rows",
            Unit::Items => "items",
        };
        let seconds = started.elapsed().as_secs_f64();
        let text = if done {
            format!("delivered {at} {what} in {seconds:.1} s")
        } else {
            let (since, before) = self.last.unwrap_or((started, 0));
            let rate = at.saturating_sub(before) as f64 / since.elapsed().as_secs_f64().max(1e-3);
            let details = if self.details.is_empty() { String::new() } else { format!("; {}", self.details) };
            self.last = Some((Instant::now(), at));
            format!(
                "delivered {at} {what}, about {percent:.0} %, {seconds:.1} s, {rate:.1} {what}/s{details}"
            )
        };
        say(&mut self.to, &text);
    }
}

impl<W: Write> Progress for Lines<W> {
    fn phase(&mut self, text: &str) {
        say(&mut self.to, text);
    }

    fn start(&mut self, expected: Estimate) {
        let now = Instant::now();
        self.expected = Some((expected, now));
        self.last = Some((now, 0));
    }

    fn update(&mut self, now: Snapshot) {
        if self.last.is_some_and(|(last, _)| last.elapsed() >= LINE_EVERY) {
            self.now(now);
        }
    }

    fn details(&mut self, text: &str) {
        text.clone_into(&mut self.details);
    }

    fn finish(&mut self, now: Snapshot) {
        self.line(now, true);
        self.expected = None;
    }
}

/// Progress in the unit that the total is counted in. A line's end is a byte of the file, but not of the record.
fn position(unit: Unit, now: Snapshot) -> u64 {
    match unit {
        Unit::Bytes => now.bytes + now.records,
        Unit::Rows | Unit::Items => now.records,
    }
}

/// Prints a line to a reader that may have gone away.
fn say(to: &mut impl Write, text: &str) {
    let _ = writeln!(to, "{text}");
}
