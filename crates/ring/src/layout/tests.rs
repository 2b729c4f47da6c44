use super::*;
use crate::memory::{ByteOrder, HostMemory, SharedMemory};
use crate::segment::{HEADER_LEN, Header, SegmentConfig, SegmentPushError, SegmentWriter};
use crate::{Cancel, Ring, RingSpec, Role};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const ITEM: usize = 4096;

/// Memory whose bytes are all different from their neighbours.
fn region(len: usize, seed: u8) -> Arc<dyn Memory> {
    let memory = HostMemory::with_order(len, ByteOrder::NATIVE).expect("memory");
    for n in 0..len {
        let byte = (n as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed;
        // SAFETY: in bounds, and nobody else has the memory.
        unsafe { memory.base().as_ptr().add(n).write(byte) };
    }
    Arc::new(memory)
}

fn put(memory: &Arc<dyn Memory>, offset: usize, bytes: &[u8]) {
    assert!(offset + bytes.len() <= memory.len());
    // SAFETY: in bounds, and nobody has a reference into it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.base().as_ptr().add(offset), bytes.len()) };
}

fn byte(regions: &Regions, at: At, plus: u64) -> u8 {
    let memory = &regions[at.region as usize];
    let offset = (at.offset + plus) as usize;
    assert!(offset < memory.len(), "the oracle left the region");
    // SAFETY: in bounds.
    unsafe { memory.base().as_ptr().add(offset).read() }
}

/// The numbers of the rows, one by one.
fn row_numbers(rows: &Rows, regions: &Regions) -> Vec<u64> {
    match *rows {
        Rows::Every { start, period, frequency, count } => {
            (start..).filter(|row| (row - start) % period < frequency).take(count as usize).collect()
        }
        Rows::Chosen { start, at, bits } => (0..u64::from(bits))
            .filter(|bit| byte(regions, at, bit / 8) >> (bit % 8) & 1 == 1)
            .map(|bit| start + bit)
            .collect(),
        Rows::Listed { at, width, count } => (0..u64::from(count))
            .map(|n| {
                let bytes = (0..u64::from(width)).map(|b| byte(regions, at, n * u64::from(width) + b));
                bytes.rev().fold(0, |number, byte| number << 8 | u64::from(byte))
            })
            .collect(),
    }
}

/// The records of a layout, byte by byte.
fn oracle(layout: &Layout, regions: &Regions) -> Vec<u8> {
    let rows = row_numbers(&layout.rows, regions);
    let element = |row: u64, column: &Column| -> Vec<u8> {
        (0..column.width).map(|b| byte(regions, column.at, row * column.stride + u64::from(b))).collect()
    };
    rows.iter()
        .flat_map(|row| layout.columns.iter().flat_map(|c| element(*row, c)).collect::<Vec<_>>())
        .collect()
}

fn words(item: &[u8]) -> impl FnMut(usize) -> u64 {
    |n| u64::from_le_bytes(item[8 * n..8 * n + 8].try_into().expect("8 bytes"))
}

/// The item that a NIC makes of a layout, read in pieces of `piece` bytes.
fn gathered(item: &[u8], regions: &Regions, piece: usize) -> Result<Vec<u8>, LayoutFault> {
    let mut laid = Laid::of(item.len(), words(item), regions)?.expect("a layout");
    let mut out = vec![0xaa; item.len()];
    assert!(laid.is_of(words(item)));
    for (n, part) in out.chunks_mut(piece).enumerate() {
        laid.read(n * piece, part)?;
    }
    Ok(out)
}

/// Pushes a layout as programs do, and gives the item as it lies in the ring.
fn pushed(layout: &Layout, regions: &Regions, first: u32) -> Result<Vec<u8>, SegmentPushError> {
    let spec = RingSpec::new(ITEM as u64, 4 * ITEM as u64).expect("a ring");
    let ring = Ring::allocate(Role::Producer, spec).expect("memory");
    let producer = ring.attach_producer(Cancel::new()).expect("free");
    let config = SegmentConfig { producer: 9, ..SegmentConfig::default() };
    let mut writer = SegmentWriter::records(producer, config).expect("large enough");
    let count = writer.try_lay_out(layout, regions, first)?;
    assert_eq!(writer.untaken(), u64::from(count));
    let item = writer.producer().untaken().next().expect("an item").to_vec();
    writer.abandon();
    Ok(item)
}

#[test]
fn columns_become_rows_and_complementary_layouts_are_all_of_a_table() {
    let regions = [region(4000, 1), region(1000, 2)];
    let columns = [(0, 0, 4), (0, 800, 8), (1, 3, 2)].map(|(region, offset, width)| Column {
        at: At { region, offset },
        stride: width.into(),
        width,
    });
    let every = |start, count| Rows::Every { start, period: 2, frequency: 1, count };
    let mut all = Vec::new();
    for rows in [every(0, 50), every(1, 50)] {
        let layout = Layout::new(rows, columns);
        let item = pushed(&layout, &regions, 0).expect("sound");
        let seen = gathered(&item, &regions, 1024).expect("sound");
        let (header, records) = Header::parse(&seen).expect("a segment as any other");
        assert_eq!((header.producer, header.count, header.tuple_size()), (9, 50, Some(14)));
        assert_eq!(records, oracle(&layout, &regions));
        all.push(records.to_vec());
    }
    let rows = all[0].chunks(14).zip(all[1].chunks(14)).flat_map(|(a, b)| [a, b].concat());
    assert_eq!(rows.collect::<Vec<_>>(), oracle(&Layout::new(Rows::all(0, 100), columns), &regions));
}

#[test]
fn plain_items_are_no_layouts() {
    let mut item = vec![0; ITEM];
    assert!(Laid::of(ITEM, words(&item), &[]).expect("plain").is_none());
    item[..8].copy_from_slice(b"ZSEG\x01\x02\0\0");
    assert_eq!(Header::parse(&item).expect("sound").0.count, 0);
    assert!(Laid::of(ITEM, words(&item), &[]).expect("plain").is_none());
}

#[test]
fn what_can_not_be_pushed_is_refused_in_words() {
    let regions = [region(1000, 1)];
    let column = |offset, stride, width| Column { at: At { region: 0, offset }, stride, width };
    let of = |rows, column: Column| Layout::new(rows, [column]);
    let at = At { region: 0, offset: 990 };
    let far = Column { at: At { region: 3, offset: 0 }, stride: 4, width: 4 };
    for (layout, words) in [
        (Layout::new(Rows::all(0, 1), []), "1 to 255 columns"),
        (of(Rows::all(0, 1), column(0, 4, 0)), "column 0 is 0 B wide"),
        (of(Rows::all(0, 0), column(0, 4, 4)), "no rows"),
        (
            of(Rows::all(0, 251), column(0, 4, 4)),
            "row 250 of column 0 ends 4 B behind region 0, which has 1000 B",
        ),
        (of(Rows::all(u64::MAX, 2), column(0, u64::MAX, 4)), "behind region 0"),
        (of(Rows::all(0, 1), far), "column 0 is in region 3, but the program has registered 1"),
        (of(Rows::all(0, 1), column(u64::MAX, 1, 4)), "behind region 0"),
        (of(Rows::all(0, 1100), column(0, 0, 4)), "1100 rows of 4 B don't fit an item, which takes 4064 B"),
        (
            of(Rows::Every { start: 0, period: 2, frequency: 3, count: 1 }, column(0, 1, 1)),
            "3 of every 2 rows",
        ),
        (
            of(Rows::Every { start: 0, period: 2, frequency: 0, count: 1 }, column(0, 1, 1)),
            "0 of every 2 rows",
        ),
        (of(Rows::Chosen { start: 0, at, bits: 81 }, column(0, 1, 1)), "the bitmap ends 1 B behind"),
        (of(Rows::Listed { at, width: 4, count: 3 }, column(0, 1, 1)), "the list of rows ends 2 B behind"),
        (of(Rows::Listed { at, width: 2, count: 3 }, column(0, 1, 1)), "4 or 8 B wide, not 2"),
        (Layout::new(Rows::all(0, 1), vec![column(0, 1, 1); 180]), "make them larger"),
    ] {
        let refused = pushed(&layout, &regions, 0).expect_err(words).to_string();
        assert!(refused.contains(words), "{refused}, not: {words}");
    }
}

#[test]
fn a_nic_does_not_follow_what_leaves_the_regions_or_has_changed() {
    let regions = [region(1000, 1)];
    let column = Column { at: At { region: 0, offset: 8 }, stride: 4, width: 8 };
    put(&regions[0], 900, &[3, 0, 0, 0, 246, 0, 0, 0]);
    let list = At { region: 0, offset: 900 };
    let listed = Layout::new(Rows::Listed { at: list, width: 4, count: 2 }, [column]);
    let item = pushed(&listed, &regions, 0).expect("the list is not looked at");
    assert_eq!(gathered(&item, &regions, 512).expect("in the region")[32..48], oracle(&listed, &regions));
    put(&regions[0], 904, &[247, 0, 0, 0]);
    let fault = gathered(&item, &regions, 512).expect_err("one too far").to_string();
    assert!(fault.contains("row 247, number 1 of its list"), "{fault}");
    let chosen = Layout::new(Rows::Chosen { start: 0, at: list, bits: 30 }, [column]);
    put(&regions[0], 900, &[0b101, 0, 0x80, 0]);
    let item = pushed(&chosen, &regions, 0).expect("3 rows");
    assert_eq!(gathered(&item, &regions, 512).expect("sound")[32..56], oracle(&chosen, &regions));
    put(&regions[0], 901, &[1]);
    let fault = gathered(&item, &regions, 512).expect_err("one more").to_string();
    assert!(fault.contains("chooses 4 rows, and chose 3"), "{fault}");
    // Another program's memory, which has other numbers here.
    let item = pushed(&chosen, &regions, 1).expect("sound for the program");
    let fault = gathered(&item, &regions, 512).expect_err("no region 1").to_string();
    assert!(fault.contains("its bitmap, which is not in registered memory"), "{fault}");
}

#[test]
fn rows_without_a_stride_are_all_the_same_wherever_they_begin() {
    let regions = [region(64, 1)];
    let column = Column { at: At { region: 0, offset: 60 }, stride: 0, width: 4 };
    put(&regions[0], 0, &[0xff]);
    for rows in [
        Rows::Every { start: u64::MAX, period: u64::MAX, frequency: 3, count: 9 },
        Rows::Chosen { start: u64::MAX, at: At { region: 0, offset: 0 }, bits: 8 },
    ] {
        let item = pushed(&Layout::new(rows, [column]), &regions, 0).expect("in the region");
        let seen = gathered(&item, &regions, 10).expect("in the region");
        let (header, records) = Header::parse(&seen).expect("a segment");
        let one: Vec<u8> = (0..4).map(|b| byte(&regions, column.at, b)).collect();
        assert_eq!(records, one.repeat(header.count as usize));
    }
}

#[test]
fn layouts_divide_a_table_or_it_is_said_which_row_they_do_not() {
    let regions = [region(1000, 1)];
    let of = |rows| Layout::new(rows, [Column { at: At { region: 0, offset: 0 }, stride: 1, width: 1 }]);
    let every = |start, frequency, count| of(Rows::Every { start, period: 3, frequency, count });
    let said = |layouts: &[Layout]| divides(layouts, 100, &regions).map_err(|e| e.to_string());
    assert_eq!(said(&[every(0, 1, 34), every(1, 2, 66)]), Ok(()));
    assert_eq!(said(&[of(Rows::all(0, 100)), of(Rows::all(0, 0))]), Ok(()));
    let twice = said(&[every(0, 1, 34), every(0, 2, 66)]).expect_err("an overlap");
    assert!(twice.contains("row 0 is in layout 1, and in one before"), "{twice}");
    let missing = said(&[every(0, 1, 34), every(1, 2, 65)]).expect_err("a hole");
    assert!(missing.contains("row 98 is in none"), "{missing}");
    let far = said(&[every(0, 1, 35), every(1, 2, 66)]).expect_err("a row too many");
    assert!(far.contains("layout 0 has row 102, and the table has 100"), "{far}");
    let endless = said(&[of(Rows::Every { start: u64::MAX, period: u64::MAX, frequency: 1, count: 2 })]);
    assert!(endless.expect_err("far away").contains("layout 0 has row"));
    // Bits and numbers that complement each other.
    put(&regions[0], 0, &[0b0101_0101; 12]);
    put(&regions[0], 12, &[0b0101]);
    let chosen = of(Rows::Chosen { start: 0, at: At { region: 0, offset: 0 }, bits: 100 });
    for (n, row) in (1..100_u32).step_by(2).enumerate() {
        put(&regions[0], 100 + 4 * n, &row.to_ne_bytes());
    }
    let listed = |count| of(Rows::Listed { at: At { region: 0, offset: 100 }, width: 4, count });
    assert_eq!(said(&[chosen.clone(), listed(50)]), Ok(()));
    assert!(said(&[listed(49), chosen.clone()]).expect_err("a hole").contains("row 99 is in none"));
    assert!(
        said(&[chosen, listed(300)]).expect_err("no memory").contains("the list of rows ends 300 B behind")
    );
}

#[test]
fn memory_can_be_shared_with_an_agent() {
    let shared: Arc<dyn Memory> = Arc::new(SharedMemory::create(5000, ByteOrder::NATIVE).expect("memory"));
    let file = shared.file().expect("a descriptor").try_clone_to_owned().expect("a copy");
    let there: Arc<dyn Memory> =
        Arc::new(SharedMemory::open(file, 5000, ByteOrder::NATIVE).expect("the same"));
    put(&shared, 4992, b"the end!");
    let column = Column { at: At { region: 0, offset: 4992 }, stride: 0, width: 8 };
    let item = pushed(&Layout::new(Rows::all(0, 1), [column]), &[shared], 2).expect("sound");
    let regions = [region(10, 0), region(10, 0), there];
    assert_eq!(&gathered(&item, &regions, 64).expect("sound")[32..40], b"the end!");
}

/// Where the bytes of a layout's rows are, in order; `None` if some are there twice, or are those of its list or bitmap.
fn places(layout: &Layout, regions: &Regions) -> Option<Vec<(u32, u64)>> {
    let rows = row_numbers(&layout.rows, regions);
    let source = match layout.rows {
        Rows::Every { .. } => None,
        Rows::Chosen { at, bits, .. } => Some((at, u64::from(bits).div_ceil(8))),
        Rows::Listed { at, width, count } => Some((at, u64::from(width) * u64::from(count))),
    };
    let mut seen: std::collections::HashSet<(u32, u64)> = std::collections::HashSet::new();
    seen.extend(source.iter().flat_map(|(at, len)| (0..*len).map(|n| (at.region, at.offset + n))));
    let mut all = Vec::new();
    for (row, column) in rows.iter().flat_map(|row| layout.columns.iter().map(move |column| (row, column))) {
        for n in 0..u64::from(column.width) {
            let place = (column.at.region, column.at.offset + row * column.stride + n);
            if place.1 >= regions[place.0 as usize].len() as u64 || !seen.insert(place) {
                return None;
            }
            all.push(place);
        }
    }
    Some(all)
}

fn rows() -> impl Strategy<Value = Rows> {
    let at = (0..2_u32, 0..2000_u64).prop_map(|(region, offset)| At { region, offset });
    prop_oneof![
        (0..60_u64, 1..9_u64, 1..9_u64, 1..200_u32).prop_map(|(start, a, b, count)| Rows::Every {
            start,
            period: a.max(b),
            frequency: a.min(b),
            count
        }),
        (0..20_u64, at.clone(), 0..300_u32).prop_map(|(start, at, bits)| Rows::Chosen { start, at, bits }),
        (at, prop_oneof![Just(4), Just(8)], 0..60_u32).prop_map(|(at, width, count)| Rows::Listed {
            at,
            width,
            count
        }),
    ]
}

fn column() -> impl Strategy<Value = Column> {
    (0..2_u32, 0..3000_u64, 0..40_u64, prop_oneof![Just(1), Just(2), Just(4), Just(8), Just(16), 1..40_u32])
        .prop_map(|(region, offset, stride, width)| Column { at: At { region, offset }, stride, width })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn random_layouts_are_what_an_oracle_makes_of_them(
        rows in rows(),
        columns in prop::collection::vec(column(), 1..7),
        listed in prop::collection::vec(0..90_u64, 60),
        piece in 1..1500_usize,
    ) {
        let regions = [region(6000, 1), region(9000, 2)];
        if let Rows::Listed { at, width, count } = rows {
            for (n, row) in listed.iter().take(count as usize).enumerate() {
                let bytes = &row.to_ne_bytes()[..width as usize];
                put(&regions[at.region as usize], at.offset as usize + n * width as usize, bytes);
            }
        }
        let layout = Layout::new(rows, columns);
        if let Ok(item) = pushed(&layout, &regions, 0) {
            if let Ok(seen) = gathered(&item, &regions, piece) {
                let (header, records) = Header::parse(&seen).expect("a sound segment");
                prop_assert_eq!(records, oracle(&layout, &regions));
                prop_assert_eq!(u64::from(header.count) * layout.row_size(), records.len() as u64);
                prop_assert!(seen[HEADER_LEN + records.len()..].iter().all(|byte| *byte == 0));
            } else {
                prop_assert!(matches!(rows, Rows::Listed { .. }), "only lists are not looked at");
            }
        }
    }

    #[test]
    fn records_are_scattered_to_where_an_oracle_finds_them_and_nothing_else_changes(
        rows in rows(),
        columns in prop::collection::vec(column(), 1..4),
        listed in prop::collection::vec(0..90_u64, 60),
        seed: u8,
        piece in 1..1500_usize,
    ) {
        let regions = [region(6000, 1), region(9000, 2)];
        if let Rows::Listed { at, width, count } = rows {
            for (n, row) in listed.iter().take(count as usize).enumerate() {
                let bytes = &row.to_ne_bytes()[..width as usize];
                put(&regions[at.region as usize], at.offset as usize + n * width as usize, bytes);
            }
        }
        let layout = Layout::new(rows, columns);
        let mut item = vec![0; ITEM];
        if encode(&layout, &regions, 0, &mut item).is_err() {
            return Ok(());
        }
        item[..8].copy_from_slice(b"ZSEG\x01\x82\0\0");
        let laid = Laid::placed(ITEM, words(&item), &regions).expect("sound");
        let mut laid = laid.expect("a layout");
        let places = places(&layout, &regions);
        // Bytes that are written twice, and rows that are written over, have no order.
        let Some(places) = places else { return Ok(()) };
        prop_assert_eq!(laid.room(), places.len());
        let records: Vec<u8> = (0..places.len() + 9).map(|n| (n as u8).wrapping_mul(37) ^ seed).collect();
        let mut expected: Vec<Vec<u8>> =
            regions.iter().zip(0..).map(|(memory, region)| {
                (0..memory.len() as u64).map(|n| byte(&regions, At { region, offset: 0 }, n)).collect()
            }).collect();
        for ((region, offset), byte) in places.iter().zip(&records) {
            expected[*region as usize][*offset as usize] = *byte;
        }
        for (n, part) in records.chunks(piece).enumerate() {
            prop_assert_eq!(laid.write(n * piece, part), Ok(()));
        }
        for (region, expected) in (0..).zip(expected) {
            for (n, expected) in (0..).zip(expected) {
                prop_assert_eq!(byte(&regions, At { region, offset: 0 }, n), expected, "byte {} of {}", n, region);
            }
        }
    }

    #[test]
    fn a_nic_survives_any_item(
        mut item in prop::collection::vec(any::<u8>(), 512),
        small in prop::collection::vec((32..400_usize, 0..3_u8), 0..300),
        piece in 1..600_usize,
    ) {
        for (at, byte) in small {
            item[at] = byte;
        }
        item[..8].copy_from_slice(b"ZSEG\x01\x82\0\0");
        let regions = [region(300, 1), region(40, 2)];
        let _ = gathered(&item, &regions, piece);
        if let Ok(Some(mut laid)) = Laid::placed(item.len(), words(&item), &regions) {
            for (n, part) in [7; 600].chunks(piece).enumerate() {
                let _ = laid.write(n * piece, part);
            }
        }
    }
}
