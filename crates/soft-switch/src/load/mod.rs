//! Reads the JSON that p4c wrote into typed form. Every error names its place; nothing unknown is skipped.

pub(crate) mod big;
pub(crate) mod expr;
pub(crate) mod layout;
pub(crate) mod node;
