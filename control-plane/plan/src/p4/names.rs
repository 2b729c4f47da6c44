//! Names and numbers of the P4 program. Written by `cargo xtask p4`, not by hand.

#![allow(missing_docs, reason = "P4 says what its names mean")]

use super::typed::{actions, tables};

// Tables that the controller fills (a value is an entry's key), and the actions of their entries.
tables! {
    Vlans = "vlans" { port: u16, vlan: u16 } runs Expected;
    Sources = "sources" { port: u16, mac: u64 } runs OwnSource;
    IpSources = "ip_sources" { port: u16, mac: u64, ip: u32 } runs OwnSource;
    ArpSources = "arp_sources" { port: u16, mac: u64, sender_mac: u64, sender_ip: u32 } runs OwnSource;
    OwnArp = "own_arp" { operation: u16, target_ip: u32, foreign: u8, spoofed: u8 } runs Reply, Ignore;
    OwnIp = "own_ip" { dst: u32, port: u16, home: u8, crossed: u8 } runs Own, Cross;
    Qps = "qps" { dest_qp: u32, src: u32, port: u16 } runs Qp;
    Doorbells = "doorbells" { secret: u32, src: u32, port: u16, foreign: u8, spoofed: u8 } runs Bell;
    Sequencers = "sequencers" { qp: u16, rkey: u32, va_hi: u32, va_lo: u32, add_hi: u32 } runs Sequencer;
    Stations = "stations" { dst: u64 } runs ToPort, ToGroup;
    Workers = "workers" { worker: u16 } runs Worker;
    ProducerList = "producer_list" { worker: u16, index: u16 } runs Member;
    Members = "members" { worker: u16, hops: u16 } runs GroupMember;
    Producers = "producers" { producer: u16 } runs Producer;
    Routes = "routes" { qp: u16 } runs Route;
    WorkerRings = "worker_rings" { worker: u16 } runs WorkerRing;
    ProducerRings = "producer_rings" { producer: u16 } runs ProducerRing;
    Flows = "flows" { flow: u16 } runs Flow;
    Peers = "peers" { qp: u16 } runs Peer, PeerOnVlan;
    SolveReth0 = "solve_reth_0" { delta: u8 } runs Set0;
    SolveReth1 = "solve_reth_1" { delta: u8 } runs Set1;
    SolveReth2 = "solve_reth_2" { delta: u8 } runs Set2;
    SolveReth3 = "solve_reth_3" { delta: u8 } runs Set3;
    SolveBare0 = "solve_bare_0" { delta: u8 } runs Set0;
    SolveBare1 = "solve_bare_1" { delta: u8 } runs Set1;
    SolveBare2 = "solve_bare_2" { delta: u8 } runs Set2;
    SolveBare3 = "solve_bare_3" { delta: u8 } runs Set3;
}

// Actions of entries: a value is the action with its parameters.
actions! {
    Bell = "bell" { producer: u16, worker: u16 };
    Cross = "cross" { way: u16 };
    Expected = "expected" {  };
    Flow = "flow" { refill: u32, burst: u32, scarce: u32, refill_every: u32 };
    GroupMember = "group_member" { poll_qp: u16 };
    Ignore = "ignore" {  };
    Member = "member" { producer: u16, next: u16 };
    Own = "own" { again: u16 };
    OwnSource = "own_source" {  };
    Peer = "peer" { dst_mac: u64, src_mac: u64, src_ip: u32, dst_ip: u32, qpn: u32, rkey: u32, swap: u8, flags: u32, mirror: u16, tos: u8 };
    PeerOnVlan = "peer_on_vlan" { dst_mac: u64, src_mac: u64, src_ip: u32, dst_ip: u32, qpn: u32, rkey: u32, swap: u8, flags: u32, mirror: u16, tos: u8, tci: u16 };
    Producer = "producer" { mask: u32, data_qp: u16 };
    ProducerRing = "producer_ring" { size: u32, mask: u32, poll_qp: u16 };
    Qp = "qp" { role: u8, ring: u16, worker: u16, qp_index: u16, swap: u8, member_bit: u32 };
    Reply = "reply" { mac: u64 };
    Route = "route" { port: u16 };
    Sequencer = "sequencer" { number: u16 };
    Set0 = "set_0" { ident: u16, sport: u16 };
    Set1 = "set_1" { ident: u16, sport: u16 };
    Set2 = "set_2" { ident: u16, sport: u16 };
    Set3 = "set_3" { ident: u16, sport: u16 };
    ToGroup = "to_group" { group: u16 };
    ToPort = "to_port" { port: u16 };
    Worker = "worker" { settings: u8, max_batch: u32, mask: u32, data_qp: u16, group: u16, all_members: u32, flow: u16, poll_interval: u32, poll_timeout: u32, rto: u32, max_tries: u16 };
    WorkerRing = "worker_ring" { producers: u16, max_batch: u32, size: u32, mask: u32, low_space: u32, poll_qp: u16, group: u16, mtu: u8, mtu_mask: u32 };
}

/// Counters, by name.
pub mod counter {
    pub const RECEIVED: &str = "received";
    pub const DROPS: &str = "drops";
    pub const OTHER_VLAN: &str = "other_vlan";
    pub const OTHER_SOURCE: &str = "other_source";
    pub const TRANSFERS: &str = "transfers";
    pub const PRODUCER_TRANSFERS: &str = "producer_transfers";
    pub const RETRIES: &str = "retries";
    pub const SENT: &str = "sent";
}

/// State registers, by name.
pub mod register {
    pub const OWNER: &str = "owner";
    pub const ASKER: &str = "asker";
    pub const POLL_PSN: &str = "poll_psn";
    pub const PHASE: &str = "phase.phase";
    pub const TURN: &str = "turn";
    pub const TICKET_PSN: &str = "ticket_psn";
    pub const TICKET_LOW: &str = "ticket_low";
    pub const TICKET_HIGH: &str = "ticket_high";
    pub const LAST_TICKET_LOW: &str = "last_ticket_low";
    pub const LAST_TICKET_HIGH: &str = "last_ticket_high";
    pub const TRANSFER_PRODUCER: &str = "transfer_producer";
    pub const TRANSFER_LENGTH: &str = "transfer_length";
    pub const TRANSFER_FRAGS: &str = "transfer_frags";
    pub const CONSUMER_PSN: &str = "consumer_psn";
    pub const HEAD: &str = "head";
    pub const CONSUMER_TAIL: &str = "consumer_tail";
    pub const MEMBER_TAIL: &str = "member_tail";
    pub const PRODUCER_TAIL: &str = "producer_tail";
    pub const PRODUCER_HEAD: &str = "producer_head";
    pub const PRODUCER_PSN: &str = "producer_psn";
    pub const REFILL: &str = "refill.refill";
    pub const ACKED: &str = "acked";
    pub const ANSWERED: &str = "answered";
    pub const FROM: &str = "from";
    pub const SMALLEST: &str = "from.smallest";
    pub const LOCK: &str = "lock";
    pub const DEBT: &str = "debt";
    pub const CREDIT: &str = "credit";
    pub const TRIES: &str = "tries";
    pub const DUE: &str = "due";
    pub const PRODUCER_DUE: &str = "producer_due";
    pub const CONSUMER_DUE: &str = "consumer_due";
}

/// Digests, by name.
pub mod digest {
    pub const REPORT_T: &str = "report_t";
}

/// Members of digest `report_t`, in their order.
pub const REPORT_T: [&str; 8] = ["reason", "code", "worker", "producer", "qp", "role", "phase", "psn"];

/// Where an internal frame has its fields: byte offsets, Ethernet header included.
pub mod internal {
    pub const EVENT: usize = 14;
    pub const PHASE: usize = 15;
    pub const WORKER: usize = 16;
    pub const PRODUCER: usize = 18;
    pub const QP: usize = 20;
    pub const FLOW: usize = 22;
    pub const NEXT: usize = 24;
    pub const HOPS: usize = 26;
    pub const FRAGS: usize = 28;
    pub const LENGTH: usize = 32;
    pub const PRODUCER_TAIL: usize = 36;
    pub const HEAD: usize = 40;
    pub const WORD: usize = 44;
    pub const TIME: usize = 48;
    pub const PSN: usize = 52;
    pub const PAD: usize = 56;
    /// Bytes of a whole frame.
    pub const FRAME: usize = 64;
}

/// The header of an internal frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Internal {
    pub event: u8,
    pub phase: u8,
    pub worker: u16,
    pub producer: u16,
    pub qp: u16,
    pub flow: u16,
    pub next: u16,
    pub hops: u16,
    pub frags: u32,
    pub length: u32,
    pub producer_tail: u32,
    pub head: u32,
    pub word: u32,
    pub time: u32,
    pub psn: u32,
    pub pad: u64,
}

impl Internal {
    /// The frame, Ethernet header included.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0; internal::FRAME];
        frame[12..14].copy_from_slice(&ETHERTYPE_INTERNAL.to_be_bytes());
        frame[14..15].copy_from_slice(&self.event.to_be_bytes());
        frame[15..16].copy_from_slice(&self.phase.to_be_bytes());
        frame[16..18].copy_from_slice(&self.worker.to_be_bytes());
        frame[18..20].copy_from_slice(&self.producer.to_be_bytes());
        frame[20..22].copy_from_slice(&self.qp.to_be_bytes());
        frame[22..24].copy_from_slice(&self.flow.to_be_bytes());
        frame[24..26].copy_from_slice(&self.next.to_be_bytes());
        frame[26..28].copy_from_slice(&self.hops.to_be_bytes());
        frame[28..32].copy_from_slice(&self.frags.to_be_bytes());
        frame[32..36].copy_from_slice(&self.length.to_be_bytes());
        frame[36..40].copy_from_slice(&self.producer_tail.to_be_bytes());
        frame[40..44].copy_from_slice(&self.head.to_be_bytes());
        frame[44..48].copy_from_slice(&self.word.to_be_bytes());
        frame[48..52].copy_from_slice(&self.time.to_be_bytes());
        frame[52..56].copy_from_slice(&self.psn.to_be_bytes());
        frame[56..64].copy_from_slice(&self.pad.to_be_bytes());
        frame
    }
}

// p4/common/types.p4
pub const ETHERTYPE_IPV4: u16 = 2048;
pub const ETHERTYPE_ARP: u16 = 2054;
pub const ETHERTYPE_VLAN: u16 = 33024;
pub const ETHERTYPE_PROVIDER: u16 = 34984;
pub const ETHERTYPE_INTERNAL: u16 = 34997;
pub const IPPROTO_UDP: u8 = 17;
pub const UDP_PORT_ROCE: u16 = 4791;
pub const UDP_PORT_DOORBELL: u16 = 50592;
pub const UDP_SPORT_SELF: u16 = 50592;
pub const ONE_PACKET: u32 = 256;
pub const TAIL_SENT: u32 = 1;
pub const NO_FURTHER: u32 = 1;
pub const NOBODY: u32 = 0xffffffff;
pub const ACK_REQ: u32 = 0x80000000;
pub const OP_WRITE_FIRST: u8 = 6;
pub const OP_WRITE_MIDDLE: u8 = 7;
pub const OP_WRITE_LAST: u8 = 8;
pub const OP_WRITE_ONLY: u8 = 10;
pub const OP_READ_REQUEST: u8 = 12;
pub const OP_READ_FIRST: u8 = 13;
pub const OP_READ_MIDDLE: u8 = 14;
pub const OP_READ_LAST: u8 = 15;
pub const OP_READ_ONLY: u8 = 16;
pub const OP_ACK: u8 = 17;
pub const OP_ATOMIC_ACK: u8 = 18;
pub const OP_FETCH_ADD: u8 = 20;
pub const OP_CNP: u8 = 129;
pub const BECN: u8 = 64;
pub const TOS_CNP: u8 = 192;
pub const PRIORITY_CNP: u8 = 6;
pub const ECN_CAPABLE: u8 = 3;
pub const COUNTER_BYTES: u32 = 0xfffffffc;
pub const RING_ITEMS: u32 = 4096;
pub const RING_TAIL_WORD: u32 = 64;
pub const FLAG_CLOSED: u32 = 1;
pub const LEN_READ: u16 = 60;
pub const LEN_TAIL: u16 = 68;
pub const LEN_COMMIT: u16 = 76;
pub const LEN_TICKET: u16 = 56;
pub const ACK_UNLIMITED: u32 = 0x1f000000;
pub const NO_TICKET: u32 = 0xffffffff;
pub const ROLE_PRODUCER_DATA: u8 = 1;
pub const ROLE_PRODUCER_POLL: u8 = 2;
pub const ROLE_CONSUMER_DATA: u8 = 3;
pub const ROLE_CONSUMER_POLL: u8 = 4;
pub const ROLE_TICKETS: u8 = 5;
pub const EV_NONE: u8 = 0;
pub const EV_DATA: u8 = 1;
pub const EV_PRODUCER_WORD: u8 = 2;
pub const EV_CONSUMER_WORD: u8 = 3;
pub const EV_COMMITTED: u8 = 4;
pub const EV_TAIL_ACKED: u8 = 5;
pub const EV_GAP: u8 = 6;
pub const EV_REFUSED: u8 = 7;
pub const EV_PROBED: u8 = 8;
pub const EV_CONGESTED: u8 = 9;
pub const EV_TICKET: u8 = 10;
pub const EV_TICK: u8 = 16;
pub const EV_NEXT: u8 = 17;
pub const EV_VISIT: u8 = 18;
pub const EV_ROOM: u8 = 19;
pub const EV_FREE: u8 = 20;
pub const EV_START: u8 = 24;
pub const EV_READ: u8 = 25;
pub const EV_DONE: u8 = 26;
pub const EV_RETRY: u8 = 27;
pub const EV_RELEASE: u8 = 28;
pub const EV_CLOSE: u8 = 29;
pub const EV_LAST_COMMIT: u8 = 30;
pub const EV_FAULT: u8 = 31;
pub const EV_FANOUT: u8 = 32;
pub const EV_POLL_PRODUCER: u8 = 33;
pub const EV_MEMBER: u8 = 34;
pub const EV_GATHER: u8 = 35;
pub const EV_REFILL: u8 = 36;
pub const EV_RESET: u8 = 37;
pub const EV_QUERY: u8 = 38;
pub const EV_POLL_CONSUMER: u8 = 39;
pub const EV_ASK: u8 = 40;
pub const EV_UNLOCK: u8 = 41;
pub const EV_CLOSED: u8 = 42;
pub const EV_LOOK: u8 = 43;
pub const EV_RESEND: u8 = 44;
pub const EV_REPEAT: u8 = 45;
pub const EV_TICKET_RESET: u8 = 46;
pub const ELSEWHERE: u8 = 128;
pub const PHASE_IDLE: u8 = 0;
pub const PHASE_CLAIMED: u8 = 1;
pub const PHASE_DATA: u8 = 2;
pub const PHASE_TAIL: u8 = 3;
pub const PHASE_CLOSING: u8 = 4;
pub const PHASE_CLOSED: u8 = 5;
pub const PHASE_FAULT: u8 = 6;
pub const TICKS_OFTEN: u16 = 1;
pub const TICKS_8: u16 = 32;
pub const TICKS_12: u16 = 4;
pub const TICKS_16: u8 = 1;
pub const OUT_DROP: u8 = 0;
pub const OUT_FORWARD: u8 = 1;
pub const OUT_DATA: u8 = 2;
pub const OUT_READ: u8 = 3;
pub const OUT_PROBE: u8 = 4;
pub const OUT_CNP: u8 = 5;
pub const OUT_TAIL: u8 = 6;
pub const OUT_COMMIT: u8 = 7;
pub const OUT_TICKET: u8 = 8;
pub const OUT_RECIRCULATE: u8 = 16;
pub const OUT_FANOUT: u8 = 17;
pub const DO_NOTHING: u8 = 0;
pub const DO_GET: u8 = 1;
pub const DO_SET: u8 = 2;
pub const DO_ADD: u8 = 3;
pub const DO_MATCH: u8 = 4;
pub const DO_RESET: u8 = 5;
pub const ASK_NOBODY: u8 = 0;
pub const ASK_PRODUCER: u8 = 1;
pub const ASK_CONSUMER: u8 = 2;
pub const NO_PLACE: u16 = 65535;
pub const DROP_UNKNOWN_QP: u8 = 1;
pub const DROP_BAD_ICRC: u8 = 2;
pub const DROP_STALE: u8 = 3;
pub const DROP_FORGED: u8 = 4;
pub const DROP_NO_ROUTE: u8 = 5;
pub const DROP_MALFORMED: u8 = 6;
pub const DROP_VLAN: u8 = 7;
pub const DROP_SOURCE: u8 = 8;
pub const REPORT_REFUSED: u8 = 1;
pub const REPORT_SILENT: u8 = 2;
pub const REPORT_BAD_COUNT: u8 = 3;
pub const REPORT_STATE: u8 = 4;
pub const REPORT_CLOSED: u8 = 5;
pub const COUNT_TRANSFER: u8 = 1;
pub const COUNT_RETRY: u8 = 2;

// p4/arch/v1model/main.p4
pub const PORT_TIMER: u16 = 500;
pub const PORT_CPU: u16 = 510;
pub const INSTANCE_EGRESS_CLONE: u32 = 2;
pub const DEEP_QUEUE: u32 = 32;
pub const FRAME_INTERNAL: u32 = 64;
pub const FRAME_ETHERNET: u32 = 14;
pub const FRAME_TAGGED: u32 = 18;
