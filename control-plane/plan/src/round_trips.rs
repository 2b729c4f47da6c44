//! How long a round trip takes, from how a worker's counters rise over some milliseconds.

use std::ops::Range;
use std::time::Duration;

/// Counters of a worker, or their increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transfers that all consumers have acknowledged.
    pub transfers: u64,
    /// Times that a part of a transfer was sent again.
    pub retries: u64,
    /// Packets to a consumer: items, commit records, and questions what it has.
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
}

/// Readings of a worker's counters over some milliseconds, from which the pace of the network follows.
#[derive(Clone, Debug, Default)]
pub struct Clocking(Vec<(Duration, Counts)>);

/// Times of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time from a request to a host to its answer. After two round trips, a READ's items are at the consumers, and
    /// these have answered.
    pub round_trip: Duration,
    /// Time between two packets of one transfer.
    pub packet: Duration,
    /// Whether no timeout passed meanwhile.
    pub is_sure: bool,
}

/// The number of readings that suffice for a network of known pace, if its round trips are not longer. Pairs of more
/// readings would take long to go through.
pub const READS: usize = 200;
/// The number of round trips, at least, over which the counters of a network of known pace are read.
pub const WATCHED: u32 = 16;
/// The number of round trips that have to lie between two readings, so that these show the time of one.
const ROUND_TRIPS: u64 = 4;
/// The factor by which round trips may seem longer than at the last look at the flow.
const SLOWER: f64 = 1.25;
/// Timeouts are no shorter than this while nothing is known of the network.
pub const UNKNOWN: Duration = Duration::from_micros(250);
/// A timeout is that many round trips: a quarter longer than a READ's answers take.
pub const MARGIN: f64 = 2.5;

impl Clocking {
    /// The counters at a time, measured from anywhere.
    pub fn note(&mut self, at: Duration, counts: Counts) {
        self.0.push((at, counts));
    }

    /// The pace that was seen with timeouts of `rto`, which suit the network if its pace is known. Only the shortest
    /// times count, since longer times include a timeout.
    pub fn pace(&self, rto: Duration, is_known: bool) -> Option<Pace> {
        let (mut round_trip, mut packet, mut is_clean) = (None, None, false);
        let trips = round_trips(&self.0);
        let readings: Vec<_> =
            self.0.iter().zip(trips).map(|(&(at, counts), trips)| (at, counts, trips)).collect();
        // Round trips may be shorter than a reading, or as long as hundreds.
        let close = &readings[..readings.len().min(READS)];
        let spread: Vec<_> = match readings.len().div_ceil(READS) {
            0 | 1 => Vec::new(),
            apart => readings.iter().copied().step_by(apart).collect(),
        };
        for readings in [close, &spread] {
            for (i, (then, before, trips)) in readings.iter().enumerate() {
                for (at, counts, by_then) in &readings[i + 1..] {
                    let (time, more) = (at.saturating_sub(*then), counts.since(*before));
                    if more.sent >= 8 {
                        packet = shorter(packet, time / more.sent as u32);
                    }
                    // The first may have come just behind the reading.
                    let first = if more.transfers > 0 { 3 } else { 1 };
                    let whole = (by_then - trips).saturating_sub(first);
                    if whole >= ROUND_TRIPS {
                        round_trip = shorter(round_trip, time / whole as u32);
                        is_clean |= more.retries == 0;
                    }
                }
            }
        }
        let answer = self.answer(if is_known { rto / 2 } else { Duration::ZERO }..rto * 3 / 4);
        let round_trip = answer.map_or(round_trip, |answer| shorter(round_trip, answer / 2));
        Some(Pace { round_trip: round_trip?, packet: packet?, is_sure: is_clean || answer.is_some() })
    }

    /// The shortest time in which a READ that was sent again led to an answer of the consumers; `None` if no such time
    /// was seen. Where much is lost, a timeout lies between any two transfers, and only this time shows the pace. Times
    /// longer than the `believed` ones include a timeout. Shorter times may be about an earlier READ, whose timeout was
    /// too short.
    fn answer(&self, believed: Range<Duration>) -> Option<Duration> {
        let (mut shortest, mut sent_again, mut last) = (None, None, Duration::ZERO);
        for readings in self.0.windows(2) {
            let ((then, before), (at, counts)) = (readings[0], readings[1]);
            let more = counts.since(before);
            // A question to the consumers is a retry, too, and is not about items.
            let asks = more == Counts { transfers: 0, retries: 1, sent: 1 };
            if let Some(begun) = sent_again
                && more.transfers + more.retries > 0
            {
                let took = at.saturating_sub(begun);
                if !asks && believed.contains(&took) {
                    shortest = shorter(shortest, took);
                }
                sent_again = None;
            }
            // A request that is sent again at once had a NAK, and others may follow it, which are about the same items.
            let has_waited = then.saturating_sub(last) >= believed.end;
            if has_waited && more == (Counts { transfers: 0, retries: 1, sent: 0 }) {
                sent_again = Some(then);
            }
            if more != Counts::default() {
                last = at;
            }
        }
        shortest
    }
}

/// The number of round trips up to each reading, at least: three for a transfer, and one for each part that was sent
/// again. If no packet was sent since the last reading, packets sent again answer the same part: NAKs of several holes
/// come shortly one after the other.
fn round_trips(readings: &[(Duration, Counts)]) -> Vec<u64> {
    let (mut trips, mut is_sent) = (0, true);
    let mut out = vec![0; readings.len().min(1)];
    for pair in readings.windows(2) {
        let more = pair[1].1.since(pair[0].1);
        let again = match more.sent > 0 {
            true => more.retries,
            false => more.retries.min(u64::from(is_sent)),
        };
        is_sent = more.sent > 0 || is_sent && more.retries == 0;
        trips += 3 * more.transfers + again;
        out.push(trips);
    }
    out
}

fn shorter(a: Option<Duration>, b: Duration) -> Option<Duration> {
    Some(a.map_or(b, |a| a.min(b)))
}

impl Pace {
    /// The pace that is known after another look has found `found`, with timeouts of `rto`. Where much is lost, all
    /// times that a look sees may include timeouts. So times that could be a timeout are not believed at first. A known
    /// round trip becomes longer only slowly, and only if timeouts are hardly longer than the time that was found: then
    /// each answer may have come behind its timeout.
    pub fn and(known: Option<Pace>, found: Option<Pace>, rto: Duration) -> Option<Pace> {
        let Some(found) = found else { return known };
        let Some(known) = known else {
            let is_believed =
                found.is_sure || rto <= UNKNOWN * 2 || found.round_trip.mul_f64(MARGIN) * 2 <= rto;
            return is_believed.then_some(found);
        };
        let longest =
            if found.round_trip > rto * 2 / 3 { known.round_trip.mul_f64(SLOWER) } else { known.round_trip };
        Some(Pace { round_trip: found.round_trip.clamp(known.round_trip / 2, longest), ..found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

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
        let pace = clocking.pace(20_000 * US, false).expect("readings");
        assert_eq!(pace.packet, US);
        assert!((100 * US..130 * US).contains(&pace.round_trip), "{pace:?}");
        assert_eq!(Clocking::default().pace(US, false), None);
    }

    /// Readings 20 us apart of these events, each a time and a change of transfers, retries and packets sent.
    fn readings(events: &[(u32, [u64; 3])]) -> Clocking {
        let mut clocking = Clocking::default();
        let end = events.last().map_or(0, |(at, _)| *at) + 20;
        for now in (0..=end).step_by(20) {
            let sum = |of: usize| events.iter().filter(|(at, _)| *at <= now).map(|(_, more)| more[of]).sum();
            clocking.note(now * US, Counts { transfers: sum(0), retries: sum(1), sent: sum(2) });
        }
        clocking
    }
    const READ: [u64; 3] = [0, 1, 0];
    const ASKED: [u64; 3] = [0, 1, 1];
    const ITEMS: [u64; 3] = [0, 0, 10];
    const COMMITTED: [u64; 3] = [1, 0, 0];

    #[test]
    fn what_is_sent_again_and_answered_tells_the_round_trip() {
        let rto = 300 * US;
        // Two hosts, 50 us to each and back: a READ, items, and a NAK that has more read. The items of the second READ
        // are lost, and so are questions.
        let timeouts = [(10, READ), (310, ASKED), (610, READ), (910, ASKED)];
        assert_eq!(readings(&timeouts).pace(rto, false), None, "nothing but timeouts");
        let answered = [(1210, READ), (1260, ITEMS), (1310, READ), (1610, ASKED)];
        let pace = readings(&[&timeouts[..], &answered[..]].concat()).pace(rto, false).expect("an answer");
        assert!(pace.is_sure && (50 * US..=70 * US).contains(&pace.round_trip), "{pace:?}");
        let much_too_short = readings(&[&timeouts[..], &answered[..]].concat()).pace(rto * 2, true);
        assert!(much_too_short.is_none_or(|pace| !pace.is_sure), "{much_too_short:?}");
        let committed = [(1210, READ), (1260, ITEMS), (1310, COMMITTED)];
        let pace = readings(&[&timeouts[..], &committed[..]].concat()).pace(rto, false).expect("an answer");
        assert!(pace.is_sure && (50 * US..=70 * US).contains(&pace.round_trip), "{pace:?}");
    }

    #[test]
    fn naks_of_several_holes_are_one_round_trip() {
        // Items of a READ with three holes, a millisecond to each host and back.
        let burst = |at| [(at, ITEMS), (at + 1000, READ), (at + 1020, READ), (at + 1040, READ)];
        let all: Vec<_> = (0..6).flat_map(|n| burst(10 + n * 2000)).collect();
        for (rto, is_known) in [(20_000 * US, false), (2_500 * US, true)] {
            let pace = readings(&all).pace(rto, is_known).expect("round trips");
            assert!((1000 * US..=3000 * US).contains(&pace.round_trip), "{rto:?}: {pace:?}");
        }
    }

    #[test]
    fn an_answer_to_an_earlier_read_tells_nothing() {
        // Timeouts are shorter than the answers that they wait for.
        let early =
            [(10, READ), (90, READ), (110, ITEMS), (170, READ), (190, ITEMS), (210, READ), (290, ASKED)];
        assert_eq!(readings(&early).answer(Duration::ZERO..US * 80), None);
        // An answer to a question is none to a READ, and takes half the way only.
        let question = [(10, ITEMS), (310, ASKED), (360, READ), (660, ASKED)];
        assert_eq!(readings(&question).answer(Duration::ZERO..US * 400), None);
    }

    #[test]
    fn round_trips_that_may_have_been_timeouts_change_little() {
        let pace = |us| Some(Pace { round_trip: us * US, packet: US, is_sure: false });
        let and = |known, found, rto| Pace::and(known, found, rto * US).map(|p| p.round_trip);
        assert_eq!(and(None, pace(100), 20_000), Some(100 * US));
        assert_eq!(and(None, pace(8_000), 20_000), None, "half of a timeout");
        let clean = Some(Pace { is_sure: true, ..pace(8_000).expect("one") });
        assert_eq!(and(None, clean, 20_000), Some(8_000 * US), "nothing was sent again");
        assert_eq!(and(None, pace(1_000), 250), Some(1_000 * US), "timeouts do not become shorter");
        assert_eq!(and(pace(100), pace(190), 300), Some(100 * US));
        assert_eq!(and(pace(100), pace(60), 300), Some(60 * US));
        assert_eq!(and(pace(100), pace(900), 300), Some(125 * US), "the network may have become slower");
        assert_eq!(and(pace(100), None, 300), Some(100 * US));
        let sure = |us| pace(us).map(|p| Pace { is_sure: true, ..p });
        assert_eq!(and(pace(100), sure(150), 300), Some(100 * US), "the shortest answers count");
        assert_eq!(and(pace(100), sure(20), 300), Some(50 * US), "not at once");
    }
}
