//! Links between nodes: in-memory queues, links of the system's, wrappers for capture, counting and faults, and the
//! loop that drives a node over its links.
//!
//! A [`Port`] is one end of a link. Nothing blocks and nothing reads a clock: the caller says what time it is, and
//! brings the pool that buffers come from and go back to. Wrappers are ports too, so they stack:
//!
//! ```text
//! Faulty<Counted<Capture<MemoryPort>>>
//! ```
//!
//! [`PortLoop`] drives a [`Node`], which is a switch or a NIC, over any number of ports; see docs/links.md.

mod across;
mod capture;
mod cores;
mod counted;
mod error;
mod faults;
mod faulty;
mod holding;
mod interface;
mod memif;
mod memory;
mod mmsg;
mod node;
mod outbox;
mod paced;
mod packet;
mod pcap;
mod pcapng;
mod poller;
mod port;
mod port_loop;
mod ports;
mod queued;
mod socket_file;
mod tap;
mod unix;
mod wake;
mod xdp;

pub use across::{LoopPort, loop_link};
pub use capture::Capture;
pub use counted::{Counted, PortStats};
pub use error::LinkError;
pub use faults::{FaultError, FaultRates, FaultStats, Faults, Verdict};
pub use faulty::Faulty;
pub use memif::MemifPort;
pub use memory::{MemoryPort, memory_link, thread_link};
pub use node::Node;
pub use paced::{Pace, Paced};
pub use packet::PacketPort;
pub use pcap::{CaptureError, PcapSink, PcapSummary};
pub use pcapng::{PcapngInterface, PcapngPacket, PcapngStatistics, PcapngWriter};
pub use port::{Port, SendError};
pub use port_loop::{LoopConfig, LoopEnd, LoopHandle, LoopStats, LoopThread, PortLoop};
pub use ports::{AnyPort, PortReport, TroubleFn};
pub use queued::{QueueSettings, Queued};
pub use tap::{Direction, TapFrame, TapPoint, TapReader, TapRecord, Tapped};
pub use unix::UnixPort;
pub use wake::Waker;
pub use xdp::XdpPort;

pub use zsr_random::SplitMix64 as Rng;
