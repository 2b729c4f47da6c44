//! Base transport header (IBTA vol. 1, 9.2), with the congestion bits that RoCEv2 puts into its reserved byte.

use crate::bytes::{u16_at, u24_at};
use crate::error::{EmitError, Layer, ParseError, need, room};
use crate::ids::{Psn, Qpn};
use crate::opcode::Opcode;

/// Length in bytes.
pub const LEN: usize = 12;
/// The default partition key, full member.
pub const DEFAULT_PKEY: u16 = 0xffff;

/// A checked view of a BTH.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if it holds a whole BTH.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        need(Layer::Bth, LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// Wraps a buffer whose length has been checked.
    #[inline]
    pub(crate) fn of_checked(buffer: T) -> Self {
        Packet { buffer }
    }

    /// Opcode as on the wire, known or not.
    pub fn opcode_code(&self) -> u8 {
        self.buffer.as_ref()[0]
    }

    /// Solicited event bit.
    pub fn solicited(&self) -> bool {
        self.buffer.as_ref()[1] & 0x80 != 0
    }

    /// Migration request bit.
    pub fn migration(&self) -> bool {
        self.buffer.as_ref()[1] & 0x40 != 0
    }

    /// Pad bytes behind the payload, 0 to 3.
    pub fn pad(&self) -> u8 {
        self.buffer.as_ref()[1] >> 4 & 3
    }

    /// Transport header version; 0 is the only one.
    pub fn version(&self) -> u8 {
        self.buffer.as_ref()[1] & 0xf
    }

    /// Partition key.
    pub fn pkey(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 2)
    }

    /// Forward congestion bit.
    pub fn fecn(&self) -> bool {
        self.buffer.as_ref()[4] & 0x80 != 0
    }

    /// Backward congestion bit.
    pub fn becn(&self) -> bool {
        self.buffer.as_ref()[4] & 0x40 != 0
    }

    /// Destination queue pair.
    pub fn dest_qp(&self) -> Qpn {
        Qpn::new(u24_at(self.buffer.as_ref(), 5))
    }

    /// Whether an acknowledgement is asked for.
    pub fn ack_req(&self) -> bool {
        self.buffer.as_ref()[8] & 0x80 != 0
    }

    /// Packet sequence number.
    pub fn psn(&self) -> Psn {
        Psn::new(u24_at(self.buffer.as_ref(), 9))
    }
}

/// A legal BTH. Reserved bits are written as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Opcode.
    pub opcode: Opcode,
    /// Solicited event.
    pub solicited: bool,
    /// Migration state bit; RC senders without path migration set it.
    pub migration: bool,
    /// Pad bytes behind the payload; only the low two bits count.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification; set in a CNP.
    pub becn: bool,
    /// Destination queue pair.
    pub dest_qp: Qpn,
    /// Ask for an acknowledgement.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Repr {
    /// Takes the header out of a view; fails for an unknown opcode or header version.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, ParseError> {
        let illegal =
            |field, value: u32, expected| ParseError::Illegal { layer: Layer::Bth, field, value, expected };
        if packet.version() != 0 {
            return Err(illegal("TVer", packet.version().into(), "0"));
        }
        let opcode = Opcode::from_code(packet.opcode_code()).ok_or_else(|| {
            illegal("OpCode", packet.opcode_code().into(), "a known RC opcode or CNP (0x81)")
        })?;
        Ok(Repr {
            opcode,
            solicited: packet.solicited(),
            migration: packet.migration(),
            pad: packet.pad(),
            pkey: packet.pkey(),
            fecn: packet.fecn(),
            becn: packet.becn(),
            dest_qp: packet.dest_qp(),
            ack_req: packet.ack_req(),
            psn: packet.psn(),
        })
    }

    /// Writes the header to the start of `out`; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        room(Layer::Bth, LEN, out.len())?;
        let bit = |on: bool, mask: u32| if on { mask } else { 0 };
        let word0 = u32::from(self.opcode.code()) << 24
            | bit(self.solicited, 0x80_0000)
            | bit(self.migration, 0x40_0000)
            | u32::from(self.pad & 3) << 20
            | u32::from(self.pkey);
        let word1 = bit(self.fecn, 0x8000_0000) | bit(self.becn, 0x4000_0000) | self.dest_qp.get();
        let word2 = bit(self.ack_req, 0x8000_0000) | self.psn.get();
        out[0..4].copy_from_slice(&word0.to_be_bytes());
        out[4..8].copy_from_slice(&word1.to_be_bytes());
        out[8..12].copy_from_slice(&word2.to_be_bytes());
        Ok(LEN)
    }
}
