//! The link to the switch: its session, how it is lost and found, and what is read back.

pub(crate) mod reconcile;
pub(crate) mod reconnect;
pub(crate) mod session;
pub(crate) mod standby;
