//! Layouts: records leave from where a program keeps them, and come to where another wants them.

use zsr::layouts::{At, Came, Column, Layout, LayoutConsumer, Registered, Rows};
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
        assert_eq!(laid(ring), ring["host"] != "h2", "{ring}");
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

const PAGE: u64 = 1000;
const PAGES: u64 = 400;

/// A cache of pages behind a list of room for 16 numbers per item.
fn cache(seed: u64) -> Registered {
    let cache = Registered::allocate((4096 + PAGES * PAGE) as usize).expect("memory");
    for page in 0..PAGES {
        cache.write((4096 + page * PAGE) as usize, &page_of(seed, page));
    }
    cache
}

fn page_of(seed: u64, page: u64) -> Vec<u8> {
    (0..PAGE).map(|n| (seed + page * 7 + n * 3) as u8).collect()
}

/// Pages by their numbers, whose list lies at place `list` of 64.
fn pages(cache: &Registered, list: usize, numbers: &[u32]) -> Layout {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    cache.write(64 * list, &bytes);
    let at = |offset| At { region: 0, offset };
    let rows = Rows::Listed { at: at(64 * list as u64), width: 4, count: numbers.len() as u32 };
    Layout::new(rows, [Column { at: at(4096), stride: PAGE, width: PAGE as u32 }])
}

#[test]
fn pages_come_to_free_blocks_of_another_cache_and_what_is_left_to_the_next_program() {
    const ITEMS: u64 = 24;
    let system = System::up(HOSTS);
    // Two items fit a ring.
    create(&system, "f", "h1", &["--ring-size", "32KiB"]);
    let place = Place::at(system.root().join("s"));
    let (from, to) = (cache(1), cache(0));
    let options = Options { registered: vec![from.clone()], ..Options::default() };
    let mut producer = FlowProducer::attach(&place, "f", &options).expect("a producer");
    let options = Options { registered: vec![to.clone()], member: Some("c".into()), ..Options::default() };
    let mut consumer = LayoutConsumer::attach(&place, "f", &options).expect("a consumer");
    assert_eq!(consumer.placed(), (0, 2));
    // Agents look at idle rings four times a second. That must not end the registration, which nothing would tell.
    std::thread::sleep(std::time::Duration::from_millis(600));
    let sent = std::thread::spawn(move || {
        for item in 0..ITEMS {
            // 1 to 16 pages.
            let numbers: Vec<u32> =
                (0..1 + item % 16).map(|n| ((item * 31 + n * 7) % PAGES) as u32).collect();
            let layout = pages(&from, item as usize, &numbers);
            producer.lay_out(&layout, To::Consumer(1), Wait::Forever).expect("laid out");
        }
        producer.close().expect("closed");
    });
    let page = |to: &Registered, number: u64| {
        let mut bytes = vec![0; PAGE as usize];
        to.read((4096 + number * PAGE) as usize, &mut bytes);
        bytes
    };
    let expected = |item: u64| (0..1 + item % 16).map(move |n| page_of(1, (item * 31 + n * 7) % PAGES));
    // The last blocks are the first to be filled. Each item has room for 12 pages.
    let blocks = |item: u64| (0..12).map(move |n| (PAGES - 1 - (item * 12 + n) % PAGES) as u32);
    let layout = |item: u64| pages(&to, item as usize, &blocks(item).collect::<Vec<_>>());
    assert!(consumer.place(&layout(0)).expect("placed") && consumer.place(&layout(1)).expect("placed"));
    assert!(!consumer.place(&layout(2)).expect("sound"), "the ring has two items");
    for item in 0..16 {
        let arrived = consumer.pop().expect("popped").expect("no end");
        let (records, bytes) = (1 + item % 16, (1 + item % 16) * PAGE);
        assert_eq!((arrived.records, arrived.bytes), (records as u32, bytes as u32));
        let mut pages = expected(item);
        for (block, sent) in blocks(item).zip(pages.by_ref()) {
            assert!(page(&to, block.into()) == sent, "item {item}, block {block}");
        }
        assert!(pages.flatten().eq(arrived.rest.iter().copied()), "item {item}: the rest");
        // Other blocks are as they were.
        let next = blocks(item).nth(records as usize).filter(|_| records < 12);
        assert!(next.is_none_or(|block| page(&to, block.into()) == page_of(0, block.into())));
        assert!(consumer.place(&layout(item + 2)).expect("placed"));
    }
    // Two more come to blocks, which the program does not pop.
    for item in [16, 17] {
        let block = blocks(item).next().expect("12 blocks");
        wait_for(|| Some(page(&to, block.into())) == expected(item).next());
    }
    consumer.leave();
    let options = Options { member: Some("c".into()), ..Options::default() };
    let mut next = FlowConsumer::attach(&place, "f", &options).expect("a consumer");
    assert!(all(&mut next).into_iter().eq((16..ITEMS).flat_map(expected)));
    sent.join().expect("sent");
    system.down();
}

#[test]
fn layouts_are_refused_where_there_can_be_none_and_a_changed_list_is_told() {
    let system = System::up(HOSTS);
    create(&system, "f", "h1", &["--policy", "abort"]);
    create(&system, "all", "h1", &["--kind", "replicate"]);
    let mut events = system.events();
    let place = Place::at(system.root().join("s"));
    let memory = cache(0);
    let at = |member: &str| {
        let registered = vec![memory.clone()];
        Options { registered, member: Some(member.into()), ..Options::default() }
    };
    let refused = |flow: &str, member: &str| {
        LayoutConsumer::attach(&place, flow, &at(member)).map(drop).expect_err("refused").to_string()
    };
    assert!(refused("all", "c").contains("it is no shuffle"));
    assert!(refused("f", "b").contains("`memory: layouts` in the topology"));
    let none = Options { member: Some("b".into()), ..Options::default() };
    let plain = LayoutConsumer::attach(&place, "f", &none).map(drop).expect_err("plain memory").to_string();
    assert!(plain.contains("not in memory of the kind `layouts`"), "{plain}");
    // What was refused left its ring to others.
    FlowConsumer::attach(&place, "all", &at("c")).expect("a consumer").leave();

    let mut consumer = LayoutConsumer::attach(&place, "f", &at("c")).expect("a consumer");
    let far = consumer.place(&pages(&memory, 0, &[0; 17])).expect_err("too long").to_string();
    assert!(far.contains("17 rows of 1000 B don't fit an item"), "{far}");
    let mut producer = FlowProducer::attach(&place, "f", &Options::default()).expect("a producer");
    let mut push = || {
        let page = page_of(1, 0);
        assert!(producer.push_to(&page, To::Consumer(1), Wait::Forever).expect("pushed"));
        producer.flush().expect("flushed");
    };
    push();
    let nothing = consumer.pop().expect_err("nothing is placed").to_string();
    assert!(nothing.contains("no layout is placed for the next item"), "{nothing}");
    // Records with lengths of their own come, too, one behind the other. A list is looked at when it is followed.
    let layout = pages(&memory, 0, &[399, 400]);
    assert!(consumer.place(&layout).expect("not looked at"));
    assert_eq!(consumer.pop().expect("popped").expect("no end").records, 1);
    let items = consumer.placed().1;
    let layouts = (0..items).map(|_| pages(&memory, 0, &[1]));
    layouts.for_each(|layout| assert!(consumer.place(&layout).expect("placed")));
    for _ in 1..items {
        push();
        assert_eq!(consumer.pop().expect("popped").expect("no end").records, 1);
    }
    // The next item comes to a slot with a layout, by a producer whose records have a size.
    producer.leave().expect("left");
    memory.write(0, &u32::MAX.to_ne_bytes());
    let sized = Options { record_size: Some(PAGE as u32), ..Options::default() };
    let mut producer = FlowProducer::attach(&place, "f", &sized).expect("a producer");
    producer.push_to(&page_of(1, 0), To::Consumer(1), Wait::Forever).expect("pushed");
    producer.flush().expect("flushed");
    let failed = events.next("flow-failed");
    let text = failed["text"].as_str().expect("text");
    assert!(text.contains("of the ring can't be put in its place"), "{text}");
    assert!(text.contains("row 4294967295, number 0 of its list"), "{text}");
    let failed = loop {
        match consumer.try_pop() {
            Ok(Came::Nothing) => std::thread::yield_now(),
            Ok(other) => panic!("{other:?}"),
            Err(e) => break e,
        }
    };
    assert!(matches!(failed, ProgramError::Failed { .. }), "{failed}");
    system.down();
}
