//! The handle: calls from other threads, in order, with answers; a switch that stops answers nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::Bench;
use zsr_soft_switch::*;

#[test]
fn calls_run_on_the_owner_in_order() {
    let mut b = Bench::new("tables");
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let (handle, queue) = control_queue(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    assert_eq!(queue.drain(&mut b.switch), 0);
    let first = handle.call(|s| s.multicast_group_insert(1, vec![]));
    let second = handle.call(|s| s.multicast_group_insert(1, vec![]));
    assert_eq!(queue.drain(&mut b.switch), 2);
    assert_eq!(first.wait(), Ok(Ok(())));
    assert_eq!(second.wait(), Ok(Err(ControlError::Duplicate { kind: "multicast group" })));
    assert_eq!(woken.load(Ordering::SeqCst), 2);
}

#[test]
fn blocking_calls_meet_a_polling_owner() {
    let mut b = Bench::new("tables");
    let (handle, queue) = control_queue(|| ());
    let callers: Vec<_> = (0..4u32)
        .map(|n| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                for i in 0..50 {
                    handle
                        .call_blocking(move |s| s.multicast_group_insert(1 + n * 50 + i, vec![]))
                        .unwrap()
                        .unwrap();
                }
            })
        })
        .collect();
    let mut served = 0;
    while served < 200 {
        served += queue.drain(&mut b.switch);
        std::thread::yield_now();
    }
    callers.into_iter().for_each(|c| c.join().unwrap());
    assert_eq!(b.switch.multicast_groups().len(), 200);
}

#[test]
fn a_stopped_switch_says_so() {
    let (handle, queue) = control_queue(|| ());
    let waiting = handle.call(|s| s.stats());
    drop(queue);
    assert_eq!(waiting.wait(), Err(SwitchStopped));
    assert_eq!(handle.call_blocking(|s| s.stats()), Err(SwitchStopped));
}

#[test]
fn switches_and_handles_cross_threads() {
    fn movable<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    movable::<Switch>();
    movable::<ControlQueue>();
    shared::<SwitchHandle>();
    shared::<Program>();
}
