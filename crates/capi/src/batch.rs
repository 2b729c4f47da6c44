//! Records where they lie in the ring.

use crate::fault::{Fault, call};
use crate::handle::{check, check_size, put};
use crate::status::zsr_status::{self, *};

/// Records where they lie in the ring. Begin with ZSR_BATCH_INIT. Where `record_size` is not 0, record `i` is at
/// `data + i * record_size`; zsr_batch_next() goes through records of any kind.
#[repr(C)]
pub struct zsr_batch {
    /// sizeof(zsr_batch).
    pub size: usize,
    /// The first record, or its length.
    pub data: *const u8,
    /// Bytes of all that lies there.
    pub bytes: usize,
    /// How many records.
    pub count: usize,
    /// Bytes of each record, which lie side by side; 0: each lies behind its length, a uint32_t with the least significant byte
    /// first.
    pub record_size: usize,
    /// How many records zsr_batch_next() has given.
    pub next: usize,
    /// Bytes that zsr_batch_next() has passed.
    pub passed: usize,
    /// The library's: by which number it was taken.
    pub taken: u64,
}

impl zsr_batch {
    /// Refuses a batch of another header.
    ///
    /// # Safety
    /// `batch` is null, or points to as many bytes as its first word says.
    pub(crate) unsafe fn check<'a>(batch: *const zsr_batch) -> Result<&'a zsr_batch, Fault> {
        // SAFETY: by contract.
        unsafe { check_size(batch, "batch", "ZSR_BATCH_INIT") }?;
        // SAFETY: it has the size of one.
        Ok(unsafe { &*batch })
    }
}

/// The next record of a batch: `*length` bytes at `*record`.
///
/// Ownership: `batch` stays the caller's; `*record` is the ring's, and valid as long as `batch->data`.
/// Blocks: no.
/// Threads: any, one at a time per zsr_batch; copies of one are independent.
/// Errors: ZSR_END behind the last record; ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_DAMAGED (a record says that it is longer than
/// the batch: what is behind it can't be read).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_batch_next(
    batch: *mut zsr_batch,
    record: *mut *const u8,
    length: *mut usize,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: a batch that was filled by this library, and room for a pointer and a number.
        unsafe {
            let filled = zsr_batch::check(batch)?;
            check(record, "record")?;
            check(length, "length")?;
            let mut records = Records {
                begin: filled.data.wrapping_add(filled.passed),
                bytes: filled.bytes.saturating_sub(filled.passed),
                size: filled.record_size,
                count: filled.count.saturating_sub(filled.next),
                done: filled.next,
            };
            if records.count == 0 || filled.data.is_null() {
                return Ok(ZSR_END);
            }
            let (begin, bytes) = records.first().ok_or_else(damaged)?;
            records.pass();
            put(record, "record", begin)?;
            put(length, "length", bytes)?;
            (*batch).next += 1;
            (*batch).passed = filled.bytes - records.bytes;
            Ok(ZSR_OK)
        }
    })
}

fn damaged() -> Fault {
    let text = "the record says that it is longer than its batch".to_owned();
    Fault { status: ZSR_ERROR_DAMAGED, text }
}

/// Records that lie in the ring, of which the first ones are passed.
pub(crate) struct Records {
    begin: *const u8,
    bytes: usize,
    /// Of each record; 0: each lies behind its length.
    size: usize,
    count: usize,
    done: usize,
}

/// Bytes of the length in front of a record.
const LENGTH: usize = 4;

impl Records {
    /// `count` records that lie as a batch says.
    pub(crate) fn new(data: &[u8], size: Option<u32>, count: usize) -> Self {
        let size = size.map_or(0, |size| size as usize);
        Records { begin: data.as_ptr(), bytes: data.len(), size, count, done: 0 }
    }

    /// How many are left.
    pub(crate) fn left(&self) -> usize {
        self.count
    }

    /// How many are passed.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Where the first one lies, and how long it is; none if it can't be read.
    ///
    /// # Safety
    /// The batch is still in the ring.
    pub(crate) unsafe fn first(&self) -> Option<(*const u8, usize)> {
        let (skip, length) = match self.size {
            0 if self.bytes < LENGTH => return None,
            // SAFETY: so many bytes are there.
            0 => (LENGTH, u32::from_le_bytes(unsafe { self.begin.cast::<[u8; LENGTH]>().read() }) as usize),
            size => (0, size),
        };
        (self.count > 0 && length <= self.bytes - skip).then(|| (self.begin.wrapping_add(skip), length))
    }

    /// Passes the first one. Says whether it could.
    ///
    /// # Safety
    /// As [`first`](Self::first).
    pub(crate) unsafe fn pass(&mut self) -> bool {
        // SAFETY: the caller's.
        let Some((begin, length)) = (unsafe { self.first() }) else { return false };
        let end = begin.wrapping_add(length);
        self.bytes -= end.addr() - self.begin.addr();
        self.begin = end;
        self.count -= 1;
        self.done += 1;
        true
    }

    /// Where they lie side by side, and the size of each, if they have one.
    pub(crate) fn side_by_side(&self) -> Option<(*const u8, usize)> {
        (self.size > 0).then_some((self.begin, self.size))
    }

    /// As C sees them.
    pub(crate) fn batch(&self, taken: u64) -> zsr_batch {
        zsr_batch {
            size: size_of::<zsr_batch>(),
            data: self.begin,
            bytes: self.bytes,
            count: self.count,
            record_size: self.size,
            next: 0,
            passed: 0,
            taken,
        }
    }
}
