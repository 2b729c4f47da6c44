//! The end-to-end tests in one program: it is linked once, and `cargo test -p zsr-tests NAME` runs a part.

mod congestion;
mod controlled;
mod delivery;
mod double_failures;
mod forged;
mod fuzz;
mod group_losses;
mod hostile;
mod idle;
mod kinds;
mod latency;
mod losses;
mod lossy;
mod members;
mod nonsense;
mod process;
mod repair;
mod sequencer;
mod shares;
mod tools;
mod vlan;
