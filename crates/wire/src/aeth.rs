//! ACK extended transport header: acknowledgement, and what went wrong (IBTA vol. 1, 9.3.5).

use crate::bytes::u24_at;
use crate::error::{EmitError, Layer, ParseError, need, room};

/// Length in bytes.
pub const LEN: usize = 4;
/// The credit count that means "no end-to-end flow control" (IBTA vol. 1, 9.7.7).
pub const NO_CREDITS: u8 = 31;

/// Why a request was refused (IBTA vol. 1, 9.7.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing: the AETH's packet carries the PSN expected. Syndrome 0x60.
    PsnSequence = 0,
    /// The request is malformed, out of order or unsupported. Syndrome 0x61.
    InvalidRequest = 1,
    /// Key, bounds or rights do not fit. Syndrome 0x62.
    RemoteAccess = 2,
    /// The responder could not carry the request out. Syndrome 0x63.
    RemoteOperational = 3,
    /// Reliable datagram only. Syndrome 0x64.
    InvalidRdRequest = 4,
}

/// The syndrome byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Positive acknowledgement; `credits` is the encoded credit count, 0 to 31 ([`NO_CREDITS`]: none kept).
    Ack {
        /// Encoded credit count; only the low five bits count.
        credits: u8,
    },
    /// Receiver not ready: try again after the time that `timer` encodes ([`rnr_timer_ns`]).
    RnrNak {
        /// Encoded time; only the low five bits count.
        timer: u8,
    },
    /// Negative acknowledgement.
    Nak(NakCode),
}

impl Syndrome {
    /// The positive acknowledgement of a responder that keeps no credits.
    pub const ACK: Syndrome = Syndrome::Ack { credits: NO_CREDITS };

    /// The byte on the wire.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Syndrome::Ack { credits } => credits & 0x1f,
            Syndrome::RnrNak { timer } => 0x20 | (timer & 0x1f),
            Syndrome::Nak(code) => 0x60 | code as u8,
        }
    }

    /// The meaning of the byte; `None` for reserved values.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Syndrome> {
        match code {
            0x00..=0x1f => Some(Syndrome::Ack { credits: code }),
            0x20..=0x3f => Some(Syndrome::RnrNak { timer: code & 0x1f }),
            0x60 => Some(Syndrome::Nak(NakCode::PsnSequence)),
            0x61 => Some(Syndrome::Nak(NakCode::InvalidRequest)),
            0x62 => Some(Syndrome::Nak(NakCode::RemoteAccess)),
            0x63 => Some(Syndrome::Nak(NakCode::RemoteOperational)),
            0x64 => Some(Syndrome::Nak(NakCode::InvalidRdRequest)),
            _ => None,
        }
    }
}

/// The time that an RNR NAK's timer field encodes, in nanoseconds (IBTA vol. 1, 9.7.5).
pub const fn rnr_timer_ns(timer: u8) -> u64 {
    /// In units of 10 µs; entry 0 is the longest.
    const TABLE: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    TABLE[(timer & 0x1f) as usize] * 10_000
}

/// A checked view of an AETH.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if it holds a whole AETH.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        need(Layer::Aeth, LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// The syndrome byte as on the wire.
    pub fn syndrome_code(&self) -> u8 {
        self.buffer.as_ref()[0]
    }

    /// Message sequence number: messages completed by the responder, modulo 2²⁴.
    pub fn msn(&self) -> u32 {
        u24_at(self.buffer.as_ref(), 1)
    }
}

/// A legal AETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Acknowledged, not ready, or refused.
    pub syndrome: Syndrome,
    /// Message sequence number; only the low 24 bits count.
    pub msn: u32,
}

impl Repr {
    /// Takes the header out of a view; fails for a reserved syndrome.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, ParseError> {
        let syndrome = Syndrome::from_code(packet.syndrome_code()).ok_or(ParseError::Illegal {
            layer: Layer::Aeth,
            field: "syndrome",
            value: packet.syndrome_code().into(),
            expected: "0x00-0x1f (ACK), 0x20-0x3f (RNR NAK) or 0x60-0x64 (NAK)",
        })?;
        Ok(Repr { syndrome, msn: packet.msn() })
    }

    /// Writes the header to the start of `out`; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        room(Layer::Aeth, LEN, out.len())?;
        let word = u32::from(self.syndrome.code()) << 24 | (self.msn & 0xff_ffff);
        out[0..4].copy_from_slice(&word.to_be_bytes());
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syndromes_round_trip_and_reserved_ones_are_refused() {
        for code in 0..=255u8 {
            match Syndrome::from_code(code) {
                Some(s) => assert_eq!(s.code(), code),
                None => assert!((0x40..=0x5f).contains(&code) || code > 0x64, "{code:#x} is defined"),
            }
        }
        assert_eq!(rnr_timer_ns(0), 655_360_000);
        assert_eq!(rnr_timer_ns(1), 10_000);
        assert_eq!(rnr_timer_ns(31), 491_520_000);
    }
}
