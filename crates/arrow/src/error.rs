//! What senders and receivers of record batches are told.

use arrow_schema::{ArrowError, SchemaRef};
use zsr::ProgramError;

/// Record batches could not be sent or received. After an error about one batch, the others can be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The flow or its rings.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The flow has tuples, not records of any length.
    #[error(
        "flow `{flow}` has tuples ({schema}): record batches need a flow that was created without a schema"
    )]
    Tuples {
        /// The flow.
        flow: String,
        /// What it carries.
        schema: String,
    },
    /// A type that can't be carried.
    #[error("column `{field}` can't be sent: {why}")]
    Type {
        /// The column.
        field: String,
        /// Why.
        why: String,
    },
    /// Both ends do not have the same columns.
    #[error("{who} has other columns than this end: {}", difference(expected, found))]
    Schema {
        /// Who has them.
        who: &'static str,
        /// What this end has.
        expected: SchemaRef,
        /// What the other has.
        found: SchemaRef,
    },
    /// Rows came whose schema did not.
    #[error(
        "rows came whose schema (number {number:#010x}) did not come to this ring, as when another program has read the ring before: \
         name it with Receiver::expect"
    )]
    UnknownSchema {
        /// The CRC-32 of the schema's message.
        number: u32,
    },
    /// A schema that is longer than an item.
    #[error(
        "the schema takes {bytes} B, and the flow's items have room for {room} B: create the flow with larger items, or agree on the \
         schema (Sender::agreed, Receiver::expect)"
    )]
    SchemaTooLong {
        /// Bytes of its message.
        bytes: usize,
        /// Bytes of the largest one.
        room: usize,
    },
    /// A row that is longer than an item.
    #[error(
        "row {row} of the batch takes {bytes} B, and the flow's items have room for {room} B: create the flow with larger items (at most \
         1 MiB)"
    )]
    RowTooLong {
        /// Which row, from 0.
        row: usize,
        /// Bytes of its message.
        bytes: usize,
        /// Bytes of the largest one.
        room: usize,
    },
    /// Rows are to go to a consumer that is not there.
    #[error("row {row} is to go to consumer {target}, there are {consumers}, from 0")]
    NoSuchConsumer {
        /// The row.
        row: usize,
        /// Where it is to go.
        target: usize,
        /// How many there are.
        consumers: usize,
    },
    /// A batch that does not say to whom it goes.
    #[error(
        "the flow has {consumers} consumers: choose one (send_to), or scatter the rows (send_by_hash, send_rows)"
    )]
    ManyConsumers {
        /// How many.
        consumers: usize,
    },
    /// Rows that are to be scattered, and not as many targets.
    #[error("{targets} targets were given for {rows} rows")]
    Targets {
        /// Targets given.
        targets: usize,
        /// Rows of the batch.
        rows: usize,
    },
    /// A column that is no key.
    #[error("rows can't be scattered by {what}")]
    Key {
        /// Which column, and why not.
        what: String,
    },
    /// The ring is full of what is still read.
    #[error(
        "the whole ring of {items} items is held by {batches} batches that are still alive, some of which are copies: drop the oldest, or \
         receive with Receiver::lend(0), which copies all"
    )]
    AllLent {
        /// Items of the ring.
        items: usize,
        /// Items whose batches are alive.
        batches: usize,
    },
    /// What came is no record batch.
    #[error("what came is no sound record batch: {0}")]
    Damaged(String),
}

impl From<ArrowError> for Error {
    fn from(e: ArrowError) -> Self {
        Error::Damaged(e.to_string())
    }
}

/// The first difference, and the numbers of columns.
fn difference(expected: &SchemaRef, found: &SchemaRef) -> String {
    let mut pairs = expected.fields().iter().zip(found.fields()).enumerate();
    match pairs.find(|(_, (expected, found))| expected != found) {
        Some((at, (expected, found))) => format!("column {at} is {found}, expected {expected}"),
        None => format!("{} columns, expected {}", found.fields().len(), expected.fields().len()),
    }
}
