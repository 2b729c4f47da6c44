//! Many streams in one flow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use zsr::FlowProducer;
use zsr::streams::{InStreams, Next, OutStreams, StreamError, StreamOptions};
use zsr::testing::{Flow, shuffle};

const WINDOW: u32 = 64 << 10;

/// Flows of `producers` to `consumers`, and back.
fn flows(producers: usize, consumers: usize) -> (Flow, Flow) {
    let there = shuffle(producers, consumers).named("rows").start().unwrap();
    let back = shuffle(consumers, producers).named("back").sizes(512, 64 << 10).start_beside(&there).unwrap();
    (there, back)
}

fn sender((there, back): &(Flow, Flow), number: usize) -> OutStreams {
    OutStreams::over(there.producer(number).unwrap(), back.consumer(number).unwrap())
}

fn receiver((there, back): &(Flow, Flow), number: usize, options: &StreamOptions) -> InStreams {
    InStreams::over(there.consumer(number).unwrap(), back.producer(number).unwrap(), options).unwrap()
}

/// With the smallest window.
fn small() -> StreamOptions {
    StreamOptions { window: WINDOW, ..StreamOptions::default() }
}

/// Record `number` of a stream: from nothing to more than an item, and now and then more than a piece.
fn record(number: usize) -> Vec<u8> {
    let len = [0, 1, 100, 3000, 5000, 50_000][number % 6];
    (0..len).map(|at| (number * 31 + at * 7) as u8).collect()
}

#[test]
fn streams_of_all_to_all_arrive_whole_in_order_and_end() {
    const RECORDS: usize = 200;
    let flows = flows(2, 2);
    thread::scope(|scope| {
        for number in 0..2 {
            let out = sender(&flows, number);
            scope.spawn(move || {
                thread::scope(|scope| {
                    for stream in 0..6 {
                        let mut stream =
                            out.open(format!("{number}-{stream}").as_bytes(), stream % 2).unwrap();
                        scope.spawn(move || {
                            (0..RECORDS).for_each(|n| stream.push(&record(n)).unwrap());
                            stream.end().unwrap();
                        });
                    }
                });
                out.close().unwrap();
            });
        }
        for number in 0..2 {
            let streams = receiver(&flows, number, &small());
            scope.spawn(move || {
                let mut names = Vec::new();
                thread::scope(|scope| {
                    while let Some(mut stream) = streams.accept().unwrap() {
                        names.push(String::from_utf8(stream.name().to_vec()).unwrap());
                        scope.spawn(move || {
                            for n in 0..RECORDS {
                                assert!(stream.pop().unwrap() == Some(record(n)), "record {n}");
                            }
                            assert_eq!(stream.pop().unwrap(), None);
                            assert_eq!(stream.pop().unwrap(), None);
                        });
                    }
                });
                names.sort();
                let expected: Vec<_> =
                    (0..2).flat_map(|p| (0..3).map(move |s| format!("{p}-{}", s * 2 + number))).collect();
                assert_eq!(names, expected);
                assert_eq!(streams.open(), 0);
            });
        }
    });
}

#[test]
fn a_slow_reader_holds_up_its_own_stream_only() {
    const RECORD: usize = 1000;
    let flows = flows(1, 1);
    let (out, streams) = (sender(&flows, 0), receiver(&flows, 0, &small()));
    let pushed = Arc::new(AtomicUsize::new(0));
    let sending = {
        let (mut slow, mut quick) = (out.open(b"slow", 0).unwrap(), out.open(b"quick", 0).unwrap());
        let pushed = pushed.clone();
        thread::spawn(move || {
            let slow = thread::spawn(move || {
                for _ in 0..200 {
                    slow.push(&[1; RECORD]).unwrap();
                    pushed.fetch_add(1, Ordering::Relaxed);
                }
                slow.end().unwrap();
            });
            (0..5000).for_each(|_| quick.push(&[2; RECORD]).unwrap());
            quick.end().unwrap();
            slow.join().unwrap();
            out.close().unwrap();
        })
    };
    let mut slow = streams.accept().unwrap().unwrap();
    let mut quick = streams.accept().unwrap().unwrap();
    assert_eq!((slow.name(), quick.name()), (&b"slow"[..], &b"quick"[..]));
    for _ in 0..5000 {
        assert_eq!(quick.pop().unwrap().unwrap(), [2; RECORD]);
    }
    assert_eq!(quick.pop().unwrap(), None);
    // 64 KiB hold 61 records with what they count beside their bytes.
    assert!(pushed.load(Ordering::Relaxed) <= WINDOW as usize / (RECORD + 64));
    for _ in 0..200 {
        assert_eq!(slow.pop().unwrap().unwrap(), [1; RECORD]);
    }
    assert_eq!(slow.pop().unwrap(), None);
    assert!(streams.accept().unwrap().is_none());
    sending.join().unwrap();
}

#[test]
fn who_cancels_and_who_gives_up_is_heard_by_the_other_end() {
    let flows = flows(1, 1);
    let (out, streams) = (sender(&flows, 0), receiver(&flows, 0, &small()));
    let mut unwanted = out.open(b"unwanted", 0).unwrap();
    unwanted.push(b"one").unwrap();
    unwanted.flush().unwrap();
    streams.accept().unwrap().unwrap().cancel("ten rows are enough");
    let error = loop {
        if let Err(e) = unwanted.push(&[0; 1000]) {
            break e;
        }
    };
    assert_eq!(error.to_string(), "stream `unwanted` was cancelled by its receiver: ten rows are enough");
    assert!(matches!(unwanted.end(), Err(StreamError::Cancelled { .. })));

    let mut given_up = out.open(b"given up", 0).unwrap();
    given_up.push(b"one").unwrap();
    given_up.abort("the disk is full").unwrap();
    let mut stream = streams.accept().unwrap().unwrap();
    assert_eq!(stream.pop().unwrap().unwrap(), b"one");
    let error = stream.pop().unwrap_err();
    assert_eq!(error.to_string(), "stream `given up` ends before its end: the disk is full");

    // Who is dropped says it, too.
    drop(out.open(b"dropped", 0).unwrap());
    assert!(matches!(streams.accept().unwrap().unwrap().pop(), Err(StreamError::Aborted { .. })));
    let mut left = out.open(b"left", 0).unwrap();
    left.push(b"one").unwrap();
    let closing = thread::spawn(move || out.close());
    let mut stream = streams.accept().unwrap().unwrap();
    assert_eq!(stream.pop().unwrap().unwrap(), b"one");
    assert!(matches!(stream.pop(), Err(StreamError::Aborted { .. })));
    assert!(streams.accept().unwrap().is_none());
    closing.join().unwrap().unwrap();
    assert!(matches!(left.push(b"two"), Err(StreamError::Program(_))));
}

#[test]
fn more_streams_than_the_receiver_takes_and_longer_records_are_refused_in_words() {
    let flows = flows(1, 1);
    let options = StreamOptions { most: 2, ..small() };
    let (out, streams) = (sender(&flows, 0), receiver(&flows, 0, &options));
    let refused = |stream: &mut zsr::streams::OutStream, record: &[u8]| loop {
        if let Err(e) = stream.push(record) {
            return e.to_string();
        }
    };
    let reading = thread::spawn(move || {
        let mut kept = Vec::new();
        while let Some(stream) = streams.accept().unwrap() {
            kept.push(stream);
        }
        assert_eq!(kept.len(), 2);
    });
    let mut one = out.open(b"one", 0).unwrap();
    let two = out.open(b"two", 0).unwrap();
    let mut three = out.open(b"three", 0).unwrap();
    assert!(
        refused(&mut three, &[0; 1000]).contains("2 streams are open at its receiver, which is the most")
    );
    let text = refused(&mut one, &[0; WINDOW as usize]);
    assert!(text.contains("a record is longer than the window of 65536 B"), "{text}");
    two.end().unwrap();
    out.close().unwrap();
    reading.join().unwrap();
    let options = StreamOptions { window: 1000, ..StreamOptions::default() };
    assert!(matches!(
        InStreams::attach(flows.0.place(), "rows", "back", &options),
        Err(StreamError::Window(1000))
    ));
}

#[test]
fn a_receiver_that_is_gone_is_heard_by_streams_that_come_later() {
    let flows = flows(1, 1);
    let (out, streams) = (sender(&flows, 0), receiver(&flows, 0, &small()));
    let mut first = out.open(b"first", 0).unwrap();
    first.flush().unwrap();
    let mut read = streams.accept().unwrap().unwrap();
    drop(streams);
    first.push(b"one").unwrap();
    first.flush().unwrap();
    assert_eq!(read.pop().unwrap().unwrap(), b"one");
    assert_eq!(read.try_pop().unwrap(), Next::Nothing);
    let reading = thread::spawn(move || read.pop());
    let mut late = out.open(b"late", 0).unwrap();
    let error = loop {
        if let Err(e) = late.push(&[0; 1000]) {
            break e.to_string();
        }
    };
    assert!(error.contains("nobody accepts streams any more"), "{error}");
    first.end().unwrap();
    assert_eq!(reading.join().unwrap().unwrap(), None);
}

/// A record of a stream as docs/streams.md has it.
fn raw(kind: u8, number: u32, stream: u64, body: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0][..], &number.to_le_bytes(), &stream.to_le_bytes(), body].concat()
}

#[test]
fn a_sender_that_keeps_no_rules_fails_its_stream_or_the_flow_but_nothing_else() {
    let flows = flows(1, 1);
    let streams = receiver(&flows, 0, &small());
    let mut producer: FlowProducer = flows.0.producer(0).unwrap();
    for record in [
        raw(0, 2, 1, b"c0greedy"),
        // Of streams that are not open, and answers, which are for senders.
        raw(1, 0, 9, b"nobody"),
        raw(5, 1 << 30, 1, b""),
        raw(6, 0, 1, b"cancelled"),
        // A name that is longer than the record, and one that is no text.
        raw(0, 99, 3, b"c0"),
        raw(0, 2, 4, b"\xff\xfe"),
        raw(0, 2, 2, b"c0half"),
        raw(2, 0, 2, b"a piece"),
        raw(3, 0, 2, b""),
    ] {
        producer.push(&record).unwrap();
    }
    (0..70).for_each(|_| producer.push(&raw(1, 0, 1, &[0; 1000])).unwrap());
    producer.push(&raw(0, 2, 8, b"c0last")).unwrap();
    producer.flush().unwrap();
    let [mut greedy, mut half, last] = [0; 3].map(|_| streams.accept().unwrap().unwrap());
    assert_eq!([greedy.name(), half.name(), last.name()], [&b"greedy"[..], b"half", b"last"]);
    // All of it has come, and 64 KiB hold 61 records with what they count beside their bytes.
    let popped = (0..).map_while(|_| greedy.pop().ok()).count();
    assert_eq!(popped, WINDOW as usize / 1064);
    assert!(half.pop().unwrap_err().to_string().contains("in the middle of a record"));
    assert!(matches!(streams.accept_timeout(Duration::from_millis(1)).unwrap(), Next::Nothing));
    producer.push(b"rows of another program").unwrap();
    producer.flush().unwrap();
    let Err(error) = streams.accept() else { panic!("it is no stream") };
    assert!(matches!(&error, StreamError::NoStreams { flow, .. } if flow == "rows"), "{error}");
    assert!(matches!(streams.accept(), Err(StreamError::Program(_))));
}
