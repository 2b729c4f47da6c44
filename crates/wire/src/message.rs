//! The content of one RoCEv2 packet: opcode and extension headers together, so that only legal pairs exist.

use crate::aeth;
use crate::atomic;
use crate::deth;
use crate::error::{EmitError, Layer, ParseError, room};
use crate::opcode::Opcode;
use crate::reth;
use crate::roce::{MAX_MTU, Packet};

/// Opcode and extension headers of a SEND, RDMA READ, RDMA WRITE, atomic operation, acknowledgement or congestion notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// First packet of a SEND.
    SendFirst,
    /// Middle packet of a SEND.
    SendMiddle,
    /// Last packet of a SEND.
    SendLast,
    /// Last packet of a SEND with immediate data.
    SendLastImm(u32),
    /// Only packet of a SEND.
    SendOnly,
    /// Only packet of a SEND with immediate data.
    SendOnlyImm(u32),
    /// Unreliable datagram.
    Datagram(deth::Repr),
    /// Unreliable datagram with immediate data.
    DatagramImm(deth::Repr, u32),
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
            Message::SendFirst => Opcode::SendFirst,
            Message::SendMiddle => Opcode::SendMiddle,
            Message::SendLast => Opcode::SendLast,
            Message::SendLastImm(_) => Opcode::SendLastImm,
            Message::SendOnly => Opcode::SendOnly,
            Message::SendOnlyImm(_) => Opcode::SendOnlyImm,
            Message::Datagram(_) => Opcode::DatagramOnly,
            Message::DatagramImm(..) => Opcode::DatagramOnlyImm,
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
            Message::ReadResponseLast(_)
            | Message::WriteLast
            | Message::WriteLastImm(_)
            | Message::SendLast
            | Message::SendLastImm(_) => {
                if len == 0 || len > MAX_MTU {
                    Err("1 to 4096 bytes")
                } else {
                    Ok(())
                }
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
            expected: "SEND, RDMA READ, RDMA WRITE, an atomic operation, Acknowledge or CNP",
        };
        if opcode.is_send() || opcode.is_datagram() {
            let message = Message::send(packet).ok_or(unsupported)?;
            return message.checked(packet.payload().len());
        }
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
        message.checked(packet.payload().len())
    }

    /// A SEND, or a datagram.
    fn send<T: AsRef<[u8]>>(packet: &Packet<T>) -> Option<Message> {
        Some(match (packet.opcode(), packet.deth(), packet.immediate()) {
            (Opcode::SendFirst, ..) => Message::SendFirst,
            (Opcode::SendMiddle, ..) => Message::SendMiddle,
            (Opcode::SendLast, ..) => Message::SendLast,
            (Opcode::SendOnly, ..) => Message::SendOnly,
            (Opcode::SendLastImm, _, Some(imm)) => Message::SendLastImm(imm),
            (Opcode::SendOnlyImm, _, Some(imm)) => Message::SendOnlyImm(imm),
            (_, Some(deth), None) => Message::Datagram(deth),
            (_, Some(deth), Some(imm)) => Message::DatagramImm(deth, imm),
            _ => return None,
        })
    }

    /// This message, if it goes with `len` bytes of payload.
    fn checked(self, len: usize) -> Result<Message, ParseError> {
        let (layer, field, value) = (Layer::Payload, "length", len as u32);
        match self.check_payload_len(len) {
            Ok(()) => Ok(self),
            Err(expected) => Err(ParseError::Illegal { layer, field, value, expected }),
        }
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
            Message::Datagram(deth) => deth.emit(out),
            Message::DatagramImm(deth, imm) => {
                room(Layer::Deth, deth::LEN + 4, out.len())?;
                deth.emit(out)?;
                out[deth::LEN..deth::LEN + 4].copy_from_slice(&imm.to_be_bytes());
                Ok(deth::LEN + 4)
            }
            Message::WriteLastImm(imm) | Message::SendLastImm(imm) | Message::SendOnlyImm(imm) => {
                room(Layer::Payload, 4, out.len())?;
                out[..4].copy_from_slice(&imm.to_be_bytes());
                Ok(4)
            }
            Message::Cnp => {
                room(Layer::Payload, 16, out.len())?;
                out[..16].fill(0);
                Ok(16)
            }
            Message::ReadResponseMiddle
            | Message::WriteMiddle
            | Message::WriteLast
            | Message::SendFirst
            | Message::SendMiddle
            | Message::SendLast
            | Message::SendOnly => Ok(0),
        }
    }
}
