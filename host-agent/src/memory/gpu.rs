//! Rings of a GPU's kernels: in host memory, or in the GPU's own. The CUDA driver is loaded when such a ring is first asked for.

use std::path::Path;
use std::sync::Arc;

use zsr_cuda::{Driver, Gpu, GpuMemory};
use zsr_ring::ByteOrder;
use zsr_ring::memory::{HostMemory, Memory, SharedMemory};

use super::MemoryBackend;

/// Host memory which the program at the ring pins and maps for its GPU (`cuMemHostRegister`). A mapping for a device
/// belongs to the process that made it. The agent makes sure that there is such a GPU.
pub(super) struct PinnedLater {
    shared: bool,
}

impl PinnedLater {
    /// `cuda` is the driver's library.
    pub(super) fn open(cuda: &Path, number: u32, shared: bool) -> Result<PinnedLater, String> {
        Driver::load(cuda)?.has(number)?;
        Ok(PinnedLater { shared })
    }
}

impl MemoryBackend for PinnedLater {
    fn allocate(&self, bytes: usize, order: ByteOrder) -> Result<Arc<dyn Memory>, String> {
        Ok(if self.shared {
            Arc::new(SharedMemory::create(bytes, order).map_err(|e| e.to_string())?)
        } else {
            Arc::new(HostMemory::with_order(bytes, order).map_err(|e| e.to_string())?)
        })
    }
}

/// A GPU's own memory, which the soft NIC reaches by copies.
pub(super) struct Own(Arc<Gpu>);

impl Own {
    /// `cuda` is the driver's library.
    pub(super) fn open(cuda: &Path, number: u32) -> Result<Own, String> {
        Gpu::open(cuda, number).map(Own)
    }
}

impl MemoryBackend for Own {
    fn allocate(&self, bytes: usize, order: ByteOrder) -> Result<Arc<dyn Memory>, String> {
        Ok(Arc::new(GpuMemory::create(&self.0, bytes, order)?))
    }
}
