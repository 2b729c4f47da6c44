//! Layouts: a segment whose records stay where a program keeps them. The ring's item says where that is, and the NIC gathers
//! the records when the switch READs the item. At a consumer, a free slot says where the records of the item go that comes there, and the NIC
//! scatters them ([`Places`]).
//!
//! A [`Layout`] is a sequence of row numbers ([`Rows`]) and a list of [`Column`]s. Each row makes one record: an element of
//! each column, side by side. So a few numbers name many records, and a program neither copies them nor posts anything.
//!
//! | memory | layout |
//! | --- | --- |
//! | columns of a table, to be rows on the way | [`Rows::Every`], one [`Column`] per column |
//! | every other row to each of two consumers | [`Rows::Every`] with complementary `start` |
//! | rows that a filter has chosen | [`Rows::Chosen`], a bit per row |
//! | records behind pointers, pages of a block table | [`Rows::Listed`], a number per record |
//!
//! Columns, bits and lists lie in [regions](Regions): memory that the program has registered. A producer must not change them until
//! the item was taken, a consumer until it was popped. Ideas are from D-RDMA, sections 3.1 to 3.3 (strided, bitmapped and pointer-mapped regions).
//!
//! # Encoding
//! An item with a layout begins with a [segment](crate::segment)'s header in which bit 7 of the flags is set. In a consumer's free slot it
//! is the header of a segment without records. When an item comes there, its header takes that one's place, with bit 7. Behind the
//! header are words of 8 bytes, least significant byte first:
//!
//! | word | content |
//! | --- | --- |
//! | 0 | kind of rows (1 every, 2 chosen, 3 listed), number of columns << 8, bytes of a listed number << 16 |
//! | 1 | number of rows |
//! | 2 | `start` |
//! | 3, 4 | `period`, `frequency` of every; bits of chosen |
//! | 5, 6 | region, and offset there, of bits or list |
//! | 7 … | for each column: offset in its region, stride, region and width << 32 |

mod cover;
mod decoded;
mod encode;
mod placed;
mod rows;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::memory::Memory;

pub use cover::divides;
pub use decoded::{Laid, LayoutFault};
pub use encode::check;
pub(crate) use encode::{Encoded, encode};
pub use placed::{Arrived, PlacedError, Places};

/// Most columns of a layout.
pub const MOST_COLUMNS: usize = 255;
/// Most bits of a bitmap: more would hold up the NIC, which counts them for each item.
pub const MOST_BITS: u32 = 1 << 24;
/// Smallest items that a layout fits.
pub const SMALLEST_ITEM: u32 = 128;
/// Words in front of the columns, and of each column.
const FIXED: usize = 7;
const PER_COLUMN: usize = 3;

/// Memory that a program has registered, by number.
pub type Regions = [Arc<dyn Memory>];

/// A place in registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// Which region, from 0, in the order of registration.
    pub region: u32,
    /// Bytes from its begin.
    pub offset: u64,
}

/// Which rows a layout has, in order. Rows are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// The first `frequency` of every `period` rows, from row `start` on, `count` in all.
    Every {
        /// The first row.
        start: u64,
        /// Rows from the begin of one group to that of the next; at least `frequency`.
        period: u64,
        /// Rows of a group; at least 1.
        frequency: u64,
        /// Rows in all.
        count: u32,
    },
    /// Rows whose bit is set, of `bits` rows from row `start` on. Eight bits to a byte, the least significant first, as in Arrow.
    Chosen {
        /// The row of the first bit.
        start: u64,
        /// Where the bits are.
        at: At,
        /// How many there are.
        bits: u32,
    },
    /// Rows whose numbers are in a list.
    Listed {
        /// Where the list is.
        at: At,
        /// Bytes of each number: 4 or 8, in this machine's byte order.
        width: u32,
        /// Numbers in the list.
        count: u32,
    },
}

impl Rows {
    /// `count` rows side by side, from row `start` on.
    pub fn all(start: u64, count: u32) -> Self {
        Rows::Every { start, period: 1, frequency: 1, count }
    }
}

/// A column: row `n` has `width` bytes at `at` plus `n` times `stride`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Where row 0 has its element.
    pub at: At,
    /// Bytes from one row's element to the next row's. With 1, row numbers are offsets.
    pub stride: u64,
    /// Bytes of an element.
    pub width: u32,
}

/// Where the records of a segment lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Which rows.
    pub rows: Rows,
    /// The columns that make each row.
    pub columns: Vec<Column>,
}

impl Layout {
    /// Rows of these columns.
    pub fn new(rows: Rows, columns: impl Into<Vec<Column>>) -> Self {
        Self { rows, columns: columns.into() }
    }

    /// Bytes of a record.
    pub fn row_size(&self) -> u64 {
        self.columns.iter().map(|column| u64::from(column.width)).sum()
    }
}

/// A part of a layout that names memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// The bits of [`Rows::Chosen`].
    Bitmap,
    /// The numbers of [`Rows::Listed`].
    List,
    /// The column of this number, up to the last row, where it is known.
    Column(usize, Option<u128>),
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Piece::Bitmap => f.write_str("the bitmap"),
            Piece::List => f.write_str("the list of rows"),
            Piece::Column(number, None) => write!(f, "column {number}"),
            Piece::Column(number, Some(row)) => write!(f, "row {row} of column {number}"),
        }
    }
}

/// A layout that can't be pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The ring's memory has no layouts.
    #[error(
        "ring items are plain bytes: layouts take a ring in memory of the kind `layouts` (`memory: layouts` in the topology)"
    )]
    PlainRing,
    /// No column, or too many.
    #[error("a layout has 1 to {MOST_COLUMNS} columns, this one {0}")]
    Columns(usize),
    /// An element of no bytes.
    #[error("column {0} is 0 B wide")]
    Width(usize),
    /// Groups that there can't be.
    #[error("{frequency} of every {period} rows: expected at least 1, and no more than the period")]
    Period {
        /// Rows of a group.
        frequency: u64,
        /// From group to group.
        period: u64,
    },
    /// A bitmap that is too long.
    #[error("a bitmap of {0} rows is too long: expected {MOST_BITS} at most")]
    Bits(u32),
    /// A list of numbers of another width.
    #[error("numbers in a list are 4 or 8 B wide, not {0}")]
    Listed(u32),
    /// No memory was registered under the number.
    #[error("{what} is in region {region}, but the program has registered {registered}")]
    NoRegion {
        /// Which part of the layout.
        what: Piece,
        /// The region's number.
        region: u32,
        /// How many there are.
        registered: usize,
    },
    /// A part of the layout ends behind its region.
    #[error("{what} ends {past} B behind region {region}, which has {len} B")]
    Outside {
        /// Which part of the layout.
        what: Piece,
        /// The region's number.
        region: u32,
        /// Bytes of the region.
        len: usize,
        /// Bytes too many.
        past: u128,
    },
    /// No rows.
    #[error("the layout has no rows")]
    Empty,
    /// More bytes than an item takes.
    #[error("{rows} rows of {row_size} B don't fit an item, which takes {room} B")]
    TooLong {
        /// Rows.
        rows: u32,
        /// Bytes of each.
        row_size: u64,
        /// What an item takes.
        room: usize,
    },
    /// The description does not fit an item.
    #[error("a layout of {columns} columns takes {needs} B, and items have {item} B: make them larger")]
    ItemTooSmall {
        /// Columns.
        columns: usize,
        /// Bytes of header and description.
        needs: usize,
        /// Bytes of an item.
        item: usize,
    },
    /// Two consumers would get a row.
    #[error("row {row} is in layout {layout}, and in one before it: each row goes to one consumer")]
    Twice {
        /// The second layout's number, from 0.
        layout: usize,
        /// The row.
        row: u64,
    },
    /// No consumer would get a row.
    #[error("row {row} is in none of the layouts: each row goes to one consumer")]
    Missing {
        /// The row.
        row: u32,
    },
    /// The table has fewer rows.
    #[error("layout {layout} has row {row}, and the table has {rows} rows, from 0")]
    NoSuchRow {
        /// The layout's number, from 0.
        layout: usize,
        /// The row.
        row: u64,
        /// Of the table.
        rows: u32,
    },
    /// Not one layout for each consumer.
    #[error("{layouts} layouts for {consumers} consumers: expected one for each")]
    Consumers {
        /// Layouts.
        layouts: usize,
        /// Consumers.
        consumers: usize,
    },
    /// Records of another size than the producer's.
    #[error("the layout's rows have {got} B, the producer's records have {expected}")]
    RowSize {
        /// Of the producer.
        expected: u32,
        /// Of the layout.
        got: u64,
    },
}
