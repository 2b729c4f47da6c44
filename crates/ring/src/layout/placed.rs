//! Layouts at a consumer: where the records of items go that are still to come.
//!
//! A program places a layout per item, in the order of the items. A NIC finds the layout in the slot that the item comes to, and puts the
//! records where it says. So the switch may fill a slot only when its layout is there: a slot is given back by placing a layout in it.
//!
//! Slots that were free when the program came have no layout. Records of the items that come to them, at most one per slot of the ring, lie
//! in the ring, and are copied when they are popped. So it is with records that a NIC leaves in the ring: such that are more than the layout
//! takes, have a checksum, or have lengths of their own.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Laid, Layout, LayoutError, LayoutFault, encode};
use crate::PopError;
use crate::memory::Memory;
use crate::segment::{Header, SegmentFault, SegmentReadError, SegmentReader};

/// The layouts of a ring's next items.
#[derive(Debug)]
pub struct Places {
    regions: Vec<Arc<dyn Memory>>,
    /// By which number the ring's agent knows the first region.
    first: u32,
    /// Layouts of items that were not popped, the next item's first.
    placed: VecDeque<Layout>,
    /// For layouts of items that lie in the ring: an item with one.
    item: Vec<u8>,
}

/// An item that was popped, whose records are where its layout says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// Number of the producer that pushed it.
    pub producer: u32,
    /// Records that it had.
    pub records: u32,
    /// Bytes of these records.
    pub bytes: u32,
    /// The last of these bytes, which the layout had no room for. Mostly there are none.
    pub rest: Vec<u8>,
}

/// Nothing was popped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacedError {
    /// As of other readers. An item that is no segment is popped, and its layout is dropped.
    #[error(transparent)]
    Read(#[from] SegmentReadError),
    /// No layout says where the next item goes, which has come.
    #[error("no layout is placed for the next item: place one first")]
    NonePlaced,
    /// The next item's layout can't be followed any more. The item stays where it is.
    #[error("the next item's records can't be put in their place, since {0}")]
    Layout(#[from] LayoutFault),
}

impl From<SegmentFault> for PlacedError {
    fn from(fault: SegmentFault) -> Self {
        SegmentReadError::from(fault).into()
    }
}

impl Places {
    /// For a ring whose agent knows the first of `regions` by the number `first`, and follows layouts.
    pub fn new(reader: &mut SegmentReader, regions: Vec<Arc<dyn Memory>>, first: u32) -> Self {
        let item = vec![0; reader.consumer().spec().item_size() as usize];
        Self { regions, first, placed: VecDeque::new(), item }
    }

    /// How many layouts are placed whose items were not popped.
    pub fn placed(&self) -> usize {
        self.placed.len()
    }

    /// Says where the records go of the next item that has no place yet. `false`: so many are placed as the ring has items, and one has to
    /// be popped first. What the layout names belongs to the NIC until the item was popped.
    ///
    /// # Errors
    /// [`LayoutError`]: the layout makes no sense. Numbers in lists are not looked at.
    pub fn try_place(&mut self, reader: &mut SegmentReader, layout: Layout) -> Result<bool, LayoutError> {
        let ring = reader.consumer();
        let slots = ring.spec().capacity() as usize;
        if self.placed.len() >= slots {
            return Ok(false);
        }
        if self.placed.len() + ring.held() >= slots {
            let write = |slot: &mut [u8]| {
                // The slot's header says that it has no records, also while this is written.
                encode(&layout, &self.regions, self.first, slot)?;
                Header::write_placed(slot);
                Ok(())
            };
            // One is held, since fewer are placed than there are slots.
            ring.refill(write).unwrap_or(Ok(()))?;
        } else {
            // The item's slot is the switch's already, without a layout.
            encode(&layout, &self.regions, 0, &mut self.item)?;
        }
        self.placed.push_back(layout);
        Ok(true)
    }

    /// Pops the next item if there is one. Its records are where its layout says.
    ///
    /// # Errors
    /// [`PlacedError`].
    pub fn try_pop(&mut self, reader: &mut SegmentReader) -> Result<Arrived, PlacedError> {
        if let Err(e) = reader.consumer().unread() {
            // Who waits without a layout, or for nothing, needs no slots for layouts. An item that comes lies in the ring.
            if self.placed.is_empty() || e == PopError::Closed {
                reader.consumer().give_back(None);
            }
            return Err(SegmentReadError::from(e).into());
        }
        let Some(layout) = self.placed.front() else { return Err(PlacedError::NonePlaced) };
        if let Some(header) = reader.try_next_placed()? {
            self.placed.pop_front();
            let Header { producer, count: records, used: bytes, .. } = header;
            return Ok(Arrived { producer, records, bytes, rest: Vec::new() });
        }
        let segment = match reader.try_next_segment() {
            Ok(segment) => segment,
            Err(e) => {
                if let SegmentReadError::Fault(_) = e {
                    self.placed.pop_front();
                }
                return Err(e.into());
            }
        };
        let mut copied = || {
            let item = &mut self.item;
            let soundly = |_| LayoutFault::Nonsense("it was changed");
            encode(layout, &self.regions, 0, item).map_err(soundly)?;
            // As of a slot that has a layout.
            segment.header().write_popped(item);
            Header::write_placed(item);
            let word = |n: usize| item.as_chunks::<8>().0.get(n).map_or(0, |word| u64::from_le_bytes(*word));
            let laid = Laid::placed(item.len(), word, &self.regions)?;
            let mut laid = laid.ok_or(LayoutFault::Nonsense("it was changed"))?;
            let (mut bytes, mut rest) = (0, Vec::new());
            let mut put = |records: &[u8]| {
                laid.write(bytes, records)?;
                let fits = laid.room().saturating_sub(bytes).min(records.len());
                rest.extend_from_slice(&records[fits..]);
                bytes += records.len();
                Ok::<(), LayoutFault>(())
            };
            match segment.as_they_lie() {
                (records, Some(_)) => put(records)?,
                (_, None) => segment.records().try_for_each(|record| Ok::<(), PlacedError>(put(record?)?))?,
            }
            Ok::<Arrived, PlacedError>(Arrived {
                producer: segment.header().producer,
                records: segment.len() as u32,
                bytes: bytes as u32,
                rest,
            })
        };
        match copied() {
            Ok(arrived) => {
                segment.hold_popped();
                self.placed.pop_front();
                Ok(arrived)
            }
            Err(fault @ PlacedError::Layout(_)) => {
                segment.keep(0);
                Err(fault)
            }
            Err(fault) => {
                segment.hold_popped();
                self.placed.pop_front();
                Err(fault)
            }
        }
    }

    /// Gives slots of popped items back without layouts. Layouts that are placed stay in the ring until its agent takes them out.
    pub fn leave(self, reader: &mut SegmentReader) {
        reader.consumer().give_back(None);
    }
}
