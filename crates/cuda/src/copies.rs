//! Copies between a ring in a GPU's memory and this process, all in one stream, whose order is their order.
//!
//! Bytes of items go through pinned memory that has the ring's layout, so a byte has its own place there. Writes that lie side by
//! side are one copy, sent when something else comes. Control words are written by the stream itself, whole, behind a barrier of the
//! system: whoever sees one sees what was copied before it.
//!
//! The driver hands copies of less than 32 KiB to the engine that runs kernels, where they wait for the turns of other processes' kernels:
//! 2.4 ms on an H200, where other copies took 0.13 ms (bench/results/gpu.md). It does not do so with copies of several rows, so small ones go
//! in two.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use zsr_ring::memory::{Bus, Gone};

use crate::ITEMS_OFFSET;
use crate::calls::{Address, BEHIND_ALL, Calls, NO_TIME, NOT_READY, OWN_ORDER, Object, Rows};
use crate::gpu::Gpu;

/// A copy of so many bytes is sent though more may follow.
const LARGE: usize = 256 << 10;
/// Copies of fewer bytes go in two rows.
const SMALL: usize = 32 << 10;
/// Bytes between the begins of two rows, at most (`CU_DEVICE_ATTRIBUTE_MAX_PITCH`).
const PITCH: usize = i32::MAX as usize;
/// Bytes of a control word.
const WORD: usize = 8;

/// Copies to and from the memory of one ring. Any thread may make them.
pub(crate) struct Copies {
    gpu: Arc<Gpu>,
    base: Address,
    /// Pinned memory for the first `len` bytes of the ring, and as much again: a byte of a second row lies `len` behind its place.
    staging: *mut u8,
    len: usize,
    stream: Object,
    /// Behind the last read of a control word, and of items.
    events: [Object; 2],
    state: Mutex<State>,
    trouble: OnceLock<String>,
}

#[derive(Default)]
struct State {
    /// Staged, and not sent.
    pending: Range<usize>,
    /// The reads that were last asked for ahead: of the control page, and of the items.
    expected: [Expected; 2],
}

#[derive(Default)]
struct Expected {
    bytes: Range<usize>,
    is_here: bool,
}

// SAFETY: staging is touched under the lock only, but for the device's own accesses; the driver's objects may be used in any thread.
unsafe impl Send for Copies {}
// SAFETY: as above.
unsafe impl Sync for Copies {}

impl Copies {
    /// Copies to and from what lies at `base`, of which `len` bytes are copied at all.
    pub(crate) fn new(gpu: &Arc<Gpu>, base: Address, len: usize) -> Result<Self, String> {
        let none = std::ptr::null_mut();
        let mut copies = Copies {
            gpu: Arc::clone(gpu),
            base,
            staging: std::ptr::null_mut(),
            len,
            stream: none,
            events: [none; 2],
            state: Mutex::default(),
            trouble: OnceLock::new(),
        };
        // Objects that are made before an error go with `copies`.
        gpu.within(|calls| {
            let Copies { staging, stream, events: [words, items], .. } = &mut copies;
            // SAFETY: each call writes one pointer.
            unsafe {
                gpu.done("cuMemHostAlloc", (calls.host_alloc)(staging, 2 * len, 0))?;
                gpu.done("cuStreamCreate", (calls.stream_create)(stream, OWN_ORDER))?;
                gpu.done("cuEventCreate", (calls.event_create)(words, NO_TIME))?;
                gpu.done("cuEventCreate", (calls.event_create)(items, NO_TIME))
            }
        })?;
        Ok(copies)
    }

    /// Zeroes what is copied. Blocks.
    pub(crate) fn zero(&self) -> Result<(), String> {
        self.gpu.within(|calls| {
            // SAFETY: the ring's memory, of which nobody else knows yet.
            unsafe {
                self.gpu.done("cuMemsetD8Async", (calls.fill)(self.base, 0, self.len, self.stream))?;
                self.gpu.done("cuStreamSynchronize", (calls.stream_wait)(self.stream))
            }
        })
    }

    /// Why the ring's memory can't be reached any more.
    pub(crate) fn trouble(&self) -> Option<String> {
        let why = self.trouble.get()?;
        Some(format!(
            "{why}; the ring is lost: see `nvidia-smi`, and start this host's agent anew when the GPU works again"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes calls, unless one has failed: nothing is sent behind a copy that may be half done.
    fn send<R>(&self, work: impl FnOnce(&Calls) -> Result<R, String>) -> Result<R, Gone> {
        match self.trouble.get() {
            Some(_) => Err(Gone),
            None => self.gpu.within(work).map_err(|why| self.lost(why)),
        }
    }

    fn lost(&self, why: String) -> Gone {
        // The first reason stands.
        let _ = self.trouble.set(why);
        Gone
    }

    /// The range, if it is one that is copied.
    fn range(&self, offset: usize, len: usize) -> Result<Range<usize>, Gone> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(offset..end),
            _ => Err(self
                .lost(format!("{} was asked for {len} B at {offset} of a ring of {} B", self.gpu, self.len))),
        }
    }

    /// Sends what is staged.
    fn flush(&self, state: &mut State, calls: &Calls) -> Result<(), String> {
        let Range { start, end } = std::mem::take(&mut state.pending);
        if start == end {
            return Ok(());
        }
        let (to, len, half) = (self.base + start as Address, end - start, (end - start) / 2);
        let pitch = self.len + half;
        // SAFETY: all ranges are in bounds. Staged bytes are written again only when the program has given their place
        // back, so they have been copied; or with other bytes that nobody was told of.
        unsafe {
            let from = self.staging.add(start);
            if len >= SMALL || !len.is_multiple_of(2) || pitch > PITCH {
                let code = (calls.copy_to)(to, from, len, self.stream);
                return self.gpu.done("cuMemcpyHtoDAsync", code);
            }
            std::ptr::copy_nonoverlapping(from.add(half), from.add(pitch), half);
            let rows = Rows::two(from, pitch, to, half);
            self.gpu.done("cuMemcpy2DAsync", (calls.copy_rows)(&rows, self.stream))
        }
    }

    /// Sends a read into staging.
    fn fetch_later(&self, state: &mut State, calls: &Calls, bytes: &Range<usize>) -> Result<(), String> {
        self.flush(state, calls)?;
        // SAFETY: both ranges are in bounds, and nothing else is staged there: a ring's items are either read or written.
        let code = unsafe {
            let to = self.staging.add(bytes.start);
            (calls.copy_from)(to, self.base + bytes.start as Address, bytes.len(), self.stream)
        };
        self.gpu.done("cuMemcpyDtoHAsync", code)
    }

    /// Control words, the first one last: a record's first word publishes the rest.
    fn write_words(&self, calls: &Calls, offset: usize, bytes: &[u8]) -> Result<(), String> {
        for (at, word) in bytes.as_chunks::<WORD>().0.iter().enumerate().rev() {
            let (to, value) = (self.base + (offset + at * WORD) as Address, u64::from_ne_bytes(*word));
            // SAFETY: in bounds, and a multiple of 8.
            let code = unsafe { (calls.write_word)(self.stream, to, value, BEHIND_ALL) };
            self.gpu.done("cuStreamWriteValue64", code)?;
        }
        Ok(())
    }

    /// Copies between staging and the caller.
    ///
    /// # Safety
    /// The range is in bounds, and no copy of the device is under way there.
    unsafe fn unstage(&self, offset: usize, bytes: &mut [u8]) {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(self.staging.add(offset), bytes.as_mut_ptr(), bytes.len()) };
    }
}

/// Which of the two kinds of reads: of the control page, or of items.
fn kind(offset: usize) -> usize {
    usize::from(offset >= ITEMS_OFFSET)
}

fn covers(expected: &Expected, bytes: &Range<usize>) -> bool {
    expected.bytes.start <= bytes.start && bytes.end <= expected.bytes.end
}

impl Bus for Copies {
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Gone> {
        let range = self.range(offset, bytes.len())?;
        let mut state = self.lock();
        if offset < ITEMS_OFFSET && offset.is_multiple_of(WORD) && bytes.len().is_multiple_of(WORD) {
            return self.send(|calls| {
                self.flush(&mut state, calls)?;
                self.write_words(calls, offset, bytes)
            });
        }
        if self.trouble.get().is_some() {
            return Err(Gone);
        }
        if state.pending.end != offset {
            self.send(|calls| self.flush(&mut state, calls))?;
            state.pending = offset..offset;
        }
        // SAFETY: in bounds; see `flush` for who else is there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.staging.add(offset), bytes.len()) };
        state.pending.end = range.end;
        if state.pending.len() >= LARGE {
            self.send(|calls| self.flush(&mut state, calls))?;
        }
        Ok(())
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Gone> {
        let range = self.range(offset, bytes.len())?;
        let mut state = self.lock();
        self.send(|calls| {
            self.fetch_later(&mut state, calls, &range)?;
            // SAFETY: a stream of this object.
            self.gpu.done("cuStreamSynchronize", unsafe { (calls.stream_wait)(self.stream) })?;
            // SAFETY: in bounds, and all copies are done.
            unsafe { self.unstage(offset, bytes) };
            Ok(())
        })
    }

    fn settle(&self) -> Result<(), Gone> {
        let mut state = self.lock();
        state.expected = Default::default();
        self.send(|calls| {
            self.flush(&mut state, calls)?;
            // SAFETY: a stream of this object.
            self.gpu.done("cuStreamSynchronize", unsafe { (calls.stream_wait)(self.stream) })
        })
    }

    fn expect(&self, offset: usize, len: usize) {
        let Ok(range) = self.range(offset, len) else { return };
        let mut state = self.lock();
        state.expected[kind(offset)] = Expected::default();
        let sent = self.send(|calls| {
            self.fetch_later(&mut state, calls, &range)?;
            // SAFETY: an event and a stream of this object.
            let code = unsafe { (calls.event_record)(self.events[kind(offset)], self.stream) };
            self.gpu.done("cuEventRecord", code)
        });
        if sent.is_ok() {
            state.expected[kind(offset)].bytes = range;
        }
    }

    fn is_here(&self, offset: usize, len: usize) -> bool {
        let mut state = self.lock();
        let expected = &mut state.expected[kind(offset)];
        if !covers(expected, &(offset..offset + len)) {
            // Another read was expected since.
            drop(state);
            self.expect(offset, len);
            return self.trouble.get().is_some();
        }
        if !expected.is_here {
            let asked = self.send(|calls| {
                // SAFETY: an event of this object.
                match unsafe { (calls.event_query)(self.events[kind(offset)]) } {
                    NOT_READY => Ok(false),
                    code => self.gpu.done("cuEventQuery", code).map(|()| true),
                }
            });
            // Memory that is gone needs no waiting for.
            expected.is_here = asked == Ok(true);
            return asked != Ok(false);
        }
        true
    }

    fn fetch(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Gone> {
        {
            let state = self.lock();
            let expected = &state.expected[kind(offset)];
            if self.trouble.get().is_none()
                && expected.is_here
                && covers(expected, &(offset..offset + bytes.len()))
            {
                // SAFETY: in bounds, since it was sent for; and that copy is done.
                unsafe { self.unstage(offset, bytes) };
                return Ok(());
            }
        }
        self.read(offset, bytes)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let Copies { staging, stream, events, .. } = *self;
        let _ = self.gpu.within(|calls| {
            // SAFETY: what was made in `new`; no copy uses it once the stream has come to its end, or the GPU is lost.
            unsafe {
                if !stream.is_null() {
                    let _ = (calls.stream_wait)(stream);
                    let _ = (calls.stream_destroy)(stream);
                }
                for event in events.into_iter().filter(|e| !e.is_null()) {
                    let _ = (calls.event_destroy)(event);
                }
                if !staging.is_null() {
                    let _ = (calls.host_free)(staging);
                }
            }
            Ok(())
        });
    }
}
