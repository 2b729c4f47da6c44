//! Segments: many small tuples, or records of any length, in one item of a ring.
//!
//! Items of a ring have one size and are opaque to the switch. A [`SegmentWriter`] fills an item with
//! records where it lies in the ring, and pushes it when it is full or on request; a [`SegmentReader`]
//! goes through the records where they lie. Neither copies to or from a buffer of its own.
//!
//! ```
//! use zsr_ring::{Ring, RingSpec};
//! use zsr_ring::segment::{SegmentConfig, SegmentReader, SegmentWriter};
//!
//! let (tx, rx) = Ring::loopback(RingSpec::new(256, 4096)?)?;
//! let mut writer = SegmentWriter::records(tx, SegmentConfig::default())?;
//! writer.push(b"a record")?;
//! writer.push(b"a longer record")?;
//! writer.close()?;
//! let mut reader = SegmentReader::new(rx);
//! let segment = reader.next_segment()?;
//! let records: Vec<_> = segment.records().collect::<Result<_, _>>()?;
//! assert_eq!(records, [&b"a record"[..], b"a longer record"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout, version 1
//! All numbers little-endian, whatever the processing unit.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | magic `ZSEG` |
//! | 4 | 1 | version: 1 |
//! | 5 | 1 | flags: bit 0 checksum present, bit 1 tuples of one size, bit 2 stamp present |
//! | 6 | 2 | 0 |
//! | 8 | 4 | producer id |
//! | 12 | 4 | count of records |
//! | 16 | 8 | sequence number: 0, 1, … per producer and ring |
//! | 24 | 4 | bytes used behind the header |
//! | 28 | 4 | CRC-32 (IEEE) of bytes 0 to 27 and of the bytes used; or the [stamp](Header::stamp); or 0 |
//! | 32 | | records: tuples side by side, or a 4-byte length and the record, without padding |

mod header;
mod packer;
mod reader;
mod writer;

pub(crate) use header::LAYOUT;
pub use header::{Header, SegmentFault};
pub use packer::SegmentPacker;
pub use reader::{Records, Segment, SegmentReadError, SegmentReader};
pub use writer::{Room, SegmentConfig, SegmentPushError, SegmentSetupError, SegmentWriter};

/// Bytes of a segment's header.
pub const HEADER_LEN: usize = 32;
/// Bytes of the length in front of a record.
pub const LENGTH_LEN: usize = 4;
