//! IPv4 without options or fragments (RFC 791), which is all that RoCEv2 uses.

use std::net::Ipv4Addr;

use crate::bytes::{array_at, u16_at};
use crate::error::{EmitError, Layer, ParseError, need, room};

/// Header length in bytes (no options).
pub const LEN: usize = 20;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// The one's complement sum over the header, folded to 16 bits; 0xffff if the checksum in it is right.
#[inline]
pub fn sum(header: &[u8; LEN]) -> u16 {
    let mut s = 0u64;
    let mut i = 0;
    while i < LEN {
        s += u64::from(u32::from_be_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]));
        i += 4;
    }
    fold(s)
}

#[inline]
fn fold(s: u64) -> u16 {
    let s = (s & 0xffff_ffff) + (s >> 32);
    let s = (s & 0xffff) + ((s >> 16) & 0xffff) + (s >> 32);
    let s = (s & 0xffff) + (s >> 16);
    ((s & 0xffff) + (s >> 16)) as u16
}

/// The checksum for a header whose checksum field is zero.
#[inline]
pub fn checksum(header: &[u8; LEN]) -> u16 {
    !sum(header)
}

/// A checked view of an IPv4 packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if version, lengths and checksum are right. Options and fragments are refused. Bytes behind
    /// the total length (Ethernet padding) are allowed and ignored.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        check(buffer.as_ref())?;
        Ok(Packet { buffer })
    }

    /// Type of service: DSCP in the upper 6 bits, ECN in the lower 2.
    pub fn tos(&self) -> u8 {
        self.buffer.as_ref()[1]
    }

    /// Total length in bytes, header included.
    pub fn total_len(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 2)
    }

    /// Identification.
    pub fn ident(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 4)
    }

    /// Whether the don't-fragment bit is set.
    pub fn dont_fragment(&self) -> bool {
        self.buffer.as_ref()[6] & 0x40 != 0
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.buffer.as_ref()[8]
    }

    /// Protocol of the payload.
    pub fn protocol(&self) -> u8 {
        self.buffer.as_ref()[9]
    }

    /// Source address.
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.buffer.as_ref(), 12))
    }

    /// Destination address.
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.buffer.as_ref(), 16))
    }

    /// The payload, as long as the total length says.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[LEN..usize::from(self.total_len())]
    }
}

/// Checks an IPv4 packet without options or fragments; returns its total length.
#[inline]
pub(crate) fn check(b: &[u8]) -> Result<usize, ParseError> {
    need(Layer::Ipv4, LEN, b.len())?;
    let illegal =
        |field, value: u32, expected| Err(ParseError::Illegal { layer: Layer::Ipv4, field, value, expected });
    if b[0] != 0x45 {
        return illegal("version and header length", b[0].into(), "0x45 (version 4, no options)");
    }
    let total = usize::from(u16_at(b, 2));
    if total < LEN {
        return illegal("total length", total as u32, "at least 20");
    }
    need(Layer::Ipv4, total, b.len())?;
    let fragment = u16_at(b, 6) & 0xbfff;
    if fragment != 0 {
        return illegal("flags and fragment offset", u16_at(b, 6).into(), "0 or don't-fragment alone");
    }
    if sum(&array_at(b, 0)) != 0xffff {
        return Err(ParseError::Checksum { found: u16_at(b, 10) });
    }
    Ok(total)
}

/// A legal IPv4 header without options or fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification; free, and one of the two fields that keep an ICRC valid (see [`crate::preserve`]).
    pub ident: u16,
    /// Whether the don't-fragment bit is set.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// Payload length in bytes; at most 65515.
    pub payload_len: u16,
}

impl Repr {
    /// Takes the header out of a view; never fails, since the view is checked.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            src: packet.src(),
            dst: packet.dst(),
            protocol: packet.protocol(),
            tos: packet.tos(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
            ttl: packet.ttl(),
            payload_len: packet.total_len() - LEN as u16,
        }
    }

    /// Writes the header with its checksum to the start of `out`; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        room(Layer::Ipv4, LEN, out.len())?;
        let Some(total) = self.payload_len.checked_add(LEN as u16) else {
            return Err(EmitError::PayloadLength {
                opcode: "IPv4",
                len: self.payload_len.into(),
                expected: "at most 65515 bytes",
            });
        };
        let mut h = [0u8; LEN];
        h[0] = 0x45;
        h[1] = self.tos;
        h[2..4].copy_from_slice(&total.to_be_bytes());
        h[4..6].copy_from_slice(&self.ident.to_be_bytes());
        h[6] = if self.dont_fragment { 0x40 } else { 0 };
        h[8] = self.ttl;
        h[9] = self.protocol;
        h[12..16].copy_from_slice(&self.src.octets());
        h[16..20].copy_from_slice(&self.dst.octets());
        let sum = checksum(&h);
        h[10..12].copy_from_slice(&sum.to_be_bytes());
        out[..LEN].copy_from_slice(&h);
        Ok(LEN)
    }
}
