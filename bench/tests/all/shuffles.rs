//! The eight designs of a shuffle: each row comes once, to the right node, and everything ends.

use zsr_bench::baseline::shuffles::{Design, Notice, Setup, Shuffle, Way};
use zsr_bench::baseline::virtual_time::LINK;
use zsr_simnet::{FaultRates, LinkConfig};

fn all() -> impl Iterator<Item = Design> {
    let others = [Notice::Buffer, Notice::Queue]
        .into_iter()
        .flat_map(|notice| [true, false].map(|multi| Design { multi, way: Way::Write(notice) }));
    Design::ALL.into_iter().chain(others)
}

/// The rows of all endpoints that come to all nodes, and the sum of their keys.
fn expected(design: Design, setup: &Setup) -> (u64, u64) {
    let endpoints = (setup.nodes * if design.multi { setup.threads } else { 1 }) as u64;
    let (nodes, rows) = (setup.nodes as u64, setup.rows.expect("a number of rows"));
    let all = 0..endpoints * rows;
    let keys: u64 = match setup.broadcast {
        true => all.map(|row| row * nodes).sum(),
        false => all.map(|row| (0..nodes).map(|node| row * nodes + node).sum::<u64>()).sum(),
    };
    (endpoints * rows * nodes, keys)
}

#[test]
fn each_row_comes_once_and_all_streams_end() {
    for design in all() {
        for (broadcast, rows) in [(false, 0), (false, 1000), (false, 40 * 62), (true, 777), (true, 62)] {
            let setup = Setup {
                message: 1016 + 16,
                broadcast,
                rows: Some(rows),
                post_ns: 10,
                ..Setup::new(design, 3, 2)
            };
            let mut shuffle = Shuffle::new(design, setup, LINK);
            let mut steps = 0;
            while !shuffle.is_over() {
                shuffle.run_for(10_000);
                steps += 1;
                assert!(steps < 1000, "{} {broadcast} {rows}: {:?}", design.name(), shuffle.counts());
            }
            // Nothing comes behind the end.
            let counts = shuffle.counts();
            shuffle.run_for(50_000);
            assert_eq!(shuffle.counts().requests, counts.requests);
            let what = format!("{} ({:?}), broadcast {broadcast}, {rows} rows", design.name(), design.way);
            assert_eq!((counts.rows, counts.keys), expected(design, &setup), "{what}");
            assert_eq!(counts.strays, 0, "{what}");
            assert!(shuffle.hashes_agree(), "{what}");
        }
    }
}

/// Requests for each message, as the paper counts them: two, three, and two and one for every second message.
#[test]
fn requests_queue_pairs_and_memory_are_the_papers() {
    let counted = |way, credit_every| {
        let design = Design { multi: true, way };
        let setup = Setup { credit_every, message: 4096, ..Setup::new(design, 2, 2) };
        Shuffle::new(design, setup, LINK).goodput(300_000).1
    };
    for (way, credit_every, expected) in [
        (Way::Write(Notice::Buffer), 2, 2.0),
        (Way::Write(Notice::Queue), 2, 3.0),
        (Way::Write(Notice::Completion), 2, 2.5),
        (Way::Write(Notice::Completion), 4, 2.25),
        (Way::Send, 2, 1.5),
        (Way::Datagram, 2, 1.5),
        (Way::Read, 2, 3.0),
    ] {
        let counts = counted(way, credit_every);
        let made = counts.per_message();
        assert!((made / expected - 1.0).abs() < 0.02, "{way:?}: {made} requests for each message");
    }
    // A look at all buffers, or at a word for each node.
    let looked = |notice| {
        let counts = counted(Way::Write(notice), 2);
        counts.polled as f64 / counts.polls as f64
    };
    assert_eq!(looked(Notice::Buffer), 4.0);
    assert!(looked(Notice::Queue) < 3.0);
    assert_eq!(looked(Notice::Completion), 0.0);

    let footprint = |multi, way, buffers| {
        let design = Design { multi, way };
        let shuffle = Shuffle::new(design, Setup { buffers, ..Setup::new(design, 8, 14) }, LINK);
        (shuffle.queue_pairs, shuffle.pinned)
    };
    assert_eq!(footprint(true, Way::Send, 2), (8 * 14, (2 * 8 * 14) << 16));
    assert_eq!(footprint(false, Way::Read, 2), (8, (2 * 8 * 14) << 16));
    assert_eq!(footprint(false, Way::Datagram, 2).0, 1);
    let (queue_pairs, pinned) = footprint(true, Way::Datagram, 2);
    assert_eq!(queue_pairs, 14);
    assert!(pinned < 1 << 20, "{pinned} B");
}

/// Where datagrams get lost, the numbers of messages tell. Where as many come twice, only a hash of the stream does.
#[test]
fn a_loss_and_a_duplicate_fool_the_count_of_datagrams_and_not_the_hash() {
    let design = Design { multi: true, way: Way::Datagram };
    let faults = |loss, duplicate| {
        LinkConfig { ..LINK }.with_faults(FaultRates { loss, duplicate, ..FaultRates::NONE })
    };
    let outcome = |seed, link| {
        let setup = Setup { message: 1024, rows: Some(1600), buffers: 8, seed, ..Setup::new(design, 2, 1) };
        let mut shuffle = Shuffle::new(design, setup, link);
        shuffle.run_for(1_000_000);
        let (all, keys) = expected(design, &setup);
        let counts = shuffle.counts();
        let is_whole = (counts.rows, counts.keys) == (all, keys);
        (shuffle.is_over(), shuffle.hashes_agree(), is_whole)
    };
    let (mut stuck, mut fooled) = (0, 0);
    for seed in 0..100 {
        if seed < 20 {
            let (over, _, whole) = outcome(seed, faults(0.01, 0.0));
            assert!(!over || whole, "seed {seed}: what is lost is missing in the count");
            stuck += u32::from(!over);
        }
        let (over, agree, whole) = outcome(seed, faults(0.002, 0.002));
        assert!(!agree || whole, "seed {seed}: the hashes agree, and rows are missing");
        fooled += u32::from(over && !whole && !agree);
    }
    assert!(stuck > 10, "{stuck} runs have lost something");
    assert!(fooled > 0, "no count was fooled");
}
