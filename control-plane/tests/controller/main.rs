//! The controller over its service, with switch, NICs and agents behind it.

mod changes;
mod crowd;
mod deaths;
mod kinds;
mod refusals;
mod rig;
mod starts;
mod vlans;
