//! State machine replication over an ordered replicate flow. Clients push commands, the switch orders them, and every
//! replica carries out the same commands in the same order. No replica leads, none votes, and no processor spends time
//! on agreement.
//!
//! A log `L` is two flows:
//!
//! - `L`, an ordered replicate: from all clients to all replicas. The items that a replica pops of it are the log.
//! - `L-answers`, a shuffle: from all replicas to all clients, and to a replica that comes back.
//!
//! A [`LogClient`] pushes a command and takes the first answer that comes. A [`Replica`] carries commands out in its
//! [`StateMachine`]. All calls of clients together are linearizable: a command has its place in the order between its
//! call and its answer. No replica answers before it has carried out all that is in front of the command.
//!
//! A replica that dies is taken out of both flows (policy `drop-member`), and the others go on. A program that comes
//! back in its place ([`Log::rejoin`]) joins both flows again and pushes a *marker* into the log, which names another
//! replica. The named replica sends its state as it is just at the marker. The returning replica keeps what comes
//! behind the marker until it has that state.
//!
//! ```no_run
#![doc = include_str!("../examples/counter.rs")]
//! ```

#![forbid(unsafe_code)]

mod client;
mod error;
mod message;
mod rejoin;
mod replica;
mod setup;

pub use client::LogClient;
pub use error::LogError;
pub use replica::{Replica, Step};
pub use setup::{Log, Party};

/// The state that replicas keep. Two states that begin alike and carry out the same commands are alike: a command may
/// look at nothing but itself and the state.
pub trait StateMachine {
    /// Carries out a command, and says what its client is told: at most [`Log::MAX_MESSAGE`] bytes, or the client gets an error.
    fn apply(&mut self, command: &[u8]) -> Vec<u8>;

    /// The whole state, for a replica that comes back.
    fn snapshot(&self) -> Vec<u8>;

    /// Becomes what [`snapshot`](Self::snapshot) of another replica has said.
    ///
    /// # Errors
    /// Why these bytes are no state, for people.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), String>;
}
