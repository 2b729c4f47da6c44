//! Memory of a verilated design, which the soft NIC reaches as over PCIe. Writes are posted, and a read comes back
//! behind the writes that were sent before it. The design reaches the memory at once, as its own.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use zsr_ring::memory::{Bus, ByteOrder, Gone, Memory, MemoryKey, Visibility};
use zsr_soft_nic::HostMemory;

/// How long a write is under way.
const LATENCY: Duration = Duration::from_micros(20);
/// Most bytes of one write on the bus, which none of them crosses a multiple of: a usual Max_Payload_Size.
const PAYLOAD: usize = 256;
/// Bytes that may be under way; who sends more waits for the first ones.
const CREDITS: usize = 64 << 10;

/// Memory behind a simulated bus.
pub(super) struct Simulated {
    memory: Arc<dyn Memory>,
    wire: Arc<Wire>,
    deliverer: Option<JoinHandle<()>>,
}

struct Wire {
    far: HostMemory,
    posted: Mutex<Posted>,
    sent: Condvar,
}

#[derive(Default)]
struct Posted {
    writes: VecDeque<Write>,
    bytes: usize,
    ended: bool,
}

struct Write {
    due: Instant,
    offset: usize,
    bytes: Vec<u8>,
}

impl Simulated {
    /// The bus in front of `memory`, with a thread of its own that delivers what is sent.
    pub(super) fn before(memory: Arc<dyn Memory>) -> Result<Self, String> {
        // SAFETY: the memory is valid as long as it lives, and is reached through raw pointers only.
        let far = unsafe {
            HostMemory::from_raw(memory.base().as_ptr(), memory.len(), Arc::new(Arc::clone(&memory)))
        };
        let wire = Arc::new(Wire { far, posted: Mutex::default(), sent: Condvar::new() });
        let own = Arc::clone(&wire);
        let thread = std::thread::Builder::new().name("zsr-fpga-bus".to_owned());
        let deliverer =
            thread.spawn(move || own.deliver()).map_err(|e| format!("no thread for its bus: {e}"))?;
        Ok(Self { memory, wire, deliverer: Some(deliverer) })
    }
}

impl Wire {
    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first write takes place.
    fn arrive(&self, posted: &mut Posted) {
        if let Some(Write { offset, bytes, .. }) = posted.writes.pop_front() {
            posted.bytes -= bytes.len();
            self.far.write(offset, &bytes);
        }
    }

    fn deliver(&self) {
        let mut posted = self.lock();
        loop {
            let now = Instant::now();
            let due = posted.writes.front().map(|write| write.due);
            posted = match due {
                Some(due) if due <= now => {
                    self.arrive(&mut posted);
                    continue;
                }
                _ if posted.ended => return,
                Some(due) => {
                    let waited = self.sent.wait_timeout(posted, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.sent.wait(posted).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Bus for Simulated {
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Gone> {
        let mut posted = self.wire.lock();
        let due = Instant::now() + LATENCY;
        let (mut at, mut left) = (offset, bytes);
        while !left.is_empty() {
            let (piece, rest) = left.split_at(left.len().min(PAYLOAD - at % PAYLOAD));
            posted.writes.push_back(Write { due, offset: at, bytes: piece.to_vec() });
            posted.bytes += piece.len();
            (at, left) = (at + piece.len(), rest);
        }
        while posted.bytes > CREDITS {
            self.wire.arrive(&mut posted);
        }
        self.wire.sent.notify_one();
        Ok(())
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Gone> {
        self.settle()?;
        self.wire.far.read(offset, bytes);
        Ok(())
    }

    fn settle(&self) -> Result<(), Gone> {
        let mut posted = self.wire.lock();
        while !posted.writes.is_empty() {
            self.wire.arrive(&mut posted);
        }
        Ok(())
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.wire.lock().ended = true;
        self.wire.sent.notify_one();
        if let Some(deliverer) = self.deliverer.take() {
            let _ = deliverer.join();
        }
    }
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").field("memory", &self.memory).finish_non_exhaustive()
    }
}

// SAFETY: it is that of the memory in it, which lives as long.
unsafe impl Memory for Simulated {
    fn base(&self) -> NonNull<u8> {
        self.memory.base()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }

    fn key(&self) -> Result<MemoryKey, String> {
        Err("only soft NICs are at the bus of a simulation".to_owned())
    }

    fn byte_order(&self) -> ByteOrder {
        self.memory.byte_order()
    }

    fn visibility(&self) -> Visibility {
        self.memory.visibility()
    }

    fn describe(&self) -> String {
        format!("{}, behind a simulated PCIe bus", self.memory.describe())
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.memory.file()
    }

    fn bus(&self) -> Option<&dyn Bus> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Simulated {
        let memory = zsr_ring::memory::HostMemory::anonymous(8192).expect("two pages");
        Simulated::before(Arc::new(memory)).expect("a thread")
    }

    /// The byte that the design sees.
    fn there(memory: &Simulated, offset: usize) -> u8 {
        // SAFETY: in bounds.
        unsafe { memory.base().as_ptr().add(offset).read_volatile() }
    }

    #[test]
    fn writes_arrive_by_themselves_in_the_order_of_sending() {
        let memory = memory();
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                for round in 1..=250u8 {
                    memory.write(100, &[round; 3000]).expect("it is there");
                    memory.write(0, &[round]).expect("it is there");
                }
            });
            // A reader that sees the last write of a round sees those before it, and none twice.
            let mut before = 0;
            while !sender.is_finished() {
                let round = there(&memory, 0);
                assert!(there(&memory, 3099) >= round && round >= before, "{round} behind {before}");
                before = round;
            }
        });
        memory.settle().expect("it is there");
        assert_eq!((there(&memory, 0), there(&memory, 100), there(&memory, 3099)), (250, 250, 250));
        assert_eq!((there(&memory, 99), there(&memory, 3100)), (0, 0));
        memory.write(8191, &[9]).expect("it is there");
        while there(&memory, 8191) != 9 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_read_and_the_end_are_behind_the_writes_before_them() {
        let memory = memory();
        let mut seen = [0; 300];
        for round in 0..=255 {
            memory.write(200, &[round; 300]).expect("it is there");
            memory.read(200, &mut seen).expect("it is there");
            assert_eq!(seen, [round; 300]);
        }
        memory.write(8000, &[7; 192]).expect("it is there");
        memory.settle().expect("it is there");
        assert_eq!((there(&memory, 8000), there(&memory, 8191)), (7, 7));
    }
}
