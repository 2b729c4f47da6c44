//! What a call says of itself.

use zsr::ErrorKind;

/// How a call went. What is below 0 is an error, with a text in zsr_last_error().
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum zsr_status {
    /// It is done.
    ZSR_OK = 0,
    /// No room, or no record, within the time given. Try again.
    ZSR_AGAIN = 1,
    /// The end of the stream: all producers have closed, and all is popped.
    ZSR_END = 2,
    /// An argument is null or makes no sense, or the call does not go with the calls before it.
    ZSR_ERROR_INVALID = -1,
    /// The program was compiled with a zsr.h that does not go with this library.
    ZSR_ERROR_ABI = -2,
    /// Another thread is in a call with this handle.
    ZSR_ERROR_BUSY = -3,
    /// The cancel of the handle was triggered.
    ZSR_ERROR_CANCELLED = -4,
    /// No such system, flow or member, or none on this machine.
    ZSR_ERROR_NOT_FOUND = -5,
    /// The controller, or a host's agent, does not answer or refuses.
    ZSR_ERROR_CONTROLLER = -6,
    /// The ring can't be had: another program is at it, or it was closed.
    ZSR_ERROR_RING = -7,
    /// The flow's records are not what the program takes them for.
    ZSR_ERROR_SCHEMA = -8,
    /// A record is too long, or has another size than the flow's, or the buffer for it is too small.
    ZSR_ERROR_SIZE = -9,
    /// The flow's routing, or the call, names no consumer that there is.
    ZSR_ERROR_ROUTE = -10,
    /// The flow has failed, ended or was deleted, or the member was taken out of it. The handle can only be ended.
    ZSR_ERROR_ENDED = -11,
    /// Records that were pushed before are lost with their consumer. The flow goes on: push the record of this call again.
    ZSR_ERROR_LOST = -12,
    /// What came is damaged or not in order. What can't be read was passed over. Popping may go on.
    ZSR_ERROR_DAMAGED = -13,
    /// A fault of the library itself. The handle can only be ended.
    ZSR_ERROR_INTERNAL = -14,
    /// A sum of whole numbers that 64 bits can't hold.
    ZSR_ERROR_SUM = -15,
    /// A stream was cancelled by its receiver, or given up by its sender. Other streams go on.
    ZSR_ERROR_STREAM = -16,
}

use zsr_status::*;

impl From<ErrorKind> for zsr_status {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound => ZSR_ERROR_NOT_FOUND,
            ErrorKind::Controller => ZSR_ERROR_CONTROLLER,
            ErrorKind::Ring => ZSR_ERROR_RING,
            ErrorKind::Schema => ZSR_ERROR_SCHEMA,
            ErrorKind::Size => ZSR_ERROR_SIZE,
            ErrorKind::Route => ZSR_ERROR_ROUTE,
            ErrorKind::Cancelled => ZSR_ERROR_CANCELLED,
            ErrorKind::Ended => ZSR_ERROR_ENDED,
            ErrorKind::Lost => ZSR_ERROR_LOST,
            ErrorKind::Damaged => ZSR_ERROR_DAMAGED,
            ErrorKind::Misuse => ZSR_ERROR_INVALID,
            ErrorKind::Alone => ZSR_AGAIN,
            ErrorKind::Stream => ZSR_ERROR_STREAM,
        }
    }
}
