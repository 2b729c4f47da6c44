//! Datagram extended transport header: the sender of an unreliable datagram, and its right to send it (IBTA vol. 1, 9.3.1).

use crate::bytes::u32_at;
use crate::error::{EmitError, Layer, ParseError, need, room};
use crate::ids::Qpn;

/// Length in bytes.
pub const LEN: usize = 8;

/// A DETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Queue key. A queue pair drops datagrams with another one than its own.
    pub qkey: u32,
    /// Queue pair that has sent the datagram.
    pub src_qp: Qpn,
}

impl Repr {
    /// Takes the header out of the first bytes of `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Repr, ParseError> {
        need(Layer::Deth, LEN, bytes.len())?;
        Ok(Repr { qkey: u32_at(bytes, 0), src_qp: Qpn::new(u32_at(bytes, 4)) })
    }

    /// Writes the header to the start of `out`; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        room(Layer::Deth, LEN, out.len())?;
        out[0..4].copy_from_slice(&self.qkey.to_be_bytes());
        out[4..8].copy_from_slice(&self.src_qp.get().to_be_bytes());
        Ok(LEN)
    }
}
