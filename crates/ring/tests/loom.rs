//! The model checker runs every order in which threads can meet in a ring's memory, with the reorderings
//! that the memory model allows:
//! `tests/loom/run`.
//!
//! Without the feature `loom` there is nothing here to run; the same scenarios run with real threads in
//! `ring_threads.rs`.
#![cfg(feature = "loom")]

use std::sync::Arc;

use loom::thread;
use zsr_ring::{AbortOrigin, Cancel, NullSwitch, PopError, PushError, Ring, RingSpec, Role};

/// All orders with at most `preemptions` involuntary switches between threads (blocking calls switch
/// voluntarily, without limit). Without a bound the waiting loops make the search endless.
fn check(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(scenario);
}

fn spec(items: u64) -> RingSpec {
    RingSpec::new(4, 4 * items).expect("powers of two")
}

fn item(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

/// Producer and consumer of one ring, with a wrap and both full and empty in between.
#[test]
fn loopback() {
    check(3, || {
        let (mut tx, mut rx) = Ring::loopback_from(spec(2), u32::MAX - 3).expect("memory");
        let pusher = thread::spawn(move || {
            for value in 0..3 {
                tx.push(&item(value)).expect("room comes");
            }
            tx.close();
        });
        let mut buffer = [0; 4];
        for value in 0..3 {
            rx.pop(&mut buffer).expect("items come");
            assert_eq!(buffer, item(value));
        }
        assert_eq!(rx.pop(&mut buffer), Err(PopError::Closed));
        pusher.join().expect("no panic");
    });
}

/// The zero-copy calls on both sides.
#[test]
fn loopback_in_place() {
    check(3, || {
        let (mut tx, mut rx) = Ring::loopback(spec(2)).expect("memory");
        let pusher = thread::spawn(move || {
            let mut next = 0;
            while next < 3 {
                let mut slots = tx.reserve_wait(3 - next as usize).expect("room comes");
                let count = slots.len();
                for index in 0..count {
                    slots.item(index).expect("reserved").copy_from_slice(&item(next));
                    next += 1;
                }
                slots.publish(count);
            }
            tx.close();
        });
        let mut next = 0;
        loop {
            match rx.wait() {
                Ok(view) => {
                    for got in &view {
                        assert_eq!(got, item(next));
                        next += 1;
                    }
                }
                Err(end) => {
                    assert_eq!(end, PopError::Closed);
                    break;
                }
            }
        }
        assert_eq!(next, 3);
        pusher.join().expect("no panic");
    });
}

/// A lagging tail must still be stored before the consumer waits, or both sides wait for ever.
#[test]
fn publish_lag_does_not_deadlock() {
    check(2, || {
        let (mut tx, mut rx) = Ring::loopback(spec(4)).expect("memory");
        rx.set_publish_lag(4);
        tx.try_push_slice(&[0; 16]).expect("empty");
        let pusher = thread::spawn(move || {
            tx.push(&item(4)).expect("room comes");
            tx.close();
        });
        let mut buffer = [0; 4];
        let mut count = 0;
        while rx.pop(&mut buffer).is_ok() {
            count += 1;
        }
        assert_eq!(count, 5);
        pusher.join().expect("no panic");
    });
}

/// Producer, switch and consumer, two rings of one item: every word changes hands and every slot is
/// used again. Each thread makes a bounded number of attempts; what is left is moved at the end.
#[test]
fn a_flow_of_three_threads() {
    check(2, || {
        let a = Ring::with_start(Role::Producer, spec(1), u32::MAX - 3, 1).expect("memory");
        let b = Ring::with_start(Role::Consumer, spec(1), 0, 1).expect("memory");
        let mut switch = NullSwitch::new(Arc::clone(&a), Arc::clone(&b), 7).expect("matching rings");
        let mut tx = a.attach_producer(Cancel::new()).expect("attach");
        let mut rx = b.attach_consumer(Cancel::new()).expect("attach");
        let pusher = thread::spawn(move || {
            let mut pushed = 0;
            for _ in 0..3 {
                match tx.try_push(&item(pushed)) {
                    Ok(()) => pushed += 1,
                    Err(error) => {
                        assert_eq!(error, PushError::Full);
                        thread::yield_now();
                    }
                }
            }
            tx.close();
            pushed
        });
        let mover = thread::spawn(move || {
            for _ in 0..3 {
                if switch.step(4) == 0 {
                    thread::yield_now();
                }
            }
            switch
        });
        let mut popped = 0;
        let mut buffer = [0; 4];
        for _ in 0..3 {
            match rx.try_pop(&mut buffer) {
                Ok(()) => {
                    assert_eq!(buffer, item(popped));
                    popped += 1;
                }
                Err(end) => {
                    assert!(matches!(end, PopError::Empty | PopError::Closed));
                    thread::yield_now();
                }
            }
        }
        let pushed = pusher.join().expect("no panic");
        let mut switch = mover.join().expect("no panic");
        loop {
            switch.step(4);
            match rx.try_pop(&mut buffer) {
                Ok(()) => {
                    assert_eq!(buffer, item(popped));
                    popped += 1;
                }
                Err(PopError::Empty) => {}
                Err(end) => {
                    assert_eq!(end, PopError::Closed);
                    break;
                }
            }
        }
        assert_eq!(popped, pushed);
    });
}

/// One side goes away: the other one ends, and never waits for ever.
#[test]
fn a_dropped_handle_ends_the_other_side() {
    check(3, || {
        let (mut tx, rx) = Ring::loopback(spec(1)).expect("memory");
        tx.try_push(&item(1)).expect("empty");
        let pusher = thread::spawn(move || tx.push(&item(2)));
        drop(rx);
        assert_eq!(pusher.join().expect("no panic"), Err(PushError::Aborted(AbortOrigin::Peer)));
    });
    check(3, || {
        let (mut tx, mut rx) = Ring::loopback(spec(1)).expect("memory");
        let popper = thread::spawn(move || {
            let mut buffer = [0; 4];
            rx.pop(&mut buffer).expect("pushed before the end");
            assert_eq!(buffer, item(1));
            rx.pop(&mut buffer)
        });
        tx.push(&item(1)).expect("empty");
        drop(tx);
        assert_eq!(popper.join().expect("no panic"), Err(PopError::Aborted(AbortOrigin::Peer)));
    });
}
