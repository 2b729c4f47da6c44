//! Gives the same controls and packets to our switch and to bmv2's `simple_switch_grpc`, and compares what comes out.
//!
//! tests/bmv2/run runs it; see there.

mod cause;
mod compare;
mod corpus;
mod hosts;
mod known;
mod peer;
mod program;
mod random;
mod script;
mod session;
mod stf;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Our own program, with transfers of every kind of flow.
    Program {
        /// Seed of what is pushed, popped, lost and damaged.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// A file for bmv2's log.
        #[arg(long)]
        log: Option<PathBuf>,
    },
    /// Programs of a folder: NAME.json, NAME.p4info.txtpb, and where there is one NAME.stf.
    Corpus {
        /// The folder.
        folder: PathBuf,
        /// Only programs whose name contains this.
        #[arg(long)]
        only: Option<String>,
        /// Seed of random entries and packets.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Random packets per program and round.
        #[arg(long, default_value_t = 30)]
        packets: usize,
        /// Show differences too that docs/bmv2-differences.md explains.
        #[arg(long)]
        verbose: bool,
        /// A file for bmv2's log.
        #[arg(long)]
        log: Option<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match zsr_bmv2::find_binary() {
        Err(e) => Err(e.to_string()),
        Ok(binary) => match Arguments::parse().command {
            Command::Program { seed, log } => program::run(&binary, seed, log.as_deref()).await,
            Command::Corpus { folder, only, seed, packets, verbose, log } => {
                let plan = corpus::Plan {
                    folder: &folder,
                    binary: &binary,
                    only: only.as_deref(),
                    seed,
                    packets,
                    verbose,
                    log: log.as_deref(),
                };
                corpus::run(&plan).await
            }
        },
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
