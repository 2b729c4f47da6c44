//! UDP (RFC 768), with a checksum of zero as RoCEv2 asks for (IBTA vol. 1, A17.3).

use crate::bytes::u16_at;
use crate::error::{EmitError, Layer, ParseError, need, room};

/// Header length in bytes.
pub const LEN: usize = 8;
/// Destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// A checked view of a UDP datagram.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if the length field is legal and covered. The checksum is not looked at: the ICRC protects
    /// RoCEv2, and its senders write zero.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let b = buffer.as_ref();
        need(Layer::Udp, LEN, b.len())?;
        let len = usize::from(u16_at(b, 4));
        if len < LEN {
            return Err(ParseError::Illegal {
                layer: Layer::Udp,
                field: "length",
                value: len as u32,
                expected: "at least 8",
            });
        }
        need(Layer::Udp, len, b.len())?;
        Ok(Packet { buffer })
    }

    /// Source port.
    pub fn src_port(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 0)
    }

    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 2)
    }

    /// Length in bytes, header included.
    pub fn len(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 4)
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        usize::from(self.len()) == LEN
    }

    /// Checksum; 0 means none.
    pub fn checksum(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 6)
    }

    /// The payload, as long as the length says.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[LEN..usize::from(self.len())]
    }
}

/// A legal UDP header without a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source port; free in RoCEv2 (path entropy), and one of the two fields that keep an ICRC valid.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Payload length in bytes; at most 65527.
    pub payload_len: u16,
}

impl Repr {
    /// Takes the header out of a view; the checksum is forgotten.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            payload_len: packet.len() - LEN as u16,
        }
    }

    /// Writes the header with checksum 0 to the start of `out`; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        room(Layer::Udp, LEN, out.len())?;
        let Some(len) = self.payload_len.checked_add(LEN as u16) else {
            return Err(EmitError::PayloadLength {
                opcode: "UDP",
                len: self.payload_len.into(),
                expected: "at most 65527 bytes",
            });
        };
        out[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        out[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        out[4..6].copy_from_slice(&len.to_be_bytes());
        out[6..8].copy_from_slice(&[0, 0]);
        Ok(LEN)
    }
}
