//! The baselines of bench/ deliver: every tuple once, at the node that its key belongs to, whole.

use zsr_bench::baseline::cluster::Cluster;
use zsr_bench::baseline::join::{JoinNode, Joined, ROW, Tables};
use zsr_bench::baseline::pu::{Node, Tally, expected};
use zsr_bench::baseline::run::{Count, stepped, threaded};
use zsr_bench::baseline::{Ends, Flow, Hint, Kind, dfi, zsr};

const NODES: usize = 2;

fn nodes<E: Ends, const SIZE: usize>(ends: Vec<E>, flow: &Flow, count: u64) -> Vec<Node<E, SIZE>> {
    let all = ends.len();
    let node = |(node, ends)| Node::new(ends, flow.kind, (node, all), count, true);
    ends.into_iter().enumerate().map(node).collect()
}

fn check<E: Ends, const SIZE: usize>(nodes: &[Node<E, SIZE>], flow: &Flow, count: u64) {
    let wanted = expected(nodes.len(), flow.tuple, count);
    let got: Vec<Tally> = nodes.iter().map(|n| n.whole.expect("asked for")).collect();
    assert!(nodes.iter().all(|n| n.strays == 0), "{flow:?}: tuples at nodes that they do not belong to");
    match flow.kind {
        Kind::Replicate => {
            assert!(got.iter().all(|g| *g == wanted), "{flow:?}: {got:?}, not {wanted:?} each")
        }
        Kind::Shuffle => {
            let add = |a: Tally, b: &Tally| Tally {
                tuples: a.tuples + b.tuples,
                keys: a.keys.wrapping_add(b.keys),
                words: a.words.wrapping_add(b.words),
            };
            assert_eq!(got.iter().fold(Tally::default(), add), wanted, "{flow:?}");
            assert!(got.iter().all(|g| g.tuples > 0), "{flow:?}: {got:?}");
        }
    }
}

/// Enough for each ring to go round more than twice.
fn count(tuple: usize) -> u64 {
    (3 * NODES * zsr_bench::baseline::RING / tuple) as u64 + 3
}

fn delivers<E: Ends, const SIZE: usize>(
    make: impl Fn(usize, &[Flow]) -> (Cluster, Vec<Vec<E>>),
    kind: Kind,
    hint: Hint,
) {
    let flow = Flow::new(kind, hint, SIZE);
    let count = count(SIZE);
    let (cluster, mut ends) = make(NODES, &[flow]);
    let mut made = nodes::<E, SIZE>(ends.remove(0), &flow, count);
    let mut cluster = Some(cluster);
    stepped(&mut cluster, &mut made, Count::Nothing);
    check(&made, &flow, count);
    assert_eq!(cluster.expect("still there").lost, 0);
}

fn both_deliver<const SIZE: usize>(kind: Kind, hint: Hint) {
    match hint {
        Hint::Bandwidth => {
            delivers::<_, SIZE>(zsr::cluster::<true>, kind, hint);
            delivers::<_, SIZE>(dfi::cluster::<dfi::BatchSource>, kind, hint);
        }
        Hint::Latency => {
            delivers::<_, SIZE>(zsr::cluster::<false>, kind, hint);
            delivers::<_, SIZE>(dfi::cluster::<dfi::CreditSource>, kind, hint);
        }
    }
}

#[test]
fn both_systems_deliver_every_tuple_once_whole_where_it_belongs() {
    both_deliver::<16>(Kind::Shuffle, Hint::Bandwidth);
    both_deliver::<1024>(Kind::Shuffle, Hint::Bandwidth);
    both_deliver::<65536>(Kind::Shuffle, Hint::Bandwidth);
    both_deliver::<256>(Kind::Shuffle, Hint::Latency);
    both_deliver::<4096>(Kind::Shuffle, Hint::Latency);
    both_deliver::<16>(Kind::Replicate, Hint::Bandwidth);
    both_deliver::<16384>(Kind::Replicate, Hint::Bandwidth);
}

/// The footer is seen behind the tuples also when the NIC writes while the target looks.
fn in_threads<S: dfi::Source, const SIZE: usize>() {
    let flow = Flow::new(Kind::Shuffle, S::hint(), SIZE);
    let (cluster, mut ends) = dfi::cluster::<S>(NODES, &[flow]);
    let mut made = nodes::<_, SIZE>(ends.remove(0), &flow, 20_000);
    threaded(cluster, &mut made);
    check(&made, &flow, 20_000);
}

#[test]
fn threads_see_whole_tuples() {
    in_threads::<dfi::BatchSource, 64>();
    in_threads::<dfi::CreditSource, 16>();
    in_threads::<dfi::CreditSource, 64>();
}

fn joins<E: Ends>((cluster, ends): (Cluster, Vec<Vec<E>>), tables: Tables) -> Joined {
    let mut flows = ends.into_iter();
    let inner = flows.next().expect("a flow");
    let (nodes, mut outer) = (inner.len(), flows.next().map(Vec::into_iter));
    let node =
        |(node, inner)| JoinNode::new(inner, outer.as_mut().and_then(Iterator::next), tables, node, nodes);
    let mut programs: Vec<_> = inner.into_iter().enumerate().map(node).collect();
    stepped(&mut Some(cluster), &mut programs, Count::Nothing);
    Joined::of(programs.iter().map(|p| p.joined.expect("done")))
}

#[test]
fn joins_over_both_systems_give_what_one_machine_gives() {
    let flow = |kind| Flow::new(kind, Hint::Bandwidth, ROW);
    let (shuffles, replicate) = ([flow(Kind::Shuffle); 2], [flow(Kind::Replicate)]);
    for nodes in [2, 4] {
        let tables = Tables { inner: 20_000, outer: 30_001 };
        let wanted = Joined::on_one_machine(&tables);
        assert!(wanted.pairs > 10_000, "{wanted:?}");
        assert_eq!(joins(zsr::cluster::<true>(nodes, &shuffles), tables), wanted);
        assert_eq!(joins(dfi::cluster::<dfi::BatchSource>(nodes, &shuffles), tables), wanted);
        let tables = Tables { inner: 301, outer: 30_001 };
        let wanted = Joined::on_one_machine(&tables);
        assert_eq!(joins(zsr::cluster::<true>(nodes, &replicate), tables), wanted);
        assert_eq!(joins(dfi::cluster::<dfi::BatchSource>(nodes, &replicate), tables), wanted);
    }
}

/// Thostrup et al., 6.1.4, in MiB.
#[test]
fn rings_of_dfi_take_the_memory_that_the_paper_gives() {
    for (nodes, threads, paper) in [(2, 4, 16.0), (8, 4, 64.0), (8, 14, 785.5)] {
        let mib = dfi::memory(nodes, threads) as f64 / (1 << 20) as f64;
        assert!(
            (mib - paper).abs() < 0.15,
            "{nodes} nodes with {threads} threads: {mib} MiB, the paper has {paper}"
        );
    }
}
