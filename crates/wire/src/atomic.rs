//! Atomic extended transport header: where an atomic operation goes, and its operands (IBTA vol. 1, 9.3.5). Its answer is 8 bytes behind an
//! AETH: what was there before (9.5.3, AtomicAckETH).

use crate::bytes::{u32_at, u64_at};
use crate::error::{EmitError, Layer, ParseError, need, room};
use crate::ids::Rkey;

/// Length in bytes.
pub const LEN: usize = 28;
/// Bytes that an atomic operation works on, at an address that is a multiple of it.
pub const WORD: usize = 8;

/// An AtomicETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// I/O virtual address of the word.
    pub address: u64,
    /// Remote key.
    pub rkey: Rkey,
    /// FETCH_ADD: what is added, modulo 2⁶⁴. CMP_SWAP: what is stored if the word is `compare`.
    pub swap_or_add: u64,
    /// CMP_SWAP: what the word is compared with. FETCH_ADD: nothing.
    pub compare: u64,
}

impl Repr {
    /// Takes the header out of the start of `bytes`, if they hold all of it.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Repr, ParseError> {
        need(Layer::AtomicEth, LEN, bytes.len())?;
        Ok(Repr {
            address: u64_at(bytes, 0),
            rkey: Rkey(u32_at(bytes, 8)),
            swap_or_add: u64_at(bytes, 12),
            compare: u64_at(bytes, 20),
        })
    }

    /// Writes the header to the start of `out`; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        room(Layer::AtomicEth, LEN, out.len())?;
        out[0..8].copy_from_slice(&self.address.to_be_bytes());
        out[8..12].copy_from_slice(&self.rkey.0.to_be_bytes());
        out[12..20].copy_from_slice(&self.swap_or_add.to_be_bytes());
        out[20..28].copy_from_slice(&self.compare.to_be_bytes());
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IBTA vol. 1, 9.3.5: virtual address, R_Key, swap or add data, compare data, most significant byte first.
    #[test]
    fn fields_are_where_the_specification_has_them() {
        let bytes: Vec<u8> = (1..=LEN as u8).collect();
        let header = Repr {
            address: 0x0102_0304_0506_0708,
            rkey: Rkey(0x090a_0b0c),
            swap_or_add: 0x0d0e_0f10_1112_1314,
            compare: 0x1516_1718_191a_1b1c,
        };
        assert_eq!(Repr::parse(&bytes), Ok(header));
        let mut out = [0; LEN];
        assert_eq!(header.emit(&mut out), Ok(LEN));
        assert_eq!(out[..], bytes[..]);
        assert!(Repr::parse(&bytes[..LEN - 1]).is_err() && header.emit(&mut out[..LEN - 1]).is_err());
    }
}
