//! Watchers that run while flows move: agents, links, members, and whether flows move at all.

pub(crate) mod doubts;
pub(crate) mod failure_detector;
pub(crate) mod foreign_frames;
pub(crate) mod link_faults;
pub(crate) mod nic_refusals;
pub(crate) mod polls;
pub(crate) mod stall;
pub(crate) mod watch;
