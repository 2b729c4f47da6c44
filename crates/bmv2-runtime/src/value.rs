//! Any value of Thrift, as it stands on the wire.

use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TMapIdentifier, TOutputProtocol, TStructIdentifier,
    TType,
};

/// Structures within structures; the interface has three.
const DEPTH: u32 = 16;
/// Most bytes that the values of a message take in memory, about.
const ROOM: usize = 64 << 20;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    /// Strings, too.
    Bytes(Vec<u8>),
    /// Fields by number.
    Struct(Vec<(i16, Value)>),
    List(Vec<Value>),
    /// Of strings to strings, which is all that the interface has.
    Map(Vec<(Value, Value)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Bytes(text.into())
    }
}

impl Value {
    fn kind(&self) -> TType {
        match self {
            Value::Bool(_) => TType::Bool,
            Value::I8(_) => TType::I08,
            Value::I16(_) => TType::I16,
            Value::I32(_) => TType::I32,
            Value::I64(_) => TType::I64,
            Value::Double(_) => TType::Double,
            Value::Bytes(_) => TType::String,
            Value::Struct(_) => TType::Struct,
            Value::List(_) => TType::List,
            Value::Map(_) => TType::Map,
        }
    }

    /// Reads the fields of a structure.
    pub(crate) fn read_fields(from: &mut dyn TInputProtocol) -> thrift::Result<Vec<(i16, Value)>> {
        fields(from, DEPTH, &mut { ROOM })
    }

    /// Writes the value.
    pub(crate) fn write(&self, to: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        match self {
            Value::Bool(value) => to.write_bool(*value),
            Value::I8(value) => to.write_i8(*value),
            Value::I16(value) => to.write_i16(*value),
            Value::I32(value) => to.write_i32(*value),
            Value::I64(value) => to.write_i64(*value),
            Value::Double(value) => to.write_double(*value),
            Value::Bytes(value) => to.write_bytes(value),
            Value::Struct(fields) => {
                to.write_struct_begin(&TStructIdentifier::new(""))?;
                for (id, value) in fields {
                    to.write_field_begin(&TFieldIdentifier::new("", value.kind(), *id))?;
                    value.write(to)?;
                    to.write_field_end()?;
                }
                to.write_field_stop()?;
                to.write_struct_end()
            }
            Value::List(values) => {
                // An empty list may say what it likes.
                let kind = values.first().map_or(TType::I32, Value::kind);
                to.write_list_begin(&TListIdentifier::new(kind, values.len() as i32))?;
                values.iter().try_for_each(|value| value.write(to))?;
                to.write_list_end()
            }
            Value::Map(pairs) => {
                let size = pairs.len() as i32;
                to.write_map_begin(&TMapIdentifier::new(TType::String, TType::String, size))?;
                for (key, value) in pairs {
                    key.write(to)?;
                    value.write(to)?;
                }
                to.write_map_end()
            }
        }
    }
}

fn fields(from: &mut dyn TInputProtocol, depth: u32, room: &mut usize) -> thrift::Result<Vec<(i16, Value)>> {
    let mut all = Vec::new();
    from.read_struct_begin()?;
    loop {
        let field = from.read_field_begin()?;
        if field.field_type == TType::Stop {
            break;
        }
        let value = value(from, field.field_type, depth, room)?;
        from.read_field_end()?;
        all.push((field.id.unwrap_or_default(), value));
    }
    from.read_struct_end()?;
    Ok(all)
}

fn value(from: &mut dyn TInputProtocol, kind: TType, depth: u32, room: &mut usize) -> thrift::Result<Value> {
    take(room, size_of::<(i16, Value)>())?;
    let depth = depth.checked_sub(1).ok_or_else(|| wrong("structures lie too deep within each other"))?;
    Ok(match kind {
        TType::Bool => Value::Bool(from.read_bool()?),
        TType::I08 => Value::I8(from.read_i8()?),
        TType::I16 => Value::I16(from.read_i16()?),
        TType::I32 => Value::I32(from.read_i32()?),
        TType::I64 => Value::I64(from.read_i64()?),
        TType::Double => Value::Double(from.read_double()?),
        TType::String | TType::Utf7 => {
            let bytes = from.read_bytes()?;
            take(room, bytes.len())?;
            Value::Bytes(bytes)
        }
        TType::Struct => Value::Struct(fields(from, depth, room)?),
        TType::List => {
            let list = from.read_list_begin()?;
            // Its length is the sender's word: room is made as values come.
            let values = (0..list.size)
                .map(|_| value(from, list.element_type, depth, room))
                .collect::<Result<_, _>>()?;
            from.read_list_end()?;
            Value::List(values)
        }
        other => return Err(wrong(&format!("the interface has no value of type {other:?}"))),
    })
}

fn take(room: &mut usize, bytes: usize) -> thrift::Result<()> {
    *room = room.checked_sub(bytes).ok_or_else(|| wrong("the message is too big"))?;
    Ok(())
}

fn wrong(why: &str) -> thrift::Error {
    thrift::Error::Protocol(thrift::ProtocolError::new(thrift::ProtocolErrorKind::InvalidData, why))
}
