//! `zsr events`.

use super::live_args::EventsArgs;
use super::{FAILED, OK, complain, json, tables, try_print};
use zsr::{ClientError, Session};

/// Prints what has happened, and with --follow what happens.
pub(super) fn events(args: &EventsArgs) -> u8 {
    match stream(args) {
        Ok(()) => OK,
        Err(e) => {
            complain(format_args!("error: {e}"));
            FAILED
        }
    }
}

fn stream(args: &EventsArgs) -> Result<(), ClientError> {
    let session = Session::find(args.system.system.as_deref()).map(Session::telling)?;
    for event in session.events(Some(args.after), args.follow)? {
        let event = event?;
        let line = if args.json.json { json::one(&json::event(&event)) } else { tables::event(&event) };
        if try_print(&line).is_err() {
            break;
        }
    }
    Ok(())
}
