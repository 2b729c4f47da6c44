//! Packets from the controller to the data plane itself: internal frames that enter at the CPU port.

use crate::p4::names::{self, internal};

/// Bytes of an internal frame.
pub const FRAME: usize = internal::FRAME;
/// Where a timer packet has its number, 16 bits.
pub const NEXT: usize = internal::NEXT;

/// What registers begin with. Number 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reset {
    /// The worker: its head, consumers' tail and PSN are set, the rest of its state is that of an idle one.
    pub worker: u16,
    /// The producer ring: its tail, head and PSN are set.
    pub producer: u16,
    /// The poll connection: its PSN and, for a consumer, the ring's tail.
    pub poll_qp: u16,
    /// The flow with a rate cap.
    pub flow: u16,
    /// Head of the consumer rings, in bytes.
    pub head: u32,
    /// Smallest tail of the consumer rings, in bytes.
    pub consumer_tail: u32,
    /// Tail of the producer ring, in bytes; its head until it is polled.
    pub producer_tail: u32,
    /// Next PSN, 24 bits.
    pub psn: u32,
}

impl Reset {
    /// The packet; the data plane answers with a report (P4: `REPORT_STATE`).
    pub fn packet(&self) -> Vec<u8> {
        let mut frame = packet(names::EV_RESET);
        for (at, value) in [
            (internal::WORKER, self.worker),
            (internal::PRODUCER, self.producer),
            (internal::QP, self.poll_qp),
            (internal::FLOW, self.flow),
        ] {
            frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        }
        for (at, value) in [
            (internal::HEAD, self.head),
            (internal::WORD, self.consumer_tail),
            (internal::PRODUCER_TAIL, self.producer_tail),
            (internal::PSN, self.psn << 8),
        ] {
            frame[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        frame
    }
}

/// Asks for a worker's phase, head and PSN (P4: `REPORT_STATE`).
pub fn query(worker: u16) -> Vec<u8> {
    for_worker(names::EV_QUERY, worker)
}

/// Has a worker repeat what it waits for, or go on if that has come to be complete.
pub fn retry(worker: u16) -> Vec<u8> {
    for_worker(names::EV_RETRY, worker)
}

/// Has an idle worker write its last commit record, whatever its producers hold.
pub fn close(worker: u16) -> Vec<u8> {
    for_worker(names::EV_CLOSE, worker)
}

/// A timer packet; its number says whom it is for (see [`super::ticks`]).
pub fn timer_packet(number: u16) -> Vec<u8> {
    let mut frame = packet(names::EV_FANOUT);
    frame[NEXT..NEXT + 2].copy_from_slice(&number.to_be_bytes());
    frame
}

fn for_worker(event: u8, worker: u16) -> Vec<u8> {
    let mut frame = packet(event);
    frame[internal::WORKER..][..2].copy_from_slice(&worker.to_be_bytes());
    frame
}

fn packet(event: u8) -> Vec<u8> {
    let mut frame = vec![0; FRAME];
    frame[12..14].copy_from_slice(&names::ETHERTYPE_INTERNAL.to_be_bytes());
    frame[internal::EVENT] = event;
    frame
}
