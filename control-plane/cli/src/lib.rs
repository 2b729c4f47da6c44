//! The `zsr` command line.
//!
//! Exit codes are [`OK`], [`FAILED`] and [`USAGE`], and nothing else.
//! Results go to standard output, everything else to standard error.

#![forbid(unsafe_code)]

mod args;
mod barrier;
mod ca;
mod check;
mod closed;
mod dash;
mod doors;
mod events;
mod figures;
mod flow;
pub mod job;
mod json;
mod live_args;
mod measure;
mod measure_args;
#[doc(hidden)]
pub mod metrics;
pub mod options;
mod pcap;
mod reference;
pub mod report;
mod restart;
mod run;
mod settings;
mod sql;
mod stream;
mod system;
mod tables;
mod top;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory, Parser};

use zsr_system::process::Role;

pub use args::{Args, Command, RunArgs};
pub use closed::note_closed_streams;
pub use reference::reference;

/// All went well.
pub const OK: u8 = 0;
/// Something failed, or was refused.
pub const FAILED: u8 = 1;
/// The command line, a value in it, or the topology is wrong.
pub const USAGE: u8 = 2;

/// Whether a result could not be written, and somebody may wait for it.
static LOST: AtomicBool = AtomicBool::new(false);

/// Runs the command line `args` (the program's name first) and returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    match execute(args) {
        OK if LOST.load(Ordering::Relaxed) => FAILED,
        code => code,
    }
}

fn execute(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(e) => {
            let code = match e.kind() {
                clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion => OK,
                _ => USAGE,
            };
            // clap prints help to standard output and errors to standard error; either may be closed.
            let _ = e.print();
            return code;
        }
    };
    match args.command {
        Command::Run(run) => run::run(&run),
        Command::Check(check) => check::check(&check),
        Command::Up(up) => system::up(&up),
        Command::Down(down) => system::down(&down),
        Command::Restart(args) => restart::restart(&args),
        Command::Status(status) => system::status(&status),
        Command::Flow(args) => flow::flow(&args),
        Command::Ring(args) => flow::ring(&args),
        Command::Events(args) => events::events(&args),
        Command::Top(args) => top::top(&args),
        Command::Metrics(args) => metrics::metrics(&args),
        Command::Dash(args) => dash::dash(&args),
        Command::Pcap(args) => pcap::pcap(&args),
        Command::Produce(args) => stream::produce(&args),
        Command::Consume(args) => stream::consume(&args),
        Command::Bw(args) => measure::bw(&args),
        Command::Lat(args) => measure::lat(&args),
        Command::Barrier(args) => barrier::wait(&args),
        Command::Sql(args) => sql::sql(&args),
        Command::Switch(args) => {
            let role = args.standby.map_or(Role::Switch, |name| Role::Standby { name });
            system::role(&args.role, role, None)
        }
        Command::Agent(args) => {
            system::role(&args.role, Role::Agent { host: args.host.clone(), listen: args.listen }, None)
        }
        Command::Controller(args) => system::controller(&args),
        Command::Ca(args) => ca::ca(&args),
        Command::Completion(args) => {
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Args::command(), "zsr", &mut script);
            print(&String::from_utf8_lossy(&script));
            OK
        }
        Command::Reference { man: None } => {
            print(&reference());
            OK
        }
        Command::Reference { man: Some(folder) } => {
            match clap_mangen::generate_to(Args::command(), &folder) {
                Ok(()) => OK,
                Err(e) => {
                    complain(format_args!("error: {}: {e}", folder.display()));
                    FAILED
                }
            }
        }
    }
}

/// Prints a result. A reader that has gone away is no error: `zsr run ... | head` ends quietly.
fn print(text: &str) {
    let _ = try_print(text);
}

/// Prints a part of a result that goes on, unless the reader has gone away. A full disk is reported, and makes the
/// command fail.
fn try_print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(e) = &printed
        && e.kind() != ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        complain(format_args!("error: standard output: {e}"));
    }
    printed
}

/// Prints a message.
fn complain(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
