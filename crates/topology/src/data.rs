//! The data of flows: schema, workload, and their agreement with the routing function.

use zsr_records::{
    COLUMN_TYPE_HELP, Column, ColumnType, Content, Fault, FileFormat, KEY_HELP, KeyRef, NAME_HELP, Routing,
    Schema, check_routing, column_type, fixed_width, is_name, parse_key, rows::Style, type_name,
};

use super::build::Builder;
use super::diag::Place;
use super::model::{FileInput, TpchTable, Workload};
use super::read::{At, Table, list};
use super::rules::{self, ITEM_SIZES};
use super::units;
use super::yaml::{Node, Value, shorten};

/// Longest binary record: an item holds at most 1 MiB.
pub(crate) const RECORD_SIZES: std::ops::RangeInclusive<u64> = 1..=1 << 20;
/// Synthetic items per flow.
pub(crate) const ITEM_COUNTS: std::ops::RangeInclusive<u64> = 1..=1 << 40;
const DEFAULT_SCALE: f64 = 0.01;
const DEFAULT_ITEMS: u64 = 1_000_000;

/// Schema, routing and workload of a flow.
pub(crate) struct FlowData {
    pub schema: Vec<Column>,
    pub routing: Routing,
    pub workload: Workload,
}

/// The columns of `lineitem`, in order.
pub(crate) const LINEITEM: [(&str, ColumnType); 16] = [
    ("l_orderkey", ColumnType::Int(64)),
    ("l_partkey", ColumnType::Int(64)),
    ("l_suppkey", ColumnType::Int(64)),
    ("l_linenumber", ColumnType::Int(32)),
    ("l_quantity", ColumnType::Int(64)),
    ("l_extendedprice", ColumnType::Decimal),
    ("l_discount", ColumnType::Decimal),
    ("l_tax", ColumnType::Decimal),
    ("l_returnflag", ColumnType::Text),
    ("l_linestatus", ColumnType::Text),
    ("l_shipdate", ColumnType::Date),
    ("l_commitdate", ColumnType::Date),
    ("l_receiptdate", ColumnType::Date),
    ("l_shipinstruct", ColumnType::Text),
    ("l_shipmode", ColumnType::Text),
    ("l_comment", ColumnType::Text),
];

impl Builder<'_> {
    /// Reads `schema`, `workload` (the flow's own or the file's) and `routing`, and checks that they agree.
    pub(crate) fn flow_data(
        &mut self,
        flow: &Table<'_>,
        shared: Option<&Node>,
        consumers: usize,
        item_size: u32,
    ) -> FlowData {
        let before = self.reader.diags.len();
        let schema = flow.get("schema").map(|node| self.schema(node, flow));
        let (workload, key) = match flow.get("workload").or(shared) {
            Some(node) => self.workload(node),
            None => (Workload::Tpch { table: TpchTable::Lineitem, scale: DEFAULT_SCALE }, None),
        };
        let given = flow.get("routing").and_then(|node| self.routing(node, flow));
        let place = flow.get("routing").map_or(flow.place, |node| node.place);
        let mut routing = match (&given, &key) {
            (Some(at), _) => at.clone(),
            (None, Some(key)) => Routing::Hash(key.value.clone()),
            (None, None) => default_routing(&workload),
        };
        if let (Some(_), Some(key)) = (&given, &key)
            && *routing.key() != key.value
        {
            let message = format!("the key of the workload is not the one that {} routes by", flow.what);
            self.reader.error(key.place, message, "the same key in both, or only in routing");
        }
        let declared = schema.is_some();
        let schema = schema.unwrap_or_else(|| default_schema(&workload));
        if declared {
            self.check_schema(flow, &schema, &workload);
            // Items that programs of a running system bring are tuples of the schema.
            let schema = Schema::of(&schema);
            let place = flow.place_of("schema");
            if let Some(size) = schema.tuple_size().filter(|_| item_size != 0 && !is_binary(&workload)) {
                self.reader.obey(place, rules::tuples(&flow.what, size, item_size));
            }
            self.reader.obey(place, rules::schema_text(&flow.what, schema.to_string().len()));
        }
        if let Workload::File(FileInput { format: FileFormat::Binary { record_size }, .. }) = &workload
            && let Err(expected) = fits_item(*record_size, item_size)
            && item_size != 0
        {
            let message = format!(
                "records of {record_size} bytes don't fit in the {item_size}-byte items of {}",
                flow.what
            );
            self.reader.error(place, message, expected);
        }
        if !self.reader.failed_since(before) && consumers > 0 {
            match check_routing(&routing, workload.content(), &schema, consumers) {
                Ok(checked) => routing = checked,
                Err(Fault { message, expected }) => {
                    let place = match (&given, &key) {
                        (None, Some(key)) => key.place,
                        _ => place,
                    };
                    self.reader.error(place, format!("routing of {}: {message}", flow.what), expected);
                }
            }
        }
        FlowData { schema, routing, workload }
    }

    /// `{a: i64, b: text}` or a list of such maps.
    fn schema(&mut self, node: &Node, flow: &Table<'_>) -> Vec<Column> {
        let what = format!("schema of {}", flow.what);
        let help = "a map or list of NAME: TYPE (such as l_orderkey: i64)";
        let mut columns: Vec<Column> = Vec::new();
        let lists: Vec<&Node> = match &node.value {
            Value::Seq(items) => items.iter().collect(),
            _ => vec![node],
        };
        for entry in lists {
            for (key, kind) in self.reader.free_map(entry, &what, help) {
                if !is_name(&key.text) {
                    let message = format!("'{}' is no column name", shorten(&key.text));
                    self.reader.error(key.place, message, NAME_HELP);
                } else if columns.iter().any(|c| c.name == key.text) {
                    let message = format!("{what} has two columns named '{}'", key.text);
                    self.reader.error(key.place, message, "each name once");
                }
                let label = format!("type of column '{}'", shorten(&key.text));
                if let Some(kind) = self.reader.parsed(kind, &label, COLUMN_TYPE_HELP, column_type) {
                    columns.push(Column { name: key.text.clone(), kind: kind.value });
                }
            }
        }
        if columns.is_empty() {
            self.reader.error(node.place, format!("{what} has no column"), help);
        }
        columns
    }

    /// A declared schema has to describe what the workload makes.
    fn check_schema(&mut self, flow: &Table<'_>, schema: &[Column], workload: &Workload) {
        let place = flow.place_of("schema");
        match workload {
            Workload::Tpch { .. } => {
                if schema != default_schema(workload) {
                    let columns: Vec<String> =
                        LINEITEM.iter().map(|(n, t)| format!("{n}: {}", type_name(*t))).collect();
                    let message = format!("schema of {} is not that of lineitem", flow.what);
                    self.reader.error(place, message, format!("no schema, or {}", list(&columns)));
                }
            }
            Workload::Synthetic { .. } => {
                let message = format!("{} has a schema, but synthetic items have no columns", flow.what);
                self.reader.error(place, message, "no schema");
            }
            Workload::File(FileInput { format: FileFormat::Binary { record_size }, .. }) => {
                let width = schema.iter().map(|c| fixed_width(c.kind)).sum::<Option<u64>>();
                if width != Some(u64::from(*record_size)) {
                    let found = width.map_or("columns of unknown width".into(), |w| format!("{w} bytes"));
                    let message = format!("schema of {} has {found}, records {record_size}", flow.what);
                    self.reader.error(place, message, "columns of fixed width that fill the record");
                }
            }
            Workload::File(_) => {}
        }
    }

    /// A workload, and its `key` if it names one.
    fn workload(&mut self, node: &Node) -> (Workload, Option<At<KeyRef>>) {
        let fallback = (Workload::Synthetic { items: 1 }, None);
        let all = [
            "kind",
            "table",
            "scale",
            "key",
            "items",
            "path",
            "format",
            "delimiter",
            "header",
            "lenient",
            "record_size",
        ];
        let Some(table) = self.reader.table(node, "the workload", &all) else { return fallback };
        if table.get("kind").is_none() {
            self.reader.error(table.place, "the workload has no kind", "kind: tpch, synthetic or file");
            return fallback;
        }
        let kinds = [("tpch", 0), ("synthetic", 1), ("file", 2)];
        let Some(kind) = self.reader.choice(&table, "kind", &kinds) else { return fallback };
        let (what, keys): (&str, &[&str]) = match kind.value {
            0 => ("a tpch workload", &["kind", "table", "scale", "key"]),
            1 => ("a synthetic workload", &["kind", "items"]),
            _ => (
                "a file workload",
                &["kind", "path", "format", "delimiter", "header", "lenient", "record_size", "key"],
            ),
        };
        // Keys of the other kinds would be ignored.
        for key in all.iter().filter(|key| !keys.contains(key) && table.get(key).is_some()) {
            let message = format!("{what} has no '{key}'");
            self.reader.error(table.place_of(key), message, format!("one of {}", list(keys)));
        }
        let key = self.reader.opt(&table, "key", KEY_HELP, parse_key);
        let workload = match kind.value {
            0 => {
                self.reader.choice(&table, "table", &[("lineitem", ())]);
                let expected = "a number from 0.001 to 1000";
                let scale = self.reader.opt(&table, "scale", expected, |t| {
                    units::number(t).filter(|scale| (0.001..=1000.0).contains(scale))
                });
                let scale = scale.map_or(DEFAULT_SCALE, |at| at.value);
                Workload::Tpch { table: TpchTable::Lineitem, scale }
            }
            1 => {
                let items = self.reader.integer(&table, "items", ITEM_COUNTS);
                Workload::Synthetic { items: items.map_or(DEFAULT_ITEMS, |at| at.value) }
            }
            _ => self.file_input(&table),
        };
        (workload, key)
    }

    fn file_input(&mut self, table: &Table<'_>) -> Workload {
        let path = self.path(table, "path");
        if table.get("path").is_none() {
            self.reader.error(table.place, "a file workload has no path", "path: the input file");
        }
        let formats = [("lines", 0), ("delimited", 1), ("csv", 3), ("binary", 2)];
        let format = self.reader.choice(table, "format", &formats).map_or(0, |at| at.value);
        let mut only = |key: &str, wanted: &str, ok: bool| -> Option<Place> {
            let place = table.get(key).map(|node| node.place)?;
            if !ok {
                self.reader.error(place, format!("'{key}' goes with format: {wanted}"), "no such key");
            }
            Some(place)
        };
        only("delimiter", "delimited or csv", matches!(format, 1 | 3));
        only("header", "delimited or csv", matches!(format, 1 | 3));
        only("record_size", "binary", format == 2);
        only("lenient", "csv", format == 3);
        let lenient = self.reader.flag(table, "lenient").is_some_and(|at| at.value);
        let format = match format {
            0 => FileFormat::Lines,
            1 | 3 => {
                let delimiter = self.reader.opt(table, "delimiter", DELIMITER_HELP, parse_delimiter);
                let header = self.reader.flag(table, "header");
                // A key by name needs names.
                let named = matches!(
                    table.get("key").map(|n| &n.value),
                    Some(Value::Scalar(text))
                        if matches!(parse_key(text), Some(KeyRef::Name(_)))
                );
                let style = Style {
                    delimiter: delimiter.as_ref().map_or_else(
                        || default_delimiter(path.as_deref().unwrap_or("".as_ref())),
                        |at| at.value,
                    ),
                    quoted: format == 3,
                };
                if let (Err(wrong), Some(at)) = (style.check(), delimiter) {
                    self.reader.error(at.place, wrong, DELIMITER_HELP);
                }
                let Style { delimiter, quoted } = style;
                FileFormat::Delimited { delimiter, header: header.map_or(named, |at| at.value), quoted }
            }
            _ => {
                if table.get("record_size").is_none() {
                    self.reader.error(
                        table.place,
                        "format: binary has no record_size",
                        "record_size: bytes of a record",
                    );
                }
                let size = self.reader.size(table, "record_size", RECORD_SIZES);
                FileFormat::Binary { record_size: size.map_or(1, |at| at.value as u32) }
            }
        };
        Workload::File(FileInput { path: path.unwrap_or_default(), format, lenient })
    }
}

impl Workload {
    /// The content of the items of a flow that carries this workload.
    pub fn content(&self) -> Content {
        match self {
            Workload::Synthetic { .. } => Content::Numbers,
            Workload::Tpch { .. } => {
                Content::Records(FileFormat::Delimited { delimiter: b'|', header: false, quoted: false })
            }
            Workload::File(input) => Content::Records(input.format),
        }
    }
}

fn is_binary(workload: &Workload) -> bool {
    matches!(workload, Workload::File(FileInput { format: FileFormat::Binary { .. }, .. }))
}

/// Whether a segment in an item of `item_size` bytes has room for a binary record, else what was expected.
pub(crate) fn fits_item(record_size: u32, item_size: u32) -> Result<(), String> {
    let needed = u64::from(record_size) + zsr_ring::segment::HEADER_LEN as u64;
    if needed <= u64::from(item_size) {
        return Ok(());
    }
    let next = needed.next_power_of_two();
    if ITEM_SIZES.contains(&next) {
        Err(format!("an item_size of at least {}", super::units::show_size(next)))
    } else {
        Err("records that are shorter than 1 MiB by a segment's header".into())
    }
}

/// The delimiters that [`parse_delimiter`] accepts, for messages.
pub(crate) const DELIMITER_HELP: &str = "one ASCII character (such as ',' or '|'), or tab";

/// A delimiter byte.
pub fn parse_delimiter(text: &str) -> Option<u8> {
    match text {
        "tab" | "\\t" | "\t" => Some(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii() && *byte != b'\n' && *byte != 0 => Some(*byte),
            _ => None,
        },
    }
}

/// By the file's extension: `.tbl` has bars, `.tsv` tabs, everything else commas.
pub(crate) fn default_delimiter(path: &std::path::Path) -> u8 {
    match path.extension().and_then(|e| e.to_str()) {
        Some("tbl") => b'|',
        Some("tsv") => b'\t',
        _ => b',',
    }
}

/// The routing of a flow that names none.
pub(crate) fn default_routing(workload: &Workload) -> Routing {
    match workload {
        Workload::Tpch { .. } => Routing::Hash(KeyRef::Name("l_orderkey".into())),
        Workload::Synthetic { .. } => Routing::Explicit(KeyRef::Whole),
        Workload::File(_) => Routing::Hash(KeyRef::Whole),
    }
}

/// The columns of a workload that knows them.
pub fn default_schema(workload: &Workload) -> Vec<Column> {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    match workload {
        Workload::Tpch { table: TpchTable::Lineitem, .. } => {
            LINEITEM.iter().map(|(name, kind)| column(name, *kind)).collect()
        }
        Workload::Synthetic { .. } => Vec::new(),
        Workload::File(input) => match input.format {
            FileFormat::Lines => vec![column("line", ColumnType::Text)],
            FileFormat::Delimited { .. } => Vec::new(),
            FileFormat::Binary { record_size } => vec![column("record", ColumnType::Bytes(record_size))],
        },
    }
}
