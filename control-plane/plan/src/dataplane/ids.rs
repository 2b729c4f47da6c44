//! Numbers in the data plane: workers, producers, connections, groups.

use super::admin::Reset;
use zsr_link::Rng;

const PSN_BITS: u32 = 0xff_ffff;
/// Where the number of a pipe begins in a queue pair number, and in a doorbell's secret (P4: `m.steer`).
const PIPE_OF_QPN: u32 = 22;
const PIPE_OF_SECRET: u32 = 30;
/// First multicast group of replicate flows; each has two, the second one for polls.
pub const FIRST_FLOW_GROUP: u16 = 0x1000;

/// A queue pair's end at the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qp {
    /// Index of the queue pair's connection in tables and counters.
    pub index: u16,
    /// Queue pair number that the peer sends to, 24 bits.
    pub qpn: u32,
    /// First PSN in both directions, 24 bits.
    pub psn: u32,
}

impl Qp {
    /// The same queue pair with another first PSN.
    #[must_use]
    pub fn from_psn(self, psn: u32) -> Qp {
        Qp { psn, ..self }
    }

    /// The same queue pair in a pipe: packets to it go there.
    #[must_use]
    pub fn in_pipe(self, pipe: u32) -> Qp {
        Qp { qpn: pipe << PIPE_OF_QPN | self.qpn, ..self }
    }
}

/// A ring's numbers in the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingIds {
    /// Number among the producer rings, or the worker's for a consumer ring; from 1.
    pub id: u16,
    /// The worker that drains or fills the ring; one of them, where a producer ring has several (load balance).
    pub worker: u16,
    /// Whether the switch reads items from the ring.
    pub is_producer: bool,
    /// Place among the consumers of a replicate flow, else 0.
    pub member: u8,
    /// Items, tail words, commit records.
    pub data: Qp,
    /// Polls.
    pub poll: Qp,
    /// The secret at the beginning of a producer ring's doorbells.
    pub secret: u32,
}

impl RingIds {
    /// Initial values of the switch's registers for a ring. Both counters of the ring are at `start` bytes, and both
    /// connections have one first PSN. For a consumer ring the values of its worker are included.
    pub fn reset(&self, start: u32) -> Reset {
        let poll = Reset { head: start, producer_tail: start, ..self.reset_poll(start) };
        match self.is_producer {
            true => Reset { producer: self.id, ..poll },
            false => Reset { worker: self.worker, ..poll },
        }
    }

    /// Initial values for the ring's poll connection alone, for a consumer ring whose worker runs already.
    pub fn reset_poll(&self, start: u32) -> Reset {
        Reset { poll_qp: self.poll.index, consumer_tail: start, psn: self.poll.psn, ..Default::default() }
    }
}

/// A random number of the operating system, for a ring's doorbell.
pub fn secret() -> u32 {
    // Fails only where the kernel has no generator, and there is no safe way to go on.
    getrandom::u32().expect("the system's generator of random numbers")
}

/// A doorbell's secret within a pipe: datagrams that begin with the secret go to that pipe.
pub fn secret_in_pipe(secret: u32, pipe: u32) -> u32 {
    pipe << PIPE_OF_SECRET | secret & !(u32::MAX << PIPE_OF_SECRET)
}

/// The source of first PSNs and of doorbells' secrets.
#[derive(Clone, Debug, Default)]
pub enum Chance {
    /// Random numbers that nobody can guess.
    #[default]
    Secret,
    /// A seed, so that a run can be repeated.
    Seeded(Rng),
}

impl Chance {
    /// A secret for a ring's doorbell.
    pub fn secret(&mut self) -> u32 {
        match self {
            Chance::Secret => secret(),
            Chance::Seeded(rng) => rng.bits() as u32,
        }
    }

    /// A first PSN, 24 bits.
    pub fn psn(&mut self) -> u32 {
        self.secret() & PSN_BITS
    }
}

/// A connection's queue pair at the switch, with first PSN 0. `generation` keeps its number apart from numbers of an
/// earlier controller.
pub fn qp(index: u16, generation: u8) -> Qp {
    // Queue pair number 0 is never used.
    Qp { index, qpn: u32::from(generation.max(1)) << 16 | u32::from(index), psn: 0 }
}
