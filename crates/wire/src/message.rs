//! The content of one RoCEv2 packet: opcode and extension headers together, so that only legal pairs exist.

use crate::aeth;
use crate::atomic;
use crate::error::{EmitError, Layer, ParseError, room};
use crate::opcode::Opcode;
use crate::reth;
use crate::roce::{MAX_MTU, Packet};

/// Opcode and extension headers of an RDMA READ, RDMA WRITE, atomic operation, acknowledgement or congestion notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// RDMA READ Request.
    ReadRequest(reth::Repr),
    /// First packet of a READ response.
    ReadResponseFirst(aeth::Repr),
    /// Middle packet of a READ response.
    ReadResponseMiddle,
    /// Last packet of a READ response.
    ReadResponseLast(aeth::Repr),
    /// Only packet of a READ response.
    ReadResponseOnly(aeth::Repr),
    /// First packet of a WRITE.
    WriteFirst(reth::Repr),
    /// Middle packet of a WRITE.
    WriteMiddle,
    /// Last packet of a WRITE.
    WriteLast,
    /// Last packet of a WRITE with immediate data.
    WriteLastImm(u32),
    /// Only packet of a WRITE.
    WriteOnly(reth::Repr),
    /// Only packet of a WRITE with immediate data.
    WriteOnlyImm(reth::Repr, u32),
    /// Atomic compare and swap.
    CompareSwap(atomic::Repr),
    /// Atomic fetch and add.
    FetchAdd(atomic::Repr),
    /// Answer to an atomic operation, with what the word was before.
    AtomicAcknowledge(aeth::Repr, u64),
    /// ACK, RNR NAK or NAK: the syndrome says which.
    Acknowledge(aeth::Repr),
    /// Congestion notification.
    Cnp,
}

impl Message {
    /// The opcode that says this.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Message::ReadRequest(_) => Opcode::ReadRequest,
            Message::ReadResponseFirst(_) => Opcode::ReadResponseFirst,
            Message::ReadResponseMiddle => Opcode::ReadResponseMiddle,
            Message::ReadResponseLast(_) => Opcode::ReadResponseLast,
            Message::ReadResponseOnly(_) => Opcode::ReadResponseOnly,
            Message::WriteFirst(_) => Opcode::WriteFirst,
            Message::WriteMiddle => Opcode::WriteMiddle,
            Message::WriteLast => Opcode::WriteLast,
            Message::WriteLastImm(_) => Opcode::WriteLastImm,
            Message::WriteOnly(_) => Opcode::WriteOnly,
            Message::WriteOnlyImm(..) => Opcode::WriteOnlyImm,
            Message::CompareSwap(_) => Opcode::CompareSwap,
            Message::FetchAdd(_) => Opcode::FetchAdd,
            Message::AtomicAcknowledge(..) => Opcode::AtomicAcknowledge,
            Message::Acknowledge(_) => Opcode::Acknowledge,
            Message::Cnp => Opcode::Cnp,
        }
    }

    /// Whether a packet that says this may carry `len` bytes of payload; otherwise what it may carry. The path MTU,
    /// which only the connection knows, is not checked beyond the largest one.
    pub const fn check_payload_len(&self, len: usize) -> Result<(), &'static str> {
        match self {
            Message::ReadRequest(_)
            | Message::CompareSwap(_)
            | Message::FetchAdd(_)
            | Message::AtomicAcknowledge(..)
            | Message::Acknowledge(_)
            | Message::Cnp => {
                if len == 0 {
                    Ok(())
                } else {
                    Err("no payload")
                }
            }
            _ if self.opcode().more_follows() => {
                if len == 0 || len > MAX_MTU || !len.is_multiple_of(4) {
                    Err("one path MTU: a multiple of 4 from 4 to 4096 bytes")
                } else {
                    Ok(())
                }
            }
            Message::ReadResponseLast(_) | Message::WriteLast | Message::WriteLastImm(_) => {
                if len == 0 || len > MAX_MTU { Err("1 to 4096 bytes") } else { Ok(()) }
            }
            _ => {
                if len > MAX_MTU {
                    Err("at most 4096 bytes")
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Takes the message out of a checked frame.
    pub(crate) fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Message, ParseError> {
        let opcode = packet.opcode();
        let unsupported = ParseError::Illegal {
            layer: Layer::Bth,
            field: "OpCode",
            value: opcode.code().into(),
            expected: "RDMA READ, RDMA WRITE, an atomic operation, Acknowledge or CNP",
        };
        let message = match (opcode, packet.reth(), packet.aeth(), packet.immediate()) {
            (Opcode::ReadRequest, Some(reth), ..) => Message::ReadRequest(reth),
            (Opcode::ReadResponseFirst, _, Some(aeth), _) => Message::ReadResponseFirst(aeth?),
            (Opcode::ReadResponseMiddle, ..) => Message::ReadResponseMiddle,
            (Opcode::ReadResponseLast, _, Some(aeth), _) => Message::ReadResponseLast(aeth?),
            (Opcode::ReadResponseOnly, _, Some(aeth), _) => Message::ReadResponseOnly(aeth?),
            (Opcode::WriteFirst, Some(reth), ..) => Message::WriteFirst(reth),
            (Opcode::WriteMiddle, ..) => Message::WriteMiddle,
            (Opcode::WriteLast, ..) => Message::WriteLast,
            (Opcode::WriteLastImm, _, _, Some(imm)) => Message::WriteLastImm(imm),
            (Opcode::WriteOnly, Some(reth), ..) => Message::WriteOnly(reth),
            (Opcode::WriteOnlyImm, Some(reth), _, Some(imm)) => Message::WriteOnlyImm(reth, imm),
            (Opcode::Acknowledge, _, Some(aeth), _) => Message::Acknowledge(aeth?),
            (Opcode::Cnp, ..) => Message::Cnp,
            _ => match (opcode, packet.atomic(), packet.aeth(), packet.original()) {
                (Opcode::CompareSwap, Some(atomic), ..) => Message::CompareSwap(atomic),
                (Opcode::FetchAdd, Some(atomic), ..) => Message::FetchAdd(atomic),
                (_, _, Some(aeth), Some(original)) => Message::AtomicAcknowledge(aeth?, original),
                _ => return Err(unsupported),
            },
        };
        let len = packet.payload().len();
        message.check_payload_len(len).map_err(|expected| ParseError::Illegal {
            layer: Layer::Payload,
            field: "length",
            value: len as u32,
            expected,
        })?;
        Ok(message)
    }

    /// Writes the extension headers to the start of `out`; returns their length.
    pub fn emit_extension(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        match self {
            Message::ReadRequest(reth) | Message::WriteFirst(reth) | Message::WriteOnly(reth) => {
                reth.emit(out)
            }
            Message::WriteOnlyImm(reth, imm) => {
                room(Layer::Reth, reth::LEN + 4, out.len())?;
                reth.emit(out)?;
                out[reth::LEN..reth::LEN + 4].copy_from_slice(&imm.to_be_bytes());
                Ok(reth::LEN + 4)
            }
            Message::ReadResponseFirst(aeth)
            | Message::ReadResponseLast(aeth)
            | Message::ReadResponseOnly(aeth)
            | Message::Acknowledge(aeth) => aeth.emit(out),
            Message::CompareSwap(atomic) | Message::FetchAdd(atomic) => atomic.emit(out),
            Message::AtomicAcknowledge(aeth, original) => {
                room(Layer::AtomicEth, aeth::LEN + atomic::WORD, out.len())?;
                aeth.emit(out)?;
                out[aeth::LEN..aeth::LEN + atomic::WORD].copy_from_slice(&original.to_be_bytes());
                Ok(aeth::LEN + atomic::WORD)
            }
            Message::WriteLastImm(imm) => {
                room(Layer::Payload, 4, out.len())?;
                out[..4].copy_from_slice(&imm.to_be_bytes());
                Ok(4)
            }
            Message::Cnp => {
                room(Layer::Payload, 16, out.len())?;
                out[..16].fill(0);
                Ok(16)
            }
            Message::ReadResponseMiddle | Message::WriteMiddle | Message::WriteLast => Ok(0),
        }
    }
}
