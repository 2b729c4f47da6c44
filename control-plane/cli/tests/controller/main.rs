//! The controller over its service, with switch, NICs and agents behind it.

mod changes;
mod crowd;
mod deaths;
mod elsewhere;
mod kinds;
mod lanes;
mod moves;
mod refusals;
mod rig;
mod rights;
mod rules;
mod session;
mod starts;
mod stats;
mod together;
mod unwritten;
mod vlans;
