//! DCQCN at the sender: the rate of a queue pair that was told of congestion. The algorithm is that of Zhu et al.,
//! "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3.1. Rates are in bit/s, times in
//! nanoseconds of the NIC's clock.
//!
//! A congestion notification cuts the rate by half of `alpha`, the estimated share of marked packets. Then the rate
//! rises again in steps, one per [`TIMER_NS`] and one per [`COUNTER_BYTES`]. The first steps go half-way back to the
//! rate before the cut, later ones beyond that.

/// Time without a notification after which `alpha` falls, and shortest time between two cuts: notifications of several members of a group
/// may come together.
const ALPHA_NS: u64 = 55_000;
/// Time between two steps up.
const TIMER_NS: u64 = 55_000;
/// Bytes sent between two steps up.
const COUNTER_BYTES: u64 = 10_000_000;
/// Steps half-way back to the rate before the cut; later ones raise that rate.
const FAST_STEPS: u32 = 5;
/// By which part of the line rate a step raises the target, and the least rate. 40 Mbit/s of 40 Gbit/s in the paper.
const PART: u64 = 1000;
/// A step raises the target by so many times as much when both timer and counter are beyond the fast steps.
const HYPER: u64 = 10;
/// `alpha` is a fraction of this.
const ONE: u64 = 1 << 16;
/// `g`, how fast `alpha` follows: 1/256.
const GAIN_SHIFT: u32 = 8;

/// The sending rate of one queue pair between its first congestion notification and its return to the line rate.
#[derive(Debug, Clone)]
pub(crate) struct Dcqcn {
    line: u64,
    current: u64,
    target: u64,
    alpha: u64,
    alpha_due: u64,
    last_cut: Option<u64>,
    timer_due: u64,
    timer_steps: u32,
    bytes: u64,
    byte_steps: u32,
    free_at: u64,
}

impl Dcqcn {
    /// A queue pair that sends at the line rate, in bit/s, until it is cut.
    pub(crate) fn new(line: u64, now: u64) -> Dcqcn {
        let line = line.max(PART);
        Dcqcn {
            line,
            current: line,
            target: line,
            alpha: ONE,
            alpha_due: now + ALPHA_NS,
            last_cut: None,
            timer_due: now + TIMER_NS,
            timer_steps: 0,
            bytes: 0,
            byte_steps: 0,
            free_at: now,
        }
    }

    /// Takes a congestion notification. Whether the rate was cut.
    pub(crate) fn notified(&mut self, now: u64) -> bool {
        self.advance(now);
        if self.last_cut.is_some_and(|t| now.saturating_sub(t) < ALPHA_NS) {
            return false;
        }
        self.last_cut = Some(now);
        self.target = self.current;
        self.current = (self.current - scaled(self.current, self.alpha) / 2).max(self.line / PART);
        self.alpha += (ONE - self.alpha) >> GAIN_SHIFT;
        self.alpha_due = now + ALPHA_NS;
        (self.timer_due, self.timer_steps) = (now + TIMER_NS, 0);
        (self.bytes, self.byte_steps) = (0, 0);
        true
    }

    /// Takes note of a frame of so many bytes that was sent.
    #[inline]
    pub(crate) fn sent(&mut self, now: u64, bytes: usize) {
        self.advance(now);
        self.bytes += bytes as u64;
        if self.bytes >= COUNTER_BYTES {
            self.bytes -= COUNTER_BYTES;
            self.byte_steps += 1;
            self.step_up();
        }
        self.free_at = self.free_at.max(now) + bytes as u64 * 8 * 1_000_000_000 / self.current;
    }

    /// When the next frame may be sent.
    #[inline]
    pub(crate) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// The rate at time `now`, in bit/s.
    #[cfg(test)]
    pub(crate) fn rate(&mut self, now: u64) -> u64 {
        self.advance(now);
        self.current
    }

    /// Whether the rate is the line rate again: nothing is left to be kept.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.current == self.line
    }

    /// Carries out what timers until `now` ask for.
    #[inline]
    fn advance(&mut self, now: u64) {
        while self.alpha_due <= now {
            self.alpha_due += ALPHA_NS;
            self.alpha -= self.alpha >> GAIN_SHIFT;
        }
        while self.timer_due <= now {
            self.timer_due += TIMER_NS;
            self.timer_steps += 1;
            self.step_up();
        }
    }

    fn step_up(&mut self) {
        let raise = self.line / PART;
        if self.timer_steps.max(self.byte_steps) > FAST_STEPS {
            let times = if self.timer_steps.min(self.byte_steps) > FAST_STEPS { HYPER } else { 1 };
            self.target = (self.target + raise * times).min(self.line);
        }
        self.current = (self.current + self.target).div_ceil(2);
        // Half-way never arrives.
        if self.target == self.line && self.line - self.current < raise {
            self.current = self.line;
        }
    }
}

/// `rate` times `alpha`.
fn scaled(rate: u64, alpha: u64) -> u64 {
    (u128::from(rate) * u128::from(alpha) / u128::from(ONE)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 10_000_000_000;

    #[test]
    fn the_first_notification_halves_the_rate() {
        let mut d = Dcqcn::new(LINE, 0);
        assert!(d.notified(10));
        assert_eq!(d.rate(10), LINE / 2);
        assert!(!d.is_over());
    }

    #[test]
    fn notifications_of_one_moment_cut_once() {
        let mut d = Dcqcn::new(LINE, 0);
        assert!(d.notified(0) && !d.notified(ALPHA_NS - 1));
        assert_eq!(d.rate(ALPHA_NS - 1), LINE / 2);
        assert!(d.notified(2 * ALPHA_NS));
    }

    /// The published recovery: five steps half-way to the rate before the cut, then steps of the target.
    #[test]
    fn the_rate_comes_back_by_halves_then_by_steps() {
        let mut d = Dcqcn::new(LINE, 0);
        d.notified(0);
        let second = d.rate(0);
        d.notified(ALPHA_NS);
        // One step up to 3/4 came first, and `alpha` is still nearly 1.
        let cut = d.rate(ALPHA_NS);
        assert!(cut < second && cut > LINE * 3 / 8, "{cut}");
        let before = LINE * 3 / 4;
        let mut gap = before - cut;
        for step in 1..=u64::from(FAST_STEPS) {
            let rate = d.rate(ALPHA_NS + step * TIMER_NS);
            assert_eq!(before - rate, gap / 2, "step {step}");
            gap = before - rate;
        }
        let after = d.rate(ALPHA_NS + 6 * TIMER_NS);
        assert_eq!(d.target, before + LINE / PART);
        assert!(after > before - gap, "{after}");
    }

    #[test]
    fn it_ends_at_the_line_rate() {
        let mut d = Dcqcn::new(LINE, 0);
        (0..20).for_each(|n| assert!(d.notified(n * ALPHA_NS)));
        assert!(d.rate(20 * ALPHA_NS) < LINE / 10);
        assert_eq!(d.rate(1_000_000_000), LINE);
        assert!(d.is_over());
    }

    #[test]
    fn it_never_stops_sending() {
        let mut d = Dcqcn::new(LINE, 0);
        for n in 0..10_000 {
            d.notified(n * ALPHA_NS);
        }
        assert!(d.rate(10_000 * ALPHA_NS) >= LINE / PART);
    }

    #[test]
    fn frames_are_as_far_apart_as_the_rate_says() {
        let mut d = Dcqcn::new(LINE, 0);
        d.notified(0);
        d.sent(0, 1000);
        assert_eq!(d.free_at(), 1600);
        d.sent(1600, 1000);
        assert_eq!(d.free_at(), 3200);
        // Bytes that were not sent in time are not made up for.
        d.sent(10_000, 1000);
        assert_eq!(d.free_at(), 11_600);
    }

    /// A counter full of bytes is a step, as a timer is; both together rise faster.
    #[test]
    fn bytes_sent_are_steps_too() {
        let mut d = Dcqcn::new(LINE, 0);
        d.notified(0);
        let before = d.rate(0);
        d.sent(0, COUNTER_BYTES as usize);
        assert_eq!(d.rate(0), before + (LINE - before) / 2);
    }
}
