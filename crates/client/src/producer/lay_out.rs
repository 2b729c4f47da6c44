//! Records that stay where the program keeps them, and are gathered by the NIC.

use std::cell::Cell;
use std::sync::Arc;

use zsr_ring::PushError;
use zsr_ring::memory::Memory;
use zsr_ring::segment::SegmentPushError;

use super::put::{To, Until, Wait};
use super::{FlowProducer, Lane};
use crate::error::ProgramError;
use crate::layouts::{Layout, LayoutError, Registered, divides};

/// An item that was laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    lane: u32,
    /// How many items the lane had then.
    items: u64,
}

/// For languages that keep it as numbers.
impl From<Ticket> for [u64; 2] {
    fn from(ticket: Ticket) -> Self {
        [ticket.lane.into(), ticket.items]
    }
}

impl From<[u64; 2]> for Ticket {
    fn from([lane, items]: [u64; 2]) -> Self {
        Ticket { lane: lane as u32, items }
    }
}

impl FlowProducer {
    /// The memory that it has registered.
    pub fn registered(&self) -> &[Registered] {
        &self.options.registered
    }

    /// Pushes the records of a layout, which stay where they are in [registered](crate::Options::registered) memory, as one item to one
    /// consumer, behind all that was pushed to it before. Waits for room as `wait` says; `None`: there was none.
    ///
    /// Memory that the layout names must not change until the item [was taken](Self::was_taken).
    ///
    /// # Errors
    /// As [`push`](Self::push); [`SegmentPushError::Layout`]: the layout makes no sense, or the rings have no layouts. A flow with several
    /// consumers takes no [`To::Key`].
    pub fn lay_out(&mut self, layout: &Layout, to: To, wait: Wait) -> Result<Option<Ticket>, ProgramError> {
        let regions: Vec<Arc<dyn Memory>> = self.options.registered.iter().map(Registered::memory).collect();
        // By which number the chosen lane's layouts name the first region.
        let first = Cell::new(None);
        let choose = |lanes: &[Lane]| {
            let lane = match to {
                To::Key if lanes.len() > 1 => {
                    return Err(format!(
                        "records of a layout go to one consumer: choose one of {}, from 0",
                        lanes.len()
                    ));
                }
                To::Key => 0,
                To::Consumer(number) => number,
            };
            first.set(lanes.get(lane).and_then(|lane| lane.layouts));
            Ok(lane)
        };
        let put = self.at_lane(choose, Until::after(wait), |writer, _| {
            let first = first.get().ok_or(SegmentPushError::Layout(LayoutError::PlainRing))?;
            writer.try_lay_out(layout, &regions, first)
        })?;
        let Some((lane, records)) = put else { return Ok(None) };
        self.counts.add(records.into(), u64::from(records) * layout.row_size());
        let Lane { number, writer, .. } = &self.lanes[lane];
        Ok(Some(Ticket { lane: *number, items: writer.segments_pushed() }))
    }

    /// Divides the first `rows` rows of a table among the consumers of a shuffle: one layout for each, in the flow's order. All is checked
    /// before anything is pushed: each row has to go to one consumer.
    ///
    /// # Errors
    /// As [`lay_out`](Self::lay_out); [`LayoutError::Twice`], [`LayoutError::Missing`], [`LayoutError::NoSuchRow`],
    /// [`LayoutError::Consumers`]. When `wait` is over, the first consumers may have theirs: tickets say which.
    pub fn lay_out_each(
        &mut self,
        layouts: &[Layout],
        rows: u32,
        wait: Wait,
    ) -> Result<Vec<Ticket>, ProgramError> {
        let refused = |why| ProgramError::from(SegmentPushError::Layout(why));
        if layouts.len() != self.consumers() {
            let consumers = self.consumers();
            return Err(refused(LayoutError::Consumers { layouts: layouts.len(), consumers }));
        }
        let regions: Vec<Arc<dyn Memory>> = self.options.registered.iter().map(Registered::memory).collect();
        divides(layouts, rows, &regions).map_err(refused)?;
        let mut tickets = Vec::with_capacity(layouts.len());
        for (consumer, layout) in layouts.iter().enumerate() {
            match self.lay_out(layout, To::Consumer(consumer), wait)? {
                Some(ticket) => tickets.push(ticket),
                None => break,
            }
        }
        Ok(tickets)
    }

    /// Whether an item was taken out of the producer's ring, by a fresh look: the memory that its layout names may change. An item of a ring
    /// that has left the flow is no longer read either.
    ///
    /// # Errors
    /// The ring is damaged.
    pub fn was_taken(&mut self, ticket: &Ticket) -> Result<bool, ProgramError> {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.number == ticket.lane) else {
            return Ok(true);
        };
        let pushed = lane.writer.segments_pushed();
        let ring = lane.writer.producer();
        match ring.free_items() {
            Ok(free) => Ok(pushed - u64::from(ring.spec().capacity() - free) >= ticket.items),
            // Nobody reads it any more.
            Err(PushError::Aborted(_)) => Ok(true),
            Err(e) => Err(SegmentPushError::from(e).into()),
        }
    }
}
