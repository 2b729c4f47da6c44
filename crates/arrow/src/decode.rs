//! Bytes of a record made a batch whose arrays lie in them.

use std::collections::HashMap;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_data::UnsafeFlag;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary_impl};
use arrow_ipc::{Message, MessageHeader, MetadataVersion, root_as_message};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::check::check;
use crate::error::Error;
use crate::message::first_len;

/// What ends a stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The batch that the messages in `messages` make. Its arrays lie in there, where memory is aligned as they need it.
///
/// # Errors
/// [`Error::Damaged`].
pub(crate) fn decode(messages: &Buffer, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let mut rest = messages.clone();
    let mut dictionaries = HashMap::new();
    loop {
        let (head, body) = split(&mut rest)?;
        let message = parse(&head)?;
        if let Some(batch) = message.header_as_record_batch() {
            if !rest.is_empty() && *rest != END {
                return Err(Error::Damaged(format!("{} B are left over behind its rows", rest.len())));
            }
            let types = schema.fields().iter().map(|field| field.data_type());
            check(batch, types, body.len()).map_err(Error::Damaged)?;
            let version = message.version();
            let decoder = RecordBatchDecoder::try_new(&body, batch, schema.clone(), &dictionaries, &version)?;
            return Ok(decoder.read_record_batch()?);
        }
        dictionary(&message, &body, schema, &mut dictionaries)?;
    }
}

/// Takes the first message: its flatbuffer, and its body.
fn split(rest: &mut Buffer) -> Result<(Buffer, Buffer), Error> {
    let len = first_len(rest).map_err(Error::Damaged)?;
    let head = rest.slice_with_length(8, len - 8);
    let behind = rest.slice(len);
    let body = usize::try_from(parse(&head)?.bodyLength()).unwrap_or(usize::MAX);
    if body > behind.len() {
        return Err(Error::Damaged(format!("a message's body of {body} B runs over the end")));
    }
    *rest = behind.slice(body);
    Ok((head, behind.slice_with_length(0, body)))
}

fn parse(head: &[u8]) -> Result<Message<'_>, Error> {
    let message = root_as_message(head).map_err(|e| Error::Damaged(format!("a message: {e}")))?;
    let (version, header) = (message.version(), message.header_type());
    if version != MetadataVersion::V5 {
        return Err(Error::Damaged(format!("version {version:?} of messages is not known here")));
    }
    if header != MessageHeader::RecordBatch && header != MessageHeader::DictionaryBatch {
        return Err(Error::Damaged(format!("a message of kind {header:?} among rows")));
    }
    Ok(message)
}

fn dictionary(
    message: &Message<'_>,
    body: &Buffer,
    schema: &Schema,
    dictionaries: &mut HashMap<i64, ArrayRef>,
) -> Result<(), Error> {
    let empty = || Error::Damaged("a message is empty".to_owned());
    let batch = message.header_as_dictionary_batch().ok_or_else(empty)?;
    let rows = batch.data().ok_or_else(empty)?;
    #[expect(deprecated, reason = "the reader asks for it, too")]
    let fields = schema.fields_with_dict_id(batch.id());
    let Some(DataType::Dictionary(_, values)) = fields.first().map(|field: &&Field| field.data_type()) else {
        return Err(Error::Damaged(format!("no column has dictionary {}", batch.id())));
    };
    if batch.isDelta() {
        return Err(Error::Damaged("a part of a dictionary: all of it has to come with the rows".to_owned()));
    }
    check(rows, [&**values], body.len()).map_err(Error::Damaged)?;
    let (version, validated) = (message.version(), UnsafeFlag::new());
    read_dictionary_impl(body, batch, schema, dictionaries, &version, false, validated)?;
    Ok(())
}
