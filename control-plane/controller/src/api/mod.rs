//! The interface to clients: the gRPC service, events, counters.

pub(crate) mod barriers;
pub(crate) mod counters;
pub(crate) mod drops;
pub(crate) mod events;
pub(crate) mod operations;
pub(crate) mod pending;
pub(crate) mod service;
