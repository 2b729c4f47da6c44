//! Counters of a NIC.

use std::fmt;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// Why a frame was dropped without an answer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            /// Every reason.
            pub const ALL: &[DropReason] = &[$(DropReason::$name),*];

            /// The reason in a few words.
            pub const fn text(self) -> &'static str {
                match self {
                    $(DropReason::$name => $text,)*
                }
            }
        }
    };
}

drop_reasons! {
    /// Not IPv4/UDP to port 4791 and not ARP.
    OtherProtocol = "not RoCEv2 and not ARP";
    /// A header or length field is illegal, or the frame is cut short.
    Malformed = "malformed or cut short";
    /// The IPv4 header checksum does not fit.
    Ipv4Checksum = "IPv4 checksum";
    /// The ICRC does not fit.
    Icrc = "ICRC";
    /// On another VLAN, or on one where the NIC is on none.
    Vlan = "on another VLAN";
    /// Addressed to another MAC or IP address.
    WrongAddress = "addressed to someone else";
    /// No queue pair has this number.
    UnknownQp = "unknown queue pair";
    /// The queue pair is not in a state that receives this.
    QpState = "queue pair not ready or in error";
    /// The source address is not the connected peer's.
    WrongPeer = "source is not the connected peer";
    /// A datagram for a connection, or another packet for a queue pair without one.
    Service = "for another service";
    /// A datagram with another queue key.
    QKey = "queue key";
    /// A datagram for which no receive is posted.
    NoReceive = "datagram without a receive";
    /// Another partition key.
    PKey = "partition key";
    /// A request behind a missing one, too far to be kept, or kept already.
    OutOfSequence = "behind a missing one";
    /// A duplicate READ that can't be carried out: key, range or queue space.
    DuplicateRead = "duplicate READ that can't be carried out";
    /// An atomic operation that was carried out, and whose answer is not kept any more.
    DuplicateAtomic = "duplicate atomic operation whose answer is not kept any more";
    /// No room for one more response.
    ResponseQueueFull = "response queue full";
    /// A response that belongs to nothing outstanding (late, duplicate, or foreign).
    StaleResponse = "response to nothing outstanding";
    /// More ARP requests than can be answered at once.
    ArpQueueFull = "ARP queue full";
}

/// Counters since the NIC was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Frames handed to the NIC.
    pub rx_frames: u64,
    /// Bytes in them.
    pub rx_bytes: u64,
    /// Frames taken from the NIC.
    pub tx_frames: u64,
    /// Bytes in them.
    pub tx_bytes: u64,
    /// WRITE packets executed by the responder.
    pub write_packets: u64,
    /// Payload bytes that WRITEs stored.
    pub write_bytes: u64,
    /// READ requests accepted by the responder, duplicates not counted.
    pub read_requests: u64,
    /// READ response packets made.
    pub read_packets: u64,
    /// Payload bytes in them.
    pub read_bytes: u64,
    /// SEND packets and datagrams that went into receives.
    pub send_packets: u64,
    /// Atomic operations carried out by the responder.
    pub atomics: u64,
    /// Positive acknowledgements sent.
    pub acks: u64,
    /// Acknowledgements saved because a later one covered them.
    pub acks_coalesced: u64,
    /// NAKs sent, by code 0x60 to 0x63.
    pub naks: [u64; 4],
    /// RNR NAKs sent.
    pub rnr_naks: u64,
    /// Requests that had been executed before: WRITEs acknowledged again, READs carried out again, atomic operations
    /// answered again.
    pub duplicates: u64,
    /// Requests kept, since one before them was missing.
    pub kept: u64,
    /// ARP requests answered.
    pub arp_replies: u64,
    /// Packets of connections that came with the mark of congestion (ECN).
    pub marked_packets: u64,
    /// Congestion notifications received.
    pub cnps_received: u64,
    /// Times that a queue pair's rate was cut because of them.
    pub rate_cuts: u64,
    /// Congestion notifications sent.
    pub cnps_sent: u64,
    /// Times that the requester went back to send again, for whatever reason.
    pub retries: u64,
    /// Retries for which only a timer could tell.
    pub timeouts: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl Stats {
    /// Frames dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Frames dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    #[inline]
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
