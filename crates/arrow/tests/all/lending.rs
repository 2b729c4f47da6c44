//! Arrays lie in the ring, and give its space back when the last of an item is dropped; what is too much is copied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{batch, ring};
use arrow_array::{Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use zsr_arrow::{Error, Received, Receiver, RingReader, Rings, Sender};
use zsr_ring::memory::SharedMemory;
use zsr_ring::segment::{SegmentConfig, SegmentReader, SegmentWriter};
use zsr_ring::{ByteOrder, Cancel, Ring, RingSpec, Role};

const ITEM: u64 = 4096;
const ITEMS: usize = 8;

/// A batch that fills most of an item.
fn numbers(first: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(first..first + 450);
    RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)]).unwrap()
}

fn first(batch: &RecordBatch) -> i64 {
    batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().value(0)
}

/// A sender that has its schema in an item of its own, and a receiver.
fn pair() -> (Sender<Rings>, Receiver<RingReader>, Arc<Ring>) {
    let (writer, reader) = ring(ITEM, ITEMS as u64);
    let (ring, reader) = ring_of(reader);
    let sender = Sender::over(Rings::new(vec![writer]), numbers(0).schema()).unwrap().agreed();
    (sender, Receiver::over(RingReader::new(reader)).expect(&numbers(0).schema()).unwrap(), ring)
}

/// The same over memory that can be mapped a second time, as a flow's can.
fn shared_pair() -> (Sender<Rings>, Receiver<RingReader>, Arc<Ring>) {
    let spec = RingSpec::new(ITEM, ITEM * ITEMS as u64).unwrap();
    let memory = SharedMemory::create(spec.memory_len(), ByteOrder::NATIVE).unwrap();
    let ring = Ring::over(Role::Loopback, spec, Arc::new(memory), 0, 0).unwrap();
    let tx = ring.attach_producer(Cancel::new()).unwrap();
    let reader = SegmentReader::new(ring.attach_consumer(Cancel::new()).unwrap());
    let writer = SegmentWriter::records(tx, SegmentConfig::default()).unwrap();
    let sender = Sender::over(Rings::new(vec![writer]), numbers(0).schema()).unwrap();
    (sender, Receiver::over(RingReader::new(reader)), ring)
}

fn ring_of(mut reader: SegmentReader) -> (Arc<Ring>, SegmentReader) {
    (reader.consumer().ring().clone(), reader)
}

/// Whether the values of the first column lie in the ring.
fn lies_in(batch: &RecordBatch, ring: &Ring) -> bool {
    let memory = ring.memory();
    let begin = memory.base().as_ptr() as usize;
    let data = batch.column(0).to_data();
    (begin..begin + memory.len()).contains(&(data.buffers()[0].as_ptr() as usize))
}

#[test]
fn arrays_of_every_layout_lie_in_the_ring() {
    use DataType::*;
    let types = [Int8, Int64, Float64, Utf8, Decimal128(38, 0), Decimal256(76, 0), Utf8View, Boolean, Date32];
    let sent = batch(&types, 60, 3);
    let (writer, reader) = ring(16 << 10, 8);
    let (ring, reader) = ring_of(reader);
    let mut sender = Sender::over(Rings::new(vec![writer]), sent.schema()).unwrap();
    sender.send(&sent).unwrap();
    sender.close().unwrap();
    let mut receiver = Receiver::over(RingReader::new(reader));
    let received = receiver.receive().unwrap().unwrap();
    let (begin, len) = (ring.memory().base().as_ptr() as usize, ring.memory().len());
    for column in received.columns() {
        let data = column.to_data();
        for buffer in data.buffers().iter().filter(|buffer| !buffer.is_empty()) {
            assert!((begin..begin + len).contains(&(buffer.as_ptr() as usize)), "{}", column.data_type());
            assert_eq!(buffer.as_ptr() as usize % 64, 0, "{}", column.data_type());
        }
    }
    assert_eq!(received, sent);
}

#[test]
fn space_is_given_back_by_the_last_array_in_whichever_thread() {
    let (mut sender, mut receiver, ring) = pair();
    let mut others = Vec::new();
    for round in 0..10 * ITEMS as i64 {
        sender.send(&numbers(round)).unwrap();
        sender.flush().unwrap();
        let batch = receiver.receive().unwrap().unwrap();
        assert!(first(&batch) == round && lies_in(&batch, &ring), "{round}");
        // A column outlives its batch.
        let column = batch.column(0).slice(1, 2);
        drop(batch);
        assert_eq!(ring.snapshot().fill(), ITEM as u32);
        others.push(std::thread::spawn(move || drop(column)));
        others.pop().unwrap().join().unwrap();
        assert_eq!(ring.snapshot().fill(), 0);
    }
    assert_eq!(receiver.copies(), 0);
}

#[test]
fn all_of_a_ring_can_be_lent_and_is_given_back_while_the_receiver_waits() {
    let (mut sender, receiver, ring) = pair();
    let mut receiver = receiver.lend(ITEMS);
    let mut kept = Vec::new();
    for n in 0..ITEMS as i64 {
        sender.send(&numbers(n)).unwrap();
        sender.flush().unwrap();
        kept.push(receiver.receive().unwrap().unwrap());
    }
    assert!(kept.iter().all(|batch| lies_in(batch, &ring)));
    // All of the ring is held: that is said, and not waited for.
    let why = receiver.receive().unwrap_err();
    assert!(matches!(why, Error::AllLent { items: 8, batches: 8 }), "{why}");
    // The oldest keeps all the others.
    kept.truncate(1);
    assert!(matches!(receiver.receive(), Err(Error::AllLent { batches: 1, .. })));
    kept.clear();
    sender.send(&numbers(99)).unwrap();
    sender.flush().unwrap();
    let last = receiver.receive().unwrap().unwrap();
    let waiting = std::thread::spawn(move || receiver.receive().unwrap().is_none());
    drop(last);
    while ring.snapshot().fill() > 0 {
        std::thread::yield_now();
    }
    sender.close().unwrap();
    assert!(waiting.join().unwrap());
}

#[test]
fn beyond_the_bound_batches_are_copied_and_the_ring_goes_on_when_those_before_are_dropped() {
    let (mut sender, receiver, ring) = pair();
    let mut receiver = receiver.lend(2);
    let mut send = |n| {
        sender.send(&numbers(n)).unwrap();
        sender.flush().unwrap();
    };
    let mut kept = Vec::new();
    for n in 0..5 {
        send(n);
        kept.push(receiver.receive().unwrap().unwrap());
    }
    let lent: Vec<bool> = kept.iter().map(|batch| lies_in(batch, &ring)).collect();
    assert_eq!((lent, receiver.copies()), (vec![true, true, false, false, false], 3));
    // Copies hold nothing: with the two that lie there, all is given back.
    kept.drain(..2);
    assert_eq!(ring.snapshot().fill(), 0);
    send(5);
    assert!(lies_in(&receiver.receive().unwrap().unwrap(), &ring));
    assert_eq!(kept.iter().map(first).collect::<Vec<_>>(), [2, 3, 4]);
    let mut all = receiver.lend(0);
    for n in 6..60 {
        send(n);
        kept.push(all.receive().unwrap().unwrap());
    }
    assert_eq!(kept.iter().map(first).collect::<Vec<_>>()[3..], (6..60).collect::<Vec<_>>());
}

#[test]
fn what_is_kept_is_moved_out_of_the_ring_which_goes_on() {
    for most in [1, ITEMS / 2, ITEMS - 1] {
        let (mut sender, receiver, ring) = shared_pair();
        let mut receiver = receiver.lend(most);
        let mut kept = Vec::new();
        for n in 0..100 {
            sender.send(&numbers(n)).unwrap();
            sender.flush().unwrap();
            kept.push(receiver.receive().unwrap().unwrap());
        }
        assert!(receiver.copies() > 80, "{most}: {}", receiver.copies());
        for (n, batch) in kept.iter().enumerate() {
            assert_eq!(*batch, numbers(n as i64), "{most}");
        }
        drop(kept);
        assert_eq!(ring.snapshot().fill(), 0);
        sender.send(&numbers(100)).unwrap();
        sender.close().unwrap();
        drop(ring);
        assert_eq!(first(&receiver.receive().unwrap().unwrap()), 100);
    }
}

#[test]
fn who_reads_what_is_moved_does_not_notice() {
    let (mut sender, mut receiver, _ring) = shared_pair();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for n in 0..2000 {
        sender.send(&numbers(n)).unwrap();
        sender.flush().unwrap();
        let batch = receiver.receive().unwrap().unwrap();
        if n % 500 == 0 {
            let is_over = is_over.clone();
            readers.push(std::thread::spawn(move || {
                let mut looks = 0;
                while looks == 0 || !is_over.load(Ordering::Relaxed) {
                    assert_eq!(batch, numbers(n));
                    looks += 1;
                }
            }));
        }
    }
    is_over.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(receiver.copies() >= 4);
}

#[test]
fn arrays_outlive_their_receiver_and_the_sender_learns_that_it_is_gone() {
    let (mut sender, mut receiver, ring) = pair();
    sender.send(&numbers(7)).unwrap();
    sender.flush().unwrap();
    let batch = receiver.receive().unwrap().unwrap();
    drop(receiver);
    let why =
        (0..2 * ITEMS as i64).find_map(|n| sender.send(&numbers(n)).and_then(|()| sender.flush()).err());
    assert!(why.is_some_and(|why| why.to_string().contains("aborted")));
    assert!(lies_in(&batch, &ring) && batch == numbers(7));
    drop(ring);
    assert_eq!(batch, numbers(7));
}

#[test]
fn what_is_there_and_what_is_not_is_told_without_waiting() {
    let (mut sender, mut receiver, _) = pair();
    assert!(matches!(receiver.try_receive(), Ok(Received::Nothing)));
    assert!(matches!(receiver.receive_timeout(Duration::from_millis(1)), Ok(Received::Nothing)));
    sender.send(&numbers(1)).unwrap();
    sender.close().unwrap();
    assert!(matches!(receiver.try_receive(), Ok(Received::Batch(batch)) if first(&batch) == 1));
    assert!(matches!(receiver.try_receive(), Ok(Received::End)));
    assert!(receiver.receive().unwrap().is_none());
}

#[test]
fn schemas_that_differ_are_named_at_the_end_that_asked() {
    let schema =
        |name: &str, data_type| Arc::new(Schema::new(vec![arrow_schema::Field::new(name, data_type, true)]));
    let (ours, theirs) = (schema("a", DataType::Int64), schema("a", DataType::Utf8));
    let sent = batch(&[DataType::Utf8], 3, 1).columns()[0].clone();
    let sent = RecordBatch::try_new(theirs.clone(), vec![sent]).unwrap();
    let (writer, reader) = ring(ITEM, 8);
    let mut sender = Sender::over(Rings::new(vec![writer]), theirs).unwrap();
    let other = RecordBatch::new_empty(ours.clone());
    let why = sender.send(&other).unwrap_err().to_string();
    assert!(
        why.contains("the batch has other columns") && why.contains("Utf8") && why.contains("Int64"),
        "{why}"
    );
    sender.send(&sent).unwrap();
    sender.close().unwrap();
    let mut receiver = Receiver::over(RingReader::new(reader)).expect(&ours).unwrap();
    // Of the schema, and of the rows that have it.
    for _ in 0..2 {
        let why = receiver.receive().unwrap_err();
        assert!(matches!(why, Error::Schema { .. }), "{why}");
        assert!(why.to_string().contains("a sender has other columns"), "{why}");
    }
    assert!(receiver.receive().unwrap().is_none());
}

#[test]
fn rows_whose_schema_did_not_come_need_one_that_is_agreed() {
    let (mut sender, _, _) = pair();
    let (writer, reader) = ring(ITEM, 8);
    drop(std::mem::replace(
        &mut sender,
        Sender::over(Rings::new(vec![writer]), numbers(0).schema()).unwrap().agreed(),
    ));
    sender.send(&numbers(1)).unwrap();
    sender.close().unwrap();
    let why = Receiver::over(RingReader::new(reader)).receive().unwrap_err();
    assert!(
        matches!(why, Error::UnknownSchema { .. }) && why.to_string().contains("Receiver::expect"),
        "{why}"
    );
}

#[test]
fn a_type_that_no_message_has_is_refused_at_the_sender() {
    use DataType::{Dictionary, Int8, Utf8};
    let inner = Dictionary(Box::new(Int8), Box::new(Utf8));
    let twice = Dictionary(Box::new(Int8), Box::new(inner));
    let schema = Arc::new(Schema::new(vec![arrow_schema::Field::new("d", twice, true)]));
    let (writer, _reader) = ring(ITEM, 8);
    let Err(why) = Sender::over(Rings::new(vec![writer]), schema) else { panic!("taken") };
    assert!(why.to_string().starts_with("column `d` can't be sent"), "{why}");
}

#[test]
fn a_schema_longer_than_an_item_is_refused_unless_it_is_agreed() {
    let types = vec![DataType::Int8; 100];
    let sent = batch(&types, 0, 1);
    let (writer, _reader) = ring(ITEM, 8);
    let mut sender = Sender::over(Rings::new(vec![writer]), sent.schema()).unwrap();
    let why = sender.send(&sent).unwrap_err();
    assert!(matches!(why, Error::SchemaTooLong { .. }) || matches!(why, Error::RowTooLong { .. }), "{why}");
}
