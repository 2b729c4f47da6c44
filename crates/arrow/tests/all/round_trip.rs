//! Batches of any schema, through rings in memory: what is received is what was sent.

use crate::common::{batch, pair, ring, types};
use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use zsr_arrow::{Error, Outlet, Received, Receiver, RingReader, Rings, Sender, hash_rows};

/// Compares what comes with `sent`, row by row, and says how many batches came.
fn expect(receiver: Receiver<RingReader>, sent: &RecordBatch) -> usize {
    let (mut rows, mut batches) = (0, 0);
    for received in receiver {
        let received = received.unwrap();
        for column in received.columns() {
            column.to_data().validate_full().unwrap();
        }
        assert_eq!(received, sent.slice(rows, received.num_rows()));
        (rows, batches) = (rows + received.num_rows(), batches + 1);
    }
    assert_eq!(rows, sent.num_rows());
    batches
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(18), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_schema_comes_as_it_went(
        types in prop::collection::vec(types(), 0..5),
        rows in 0usize..200,
        seed: u64,
        item in prop::sample::select(vec![32u64 << 10, 128 << 10]),
    ) {
        let sent = batch(&types, rows, seed);
        let (mut sender, mut receivers) = pair(&sent.schema(), item, 64, 1);
        sender.send(&sent).unwrap();
        sender.close().unwrap();
        expect(receivers.remove(0), &sent);
    }

    #[test]
    fn rows_of_any_schema_come_in_pieces(
        types in prop::collection::vec(types(), 1..4),
        rows in 0usize..20,
        seed: u64,
    ) {
        let sent = batch(&types, rows, seed);
        let (writer, reader) = ring(512, 4096);
        let mut sender = Sender::over(Rings::new(vec![writer]), sent.schema()).unwrap().agreed();
        sender.send(&sent).unwrap();
        sender.close().unwrap();
        expect(Receiver::over(RingReader::new(reader)).expect(&sent.schema()).unwrap(), &sent);
    }

    #[test]
    fn scattered_rows_are_those_that_arrow_takes(
        // arrow-select 60.1 takes a null of one of a union's types for that of another, and merges runs of them.
        types in prop::collection::vec(types().prop_filter("runs of unions", |t| !format!("{t:?}").contains("RunEnd")
            || !format!("{t:?}").contains("Union")), 1..4),
        rows in 0usize..200,
        seed: u64,
        consumers in 1usize..6,
    ) {
        let sent = batch(&types, rows, seed);
        let mut dice = crate::common::Dice::new(seed);
        let targets: Vec<u32> = (0..rows).map(|_| dice.below(consumers) as u32).collect();
        let (mut sender, receivers) = pair(&sent.schema(), 64 << 10, 64, consumers);
        sender.send_rows(&sent, &targets).unwrap();
        sender.close().unwrap();
        for (consumer, receiver) in receivers.into_iter().enumerate() {
            let rows = (0..rows as u32).filter(|row| targets[*row as usize] == consumer as u32);
            let taken = take_record_batch(&sent, &rows.collect::<UInt32Array>()).unwrap();
            expect(receiver, &taken);
        }
    }
}

#[test]
fn batches_of_another_schema_follow_where_a_sender_has_finished() {
    use arrow_schema::DataType::*;
    let batches = [batch(&[Int64, Utf8], 500, 7), batch(&[Boolean], 3, 8), batch(&[Int64, Utf8], 20, 9)];
    let (sender, mut receivers) = pair(&batches[0].schema(), 4096, 256, 1);
    let mut receiver = receivers.remove(0);
    let mut out = sender.finish().unwrap();
    for sent in &batches {
        let mut sender = Sender::over(out, sent.schema()).unwrap();
        sender.send(sent).unwrap();
        out = sender.finish().unwrap();
    }
    Sender::over(out, batches[0].schema()).unwrap().close().unwrap();
    assert!(receiver.receive().unwrap().is_none(), "the first has sent nothing");
    for sent in &batches {
        let parts: Vec<_> = receiver.by_ref().map(Result::unwrap).collect();
        assert_eq!(&arrow_select::concat::concat_batches(&sent.schema(), &parts).unwrap(), sent);
        assert_eq!(receiver.schema(), None);
    }
    assert!(matches!(receiver.try_receive(), Ok(Received::End)));
}

#[test]
fn no_sender_finishes_where_there_are_several_consumers() {
    let sent = batch(&[arrow_schema::DataType::Int64], 5, 7);
    let (sender, _receivers) = pair(&sent.schema(), 4096, 256, 2);
    assert!(matches!(sender.finish(), Err(Error::ManyConsumers { consumers: 2 })));
}

#[test]
fn a_batch_larger_than_an_item_comes_in_parts() {
    use arrow_schema::DataType::*;
    let sent = batch(&[Int64, Utf8, Boolean, Utf8View], 5000, 7);
    let (mut sender, mut receivers) = pair(&sent.schema(), 4096, 256, 1);
    let receiver = receivers.remove(0);
    sender.send(&sent).unwrap();
    sender.close().unwrap();
    assert!(expect(receiver, &sent) > 20);
}

#[test]
fn what_is_left_of_an_item_takes_rows_of_the_next_batch() {
    use arrow_schema::DataType::*;
    // Rows of one batch take 45 of the 64 KiB of an item.
    let sent = batch(&[Int64, Int64], 2800 * 20, 7);
    let (tx, rx) = ring(64 << 10, 32);
    let mut sender = Sender::over(Rings::new(vec![tx]), sent.schema()).unwrap();
    for at in 0..20 {
        sender.send(&sent.slice(at * 2800, 2800)).unwrap();
    }
    sender.close().unwrap();
    let items = rx.into_consumer().unread().unwrap();
    assert!((14..17).contains(&items), "{items} items for 20 times 45 KiB");
}

#[test]
fn a_batch_without_rows_goes_behind_any_other() {
    use arrow_schema::DataType::*;
    let sent = batch(&[Int64, Utf8, Int64, Utf8, Int64, Utf8, Int64, Utf8], 40, 7);
    for rows in 0..40 {
        let (mut sender, mut receivers) = pair(&sent.schema(), 4096, 16, 1);
        sender.send(&sent.slice(0, rows)).unwrap();
        sender.send(&sent.slice(0, 0)).unwrap();
        sender.close().unwrap();
        expect(receivers.remove(0), &sent.slice(0, rows));
    }
}

fn texts(texts: Vec<String>) -> RecordBatch {
    RecordBatch::try_from_iter([("t", std::sync::Arc::new(arrow_array::StringArray::from(texts)) as _)])
        .unwrap()
}

#[test]
fn a_row_that_no_item_can_hold_comes_whole_among_others() {
    let lengths = [1, 5000, 1, 90_000, 4032, 1, 1];
    let sent = texts(lengths.map(|len| "x".repeat(len)).to_vec());
    let (mut sender, mut receivers) = pair(&sent.schema(), 4096, 64, 2);
    sender.send_to(&sent, 0).unwrap();
    sender.send_rows(&sent, &[1; 7]).unwrap();
    sender.close().unwrap();
    for _ in 0..2 {
        expect(receivers.remove(0), &sent);
    }
}

/// A ring that several consumers take items out of.
struct Shares(Rings);

impl Outlet for Shares {
    fn consumers(&self) -> usize {
        self.0.consumers()
    }

    fn ring(&self, consumer: usize) -> Option<u32> {
        self.0.ring(consumer)
    }

    fn max_record(&self) -> usize {
        self.0.max_record()
    }

    fn left(&self, consumer: usize) -> usize {
        self.0.left(consumer)
    }

    fn shares(&self) -> bool {
        true
    }

    fn reserve(
        &mut self,
        consumer: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, Error> {
        self.0.reserve(consumer, len, fill)
    }

    fn reserved_ring(&self) -> Option<u32> {
        self.0.reserved_ring()
    }

    fn publish(&mut self, used: usize) -> Result<(), Error> {
        self.0.publish(used)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.0.flush()
    }

    fn close(self) -> Result<(), Error> {
        self.0.close()
    }
}

/// In a load balance, pieces would go to several consumers.
#[test]
fn a_row_that_no_item_of_a_load_balance_can_hold_is_one_clear_error_and_others_go_on() {
    let (small, large) = (texts(vec!["a".into(); 3]), texts(vec!["b".into(), "x".repeat(5000)]));
    let (writer, reader) = ring(4096, 64);
    let mut sender = Sender::over(Shares(Rings::new(vec![writer])), small.schema()).unwrap().agreed();
    let why = sender.send(&large.slice(1, 1)).unwrap_err();
    assert!(matches!(why, Error::RowTooLong { row: 0, room: 4032, .. }), "{why}");
    let why = sender.send_rows(&large.slice(1, 1), &[0]).unwrap_err().to_string();
    assert!(why.contains("row 0") && why.contains("4032 B") && why.contains("larger items"), "{why}");
    sender.send(&small).unwrap();
    sender.close().unwrap();
    expect(Receiver::over(RingReader::new(reader)).expect(&small.schema()).unwrap(), &small);
}

#[test]
fn rows_without_a_target_are_an_error() {
    let sent = batch(&[arrow_schema::DataType::Int64], 9, 3);
    let mut sender = Sender::over(Rings::new(Vec::new()), sent.schema()).unwrap();
    assert!(sender.send_by_hash(&sent, &[0]).is_err() && sender.send(&sent).is_err());
    let (mut sender, _receivers) = pair(&sent.schema(), 4096, 8, 2);
    let why = |done: Result<(), Error>| done.unwrap_err().to_string();
    assert!(why(sender.send(&sent)).contains("2 consumers: choose one"));
    assert!(why(sender.send_rows(&sent, &[0; 8])).contains("8 targets were given for 9 rows"));
    assert!(
        why(sender.send_rows(&sent, &[0, 1, 0, 2, 0, 0, 0, 0, 0]))
            .contains("row 3 is to go to consumer 2, there are 2")
    );
    assert!(why(sender.send_by_hash(&sent, &[1])).contains("column 1: the batch has 1"));
    let nested = arrow_schema::DataType::Struct(arrow_schema::Fields::empty());
    let sent = batch(&[nested], 9, 3);
    let (mut sender, _receivers) = pair(&sent.schema(), 4096, 8, 2);
    assert!(why(sender.send_by_hash(&sent, &[0])).contains("is no type of a key"));
}

#[test]
fn equal_keys_have_equal_hashes_in_every_layout() {
    use arrow_array::*;
    use std::sync::Arc;
    let words = ["a", "b", "a", "a text that is longer than a view", "", "b"];
    let of = |array: ArrayRef| hash_rows(&RecordBatch::try_from_iter([("k", array)]).unwrap(), &[0]).unwrap();
    let plain = of(Arc::new(StringArray::from(words.to_vec())));
    assert_eq!(plain, of(Arc::new(LargeStringArray::from(words.to_vec()))));
    assert_eq!(plain, of(Arc::new(StringViewArray::from(words.to_vec()))));
    assert_eq!(plain, of(Arc::new(words.into_iter().collect::<DictionaryArray<types::Int8Type>>())));
    assert_eq!(plain, of(Arc::new(BinaryArray::from(words.map(str::as_bytes).to_vec()))));
    assert_eq!((plain[0], plain[1]), (plain[2], plain[5]));
    assert_ne!(plain[0], plain[1]);
    let floats = of(Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0])));
    assert!(floats[0] == floats[1] && floats[2] == floats[3] && floats[0] != floats[4]);
    let nulls = of(Arc::new(Int64Array::from(vec![None, Some(0), None])));
    assert!(nulls[0] == nulls[2] && nulls[0] != nulls[1]);
}
