//! The faults of bytes, and of values to be written as bytes.

use std::fmt;

use thiserror::Error;

/// The protocol layer that an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Ethernet II.
    Ethernet,
    /// Address Resolution Protocol.
    Arp,
    /// IP version 4.
    Ipv4,
    /// User Datagram Protocol.
    Udp,
    /// InfiniBand base transport header.
    Bth,
    /// RDMA extended transport header.
    Reth,
    /// Atomic extended transport header, or the word behind an AETH.
    AtomicEth,
    /// Datagram extended transport header.
    Deth,
    /// ACK extended transport header.
    Aeth,
    /// Payload, pad or invariant CRC behind the headers.
    Payload,
    /// Ring memory, ABI version 1.
    Ring,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Ethernet => "Ethernet",
            Layer::Arp => "ARP",
            Layer::Ipv4 => "IPv4",
            Layer::Udp => "UDP",
            Layer::Bth => "BTH",
            Layer::Reth => "RETH",
            Layer::AtomicEth => "AtomicETH",
            Layer::Deth => "DETH",
            Layer::Aeth => "AETH",
            Layer::Payload => "payload",
            Layer::Ring => "ring",
        })
    }
}

/// Why bytes are not a legal packet of the kind asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The bytes end before the layer does.
    #[error("{layer} is cut short: {need} bytes needed, {have} there")]
    Truncated {
        /// Layer that is incomplete.
        layer: Layer,
        /// Bytes that the layer needs.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A field has a value that the specification forbids or that is not supported.
    #[error("{layer} field {field} is {value:#x}, expected {expected}")]
    Illegal {
        /// Layer that holds the field.
        layer: Layer,
        /// Name of the field.
        field: &'static str,
        /// The value found.
        value: u32,
        /// The values that would have been accepted.
        expected: &'static str,
    },
    /// The IPv4 header checksum does not fit.
    #[error(
        "IPv4 header checksum is {found:#06x}, does not fit the header (sum of all words must be 0xffff)"
    )]
    Checksum {
        /// The checksum field as found.
        found: u16,
    },
    /// A sound frame of another protocol: not IPv4, not UDP, or not to port 4791.
    #[error("not a RoCEv2 packet: {layer} field {field} is {value:#x}")]
    OtherProtocol {
        /// Layer whose field names the other protocol.
        layer: Layer,
        /// Name of the field.
        field: &'static str,
        /// The value found.
        value: u32,
    },
}

/// Why a value can't be written as a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EmitError {
    /// The buffer is too short.
    #[error("{layer} needs {need} bytes, the buffer has {have}")]
    NoRoom {
        /// Layer that did not fit.
        layer: Layer,
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// The payload's length does not go with the opcode.
    #[error("{opcode} can't carry {len} bytes of payload: expected {expected}")]
    PayloadLength {
        /// Name of the opcode.
        opcode: &'static str,
        /// Payload bytes asked for.
        len: usize,
        /// The lengths that the opcode accepts.
        expected: &'static str,
    },
}

#[inline]
pub(crate) fn need(layer: Layer, need: usize, have: usize) -> Result<(), ParseError> {
    if have < need { Err(ParseError::Truncated { layer, need, have }) } else { Ok(()) }
}

#[inline]
pub(crate) fn room(layer: Layer, need: usize, have: usize) -> Result<(), EmitError> {
    if have < need { Err(EmitError::NoRoom { layer, need, have }) } else { Ok(()) }
}
