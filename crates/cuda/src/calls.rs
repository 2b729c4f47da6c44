//! The functions of the driver that are called, as cuda.h has them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::driver::Driver;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const OUT_OF_MEMORY: c_int = 2;
/// `CUDA_ERROR_NOT_READY`.
pub(crate) const NOT_READY: c_int = 600;
/// `CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED`.
pub(crate) const CAN_EXPORT: c_int = 103;
/// `CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS`.
pub(crate) const CAN_WRITE_WORDS: c_int = 122;
/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED`.
pub(crate) const CAN_SERVE_NICS: c_int = 110;
/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING`.
pub(crate) const WRITES_ORDERING: c_int = 118;
/// `CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER`: kernels of this GPU see a NIC's writes in order.
pub(crate) const ORDERED_FOR_OWNER: c_int = 100;
/// `CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED`.
pub(crate) const CAN_DMA_BUF: c_int = 124;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
pub(crate) const DMA_BUF: c_int = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub(crate) const DESCRIPTOR: c_int = 1;
/// `CU_STREAM_NON_BLOCKING`: no order with the default stream, in which a program's kernels may run for ever.
pub(crate) const OWN_ORDER: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub(crate) const NO_TIME: c_uint = 2;
/// `CU_STREAM_WRITE_VALUE_DEFAULT`: a barrier of the whole system stands before the write.
pub(crate) const BEHIND_ALL: c_uint = 0;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
pub(crate) const SMALLEST: c_int = 0;

/// A place in a GPU's memory (`CUdeviceptr`).
pub(crate) type Address = u64;
/// An allocation (`CUmemGenericAllocationHandle`).
pub(crate) type Handle = u64;
/// `CUcontext`, `CUstream`, `CUevent`.
pub(crate) type Object = *mut c_void;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    kind: c_int,
    device: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
pub(crate) struct Properties {
    kind: c_int,
    handles: c_int,
    location: Location,
    windows: *mut c_void,
    flags: [u8; 8],
}

impl Properties {
    /// Memory of a device, whose descriptor can be handed to another process. `for_nics`: NICs may reach it, too
    /// (`gpuDirectRDMACapable`).
    pub(crate) fn of(device: c_int, for_nics: bool) -> Self {
        let pinned = 1;
        let location = Location::of(device);
        let flags = [0, u8::from(for_nics), 0, 0, 0, 0, 0, 0];
        Self { kind: pinned, handles: DESCRIPTOR, location, windows: std::ptr::null_mut(), flags }
    }
}

impl Location {
    fn of(device: c_int) -> Self {
        Self { kind: 1, device }
    }
}

/// `CUmemAccessDesc`.
#[repr(C)]
pub(crate) struct Rights {
    location: Location,
    rights: c_int,
}

impl Rights {
    /// A device may read and write.
    pub(crate) fn of(device: c_int) -> Self {
        Self { location: Location::of(device), rights: 3 }
    }
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
pub(crate) struct Rows {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
}

#[repr(C)]
struct Side {
    x: usize,
    y: usize,
    kind: c_int,
    host: *const u8,
    device: Address,
    array: Object,
    pitch: usize,
}

impl Rows {
    /// Two rows of `width` bytes, `pitch` apart in this process, to one place of a GPU.
    pub(crate) fn two(from: *const u8, pitch: usize, to: Address, width: usize) -> Self {
        let none = Side {
            x: 0,
            y: 0,
            kind: 0,
            host: std::ptr::null(),
            device: 0,
            array: std::ptr::null_mut(),
            pitch: 0,
        };
        let (host, device) = (1, 2);
        Self {
            from: Side { kind: host, host: from, pitch, ..none },
            to: Side { kind: device, device: to, pitch: width, ..none },
            width,
            height: 2,
        }
    }
}

macro_rules! calls {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        /// Functions of the driver that need a GPU.
        pub(crate) struct Calls { $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl Calls {
            /// # Errors
            /// Which function the driver lacks.
            pub(crate) fn of(driver: &Driver) -> Result<Self, String> {
                let older = |e| format!("{e}; the driver may be older than CUDA 12, which rings in a GPU's memory need");
                // SAFETY: the signatures are those of the driver's stable interface (cuda.h).
                Ok(Self { $($field: unsafe { driver.function($name) }.map_err(older)?,)* })
            }
        }
    };
}

calls! {
    device_get = c"cuDeviceGet" (*mut c_int, c_int);
    device_name = c"cuDeviceGetName" (*mut c_char, c_int, c_int);
    device_uuid = c"cuDeviceGetUuid_v2" (*mut [u8; 16], c_int);
    device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    context_retain = c"cuDevicePrimaryCtxRetain" (*mut Object, c_int);
    context_release = c"cuDevicePrimaryCtxRelease_v2" (c_int);
    context_push = c"cuCtxPushCurrent_v2" (Object);
    context_pop = c"cuCtxPopCurrent_v2" (*mut Object);
    memory_free = c"cuMemGetInfo_v2" (*mut usize, *mut usize);
    granularity = c"cuMemGetAllocationGranularity" (*mut usize, *const Properties, c_int);
    create = c"cuMemCreate" (*mut Handle, usize, *const Properties, u64);
    release = c"cuMemRelease" (Handle);
    export = c"cuMemExportToShareableHandle" (*mut c_int, Handle, c_int, u64);
    import = c"cuMemImportFromShareableHandle" (*mut Handle, *mut c_void, c_int);
    reserve = c"cuMemAddressReserve" (*mut Address, usize, usize, Address, u64);
    unreserve = c"cuMemAddressFree" (Address, usize);
    map = c"cuMemMap" (Address, usize, usize, Handle, u64);
    unmap = c"cuMemUnmap" (Address, usize);
    set_access = c"cuMemSetAccess" (Address, usize, *const Rights, usize);
    range_handle = c"cuMemGetHandleForAddressRange" (*mut c_int, Address, usize, c_int, u64);
    host_alloc = c"cuMemHostAlloc" (*mut *mut u8, usize, c_uint);
    host_free = c"cuMemFreeHost" (*mut u8);
    stream_create = c"cuStreamCreate" (*mut Object, c_uint);
    stream_destroy = c"cuStreamDestroy_v2" (Object);
    stream_wait = c"cuStreamSynchronize" (Object);
    write_word = c"cuStreamWriteValue64_v2" (Object, Address, u64, c_uint);
    fill = c"cuMemsetD8Async" (Address, u8, usize, Object);
    copy_to = c"cuMemcpyHtoDAsync_v2" (Address, *const u8, usize, Object);
    copy_rows = c"cuMemcpy2DAsync_v2" (*const Rows, Object);
    copy_from = c"cuMemcpyDtoHAsync_v2" (*mut u8, Address, usize, Object);
    event_create = c"cuEventCreate" (*mut Object, c_uint);
    event_record = c"cuEventRecord" (Object, Object);
    event_query = c"cuEventQuery" (Object);
    event_destroy = c"cuEventDestroy_v2" (Object);
}
