//! The share of a thread that timers leave to other work.

use zsr_wire::frame::{Frame, FramePool};

use super::Switch;

/// How much of a thread timers that [yield](crate::TimerPort::yields) get. One whose packet becomes thousands of copies would
/// otherwise leave no time to do what these ask for.
///
/// - With packets waiting at ports, they fire when others have had [`OTHERS`](Self::OTHERS) times the passes of their last firing.
/// - After a firing they rest for as long as it took, for whatever else wants the processor.
#[derive(Debug, Default)]
pub struct TimerShare {
    /// Passes of the switch when they may fire again though packets wait.
    from: u64,
    /// The time when they may fire again.
    rested: u64,
    last: Option<Firing>,
}

/// A firing whose time is not known yet.
#[derive(Debug)]
struct Firing {
    at: u64,
    /// Passes of the switch, before the firing and behind it.
    before: u64,
    behind: u64,
}

impl TimerShare {
    /// Passes of other packets per pass of a timer's.
    pub const OTHERS: u64 = 3;

    /// When [`fire`](Self::fire) has something to do next, in nanoseconds; `None` for never.
    pub fn next(&self, switch: &Switch) -> Option<u64> {
        let yielding = switch.next_due(true).map(|due| due.max(self.rested));
        [switch.next_due(false), yielding].into_iter().flatten().min()
    }

    /// Fires what is due, once per round of whoever drives the switch; `waiting` says that ports had packets in the round before.
    /// Returns how many things were done: none if nothing came of what fired.
    pub fn fire(
        &mut self,
        switch: &mut Switch,
        waiting: bool,
        now_ns: u64,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) -> usize {
        if let Some(last) = self.last.take() {
            // Its part of a round in which others had passes, too.
            let passes = (switch.passes - last.before).max(1);
            let took = u128::from(now_ns.saturating_sub(last.at)) * u128::from(last.behind - last.before);
            self.rested = now_ns + (took / u128::from(passes)) as u64;
        }
        let is_due = |due: Option<u64>| due.is_some_and(|due| due <= now_ns);
        let all = is_due(switch.next_due(true))
            && self.rested <= now_ns
            && (!waiting || switch.passes >= self.from);
        if !all && !is_due(switch.next_due(false)) {
            return 0;
        }
        let (before, wanted, left) = (switch.passes, switch.wanted, out.len());
        let made = switch.fire(now_ns, all, pool, out);
        // Nothing came of it: no reason to look for more.
        let futile = out.len() == left && switch.wanted == wanted;
        if all {
            let behind = switch.passes;
            self.from = behind + (behind - before) * Self::OTHERS;
            self.last = Some(Firing { at: now_ns, before, behind });
        }
        if futile { 0 } else { made + 1 }
    }
}
