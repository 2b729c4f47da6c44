//! Copies between frames and memory that other threads use at the same time, as a NIC's DMA engine would make them.
//!
//! * Up to [`SMALL`] bytes (control words, small items): every naturally aligned word is one atomic access. Loads are
//!   acquire and ascending. Stores are release and ascending. Stores of up to [`RECORD`] bytes differ: their first word
//!   is stored last, since a record's first word publishes the rest.
//! * Longer: a plain copy, ordered before its own last word, as NICs write in ascending order, and before every later
//!   small store. Other threads that read or write the other bytes at the same time get garbage, as with hardware. The
//!   ring protocol never does so, since items change hands only by control words. No reference to the memory is ever
//!   made, so no reference can be invalidated. Under Miri the long copies are made of relaxed atomics too, so that it
//!   can watch the rest.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Longest access that is made of atomic words, in bytes.
pub(crate) const SMALL: usize = 64;
/// Longest store that its first word publishes, in bytes: a ring's commit record. Longer ones are published by their last word.
const RECORD: usize = 16;

/// Copies `src` to `dst`.
///
/// # Safety
/// `dst` must be valid for writes of `src.len()` bytes, and not be part of a Rust reference in use.
#[inline]
pub(crate) unsafe fn store(dst: *mut u8, src: &[u8]) {
    if src.len() > SMALL && !cfg!(miri) {
        let (most, last) = src.split_at(src.len() - 8);
        // SAFETY: valid by the caller's promise; a frame's own buffer can't overlap registered memory.
        unsafe {
            std::ptr::copy_nonoverlapping(most.as_ptr(), dst, most.len());
            store_piece(dst.add(most.len()), last);
        }
    } else {
        // SAFETY: as promised by the caller.
        unsafe { store_words(dst, src) }
    }
}

/// Copies `dst.len()` bytes from `src`.
///
/// # Safety
/// `src` must be valid for reads of `dst.len()` bytes, and not be part of a mutable Rust reference in use.
#[inline]
pub(crate) unsafe fn load(src: *const u8, dst: &mut [u8]) {
    if dst.len() > SMALL && !cfg!(miri) {
        // SAFETY: valid by the caller's promise; a frame's own buffer can't overlap registered memory.
        unsafe { std::ptr::copy_nonoverlapping(src, dst.as_mut_ptr(), dst.len()) }
    } else {
        // SAFETY: as promised by the caller.
        unsafe { load_words(src, dst) }
    }
}

/// The new value that an atomic operation gives a word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// The sum, modulo 2⁶⁴.
    Add(u64),
    /// `swap`, if it is `compare`.
    Swap { compare: u64, swap: u64 },
}

/// Changes the 8 bytes at `at`, a number in this machine's byte order. Gives what they were before.
///
/// # Safety
/// `at` must be a multiple of 8, and valid for reads and writes of 8 bytes. It must not be part of a Rust reference in
/// use.
pub(crate) unsafe fn change(at: *mut u8, change: Change) -> u64 {
    // SAFETY: as promised by the caller.
    let word = unsafe { AtomicU64::from_ptr(at.cast()) };
    match change {
        Change::Add(add) => word.fetch_add(add, Ordering::AcqRel),
        Change::Swap { compare, swap } => {
            let exchanged = word.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire);
            exchanged.unwrap_or_else(|other| other)
        }
    }
}

/// Orders accesses to memory whose stores a processor gathers: earlier ones take place before later ones. Within one copy there
/// is no order: of a commit record, readers rely on the first word alone.
#[inline]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    unsafe {
        std::arch::x86_64::_mm_mfence()
    }
}

/// Bytes from `at` to the next multiple of 8, at most `len`.
#[inline]
fn first_piece(at: *const u8, len: usize) -> usize {
    len.min(8 - (at.addr() & 7))
}

unsafe fn store_words(dst: *mut u8, src: &[u8]) {
    let first = if src.len() > RECORD { 0 } else { first_piece(dst, src.len()) };
    let (head, mut rest) = src.split_at(first);
    let mut at = first;
    while !rest.is_empty() {
        // SAFETY: `at` is at most `src.len()`.
        let (piece, left) = rest.split_at(first_piece(unsafe { dst.add(at) }, rest.len()));
        // SAFETY: `at + piece.len()` is at most `src.len()`.
        unsafe { store_piece(dst.add(at), piece) };
        at += piece.len();
        rest = left;
    }
    // SAFETY: the first bytes of the range.
    unsafe { store_piece(dst, head) };
}

/// Stores at most 8 bytes that lie within one aligned 8-byte word.
#[inline]
unsafe fn store_piece(dst: *mut u8, piece: &[u8]) {
    let (mut at, mut left) = (dst, piece);
    while !left.is_empty() {
        let addr = at.addr();
        let n = if let (0, Some(b)) = (addr & 7, left.first_chunk::<8>()) {
            // SAFETY: in bounds by the caller, aligned as checked; atomic types allow concurrent access.
            unsafe { AtomicU64::from_ptr(at.cast()) }.store(u64::from_ne_bytes(*b), Ordering::Release);
            8
        } else if let (0, Some(b)) = (addr & 3, left.first_chunk::<4>()) {
            // SAFETY: in bounds by the caller, aligned as checked; atomic types allow concurrent access.
            unsafe { AtomicU32::from_ptr(at.cast()) }.store(u32::from_ne_bytes(*b), Ordering::Release);
            4
        } else if let (0, Some(b)) = (addr & 1, left.first_chunk::<2>()) {
            // SAFETY: in bounds by the caller, aligned as checked; atomic types allow concurrent access.
            unsafe { AtomicU16::from_ptr(at.cast()) }.store(u16::from_ne_bytes(*b), Ordering::Release);
            2
        } else {
            // SAFETY: in bounds by the caller, aligned as checked; atomic types allow concurrent access.
            unsafe { AtomicU8::from_ptr(at) }.store(left[0], Ordering::Release);
            1
        };
        left = &left[n..];
        // SAFETY: the piece is in bounds, so says the caller.
        at = unsafe { at.add(n) };
    }
}

unsafe fn load_words(src: *const u8, dst: &mut [u8]) {
    let (mut at, mut left) = (src.cast_mut(), dst);
    while !left.is_empty() {
        let addr = at.addr();
        let n = if let (0, Some(b)) = (addr & 7, left.first_chunk_mut::<8>()) {
            // SAFETY: in bounds by the caller, aligned as checked; nothing is stored through the pointer.
            *b = unsafe { AtomicU64::from_ptr(at.cast()) }.load(Ordering::Acquire).to_ne_bytes();
            8
        } else if let (0, Some(b)) = (addr & 3, left.first_chunk_mut::<4>()) {
            // SAFETY: in bounds by the caller, aligned as checked; nothing is stored through the pointer.
            *b = unsafe { AtomicU32::from_ptr(at.cast()) }.load(Ordering::Acquire).to_ne_bytes();
            4
        } else if let (0, Some(b)) = (addr & 1, left.first_chunk_mut::<2>()) {
            // SAFETY: in bounds by the caller, aligned as checked; nothing is stored through the pointer.
            *b = unsafe { AtomicU16::from_ptr(at.cast()) }.load(Ordering::Acquire).to_ne_bytes();
            2
        } else {
            // SAFETY: in bounds by the caller, aligned as checked; nothing is stored through the pointer.
            left[0] = unsafe { AtomicU8::from_ptr(at) }.load(Ordering::Acquire);
            1
        };
        left = &mut left[n..];
        // SAFETY: the piece is in bounds, so says the caller.
        at = unsafe { at.add(n) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{HostMemory, MemoryRegion};

    #[test]
    fn every_offset_and_length_copies_exactly() {
        let memory = HostMemory::allocate(256).unwrap();
        let data: Vec<u8> = (1..=96).collect();
        for at in 0..16 {
            for len in 0..=80 {
                memory.write(0, &[0xaa; 256]);
                // SAFETY: at + len is below 256.
                unsafe { store(memory.base().add(at), &data[..len]) };
                let mut all = [0; 256];
                memory.read(0, &mut all);
                assert!(all[..at].iter().chain(&all[at + len..]).all(|&b| b == 0xaa), "{at} {len}");
                assert_eq!(all[at..at + len], data[..len]);
                let mut back = vec![0; len];
                // SAFETY: as above.
                unsafe { load(memory.base().add(at), &mut back) };
                assert_eq!(back, data[..len]);
            }
        }
    }

    #[test]
    fn the_first_word_of_a_record_publishes_the_rest() {
        let memory = std::sync::Arc::new(HostMemory::allocate(64).unwrap());
        let rounds: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let writer = {
            let memory = memory.clone();
            std::thread::spawn(move || {
                for i in 1..=rounds {
                    let record = [i.to_ne_bytes(), (i * 3).to_ne_bytes()].concat();
                    // SAFETY: 16 bytes at the start of 64.
                    unsafe { store(memory.base(), &record) };
                }
            })
        };
        loop {
            let (mut first, mut second) = ([0; 8], [0; 8]);
            // SAFETY: two words at the start of 64 bytes.
            unsafe {
                load(memory.base(), &mut first);
                load(memory.base().add(8), &mut second);
            }
            let (first, second) = (u64::from_ne_bytes(first), u64::from_ne_bytes(second));
            assert!(second >= first * 3, "the head {first} was seen before its record {second}");
            if first == rounds {
                break;
            }
            std::thread::yield_now();
        }
        writer.join().unwrap();
    }

    /// As programs rely on whose footers stand behind what they are about. They write again only what has been read.
    #[test]
    fn the_last_word_of_what_is_longer_publishes_the_rest() {
        for len in [24, 64, 72, 4096] {
            let memory = std::sync::Arc::new(HostMemory::allocate(4096).unwrap());
            let read = std::sync::Arc::new(AtomicU64::new(0));
            let rounds: u64 = if cfg!(miri) { 10 } else { 24_000_000 / (len as u64 + 56) };
            let writer = {
                let (memory, read) = (memory.clone(), read.clone());
                std::thread::spawn(move || {
                    let mut record = vec![0; len];
                    for i in 1..=rounds {
                        record.as_chunks_mut().0.iter_mut().for_each(|word| *word = i.to_ne_bytes());
                        while read.load(Ordering::Acquire) < i - 1 {
                            std::thread::yield_now();
                        }
                        // SAFETY: `len` bytes at the start of as many.
                        unsafe { store(memory.base(), &record) };
                    }
                })
            };
            let mut seen = 0;
            while seen < rounds {
                let (mut first, mut last) = ([0; 8], [0; 8]);
                // SAFETY: the last word.
                unsafe { load(memory.base().add(len - 8), &mut last) };
                let last = u64::from_ne_bytes(last);
                if last == seen {
                    std::thread::yield_now();
                    continue;
                }
                // SAFETY: the first word.
                unsafe { load(memory.base(), &mut first) };
                assert_eq!((u64::from_ne_bytes(first), last), (seen + 1, seen + 1), "{len} bytes");
                seen = last;
                read.store(seen, Ordering::Release);
            }
            writer.join().unwrap();
        }
    }
}
