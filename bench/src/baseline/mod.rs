//! Baselines of other systems over the same stand-ins for hardware: soft NICs, links and the software switch.
//!
//! A [`Cluster`](cluster::Cluster) is that hardware. A node's ends of a flow are an [`Ends`]: zsr's are
//! [`zsr::ZsrEnds`], those of DFI [`dfi::DfiEnds`]. [`floor::FloorEnds`] only copies, which every system has to do. A
//! [`Node`](pu::Node) is the program of a processing unit over any of them.

pub mod btree;
pub mod cluster;
pub mod counts;
pub mod dfi;
pub mod floor;
pub mod join;
mod memory;
pub mod mpi;
pub mod multicast;
pub mod pu;
pub mod run;
pub mod shuffles;
pub mod structures;
pub mod valgrind;
mod verbs;
pub mod virtual_time;
pub mod zsr;

/// Bytes of a ring, whoever made it, unless a flow says otherwise: DFI's 32 segments of 8 KiB.
pub const RING: usize = 256 << 10;
/// Bytes that are handed over at a time when a flow is to move much: a segment of DFI.
pub const BATCH: usize = 8 << 10;
/// Path MTU of all connections in bytes, unless a cluster is made with another.
pub const MTU: u32 = 4096;

/// The outcome of a look for tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// Tuples, which were handed out.
    Some,
    /// None yet.
    Nothing,
    /// The streams of all sources have ended.
    End,
}

/// A flow, as both systems have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each tuple goes to one node.
    Shuffle,
    /// Each tuple goes to all nodes.
    Replicate,
}

/// The hint of a flow: bandwidth or latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// When [`BATCH`] bytes are there: DFI's bandwidth-optimized flow.
    Bandwidth,
    /// Each at once: DFI's latency-optimized flow.
    Latency,
}

/// The sources and targets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// Every node is a source and a target.
    All,
    /// The first node is the target, all others are sources.
    ToFirst,
    /// The first node is the source, all others are targets.
    FromFirst,
}

/// Which flow a [`Cluster`](cluster::Cluster) is to carry.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The routing of tuples to targets.
    pub kind: Kind,
    /// When it leaves.
    pub hint: Hint,
    /// Bytes of a tuple, a power of two, 16 to 65536.
    pub tuple: usize,
    /// Bytes of each ring.
    pub ring: usize,
    /// The nodes that push and consume.
    pub members: Members,
    /// Between two looks of the switch at a ring that is empty, in microseconds.
    pub poll_us: u64,
    /// Rings of each of zsr's consumers in a shuffle, each of [`ring`](Self::ring) bytes and filled from some of the sources.
    pub lanes: usize,
}

impl Flow {
    /// A flow between all nodes, with rings of [`RING`] bytes.
    pub fn new(kind: Kind, hint: Hint, tuple: usize) -> Flow {
        Flow { kind, hint, tuple, ring: RING, members: Members::All, poll_us: cluster::TICK_US, lanes: 1 }
    }
}

/// A node's two ends of a flow. Nothing waits.
pub trait Ends: Send {
    /// Pushes a tuple to node `to`, or to all of a replicate flow, where `to` is 0. `false` if there is no room now.
    fn try_push(&mut self, to: usize, tuple: &[u8]) -> bool;

    /// Sends what is kept and ends the stream. `false` if it has to be called again.
    fn try_finish(&mut self) -> bool;

    /// Hands tuples that have come, side by side, to `sink`.
    fn consume(&mut self, sink: &mut impl FnMut(&[u8])) -> Took;
}
