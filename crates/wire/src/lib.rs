//! RoCEv2 packets, ICRC and the ring ABI. No I/O, no allocation on the packet path.

pub mod frame;

pub use frame::{Frame, FramePool};
