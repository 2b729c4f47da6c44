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

/// Round trips in a span of a clocking (below): fewer say too little, more hide that one of them was a timeout.
const ROUND_TRIPS: u64 = 6;

/// What the network seems to be like, from how a worker's counters rise over some milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Clocking {
    last: Option<(Duration, Counts)>,
    spans: Vec<(Duration, Counts)>,
    /// The shortest time between packets of one span.
    packet: Option<Duration>,
}

/// Times of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From a request to its answer, with a part of the items that it is about.
    pub round_trip: Duration,
    /// Between two packets of one transfer.
    pub packet: Duration,
}

impl Clocking {
    /// The counters at a time, measured from anywhere.
    pub fn note(&mut self, at: Duration, counts: Counts) {
        let Some((then, before)) = self.last else {
            self.last = Some((at, counts));
            return;
        };
        let (time, more) = (at.saturating_sub(then), counts.since(before));
        if more.sent >= 8 {
            let packet = time / more.sent as u32;
            self.packet = Some(self.packet.map_or(packet, |p| p.min(packet)));
        }
        if more.round_trips() >= ROUND_TRIPS {
            self.spans.push((time, more));
            self.last = Some((at, counts));
        }
    }

    /// What was seen. The spans with the shortest round trips count: the others had to wait for a timeout.
    pub fn pace(&self) -> Option<Pace> {
        let packet = self.packet?;
        let round_trip = |(time, more): &(Duration, Counts)| *time / more.round_trips() as u32;
        let mut round_trips: Vec<Duration> = self.spans.iter().map(round_trip).collect();
        round_trips.sort();
        Some(Pace { round_trip: *round_trips.get(round_trips.len() / 4)?, packet })
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
    /// Whether all consumers of a transfer get it, and lose different packets of it.
    pub replicate: bool,
}

/// A timeout is that many round trips: what is late is not yet lost.
const MARGIN: u32 = 3;
/// Another value is written when it differs by more than that factor.
const WORTH: f64 = 1.4;

impl Bounds {
    /// What follows `now` for a flow whose workers have done `more`, in a network of that pace if it could be seen.
    pub fn next(&self, now: Adapted, more: Counts, pace: Option<Pace>) -> Adapted {
        // Nothing moves but by timeouts: they are much too long.
        let rto = pace.map_or(now.rto / 4, |p| p.round_trip * MARGIN);
        let rto = rto.clamp(self.least_rto.min(self.own.rto), self.own.rto);
        let near = |a: f64, b: f64| a / b < WORTH && b / a < WORTH;
        let same = near(rto.as_secs_f64(), now.rto.as_secs_f64());
        let batch = pace.map_or(now.max_batch, |p| self.batch(now, more, p));
        Adapted { rto: if same { now.rto } else { rto }, max_batch: batch }
    }

    /// The batch at which round trips and what is sent in vain cost the same.
    fn batch(&self, now: Adapted, more: Counts, pace: Pace) -> u32 {
        let packets = |bytes: u32| f64::from(bytes) / f64::from(self.mtu);
        // Of packets that were needed, how many were lost; most that are sent behind a hole are not needed.
        let needed = (more.transfers as f64 * packets(now.max_batch)).max(1.0);
        let lost = (more.retries as f64 / needed).min(0.5);
        let trip = pace.round_trip.as_secs_f64() / pace.packet.as_secs_f64().max(1e-9);
        let best = if self.replicate {
            // All begins again: (3 trip + n) / (1 - lost)^n over n is least where lost n^2 + 3 lost trip n = 3 trip.
            let b = 3.0 * lost * trip;
            ((b * b + 12.0 * lost * trip).sqrt() - b) / (2.0 * lost).max(1e-9)
        } else {
            // (3 trip + n) / n + lost (trip + n / 2) is least where n^2 = 6 trip / lost.
            (6.0 * trip / lost.max(1e-9)).sqrt()
        };
        // Powers of two of items, and none over again while the best one is near.
        let (most, least) = (self.own.max_batch, self.item_size);
        let now = now.max_batch.max(least);
        let wanted = best * f64::from(self.mtu);
        if wanted < f64::from(now) / 1.5 {
            let half = now / 2 / self.item_size * self.item_size;
            half.max(least)
        } else if wanted > f64::from(now) * 2.5 {
            now.saturating_mul(2).min(most)
        } else {
            now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn bounds(replicate: bool) -> Bounds {
        let own = Adapted { rto: 20_000 * US, max_batch: 1 << 20 };
        Bounds { own, least_rto: 160 * US, item_size: 1024, mtu: 1024, replicate }
    }

    /// Where a flow comes to that loses one packet in `one_in`, over a network of that pace.
    fn settled(bounds: Bounds, one_in: u64, pace: Pace) -> Adapted {
        let mut now = bounds.own;
        for _ in 0..20 {
            let packets = u64::from(now.max_batch / bounds.mtu);
            let more = Counts { transfers: 1000, retries: 1000 * packets / one_in, sent: 2000 * packets };
            now = bounds.next(now, more, Some(pace));
        }
        now
    }

    #[test]
    fn timeouts_follow_the_round_trip() {
        let pace = |us| Pace { round_trip: us * US, packet: US };
        let rto = |us| settled(bounds(false), 50, pace(us)).rto;
        assert_eq!(rto(100), 300 * US);
        assert_eq!(rto(1000), 3000 * US);
        assert_eq!(rto(10), 160 * US, "no timer is that fine");
        assert_eq!(rto(9000), 20_000 * US, "no longer than the flow says");
    }

    #[test]
    fn the_more_is_lost_the_less_is_moved_at_a_time() {
        let pace = Pace { round_trip: 100 * US, packet: US };
        let batch = |one_in| settled(bounds(false), one_in, pace).max_batch >> 10;
        assert_eq!(batch(100_000), 1024);
        assert_eq!([batch(50), batch(10), batch(3)], [256, 64, 32]);
        let group = settled(bounds(true), 50, pace).max_batch >> 10;
        assert!(group < batch(50), "{group}: a group begins again with all");
        let near = settled(bounds(false), 50, Pace { round_trip: 10 * US, packet: US }).max_batch;
        assert!(near < batch(50) << 10, "{near}: round trips cost little");
    }

    #[test]
    fn a_batch_is_whole_items_and_at_least_one() {
        let own = Adapted { rto: 20_000 * US, max_batch: 3 * 40_000 };
        let bounds = Bounds { own, item_size: 40_000, ..bounds(false) };
        let pace = Pace { round_trip: US, packet: US };
        assert_eq!(settled(bounds, 3, pace).max_batch, 40_000);
        assert_eq!(settled(bounds, 1_000_000, pace).max_batch, 120_000);
    }

    #[test]
    fn without_an_answer_timeouts_become_much_shorter_step_by_step() {
        let (bounds, more) = (bounds(false), Counts { retries: 3, ..Counts::default() });
        let once = bounds.next(bounds.own, more, None);
        assert_eq!(once, Adapted { rto: 5_000 * US, ..bounds.own });
        assert_eq!((0..9).fold(once, |now, _| bounds.next(now, more, None)).rto, 160 * US);
    }

    #[test]
    fn spans_that_waited_for_a_timeout_do_not_count() {
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
        let pace = clocking.pace().expect("spans");
        assert_eq!(pace, Pace { round_trip: 106 * US, packet: US });
        assert_eq!(Clocking::default().pace(), None);
    }
}
