//! A consumer whose records come to where it wants them.

use std::time::{Duration, Instant};

use zsr_api::controller as proto;
use zsr_ring::PopError;
use zsr_ring::layout::{Arrived, Layout, PlacedError, Places};
use zsr_ring::segment::SegmentReadError;

use super::Registered;
use crate::consumer::FlowConsumer;
use crate::contact::Contact;
use crate::error::ProgramError;
use crate::flow::Options;

/// The popping side of one member of a flow, which says where records go before they come.
///
/// A program [places](Self::place) a layout for each item, in the order of the items: free blocks of a cache, say. The NIC puts the item's
/// records there, row by row. [`pop`](Self::pop) then says how many came, and from whom.
///
/// ```no_run
/// use zsr::layouts::{At, Column, Layout, LayoutConsumer, Registered, Rows};
/// use zsr::{Options, Place};
///
/// // 64 blocks of 4,096 bytes; blocks 5 and 9 are free.
/// let cache = Registered::allocate(64 * 4096)?;
/// let free = Registered::allocate(8)?;
/// free.write(0, &[5, 0, 0, 0, 9, 0, 0, 0]);
/// let options = Options { registered: vec![cache.clone(), free], ..Options::default() };
/// let mut consumer = LayoutConsumer::attach(&Place::find(None)?, "blocks", &options)?;
/// let rows = Rows::Listed { at: At { region: 1, offset: 0 }, width: 4, count: 2 };
/// let blocks = Column { at: At { region: 0, offset: 0 }, stride: 4096, width: 4096 };
/// assert!(consumer.place(&Layout::new(rows, [blocks]))?);
/// if let Some(arrived) = consumer.pop()? {
///     // Blocks 5 and 9 have the item's records now.
///     println!("{} records from producer {}", arrived.records, arrived.producer);
/// }
/// consumer.leave();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The first items of a ring, as many as fit it, come before layouts can be in the ring. Their records are copied when they are popped. So are
/// records with lengths of their own, and such with checksums.
pub struct LayoutConsumer {
    consumer: FlowConsumer,
    places: Places,
    registered: Vec<Registered>,
}

/// What a pop that does not wait for ever finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// An item, whose records are where its layout says.
    Item(Arrived),
    /// None now.
    Nothing,
    /// The end of the stream: all producers have closed, and all is popped.
    End,
}

impl LayoutConsumer {
    /// Takes the ring of a consumer of `flow`, and registers `options.registered`, which layouts name.
    ///
    /// # Errors
    /// As [`FlowConsumer::attach`]; [`ProgramError::NoLayouts`]: a flow that is no shuffle, or has several lanes;
    /// [`PuError::Refused`](crate::pu::PuError::Refused): the ring is not in memory of the kind `layouts`.
    pub fn attach(
        controller: impl Into<Contact>,
        flow: &str,
        options: &Options,
    ) -> Result<Self, ProgramError> {
        let registered = options.registered.clone();
        let (mut consumer, found) = FlowConsumer::attach_with(controller.into(), flow, options, &registered)?;
        let first = consumer.lanes.at(0).layouts;
        let why = match first {
            // The controller looks at items that were popped, for what another consumer lacks, or has got already.
            _ if found.kind() != proto::FlowKind::Shuffle => "it is no shuffle",
            _ if consumer.lanes() > 1 => "they have several lanes: create the flow with one",
            None => "their rings are not in memory of the kind `layouts` (`memory: layouts` in the topology)",
            Some(first) => {
                let regions = registered.iter().map(Registered::memory).collect();
                let places = Places::new(&mut consumer.lanes.at(0).reader, regions, first);
                return Ok(Self { consumer, places, registered });
            }
        };
        consumer.leave();
        Err(ProgramError::NoLayouts { flow: flow.to_owned(), why })
    }

    /// The memory that it has registered.
    pub fn registered(&self) -> &[Registered] {
        &self.registered
    }

    /// The flow's name.
    pub fn flow(&self) -> &str {
        self.consumer.flow()
    }

    /// The member that it is.
    pub fn member(&self) -> &str {
        self.consumer.member()
    }

    /// How many layouts are placed whose items were not popped, and how many there can be: as many as the ring has items.
    pub fn placed(&mut self) -> (usize, usize) {
        let items = self.consumer.lanes.at(0).reader.consumer().spec().capacity();
        (self.places.placed(), items as usize)
    }

    /// Says where the records go of the next item that has no place yet. `false`: all [there can be](Self::placed) are placed, and one has
    /// to be popped first. Does not wait.
    ///
    /// What the layout names belongs to the NIC until the item was popped, and no other layout that is placed may name it. Where a bitmap or a
    /// list changes before, so that it names what is not registered or other rows, the flow counts this consumer as dead.
    ///
    /// # Errors
    /// [`ProgramError::Layout`]: the layout makes no sense, or names more than an item brings. Nothing was placed.
    pub fn place(&mut self, layout: &Layout) -> Result<bool, ProgramError> {
        let reader = &mut self.consumer.lanes.at(0).reader;
        Ok(self.places.try_place(reader, layout.clone())?)
    }

    /// The next item, waiting for it as long as it takes; `None` at the end of the stream: all producers have closed, and all is popped.
    ///
    /// # Errors
    /// As [`FlowConsumer::pop`]. What is no segment is popped, and its layout is dropped. [`ProgramError::NotPlaced`]: there is an item,
    /// and no layout that can be followed for it.
    pub fn pop(&mut self) -> Result<Option<Arrived>, ProgramError> {
        loop {
            match self.pop_until(None)? {
                Came::Item(arrived) => return Ok(Some(arrived)),
                Came::End => return Ok(None),
                Came::Nothing => {}
            }
        }
    }

    /// The next item if there is one now.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn try_pop(&mut self) -> Result<Came, ProgramError> {
        self.came()
    }

    /// The next item, waiting for it for `time`.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_timeout(&mut self, time: Duration) -> Result<Came, ProgramError> {
        self.pop_until(Instant::now().checked_add(time))
    }

    fn pop_until(&mut self, end: Option<Instant>) -> Result<Came, ProgramError> {
        // Slots that wait for layouts are given back where none is placed.
        let came = self.came()?;
        if came != Came::Nothing {
            return Ok(came);
        }
        match self.consumer.lanes.wait(|| false, end) {
            Ok(()) => self.came(),
            Err(PopError::Closed) => Ok(Came::End),
            Err(e) => Err(self.consumer.failed(e.into())),
        }
    }

    fn came(&mut self) -> Result<Came, ProgramError> {
        match self.places.try_pop(&mut self.consumer.lanes.at(0).reader) {
            Ok(arrived) => {
                self.consumer.counts.add(arrived.records.into(), arrived.bytes.into());
                Ok(Came::Item(arrived))
            }
            Err(PlacedError::Read(SegmentReadError::Ring(PopError::Empty))) => Ok(Came::Nothing),
            Err(PlacedError::Read(SegmentReadError::Ring(PopError::Closed))) => Ok(Came::End),
            Err(PlacedError::Read(e)) => Err(self.consumer.failed(e)),
            Err(why) => Err(ProgramError::NotPlaced { flow: self.flow().to_owned(), why }),
        }
    }

    /// Leaves: what was not popped is for the next program, also what has come to this program's memory, which is its own again when this
    /// returns.
    pub fn leave(mut self) {
        self.places.leave(&mut self.consumer.lanes.at(0).reader);
        self.consumer.leave();
    }

    /// Tells the flow at once that this program pops no more.
    pub fn abort(&mut self) {
        self.consumer.abort();
    }
}
