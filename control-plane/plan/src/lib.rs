//! A plan: which table entries, multicast groups and numbers the switch's program needs for hosts and flows. No I/O.
//!
//! [`p4`] is the compiled program: its artifacts, its names as types, and how entries are made of them. [`dataplane`] makes the
//! entries of flows.

#![forbid(unsafe_code)]

pub mod dataplane;
pub mod p4;
