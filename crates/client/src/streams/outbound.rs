//! The sending end of streams.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::frame::{FIRST_CREDIT, Frame, HEADER, Kind, PIECE, RECORD, reason};
use super::turns::Turns;
use super::{Next, StreamError, StreamOptions, attach, shown};
use crate::consumer::{FlowConsumer, Popped};
use crate::contact::Contact;
use crate::error::ProgramError;
use crate::producer::{FlowProducer, To, Wait};

/// How long a stream waits for room in its consumer's ring before it lets streams to other consumers go first.
const TURN: Duration = Duration::from_micros(500);
/// A long record goes on with a piece of at least so many bytes.
const LEAST: usize = 1024;

/// Streams from one producer of a flow to all of its consumers. Threads may share it.
pub struct OutStreams {
    shared: Arc<Shared>,
}

struct Shared {
    /// The name of this program's member in the flow of answers.
    own: String,
    /// Bytes of the longest record of the flow.
    max_record: usize,
    /// Numbers of streams are this and those behind it.
    next: AtomicU64,
    turns: Turns<State>,
    /// None once it is closed.
    outlet: Mutex<Option<FlowProducer>>,
    /// Only who takes in answers has it.
    answers: Mutex<FlowConsumer>,
}

#[derive(Default)]
struct State {
    streams: HashMap<u64, Outgoing>,
}

struct Outgoing {
    /// Bytes that may be sent.
    credit: u64,
    cancelled: Option<String>,
}

impl OutStreams {
    /// Takes a producer of `flow`, and a consumer of `answers`.
    ///
    /// # Errors
    /// [`StreamError::Program`]: no system, flow or member of that name, rings taken by others.
    pub fn attach(
        controller: impl Into<Contact>,
        flow: &str,
        answers: &str,
        options: &StreamOptions,
    ) -> Result<Self, StreamError> {
        let of_answers = options.of_answers();
        let (outlet, answers) = attach(controller.into(), (flow, &options.program), (answers, &of_answers))?;
        Ok(Self::over(outlet, answers))
    }

    /// Streams that go by `outlet`, and are answered by `answers`.
    pub fn over(outlet: FlowProducer, answers: FlowConsumer) -> Self {
        // Other producers of the flow have other numbers. The lower half counts.
        let first = RandomState::new().hash_one(answers.member()) << 32;
        let shared = Shared {
            own: answers.member().to_owned(),
            max_record: outlet.max_record(),
            next: AtomicU64::new(first),
            turns: Turns::new(outlet.flow()),
            outlet: Mutex::new(Some(outlet)),
            answers: Mutex::new(answers),
        };
        OutStreams { shared: Arc::new(shared) }
    }

    /// How many consumers streams can go to.
    pub fn consumers(&self) -> usize {
        self.shared.outlet().as_ref().map_or(0, FlowProducer::consumers)
    }

    /// Opens a stream of this name to the consumer with this number, from 0, in the flow's order. The name may be anything, also one that
    /// another stream has. Waits for room in the ring.
    ///
    /// # Errors
    /// [`StreamError::Program`], [`StreamError::NameTooLong`].
    pub fn open(&self, name: &[u8], consumer: usize) -> Result<OutStream, StreamError> {
        let shared = &self.shared;
        let ring = {
            let outlet = shared.outlet();
            let outlet = outlet.as_ref().ok_or_else(|| shared.closed())?;
            let most = shared.max_record.saturating_sub(HEADER + shared.own.len());
            if name.len() > most {
                let flow = shared.turns.flow().to_owned();
                return Err(StreamError::NameTooLong { bytes: name.len(), flow, most });
            }
            let none = || {
                let consumers = outlet.consumers();
                ProgramError::Route(format!("consumer {consumer} was chosen, there are {consumers}, from 0"))
            };
            outlet.ring(consumer).ok_or_else(none)?
        };
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        shared.turns.lock().state.streams.insert(number, Outgoing { credit: FIRST_CREDIT, cancelled: None });
        let stream =
            OutStream { shared: shared.clone(), number, name: name.into(), ring, unheard: 0, is_over: false };
        let body = [shared.own.as_bytes(), name].concat();
        stream.send(Kind::Open, shared.own.len() as u32, &body, None)?;
        Ok(stream)
    }

    /// Ends the flow, and waits until each consumer has read its ring to the end. Streams that were not ended are aborted.
    ///
    /// # Errors
    /// [`StreamError::Program`].
    pub fn close(self) -> Result<(), StreamError> {
        let outlet = self.shared.outlet().take();
        outlet.map_or(Ok(()), FlowProducer::close)?;
        self.shared.turns.wait(None, |_| None::<()>, |end| self.shared.take_in(end)).map(drop)
    }
}

/// A stream that goes out. Each belongs to one thread at a time; it can be moved to another one.
///
/// One that is dropped without an [end](Self::end) is aborted: its receiver is told.
pub struct OutStream {
    shared: Arc<Shared>,
    number: u64,
    name: Arc<[u8]>,
    /// The ring to its consumer.
    ring: u32,
    /// Bytes that were sent since answers were looked at.
    unheard: usize,
    is_over: bool,
}

impl OutStream {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Pushes a record, waiting as long as the receiver has no room for it. It may stay in an item that is not full until another record
    /// fills that, or [`flush`](Self::flush) or [`end`](Self::end) is called, or a push waits.
    ///
    /// # Errors
    /// [`StreamError::Cancelled`]; [`StreamError::Program`]: among others, the stream's consumer has left.
    pub fn push(&mut self, record: &[u8]) -> Result<(), StreamError> {
        self.push_until(record, None).map(drop)
    }

    /// As [`push`](Self::push), waiting for `time`. Says whether the record was taken. A long record that has begun to go goes as a whole,
    /// however long that takes.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_timeout(&mut self, record: &[u8], time: Duration) -> Result<bool, StreamError> {
        self.push_until(record, Instant::now().checked_add(time))
    }

    /// As [`push`](Self::push), if that needs no waiting. Says whether the record was taken.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn try_push(&mut self, record: &[u8]) -> Result<bool, StreamError> {
        self.push_until(record, Some(Instant::now()))
    }

    fn push_until(&mut self, record: &[u8], mut end: Option<Instant>) -> Result<bool, StreamError> {
        let most = self.shared.max_record.saturating_sub(HEADER).clamp(1, PIECE);
        let mut rest = record;
        loop {
            let Some(len) = self.credit(rest.len(), most, end)? else { return Ok(false) };
            let (piece, behind) = rest.split_at(len);
            let kind = if behind.is_empty() { Kind::Record } else { Kind::Piece };
            if !self.send(kind, 0, piece, end)? {
                if let Some(stream) = self.shared.turns.lock().state.streams.get_mut(&self.number) {
                    stream.credit += RECORD + len as u64;
                }
                return Ok(false);
            }
            if behind.is_empty() {
                return Ok(true);
            }
            (rest, end) = (behind, None);
        }
    }

    /// Has all that was pushed go now.
    ///
    /// # Errors
    /// [`StreamError::Program`].
    pub fn flush(&mut self) -> Result<(), StreamError> {
        self.shared.flush()
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn end(mut self) -> Result<(), StreamError> {
        self.is_over = true;
        let cancelled = self.shared.turns.lock().state.streams.remove(&self.number).and_then(|s| s.cancelled);
        if let Some(why) = cancelled {
            return Err(self.cancelled(why));
        }
        self.send(Kind::End, 0, &[], None)?;
        self.shared.flush()
    }

    /// Gives the stream up, and tells its receiver why.
    ///
    /// # Errors
    /// [`StreamError::Program`].
    pub fn abort(mut self, why: &str) -> Result<(), StreamError> {
        self.give_up(why)
    }

    fn give_up(&mut self, why: &str) -> Result<(), StreamError> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        let known = self.shared.turns.lock().state.streams.remove(&self.number);
        if known.is_none_or(|stream| stream.cancelled.is_some()) {
            return Ok(());
        }
        self.send(Kind::Abort, 0, reason(why), None)?;
        self.shared.flush()
    }

    fn cancelled(&self, why: String) -> StreamError {
        StreamError::Cancelled { stream: shown(&self.name), why }
    }

    /// Waits until some of `len` bytes may be sent, and says how many: all that `most` and the credit allow. `None`: not before `end`.
    fn credit(
        &mut self,
        len: usize,
        most: usize,
        end: Option<Instant>,
    ) -> Result<Option<usize>, StreamError> {
        let least = RECORD + len.min(LEAST).min(most) as u64;
        let take = |state: &mut State| {
            let Some(stream) = state.streams.get_mut(&self.number) else {
                return Some(Err("it has ended".to_owned()));
            };
            if let Some(why) = &stream.cancelled {
                return Some(Err(why.clone()));
            }
            let free = stream.credit.checked_sub(least).map(|_| stream.credit - RECORD)?;
            let len = len.min(most).min(usize::try_from(free).unwrap_or(usize::MAX));
            stream.credit -= RECORD + len as u64;
            Some(Ok(len))
        };
        self.unheard += HEADER + len;
        if self.unheard > PIECE / 2 {
            self.unheard = 0;
            self.shared.turns.look(|end| self.shared.take_in(end))?;
        }
        let now = take(&mut self.shared.turns.lock().state);
        let taken = match now {
            Some(taken) => taken,
            None => {
                // The receiver can't take what does not go.
                self.shared.flush()?;
                match self.shared.turns.wait(end, take, |end| self.shared.take_in(end))? {
                    Next::Some(taken) => taken,
                    Next::Nothing => return Ok(None),
                    Next::End => Err("its receiver reads no more".to_owned()),
                }
            }
        };
        taken.map(Some).map_err(|why| self.cancelled(why))
    }

    /// Writes a record of the stream into its consumer's ring. Says whether there was room before `end`.
    fn send(&self, kind: Kind, number: u32, body: &[u8], end: Option<Instant>) -> Result<bool, StreamError> {
        let header = Frame { kind, number, stream: self.number, body }.header();
        let len = HEADER + body.len();
        loop {
            let left = end.map_or(TURN, |end| end.saturating_duration_since(Instant::now()).min(TURN));
            {
                let mut outlet = self.shared.outlet();
                let outlet = outlet.as_mut().ok_or_else(|| self.shared.closed())?;
                let consumer = (0..outlet.consumers()).find(|at| outlet.ring(*at) == Some(self.ring));
                let gone = || ProgramError::Ended {
                    flow: self.shared.turns.flow().to_owned(),
                    why: format!("the consumer of stream `{}` has left", shown(&self.name)),
                };
                let consumer = consumer.ok_or_else(gone)?;
                if let Some(room) = outlet.reserve(len, To::Consumer(consumer), Wait::For(left))? {
                    room[..HEADER].copy_from_slice(&header);
                    room[HEADER..len].copy_from_slice(body);
                    if outlet.reserved_ring() == Some(self.ring) {
                        outlet.publish(len)?;
                        return Ok(true);
                    }
                }
            }
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for OutStream {
    fn drop(&mut self) {
        let _ = self.give_up("its sender has given it up");
    }
}

impl Shared {
    fn outlet(&self) -> MutexGuard<'_, Option<FlowProducer>> {
        self.outlet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> StreamError {
        let (flow, why) = (self.turns.flow().to_owned(), "its streams were closed here".to_owned());
        ProgramError::Ended { flow, why }.into()
    }

    fn flush(&self) -> Result<(), StreamError> {
        self.outlet().as_mut().map_or(Ok(()), |outlet| Ok(outlet.flush()?))
    }

    /// Takes in answers, waiting for them until `end`.
    fn take_in(&self, end: Option<Instant>) -> Result<(), StreamError> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let flow = answers.flow().to_owned();
        match answers.pop_unless(|| false, end)? {
            Popped::Batch(batch) => {
                let state = &mut self.turns.lock().state;
                for record in batch.records() {
                    let frame = Frame::read(record?)
                        .map_err(|why| StreamError::NoStreams { flow: flow.clone(), why })?;
                    // Streams that have ended here need no answer.
                    let Some(stream) = state.streams.get_mut(&frame.stream) else { continue };
                    match frame.kind {
                        Kind::Credit => stream.credit += u64::from(frame.number),
                        Kind::Cancel => {
                            stream.cancelled = Some(String::from_utf8_lossy(frame.body).into_owned());
                        }
                        _ => {}
                    }
                }
            }
            Popped::Nothing => {}
            Popped::End => self.turns.lock().end(),
        }
        Ok(())
    }
}
