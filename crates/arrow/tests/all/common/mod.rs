//! Types of any kind, and arrays of them; rings in memory.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode};
use proptest::prelude::*;
use zsr_arrow::{Receiver, RingReader, Rings, Sender};
use zsr_random::XorShift64Star;
use zsr_ring::segment::{SegmentConfig, SegmentReader, SegmentWriter};
use zsr_ring::{Ring, RingSpec};

pub struct Dice(XorShift64Star);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(XorShift64Star::new(seed | 1))
    }

    pub fn roll(&mut self) -> u64 {
        self.0.bits()
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() >> 11) as usize % end.max(1)
    }
}

fn leaves() -> impl Strategy<Value = DataType> {
    use DataType::*;
    prop::sample::select(vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Nanosecond, Some("Europe/Oslo".into())),
        Date32,
        Date64,
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Duration(TimeUnit::Microsecond),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        Binary,
        FixedSizeBinary(0),
        FixedSizeBinary(3),
        FixedSizeBinary(16),
        LargeBinary,
        BinaryView,
        Utf8,
        LargeUtf8,
        Utf8View,
        Decimal32(9, 2),
        Decimal64(18, -2),
        Decimal128(38, 10),
        Decimal256(76, 0),
    ])
}

fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, true))
}

/// Any type that a flow can carry.
pub fn types() -> impl Strategy<Value = DataType> {
    use DataType::*;
    leaves().prop_recursive(3, 12, 3, |inner| {
        let fields = prop::collection::vec(inner.clone(), 0..3).prop_map(|all| {
            all.into_iter().enumerate().map(|(n, t)| Field::new(format!("f{n}"), t, true)).collect::<Fields>()
        });
        let some = prop::collection::vec(inner.clone(), 1..3);
        let keys = prop::sample::select(vec![Int8, UInt8, Int16, UInt16, Int32, UInt32, Int64, UInt64]);
        let ends = prop::sample::select(vec![Int16, Int32, Int64]);
        let flat = inner
            .clone()
            .prop_filter("IPC has no dictionary of a dictionary", |t| !matches!(t, Dictionary(..)));
        prop_oneof![
            inner.clone().prop_map(|t| List(item(t))),
            inner.clone().prop_map(|t| LargeList(item(t))),
            inner.clone().prop_map(|t| ListView(item(t))),
            inner.clone().prop_map(|t| LargeListView(item(t))),
            (inner.clone(), 0i32..4).prop_map(|(t, n)| FixedSizeList(item(t), n)),
            fields.prop_map(Struct),
            (leaves().prop_filter("keys are not null", |t| *t != Null), inner.clone()).prop_map(
                |(key, value)| {
                    let fields = vec![Field::new("keys", key, false), Field::new("values", value, true)];
                    Map(Arc::new(Field::new("entries", Struct(fields.into()), false)), false)
                }
            ),
            (some, any::<bool>()).prop_map(|(all, dense)| {
                let fields = all
                    .into_iter()
                    .enumerate()
                    .map(|(n, t)| (2 * n as i8 + 1, Arc::new(Field::new(format!("u{n}"), t, true))));
                Union(
                    fields.collect::<UnionFields>(),
                    if dense { UnionMode::Dense } else { UnionMode::Sparse },
                )
            }),
            (keys, flat).prop_map(|(key, value)| Dictionary(Box::new(key), Box::new(value))),
            (ends, inner).prop_map(|(end, value)| {
                RunEndEncoded(
                    Arc::new(Field::new("run_ends", end, false)),
                    Arc::new(Field::new("values", value, true)),
                )
            }),
        ]
    })
}

fn nulls(len: usize, nullable: bool, dice: &mut Dice) -> Option<NullBuffer> {
    let some = nullable && dice.below(3) > 0;
    some.then(|| NullBuffer::new(BooleanBuffer::from_iter((0..len).map(|_| dice.below(4) > 0))))
}

fn text(dice: &mut Dice) -> String {
    (0..dice.below(6) * dice.below(6)).map(|_| ['a', 'z', 'ß', '漢', '7'][dice.below(5)]).collect()
}

fn little(numbers: impl IntoIterator<Item = usize>, width: usize) -> Buffer {
    numbers.into_iter().flat_map(|n| n.to_le_bytes()[..width].to_vec()).collect::<Vec<u8>>().into()
}

/// An array of `len` values, made of what the dice say, now and then part of a longer one.
pub fn array(data_type: &DataType, len: usize, nullable: bool, dice: &mut Dice) -> ArrayRef {
    let (before, behind) = if dice.below(2) == 0 { (0, 0) } else { (dice.below(9), dice.below(9)) };
    let all = whole(data_type, before + len + behind, nullable, dice);
    make_array(all).slice(before, len)
}

fn whole(data_type: &DataType, len: usize, nullable: bool, dice: &mut Dice) -> ArrayData {
    use DataType::*;
    let mut made = ArrayData::builder(data_type.clone()).len(len);
    if !matches!(data_type, Null | Union(..) | RunEndEncoded(..)) {
        made = made.nulls(nulls(len, nullable, dice));
    }
    let list = |dice: &mut Dice, width: usize| {
        let mut offsets = vec![0];
        (0..len).for_each(|at| offsets.push(offsets[at] + dice.below(4)));
        (little(offsets.iter().copied(), width), offsets[len])
    };
    let made = match data_type {
        Null => made,
        Boolean => {
            made.add_buffer((0..len.div_ceil(8)).map(|_| dice.roll() as u8).collect::<Vec<u8>>().into())
        }
        Utf8 | Binary | LargeUtf8 | LargeBinary => {
            let width = if matches!(data_type, Utf8 | Binary) { 4 } else { 8 };
            let (mut bytes, mut offsets) = (Vec::new(), vec![0]);
            for _ in 0..len {
                bytes.extend_from_slice(text(dice).as_bytes());
                offsets.push(bytes.len());
            }
            made.add_buffer(little(offsets, width)).add_buffer(bytes.into())
        }
        Utf8View | BinaryView => {
            let texts: Vec<String> = (0..len).map(|_| text(dice)).collect();
            let mut buffers = vec![Vec::new(), Vec::new()];
            let mut views = Vec::new();
            for text in &texts {
                let mut view = [0; 16];
                view[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
                if text.len() <= 12 {
                    view[4..4 + text.len()].copy_from_slice(text.as_bytes());
                } else {
                    let buffer = dice.below(2);
                    view[4..8].copy_from_slice(&text.as_bytes()[..4]);
                    view[8..12].copy_from_slice(&(buffer as u32).to_le_bytes());
                    view[12..].copy_from_slice(&(buffers[buffer].len() as u32).to_le_bytes());
                    buffers[buffer].extend_from_slice(text.as_bytes());
                }
                views.extend_from_slice(&view);
            }
            made.add_buffer(views.into()).add_buffers(buffers.into_iter().map(Buffer::from))
        }
        List(field) | Map(field, _) => {
            let (offsets, inner) = list(dice, 4);
            made.add_buffer(offsets).add_child_data(child(field, inner, dice))
        }
        LargeList(field) => {
            let (offsets, inner) = list(dice, 8);
            made.add_buffer(offsets).add_child_data(child(field, inner, dice))
        }
        ListView(field) | LargeListView(field) => {
            let width = if matches!(data_type, ListView(_)) { 4 } else { 8 };
            let inner = len * 2 + 3;
            let (offsets, sizes): (Vec<_>, Vec<_>) =
                (0..len).map(|_| (dice.below(inner - 3), dice.below(4))).unzip();
            made.add_buffer(little(offsets, width))
                .add_buffer(little(sizes, width))
                .add_child_data(child(field, inner, dice))
        }
        FixedSizeList(field, size) => made.add_child_data(child(field, len * *size as usize, dice)),
        Struct(fields) => made.child_data(fields.iter().map(|field| child(field, len, dice)).collect()),
        Union(fields, mode) => {
            let count = fields.iter().count();
            let picks: Vec<usize> = (0..len).map(|_| dice.below(count)).collect();
            let made =
                made.add_buffer(picks.iter().map(|pick| 2 * *pick as u8 + 1).collect::<Vec<u8>>().into());
            if *mode == UnionMode::Sparse {
                made.child_data(fields.iter().map(|(_, field)| child(field, len, dice)).collect())
            } else {
                let mut next = vec![0; count];
                let mut offset = |pick: &usize| {
                    next[*pick] += 1;
                    next[*pick] - 1
                };
                let offsets: Vec<usize> = picks.iter().map(&mut offset).collect();
                let children =
                    fields.iter().zip(next).map(|((_, field), len)| child(field, len, dice)).collect();
                made.add_buffer(little(offsets, 4)).child_data(children)
            }
        }
        Dictionary(keys, values) => {
            let width = keys.primitive_width().unwrap();
            let most = if dice.below(2) == 0 { 5 } else { 100 };
            let inner = 1 + dice.below(most);
            let picks: Vec<usize> = (0..len).map(|_| dice.below(inner)).collect();
            let field = Field::new("", (**values).clone(), true);
            made.add_buffer(little(picks, width)).add_child_data(child(&field, inner, dice))
        }
        RunEndEncoded(ends, values) => {
            let (mut at, mut all) = (0, Vec::new());
            while at < len {
                at = (at + 1 + dice.below(5)).min(len);
                all.push(at);
            }
            let (runs, width) = (all.len(), ends.data_type().primitive_width().unwrap());
            let ends = ArrayData::builder(ends.data_type().clone()).len(runs).add_buffer(little(all, width));
            made.add_child_data(ends.align_buffers(true).build().unwrap())
                .add_child_data(child(values, runs, dice))
        }
        other => {
            let width =
                if let FixedSizeBinary(n) = other { *n as usize } else { other.primitive_width().unwrap() };
            // Numbers that are the same again now and then.
            let mut bytes = Vec::<u8>::new();
            for _ in 0..len {
                let small = dice.below(2) == 0;
                let number = if small { dice.below(5) as u64 } else { dice.roll() };
                bytes.extend(number.to_le_bytes().iter().cycle().take(width));
            }
            made.add_buffer(bytes.into())
        }
    };
    made.align_buffers(true).build().unwrap_or_else(|e| panic!("{data_type}: {e}"))
}

fn child(field: &Field, len: usize, dice: &mut Dice) -> ArrayData {
    array(field.data_type(), len, field.is_nullable(), dice).to_data()
}

/// A batch with these columns.
pub fn batch(types: &[DataType], rows: usize, seed: u64) -> RecordBatch {
    let mut dice = Dice::new(seed);
    let nullable = |n: usize| n % 3 != 2;
    let fields: Vec<Field> = types
        .iter()
        .enumerate()
        .map(|(n, t)| Field::new(format!("c{n}"), t.clone(), nullable(n) || *t == DataType::Null))
        .collect();
    let columns = fields.iter().map(|f| array(f.data_type(), rows, f.is_nullable(), &mut dice)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap()
}

/// A ring in memory: its writer and reader.
pub fn ring(item: u64, items: u64) -> (SegmentWriter, SegmentReader) {
    let (tx, rx) = Ring::loopback(RingSpec::new(item, item * items).unwrap()).unwrap();
    (SegmentWriter::records(tx, SegmentConfig::default()).unwrap(), SegmentReader::new(rx))
}

/// A sender of such batches, and receivers of its rings.
pub fn pair(
    schema: &Arc<Schema>,
    item: u64,
    items: u64,
    consumers: usize,
) -> (Sender<Rings>, Vec<Receiver<RingReader>>) {
    let (writers, readers): (Vec<_>, Vec<_>) = (0..consumers).map(|_| ring(item, items)).unzip();
    let sender = Sender::over(Rings::new(writers), schema.clone()).unwrap();
    (sender, readers.into_iter().map(|reader| Receiver::over(RingReader::new(reader))).collect())
}
