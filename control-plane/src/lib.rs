//! Controller library, state store and the zsr command line.

pub mod p4;
pub mod plan;
pub mod topology;
pub mod workload;
