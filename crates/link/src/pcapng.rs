//! Captures with comments: pcapng (draft-ietf-opsawg-pcapng), one section, one Ethernet interface, nanoseconds.
//!
//! Written by hand, as pcap.rs is: four kinds of blocks are all there is to it, and the crates that know more of them
//! build each packet's options on the heap.

use std::io::{self, Write};

use crate::tap::Direction;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;

/// Options, by block (section 4 of the draft); each block's list ends with 0.
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const EPB_DROPCOUNT: u16 = 4;
const ISB_STARTTIME: u16 = 2;
const ISB_ENDTIME: u16 = 3;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;
/// Longest option, bytes.
const LONGEST: usize = u16::MAX as usize;

/// What a capture is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PcapngInterface<'a> {
    /// The interface's name.
    pub name: &'a str,
    /// What it is, for people.
    pub description: &'a str,
    /// Bytes that are kept of a frame.
    pub snaplen: u32,
    /// What wrote the capture.
    pub program: &'a str,
}

/// A packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcapngPacket<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Which way it went.
    pub direction: Direction,
    /// Bytes of the whole frame.
    pub len: usize,
    /// What is kept of it.
    pub bytes: &'a [u8],
    /// For people; empty for none.
    pub comment: &'a str,
    /// Packets lost between the one before and this one.
    pub lost_before: u64,
}

/// What a capture as a whole was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PcapngStatistics {
    /// When it began, nanoseconds since 1970.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Packets that passed the interface meanwhile, those that were lost included.
    pub passed: u64,
    /// Of these lost by the capture.
    pub lost: u64,
}

/// Writes a capture. Every call writes whole blocks, so that a reader can follow.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a capture in `out`, which should buffer.
    ///
    /// # Errors
    /// What `out` says; so below.
    pub fn new(out: W, interface: &PcapngInterface<'_>) -> io::Result<PcapngWriter<W>> {
        let mut w = PcapngWriter { out, block: Vec::with_capacity(16 << 10) };
        w.begin(SECTION_HEADER);
        w.u32(BYTE_ORDER_MAGIC);
        w.u16(1);
        w.u16(0);
        // Length of the section: not known.
        w.u64(u64::MAX);
        w.option(SHB_USERAPPL, interface.program.as_bytes());
        w.end_options();
        w.end()?;
        w.begin(INTERFACE_DESCRIPTION);
        w.u16(LINKTYPE_ETHERNET);
        w.u16(0);
        w.u32(interface.snaplen);
        w.option(IF_NAME, interface.name.as_bytes());
        w.option(IF_DESCRIPTION, interface.description.as_bytes());
        w.option(IF_TSRESOL, &[9]);
        w.end_options();
        w.end()?;
        Ok(w)
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// What the writer says.
    pub fn packet(&mut self, packet: &PcapngPacket<'_>) -> io::Result<()> {
        self.begin(ENHANCED_PACKET);
        self.u32(0);
        self.time(packet.time_ns);
        self.u32(packet.bytes.len() as u32);
        self.u32(packet.len as u32);
        self.block.extend_from_slice(packet.bytes);
        self.pad();
        if !packet.comment.is_empty() {
            self.option(OPT_COMMENT, packet.comment.as_bytes());
        }
        let direction: u32 = match packet.direction {
            Direction::In => 1,
            Direction::Out => 2,
        };
        self.option(EPB_FLAGS, &direction.to_le_bytes());
        if packet.lost_before > 0 {
            self.option(EPB_DROPCOUNT, &packet.lost_before.to_le_bytes());
        }
        self.end_options();
        self.end()
    }

    /// Hands on what the writer buffers.
    ///
    /// # Errors
    /// What the writer says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the capture, with its statistics, and gives the writer back.
    ///
    /// # Errors
    /// What the writer says.
    pub fn finish(mut self, statistics: &PcapngStatistics) -> io::Result<W> {
        self.begin(INTERFACE_STATISTICS);
        self.u32(0);
        self.time(statistics.end_ns);
        for (code, time) in [(ISB_STARTTIME, statistics.begin_ns), (ISB_ENDTIME, statistics.end_ns)] {
            let mut halves = [0; 8];
            halves[..4].copy_from_slice(&((time >> 32) as u32).to_le_bytes());
            halves[4..].copy_from_slice(&(time as u32).to_le_bytes());
            self.option(code, &halves);
        }
        self.option(ISB_IFRECV, &statistics.passed.to_le_bytes());
        self.option(ISB_IFDROP, &statistics.lost.to_le_bytes());
        self.end_options();
        self.end()?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// A block's type, and room for its length.
    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0);
    }

    /// Writes the block, with its length at both ends.
    fn end(&mut self) -> io::Result<()> {
        let len = (self.block.len() + 4) as u32;
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.u32(len);
        self.out.write_all(&self.block)
    }

    fn u16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    /// Times have their upper half first.
    fn time(&mut self, ns: u64) {
        self.u32((ns >> 32) as u32);
        self.u32(ns as u32);
    }

    fn pad(&mut self) {
        let len = self.block.len().next_multiple_of(4);
        self.block.resize(len, 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = value.get(..LONGEST).unwrap_or(value);
        self.u16(code);
        self.u16(value.len() as u16);
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn end_options(&mut self) {
        self.u32(0);
    }
}
