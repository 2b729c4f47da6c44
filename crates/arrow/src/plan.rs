//! What a record batch becomes: messages of the Arrow IPC format, as buffers that are not written yet.
//!
//! Only the rows that go are in them: offsets begin at 0, a dictionary has no value too many, unless there are fewer values than
//! rows, and views lead into one buffer.

use arrow_buffer::{ArrowNativeType, ToByteSlice};
use arrow_data::ArrayData;
use arrow_ipc::FieldNode;
use arrow_schema::{DataType, Field, UnionFields, UnionMode};

use crate::fill::{Fill, Offsets, Views};
use crate::rows::{Rows, Runs};

/// What buffers begin and end at, bytes.
pub(crate) const ALIGNMENT: usize = 64;

pub(crate) fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

/// A message with a body: a dictionary, or the rows themselves.
#[derive(Debug, Default)]
pub(crate) struct Message<'a> {
    /// Which dictionary it is, if it is one.
    pub(crate) dictionary: Option<i64>,
    pub(crate) rows: usize,
    pub(crate) nodes: Vec<FieldNode>,
    /// Lengths in bytes, and contents.
    pub(crate) buffers: Vec<(usize, Fill<'a>)>,
    pub(crate) variadic: Vec<i64>,
}

impl<'a> Message<'a> {
    fn node(&mut self, rows: usize, nulls: usize) {
        self.nodes.push(FieldNode::new(rows as i64, nulls as i64));
    }

    fn buffer(&mut self, len: usize, fill: Fill<'a>) {
        self.buffers.push((len, fill));
    }

    fn made(&mut self, bytes: Vec<u8>) {
        self.buffer(bytes.len(), Fill::Made(bytes));
    }

    pub(crate) fn body_len(&self) -> usize {
        self.buffers.iter().map(|(len, _)| padded(*len)).sum()
    }
}

/// The messages for `rows` of `columns`, whose fields, with the numbers of their dictionaries, are `fields`. The last one is the
/// batch; those before are the dictionaries that it needs.
pub(crate) fn plan<'a, 'f>(
    fields: impl IntoIterator<Item = &'f Field>,
    columns: &'a [ArrayData],
    rows: &Rows<'a>,
) -> Vec<Message<'a>> {
    let mut planner = Planner { dictionaries: Vec::new() };
    let mut batch = Message { rows: rows.len(), ..Message::default() };
    for (field, column) in fields.into_iter().zip(columns) {
        planner.field(field, column, rows, &mut batch);
    }
    planner.dictionaries.push(batch);
    planner.dictionaries
}

struct Planner<'a> {
    dictionaries: Vec<Message<'a>>,
}

impl<'a> Planner<'a> {
    fn field(&mut self, field: &Field, data: &'a ArrayData, rows: &Rows<'a>, to: &mut Message<'a>) {
        #[expect(deprecated, reason = "the reader asks for it, too")]
        let id = field.dict_id();
        self.array(field.data_type(), id, data, rows, to);
    }

    fn array(
        &mut self,
        data_type: &DataType,
        id: Option<i64>,
        data: &'a ArrayData,
        rows: &Rows<'a>,
        to: &mut Message<'a>,
    ) {
        use DataType::*;
        match data_type {
            Null => return to.node(rows.len(), rows.len()),
            Union(fields, mode) => return self.union(fields, *mode, data, rows, to),
            RunEndEncoded(_, values) => return self.run_ends(values, data, rows, to),
            _ => validity(data, rows, to),
        }
        match data_type {
            Boolean => {
                let (from, offset) = (data.buffers()[0].as_slice(), data.offset());
                to.buffer(rows.len().div_ceil(8), Fill::Bits { from, offset, rows: rows.clone() });
            }
            Utf8 | Binary => bytes(small(data), data, rows, to),
            LargeUtf8 | LargeBinary => bytes(large(data), data, rows, to),
            Utf8View | BinaryView => views(data, rows, to),
            List(field) | Map(field, _) => self.list(small(data), field, data, rows, to),
            LargeList(field) => self.list(large(data), field, data, rows, to),
            ListView(field) => self.list_view::<i32>(field, data, rows, to),
            LargeListView(field) => self.list_view::<i64>(field, data, rows, to),
            FixedSizeList(field, size) => {
                let (size, offset) = (*size as usize, data.offset());
                let rows = rows.map(|start, len| ((offset + start) * size, len * size));
                self.field(field, &data.child_data()[0], &rows, to);
            }
            Struct(fields) => {
                let rows = rows.shifted(data.offset());
                for (field, child) in fields.iter().zip(data.child_data()) {
                    self.field(field, child, &rows, to);
                }
            }
            Dictionary(keys, values) => self.dictionary(keys, values, id, data, rows, to),
            FixedSizeBinary(width) => items(*width as usize, data, rows, to),
            _ => items(data_type.primitive_width().unwrap_or(0), data, rows, to),
        }
    }

    fn list(
        &mut self,
        offsets: Offsets<'a>,
        field: &Field,
        data: &'a ArrayData,
        rows: &Rows<'a>,
        to: &mut Message<'a>,
    ) {
        let width = offsets.width();
        to.buffer((rows.len() + 1) * width, Fill::Offsets { from: offsets, rows: rows.clone() });
        let inner = rows.map(|start, len| offsets.range(start, len));
        self.field(field, &data.child_data()[0], &inner, to);
    }

    fn list_view<O: ArrowNativeType>(
        &mut self,
        field: &Field,
        data: &'a ArrayData,
        rows: &Rows<'a>,
        to: &mut Message<'a>,
    ) {
        let (offsets, sizes) = (data.buffer::<O>(0), data.buffer::<O>(1));
        let (mut runs, mut sum) = (Runs::default(), 0);
        let (mut begins, mut lengths) = (Vec::<u8>::new(), Vec::<u8>::new());
        rows.each_row(|row| {
            // What a null has beneath it goes nowhere.
            let size = if data.is_null(row) { 0 } else { sizes[row].as_usize() };
            begins.extend_from_slice(O::usize_as(sum).to_byte_slice());
            lengths.extend_from_slice(O::usize_as(size).to_byte_slice());
            runs.push(offsets[row].as_usize(), size);
            sum += size;
        });
        to.made(begins);
        to.made(lengths);
        self.field(field, &data.child_data()[0], &runs.into(), to);
    }

    fn dictionary(
        &mut self,
        keys: &DataType,
        value_type: &DataType,
        id: Option<i64>,
        data: &'a ArrayData,
        rows: &Rows<'a>,
        to: &mut Message<'a>,
    ) {
        let width = keys.primitive_width().unwrap_or(1);
        let values = &data.child_data()[0];
        let used = if values.len() <= rows.len() {
            items(width, data, rows, to);
            Rows::Run { start: 0, len: values.len() }
        } else {
            let from = data.buffers()[0].get(data.offset() * width..).unwrap_or_default();
            let key = |row: usize| {
                let mut key = [0; 8];
                key[..width].copy_from_slice(&from[row * width..][..width]);
                usize::from_le_bytes(key)
            };
            let mut used = Vec::with_capacity(rows.len());
            rows.each_row(|row| {
                if !data.is_null(row) {
                    used.push(key(row));
                }
            });
            used.sort_unstable();
            used.dedup();
            let mut made = Vec::with_capacity(rows.len() * width);
            rows.each_row(|row| {
                let new = if data.is_null(row) { 0 } else { used.binary_search(&key(row)).unwrap_or(0) };
                made.extend_from_slice(&new.to_le_bytes()[..width]);
            });
            to.made(made);
            let mut runs = Runs::default();
            used.iter().for_each(|value| runs.push(*value, 1));
            runs.into()
        };
        let mut message =
            Message { dictionary: Some(id.unwrap_or(0)), rows: used.len(), ..Message::default() };
        self.array(value_type, None, values, &used, &mut message);
        self.dictionaries.push(message);
    }

    fn union(
        &mut self,
        fields: &UnionFields,
        mode: UnionMode,
        data: &'a ArrayData,
        rows: &Rows<'a>,
        to: &mut Message<'a>,
    ) {
        to.node(rows.len(), 0);
        items(1, data, rows, to);
        if mode == UnionMode::Sparse {
            let rows = rows.shifted(data.offset());
            for ((_, field), child) in fields.iter().zip(data.child_data()) {
                self.field(field, child, &rows, to);
            }
            return;
        }
        let (types, offsets) = (data.buffer::<i8>(0), data.buffer::<i32>(1));
        let mut children: Vec<Runs> = fields.iter().map(|_| Runs::default()).collect();
        let mut place = [None; 256];
        for (at, (id, _)) in fields.iter().enumerate() {
            place[id as u8 as usize] = Some(at);
        }
        let mut counts = vec![0i32; children.len()];
        let mut made = Vec::with_capacity(rows.len() * 4);
        rows.each_row(|row| {
            let Some(child) = place[types[row] as u8 as usize] else { return };
            children[child].push(offsets[row] as usize, 1);
            made.extend_from_slice(&counts[child].to_le_bytes());
            counts[child] += 1;
        });
        to.made(made);
        for (((_, field), child), rows) in fields.iter().zip(data.child_data()).zip(children) {
            self.field(field, child, &rows.into(), to);
        }
    }

    fn run_ends(&mut self, values: &Field, data: &'a ArrayData, rows: &Rows<'a>, to: &mut Message<'a>) {
        to.node(rows.len(), 0);
        let ends = &data.child_data()[0];
        match ends.data_type() {
            DataType::Int16 => self.runs::<i16>(ends, values, data, rows, to),
            DataType::Int32 => self.runs::<i32>(ends, values, data, rows, to),
            _ => self.runs::<i64>(ends, values, data, rows, to),
        }
    }

    fn runs<E: ArrowNativeType>(
        &mut self,
        ends: &'a ArrayData,
        values: &Field,
        data: &'a ArrayData,
        rows: &Rows<'a>,
        to: &mut Message<'a>,
    ) {
        let ends = ends.buffer::<E>(0);
        let (mut made, mut picked, mut done, mut last) = (Vec::<usize>::new(), Runs::default(), 0, None);
        rows.each(|start, len| {
            let (mut at, end) = (data.offset() + start, data.offset() + start + len);
            let mut run = ends.partition_point(|end| end.as_usize() <= at);
            while at < end {
                let until = ends[run].as_usize().min(end);
                done += until - at;
                match made.last_mut().filter(|_| last == Some(run)) {
                    Some(end) => *end = done,
                    None => {
                        made.push(done);
                        picked.push(run, 1);
                        last = Some(run);
                    }
                }
                (at, run) = (until, run + 1);
            }
        });
        to.node(made.len(), 0);
        to.made(Vec::new());
        to.made(made.iter().flat_map(|end| E::usize_as(*end).to_byte_slice().to_vec()).collect());
        self.field(values, &data.child_data()[1], &picked.into(), to);
    }
}

/// The node, and the bitmap of nulls, which is empty where there are none.
fn validity<'a>(data: &'a ArrayData, rows: &Rows<'a>, to: &mut Message<'a>) {
    let some = data.nulls().filter(|nulls| nulls.null_count() > 0);
    let count = some.map_or(0, |nulls| match rows {
        Rows::Run { start, len } => nulls.slice(*start, *len).null_count(),
        rows => {
            let mut count = 0;
            rows.each_row(|row| count += usize::from(nulls.is_null(row)));
            count
        }
    });
    to.node(rows.len(), count);
    match some.filter(|_| count > 0) {
        None => to.made(Vec::new()),
        Some(nulls) => to.buffer(
            rows.len().div_ceil(8),
            Fill::Bits { from: nulls.validity(), offset: nulls.offset(), rows: rows.clone() },
        ),
    }
}

fn items<'a>(width: usize, data: &'a ArrayData, rows: &Rows<'a>, to: &mut Message<'a>) {
    let from = data.buffers()[0].get(data.offset() * width..).unwrap_or_default();
    to.buffer(rows.len() * width, Fill::Items { from, width, rows: rows.clone() });
}

fn small(data: &ArrayData) -> Offsets<'_> {
    Offsets::Small(data.buffers()[0].typed_data().get(data.offset()..).unwrap_or_default())
}

fn large(data: &ArrayData) -> Offsets<'_> {
    Offsets::Large(data.buffers()[0].typed_data().get(data.offset()..).unwrap_or_default())
}

fn bytes<'a>(offsets: Offsets<'a>, data: &'a ArrayData, rows: &Rows<'a>, to: &mut Message<'a>) {
    let mut len = 0;
    match offsets {
        Offsets::Small(at) => rows.each(|start, rows| len += (at[start + rows] - at[start]) as usize),
        Offsets::Large(at) => rows.each(|start, rows| len += (at[start + rows] - at[start]) as usize),
    }
    to.buffer((rows.len() + 1) * offsets.width(), Fill::Offsets { from: offsets, rows: rows.clone() });
    to.buffer(len, Fill::Values { from: data.buffers()[1].as_slice(), offsets, rows: rows.clone() });
}

fn views<'a>(data: &'a ArrayData, rows: &Rows<'a>, to: &mut Message<'a>) {
    let views = data.buffers()[0].typed_data().get(data.offset()..).unwrap_or_default();
    let from = Views { views, nulls: data.nulls(), buffers: &data.buffers()[1..] };
    to.buffer(rows.len() * 16, Fill::Views { from, rows: rows.clone() });
    to.buffer(from.bytes_elsewhere(rows), Fill::ViewBytes { from, rows: rows.clone() });
    to.variadic.push(1);
}
