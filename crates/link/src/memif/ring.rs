//! A ring of descriptors, from either side. The *owner* made the memory; its descriptors name buffers of its own. The
//! *guest* uses the buffers that the owner's descriptors name, and checks each.
//!
//! ```text
//!  byte 0: cookie u32, flags u16, head u16     64: tail u16     128: descriptors of 16 bytes
//!  descriptor: flags u16, region u16, length u32, offset u32, metadata u32
//! ```
//! The owner moves `head`, the guest moves `tail`; both only grow, modulo 2¹⁶. Where the owner sends, descriptors between
//! `tail` and `head` hold frames. Where it receives, they are buffers that wait for frames.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};

use zsr_wire::frame::MAX_FRAME;
use zsr_wire::{Frame, FramePool};

use super::region::Region;

const COOKIE: u32 = 0x3e3_1f20;
const HEADER: usize = 128;
const DESCRIPTOR: usize = 16;
/// Set by who receives: it needs no interrupt.
const MASK_INTERRUPT: u16 = 1;
/// The frame goes on in the next descriptor.
const NEXT: u16 = 1;
/// Bytes of an owner's buffer.
const BUFFER: usize = MAX_FRAME;
/// Frames that are gathered before the other side sees them.
const PUBLISH: u16 = 8;

/// Bytes of an owner's region with two rings of `size` descriptors.
pub(super) fn region_len(size: u16) -> usize {
    2 * ring_len(size) + 2 * usize::from(size) * BUFFER
}

fn ring_len(size: u16) -> usize {
    (HEADER + usize::from(size) * DESCRIPTOR).next_multiple_of(64)
}

/// Where ring `number` (0 or 1) of an owner's region is.
pub(super) fn ring_at(number: usize, size: u16) -> usize {
    number * ring_len(size)
}

/// The other side has broken the ring's rules.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// An index that cannot be: nothing in the ring can be trusted.
    Index { has: u16, size: u16 },
    /// A descriptor of memory that is not shared, or of a frame that is too long. The frame is skipped.
    Descriptor { region: u16, offset: u32, length: u32 },
    /// The cookie is wrong.
    Cookie(u32),
}

impl std::fmt::Display for Lie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Lie::Index { has, size } => {
                write!(f, "its ring of {size} descriptors says that {has} are in use")
            }
            Lie::Descriptor { region, offset, length } => {
                write!(
                    f,
                    "a descriptor names {length} bytes at {offset} of region {region}, which it does not share"
                )
            }
            Lie::Cookie(has) => write!(f, "its ring begins with {has:#x} in place of memif's {COOKIE:#x}"),
        }
    }
}

/// One ring, seen from one side.
pub(super) struct Ring {
    regions: Arc<[Region]>,
    base: NonNull<u8>,
    size: u16,
    /// Of an owner: where its buffers are in region 0.
    buffers: Option<usize>,
    sends: bool,
    /// Descriptors that this side has filled or emptied, and how many of these the other side was shown.
    mine: u16,
    shown: u16,
    /// Where this side was when it last asked whether the other side sleeps.
    asked: u16,
    /// The other side's index when it was last read.
    theirs: u16,
}

// SAFETY: `base` leads into a region, which is shared by `Arc` and lives as long as this object.
unsafe impl Send for Ring {}

impl Ring {
    /// The owner's side of ring `number` in its own region, which is made ready here.
    pub(super) fn own(regions: Arc<[Region]>, number: usize, size: u16, sends: bool) -> Option<Ring> {
        let at = ring_at(number, size);
        let buffers = 2 * ring_len(size) + number * usize::from(size) * BUFFER;
        let base = regions.first()?.at(at, ring_len(size))?;
        let ring = Ring {
            regions,
            base,
            size,
            buffers: Some(buffers),
            sends,
            mine: 0,
            shown: 0,
            asked: 0,
            theirs: 0,
        };
        for i in 0..size {
            ring.put_descriptor(i, own_descriptor(buffers, i));
        }
        ring.cookie().store(COOKIE, Ordering::Relaxed);
        Some(ring)
    }

    /// The connection is made: of a ring by which the owner receives, the buffers are free now. Not before, since a guest
    /// may set the indices to 0 when it connects, as DPDK does.
    pub(super) fn begin(&mut self) {
        if !self.sends {
            self.disarm();
            self.show();
        }
    }

    /// The guest's side of a ring that the other side has made.
    pub(super) fn guest(
        regions: Arc<[Region]>,
        region: u16,
        offset: u32,
        size: u16,
        sends: bool,
    ) -> Result<Ring, Lie> {
        let base = (offset.is_multiple_of(4))
            .then(|| regions.get(usize::from(region))?.at(offset as usize, ring_len(size)))
            .flatten()
            .ok_or(Lie::Descriptor { region, offset, length: ring_len(size) as u32 })?;
        let mut ring =
            Ring { regions, base, size, buffers: None, sends, mine: 0, shown: 0, asked: 0, theirs: 0 };
        let cookie = ring.cookie().load(Ordering::Relaxed);
        if cookie != COOKIE {
            return Err(Lie::Cookie(cookie));
        }
        ring.mine = ring.tail().load(Ordering::Relaxed);
        (ring.shown, ring.asked, ring.theirs) = (ring.mine, ring.mine, ring.mine);
        if !sends {
            ring.flags().store(MASK_INTERRUPT, Ordering::Relaxed);
        }
        Ok(ring)
    }

    fn word<T>(&self, at: usize) -> NonNull<T> {
        // SAFETY: `at` is below HEADER, which is part of the ring that was checked to be in its region.
        unsafe { self.base.add(at).cast() }
    }

    fn cookie(&self) -> &AtomicU32 {
        // SAFETY: an aligned word of the ring's header, which both sides access atomically.
        unsafe { self.word::<AtomicU32>(0).as_ref() }
    }

    fn flags(&self) -> &AtomicU16 {
        // SAFETY: as above.
        unsafe { self.word::<AtomicU16>(4).as_ref() }
    }

    fn head(&self) -> &AtomicU16 {
        // SAFETY: as above.
        unsafe { self.word::<AtomicU16>(6).as_ref() }
    }

    fn tail(&self) -> &AtomicU16 {
        // SAFETY: as above.
        unsafe { self.word::<AtomicU16>(64).as_ref() }
    }

    #[inline]
    fn descriptor_at(&self, index: u16) -> NonNull<[u32; 4]> {
        let at = HEADER + usize::from(index & (self.size - 1)) * DESCRIPTOR;
        // SAFETY: the mask keeps it among the ring's descriptors, which were checked to be in the region.
        unsafe { self.base.add(at).cast() }
    }

    #[inline]
    fn descriptor(&self, index: u16) -> Descriptor {
        // SAFETY: plain data at an aligned place of the ring. It is read once, so that a change by the other side can't
        // come between a check and its use.
        let [first, length, offset, _] = unsafe { self.descriptor_at(index).as_ptr().read_volatile() };
        let [a, b, c, d] = first.to_ne_bytes();
        Descriptor { flags: u16::from_ne_bytes([a, b]), region: u16::from_ne_bytes([c, d]), length, offset }
    }

    #[inline]
    fn put_descriptor(&self, index: u16, new: Descriptor) {
        let [a, b] = new.flags.to_ne_bytes();
        let [c, d] = new.region.to_ne_bytes();
        let words = [u32::from_ne_bytes([a, b, c, d]), new.length, new.offset, 0];
        // SAFETY: as in `descriptor`.
        unsafe { self.descriptor_at(index).as_ptr().write_volatile(words) };
    }

    /// The memory of descriptor `index`, at most `length` bytes of it: an owner knows its own buffers.
    #[inline]
    fn buffer(&self, index: u16, found: &Descriptor, length: usize) -> Result<NonNull<u8>, Lie> {
        let lie = || Lie::Descriptor { region: found.region, offset: found.offset, length: found.length };
        match self.buffers {
            Some(_) if length > BUFFER => Err(lie()),
            Some(at) => {
                let offset = at + usize::from(index & (self.size - 1)) * BUFFER;
                self.regions[0].at(offset, length).ok_or_else(lie)
            }
            None => {
                let region = self.regions.get(usize::from(found.region)).ok_or_else(lie)?;
                region.at(found.offset as usize, length).ok_or_else(lie)
            }
        }
    }

    /// Descriptors that this side may use now.
    #[inline]
    fn usable(&mut self, wanted: u16) -> Result<u16, Lie> {
        let ahead = if self.sends && self.buffers.is_some() { self.size } else { 0 };
        let now = self.theirs.wrapping_add(ahead).wrapping_sub(self.mine);
        if now >= wanted && now != 0 {
            return Ok(now);
        }
        let theirs = if self.buffers.is_some() { self.tail() } else { self.head() };
        self.theirs = theirs.load(Ordering::Acquire);
        let now = self.theirs.wrapping_add(ahead).wrapping_sub(self.mine);
        if now > self.size {
            return Err(Lie::Index { has: now, size: self.size });
        }
        Ok(now)
    }

    /// Copies a frame into the ring. `false`: there is no room now.
    #[inline]
    pub(super) fn send(&mut self, frame: &Frame) -> Result<bool, Lie> {
        let mut rest = frame.bytes();
        if rest.is_empty() {
            return Ok(true);
        }
        let mut room = self.usable(1)?;
        let mut index = self.mine;
        loop {
            if room == 0 {
                room = self.usable(index.wrapping_sub(self.mine) + 1)?;
                room = room.saturating_sub(index.wrapping_sub(self.mine));
                if room == 0 {
                    return Ok(false);
                }
            }
            let mut found = match self.buffers {
                Some(at) => own_descriptor(at, index & (self.size - 1)),
                None => self.descriptor(index),
            };
            let now = rest.len().min(found.length as usize);
            let to = self.buffer(index, &found, now);
            let to = match to {
                Ok(to) if now > 0 => to,
                // The buffer goes back unused, or it would be in the way of all others.
                lie => {
                    self.put_descriptor(index, Descriptor { flags: 0, length: 0, ..found });
                    self.mine = index.wrapping_add(1);
                    let Descriptor { region, offset, length, .. } = found;
                    return Err(lie.err().unwrap_or(Lie::Descriptor { region, offset, length }));
                }
            };
            // SAFETY: `to` has room for `now` bytes in a region; the frame is memory of this process alone.
            unsafe { to.copy_from_nonoverlapping(NonNull::from(rest).cast(), now) };
            rest = &rest[now..];
            found.length = now as u32;
            found.flags = if rest.is_empty() { 0 } else { NEXT };
            self.put_descriptor(index, found);
            index = index.wrapping_add(1);
            room -= 1;
            if rest.is_empty() {
                self.mine = index;
                if self.mine.wrapping_sub(self.shown) >= PUBLISH {
                    self.show();
                }
                return Ok(true);
            }
        }
    }

    /// Takes the next frame. An error about a descriptor has skipped that frame.
    #[inline]
    pub(super) fn receive(&mut self, pool: &mut FramePool) -> Result<Option<Frame>, Lie> {
        let mut ready = self.usable(1)?;
        if ready == 0 {
            if self.mine != self.shown {
                self.show();
            }
            return Ok(None);
        }
        let mut frame = pool.take();
        let mut lie = None;
        loop {
            let found = self.descriptor(self.mine);
            let length = found.length as usize;
            match self.buffer(self.mine, &found, length) {
                Err(what) => lie = Some(what),
                Ok(from) => match frame.grow_back(length) {
                    // SAFETY: `from` is followed by `length` bytes in a region. The other side may write them meanwhile,
                    // which can only spoil the frame; nothing here relies on what they are.
                    Some(to) => unsafe {
                        NonNull::from(to).cast().copy_from_nonoverlapping(from, length);
                    },
                    None => {
                        let Descriptor { region, offset, length, .. } = found;
                        lie = Some(Lie::Descriptor { region, offset, length });
                    }
                },
            }
            if let Some(at) = self.buffers {
                self.put_descriptor(self.mine, own_descriptor(at, self.mine & (self.size - 1)));
            }
            self.mine = self.mine.wrapping_add(1);
            ready -= 1;
            if found.flags & NEXT == 0 {
                break;
            }
            if ready == 0 {
                // Frames are shown whole.
                let Descriptor { region, offset, length, .. } = found;
                lie = Some(Lie::Descriptor { region, offset, length });
                break;
            }
        }
        if self.mine.wrapping_sub(self.shown) >= PUBLISH {
            self.show();
        }
        match lie {
            None if frame.len() <= MAX_FRAME && !frame.is_empty() => Ok(Some(frame)),
            lie => {
                let length = frame.len() as u32;
                pool.put(frame);
                Err(lie.unwrap_or(Lie::Descriptor { region: 0, offset: 0, length }))
            }
        }
    }

    /// Shows the other side what was sent, or gives back what was received.
    #[inline]
    pub(super) fn show(&mut self) {
        let (word, at) = match (self.buffers.is_some(), self.sends) {
            (true, true) => (self.head(), self.mine),
            (true, false) => (self.head(), self.mine.wrapping_add(self.size)),
            (false, _) => (self.tail(), self.mine),
        };
        word.store(at, Ordering::Release);
        self.shown = self.mine;
    }

    /// Shows what was sent. `true`: the other side sleeps, and has to be woken.
    pub(super) fn show_and_ask(&mut self) -> bool {
        if self.mine == self.asked {
            return false;
        }
        self.show();
        self.asked = self.mine;
        // The index must be visible before the flag is read; the other side writes the flag before it reads the index.
        fence(Ordering::SeqCst);
        self.flags().load(Ordering::Relaxed) & MASK_INTERRUPT == 0
    }

    /// Asks the other side for an interrupt with the next frame. `false`: frames are there already.
    pub(super) fn arm(&mut self) -> bool {
        self.flags().store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !matches!(self.usable(1), Ok(1..))
    }

    /// Needs no interrupts now.
    pub(super) fn disarm(&self) {
        self.flags().store(MASK_INTERRUPT, Ordering::Relaxed);
    }
}

/// The means to lie.
#[cfg(test)]
impl Ring {
    pub(super) fn word_for_tests(&self, at: usize) -> NonNull<AtomicU16> {
        self.word(at)
    }

    /// Says something else of the last frame that was sent.
    pub(super) fn lie_for_tests(&self, region: u16, offset: u32, length: u32) {
        self.put_descriptor(self.mine.wrapping_sub(1), Descriptor { flags: 0, region, length, offset });
    }

    pub(super) fn descriptor_for_tests(&self, index: u16, region: u16, offset: u32, length: u32) {
        self.put_descriptor(index, Descriptor { flags: 0, region, length, offset });
    }

    pub(super) fn shorten_for_tests(&self, index: u16, length: u32) {
        self.put_descriptor(index, Descriptor { length, ..self.descriptor(index) });
    }
}

#[derive(Debug, Clone, Copy)]
struct Descriptor {
    flags: u16,
    region: u16,
    length: u32,
    offset: u32,
}

/// Descriptor `index` of an owner's ring whose buffers begin at `buffers`, empty.
fn own_descriptor(buffers: usize, index: u16) -> Descriptor {
    let offset = (buffers + usize::from(index) * BUFFER) as u32;
    Descriptor { flags: 0, region: 0, length: BUFFER as u32, offset }
}
