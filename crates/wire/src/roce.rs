//! A whole RoCEv2 frame: Ethernet, IPv4, UDP, BTH, extension, payload, pad, ICRC (IBTA vol. 1, A17).

use std::net::Ipv4Addr;

use crate::aeth;
use crate::atomic;
use crate::bth;
use crate::bytes::{array_at, u16_at, u24_at, u32_at, u64_at};
use crate::deth;
use crate::error::{EmitError, Layer, ParseError, need, room};
use crate::ethernet::{self, Mac};
use crate::frame::Frame;
use crate::icrc;
use crate::ids::{Psn, Qpn};
use crate::ipv4;
use crate::message::Message;
use crate::opcode::Opcode;
use crate::reth;
use crate::udp;

/// Offset of the IPv4 header in the frame.
pub const IP_AT: usize = ethernet::LEN;
/// Offset of the UDP header in the frame.
pub const UDP_AT: usize = IP_AT + ipv4::LEN;
/// Offset of the BTH in the frame.
pub const BTH_AT: usize = UDP_AT + udp::LEN;
/// Offset of what follows the BTH: extension header or payload.
pub const EXT_AT: usize = BTH_AT + bth::LEN;
/// Largest path MTU: the most payload that one packet carries, in bytes.
pub const MAX_MTU: usize = 4096;

/// A view of a frame whose headers have been checked in one pass: versions, lengths, IPv4 checksum, ports, known
/// opcode, pad within payload. The ICRC is checked apart, by [`Packet::icrc_ok`], and message legality by
/// [`Repr::parse`].
#[derive(Debug, Clone, Copy)]
pub struct Packet<T> {
    buffer: T,
    opcode: Opcode,
    payload_at: u32,
    payload_end: u32,
    end: u32,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks `buffer`, an Ethernet frame without FCS. Bytes behind the IPv4 total length are ignored.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let b = buffer.as_ref();
        need(Layer::Ethernet, ethernet::LEN, b.len())?;
        if u16_at(b, 12) != ethernet::IPV4 {
            return other(Layer::Ethernet, "ethertype", u16_at(b, 12));
        }
        let ip = &b[IP_AT..];
        let total = ipv4::check(ip)?;
        if ip[9] != ipv4::UDP {
            return other(Layer::Ipv4, "protocol", ip[9].into());
        }
        let ip = &ip[..total];
        need(Layer::Udp, ipv4::LEN + udp::LEN, total)?;
        if u16_at(ip, 22) != udp::ROCE_PORT {
            return other(Layer::Udp, "destination port", u16_at(ip, 22));
        }
        if usize::from(u16_at(ip, 24)) != total - ipv4::LEN {
            return illegal(Layer::Udp, "length", u16_at(ip, 24).into(), "the IPv4 total length less 20");
        }
        need(Layer::Bth, icrc::BASE, total)?;
        if ip[29] & 0xf != 0 {
            return illegal(Layer::Bth, "TVer", (ip[29] & 0xf).into(), "0");
        }
        let Some(opcode) = Opcode::from_code(ip[28]) else {
            return illegal(Layer::Bth, "OpCode", ip[28].into(), "a known RC or UD opcode, or CNP (0x81)");
        };
        let pad = usize::from(ip[29] >> 4 & 3);
        let payload_at = icrc::BASE + opcode.extension_len();
        need(Layer::Payload, payload_at + pad + icrc::LEN, total)?;
        let payload_end = total - icrc::LEN - pad;
        Ok(Packet {
            opcode,
            payload_at: (IP_AT + payload_at) as u32,
            payload_end: (IP_AT + payload_end) as u32,
            end: (IP_AT + total) as u32,
            buffer,
        })
    }

    #[inline]
    fn b(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// The frame's length without Ethernet padding, in bytes.
    #[inline]
    pub fn frame_len(&self) -> usize {
        self.end as usize
    }

    /// Whether the trailer belongs to the packet.
    #[inline]
    pub fn icrc_ok(&self) -> bool {
        icrc::verify(&self.b()[IP_AT..self.end as usize])
    }

    /// Destination MAC address.
    #[inline]
    pub fn dst_mac(&self) -> Mac {
        Mac(array_at(self.b(), 0))
    }

    /// Source MAC address.
    #[inline]
    pub fn src_mac(&self) -> Mac {
        Mac(array_at(self.b(), 6))
    }

    /// Source IP address.
    #[inline]
    pub fn src_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.b(), IP_AT + 12))
    }

    /// Destination IP address.
    #[inline]
    pub fn dst_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.b(), IP_AT + 16))
    }

    /// IPv4 type of service: DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.b()[IP_AT + 1]
    }

    /// UDP source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        u16_at(self.b(), UDP_AT)
    }

    /// The IPv4 header as it came, without options.
    #[inline]
    pub fn ip_header(&self) -> &[u8] {
        &self.b()[IP_AT..UDP_AT]
    }

    /// The BTH alone.
    pub fn bth(&self) -> bth::Packet<&[u8]> {
        bth::Packet::of_checked(&self.b()[BTH_AT..EXT_AT])
    }

    /// Opcode.
    #[inline]
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Destination queue pair.
    #[inline]
    pub fn dest_qp(&self) -> Qpn {
        Qpn::new(u24_at(self.b(), BTH_AT + 5))
    }

    /// Packet sequence number.
    #[inline]
    pub fn psn(&self) -> Psn {
        Psn::new(u24_at(self.b(), BTH_AT + 9))
    }

    /// Whether an acknowledgement is asked for.
    #[inline]
    pub fn ack_req(&self) -> bool {
        self.b()[BTH_AT + 8] & 0x80 != 0
    }

    /// Partition key.
    #[inline]
    pub fn pkey(&self) -> u16 {
        u16_at(self.b(), BTH_AT + 2)
    }

    /// The RETH, if the opcode has one.
    #[inline]
    pub fn reth(&self) -> Option<reth::Repr> {
        matches!(
            self.opcode,
            Opcode::WriteFirst | Opcode::WriteOnly | Opcode::WriteOnlyImm | Opcode::ReadRequest
        )
        .then(|| reth::Packet::new_checked(&self.b()[EXT_AT..]).ok().map(|p| reth::Repr::parse(&p)))
        .flatten()
    }

    /// The AtomicETH, if the opcode has one.
    #[inline]
    pub fn atomic(&self) -> Option<atomic::Repr> {
        matches!(self.opcode, Opcode::CompareSwap | Opcode::FetchAdd)
            .then(|| atomic::Repr::parse(&self.b()[EXT_AT..]).ok())
            .flatten()
    }

    /// The DETH, if the opcode has one.
    #[inline]
    pub fn deth(&self) -> Option<deth::Repr> {
        self.opcode.is_datagram().then(|| deth::Repr::parse(&self.b()[EXT_AT..]).ok()).flatten()
    }

    /// The word of an atomic operation before it, if this is the answer to one.
    #[inline]
    pub fn original(&self) -> Option<u64> {
        (self.opcode == Opcode::AtomicAcknowledge).then(|| u64_at(self.b(), EXT_AT + aeth::LEN))
    }

    /// The AETH, if the opcode has one; an error if its syndrome is reserved.
    #[inline]
    pub fn aeth(&self) -> Option<Result<aeth::Repr, ParseError>> {
        let has = matches!(
            self.opcode,
            Opcode::ReadResponseFirst
                | Opcode::ReadResponseLast
                | Opcode::ReadResponseOnly
                | Opcode::Acknowledge
                | Opcode::AtomicAcknowledge
        );
        has.then(|| aeth::Packet::new_checked(&self.b()[EXT_AT..]).and_then(|p| aeth::Repr::parse(&p)))
    }

    /// The immediate data, if the opcode has one.
    #[inline]
    pub fn immediate(&self) -> Option<u32> {
        match self.opcode {
            Opcode::SendLastImm | Opcode::SendOnlyImm | Opcode::WriteLastImm => {
                Some(u32_at(self.b(), EXT_AT))
            }
            Opcode::WriteOnlyImm => Some(u32_at(self.b(), EXT_AT + reth::LEN)),
            Opcode::DatagramOnlyImm => Some(u32_at(self.b(), EXT_AT + deth::LEN)),
            _ => None,
        }
    }

    /// The payload without pad and trailer.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.b()[self.payload_at as usize..self.payload_end as usize]
    }
}

#[cold]
fn other<P>(layer: Layer, field: &'static str, value: u16) -> Result<P, ParseError> {
    Err(ParseError::OtherProtocol { layer, field, value: value.into() })
}

#[cold]
fn illegal<P>(
    layer: Layer,
    field: &'static str,
    value: u32,
    expected: &'static str,
) -> Result<P, ParseError> {
    Err(ParseError::Illegal { layer, field, value, expected })
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// As [`Packet::icrc_ok`], faster: see [`icrc::verify_in_place`]. The frame is unchanged afterwards.
    #[inline]
    pub fn icrc_ok_in_place(&mut self) -> bool {
        let end = self.end as usize;
        self.buffer.as_mut().get_mut(IP_AT..end).is_some_and(icrc::verify_in_place)
    }

    /// The same view without the right to change the frame.
    #[inline]
    pub fn as_shared(&self) -> Packet<&[u8]> {
        Packet {
            buffer: self.buffer.as_ref(),
            opcode: self.opcode,
            payload_at: self.payload_at,
            payload_end: self.payload_end,
            end: self.end,
        }
    }
}

/// Where a packet goes and comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Source MAC address.
    pub src_mac: Mac,
    /// Destination MAC address.
    pub dst_mac: Mac,
    /// Source IP address.
    pub src_ip: Ipv4Addr,
    /// Destination IP address.
    pub dst_ip: Ipv4Addr,
    /// UDP source port.
    pub src_port: u16,
    /// IPv4 type of service: DSCP and ECN.
    pub tos: u8,
    /// IPv4 time to live.
    pub ttl: u8,
}

/// A legal RoCEv2 packet except for its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Addresses.
    pub path: Path,
    /// IPv4 identification.
    pub ident: u16,
    /// Partition key.
    pub pkey: u16,
    /// Destination queue pair.
    pub dest_qp: Qpn,
    /// Packet sequence number.
    pub psn: Psn,
    /// Ask for an acknowledgement.
    pub ack_req: bool,
    /// Solicited event.
    pub solicited: bool,
    /// Migration state bit.
    pub migration: bool,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification.
    pub becn: bool,
    /// The content of the packet.
    pub message: Message,
}

impl Repr {
    /// A packet with the usual header values: default partition key, migration bit set, everything else zero.
    pub fn new(path: Path, dest_qp: Qpn, psn: Psn, message: Message) -> Repr {
        Repr {
            path,
            ident: 0,
            pkey: bth::DEFAULT_PKEY,
            dest_qp,
            psn,
            ack_req: false,
            solicited: false,
            migration: true,
            fecn: false,
            becn: matches!(message, Message::Cnp),
            message,
        }
    }

    /// Takes the values out of a view. Fails where the message is not one that [`Message`] knows (SEND with invalidate),
    /// its syndrome is reserved, or the payload's length does not go with the opcode.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, ParseError> {
        let b = packet.b();
        let message = Message::parse(packet)?;
        let bth = packet.bth();
        Ok(Repr {
            path: Path {
                src_mac: packet.src_mac(),
                dst_mac: packet.dst_mac(),
                src_ip: packet.src_ip(),
                dst_ip: packet.dst_ip(),
                src_port: packet.src_port(),
                tos: packet.tos(),
                ttl: b[IP_AT + 8],
            },
            ident: u16_at(b, IP_AT + 4),
            pkey: bth.pkey(),
            dest_qp: bth.dest_qp(),
            psn: bth.psn(),
            ack_req: bth.ack_req(),
            solicited: bth.solicited(),
            migration: bth.migration(),
            fecn: bth.fecn(),
            becn: bth.becn(),
            message,
        })
    }

    /// Length in bytes of the frame with `payload_len` bytes of payload, without Ethernet padding.
    pub fn frame_len(&self, payload_len: usize) -> usize {
        EXT_AT + self.message.opcode().extension_len() + payload_len.next_multiple_of(4) + icrc::LEN
    }

    /// Writes all headers for a packet with `payload_len` bytes of payload to the start of `out`; returns their
    /// length, which is where the payload belongs.
    pub fn emit_headers(&self, payload_len: usize, out: &mut [u8]) -> Result<usize, EmitError> {
        let opcode = self.message.opcode();
        self.message.check_payload_len(payload_len).map_err(|expected| EmitError::PayloadLength {
            opcode: opcode.name(),
            len: payload_len,
            expected,
        })?;
        let len = EXT_AT + opcode.extension_len();
        room(Layer::Bth, len, out.len())?;
        let udp_len = self.frame_len(payload_len) - UDP_AT;
        ethernet::Repr { dst: self.path.dst_mac, src: self.path.src_mac, ethertype: ethernet::IPV4 }
            .emit(out)?;
        ipv4::Repr {
            src: self.path.src_ip,
            dst: self.path.dst_ip,
            protocol: ipv4::UDP,
            tos: self.path.tos,
            ident: self.ident,
            dont_fragment: true,
            ttl: self.path.ttl,
            payload_len: udp_len as u16,
        }
        .emit(&mut out[IP_AT..])?;
        udp::Repr {
            src_port: self.path.src_port,
            dst_port: udp::ROCE_PORT,
            payload_len: (udp_len - udp::LEN) as u16,
        }
        .emit(&mut out[UDP_AT..])?;
        bth::Repr {
            opcode,
            solicited: self.solicited,
            migration: self.migration,
            pad: (payload_len.wrapping_neg() & 3) as u8,
            pkey: self.pkey,
            fecn: self.fecn,
            becn: self.becn,
            dest_qp: self.dest_qp,
            ack_req: self.ack_req,
            psn: self.psn,
        }
        .emit(&mut out[BTH_AT..])?;
        self.message.emit_extension(&mut out[EXT_AT..])?;
        Ok(len)
    }

    /// Appends the whole frame with `payload`, pad and ICRC to `frame`. On an error nothing is appended.
    pub fn emit(&self, payload: &[u8], frame: &mut Frame) -> Result<(), EmitError> {
        let (before, len) = (frame.len(), self.frame_len(payload.len()));
        let Some(out) = frame.grow_back(len) else {
            return Err(EmitError::NoRoom { layer: Layer::Payload, need: len, have: 0 });
        };
        match self.emit_headers(payload.len(), out) {
            Ok(at) => {
                let (body, rest) = out[at..].split_at_mut(payload.len());
                body.copy_from_slice(payload);
                rest.fill(0);
                icrc::write(&mut out[IP_AT..]);
                Ok(())
            }
            Err(error) => {
                frame.truncate(before);
                Err(error)
            }
        }
    }
}
