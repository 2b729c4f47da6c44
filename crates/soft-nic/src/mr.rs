//! Registered memory regions, found by key without hashing.

use std::sync::Arc;

use thiserror::Error;
use zsr_wire::aeth::NakCode;
use zsr_wire::{Rkey, atomic};

use crate::access::{self, Change};
use crate::config::Access;
use crate::memory::{Bus, MemoryRegion, Reach};
use crate::numbers::Numbers;

/// Most regions that one NIC holds at a time.
pub(crate) const MAX_REGIONS: usize = 1 << 16;

/// Why a region can't be registered or deregistered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MrError {
    /// Too many regions.
    #[error("the NIC already holds {MAX_REGIONS} memory regions: deregister some first")]
    TooMany,
    /// The addresses run over the end of the 64-bit address space.
    #[error("a region of {len} bytes at I/O virtual address {iova:#x} leaves the 64-bit address space")]
    Address {
        /// I/O virtual address asked for.
        iova: u64,
        /// Length in bytes.
        len: usize,
    },
    /// No region has this key.
    #[error("no memory region has the key {0}: it was never registered here, or is already deregistered")]
    Unknown(Rkey),
}

/// A place for a region, and the random bits of the last key that it had.
#[derive(Default)]
struct Slot {
    mr: Option<Mr>,
    last: u16,
}

struct Mr {
    rkey: Rkey,
    access: Access,
    iova: u64,
    len: u64,
    watched: usize,
    base: *mut u8,
    /// Whether loads and stores alone do.
    coherent: bool,
    region: Arc<dyn MemoryRegion>,
}

impl Mr {
    /// An access to memory that is not coherent: over its bus, or with fences. `false` if the memory is gone.
    #[cold]
    fn reach<B>(&self, bytes: B, copy: impl FnOnce(B), over: impl FnOnce(&dyn Bus, B) -> bool) -> bool {
        match self.region.reach() {
            Reach::Bus(bus) => over(bus, bytes),
            Reach::Coherent | Reach::Gathered => {
                access::fence();
                copy(bytes);
                access::fence();
                true
            }
        }
    }

    fn bus(&self) -> Option<&dyn Bus> {
        match self.region.reach() {
            Reach::Bus(bus) => Some(bus),
            Reach::Coherent | Reach::Gathered => None,
        }
    }
}

// SAFETY: `base` belongs to `region`, which is Send + Sync and allows access from any thread.
unsafe impl Send for Mr {}

/// All regions of a NIC. A key is a slot number and random bits, mixed so that keys of one NIC look unrelated.
pub(crate) struct MrTable {
    slots: Vec<Slot>,
    free: Vec<u16>,
    numbers: Numbers,
    mask: u32,
}

const MIX: u32 = 0x9e37_79b1;
/// The inverse of [`MIX`] modulo 2³².
const UNMIX: u32 = inverse(MIX);

const fn inverse(odd: u32) -> u32 {
    let mut x = odd;
    let mut i = 0;
    while i < 5 {
        x = x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x)));
        i += 1;
    }
    x
}

impl MrTable {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn new(seed: Option<u64>) -> MrTable {
        let mut numbers = Numbers::new(seed, 0x6d65_6d6f_7279);
        let mask = numbers.next() as u32;
        MrTable { slots: Vec::new(), free: Vec::new(), numbers, mask }
    }

    #[inline]
    fn slot_of(&self, rkey: Rkey) -> usize {
        usize::from((rkey.0 ^ self.mask).wrapping_mul(UNMIX) as u16)
    }

    pub(crate) fn register(
        &mut self,
        region: Arc<dyn MemoryRegion>,
        iova: u64,
        access: Access,
    ) -> Result<Rkey, MrError> {
        let len = region.len();
        if iova.checked_add(len as u64).is_none() {
            return Err(MrError::Address { iova, len });
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < MAX_REGIONS => {
                self.slots.push(Slot::default());
                (self.slots.len() - 1) as u16
            }
            None => return Err(MrError::TooMany),
        };
        let random = self.numbers.next() as u16;
        let entry = &mut self.slots[usize::from(slot)];
        // The key that a slot had last must not come back at once.
        entry.last = if random == entry.last { random.wrapping_add(1) } else { random };
        let plain = u32::from(entry.last) << 16 | u32::from(slot);
        let rkey = Rkey(plain.wrapping_mul(MIX) ^ self.mask);
        let (base, watched) = (region.base(), region.watched());
        let coherent = matches!(region.reach(), Reach::Coherent);
        entry.mr = Some(Mr { rkey, access, iova, len: len as u64, watched, base, coherent, region });
        Ok(rkey)
    }

    pub(crate) fn deregister(&mut self, rkey: Rkey) -> Result<(), MrError> {
        let slot = self.slot_of(rkey);
        match self.slots.get_mut(slot) {
            Some(entry) if entry.mr.as_ref().is_some_and(|mr| mr.rkey == rkey) => {
                entry.mr = None;
                self.free.push(slot as u16);
                Ok(())
            }
            _ => Err(MrError::Unknown(rkey)),
        }
    }

    /// The region that `rkey` names and where `[address, address + len)` begins in it, if it holds all of it and allows
    /// `access`.
    #[inline]
    fn locate(&self, rkey: Rkey, address: u64, len: u64, access: Access) -> Option<(&Mr, usize)> {
        let mr = self.slots.get(self.slot_of(rkey))?.mr.as_ref()?;
        let offset = address.wrapping_sub(mr.iova);
        let fits = mr.rkey == rkey && mr.access.allows(access) && address >= mr.iova;
        if !fits || offset > mr.len || len > mr.len - offset {
            return None;
        }
        Some((mr, offset as usize))
    }

    /// Whether `rkey` allows `access` to all of `[address, address + len)`. An empty range needs no key (IBTA
    /// vol. 1, 9.7.4).
    #[inline]
    pub(crate) fn allows(&self, rkey: Rkey, address: u64, len: u32, access: Access) -> bool {
        len == 0 || self.locate(rkey, address, len.into(), access).is_some()
    }

    /// Stores `bytes` at `address`, or says what the peer is told: nothing is stored if `rkey` does not allow it.
    #[inline]
    pub(crate) fn store(
        &self,
        rkey: Rkey,
        address: u64,
        bytes: &[u8],
        access: Access,
    ) -> Result<(), NakCode> {
        if bytes.is_empty() {
            return Ok(());
        }
        let found = self.locate(rkey, address, bytes.len() as u64, access);
        let (mr, offset) = found.ok_or(NakCode::RemoteAccess)?;
        // SAFETY: locate has checked the range, and the region is held alive by its slot.
        let copy = |bytes| unsafe { access::store(mr.base.add(offset), bytes) };
        if mr.coherent {
            copy(bytes);
        } else if !mr.reach(bytes, copy, |bus, bytes| bus.write(offset, bytes)) {
            return Err(NakCode::RemoteOperational);
        }
        if offset < mr.watched {
            mr.region.stored();
        }
        Ok(())
    }

    /// Tells the region that a READ of these bytes was taken; says whether it is one for which the NIC may have to [wait](Self::is_here).
    #[inline]
    pub(crate) fn expect(&self, rkey: Rkey, address: u64, len: u32) -> bool {
        let found = self.locate(rkey, address, len.into(), Access::REMOTE_READ).filter(|_| len > 0);
        let Some((bus, offset)) =
            found.filter(|(mr, _)| !mr.coherent).and_then(|(mr, at)| Some((mr.bus()?, at)))
        else {
            return false;
        };
        bus.expect(offset, len as usize);
        true
    }

    /// Whether a load of these bytes would not wait.
    #[cold]
    pub(crate) fn is_here(&self, rkey: Rkey, address: u64, len: usize) -> bool {
        let found = self.locate(rkey, address, len as u64, Access::REMOTE_READ);
        found.and_then(|(mr, offset)| Some(mr.bus()?.is_here(offset, len))).unwrap_or(true)
    }

    /// Carries an atomic operation out at `address`, a multiple of 8; gives what was there before, or what the peer is told. Memory that only a
    /// bus reaches, or that begins in the middle of a word, has no atomic operations.
    pub(crate) fn atomic(&self, rkey: Rkey, address: u64, change: Change) -> Result<u64, NakCode> {
        let found = self.locate(rkey, address, atomic::WORD as u64, Access::REMOTE_ATOMIC);
        let (mr, offset) = found.ok_or(NakCode::RemoteAccess)?;
        let at = mr.base.wrapping_add(offset);
        if !mr.coherent || at.addr() % atomic::WORD != 0 {
            return Err(NakCode::RemoteOperational);
        }
        // SAFETY: locate has checked the range, the region is held alive by its slot, and the address is a multiple of 8.
        Ok(unsafe { access::change(at, change) })
    }

    /// Loads `bytes` from `address`; `false`, and nothing loaded, if `rkey` does not allow it, or the memory is gone.
    #[inline]
    #[must_use]
    pub(crate) fn load(&self, rkey: Rkey, address: u64, bytes: &mut [u8], access: Access) -> bool {
        if bytes.is_empty() {
            return true;
        }
        match self.locate(rkey, address, bytes.len() as u64, access) {
            Some((mr, offset)) => {
                // SAFETY: locate has checked the range, and the region is held alive by its slot.
                let copy = |bytes: &mut [u8]| unsafe { access::load(mr.base.add(offset), bytes) };
                if mr.coherent {
                    copy(bytes);
                    return true;
                }
                mr.reach(bytes, copy, |bus, bytes| bus.read(offset, bytes))
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::HostMemory;

    fn region(len: usize) -> Arc<dyn MemoryRegion> {
        Arc::new(HostMemory::allocate(len).unwrap())
    }

    struct Nothing;

    // SAFETY: there are no bytes.
    unsafe impl MemoryRegion for Nothing {
        fn base(&self) -> *mut u8 {
            std::ptr::dangling_mut()
        }

        fn len(&self) -> usize {
            0
        }
    }

    /// Counts what it is told.
    struct Watched(HostMemory, std::sync::atomic::AtomicU32);

    // SAFETY: as the memory in it.
    unsafe impl MemoryRegion for Watched {
        fn base(&self) -> *mut u8 {
            self.0.base()
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn watched(&self) -> usize {
            64
        }

        fn stored(&self) {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn a_region_is_told_of_stores_into_its_watched_part() {
        let region = Arc::new(Watched(HostMemory::allocate(128).unwrap(), 0.into()));
        let mut table = MrTable::new(Some(1));
        let key = table.register(region.clone(), 0, Access::ALL).unwrap();
        let told = || region.1.load(std::sync::atomic::Ordering::Relaxed);
        for (address, count) in [(0, 1), (56, 2), (64, 2), (120, 2)] {
            table.store(key, address, &[1; 8], Access::REMOTE_WRITE).unwrap();
            assert_eq!(told(), count, "at {address}");
        }
        let refused = table.store(key, 124, &[1; 8], Access::REMOTE_WRITE);
        assert_eq!((refused, told()), (Err(NakCode::RemoteAccess), 2));
        assert!(table.load(key, 0, &mut [0; 8], Access::REMOTE_READ));
        assert_eq!(told(), 2);
    }

    #[test]
    fn keys_find_their_region_and_no_other() {
        let mut table = MrTable::new(Some(1));
        let keys: Vec<Rkey> =
            (0..100).map(|i| table.register(region(64), i * 1000, Access::ALL).unwrap()).collect();
        for (i, &key) in keys.iter().enumerate() {
            let iova = i as u64 * 1000;
            assert!(table.allows(key, iova, 64, Access::REMOTE_READ));
            assert!(table.allows(key, iova + 64, 0, Access::REMOTE_READ));
            assert!(!table.allows(key, iova + 1, 64, Access::REMOTE_READ));
            assert!(!table.allows(key, iova.wrapping_sub(1), 2, Access::REMOTE_READ));
            assert!(!table.allows(key, u64::MAX, 2, Access::REMOTE_READ));
            for bit in 0..32 {
                assert!(!table.allows(Rkey(key.0 ^ 1 << bit), iova, 1, Access::NONE), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_deregistered_key_stays_dead_when_its_slot_is_used_again() {
        let mut table = MrTable::new(Some(7));
        let old = table.register(region(64), 0, Access::ALL).unwrap();
        table.deregister(old).unwrap();
        assert_eq!(table.deregister(old), Err(MrError::Unknown(old)));
        let new = table.register(region(64), 0, Access::REMOTE_READ).unwrap();
        assert_ne!(old, new);
        assert!(!table.allows(old, 0, 1, Access::NONE));
        assert!(table.allows(new, 0, 64, Access::REMOTE_READ));
        assert!(!table.allows(new, 0, 64, Access::REMOTE_WRITE));
        let mut last = new;
        for _ in 0..if cfg!(miri) { 100 } else { 200_000 } {
            table.deregister(last).unwrap();
            let next = table.register(Arc::new(Nothing), 0, Access::ALL).unwrap();
            assert_ne!(next, last);
            last = next;
        }
    }

    #[test]
    fn a_region_must_fit_the_address_space() {
        let mut table = MrTable::new(Some(7));
        assert!(matches!(
            table.register(region(64), u64::MAX - 62, Access::ALL),
            Err(MrError::Address { .. })
        ));
    }
}
