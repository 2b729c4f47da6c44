//! End-to-end tests over several crates.
