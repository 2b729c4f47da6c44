//! libibverbs, loaded when it is needed, so that machines without it build and run everything else.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;

use libloading::Library;

use super::abi::{DeviceAttr, Mr, Opaque, PortAttr, Qp, QpAttr, QpInitAttr};
use super::error;
use crate::nic::NicError;

/// Names of the library, as distributions install it.
const NAMES: [&str; 2] = ["libibverbs.so.1", "libibverbs.so"];

macro_rules! library {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions used.
        pub(super) struct Verbs {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Absent before rdma-core 34.
            pub reg_dmabuf_mr:
                Option<unsafe extern "C" fn(*mut Opaque, u64, usize, u64, c_int, c_int) -> *mut Mr>,
            /// Keeps the functions where they are.
            _library: Library,
        }

        fn symbols(library: Library) -> Result<Verbs, libloading::Error> {
            // SAFETY: the signatures are those of the library's stable interface.
            unsafe {
                Ok(Verbs {
                    $($field: *library.get($symbol)?,)*
                    reg_dmabuf_mr: library.get(b"ibv_reg_dmabuf_mr\0").ok().map(|symbol| *symbol),
                    _library: library,
                })
            }
        }
    };
}

library! {
    get_device_list = b"ibv_get_device_list\0": fn(*mut c_int) -> *mut *mut Opaque;
    free_device_list = b"ibv_free_device_list\0": fn(*mut *mut Opaque) -> ();
    get_device_name = b"ibv_get_device_name\0": fn(*mut Opaque) -> *const c_char;
    open_device = b"ibv_open_device\0": fn(*mut Opaque) -> *mut Opaque;
    close_device = b"ibv_close_device\0": fn(*mut Opaque) -> c_int;
    query_device = b"ibv_query_device\0": fn(*mut Opaque, *mut DeviceAttr) -> c_int;
    query_port = b"ibv_query_port\0": fn(*mut Opaque, u8, *mut PortAttr) -> c_int;
    alloc_pd = b"ibv_alloc_pd\0": fn(*mut Opaque) -> *mut Opaque;
    dealloc_pd = b"ibv_dealloc_pd\0": fn(*mut Opaque) -> c_int;
    create_cq = b"ibv_create_cq\0": fn(*mut Opaque, c_int, *mut c_void, *mut c_void, c_int) -> *mut Opaque;
    destroy_cq = b"ibv_destroy_cq\0": fn(*mut Opaque) -> c_int;
    reg_mr_iova = b"ibv_reg_mr_iova\0": fn(*mut Opaque, *mut c_void, usize, u64, c_int) -> *mut Mr;
    dereg_mr = b"ibv_dereg_mr\0": fn(*mut Mr) -> c_int;
    create_qp = b"ibv_create_qp\0": fn(*mut Opaque, *mut QpInitAttr) -> *mut Qp;
    modify_qp = b"ibv_modify_qp\0": fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    destroy_qp = b"ibv_destroy_qp\0": fn(*mut Qp) -> c_int;
}

impl Verbs {
    pub(super) fn load() -> Result<Verbs, NicError> {
        let mut reason = String::new();
        for name in NAMES {
            // SAFETY: the library's initialisers only set up its own state.
            match unsafe { Library::new(name) }.and_then(symbols) {
                Ok(verbs) => return Ok(verbs),
                Err(e) if reason.is_empty() => reason = e.to_string(),
                Err(_) => {}
            }
        }
        Err(error::no_library(&reason))
    }

    /// Opens the device of this name.
    pub(super) fn open(&self, name: &str) -> Result<*mut Opaque, NicError> {
        let mut count = 0;
        // SAFETY: the call fills `count` and returns a list of as many devices, or null.
        let list = unsafe { (self.get_device_list)(&mut count) };
        if list.is_null() {
            return Err(error::os("listing the RDMA devices", name, &io::Error::last_os_error()));
        }
        let mut opened = Err(error::no_provider(name));
        for i in 0..count.max(0) as usize {
            // SAFETY: `i` is within the list; names are C strings that live as long as the list.
            let found = unsafe {
                let device = *list.add(i);
                (CStr::from_ptr((self.get_device_name)(device)).to_bytes() == name.as_bytes())
                    .then_some(device)
            };
            if let Some(device) = found {
                // SAFETY: a device of the list.
                let context = unsafe { (self.open_device)(device) };
                opened = if context.is_null() {
                    Err(error::os("opening it", name, &io::Error::last_os_error()))
                } else {
                    Ok(context)
                };
                break;
            }
        }
        // SAFETY: the list is not used any more; an open device does not need it.
        unsafe { (self.free_device_list)(list) };
        opened
    }
}
