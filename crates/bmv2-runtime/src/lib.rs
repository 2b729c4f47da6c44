//! bmv2's runtime interface at a running [`Switch`](zsr_soft_switch::Switch): the commands of `simple_switch_CLI`.
//!
//! ```text
//!  simple_switch_CLI ──Thrift──► server ─► calls ──┐
//!                                                  ├─► Session (tables, profiles, cells, multicast) ─► Switch
//!  a file of commands ───text──► words ────────────┘
//! ```
//!
//! A [`Session`] has the operations, by the names and handles of bmv2. [`serve`] answers Thrift's binary protocol as
//! bmv2 does: services `standard`, `simple_pre`, `simple_pre_lag` and `simple_switch` on one port. [`run_word`] carries
//! out one line of text.
//!
//! What differs from bmv2:
//! - A call for something that the switch lacks is an application error with a sentence, and never a silent success.
//! - Two copies with the same port and `rid` in one multicast group are refused.
//! - Groups that a P4Runtime controller made can't be changed here.

mod args;
mod calls;
mod cells;
mod error;
mod host;
mod multicast;
mod profiles;
mod server;
mod session;
mod tables;
mod value;
mod words;

pub use error::Error;
pub use host::{Host, PortInfo, QueueChange};
pub use server::{Served, serve};
pub use session::{Session, State};
pub use words::run_word;
