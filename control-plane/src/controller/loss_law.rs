//! What losses are answered with: how long to wait before something counts as lost, and how much to move at a time. Pure;
//! [`super::losses`] measures and writes.
//!
//! A transfer of `n` packets costs three round trips (READ, commit, tail) and, for every hole in it, one more and the rest of what
//! was under way, which the consumer can't take. So long transfers suffer from losses, and short ones from round trips. Timeouts cost most:
//! they have to suit a slow network as long as nothing is known of it, and a transfer waits for one whenever its last packet is lost.

use crate::dataplane::flow::Adapted;
use std::time::Duration;

/// What a worker has done, or how much more since then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transfers that all consumers have acknowledged.
    pub transfers: u64,
    /// Times that a part of a transfer was sent again.
    pub retries: u64,
    /// Packets of items and commit records to a consumer.
    pub sent: u64,
}

impl Counts {
    /// The counts that were added since `before`.
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            transfers: self.transfers.saturating_sub(before.transfers),
            retries: self.retries.saturating_sub(before.retries),
            sent: self.sent.saturating_sub(before.sent),
        }
    }

    /// How many round trips that takes, at least.
    fn round_trips(&self) -> u64 {
        3 * self.transfers + self.retries
    }
}

/// What the network seems to be like, from how a worker's counters rise over some milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Clocking(Vec<(Duration, Counts)>);

/// Times of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From a request to its answer, with a part of the items that it is about.
    pub round_trip: Duration,
    /// Between two packets of one transfer.
    pub packet: Duration,
    /// Nothing was sent again meanwhile, so nothing has waited for a timeout.
    pub is_clean: bool,
}

/// Round trips that have to lie between two readings, so that they say something of one.
const ROUND_TRIPS: u64 = 4;
/// By how much round trips may seem longer than they were when the flow was last looked at.
const SLOWER: f64 = 1.25;
/// Timeouts are no shorter than this while nothing is known of the network.
const UNKNOWN: Duration = Duration::from_micros(250);

impl Clocking {
    /// The counters at a time, measured from anywhere.
    pub fn note(&mut self, at: Duration, counts: Counts) {
        self.0.push((at, counts));
    }

    /// What was seen: the shortest times between any two readings, since the others have waited for a timeout.
    pub fn pace(&self) -> Option<Pace> {
        let (mut clean, mut any, mut packet) = (None, None, None);
        let shorter = |a: Option<Duration>, b: Duration| Some(a.map_or(b, |a| a.min(b)));
        for (i, (then, before)) in self.0.iter().enumerate() {
            for (at, counts) in &self.0[i + 1..] {
                let (time, more) = (at.saturating_sub(*then), counts.since(*before));
                if more.sent >= 8 {
                    packet = shorter(packet, time / more.sent as u32);
                }
                // The first may have come just behind the reading.
                let first = if more.transfers > 0 { 3 } else { 1 };
                let whole = more.round_trips().saturating_sub(first);
                if whole >= ROUND_TRIPS {
                    let round_trip = time / whole as u32;
                    any = shorter(any, round_trip);
                    clean = if more.retries == 0 { shorter(clean, round_trip) } else { clean };
                }
            }
        }
        Some(Pace { round_trip: clean.or(any)?, packet: packet?, is_clean: clean.is_some() })
    }
}

impl Pace {
    /// What is known of a network whose timeouts were `rto` after another look found `found`. Where much is lost, all that a look sees may
    /// have waited for timeouts. So what could be a timeout is not believed at first; and a round trip that is known becomes longer only slowly,
    /// and only if timeouts are hardly longer than what was found: then each answer may have come behind its timeout.
    pub fn and(known: Option<Pace>, found: Option<Pace>, rto: Duration) -> Option<Pace> {
        let Some(found) = found else { return known };
        let Some(known) = known else {
            let is_believed = found.is_clean || rto <= UNKNOWN * 2 || found.round_trip * MARGIN * 2 <= rto;
            return is_believed.then_some(found);
        };
        let may_be_longer = found.round_trip > rto * 2 / 3;
        let longest = if may_be_longer { known.round_trip.mul_f64(SLOWER) } else { known.round_trip };
        Some(Pace { round_trip: found.round_trip.min(longest), ..found })
    }
}

/// The bounds of what a flow may be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// What the flow's settings say, which is the most.
    pub own: Adapted,
    /// The shortest timeout that the switch can keep.
    pub least_rto: Duration,
    /// Bytes of an item.
    pub item_size: u32,
    /// Payload bytes of a packet.
    pub mtu: u32,
    /// How long a member may be silent before it counts as dead.
    pub dead_after: Duration,
}

/// After so many looks without a transfer, as many follow with the flow's own timeouts, and so on by turns.
const PATIENCE: u32 = 10;
/// How many timeouts `dead_after` has at least while nothing moves: a retry waits for up to 64 of them (`Backoff` of the P4 program), and who does
/// not answer has to be asked several times before it counts as dead.
const UNTIL_DEAD: u32 = 64 * 32;
/// A timeout is that many round trips: what is late is not yet lost.
const MARGIN: u32 = 3;
/// Packets of a transfer whose loss nothing but a timeout tells.
const WAITS: f64 = 2.5;
/// Another value is written when it differs by more than that factor.
const WORTH: f64 = 1.4;

impl Bounds {
    /// What follows `now` for a flow whose workers have done `more`, in a network of that pace if it could be seen; `stuck` looks have seen
    /// no transfer, but what was sent again.
    pub fn next(&self, now: Adapted, more: Counts, pace: Option<Pace>, stuck: u32) -> Adapted {
        // Timeouts may be too short for a transfer that is long.
        if stuck / PATIENCE % 2 == 1 {
            let rto = self.own.rto.min((self.dead_after / UNTIL_DEAD).max(self.least_rto));
            return Adapted { rto, max_batch: self.half(now.max_batch) };
        }
        // Nothing moves but by timeouts: they are much too long, and so are transfers.
        let rto = pace.map_or((now.rto / 4).max(UNKNOWN), |p| p.round_trip * MARGIN);
        let rto = rto.clamp(self.least_rto.min(self.own.rto), self.own.rto);
        let near = |a: f64, b: f64| a / b < WORTH && b / a < WORTH;
        let same = near(rto.as_secs_f64(), now.rto.as_secs_f64());
        let batch = pace.map_or_else(|| self.half(now.max_batch), |p| self.batch(now, more, p));
        Adapted { rto: if same { now.rto } else { rto }, max_batch: batch }
    }

    /// Half as much, in whole items.
    fn half(&self, batch: u32) -> u32 {
        (batch / 2 / self.item_size * self.item_size).max(self.item_size)
    }

    /// The batch at which round trips and what is sent in vain cost the same.
    fn batch(&self, now: Adapted, more: Counts, pace: Pace) -> u32 {
        let packets = |bytes: u32| f64::from(bytes) / f64::from(self.mtu);
        // Of packets that were needed, how many were lost; most that are sent behind a hole are not needed.
        let needed = (more.transfers as f64 * packets(now.max_batch)).max(1.0);
        let lost = (more.retries as f64 / needed).min(0.5);
        let in_packets = |time: Duration| time.as_secs_f64() / pace.packet.as_secs_f64().max(1e-9);
        let trip = in_packets(pace.round_trip);
        // A transfer waits for a timeout if its READ, its last packet, an ACK, or its tail is lost.
        let each = 3.0 * trip + WAITS * lost * in_packets(now.rto);
        // (each + n) / n + lost (trip + n / 2) is least where n^2 = 2 each / lost.
        let best = (2.0 * each / lost.max(1e-9)).sqrt();
        // Powers of two of items, and none over again while the best one is near.
        let now = now.max_batch.max(self.item_size);
        let wanted = best * f64::from(self.mtu);
        if wanted < f64::from(now) / 1.5 {
            self.half(now)
        } else if wanted > f64::from(now) * 2.5 {
            now.saturating_mul(2).min(self.own.max_batch)
        } else {
            now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn bounds() -> Bounds {
        let own = Adapted { rto: 20_000 * US, max_batch: 1 << 20 };
        let dead_after = Duration::from_secs(60);
        Bounds { own, least_rto: 160 * US, item_size: 1024, mtu: 1024, dead_after }
    }

    /// Where a flow comes to that loses one packet in `one_in`, over a network of that pace.
    fn settled(bounds: Bounds, one_in: u64, pace: Pace) -> Adapted {
        let mut now = bounds.own;
        for _ in 0..20 {
            let packets = u64::from(now.max_batch / bounds.mtu);
            let more = Counts { transfers: 1000, retries: 1000 * packets / one_in, sent: 2000 * packets };
            now = bounds.next(now, more, Some(pace), 0);
        }
        now
    }

    #[test]
    fn timeouts_follow_the_round_trip() {
        let pace = |us| Pace { round_trip: us * US, packet: US, is_clean: true };
        let rto = |us| settled(bounds(), 50, pace(us)).rto;
        assert_eq!(rto(100), 300 * US);
        assert_eq!(rto(1000), 3000 * US);
        assert_eq!(rto(10), 160 * US, "no timer is that fine");
        assert_eq!(rto(9000), 20_000 * US, "no longer than the flow says");
    }

    #[test]
    fn the_more_is_lost_the_less_is_moved_at_a_time() {
        let pace = Pace { round_trip: 100 * US, packet: US, is_clean: true };
        let batch = |one_in| settled(bounds(), one_in, pace).max_batch >> 10;
        assert_eq!(batch(100_000), 1024);
        assert_eq!([batch(50), batch(10), batch(3)], [256, 128, 64]);
        let near = settled(bounds(), 50, Pace { round_trip: 10 * US, packet: US, is_clean: true }).max_batch;
        assert!(near < batch(50) << 10, "{near}: round trips cost little");
    }

    #[test]
    fn a_batch_is_whole_items_and_at_least_one() {
        let own = Adapted { rto: 20_000 * US, max_batch: 3 * 40_000 };
        let bounds = Bounds { own, item_size: 40_000, ..bounds() };
        let pace = Pace { round_trip: US, packet: US, is_clean: true };
        assert_eq!(settled(bounds, 3, pace).max_batch, 40_000);
        assert_eq!(settled(bounds, 1_000_000, pace).max_batch, 120_000);
    }

    #[test]
    fn without_an_answer_timeouts_and_batches_become_much_shorter_step_by_step() {
        let (bounds, more) = (bounds(), Counts { retries: 3, ..Counts::default() });
        let once = bounds.next(bounds.own, more, None, 1);
        assert_eq!(once, Adapted { rto: 5_000 * US, max_batch: bounds.own.max_batch / 2 });
        let last = (0..19).fold(once, |now, _| bounds.next(now, more, None, 1));
        assert!(last.rto < UNKNOWN * 2 && last.max_batch == bounds.item_size, "{last:?}");
    }

    #[test]
    fn while_nothing_moves_timeouts_are_short_and_long_by_turns() {
        let (bounds, more) = (bounds(), Counts { retries: 3, ..Counts::default() });
        let pace = Some(Pace { round_trip: 100 * US, packet: US, is_clean: false });
        let rto = |stuck| bounds.next(bounds.own, more, pace, stuck).rto;
        assert_eq!([1, 9, 10, 19, 20].map(rto), [300 * US, 300 * US, 20_000 * US, 20_000 * US, 300 * US]);
        // Not so long that who does not answer is asked once before it counts as dead.
        let rto = |dead_after| Bounds { dead_after, ..bounds }.next(bounds.own, more, pace, 10).rto;
        assert_eq!([2048, 20].map(|ms| rto(ms * 1000 * US)), [1000 * US, 160 * US]);
    }

    #[test]
    fn readings_between_which_something_waited_for_a_timeout_do_not_count() {
        let (mut clocking, mut at, mut counts) = (Clocking::default(), Duration::ZERO, Counts::default());
        for span in 0..12 {
            for _ in 0..4 {
                clocking.note(at, counts);
                // A transfer of 16 packets with one hole: four round trips of 100 us, and 24 packets.
                at += 24 * US;
                counts.sent += 24;
                clocking.note(at, counts);
                at += 400 * US;
                counts.transfers += 1;
                counts.retries += 1;
            }
            if span % 2 == 0 {
                at += 20_000 * US;
            }
        }
        let pace = clocking.pace().expect("readings");
        assert_eq!(pace.packet, US);
        assert!((100 * US..130 * US).contains(&pace.round_trip), "{pace:?}");
        assert_eq!(Clocking::default().pace(), None);
    }

    #[test]
    fn round_trips_that_may_have_been_timeouts_change_little() {
        let pace = |us| Some(Pace { round_trip: us * US, packet: US, is_clean: false });
        let and = |known, found, rto| Pace::and(known, found, rto * US).map(|p| p.round_trip);
        assert_eq!(and(None, pace(100), 20_000), Some(100 * US));
        assert_eq!(and(None, pace(8_000), 20_000), None, "half of a timeout");
        let clean = Some(Pace { is_clean: true, ..pace(8_000).expect("one") });
        assert_eq!(and(None, clean, 20_000), Some(8_000 * US), "nothing was sent again");
        assert_eq!(and(None, pace(1_000), 250), Some(1_000 * US), "timeouts do not become shorter");
        assert_eq!(and(pace(100), pace(190), 300), Some(100 * US));
        assert_eq!(and(pace(100), pace(60), 300), Some(60 * US));
        assert_eq!(and(pace(100), pace(900), 300), Some(125 * US), "the network may have become slower");
        assert_eq!(and(pace(100), None, 300), Some(100 * US));
    }
}
