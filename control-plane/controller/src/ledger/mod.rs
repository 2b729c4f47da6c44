//! State that outlives the controller: the journal and its store.

pub mod journal;
pub mod store;
