//! The makers of rings' memory: one [`MemoryBackend`] for each kind of memory that a topology can name.

mod gpu;
mod laid_out;
mod pci;
mod sim;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use zsr_ring::layout::SMALLEST_ITEM;
use zsr_ring::memory::{HostMemory, Memory, MemoryError, MemoryKind, SharedMemory};
use zsr_ring::{ByteOrder, RingSpec, Role};

/// There is no such memory for a ring.
#[derive(Debug, thiserror::Error)]
pub enum MemoryRefusal {
    /// The host has no memory left.
    #[error(transparent)]
    Host(#[from] MemoryError),
    /// This machine can't give what was asked for.
    #[error("there is no memory `{kind}` for it on this machine: {reason}")]
    Device {
        /// The kind that was asked for.
        kind: MemoryKind,
        /// Why not, and what to do.
        reason: String,
    },
}

/// Makes memory of one kind.
pub trait MemoryBackend: Send + Sync {
    /// At least `bytes` zeroed bytes for control words in the given byte order. The memory is given back when the last
    /// reference to it is dropped. The agent keeps one as long as a program has a ring there. May block on the device.
    ///
    /// # Errors
    /// Why there is none, with device and sizes, and what to do.
    fn allocate(&self, bytes: usize, order: ByteOrder) -> Result<Arc<dyn Memory>, String>;
}

/// The memories of one machine, as an agent uses them.
pub struct Memories {
    shared: bool,
    devices: PathBuf,
    cuda: PathBuf,
    opened: Mutex<BTreeMap<String, Arc<dyn MemoryBackend>>>,
}

impl Memories {
    /// The memories of this machine. `shared`: programs in other processes can map host memory, too.
    pub fn of_this_machine(shared: bool) -> Self {
        Self::with(shared, "/sys/bus/pci/devices", zsr_cuda::LIBRARY)
    }

    /// As [`of_this_machine`](Self::of_this_machine), with PCI devices from another folder than sysfs's, and another CUDA driver: for tests.
    pub fn with(shared: bool, devices: impl Into<PathBuf>, cuda: impl Into<PathBuf>) -> Self {
        Self { shared, devices: devices.into(), cuda: cuda.into(), opened: Mutex::default() }
    }

    /// Zeroed memory for a ring. May block on a device.
    ///
    /// # Errors
    /// [`MemoryRefusal`].
    pub fn allocate(
        &self,
        kind: MemoryKind,
        bytes: usize,
        order: ByteOrder,
    ) -> Result<Arc<dyn Memory>, MemoryRefusal> {
        let refused = |reason| MemoryRefusal::Device { kind, reason };
        match kind {
            MemoryKind::Host | MemoryKind::Layouts => Ok(self.of_host(bytes, order)?),
            MemoryKind::FpgaSim => {
                // A verilated design is a process of its own.
                let memory = Arc::new(SharedMemory::create(bytes, order)?);
                Ok(Arc::new(sim::Simulated::before(memory).map_err(refused)?))
            }
            _ => self.backend(kind).and_then(|backend| backend.allocate(bytes, order)).map_err(refused),
        }
    }

    /// As [`allocate`](Self::allocate), for a ring of this shape.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn for_ring(
        &self,
        kind: MemoryKind,
        role: Role,
        spec: RingSpec,
    ) -> Result<Arc<dyn Memory>, MemoryRefusal> {
        let memory = self.allocate(kind, spec.memory_len(), spec.byte_order())?;
        Ok(match kind {
            // Items of a consumer that are too small for layouts are plain.
            MemoryKind::Layouts if role == Role::Consumer && spec.item_size() < SMALLEST_ITEM => memory,
            MemoryKind::Layouts => Arc::new(laid_out::LaidOut::over(memory, role, spec.item_size())),
            _ => memory,
        })
    }

    fn of_host(&self, bytes: usize, order: ByteOrder) -> Result<Arc<dyn Memory>, MemoryError> {
        Ok(if self.shared {
            Arc::new(SharedMemory::create(bytes, order)?)
        } else {
            Arc::new(HostMemory::with_order(bytes, order)?)
        })
    }

    /// The device's backend, opened when it is first asked for and kept from then on. An attempt that failed is
    /// repeated.
    fn backend(&self, kind: MemoryKind) -> Result<Arc<dyn MemoryBackend>, String> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let name = kind.to_string();
        if let Some(backend) = opened.get(&name) {
            return Ok(Arc::clone(backend));
        }
        let backend: Arc<dyn MemoryBackend> = match kind {
            MemoryKind::Pci(at) => pci::Bar::open(&self.devices, at)?,
            MemoryKind::GpuHost(number) => Arc::new(gpu::PinnedLater::open(&self.cuda, number, self.shared)?),
            MemoryKind::Gpu(number) => Arc::new(gpu::Own::open(&self.cuda, number)?),
            MemoryKind::Host | MemoryKind::Layouts | MemoryKind::FpgaSim => {
                return Err("it needs no device".to_owned());
            }
        };
        opened.insert(name, Arc::clone(&backend));
        Ok(backend)
    }
}
