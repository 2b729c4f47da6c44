//! Arguments of a call: fields by number, each of the type that the interface declares.

use zsr_soft_switch::{CounterValue, MatchField, MeterConfig};

use crate::cells::{Rate, meter_config};
use crate::error::{Error, Result};
use crate::value::Value;

/// The fields of a structure.
pub(crate) struct Args<'a>(pub &'a [(i16, Value)]);

impl<'a> Args<'a> {
    fn find(&self, id: i16) -> Option<&'a Value> {
        self.0.iter().find(|(field, _)| *field == id).map(|(_, value)| value)
    }

    fn get<T>(&self, id: i16, kind: &str, of: impl Fn(&'a Value) -> Option<T>) -> Result<T> {
        let wrong = || Error::Arguments(format!("field {id}: expected {kind}"));
        self.find(id).and_then(of).ok_or_else(wrong)
    }

    /// An i32, or a shorter one.
    pub(crate) fn i32(&self, id: i16) -> Result<i32> {
        self.get(id, "an i32", |value| match value {
            Value::I32(n) => Some(*n),
            Value::I16(n) => Some((*n).into()),
            Value::I8(n) => Some((*n).into()),
            _ => None,
        })
    }

    pub(crate) fn i32_if_any(&self, id: i16) -> Result<Option<i32>> {
        self.find(id).map(|_| self.i32(id)).transpose()
    }

    pub(crate) fn i16(&self, id: i16) -> Result<i16> {
        self.get(id, "an i16", |value| if let Value::I16(n) = value { Some(*n) } else { None })
    }

    pub(crate) fn i64(&self, id: i16) -> Result<i64> {
        self.get(id, "an i64", |value| if let Value::I64(n) = value { Some(*n) } else { None })
    }

    pub(crate) fn bool(&self, id: i16) -> Result<bool> {
        self.get(id, "a bool", |value| if let Value::Bool(b) = value { Some(*b) } else { None })
    }

    fn double(&self, id: i16) -> Result<f64> {
        self.get(id, "a double", |value| if let Value::Double(d) = value { Some(*d) } else { None })
    }

    pub(crate) fn bytes(&self, id: i16) -> Result<&'a [u8]> {
        self.get(id, "a string", |value| if let Value::Bytes(b) = value { Some(&b[..]) } else { None })
    }

    pub(crate) fn str(&self, id: i16) -> Result<&'a str> {
        self.get(id, "a string in UTF-8", |value| match value {
            Value::Bytes(b) => std::str::from_utf8(b).ok(),
            _ => None,
        })
    }

    pub(crate) fn list(&self, id: i16) -> Result<&'a [Value]> {
        self.get(id, "a list", |value| if let Value::List(l) = value { Some(&l[..]) } else { None })
    }

    pub(crate) fn fields(&self, id: i16) -> Result<Args<'a>> {
        self.get(id, "a structure", |value| if let Value::Struct(f) = value { Some(Args(f)) } else { None })
    }

    /// The arguments of an action.
    pub(crate) fn params(&self, id: i16) -> Result<Vec<Vec<u8>>> {
        let param = |value: &Value| match value {
            Value::Bytes(bytes) => Ok(bytes.clone()),
            _ => Err(Error::Arguments("action data: expected strings".into())),
        };
        self.list(id)?.iter().map(param).collect()
    }

    /// The priority among the options of a new entry.
    pub(crate) fn priority(&self, id: i16) -> Result<i32> {
        Ok(self.fields(id)?.i32_if_any(1)?.unwrap_or_default())
    }

    /// The fields of a key.
    pub(crate) fn key(&self, id: i16) -> Result<Vec<MatchField>> {
        let field = |value: &'a Value| match value {
            Value::Struct(fields) => match_field(&Args(fields)),
            _ => Err(Error::Arguments("match key: expected structures".into())),
        };
        self.list(id)?.iter().map(field).collect()
    }

    pub(crate) fn counter(&self, id: i16) -> Result<CounterValue> {
        let value = self.fields(id)?;
        Ok(CounterValue { bytes: value.i64(1)? as u64, packets: value.i64(2)? as u64 })
    }

    pub(crate) fn meter(&self, id: i16) -> Result<MeterConfig> {
        let rate = |value: &'a Value| match value {
            Value::Struct(fields) => {
                let fields = Args(fields);
                Ok(Rate { per_us: fields.double(1)?, burst: fields.i32(2)? })
            }
            _ => Err(Error::Arguments("rates: expected structures".into())),
        };
        meter_config(&self.list(id)?.iter().map(rate).collect::<Result<Vec<_>>>()?)
    }
}

/// The numbers of the kinds of match fields, and of the field of the structure that goes with each.
pub(crate) mod kind {
    pub(crate) const EXACT: (i32, i16) = (0, 2);
    pub(crate) const LPM: (i32, i16) = (1, 3);
    pub(crate) const TERNARY: (i32, i16) = (2, 4);
    pub(crate) const VALID: (i32, i16) = (3, 5);
    pub(crate) const RANGE: (i32, i16) = (4, 6);
}

fn match_field(field: &Args<'_>) -> Result<MatchField> {
    let number = field.i32(1)?;
    let is = |(kind, at): (i32, i16)| (kind == number).then_some(at);
    let bytes = |of: &Args<'_>, id| of.bytes(id).map(<[u8]>::to_vec);
    Ok(if let Some(at) = is(kind::EXACT) {
        MatchField::Exact(bytes(&field.fields(at)?, 1)?)
    } else if let Some(at) = is(kind::LPM) {
        let of = field.fields(at)?;
        let prefix_len =
            u32::try_from(of.i32(2)?).map_err(|_| Error::Arguments("a prefix has at least 0 bits".into()))?;
        MatchField::Lpm { value: bytes(&of, 1)?, prefix_len }
    } else if let Some(at) = is(kind::TERNARY) {
        let of = field.fields(at)?;
        MatchField::Ternary { value: bytes(&of, 1)?, mask: bytes(&of, 2)? }
    } else if let Some(at) = is(kind::VALID) {
        MatchField::Exact(vec![field.fields(at)?.bool(1)?.into()])
    } else if let Some(at) = is(kind::RANGE) {
        let of = field.fields(at)?;
        MatchField::Range { low: bytes(&of, 1)?, high: bytes(&of, 2)? }
    } else {
        return Err(Error::Arguments(format!("{number} is no kind of match")));
    })
}
