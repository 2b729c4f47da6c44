//! Record batches into a flow: each value is copied once, from where it lies to where the switch reads it.

use arrow_array::{Array, RecordBatch};
use arrow_data::ArrayData;
use arrow_schema::{Field, SchemaRef};
use zsr::{Contact, FlowProducer, Options};

use crate::error::Error;
use crate::message::{FIRST, HEADER, Kind, Ready, write_header};
use crate::outlet::Outlet;
use crate::partition::{Scatter, hash_rows, target};
use crate::pieces::{self, LONGEST, Numbers, PIECE};
use crate::plan::{ALIGNMENT, plan};
use crate::rows::Rows;
use crate::schema::Wire;
use zsr_ring::segment::{HEADER_LEN, LENGTH_LEN};

/// Of an item, the part that is worth a part of a batch.
const WORTH: usize = 8;
/// Bytes of a record beside its messages, at most: as much as it may take until memory is aligned.
const AROUND: usize = HEADER + ALIGNMENT - 1;

/// How many of the `rows` in `ready` to try where only `room` bytes are: fewer, and at least one.
fn fitting(rows: usize, ready: &Ready<'_>, room: usize) -> usize {
    (rows * room / ready.len * 15 / 16).min(rows - 1).max(1)
}

/// The pushing side of a flow of record batches of one schema.
///
/// A batch is divided by rows where an item can't hold it, and where an eighth of an item or more is left of one that has begun: each
/// part is a batch of its own at the receiver, in order. A row that an item can't hold goes in pieces, which costs a copy at both ends.
/// What has begun an item is pushed when the next part does not fit it, by [`flush`](Self::flush) and by [`close`](Self::close). In a load balance flow each part fills an item of its own, with the schema
/// before it.
pub struct Sender<O: Outlet = FlowProducer> {
    out: O,
    schema: SchemaRef,
    wire: Wire,
    /// Rings that the schema was pushed into.
    told: Vec<u32>,
    is_agreed: bool,
    scatter: Scatter,
    numbers: Numbers,
}

impl Sender<FlowProducer> {
    /// Takes all rings of a producer of `flow`, for batches of `schema`.
    ///
    /// # Errors
    /// [`Error::Program`]: no system, flow or member of that name, rings taken by others. [`Error::Tuples`], [`Error::Type`],
    /// [`Error::SchemaTooLong`].
    pub fn attach(
        controller: impl Into<Contact>,
        flow: &str,
        schema: SchemaRef,
        options: &Options,
    ) -> Result<Self, Error> {
        let producer = FlowProducer::attach(controller, flow, options)?;
        if let Some(tuples) = producer.schema() {
            let (flow, schema) = (flow.to_owned(), tuples.to_string());
            producer.leave()?;
            return Err(Error::Tuples { flow, schema });
        }
        Self::over(producer, schema)
    }

    /// Leaves without ending the stream: what was sent is delivered, and another program can go on.
    ///
    /// # Errors
    /// [`Error::Program`].
    pub fn leave(self) -> Result<(), Error> {
        Ok(self.out.leave()?)
    }

    /// The flow's producer, for its counts and [`FlowProducer::settle`].
    pub fn producer(&mut self) -> &mut FlowProducer {
        &mut self.out
    }
}

impl<O: Outlet> Sender<O> {
    /// Sends batches of `schema` by `out`.
    ///
    /// # Errors
    /// [`Error::Type`], [`Error::SchemaTooLong`].
    pub fn over(out: O, schema: SchemaRef) -> Result<Self, Error> {
        let wire = Wire::of(&schema)?;
        Ok(Sender {
            out,
            schema,
            wire,
            told: Vec::new(),
            is_agreed: false,
            scatter: Scatter::default(),
            numbers: Numbers::default(),
        })
    }

    /// Sends no schema: receivers know it ([`Receiver::expect`](crate::Receiver::expect)), under the very names that fields have here.
    #[must_use]
    pub fn agreed(self) -> Self {
        Sender { is_agreed: true, ..self }
    }

    /// The schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many consumers batches can be sent to.
    pub fn consumers(&self) -> usize {
        self.out.consumers()
    }

    /// Sends a batch, waiting for room as long as it takes. For flows in which all consumers share the sender's one ring, and such
    /// with one consumer.
    ///
    /// # Errors
    /// [`Error`]. Of a batch that is divided, parts may have been sent before, unless it is [`Error::Schema`] or
    /// [`Error::ManyConsumers`].
    pub fn send(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        match self.out.consumers() {
            0 | 1 => self.send_to(batch, 0),
            consumers => Err(Error::ManyConsumers { consumers }),
        }
    }

    /// Sends a batch to the consumer with this number, from 0, in the flow's order.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_to(&mut self, batch: &RecordBatch, consumer: usize) -> Result<(), Error> {
        let columns = self.columns(batch)?;
        let rows = Rows::Run { start: 0, len: batch.num_rows() };
        self.put_rows(&columns, &rows, consumer, None).map(|_| ())
    }

    /// Scatters a batch over all consumers by a [hash](hash_rows) of the values in `keys`, which are numbers of columns: rows of equal
    /// keys go to the same one, as long as the flow's consumers stay the same. Rows of one consumer stay in order.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`Error::Key`].
    pub fn send_by_hash(&mut self, batch: &RecordBatch, keys: &[usize]) -> Result<(), Error> {
        let hashes = hash_rows(batch, keys)?;
        let columns = self.columns(batch)?;
        self.scatter(&columns, batch.num_rows(), |row, consumers| Ok(target(hashes[row as usize], consumers)))
    }

    /// Scatters a batch: each row goes to the consumer whose number, from 0, is in `targets` at its place.
    ///
    /// # Errors
    /// As [`send`](Self::send), [`Error::Targets`], [`Error::NoSuchConsumer`].
    pub fn send_rows(&mut self, batch: &RecordBatch, targets: &[u32]) -> Result<(), Error> {
        if targets.len() != batch.num_rows() {
            return Err(Error::Targets { targets: targets.len(), rows: batch.num_rows() });
        }
        let columns = self.columns(batch)?;
        self.scatter(&columns, batch.num_rows(), |row, consumers| {
            let row = row as usize;
            let target = targets[row];
            if (target as usize) < consumers {
                Ok(target)
            } else {
                Err(Error::NoSuchConsumer { row, target: target as usize, consumers })
            }
        })
    }

    /// Pushes what has begun an item.
    ///
    /// # Errors
    /// [`Error::Program`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.out.flush()
    }

    /// Ends the batches of this schema, but not the stream: another sender may go on with another schema, by the outlet that this
    /// gives back. The receiver finds [`Received::End`](crate::Received::End) once. For flows with one producer and one consumer.
    ///
    /// # Errors
    /// [`Error::Program`], [`Error::ManyConsumers`].
    pub fn finish(mut self) -> Result<O, Error> {
        let consumers = self.out.consumers();
        if consumers > 1 || self.out.shares() {
            return Err(Error::ManyConsumers { consumers });
        }
        let used = self.write(0, Kind::End, 0, |_| ())?;
        self.out.publish(used)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Ends the stream. All that was sent is still delivered.
    ///
    /// # Errors
    /// [`Error::Program`].
    pub fn close(self) -> Result<(), Error> {
        self.out.close()
    }

    fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayData>, Error> {
        if batch.schema_ref().fields() != self.schema.fields() {
            let (expected, found) = (self.schema.clone(), batch.schema());
            return Err(Error::Schema { who: "the batch", expected, found });
        }
        Ok(batch.columns().iter().map(|column| column.to_data()).collect())
    }

    fn scatter(
        &mut self,
        columns: &[ArrayData],
        rows: usize,
        target: impl Fn(u32, usize) -> Result<u32, Error>,
    ) -> Result<(), Error> {
        let mut scatter = std::mem::take(&mut self.scatter);
        let mut left: Vec<u32> = (0..rows as u32).collect();
        // Once, unless consumers leave in the middle of it: what is left is dealt anew then.
        let done = loop {
            // If all are leaving at this moment, one will stay, or another come.
            let consumers = self.out.consumers().max(1);
            let targets: Result<Vec<u32>, Error> = left.iter().map(|row| target(*row, consumers)).collect();
            match targets {
                Ok(targets) => scatter.fill(&left, &targets, consumers),
                Err(e) => break Err(e),
            }
            match self.put_scattered(columns, &scatter) {
                Ok(done) if done == scatter.rows.len() => break Ok(()),
                Ok(done) => left = scatter.rows[done..].to_vec(),
                Err(e) => break Err(e),
            }
        };
        self.scatter = scatter;
        done
    }

    /// Says how many of the scattered rows were sent: all, unless consumers have left.
    fn put_scattered(&mut self, columns: &[ArrayData], scatter: &Scatter) -> Result<usize, Error> {
        let rings: Vec<_> = (0..scatter.begins.len() - 1).map(|consumer| self.out.ring(consumer)).collect();
        for (consumer, (ring, bounds)) in rings.iter().zip(scatter.begins.windows(2)).enumerate() {
            let picked = &scatter.rows[bounds[0]..bounds[1]];
            if picked.is_empty() {
                continue;
            }
            let done = self.put_rows(columns, &Rows::Picked(picked), consumer, *ring)?;
            if done < picked.len() {
                return Ok(bounds[0] + done);
            }
        }
        Ok(scatter.rows.len())
    }

    /// Sends rows to a consumer, in as many parts as it takes; if a ring is named, only to that. Says how many were sent.
    fn put_rows(
        &mut self,
        columns: &[ArrayData],
        rows: &Rows<'_>,
        consumer: usize,
        ring: Option<u32>,
    ) -> Result<usize, Error> {
        let wire = self.wire.schema.clone();
        let fields = || wire.fields().iter().map(|field| -> &Field { field });
        let room = self.room();
        let (mut done, mut step) = (0, rows.len());
        loop {
            let mut part = step.min(rows.len() - done);
            let mut ready = Ready::new(plan(fields(), columns, &rows.part(done, part)));
            if ready.len > room {
                if part <= 1 && !self.out.shares() && ready.len <= LONGEST {
                    if !self.put_pieces(consumer, ring, &ready)? {
                        return Ok(done);
                    }
                    done += part;
                    // Those behind it may be short.
                    step = rows.len() - done;
                    if step == 0 {
                        return Ok(done);
                    }
                    continue;
                }
                if part <= 1 {
                    let mut row = 0;
                    rows.part(done, part).each(|start, _| row = start);
                    return Err(Error::RowTooLong { row, bytes: ready.len, room });
                }
                step = fitting(part, &ready, room);
                continue;
            }
            let left = self.out.left(consumer).saturating_sub(AROUND);
            if part > 1 && left >= room / WORTH && ready.len > left {
                let fewer = fitting(part, &ready, left);
                let smaller = Ready::new(plan(fields(), columns, &rows.part(done, fewer)));
                if smaller.len <= left {
                    (part, ready) = (fewer, smaller);
                }
            }
            if !self.put(consumer, ring, &ready)? {
                return Ok(done);
            }
            done += part;
            if done == rows.len() {
                return Ok(done);
            }
        }
    }

    /// Bytes that the messages of a part may have.
    fn room(&self) -> usize {
        let item = self.out.max_record() + HEADER_LEN + LENGTH_LEN;
        let schema =
            if self.out.shares() && !self.is_agreed { self.wire.message.len() + 2 * ALIGNMENT } else { 0 };
        item.saturating_sub(FIRST + schema)
    }

    /// Says whether it was sent: not if `ring` is named, and is not the consumer's ring any more.
    fn put(&mut self, consumer: usize, ring: Option<u32>, ready: &Ready<'_>) -> Result<bool, Error> {
        if self.out.shares() && !self.is_agreed {
            // Each consumer gets some items: all have the schema.
            self.out.flush()?;
            self.put_schema(consumer)?;
            let used = self.write(consumer, Kind::Batch, ready.len, |out| ready.write(out))?;
            self.out.publish(used)?;
            self.out.flush()?;
            return Ok(true);
        }
        loop {
            let to = self.out.ring(consumer);
            if !self.is_agreed && to.is_some_and(|to| !self.told.contains(&to)) {
                self.put_schema(consumer)?;
            }
            let used = self.write(consumer, Kind::Batch, ready.len, |out| ready.write(out))?;
            let Some(to) = self.out.reserved_ring() else { continue };
            if ring.is_some_and(|ring| ring != to) {
                return Ok(false);
            }
            // Another ring has come in between.
            if !self.is_agreed && !self.told.contains(&to) {
                continue;
            }
            self.out.publish(used)?;
            return Ok(true);
        }
    }

    /// Sends a row in pieces. Says whether it was sent, as [`put`](Self::put).
    fn put_pieces(&mut self, consumer: usize, ring: Option<u32>, ready: &Ready<'_>) -> Result<bool, Error> {
        let mut row = vec![0; ready.len];
        ready.write(&mut row);
        let most = self.out.max_record().saturating_sub(AROUND + PIECE).max(1);
        'again: loop {
            let first = self.out.ring(consumer);
            if !self.is_agreed && first.is_some_and(|to| !self.told.contains(&to)) {
                self.put_schema(consumer)?;
            }
            let (number, mut at) = (self.numbers.next(), 0);
            while at < row.len() {
                let len = most.min(row.len() - at);
                let fill = |out: &mut [u8]| pieces::write(out, number, &row, at);
                let used = self.write(consumer, Kind::Piece, PIECE + len, fill)?;
                let to = self.out.reserved_ring();
                if ring.is_some_and(|ring| to.is_some_and(|to| ring != to)) {
                    return Ok(false);
                }
                // All pieces go to one ring.
                if to.is_none() || to != first {
                    continue 'again;
                }
                self.out.publish(used)?;
                at += len;
            }
            return Ok(true);
        }
    }

    fn put_schema(&mut self, consumer: usize) -> Result<(), Error> {
        let message = std::mem::take(&mut self.wire.message);
        let room = (self.out.max_record() + HEADER_LEN + LENGTH_LEN).saturating_sub(FIRST);
        let done = if message.len() > room {
            Err(Error::SchemaTooLong { bytes: message.len(), room })
        } else {
            self.write(consumer, Kind::Schema, message.len(), |out| out.copy_from_slice(&message))
        };
        self.wire.message = message;
        let used = done?;
        let ring = self.out.reserved_ring();
        self.out.publish(used)?;
        self.told.extend(ring.filter(|ring| !self.told.contains(ring)));
        Ok(())
    }

    /// Writes a record into the ring, unpublished.
    fn write(
        &mut self,
        consumer: usize,
        kind: Kind,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<usize, Error> {
        // The first record of an item begins where it is known how much that takes.
        let most = (AROUND + len).min(self.out.max_record());
        let number = self.wire.number;
        self.out.reserve(consumer, most, |room| {
            let begin = write_header(room, kind, number);
            fill(&mut room[begin..begin + len]);
            begin + len
        })
    }
}
