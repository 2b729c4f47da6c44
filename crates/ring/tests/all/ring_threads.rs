//! Rings between threads: blocking calls, a switch in the middle, ends of all kinds.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use zsr_ring::{
    AbortOrigin, AttachError, Cancel, NullSwitch, NullSwitchError, PopError, PushError, Ring, RingSpec,
    RingStats, Role,
};

fn spec(item: u64, ring: u64) -> RingSpec {
    RingSpec::new(item, ring).expect("powers of two")
}

#[test]
fn a_flow_with_a_tiny_ring_delivers_everything_in_order() {
    const ITEMS: u64 = 20_000;
    let a = Ring::with_start(Role::Producer, spec(8, 64), u32::MAX - 4000, 1).expect("memory");
    let b = Ring::with_start(Role::Consumer, spec(8, 128), 1 << 31, 1).expect("memory");
    let mut switch = NullSwitch::new(Arc::clone(&a), Arc::clone(&b), 5).expect("matching rings");
    let mut tx = a.attach_producer(Cancel::new()).expect("attach");
    let mut rx = b.attach_consumer(Cancel::new()).expect("attach");
    thread::scope(|scope| {
        scope.spawn(move || {
            for value in 0..ITEMS {
                tx.push(&value.to_le_bytes()).expect("room comes");
            }
            tx.close();
        });
        scope.spawn(move || {
            while !switch.is_closed() {
                if switch.step(u32::MAX) == 0 {
                    thread::yield_now();
                }
            }
        });
        for value in 0..ITEMS {
            let mut item = [0; 8];
            rx.pop(&mut item).expect("it comes");
            assert_eq!(item, value.to_le_bytes());
        }
        assert_eq!(rx.pop(&mut [0; 8]), Err(PopError::Closed));
    });
    assert_eq!(a.push_stats().items, ITEMS);
    assert_eq!(b.snapshot().producer_id, 5);
    assert_eq!(b.snapshot().producer_tail, a.snapshot().head.counter);
    assert_eq!(RingStats::COMMUNICATION_OPERATIONS, 0);
}

#[test]
fn bulk_calls_between_threads_wait_and_deliver() {
    const ITEMS: usize = 50_000;
    let (mut tx, mut rx) = Ring::loopback(spec(16, 4096)).expect("memory");
    let data: Vec<u8> = (0..ITEMS).flat_map(|i| (i as u128).to_le_bytes()).collect();
    thread::scope(|scope| {
        let data = &data;
        scope.spawn(move || {
            let (first, rest) = data.split_at(data.len() / 2);
            tx.push_slice(first).expect("room comes");
            let mut rest = rest;
            while !rest.is_empty() {
                let mut slots = tx.reserve_wait(rest.len() / 16).expect("room comes");
                let bytes = slots.bytes().len();
                slots.bytes().copy_from_slice(&rest[..bytes]);
                slots.publish(usize::MAX);
                rest = &rest[bytes..];
            }
            tx.wait_drained().expect("taken in the end");
            tx.close();
        });
        let mut at = 0;
        loop {
            match rx.wait() {
                Ok(view) => {
                    assert_eq!(view.bytes(), &data[at..at + view.bytes().len()]);
                    at += view.bytes().len();
                }
                Err(end) => {
                    assert_eq!(end, PopError::Closed);
                    break;
                }
            }
        }
        assert_eq!(at, data.len());
    });
}

#[test]
fn cancel_ends_blocked_calls_on_both_sides() {
    let cancel = Cancel::new();
    let a = Ring::allocate(Role::Producer, spec(4, 4)).expect("memory");
    let b = Ring::allocate(Role::Consumer, spec(4, 4)).expect("memory");
    let mut tx = a.attach_producer(cancel.clone()).expect("attach");
    let mut rx = b.attach_consumer(cancel.clone()).expect("attach");
    tx.try_push(&[1; 4]).expect("one fits");
    thread::scope(|scope| {
        let push = scope.spawn(move || tx.push(&[2; 4]));
        let pop = scope.spawn(move || rx.pop(&mut [0; 4]));
        cancel.cancel();
        assert_eq!(push.join().expect("no panic"), Err(PushError::Cancelled));
        assert_eq!(pop.join().expect("no panic"), Err(PopError::Cancelled));
    });
}

#[test]
fn timed_calls_time_out_and_leave_the_ring_alone() {
    let (mut tx, mut rx) = Ring::loopback(spec(4, 8)).expect("memory");
    let mut buffer = [0; 4];
    let time = Duration::from_millis(1);
    assert_eq!(rx.pop_timeout(&mut buffer, time), Err(PopError::TimedOut));
    assert!(matches!(rx.wait_timeout(time), Err(PopError::TimedOut)));
    tx.push_timeout(&[1; 4], time).expect("room");
    tx.push_timeout(&[2; 4], time).expect("room");
    assert_eq!(tx.push_timeout(&[3; 4], time), Err(PushError::TimedOut));
    assert_eq!(tx.stats().blocked, 1, "one wait is one event");
    assert_eq!(rx.wait_timeout(time).expect("two").len(), 2);
    assert_eq!(rx.pop_timeout(&mut buffer, Duration::MAX.min(time)), Err(PopError::TimedOut));
}

#[test]
fn an_aborted_ring_delivers_what_it_has_and_then_says_who() {
    let b = Ring::allocate(Role::Consumer, spec(4, 16)).expect("memory");
    let a = Ring::allocate(Role::Producer, spec(4, 16)).expect("memory");
    let mut switch = NullSwitch::new(Arc::clone(&a), Arc::clone(&b), 0).expect("matching rings");
    let mut tx = a.attach_producer(Cancel::new()).expect("attach");
    let mut rx = b.attach_consumer(Cancel::new()).expect("attach");
    tx.try_push(&[7; 4]).expect("room");
    assert_eq!(switch.step(1), 4);
    b.abort("flow f: 3 retries without an answer");
    b.abort("second thoughts");
    a.abort("flow f: 3 retries without an answer");
    let mut buffer = [0; 4];
    assert_eq!(rx.try_pop(&mut buffer), Ok(()));
    assert_eq!(buffer, [7; 4]);
    assert_eq!(rx.pop(&mut buffer), Err(PopError::Aborted(AbortOrigin::Agent)));
    assert_eq!(b.abort_reason(), Some("flow f: 3 retries without an answer"));
    assert!(b.snapshot().head.flags.aborted() && a.snapshot().tail.flags.aborted());
    while let Ok(()) = tx.try_push(&[8; 4]) {}
    assert_eq!(tx.push(&[8; 4]), Err(PushError::Aborted(AbortOrigin::Agent)));
    drop(tx);
    assert!(matches!(a.attach_producer(Cancel::new()), Err(AttachError::Aborted)));
}

#[test]
fn an_abort_reaches_a_caller_who_is_already_blocked() {
    let b = Ring::allocate(Role::Consumer, spec(4, 16)).expect("memory");
    let mut rx = b.attach_consumer(Cancel::new()).expect("attach");
    thread::scope(|scope| {
        let blocked = scope.spawn(move || rx.pop(&mut [0; 4]));
        b.abort("gone");
        assert_eq!(blocked.join().expect("no panic"), Err(PopError::Aborted(AbortOrigin::Agent)));
    });
}

#[test]
fn a_handle_dropped_in_the_middle_aborts_its_peer() {
    let (mut tx, mut rx) = Ring::loopback(spec(4, 16)).expect("memory");
    tx.try_push(&[1; 4]).expect("room");
    drop(tx);
    assert_eq!(rx.pop(&mut [0; 4]), Ok(()));
    assert_eq!(rx.pop(&mut [0; 4]), Err(PopError::Aborted(AbortOrigin::Peer)));
    let (mut tx, rx) = Ring::loopback(spec(4, 4)).expect("memory");
    drop(rx);
    assert_eq!(tx.push(&[0; 4]), Err(PushError::Aborted(AbortOrigin::Peer)));
}

#[test]
fn a_view_dropped_by_a_panic_pops_nothing() {
    let (mut tx, mut rx) = Ring::loopback(spec(4, 16)).expect("memory");
    tx.try_push(&[1; 4]).expect("room");
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let view = rx.peek().expect("an item");
        assert_eq!(view.len(), 2, "a panic while the view is open");
    }));
    assert!(outcome.is_err());
    assert_eq!(rx.peek().expect("still there").bytes(), [1; 4]);
}

#[test]
fn data_of_the_wrong_length_is_refused_with_both_sizes() {
    let (mut tx, mut rx) = Ring::loopback(spec(8, 64)).expect("memory");
    assert_eq!(tx.try_push(&[0; 7]), Err(PushError::ItemSize { item: 8, got: 7 }));
    assert_eq!(tx.try_push_slice(&[0; 12]), Err(PushError::ItemSize { item: 8, got: 12 }));
    assert_eq!(rx.try_pop(&mut [0; 9]), Err(PopError::ItemSize { item: 8, got: 9 }));
    assert_eq!(rx.try_pop_slice(&mut [0; 4]), Err(PopError::ItemSize { item: 8, got: 4 }));
}

#[test]
fn words_that_no_switch_writes_are_reported_and_never_followed() {
    // A consumer's ring whose head runs beyond the ring, or stops inside an item.
    for counter in [3u32, 20, 1 << 31, u32::MAX] {
        let b = Ring::allocate(Role::Consumer, spec(4, 16)).expect("memory");
        let mut rx = b.attach_consumer(Cancel::new()).expect("attach");
        poke(&b, 0, counter);
        assert_eq!(rx.try_pop(&mut [0; 4]), Err(PopError::Corrupt { head: counter, tail: 0 }));
    }
    // A producer's tail that is ahead of its head, inside an item, or goes back.
    for counter in [1u32, 8, 1 << 31, u32::MAX] {
        let a = Ring::allocate(Role::Producer, spec(4, 16)).expect("memory");
        let mut tx = a.attach_producer(Cancel::new()).expect("attach");
        poke(&a, 64, counter);
        assert_eq!(tx.try_push(&[0; 4]), Err(PushError::Corrupt { head: 0, tail: counter }));
    }
    let a = Ring::with_start(Role::Producer, spec(4, 16), 64, 0).expect("memory");
    let mut tx = a.attach_producer(Cancel::new()).expect("attach");
    assert_eq!(tx.try_push_slice(&[0; 64]), Ok(4));
    poke(&a, 64, 80);
    assert_eq!(tx.free_items(), Ok(4));
    poke(&a, 64, 76);
    assert_eq!(tx.free_items(), Err(PushError::Corrupt { head: 80, tail: 76 }));
}

/// Writes a counter as a remote NIC would.
fn poke(ring: &Ring, offset: usize, counter: u32) {
    // SAFETY: inside the control page; no other thread is there.
    unsafe { ring.memory().base().as_ptr().add(offset).cast::<u32>().write_volatile(counter) };
}

#[test]
fn roles_are_kept_apart() {
    let a = Ring::allocate(Role::Producer, spec(4, 16)).expect("memory");
    let b = Ring::allocate(Role::Consumer, spec(8, 16)).expect("memory");
    assert!(matches!(a.attach_consumer(Cancel::new()), Err(AttachError::WrongRole { .. })));
    assert!(matches!(b.attach_producer(Cancel::new()), Err(AttachError::WrongRole { .. })));
    let join = |x: &Arc<Ring>, y: &Arc<Ring>| NullSwitch::new(Arc::clone(x), Arc::clone(y), 0).err();
    assert_eq!(join(&a, &b), Some(NullSwitchError::ItemSize { producer: 4, consumer: 8 }));
    assert_eq!(join(&b, &b), Some(NullSwitchError::NoProducer(Role::Consumer)));
    assert_eq!(join(&a, &a), Some(NullSwitchError::NoConsumer(Role::Producer)));
    a.attach_producer(Cancel::new()).expect("attach").close();
    assert!(matches!(a.attach_producer(Cancel::new()), Err(AttachError::Closed)));
}

/// A program may have written into the word of its own side; whoever comes next would read and write beyond the ring.
#[test]
fn nobody_goes_on_from_a_word_that_is_no_multiple_of_items() {
    use zsr_wire::ring::{CONSUMER_TAIL, PRODUCER_HEAD};
    for (role, word, name) in
        [(Role::Producer, PRODUCER_HEAD, "head"), (Role::Consumer, CONSUMER_TAIL, "tail")]
    {
        let ring = Ring::allocate(role, spec(64, 1024)).expect("memory");
        let attach = || match role {
            Role::Consumer => ring.attach_consumer(Cancel::new()).map(drop),
            _ => ring.attach_producer(Cancel::new()).map(zsr_ring::Producer::detach),
        };
        let write = |counter: u32| {
            // SAFETY: a word of the control page, to which nobody holds references.
            unsafe { ring.memory().base().as_ptr().add(word as usize).cast::<u32>().write_volatile(counter) };
        };
        write(1023);
        let wrong = AttachError::Corrupt { word: name, counter: 1023, item: 64 };
        assert_eq!(attach(), Err(wrong));
        assert!(wrong.to_string().contains("1023 is not a multiple"), "{wrong}");
        assert_eq!(ring.lease().map(drop), Err(wrong), "nor does a program elsewhere");
        write(64);
        assert_eq!(attach(), Ok(()), "the side is free again");
    }
}
