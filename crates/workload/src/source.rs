//! Workloads made ready: inputs opened and measured, keys resolved, shares cut.

use zsr_ring::segment::{HEADER_LEN, LENGTH_LEN};

use std::sync::atomic::Ordering::Relaxed;

use zsr_records::rows::{Style, taken_text};
use zsr_records::{FileFormat, KeyReader, KeyRef, Router, Routing};
use zsr_topology::{FileInput, Flow, FlowKind, Workload};

use super::error::WorkloadError;
use super::file::{self, Division, Quotes, Records};
use super::item;
use super::tpch::{self, Rows, Texts};

/// The unit that progress is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of an input file.
    Bytes,
    /// Rows of a generated table; their number is known only roughly.
    Rows,
    /// Synthetic items.
    Items,
}

/// How much there is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The unit.
    pub unit: Unit,
    /// The number of units.
    pub total: u64,
}

/// A flow's workload, checked and ready to run.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) name: String,
    /// The kind of the flow.
    pub(crate) flow: FlowKind,
    pub(crate) kind: Kind,
    pub(crate) router: Router,
    pub(crate) key: KeyReader,
    pub(crate) item_size: u32,
    pub(crate) seed: u64,
    /// How much there is to move.
    pub estimate: Estimate,
}

/// Where items come from.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Tpch { scale: f64, texts: Texts },
    Synthetic { items: u64 },
    File { input: FileInput, division: Division, first: u64, size: u64, cuts: Vec<u64>, quotes: Quotes },
}

/// Opens the input of a flow and resolves its key.
///
/// # Errors
/// When the input can't be read, is no multiple of the record size, or lacks the key column.
pub fn prepare(flow: &Flow, seed: u64) -> Result<Prepared, WorkloadError> {
    let mut routing = flow.routing.clone();
    let (kind, estimate) = match &flow.workload {
        Workload::Tpch { scale, .. } => {
            let estimate = Estimate { unit: Unit::Rows, total: tpch::estimate(*scale) };
            (Kind::Tpch { scale: *scale, texts: Texts::new() }, estimate)
        }
        Workload::Synthetic { items } => {
            let max = item::max_producers(flow.item_size as usize);
            if flow.producers.len() > max {
                return Err(WorkloadError::TooManyProducers {
                    flow: flow.name.clone(),
                    producers: flow.producers.len(),
                    item_size: flow.item_size,
                    max,
                });
            }
            (Kind::Synthetic { items: *items }, Estimate { unit: Unit::Items, total: *items })
        }
        Workload::File(input) => {
            let kind = prepare_file(input, flow, &mut routing)?;
            let total = match &kind {
                Kind::File { first, size, .. } => size.saturating_sub(*first),
                _ => 0,
            };
            (kind, Estimate { unit: Unit::Bytes, total })
        }
    };
    Ok(Prepared {
        name: flow.name.clone(),
        flow: flow.kind,
        kind,
        key: KeyReader::new(routing.key(), flow.workload.content(), &flow.schema),
        router: Router::new(&routing, flow.kind.rings_per_producer(flow.consumers.len())),
        item_size: flow.item_size,
        seed,
        estimate,
    })
}

fn prepare_file(input: &FileInput, flow: &Flow, routing: &mut Routing) -> Result<Kind, WorkloadError> {
    let (_, size) = file::open(&input.path)?;
    let (mut first, mut cuts) = (0, Vec::new());
    let quotes =
        Quotes { columns: matches!(input.format, FileFormat::Delimited { .. }), ..Quotes::default() };
    let division = match input.format {
        FileFormat::Lines => Division::Lines,
        FileFormat::Binary { record_size } => {
            if record_size == 0 || size % u64::from(record_size) != 0 {
                return Err(WorkloadError::PartialRecord {
                    path: input.path.clone(),
                    bytes: size,
                    record_size,
                });
            }
            Division::Fixed(record_size as usize)
        }
        FileFormat::Delimited { delimiter, header, quoted } => {
            let division = division(input, delimiter, quoted);
            if header {
                let style = Style { delimiter, quoted };
                let (columns, next) = file::header(&input.path, division, style, &quotes)?;
                first = next;
                resolve_name(input, &columns, routing)?;
            } else {
                check_number(input, division, Style { delimiter, quoted }, routing)?;
                if quoted {
                    first = file::mark(&input.path)?;
                }
            }
            if quoted {
                let max = max_record(flow.item_size, None);
                let parts = flow.producers.len();
                cuts = file::cuts(&input.path, division, (first, size), parts, flow.item_size, max)?;
            }
            division
        }
    };
    Ok(Kind::File { input: input.clone(), division, first, size, cuts, quotes })
}

/// How a file of columns divides into records.
fn division(input: &FileInput, delimiter: u8, quoted: bool) -> Division {
    if quoted { Division::Rows { delimiter, lenient: input.lenient } } else { Division::Lines }
}

/// The longest record that fits in an item.
fn max_record(item_size: u32, record_size: Option<u32>) -> usize {
    let framing = HEADER_LEN + if record_size.is_some() { 0 } else { LENGTH_LEN };
    (item_size as usize).saturating_sub(framing)
}

/// The columns that the header of a workload's input names, if it has one that can be read.
pub fn input_columns(workload: &Workload) -> Option<Vec<String>> {
    let Workload::File(input) = workload else { return None };
    let FileFormat::Delimited { delimiter, header: true, quoted } = input.format else { return None };
    let (division, style) = (division(input, delimiter, quoted), Style { delimiter, quoted });
    file::header(&input.path, division, style, &Quotes::default()).ok().map(|(columns, _)| columns)
}

/// A key column given by name becomes the column's number.
fn resolve_name(input: &FileInput, columns: &[String], routing: &mut Routing) -> Result<(), WorkloadError> {
    let KeyRef::Name(name) = routing.key().clone() else { return Ok(()) };
    let Some(index) = columns.iter().position(|c| *c == name) else {
        let mut found = columns.join(", ");
        if found.len() > 200 {
            found = format!("{} columns", columns.len());
        }
        return Err(WorkloadError::NoSuchColumn { path: input.path.clone(), column: name, found });
    };
    let number = KeyRef::Number(index as u32 + 1);
    *routing = routing.with_key(number);
    Ok(())
}

/// A key column given by number has to be there, in the first line at least.
fn check_number(
    input: &FileInput,
    division: Division,
    style: Style,
    routing: &Routing,
) -> Result<(), WorkloadError> {
    let KeyRef::Number(column) = *routing.key() else { return Ok(()) };
    // A line that is too long to be looked at here is judged when it is pushed.
    let read = file::header(&input.path, division, style, &Quotes::default());
    let Ok((columns, _)) = read else { return Ok(()) };
    if columns.len() >= column as usize {
        return Ok(());
    }
    Err(WorkloadError::NoColumn { path: input.path.clone(), column, found: columns.len() })
}

/// A producer's share of the records.
pub(crate) enum Source {
    Tpch(Box<Rows>),
    File(Box<Records>),
}

impl Prepared {
    /// Share `part` (from 0) of `parts`; synthetic items have none.
    pub(crate) fn source(&self, part: usize, parts: usize) -> Result<Option<Source>, WorkloadError> {
        match &self.kind {
            Kind::Synthetic { .. } => Ok(None),
            Kind::Tpch { scale, texts } => {
                Ok(Some(Source::Tpch(Box::new(Rows::new(*scale, part, parts, texts)))))
            }
            Kind::File { input, division, first, size, cuts, quotes } => {
                let unit = match division {
                    Division::Lines | Division::Rows { .. } => 1,
                    Division::Fixed(size) => *size as u64,
                };
                let units = size.saturating_sub(*first) / unit;
                let (from, end) = (share(units, part, parts).0, share(units, part, parts).1);
                let max = self.max_record();
                let (from, end) = match cuts.get(part..part + 2) {
                    Some(cut) => (cut[0], cut[1]),
                    None => (first + from * unit, first + end * unit),
                };
                let records = Records::new(&input.path, *division, from, end, self.item_size, max)?;
                Ok(Some(Source::File(Box::new(records.watching(quotes.clone())))))
            }
        }
    }

    /// The synthetic items of share `part`: how many.
    pub(crate) fn items_of(&self, part: usize, parts: usize) -> u64 {
        match &self.kind {
            Kind::Synthetic { items } => {
                let (from, end) = share(*items, part, parts);
                end - from
            }
            _ => 0,
        }
    }

    /// Bytes of each record, if all have the same.
    pub(crate) fn record_size(&self) -> Option<u32> {
        match &self.kind {
            Kind::File { division: Division::Fixed(size), .. } => u32::try_from(*size).ok(),
            _ => None,
        }
    }

    /// The longest record that fits in an item.
    fn max_record(&self) -> usize {
        max_record(self.item_size, self.record_size())
    }

    /// Where the first record is that has quotes nobody has asked to be read as such.
    pub fn quotes_at(&self) -> Option<&str> {
        match &self.kind {
            Kind::File { quotes, division: Division::Lines, .. } => quotes.place.get().map(String::as_str),
            _ => None,
        }
    }

    /// The message about rows that RFC 4180 does not allow, and that were taken.
    pub fn taken(&self) -> Option<String> {
        let Kind::File { quotes, division: Division::Rows { .. }, .. } = &self.kind else { return None };
        quotes.place.get().map(|place| taken_text(quotes.taken.load(Relaxed), place))
    }

    /// Whether items are numbered and bare instead of segments of records.
    pub(crate) fn is_synthetic(&self) -> bool {
        matches!(self.kind, Kind::Synthetic { .. })
    }
}

/// Share `part` of `total` things: from, and up to.
fn share(total: u64, part: usize, parts: usize) -> (u64, u64) {
    let cut = |p: usize| (u128::from(total) * p as u128 / parts.max(1) as u128) as u64;
    (cut(part), cut(part + 1))
}

impl Source {
    /// The next record.
    ///
    /// # Errors
    /// When the input can't be read or has a record that fits in no item.
    #[inline]
    pub fn next(&mut self) -> Result<Option<&[u8]>, WorkloadError> {
        match self {
            Source::Tpch(rows) => Ok(rows.next()),
            Source::File(records) => records.next(),
        }
    }

    /// Where the record returned last is.
    pub fn place(&self) -> String {
        match self {
            Source::Tpch(rows) => rows.place(),
            Source::File(records) => records.place(),
        }
    }
}
