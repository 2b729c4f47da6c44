//! Layouts: records leave from where a program keeps them.

use zsr::layouts::{At, Column, Layout, Registered, Rows};
use zsr::{FlowConsumer, FlowProducer, Options, Place, ProgramError, Schema, To, Wait};

use super::system::System;

const HOSTS: &str = "name: s
hosts: [{name: h1, memory: layouts}, h2, {name: h3, memory: layouts}]
flows: []
";
const ROWS: u64 = 4000;
const ITEM: u32 = 16 << 10;

fn create(system: &System, name: &str, from: &str, more: &[&str]) {
    let flow = ["flow", "create", name, "-p", from, "-c", "b@h2", "c@h3", "--item-size", "16KiB"];
    system.well(&[&flow, more].concat());
}

/// A table by columns: keys of 8 bytes, notes of 4.
fn table() -> (Registered, [Column; 2]) {
    let table = Registered::allocate(16 * ROWS as usize).expect("memory");
    for row in 0..ROWS {
        table.write(8 * row as usize, &row.to_le_bytes());
        table.write((8 * ROWS + 4 * row) as usize, &note(row).to_le_bytes());
    }
    let column = |offset, width: u32| Column { at: At { region: 0, offset }, stride: width.into(), width };
    (table, [column(0, 8), column(8 * ROWS, 4)])
}

fn note(row: u64) -> u32 {
    (row as u32).wrapping_mul(2_654_435_761)
}

fn record(row: u64) -> Vec<u8> {
    [&row.to_le_bytes()[..], &note(row).to_le_bytes()].concat()
}

/// All records that a consumer gets, until the end.
fn all(consumer: &mut FlowConsumer) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some(batch) = consumer.pop().expect("popped") {
        records.extend(batch.records().map(|record| record.expect("sound").to_vec()));
    }
    records
}

fn wait_for(mut is: impl FnMut() -> bool) {
    while !is() {
        std::thread::yield_now();
    }
}

#[test]
fn rows_of_columns_go_to_two_consumers_and_memory_is_free_when_they_were_taken() {
    let system = System::up(HOSTS);
    create(&system, "f", "h1", &["--schema", "key:u64,note:u32"]);
    let place = Place::at(system.root().join("s"));
    let kinds = system.json(&["ring", "list"]);
    let laid = |ring: &serde_json::Value| ring["memory"] == "layouts";
    for ring in &kinds {
        assert_eq!(laid(ring), ring["role"] == "producer", "{ring}");
    }
    let readers = ["b", "c"].map(|member| {
        let options = Options { member: Some(member.into()), ..Options::default() };
        let mut consumer = FlowConsumer::attach(&place, "f", &options).expect("a consumer");
        std::thread::spawn(move || all(&mut consumer))
    });
    let (table, columns) = table();
    let schema = Schema::parse("key:u64,note:u32").expect("a schema");
    let options = Options { registered: vec![table.clone()], schema: Some(schema), ..Options::default() };
    let mut producer = FlowProducer::attach(&place, "f", &options).expect("a producer");
    // Nothing is pushed unless each row goes to one consumer.
    let half = |start, count| Rows::Every { start, period: 2, frequency: 1, count };
    let refused = [half(0, 50), half(1, 49)].map(|rows| Layout::new(rows, columns));
    let mut given = Vec::new();
    let refused = producer.lay_out_each(&refused, 100, Wait::No, &mut given).expect_err("a row is missing");
    let refused = refused.to_string();
    assert!(refused.contains("row 99 is in none of the layouts"), "{refused}");
    let one = [Layout::new(half(0, 1), columns)];
    let refused = producer.lay_out_each(&one, 1, Wait::No, &mut given).expect_err("one");
    assert!(refused.to_string().contains("1 layouts for 2 consumers"), "{refused}");
    // Rows lie in items of at most 1,362 records; consumers get every other row. Pushed rows come between, in order.
    let mut expected = [Vec::new(), Vec::new()];
    let mut tickets = Vec::new();
    for part in 0..4 {
        for (consumer, expected) in expected.iter_mut().enumerate() {
            let start = part * ROWS / 4 + consumer as u64;
            let rows = Rows::Every { start, period: 2, frequency: 1, count: ROWS as u32 / 8 };
            let ticket = producer.lay_out(&Layout::new(rows, columns), To::Consumer(consumer), Wait::Forever);
            tickets.push(ticket.expect("laid out").expect("as long as it takes"));
            expected.extend((0..ROWS / 8).map(|n| record(start + 2 * n)));
            let pushed = record(1_000_000 + part);
            assert!(producer.push_to(&pushed, To::Consumer(consumer), Wait::Forever).expect("pushed"));
            expected.push(pushed);
        }
    }
    let each = [half(0, 50), half(1, 50)].map(|rows| Layout::new(rows, columns));
    let long = [half(0, 2000), half(1, 2000)].map(|rows| Layout::new(rows, columns));
    let refused = producer.lay_out_each(&long, 4000, Wait::No, &mut given).expect_err("too long").to_string();
    assert!(refused.contains("2000 rows of 12 B don't fit an item") && given.is_empty(), "{refused}");
    assert!(producer.lay_out_each(&each, 100, Wait::Forever, &mut given).expect("laid out"));
    tickets.extend(given.drain(..).flatten());
    // A consumer may get none.
    let all = [Layout::new(Rows::all(0, 7), columns), Layout::new(Rows::all(0, 0), columns)];
    assert!(producer.lay_out_each(&all, 7, Wait::Forever, &mut given).expect("laid out"));
    assert!(given[0].is_some() && given[1].is_none());
    for (consumer, expected) in (0..).zip(&mut expected) {
        expected.extend((0..50).map(|n| record(consumer + 2 * n)));
    }
    expected[0].extend((0..7).map(record));
    assert_eq!(tickets.len(), 10);
    assert_eq!(producer.counts().records(), ROWS + 8 + 100 + 7);
    producer.flush().expect("flushed");
    for ticket in &tickets {
        wait_for(|| producer.was_taken(ticket).expect("a sound ring"));
    }
    // The program's memory is its own again.
    table.write(0, &[0xff; 16 * ROWS as usize]);
    producer.close().expect("closed");
    for (reader, expected) in readers.into_iter().zip(expected) {
        assert!(reader.join().expect("read") == expected);
    }
    system.down();
}

#[test]
fn chosen_and_listed_rows_come_and_the_next_program_has_memory_of_its_own() {
    let system = System::up(HOSTS);
    create(&system, "f", "h3", &["--kind", "replicate"]);
    let place = Place::at(system.root().join("s"));
    let mut consumers = ["b", "c"].map(|member| {
        let options = Options { member: Some(member.into()), ..Options::default() };
        FlowConsumer::attach(&place, "f", &options).expect("a consumer")
    });
    // Nobody pops until both programs have gone, so that items of the first one lie in rings behind it.
    for program in 0..2_u64 {
        let (table, columns) = table();
        let numbers = Registered::allocate(4096).expect("memory");
        for (n, row) in [3999 - program, 7, 7, 0].into_iter().enumerate() {
            numbers.write(8 * n, &row.to_le_bytes());
        }
        numbers.write(1000, &[0b1000_0001, 0, 0b10]);
        let options = Options { registered: vec![numbers, table], ..Options::default() };
        let mut producer = FlowProducer::attach(&place, "f", &options).expect("a producer");
        let columns = columns.map(|c| Column { at: At { region: 1, ..c.at }, ..c });
        let at = |offset| At { region: 0, offset };
        let listed = Rows::Listed { at: at(0), width: 8, count: 4 };
        let chosen = Rows::Chosen { start: 100 * program, at: at(1000), bits: 18 };
        for rows in [listed, chosen] {
            producer.lay_out(&Layout::new(rows, columns), To::Key, Wait::Forever).expect("laid out");
        }
        if program == 0 { producer.leave().expect("left") } else { producer.close().expect("closed") }
    }
    let expected: Vec<_> =
        [3999, 7, 7, 0, 0, 7, 17, 3998, 7, 7, 0, 100, 107, 117].into_iter().map(record).collect();
    for consumer in &mut consumers {
        assert_eq!(all(consumer), expected);
    }
    system.down();
}

#[test]
fn what_leaves_registered_memory_fails_the_flow_and_nothing_of_it_comes() {
    let system = System::up(HOSTS);
    create(&system, "f", "h1", &["--policy", "abort"]);
    create(&system, "plain", "h2", &[]);
    let mut events = system.events();
    let place = Place::at(system.root().join("s"));
    let (table, columns) = table();
    let options = Options { registered: vec![table.clone()], ..Options::default() };
    let refused = FlowProducer::attach(&place, "plain", &options).map(drop).expect_err("it has no layouts");
    assert!(refused.to_string().contains("`memory: layouts` in the topology"), "{refused}");
    let mut plain = FlowProducer::attach(&place, "plain", &Options::default()).expect("a producer");
    let layout = Layout::new(Rows::all(0, 1), columns);
    let refused = plain.lay_out(&layout, To::Consumer(0), Wait::No).expect_err("it has no layouts");
    assert!(refused.to_string().contains("`memory: layouts` in the topology"), "{refused}");
    let many = Options { registered: vec![table.clone(); 17], ..Options::default() };
    let refused = FlowProducer::attach(&place, "f", &many).map(drop).expect_err("too many");
    assert!(refused.to_string().contains("17 regions"), "{refused}");

    let mut consumer = FlowConsumer::attach(&place, "f", &Options::default()).expect("a consumer");
    let mut producer = FlowProducer::attach(&place, "f", &options).expect("a producer");
    let outside = Layout::new(Rows::all(ROWS, 1), [Column { width: 4, ..columns[1] }; 1]);
    producer.lay_out(&outside, To::Consumer(0), Wait::No).expect("in the region, behind the table");
    let outside = Layout::new(Rows::all(2 * ROWS, 1), columns);
    let refused = producer.lay_out(&outside, To::Consumer(0), Wait::No).expect_err("it is outside");
    assert!(refused.to_string().contains("row 8000 of column 0"), "{refused}");
    let long = Layout::new(Rows::all(0, ROWS as u32), columns);
    let refused = producer.lay_out(&long, To::Consumer(0), Wait::No).expect_err("it is too long");
    assert!(refused.to_string().contains(&format!("which takes {} B", ITEM - 32)), "{refused}");
    let refused = producer.lay_out(&layout, To::Key, Wait::No).expect_err("two consumers");
    assert!(refused.to_string().contains("choose one of 2, from 0"), "{refused}");
    // A number in a list is looked at when it is followed.
    table.write(0, &u64::MAX.to_le_bytes());
    let listed = Rows::Listed { at: At { region: 0, offset: 0 }, width: 8, count: 1 };
    producer.lay_out(&Layout::new(listed, columns), To::Consumer(0), Wait::No).expect("not looked at");
    let failed = events.next("flow-failed");
    let text = failed["text"].as_str().expect("text");
    assert!(text.contains("the item at byte 16384 of the ring can't be read"), "{text}");
    assert!(text.contains("number 0 of its list, which is not in registered memory"), "{text}");
    let failed = loop {
        match consumer.pop() {
            // Of the item before, if its consumer heard of that first.
            Ok(batch) => {
                let batch = batch.expect("no end");
                assert!(batch.records().map(|record| record.expect("sound")).eq([[0; 4]]));
            }
            Err(e) => break e,
        }
    };
    assert!(matches!(failed, ProgramError::Failed { .. }), "{failed}");
    system.down();
}

#[test]
fn memory_is_not_free_while_its_item_waits_for_a_slow_or_leaving_consumer() {
    let system = System::up(HOSTS);
    // Two items fit each ring.
    create(&system, "f", "h1", &["--ring-size", "32KiB"]);
    let place = Place::at(system.root().join("s"));
    let at = |member: &str| Options { member: Some(member.into()), ..Options::default() };
    let mut b = FlowConsumer::attach(&place, "f", &at("b")).expect("a consumer");
    let mut c = FlowConsumer::attach(&place, "f", &at("c")).expect("a consumer");
    let (table, columns) = table();
    let options = Options { registered: vec![table], ..Options::default() };
    let attach = || FlowProducer::attach(&place, "f", &options).expect("a producer");
    let mut pushed = 0..;
    let mut next = || Layout::new(Rows::all(pushed.next().expect("endless"), 1), columns);
    let mut lay_out = |producer: &mut FlowProducer, consumer| {
        let ticket = producer.lay_out(&next(), To::Consumer(consumer), Wait::Forever).expect("laid out");
        ticket.expect("as long as it takes")
    };
    // Two items come to lie in the consumer's ring, two wait.
    let mut first = attach();
    let tickets: Vec<_> = (0..4).map(|_| lay_out(&mut first, 0)).collect();
    wait_for(|| first.was_taken(&tickets[1]).expect("a sound ring"));
    assert!(!first.was_taken(&tickets[2]).expect("a sound ring"));
    first.leave().expect("left");
    // The next program's item is behind one of the program before.
    let mut second = attach();
    assert!(b.pop().expect("popped").is_some());
    let ticket = lay_out(&mut second, 0);
    assert!(!second.was_taken(&ticket).expect("a sound ring"));
    for _ in 0..4 {
        assert!(b.pop().expect("popped").is_some());
    }
    wait_for(|| second.was_taken(&ticket).expect("a sound ring"));

    // Items to a consumer that is leaving are still read.
    let tickets: Vec<_> = (0..4).map(|_| lay_out(&mut second, 1)).collect();
    let mut events = system.events();
    let mut leaves = system.command(&["flow", "remove-member", "f", "c"]).spawn().expect("it runs");
    events.next("member-leaving");
    // The program leaves the ring with its next call that looks.
    wait_for(|| {
        second.push_to(b"x", To::Consumer(0), Wait::No).expect("one stays");
        second.consumers() == 1
    });
    assert!(!second.was_taken(&tickets[3]).expect("the controller answers"));
    for _ in 0..4 {
        assert!(c.pop().expect("popped").is_some());
    }
    assert!(leaves.wait().expect("it ends").success());
    assert!(second.was_taken(&tickets[3]).expect("the controller answers"));
    second.close().expect("closed");
    system.down();
}
