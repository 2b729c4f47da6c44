//! Bytes in a ring that no sender has written: an error, and never a panic; those behind them are received.

use crate::common::{batch, ring, types};
use arrow_array::{Array, RecordBatch};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use zsr_arrow::{Receiver, RingReader, Rings, Sender};
use zsr_ring::segment::SegmentWriter;

/// The records that a sender makes of a batch: its schema, and its rows.
fn records(sent: &RecordBatch) -> Vec<Vec<u8>> {
    let (writer, mut reader) = ring(128 << 10, 8);
    let mut sender = Sender::over(Rings::new(vec![writer]), sent.schema()).unwrap();
    sender.send(sent).unwrap();
    sender.close().unwrap();
    let mut records = Vec::new();
    while let Ok(segment) = reader.next_segment() {
        records.extend(segment.records().map(|record| record.unwrap().to_vec()));
    }
    records
}

/// Where a record's messages begin.
fn begin(record: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([record[6], record[7]]))
}

/// As a sender does, the message aligned.
fn push(writer: &mut SegmentWriter, record: &[u8]) {
    writer.push(record).unwrap();
    writer.flush().unwrap();
}

/// Receives all there is, and uses it; says how much came, and how much was refused.
fn receive(reader: zsr_ring::segment::SegmentReader) -> (Vec<RecordBatch>, usize) {
    let (mut sound, mut refused) = (Vec::new(), 0);
    for received in Receiver::over(RingReader::new(reader)) {
        match received {
            Ok(batch) => {
                for column in batch.columns() {
                    column.to_data().validate_full().unwrap();
                    let _ = format!("{column:?}");
                    let _ = column == &column.slice(0, column.len());
                }
                sound.push(batch);
            }
            Err(why) => {
                assert!(!why.to_string().is_empty());
                refused += 1;
            }
        }
    }
    (sound, refused)
}

#[derive(Clone, Debug)]
enum Damage {
    Byte(prop::sample::Index, u8),
    Word(prop::sample::Index, i64),
    Cut(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    use Damage::*;
    let words =
        prop::sample::select(vec![-1, 0, 1, 7, 8, 64, 1 << 20, i64::from(i32::MAX), i64::MAX, i64::MIN]);
    let damage = prop_oneof![
        3 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Byte(at, byte)),
        3 => (any::<prop::sample::Index>(), words).prop_map(|(at, word)| Word(at, word)),
        1 => any::<prop::sample::Index>().prop_map(Cut),
        1 => (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(one, other)| Swap(one, other)),
    ];
    prop::collection::vec(damage, 1..4)
}

/// Damages the first `most` bytes, where all is that says how the others are to be read.
fn damage(bytes: &mut Vec<u8>, damages: &[Damage], most: usize) {
    for damage in damages {
        let end = bytes.len().min(most);
        if end == 0 {
            return;
        }
        match damage {
            Damage::Byte(at, byte) => bytes[at.index(end)] = *byte,
            Damage::Word(at, word) => {
                let at = at.index(end) & !3;
                let len = (bytes.len() - at).min(8);
                bytes[at..at + len].copy_from_slice(&word.to_le_bytes()[..len]);
            }
            Damage::Cut(at) => bytes.truncate(at.index(end)),
            Damage::Swap(one, other) => bytes.swap(one.index(end), other.index(end)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, rng_seed: RngSeed::Fixed(18), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_rows_are_refused_or_sound(
        types in prop::collection::vec(types(), 1..4),
        rows in 0usize..40,
        seed: u64,
        all in any::<bool>(),
        damages in damages(),
    ) {
        let sent = batch(&types, rows, seed);
        let sound = records(&sent);
        let (mut writer, reader) = ring(128 << 10, 8);
        push(&mut writer, &sound[0]);
        let mut damaged = sound[1].clone();
        damage(&mut damaged, &damages, if all { usize::MAX } else { begin(&sound[1]) + 512 });
        push(&mut writer, &damaged);
        push(&mut writer, &sound[1]);
        writer.close().unwrap();
        let (received, refused) = receive(reader);
        prop_assert_eq!(received.last(), Some(&sent));
        prop_assert!(received.len() + refused >= 2);
    }

    #[test]
    fn damaged_schemas_are_refused_or_sound(
        types in prop::collection::vec(types(), 1..4),
        seed: u64,
        damages in damages(),
    ) {
        let sent = batch(&types, 9, seed);
        let sound = records(&sent);
        let (mut writer, reader) = ring(128 << 10, 8);
        let at = begin(&sound[0]);
        let mut message = sound[0][at..].to_vec();
        damage(&mut message, &damages, usize::MAX);
        // Whoever writes it knows how to make a checksum.
        let number = crc32fast::hash(&message).to_le_bytes();
        let mut schema = sound[0][..at].to_vec();
        schema[8..12].copy_from_slice(&number);
        schema.extend(message);
        push(&mut writer, &schema);
        let mut rows = sound[1].clone();
        rows[8..12].copy_from_slice(&number);
        push(&mut writer, &rows);
        writer.close().unwrap();
        receive(reader);
    }

    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), like_one in any::<bool>()) {
        let mut bytes = bytes;
        if like_one && bytes.len() >= 12 {
            let kind = bytes[5] % 2;
            bytes[..8].copy_from_slice(&[b'Z', b'A', b'R', b'W', 1, kind, 28, 0]);
        }
        let (mut writer, reader) = ring(4096, 8);
        push(&mut writer, &bytes);
        writer.close().unwrap();
        prop_assert_eq!(receive(reader).0.len(), 0);
    }
}
