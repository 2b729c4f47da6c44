//! The packet path allocates nothing once queues and pool have their size.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{Pair, SIZE};
use zsr_soft_nic::{Mtu, Operation, Status};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_allocation_per_packet() {
    let mut p = Pair::new(Mtu::Mtu1024, |_, _| {});
    let round = |p: &mut Pair, n: &mut u32| {
        for (id, operation, len) in [
            (1, Operation::Write, SIZE as u32),
            (2, Operation::Read, SIZE as u32),
            (3, Operation::Write, 16),
            (4, Operation::Read, 8),
        ] {
            p.a.nic.post_send(p.a.qpn, p.work(id, operation, 0, 0, len)).unwrap();
        }
        // Every 41st packet is lost, so that NAKs, timers, duplicates and kept packets are on the path as well.
        p.run(
            |_| {
                *n += 1;
                n.is_multiple_of(41)
            },
            100,
        );
        for id in 1..=4 {
            let done = p.a.nic.poll_completion().unwrap();
            assert_eq!((done.wr_id, done.status), (id, Status::Success));
        }
    };
    let mut n = 0;
    // Until more is kept behind missing packets than there is room for at first.
    for _ in 0..20 {
        round(&mut p, &mut n);
    }
    let before = COUNT.with(Cell::get);
    assert!(before > 0, "the allocator counts");
    for _ in 0..100 {
        round(&mut p, &mut n);
    }
    let (stats, kept) = (*p.a.nic.stats(), p.b.nic.stats().kept);
    assert!(
        stats.retries > 50 && stats.timeouts > 0 && kept > 100 && stats.tx_frames + stats.rx_frames > 10_000,
        "{stats:?}, {kept} kept"
    );
    assert_eq!(COUNT.with(Cell::get) - before, 0);
}
