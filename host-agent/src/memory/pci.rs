//! Rings in a window (BAR) of a PCI device, as sysfs lets processes map it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{FlockOperation, flock};
use zsr_ring::ByteOrder;
use zsr_ring::memory::{DeviceMemory, DevicePart, Memory, PciBar};

use super::MemoryBackend;

const PAGE: u64 = 4096;
/// Bits of a resource's flags in sysfs (include/linux/ioport.h).
const IS_IO: u64 = 0x100;
const IS_MEMORY: u64 = 0x200;

/// The windows that agents of this process have open: an agent for each host of a topology may be here.
static OPEN: Mutex<BTreeMap<PathBuf, Weak<Bar>>> = Mutex::new(BTreeMap::new());

/// A window of a device, all of which is for rings. No other process has rings there.
pub(super) struct Bar {
    at: PciBar,
    folder: PathBuf,
    /// The file that rings are mapped from: `resourceN` or `resourceN_wc`. It is locked, and handed to programs, so
    /// that the lock lasts for as long as any of them could still write.
    file: File,
    /// Locked as well: a mapping of the other kind.
    _other: Option<File>,
    bytes: u64,
    /// Begins and ends of rings.
    taken: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl Bar {
    /// The window, checked and locked; the same one for all agents of this process. `devices` is sysfs's folder of PCI devices.
    pub(super) fn open(devices: &Path, at: PciBar) -> Result<Arc<Bar>, String> {
        let folder = devices.join(at.address());
        let path = folder.join(format!("resource{}", at.bar));
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = open.get(&path).and_then(Weak::upgrade) {
            if bar.at.combining != at.combining {
                let (has, wants) = (mapped(bar.at.combining), mapped(at.combining));
                return Err(format!(
                    "its rings so far are mapped {has}, and these are to be {wants}: use one for all rings of a BAR"
                ));
            }
            return Ok(bar);
        }
        let bytes = size(&folder, at)?;
        let gathered = folder.join(format!("resource{}_wc", at.bar));
        let (path_mapped, path_other) = if at.combining { (&gathered, &path) } else { (&path, &gathered) };
        let file = open_locked(path_mapped).map_err(|e| explain(path_mapped, at, &e))?;
        let other = match open_locked(path_other) {
            Ok(other) => Some(other),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(explain(path_other, at, &e)),
        };
        // Touching a mapping behind a file's end kills the process.
        let length = file.metadata().map_err(|e| explain(path_mapped, at, &e))?.len();
        if length < bytes {
            return Err(format!("{} has {length} B, but the BAR {bytes} B", path_mapped.display()));
        }
        let bar = Arc::new(Bar { at, folder, file, _other: other, bytes, taken: Arc::default() });
        open.retain(|_, bar| bar.strong_count() > 0);
        open.insert(path, Arc::downgrade(&bar));
        Ok(bar)
    }

    /// The first gap that is large enough, taken until the part is dropped.
    fn take(&self, bytes: u64) -> Result<Part, String> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut begin, mut longest) = (0, 0);
        let ends = taken.iter().map(|(b, e)| (*b, *e)).chain([(self.bytes, self.bytes)]);
        for (next, end) in ends {
            if next - begin >= bytes {
                taken.insert(begin, begin + bytes);
                return Ok(Part { taken: Arc::clone(&self.taken), begin });
            }
            longest = longest.max(next - begin);
            begin = end;
        }
        Err(format!(
            "the ring needs {bytes} B, control page included, but of the {} B of BAR {} of PCI device {} the longest free piece has {longest} B: \
             make rings smaller or fewer",
            self.bytes,
            self.at.bar,
            self.at.address()
        ))
    }
}

impl MemoryBackend for Bar {
    fn allocate(&self, bytes: usize, order: ByteOrder) -> Result<Arc<dyn Memory>, String> {
        // It may have been switched off, or given to a driver.
        size(&self.folder, self.at)?;
        let part = self.take((bytes as u64).next_multiple_of(PAGE))?;
        let (at, begin) = (self.at, part.begin);
        let what =
            format!("BAR {} of PCI device {} at {begin:#x}, {}", at.bar, at.address(), mapped(at.combining));
        let file: OwnedFd = self.file.try_clone().map_err(|e| format!("its descriptor: {e}"))?.into();
        let place = DevicePart { offset: begin, combining: at.combining };
        let made = DeviceMemory::zeroed(file, place, bytes, order, what, Box::new(part));
        let memory = made.map_err(|e| {
            format!("{e}; is the device switched on, and the kernel not locked down (/sys/kernel/security/lockdown)?")
        })?;
        Ok(Arc::new(memory))
    }
}

/// Keeps a piece of a window from being given to another ring.
struct Part {
    taken: Arc<Mutex<BTreeMap<u64, u64>>>,
    begin: u64,
}

impl Drop for Part {
    fn drop(&mut self) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.begin);
    }
}

fn mapped(combining: bool) -> &'static str {
    if combining { "write-combining" } else { "uncached" }
}

/// Bytes of a window that can be mapped.
fn size(folder: &Path, at: PciBar) -> Result<u64, String> {
    let (address, bar) = (at.address(), at.bar);
    if !folder.exists() {
        return Err(format!(
            "no PCI device {address} ({}); `lspci -D` lists those that there are",
            folder.display()
        ));
    }
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|e| format!("can't read {}: {e}", path.display()))
    };
    if let Ok(driver) = fs::read_link(folder.join("driver")) {
        let driver = driver.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Err(format!(
            "PCI device {address} belongs to the kernel's driver {driver}, which may use the same memory: unbind it \
             (echo {address} > {}/driver/unbind)",
            folder.display()
        ));
    }
    let resources = read("resource")?;
    let line = resources.lines().nth(bar.into()).unwrap_or_default();
    let fields: Option<Vec<u64>> =
        line.split_whitespace().map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
    let Some([begin, end, flags]) = fields.as_deref().and_then(|f| f.first_chunk().copied()) else {
        return Err(format!("{}/resource says nothing about BAR {bar}", folder.display()));
    };
    if flags & IS_IO != 0 {
        return Err(format!("BAR {bar} of PCI device {address} is I/O ports, not memory: name another BAR"));
    }
    if flags & IS_MEMORY == 0 || end <= begin {
        return Err(format!(
            "PCI device {address} has no BAR {bar}; those of 64 bits have the number of their first half: \
             `lspci -v -s {address}` shows them"
        ));
    }
    if read("enable")?.trim() == "0" {
        return Err(format!("PCI device {address} is disabled: echo 1 > {}/enable", folder.display()));
    }
    Ok((end - begin).saturating_add(1) & !(PAGE - 1))
}

fn open_locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn explain(path: &Path, at: PciBar, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::WouldBlock => {
            "another process has rings there: another agent, or a program of an agent that has ended; end it"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "run the agent as root, or give its user the file (chown, best by a udev rule)".to_owned()
        }
        io::ErrorKind::NotFound if at.combining => {
            "only prefetchable BARs can be mapped write-combining: write `uc`".to_owned()
        }
        _ => "is it a window of memory?".to_owned(),
    };
    format!("can't open {}: {error}; {advice}", path.display())
}
