//! The switch's P4 program as p4c compiled it, for whoever loads it.

pub mod sources;

/// The program for bmv2, JSON.
pub const JSON: &[u8] = include_bytes!("../artifacts/zsr-v1model.json");
/// The program's P4Info, protobuf text.
pub const P4INFO: &[u8] = include_bytes!("../artifacts/zsr-v1model.p4info.txtpb");
/// Hashes of the sources that it was compiled from, and of both files.
pub const MANIFEST: &[u8] = include_bytes!("../artifacts/zsr-v1model.manifest.json");
/// The hash of the sources that are beside it, as the manifest has it.
pub const SOURCES_SHA256: &str = env!("ZSR_P4_SOURCES_SHA256");
