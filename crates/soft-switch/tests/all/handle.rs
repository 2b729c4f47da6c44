//! The handle: calls from other threads, in order, with answers; a switch that stops answers nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::support::Bench;
use zsr_link::{LoopConfig, Node, PortLoop, Waker};
use zsr_soft_switch::*;
use zsr_wire::frame::Frame;

#[test]
fn calls_run_on_the_owner_in_order() {
    let mut b = Bench::new("tables");
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let (handle, queue) = control_queue(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    assert_eq!(queue.drain(&mut b.switch, 0), 0);
    let first = handle.call(|s| s.multicast_group_insert(1, vec![]));
    let second = handle.call(|s| s.multicast_group_insert(1, vec![]));
    assert_eq!(queue.drain(&mut b.switch, 0), 2);
    assert_eq!(first.wait(), Ok(Ok(())));
    assert_eq!(second.wait(), Ok(Err(ControlError::Duplicate { kind: "multicast group" })));
    assert_eq!(woken.load(Ordering::SeqCst), 2);
}

#[test]
fn calls_that_come_meanwhile_wait_for_the_next_time() {
    let mut b = Bench::new("tables");
    let (handle, queue) = control_queue(|| ());
    let again = handle.clone();
    let times = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (first, second) = (times.clone(), times.clone());
    handle.call(move |s| {
        first.lock().unwrap().push(s.now_ns());
        again.call(move |s| second.lock().unwrap().push(s.now_ns()));
    });
    assert_eq!((queue.drain(&mut b.switch, 5), queue.drain(&mut b.switch, 9)), (1, 1));
    assert_eq!(*times.lock().unwrap(), [5, 9]);
    handle.call(|_| ());
    queue.drain(&mut b.switch, 7);
    assert_eq!(b.switch.now_ns(), 9, "time does not go back");
}

const MS: u64 = 1_000_000;

/// The event that restarts an entry's idle time.
#[derive(Clone, Copy, Debug)]
enum Touch {
    Insert,
    Modify,
    Hit,
}

/// The time at which an entry of `tables` that times out after 1.5 s is told to be idle, if it is last touched 4 s
/// after the switch began. `busy` says that other packets come all the time. Also checks what is read of it a second
/// later.
fn told(touch: Touch, busy: bool) -> u64 {
    let mut b = Bench::new("tables");
    let told = b.switch.notifications(16);
    let table = b.switch.info().table("I.t_exact").unwrap();
    let action = b.switch.info().table_action(table, "I.set_exact").unwrap();
    let exact = |v: u8| MatchField::Exact(vec![v]);
    let entry = TableEntry {
        key: vec![exact(1), exact(1)],
        priority: 0,
        action: EntryAction::Call(ActionCall { action, params: vec![vec![1]] }),
        idle_timeout_ns: 1500 * MS,
        metadata: Vec::new(),
    };
    let (handle, queue) = control_queue(|| ());
    let mut node = SwitchNode::new(b.switch, queue);
    let (mut out, mut since) = (Vec::new(), None);
    for now in (0..10_000).map(|ms| ms * MS) {
        let (start, touched) = (entry.clone(), entry.clone());
        match (touch, now / MS) {
            (Touch::Insert, 4000) | (Touch::Modify | Touch::Hit, 3000) => {
                drop(handle.call(move |s| s.table_insert(table, start).unwrap()))
            }
            (Touch::Modify, 4000) => drop(handle.call(move |s| s.table_modify(table, touched).unwrap())),
            (_, 5000) => {
                let idle = move |s: &mut Switch| s.entry_idle_ns(table, &touched.key, 0, s.now_ns()).unwrap();
                since = Some(handle.call(idle));
            }
            _ => {}
        }
        let hit = matches!((touch, now / MS), (Touch::Hit, 4000));
        if hit || busy && (now / MS).is_multiple_of(7) {
            // The two keys, with 16 bits of another between them.
            let mut bytes = [0; 23];
            (bytes[3], bytes[6]) = (u8::from(hit), u8::from(hit));
            node.handle(now, 1, Frame::copy_from(&bytes).unwrap(), &mut b.pool, &mut out);
        }
        node.work(now, &mut b.pool, &mut out);
        out.drain(..).for_each(|(_, frame)| b.pool.put(frame));
        if let Ok(Notification::IdleTimeout { entries, timestamp_ns, .. }) = told.try_recv() {
            assert_eq!((entries, timestamp_ns), (vec![entry], now));
            assert_eq!(since.expect("it was asked before").wait(), Ok(1000 * MS));
            return now;
        }
    }
    panic!("{touch:?}: it is not told");
}

#[test]
fn idle_entries_are_told_in_time_with_and_without_packets() {
    let sweep = SwitchConfig::default().idle_sweep_ns;
    for touch in [Touch::Insert, Touch::Modify, Touch::Hit] {
        for busy in [false, true] {
            let late = told(touch, busy).checked_sub(5500 * MS);
            assert!(late.is_some_and(|late| late <= sweep), "{touch:?}, busy: {busy}: {late:?}");
        }
    }
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
        served += queue.drain(&mut b.switch, 0);
        std::thread::yield_now();
    }
    callers.into_iter().for_each(|c| c.join().unwrap());
    assert_eq!(b.switch.multicast_groups().len(), 200);
}

/// A node with the program `tables`, its handle, and how often it was woken.
fn asked() -> (SwitchNode, SwitchHandle, Arc<AtomicUsize>, Bench) {
    let mut b = Bench::new("tables");
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let (handle, queue) = control_queue(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let switch = std::mem::replace(&mut b.switch, Bench::new("tables").switch);
    (SwitchNode::new(switch, queue), handle, woken, b)
}

#[test]
fn while_the_owner_sleeps_callers_use_the_switch_themselves() {
    let (mut node, handle, woken, mut b) = asked();
    let start = Instant::now();
    let group = |s: &mut Switch| s.multicast_group_insert(1, vec![]);
    // It looks for idle entries; the next look is far off.
    node.work(0, &mut b.pool, &mut Vec::new());
    let due = node.next_due();
    assert!(due > Some(MS));
    node.falls_asleep(start, due);
    let me = std::thread::current().id();
    let (by, now) = handle.call_blocking(|s| (std::thread::current().id(), s.now_ns())).unwrap();
    assert_eq!(by, me);
    assert!(now <= start.elapsed().as_nanos() as u64);
    assert_eq!(handle.call_blocking(group), Ok(Ok(())));
    assert!(handle.call_blocking(|s| s.now_ns()).unwrap() > now, "the switch is told the time");
    assert_eq!(woken.load(Ordering::SeqCst), 0, "nothing is to do for the owner");

    // A packet-out has to leave, so the owner is woken. Until it is awake other calls wait, too.
    handle.call_blocking(|s| s.queue_packet_out(&[0; 23])).unwrap().unwrap();
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    let again = handle.call(group);
    node.wakes_up();
    assert_eq!(node.next_due(), Some(0));
    let mut out = Vec::new();
    assert!(node.work(start.elapsed().as_nanos() as u64, &mut b.pool, &mut out) >= 2);
    assert_eq!(again.wait(), Ok(Err(ControlError::Duplicate { kind: "multicast group" })));
}

#[test]
fn who_does_not_block_leaves_calls_to_the_owner() {
    let (mut node, handle, woken, mut b) = asked();
    node.falls_asleep(Instant::now(), None);
    let by = handle.call(|_| std::thread::current().id());
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    let owner = std::thread::spawn(move || {
        node.wakes_up();
        node.work(0, &mut b.pool, &mut Vec::new());
        std::thread::current().id()
    });
    assert_eq!(by.wait(), Ok(owner.join().unwrap()));
}

#[test]
fn calls_from_before_the_sleep_come_first() {
    let (mut node, handle, woken, mut b) = asked();
    let first = handle.call(|s| s.multicast_groups().len());
    node.falls_asleep(Instant::now(), None);
    let caller = handle.clone();
    let second = std::thread::spawn(move || caller.call_blocking(|s| s.multicast_group_insert(1, vec![])));
    while woken.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    node.wakes_up();
    node.work(0, &mut b.pool, &mut Vec::new());
    assert_eq!((first.wait(), second.join().unwrap()), (Ok(0), Ok(Ok(()))));
}

#[test]
fn a_call_that_panics_ends_the_switch() {
    let (mut node, handle, woken, _) = asked();
    node.falls_asleep(Instant::now(), None);
    let caller = handle.clone();
    std::thread::spawn(move || caller.call_blocking(|_| panic!("on purpose"))).join().map(drop).unwrap_err();
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    let waiting = handle.call(|s| s.now_ns());
    std::thread::spawn(move || node.wakes_up()).join().unwrap_err();
    assert_eq!(waiting.wait(), Err(SwitchStopped));
}

#[test]
fn callers_and_a_loop_take_turns() {
    let waker = Waker::new().unwrap();
    let wake = waker.clone();
    let (handle, queue) = control_queue(move || wake.wake());
    let node = SwitchNode::new(Bench::new("tables").switch, queue);
    let thread = PortLoop::new(node, &waker, LoopConfig::default()).unwrap().spawn("switch").unwrap();
    let callers: Vec<_> = (0..4u32)
        .map(|n| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                for i in 0..500 {
                    let id = 1 + n * 500 + i;
                    handle.call_blocking(move |s| s.multicast_group_insert(id, vec![])).unwrap().unwrap();
                    // Each packet-out ends the sleep.
                    handle.call_blocking(|s| s.queue_packet_out(&[0; 23])).unwrap().unwrap();
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|c| c.join().unwrap());
    assert_eq!(handle.call_blocking(|s| s.multicast_groups().len()), Ok(2000));
    drop(thread.stop());
    assert_eq!(handle.call_blocking(|s| s.stats()), Err(SwitchStopped));
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
