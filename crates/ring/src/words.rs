//! The two ways memory is touched: 8-byte atomic control words, and plain bytes of items.
//!
//! With the feature `loom` the words are loom's atomics and every access to an item is shown to loom, which
//! then finds each pair of accesses that the words do not order.

/// Copies an item of `len` bytes, a power of two. A call to the C library's memcpy, which lengths unknown
/// at compile time lead to, takes as long as pushing a small item; so small ones are moved in place.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub(crate) unsafe fn copy_item(from: *const u8, to: *mut u8, len: usize) {
    #[inline(always)]
    unsafe fn fixed<const N: usize>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's, for N bytes.
        unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) }
    }
    // SAFETY: the caller's; each arm copies `len` bytes.
    unsafe {
        match len {
            4 => fixed::<4>(from, to),
            8 => fixed::<8>(from, to),
            16 => fixed::<16>(from, to),
            32 => fixed::<32>(from, to),
            64 => fixed::<64>(from, to),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

#[cfg(not(feature = "loom"))]
pub(crate) use real::{Control, Items, Word};

#[cfg(feature = "loom")]
pub(crate) use checked::{Control, Items, Word};

#[cfg(not(feature = "loom"))]
mod real {
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::abi;
    use crate::memory::Memory;
    use crate::spec::RingSpec;

    /// One 8-byte control word. Whoever makes one keeps the memory alive (handles hold their ring).
    #[derive(Clone, Debug)]
    pub(crate) struct Word(*const AtomicU64);

    // SAFETY: an atomic may be used from any thread.
    unsafe impl Send for Word {}

    impl Word {
        #[inline]
        fn atomic(&self) -> &AtomicU64 {
            // SAFETY: points at an aligned, initialised word of memory that the holder keeps alive.
            unsafe { &*self.0 }
        }

        #[inline]
        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.atomic().load(order)
        }

        #[inline]
        pub(crate) fn store(&self, value: u64, order: Ordering) {
            self.atomic().store(value, order);
        }

        pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
            self.atomic().fetch_or(value, order)
        }
    }

    /// The control words of a ring.
    pub(crate) struct Control {
        pub(crate) head: Word,
        pub(crate) source: Word,
        pub(crate) tail: Word,
    }

    // SAFETY: atomics may be used from any thread, several at once.
    unsafe impl Sync for Control {}

    impl Control {
        pub(crate) fn new(memory: &dyn Memory) -> Self {
            let word = |offset: usize| {
                // SAFETY: the control page lies inside every ring's memory; offsets are multiples of 8
                // and the base is page-aligned.
                Word(unsafe { memory.base().as_ptr().add(offset) }.cast::<AtomicU64>())
            };
            Self {
                head: word(abi::HEAD_OFFSET),
                source: word(abi::SOURCE_OFFSET),
                tail: word(abi::TAIL_OFFSET),
            }
        }
    }

    /// The items of a ring, reached by offset.
    #[derive(Clone, Debug)]
    pub(crate) struct Items(*mut u8);

    // SAFETY: plain memory; the ring protocol says who may touch which bytes when.
    unsafe impl Send for Items {}
    // SAFETY: as above.
    unsafe impl Sync for Items {}

    impl Items {
        pub(crate) fn new(memory: &dyn Memory, _spec: RingSpec) -> Self {
            // SAFETY: the items begin inside the ring's memory.
            Self(unsafe { memory.base().as_ptr().add(abi::ITEMS_OFFSET) })
        }

        /// Where `len` bytes at `offset` may be read.
        ///
        /// # Safety
        /// `offset + len` must not exceed the ring's size.
        #[inline]
        pub(crate) unsafe fn read(&self, offset: u32, len: u32) -> *const u8 {
            let _ = len;
            // SAFETY: in bounds by contract.
            unsafe { self.0.add(offset as usize) }
        }

        /// Where `len` bytes at `offset` may be written.
        ///
        /// # Safety
        /// `offset + len` must not exceed the ring's size.
        #[inline]
        pub(crate) unsafe fn write(&self, offset: u32, len: u32) -> *mut u8 {
            let _ = len;
            // SAFETY: in bounds by contract.
            unsafe { self.0.add(offset as usize) }
        }
    }
}

#[cfg(feature = "loom")]
mod checked {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU64;

    use crate::abi;
    use crate::memory::Memory;
    use crate::spec::RingSpec;

    #[derive(Clone, Debug)]
    pub(crate) struct Word(Arc<AtomicU64>);

    impl Word {
        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            self.0.store(value, order);
        }

        pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_or(value, order)
        }
    }

    pub(crate) struct Control {
        pub(crate) head: Word,
        pub(crate) source: Word,
        pub(crate) tail: Word,
    }

    impl Control {
        pub(crate) fn new(_memory: &dyn Memory) -> Self {
            let word = || Word(Arc::new(AtomicU64::new(0)));
            Self { head: word(), source: word(), tail: word() }
        }
    }

    /// One cell per item; touching it is what loom checks, the bytes themselves are elsewhere.
    #[derive(Clone, Debug)]
    pub(crate) struct Items {
        base: *mut u8,
        item: u32,
        cells: Arc<Vec<UnsafeCell<()>>>,
    }

    unsafe impl Send for Items {}
    unsafe impl Sync for Items {}

    impl Items {
        pub(crate) fn new(memory: &dyn Memory, spec: RingSpec) -> Self {
            let cells = (0..spec.capacity()).map(|_| UnsafeCell::new(())).collect();
            Self {
                base: unsafe { memory.base().as_ptr().add(abi::ITEMS_OFFSET) },
                item: spec.item_size(),
                cells: Arc::new(cells),
            }
        }

        pub(crate) unsafe fn read(&self, offset: u32, len: u32) -> *const u8 {
            for cell in self.touched(offset, len) {
                cell.with(|_| ());
            }
            unsafe { self.base.add(offset as usize) }
        }

        pub(crate) unsafe fn write(&self, offset: u32, len: u32) -> *mut u8 {
            for cell in self.touched(offset, len) {
                cell.with_mut(|_| ());
            }
            unsafe { self.base.add(offset as usize) }
        }

        fn touched(&self, offset: u32, len: u32) -> &[UnsafeCell<()>] {
            let first = (offset / self.item) as usize;
            &self.cells[first..first + (len / self.item) as usize]
        }
    }
}
