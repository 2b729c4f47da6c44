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
    use crate::memory::{Memory, Visibility, fence, load_fence};
    use crate::spec::RingSpec;

    /// One 8-byte control word. Whoever makes one keeps the memory alive (handles hold their ring).
    #[derive(Clone, Debug)]
    pub(crate) struct Word {
        at: *const AtomicU64,
        reach: Reach,
    }

    /// What [`Visibility`] asks of who reads and writes words.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Reach {
        Coherent,
        /// A device's window, with gathered stores or without.
        Posted {
            combining: bool,
        },
    }

    impl Reach {
        #[inline(always)]
        fn combining(self) -> bool {
            self == Reach::Posted { combining: true }
        }
    }

    // SAFETY: an atomic may be used from any thread.
    unsafe impl Send for Word {}

    impl Word {
        #[inline]
        fn atomic(&self) -> &AtomicU64 {
            // SAFETY: points at an aligned, initialised word of memory that the holder keeps alive.
            unsafe { &*self.at }
        }

        #[inline]
        pub(crate) fn load(&self, order: Ordering) -> u64 {
            let value = self.atomic().load(order);
            load_fence(self.reach.combining());
            value
        }

        #[inline]
        pub(crate) fn store(&self, value: u64, order: Ordering) {
            fence(self.reach.combining());
            self.atomic().store(value, order);
            fence(self.reach.combining());
        }

        /// Whether [`store_coherent`](Self::store_coherent) does.
        pub(crate) fn is_coherent(&self) -> bool {
            self.reach == Reach::Coherent
        }

        /// A release store, to coherent memory.
        #[inline]
        pub(crate) fn store_coherent(&self, value: u64) {
            self.atomic().store(value, Ordering::Release);
        }

        /// Sets bits of a word that nobody else writes at the time.
        pub(crate) fn set(&self, bits: u64) {
            if self.reach == Reach::Coherent {
                self.atomic().fetch_or(bits, Ordering::AcqRel);
            } else {
                self.store(self.load(Ordering::Acquire) | bits, Ordering::Release);
            }
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
            let reach = match memory.visibility() {
                Visibility::PostedWrites { combining } => Reach::Posted { combining },
                Visibility::Coherent | Visibility::SystemFence => Reach::Coherent,
            };
            let word = |offset: usize| {
                // SAFETY: the control page lies inside every ring's memory; offsets are multiples of 8
                // and the base is page-aligned.
                let at = unsafe { memory.base().as_ptr().add(offset) }.cast::<AtomicU64>();
                Word { at, reach }
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

        pub(crate) fn is_coherent(&self) -> bool {
            true
        }

        pub(crate) fn store_coherent(&self, value: u64) {
            self.0.store(value, Ordering::Release);
        }

        pub(crate) fn set(&self, bits: u64) {
            self.0.fetch_or(bits, Ordering::AcqRel);
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
