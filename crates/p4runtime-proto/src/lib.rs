//! P4Runtime (p4.v1 and p4.config.v1, version 1.6): messages, service, and P4Info from files.
//!
//! The messages come from this crate's own .proto text, which is wire-compatible with the official
//! one; `tests/wire.rs` holds every field against the official descriptors.
//!
//! Where to look: [`p4::v1`] has entities, requests and the service (`p4_runtime_client`,
//! `p4_runtime_server`), [`p4::config::v1`] has P4Info, [`p4info`] reads and writes its files,
//! [`mod@text`] does the text format for any message, and [`google::rpc::Status`] is what
//! `grpc-status-details-bin` carries. [`Address`] is where a server listens, [`local()`] such a place
//! inside a process.

#![forbid(unsafe_code)]

mod address;
mod local;
pub mod p4info;
mod packages;
pub mod text;

pub use address::{Address, NoAddress};
pub use local::{Local, LocalListener, local};
pub use packages::{google, p4};

/// The newest P4Runtime version whose messages this crate has, as `Capabilities` reports versions.
pub const API_VERSION: &str = "1.6.0";

/// The encoded `google.protobuf.FileDescriptorSet` of all files, imports included, comments left out.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/descriptors.bin");
