//! Five columns of 4 bytes, half of the rows to each of two consumers: rows that the program copies into its rings, against layouts
//! that name them (the shuffle of D-RDMA, section 2.2). `ROUNDS` is how often the table is sent (default 100), `ROWS` its rows (default
//! 65,536). Figures stand in bench/results/layouts.md.

use std::time::Instant;
use zsr::layouts::{At, Column, Layout, Registered, Rows};
use zsr::{Contact, FlowConsumer, FlowProducer, Options, Place, To, Wait};
use zsr_api::controller as proto;
use zsr_bench::live::{Live, processor_time_of};

const COLUMNS: usize = 5;
const WIDTH: usize = 4;
const ROW: usize = COLUMNS * WIDTH;
const TARGETS: usize = 2;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Copied,
    LaidOut,
}

fn main() {
    let (rows, rounds) = (number("ROWS", 65_536), number("ROUNDS", 100));
    println!("{}", zsr_bench::machine());
    let (nanoseconds, bytes) = work_requests(rows);
    println!(
        "work requests with an SGE per element, only written: unit {nanoseconds:.2} ns per row, {bytes} B per table"
    );
    let live = Live::with_mtu(3, 4096);
    let contact = Contact::from(&Place::find(Some("bench")).expect("it is up"));
    let mut each = Vec::new();
    for round in 0..3 {
        for way in [Way::Copied, Way::LaidOut] {
            let name = format!("f{round}{way:?}").to_lowercase();
            let member = |host: &str, memory: &str| proto::Member {
                host: host.into(),
                memory: memory.into(),
                ..Default::default()
            };
            let memory = if way == Way::LaidOut { "layouts" } else { "" };
            let request = proto::CreateFlowRequest {
                name: name.clone(),
                producers: vec![member("h1", memory)],
                consumers: vec![member("h2", ""), member("h3", "")],
                item_size: 1 << 20,
                ring_size: 4 << 20,
                ..Default::default()
            };
            live.session
                .change(|mut c| async move { c.create_flow(request).await })
                .unwrap_or_else(|e| panic!("{e}"));
            each.push((way, send(&live, &contact, &name, way, rows, rounds)));
        }
    }
    println!("{rounds} times {rows} rows of {ROW} B to {TARGETS} consumers; by turns, each three times");
    for way in [Way::Copied, Way::LaidOut] {
        for (_, Spent { seconds, unit, nic, others }) in each.iter().filter(|(of, _)| *of == way) {
            let megabytes = (rows * rounds * ROW) as f64 / 1e6;
            let nanoseconds = |seconds: f64| seconds * 1e9 / (rows * rounds) as f64;
            println!(
                "  {way:<8?} {:>6.0} MB/s; processor ns per row: unit {:>6.2}, its agent and NIC {:>6.2}, all others {:>6.2}",
                megabytes / seconds,
                nanoseconds(*unit),
                nanoseconds(*nic),
                nanoseconds(*others),
            );
        }
    }
}

/// Nanoseconds per row in which a unit only writes work requests with an SGE for each element, and how many bytes that is: a WRITE per row as
/// NICs of today read it (a segment of control, one of the remote address, and one for each SGE, 16 B each, in a multiple of 64 B), in
/// batches of 1,024. Nothing carries them out.
fn work_requests(rows: usize) -> (f64, usize) {
    const BATCH: usize = 1024;
    const SEGMENT: usize = 16;
    const REQUEST: usize = ((2 + COLUMNS) * SEGMENT).next_multiple_of(64);
    let mut queue = vec![[0_u64; REQUEST / 8]; BATCH];
    let table = Registered::allocate(rows * ROW).expect("memory");
    let (base, key) = (table.as_ptr() as u64, 0x1234_u64);
    let times = zsr_bench::measure(20, rows as u64, || {
        for target in 0..TARGETS {
            for (n, row) in (target..rows).step_by(TARGETS).enumerate() {
                let request = &mut queue[n % BATCH];
                request[0] = (n as u64) << 8 | 0x0a;
                request[1] = (2 + COLUMNS) as u64 | 8 << 32;
                request[2] = (n * ROW) as u64;
                request[3] = key;
                for column in 0..COLUMNS {
                    request[4 + 2 * column] = WIDTH as u64 | key << 32;
                    request[5 + 2 * column] = base + ((column * rows + row) * WIDTH) as u64;
                }
                if n % BATCH == BATCH - 1 {
                    // The doorbell.
                    std::hint::black_box(&mut queue);
                }
            }
        }
        std::hint::black_box(&mut queue);
    });
    (times.median, rows * REQUEST)
}

/// Seconds by the clock, and of processors.
struct Spent {
    seconds: f64,
    /// The thread that has the table.
    unit: f64,
    nic: f64,
    others: f64,
}

fn send(live: &Live, contact: &Contact, flow: &str, way: Way, rows: usize, rounds: usize) -> Spent {
    let readers: Vec<_> = ["h2", "h3"]
        .into_iter()
        .map(|member| {
            let options = Options { member: Some(member.into()), ..Options::default() };
            let mut consumer = FlowConsumer::attach(contact, flow, &options).expect("a consumer");
            std::thread::spawn(move || {
                let mut records = 0;
                while let Some(batch) = consumer.pop().expect("popped") {
                    records += batch.len();
                }
                records
            })
        })
        .collect();
    let table = Registered::allocate(rows * ROW).expect("memory");
    for n in 0..rows * COLUMNS {
        table.write(n * WIDTH, &(n as u32).to_le_bytes());
    }
    let column = |n: usize| Column {
        at: At { region: 0, offset: (n * rows * WIDTH) as u64 },
        stride: WIDTH as u64,
        width: WIDTH as u32,
    };
    let columns: [Column; COLUMNS] = std::array::from_fn(column);
    let registered = if way == Way::LaidOut { vec![table.clone()] } else { Vec::new() };
    let options = Options { registered, record_size: Some(ROW as u32), ..Options::default() };
    let mut producer = FlowProducer::attach(contact, flow, &options).expect("a producer");
    let (own, others, begun) = (processor_time_of("self"), live.processor_times(), Instant::now());
    let unit = zsr_bench::live::thread_time();
    for _ in 0..rounds {
        for target in 0..TARGETS {
            match way {
                Way::Copied => copy(&mut producer, &table, rows, target),
                Way::LaidOut => {
                    let every = |count| Rows::Every { start: target as u64, period: 2, frequency: 1, count };
                    let layout = Layout::new(every((rows / TARGETS) as u32), columns);
                    producer.lay_out(&layout, To::Consumer(target), Wait::Forever).expect("laid out");
                }
            }
        }
    }
    let unit = zsr_bench::live::thread_time() - unit;
    producer.close().expect("closed");
    let came: usize = readers.into_iter().map(|reader| reader.join().expect("it ends")).sum();
    assert_eq!(came, rows / TARGETS * TARGETS * rounds);
    let seconds = begun.elapsed().as_secs_f64();
    let spent = |(name, time): (String, std::time::Duration)| {
        (name.clone(), (time - others.get(&name).copied().unwrap_or_default()).as_secs_f64())
    };
    let spent: Vec<(String, f64)> = live.processor_times().into_iter().map(spent).collect();
    let nic = spent.iter().filter(|(name, _)| name == "agent.h1").map(|(_, time)| time).sum::<f64>();
    let all = spent.iter().map(|(_, time)| time).sum::<f64>();
    let unit = unit.as_secs_f64();
    let own = (processor_time_of("self") - own).as_secs_f64();
    Spent { seconds, unit, nic, others: all - nic + own - unit }
}

/// Every other row, from row `target` on, into the ring, column by column.
fn copy(producer: &mut FlowProducer, table: &Registered, rows: usize, target: usize) {
    let mut row = target;
    while row < rows {
        let wanted = (rows - row).div_ceil(TARGETS) * ROW;
        let room = producer.reserve(wanted, To::Consumer(target), Wait::Forever).expect("room");
        let room = room.expect("as long as it takes");
        let taken = room.len() / ROW;
        for (n, to) in room.chunks_exact_mut(ROW).enumerate() {
            let from = row + n * TARGETS;
            for (column, to) in to.chunks_exact_mut(WIDTH).enumerate() {
                // SAFETY: in the table, which nobody writes.
                let element =
                    unsafe { table.as_ptr().cast::<[u8; WIDTH]>().add(column * rows + from).read() };
                to.copy_from_slice(&element);
            }
        }
        producer.publish(taken * ROW).expect("pushed");
        row += taken * TARGETS;
    }
    producer.flush().expect("flushed");
}
