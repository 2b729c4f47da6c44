//! How long an item is on its way through an idle flow, in virtual time.

use zsr_simnet::{FaultRates, LinkConfig};
use zsr_tests::rig::Rig;

/// Median of the times that `n` items take, each pushed into an idle flow at another moment of its polling, in
/// nanoseconds.
fn median(settings: &str, n: u64) -> u64 {
    let yaml = format!(
        "
hosts: [h1, h2]
flows:
  - {{name: f, producers: [h1], consumers: [h2], item_size: 64, ring_size: 4KiB, max_batch: 1KiB, {settings}}}
workload: {{kind: synthetic, items: 1}}
"
    );
    let mut rig = Rig::new(&yaml, LinkConfig::FAST, 0);
    rig.feeds[0].closes = false;
    let mut times: Vec<u64> = (0..n)
        .map(|i| {
            rig.run_for(2_000_000 + i * 37_000);
            rig.one_way()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
fn polling_takes_less_than_its_interval() {
    for interval in [100, 400] {
        let time = median(&format!("poll_interval: {interval}us, doorbell: false"), 41) / 1000;
        assert!(time < interval, "{time} us with polls every {interval} us");
        assert!(time > interval / 4, "{time} us with polls every {interval} us: nothing waits for a poll");
    }
}

/// A flow that has moved nothing for `quiet` nanoseconds.
fn idle(settings: &str, link: LinkConfig, quiet: u64) -> Rig {
    let yaml = format!(
        "
hosts: [h1, h2]
flows:
  - {{name: f, producers: [h1], consumers: [h2], item_size: 64, ring_size: 4KiB, max_batch: 1KiB, poll_interval: 100us,
     {settings}}}
workload: {{kind: synthetic, items: 1}}
"
    );
    let mut rig = Rig::new(&yaml, link, 0);
    rig.feeds[0].closes = false;
    rig.one_way();
    rig.rest(quiet);
    rig
}

const MS: u64 = 1_000_000;

/// READs that the producer's NIC answers in the next tenth of a second: polls, while the flow is idle.
fn polls(rig: &mut Rig) -> u64 {
    let before = rig.nic(0).stats().rx_frames;
    rig.rest(100 * MS);
    rig.nic(0).stats().rx_frames - before
}

#[test]
fn polls_of_a_ring_that_stays_empty_become_rare_within_a_second() {
    for doorbell in ["false", "true"] {
        let mut rig = idle(&format!("doorbell: {doorbell}"), LinkConfig::FAST, 0);
        let often = polls(&mut rig);
        assert!(often > 100, "{often} polls in the first 100 ms");
        rig.rest(900 * MS);
        let rare = polls(&mut rig);
        assert!((9..=11).contains(&rare), "{rare} polls in 100 ms, a second later");
        rig.one_way();
        let again = polls(&mut rig);
        assert!(again > 100, "{again} polls in 100 ms behind an item");
    }
}

#[test]
fn an_item_behind_a_long_pause_waits_for_one_rare_poll_at_most() {
    for pause in 0..7 {
        let mut rig = idle("doorbell: false", LinkConfig::FAST, 1_000 * MS + pause * 1_700_000);
        let first = rig.one_way();
        assert!(first < 10 * MS + 200_000, "{first} ns");
        let second = rig.one_way();
        assert!(second < 200_000, "{second} ns, behind another item");
    }
}

#[test]
fn a_doorbell_ends_a_long_pause_at_once() {
    for pause in 0..7 {
        let mut rig = idle("doorbell: true", LinkConfig::FAST, 1_000 * MS + pause * 1_700_000);
        let first = rig.one_way();
        assert!(first < 50_000, "{first} ns");
    }
}

#[test]
fn a_doorbell_that_gets_lost_costs_one_rare_poll_at_most() {
    let mut rig = idle("doorbell: true", LinkConfig::FAST, 1_000 * MS);
    let quiet = rig.nic(0).stats().tx_frames;
    rig.bells_work = false;
    let first = rig.one_way();
    assert!((50_000..10 * MS + 200_000).contains(&first), "{first} ns");
    assert!(rig.nic(0).stats().tx_frames > quiet);
}

/// Rare ticks are for all producers of a worker.
#[test]
fn a_pause_is_as_long_for_every_producer() {
    let yaml = "
hosts: [h1, h2, h3, h4]
flows:
  - {name: f, producers: [h1, h2, h3], consumers: [h4], item_size: 64, ring_size: 4KiB, max_batch: 1KiB, poll_interval: 100us}
workload: {kind: synthetic, items: 1}
";
    let mut rig = Rig::new(yaml, LinkConfig::FAST, 0);
    rig.feeds.iter_mut().for_each(|feed| feed.closes = false);
    for feed in [0, 1, 2, 0, 2, 1] {
        rig.one_way();
        rig.rest(1_000 * MS);
        let time = rig.one_way_from(feed);
        assert!(time < 10 * MS + 200_000, "{time} ns from producer {feed}");
    }
}

/// An item that lies in a ring when its flow begins does not wait for a rare poll, however long the switch has been at
/// rest.
#[test]
fn what_is_there_already_does_not_wait() {
    let mut rig = idle("doorbell: false", LinkConfig::FAST, 1_000 * MS);
    rig.switch().stir();
    let first = rig.one_way();
    assert!(first < 200_000, "{first} ns");
}

#[test]
fn a_doorbell_does_not_wait_for_polls() {
    let times =
        [200, 2000].map(|interval| median(&format!("doorbell: true, poll_interval: {interval}us"), 21));
    assert!(times[0] < 50_000 && times[0].abs_diff(times[1]) <= 4_000, "{times:?}");
}

/// Items that follow one another at once, each when the one before has arrived. No item comes at a moment at which
/// neither the bell nor a poll finds it.
#[test]
fn no_item_misses_both_bell_and_poll() {
    let yaml = "
hosts: [h1, h2]
flows:
  - {name: f, producers: [h1], consumers: [h2], item_size: 64, ring_size: 4KiB, max_batch: 1KiB, doorbell: true,
     poll_interval: 1s}
workload: {kind: synthetic, items: 1}
";
    let mut rig = Rig::new(yaml, LinkConfig::FAST, 0);
    rig.feeds[0].closes = false;
    rig.run_for(1_000_000);
    for i in 0..500 {
        // Now and then a little later, for another moment of the transfer before.
        rig.run_for(2_000 * (i % 7));
        let time = rig.one_way();
        assert!(time < 100_000, "item {i} took {time} ns");
    }
}

/// A doorbell has the position of the ring's head: with a wrong one the switch would read items that were never pushed.
#[test]
fn damaged_doorbells_are_not_believed() {
    let yaml = "
hosts: [h1, h2]
flows:
  - {name: f, producers: [h1], consumers: [h2], item_size: 64, ring_size: 4KiB, max_batch: 1KiB, doorbell: true,
     poll_interval: 1ms, rto: 100us}
workload: {kind: synthetic, items: 1}
";
    let faults = FaultRates { corrupt: 0.3, ..FaultRates::NONE };
    let mut rig = Rig::new(yaml, LinkConfig::FAST.with_faults(faults), 0);
    rig.feeds[0].closes = false;
    for item in 1..=300 {
        rig.one_way();
        rig.run_for(200_000);
        assert_eq!(rig.sinks[0].bytes, 64 * item, "as many as were pushed");
    }
}
