//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use crate::bytes::{array_at, u16_at};
use crate::error::{EmitError, Layer, ParseError, need, room};
use crate::ethernet::Mac;

/// Length in bytes.
pub const LEN: usize = 28;

/// A checked view of an ARP packet (behind the Ethernet header).
#[derive(Debug, Clone, Copy)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if it is long enough for an Ethernet/IPv4 ARP packet.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        need(Layer::Arp, LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// Hardware type; 1 is Ethernet.
    pub fn hardware_type(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 0)
    }

    /// Protocol type; 0x0800 is IPv4.
    pub fn protocol_type(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 2)
    }

    /// Hardware and protocol address lengths in bytes; 6 and 4 here.
    pub fn address_lengths(&self) -> (u8, u8) {
        (self.buffer.as_ref()[4], self.buffer.as_ref()[5])
    }

    /// Operation; 1 request, 2 reply.
    pub fn operation(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 6)
    }

    /// Sender's addresses.
    pub fn sender(&self) -> (Mac, Ipv4Addr) {
        (Mac(array_at(self.buffer.as_ref(), 8)), Ipv4Addr::from(array_at::<4>(self.buffer.as_ref(), 14)))
    }

    /// Target's addresses.
    pub fn target(&self) -> (Mac, Ipv4Addr) {
        (Mac(array_at(self.buffer.as_ref(), 18)), Ipv4Addr::from(array_at::<4>(self.buffer.as_ref(), 24)))
    }
}

/// The kind of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The question who has the target address.
    Request,
    /// The sender has the sender address.
    Reply,
}

/// A legal Ethernet/IPv4 ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Request or reply.
    pub operation: Operation,
    /// Sender's MAC address.
    pub sender_mac: Mac,
    /// Sender's IP address.
    pub sender_ip: Ipv4Addr,
    /// Target's MAC address; zero in a request.
    pub target_mac: Mac,
    /// Target's IP address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Takes the values out of a view; fails for other hardware, protocols and operations.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, ParseError> {
        let illegal =
            |field, value, expected| Err(ParseError::Illegal { layer: Layer::Arp, field, value, expected });
        if packet.hardware_type() != 1 {
            return illegal("hardware type", packet.hardware_type().into(), "1 (Ethernet)");
        }
        if packet.protocol_type() != crate::ethernet::IPV4 {
            return illegal("protocol type", packet.protocol_type().into(), "0x800 (IPv4)");
        }
        let (hw, proto) = packet.address_lengths();
        if (hw, proto) != (6, 4) {
            return illegal("address lengths", u32::from(hw) << 8 | u32::from(proto), "0x604 (6 and 4)");
        }
        let operation = match packet.operation() {
            1 => Operation::Request,
            2 => Operation::Reply,
            other => return illegal("operation", other.into(), "1 (request) or 2 (reply)"),
        };
        let (sender_mac, sender_ip) = packet.sender();
        let (target_mac, target_ip) = packet.target();
        Ok(Repr { operation, sender_mac, sender_ip, target_mac, target_ip })
    }

    /// Writes the packet to the start of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        room(Layer::Arp, LEN, out.len())?;
        out[0..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        out[6..8].copy_from_slice(match self.operation {
            Operation::Request => &[0, 1],
            Operation::Reply => &[0, 2],
        });
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender_ip.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..28].copy_from_slice(&self.target_ip.octets());
        Ok(LEN)
    }
}
