//! Programs at flows of this process.

mod testing;
