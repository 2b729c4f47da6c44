//! A schema as it travels: an Arrow IPC message, known by its checksum.

use std::sync::Arc;

use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_schema::{DataType, Schema, SchemaRef};

use crate::error::Error;
use crate::message::encapsulated;

/// How deep types may lie in each other.
const DEPTH: usize = 32;

/// A schema that both ends name alike.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// As it was read from the message: fields know the numbers of their dictionaries.
    pub(crate) schema: SchemaRef,
    /// The message.
    pub(crate) message: Vec<u8>,
    /// CRC-32 of the message.
    pub(crate) number: u32,
}

impl Wire {
    /// # Errors
    /// [`Error::Type`].
    pub(crate) fn of(schema: &Schema) -> Result<Self, Error> {
        check(schema).map_err(|(field, why)| Error::Type { field, why })?;
        let mut tracker = DictionaryTracker::new(true);
        let options = IpcWriteOptions::default();
        let made = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
            schema,
            &mut tracker,
            &options,
        );
        let message = encapsulated(&made.ipc_message);
        let wire = Self::read(&message).map_err(|why| Error::Type { field: String::new(), why })?;
        Ok(wire)
    }

    /// # Errors
    /// What is wrong with the message.
    pub(crate) fn read(message: &[u8]) -> Result<Self, String> {
        let schema = try_schema_from_ipc_buffer(message).map_err(|e| e.to_string())?;
        check(&schema).map_err(|(field, why)| format!("column `{field}`: {why}"))?;
        let number = crc32fast::hash(message);
        Ok(Wire { schema: Arc::new(schema), message: message.to_vec(), number })
    }
}

/// Whether record batches of this schema can be carried, and read without a panic: the field that can't be, and why.
fn check(schema: &Schema) -> Result<(), (String, String)> {
    for field in schema.fields() {
        sound(field.data_type(), DEPTH).map_err(|why| (field.name().clone(), why))?;
    }
    Ok(())
}

fn sound(data_type: &DataType, depth: usize) -> Result<(), String> {
    use DataType::*;
    let Some(depth) = depth.checked_sub(1) else {
        return Err(format!("more than {DEPTH} types lie in each other"));
    };
    let decimal = |precision: u8, scale: i8, most: u8| {
        let right = (1..=most).contains(&precision) && i16::from(scale) <= i16::from(precision);
        if right { Ok(()) } else { Err(format!("no decimal has {data_type}")) }
    };
    match data_type {
        FixedSizeBinary(size) | FixedSizeList(_, size) if *size < 0 => Err(format!("a size of {size}")),
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) | FixedSizeList(field, _) => {
            sound(field.data_type(), depth)
        }
        Map(entries, _) => match entries.data_type() {
            Struct(fields) if fields.len() == 2 => sound(entries.data_type(), depth),
            other => Err(format!("a map's entries are a struct of two fields, not {other}")),
        },
        Struct(fields) => fields.iter().try_for_each(|field| sound(field.data_type(), depth)),
        Union(fields, _) => fields.iter().try_for_each(|(_, field)| sound(field.data_type(), depth)),
        Dictionary(_, values) => match **values {
            Dictionary(..) => Err("the Arrow IPC format has no dictionary of a dictionary".to_owned()),
            _ => sound(values, depth),
        },
        RunEndEncoded(ends, values) => match ends.data_type() {
            Int16 | Int32 | Int64 if !ends.is_nullable() => sound(values.data_type(), depth),
            other => Err(format!("run ends are i16, i32 or i64 without nulls, not {other}")),
        },
        Decimal32(precision, scale) => decimal(*precision, *scale, 9),
        Decimal64(precision, scale) => decimal(*precision, *scale, 18),
        Decimal128(precision, scale) => decimal(*precision, *scale, 38),
        Decimal256(precision, scale) => decimal(*precision, *scale, 76),
        _ => Ok(()),
    }
}
