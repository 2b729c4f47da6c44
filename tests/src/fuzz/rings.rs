//! Contents of a ring's memory, where a processing unit, a NIC and a switch write.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

use zsr_ring::memory::{Memory, MemoryKey, Visibility};
use zsr_ring::segment::{SegmentConfig, SegmentReadError, SegmentReader, SegmentWriter};
use zsr_ring::{ByteOrder, Cancel, Consumer, Producer, Ring, RingSpec, Role};

/// Items of 128 B in a consumer's ring, as segments: each is valid, is refused, or is the end.
pub fn segments(bytes: &[u8]) {
    const ITEM: usize = 128;
    let spec = RingSpec::new(ITEM as u64, 4096).expect("powers of two");
    let (mut producer, consumer) = Ring::loopback(spec).expect("memory");
    let mut reader = SegmentReader::expecting(consumer, [(3, 0)]);
    for chunk in bytes.chunks(ITEM) {
        let mut item = [0; ITEM];
        item[..chunk.len()].copy_from_slice(chunk);
        producer.try_push(&item).expect("room");
        match reader.try_next_segment() {
            Ok(segment) => {
                let held: usize = segment.records().filter_map(Result::ok).map(<[u8]>::len).sum();
                assert!(held <= ITEM, "records lie in their segment");
            }
            Err(SegmentReadError::Ring(_)) => return,
            Err(wrong) => assert!(!wrong.to_string().is_empty()),
        }
    }
}

/// Items of the rings below, and what they hold, in bytes.
const ITEM: usize = 64;
const RING: usize = 1024;

/// Memory with an exact end: reads and writes beyond it meet AddressSanitizer's guards.
#[derive(Debug)]
struct Heap {
    base: NonNull<u8>,
    layout: Layout,
    order: ByteOrder,
}

// SAFETY: the allocation belongs to this object alone, which hands out nothing but its address.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    fn new(len: usize, order: ByteOrder) -> Heap {
        let layout = Layout::from_size_align(len, 4096).expect("a small size");
        // SAFETY: the size is not 0.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).expect("memory");
        Heap { base, layout, order }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, with this layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}

// SAFETY: aligned, zeroed, and there until the object goes; no references into it are made.
unsafe impl Memory for Heap {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.layout.size()
    }

    fn key(&self) -> Result<MemoryKey, String> {
        Ok(MemoryKey::HostAddress)
    }

    fn byte_order(&self) -> ByteOrder {
        self.order
    }

    fn visibility(&self) -> Visibility {
        Visibility::Coherent
    }

    fn describe(&self) -> String {
        "memory of a test".into()
    }
}

/// Access to the ring's memory, as of a program that has mapped it, or of a faulty NIC or switch.
fn scribble(ring: &Ring, at: usize, bytes: &[u8]) {
    let memory = ring.memory();
    for (i, byte) in bytes.iter().enumerate() {
        let at = (at + i) % memory.len();
        // SAFETY: in bounds, and nobody holds references into it: calls and scribbles take turns.
        unsafe { memory.base().as_ptr().add(at).write_volatile(*byte) };
    }
}

/// Takes arguments from the input; 0 where it has ended.
struct Script<'b>(&'b [u8]);

impl<'b> Script<'b> {
    fn byte(&mut self) -> usize {
        self.bytes(1).first().copied().unwrap_or(0).into()
    }

    fn bytes(&mut self, len: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> u32 {
        self.bytes(4).iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte))
    }
}

/// Programs at a producer ring and at a consumer ring, and any contents of their memory, in any order. Calls return at
/// once, with items of the ring and of nothing else, or with an error. Impossible control words are never followed out
/// of the ring.
pub fn rings(bytes: &[u8]) {
    let mut script = Script(bytes);
    let how = script.byte();
    let order = if how & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let start = if how & 2 == 0 { 0 } else { 0u32.wrapping_sub(4 * ITEM as u32) };
    let spec = RingSpec::new(ITEM as u64, RING as u64).expect("powers of two").with_byte_order(order);
    let ring = |role| {
        let memory = Arc::new(Heap::new(spec.memory_len(), order));
        Ring::over(role, spec, memory, start, 1).expect("memory that fits")
    };
    let (pushes, pops) = (ring(Role::Producer), ring(Role::Consumer));
    let mut producer = Some(pushes.attach_producer(Cancel::default()).expect("free"));
    let mut consumer = Some(pops.attach_consumer(Cancel::default()).expect("free"));
    while !script.0.is_empty() {
        let what = script.byte();
        let ring = if what & 0x80 == 0 { &pushes } else { &pops };
        match what & 0x0f {
            // Most of what is there to go wrong is in the first 128 bytes.
            0..=3 => {
                let at = script.byte() % 128;
                let len = script.byte() % 17;
                scribble(ring, at, script.bytes(len));
            }
            4 => {
                let at = script.number() as usize % spec.memory_len();
                scribble(ring, at, script.bytes(ITEM));
            }
            5..=8 => push(&mut producer, &pushes, &mut script),
            9..=12 => pop(&mut consumer, &pops, &mut script),
            _ => look(ring, &mut script),
        }
    }
}

fn push(handle: &mut Option<Producer>, ring: &Arc<Ring>, script: &mut Script<'_>) {
    if handle.is_none() {
        *handle = ring.attach_producer(Cancel::default()).ok();
    }
    let Some(producer) = handle else { return };
    let capacity = RING / ITEM;
    let said = match script.byte() % 8 {
        0 => producer.try_push(&[1; ITEM]).map(|()| 1),
        1 => producer.try_push_slice(&[2; RING]),
        2 => producer.reserve(script.byte()).map(|mut room| {
            let len = room.len();
            assert_eq!(room.bytes().len(), len * ITEM);
            room.bytes().fill(3);
            room.publish(script.byte());
            len
        }),
        3 => producer.free_items().map(|free| free as usize),
        4 => producer.is_drained().map(usize::from),
        5 => Ok(usize::from(producer.is_aborted())),
        6 => {
            handle.take().expect("it is there").detach();
            return;
        }
        _ => {
            let config = SegmentConfig { producer: 1, checksum: true, ..SegmentConfig::default() };
            let mut writer = SegmentWriter::records(handle.take().expect("it is there"), config)
                .expect("room for records");
            for _ in 0..script.byte() {
                if let Err(wrong) = writer.try_push(&[4; 20]) {
                    assert!(!wrong.to_string().is_empty());
                    break;
                }
            }
            writer.abandon();
            return;
        }
    };
    match said {
        Ok(items) => assert!(items <= capacity, "{items} items in a ring of {capacity}"),
        Err(wrong) => assert!(!wrong.to_string().is_empty()),
    }
}

fn pop(handle: &mut Option<Consumer>, ring: &Arc<Ring>, script: &mut Script<'_>) {
    if handle.is_none() {
        *handle = ring.attach_consumer(Cancel::default()).ok();
    }
    let Some(consumer) = handle else { return };
    let capacity = RING / ITEM;
    let mut buffer = [0; 2 * RING];
    let said = match script.byte() % 8 {
        0 => consumer.try_pop(&mut buffer[..ITEM]).map(|()| 1),
        1 => consumer.try_pop_slice(&mut buffer),
        2..=3 => consumer.peek_at_most(script.byte()).map(|mut view| {
            let len = view.len();
            assert_eq!(view.bytes().len(), len * ITEM);
            assert_eq!(view.iter().len(), len);
            // Every byte is read, so that one outside of the ring is noticed.
            std::hint::black_box(view.bytes().iter().fold(0u8, |sum, byte| sum ^ byte));
            match script.byte() {
                0..64 => view.keep(),
                64..128 => drop(view.hold()),
                n => view.advance(n % 16),
            }
            len
        }),
        4 => {
            consumer.give_back((script.byte() & 1 == 1).then(|| u64::from(script.number())));
            Ok(consumer.held().min(capacity))
        }
        5 => {
            consumer.set_publish_lag(script.number());
            Ok(0)
        }
        6 => {
            handle.take().expect("it is there").detach();
            return;
        }
        _ => {
            let mut reader = SegmentReader::new(handle.take().expect("it is there")).with_gaps();
            for _ in 0..capacity {
                match reader.try_next_segment() {
                    Ok(segment) => {
                        let held: usize = segment.records().filter_map(Result::ok).map(<[u8]>::len).sum();
                        assert!(held <= ITEM, "records lie in their segment");
                    }
                    Err(wrong) => {
                        assert!(!wrong.to_string().is_empty());
                        break;
                    }
                }
            }
            *handle = Some(reader.into_consumer());
            return;
        }
    };
    match said {
        Ok(items) => assert!(items <= capacity, "{items} items in a ring of {capacity}"),
        Err(wrong) => assert!(!wrong.to_string().is_empty()),
    }
}

/// The agent's accesses to a ring.
fn look(ring: &Arc<Ring>, script: &mut Script<'_>) {
    match script.byte() % 8 {
        0 => {
            let len = script.number() as usize % (2 * RING);
            match ring.items_at(script.number(), len) {
                Ok(items) => assert!(items.len() == len && len <= RING),
                Err(wrong) => assert!(!wrong.to_string().is_empty()),
            }
        }
        1 => {
            let items = script.byte() % 20 * ITEM;
            if let Err(wrong) = ring.complete(script.number(), &vec![5; items]) {
                assert!(!wrong.to_string().is_empty());
            }
        }
        2 => ring.taken(script.number()),
        3 => drop((ring.snapshot().fill(), ring.push_stats(), ring.pop_stats())),
        4 => drop(ring.filled_bytes()),
        5 => drop(ring.lease().map(|lease| lease.left())),
        6 => drop(ring.end_unattended()),
        _ => ring.begun().set(script.number(), script.number()),
    }
}
