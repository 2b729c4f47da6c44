//! Memory of a GPU that the stand-in for the CUDA driver has, as a NIC's thread and kernels use it at the same time.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::standin::Standin;
use zsr_host_agent::memory::Memories;
use zsr_ring::ByteOrder;
use zsr_ring::memory::{Bus, Gone, Memory, MemoryKey, SharedMemory, Visibility};

const BYTES: usize = 4096 + 65536;

/// A ring's memory, and what kernels see of it.
struct Ends {
    memory: Arc<dyn Memory>,
    kernels: SharedMemory,
}

impl Ends {
    fn of(standin: &Standin, gpu: u32) -> Ends {
        let memories = Memories::with(true, "/nowhere", standin.library());
        let kind = format!("gpu:{gpu}").parse().expect("a kind of memory");
        let memory = memories.allocate(kind, BYTES, ByteOrder::NATIVE).expect("memory");
        assert_eq!(memory.visibility(), Visibility::Copied);
        let file = memory.file().expect("a descriptor").try_clone_to_owned().expect("a copy");
        let kernels = SharedMemory::open(file, BYTES, ByteOrder::NATIVE).expect("mapped");
        Ends { memory, kernels }
    }

    fn bus(&self) -> &dyn Bus {
        self.memory.bus().expect("copies")
    }

    /// The control word at `offset`, as a kernel has it.
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: in bounds and aligned, and atomics may be used by several at once.
        unsafe { AtomicU64::from_ptr(self.kernels.base().as_ptr().add(offset).cast()) }
    }

    /// `len` bytes of items from `offset` on, as a kernel sees them.
    fn items(&self, offset: usize, len: usize) -> Vec<u8> {
        // SAFETY: in bounds, bytes only.
        (0..len).map(|at| unsafe { self.kernels.base().as_ptr().add(offset + at).read_volatile() }).collect()
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: in bounds.
            unsafe { self.kernels.base().as_ptr().add(offset + at).write_volatile(*byte) };
        }
    }

    /// The bytes that a NIC reads in answer to a READ.
    fn fetched(&self, offset: usize, bytes: &mut [u8]) {
        self.bus().expect(offset, bytes.len());
        while !self.bus().is_here(offset, bytes.len()) {
            std::thread::yield_now();
        }
        self.bus().fetch(offset, bytes).expect("it is there");
    }
}

/// The key of a ring in memory of GPU 1, for an RDMA device.
fn key(standin: &Standin) -> (Ends, Result<MemoryKey, String>) {
    let ends = Ends::of(standin, 1);
    let key = ends.memory.key();
    (ends, key)
}

#[test]
fn rdma_devices_get_a_dma_buf_of_a_gpus_memory() {
    let (ends, key) = key(&Standin::new());
    let Ok(MemoryKey::DmaBuf { fd, offset: 0 }) = key else { panic!("{key:?}") };
    assert_eq!(ends.memory.key(), key, "one for all that ask");
    // SAFETY: the memory owns it.
    let file = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().expect("a copy");
    let nic = SharedMemory::open(file, BYTES, ByteOrder::NATIVE).expect("mapped");
    ends.store(4096, &[7; 4096]);
    // SAFETY: in bounds, bytes only.
    assert_eq!(unsafe { nic.base().as_ptr().add(8191).read_volatile() }, 7);
}

#[test]
fn memory_that_rdma_devices_can_not_use_says_why() {
    for (attribute, why) in [
        (124, "open kernel modules"),
        (118, "in another order"),
        (110, "refuses cuMemGetHandleForAddressRange"),
    ] {
        let (_ends, key) = key(&Standin::with(&[("LACKS", attribute)]));
        let refused = key.expect_err("no key");
        assert!(refused.contains(why), "{attribute}: {refused}");
    }
}

#[test]
fn a_kernel_that_sees_a_head_sees_the_items_before_it() {
    let standin = Standin::new();
    let ends = Ends::of(&standin, 0);
    let rounds: u64 = 300;
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            for round in 1..=rounds {
                while ends.word(0).load(Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
                assert_eq!(ends.word(0).load(Ordering::Acquire), round);
                assert_eq!(ends.word(8).load(Ordering::Acquire), round * 3, "the head of a record is last");
                assert!(ends.items(4096 + 60_000, 4096).iter().all(|b| *b == round as u8), "round {round}");
                assert!(ends.items(4096, 2000).iter().all(|b| *b == round as u8), "round {round}");
                ends.word(64).store(round, Ordering::Release);
            }
        });
        for round in 1..=rounds {
            // A batch in fragments, the two pieces of a wrap, and the commit record.
            for fragment in 0..4 {
                ends.bus().write(4096 + 60_000 + fragment * 1024, &[round as u8; 1024]).expect("there");
            }
            ends.bus().write(4096, &[round as u8; 2000]).expect("there");
            let record = [round.to_ne_bytes(), (round * 3).to_ne_bytes()].concat();
            ends.bus().write(0, &record).expect("there");
            // Its place is used again when the consumer has given it back.
            while ends.word(64).load(Ordering::Acquire) < round && !consumer.is_finished() {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn a_read_is_behind_what_was_written_and_what_kernels_stored_before() {
    let standin = Standin::new();
    let ends = Ends::of(&standin, 1);
    let (mut word, mut items) = ([0; 8], vec![0; 5000]);
    for round in 0..100u8 {
        ends.bus().write(4096 + 100, &[round; 5000]).expect("there");
        ends.bus().read(4096 + 100, &mut items).expect("there");
        assert!(items.iter().all(|b| *b == round), "{round}");
        ends.store(4096 + 100, &[!round; 5000]);
        ends.bus().read(4096 + 100, &mut items).expect("there");
        assert!(items.iter().all(|b| *b == !round), "{round}");
        // Bytes that lie between two writes stay.
        ends.store(4096 + 200, &[round ^ 0x33; 100]);
        ends.bus().write(4096 + 100, &[1; 100]).expect("there");
        ends.bus().write(4096 + 300, &[2; 100]).expect("there");
        ends.bus().settle().expect("there");
        let seen = ends.items(4096 + 100, 300);
        assert!(seen == [[1; 100], [round ^ 0x33; 100], [2; 100]].concat(), "{seen:?}");
        // The same bytes again and again, other ones in between.
        for offset in [4096 + 30_000, 4096 + 1000] {
            ends.store(offset, &[round ^ 0x55; 5000]);
            ends.word(0).store(u64::from(round), Ordering::Release);
            ends.fetched(0, &mut word);
            assert_eq!(u64::from_ne_bytes(word), u64::from(round));
            ends.fetched(offset, &mut items);
            assert!(items.iter().all(|b| *b == round ^ 0x55), "{round}");
        }
        // A read that another one has taken the place of.
        ends.bus().expect(4096, 64);
        ends.bus().expect(4096 + 2048, 64);
        ends.store(4096, &[round; 64]);
        while !ends.bus().is_here(4096, 64) {
            std::thread::yield_now();
        }
        ends.bus().fetch(4096, &mut items[..64]).expect("there");
        assert!(items[..64].iter().all(|b| *b == round), "{round}");
        // One that nobody has said to expect.
        ends.store(4096 + 2048, &[round ^ 7; 64]);
        ends.bus().fetch(4096 + 2048, &mut items[..64]).expect("there");
        assert!(items[..64].iter().all(|b| *b == round ^ 7), "{round}");
        ends.bus().write(64, &[round; 8]).expect("there");
        ends.bus().settle().expect("there");
        assert_eq!(ends.word(64).load(Ordering::Acquire), u64::from_ne_bytes([round; 8]));
    }
}

#[test]
fn nothing_is_published_behind_a_copy_that_failed() {
    for copies in 0..6 {
        let standin = Standin::new();
        let (ends, other) = (Ends::of(&standin, 0), Ends::of(&standin, 1));
        standin.lose(0, copies);
        let mut sent = 0;
        while sent < 100 {
            sent += 1;
            // In two copies, so that either can be the one.
            let written = ends
                .bus()
                .write(4096, &[sent as u8; 4096])
                .and_then(|()| ends.bus().write(4096 + 8192, &[sent as u8; 4096]))
                .and_then(|()| ends.bus().write(0, &u64::from(sent).to_ne_bytes()));
            if written.and_then(|()| ends.bus().settle()).is_err() {
                break;
            }
        }
        assert_eq!(sent, copies / 2 + 1, "it was noticed at once");
        assert_eq!(ends.word(0).load(Ordering::Acquire), u64::from(sent) - 1, "{copies} copies");
        let torn = ends.items(if copies % 2 == 0 { 4096 } else { 4096 + 8192 }, 4096);
        assert_eq!((torn[0], torn[4095]), (sent as u8, sent as u8 - 1), "the stand-in stops in the middle");
        let trouble = ends.memory.trouble().expect("it is lost");
        for word in ["GPU 0 (stand-in 0", "CUDA_ERROR_DEVICE_UNAVAILABLE", "nvidia-smi"] {
            assert!(trouble.contains(word), "`{trouble}` lacks `{word}`");
        }
        // All that is asked from now on is answered at once.
        let bus = ends.bus();
        bus.expect(4096, 64);
        assert!(bus.is_here(4096, 64));
        assert_eq!((bus.fetch(4096, &mut [0; 64]), bus.read(0, &mut [0; 8])), (Err(Gone), Err(Gone)));
        assert_eq!((bus.write(0, &[0; 8]), bus.settle()), (Err(Gone), Err(Gone)));
        // The other GPU goes on.
        other.bus().write(4096, &[7; 64]).and_then(|()| other.bus().settle()).expect("there");
        assert_eq!((other.items(4096, 1), other.memory.trouble()), (vec![7], None));
    }
}

#[test]
fn nothing_is_published_behind_a_copy_that_was_refused() {
    let standin = Standin::new();
    let ends = Ends::of(&standin, 1);
    ends.bus().write(4096, &[1; 64]).expect("there");
    standin.refuse_once(1);
    // The driver takes all that comes later.
    assert_eq!(ends.bus().write(0, &64u64.to_ne_bytes()), Err(Gone));
    assert_eq!(ends.bus().write(0, &64u64.to_ne_bytes()), Err(Gone));
    assert_eq!((ends.bus().settle(), ends.bus().read(0, &mut [0; 8])), (Err(Gone), Err(Gone)));
    assert_eq!(ends.word(0).load(Ordering::Acquire), 0);
    let trouble = ends.memory.trouble().expect("it is lost");
    assert!(trouble.contains("GPU 1 (stand-in 1") && trouble.contains("cuMemcpy2DAsync"), "{trouble}");
}
