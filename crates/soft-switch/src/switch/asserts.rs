//! `assert` and `assume` that do not hold: what becomes of the packet, and who is told.

use super::Switch;
use crate::image::AssertSite;

/// The fate of a packet for which an `assert` or `assume` of the program does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailedAssert {
    /// The packet goes on as if nothing had been there.
    #[default]
    Count,
    /// The pass that it is in ends there, and nothing leaves of that.
    Drop,
}

/// An `assert` or `assume` that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertReport {
    /// As the program has it: `assert(hdr.ipv4.ttl > 0)`.
    pub text: String,
    /// File, line and column of the P4 program, or where it lies in the JSON if that does not say.
    pub place: String,
    /// How often it did not hold since the report before.
    pub times: u64,
    /// How often since the program was put in place.
    pub total: u64,
}

impl std::fmt::Display for AssertReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { text, place, times, total } = self;
        write!(f, "{place}: {text} does not hold ({times} more, {total} in all)")
    }
}

/// The failures that reports have covered.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// All failures.
    total: u64,
    /// Failures by assertion.
    each: Vec<u64>,
    /// When there may be another report.
    next: u64,
}

/// Nanoseconds between two reports at least: a packet can fail in millions per second.
const PERIOD: u64 = 1_000_000_000;

impl Switch {
    /// What a traced program has told since this was last called, a line each; lines that begin with spaces belong to the packet above
    /// them. Of more than 100,000 lines the last are missing.
    pub fn take_trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.core.trace)
    }

    /// Assertions that did not hold since this was last called, once a second at most. Empty if there are none, or it is too early.
    #[inline]
    pub fn failed_asserts(&mut self, now_ns: u64) -> Vec<AssertReport> {
        if self.next_assert_report().is_none_or(|due| due > now_ns) {
            return Vec::new();
        }
        self.report_asserts(now_ns)
    }

    #[cold]
    fn report_asserts(&mut self, now_ns: u64) -> Vec<AssertReport> {
        let Switch { program, core, told, .. } = self;
        told.total = core.assert_failures;
        told.next = now_ns.saturating_add(PERIOD);
        told.each.resize(core.assert_counts.len(), 0);
        let each = program.image.asserts.iter().zip(&core.assert_counts).zip(&mut told.each);
        let report = |((site, total), told): ((&AssertSite, &u64), &mut u64)| {
            let times = total - std::mem::replace(told, *total);
            let (text, place) = (site.text.clone(), site.place.clone());
            (times > 0).then_some(AssertReport { text, place, times, total: *total })
        };
        each.filter_map(report).collect()
    }

    /// When [`failed_asserts`](Self::failed_asserts) has something to say, in nanoseconds; `None` as long as all assertions hold.
    #[inline]
    pub fn next_assert_report(&self) -> Option<u64> {
        (self.core.assert_failures > self.told.total).then_some(self.told.next)
    }
}
