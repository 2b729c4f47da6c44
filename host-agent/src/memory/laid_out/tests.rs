use super::*;
use zsr_random::SplitMix64;
use zsr_ring::layout::{Arrived, At, Column, Layout, PlacedError, Places, Rows};
use zsr_ring::segment::{SegmentConfig, SegmentPacker, SegmentReadError, SegmentReader, SegmentWriter};
use zsr_ring::{Cancel, Flags, PopError, Ring, RingSpec};

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
    let laid = Arc::new(LaidOut::over(host(spec.memory_len()), Role::Producer, ITEM as u32));
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
    assert!(trouble.contains("the item at byte 768 of the ring") && trouble.contains("number 0 of its list"));
    assert!(laid.read(at(0) + 36, &mut both).is_err());
    writer.abandon();
}

#[test]
fn regions_of_programs_before_are_kept_until_the_ring_is_drained() {
    let laid = LaidOut::over(host(ITEMS_AT + 2 * ITEM), Role::Producer, ITEM as u32);
    let some = |count| (0..count).map(|_| host(1)).collect::<Vec<_>>();
    assert_eq!(laid.register(some(16), true), 0);
    assert_eq!((1..4).map(|_| laid.register(some(16), false)).collect::<Vec<_>>(), [16, 32, 48]);
    let refused = laid.accepts(&some(1), false).expect_err("64 are in use");
    assert!(refused.contains("of which 64 are in use"), "{refused}");
    assert!(laid.accepts(&some(16), true).is_ok());
    assert_eq!(laid.register(some(1), true), 0);
}

/// A consumer ring, the switch that fills it, and what the program has to get.
struct Filled {
    laid: Arc<LaidOut>,
    ring: Arc<Ring>,
    spec: RingSpec,
    head: u32,
    sequence: u64,
    /// Records of items that have come and were not popped.
    came: std::collections::VecDeque<Vec<u8>>,
}

impl Filled {
    fn new(items: u32, start: u32) -> Self {
        let spec = RingSpec::new(ITEM as u64, (items as usize * ITEM) as u64).expect("a ring");
        let laid = Arc::new(LaidOut::over(host(spec.memory_len()), Role::Consumer, ITEM as u32));
        let ring = Ring::over(Role::Consumer, spec, laid.clone(), start, 1).expect("a ring");
        Self { laid, ring, spec, head: start, sequence: 0, came: Default::default() }
    }

    /// A program attaches, and registers `regions`.
    fn attach(&self, regions: &[Arc<dyn Memory>]) -> (SegmentReader, Places) {
        assert!(self.laid.accepts(regions, true).is_ok());
        assert_eq!(self.laid.register(regions.to_vec(), true), 0);
        let mut reader = SegmentReader::new(self.ring.attach_consumer(Cancel::new()).expect("free"));
        reader.skip_empty();
        let places = Places::new(&mut reader, regions.to_vec(), 0);
        (reader, places)
    }

    fn has_room(&self) -> bool {
        let mut word = [0; 8];
        assert!(self.laid.read(PRODUCER_TAIL as usize, &mut word).is_ok());
        let tail = ControlWord::from_bytes(word, ByteOrder::NATIVE).counter;
        self.head.wrapping_sub(tail) < self.spec.ring_size()
    }

    /// An item of these records, as a producer makes it.
    fn item(&mut self, records: &[Vec<u8>], tuple: Option<u32>, checksum: bool) -> Vec<u8> {
        let config = SegmentConfig { producer: 3, checksum, first_sequence: self.sequence, stamp_every: 2 };
        let packer = match tuple {
            Some(tuple) => SegmentPacker::tuples(ITEM as u32, config, tuple),
            None => SegmentPacker::records(ITEM as u32, config),
        };
        let mut packer = packer.expect("large enough");
        for record in records {
            packer.push(record, |_, _| panic!("they fit one item")).expect("it fits");
        }
        // Bytes behind the records are nobody's.
        let mut item = vec![0xee; ITEM];
        packer.flush(|_, bytes| item[..bytes.len()].copy_from_slice(bytes));
        self.sequence += 1;
        self.came.push_back(records.concat());
        item
    }

    /// Writes bytes of the next item.
    fn write(&self, within: usize, bytes: &[u8]) -> Result<(), Gone> {
        let at = ITEMS_AT + (self.head & (self.spec.ring_size() - 1)) as usize;
        self.laid.write(at + within, bytes)
    }

    /// Writes an item in packets of `packet` bytes, and commits it.
    fn put(&mut self, item: &[u8], packet: usize) {
        assert!(self.has_room());
        for (n, part) in item.chunks(packet).enumerate() {
            self.write(n * packet, part).expect("it has a place");
        }
        self.commit();
    }

    fn commit(&mut self) {
        self.head = self.head.wrapping_add(ITEM as u32);
        let word = ControlWord { counter: self.head, flags: Flags::with_epoch(1) };
        self.laid.write(PRODUCER_HEAD as usize, &word.to_bytes(ByteOrder::NATIVE)).expect("plain memory");
    }
}

fn bytes_of(memory: &Arc<dyn Memory>, offset: usize, len: usize) -> Vec<u8> {
    assert!(offset + len <= memory.len());
    let mut bytes = vec![0; len];
    // SAFETY: in bounds, and nobody writes meanwhile.
    unsafe { std::ptr::copy_nonoverlapping(memory.base().as_ptr().add(offset), bytes.as_mut_ptr(), len) };
    bytes
}

const BLOCK: usize = 24;
const BLOCKS: usize = 64;

/// A layout of these blocks, whose list is written at `list` of region 1.
fn blocks(regions: &[Arc<dyn Memory>], list: usize, blocks: &[u32]) -> Layout {
    let numbers: Vec<u8> = blocks.iter().flat_map(|block| block.to_ne_bytes()).collect();
    put(&regions[1], list, &numbers);
    let at = |region, offset| At { region, offset };
    let rows = Rows::Listed { at: at(1, list as u64), width: 4, count: blocks.len() as u32 };
    Layout::new(rows, [Column { at: at(0, 0), stride: BLOCK as u64, width: BLOCK as u32 }])
}

#[test]
fn records_of_any_kind_come_to_blocks_in_order_and_no_other_byte_changes() {
    for seed in 0..400 {
        let mut random = SplitMix64::new(seed);
        let items = 1 << random.below(4);
        let mut filled = Filled::new(items, (random.below(1 << 20) as u32) * ITEM as u32);
        let fresh = || vec![host(BLOCK * BLOCKS), host(4096)];
        let mut regions = fresh();
        let (mut reader, mut places) = filled.attach(&regions);
        let mut free: Vec<u32> = (0..BLOCKS as u32).collect();
        let mut placed: std::collections::VecDeque<(Vec<u32>, usize)> = Default::default();
        let mut lists = 0;
        let mut shadow = vec![0; BLOCK * BLOCKS];
        // The memory of each program that has left, and what was in it then.
        let mut left: Vec<(Arc<dyn Memory>, Vec<u8>)> = Vec::new();
        for _ in 0..300 {
            match random.below(40) {
                0..=13 => {
                    let count = (1 + random.below(8) as usize).min(free.len());
                    let chosen: Vec<u32> = (0..count)
                        .map(|_| free.swap_remove(random.below(free.len() as u64) as usize))
                        .collect();
                    let list = 32 * (lists % 64);
                    let (slots, waiting) = (items as usize, placed.len());
                    if chosen.is_empty() {
                        continue;
                    }
                    let layout = blocks(&regions, list, &chosen);
                    let done = places.try_place(&mut reader, layout).expect("it is sound");
                    assert_eq!(done, waiting < slots, "seed {seed}");
                    if done {
                        placed.push_back((chosen, list));
                        lists += 1;
                    } else {
                        free.extend(chosen);
                    }
                }
                14..=25 => {
                    if !filled.has_room() {
                        continue;
                    }
                    // Mostly whole blocks without checksum.
                    let tuple = (random.below(4) > 0).then_some([BLOCK, 8, 5][random.below(3) as usize]);
                    let most = 200 / tuple.unwrap_or(30);
                    let record = |random: &mut SplitMix64| {
                        let len = tuple.unwrap_or_else(|| random.below(26) as usize);
                        (0..len).map(|_| random.bits() as u8).collect::<Vec<u8>>()
                    };
                    let records: Vec<_> =
                        (0..1 + random.below(most as u64)).map(|_| record(&mut random)).collect();
                    let checksum = random.below(5) == 0;
                    let item = filled.item(&records, tuple.map(|tuple| tuple as u32), checksum);
                    filled.put(&item, [64, 128, 256][random.below(3) as usize]);
                }
                26..=38 => match places.try_pop(&mut reader) {
                    Ok(Arrived { producer, records, bytes, rest }) => {
                        let (chosen, _) = placed.pop_front().expect("it was placed");
                        let came = filled.came.pop_front().expect("it came");
                        assert_eq!((producer, bytes as usize), (3, came.len()), "seed {seed}");
                        assert!(records > 0 && rest.len() == came.len().saturating_sub(BLOCK * chosen.len()));
                        for (block, part) in chosen.iter().zip(came.chunks(BLOCK)) {
                            let at = *block as usize * BLOCK;
                            shadow[at..at + part.len()].copy_from_slice(part);
                            assert_eq!(bytes_of(&regions[0], at, part.len()), part, "seed {seed}");
                        }
                        assert_eq!(rest, &came[came.len() - rest.len()..], "seed {seed}");
                        free.extend(chosen);
                    }
                    Err(PlacedError::NonePlaced) => assert!(placed.is_empty() && !filled.came.is_empty()),
                    Err(PlacedError::Read(SegmentReadError::Ring(PopError::Empty))) => {
                        assert!(filled.came.is_empty(), "seed {seed}");
                    }
                    Err(e) => panic!("seed {seed}: {e}"),
                },
                _ => {
                    // The next program has memory of its own, and gets all that was not popped, also where this one dies.
                    if random.chance(0.5) {
                        places.leave(&mut reader);
                    }
                    reader.into_consumer().detach();
                    filled.laid.retire();
                    assert!(filled.laid.lock().all.is_empty());
                    // What it does with its memory is nothing to the next one.
                    let (old, at_end) = (regions[0].clone(), bytes_of(&regions[0], 0, BLOCK * BLOCKS));
                    put(&regions[1], 0, &[0xff; 4096]);
                    let untouched = (0..BLOCKS).filter(|block| {
                        free.contains(&(*block as u32))
                            && placed.iter().all(|(of, _)| !of.contains(&(*block as u32)))
                    });
                    for block in untouched {
                        let at = block * BLOCK;
                        assert_eq!(bytes_of(&regions[0], at, BLOCK), shadow[at..at + BLOCK], "seed {seed}");
                    }
                    regions = fresh();
                    (reader, places) = filled.attach(&regions);
                    left.push((old, at_end));
                    free = (0..BLOCKS as u32).collect();
                    placed.clear();
                    shadow.fill(0);
                }
            }
        }
        for (memory, at_end) in &left {
            assert!(
                bytes_of(memory, 0, BLOCK * BLOCKS) == *at_end,
                "seed {seed}: memory of one that has left"
            );
        }
        places.leave(&mut reader);
        reader.into_consumer().detach();
    }
}

#[test]
fn an_item_of_which_a_program_had_half_when_it_died_comes_whole_to_the_next() {
    let mut filled = Filled::new(2, 0);
    let regions = vec![host(BLOCK * BLOCKS), host(4096)];
    let (mut reader, mut places) = filled.attach(&regions);
    let record = |seed: u8| (0..BLOCK as u8).map(|n| n ^ seed).collect::<Vec<u8>>();
    for seed in 0..2 {
        assert!(places.try_place(&mut reader, blocks(&regions, 64 * seed as usize, &[seed])).expect("sound"));
        let item = filled.item(&[record(seed as u8)], Some(BLOCK as u32), false);
        filled.put(&item, 128);
        assert!(places.try_pop(&mut reader).is_ok());
    }
    for seed in 2..4 {
        let numbers: Vec<u32> = (0..8).map(|n| 8 * seed + n).collect();
        let layout = blocks(&regions, 64 * seed as usize, &numbers);
        assert!(places.try_place(&mut reader, layout).expect("sound"));
    }
    let records: Vec<_> = (0..8).map(record).collect();
    let whole = filled.item(&records, Some(BLOCK as u32), false);
    filled.put(&whole, 128);
    assert_eq!(bytes_of(&regions[0], 16 * BLOCK, BLOCK), record(0), "it was put in its place");
    let half = filled.item(&records, Some(BLOCK as u32), false);
    filled.write(0, &half[..128]).expect("it has a place");
    assert_eq!(bytes_of(&regions[0], 24 * BLOCK, BLOCK), record(0));
    // It dies without a word.
    drop((reader.into_consumer().detach(), places));
    filled.laid.retire();
    let next = vec![host(BLOCK * BLOCKS), host(4096)];
    let (reader, places) = filled.attach(&next);
    drop(regions);
    filled.write(128, &half[128..]).expect("it goes on");
    filled.commit();
    drop(places);
    let mut reader = reader;
    for _ in 0..2 {
        let segment = reader.next_segment().expect("a sound segment");
        assert!(segment.records().map(|record| record.expect("sound")).eq(records.iter()));
    }
    assert!(reader.try_next_segment().is_err_and(|e| e == SegmentReadError::Ring(PopError::Empty)));
    reader.into_consumer().detach();
}

#[test]
fn a_place_that_is_none_any_more_ends_the_ring_and_nothing_is_written_there() {
    let mut filled = Filled::new(1, 0);
    let regions = vec![host(BLOCK * BLOCKS), host(4096)];
    let (mut reader, mut places) = filled.attach(&regions);
    assert!(places.try_place(&mut reader, blocks(&regions, 0, &[1])).expect("sound"));
    let item = filled.item(&[vec![1; BLOCK]], Some(BLOCK as u32), false);
    filled.put(&item, 256);
    assert!(places.try_pop(&mut reader).is_ok());
    assert!(places.try_place(&mut reader, blocks(&regions, 0, &[2, 3])).expect("sound"));
    put(&regions[1], 4, &u32::MAX.to_ne_bytes());
    let item = filled.item(&vec![vec![7; BLOCK]; 2], Some(BLOCK as u32), false);
    assert!(filled.write(0, &item).is_err());
    let trouble = filled.laid.trouble().expect("it is told");
    assert!(trouble.contains("the item at byte 0 of the ring can't be put in its place"), "{trouble}");
    assert!(trouble.contains("row 4294967295, number 1 of its list"), "{trouble}");
    assert!(bytes_of(&regions[0], 3 * BLOCK, BLOCK * (BLOCKS - 3)).iter().all(|byte| *byte == 0));
    assert!(filled.write(0, &item).is_err());
    reader.into_consumer().detach();
}

#[test]
fn a_producer_can_not_say_where_its_records_go() {
    let mut filled = Filled::new(1, 0);
    let regions = vec![host(BLOCK * BLOCKS), host(4096)];
    let (mut reader, mut places) = filled.attach(&regions);
    // What a producer of ill will pushes: a layout as the consumer's own.
    let mut evil = vec![0; ITEM];
    let layout = blocks(&regions, 0, &[9]);
    let other = Arc::new(LaidOut::over(host(filled.spec.memory_len()), Role::Producer, ITEM as u32));
    let ring = Ring::over(Role::Producer, filled.spec, other.clone(), 0, 1).expect("a ring");
    let producer = ring.attach_producer(Cancel::new()).expect("free");
    let mut writer = SegmentWriter::records(producer, SegmentConfig::default()).expect("large enough");
    writer.try_lay_out(&layout, &regions, 0).expect("pushed");
    other.own.read(ITEMS_AT, &mut evil);
    writer.abandon();
    for packet in [256, 128, 64, 4] {
        assert!(places.try_place(&mut reader, blocks(&regions, 64, &[2])).expect("sound"));
        filled.put(&evil, packet);
        // The same item comes again and again, which is said once each time.
        let popped = (0..2).find_map(|_| places.try_pop(&mut reader).ok());
        assert_eq!(popped.expect("tuples as any others").bytes as usize, BLOCK);
        let written = |block: usize| bytes_of(&regions[0], block * BLOCK, BLOCK) != vec![0; BLOCK];
        assert!((0..BLOCKS).filter(|block| written(*block)).eq([2]), "by packets of {packet} B");
        put(&regions[0], 2 * BLOCK, &[0; BLOCK]);
    }
    reader.into_consumer().detach();
}

#[test]
fn blocks_of_a_program_that_has_left_are_its_own() {
    let mut filled = Filled::new(1, 0);
    let regions = vec![host(BLOCK * BLOCKS), host(4096)];
    let (mut reader, mut places) = filled.attach(&regions);
    for block in [4, 5] {
        assert!(places.try_place(&mut reader, blocks(&regions, 0, &[block])).expect("sound"));
        let item = filled.item(&[vec![block as u8; BLOCK]], Some(BLOCK as u32), false);
        filled.put(&item, 256);
        assert!(places.try_pop(&mut reader).is_ok());
    }
    places.leave(&mut reader);
    reader.into_consumer().detach();
    filled.laid.retire();
    let item = filled.item(&[vec![9; BLOCK]], Some(BLOCK as u32), false);
    filled.put(&item, 256);
    assert_eq!(bytes_of(&regions[0], 4 * BLOCK, 2 * BLOCK), [[4; BLOCK], [5; BLOCK]].concat());
    let mut reader = SegmentReader::new(filled.ring.attach_consumer(Cancel::new()).expect("free"));
    assert_eq!(reader.next_segment().expect("sound").records().count(), 1);
    reader.into_consumer().detach();
}

#[test]
fn what_was_popped_does_not_come_again_whatever_became_of_its_blocks() {
    let mut filled = Filled::new(4, 0);
    let regions = vec![host(BLOCK * BLOCKS), host(4096)];
    let (mut reader, mut places) = filled.attach(&regions);
    for block in 0..6 {
        assert!(
            places.try_place(&mut reader, blocks(&regions, 64 * block as usize, &[block])).expect("sound")
        );
        let item = filled.item(&[vec![block as u8; BLOCK]], Some(BLOCK as u32), false);
        filled.put(&item, 256);
        assert!(places.try_pop(&mut reader).is_ok());
    }
    // Two more are there when it dies. The slots of those that it has popped last have no new layouts.
    for seed in 6..8 {
        let layout = blocks(&regions, 64 * seed as usize, &[seed.into()]);
        assert!(places.try_place(&mut reader, layout).expect("sound"));
        let item = filled.item(&[vec![seed; BLOCK]], Some(BLOCK as u32), false);
        filled.put(&item, 256);
    }
    assert_eq!(reader.consumer().held(), 2);
    put(&regions[0], 0, &[0xee; 6 * BLOCK]);
    put(&regions[1], 0, &[0xee; 6 * 64]);
    drop(places);
    reader.into_consumer().detach();
    filled.laid.retire();
    let (mut reader, _) = filled.attach(&[]);
    for seed in 6..8 {
        let segment = reader.next_segment().expect("sound");
        assert!(segment.records().all(|record| record.expect("sound") == [seed; BLOCK]), "item {seed}");
        assert_eq!(segment.len(), 1);
    }
    assert!(reader.try_next_segment().is_err_and(|e| e == SegmentReadError::Ring(PopError::Empty)));
    reader.into_consumer().detach();
}
