//! What a ring needs when the switch behind it has been replaced: the successor does not know how far its predecessor was, and what
//! that had begun in several rings may be done in some of them. To be called while no switch is connected.

use std::sync::atomic::Ordering;

use crate::abi::{ControlWord, ITEMS_OFFSET, from_raw, to_raw};
use crate::memory::{Bus, Visibility};
use crate::region::{Ring, Role};

/// Bytes that are no part of a ring, or not in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{len} B from counter {from} on are no whole items in one piece of a ring of {size} B with items of {item} B"
)]
pub struct NotInRing {
    /// The first byte's counter.
    pub from: u32,
    /// How many.
    pub len: usize,
    /// Bytes of the ring's items.
    pub size: u32,
    /// Bytes of one item.
    pub item: u32,
}

impl Ring {
    /// Where the items `from` to `from + len` lie, in bytes behind the first one.
    fn piece(&self, from: u32, len: usize) -> Result<(u32, u32), NotInRing> {
        let (size, item) = (self.spec().ring_size(), self.spec().item_size());
        let at = from & (size - 1);
        let whole = from.is_multiple_of(item) && len.is_multiple_of(item as usize);
        match u32::try_from(len) {
            Ok(bytes) if whole && bytes <= size - at => Ok((at, bytes)),
            _ => Err(NotInRing { from, len, size, item }),
        }
    }

    /// The bus to memory that processors do not reach.
    fn far(&self) -> Option<&dyn Bus> {
        self.memory().bus().filter(|_| self.memory().visibility() == Visibility::Copied)
    }

    /// The bus that shows items as a switch reads them.
    fn as_read(&self) -> Option<&dyn Bus> {
        self.far().or_else(|| self.memory().bus().filter(|_| self.role() == Role::Producer))
    }

    /// The items from counter `from` on, as they lie in memory, whether they were popped or not. Of memory that has a
    /// [trouble](crate::memory::Memory::trouble) behind this call it is not known what they are.
    ///
    /// # Errors
    /// [`NotInRing`].
    pub fn items_at(&self, from: u32, len: usize) -> Result<Vec<u8>, NotInRing> {
        let (at, bytes) = self.piece(from, len)?;
        let mut out = vec![0; len];
        match self.as_read() {
            // The zeros of memory that is gone are for nobody: see `Memory::trouble`.
            Some(bus) => drop(bus.read(ITEMS_OFFSET + at as usize, &mut out)),
            // SAFETY: in bounds, and no switch that could write there is connected.
            None => unsafe {
                std::ptr::copy_nonoverlapping(self.items.read(at, bytes), out.as_mut_ptr(), len)
            },
        }
        Ok(out)
    }

    /// Puts the items that a consumer ring lacks in front of `head` into it, and has the program see them. A ring whose head is there
    /// already has them.
    ///
    /// # Errors
    /// [`NotInRing`], also when they would not be next; then nothing was changed.
    pub fn complete(&self, head: u32, items: &[u8]) -> Result<(), NotInRing> {
        let from = head.wrapping_sub(items.len() as u32);
        let (at, bytes) = self.piece(from, items.len())?;
        let order = self.spec().byte_order();
        let word = from_raw(self.control.head.load(Ordering::Acquire), order);
        if word.counter == head {
            return Ok(());
        }
        if word.counter != from || self.role() != Role::Consumer {
            let (size, item) = (self.spec().ring_size(), self.spec().item_size());
            return Err(NotInRing { from, len: items.len(), size, item });
        }
        match self.far() {
            Some(bus) => drop(bus.write(ITEMS_OFFSET + at as usize, items)),
            // SAFETY: in bounds, behind what the program may read, and no switch that could write there is connected.
            None => unsafe {
                std::ptr::copy_nonoverlapping(items.as_ptr(), self.items.write(at, bytes), items.len());
            },
        }
        self.control.head.store(to_raw(ControlWord { counter: head, ..word }, order), Ordering::Release);
        Ok(())
    }

    /// Has the program of a producer ring see that everything in front of `tail` was taken.
    pub fn taken(&self, tail: u32) {
        let order = self.spec().byte_order();
        let word = from_raw(self.control.tail.load(Ordering::Acquire), order);
        if self.role() == Role::Producer && word.counter != tail {
            self.control.tail.store(to_raw(ControlWord { counter: tail, ..word }, order), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cancel, RingSpec};

    #[test]
    fn a_consumer_gets_what_it_lacks_once_and_nothing_else() {
        let ring = Ring::with_start(Role::Consumer, RingSpec::new(8, 32).unwrap(), 24, 3).unwrap();
        let mut consumer = ring.attach_consumer(Cancel::default()).unwrap();
        assert_eq!(ring.complete(32, &[7; 8]), Ok(()));
        assert_eq!(ring.complete(32, &[9; 8]), Ok(()), "it has it");
        let mut item = [0; 8];
        consumer.try_pop(&mut item).unwrap();
        assert_eq!(item, [7; 8]);
        assert!(consumer.try_pop(&mut item).is_err());
        assert_eq!(ring.items_at(24, 8).unwrap(), [7; 8]);
        for (head, len) in [(48, 8), (40, 4), (56, 40), (64, 40)] {
            assert!(ring.complete(head, &vec![1; len]).is_err(), "{head} {len}");
        }
        assert!(ring.items_at(24, 16).is_err(), "it is in two pieces");
    }

    #[test]
    fn a_producer_sees_what_was_taken() {
        let ring = Ring::with_start(Role::Producer, RingSpec::new(8, 16).unwrap(), 0, 3).unwrap();
        let mut producer = ring.attach_producer(Cancel::default()).unwrap();
        producer.try_push(&[1; 8]).unwrap();
        producer.try_push(&[2; 8]).unwrap();
        assert!(producer.try_push(&[3; 8]).is_err());
        ring.taken(8);
        producer.try_push(&[3; 8]).unwrap();
        assert!(producer.try_push(&[4; 8]).is_err());
    }
}
