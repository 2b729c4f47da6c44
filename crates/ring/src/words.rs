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
pub(crate) use real::{Items, Word};

#[cfg(feature = "loom")]
pub(crate) use checked::{Items, Word};

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::abi;
use crate::memory::{Memory, Visibility};

/// The control words of a ring.
pub(crate) struct Control {
    pub(crate) head: Place,
    pub(crate) source: Place,
    pub(crate) tail: Place,
}

impl Control {
    pub(crate) fn new(memory: &Arc<dyn Memory>) -> Self {
        let copied = memory.visibility() == Visibility::Copied;
        let place = |offset| Place {
            near: Word::at(&**memory, offset),
            far: copied.then(|| (Arc::clone(memory), offset)),
        };
        Self {
            head: place(abi::HEAD_OFFSET),
            source: place(abi::SOURCE_OFFSET),
            tail: place(abi::TAIL_OFFSET),
        }
    }
}

/// A control word as the ring itself reads and writes it, wherever its memory is.
pub(crate) struct Place {
    near: Word,
    /// The memory, where processors do not reach it, and the word's offset.
    far: Option<(Arc<dyn Memory>, usize)>,
}

// SAFETY: atomics may be used from any thread, several at once; so may memory and its bus.
unsafe impl Sync for Place {}

impl Place {
    /// For handles, which memory has that processors reach.
    pub(crate) fn word(&self) -> &Word {
        &self.near
    }

    /// 0 if the memory is gone, which [`Memory::trouble`] says.
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        let Some((memory, offset)) = &self.far else { return self.near.load(order) };
        let mut word = [0; 8];
        match memory.bus().map(|bus| bus.read(*offset, &mut word)) {
            Some(Ok(())) => u64::from_ne_bytes(word),
            _ => 0,
        }
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        let Some((memory, offset)) = &self.far else { return self.near.store(value, order) };
        // Of memory that is gone nobody reads.
        let _ = memory.bus().map(|bus| bus.write(*offset, &value.to_ne_bytes()));
    }

    /// Sets bits of a word that nobody else writes at the time.
    pub(crate) fn set(&self, bits: u64) {
        match self.far {
            Some(_) => self.store(self.load(Ordering::Acquire) | bits, Ordering::Release),
            None => self.near.set(bits),
        }
    }
}

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
        /// The word at `offset`, a multiple of 8 within the control page.
        pub(crate) fn at(memory: &dyn Memory, offset: usize) -> Self {
            let reach = match memory.visibility() {
                Visibility::PostedWrites { combining } => Reach::Posted { combining },
                Visibility::Coherent | Visibility::Copied => Reach::Coherent,
            };
            // The control page lies inside every ring's memory, and the base is page-aligned.
            let at = memory.base().as_ptr().wrapping_add(offset).cast::<AtomicU64>();
            Self { at, reach }
        }

        #[inline]
        fn atomic(&self) -> &AtomicU64 {
            // SAFETY: points at an aligned, initialised word of memory that the holder keeps alive, and that this process reaches:
            // `Place` does not come here otherwise, and no handle is attached.
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

    /// The items of a ring, reached by offset.
    #[derive(Clone, Debug)]
    pub(crate) struct Items(*mut u8);

    // SAFETY: plain memory; the ring protocol says who may touch which bytes when.
    unsafe impl Send for Items {}
    // SAFETY: as above.
    unsafe impl Sync for Items {}

    impl Items {
        pub(crate) fn new(memory: &dyn Memory, _spec: RingSpec) -> Self {
            Self(memory.base().as_ptr().wrapping_add(abi::ITEMS_OFFSET))
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
        pub(crate) fn at(_memory: &dyn Memory, _offset: usize) -> Self {
            Self(Arc::new(AtomicU64::new(0)))
        }

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
