//! `zsr run`: the whole system in one process.

use crate::job;
use crate::options::RunOptions;
use crate::report::{Outcome, progress, to_json, to_text};
use zsr_system::process::Log;
use zsr_topology::Topology;
use zsr_workload::Control;

use super::args::RunArgs;
use super::{FAILED, USAGE, complain, print};

/// Loads the topology, applies the options, runs, reports.
pub(super) fn run(args: &RunArgs) -> u8 {
    let mut topology = match Topology::load(&args.topology) {
        Ok(topology) => topology,
        Err(errors) => {
            complain(&errors);
            return USAGE;
        }
    };
    if let Err(errors) = topology.apply(&args.overrides()) {
        for error in errors {
            complain(format_args!("error: {error}"));
        }
        return USAGE;
    }
    let control = Control::default();
    if let Err(e) = catch_signals(&control) {
        complain(format_args!("error: cannot catch Ctrl-C: {e}"));
        return FAILED;
    }
    Log::default().start();
    let options = RunOptions {
        artifacts: args.artifacts.clone(),
        pcap: args.pcap.clone(),
        output: args.output.clone(),
        force: args.force,
    };
    let mut progress = progress(args.quiet);
    let result = job::run(&topology, &options, &control, progress.as_mut());
    // The bar is gone before anything is printed.
    drop(progress);
    match result {
        Ok(report) => {
            let moved = report.flows.iter().any(|f| f.verification.delivered.items > 0);
            if let Outcome::Failed(why) = &report.outcome
                && (args.json || !moved)
            {
                complain(format_args!("error: {why}"));
            }
            // A table of zeros would only hide the message.
            if args.json {
                print(&(to_json(&report) + "\n"));
            } else if moved || !matches!(report.outcome, Outcome::Failed(_)) {
                print(&to_text(&report, args.wide.room()));
            }
            report.exit_code()
        }
        Err(e) => {
            complain(format_args!("error: {e}"));
            if e.is_usage() { USAGE } else { FAILED }
        }
    }
}

/// The first signal stops producers, the second one everything.
fn catch_signals(control: &Control) -> Result<(), ctrlc::Error> {
    let control = control.clone();
    ctrlc::set_handler(move || {
        if control.stop.is_cancelled() {
            control.cancel.cancel();
        } else {
            control.stop.cancel();
            complain("stopping: what was pushed so far is still delivered; once more to stop at once");
        }
    })
}
