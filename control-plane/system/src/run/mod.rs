//! `zsr run`: a whole system inside one process.

mod delays;
mod design;
mod ends;
pub mod error;
pub use zsr_fabric as fabric;
pub mod hosts;
pub mod in_hand;
pub mod system;
pub mod watch;

pub use delays::Delays;
pub use ends::End;
pub use error::RunError;
pub use system::System;
