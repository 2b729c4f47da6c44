//! Many streams over one flow, each with an end, a cancellation and a window of its own.
//!
//! A flow takes milliseconds to come and go. A stream takes one record: it begins with the first record of it, and the controller does
//! not hear of it. Two shuffles carry them: one with the streams' records, and one the other way round, with answers. Whoever produces
//! in the one consumes in the other, under any names. The flow of answers carries a few records per window, so small items suit it:
//!
//! ```text
//! zsr flow create rows      -p h1 -c h3 --item-size 64KiB --ring-size 1MiB
//! zsr flow create rows-back -p h3 -c h1 --item-size 512
//! ```
//!
//! ```
//! # let rows = zsr::testing::shuffle(1, 1).named("rows").start()?;
//! # let back = zsr::testing::shuffle(1, 1).named("rows-back").start_beside(&rows)?;
//! # let place = rows.place().clone();
//! use zsr::streams::{InStreams, OutStreams};
//!
//! # let there = place.clone();
//! let sender = std::thread::spawn(move || {
//!     let out = OutStreams::attach(&there, "rows", "rows-back", &Default::default())?;
//!     let mut orders = out.open(b"orders", 0)?;
//!     orders.push(b"one")?;
//!     orders.end()?;
//!     out.close()
//! });
//!
//! let streams = InStreams::attach(&place, "rows", "rows-back", &Default::default())?;
//! while let Some(mut stream) = streams.accept()? {
//!     assert_eq!(stream.name(), b"orders");
//!     while let Some(record) = stream.pop()? {
//!         assert_eq!(record, b"one");
//!     }
//! }
//! # sender.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A reader that is slow holds up its own stream only. A sender has at most a window of a stream's bytes under way, so a receiver keeps
//!   at most a window for each stream ([`StreamOptions`]).
//! - Records of one stream stay in order. Between streams there is no order.
//! - A record may be longer than the flow's items: it travels in pieces of 32 KiB at most, and the window has to hold all of it.
//! - Both ends can be shared by threads. No thread of this module runs beside: who waits takes in what comes for all.
//!
//! docs/streams.md has the records' format.

mod frame;
mod inbound;
mod outbound;
mod turns;

pub use inbound::{InStream, InStreams};
pub use outbound::{OutStream, OutStreams};

use crate::consumer::FlowConsumer;
use crate::contact::Contact;
use crate::error::{ErrorKind, ProgramError};
use crate::flow::Options;
use crate::producer::FlowProducer;

/// How streams are received and sent.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Bytes of one stream that wait at its receiver, at most, and the longest record: 64 KiB or more. Each record counts for 64 B beside
    /// its bytes. The receiver's is what counts.
    pub window: u32,
    /// Streams that are open at a receiver, at most. One more is cancelled.
    pub most: usize,
    /// Which member, as elsewhere in this crate, of both flows; whether to give up.
    pub program: Options,
}

impl Default for StreamOptions {
    fn default() -> Self {
        StreamOptions { window: 256 << 10, most: 1024, program: Options::default() }
    }
}

impl StreamOptions {
    /// As a program attaches to the flow of answers, whose members have names of their own.
    fn of_answers(&self) -> Options {
        Options { member: None, ..self.program.clone() }
    }

    fn check(&self) -> Result<(), StreamError> {
        let fits = u64::from(self.window) >= frame::FIRST_CREDIT;
        fits.then_some(()).ok_or(StreamError::Window(self.window))
    }
}

/// Takes a producer of one flow and a consumer of another, or neither.
fn attach(
    contact: Contact,
    produced: (&str, &Options),
    consumed: (&str, &Options),
) -> Result<(FlowProducer, FlowConsumer), ProgramError> {
    let producer = FlowProducer::attach(contact.clone(), produced.0, produced.1)?;
    match FlowConsumer::attach(contact, consumed.0, consumed.1) {
        Ok(consumer) => Ok((producer, consumer)),
        Err(e) => {
            // Dropped, its rings would be given up.
            producer.leave()?;
            Err(e)
        }
    }
}

/// What a call that does not wait for ever finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// What was asked for.
    Some(T),
    /// Nothing now.
    Nothing,
    /// There is no more.
    End,
}

/// The reason for which a stream can't go on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// One of the two flows can't.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The receiver wants no more of the stream.
    #[error("stream `{stream}` was cancelled by its receiver: {why}")]
    Cancelled {
        /// The stream's name.
        stream: String,
        /// The receiver's reason.
        why: String,
    },
    /// The sender has given the stream up, or is gone.
    #[error("stream `{stream}` ends before its end: {why}")]
    Aborted {
        /// The stream's name.
        stream: String,
        /// The sender's reason.
        why: String,
    },
    /// A name that does not fit the flow's records.
    #[error("a stream's name of {bytes} B is too long: flow `{flow}` takes {most} B")]
    NameTooLong {
        /// Bytes of the name.
        bytes: usize,
        /// The flow.
        flow: String,
        /// The most that it takes.
        most: usize,
    },
    /// What came is no record of a stream: another program pushes into the flow.
    #[error("flow `{flow}` carries no streams: {why}")]
    NoStreams {
        /// The flow.
        flow: String,
        /// The fault of the record.
        why: String,
    },
    /// An option that can't be.
    #[error("a window of {0} B is too small: expected at least 65536")]
    Window(u32),
}

impl StreamError {
    /// Which sort of error it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StreamError::Program(e) => e.kind(),
            StreamError::Cancelled { .. } | StreamError::Aborted { .. } => ErrorKind::Stream,
            StreamError::NameTooLong { .. } => ErrorKind::Size,
            StreamError::NoStreams { .. } => ErrorKind::Damaged,
            StreamError::Window(_) => ErrorKind::Misuse,
        }
    }
}

/// A stream's name for people.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
