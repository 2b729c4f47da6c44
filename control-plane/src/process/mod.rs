//! A system of processes on one machine: where its files are, what each process runs, how they are started and ended.
//!
//! ```text
//!  zsr up ─► zsr switch ── AF_UNIX datagrams, one frame each ── zsr agent (one per host: NIC, rings) ◄─ programs
//!         ─► zsr controller ── P4Runtime, gRPC ──► switch, agents       ◄── zsr flow, ring, events, top
//! ```
//! Nothing here knows flows or tables; the processes are the same code as inside `zsr run`.

mod down;
mod lock;
mod place;
mod roles;
mod up;

pub use down::{Down, down};
pub use lock::{Held, Lock};
pub use place::{Place, PlaceError};
pub use roles::{Role, RoleError, run};
pub use up::{UpError, create_flow_request, up};
