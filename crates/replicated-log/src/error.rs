//! The errors that users of a log get when they can't go on.

use std::time::Duration;

use zsr::{ClientError, ProgramError};

/// A command could not be carried out, or a replica can't go on.
#[allow(missing_docs, reason = "messages say what their fields are")]
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// An error of one of the log's two flows.
    #[error(transparent)]
    Flow(#[from] ProgramError),
    /// The controller.
    #[error(transparent)]
    Controller(#[from] ClientError),
    /// Nobody has answered. The command is in the log or will be, and may be carried out yet.
    #[error(
        "log `{log}`: no replica has answered within {} ms; the command may be carried out all the same: see `zsr flow list {log}` for who is there",
        .after.as_millis()
    )]
    NoAnswer { log: String, after: Duration },
    /// The log has ended for this client.
    #[error("log `{log}`: all replicas have left, so nobody answers")]
    NobodyLeft { log: String },
    /// A command or an answer is too long.
    #[error("log `{log}`: {what} has {bytes} B, and the log's items carry at most {most}")]
    TooLong { log: String, what: &'static str, bytes: usize, most: usize },
    /// A replica was begun where another has been before.
    #[error(
        "log `{log}`: replica `{replica}` can't begin with an empty state: {why}. Start it with rejoin, so that another replica sends it the state"
    )]
    NotTheFirst { log: String, replica: String, why: &'static str },
    /// A replica that comes back finds nobody who has the state.
    #[error(
        "log `{log}`: no other replica has sent its state ({asked}): with none that has it, the log's state is lost"
    )]
    NoState { log: String, asked: String },
    /// A replica sends a state that the state machine does not take.
    #[error("log `{log}`: the state that replica `{from}` has sent can't be used: {why}")]
    BadState { log: String, from: String, why: String },
    /// Something in the flows is not the log's.
    #[error(
        "log `{log}`: flow `{flow}` carries something that is not of a log ({bytes} B): a program that does not use this library pushes into it"
    )]
    Foreign { log: String, flow: String, bytes: usize },
}
