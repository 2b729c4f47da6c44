//! One aggregate of all groups, a column at a time.

use crate::combine::{Field, SumError};
use crate::model::{Column, ColumnType};

/// The state that is kept of a column, by group.
enum Kept {
    /// Nothing: tuples are counted in any case.
    Count,
    /// Sums of whole numbers.
    Whole(Vec<i128>),
    /// Sums of fractions, and what rounding has lost of each (Neumaier's summation). So the order of tuples hardly
    /// matters; no flow of several producers has a fixed one.
    Fractions(Vec<f64>, Vec<f64>),
    /// Least or largest values.
    Signed(Vec<i64>),
    Unsigned(Vec<u64>),
    Float(Vec<f64>),
    Bytes(Vec<u8>),
}

/// One aggregate.
pub(crate) struct Accumulator {
    function: &'static str,
    field: Field,
    kept: Kept,
}

/// Calls `take` with the group and the `W` bytes of each tuple's column.
fn each<const W: usize>(
    tuples: &[u8],
    size: usize,
    at: usize,
    groups: &[u32],
    mut take: impl FnMut(usize, [u8; W]),
) {
    for (tuple, group) in tuples.chunks_exact(size).zip(groups) {
        if let Some(bytes) = tuple[at..].first_chunk::<W>() {
            take(*group as usize, *bytes);
        }
    }
}

/// Calls `$take` with the group and value of each tuple, in code of its own for each type of column.
macro_rules! values {
    ($field:expr, $tuples:expr, $size:expr, $groups:expr, |$group:ident, $value:ident: $as:ty| $take:expr) => {{
        macro_rules! of {
            ($t:ty) => {
                each($tuples, $size, $field.at, $groups, |$group, bytes| {
                    let $value = <$t>::from_le_bytes(bytes) as $as;
                    $take
                })
            };
        }
        match $field.kind {
            ColumnType::Int(8) => of!(i8),
            ColumnType::Int(16) => of!(i16),
            ColumnType::Int(32) => of!(i32),
            ColumnType::Int(_) => of!(i64),
            ColumnType::Uint(8) => of!(u8),
            ColumnType::Uint(16) => of!(u16),
            ColumnType::Uint(32) => of!(u32),
            ColumnType::Uint(_) => of!(u64),
            ColumnType::Float(32) => of!(f32),
            ColumnType::Float(_) => of!(f64),
            ColumnType::Bytes(_) | ColumnType::Decimal | ColumnType::Date | ColumnType::Text => {}
        }
    }};
}

impl Accumulator {
    pub(crate) fn count() -> Self {
        let field = Field { name: String::new(), kind: ColumnType::Uint(64), at: 0, width: 0 };
        Accumulator { function: "count", field, kept: Kept::Count }
    }

    pub(crate) fn sum(field: Field) -> Self {
        Self::adding("sum", field)
    }

    pub(crate) fn mean(field: Field) -> Self {
        Self::adding("avg", field)
    }

    fn adding(function: &'static str, field: Field) -> Self {
        let kept = match field.kind {
            ColumnType::Float(_) => Kept::Fractions(Vec::new(), Vec::new()),
            _ => Kept::Whole(Vec::new()),
        };
        Accumulator { function, field, kept }
    }

    pub(crate) fn least(field: Field) -> Self {
        Self::extreme("min", field)
    }

    pub(crate) fn largest(field: Field) -> Self {
        Self::extreme("max", field)
    }

    fn extreme(function: &'static str, field: Field) -> Self {
        let kept = match field.kind {
            ColumnType::Int(_) => Kept::Signed(Vec::new()),
            ColumnType::Uint(_) => Kept::Unsigned(Vec::new()),
            ColumnType::Float(_) => Kept::Float(Vec::new()),
            _ => Kept::Bytes(Vec::new()),
        };
        Accumulator { function, field, kept }
    }

    fn is_least(&self) -> bool {
        self.function == "min"
    }

    /// The column that it becomes.
    pub(crate) fn column(&self) -> Column {
        let kind = match (&self.kept, self.function, self.field.kind) {
            (Kept::Count, ..) => ColumnType::Uint(64),
            (_, "avg", _) | (Kept::Fractions(..), ..) => ColumnType::Float(64),
            (Kept::Whole(_), _, ColumnType::Int(_)) => ColumnType::Int(64),
            (Kept::Whole(_), ..) => ColumnType::Uint(64),
            (_, _, kind) => kind,
        };
        let name = match self.kept {
            Kept::Count => "count".to_owned(),
            _ => format!("{}_{}", self.function, self.field.name),
        };
        Column { name, kind }
    }

    /// Makes room for so many groups. Any tuple replaces the value that a group has before the first.
    pub(crate) fn grow(&mut self, groups: usize) {
        let least = self.is_least();
        match &mut self.kept {
            Kept::Count => {}
            Kept::Whole(sums) => sums.resize(groups, 0),
            Kept::Fractions(sums, lost) => {
                sums.resize(groups, 0.0);
                lost.resize(groups, 0.0);
            }
            Kept::Signed(kept) => kept.resize(groups, if least { i64::MAX } else { i64::MIN }),
            Kept::Unsigned(kept) => kept.resize(groups, if least { u64::MAX } else { 0 }),
            // A value that is not a number counts as the largest, as in SQL engines.
            Kept::Float(kept) => kept.resize(groups, if least { f64::NAN } else { f64::NEG_INFINITY }),
            Kept::Bytes(kept) => kept.resize(groups * self.field.width, if least { 0xff } else { 0 }),
        }
    }

    /// Takes tuples of `size` bytes, each of which belongs to the group with its number.
    pub(crate) fn add(&mut self, tuples: &[u8], size: usize, groups: &[u32]) {
        let (field, least) = (&self.field, self.function == "min");
        match &mut self.kept {
            Kept::Count => {}
            Kept::Whole(sums) => values!(field, tuples, size, groups, |group, value: i128| {
                sums[group] += value;
            }),
            Kept::Fractions(sums, lost) => values!(field, tuples, size, groups, |group, value: f64| {
                let sum = sums[group] + value;
                lost[group] += match sums[group].abs() >= value.abs() {
                    true => (sums[group] - sum) + value,
                    false => (value - sum) + sums[group],
                };
                sums[group] = sum;
            }),
            Kept::Signed(kept) => values!(field, tuples, size, groups, |group, value: i64| {
                kept[group] = if least { kept[group].min(value) } else { kept[group].max(value) };
            }),
            Kept::Unsigned(kept) => values!(field, tuples, size, groups, |group, value: u64| {
                kept[group] = if least { kept[group].min(value) } else { kept[group].max(value) };
            }),
            Kept::Float(kept) => values!(field, tuples, size, groups, |group, value: f64| {
                let has = kept[group];
                let replaces =
                    if least { value < has || has.is_nan() } else { value > has || value.is_nan() };
                if replaces {
                    kept[group] = value;
                }
            }),
            Kept::Bytes(kept) => {
                let width = field.width;
                for (tuple, group) in tuples.chunks_exact(size).zip(groups) {
                    let (value, group) = (&tuple[field.at..field.at + width], *group as usize);
                    let has = &mut kept[group * width..(group + 1) * width];
                    if if least { value < &*has } else { value > &*has } {
                        has.copy_from_slice(value);
                    }
                }
            }
        }
    }

    /// Appends a group's result, which has `count` tuples.
    pub(crate) fn result(&self, group: usize, count: u64, out: &mut Vec<u8>) -> Result<(), SumError> {
        let mean = self.function == "avg";
        match &self.kept {
            Kept::Count => out.extend_from_slice(&count.to_le_bytes()),
            Kept::Whole(sums) if mean => {
                out.extend_from_slice(&(sums[group] as f64 / count as f64).to_le_bytes());
            }
            Kept::Whole(sums) => {
                let sum = sums[group];
                let wrong = || SumError { column: self.field.name.clone(), sum };
                let bytes = match self.field.kind {
                    ColumnType::Int(_) => i64::try_from(sum).map_err(|_| wrong())?.to_le_bytes(),
                    _ => u64::try_from(sum).map_err(|_| wrong())?.to_le_bytes(),
                };
                out.extend_from_slice(&bytes);
            }
            Kept::Fractions(sums, lost) => {
                let sum = sums[group];
                let sum = if sum.is_finite() { sum + lost[group] } else { sum };
                out.extend_from_slice(&(if mean { sum / count as f64 } else { sum }).to_le_bytes());
            }
            Kept::Signed(kept) => out.extend_from_slice(&kept[group].to_le_bytes()[..self.field.width]),
            Kept::Unsigned(kept) => out.extend_from_slice(&kept[group].to_le_bytes()[..self.field.width]),
            Kept::Float(kept) if self.field.width == 4 => {
                out.extend_from_slice(&(kept[group] as f32).to_le_bytes());
            }
            Kept::Float(kept) => out.extend_from_slice(&kept[group].to_le_bytes()),
            Kept::Bytes(kept) => {
                out.extend_from_slice(&kept[group * self.field.width..(group + 1) * self.field.width]);
            }
        }
        Ok(())
    }
}
