//! What the controller keeps.

pub mod journal;
pub mod store;
