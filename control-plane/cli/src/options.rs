//! Options of a run beside its topology.

use std::path::PathBuf;

/// Options of a run that are no part of the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Folder with the compiled program, instead of the switch's own or the built-in one.
    pub artifacts: Option<PathBuf>,
    /// Folder for one capture per link.
    pub pcap: Option<PathBuf>,
    /// Folder for one file per consumer ring.
    pub output: Option<PathBuf>,
    /// Overwrite output files that exist.
    pub force: bool,
}
