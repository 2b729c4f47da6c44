//! `zsr events`.

use super::live_args::EventsArgs;
use super::{FAILED, OK, complain, json, tables, try_print};
use rustix::event::{PollFd, PollFlags, poll};
use zsr::ClientError;

/// Prints events so far, and with --follow later ones.
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
    let session = args.contact.open()?;
    if args.follow {
        end_with_the_reader();
    }
    for event in session.events(Some(args.after), args.follow)? {
        let event = event?;
        let line = if args.json.json { json::one(&json::event(&event)) } else { tables::event(&event) };
        if try_print(&line).is_err() {
            break;
        }
    }
    Ok(())
}

/// Ends the process when nobody reads standard output any more, which a write would notice only with the next event.
fn end_with_the_reader() {
    std::thread::spawn(|| {
        let out = rustix::stdio::stdout();
        // No event is asked for: an error, as of a pipe without a reader, ends the wait all the same.
        let mut closed = [PollFd::new(&out, PollFlags::empty())];
        while poll(&mut closed, None) == Err(rustix::io::Errno::INTR) {}
        std::process::exit(OK.into());
    });
}
