//! Each kind of packet is lost once, then twice in a row of its kind: the protocol's table of losses, line by line.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zsr_tests::system::{Spec, System};
use zsr_tests::wire::{FragmentNumber, Kind};
use zsr_wire::roce::{BTH_AT, IP_AT};
use zsr_wire::{Opcode, icrc};

/// Two producers, transfers of several fragments.
const SPEC: Spec = Spec { producers: 2, ring_size: 8192, items: 60, seed: 13, ..Spec::PLAIN };

/// Runs a flow that loses the first so many packets of each of some kinds. Which kinds a run has hangs on how its
/// producers behave: seeds are tried until all of them have come.
fn lose(spec: Spec, kinds: &[(Kind, u32)]) {
    assert!(
        (spec.seed..spec.seed + 20).any(|seed| lost_all(Spec { seed, ..spec }, kinds)),
        "no run has all of {kinds:?}"
    );
}

/// Whether there were enough packets of each kind to lose; all items arrive in any case.
fn lost_all(spec: Spec, kinds: &[(Kind, u32)]) -> bool {
    let left: Vec<(Kind, Rc<Cell<u32>>)> = kinds.iter().map(|&(k, n)| (k, Rc::new(Cell::new(n)))).collect();
    let mut system = System::new(spec);
    let counters = left.clone();
    system.switch().filter = Box::new(move |_, kind| {
        let Some((_, left)) = counters.iter().find(|(k, _)| *k == kind) else { return false };
        let lost = left.get() > 0;
        left.set(left.get() - u32::from(lost));
        lost
    });
    system.run(|_| ());
    left.iter().all(|(_, left)| left.get() == 0)
}

#[test]
fn polls() {
    for kind in [Kind::ProducerPoll, Kind::ProducerWord, Kind::ConsumerPoll, Kind::ConsumerWord] {
        for times in [1, 2] {
            lose(SPEC, &[(kind, times)]);
        }
    }
}

#[test]
fn reads_and_their_fragments() {
    use Opcode::{ReadResponseFirst, ReadResponseLast, ReadResponseMiddle, ReadResponseOnly};
    let fragments = [ReadResponseFirst, ReadResponseMiddle, ReadResponseLast, ReadResponseOnly];
    for kind in [Kind::Read].into_iter().chain(fragments.map(Kind::Response)) {
        for times in [1, 2] {
            lose(SPEC, &[(kind, times)]);
        }
    }
}

#[test]
fn fragments_on_their_way_to_the_consumer() {
    use Opcode::{WriteFirst, WriteLast, WriteMiddle, WriteOnly};
    for kind in [WriteFirst, WriteMiddle, WriteLast, WriteOnly].map(Kind::Write) {
        for times in [1, 2] {
            lose(SPEC, &[(kind, times)]);
        }
    }
}

#[test]
fn commits_and_tails() {
    for kind in [Kind::Commit, Kind::Committed, Kind::Tail, Kind::TailAck] {
        for times in [1, 2] {
            lose(SPEC, &[(kind, times)]);
        }
    }
}

#[test]
fn the_last_commit() {
    for kind in [Kind::LastCommit, Kind::LastCommitted] {
        for times in [1, 2, 5] {
            lose(SPEC, &[(kind, times)]);
        }
    }
}

#[test]
fn what_says_that_something_is_lost() {
    for opcode in [Opcode::WriteFirst, Opcode::WriteMiddle, Opcode::WriteLast] {
        for times in [1, 2] {
            // A NIC says once that it misses a packet.
            lose(SPEC, &[(Kind::Write(opcode), times), (Kind::Gap, 1)]);
        }
    }
}

#[test]
fn a_whole_transfer_and_what_repeats_it() {
    let kinds = [Kind::Read, Kind::Commit, Kind::Committed, Kind::Tail, Kind::TailAck, Kind::LastCommit];
    for times in [1, 3] {
        let kinds = kinds.map(|kind| (kind, times));
        lose(SPEC, &kinds);
        lose(Spec { big_endian: [true; 2], seed: 8, ..SPEC }, &kinds);
    }
}

/// Behind these packets comes none that would make the consumer report what it lacks. They are read again twice, and
/// where READs are lost, too, the consumer is asked.
#[test]
fn the_end_of_a_transfer_and_what_asks_for_it() {
    let end = [(Kind::Write(Opcode::WriteLast), 3), (Kind::Commit, 3)];
    // Where a probe or its answer was lost, the next retry reads again, and the one behind that asks again.
    for more in [
        &[][..],
        &[(Kind::Read, 3), (Kind::Probe, 1)],
        &[(Kind::Read, 3), (Kind::Probed, 1)],
        &[(Kind::Read, 4), (Kind::Probed, 1)],
        &[(Kind::Read, 4), (Kind::Probe, 2)],
    ] {
        let kinds = [&end[..], more].concat();
        lose(SPEC, &kinds);
        lose(Spec { psn_from: 0xff_fff0, big_endian: [true; 2], seed: 9, ..SPEC }, &kinds);
    }
}

/// Of a transfer so long that its consumer is asked at once.
#[test]
fn only_what_a_consumer_lacks_is_read_again() {
    const LONG: u64 = 128;
    let (cut, again, at) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), FragmentNumber::default());
    let (ring_size, max_batch) = (1 << 18, 1 << 17);
    let mut system = System::new(Spec {
        producers: 1,
        item_size: 4096,
        ring_size,
        max_batch,
        mtu: 256,
        items: 600,
        ..SPEC
    });
    let (lost, sent) = (cut.clone(), again.clone());
    system.switch().filter = Box::new(move |_, kind| {
        if let Kind::Write(opcode) = kind {
            at.next(opcode);
        }
        match (kind, lost.get()) {
            (Kind::Write(Opcode::WriteLast), 0) if at.get() >= LONG => {
                lost.set(1);
                true
            }
            (Kind::Commit, 1) => {
                lost.set(2);
                true
            }
            (Kind::Write(_), 2) => {
                sent.set(sent.get() + 1);
                false
            }
            (Kind::Commit, 2) => {
                lost.set(3);
                false
            }
            _ => false,
        }
    });
    system.run(|_| ());
    assert_eq!((cut.get(), again.get()), (3, 1), "one fragment was lost, one is sent again");
    assert_eq!(system.switch().wire.repeated_reads, 1);
}

/// A buffer on the way that overflows with every burst: each retry gets further than the one before.
#[test]
fn a_path_that_takes_three_packets_at_once() {
    let (room, ends) = (Cell::new(0), Cell::new(false));
    let mut system = System::new(SPEC);
    system.switch().filter = Box::new(move |_, kind| {
        // A commit behind another one comes by itself, long after the fragments.
        let is_alone = kind == Kind::Commit && ends.get();
        match kind {
            Kind::Write(_) => ends.set(false),
            Kind::Commit => ends.set(true),
            _ => {}
        }
        match kind {
            Kind::Read | Kind::Probe => {
                room.set(3);
                false
            }
            Kind::Write(_) | Kind::Commit if !is_alone => {
                let full = room.get() == 0;
                room.set(room.get() - i32::from(!full));
                full
            }
            _ => false,
        }
    });
    system.run(|_| ());
    assert!(system.switch().wire.repeated_reads > 0);
}

/// The kernel's soft-RoCE (rxe, Linux 6.1) answers a duplicate with the PSN that it executed last. If it has executed
/// nothing, it answers with 0xffffff, whatever PSN it expects first. The switch can't use that answer, and reads again.
#[test]
fn a_consumer_that_has_executed_nothing_answers_a_probe_with_a_strange_psn() {
    const READS_LOST: usize = 3;
    let mut system = System::new(Spec { psn_from: 4660, producers: 1, ..SPEC });
    let reads = Rc::new(Cell::new(0));
    let (newest, answers) =
        (Rc::<RefCell<(u16, Vec<u8>)>>::default(), Rc::<RefCell<Vec<(u16, Vec<u8>)>>>::default());
    let (seen, switch) = (newest.clone(), system.switch);
    system.net.observe(move |_, end, bytes| {
        if end.node == switch {
            *seen.borrow_mut() = (end.port, bytes.to_vec());
        }
    });
    let kept = answers.clone();
    system.switch().filter = Box::new(move |_, kind| match kind {
        Kind::Read => {
            reads.set(reads.get() + 1);
            false
        }
        Kind::Write(_) | Kind::Commit => reads.get() <= READS_LOST,
        Kind::Probed if reads.get() <= READS_LOST => {
            kept.borrow_mut().push(newest.borrow().clone());
            true
        }
        _ => false,
    });
    let mut strange = 0;
    system.run(|system| {
        for (port, mut ack) in answers.take() {
            ack[BTH_AT + 9..BTH_AT + 12].fill(0xff);
            assert!(icrc::write(&mut ack[IP_AT..]));
            assert_eq!(system.switch().ask(port, &ack), None);
            strange += 1;
        }
    });
    assert!(strange > 0);
    // The first retry reads, then a probe and a READ come by turns: each may be what is lost.
    assert_eq!(system.switch().wire.repeated_reads, READS_LOST as u64);
}

/// Packets of the producer are no sign of life of the consumer.
#[test]
fn a_consumer_that_only_answers_polls_is_retried_ever_less_often_after_seven_retries() {
    const RETRIES: usize = 12;
    let reads = Rc::new(Cell::new(0));
    let mut system = System::new(SPEC);
    let counted = reads.clone();
    system.switch().filter = Box::new(move |_, kind| {
        counted.set(counted.get() + usize::from(kind == Kind::Read));
        matches!(kind, Kind::Write(_) | Kind::Commit) && counted.get() <= RETRIES
    });
    let mut times = Vec::new();
    system.run(|system| {
        if times.len() < reads.get() {
            times.push(system.net.now());
        }
    });
    let waits: Vec<u64> = times.windows(2).take(RETRIES - 1).map(|t| t[1] - t[0]).collect();
    let (first, later) = waits.split_at(7);
    let same = |w: &u64| (first[0] * 2 / 3..first[0] * 3 / 2).contains(w);
    assert!(first.iter().all(same), "{waits:?}");
    assert!(waits[6..].windows(2).all(|w| w[1] > w[0] * 3 / 2) && later.len() == 4, "{waits:?}");
}
