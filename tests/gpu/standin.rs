//! Builds the library that stands for the CUDA driver (standin.c).

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use zsr_ring::Ring;
use zsr_ring::memory::SharedMemory;

/// The ring as kernels of the stand-in's GPU have it: in its memory, which they reach.
pub fn for_kernels(ring: &Ring) -> Arc<Ring> {
    let (spec, file) = (ring.spec(), ring.memory().file().expect("a descriptor"));
    let file = file.try_clone_to_owned().expect("a copy");
    let memory = SharedMemory::open(file, spec.memory_len(), spec.byte_order()).expect("mapped");
    Ring::join(ring.role(), spec, Arc::new(memory), ring.epoch()).expect("a ring")
}

/// Such a library, in a folder of its own under the name of the driver's.
pub struct Standin {
    folder: tempfile::TempDir,
}

impl Standin {
    /// A library with two GPUs of 64 MiB each.
    pub fn new() -> Standin {
        Standin::with(&[])
    }

    /// A library with other values than those (see standin.c).
    pub fn with(values: &[(&str, u64)]) -> Standin {
        let folder = tempfile::tempdir().expect("a folder");
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|at| at.join("tests/gpu/standin.c"));
        let source = source.into_iter().find(|path| path.exists()).expect("its source");
        let mut cc = Command::new("cc");
        // Its own name, so that who asks for the driver in this process gets the one that is loaded.
        cc.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-O1"]);
        for (name, usual) in [("GPUS", 2), ("INIT", 0), ("MEMORY", 64 << 20), ("LACKS", 0)] {
            let value = values.iter().find(|(n, _)| *n == name).map_or(usual, |(_, value)| *value);
            cc.arg(format!("-D{name}={value}"));
        }
        cc.arg(format!("-DLOST=\"{}\"", folder.path().join("lost").display()));
        let cc = cc.arg("-o").arg(folder.path().join("libcuda.so.1")).arg(source).arg("-pthread").status();
        assert!(cc.expect("cc, which links this test, too").success());
        Standin { folder }
    }

    /// The library's folder, for LD_LIBRARY_PATH.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The library.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join("libcuda.so.1")
    }

    /// Has this process's programs find it when they ask for the driver.
    pub fn load(&self) {
        let path = CString::new(self.library().as_os_str().as_bytes()).expect("a path");
        // SAFETY: the library only sets up its own state.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "{} can't be loaded", self.library().display());
    }

    /// One copy to GPU `number` is refused, and no other.
    pub fn refuse_once(&self, number: u32) {
        fs::write(self.folder.path().join(format!("lost.{number}.once")), "").expect("written");
    }

    /// GPU `number` is lost, in each process in the middle of the copy behind so many others.
    pub fn lose(&self, number: u32, copies: u32) {
        // There at once, with all that is in it.
        let whole = self.folder.path().join("whole");
        fs::write(&whole, copies.to_string()).expect("written");
        fs::rename(whole, self.folder.path().join(format!("lost.{number}"))).expect("renamed");
    }
}
