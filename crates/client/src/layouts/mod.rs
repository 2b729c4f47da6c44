//! Layouts: records leave from where a program keeps them, and come to where another wants them, without a copy and without a post.
//!
//! A program [allocates](Registered::allocate) the memory in which its columns, pages or rows lie, and registers it when it attaches
//! ([`Options::registered`](crate::Options)). For each item it then says which of these bytes make the records
//! ([`FlowProducer::lay_out`](crate::FlowProducer::lay_out)). That is a description of some 100 bytes, whatever the number of records.
//! The NIC gathers the records when the switch READs the item. Consumers see records as any other, or place layouts, too: a
//! [`LayoutConsumer`] says where the records of each item go, and its NIC scatters them.
//!
//! The rings have to be in memory of the kind `layouts`: `memory: layouts` of a host or member in the topology. The soft NIC follows
//! layouts. RDMA devices need indirect memory keys, which agents don't make yet. docs/layouts.md has more.
//!
//! ```no_run
//! use zsr::layouts::{At, Column, Layout, Registered, Rows};
//! use zsr::{FlowProducer, Options, Place, To, Wait};
//!
//! // A table of 1,000 rows by columns: a key of 4 bytes, and a price of 8.
//! let table = Registered::allocate(12_000)?;
//! table.write(0, &7_u32.to_le_bytes());
//! let key = Column { at: At { region: 0, offset: 0 }, stride: 4, width: 4 };
//! let price = Column { at: At { region: 0, offset: 4_000 }, stride: 8, width: 8 };
//! let options = Options { registered: vec![table], ..Options::default() };
//! let mut producer = FlowProducer::attach(&Place::find(None)?, "rows", &options)?;
//! // Even rows to the first consumer, odd ones to the second: records of 12 bytes.
//! for consumer in 0..2 {
//!     let rows = Rows::Every { start: consumer as u64, period: 2, frequency: 1, count: 500 };
//!     producer.lay_out(&Layout::new(rows, [key, price]), To::Consumer(consumer), Wait::Forever)?;
//! }
//! producer.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod consumer;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use zsr_ring::ByteOrder;
use zsr_ring::memory::{Memory, MemoryError, SharedMemory};

pub use consumer::{Came, LayoutConsumer};
pub use zsr_ring::layout::{
    Arrived, At, Column, Layout, LayoutError, MOST_COLUMNS, Piece, Rows, check, divides,
};

/// Where `address` of this process is in registered memory.
pub fn find(regions: &[Registered], address: *const u8) -> Option<At> {
    regions.iter().zip(0..).find_map(|(memory, region)| {
        let offset = (address as usize).checked_sub(memory.as_ptr() as usize)?;
        (offset < memory.len()).then_some(At { region, offset: offset as u64 })
    })
}

/// Memory of this program that a NIC on this machine can read and write. Clones are the same memory, which is given back when the last of them, and
/// the last item that names it, is gone.
#[derive(Clone, Debug)]
pub struct Registered(Arc<SharedMemory>);

impl Registered {
    /// `bytes` zeroed bytes.
    ///
    /// # Errors
    /// [`MemoryError`] with the length and the reason.
    pub fn allocate(bytes: usize) -> Result<Self, MemoryError> {
        Ok(Self(Arc::new(SharedMemory::create(bytes, ByteOrder::NATIVE)?)))
    }

    /// Bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The first byte, aligned to 4096 bytes, valid as long as this value lives. NICs read what layouts of a producer name, so that must
    /// not change until the item was taken. They write what layouts of a consumer name until the item was popped.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.base().as_ptr()
    }

    /// Copies `bytes` to `offset`. Panics if they leave the memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // Other threads may write the same bytes: atomics make that no more than a muddle.
        let (words, rest) = bytes.as_chunks::<8>();
        for (n, word) in words.iter().enumerate() {
            // SAFETY: in bounds, as was checked.
            let at = unsafe { self.as_ptr().add(offset + 8 * n) };
            if at.cast::<AtomicU64>().is_aligned() {
                // SAFETY: as above, and aligned.
                unsafe { AtomicU64::from_ptr(at.cast()) }.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            } else {
                self.write_bytes(offset + 8 * n, word);
            }
        }
        self.write_bytes(offset + 8 * words.len(), rest);
    }

    /// Copies bytes from `offset` on to `out`. Panics if they leave the memory.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        self.check(offset, out.len());
        for (n, byte) in out.iter_mut().enumerate() {
            // SAFETY: in bounds, as was checked; bytes are always aligned.
            *byte = unsafe { AtomicU8::from_ptr(self.as_ptr().add(offset + n)) }.load(Ordering::Relaxed);
        }
    }

    fn check(&self, offset: usize, bytes: usize) {
        let len = self.len();
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= len);
        assert!(fits, "{bytes} B at {offset} leave registered memory of {len} B");
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            // SAFETY: the caller has checked that they are in bounds; bytes are always aligned.
            unsafe { AtomicU8::from_ptr(self.as_ptr().add(offset + n)) }.store(*byte, Ordering::Relaxed);
        }
    }

    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.0.file()
    }

    pub(crate) fn memory(&self) -> Arc<dyn Memory> {
        self.0.clone()
    }
}
