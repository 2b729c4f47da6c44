//! A system of processes on one machine: the places of its files, the role of each process, how processes are started
//! and ended.
//!
//! ```text
//!  zsr up ─► zsr switch ── shared memory, one ring each way ── zsr agent (one per host: NIC, rings) ◄─ programs
//!         ─► zsr controller ── P4Runtime, gRPC ──► switch, agents       ◄── zsr flow, ring, events, top
//! ```
//! Nothing here knows flows or tables; the processes are the same code as inside `zsr run`.

mod agent;
mod alive;
mod captures;
mod cores;
mod down;
mod launch;
mod layout;
mod log;
mod netns;
mod ports;
mod restart;
mod roles;
mod signals;
mod switch;
mod troubles;
mod up;

pub use captures::{Answer, Capture, CaptureError, LinkName, Request, Stopper, ends};
pub use down::{Down, DownError, down};
pub use launch::Launch;
pub use layout::{read_layout, write_layout};
pub use log::{Filter, Format, Log, tell};
pub use netns::NetnsError;
pub use restart::{Recipe, RestartError};
pub use roles::{Role, RoleError, run};
pub use up::{Up, UpError, up};
