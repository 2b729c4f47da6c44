//! A plan: which table entries, multicast groups and numbers the switch's program needs for hosts and flows. No I/O.
//!
//! [`p4`] is the compiled program: its artifacts, its names as types, and how entries are made of them. [`dataplane`]
//! makes the entries of flows.

#![forbid(unsafe_code)]

pub mod dataplane;
pub mod draft;
pub mod error;
pub mod from_topology;
pub mod inventory;
pub mod loss_law;
pub mod members;
pub mod messages;
pub mod p4;
pub mod placement;
pub mod refusals;
pub mod requests;
pub mod round_trips;
pub mod settings;
pub mod share_law;
pub mod state;
pub mod surroundings;
