//! Adapts flows to how they move: timeouts, limits, how often workers tick.

pub(crate) mod losses;
pub(crate) mod shares;
pub(crate) mod tick_rate;
pub(crate) mod timeouts;
