//! Controller library, state store and the zsr command line.

#![forbid(unsafe_code)]

pub mod bfrt;
pub mod capture;
pub mod cli;
pub mod controller;
pub mod dataplane;
pub mod job;
pub mod options;
pub mod p4;
pub mod process;
pub mod report;
pub mod run;
pub mod workload;
