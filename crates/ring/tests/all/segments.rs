//! Segments over rings: what goes in comes out, and what is wrong is said.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use zsr_ring::segment::{
    SegmentConfig, SegmentFault, SegmentPushError, SegmentReadError, SegmentReader, SegmentSetupError,
    SegmentWriter,
};
use zsr_ring::{Cancel, Consumer, PopError, Producer, PushError, Ring, RingSpec};

fn ring(item: u64, size: u64) -> (Producer, Consumer) {
    Ring::loopback(RingSpec::new(item, size).expect("powers of two")).expect("memory")
}

fn config(producer: u32) -> SegmentConfig {
    SegmentConfig { producer, checksum: true, ..SegmentConfig::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn records_come_out_as_they_went_in(
        lengths in prop::collection::vec(0usize..=92, 0..200),
        flushes in prop::collection::vec(any::<bool>(), 200),
        checksum: bool,
    ) {
        let (tx, rx) = ring(128, 256);
        let config = SegmentConfig { producer: 3, checksum, first_sequence: u64::MAX - 2, ..SegmentConfig::default() };
        let mut writer = SegmentWriter::records(tx, config).expect("128 B are enough");
        let mut reader = SegmentReader::expecting(rx, [(3, u64::MAX - 2)]);
        prop_assert_eq!(writer.max_record(), 92);
        let records: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(i, &len)| vec![i as u8; len]).collect();
        let mut got = Vec::new();
        for (record, flush) in records.iter().zip(flushes) {
            while let Err(error) = writer.try_push(record) {
                prop_assert_eq!(error, SegmentPushError::Ring(PushError::Full));
                read(&mut reader, &mut got);
            }
            if flush {
                writer.flush().expect("never waits");
            }
        }
        let mut writer = Some(writer);
        while let Some(last) = writer.take() {
            // The ring has two items: the last segment may have to wait for nothing, it is in place.
            last.close().expect("in place");
        }
        while read(&mut reader, &mut got) {}
        prop_assert_eq!(got, records);
    }

    #[test]
    fn tuples_fill_a_segment_to_the_last_that_fits(tuple in 1u32..=96, count in 0u32..300) {
        let (tx, rx) = ring(128, 64 << 10);
        let mut writer = SegmentWriter::tuples(tx, config(0), tuple).expect("at least one fits");
        for i in 0..count {
            writer.push_with(tuple as usize, |place| place.fill(i as u8)).expect("room");
        }
        prop_assert_eq!(writer.records_taken(), u64::from(count));
        writer.close().expect("room");
        let mut reader = SegmentReader::new(rx);
        let (mut seen, mut segments) = (0, 0);
        while let Ok(segment) = reader.try_next_segment() {
            prop_assert_eq!(segment.header().tuple_size(), Some(tuple));
            for record in segment.records() {
                prop_assert_eq!(record.expect("sound"), vec![seen as u8; tuple as usize]);
                seen += 1;
            }
            segments += 1;
        }
        prop_assert_eq!(seen, count);
        prop_assert_eq!(segments, count.div_ceil(96 / tuple));
    }

    #[test]
    fn any_item_is_read_or_refused(items in prop::collection::vec(prop::collection::vec(any::<u8>(), 64), 1..8),
                                   forge in any::<bool>()) {
        let (mut tx, rx) = ring(64, 1024);
        let count = items.len();
        for mut item in items {
            if forge {
                // A plausible header, so that the records are looked at.
                item[..8].copy_from_slice(b"ZSEG\x01\0\0\0");
                item[12..16].copy_from_slice(&[2, 0, 0, 0]);
                item[24..28].copy_from_slice(&[20, 0, 0, 0]);
            }
            tx.try_push(&item).expect("room");
        }
        tx.close();
        let mut reader = SegmentReader::new(rx);
        let mut answers = 0;
        loop {
            match reader.try_next_segment() {
                Ok(segment) => {
                    let results: Vec<_> = segment.records().collect();
                    prop_assert!(results.len() <= segment.len() + 1);
                    answers += 1;
                }
                Err(SegmentReadError::Fault(_)) => answers += 1,
                Err(SegmentReadError::Sequence { .. }) => {}
                Err(end) => {
                    prop_assert!(end.is_end_of_stream());
                    break;
                }
            }
        }
        prop_assert_eq!(answers, count);
    }
}

fn read(reader: &mut SegmentReader, got: &mut Vec<Vec<u8>>) -> bool {
    match reader.try_next_segment() {
        Ok(segment) => {
            got.extend(segment.records().map(|record| record.expect("sound").to_vec()));
            true
        }
        Err(SegmentReadError::Ring(PopError::Closed | PopError::Empty)) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_record_longer_than_an_item_is_refused_with_both_sizes() {
    let (tx, _rx) = ring(64, 1024);
    let mut writer = SegmentWriter::records(tx, config(0)).expect("64 B are enough");
    assert_eq!(writer.push(&[0; 28]), Ok(()));
    assert_eq!(writer.push(&[0; 29]), Err(SegmentPushError::RecordTooLong { record: 29, max: 28, item: 64 }));
    assert_eq!(
        writer.push(&[0; 2000]).expect_err("too long").to_string(),
        "a record of 2000 B is longer than items of 64 B can hold, which is 28 B"
    );
    assert_eq!(writer.records_taken(), 1);
}

#[test]
fn rings_that_cannot_carry_segments_are_refused() {
    let (tx, _rx) = ring(32, 1024);
    assert_eq!(
        SegmentWriter::records(tx, config(0)).expect_err("too small"),
        SegmentSetupError::ItemTooSmall { item: 32 }
    );
    for tuple in [0, 33, u32::MAX] {
        let (tx, _rx) = ring(64, 1024);
        assert_eq!(
            SegmentWriter::tuples(tx, config(0), tuple).expect_err("no fit"),
            SegmentSetupError::TupleSize { tuple, item: 64, room: 32 }
        );
    }
    let (tx, _rx) = ring(64, 1024);
    let mut writer = SegmentWriter::tuples(tx, config(0), 8).expect("fits");
    assert_eq!(writer.push(&[0; 7]), Err(SegmentPushError::TupleSize { expected: 8, got: 7 }));
}

#[test]
fn damage_is_skipped_and_gaps_are_reported_without_loss() {
    let (mut tx, mut rx) = ring(64, 1024);
    // Make five segments, then push them again: one damaged, one left out, one twice.
    let (side, mut copies) = ring(64, 1024);
    let mut writer = SegmentWriter::records(side, config(9)).expect("64 B are enough");
    let segments: Vec<Vec<u8>> = (0..5u8)
        .map(|i| {
            writer.push(&[i]).expect("room");
            writer.flush().expect("room");
            let mut item = vec![0; 64];
            copies.pop(&mut item).expect("just pushed");
            item
        })
        .collect();
    let mut damaged = segments[1].clone();
    damaged[36] ^= 1;
    for item in [&segments[0], &damaged, &segments[2], &segments[4], &segments[4]] {
        tx.try_push(item).expect("room");
    }
    tx.close();
    rx.set_publish_lag(0);
    let mut reader = SegmentReader::new(rx);
    let mut log = Vec::new();
    loop {
        match reader.next_segment() {
            Ok(segment) => log.push(format!("segment {}", segment.header().sequence)),
            Err(SegmentReadError::Fault(SegmentFault::Checksum { .. })) => log.push("damage".into()),
            Err(SegmentReadError::Sequence { producer: 9, expected, found }) => {
                log.push(format!("{expected} was to come, {found} came"));
            }
            Err(end) => {
                assert!(end.is_end_of_stream(), "{end}");
                break;
            }
        }
    }
    let expected = [
        "segment 0",
        "damage",
        "1 was to come, 2 came",
        "segment 2",
        "3 was to come, 4 came",
        "segment 4",
        "5 was to come, 4 came",
        "segment 4",
    ];
    assert_eq!(log, expected);
}

/// A ring with segments of these producers and numbers, a record `x` in each.
fn numbered(segments: &[(u32, u64)]) -> SegmentReader {
    let (mut tx, rx) = ring(64, 1024);
    for &(producer, sequence) in segments {
        let (side, mut copies) = ring(64, 64);
        let config = SegmentConfig { producer, first_sequence: sequence, ..SegmentConfig::default() };
        let mut writer = SegmentWriter::records(side, config).expect("64 B are enough");
        writer.push(b"x").expect("room");
        writer.flush().expect("room");
        let mut item = [0; 64];
        copies.pop(&mut item).expect("just pushed");
        tx.try_push(&item).expect("room");
    }
    tx.close();
    SegmentReader::new(rx)
}

#[test]
fn merged_streams_are_counted_apart() {
    let mut reader = numbered(&[(1, 0), (2, 10), (1, 1), (2, 11), (1, 3)]);
    for _ in 0..4 {
        assert!(reader.try_next_segment().is_ok());
    }
    let gap = reader.try_next_segment().expect_err("2 is missing");
    assert_eq!(gap, SegmentReadError::Sequence { producer: 1, expected: 2, found: 3 });
}

#[test]
fn a_share_of_a_stream_has_gaps() {
    let mut reader = numbered(&[(1, 0), (1, 3), (2, 7), (1, 4)]).with_gaps();
    let mut found = Vec::new();
    while let Ok(segment) = reader.next_segment() {
        assert_eq!((segment.len(), segment.record_bytes()), (1, 1));
        found.push(segment.header().sequence);
    }
    assert_eq!(found, [0, 3, 7, 4]);
}

#[test]
fn a_segment_that_was_begun_goes_on_at_whoever_comes_next() {
    let (tx, rx) = ring(256, 1024);
    let mut writer = SegmentWriter::records(tx, config(1)).expect("256 B are enough");
    for n in 0..6u8 {
        writer.push(&[n]).expect("room");
        if n == 4 {
            writer.flush().expect("room");
        }
    }
    writer.close().expect("room");
    let mut reader = SegmentReader::new(rx);
    let first = reader.next_segment().expect("there");
    assert_eq!(first.records().next(), Some(Ok(&[0][..])));
    first.keep(1);
    let again = reader.next_segment().expect("still there");
    assert_eq!((again.len(), again.records().next()), (4, Some(Ok(&[1][..]))));
    again.keep(2);
    let consumer = reader.into_consumer();
    let ring = consumer.ring().clone();
    consumer.detach();
    let mut second = SegmentReader::new(ring.attach_consumer(Cancel::new()).expect("free"));
    let mut rest = Vec::new();
    while read(&mut second, &mut rest) {}
    assert_eq!(rest, [[3], [4], [5]]);
}

#[test]
fn stamped_segments_are_timed_once_each() {
    let (tx, rx) = ring(64, 1024);
    let ring = rx.ring().clone();
    let stamping = SegmentConfig { stamp_every: 1, ..SegmentConfig::default() };
    let mut writer = SegmentWriter::records(tx, stamping).expect("64 B are enough");
    for n in 0..8u8 {
        writer.push(&[n]).expect("room");
        writer.flush().expect("room");
    }
    let mut reader = SegmentReader::new(rx);
    assert_eq!(ring.latency(), None, "nothing was popped");
    reader.next_segment().expect("there").keep(0);
    let timed = |ring: &Ring| ring.latency().map_or(0, |latency| latency.buckets.iter().sum::<u64>());
    assert_eq!(timed(&ring), 1);
    for number in 1..9 {
        reader.next_segment().expect("there");
        assert_eq!(timed(&ring), number);
    }
    drop((reader, writer));
    assert_eq!(timed(&ring), 8, "it stays for who looks later");
}

#[test]
fn one_segment_in_so_many_is_stamped_and_none_that_has_a_checksum() {
    for (checksum, expected) in [(false, 80..120), (true, 0..1)] {
        let (tx, rx) = ring(64, 1024);
        let stamping = SegmentConfig { stamp_every: 10, checksum, ..SegmentConfig::default() };
        let mut writer = SegmentWriter::records(tx, stamping).expect("64 B are enough");
        let mut reader = SegmentReader::new(rx);
        let mut stamped = 0;
        for n in 0..1000u32 {
            writer.push(&n.to_le_bytes()).expect("room");
            writer.flush().expect("room");
            let segment = reader.next_segment().expect("there");
            stamped += u32::from(segment.header().stamp.is_some());
        }
        assert!(expected.contains(&stamped), "{stamped} of 1000");
    }
}

#[test]
fn a_writer_knows_what_is_lost_with_its_ring() {
    let (tx, rx) = ring(64, 256);
    let before = tx.ring().clone();
    let mut writer = SegmentWriter::records(tx, config(1)).expect("64 B are enough");
    writer.push(b"of a program before").expect("room");
    writer.into_producer().expect("room").detach();
    let tx = before.attach_producer(Cancel::new()).expect("free");
    let mut writer = SegmentWriter::records(tx, config(2)).expect("64 B are enough");
    for n in 0..7u8 {
        writer.push(&[n]).expect("room");
        if n % 3 == 2 {
            writer.flush().expect("room");
        }
    }
    assert_eq!(writer.untaken(), 7);
    let mut reader = SegmentReader::new(rx);
    for _ in 0..2 {
        drop(reader.next_segment().expect("there"));
    }
    assert!(!writer.is_aborted());
    drop(reader);
    assert!(writer.is_aborted());
    assert_eq!(writer.abandon(), 4);
}

#[test]
fn records_are_written_where_they_lie() {
    let (tx, rx) = ring(64, 128);
    let mut writer = SegmentWriter::records(tx, config(1)).expect("64 B are enough");
    // Room is for one record: at most 28 B, and what is published may be less.
    let room = writer.try_reserve(28).expect("room").into_bytes().expect("memory");
    room[..5].copy_from_slice(b"three");
    writer.try_reserve(28).expect("still there").publish(5).expect("published");
    writer.try_reserve(3).expect("room").into_bytes().expect("memory").copy_from_slice(b"two");
    // What was not published is not there, and another record takes its place.
    writer.try_push(b"one").expect("room");
    let refused = writer.try_reserve(4).expect("room").publish(5);
    assert!(matches!(refused, Err(SegmentPushError::RecordTooLong { record: 5, max: 4, .. })), "{refused:?}");
    assert!(matches!(writer.try_reserve(29), Err(SegmentPushError::RecordTooLong { record: 29, .. })));
    writer.close().expect("closed");
    let mut reader = SegmentReader::new(rx);
    let segment = reader.next_segment().expect("a segment");
    let records: Vec<_> = segment.records().map(|r| r.expect("sound")).collect();
    assert_eq!(records, [&b"three"[..], b"one"]);
    assert_eq!(segment.as_they_lie(), (&b"\x05\0\0\0three\x03\0\0\0one"[..], None));
}

#[test]
fn many_tuples_go_in_at_once() {
    let (tx, rx) = ring(64, 128);
    let mut writer = SegmentWriter::tuples(tx, config(1), 4).expect("64 B are enough");
    let tuples: Vec<u8> = (0..21u32).flat_map(u32::to_le_bytes).collect();
    // Eight fit a segment, and two segments the ring.
    assert_eq!(writer.try_push_tuples(&tuples[..8]), Ok(2));
    assert_eq!(writer.try_push_tuples(&tuples[8..]), Ok(6));
    let room = writer.try_reserve(100).expect("room");
    let room = room.into_bytes().expect("memory");
    assert_eq!(room.len(), 32);
    room[..8].copy_from_slice(&tuples[32..40]);
    writer.try_reserve(100).expect("still there").publish(8).expect("published");
    assert_eq!(writer.try_push_tuples(&tuples[40..]), Ok(6));
    let full = writer.try_push_tuples(&tuples[64..]);
    assert_eq!(full, Err(SegmentPushError::Ring(PushError::Full)));
    let odd = SegmentPushError::TupleSize { expected: 4, got: 6 };
    assert_eq!(writer.try_push_tuples(&tuples[..6]), Err(odd));
    assert_eq!(writer.records_taken(), 16);
    let mut reader = SegmentReader::new(rx);
    let mut got = Vec::new();
    for _ in 0..2 {
        let segment = reader.try_next_segment().expect("a segment");
        assert_eq!((segment.len(), segment.as_they_lie().1), (8, Some(4)));
        got.extend_from_slice(segment.as_they_lie().0);
    }
    assert_eq!(got, tuples[..64]);
    writer.abandon();
}

#[test]
fn segments_that_are_held_stay_as_they_are() {
    let (tx, rx) = ring(64, 128);
    let mut writer = SegmentWriter::tuples(tx, config(1), 32).expect("64 B are enough");
    let mut reader = SegmentReader::new(rx);
    let push = |writer: &mut SegmentWriter, n: u8| {
        writer.try_push(&[n; 32])?;
        writer.flush()
    };
    for n in 0..2 {
        push(&mut writer, n).expect("room");
    }
    let numbers = [0, 1].map(|n| {
        let segment = reader.try_next_segment().expect("a segment");
        assert_eq!(segment.as_they_lie().0, [n; 32]);
        segment.hold()
    });
    // Both are popped, and the room of neither is free.
    let none = reader.try_next_segment().map(|_| ());
    assert_eq!(none, Err(SegmentReadError::Ring(PopError::Empty)));
    assert_eq!(push(&mut writer, 2), Err(SegmentPushError::Ring(PushError::Full)));
    assert_eq!(reader.consumer().held(), 2);
    reader.consumer().give_back(Some(numbers[1]));
    push(&mut writer, 2).expect("room");
    assert_eq!(push(&mut writer, 3), Err(SegmentPushError::Ring(PushError::Full)));
    // One that is popped while an older one is held gives no room back either.
    assert_eq!(reader.try_next_segment().expect("a segment").as_they_lie().0, [2; 32]);
    assert_eq!(push(&mut writer, 3), Err(SegmentPushError::Ring(PushError::Full)));
    reader.consumer().give_back(None);
    assert_eq!((reader.consumer().held(), writer.untaken()), (0, 0));
    // Whoever leaves with one held leaves it to the next.
    push(&mut writer, 3).expect("room");
    reader.try_next_segment().expect("a segment").hold();
    drop(reader);
    assert_eq!(writer.untaken(), 1);
    writer.abandon();
}
