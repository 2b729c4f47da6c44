//! The answer to losses: how long to wait before a packet counts as lost, and how much to move at a time. Pure; the
//! controller's `tuning::losses` measures and writes.
//!
//! A transfer of `n` packets costs three round trips (READ, commit, tail). Every hole in it costs one more, and the
//! packets under way behind the hole, which the consumer can't take. So long transfers suffer from losses, and short
//! ones from round trips. Timeouts cost most: they have to suit a slow network as long as its pace is unknown, and a
//! transfer waits for a timeout whenever its last packet is lost.

use crate::dataplane::flow::Adapted;
use crate::round_trips::{Counts, MARGIN, Pace, UNKNOWN};
use std::time::Duration;

/// The bounds of a flow's adapted settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The flow's own settings, which are the upper limit.
    pub own: Adapted,
    /// The shortest timeout that the switch can keep.
    pub least_rto: Duration,
    /// Bytes of an item.
    pub item_size: u32,
    /// Payload bytes of a packet.
    pub mtu: u32,
    /// Packets that each consumer's NIC keeps behind a missing one until it comes.
    pub reorder_window: u16,
    /// How long a member may be silent before it counts as dead.
    pub dead_after: Duration,
}

/// After so many looks without a transfer, as many follow with the flow's own timeouts, and so on by turns.
const PATIENCE: u32 = 10;
/// The number of timeouts in `dead_after`, at least, while nothing moves. A retry waits for up to 64 of them (`Backoff`
/// of the P4 program), and a silent member has to be asked several times before it counts as dead.
const UNTIL_DEAD: u32 = 64 * 32;
/// The factor by which packets of a transfer may be slower than the fastest that were seen.
const LATE: f64 = 1.1;
/// A READ hardly gets further than so many times the packets of which one is lost.
const FAR: f64 = 3.0;
/// Packets of a transfer whose loss only a timeout shows.
const WAITS: f64 = 2.5;
/// The factor by which timeouts may be longer than necessary.
const WORTH: f64 = 1.4;

impl Bounds {
    /// The settings that follow `now`. The flow's workers have done `more`, and the network has this pace, if it could
    /// be seen. `stuck` looks have seen no transfer, but packets that were sent again.
    pub fn next(&self, now: Adapted, more: Counts, pace: Option<Pace>, stuck: u32) -> Adapted {
        // Timeouts may be too short for a transfer that is long.
        if stuck / PATIENCE % 2 == 1 {
            let rto = self.own.rto.min((self.dead_after / UNTIL_DEAD).max(self.least_rto));
            return Adapted { rto, max_batch: self.half(now.max_batch) };
        }
        let (rto, max_batch) = match pace {
            // Nothing moves but by timeouts: they are much too long, and so are transfers.
            None => ((now.rto / 3).max(UNKNOWN), self.half(now.max_batch)),
            Some(pace) => {
                let lost = self.lost(now, more);
                let max_batch = self.batch(now, lost, pace);
                (self.timeout(pace, max_batch, lost), max_batch)
            }
        };
        let rto = rto.clamp(self.least_rto.min(self.own.rto), self.own.rto);
        let is_near = (rto..rto.mul_f64(WORTH)).contains(&now.rto);
        Adapted { rto: if is_near { now.rto } else { rto }, max_batch }
    }

    /// How long a READ of a batch and its answers take at most, so that a late packet does not count as lost. Where
    /// much is lost, hardly a READ gets through its batch without a hole.
    fn timeout(&self, pace: Pace, batch: u32, lost: f64) -> Duration {
        let packets = (f64::from(batch) / f64::from(self.mtu)).min(FAR / lost.max(1e-9));
        pace.round_trip.mul_f64(MARGIN).max(pace.round_trip * 2 + pace.packet.mul_f64(packets * LATE))
    }

    /// The share of lost packets among those that were needed; most packets that are sent behind a hole are not needed.
    fn lost(&self, now: Adapted, more: Counts) -> f64 {
        let needed = more.transfers as f64 * f64::from(now.max_batch) / f64::from(self.mtu);
        (more.retries as f64 / needed.max(1.0)).min(0.5)
    }

    /// Half of a batch, in whole items.
    fn half(&self, batch: u32) -> u32 {
        (batch / 2 / self.item_size * self.item_size).max(self.item_size)
    }

    /// The batch at which round trips and packets sent in vain cost the same.
    fn batch(&self, now: Adapted, lost: f64, pace: Pace) -> u32 {
        let in_packets = |time: Duration| time.as_secs_f64() / pace.packet.as_secs_f64().max(1e-9);
        let trip = in_packets(pace.round_trip);
        // A transfer waits for a timeout if its READ, its last packet, an ACK, or its tail is lost.
        let each = 3.0 * trip + WAITS * lost * in_packets(now.rto);
        // (each + n) / n + lost (trip + n / 2) is least where n^2 = 2 each / lost.
        let best = (2.0 * each / lost.max(1e-9)).sqrt();
        // Powers of two of items, and none over again while the best one is near.
        let now = now.max_batch.max(self.item_size);
        // A NIC may keep packets behind a hole, and the next READ then fills all holes behind its own. Such a transfer
        // takes few READs, so each of them should bring much. Half a window, since that READ goes on over the packets
        // that are kept.
        let kept = f64::from(self.reorder_window / 2);
        let wanted = best.max(kept) * f64::from(self.mtu);
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
        Bounds { own, least_rto: 160 * US, item_size: 1024, mtu: 1024, reorder_window: 0, dead_after }
    }

    /// The settings that a flow reaches that loses one packet in `one_in`, over a network of this pace.
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
        let pace = |us| Pace { round_trip: us * US, packet: US / 1000, is_sure: true };
        let rto = |us| settled(bounds(), 50, pace(us)).rto.as_micros();
        assert_eq!(rto(100), 250);
        assert_eq!(rto(1000), 2500);
        assert_eq!(rto(10), 160, "no timer is that fine");
        assert_eq!(rto(9000), 20_000, "no longer than the flow says");
        let last = settled(bounds(), 1000, Pace { packet: US, ..pace(100) });
        assert!(last.rto > US * (200 + last.max_batch / 1024), "packets take their time: {last:?}");
    }

    #[test]
    fn the_more_is_lost_the_less_is_moved_at_a_time() {
        let pace = Pace { round_trip: 100 * US, packet: US, is_sure: true };
        let batch = |one_in| settled(bounds(), one_in, pace).max_batch >> 10;
        assert_eq!(batch(100_000), 1024);
        assert_eq!([batch(50), batch(10), batch(3)], [256, 64, 64]);
        let near = settled(bounds(), 50, Pace { round_trip: 10 * US, packet: US, is_sure: true }).max_batch;
        assert!(near < batch(50) << 10, "{near}: round trips cost little");
    }

    #[test]
    fn where_packets_behind_a_hole_are_kept_batches_are_half_a_window_at_least() {
        let pace = Pace { round_trip: 10 * US, packet: US, is_sure: true };
        let batch = |reorder_window, one_in| {
            settled(Bounds { reorder_window, ..bounds() }, one_in, pace).max_batch >> 10
        };
        assert!(batch(0, 3) < 128 && batch(0, 10) < 128);
        assert_eq!([batch(256, 3), batch(256, 10), batch(512, 3)], [128, 128, 256]);
        assert_eq!([batch(0, 100_000), batch(256, 100_000)], [1024, 1024]);
        // A flow's own batch stays the most.
        let own = Adapted { max_batch: 64 << 10, ..bounds().own };
        assert_eq!(settled(Bounds { own, reorder_window: 256, ..bounds() }, 3, pace).max_batch, 64 << 10);
    }

    #[test]
    fn a_batch_is_whole_items_and_at_least_one() {
        let own = Adapted { rto: 20_000 * US, max_batch: 3 * 40_000 };
        let bounds = Bounds { own, item_size: 40_000, ..bounds() };
        let pace = Pace { round_trip: US, packet: US, is_sure: true };
        assert_eq!(settled(bounds, 3, pace).max_batch, 40_000);
        assert_eq!(settled(bounds, 1_000_000, pace).max_batch, 120_000);
    }

    #[test]
    fn without_an_answer_timeouts_and_batches_become_much_shorter_step_by_step() {
        let (bounds, more) = (bounds(), Counts { retries: 3, ..Counts::default() });
        let once = bounds.next(bounds.own, more, None, 1);
        assert_eq!(once, Adapted { rto: 20_000 * US / 3, max_batch: bounds.own.max_batch / 2 });
        let last = (0..19).fold(once, |now, _| bounds.next(now, more, None, 1));
        assert!(last.rto < UNKNOWN * 2 && last.max_batch == bounds.item_size, "{last:?}");
    }

    #[test]
    fn while_nothing_moves_timeouts_are_short_and_long_by_turns() {
        let (bounds, more) = (bounds(), Counts { retries: 3, ..Counts::default() });
        let pace = Some(Pace { round_trip: 100 * US, packet: US, is_sure: false });
        let rto = |stuck| bounds.next(bounds.own, more, pace, stuck).rto.as_micros();
        assert_eq!([1, 9, 10, 19, 20].map(rto), [250, 250, 20_000, 20_000, 250]);
        // Short enough that a silent member is asked more than once before it counts as dead.
        let rto = |dead_after| Bounds { dead_after, ..bounds }.next(bounds.own, more, pace, 10).rto;
        assert_eq!([2048, 20].map(|ms| rto(ms * 1000 * US)), [1000 * US, 160 * US]);
    }
}
