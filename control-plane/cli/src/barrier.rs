//! `zsr barrier`.

use super::live_args::BarrierArgs;
use super::{FAILED, OK, USAGE, complain};
use tonic::Code;
use zsr::{ClientError, ProgramError, barrier};

/// Waits until all are there.
pub(super) fn wait(args: &BarrierArgs) -> u8 {
    let waited = args
        .contact
        .find()
        .map_err(ProgramError::from)
        .and_then(|contact| barrier(&contact, &args.name, args.participants, args.timeout));
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
