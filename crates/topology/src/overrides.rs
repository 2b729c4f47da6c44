//! The changes that command line options make in a topology.

use std::path::PathBuf;

use zsr_records::{Fault, FileFormat, KEY_HELP, KeyRef, Routing, check_routing, parse_key, rows::Style};

use super::data::{RECORD_SIZES, default_delimiter, default_routing, default_schema, fits_item};
use super::model::{FileInput, Flow, Topology, Workload};
use super::rules::{ITEM_SIZES, RING_SIZES};
use super::settings::batch_bytes;

/// How an input file divides into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputFormat {
    /// Lines of text.
    Lines,
    /// Lines of columns.
    Delimited,
    /// Rows of CSV, with quotes.
    Csv,
    /// Records of equal size.
    Binary,
}

/// Changes to every flow of a topology; `None` leaves what the file says.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Take tuples from this file.
    pub input: Option<PathBuf>,
    /// How the file divides into records.
    pub format: Option<InputFormat>,
    /// Whether rows are taken that RFC 4180 does not allow.
    pub lenient: Option<bool>,
    /// Byte between columns.
    pub delimiter: Option<u8>,
    /// Whether the first line names the columns.
    pub header: Option<bool>,
    /// The key column: a name, a number from 1, `OFFSET:LENGTH`, or `*`.
    pub key: Option<String>,
    /// Bytes of a binary record.
    pub record_size: Option<u64>,
    /// Synthetic items per flow.
    pub items: Option<u64>,
    /// Bytes of an item.
    pub item_size: Option<u64>,
    /// TPC-H scale factor.
    pub scale: Option<f64>,
}

impl Topology {
    /// Applies command line options.
    ///
    /// # Errors
    /// One line per option that does not go with the topology or with another option.
    pub fn apply(&mut self, options: &Overrides) -> Result<(), Vec<String>> {
        let mut errors = Vec::new();
        let mut flows = std::mem::take(&mut self.flows);
        for flow in &mut flows {
            let before = errors.len();
            if let Some(size) = options.item_size {
                self.resize(flow, size, &mut errors);
            }
            if let Some(items) = options.items {
                flow.workload = Workload::Synthetic { items };
                flow.schema = Vec::new();
                flow.routing = default_routing(&flow.workload);
            }
            if let Some(scale) = options.scale {
                match &mut flow.workload {
                    Workload::Tpch { scale: old, .. } => *old = scale,
                    _ => errors.push(format!("--scale: flow '{}' has no tpch workload", flow.name)),
                }
            }
            if options.reads_file() && errors.len() == before {
                set_input(flow, options, &mut errors);
            }
        }
        self.flows = flows;
        errors.dedup();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Gives a flow and its rings another item size. A ring too small for four items grows.
    fn resize(&mut self, flow: &mut Flow, size: u64, errors: &mut Vec<String>) {
        if !size.is_power_of_two() || !ITEM_SIZES.contains(&size) {
            errors.push(format!("--item-size {size}: expected a power of two from 4 bytes to 1 MiB"));
            return;
        }
        let size = size as u32;
        flow.item_size = size;
        match batch_bytes(flow.max_batch_rule, size) {
            Ok(bytes) => flow.settings.max_batch = bytes,
            Err(Fault { message, expected }) => errors.push(format!(
                "--item-size {size}: max_batch of flow '{}': {message}; expected {expected}",
                flow.name
            )),
        }
        for ring in flow.producers.iter().chain(&flow.consumers).flat_map(|e| &e.rings) {
            let ring = &mut self.rings[*ring];
            ring.item_size = size;
            ring.size = ring.size.max(size.saturating_mul(4)).min(*RING_SIZES.end() as u32);
        }
    }
}

impl Overrides {
    fn reads_file(&self) -> bool {
        self.input.is_some()
            || self.format.is_some()
            || self.lenient.is_some()
            || self.delimiter.is_some()
            || self.header.is_some()
            || self.key.is_some()
            || self.record_size.is_some()
    }
}

/// Gives a flow a file as workload, or changes how it reads the one it has.
fn set_input(flow: &mut Flow, options: &Overrides, errors: &mut Vec<String>) {
    let old = match &flow.workload {
        Workload::File(input) => Some(input.clone()),
        _ => None,
    };
    let Some(path) = options.input.clone().or_else(|| old.as_ref().map(|o| o.path.clone())) else {
        errors.push(format!(
            "--format, --lenient, --delimiter, --header, --key and --record-size go with --input (flow '{}' reads no file)",
            flow.name
        ));
        return;
    };
    let key = match options.key.as_deref().map(parse_key) {
        Some(None) => {
            let text = options.key.as_deref().unwrap_or("");
            errors.push(format!("--key '{text}': expected {}", KEY_HELP));
            return;
        }
        Some(Some(key)) => Some(key),
        None => None,
    };
    let Some(format) = choose_format(options, old.as_ref(), key.as_ref(), &path, errors) else { return };
    let is_csv = matches!(format, FileFormat::Delimited { quoted: true, .. });
    if options.lenient == Some(true) && !is_csv {
        errors.push("--lenient goes with --csv".into());
        return;
    }
    let keeps = old.as_ref().is_some_and(|o| o.format == format);
    let lenient = options.lenient.unwrap_or(old.is_some_and(|o| o.lenient)) && is_csv;
    flow.workload = Workload::File(FileInput { path, format, lenient });
    if !keeps {
        flow.schema = default_schema(&flow.workload);
    }
    match key {
        Some(key) => flow.routing = Routing::Hash(key),
        None if !keeps => flow.routing = default_routing(&flow.workload),
        None => {}
    }
    match check_routing(&flow.routing, flow.workload.content(), &flow.schema, flow.consumers.len()) {
        Ok(routing) => flow.routing = routing,
        Err(e) => errors.push(format!("--key: {}; expected {}", e.message, e.expected)),
    }
    if let FileFormat::Binary { record_size } = format
        && let Err(expected) = fits_item(record_size, flow.item_size)
    {
        errors.push(format!(
            "--record-size {record_size}: too long for the items of flow '{}', {} bytes; expected a shorter \
             record, or {expected} (--item-size)",
            flow.name, flow.item_size
        ));
    }
}

/// The format as told, or as the other options imply.
fn choose_format(
    options: &Overrides,
    old: Option<&FileInput>,
    key: Option<&KeyRef>,
    path: &std::path::Path,
    errors: &mut Vec<String>,
) -> Option<FileFormat> {
    let columns = options.delimiter.is_some() || options.header.is_some();
    let implied = if options.record_size.is_some() || matches!(key, Some(KeyRef::Bytes { .. })) {
        InputFormat::Binary
    } else if columns || matches!(key, Some(KeyRef::Name(_) | KeyRef::Number(_))) {
        match old.map(|o| o.format) {
            Some(FileFormat::Delimited { quoted: true, .. }) => InputFormat::Csv,
            _ => InputFormat::Delimited,
        }
    } else {
        match old.map(|o| o.format) {
            Some(FileFormat::Delimited { quoted: true, .. }) => InputFormat::Csv,
            Some(FileFormat::Delimited { .. }) => InputFormat::Delimited,
            Some(FileFormat::Binary { .. }) => InputFormat::Binary,
            _ => InputFormat::Lines,
        }
    };
    let format = options.format.unwrap_or(implied);
    if format != InputFormat::Binary && options.record_size.is_some() {
        errors.push("--record-size goes with --format binary".into());
        return None;
    }
    if !matches!(format, InputFormat::Delimited | InputFormat::Csv) && columns {
        errors.push("--delimiter and --header go with --format delimited and --csv".into());
        return None;
    }
    match format {
        InputFormat::Lines => Some(FileFormat::Lines),
        InputFormat::Delimited | InputFormat::Csv => {
            let (mut delimiter, mut header) = (default_delimiter(path), matches!(key, Some(KeyRef::Name(_))));
            if let Some(FileFormat::Delimited { delimiter: d, header: h, .. }) = old.map(|o| o.format) {
                (delimiter, header) = (d, h || header);
            }
            let (delimiter, quoted) = (options.delimiter.unwrap_or(delimiter), format == InputFormat::Csv);
            if let Err(wrong) = (Style { delimiter, quoted }).check() {
                errors.push(format!("--delimiter: {wrong}"));
                return None;
            }
            Some(FileFormat::Delimited { delimiter, header: options.header.unwrap_or(header), quoted })
        }
        InputFormat::Binary => {
            let old = match old.map(|o| o.format) {
                Some(FileFormat::Binary { record_size }) => Some(u64::from(record_size)),
                _ => None,
            };
            let Some(size) = options.record_size.or(old) else {
                errors.push("--format binary needs --record-size".into());
                return None;
            };
            if !RECORD_SIZES.contains(&size) {
                errors.push(format!("--record-size {size}: expected 1 byte to 1 MiB"));
                return None;
            }
            Some(FileFormat::Binary { record_size: size as u32 })
        }
    }
}
