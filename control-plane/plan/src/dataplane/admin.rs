//! Packets from the controller to the data plane itself: internal frames that enter at the CPU port.

use super::pipes;
use crate::p4::names::{self, Internal, internal};
use zsr_topology::Pipes;

/// Bytes of an internal frame.
pub const FRAME: usize = internal::FRAME;
/// Where a timer packet has its number, 16 bits.
pub const NEXT: usize = internal::NEXT;

/// Initial values of registers. Number 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reset {
    /// The worker: its head, consumers' tail and PSN are set. The rest of its state becomes that of an idle worker.
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
    /// The packet. It goes to all pipes, so the place of the registers does not matter.
    pub fn packet(&self, pipes: Pipes) -> Vec<u8> {
        let frame = Internal {
            event: names::EV_RESET,
            worker: self.worker,
            producer: self.producer,
            qp: self.poll_qp,
            flow: self.flow,
            head: self.head,
            word: self.consumer_tail,
            producer_tail: self.producer_tail,
            // PSNs lie in the upper 24 bits.
            psn: self.psn << 8,
            ..Internal::default()
        };
        elsewhere(frame, pipes, pipes::GROUP_ALL)
    }
}

/// Asks for a worker's phase, head and PSN (P4: `REPORT_STATE`).
pub fn query(worker: u16, pipes: Pipes) -> Vec<u8> {
    for_worker(names::EV_QUERY, worker, pipes)
}

/// Has a worker repeat the request that it waits for, or go on if the answers have come meanwhile.
pub fn retry(worker: u16, pipes: Pipes) -> Vec<u8> {
    for_worker(names::EV_RETRY, worker, pipes)
}

/// Has an idle worker write its last commit record, whatever its producers hold.
pub fn close(worker: u16, pipes: Pipes) -> Vec<u8> {
    for_worker(names::EV_CLOSE, worker, pipes)
}

/// A timer packet; its number says whom it is for (see [`super::ticks`]).
pub fn timer_packet(number: u16) -> Vec<u8> {
    Internal { event: names::EV_FANOUT, next: number, ..Internal::default() }.frame()
}

fn for_worker(event: u8, worker: u16, pipes: Pipes) -> Vec<u8> {
    let group = pipes::group_of(pipes.of_worker(worker));
    elsewhere(Internal { event, worker, ..Internal::default() }, pipes, group)
}

/// The packet comes in at the first pipe. Where there are several, it goes on to those of `group`.
fn elsewhere(frame: Internal, pipes: Pipes, group: u32) -> Vec<u8> {
    if !pipes.are_several() {
        return frame.frame();
    }
    Internal { event: frame.event | names::ELSEWHERE, hops: group as u16, ..frame }.frame()
}
