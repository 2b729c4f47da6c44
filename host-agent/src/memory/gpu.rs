//! Rings of a GPU's kernels in host memory. The CUDA driver is loaded when such a ring is first asked for.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::Path;
use std::sync::Arc;

use libloading::Library;
use zsr_ring::ByteOrder;
use zsr_ring::memory::{HostMemory, Memory, SharedMemory};

use super::MemoryBackend;

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: c_int = 100;

/// Host memory which the program at the ring pins and maps for its GPU (`cuMemHostRegister`): a mapping for a device belongs
/// to the process that made it. The agent makes sure that there is such a GPU.
pub(super) struct PinnedLater {
    shared: bool,
}

impl PinnedLater {
    /// `cuda` is the driver's library.
    pub(super) fn open(cuda: &Path, number: u32, shared: bool) -> Result<PinnedLater, String> {
        let count = gpus(cuda)?;
        if number >= count {
            let has = match count {
                0 => "this machine has no NVIDIA GPU".to_owned(),
                1 => "this machine has one GPU, number 0".to_owned(),
                n => format!("this machine has {n} GPUs, 0 to {}", n - 1),
            };
            return Err(format!(
                "no GPU {number}: {has} (CUDA_VISIBLE_DEVICES of the agent counts); name one of them, or write `memory: host`"
            ));
        }
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

/// How many GPUs the driver has for this process.
fn gpus(cuda: &Path) -> Result<u32, String> {
    let name = cuda.display();
    let missing = |e: libloading::Error| {
        format!(
            "the CUDA driver can't be loaded ({name}: {e}): install NVIDIA's driver, or write `memory: host`"
        )
    };
    // SAFETY: the library's initialisers only set up its own state.
    let library = unsafe { Library::new(cuda) }.map_err(missing)?;
    // SAFETY: the signatures are those of the driver's stable interface (cuda.h).
    let (init, get_count, error_name) = unsafe {
        (
            *library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0").map_err(missing)?,
            *library
                .get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount\0")
                .map_err(missing)?,
            *library
                .get::<unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int>(b"cuGetErrorName\0")
                .map_err(missing)?,
        )
    };
    // The driver has threads of its own once it runs: it stays.
    std::mem::forget(library);
    let told = |call: &str, code: c_int| {
        let mut text = std::ptr::null();
        // SAFETY: the call sets the pointer to a constant text, or to null.
        let known = unsafe { error_name(code, &mut text) } == 0 && !text.is_null();
        // SAFETY: a text that lives as long as the library.
        let text = known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        let text = text.unwrap_or_else(|| format!("error {code}"));
        format!(
            "the CUDA driver ({name}) refuses {call}: {text}; does `nvidia-smi` work here, as the agent's user?"
        )
    };
    // SAFETY: 0 is the only flag that there is.
    match unsafe { init(0) } {
        0 => {}
        NO_DEVICE => return Ok(0),
        code => return Err(told("cuInit", code)),
    }
    let mut count = 0;
    // SAFETY: the call writes one int.
    match unsafe { get_count(&mut count) } {
        0 => Ok(count.max(0) as u32),
        code => Err(told("cuDeviceGetCount", code)),
    }
}
