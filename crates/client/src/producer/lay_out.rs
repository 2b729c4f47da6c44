//! Records that stay where the program keeps them, and are gathered by the NIC.

use std::cell::Cell;
use std::sync::Arc;

use zsr_ring::PushError;
use zsr_ring::memory::Memory;
use zsr_ring::segment::SegmentPushError;

use super::put::{To, Until, Wait};
use super::{FlowProducer, Lane};
use crate::error::ProgramError;
use crate::flow::get;
use crate::layouts::{Layout, LayoutError, Registered, check, divides};
use crate::session::ClientError;

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
        let choose = |lanes: &[Lane]| match to {
            To::Key if lanes.len() > 1 => {
                Err(format!("records of a layout go to one consumer: choose one of {}, from 0", lanes.len()))
            }
            To::Key => Ok(0),
            To::Consumer(number) => Ok(number),
        };
        self.lay_out_at(layout, choose, wait)
    }

    fn regions(&self) -> Vec<Arc<dyn Memory>> {
        self.options.registered.iter().map(Registered::memory).collect()
    }

    /// As [`lay_out`](Self::lay_out), at the lane that `choose` says.
    fn lay_out_at(
        &mut self,
        layout: &Layout,
        choose: impl Fn(&[Lane]) -> Result<usize, String>,
        wait: Wait,
    ) -> Result<Option<Ticket>, ProgramError> {
        let regions = self.regions();
        // By which number the chosen lane's layouts name the first region.
        let first = Cell::new(None);
        let choose = |lanes: &[Lane]| {
            let lane = choose(lanes)?;
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

    /// Divides the first `rows` rows of a table among the consumers of a shuffle: one layout for each, in the flow's order. Each row has to
    /// go to one consumer, and all else is checked, too, before anything is pushed. A consumer without rows gets no item. Says whether all
    /// was pushed before `wait` was over; `tickets` has those of the first consumers, also when there is an error.
    ///
    /// # Errors
    /// As [`lay_out`](Self::lay_out); [`LayoutError::Twice`], [`LayoutError::Missing`], [`LayoutError::NoSuchRow`],
    /// [`LayoutError::Consumers`]; [`ProgramError::Route`]: a consumer has joined or left in the middle.
    pub fn lay_out_each(
        &mut self,
        layouts: &[Layout],
        rows: u32,
        wait: Wait,
        tickets: &mut Vec<Option<Ticket>>,
    ) -> Result<bool, ProgramError> {
        let refused = |why| ProgramError::from(SegmentPushError::Layout(why));
        tickets.clear();
        self.refresh()?;
        let lanes: Vec<u32> = self.lanes.iter().map(|lane| lane.number).collect();
        if layouts.len() != lanes.len() {
            return Err(refused(LayoutError::Consumers { layouts: layouts.len(), consumers: lanes.len() }));
        }
        let regions = self.regions();
        divides(layouts, rows, &regions).map_err(refused)?;
        let mut filled = Vec::with_capacity(layouts.len());
        for (layout, lane) in layouts.iter().zip(&self.lanes) {
            let size = self.options.record_size.filter(|size| layout.row_size() != u64::from(*size));
            let done = match (check(layout, &regions, self.item_size), lane.layouts, size) {
                (Err(LayoutError::Empty), ..) => Ok(false),
                (Err(why), ..) => Err(why),
                (Ok(()), None, _) => Err(LayoutError::PlainRing),
                (Ok(()), _, Some(expected)) => Err(LayoutError::RowSize { expected, got: layout.row_size() }),
                (Ok(()), Some(_), None) => Ok(true),
            };
            filled.push(done.map_err(refused)?);
        }
        for ((layout, lane), filled) in layouts.iter().zip(lanes).zip(filled) {
            if !filled {
                tickets.push(None);
                continue;
            }
            let choose = |lanes: &[Lane]| {
                let at = lanes.iter().position(|other| other.number == lane);
                at.ok_or_else(|| {
                    "a consumer has joined or left while a table was divided among them".to_owned()
                })
            };
            match self.lay_out_at(layout, choose, wait)? {
                Some(ticket) => tickets.push(Some(ticket)),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether an item was taken out of the producer's ring, by a fresh look: the memory that its layout names may change. Of a ring to a
    /// consumer that is leaving, items are still read until it has left; the controller is asked then. An item of a ring that has left the
    /// flow, or was given up, is no longer read.
    ///
    /// # Errors
    /// The ring is damaged; the controller does not answer.
    pub fn was_taken(&mut self, ticket: &Ticket) -> Result<bool, ProgramError> {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.number == ticket.lane) else {
            let Some(at) = self.left.iter().position(|(lane, _)| *lane == ticket.lane) else {
                return Ok(true);
            };
            let gone = self.has_left(&self.left[at].1)?;
            if gone {
                self.left.remove(at);
            }
            return Ok(gone);
        };
        let pushed = lane.writer.segments_pushed();
        let ring = lane.writer.producer();
        match ring.free_items() {
            // All that is in the ring is newer. A program before this one may have left some there.
            Ok(free) => Ok(pushed.saturating_sub(ticket.items) >= u64::from(ring.spec().capacity() - free)),
            // Nobody reads it any more.
            Err(PushError::Aborted(_)) => Ok(true),
            Err(e) => Err(SegmentPushError::from(e).into()),
        }
    }

    /// Whether a ring that this program has left is in the flow no more.
    fn has_left(&self, ring: &str) -> Result<bool, ProgramError> {
        if self.lanes.iter().any(|lane| lane.ring == ring) {
            // A new one has its name.
            return Ok(true);
        }
        match get(&self.session, &self.flow) {
            Ok(flow) => Ok(!flow.producers.iter().flat_map(|member| &member.rings).any(|r| r.name == ring)),
            // The flow is gone.
            Err(ClientError::Refused { .. }) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }
}
