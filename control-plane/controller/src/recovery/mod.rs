//! From a journal and a switch to flows that go on.

pub(crate) mod resume;
pub(crate) mod start;
pub(crate) mod unfinished;
