//! Requests that came before one that is missing. They are kept until it comes, so that only the missing one has to
//! come again. A queue pair whose packets come in another order waits for late ones before it reports them.
//!
//! At first a missing packet is reported at once (IBTA vol. 1, 9.7.5). Packets are sent again from the missing one on.
//! So the packet after it tells why it had been missing. If the one behind it comes a second time, the packet was lost.
//! If something new comes, or the packet itself comes again, it had only been late. From then on as many packets may
//! overtake one, and as much time may pass, as did there. A loss halves what is allowed. So where packets are lost and
//! keep their order, they are reported at once. RFC 8985 (RACK) learns of reordering from duplicates, too.

use std::collections::VecDeque;

use zsr_wire::{Frame, Psn};

/// Longest time that a missing packet may be late by, in nanoseconds.
const MAX_PATIENCE: u64 = 1_000_000;

/// A packet that was reported as missing, and came.
struct Came {
    psn: Psn,
    /// Packets that overtook it, and how long it was missing.
    overtaken: u32,
    waited: u64,
    /// The one behind it had come before it, and has been taken.
    is_followed: bool,
}

/// The packets that a responder holds behind a missing one, and its measure of late ones.
#[derive(Default)]
pub(crate) struct Ahead {
    /// In order of their PSNs.
    frames: VecDeque<(Psn, Frame)>,
    /// When the packet that is expected was first noticed to be missing.
    since: Option<u64>,
    /// Packets that came since then and lie behind it.
    overtaken: u32,
    /// Whether the missing packet has been reported.
    is_reported: bool,
    /// Packets that may overtake one before it is reported, and the time until then.
    reach: u32,
    patience: u64,
    came: Option<Came>,
}

impl Ahead {
    /// Room for as many frames as most queue pairs ever keep.
    pub(crate) fn reserve(&mut self, window: u16) {
        self.frames.reserve(window.min(64).into());
    }

    /// The packet that is expected is missing: another one came, `distance` behind it. Whether it is to be reported.
    pub(crate) fn noticed(&mut self, now: u64, distance: u32, window: u32) -> bool {
        if self.since.is_none() {
            self.begin(Some(now));
        }
        self.overtaken += 1;
        self.overtaken > self.reach || distance > window
    }

    fn begin(&mut self, since: Option<u64>) {
        (self.since, self.overtaken, self.is_reported) = (since, 0, false);
    }

    /// The missing packet has been reported.
    pub(crate) fn reported(&mut self) {
        self.is_reported = true;
    }

    /// Keeps a frame. Gives it back if it is there already.
    pub(crate) fn keep(&mut self, expected: Psn, psn: Psn, frame: Frame) -> Option<Frame> {
        let distance = |psn: Psn| psn.since(expected);
        let at = self.frames.iter().rposition(|(kept, _)| distance(*kept) <= distance(psn));
        if at.is_some_and(|at| self.frames[at].0 == psn) {
            return Some(frame);
        }
        self.frames.insert(at.map_or(0, |at| at + 1), (psn, frame));
        None
    }

    /// Whether a packet is missing, or it is not known yet why one was.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.since.is_some() || self.came.is_some()
    }

    /// The expected packet came.
    pub(crate) fn came(&mut self, now: u64, psn: Psn) {
        let Some(since) = self.since.take() else { return };
        let (overtaken, waited) = (self.overtaken, now.saturating_sub(since));
        self.came = self.is_reported.then_some(Came { psn, overtaken, waited, is_followed: false });
    }

    /// A packet came that had not come before.
    pub(crate) fn went_on(&mut self, window: u32) {
        if let Some(came) = self.came.take_if(|came| came.is_followed) {
            self.was_late(&came, window);
        }
    }

    fn was_late(&mut self, came: &Came, window: u32) {
        self.reach = came.overtaken.max(2 * self.reach).min(window);
        self.patience = came.waited.max(2 * self.patience).clamp(1, MAX_PATIENCE);
    }

    /// Frames are kept, and the packet that they waited for has come.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.since.is_none() && !self.frames.is_empty()
    }

    /// A frame that is not behind a missing packet any more.
    pub(crate) fn next(&mut self, expected: Psn) -> Option<(Psn, Frame)> {
        let is_due = self.frames.front().is_some_and(|(psn, _)| psn.since(expected) <= 0);
        if is_due { self.frames.pop_front() } else { None }
    }

    /// All that could be taken has been taken, up to before `expected`. The packets that are left wait for another one.
    pub(crate) fn taken(&mut self, now: u64, expected: Psn) {
        if let Some(came) = &mut self.came {
            came.is_followed = expected.since(came.psn) > 1;
        }
        self.begin((!self.frames.is_empty()).then_some(now));
    }

    /// A packet came that had come before. One further behind tells nothing: those between may be lost again, or members of a group lack it.
    pub(crate) fn came_again(&mut self, psn: Psn, window: u32) {
        let is_reached = |came: &mut Came| psn.since(came.psn) >= 0;
        let Some(came) = self.came.take_if(is_reached) else { return };
        if psn == came.psn && window > 0 {
            self.was_late(&came, window);
        } else if psn == came.psn.next() {
            self.reach /= 2;
            self.patience /= 2;
        }
    }

    /// When the missing packet is to be reported, whatever comes until then.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.since.filter(|_| self.patience > 0).map(|since| since.saturating_add(self.patience))
    }

    /// Frames that are kept.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Lets go of all frames; what is known of the path stays.
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.begin(None);
        self.came = None;
    }
}
