//! Rings in a GPU's own memory, and the CUDA driver, which is loaded when it is first asked for. Nothing here needs a
//! GPU to be built or started.
//!
//! An agent [makes](GpuMemory::create) the memory of a ring and hands its descriptor to a program. The program
//! [maps](GpuMemory::import) the same memory for its kernels. Processors of neither follow its addresses: all they do
//! there are copies in the order of one stream.

mod calls;
mod copies;
mod driver;
mod gpu;
mod memory;

pub use driver::Driver;
pub use gpu::Gpu;
pub use memory::GpuMemory;

/// The driver's library on every Linux.
pub const LIBRARY: &str = "libcuda.so.1";

/// Where items begin in a ring's memory, behind the page of control words.
const ITEMS_OFFSET: usize = zsr_wire::ring::ITEMS as usize;
