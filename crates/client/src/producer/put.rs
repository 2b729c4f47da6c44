//! How records get into a producer's rings: one or many, copied or written in place, with as much patience as the program has.

use std::time::{Duration, Instant};

use zsr_ring::PushError;
use zsr_ring::segment::{SegmentPushError, SegmentWriter};

use super::follow::News;
use super::{FlowProducer, LOOK, Lane};
use crate::error::ProgramError;

/// How long a call waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It does not.
    No,
    /// So long. A change of the flow that is under way is waited for besides, for 10 s at most.
    For(Duration),
    /// As long as it takes.
    Forever,
}

impl Wait {
    /// The longest time that is waited, zero for [`Wait::No`]; `None`: as long as it takes.
    pub fn at_most(self) -> Option<Duration> {
        match self {
            Wait::No => Some(Duration::ZERO),
            Wait::For(time) => Some(time),
            Wait::Forever => None,
        }
    }
}

/// To which consumer records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To that which the flow's routing says, by each record's key. Columns of lines of text are divided by commas.
    Key,
    /// To that with this number, from 0, in the flow's order. Where all consumers share the producer's one ring, to 0.
    Consumer(usize),
}

/// When patience ends.
#[derive(Clone, Copy)]
pub(super) enum Until {
    Now,
    At(Instant),
    Never,
}

impl Until {
    pub(super) fn after(wait: Wait) -> Self {
        match wait {
            Wait::No => Until::Now,
            // A time that the clock can't count to is for ever.
            Wait::For(time) => Instant::now().checked_add(time).map_or(Until::Never, Until::At),
            Wait::Forever => Until::Never,
        }
    }

    fn end(self) -> Option<Instant> {
        match self {
            Until::Now => Some(Instant::now()),
            Until::At(end) => Some(end),
            Until::Never => None,
        }
    }

    fn is_over(self) -> bool {
        match self {
            Until::Now => true,
            Until::At(end) => Instant::now() >= end,
            Until::Never => false,
        }
    }
}

impl FlowProducer {
    /// As [`push`](Self::push), if that needs no waiting. Says whether the record was taken.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn try_push(&mut self, record: &[u8]) -> Result<bool, ProgramError> {
        self.push_to(record, To::Key, Wait::No)
    }

    /// As [`push`](Self::push), waiting for `time`. Says whether the record was taken.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_timeout(&mut self, record: &[u8], time: Duration) -> Result<bool, ProgramError> {
        self.push_to(record, To::Key, Wait::For(time))
    }

    /// Pushes a record, waiting for room as `wait` says. Says whether the record was taken.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_to(&mut self, record: &[u8], to: To, wait: Wait) -> Result<bool, ProgramError> {
        let until = Until::after(wait);
        let put = self.routed(|producer, number, choose| {
            let choose = |lanes: &[Lane]| choose(to, record, lanes.len(), number);
            producer.at_lane(choose, until, |writer, _| writer.try_push(record))
        });
        Ok(self.took(put?, record.len()))
    }

    /// Pushes a record to the consumer of a shuffle that has this name, waiting for room as `wait` says. Says whether the record was
    /// taken.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`ProgramError::NoMember`] if there is no such consumer, which the controller was asked about.
    pub fn push_to_member(&mut self, record: &[u8], member: &str, wait: Wait) -> Result<bool, ProgramError> {
        let until = Until::after(wait);
        let mut asked = false;
        let put = loop {
            let choose = |lanes: &[Lane]| {
                let lane = lanes.iter().position(|lane| lane.consumer == member);
                lane.ok_or_else(|| format!("there is no consumer `{member}`"))
            };
            match self.at_lane(choose, until, |writer, _| writer.try_push(record)) {
                // It may have joined a moment ago.
                Err(ProgramError::Route(_)) if !asked => {
                    asked = true;
                    let flow = self.ask()?;
                    let done = self.hear(&News::Flow(Box::new(flow)));
                    self.catch_up(done)?;
                }
                Err(ProgramError::Route(_)) => {
                    return Err(ProgramError::NoMember {
                        flow: self.flow.clone(),
                        member: member.to_owned(),
                    });
                }
                put => break put?,
            }
        };
        Ok(self.took(put, record.len()))
    }

    /// Pushes records of the producer's record size that lie side by side in `rows`, each to its consumer, waiting for room as
    /// `wait` says. Says how many were taken: the first so many, and all of them unless `wait` is over.
    ///
    /// # Errors
    /// As [`push`](Self::push), [`ProgramError::NoSize`]. [`counts`](Self::counts) knows how many records were taken before.
    pub fn push_rows(&mut self, rows: &[u8], to: To, wait: Wait) -> Result<usize, ProgramError> {
        let Some(size) = self.record_size() else {
            return Err(ProgramError::NoSize { flow: self.flow.clone() });
        };
        if !rows.len().is_multiple_of(size as usize) {
            return Err(SegmentPushError::TupleSize { expected: size, got: rows.len() }.into());
        }
        let taken = self.put_rows(rows, size as usize, to, Until::after(wait));
        if self.at_once {
            self.lanes.iter_mut().for_each(Lane::send);
        }
        taken
    }

    fn put_rows(&mut self, rows: &[u8], size: usize, to: To, until: Until) -> Result<usize, ProgramError> {
        let mut rest = rows;
        while let Some(row) = rest.get(..size) {
            let put = self.routed(|producer, number, choose| {
                let choose = |lanes: &[Lane]| choose(to, row, lanes.len(), number);
                // Those behind the first one may have another key.
                producer.at_lane(choose, until, |writer, consumers| match to {
                    To::Key if consumers > 1 => writer.try_push(row).map(|()| 1),
                    _ => writer.try_push_tuples(rest),
                })
            });
            let Some((_, taken)) = put? else { break };
            self.counts.add(taken as u64, (taken * size) as u64);
            rest = &rest[taken * size..];
        }
        Ok((rows.len() - rest.len()) / size)
    }

    /// Room for records to one consumer, in the ring, waiting for it as `wait` says: for one record of at most `len` bytes; where
    /// records have a size, for as many as the open item takes of `len` bytes of them, and at least for one. The memory holds anything
    /// before. [`publish`](Self::publish) pushes what was written there; any other call forgets it.
    ///
    /// # Errors
    /// As [`push`](Self::push). A flow with several consumers takes no [`To::Key`], as the record is not there yet.
    pub fn reserve(&mut self, len: usize, to: To, wait: Wait) -> Result<Option<&mut [u8]>, ProgramError> {
        let choose = |lanes: &[Lane]| match to {
            To::Key if lanes.len() > 1 => Err(format!(
                "a record that is written in place has no key yet: choose one of {} consumers, from 0",
                lanes.len()
            )),
            To::Key => Ok(0),
            To::Consumer(number) => Ok(number),
        };
        // Only looks whether there is room: memory can't be had from inside.
        let room =
            self.at_lane(choose, Until::after(wait), |writer, _| writer.try_reserve(len).map(|_| ()))?;
        let Some((lane, ())) = room else { return Ok(None) };
        self.reserved = Some((lane, len));
        let room = self.lanes[lane].writer.try_reserve(len)?;
        Ok(Some(room.into_bytes()?))
    }

    /// Pushes the first `used` bytes of what was [reserved](Self::reserve): one record, or as many of the producer's record size as
    /// that is. Does not wait.
    ///
    /// # Errors
    /// [`ProgramError::NotReserved`]; `used` is more than was reserved, or no whole records; the flow has failed.
    pub fn publish(&mut self, used: usize) -> Result<(), ProgramError> {
        let none = || ProgramError::NotReserved { flow: self.flow.clone() };
        let (lane, len) = self.reserved.ok_or_else(none)?;
        self.lanes[lane].writer.try_reserve(len)?.publish(used)?;
        self.reserved = None;
        if self.at_once {
            self.lanes[lane].send();
        }
        let records = self.record_size().map_or(1, |size| used / size as usize);
        self.counts.add(records as u64, used as u64);
        Ok(())
    }

    /// The [ring](Self::ring) in which room is [reserved](Self::reserve), if there is some.
    pub fn reserved_ring(&self) -> Option<u32> {
        self.reserved.and_then(|(lane, _)| self.ring(lane))
    }

    /// Bytes of each record, if the flow's schema or the program says so.
    pub fn record_size(&self) -> Option<u32> {
        self.options.record_size
    }

    /// Whether a record of `len` bytes was put into a lane.
    fn took(&mut self, put: Option<(usize, ())>, len: usize) -> bool {
        let Some((lane, ())) = put else { return false };
        if self.at_once {
            self.lanes[lane].send();
        }
        self.counts.add(1, len as u64);
        true
    }

    /// Calls `work` with the number of the next record, and with the function that chooses a consumer.
    fn routed<T>(
        &mut self,
        work: impl FnOnce(&mut Self, u64, &mut dyn FnMut(To, &[u8], usize, u64) -> Result<usize, String>) -> T,
    ) -> T {
        let number = self.counts.records();
        let mut own = self.route.take();
        let done = work(self, number, &mut |to, record, consumers, number| match (to, &mut own) {
            (To::Consumer(consumer), _) => Ok(consumer),
            (To::Key, _) if consumers == 1 => Ok(0),
            (To::Key, Some(Ok(route))) => route.choose(record, consumers, number),
            (To::Key, Some(Err(why))) => Err(why.to_string()),
            (To::Key, None) => Err("the flow's routing is not known".into()),
        });
        self.route = own;
        done
    }

    /// Has `attempt` done at the lane that `choose` says, of so many, waiting for room until then: nothing if there was none. `choose`
    /// is asked again when consumers join or leave meanwhile.
    pub(super) fn at_lane<T>(
        &mut self,
        mut choose: impl FnMut(&[Lane]) -> Result<usize, String>,
        until: Until,
        mut attempt: impl FnMut(&mut SegmentWriter, usize) -> Result<T, SegmentPushError>,
    ) -> Result<Option<(usize, T)>, ProgramError> {
        self.reserved = None;
        let mut chosen = None;
        loop {
            if self.refresh()? {
                chosen = None;
            }
            self.tell_losses()?;
            let consumers = self.lanes.len();
            // All consumers are leaving at this moment: one will stay, or another come.
            if consumers == 0 {
                if until.is_over() {
                    return Ok(None);
                }
                if self.options.cancel.sleep(LOOK) {
                    return Err(SegmentPushError::from(PushError::Cancelled).into());
                }
                continue;
            }
            let lane = match chosen {
                Some(lane) => lane,
                None => *chosen.insert(choose(&self.lanes).map_err(ProgramError::Route)?),
            };
            let Some(to) = self.lanes.get_mut(lane) else {
                let why = format!("consumer {lane} was chosen, there are {consumers}, from 0");
                return Err(ProgramError::Route(why));
            };
            let done = match attempt(&mut to.writer, consumers) {
                Err(SegmentPushError::Ring(PushError::Full)) if until.is_over() => return Ok(None),
                Err(SegmentPushError::Ring(PushError::Full)) => {
                    self.counts.wait_for(format!("room in ring `{}`", to.ring));
                    let follower = &self.follower;
                    match to.writer.producer().wait_unless(|| follower.has_news(), until.end()) {
                        Ok(()) => continue,
                        Err(e) => Err(e.into()),
                    }
                }
                done => done,
            };
            match done {
                Ok(done) => return Ok(Some((lane, done))),
                Err(SegmentPushError::Ring(PushError::Aborted(_))) => {
                    self.given_up(lane)?;
                    chosen = None;
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
}
