//! `zsr-switch`: the software switch for P4 programs of the v1model architecture, started as bmv2's `simple_switch_grpc` is.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod helpers;
mod metrics;
mod ports;
mod run;
mod trace;

use std::io::Write;
use std::process::ExitCode;

use args::{Args, Instead};
use clap::{CommandFactory, Parser};

fn main() -> ExitCode {
    let args = Args::parse();
    if args.man {
        return match clap_mangen::Man::new(Args::command()).section("8").render(&mut std::io::stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                say(format_args!("error: standard output: {e}"));
                ExitCode::FAILURE
            }
        };
    }
    for note in args.notes() {
        say(format_args!("note: {note}"));
    }
    let done = match &args.instead {
        Some(Instead::Trace(trace)) => trace::run(trace),
        None => run::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(run::Error::Usage(why)) => {
            say(format_args!("error: {why}"));
            ExitCode::from(2)
        }
        Err(run::Error::Failed(why)) => {
            say(format_args!("error: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// A line to standard error, which may be closed.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
