//! Runs compiled programs.

pub(crate) mod core;
pub(crate) mod hash;
pub(crate) mod headers;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod wide;
