//! Whole flows over loopback rings, with a hand-made switch between that can also misbehave.

use std::collections::BTreeMap;
use std::path::Path;

use zsr_ring::{Consumer, PopError, Producer, Ring, RingSpec};

use super::*;
use zsr_topology::Topology;

fn topology(flow: &str, workload: &str) -> Topology {
    let text =
        format!("seed: 7\nhosts: [a, b, c, d]\nflows:\n  - {{name: f, {flow}}}\nworkload: {workload}\n");
    Topology::parse(Path::new("t.yaml"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"))
}

/// The fate that the switch gives item `n` of a pair, and its bytes.
type Meddle = fn(n: u64, item: &mut [u8]) -> Fate;

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Once,
    Never,
    Twice,
    ToNext,
}

fn faithful(_: u64, _: &mut [u8]) -> Fate {
    Fate::Once
}

/// The inner ends of all rings of a flow.
struct Fabric {
    from_producers: Vec<(usize, Consumer)>,
    to_consumers: Vec<Producer>,
}

/// Makes every ring of the flow a loopback ring.
fn rings(t: &Topology) -> (Vec<Vec<Producer>>, Vec<Consumer>, Fabric) {
    let flow = &t.flows[0];
    let spec = |ring: usize| {
        RingSpec::new(u64::from(t.rings[ring].item_size), u64::from(t.rings[ring].size)).unwrap()
    };
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    for endpoint in &flow.producers {
        let mut lanes = Vec::new();
        for (c, ring) in endpoint.rings.iter().enumerate() {
            let (tx, rx) = Ring::loopback(spec(*ring)).unwrap();
            lanes.push(tx);
            inner.push((c, rx));
        }
        outer.push(lanes);
    }
    let (mut sinks, mut feeds) = (Vec::new(), Vec::new());
    for endpoint in &flow.consumers {
        let (tx, rx) = Ring::loopback(spec(endpoint.rings[0])).unwrap();
        feeds.push(tx);
        sinks.push(rx);
    }
    (outer, sinks, Fabric { from_producers: inner, to_consumers: feeds })
}

/// Moves items until all producers have closed.
fn forward(mut fabric: Fabric, meddle: Meddle) {
    let mut open: Vec<bool> = vec![true; fabric.from_producers.len()];
    let mut counts = vec![0; open.len()];
    let consumers = fabric.to_consumers.len();
    while open.contains(&true) {
        for (n, (target, rx)) in fabric.from_producers.iter_mut().enumerate() {
            if !open[n] {
                continue;
            }
            let mut item = vec![0; rx.spec().item_size() as usize];
            match rx.try_pop(&mut item) {
                Ok(()) => {
                    let fate = meddle(counts[n], &mut item);
                    counts[n] += 1;
                    let to = if fate == Fate::ToNext { (*target + 1) % consumers } else { *target };
                    let times = match fate {
                        Fate::Never => 0,
                        Fate::Twice => 2,
                        _ => 1,
                    };
                    for _ in 0..times {
                        if fabric.to_consumers[to].push(&item).is_err() {
                            return;
                        }
                    }
                }
                Err(PopError::Empty) => std::thread::yield_now(),
                Err(PopError::Closed) => open[n] = false,
                // A producer gave up; its consumers learn it from the other side being dropped.
                Err(_) => return,
            }
        }
    }
    for feed in fabric.to_consumers {
        feed.close();
    }
}

/// Everybody as fast as they can.
fn input(prepared: &Prepared, producers: Vec<Vec<Producer>>, consumers: Vec<Consumer>) -> FlowInput<'_> {
    FlowInput {
        flow: 0,
        prepared,
        stock: Stock::begin(prepared, producers.len(), KEPT).unwrap(),
        producers,
        consumers: consumers.into_iter().map(|ring| vec![ring]).collect(),
        producer_paces: Vec::new(),
        consumer_paces: Vec::new(),
    }
}

fn run(t: &Topology, output: Option<&OutputPlan>, meddle: Meddle) -> FlowOutcome {
    run_keeping(KEPT, t, output, meddle)
}

fn run_keeping(kept: usize, t: &Topology, output: Option<&OutputPlan>, meddle: Meddle) -> FlowOutcome {
    let prepared = prepare(&t.flows[0], t.seed).unwrap();
    let (producers, consumers, fabric) = rings(t);
    let switch = std::thread::spawn(move || forward(fabric, meddle));
    let meter = Meter::default();
    let stock = Stock::begin(&prepared, producers.len(), kept).unwrap();
    let input = FlowInput { stock, ..input(&prepared, producers, consumers) };
    let control = Control::default();
    let mut outcomes = run_flow(t, vec![input], output, &control, &meter, &mut |_| {});
    switch.join().unwrap();
    outcomes.remove(0)
}

#[test]
fn synthetic_items_arrive_exactly() {
    for (members, size) in [
        ("producers: [a], consumers: [b]", 4),
        ("producers: [a, b], consumers: [c, d]", 8),
        ("producers: [a, b, c], consumers: [d], routing: hash", 64),
        ("producers: [a, b], consumers: [b, c, d], routing: hash", 16),
        ("producers: [{host: a, endpoints: 2}], consumers: [b, c], routing: 'range(*, [300])'", 32),
    ] {
        let t = topology(
            &format!("{members}, item_size: {size}, ring_size: 1KiB, max_batch: 1 item"),
            "{kind: synthetic, items: 5003}",
        );
        let outcome = run(&t, None, faithful);
        assert!(outcome.error.is_none() && outcome.complete, "{:?}", outcome.error);
        assert!(outcome.verification.is_exact(), "{members}: {:?}", outcome.verification);
        assert_eq!(outcome.verification.delivered.items, 5003);
        assert_eq!(outcome.verification.delivered.bytes, 5003 * size);
    }
}

#[test]
fn every_misdeed_of_the_fabric_is_seen() {
    let cases: [(Meddle, &str); 4] = [
        (|n, _| if n == 100 { Fate::Never } else { Fate::Once }, "lost"),
        (|n, _| if n == 100 { Fate::Twice } else { Fate::Once }, "repeated"),
        (|n, _| if n == 100 { Fate::ToNext } else { Fate::Once }, "misrouted"),
        (
            |n, item| {
                if n == 100 {
                    item[60] ^= 1;
                }
                Fate::Once
            },
            "altered",
        ),
    ];
    for workload in ["{kind: synthetic, items: 4000}", "{kind: tpch, scale: 0.001}"] {
        let items = if workload.contains("tpch") { "item_size: 256" } else { "item_size: 64" };
        let members = format!("producers: [a, b], consumers: [c, d], {items}, ring_size: 64KiB");
        let t = topology(&members, workload);
        for (meddle, kind) in cases {
            let outcome = run(&t, None, meddle);
            let v = &outcome.verification;
            assert!(!v.is_exact(), "{workload}: {kind} went unnoticed");
            let counts = BTreeMap::from([
                ("lost", v.lost),
                ("repeated", v.repeated),
                ("misrouted", v.misrouted),
                ("altered", v.altered),
            ]);
            assert!(counts[kind] > 0, "{workload}: {kind}: {v:?}");
            assert!(!v.first.is_empty() && v.first[0].ring.starts_with("f."), "{v:?}");
        }
    }
}

#[test]
fn altered_records_are_seen_where_no_key_tells() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    std::fs::write(&path, [7; 64 << 10]).unwrap();
    let flows = ["kind: load-balance, producers: [a], consumers: [c, d]", "producers: [a], consumers: [c]"];
    let workloads =
        ["{kind: tpch, scale: 0.001}", "{kind: file, path: PATH, format: binary, record_size: 64}"];
    for (flow, workload) in flows.iter().flat_map(|flow| workloads.map(|workload| (flow, workload))) {
        let workload = workload.replace("PATH", path.to_str().unwrap());
        let t = topology(&format!("{flow}, item_size: 256, ring_size: 64KiB"), &workload);
        let outcome = run(&t, None, |n, item| {
            if n == 100 {
                item[60] ^= 1;
            }
            Fate::Once
        });
        assert_eq!(outcome.verification.altered, 1, "{flow}, {workload}: {:?}", outcome.verification);
        assert!(run(&t, None, faithful).verification.is_exact(), "{flow}, {workload}");
    }
}

#[test]
fn what_is_not_kept_is_made_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let mut text: String = (0..60_000).map(|n| format!("{n},{}\n", "y".repeat(90))).collect();
    let workload = format!("{{kind: file, path: {}, format: lines}}", path.display());
    let t = topology("producers: [a, b], consumers: [c, d], item_size: 4KiB, ring_size: 64KiB", &workload);
    std::fs::write(&path, &text).unwrap();
    // A block each, of some three that there are.
    let outcome = run_keeping(0, &t, None, faithful);
    assert!(outcome.error.is_none() && outcome.complete, "{:?}", outcome.error);
    assert!(outcome.verification.is_exact(), "{:?}", outcome.verification);
    assert_eq!(outcome.verification.delivered.records, 60_000);
    // A fault behind what is kept is found when some has moved; a fault in what is kept, before.
    text += &"z".repeat(5000);
    std::fs::write(&path, &text).unwrap();
    for (kept, moved) in [(0, true), (KEPT, false)] {
        let outcome = run_keeping(kept, &t, None, faithful);
        let message = outcome.error.map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains("x:60001: the record is 5000 bytes long"), "{message}");
        assert_eq!(outcome.verification.pushed.items > 0, moved, "kept: {kept}");
    }
}

#[test]
fn lineitem_is_divided_and_written_whole() {
    let t = topology(
        "producers: [a, b], consumers: [c, d], item_size: 4KiB, ring_size: 64KiB",
        "{kind: tpch, scale: 0.001}",
    );
    let folder = tempfile::tempdir().unwrap();
    let plan = OutputPlan::new(folder.path(), &t, false).unwrap();
    let outcome = run(&t, Some(&plan), faithful);
    assert!(outcome.verification.is_exact(), "{:?}", outcome.verification);
    let files = plan.commit().unwrap();
    assert_eq!(files.len(), 2);

    let rows = tpchgen::generators::LineItemGenerator::new(0.001, 1, 1);
    let mut wanted: Vec<String> = rows.iter().map(|row| row.to_string()).collect();
    let mut found = Vec::new();
    let mut owner = BTreeMap::new();
    for (n, file) in files.iter().enumerate() {
        let text = std::fs::read_to_string(file).unwrap();
        for line in text.lines() {
            let key = line.split('|').next().unwrap_or("").to_owned();
            assert_eq!(*owner.entry(key).or_insert(n), n, "an order key is in two files");
            found.push(line.to_owned());
        }
    }
    assert_eq!(outcome.verification.delivered.records, wanted.len() as u64);
    wanted.sort();
    found.sort();
    assert!(wanted == found, "the union of the outputs is not lineitem");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "temporary files are left");
}

/// Runs a file through the flow and returns the consumers' files one after the other, as lines.
fn through(file: &str, content: &[u8], flow: &str, workload: &str) -> Result<Vec<Vec<u8>>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    std::fs::write(&path, content).unwrap();
    let t = topology(flow, &workload.replace("PATH", path.to_str().unwrap()));
    let out = folder.path().join("out");
    let plan = OutputPlan::new(&out, &t, false).unwrap();
    prepare(&t.flows[0], 0).map_err(|e| e.to_string())?;
    let outcome = run(&t, Some(&plan), faithful);
    if let Some(e) = outcome.error {
        drop(plan);
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "files are left after an error");
        return Err(e.to_string());
    }
    assert!(outcome.verification.is_exact(), "{:?}", outcome.verification);
    Ok(plan.commit().unwrap().iter().map(|p| std::fs::read(p).unwrap()).collect())
}

const TWO: &str = "producers: [a, b], consumers: [c, d], item_size: 256, ring_size: 1KiB";

#[test]
fn files_of_all_formats() {
    let text: String = (0..500).map(|n| format!("{},row {n}\n", n % 7)).collect();
    let lines = through("x.txt", text.as_bytes(), TWO, "{kind: file, path: PATH}").unwrap();
    let mut all: Vec<&[u8]> = lines.iter().flat_map(|f| f.split(|b| *b == b'\n')).collect();
    all.retain(|l| !l.is_empty());
    all.sort();
    let mut wanted: Vec<&[u8]> = text.as_bytes().split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
    wanted.sort();
    assert_eq!(all, wanted);

    let with_header = format!("kind,name\n{text}");
    let workload = "{kind: file, path: PATH, format: delimited, key: kind}";
    let parts = through("x.csv", with_header.as_bytes(), TWO, workload).unwrap();
    let rows: usize = parts.iter().map(|p| p.iter().filter(|b| **b == b'\n').count()).sum();
    assert_eq!(rows, 500);
    for digit in b'0'..b'7' {
        let has = |part: &Vec<u8>| part.split(|b| *b == b'\n').any(|l| l.starts_with(&[digit, b',']));
        assert!(!(has(&parts[0]) && has(&parts[1])), "key {digit} is in both files");
    }

    let records: Vec<u8> =
        (0u32..300).flat_map(|n| [n.to_le_bytes(), (n * 3).to_le_bytes()].concat()).collect();
    let workload = "{kind: file, path: PATH, format: binary, record_size: 8, key: '0:4'}";
    let flow = format!("{TWO}, routing: 'range(0:4, [100])'");
    let parts = through("x.bin", &records, &flow, workload).unwrap();
    // Two producers' records mix; each one's own stay in order, which the verification has checked.
    let sorted = |bytes: &[u8]| {
        let mut numbers: Vec<u32> =
            bytes.chunks_exact(8).map(|r| u32::from_le_bytes([r[0], r[1], r[2], r[3]])).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(sorted(&parts[0]), (0..100).collect::<Vec<_>>());
    assert_eq!(sorted(&parts[1]), (100..300).collect::<Vec<_>>());
}

#[test]
fn no_records_at_all() {
    let parts = through("x.txt", b"", TWO, "{kind: file, path: PATH}").unwrap();
    assert!(parts.iter().all(Vec::is_empty));
}

#[test]
fn bad_inputs_give_one_clear_message_and_no_files() {
    let file = "{kind: file, path: PATH, ";
    for (content, workload, part) in [
        (
            "a\n".to_owned() + &"b".repeat(300) + "\n",
            format!("{file}format: lines}}"),
            "x:2: the record is 300",
        ),
        ("1,a\n2\n".into(), format!("{file}format: delimited, key: 2}}"), "x:2: it has 1 column,"),
        (
            "k,v\n1,2\n".into(),
            format!("{file}format: delimited, key: w}}"),
            "has no column 'w'; its header line has k, v",
        ),
        ("12345".into(), format!("{file}format: binary, record_size: 4}}"), "1 bytes are left over"),
    ] {
        let message = through("x", content.as_bytes(), TWO, &workload).unwrap_err();
        assert!(message.contains(part), "{message}");
    }
    let flow = format!("{TWO}, routing: explicit(1)");
    let workload = format!("{file}format: delimited}}");
    let message = through("x", b"0,a\n1,b\n2,c\n", &flow, &workload).unwrap_err();
    assert!(message.contains("x:3: its key names consumer 2"), "{message}");
}

#[test]
fn a_stop_request_delivers_what_was_pushed() {
    let t =
        topology("producers: [a], consumers: [b], item_size: 64", "{kind: synthetic, items: 1000000000000}");
    let prepared = prepare(&t.flows[0], 0).unwrap();
    let (producers, consumers, fabric) = rings(&t);
    let switch = std::thread::spawn(move || forward(fabric, faithful));
    let meter = Meter::default();
    let control = Control::default();
    let input = input(&prepared, producers, consumers);
    let mut tick = |meter: &Meter| {
        if meter.delivered_records() > 0 {
            control.stop.cancel();
        }
    };
    let outcome = run_flow(&t, vec![input], None, &control, &meter, &mut tick).remove(0);
    switch.join().unwrap();
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(!outcome.complete, "stopped, yet complete");
    assert!(outcome.verification.is_exact() && outcome.verification.delivered.items > 0);
}

#[test]
fn producers_and_consumers_keep_their_paces() {
    let paces = [(vec![Some(200)], Vec::new()), (Vec::new(), vec![Some(200)])];
    // Items, and records in segments.
    let workloads = ["{kind: synthetic, items: 300}", "{kind: file, path: Cargo.toml, format: lines}"];
    for ((producer_paces, consumer_paces), workload) in
        paces.iter().flat_map(|paces| workloads.iter().map(move |workload| (paces, *workload)))
    {
        let t = topology("producers: [a], consumers: [b]", workload);
        let prepared = prepare(&t.flows[0], 0).unwrap();
        let (producers, consumers, fabric) = rings(&t);
        let switch = std::thread::spawn(move || forward(fabric, faithful));
        let input = FlowInput {
            producer_paces: producer_paces.clone(),
            consumer_paces: consumer_paces.clone(),
            ..input(&prepared, producers, consumers)
        };
        let control = Control::default();
        let outcome = run_flow(&t, vec![input], None, &control, &Meter::default(), &mut |_| {}).remove(0);
        switch.join().unwrap();
        assert!(outcome.error.is_none() && outcome.verification.is_exact(), "{:?}", outcome.error);
        let records = outcome.verification.delivered.records.max(outcome.verification.delivered.items);
        assert!(
            outcome.elapsed.as_secs_f64() >= records as f64 / 200.0 - 0.05,
            "{records} in {:?}",
            outcome.elapsed
        );
    }
}

#[test]
fn outputs_never_overwrite_unasked() {
    let t = topology("producers: [a], consumers: [b]", "{kind: synthetic, items: 1}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f.b.bin"), "precious").unwrap();
    let refused = OutputPlan::new(folder.path(), &t, false).unwrap_err().to_string();
    assert!(refused.contains("f.b.bin exists") && refused.contains("--force"), "{refused}");
    drop(OutputPlan::new(folder.path(), &t, true).unwrap());
    assert_eq!(std::fs::read_to_string(folder.path().join("f.b.bin")).unwrap(), "precious");
}

// Only Linux has a device that is always full.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_one_message() {
    let full = Path::new("/dev/full");
    let t = topology("producers: [a], consumers: [b], item_size: 4KiB", "{kind: synthetic, items: 1000}");
    let folder = tempfile::tempdir().unwrap();
    let name = format!(".f.b.bin.part-{}", std::process::id());
    std::os::unix::fs::symlink(full, folder.path().join(name)).unwrap();
    let plan = OutputPlan::new(folder.path(), &t, false).unwrap();
    let outcome = run(&t, Some(&plan), faithful);
    let message = outcome.error.map(|e| e.to_string()).unwrap_or_default();
    assert!(message.contains("the disk is full"), "{message}");
    drop(plan);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
