//! RDMA extended transport header: where an RDMA READ or WRITE goes (IBTA vol. 1, 9.3.3).

use crate::bytes::{u32_at, u64_at};
use crate::error::{EmitError, Layer, ParseError, need, room};
use crate::ids::Rkey;

/// Length in bytes.
pub const LEN: usize = 16;
/// Longest message in bytes (IBTA vol. 1, 9.4): 2 GiB.
pub const MAX_MESSAGE: u32 = 1 << 31;

/// A checked view of a RETH.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if it holds a whole RETH.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        need(Layer::Reth, LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// I/O virtual address of the first byte.
    pub fn address(&self) -> u64 {
        u64_at(self.buffer.as_ref(), 0)
    }

    /// Remote key.
    pub fn rkey(&self) -> Rkey {
        Rkey(u32_at(self.buffer.as_ref(), 8))
    }

    /// Length of the message in bytes.
    pub fn length(&self) -> u32 {
        u32_at(self.buffer.as_ref(), 12)
    }
}

/// A RETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// I/O virtual address of the first byte.
    pub address: u64,
    /// Remote key.
    pub rkey: Rkey,
    /// Length of the message in bytes, at most [`MAX_MESSAGE`].
    pub length: u32,
}

impl Repr {
    /// Takes the header out of a view. A length above [`MAX_MESSAGE`] is left to the responder, which must answer
    /// it with a NAK.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr { address: packet.address(), rkey: packet.rkey(), length: packet.length() }
    }

    /// Writes the header to the start of `out`; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        room(Layer::Reth, LEN, out.len())?;
        out[0..8].copy_from_slice(&self.address.to_be_bytes());
        out[8..12].copy_from_slice(&self.rkey.0.to_be_bytes());
        out[12..16].copy_from_slice(&self.length.to_be_bytes());
        Ok(LEN)
    }
}
