//! A GPU of this process, and its primary context, which CUDA's runtime uses as well.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::calls::{CAN_EXPORT, CAN_WRITE_WORDS, Calls, Object};
use crate::driver::Driver;

/// A GPU that can have rings in its memory.
pub struct Gpu {
    driver: Driver,
    pub(crate) calls: Calls,
    pub(crate) device: c_int,
    context: Object,
    number: u32,
    uuid: [u8; 16],
    name: String,
}

// SAFETY: a context may be made current in any thread; the rest never changes.
unsafe impl Send for Gpu {}
// SAFETY: as above, in several at once.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// GPU `number` of this process. `cuda` is the driver's library ([`LIBRARY`](crate::LIBRARY)). May block for seconds.
    ///
    /// # Errors
    /// No driver, no such GPU, or one that can't have rings, with what to do.
    pub fn open(cuda: &Path, number: u32) -> Result<Arc<Gpu>, String> {
        let driver = Driver::load(cuda)?;
        driver.has(number)?;
        let calls = Calls::of(&driver)?;
        Self::found(driver, calls, number)
    }

    /// The GPU that the driver tells from all others by `uuid`, whatever its number for this process is. May block for seconds.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_uuid(cuda: &Path, uuid: [u8; 16]) -> Result<Arc<Gpu>, String> {
        let driver = Driver::load(cuda)?;
        let calls = Calls::of(&driver)?;
        for number in 0..driver.gpus() {
            let (_, found) = identify(&driver, &calls, number)?;
            if found == uuid {
                return Self::found(driver, calls, number);
            }
        }
        Err(format!(
            "this process does not see {}: of {} GPUs none is it (CUDA_VISIBLE_DEVICES of this process counts)",
            Uuid(&uuid),
            driver.gpus()
        ))
    }

    fn found(driver: Driver, calls: Calls, number: u32) -> Result<Arc<Gpu>, String> {
        let (device, uuid) = identify(&driver, &calls, number)?;
        let mut text = [0 as c_char; 128];
        // SAFETY: the call writes a text of at most that length, its zero included.
        let named = unsafe { (calls.device_name)(text.as_mut_ptr(), text.len() as c_int, device) } == 0;
        // SAFETY: the last byte is zero, whatever was written.
        let name = unsafe {
            text[127] = 0;
            CStr::from_ptr(text.as_ptr())
        };
        let name = if named { name.to_string_lossy().into_owned() } else { "unnamed".to_owned() };
        let context = std::ptr::null_mut();
        let mut gpu = Gpu { driver, calls, device, context, number, uuid, name };
        for (attribute, what) in [
            (CAN_EXPORT, "hand its memory to another process"),
            (CAN_WRITE_WORDS, "write words of 64 bits in a stream"),
        ] {
            if gpu.attribute(attribute)? == 0 {
                return Err(format!(
                    "{gpu} or its driver can't {what}, as its rings need: write `memory: gpu:{number}:host`"
                ));
            }
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: the call writes one pointer.
        gpu.done("cuDevicePrimaryCtxRetain", unsafe { (gpu.calls.context_retain)(&mut context, device) })?;
        gpu.context = context;
        Ok(Arc::new(gpu))
    }

    /// The GPU's number for this process.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The GPU's UUID, by which the driver tells it from all others.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// The driver's value of the GPU's `attribute`.
    pub(crate) fn attribute(&self, attribute: c_int) -> Result<c_int, String> {
        let mut value = 0;
        // SAFETY: the call writes one int.
        let code = unsafe { (self.calls.device_attribute)(&mut value, attribute, self.device) };
        self.done("cuDeviceGetAttribute", code).map(|()| value)
    }

    /// An error in words, if `code` is one with which the driver answered `call`.
    pub(crate) fn done(&self, call: &str, code: c_int) -> Result<(), String> {
        match code {
            0 => Ok(()),
            code => Err(format!("{self} refuses {call}: {}", self.driver.name_of(code))),
        }
    }

    /// Makes calls in the GPU's context. The thread has its own back behind it.
    pub(crate) fn within<R>(&self, work: impl FnOnce(&Calls) -> Result<R, String>) -> Result<R, String> {
        // SAFETY: the context is retained.
        self.done("cuCtxPushCurrent", unsafe { (self.calls.context_push)(self.context) })?;
        let result = work(&self.calls);
        let mut popped = std::ptr::null_mut();
        // SAFETY: the call writes one pointer; a context was pushed.
        let _ = unsafe { (self.calls.context_pop)(&mut popped) };
        result
    }
}

fn identify(driver: &Driver, calls: &Calls, number: u32) -> Result<(c_int, [u8; 16]), String> {
    let (mut device, mut uuid) = (0, [0; 16]);
    // SAFETY: each call writes what it is given room for.
    let code = unsafe {
        match (calls.device_get)(&mut device, number as c_int) {
            0 => (calls.device_uuid)(&mut uuid, device),
            code => code,
        }
    };
    match code {
        0 => Ok((device, uuid)),
        code => Err(format!("the CUDA driver does not tell what GPU {number} is: {}", driver.name_of(code))),
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !self.context.is_null() {
            // SAFETY: retained once, and nothing uses it any more.
            let _ = unsafe { (self.calls.context_release)(self.device) };
        }
    }
}

struct Uuid<'u>(&'u [u8; 16]);

impl fmt::Display for Uuid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU-")?;
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} ({}, {})", self.number, self.name, Uuid(&self.uuid))
    }
}
