//! Look-ups in a remote B-tree, through flows and by READs, give what the standard library's tree gives.

use std::collections::BTreeMap;

use zsr_bench::baseline::btree::{Requests, Tree, chase, flows, pairs};
use zsr_bench::baseline::run::{Count, stepped};

/// Looks `keys` up in both ways by two readers, the second one backwards.
fn both_answer(pairs: &BTreeMap<u64, u64>, node: usize, keys: &[u64], height: usize) {
    let tree = Tree::new(pairs, node);
    assert_eq!(tree.height, height);
    let requests = || {
        let backwards = keys.iter().rev().copied().collect();
        vec![Requests::new(keys.to_vec()), Requests::new(backwards)]
    };
    for batch in [1, 7, 300] {
        let (cluster, mut parts) = flows::cluster(&tree, requests(), batch);
        stepped(&mut Some(cluster), &mut parts, Count::Nothing);
        let readers: Vec<_> = parts.iter().filter_map(|part| part.requests()).collect();
        assert_eq!(readers.len(), 2);
        for requests in readers {
            assert!(requests.is_done());
            requests.check(pairs);
        }
    }
    for (window, kept) in [(1, 0), (16, tree.inner), (64, 1)] {
        let (cluster, mut readers) = chase::cluster(&tree, requests(), window, kept);
        stepped(&mut Some(cluster), &mut readers, Count::Nothing);
        for reader in readers {
            assert!(reader.requests.is_done());
            reader.requests.check(pairs);
            let all = (keys.len() * tree.height) as u64;
            assert!(
                if kept == 0 { reader.reads == all } else { reader.reads <= all },
                "{} READs",
                reader.reads
            );
        }
    }
}

#[test]
fn both_ways_answer_what_the_standard_library_does() {
    // With 31 pairs in a node: full nodes, the first pair of a node more, and levels.
    for (count, height) in [(1, 1), (31, 1), (32, 2), (961, 2), (962, 3), (5000, 3)] {
        let pairs: BTreeMap<u64, u64> = pairs(count).into_iter().map(|(k, v)| (k + 10, v)).collect();
        // Below, between and above all keys, and some again.
        let mut keys: Vec<u64> = (0..2 * count + 20).step_by(1 + count as usize / 150).collect();
        keys.extend([10, 10, 11, 11, 8 + 2 * count, 9 + 2 * count, 0, u64::MAX, u64::MAX]);
        both_answer(&pairs, 512, &keys, height);
    }
}

#[test]
fn keys_and_values_may_be_any_words() {
    let pairs = BTreeMap::from([(0, u64::MAX), (1, 0), (u64::MAX - 1, 1 << 32), (u64::MAX, u64::MAX)]);
    both_answer(&pairs, 64, &[0, 1, 2, 3, u64::MAX - 2, u64::MAX - 1, u64::MAX, 0], 2);
}

#[test]
fn an_empty_tree_has_no_key() {
    both_answer(&BTreeMap::new(), 1024, &[0, 1, u64::MAX, 0], 1);
}
