//! The P4Runtime server over loopback, entity by entity and error by error, with a switch in a thread of its own.

mod arbitration;
mod counters;
mod errors;
mod packets;
mod pipelines;
mod profiles;
mod replication;
mod rig;
mod server;
mod tables;
