//! The kinds of records: columns, keys, routing functions, and how text or bytes divide into records.

/// A column of a tuple schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Unique in its schema.
    pub name: String,
    /// The column's type.
    pub kind: ColumnType,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A signed integer of this many bits.
    Int(u8),
    /// An unsigned integer of this many bits.
    Uint(u8),
    /// A floating point number of this many bits.
    Float(u8),
    /// A decimal number with two digits behind the point.
    Decimal,
    /// A day.
    Date,
    /// Text of any length.
    Text,
    /// Bytes of fixed length.
    Bytes(u32),
}

/// The column or bytes of a tuple that routing looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRef {
    /// The whole tuple; for synthetic items the sequence number.
    Whole,
    /// A column by name.
    Name(String),
    /// A column by number, from 1.
    Number(u32),
    /// Bytes of a fixed-size record.
    Bytes {
        /// First byte, from 0.
        offset: u32,
        /// Number of bytes.
        length: u32,
    },
}

/// A bound of range routing.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// Compared as a whole number.
    Int(i64),
    /// Compared byte by byte.
    Text(String),
}

/// Which consumer a tuple goes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Routing {
    /// A hash of the key, modulo the number of consumers (see [`Router`](crate::Router)).
    Hash(KeyRef),
    /// Consumer `i` gets the keys from bound `i - 1` (included) up to bound `i` (excluded).
    Range {
        /// The key that is compared.
        key: KeyRef,
        /// Bounds, ascending and all of one kind: one fewer than consumers.
        bounds: Vec<Bound>,
    },
    /// The key is the consumer's number, from 0; with [`KeyRef::Whole`], tuples go round-robin.
    Explicit(KeyRef),
}

impl Routing {
    /// The key that the routing function looks at.
    pub fn key(&self) -> &KeyRef {
        match self {
            Routing::Hash(key) | Routing::Explicit(key) | Routing::Range { key, .. } => key,
        }
    }
}

impl Routing {
    /// The same function of another key.
    pub fn with_key(&self, key: KeyRef) -> Routing {
        match self {
            Routing::Hash(_) => Routing::Hash(key),
            Routing::Explicit(_) => Routing::Explicit(key),
            Routing::Range { bounds, .. } => Routing::Range { key, bounds: bounds.clone() },
        }
    }
}

/// The content of a flow's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A number each, and no records.
    Numbers,
    /// Records that are divided like those of a file.
    Records(FileFormat),
}

/// How a file divides into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Lines of text; the line is the key.
    Lines,
    /// Lines of columns.
    Delimited {
        /// The byte between columns.
        delimiter: u8,
        /// Whether the first line names the columns.
        header: bool,
        /// Whether quotes protect delimiters and line ends (CSV, RFC 4180).
        quoted: bool,
    },
    /// Records of equal size.
    Binary {
        /// Bytes of a record.
        record_size: u32,
    },
}
