//! The generated code, one module per protobuf package; the docs are the comments in proto/.

#![allow(missing_docs, clippy::all, clippy::pedantic)]

include!("generated/packages.rs");
