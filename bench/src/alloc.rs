//! An allocator that counts, for benchmarks that say how often a packet allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting calls of the calling thread. A binary makes it its `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

/// Allocations and reallocations of the calling thread so far; 0 for ever unless [`Counting`] is the allocator.
pub fn allocations() -> u64 {
    COUNT.get()
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
