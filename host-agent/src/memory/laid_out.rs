//! Host memory of a ring whose items may be layouts ([`zsr_ring::layout`]). The soft NIC reads it as over a bus, and gets what a layout
//! says in place of the item.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use zsr_ring::layout::{Laid, LayoutFault};
use zsr_ring::memory::{Bus, ByteOrder, Gone, Layouts, Memory, MemoryKey, Visibility};
use zsr_soft_nic::HostMemory;
use zsr_wire::ring::ITEMS;

/// Most regions that items of one ring name.
const MOST_REGIONS: usize = 64;
const ITEMS_AT: usize = ITEMS as usize;

/// The memory, and the regions that layouts in it name.
pub(super) struct LaidOut {
    memory: Arc<dyn Memory>,
    own: HostMemory,
    item_size: usize,
    regions: Mutex<Regions>,
    /// Why the NIC reads nothing here any more.
    trouble: OnceLock<String>,
}

/// What layouts name.
#[derive(Default)]
struct Regions {
    all: Vec<Arc<dyn Memory>>,
    /// The layout that was read last, which a READ response after the other is made from, and where its item begins.
    last: Option<(usize, Laid)>,
}

impl LaidOut {
    /// Layouts in the items of a ring in `memory`, which processors reach.
    pub(super) fn over(memory: Arc<dyn Memory>, item_size: u32) -> Self {
        // SAFETY: the memory is valid as long as it lives, and is reached through raw pointers only.
        let own = unsafe {
            HostMemory::from_raw(memory.base().as_ptr(), memory.len(), Arc::new(Arc::clone(&memory)))
        };
        let (regions, trouble) = (Mutex::default(), OnceLock::new());
        Self { memory, own, item_size: item_size as usize, regions, trouble }
    }

    /// Bytes of the item that begins at `start`, from `within` on.
    fn read_item(&self, start: usize, within: usize, bytes: &mut [u8]) -> Result<(), LayoutFault> {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let word = |n: usize| {
            let mut word = [0; 8];
            self.own.read(start + 8 * n, &mut word);
            u64::from_le_bytes(word)
        };
        if let Some((at, laid)) = &regions.last
            && *at == start
            && laid.is_of(word)
        {
            return laid.read(within, bytes);
        }
        match Laid::of(self.item_size, word, &regions.all)? {
            Some(laid) => regions.last.insert((start, laid)).1.read(within, bytes),
            None => {
                self.own.read(start + within, bytes);
                Ok(())
            }
        }
    }

    fn fail(&self, start: usize, fault: &LayoutFault) -> Gone {
        let at = start - ITEMS_AT;
        let fate = "its NIC reads nothing here any more: delete the flow, or take the member out of it";
        let _ = self
            .trouble
            .set(format!("the item at byte {at} of the ring can't be read, since {fault}; {fate}"));
        Gone
    }
}

impl Bus for LaidOut {
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Gone> {
        self.own.write(offset, bytes);
        Ok(())
    }

    fn read(&self, offset: usize, mut bytes: &mut [u8]) -> Result<(), Gone> {
        if self.trouble.get().is_some() {
            return Err(Gone);
        }
        let mut at = offset;
        if at < ITEMS_AT {
            let (control, rest) = bytes.split_at_mut(bytes.len().min(ITEMS_AT - at));
            self.own.read(at, control);
            (at, bytes) = (at + control.len(), rest);
        }
        while !bytes.is_empty() {
            let within = (at - ITEMS_AT) % self.item_size;
            let (part, rest) = bytes.split_at_mut(bytes.len().min(self.item_size - within));
            let start = at - within;
            self.read_item(start, within, part).map_err(|fault| self.fail(start, &fault))?;
            (at, bytes) = (at + part.len(), rest);
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Gone> {
        Ok(())
    }
}

impl Layouts for LaidOut {
    fn register(&self, memory: Vec<Arc<dyn Memory>>, drained: bool) -> Result<u32, String> {
        if let Some(other) = memory.iter().find(|m| m.visibility() != Visibility::Coherent) {
            return Err(format!("{} can't be registered: expected host memory", other.describe()));
        }
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        // The next program's items may look like those of the one before.
        regions.last = None;
        if drained {
            regions.all.clear();
        }
        let first = regions.all.len();
        if first + memory.len() > MOST_REGIONS {
            return Err(format!(
                "{} regions are more than there can be, {MOST_REGIONS}, of which {first} are in use by items that are still in the ring",
                memory.len()
            ));
        }
        regions.all.extend(memory);
        Ok(first as u32)
    }
}

impl std::fmt::Debug for LaidOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaidOut").field("memory", &self.memory).finish_non_exhaustive()
    }
}

// SAFETY: base and length are those of the memory in it, which lives as long.
unsafe impl Memory for LaidOut {
    fn base(&self) -> NonNull<u8> {
        self.memory.base()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }

    fn key(&self) -> Result<MemoryKey, String> {
        Err("its items may be layouts, which an RDMA device follows only by an indirect memory key (mlx5's UMR), and this agent \
             makes none; use the soft NIC, or plain host memory"
            .to_owned())
    }

    fn byte_order(&self) -> ByteOrder {
        self.memory.byte_order()
    }

    fn visibility(&self) -> Visibility {
        self.memory.visibility()
    }

    fn describe(&self) -> String {
        format!("{}, with layouts", self.memory.describe())
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.memory.file()
    }

    fn bus(&self) -> Option<&dyn Bus> {
        Some(self)
    }

    fn layouts(&self) -> Option<&dyn Layouts> {
        Some(self)
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.get().cloned()
    }
}
