//! The driver's library, and the few calls that say what there is.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use libloading::Library;

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: c_int = 100;

/// The CUDA driver of this machine, loaded and started.
pub struct Driver {
    name: PathBuf,
    /// The library is never unloaded: the driver has threads of its own once it runs.
    library: ManuallyDrop<Library>,
    error_name: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    gpus: u32,
}

impl Driver {
    /// Loads the library `name`, and asks it how many GPUs this process has. May block for a second when it is the first to do so.
    ///
    /// # Errors
    /// No such library, or a driver that does not work, with what to do. No GPU is none.
    pub fn load(name: &Path) -> Result<Driver, String> {
        // SAFETY: the library's initialisers only set up its own state.
        let library = unsafe { Library::new(name) }.map_err(|e| missing(name, &e))?;
        let library = ManuallyDrop::new(library);
        // SAFETY: the signatures are those of the driver's stable interface (cuda.h).
        let (init, get_count, error_name) = unsafe {
            (
                symbol::<unsafe extern "C" fn(c_uint) -> c_int>(name, &library, c"cuInit")?,
                symbol::<unsafe extern "C" fn(*mut c_int) -> c_int>(name, &library, c"cuDeviceGetCount")?,
                symbol(name, &library, c"cuGetErrorName")?,
            )
        };
        let mut driver = Driver { name: name.to_owned(), library, error_name, gpus: 0 };
        let refuses = |call: &str, code| {
            let (name, text) = (name.display(), driver.name_of(code));
            format!(
                "the CUDA driver ({name}) refuses {call}: {text}; does `nvidia-smi` work here, as this user?"
            )
        };
        // SAFETY: 0 is the only flag that there is.
        match unsafe { init(0) } {
            0 => {}
            NO_DEVICE => return Ok(driver),
            code => return Err(refuses("cuInit", code)),
        }
        let mut count = 0;
        // SAFETY: the call writes one int.
        match unsafe { get_count(&mut count) } {
            0 => driver.gpus = count.max(0) as u32,
            code => return Err(refuses("cuDeviceGetCount", code)),
        }
        Ok(driver)
    }

    /// How many GPUs `CUDA_VISIBLE_DEVICES` leaves to this process.
    pub fn gpus(&self) -> u32 {
        self.gpus
    }

    /// Makes sure that there is a GPU `number`.
    ///
    /// # Errors
    /// Which ones there are.
    pub fn has(&self, number: u32) -> Result<(), String> {
        let has = match self.gpus {
            count if number < count => return Ok(()),
            0 => "this machine has no NVIDIA GPU".to_owned(),
            1 => "this machine has one GPU, number 0".to_owned(),
            n => format!("this machine has {n} GPUs, 0 to {}", n - 1),
        };
        Err(format!(
            "no GPU {number}: {has} (CUDA_VISIBLE_DEVICES of this process counts); name one of them, or write `memory: host`"
        ))
    }

    /// The driver's name of an error.
    pub(crate) fn name_of(&self, code: c_int) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the call sets the pointer to a constant text, or to null.
        let known = unsafe { (self.error_name)(code, &mut text) } == 0 && !text.is_null();
        // SAFETY: a text that lives as long as the library.
        let text = known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        text.unwrap_or_else(|| format!("error {code}"))
    }

    /// A function of the driver.
    ///
    /// # Safety
    /// `F` must be its type.
    pub(crate) unsafe fn function<F: Copy>(&self, function: &CStr) -> Result<F, String> {
        // SAFETY: the caller's.
        unsafe { symbol(&self.name, &self.library, function) }
    }
}

/// # Safety
/// `F` must be the function's type.
unsafe fn symbol<F: Copy>(name: &Path, library: &Library, function: &CStr) -> Result<F, String> {
    // SAFETY: the caller's; the library is never unloaded.
    unsafe { library.get::<F>(function.to_bytes_with_nul()) }
        .map(|found| *found)
        .map_err(|e| missing(name, &e))
}

fn missing(name: &Path, error: &libloading::Error) -> String {
    let name = name.display();
    format!(
        "the CUDA driver can't be loaded ({name}: {error}): install NVIDIA's driver, or write `memory: host`"
    )
}
