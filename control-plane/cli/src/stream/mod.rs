//! `zsr produce` and `zsr consume`: a program at a flow's rings, from standard input and to standard output.

mod consume;
mod input;
mod produce;
mod screen;

use super::live_args::StreamArgs;
use super::{FAILED, OK, USAGE, complain};
use std::time::Duration;
use zsr::{ClientError, Contact, ProgramError, Session};
use zsr_api::controller as proto;
use zsr_records::rows::Style;
use zsr_ring::Cancel;
use zsr_ring::segment::SegmentPushError;

pub(super) use consume::consume;
pub(super) use produce::produce;

/// Bytes that are read or written at once.
const CHUNK: usize = 64 << 10;
/// How long a program that wants to leave waits for what it has pushed, when nothing of it moves.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reasons for which a stream ends early.
enum Stop {
    /// The command or the flow does not allow it.
    Usage(String),
    /// The input is not what the flow takes; flow and rings are well.
    Input(String),
    /// The output can't be written; flow and rings are well.
    Output(String),
    /// Something failed.
    Failed(String),
    /// An operation failed, and the error was reported at that time.
    Told,
    /// A signal, or a reader that has gone away.
    Quietly,
}

impl From<ClientError> for Stop {
    fn from(e: ClientError) -> Self {
        Stop::Failed(e.to_string())
    }
}

impl From<ProgramError> for Stop {
    fn from(e: ProgramError) -> Self {
        match e {
            e if e.is_cancelled() => Stop::Quietly,
            ProgramError::NoMember { .. } | ProgramError::Records(_) | ProgramError::Tuples { .. } => {
                Stop::Usage(e.to_string())
            }
            ProgramError::Route(_) | ProgramError::Push(SegmentPushError::RecordTooLong { .. }) => {
                Stop::Input(e.to_string())
            }
            e => failed(e),
        }
    }
}

fn failed(e: impl std::fmt::Display) -> Stop {
    Stop::Failed(e.to_string())
}

fn exit(result: Result<(), Stop>) -> u8 {
    match result {
        Ok(()) | Err(Stop::Quietly) => OK,
        Err(Stop::Told) => FAILED,
        Err(Stop::Usage(why)) => {
            complain(format_args!("error: {why}"));
            USAGE
        }
        Err(Stop::Input(why) | Stop::Output(why) | Stop::Failed(why)) => {
            complain(format_args!("error: {why}"));
            FAILED
        }
    }
}

/// The first signal ends the stream in good order; the second one ends it without waiting.
fn cancelled_by_signals() -> Result<(Cancel, Cancel), Stop> {
    let (cancel, hurry) = (Cancel::new(), Cancel::new());
    let by_signal = (cancel.clone(), hurry.clone());
    let heard = move || if by_signal.0.is_cancelled() { by_signal.1.cancel() } else { by_signal.0.cancel() };
    ctrlc::set_handler(heard).map_err(failed)?;
    Ok((cancel, hurry))
}

impl StreamArgs {
    fn contact(&self) -> Result<Contact, Stop> {
        self.contact.find().map_err(failed)
    }

    fn style(&self) -> Style {
        Style { delimiter: self.delimiter, quoted: self.csv }
    }
}

fn find(args: &StreamArgs) -> Result<(Session, proto::Flow), Stop> {
    let session = Session::open(args.contact()?)?;
    let request = proto::GetFlowRequest { name: args.flow.clone() };
    let flow = session.call(|mut c| async move { c.get_flow(request).await })?;
    Ok((session, flow))
}
