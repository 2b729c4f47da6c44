//! Host memory of a ring whose items may have layouts ([`zsr_ring::layout`]). The soft NIC reaches it as over a bus. In place of an item it
//! reads what a producer's layout says, and it writes records to where a consumer's layout says.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use zsr_ring::Role;
use zsr_ring::layout::{Laid, LayoutFault};
use zsr_ring::memory::{Bus, ByteOrder, Gone, Layouts, Memory, MemoryKey, Visibility};
use zsr_ring::segment::{HEADER_LEN, Header};
use zsr_soft_nic::HostMemory;
use zsr_wire::ring::{ControlWord, ITEMS, PRODUCER_HEAD, PRODUCER_TAIL};

/// Most regions that items of one ring name.
const MOST_REGIONS: usize = 64;
const ITEMS_AT: usize = ITEMS as usize;

/// The memory, and the regions that layouts in it name.
pub(super) struct LaidOut {
    memory: Arc<dyn Memory>,
    own: HostMemory,
    role: Role,
    item_size: usize,
    regions: Mutex<Regions>,
    /// Why the NIC moves no items here any more.
    trouble: OnceLock<String>,
}

/// The memory that layouts name, and the layout that is being read.
#[derive(Default)]
struct Regions {
    all: Vec<Arc<dyn Memory>>,
    /// The layout that was read last, which a READ response after the other is made from, and where its item begins.
    last: Option<(usize, Laid)>,
    /// The item that is being written, whose layout a consumer has placed.
    coming: Option<Coming>,
    /// The program has ended: no more items go to its memory.
    retiring: bool,
}

/// An item of a consumer ring whose records go to where its layout says.
struct Coming {
    /// Where it begins in the ring.
    start: usize,
    layout: Laid,
    /// Bytes of records.
    used: usize,
}

impl LaidOut {
    /// Layouts in the items of a ring in `memory`, which processors reach.
    pub(super) fn over(memory: Arc<dyn Memory>, role: Role, item_size: u32) -> Self {
        // SAFETY: the memory is valid as long as it lives, and is reached through raw pointers only.
        let own = unsafe {
            HostMemory::from_raw(memory.base().as_ptr(), memory.len(), Arc::new(Arc::clone(&memory)))
        };
        let (regions, trouble) = (Mutex::default(), OnceLock::new());
        Self { memory, own, role, item_size: item_size as usize, regions, trouble }
    }

    fn lock(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the item that begins at `start` is in the ring. The switch reads others again where it takes a response for lost: what they say
    /// makes no sense any more, and whatever is answered is thrown away.
    fn has_item(&self, start: usize) -> bool {
        let counter = |offset: u64| {
            let mut word = [0; 8];
            self.own.read(offset as usize, &mut word);
            ControlWord::from_bytes(word, self.memory.byte_order()).counter
        };
        let (tail, head) = (counter(PRODUCER_TAIL), counter(PRODUCER_HEAD));
        let size = (self.memory.len() - ITEMS_AT) as u32;
        let behind_tail = ((start - ITEMS_AT) as u32).wrapping_sub(tail) & (size - 1);
        behind_tail < head.wrapping_sub(tail)
    }

    /// Bytes of the item that begins at `start`, from `within` on.
    fn read_item(&self, start: usize, within: usize, bytes: &mut [u8]) -> Result<(), LayoutFault> {
        let mut regions = self.lock();
        let word = self.words(start);
        if let Some((at, laid)) = &mut regions.last
            && *at == start
            && laid.is_of(&word)
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

    /// The words of the item that begins at `start`.
    fn words(&self, start: usize) -> impl Fn(usize) -> u64 {
        move |n| {
            let mut word = [0; 8];
            self.own.read(start + 8 * n, &mut word);
            u64::from_le_bytes(word)
        }
    }

    /// Writes bytes of the item that begins at `start`, from `within` on. Requests of a switch come in order, so bytes that don't begin
    /// an item go on where those before have ended.
    fn write_item(
        &self,
        regions: &mut Regions,
        start: usize,
        within: usize,
        bytes: &[u8],
    ) -> Result<(), LayoutFault> {
        if within == 0 && !regions.all.is_empty() && !regions.retiring {
            let layout = Laid::placed(self.item_size, self.words(start), &regions.all)?;
            let header = layout.as_ref().and_then(|layout| Header::as_placed(bytes, layout.room()));
            regions.coming = layout.zip(header).map(|(layout, (header, used))| {
                self.own.write(start, &header);
                Coming { start, layout, used: used as usize }
            });
        }
        match &mut regions.coming {
            Some(Coming { start: of, layout, used }) if *of == start => {
                let records = &bytes[HEADER_LEN.saturating_sub(within).min(bytes.len())..];
                let skip = within.saturating_sub(HEADER_LEN);
                // The item's end behind its records is nobody's.
                layout.write(skip, &records[..used.saturating_sub(skip).min(records.len())])
            }
            _ => {
                self.own.write(start + within, bytes);
                // Only programs here say that there is a layout.
                if within < size_of::<u64>() {
                    self.without_layout(start);
                }
                Ok(())
            }
        }
    }

    /// Has the item that begins at `start` not say that it has a layout.
    fn without_layout(&self, start: usize) {
        let mut begin = [0; 8];
        self.own.read(start, &mut begin);
        if Header::without_layout(&mut begin) {
            self.own.write(start, &begin);
        }
    }

    /// Puts the records of the item that begins at `start` into its slot, if they are where its layout says. A layout whose item has not
    /// come is taken out.
    fn take_back(&self, regions: &Regions, start: usize, item: &mut [u8]) {
        let word = self.words(start);
        if !Header::says_layout(word(0)) {
            return;
        }
        let mut header = [0; HEADER_LEN];
        self.own.read(start, &mut header);
        let Some(used) = Header::of_placed(&header).map(|header| header.used).filter(|used| *used > 0) else {
            return self.without_layout(start);
        };
        let placed = Laid::placed(self.item_size, word, &regions.all);
        match placed.and_then(|layout| layout.map(|mut layout| layout.read(0, item)).transpose()) {
            Ok(Some(())) => self.own.write(start, &item[..item.len().min(HEADER_LEN + used as usize)]),
            // Its records are lost, and whoever pops it is told that it is no segment.
            Ok(None) | Err(_) => self.own.write(start, &[0; HEADER_LEN]),
        }
    }

    fn fail(&self, start: usize, what: &str, fault: &LayoutFault) -> Gone {
        let at = start - ITEMS_AT;
        let fate = "its NIC moves no items here any more: delete the flow, or take the member out of it";
        let _ = self
            .trouble
            .set(format!("the item at byte {at} of the ring can't be {what}, since {fault}; {fate}"));
        Gone
    }
}

impl Bus for LaidOut {
    fn write(&self, offset: usize, mut bytes: &[u8]) -> Result<(), Gone> {
        if offset < ITEMS_AT || self.role != Role::Consumer {
            self.own.write(offset, bytes);
            return Ok(());
        }
        if self.trouble.get().is_some() {
            return Err(Gone);
        }
        let mut regions = self.lock();
        let mut at = offset;
        while !bytes.is_empty() {
            let within = (at - ITEMS_AT) % self.item_size;
            let (part, rest) = bytes.split_at(bytes.len().min(self.item_size - within));
            let start = at - within;
            if let Err(fault) = self.write_item(&mut regions, start, within, part) {
                return Err(self.fail(start, "put in its place", &fault));
            }
            (at, bytes) = (at + part.len(), rest);
        }
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
            if let Err(fault) = self.read_item(start, within, part) {
                if self.has_item(start) {
                    return Err(self.fail(start, "read", &fault));
                }
                self.own.read(at, part);
            }
            (at, bytes) = (at + part.len(), rest);
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Gone> {
        Ok(())
    }
}

impl Layouts for LaidOut {
    fn accepts(&self, memory: &[Arc<dyn Memory>], drained: bool) -> Result<(), String> {
        if let Some(other) = memory.iter().find(|m| m.visibility() != Visibility::Coherent) {
            return Err(format!("{} can't be registered: expected host memory", other.describe()));
        }
        let used = if drained { 0 } else { self.lock().all.len() };
        match used + memory.len() <= MOST_REGIONS {
            true => Ok(()),
            false => Err(format!(
                "{} regions are more than there can be, {MOST_REGIONS}, of which {used} are in use by items that are still in the ring",
                memory.len()
            )),
        }
    }

    fn register(&self, memory: Vec<Arc<dyn Memory>>, drained: bool) -> u32 {
        let mut regions = self.lock();
        // The next program's items may look like those of the one before.
        regions.last = None;
        if drained {
            regions.all.clear();
        }
        let first = regions.all.len();
        regions.all.extend(memory);
        first as u32
    }

    fn retire(&self) {
        if self.role != Role::Consumer || self.lock().all.is_empty() {
            return;
        }
        let mut item = vec![0; self.item_size];
        {
            let mut regions = self.lock();
            regions.retiring = true;
            // What is still to come of this item comes to its slot.
            if let Some(Coming { start, .. }) = regions.coming.take() {
                self.take_back(&regions, start, &mut item);
            }
        }
        // The NIC waits for one slot at most.
        for start in (ITEMS_AT..self.memory.len()).step_by(self.item_size) {
            self.take_back(&self.lock(), start, &mut item);
        }
        let mut regions = self.lock();
        regions.retiring = false;
        regions.all.clear();
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

#[cfg(test)]
mod tests;
