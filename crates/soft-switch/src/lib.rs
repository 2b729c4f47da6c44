//! Runs v1model programs that p4c compiled to bmv2 JSON, and serves P4Runtime. Knows nothing of RDMA.

mod compile;
pub mod control;
mod error;
mod exec;
mod handle;
mod image;
mod info;
mod load;
mod meter;
mod op;
pub mod p4runtime;
mod profile;
mod program;
mod switch;
mod table;

pub use control::*;
pub use error::{ControlError, LoadError};
pub use exec::hash::CrcParams;
pub use handle::{CallFuture, ControlQueue, SwitchHandle, SwitchStopped, control_queue};
pub use info::*;
pub use program::Program;
pub use switch::{PortStats, Recirculation, Stats, Switch, SwitchConfig, TimerId, TimerPort};
