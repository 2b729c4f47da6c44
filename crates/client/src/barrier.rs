//! Programs of a system wait for one another.

use std::time::Duration;

use zsr_api::controller as proto;

use crate::contact::Contact;
use crate::error::ProgramError;
use crate::session::{ClientError, Session};

/// Waits until as many programs as `participants`, on any hosts of the system, wait at the barrier `name`.
///
/// # Errors
/// [`ProgramError`]: no system, `timeout` is over, others wait there for another number, the controller ends.
pub fn barrier(
    controller: impl Into<Contact>,
    name: &str,
    participants: u32,
    timeout: Option<Duration>,
) -> Result<(), ProgramError> {
    let session = Session::open(controller)?;
    let request = proto::BarrierRequest { name: name.to_owned(), participants };
    let met = session
        .call_within(timeout.unwrap_or(Duration::MAX), |mut c| async move { c.barrier(request).await });
    match met {
        Ok(_) => Ok(()),
        Err(ClientError::Late { after, .. }) => {
            Err(ProgramError::Alone { name: name.to_owned(), participants, after })
        }
        Err(e) => Err(e.into()),
    }
}
