//! Timer ports: packets that the switch makes itself, at intervals. Idle timeouts and digest timeouts hang on the
//! same clock.

use zsr_wire::frame::{Frame, FramePool, MAX_FRAME};

use super::Switch;
use crate::error::ControlError;

/// A source of packets at an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerPort {
    /// The port that they come in through.
    pub port: u16,
    /// Nanoseconds between two firings, above 0.
    pub interval_ns: u64,
    /// The bytes of a packet.
    pub template: Vec<u8>,
    /// Packets per firing.
    pub count: u16,
    /// The numbers that packets get.
    pub numbers: Option<Numbers>,
    /// Whether it may come late, in favour of other work: see [`TimerShare`](crate::TimerShare).
    pub yields: bool,
    /// How the timer rests while the switch is quiet. A switch is quiet while no frame from a port makes one leave, and
    /// nobody changes its entries. A timer makes up for the firings that it leaves out when it fires, as long as a
    /// frame leaves. A timer with [`numbers`](Self::numbers) makes up for all of them, unless nothing has come of a
    /// whole round.
    ///
    /// On any switch the timer rests as long as it may when nothing has come of its packet, or of a whole round of
    /// them, since somebody changed something. So the effect of its packets has to depend on entries and groups alone.
    pub rest: Option<Rest>,
}

/// How a timer rests on a quiet switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// For how long the switch is quiet before it does, in nanoseconds. From then on each firing is put off by a
    /// [`PART`](Self::PART)th of the time that has passed since.
    pub after_ns: u64,
    /// Most nanoseconds by which a firing is put off.
    pub longest_ns: u64,
}

impl Rest {
    /// See [`after_ns`](Self::after_ns).
    pub const PART: u64 = 64;
}

/// How the packets of a timer are numbered, over all firings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Where in the packet its number lies, a big-endian u16.
    pub offset: usize,
    /// The first number.
    pub first: u16,
    /// Step from one number to the next, modulo 65536.
    pub step: u16,
}

impl Numbers {
    /// How many there are, until the first comes again.
    fn round(&self) -> u32 {
        0x10000 >> self.step.trailing_zeros().min(16)
    }
}

/// Names a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId(u32);

#[derive(Debug)]
struct Timer {
    spec: TimerPort,
    /// When its interval is over; a new timer fires as soon as it is asked.
    due: u64,
    /// The number of the next packet.
    number: u16,
    /// Packets in a row that neither left nor went round again, all of them on a switch that was changed so often.
    futile: u32,
    changes: u64,
}

impl Timer {
    /// When it fires next, on a switch that has been quiet since then, and was changed so often.
    fn fires_at(&self, quiet_since: u64, changes: u64) -> u64 {
        let Some(rest) = self.spec.rest else { return self.due };
        let quiet = self.due.saturating_sub(quiet_since);
        let wait = match self.changes == changes && self.futile >= self.round() {
            true => rest.longest_ns,
            false => rest.longest_ns.min(quiet.saturating_sub(rest.after_ns) / Rest::PART),
        };
        self.due.saturating_add(wait)
    }

    /// How many of its packets differ.
    fn round(&self) -> u32 {
        self.spec.numbers.map_or(1, |numbers| numbers.round())
    }
}

/// All timers.
#[derive(Debug, Default)]
pub(super) struct Timers {
    timers: Vec<Option<Timer>>,
    /// When idle entries are looked for next.
    sweep_due: u64,
}

impl Switch {
    /// Adds a timer. It fires for the first time at the next [`fire_timers`](Self::fire_timers), then at its
    /// interval.
    pub fn add_timer(&mut self, timer: TimerPort) -> Result<TimerId, ControlError> {
        let bad = |s: &str| Err(ControlError::Invalid(s.to_string()));
        if timer.interval_ns == 0 || timer.count == 0 {
            return bad("a timer's interval and packet count must be above 0");
        }
        if timer.template.len() > MAX_FRAME {
            return bad("the timer's packet is longer than a frame");
        }
        if timer.numbers.is_some_and(|n| n.offset.checked_add(2).is_none_or(|end| end > timer.template.len()))
        {
            return bad("the index lies beyond the end of the timer's packet");
        }
        let timers = &mut self.timers.timers;
        let at = timers.iter().position(Option::is_none).unwrap_or_else(|| {
            timers.push(None);
            timers.len() - 1
        });
        let number = timer.numbers.map_or(0, |n| n.first);
        timers[at] = Some(Timer { spec: timer, due: 0, number, futile: 0, changes: 0 });
        Ok(TimerId(at as u32))
    }

    /// Removes a timer.
    pub fn remove_timer(&mut self, id: TimerId) -> Result<(), ControlError> {
        let slot = self.timers.timers.get_mut(id.0 as usize);
        let taken = slot.and_then(Option::take);
        taken.map(|_| ()).ok_or(ControlError::NotFound { kind: "timer", id: u64::from(id.0) })
    }

    /// Changes a timer's interval, in nanoseconds above 0. It counts from the last firing.
    pub fn set_timer_interval(&mut self, id: TimerId, interval_ns: u64) -> Result<(), ControlError> {
        if interval_ns == 0 {
            return Err(ControlError::Invalid("a timer's interval must be above 0".into()));
        }
        let Some(t) = self.timers.timers.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return Err(ControlError::NotFound { kind: "timer", id: u64::from(id.0) });
        };
        if t.due > 0 {
            t.due = t.due.saturating_sub(t.spec.interval_ns).saturating_add(interval_ns);
        }
        t.spec.interval_ns = interval_ns;
        Ok(())
    }

    /// When [`fire_timers`](Self::fire_timers) wants to be called next, in nanoseconds; `None` for never.
    pub fn next_timer(&self) -> Option<u64> {
        self.all_due(|_| true)
    }

    /// When the timers that yield fire next, or all else is due.
    pub(super) fn next_due(&self, yields: bool) -> Option<u64> {
        match yields {
            true => self.timers_due(|t| t.spec.yields),
            false => self.all_due(|t| !t.spec.yields),
        }
    }

    fn timers_due(&self, of: impl Fn(&Timer) -> bool) -> Option<u64> {
        let timers = self.timers.timers.iter().flatten().filter(|t| of(t));
        timers.map(|t| t.fires_at(self.quiet_since, self.changes)).min()
    }

    /// When these timers fire next, or idle entries or digests are due.
    fn all_due(&self, of: impl Fn(&Timer) -> bool) -> Option<u64> {
        let timers = self.timers_due(of);
        let sweep = self.sweeps_needed().then_some(self.timers.sweep_due);
        let digest = self.digests.iter().filter_map(|d| d.due()).min();
        [timers, sweep, digest].into_iter().flatten().min()
    }

    /// Has timers that rest fire at their intervals again, for as long as it takes to be quiet once more: somebody changes something.
    pub fn stir(&mut self) {
        self.changes += 1;
        self.moved();
    }

    /// As [`stir`](Self::stir), of a frame, which changes nothing.
    pub(super) fn moved(&mut self) {
        self.quiet_since = self.quiet_since.max(self.core.now_ns);
    }

    /// Fires all timers that are due. Intervals that were missed count as one firing. Returns the packets made.
    pub fn fire_timers(&mut self, now_ns: u64, pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) -> usize {
        self.fire(now_ns, true, pool, out)
    }

    /// As [`fire_timers`](Self::fire_timers), unless `all` without those that yield.
    pub(super) fn fire(
        &mut self,
        now_ns: u64,
        all: bool,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) -> usize {
        self.advance(now_ns);
        let mut made = 0;
        for i in 0..self.timers.timers.len() {
            let Some(Some(t)) = self.timers.timers.get_mut(i) else { continue };
            let fires_at = t.fires_at(self.quiet_since, self.changes);
            if fires_at > now_ns || (t.spec.yields && !all) {
                continue;
            }
            let interval = t.spec.interval_ns;
            let left_out = (fires_at - t.due) / interval;
            let missed = if t.due == 0 { 0 } else { (now_ns - t.due) / interval };
            let base = if t.due == 0 { now_ns } else { t.due };
            t.due = base.saturating_add(interval.saturating_mul(missed + 1));
            let (port, numbers) = (t.spec.port, t.spec.numbers);
            if t.changes != self.changes {
                (t.changes, t.futile) = (self.changes, 0);
            }
            let all_of_it = numbers.is_some() && t.futile < t.round();
            let (count, mut gone) = (u64::from(t.spec.count), out.len());
            for n in 0..(1 + left_out) * count {
                if n > 0 && n % count == 0 && !all_of_it {
                    if out.len() == gone {
                        break;
                    }
                    gone = out.len();
                }
                let (wanted, left) = (self.wanted, out.len());
                let mut frame = pool.take();
                let Some(Some(t)) = self.timers.timers.get_mut(i) else { break };
                frame.append(&t.spec.template);
                if let Some(n) = numbers
                    && let Some(b) = frame.bytes_mut().get_mut(n.offset..n.offset + 2)
                {
                    b.copy_from_slice(&t.number.to_be_bytes());
                    t.number = t.number.wrapping_add(n.step);
                }
                self.run(now_ns, port, frame, pool, out);
                made += 1;
                let futile = self.wanted == wanted && out.len() == left;
                if let Some(Some(t)) = self.timers.timers.get_mut(i) {
                    t.futile = if futile { t.futile.saturating_add(1) } else { 0 };
                }
            }
        }
        if self.sweeps_needed() && self.timers.sweep_due <= now_ns {
            self.timers.sweep_due = now_ns + self.config.idle_sweep_ns.max(1);
            self.sweep_idle(now_ns);
        }
        self.flush_digests(now_ns);
        made
    }
}
