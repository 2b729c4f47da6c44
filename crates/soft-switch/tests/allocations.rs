//! Once warm, a packet costs no allocation: neither on the straight way nor with clones, multicast, resubmission,
//! recirculation or truncation.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use support::{Bench, transport};
use zsr_soft_switch::*;
use zsr_wire::frame::FramePool;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: the caller's obligations are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: the caller's obligations are passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the last of several rounds over the frames, and the frames that came out of it.
fn allocations(b: &mut Bench, frames: &[Vec<u8>]) -> (u64, usize) {
    // Machine code that is ready only now would begin to run in the middle, and finds out where the tables lie.
    b.switch.program().is_native();
    b.pool = FramePool::with_frames(32);
    let mut out = Vec::with_capacity(64);
    let (mut counted, mut sent) = (0, 0);
    for _ in 0..4 {
        let start = COUNT.with(Cell::get);
        sent = 0;
        for f in frames {
            let mut frame = b.pool.take();
            assert!(frame.append(f));
            b.now += 1000;
            b.switch.process(b.now, 1, frame, &mut b.pool, &mut out);
            for (_, f) in out.drain(..) {
                sent += 1;
                b.pool.put(f);
            }
        }
        counted = COUNT.with(Cell::get) - start;
    }
    (counted, sent)
}

#[test]
fn a_transport_rewrite_allocates_nothing() {
    let mut b = Bench::new("transport");
    transport::fill(&mut b.switch);
    let frames: Vec<Vec<u8>> = (0..100).map(|c| transport::packet(1024, c)).collect();
    assert_eq!(allocations(&mut b, &frames), (0, 100));
}

#[test]
fn copies_and_further_passes_allocate_nothing() {
    let mut b = Bench::new("copies");
    let replicas: Vec<Replica> = (1..6).map(|port| Replica { port, instance: port }).collect();
    for s in [5, 6] {
        let session = CloneSession { replicas: replicas[..2].to_vec(), ..CloneSession::default() };
        b.switch.clone_session_insert(s, session).unwrap();
    }
    b.switch.multicast_group_insert(3, replicas).unwrap();
    let frame = |op: u8| [&[op, 4, 0, 3, 0, 0, 0, 1][..], &[0; 500]].concat();
    // Forward, drop, both clones, resubmit, recirculate three times, multicast, truncate, meter, register, random.
    let ops = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12];
    let frames: Vec<Vec<u8>> = ops.into_iter().map(frame).collect();
    assert_eq!(allocations(&mut b, &frames), (0, 18));
}

#[test]
fn parsing_every_header_allocates_nothing() {
    let mut b = Bench::new("headers");
    let mut frames =
        vec![vec![1, 1, 0, 0, 0, 0, 1, 5], vec![2, 0, 0, 0, 3, 1, 2, 3], vec![3, 1, 0, 0, 0x0a, 1, 2]];
    frames.push([&[4, 0, 0, 0][..], &[0xff; 28]].concat());
    frames.extend([vec![8, 0, 0, 0, 1, 2], vec![9, 0, 0, 0, 1, 2], vec![1, 0], vec![]]);
    assert_eq!(allocations(&mut b, &frames), (0, 8));
}
