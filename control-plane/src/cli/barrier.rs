//! `zsr barrier`.

use super::client::ClientError;
use super::live_args::BarrierArgs;
use super::{FAILED, OK, USAGE, complain};
use crate::process::Place;
use crate::program::{ProgramError, barrier};
use tonic::Code;

/// Waits until all are there.
pub(super) fn wait(args: &BarrierArgs) -> u8 {
    let waited = Place::find(args.system.system.as_deref())
        .map_err(ProgramError::from)
        .and_then(|place| barrier(&place, &args.name, args.participants, args.timeout));
    match waited {
        Ok(()) => OK,
        Err(e) => {
            complain(format_args!("error: {e}"));
            match e {
                ProgramError::Controller(ClientError::Refused { code: Code::InvalidArgument, .. }) => USAGE,
                _ => FAILED,
            }
        }
    }
}
