//! BTH opcodes of the services reliable connection and unreliable datagram (IBTA vol. 1, table 38), and the congestion notification packet.

use std::fmt;

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $ext:expr;)*) => {
        /// A known opcode.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[$doc])* $name = $code,)*
        }

        impl Opcode {
            /// Every known opcode.
            pub const ALL: &[Opcode] = &[$(Opcode::$name),*];

            /// The opcode with this code, if it is known.
            #[inline]
            pub const fn from_code(code: u8) -> Option<Opcode> {
                match code {
                    $($code => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            /// The name that the specification gives it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Opcode::$name => $text,)*
                }
            }

            /// Bytes of extension headers between BTH and payload.
            #[inline]
            pub const fn extension_len(self) -> usize {
                match self {
                    $(Opcode::$name => $ext,)*
                }
            }
        }
    };
}

const RETH: usize = 16;
const AETH: usize = 4;
const IMM: usize = 4;
const DETH: usize = 8;
const IETH: usize = 4;
const ATOMIC_ETH: usize = 28;
const ATOMIC_ACK_ETH: usize = 8;

opcodes! {
    /// First packet of a SEND.
    SendFirst = 0x00, "SEND First", 0;
    /// Middle packet of a SEND.
    SendMiddle = 0x01, "SEND Middle", 0;
    /// Last packet of a SEND.
    SendLast = 0x02, "SEND Last", 0;
    /// Last packet of a SEND with immediate data.
    SendLastImm = 0x03, "SEND Last with Immediate", IMM;
    /// A SEND of one packet.
    SendOnly = 0x04, "SEND Only", 0;
    /// A SEND of one packet with immediate data.
    SendOnlyImm = 0x05, "SEND Only with Immediate", IMM;
    /// First packet of an RDMA WRITE; carries the RETH.
    WriteFirst = 0x06, "RDMA WRITE First", RETH;
    /// Middle packet of an RDMA WRITE.
    WriteMiddle = 0x07, "RDMA WRITE Middle", 0;
    /// Last packet of an RDMA WRITE.
    WriteLast = 0x08, "RDMA WRITE Last", 0;
    /// Last packet of an RDMA WRITE with immediate data.
    WriteLastImm = 0x09, "RDMA WRITE Last with Immediate", IMM;
    /// An RDMA WRITE of one packet.
    WriteOnly = 0x0a, "RDMA WRITE Only", RETH;
    /// An RDMA WRITE of one packet with immediate data (RETH, then the immediate).
    WriteOnlyImm = 0x0b, "RDMA WRITE Only with Immediate", RETH + IMM;
    /// Request for an RDMA READ.
    ReadRequest = 0x0c, "RDMA READ Request", RETH;
    /// First packet of a READ response.
    ReadResponseFirst = 0x0d, "RDMA READ Response First", AETH;
    /// Middle packet of a READ response.
    ReadResponseMiddle = 0x0e, "RDMA READ Response Middle", 0;
    /// Last packet of a READ response.
    ReadResponseLast = 0x0f, "RDMA READ Response Last", AETH;
    /// A READ response of one packet.
    ReadResponseOnly = 0x10, "RDMA READ Response Only", AETH;
    /// Acknowledgement, positive or negative: the AETH says which.
    Acknowledge = 0x11, "Acknowledge", AETH;
    /// Response to an atomic operation.
    AtomicAcknowledge = 0x12, "Atomic Acknowledge", AETH + ATOMIC_ACK_ETH;
    /// Atomic compare and swap.
    CompareSwap = 0x13, "CmpSwap", ATOMIC_ETH;
    /// Atomic fetch and add.
    FetchAdd = 0x14, "FetchAdd", ATOMIC_ETH;
    /// Last packet of a SEND that invalidates a key.
    SendLastInvalidate = 0x16, "SEND Last with Invalidate", IETH;
    /// A SEND of one packet that invalidates a key.
    SendOnlyInvalidate = 0x17, "SEND Only with Invalidate", IETH;
    /// An unreliable datagram; carries the DETH.
    DatagramOnly = 0x64, "UD SEND Only", DETH;
    /// An unreliable datagram with immediate data (DETH, then the immediate).
    DatagramOnlyImm = 0x65, "UD SEND Only with Immediate", DETH + IMM;
    /// Congestion notification packet (A17.9): 16 reserved bytes follow the BTH.
    Cnp = 0x81, "CNP", 16;
}

impl Opcode {
    /// The code on the wire.
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether a connection's responder receives it (request), as opposed to its requester (response) or either (CNP).
    #[inline]
    pub const fn is_request(self) -> bool {
        let c = self as u8;
        c <= 0x0c || (c >= 0x13 && c <= 0x17)
    }

    /// Whether it belongs to the service unreliable datagram.
    #[inline]
    pub const fn is_datagram(self) -> bool {
        matches!(self, Opcode::DatagramOnly | Opcode::DatagramOnlyImm)
    }

    /// Whether it is one of the six SEND opcodes without invalidation, of a reliable connection.
    #[inline]
    pub const fn is_send(self) -> bool {
        self as u8 <= 0x05
    }

    /// Whether a requester receives it: READ responses and acknowledgements.
    #[inline]
    pub const fn is_response(self) -> bool {
        let c = self as u8;
        c >= 0x0d && c <= 0x12
    }

    /// Whether it is one of the six RDMA WRITE opcodes.
    #[inline]
    pub const fn is_write(self) -> bool {
        let c = self as u8;
        c >= 0x06 && c <= 0x0b
    }

    /// Whether it is one of the four READ response opcodes.
    #[inline]
    pub const fn is_read_response(self) -> bool {
        let c = self as u8;
        c >= 0x0d && c <= 0x10
    }

    /// Whether another packet of the same message follows (FIRST and MIDDLE). Such packets carry exactly one path
    /// MTU of payload (IBTA vol. 1, 9.7.4).
    #[inline]
    pub const fn more_follows(self) -> bool {
        matches!(
            self,
            Opcode::SendFirst
                | Opcode::SendMiddle
                | Opcode::WriteFirst
                | Opcode::WriteMiddle
                | Opcode::ReadResponseFirst
                | Opcode::ReadResponseMiddle
        )
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_unknown_ones_are_none() {
        for code in 0..=255u8 {
            match Opcode::from_code(code) {
                Some(op) => assert_eq!(op.code(), code),
                None => assert!(!Opcode::ALL.iter().any(|op| op.code() == code)),
            }
        }
        assert_eq!(Opcode::from_code(0x15), None);
        assert_eq!(Opcode::from_code(0x24), None, "unreliable connections are not known");
        assert_eq!(Opcode::from_code(0x66), None, "datagrams are messages of one packet");
    }
}
