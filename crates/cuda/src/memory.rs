//! The memory of one ring.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use zsr_ring::memory::{Bus, ByteOrder, GpuPart, Memory, MemoryKey, Visibility};

use crate::ITEMS_OFFSET;
use crate::calls::{
    Address, CAN_DMA_BUF, CAN_SERVE_NICS, DESCRIPTOR, DMA_BUF, Handle, ORDERED_FOR_OWNER, OUT_OF_MEMORY,
    Properties, Rights, SMALLEST, WRITES_ORDERING,
};
use crate::copies::Copies;
use crate::gpu::Gpu;

/// A ring's memory in a GPU. Its base is an address for that GPU's kernels: [`Visibility::Copied`].
pub struct GpuMemory {
    // Before the mapping, so that no copy is under way when that goes.
    copies: Copies,
    mapping: Mapping,
    base: NonNull<u8>,
    len: usize,
    file: OwnedFd,
    dma_buf: OnceLock<Result<OwnedFd, String>>,
    order: ByteOrder,
}

// SAFETY: `base` is a number for others, which nobody here follows; the rest may be used in any thread.
unsafe impl Send for GpuMemory {}
// SAFETY: as above, in several at once.
unsafe impl Sync for GpuMemory {}

impl GpuMemory {
    /// `bytes` zeroed bytes for control words in the given byte order, in steps of the GPU's pages (2 MiB, usually).
    /// Blocks on the GPU.
    ///
    /// # Errors
    /// The fault, with the GPU, sizes, and what to do.
    pub fn create(gpu: &Arc<Gpu>, bytes: usize, order: ByteOrder) -> Result<Self, String> {
        let properties = Properties::of(gpu.device, gpu.attribute(CAN_SERVE_NICS)? != 0);
        let mut step = 0;
        // SAFETY: the call reads the properties and writes one number.
        let code = unsafe { (gpu.calls.granularity)(&mut step, &properties, SMALLEST) };
        gpu.done("cuMemGetAllocationGranularity", code)?;
        let takes =
            bytes.checked_next_multiple_of(step.max(1)).ok_or_else(|| format!("{bytes} B is too much"))?;
        let mut handle = 0;
        // SAFETY: as above.
        let handle = match unsafe { (gpu.calls.create)(&mut handle, takes, &properties, 0) } {
            OUT_OF_MEMORY => return Err(too_much(gpu, bytes, takes)),
            code => gpu.done("cuMemCreate", code).map(|()| Allocation { gpu, handle })?,
        };
        // SAFETY: the call writes a descriptor.
        let file = unsafe {
            descriptor(gpu, "cuMemExportToShareableHandle", |fd| {
                (gpu.calls.export)(fd, handle.handle, DESCRIPTOR, 0)
            })
        }?;
        let memory = Self::over(handle, file, (bytes, takes), bytes, order)?;
        memory.copies.zero()?;
        Ok(memory)
    }

    /// Maps what another process has made, `bytes` bytes of an allocation of `part.mapped` bytes. Blocks on the GPU.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn import(
        gpu: &Arc<Gpu>,
        file: OwnedFd,
        part: GpuPart,
        bytes: usize,
        order: ByteOrder,
    ) -> Result<Self, String> {
        let takes = usize::try_from(part.mapped).ok().filter(|takes| *takes >= bytes);
        let takes = takes.ok_or_else(|| format!("{bytes} B of an allocation of {} B", part.mapped))?;
        let mut handle = 0;
        // A descriptor goes in place of a pointer.
        let descriptor = std::ptr::without_provenance_mut::<c_void>(file.as_raw_fd() as usize);
        // SAFETY: the call writes one number, and leaves the descriptor as it is.
        let code = unsafe { (gpu.calls.import)(&mut handle, descriptor, DESCRIPTOR) };
        gpu.done("cuMemImportFromShareableHandle", code)?;
        // Kernels are at the items; control words alone are set from here.
        Self::over(Allocation { gpu, handle }, file, (bytes, takes), ITEMS_OFFSET, order)
    }

    fn over(
        allocation: Allocation<'_>,
        file: OwnedFd,
        (len, takes): (usize, usize),
        copied: usize,
        order: ByteOrder,
    ) -> Result<Self, String> {
        let gpu = allocation.gpu;
        // The mapping keeps the memory from here on.
        let mapping = Mapping::of(&allocation, takes)?;
        let base = NonNull::new(std::ptr::without_provenance_mut(mapping.base as usize));
        let base = base.ok_or_else(|| format!("{gpu} has mapped address 0"))?;
        let copies = Copies::new(gpu, mapping.base, copied)?;
        Ok(Self { copies, mapping, base, len, file, dma_buf: OnceLock::new(), order })
    }

    /// A dma-buf of all of the memory, for an RDMA device.
    fn export(&self) -> Result<OwnedFd, String> {
        let Mapping { gpu, base, bytes, .. } = &self.mapping;
        if gpu.attribute(CAN_DMA_BUF)? == 0 {
            return Err(
                "its driver makes no dma-buf, which takes NVIDIA's open kernel modules and Linux 5.12"
                    .to_owned(),
            );
        }
        if gpu.attribute(WRITES_ORDERING)? < ORDERED_FOR_OWNER {
            return Err("its kernels may see what a NIC has written in another order".to_owned());
        }
        gpu.within(|calls| {
            // SAFETY: the call writes a descriptor of what is mapped.
            unsafe {
                descriptor(gpu, "cuMemGetHandleForAddressRange", |fd| {
                    (calls.range_handle)(fd, *base, *bytes, DMA_BUF, 0)
                })
            }
        })
    }
}

/// The descriptor that `call`, named `name`, writes.
///
/// # Safety
/// It writes one that nobody else closes.
unsafe fn descriptor(
    gpu: &Gpu,
    name: &str,
    call: impl FnOnce(*mut c_int) -> c_int,
) -> Result<OwnedFd, String> {
    let mut fd: c_int = -1;
    gpu.done(name, call(&mut fd))?;
    if fd < 0 {
        return Err(format!("{gpu} gives no descriptor of its memory"));
    }
    // SAFETY: a descriptor that the driver has made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn too_much(gpu: &Gpu, bytes: usize, takes: usize) -> String {
    let (mut free, mut total) = (0, 0);
    let asked = gpu.within(|calls| {
        // SAFETY: the call writes two numbers.
        gpu.done("cuMemGetInfo", unsafe { (calls.memory_free)(&mut free, &mut total) })
    });
    let has = match asked {
        Ok(()) => format!("{free} B of its {total} B are free"),
        Err(why) => why,
    };
    format!(
        "{gpu} has no memory left for {bytes} B, which take {takes} B of it: {has}; make rings smaller or fewer, or write `memory: gpu:{}:host`",
        gpu.number()
    )
}

/// A reference to an allocation.
struct Allocation<'g> {
    gpu: &'g Arc<Gpu>,
    handle: Handle,
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        // SAFETY: it was had once, and is given back once.
        let _ = unsafe { (self.gpu.calls.release)(self.handle) };
    }
}

/// Addresses, and the allocation behind them.
struct Mapping {
    gpu: Arc<Gpu>,
    base: Address,
    bytes: usize,
    is_mapped: bool,
}

impl Mapping {
    fn of(allocation: &Allocation<'_>, bytes: usize) -> Result<Self, String> {
        let (gpu, calls) = (allocation.gpu, &allocation.gpu.calls);
        let mut base = 0;
        // SAFETY: the call writes one address, of the driver's choice.
        gpu.done("cuMemAddressReserve", unsafe { (calls.reserve)(&mut base, bytes, 0, 0, 0) })?;
        let mut mapping = Self { gpu: Arc::clone(gpu), base, bytes, is_mapped: false };
        // SAFETY: addresses that were just reserved, as many as the allocation has bytes.
        gpu.done("cuMemMap", unsafe { (calls.map)(base, bytes, 0, allocation.handle, 0) })?;
        mapping.is_mapped = true;
        let rights = Rights::of(gpu.device);
        // SAFETY: what was just mapped.
        gpu.done("cuMemSetAccess", unsafe { (calls.set_access)(base, bytes, &rights, 1) })?;
        Ok(mapping)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: reserved, and mapped if it says so, by this object alone; nothing is under way there.
        unsafe {
            if self.is_mapped {
                let _ = (self.gpu.calls.unmap)(self.base, self.bytes);
            }
            let _ = (self.gpu.calls.unreserve)(self.base, self.bytes);
        }
    }
}

impl fmt::Debug for GpuMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuMemory")
            .field("where", &self.describe())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

// SAFETY: it is `Visibility::Copied` and has a bus: nobody here follows its base, an address of the GPU in pages of its own. It was
// zeroed by who made it, and stays until drop.
unsafe impl Memory for GpuMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn key(&self) -> Result<MemoryKey, String> {
        let dma_buf = self.dma_buf.get_or_init(|| self.export()).as_ref().map_err(Clone::clone)?;
        Ok(MemoryKey::DmaBuf { fd: dma_buf.as_raw_fd(), offset: 0 })
    }

    fn byte_order(&self) -> ByteOrder {
        self.order
    }

    fn visibility(&self) -> Visibility {
        Visibility::Copied
    }

    fn describe(&self) -> String {
        format!("memory of {}", self.mapping.gpu)
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn bus(&self) -> Option<&dyn Bus> {
        Some(&self.copies)
    }

    fn gpu(&self) -> Option<GpuPart> {
        let gpu = &self.mapping.gpu;
        Some(GpuPart { number: gpu.number(), uuid: gpu.uuid(), mapped: self.mapping.bytes as u64 })
    }

    fn trouble(&self) -> Option<String> {
        self.copies.trouble()
    }
}
