//! The receiving end of streams.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::frame::{FIRST_CREDIT, Frame, Kind, RECORD, reason};
use super::turns::Turns;
use super::{Next, StreamError, StreamOptions, attach, shown};
use crate::consumer::{FlowConsumer, Popped};
use crate::contact::Contact;
use crate::error::ProgramError;
use crate::producer::{FlowProducer, Wait};

/// How long to wait before an answer is tried again for which there was no room.
const AGAIN: Duration = Duration::from_millis(5);
/// Why a stream is refused when nobody accepts streams any more.
const DEAF: &str = "nobody accepts streams any more";
/// Room that a sender needs for the next piece of a long record.
const NEXT_PIECE: u64 = RECORD + 1024;

/// Streams that come to one consumer of a flow. Threads may share it; each waits for what it wants.
///
/// When it is dropped before the end of the flow, senders are told that nobody reads any more.
pub struct InStreams {
    shared: Arc<Shared>,
}

struct Shared {
    window: u64,
    most: usize,
    turns: Turns<State>,
    /// Only who takes in has it.
    inlet: Mutex<FlowConsumer>,
    /// None once the flow has ended.
    answers: Mutex<Option<FlowProducer>>,
}

#[derive(Default)]
struct State {
    streams: HashMap<u64, Incoming>,
    /// Numbers of streams that were opened, and that nobody has accepted.
    opened: VecDeque<u64>,
    /// Nobody accepts streams any more.
    is_deaf: bool,
    /// Answers that are to be sent: to whom, and the record.
    owed: VecDeque<(Arc<str>, Vec<u8>)>,
}

struct Incoming {
    /// The sender's name in the flow of answers.
    sender: Arc<str>,
    name: Arc<[u8]>,
    /// Records, and what each counts.
    records: VecDeque<(Vec<u8>, u64)>,
    /// The pieces of a record that is not complete, and what they count.
    pieces: Vec<u8>,
    pieces_count: u64,
    /// Bytes that the sender may send.
    credit: u64,
    /// Bytes that it may send besides, and has not been told of.
    untold: u64,
    /// The sender is told when its credit is not above this.
    low: u64,
    /// How the stream has ended, if it has.
    end: Option<Result<(), String>>,
}

impl Incoming {
    fn new(sender: &str, name: &[u8], window: u64) -> Self {
        Incoming {
            sender: sender.into(),
            name: name.into(),
            records: VecDeque::new(),
            pieces: Vec::new(),
            pieces_count: 0,
            credit: FIRST_CREDIT,
            untold: window - FIRST_CREDIT,
            low: FIRST_CREDIT / 2,
            end: None,
        }
    }

    /// Takes in a record, or a piece of one.
    ///
    /// # Errors
    /// What the sender did that it may not.
    fn add(&mut self, frame: Frame<'_>, window: u64) -> Result<(), String> {
        let count = RECORD + frame.body.len() as u64;
        self.credit = self.credit.checked_sub(count).ok_or("its sender has sent more than it may")?;
        self.pieces.extend_from_slice(frame.body);
        self.pieces_count += count;
        if frame.kind == Kind::Record {
            let record = std::mem::take(&mut self.pieces);
            self.records.push_back((record, std::mem::take(&mut self.pieces_count)));
        } else if self.pieces_count + NEXT_PIECE > window {
            return Err(format!("a record is longer than the window of {window} B"));
        }
        Ok(())
    }

    /// What the sender is to be told now that it may send.
    fn answer(&mut self, stream: u64, window: u64) -> Option<(Arc<str>, Vec<u8>)> {
        let is_worth = self.untold >= window / 4 || self.records.is_empty();
        if self.untold == 0 || self.end.is_some() || self.credit > self.low || !is_worth {
            return None;
        }
        let more = std::mem::take(&mut self.untold);
        self.credit += more;
        self.low = window / 2;
        let frame = Frame { kind: Kind::Credit, number: more as u32, stream, body: &[] };
        Some((self.sender.clone(), frame.bytes()))
    }
}

fn cancel(stream: u64, why: &str) -> Vec<u8> {
    Frame { kind: Kind::Cancel, number: 0, stream, body: reason(why) }.bytes()
}

impl InStreams {
    /// Takes a consumer of `flow`, and a producer of `answers`.
    ///
    /// # Errors
    /// [`StreamError::Program`]: no system, flow or member of that name, rings taken by others. [`StreamError::Window`].
    pub fn attach(
        controller: impl Into<Contact>,
        flow: &str,
        answers: &str,
        options: &StreamOptions,
    ) -> Result<Self, StreamError> {
        options.check()?;
        let of_answers = options.of_answers();
        let (answers, inlet) = attach(controller.into(), (answers, &of_answers), (flow, &options.program))?;
        Self::over(inlet, answers, options)
    }

    /// Streams that come by `inlet`, and are answered by `answers`.
    ///
    /// # Errors
    /// [`StreamError::Window`].
    pub fn over(
        inlet: FlowConsumer,
        answers: FlowProducer,
        options: &StreamOptions,
    ) -> Result<Self, StreamError> {
        options.check()?;
        let shared = Shared {
            window: options.window.into(),
            most: options.most,
            turns: Turns::new(inlet.flow()),
            inlet: Mutex::new(inlet),
            answers: Mutex::new(Some(answers)),
        };
        Ok(InStreams { shared: Arc::new(shared) })
    }

    /// The next stream that a sender has opened, waiting for it as long as it takes; `None` once all senders have closed. Streams that
    /// were accepted can be read all the same.
    ///
    /// # Errors
    /// [`StreamError::Program`], [`StreamError::NoStreams`].
    pub fn accept(&self) -> Result<Option<InStream>, StreamError> {
        Ok(some(self.accept_until(None)?))
    }

    /// As [`accept`](Self::accept), waiting for `time`.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn accept_timeout(&self, time: Duration) -> Result<Next<InStream>, StreamError> {
        self.accept_until(Instant::now().checked_add(time))
    }

    fn accept_until(&self, end: Option<Instant>) -> Result<Next<InStream>, StreamError> {
        self.shared.wait(end, |state| {
            let number = state.opened.pop_front()?;
            let incoming = state.streams.get(&number)?;
            Some(InStream {
                shared: self.shared.clone(),
                number,
                name: incoming.name.clone(),
                sender: incoming.sender.clone(),
                is_over: false,
            })
        })
    }

    /// How many streams are open here, whether they were accepted or not.
    pub fn open(&self) -> usize {
        self.shared.turns.lock().state.streams.len()
    }
}

impl Drop for InStreams {
    fn drop(&mut self) {
        let mut inner = self.shared.turns.lock();
        let state = &mut inner.state;
        state.is_deaf = true;
        let opened = std::mem::take(&mut state.opened);
        for number in opened {
            state.cancel(number, DEAF);
        }
        drop(inner);
        let _ = self.shared.send_answers();
    }
}

/// A stream that comes in.
///
/// One that is dropped before its end is cancelled: its sender is told, and what it had sent is dropped.
pub struct InStream {
    shared: Arc<Shared>,
    number: u64,
    name: Arc<[u8]>,
    sender: Arc<str>,
    is_over: bool,
}

impl InStream {
    /// The name that its sender has given it.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The member that its sender is in the flow of answers.
    pub fn sender(&self) -> &str {
        &self.sender
    }

    /// The next record, waiting for it as long as it takes; `None` at the stream's end.
    ///
    /// # Errors
    /// [`StreamError::Aborted`], behind all records that came before; [`StreamError::Program`], [`StreamError::NoStreams`].
    pub fn pop(&mut self) -> Result<Option<Vec<u8>>, StreamError> {
        Ok(some(self.pop_until(None)?))
    }

    /// As [`pop`](Self::pop), waiting for `time`.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn pop_timeout(&mut self, time: Duration) -> Result<Next<Vec<u8>>, StreamError> {
        self.pop_until(Instant::now().checked_add(time))
    }

    /// The next record if it is there now.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub fn try_pop(&mut self) -> Result<Next<Vec<u8>>, StreamError> {
        self.pop_until(Some(Instant::now()))
    }

    fn pop_until(&mut self, end: Option<Instant>) -> Result<Next<Vec<u8>>, StreamError> {
        if self.is_over {
            return Ok(Next::End);
        }
        let window = self.shared.window;
        let found = self.shared.wait(end, |state| {
            let Some(incoming) = state.streams.get_mut(&self.number) else { return Some(Err(Ok(()))) };
            let Some((record, count)) = incoming.records.pop_front() else {
                return incoming.end.take().map(Err);
            };
            incoming.untold += count;
            let answer = incoming.answer(self.number, window);
            state.owed.extend(answer);
            Some(Ok(record))
        })?;
        match found {
            Next::Some(Ok(record)) => {
                self.shared.send_answers()?;
                Ok(Next::Some(record))
            }
            Next::Some(Err(end)) => {
                self.is_over = true;
                self.shared.turns.lock().state.streams.remove(&self.number);
                match end {
                    Ok(()) => Ok(Next::End),
                    Err(why) => Err(StreamError::Aborted { stream: shown(&self.name), why }),
                }
            }
            Next::Nothing => Ok(Next::Nothing),
            Next::End => Ok(Next::End),
        }
    }

    /// Tells the sender that no more is wanted, and why.
    pub fn cancel(mut self, why: &str) {
        self.give_up(why);
    }

    fn give_up(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.shared.turns.lock().state.cancel(self.number, why);
            // If it does not go now, another thread, or the next call, sends it.
            let _ = self.shared.send_answers();
        }
    }
}

impl Drop for InStream {
    fn drop(&mut self) {
        self.give_up("its reader has gone");
    }
}

impl Shared {
    fn wait<T>(
        &self,
        end: Option<Instant>,
        ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Next<T>, StreamError> {
        self.turns.wait(end, ready, |end| {
            let again = (!self.turns.lock().state.owed.is_empty()).then(|| Instant::now() + AGAIN);
            self.take_in(end.into_iter().chain(again).min())?;
            self.send_answers()
        })
    }

    /// Takes in what comes next for all streams, waiting for it until `end`.
    fn take_in(&self, end: Option<Instant>) -> Result<(), StreamError> {
        let mut inlet = self.inlet.lock().unwrap_or_else(PoisonError::into_inner);
        match inlet.pop_unless(|| false, end)? {
            Popped::Batch(batch) => {
                let state = &mut self.turns.lock().state;
                for record in batch.records() {
                    let frame = Frame::read(record?)
                        .map_err(|why| StreamError::NoStreams { flow: self.turns.flow().to_owned(), why })?;
                    state.take_in(frame, self.window, self.most);
                }
            }
            Popped::Nothing => {}
            Popped::End => {
                let mut inner = self.turns.lock();
                inner.end();
                for incoming in inner.state.streams.values_mut() {
                    incoming.end.get_or_insert(Err("its sender has gone".to_owned()));
                }
                inner.state.owed.clear();
                drop(inner);
                // Senders wait for this.
                let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner).take();
                answers.map_or(Ok(()), FlowProducer::close)?;
            }
        }
        Ok(())
    }

    /// Sends what answers there is room for.
    fn send_answers(&self) -> Result<(), StreamError> {
        if self.turns.lock().state.owed.is_empty() {
            return Ok(());
        }
        // Who comes second finds what is left; nobody who has this waits for room.
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(answers) = answers.as_mut() else { return Ok(()) };
        loop {
            let Some((sender, record)) = self.turns.lock().state.owed.pop_front() else { break };
            match answers.push_to_member(&record, &sender, Wait::No) {
                Ok(true) => {}
                Ok(false) => {
                    self.turns.lock().state.owed.push_front((sender, record));
                    break;
                }
                // It has left.
                Err(ProgramError::NoMember { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(answers.flush()?)
    }
}

impl State {
    /// Forgets a stream, and has its sender told, unless it has ended.
    fn cancel(&mut self, number: u64, why: &str) {
        if let Some(Incoming { sender, end: None, .. }) = self.streams.remove(&number) {
            self.owed.push_back((sender, cancel(number, why)));
        }
    }

    /// Takes in one record. Those of streams that are not known here are dropped: they were sent before their senders knew.
    fn take_in(&mut self, frame: Frame<'_>, window: u64, most: usize) {
        let Frame { kind, number, stream, body } = frame;
        if kind == Kind::Open {
            return self.open(number as usize, stream, body, window, most);
        }
        let Some(incoming) = self.streams.get_mut(&stream).filter(|incoming| incoming.end.is_none()) else {
            return;
        };
        match kind {
            Kind::Record | Kind::Piece => match incoming.add(frame, window) {
                Ok(()) => {
                    let answer = incoming.answer(stream, window);
                    self.owed.extend(answer);
                }
                Err(why) => {
                    self.owed.push_back((incoming.sender.clone(), cancel(stream, &why)));
                    incoming.end = Some(Err(why));
                }
            },
            Kind::End if incoming.pieces_count > 0 => {
                incoming.end = Some(Err("it ends in the middle of a record".to_owned()));
            }
            Kind::End => incoming.end = Some(Ok(())),
            Kind::Abort => incoming.end = Some(Err(String::from_utf8_lossy(body).into_owned())),
            // Answers are for senders.
            Kind::Open | Kind::Credit | Kind::Cancel => {}
        }
    }

    fn open(&mut self, sender: usize, stream: u64, body: &[u8], window: u64, most: usize) {
        let Some((Ok(sender), name)) = body.split_at_checked(sender).map(|(s, n)| (str::from_utf8(s), n))
        else {
            return;
        };
        let refuse = |why: &str| (sender.into(), cancel(stream, why));
        if self.streams.contains_key(&stream) {
            self.owed.push_back(refuse("another sender has a stream of this number"));
        } else if self.is_deaf {
            self.owed.push_back(refuse(DEAF));
        } else if self.streams.len() >= most {
            let why = format!("{most} streams are open at its receiver, which is the most");
            self.owed.push_back(refuse(&why));
        } else {
            self.streams.insert(stream, Incoming::new(sender, name, window));
            self.opened.push_back(stream);
        }
    }
}

fn some<T>(next: Next<T>) -> Option<T> {
    match next {
        Next::Some(found) => Some(found),
        Next::Nothing | Next::End => None,
    }
}
