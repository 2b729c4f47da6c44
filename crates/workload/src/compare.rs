//! Both ends of a flow compared once all of its streams have ended, as its kind promises.

use super::consume::Peer;
use super::tally::Tally;
use super::verify::Verification;
use zsr_topology::FlowKind;

/// The items that one consumer received, by producer.
pub(crate) struct Received<'a> {
    /// The consumer's ring.
    pub ring: &'a str,
    /// Parallel to the flow's producers.
    pub peers: &'a [Peer],
    /// Hash over all items in the order of their arrival (replicate).
    pub order: u64,
}

/// Compares what `producers` pushed into their lanes with what consumers `received`.
pub(crate) fn compare(
    kind: FlowKind,
    producers: &[&str],
    pushed: &[Vec<Tally>],
    received: &[Received<'_>],
    verdict: &mut Verification,
) {
    match kind {
        FlowKind::Shuffle => pairs(producers, received, verdict, |p, c| lane(pushed, p, c)),
        FlowKind::Replicate => {
            pairs(producers, received, verdict, |p, _| lane(pushed, p, 0));
            one_order(received, verdict);
        }
        FlowKind::LoadBalance => {
            for (p, producer) in producers.iter().enumerate() {
                shared(p, producer, &lane(pushed, p, 0), received, verdict);
            }
        }
    }
}

fn lane(pushed: &[Vec<Tally>], producer: usize, lane: usize) -> Tally {
    pushed.get(producer).and_then(|row| row.get(lane)).copied().unwrap_or_default()
}

fn pairs(
    producers: &[&str],
    received: &[Received<'_>],
    verdict: &mut Verification,
    pushed: impl Fn(usize, usize) -> Tally,
) {
    for (c, consumer) in received.iter().enumerate() {
        for (p, (producer, peer)) in producers.iter().zip(consumer.peers).enumerate() {
            verdict.close_pair(consumer.ring, producer, &pushed(p, c), &peer.tally, peer.missed);
        }
    }
}

fn one_order(received: &[Received<'_>], verdict: &mut Verification) {
    let Some((first, others)) = received.split_first() else { return };
    for other in others.iter().filter(|o| o.order != first.order) {
        verdict.altered += 1;
        verdict.note(other.ring, None, || {
            format!("its items came in another order than those of {}", first.ring)
        });
    }
}

/// A producer whose items were divided among consumers: together they have each of them once.
fn shared(
    index: usize,
    producer: &str,
    pushed: &Tally,
    received: &[Received<'_>],
    verdict: &mut Verification,
) {
    let mut delivered = Tally::default();
    let mut runs: Vec<(u64, u64, &str)> = Vec::new();
    for consumer in received {
        let Some(peer) = consumer.peers.get(index) else { continue };
        delivered.join(&peer.tally);
        runs.extend(peer.runs.iter().map(|&(first, count)| (first, count, consumer.ring)));
    }
    runs.sort();
    let mut next = 0;
    let mut missed = 0;
    for &(first, count, ring) in &runs {
        if first > next {
            missed += first - next;
            verdict.lost += first - next;
            verdict
                .note(ring, Some(producer), || format!("items {next} to {} came to no consumer", first - 1));
        } else if first < next {
            let again = (next - first).min(count);
            verdict.repeated += again;
            verdict.note(ring, Some(producer), || {
                format!("{again} items from {first} on came to two consumers")
            });
        }
        next = next.max(first + count);
    }
    verdict.close_pair("all consumers", producer, pushed, &delivered, missed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(runs: &[(u64, u64)]) -> Vec<Peer> {
        let items = runs.iter().map(|r| r.1).sum();
        let mut peer = Peer::default();
        peer.tally.items = items;
        peer.runs = runs.to_vec();
        vec![peer]
    }

    fn balanced(runs: &[&[(u64, u64)]], pushed: u64) -> Verification {
        let peers: Vec<Vec<Peer>> = runs.iter().map(|r| peer(r)).collect();
        let received: Vec<Received<'_>> =
            peers.iter().map(|peers| Received { ring: "c", peers, order: 0 }).collect();
        let pushed = vec![vec![Tally { items: pushed, ..Tally::default() }]];
        let mut verdict = Verification::default();
        compare(FlowKind::LoadBalance, &["p"], &pushed, &received, &mut verdict);
        verdict
    }

    #[test]
    fn shares_of_a_balanced_producer() {
        assert!(balanced(&[&[(0, 4), (6, 2)], &[(4, 2)]], 8).is_exact());
        let gap = balanced(&[&[(0, 4)], &[(6, 2)]], 8);
        assert_eq!((gap.lost, gap.repeated), (2, 0));
        let twice = balanced(&[&[(0, 4)], &[(3, 5)]], 8);
        assert_eq!((twice.lost, twice.repeated), (0, 1));
        let end = balanced(&[&[(0, 4)], &[(4, 2)]], 8);
        assert_eq!((end.lost, end.repeated), (2, 0));
    }

    #[test]
    fn replicas_come_in_one_order() {
        let peers = peer(&[]);
        let received = [1, 2].map(|order| Received { ring: "c", peers: &peers, order });
        let mut verdict = Verification::default();
        compare(FlowKind::Replicate, &["p"], &[vec![Tally::default()]], &received, &mut verdict);
        assert_eq!(verdict.altered, 1);
    }
}
