//! Programs at flows of this process.

mod examples;
mod testing;
