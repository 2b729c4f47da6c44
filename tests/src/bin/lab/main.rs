//! Hosts and a switch of one topology in processes, namespaces or guests of their own, for the test groups `netns` and
//! `rxe`: every host's programs push numbered items and check what they pop, to the byte.
//!
//!     zsr-lab host   --topology T --host NAME --listen ADDR --items N (--link LINK | --verbs DEVICE)
//!     zsr-lab fabric --topology T --agent NAME=ADDR .. --port NAME=LINK .. [--loss P --seed S]
//!     zsr-lab program --socket S --ring R --item-size N (--push COUNT --number RING | --pop RING,..)
//!     zsr-lab interfaces A B
//!
//! LINK is if:INTERFACE or unix:LOCAL,PEER.

mod fabric;
mod host;
mod interfaces;
mod ports;
mod program;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use zsr_topology::Topology;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
    /// The topology; all processes must be given the same.
    #[arg(long, global = true, default_value = "topology.yaml")]
    topology: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// One host: its agent, its NIC, and a program per ring.
    Host(host::HostOptions),
    /// A program at one ring of a running agent.
    Program(program::ProgramOptions),
    /// The switch and its controller.
    Fabric(fabric::FabricOptions),
    /// Ports on interfaces, without a topology; needs root.
    Interfaces(interfaces::InterfaceOptions),
}

fn load(path: &Path) -> Result<Topology> {
    Topology::load(path).map_err(|e| e.to_string().into())
}

fn main() -> ExitCode {
    let options = Options::parse();
    let topology = || load(&options.topology);
    let done = match &options.command {
        Command::Host(host) => topology().and_then(|t| host::run(&t, host)),
        Command::Fabric(fabric) => topology().and_then(|t| fabric::run(&t, fabric)),
        Command::Program(program) => program::run(program),
        Command::Interfaces(interfaces) => interfaces::run(interfaces),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("zsr-lab: {e}");
            ExitCode::FAILURE
        }
    }
}
