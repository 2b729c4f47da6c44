//! Links between nodes. A link has two ends, each a [`Port`]; wrappers of a port are ports themselves, so capture,
//! counting and faults stack.

mod memory;
mod port;

pub use memory::{MemoryPort, memory_link};
pub use port::Port;
