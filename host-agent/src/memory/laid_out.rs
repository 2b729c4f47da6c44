//! Host memory of a ring whose items may be layouts ([`zsr_ring::layout`]). The soft NIC reads it as over a bus, and gets what a layout
//! says in place of the item.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use zsr_ring::layout::{Laid, LayoutFault};
use zsr_ring::memory::{Bus, ByteOrder, Gone, Layouts, Memory, MemoryKey, Visibility};
use zsr_soft_nic::HostMemory;
use zsr_wire::ring::{ControlWord, ITEMS, PRODUCER_HEAD, PRODUCER_TAIL};

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

/// The memory that layouts name, and the layout that is being read.
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
        let word = |n: usize| {
            let mut word = [0; 8];
            self.own.read(start + 8 * n, &mut word);
            u64::from_le_bytes(word)
        };
        if let Some((at, laid)) = &mut regions.last
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
            if let Err(fault) = self.read_item(start, within, part) {
                if self.has_item(start) {
                    return Err(self.fail(start, &fault));
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
mod tests {
    use super::*;
    use zsr_ring::layout::{At, Column, Layout, Rows};
    use zsr_ring::segment::{SegmentConfig, SegmentWriter};
    use zsr_ring::{Cancel, Flags, Ring, RingSpec, Role};

    const ITEM: usize = 256;

    fn host(bytes: usize) -> Arc<dyn Memory> {
        Arc::new(zsr_ring::memory::HostMemory::with_order(bytes, ByteOrder::NATIVE).expect("memory"))
    }

    fn put(memory: &Arc<dyn Memory>, offset: usize, bytes: &[u8]) {
        // SAFETY: in bounds of the tests' memory, which nobody has a reference into.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.base().as_ptr().add(offset), bytes.len());
        }
    }

    #[test]
    fn an_item_that_was_taken_is_no_trouble_whatever_it_says() {
        let spec = RingSpec::new(ITEM as u64, 4 * ITEM as u64).expect("a ring");
        let laid = Arc::new(LaidOut::over(host(spec.memory_len()), ITEM as u32));
        let start = 3 * ITEM as u32;
        let ring = Ring::over(Role::Producer, spec, laid.clone(), start, 1).expect("a ring");
        let region = host(64);
        put(&region, 0, &[5, 0, 0, 0]);
        put(&region, 45, b"record");
        assert_eq!(laid.register(vec![host(1), region.clone()], true), 0);
        let producer = ring.attach_producer(Cancel::new()).expect("free");
        let mut writer = SegmentWriter::records(producer, SegmentConfig::default()).expect("large enough");
        let place = |offset| At { region: 0, offset };
        let rows = Rows::Listed { at: place(0), width: 4, count: 1 };
        let column = Column { at: place(40), stride: 1, width: 6 };
        let layout = Layout::new(rows, [column]);
        writer.try_lay_out(&layout, std::slice::from_ref(&region), 1).expect("pushed");
        writer.try_push(b"a record in place").expect("pushed");
        writer.flush().expect("pushed");
        let at = |item: usize| ITEMS_AT + item * ITEM;
        let mut bytes = [0; 6];
        assert!(laid.read(at(3) + 32, &mut bytes).is_ok() && bytes == *b"record");
        let mut both = [0; 8 + 17];
        // The second item is behind the wrap.
        assert!(laid.read(at(0) + 36, &mut both[8..]).is_ok() && both[8..] == *b"a record in place");
        // The switch has taken the item, and the program uses its memory for something else.
        put(&region, 0, &[0xff; 4]);
        let tail = |counter| ControlWord { counter, flags: Flags::default() }.to_bytes(ByteOrder::NATIVE);
        assert!(laid.write(PRODUCER_TAIL as usize, &tail(start + ITEM as u32)).is_ok());
        assert!(laid.read(at(3) + 32, &mut bytes).is_ok() && laid.trouble().is_none());
        // One that is in the ring ends it.
        assert!(laid.write(PRODUCER_TAIL as usize, &tail(start)).is_ok());
        assert!(laid.read(at(3) + 32, &mut bytes).is_err());
        let trouble = laid.trouble().expect("it is told");
        assert!(
            trouble.contains("the item at byte 768 of the ring") && trouble.contains("number 0 of its list")
        );
        assert!(laid.read(at(0) + 36, &mut both).is_err());
        writer.abandon();
    }

    #[test]
    fn regions_of_programs_before_are_kept_until_the_ring_is_drained() {
        let laid = LaidOut::over(host(ITEMS_AT + 2 * ITEM), ITEM as u32);
        let some = |count| (0..count).map(|_| host(1)).collect::<Vec<_>>();
        assert_eq!(laid.register(some(16), true), 0);
        assert_eq!((1..4).map(|_| laid.register(some(16), false)).collect::<Vec<_>>(), [16, 32, 48]);
        let refused = laid.accepts(&some(1), false).expect_err("64 are in use");
        assert!(refused.contains("of which 64 are in use"), "{refused}");
        assert!(laid.accepts(&some(16), true).is_ok());
        assert_eq!(laid.register(some(1), true), 0);
    }
}
