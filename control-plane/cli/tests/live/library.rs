//! Programs that link the crate `zsr`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use zsr::{Cancel, FlowConsumer, FlowProducer, Options, Place, Popped, ProgramError, To, Wait};

use super::beside::beside;
use super::system::{HOSTS, System, done};

/// An example of a library, built into this test's folder.
pub fn example(name: &str) -> PathBuf {
    beside("example", name)
}

#[test]
fn the_first_example_runs_as_it_stands() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "rows", "-p", "h1", "-c", "h3", "--item-size", "4KiB"]);
    let mut program = Command::new(example("rows"));
    let ran = done(program.env("XDG_RUNTIME_DIR", system.folder.path()).output().expect("it runs"));
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "1,ada\n2,grace\n3,edsger\n"), "{}", ran.err);
    system.well(&["flow", "delete", "rows"]);
    system.down();
}

/// The records that `batch` holds.
fn texts(batch: &zsr::Batch<'_>) -> Vec<String> {
    batch.records().map(|r| String::from_utf8_lossy(r.expect("sound")).into_owned()).collect()
}

#[test]
fn a_consumer_pops_leaves_and_sees_the_end() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "4KiB"]);
    let place = Place::at(system.root().join("s"));
    let mut producer = FlowProducer::attach(&place, "f", &Options::default()).expect("a producer");
    let mut consumer = FlowConsumer::attach(&place, "f", &Options::default()).expect("a consumer");
    assert_eq!((consumer.member(), consumer.schema()), ("h2", None));
    assert!(matches!(consumer.try_pop(), Ok(Popped::Nothing)));
    assert!(matches!(consumer.pop_timeout(Duration::from_millis(1)), Ok(Popped::Nothing)));
    // Nobody else has its ring meanwhile.
    let second = FlowConsumer::attach(&place, "f", &Options::default());
    assert!(matches!(second, Err(ProgramError::Ring(_))), "{:?}", second.err());

    for n in 0..5 {
        producer.push(format!("row {n}").as_bytes()).expect("pushed");
    }
    producer.flush().expect("flushed");
    let batch = consumer.pop().expect("popped").expect("no end");
    assert_eq!((batch.len(), texts(&batch)[4].as_str()), (5, "row 4"));
    batch.keep(2);
    let counts = consumer.counts();
    assert_eq!((counts.records(), counts.bytes()), (2, 10));
    consumer.leave();

    let cancel = Cancel::new();
    let options = Options { cancel: cancel.clone(), ..Options::default() };
    let mut consumer = FlowConsumer::attach(&place, "f", &options).expect("another consumer");
    let batch = consumer.pop().expect("popped").expect("no end");
    assert_eq!(texts(&batch), ["row 2", "row 3", "row 4"]);
    drop(batch);
    assert_eq!(consumer.counts().records(), 3);
    cancel.cancel();
    assert!(consumer.pop().is_err_and(|e| e.is_cancelled()));
    consumer.leave();

    let mut consumer = FlowConsumer::attach(&place, "f", &Options::default()).expect("a third consumer");
    producer.close().expect("closed");
    assert!(consumer.pop().expect("the end").is_none());
    assert!(matches!(consumer.try_pop(), Ok(Popped::End)));
    drop(consumer);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn a_consumer_of_a_flow_with_lanes_pops_from_all_of_its_rings() {
    let system = System::up(HOSTS);
    let lanes = ["--lanes", "2", "--item-size", "4KiB"];
    system.well(&[&["flow", "create", "f", "-p", "h1", "h2", "-c", "h3"], &lanes[..]].concat());
    let place = Place::at(system.root().join("s"));
    let at = |member: &str| Options { member: Some(member.into()), ..Options::default() };
    let mut producers = ["h1", "h2"].map(|m| FlowProducer::attach(&place, "f", &at(m)).expect("a producer"));
    let cancel = Cancel::new();
    let options = Options { cancel: cancel.clone(), ..Options::default() };
    let mut consumer = FlowConsumer::attach(&place, "f", &options).expect("a consumer");
    assert_eq!((consumer.lanes(), consumer.ring().is_none()), (2, true));
    assert!(matches!(consumer.try_pop(), Ok(Popped::Nothing)));
    assert!(matches!(consumer.pop_timeout(Duration::from_millis(1)), Ok(Popped::Nothing)));
    assert!(matches!(consumer.pop_unless(|| true, None), Ok(Popped::Nothing)));
    let mut send = |from: usize, numbers: std::ops::Range<u32>| {
        for n in numbers {
            producers[from].push(format!("{from} {n:03}").as_bytes()).expect("pushed");
            producers[from].flush().expect("flushed");
        }
    };
    // Each of both: by its own lane, while the other has nothing.
    for from in [0, 1, 0, 1] {
        send(from, 0..1);
        let batch = consumer.pop().expect("popped").expect("no end");
        assert_eq!(texts(&batch), [format!("{from} 000")]);
    }
    // What is held in one lane is given back there.
    send(0, 1..2);
    send(1, 1..2);
    let held = [(); 2].map(|()| consumer.pop().expect("popped").expect("no end").hold());
    assert_eq!(consumer.held().0, 1);
    held.iter().for_each(|held| consumer.give_back(held));
    assert_eq!(consumer.held().0, 0);
    // A program that leaves leaves all of them.
    send(1, 2..3);
    consumer.leave();
    let mut consumer = FlowConsumer::attach(&place, "f", &options).expect("another consumer");
    send(0, 2..100);
    send(1, 3..100);
    let [first, second] = producers;
    first.close().expect("closed");
    let mut rows = Vec::new();
    while rows.len() < 98 * 2 {
        rows.extend(texts(&consumer.pop().expect("popped").expect("one goes on")));
    }
    for from in 0..2 {
        let own: Vec<&String> = rows.iter().filter(|row| row.starts_with(&format!("{from} "))).collect();
        assert_eq!((own.len(), own.is_sorted()), (98, true), "{from}: in order");
    }
    second.close().expect("closed");
    assert!(consumer.pop().expect("the end").is_none());
    assert!(matches!(consumer.try_pop(), Ok(Popped::End)));
    cancel.cancel();
    drop(consumer);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn records_go_where_the_flows_key_says() {
    let system = System::up(HOSTS);
    let schema = "--schema=to: u32, number: u32";
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "h3", schema, "--routing", "explicit(to)"]);
    let place = Place::at(system.root().join("s"));
    let at = |member: &str| Options { member: Some(member.into()), ..Options::default() };
    let mut consumers =
        ["h2", "h3"].map(|member| FlowConsumer::attach(&place, "f", &at(member)).expect("a consumer"));
    let mut producer = FlowProducer::attach(&place, "f", &Options::default()).expect("a producer");
    let record = |to: u32, number: u32| [to.to_le_bytes(), number.to_le_bytes()].concat();
    for number in 0..10 {
        producer.push(&record(u32::from(number % 3 == 0), number)).expect("pushed");
    }
    let refused = producer.push(&record(2, 10));
    assert!(matches!(&refused, Err(ProgramError::Route(why)) if why.contains("consumer 2")), "{refused:?}");
    // A program may know better.
    producer.push_by(&record(1, 10), &mut |_, _| Ok(0)).expect("pushed");
    producer.close().expect("closed");
    let numbers = consumers.each_mut().map(|consumer| {
        let mut numbers = Vec::new();
        while let Some(batch) = consumer.pop().expect("popped") {
            numbers.extend(batch.records().map(|r| r.expect("sound")[4]));
        }
        numbers
    });
    assert_eq!(numbers, [vec![1, 2, 4, 5, 7, 8, 10], vec![0, 3, 6, 9]]);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn one_process_has_several_producers_of_a_flow() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "h2", "-c", "h3"]);
    let place = Place::at(system.root().join("s"));
    let attach = |_| FlowProducer::attach(&place, "f", &Options::default()).expect("a producer");
    let mut producers = [(); 2].map(attach);
    for number in 0..6 {
        let producer = &mut producers[number % 2];
        producer.push(format!("row {number}").as_bytes()).expect("pushed");
        producer.flush().expect("flushed");
    }
    producers.into_iter().for_each(|producer| producer.close().expect("closed"));
    let mut consumer = FlowConsumer::attach(&place, "f", &Options::default()).expect("a consumer");
    let mut rows = Vec::new();
    while let Some(batch) = consumer.pop().expect("popped") {
        rows.extend(texts(&batch));
    }
    rows.sort();
    assert_eq!(rows, [0, 1, 2, 3, 4, 5].map(|number| format!("row {number}")));
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn events_come_one_after_the_other() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let session = zsr::Session::open(&Place::at(system.root().join("s"))).expect("a session");
    let past: Vec<_> = session.events(Some(0), false).expect("events").map(|e| e.expect("one")).collect();
    assert!(past.windows(2).all(|two| two[0].number < two[1].number));
    assert!(past.iter().any(|e| e.flow == "f" && e.kind() == zsr::api::EventKind::FlowCreated));
    let mut coming = session.events(past.last().map(|e| e.number), true).expect("events");
    system.well(&["flow", "delete", "f"]);
    assert!(coming.any(|e| e.expect("one").kind() == zsr::api::EventKind::FlowDeleted));
    system.down();
}

#[test]
fn rows_go_in_side_by_side_and_in_place_and_are_read_where_they_lie() {
    let system = System::up(HOSTS);
    // Items of eight rows each, two of which fit a ring.
    let create = ["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "64", "--ring-size", "128"];
    system.well(&[&create[..], &["--schema", "n: u32"]].concat());
    let place = Place::at(system.root().join("s"));
    let schema = |text: &str| Options { schema: zsr::Schema::parse(text).ok(), ..Options::default() };
    let other = FlowConsumer::attach(&place, "f", &schema("n: u64")).err().expect("another schema");
    let said = "flow `f` has tuples (n: u32), the program expects tuples (n: u64)";
    assert_eq!(other.to_string(), said);
    let mut producer = FlowProducer::attach(&place, "f", &schema("n:u32")).expect("a producer");
    let mut consumer = FlowConsumer::attach(&place, "f", &Options::default()).expect("a consumer");
    let rows: Vec<u8> = (0..100u32).flat_map(u32::to_le_bytes).collect();

    // Nobody pops: four items are taken.
    let mut taken = producer.push_rows(&rows, To::Key, Wait::No).expect("pushed");
    assert!(taken >= 16, "{taken}");
    while taken < 32 {
        taken +=
            producer.push_rows(&rows[taken * 4..], To::Key, Wait::For(Duration::from_millis(1))).unwrap();
    }
    assert!(!producer.try_push(&rows[128..132]).expect("no failure"));
    assert!(!producer.push_timeout(b"none", Duration::from_millis(1)).expect("no failure"));
    assert_eq!(producer.counts().records(), taken as u64);
    assert!(matches!(producer.publish(4), Err(ProgramError::NotReserved { .. })));
    assert!(
        producer
            .push_to(&rows[..4], To::Consumer(1), Wait::No)
            .is_err_and(|e| e.to_string().contains("consumer 1"))
    );

    let mut got = Vec::new();
    let mut held = Vec::new();
    // What is held stays, and others are popped meanwhile.
    while held.len() < 2 {
        let batch = consumer.pop().expect("popped").expect("no end");
        assert_eq!(batch.as_they_lie().1, Some(4));
        got.extend_from_slice(batch.as_they_lie().0);
        held.push(batch.hold());
    }
    let all = consumer.pop().err().expect("the whole ring is held").to_string();
    assert_eq!(all, "flow `f`: the whole ring of 2 items is held: give batches back before popping more");
    // In any order.
    consumer.give_back(&held[1]);
    assert!(matches!(consumer.try_pop(), Err(ProgramError::AllHeld { .. })));
    consumer.give_back(&held[0]);
    while taken < 100 {
        while let Popped::Batch(batch) = consumer.pop_timeout(Duration::from_millis(1)).expect("popped") {
            got.extend(batch.records().flat_map(|r| r.expect("sound").to_vec()));
        }
        let Some(room) = producer.reserve(rows.len() - taken * 4, To::Key, Wait::No).expect("reserved")
        else {
            continue;
        };
        let used = room.len();
        room.copy_from_slice(&rows[taken * 4..taken * 4 + used]);
        producer.publish(used).expect("published");
        taken += used / 4;
    }
    producer.close().expect("closed");
    while let Some(batch) = consumer.pop().expect("popped") {
        got.extend_from_slice(batch.as_they_lie().0);
    }
    assert!(got == rows, "{} bytes of {}", got.len(), rows.len());
    assert_eq!(consumer.counts().records(), 100);
    drop(consumer);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn with_the_hint_latency_each_push_is_on_its_way_when_it_returns() {
    let system = System::up(HOSTS);
    let create = ["flow", "create", "f", "-p", "h1", "-c", "h2", "--schema", "n: u32"];
    system.well(&[&create[..], &["--hint", "latency"]].concat());
    let place = Place::at(system.root().join("s"));
    let mut producer = FlowProducer::attach(&place, "f", &Options::default()).expect("a producer");
    let mut consumer = FlowConsumer::attach(&place, "f", &Options::default()).expect("a consumer");
    let mut comes = |producer: &FlowProducer, rows: &[u32], batches: usize| {
        assert_eq!(producer.left(0), 0, "an item has begun, and was not pushed");
        let mut got = Vec::new();
        for _ in 0..batches {
            let batch = consumer.pop().expect("popped").expect("no end");
            got.extend(batch.as_they_lie().0.as_chunks().0.iter().map(|row| u32::from_le_bytes(*row)));
        }
        assert_eq!(got, rows);
    };
    producer.push(&1u32.to_le_bytes()).expect("pushed");
    comes(&producer, &[1], 1);
    assert!(producer.push_to_member(&2u32.to_le_bytes(), "h2", Wait::Forever).expect("pushed"));
    assert!(producer.push_to_member(&3u32.to_le_bytes(), "h2", Wait::Forever).expect("pushed"));
    comes(&producer, &[2, 3], 2);
    // What one call gives goes together.
    let rows: Vec<u8> = (4..7u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(producer.push_rows(&rows, To::Key, Wait::Forever).expect("pushed"), 3);
    comes(&producer, &[4, 5, 6], 1);
    let room = producer.reserve(4, To::Key, Wait::Forever).expect("reserved").expect("room");
    room.copy_from_slice(&7u32.to_le_bytes());
    producer.publish(4).expect("published");
    comes(&producer, &[7], 1);
    // Records that come one after the other fill items: `zsr produce` flushes when its input has no more for now.
    for row in [8u32, 9] {
        producer.push_by(&row.to_le_bytes(), &mut |_, _| Ok(0)).expect("pushed");
    }
    producer.flush().expect("flushed");
    comes(&producer, &[8, 9], 1);

    // With the other hint the item stays open, from when the producer knows.
    system.well(&["flow", "set", "f", "--hint", "bandwidth"]);
    let mut row = 10u32;
    loop {
        producer.push(&row.to_le_bytes()).expect("pushed");
        if producer.left(0) > 0 {
            break;
        }
        comes(&producer, &[row], 1);
        row += 1;
        assert!(row < 10_000, "it never gets to know");
    }
    producer.flush().expect("flushed");
    comes(&producer, &[row], 1);
    producer.close().expect("closed");
    drop(consumer);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn who_wants_the_newest_skips_what_is_older() {
    let system = System::up(HOSTS);
    // Four items of one record each.
    let sizes = ["--item-size", "64", "--ring-size", "256"];
    system.well(&[&["flow", "create", "f", "-p", "h1", "-c", "h2"], &sizes[..]].concat());
    let place = Place::at(system.root().join("s"));
    let mut producer = FlowProducer::attach(&place, "f", &Options::default()).expect("a producer");
    let mut consumer = FlowConsumer::attach(&place, "f", &Options::default()).expect("a consumer");
    let newest = |consumer: &mut FlowConsumer| {
        let batch = consumer.pop_newest().expect("popped")?;
        Some(String::from_utf8_lossy(batch.newest().expect("sound").expect("a record")).into_owned())
    };
    let mut push = |from: usize, to: usize| {
        for n in from..to {
            producer.push(format!("price {n:02}").as_bytes()).expect("pushed");
            producer.flush().expect("flushed");
        }
        assert!(producer.settle(Duration::MAX, &Cancel::new()).expect("settled").is_empty());
    };
    push(0, 3);
    assert_eq!(newest(&mut consumer).as_deref(), Some("price 02"));
    // Across the ring's end.
    push(3, 7);
    assert_eq!(newest(&mut consumer).as_deref(), Some("price 06"));
    push(7, 8);
    assert_eq!(newest(&mut consumer).as_deref(), Some("price 07"));
    assert_eq!(consumer.counts().records(), 8);
    producer.close().expect("closed");
    assert_eq!(newest(&mut consumer), None);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn the_most_urgent_flow_comes_first() {
    let system = System::up(HOSTS);
    for flow in ["urgent", "bulk", "doomed"] {
        system.well(&["flow", "create", flow, "-p", "h1", "-c", "h2"]);
    }
    let place = Place::at(system.root().join("s"));
    let cancel = Cancel::new();
    let options = Options { cancel: cancel.clone(), ..Options::default() };
    let consumers = ["urgent", "bulk", "doomed"].map(|f| FlowConsumer::attach(&place, f, &options));
    let mut flows = zsr::Priority::new(consumers.map(|c| c.expect("a consumer")).into());
    let producer = |flow| FlowProducer::attach(&place, flow, &Options::default()).expect("a producer");
    let (mut urgent, mut bulk) = (producer("urgent"), producer("bulk"));
    let push = |producer: &mut FlowProducer, text: &str| {
        producer.push(text.as_bytes()).expect("pushed");
        assert!(producer.settle(Duration::MAX, &Cancel::new()).expect("settled").is_empty());
    };
    let mut next = || match flows.pop_timeout(Duration::from_millis(1)).map_err(|e| e.to_string())? {
        zsr::PoppedFrom::Batch(at, batch) => Ok((at, texts(&batch).concat())),
        zsr::PoppedFrom::Nothing => Err("nothing".into()),
        zsr::PoppedFrom::End => Err("end".into()),
    };
    push(&mut bulk, "b1");
    push(&mut bulk, "b2");
    push(&mut urgent, "u1");
    let popped: Vec<Result<(usize, String), String>> = (0..4).map(|_| next()).collect();
    let some = |at, text: &str| Ok((at, text.to_owned()));
    assert_eq!(popped, [some(0, "u1"), some(1, "b1"), some(1, "b2"), Err("nothing".to_owned())]);
    // One that fails says so once.
    system.well(&["flow", "delete", "doomed", "--force"]);
    let gone = loop {
        match next() {
            Err(e) if e == "nothing" => {}
            other => break other,
        }
    };
    assert!(gone.as_ref().is_err_and(|e| e.contains("doomed")), "{gone:?}");
    urgent.close().expect("closed");
    push(&mut bulk, "b3");
    assert_eq!(next(), some(1, "b3"));
    cancel.cancel();
    assert!(flows.pop().is_err_and(|e| e.is_cancelled()));
    bulk.close().expect("closed");
    // Until the end is there, it is cancelled.
    let end = loop {
        match flows.pop() {
            Err(e) if e.is_cancelled() => std::thread::yield_now(),
            other => break other.expect("the end").is_none(),
        }
    };
    assert!(end);
    for flow in ["urgent", "bulk"] {
        system.well(&["flow", "delete", flow]);
    }
    system.down();
}
