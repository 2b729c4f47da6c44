//! Record batches out of a flow: their arrays lie in the ring.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{Schema, SchemaRef};
use zsr::{Contact, FlowConsumer, Options, ProgramError};

use crate::decode::decode;
use crate::error::Error;
use crate::inlet::{Found, Inlet};
use crate::lend::Shared;
use crate::message::{Kind, first_len, read_header};
use crate::pieces::Pieces;
use crate::schema::Wire;
use zsr_ring::segment::LENGTH_LEN;

/// What a receive that does not wait for ever finds.
#[derive(Debug)]
pub enum Received {
    /// Rows.
    Batch(RecordBatch),
    /// None now.
    Nothing,
    /// The end of the stream: all producers have closed, and all is received. Or a sender has
    /// [finished](crate::Sender::finish), and what comes next is of another one.
    End,
}

/// A record that was read.
enum Read {
    Batch(RecordBatch),
    /// Nothing that is to be received.
    Nothing,
    End,
}

/// The popping side of a flow of record batches.
///
/// Arrays lie in the ring's memory. An item is given back when the last array in it is dropped, in whichever thread. The ring takes items
/// back in its order only: one that is kept would keep all that came later. So when [too much](Self::lend) is lent, what is alive is moved
/// out of the ring, under its readers, who do not notice. The ring stays taken until the receiver and all arrays are gone.
pub struct Receiver<I: Inlet = FlowConsumer> {
    shared: Arc<Shared<I>>,
    /// What all batches have; none before the first schema has come.
    schema: Option<SchemaRef>,
    /// Numbers of sound schemas that came, each as it was read.
    known: Vec<(u32, Result<SchemaRef, SchemaRef>)>,
    /// What is left of an item.
    rest: Option<Item>,
    pieces: Pieces,
    /// Whether the program has said what `schema` is.
    is_expected: bool,
    lend: Option<usize>,
    copies: u64,
}

struct Item {
    /// Records behind their lengths.
    records: Buffer,
    /// Whether arrays may stay in it.
    lends: bool,
}

impl Receiver<FlowConsumer> {
    /// Takes the ring of a consumer of `flow`.
    ///
    /// # Errors
    /// [`Error::Program`]: no system, flow or member of that name, rings taken by others. [`Error::Tuples`].
    pub fn attach(controller: impl Into<Contact>, flow: &str, options: &Options) -> Result<Self, Error> {
        let consumer = FlowConsumer::attach(controller, flow, options)?;
        if let Some(tuples) = consumer.schema() {
            let (flow, schema) = (flow.to_owned(), tuples.to_string());
            consumer.leave();
            return Err(Error::Tuples { flow, schema });
        }
        Ok(Self::over(consumer))
    }
}

impl<I: Inlet> Receiver<I> {
    /// Receives from `inlet`.
    pub fn over(inlet: I) -> Self {
        Receiver {
            shared: Shared::new(inlet),
            schema: None,
            known: Vec::new(),
            rest: None,
            pieces: Pieces::default(),
            is_expected: false,
            lend: None,
            copies: 0,
        }
    }

    /// Takes batches of `schema` only; another is an error. Rows of this schema can be read also where the schema itself has not come.
    ///
    /// # Errors
    /// [`Error::Type`].
    pub fn expect(mut self, schema: &Schema) -> Result<Self, Error> {
        let wire = Wire::of(schema)?;
        self.schema = Some(wire.schema.clone());
        self.known = vec![(wire.number, Ok(wire.schema))];
        self.is_expected = true;
        Ok(self)
    }

    /// Lets arrays keep at most `items` items of the ring, from the oldest that is alive on: half the ring if nothing is said. When another
    /// comes, all that is alive is moved out, each item copied once. 0 copies every batch as it comes.
    ///
    /// What came by one of several [lanes](zsr::FlowConsumer::lanes) can't be moved out, nor can memory that no file backs, such as that
    /// of [`Ring::loopback`](zsr_ring::Ring::loopback): what comes is copied then, until the oldest is dropped, and the ring can be full
    /// of one batch ([`Error::AllLent`]).
    #[must_use]
    pub fn lend(mut self, items: usize) -> Self {
        self.lend = Some(items);
        self
    }

    /// What all batches have, once it is known.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// How many batches, or items whose arrays were alive, were copied, since too much of the ring was lent.
    pub fn copies(&self) -> u64 {
        self.copies
    }

    /// The next rows, waiting for them as long as it takes; `None` at the end of the stream, or of what one
    /// [sender](crate::Sender::finish) had.
    ///
    /// # Errors
    /// [`Error`]. After [`Error::Schema`], [`Error::UnknownSchema`] and [`Error::Damaged`] the record is left out, and those behind it can
    /// be received; after [`Error::AllLent`] when batches were dropped.
    pub fn receive(&mut self) -> Result<Option<RecordBatch>, Error> {
        match self.until(None)? {
            Received::Batch(batch) => Ok(Some(batch)),
            Received::Nothing | Received::End => Ok(None),
        }
    }

    /// The next rows if there are some now.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn try_receive(&mut self) -> Result<Received, Error> {
        self.until(Some(Instant::now()))
    }

    /// The next rows, waiting for them for `time`.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_timeout(&mut self, time: Duration) -> Result<Received, Error> {
        self.until(Instant::now().checked_add(time))
    }

    fn until(&mut self, end: Option<Instant>) -> Result<Received, Error> {
        loop {
            while let Some((record, lends)) = self.next_record()? {
                match self.read(&record, lends)? {
                    Read::Batch(batch) => return Ok(Received::Batch(batch)),
                    Read::Nothing => {}
                    Read::End => return Ok(Received::End),
                }
            }
            match self.shared.take(end) {
                Ok(Found::Some(lent)) => {
                    if !lent.has_lengths() {
                        return Err(Error::Damaged("an item of records of one size".to_owned()));
                    }
                    let lends = self.lends();
                    let records = Buffer::from(bytes::Bytes::from_owner(lent));
                    self.rest = Some(Item { records, lends });
                }
                Ok(Found::Nothing) => return Ok(Received::Nothing),
                Ok(Found::End) => return Ok(Received::End),
                Err(Error::AllLent { items, .. }) => self.all_lent(items)?,
                Err(Error::Program(ProgramError::AllHeld { items, .. })) => self.all_lent(items as usize)?,
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether arrays may stay in the item that was taken last. If too much is lent, all else is moved out of the ring.
    fn lends(&mut self) -> bool {
        let (held, items) = self.shared.with(Inlet::held);
        let most = self.lend.unwrap_or(items / 2);
        if held <= most {
            return true;
        }
        if most == 0 {
            return false;
        }
        let moved = self.shared.move_out(1);
        self.copies += moved as u64;
        moved > 0
    }

    /// The ring is full of what is lent.
    fn all_lent(&mut self, items: usize) -> Result<(), Error> {
        match self.shared.move_out(0) {
            0 => Err(Error::AllLent { items, batches: self.shared.alive() }),
            moved => {
                self.copies += moved as u64;
                Ok(())
            }
        }
    }

    /// The next record of the item that was begun, and whether arrays may stay in it. The item is let go with its last record.
    fn next_record(&mut self) -> Result<Option<(Buffer, bool)>, Error> {
        let Some(Item { records, lends }) = self.rest.take().filter(|item| !item.records.is_empty()) else {
            return Ok(None);
        };
        let (left, length) = (records.len(), records.first_chunk::<LENGTH_LEN>());
        let length = length.map_or(usize::MAX, |length| u32::from_le_bytes(*length) as usize);
        if length > left.saturating_sub(LENGTH_LEN) {
            return Err(Error::Damaged(format!("a record of {length} B, where {left} B are left")));
        }
        let record = records.slice_with_length(LENGTH_LEN, length);
        if left > LENGTH_LEN + length {
            self.rest = Some(Item { records: records.slice(LENGTH_LEN + length), lends });
        }
        Ok(Some((record, lends)))
    }

    fn read(&mut self, record: &Buffer, mut lends: bool) -> Result<Read, Error> {
        let (kind, number, begin) = read_header(record).map_err(Error::Damaged)?;
        let mut messages = record.slice(begin);
        let number = match kind {
            Kind::Batch => number,
            Kind::Piece => match self.pieces.add(&messages).map_err(Error::Damaged)? {
                Some(whole) => {
                    (messages, lends) = (whole, true);
                    number
                }
                None => return Ok(Read::Nothing),
            },
            Kind::Schema => {
                self.learn(number, &messages)?;
                return Ok(Read::Nothing);
            }
            Kind::End => {
                self.pieces.clear();
                if !self.is_expected {
                    self.schema = None;
                    self.known.clear();
                }
                return Ok(Read::End);
            }
            Kind::Stream => {
                let schema = messages.slice_with_length(0, first_len(&messages).map_err(Error::Damaged)?);
                messages = messages.slice(schema.len());
                let number = crc32fast::hash(&schema);
                self.learn(number, &schema)?;
                number
            }
        };
        let schema = match self.known.iter().find(|(known, _)| *known == number) {
            Some((_, Ok(schema))) => schema.clone(),
            Some((_, Err(other))) => return Err(self.differs(other)),
            None => return Err(Error::UnknownSchema { number }),
        };
        // Who writes without a look at where memory is aligned costs a copy.
        let is_aligned = (messages.as_ptr() as usize).is_multiple_of(8);
        if lends && is_aligned {
            return decode(&messages, &schema).map(Read::Batch);
        }
        self.copies += u64::from(!lends);
        let copy = Buffer::from(messages.as_slice());
        drop(messages);
        decode(&copy, &schema).map(Read::Batch)
    }

    fn learn(&mut self, number: u32, message: &Buffer) -> Result<(), Error> {
        if crc32fast::hash(message) != number || first_len(message).is_err() {
            return Err(Error::Damaged("a schema is not the one that its number says".to_owned()));
        }
        if self.known.iter().any(|(known, _)| *known == number) {
            return Ok(());
        }
        let wire = Wire::read(message).map_err(Error::Damaged)?;
        let same = self.schema.as_ref().is_none_or(|schema| schema.fields() == wire.schema.fields());
        if same {
            self.schema.get_or_insert_with(|| wire.schema.clone());
            self.known.push((number, Ok(wire.schema)));
            return Ok(());
        }
        let error = self.differs(&wire.schema);
        self.known.push((number, Err(wire.schema)));
        Err(error)
    }

    fn differs(&self, found: &SchemaRef) -> Error {
        let expected = self.schema.clone().unwrap_or_else(|| Arc::new(Schema::empty()));
        Error::Schema { who: "a sender", expected, found: found.clone() }
    }
}

impl<I: Inlet> Drop for Receiver<I> {
    fn drop(&mut self) {
        self.rest = None;
        // Who sends learns it now, and not when the last array is dropped.
        self.shared.with(Inlet::abort);
    }
}

impl<I: Inlet> Iterator for Receiver<I> {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.receive().transpose()
    }
}
