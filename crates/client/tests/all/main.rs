//! Programs at flows of this process.

mod examples;
mod streams;
mod testing;
