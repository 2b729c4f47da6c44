//! Clones, resubmission, recirculation, multicast, digests, truncation: what bmv2's simple_switch does with
//! `programs/copies.p4`.

use crate::support::Bench;
use zsr_soft_switch::*;
use zsr_wire::frame::FramePool;

/// A frame: operation, port, value, data, and a payload of 8 bytes.
fn cmd(op: u8, port: u8, value: u16, data: u32) -> Vec<u8> {
    let mut p = vec![op, port];
    p.extend(value.to_be_bytes());
    p.extend(data.to_be_bytes());
    p.extend(*b"payload!");
    p
}

/// The header that egress wrote, and the packet behind it.
#[derive(Debug, PartialEq)]
struct Seen {
    out: u16,
    instance: u32,
    length: u32,
    rid: u16,
    keep: u16,
    lost: u16,
    port: u16,
    data: u32,
}

fn seen((out, b): &(u16, Vec<u8>)) -> Seen {
    let u16_at = |i: usize| u16::from_be_bytes([b[i], b[i + 1]]);
    let u32_at = |i: usize| u32::from(u16_at(i)) << 16 | u32::from(u16_at(i + 2));
    assert_eq!(&b[24..], b"payload!");
    Seen {
        out: *out,
        instance: u32_at(0),
        length: u32_at(4),
        rid: u16_at(8),
        keep: u16_at(10),
        lost: u16_at(12),
        port: u16_at(14),
        data: u32_at(20),
    }
}

fn bench() -> Bench {
    let mut b = Bench::new("copies");
    let session = |port, instance| CloneSession {
        replicas: vec![Replica { port, instance }],
        ..CloneSession::default()
    };
    b.switch.clone_session_insert(5, session(8, 0)).unwrap();
    b.switch.clone_session_insert(6, session(9, 4)).unwrap();
    let replica = |port, instance| Replica { port, instance };
    b.switch.multicast_group_insert(3, vec![replica(1, 10), replica(2, 20), replica(2, 21)]).unwrap();
    b
}

fn run(op: u8, port: u8, value: u16) -> Vec<Seen> {
    bench().send(7, &cmd(op, port, value, 0xd)).iter().map(seen).collect()
}

/// A plain packet as egress sees it.
fn plain(out: u16) -> Seen {
    Seen { out, instance: 0, length: 16, rid: 0, keep: 100, lost: 1, port: out, data: 0xd }
}

#[test]
fn unicast_and_drop() {
    assert_eq!(run(1, 4, 0), [plain(4)]);
    assert_eq!(run(2, 4, 0), []);
    assert_eq!(run(17, 4, 0), [], "dropped in egress");
}

#[test]
fn an_ingress_clone_is_the_packet_as_it_came_and_leaves_first() {
    let clone = Seen { out: 8, instance: 1, port: 8, lost: 0, ..plain(8) };
    assert_eq!(run(3, 4, 0), [clone, Seen { data: 0x1111_1111, ..plain(4) }]);
    // Without a preserving list nothing is kept, and the original's drop does not reach the clone.
    let clone = Seen { out: 8, instance: 1, port: 8, keep: 0, lost: 0, ..plain(8) };
    assert_eq!(run(15, 4, 0), [clone]);
}

#[test]
fn an_egress_clone_goes_through_egress_behind_its_original() {
    // The clone is made when the pass ends. It has the changed data and the list's fields. It has the trace already,
    // whose 16 bytes count in its length.
    let original = Seen { data: 0x3333_3333, ..plain(4) };
    let clone =
        Seen { out: 9, instance: 2, rid: 4, port: 9, lost: 0, data: 0x3333_3333, length: 32, ..plain(9) };
    assert_eq!(run(4, 4, 0), [original, clone]);
}

#[test]
fn resubmission_starts_over_with_the_kept_fields() {
    // keep: 7 was kept, and the second pass added 100; data: the original's plus the instance type (6).
    assert_eq!(run(5, 4, 0), [Seen { keep: 107, data: 0xd + 6, ..plain(4) }]);
}

#[test]
fn recirculation_counts_its_passes() {
    assert_eq!(run(6, 4, 0), [plain(4)]);
    assert_eq!(run(6, 4, 5), [Seen { keep: 600, ..plain(4) }]);
}

#[test]
fn an_endless_recirculation_is_cut() {
    let mut b = Bench::with("copies", SwitchConfig { max_passes: 50, ..SwitchConfig::default() });
    assert!(b.send(7, &cmd(6, 4, u16::MAX, 0)).is_empty());
    let s = b.switch.stats();
    assert_eq!((s.recirculations, s.recirculation_drops), (50, 1));
    assert_eq!(run(1, 4, 0), [plain(4)]);
}

#[test]
fn queued_recirculation_returns_between_passes() {
    let recirculation = Recirculation::Queued { capacity: 1 };
    let mut b = Bench::with("copies", SwitchConfig { recirculation, ..SwitchConfig::default() });
    assert!(b.send(7, &cmd(6, 4, 2, 0xd)).is_empty());
    assert!(b.switch.has_pending());
    assert!(b.send(7, &cmd(6, 4, 2, 0xd)).is_empty());
    assert_eq!(b.switch.stats().recirculation_drops, 1, "the queue holds one");
    let mut out = Vec::new();
    assert_eq!(b.switch.run_pending(5, 1, &mut b.pool, &mut out), 1);
    assert!(out.is_empty());
    assert_eq!(b.switch.run_pending(6, 10, &mut b.pool, &mut out), 1);
    assert!(!b.switch.has_pending());
    let got = b.collect(out);
    assert_eq!(seen(&got[0]), Seen { keep: 300, ..plain(4) });
}

#[test]
fn multicast_copies_in_the_groups_order() {
    let copy = |out, rid| Seen { instance: 5, rid, ..plain(out) };
    assert_eq!(run(7, 4, 3), [copy(1, 10), copy(2, 20), copy(2, 21)]);
    assert_eq!(run(7, 4, 99), [], "a group that does not exist");
    assert_eq!(run(13, 4, 3), [], "mark_to_drop clears the group");
    assert_eq!(run(14, 4, 3).len(), 3, "a group set after mark_to_drop wins over the drop");
}

#[test]
fn truncation_counts_the_whole_frame() {
    let mut b = bench();
    let out = b.send(7, &cmd(9, 4, 20, 0));
    assert_eq!(out[0].1.len(), 20);
    assert_eq!(b.send(7, &cmd(9, 4, 1000, 0))[0].1.len(), 32);
    assert_eq!(b.switch.stats().truncations, 1);
    let session = CloneSession {
        replicas: vec![Replica { port: 8, instance: 0 }],
        class_of_service: 0,
        packet_length_bytes: 18,
    };
    b.switch.clone_session_modify(5, session).unwrap();
    let lengths: Vec<usize> = b.send(7, &cmd(3, 4, 0, 0)).iter().map(|(_, f)| f.len()).collect();
    assert_eq!(lengths, [18, 32]);
}

#[test]
fn a_priority_without_a_queue_drops() {
    assert_eq!(run(16, 4, 0), []);
    let mut b = Bench::with("copies", SwitchConfig { priority_queues: 8, ..SwitchConfig::default() });
    assert_eq!(b.send(7, &cmd(16, 4, 0, 0)).len(), 1);
}

#[test]
fn counters_meters_timestamps_random() {
    let mut b = bench();
    let info = b.switch.info().clone();
    let (counter, meter) = (info.counter("I.seen").unwrap(), info.meter("I.rate").unwrap());
    b.switch.meter_write(meter, 2, Some(MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 2 })).unwrap();
    let colours: Vec<u32> = (0..3).map(|_| seen(&b.send(7, &cmd(10, 4, 2, 0))[0]).data).collect();
    assert_eq!(colours, [0, 1, 2]);
    assert_eq!(seen(&b.send(7, &cmd(10, 4, 1, 9))[0]).data, 0, "a meter without rates is green");
    assert_eq!(b.switch.counter_read(counter, 10).unwrap(), CounterValue { packets: 4, bytes: 64 });

    b.now = 7_654_321_000;
    assert_eq!(seen(&b.send(7, &cmd(11, 4, 3, 0))[0]).data, 7_654_321, "microseconds");
    let times = info.register("I.times").unwrap();
    assert_eq!(b.switch.register_read(times, 3).unwrap(), [0, 0, 0, 0x74, 0xcb, 0xb1]);
    // Beyond the end: nothing is written, and the destination stays as it is.
    assert_eq!(seen(&b.send(7, &cmd(11, 4, 8, 0))[0]).data, 0);
    assert_eq!(b.switch.stats().bad_indices, 2);

    let mut drawn: Vec<u32> = (0..60).map(|_| seen(&b.send(7, &cmd(12, 4, 0, 0))[0]).data).collect();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn, [10, 11, 12]);
}

#[test]
fn digests_gather_suppress_and_are_acknowledged() {
    let mut b = bench();
    let rx = b.switch.notifications(16);
    let digest = DigestId(0);
    b.send(7, &cmd(8, 4, 0, 1));
    assert!(rx.try_recv().is_err(), "not configured");
    assert_eq!(b.switch.stats().digest_drops, 1);
    let config = DigestConfig { max_timeout_ns: 1000, max_list_size: 2, ack_timeout_ns: 1_000_000 };
    b.switch.set_digest(digest, Some(config)).unwrap();
    for data in [1, 1, 2] {
        b.send(7, &cmd(8, 4, 0, data));
    }
    let Ok(Notification::Digest(list)) = rx.try_recv() else { panic!("a list was expected") };
    assert_eq!(list.samples, [vec![vec![0, 0, 0, 1], vec![4]], vec![vec![0, 0, 0, 2], vec![4]]]);
    b.send(7, &cmd(8, 4, 0, 1));
    let mut out = Vec::new();
    b.switch.fire_timers(b.now + 2000, &mut b.pool, &mut out);
    assert!(rx.try_recv().is_err(), "suppressed until acknowledged");
    b.switch.ack_digest(digest, list.list_id).unwrap();
    b.send(7, &cmd(8, 4, 0, 1));
    assert_eq!(b.switch.next_timer(), Some(b.now + 1000));
    b.switch.fire_timers(b.now + 1000, &mut b.pool, &mut out);
    let Ok(Notification::Digest(second)) = rx.try_recv() else { panic!("a list was expected") };
    assert_eq!((second.samples.len(), second.list_id), (1, list.list_id + 1));
}

#[test]
fn packet_in_and_packet_out() {
    let mut b = Bench::with("copies", SwitchConfig { cpu_port: 64, ..SwitchConfig::default() });
    let rx = b.switch.notifications(1);
    assert!(b.send(7, &cmd(1, 64, 0, 0xd)).is_empty());
    let Ok(Notification::PacketIn(frame)) = rx.try_recv() else { panic!("a packet-in was expected") };
    assert_eq!(seen(&(64, frame.bytes().to_vec())), plain(64));
    for _ in 0..3 {
        b.send(7, &cmd(1, 64, 0, 0xd));
    }
    assert_eq!(b.switch.stats().notifications_dropped, 2, "nobody took them");

    b.switch.queue_packet_out(&cmd(1, 4, 0, 0xd)).unwrap();
    let mut out = Vec::new();
    assert_eq!(b.switch.run_pending(9, 8, &mut b.pool, &mut out), 1);
    assert_eq!(seen(&b.collect(out)[0]), plain(4));
    assert_eq!(b.switch.port_stats(64).rx_packets, 1);
}

#[test]
fn ports_that_do_not_exist_drop() {
    let mut b = Bench::with("copies", SwitchConfig { ports: vec![1, 2], ..SwitchConfig::default() });
    assert_eq!(b.send(1, &cmd(1, 2, 0, 0)).len(), 1);
    assert!(b.send(1, &cmd(1, 3, 0, 0)).is_empty());
    assert_eq!(b.switch.stats().unknown_port_drops, 1);
    let p = b.switch.port_stats(2);
    assert_eq!((p.tx_packets, p.tx_bytes), (1, 32));
}

#[test]
fn timers_number_their_packets_and_coalesce() {
    let mut b = bench();
    let timer = TimerPort {
        port: 3,
        interval_ns: 100,
        template: cmd(1, 4, 0, 0),
        count: 3,
        numbers: Some(Numbers { offset: 6, first: 0, step: 1 }),
        yields: false,
        rest: None,
    };
    let id = b.switch.add_timer(timer.clone()).unwrap();
    let mut out = Vec::new();
    let mut fire = |b: &mut Bench, now| {
        let n = b.switch.fire_timers(now, &mut b.pool, &mut out);
        let data: Vec<u32> = b.collect(std::mem::take(&mut out)).iter().map(|f| seen(f).data).collect();
        assert_eq!(n, data.len());
        data
    };
    assert_eq!(fire(&mut b, 1000), [0, 1, 2]);
    assert_eq!(b.switch.next_timer(), Some(1100));
    assert!(fire(&mut b, 1099).is_empty());
    assert_eq!(fire(&mut b, 1450), [3, 4, 5], "four intervals late, one firing");
    assert_eq!(b.switch.next_timer(), Some(1500));
    b.switch.set_timer_interval(id, 1000).unwrap();
    assert_eq!(b.switch.next_timer(), Some(2400));
    b.switch.remove_timer(id).unwrap();
    assert_eq!(b.switch.next_timer(), None);
    assert!(b.switch.remove_timer(id).is_err());
    for bad in [
        TimerPort { interval_ns: 0, ..timer.clone() },
        TimerPort { count: 0, ..timer.clone() },
        TimerPort { numbers: Some(Numbers { offset: usize::MAX, first: 0, step: 1 }), ..timer.clone() },
        TimerPort { template: vec![0; 10_000], ..timer },
    ] {
        assert!(b.switch.add_timer(bad).is_err());
    }
}

/// A timer that yields, of two packets.
fn yielding() -> TimerPort {
    let template = cmd(1, 4, 0, 0);
    TimerPort { port: 3, interval_ns: 100, template, count: 2, numbers: None, yields: true, rest: None }
}

/// The data of the packets that came of a round at `now`.
fn round(b: &mut Bench, share: &mut TimerShare, waiting: bool, now: u64) -> Vec<u32> {
    let mut out = Vec::new();
    let done = share.fire(&mut b.switch, waiting, now, &mut b.pool, &mut out);
    let data: Vec<u32> = b.collect(out).iter().map(|f| seen(f).data).collect();
    assert_eq!(done, if data.is_empty() { 0 } else { data.len() + 1 });
    data
}

#[test]
fn timers_that_yield_leave_passes_to_packets() {
    let (mut b, mut share) = (bench(), TimerShare::default());
    let numbers = Some(Numbers { offset: 6, first: 7, step: 8 });
    b.switch.add_timer(TimerPort { port: 5, numbers, yields: false, count: 1, ..yielding() }).unwrap();
    b.switch.add_timer(yielding()).unwrap();
    assert_eq!(round(&mut b, &mut share, true, 1000), [7, 0, 0], "nothing was owed");
    assert!(round(&mut b, &mut share, true, 1001).is_empty(), "not due");
    assert_eq!(round(&mut b, &mut share, true, 1100), [15], "packets wait");
    // The other timer's packet was one.
    for _ in 1..3 * TimerShare::OTHERS {
        b.send(7, &cmd(1, 4, 0, 0));
    }
    assert_eq!(round(&mut b, &mut share, true, 1200), [23, 0, 0], "they had their passes");
    assert!(round(&mut b, &mut share, true, 1201).is_empty());
    assert_eq!(round(&mut b, &mut share, true, 1300), [31]);
    assert_eq!(round(&mut b, &mut share, false, 1400), [39, 0, 0], "no packet waits");
}

#[test]
fn timers_that_yield_rest_for_as_long_as_they_took() {
    let (mut b, mut share) = (bench(), TimerShare::default());
    b.switch.add_timer(yielding()).unwrap();
    assert_eq!(round(&mut b, &mut share, false, 1000), [0, 0]);
    // A third of the passes in what takes 300 ns is this one's.
    b.send(7, &cmd(1, 4, 0, 0));
    assert!(round(&mut b, &mut share, false, 1300).is_empty());
    assert_eq!(share.next(&b.switch), Some(1500));
    assert!(round(&mut b, &mut share, false, 1499).is_empty());
    assert_eq!(round(&mut b, &mut share, false, 1500), [0, 0]);
}

const RESTS: Option<Rest> = Some(Rest { after_ns: 0, longest_ns: 1000 });

/// When timers fire until then, and how many packets that is.
fn firings(b: &mut Bench, until: u64) -> Vec<(u64, usize)> {
    let (mut fired, mut out) = (Vec::new(), Vec::new());
    while let Some(due) = b.switch.next_timer().filter(|due| *due <= until) {
        b.now = due.max(b.now);
        fired.push((b.now, b.switch.fire_timers(b.now, &mut b.pool, &mut out)));
    }
    b.collect(out);
    fired
}

#[test]
fn timers_that_rest_fire_rarely_on_a_quiet_switch() {
    let mut b = bench();
    b.now = 0;
    b.switch.add_timer(TimerPort { count: 1, rest: RESTS, ..yielding() }).unwrap();
    let fired = firings(&mut b, 200_000);
    let gaps: Vec<u64> = fired.windows(2).map(|w| w[1].0 - w[0].0).collect();
    assert_eq!(gaps[0], 100 + 100 / Rest::PART);
    // Each has left the switch, which is no reason to hurry.
    assert!(gaps.windows(2).all(|w| w[0] <= w[1] + 100), "{gaps:?}");
    assert!(gaps[gaps.len() - 20..].iter().all(|gap| (1000..=1100).contains(gap)), "{gaps:?}");
    assert!((10..=11).contains(&fired.last().unwrap().1), "as long as a frame leaves: {fired:?}");
    let soon = |b: &mut Bench| {
        let due = b.switch.next_timer().unwrap();
        firings(b, due);
        b.switch.next_timer().unwrap() - b.now
    };
    assert!(soon(&mut b) > 1000);
    // One for a group that is not there.
    b.send(7, &cmd(7, 0, 4, 0));
    assert!(soon(&mut b) > 1000);
    b.send(7, &cmd(1, 4, 0, 0));
    assert!(b.switch.next_timer().unwrap() <= b.now + 110, "one that leaves");
    assert!(soon(&mut b) <= 110);
    firings(&mut b, 600_000);
    assert!(soon(&mut b) > 1000);
    b.switch.stir();
    assert!(b.switch.next_timer().unwrap() <= b.now + 110, "a change");
}

/// Whatever else moves: the next packet would find no more than this one.
#[test]
fn a_timer_of_which_nothing_comes_rests_until_something_changes() {
    let mut b = bench();
    b.now = 0;
    let rest = Some(Rest { after_ns: 1 << 40, longest_ns: 1000 });
    b.switch.add_timer(TimerPort { template: cmd(7, 0, 9, 0), count: 1, rest, ..yielding() }).unwrap();
    let gap = |b: &mut Bench| {
        let due = b.switch.next_timer().unwrap();
        firings(b, due);
        b.switch.next_timer().unwrap() - b.now
    };
    assert_eq!(gap(&mut b), 1100);
    b.send(7, &cmd(1, 4, 0, 0));
    assert!(gap(&mut b) >= 1000, "a frame that leaves");
    b.switch.multicast_group_insert(9, vec![Replica { port: 1, instance: 10 }]).unwrap();
    b.switch.stir();
    assert!(b.switch.next_timer().unwrap() <= b.now + 100);
    assert!((0..9).all(|_| gap(&mut b) <= 100));
    b.switch.multicast_group_delete(9).unwrap();
    b.switch.stir();
    assert!(gap(&mut b) >= 1000);
}

#[test]
fn a_packet_that_waits_for_another_pass_is_something() {
    let recirculation = Recirculation::Queued { capacity: 8 };
    let mut b = Bench::with("copies", SwitchConfig { recirculation, ..SwitchConfig::default() });
    b.now = 0;
    let rest = Some(Rest { after_ns: 1 << 40, longest_ns: 1000 });
    b.switch.add_timer(TimerPort { template: cmd(6, 4, 2, 0), count: 1, rest, ..yielding() }).unwrap();
    assert_eq!(firings(&mut b, 500).len(), 6);
}

#[test]
fn timers_rest_only_after_a_while() {
    let mut b = bench();
    b.now = 0;
    let rest = Some(Rest { after_ns: 50_000, longest_ns: 1000 });
    b.switch.add_timer(TimerPort { count: 1, rest, ..yielding() }).unwrap();
    assert_eq!(firings(&mut b, 50_000).len(), 501);
    assert!(firings(&mut b, 200_000).len() < 500);
}

#[test]
fn timers_with_numbers_make_up_for_their_rest() {
    let mut b = bench();
    b.now = 0;
    let numbers = Some(Numbers { offset: 6, first: 0, step: 1 });
    b.switch.add_timer(TimerPort { numbers, count: 1, rest: RESTS, yields: false, ..yielding() }).unwrap();
    let fired = firings(&mut b, 200_000);
    let made: usize = fired.iter().map(|(_, made)| made).sum();
    assert!((1980..=2001).contains(&made), "{made}");
    assert!((10..=11).contains(&fired.last().unwrap().1), "{fired:?}");
}

#[test]
fn timers_of_whose_numbers_nothing_comes_do_not_make_up() {
    let mut b = bench();
    b.now = 0;
    // The number is the group.
    let numbers = Some(Numbers { offset: 2, first: 1, step: 0x1000 });
    let timer = TimerPort { template: cmd(7, 0, 0, 0), numbers, count: 1, rest: RESTS, ..yielding() };
    b.switch.add_timer(timer).unwrap();
    let fired = firings(&mut b, 200_000);
    assert_eq!(fired.last().unwrap().1, 1, "{fired:?}");
    b.switch.multicast_group_insert(0x3001, vec![Replica { port: 1, instance: 10 }]).unwrap();
    b.switch.stir();
    let until = b.now + 100_000;
    let fired = firings(&mut b, until);
    assert!(fired.last().unwrap().1 >= 10, "{fired:?}");
}

#[test]
fn all_frames_come_back_to_the_pool() {
    let mut b = bench();
    b.pool = FramePool::with_frames(8);
    for op in 0..=20 {
        for value in [0, 3, 5] {
            b.send(7, &cmd(op, 4, value, 0));
        }
    }
    b.send(7, &[1, 2, 3]);
    // Each `send` brings a frame of its own, which ends in the pool too.
    assert_eq!(b.pool.available(), 8 + 21 * 3 + 1);
}

#[test]
fn each_pipe_has_registers_of_its_own() {
    // Ports 0 to 7, 8 and 9, and 10; what is beyond belongs to the first pipe.
    let pipes = vec![0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2];
    let mut b = Bench::with("copies", SwitchConfig { pipes, ..SwitchConfig::default() });
    let times = b.switch.info().register("I.times").expect("a register");
    let in_pipes = |b: &Bench| {
        [0, 1, 2].map(|pipe| {
            let cell = b.switch.register_read_in(pipe, times, 2).expect("a cell");
            cell.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte))
        })
    };
    for (now, port) in [(5_000_000, 7), (9_000_000, 9)] {
        b.now = now;
        b.send(port, &cmd(11, 4, 2, 0));
    }
    assert_eq!(in_pipes(&b), [5000, 9000, 0]);
    b.now = 11_000_000;
    b.send(300, &cmd(11, 10, 2, 0));
    assert_eq!(in_pipes(&b), [11_000, 9000, 0]);
    // Whichever pipe was at hand last.
    assert_eq!(b.switch.register_read(times, 2), b.switch.register_read_in(0, times, 2));
    assert!(b.switch.register_read_in(3, times, 2).is_err());
    b.switch.register_write(times, 2, &[7]).expect("a cell");
    assert_eq!(in_pipes(&b), [7; 3]);
    b.switch.register_fill(times, &[0]).expect("a register");
    assert_eq!(in_pipes(&b), [0; 3]);
}
