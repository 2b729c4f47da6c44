//! `zsr barrier`.

use super::client::ClientError;
use super::contact::Contact;
use super::live_args::BarrierArgs;
use super::{FAILED, OK, USAGE, complain};
use crate::program::{ProgramError, barrier};
use tonic::Code;

/// Waits until all are there.
pub(super) fn wait(args: &BarrierArgs) -> u8 {
    let waited = Contact::of(&args.contact)
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
