//! zsr-switch beside bmv2's simple_switch: entries by Thrift, packets by veth pairs. Needs root.
//!
//!     cargo bench -p zsr-bench --bench beside_bmv2 -- $PWD/ZSR-SWITCH [SIMPLE_SWITCH]
//!
//! Entries are called for 64 at a time, and answered in their order. The first ones of a table wait for each answer, as
//! simple_switch_CLI does.
//!
//! One thread sends packets into one veth pair and takes them out of another, at most 48 at a time, which bmv2's queues
//! of 64 hold. Packets that are lost are told, and do not count. The switch is a process of its own on the same machine. "CPU" is the time that the switch's process took, user and system, per packet.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use zsr_link::{PacketPort, Port};
use zsr_wire::{Frame, FramePool};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/tables.json");
const PORT: u16 = 9190;
const WINDOW: usize = 48;
/// Entries that wait for each answer.
const ALONE: usize = 5000;
/// How long a packet may take before it counts as lost.
const LOST: Duration = Duration::from_millis(200);
const INSIDE: &str = "ZSR_BENCH_INSIDE";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let Some(ours) = args.first() else {
        eprintln!("skipped: name zsr-switch, and bmv2's simple_switch: -- ZSR-SWITCH [SIMPLE_SWITCH]");
        return;
    };
    if std::env::var_os(INSIDE).is_none() {
        // A network of its own, which goes with it.
        let me = std::env::current_exe().expect("a path");
        let status = Command::new("unshare").arg("-n").arg(me).args(&args).env(INSIDE, "1").status();
        assert!(status.expect("unshare").success(), "the benchmark failed, or there is no root");
        return;
    }
    ip("link set lo up");
    if let Some(bmv2) = args.get(1) {
        measure("bmv2", bmv2, &[]);
    }
    measure("zsr-switch", ours, &[]);
    measure("zsr-switch --threads 2", ours, &["--threads", "2"]);
}

fn measure(who: &str, program: &str, more: &[&str]) {
    for (a, b) in [("ba", "ba-h"), ("bb", "bb-h")] {
        ip(&format!("link add {a} type veth peer name {b}"));
        for end in [a, b] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1").expect("a setting");
            ip(&format!("link set {end} up"));
        }
    }
    let mut ends = Ends {
        near: PacketPort::open("ba-h", 1500).expect("an interface"),
        far: PacketPort::open("bb-h", 1500).expect("an interface"),
        pool: FramePool::with_frames(1024),
        start: Instant::now(),
    };
    let mut running = Running::new(program, more);
    let tables: [(&str, usize, Add); 3] =
        [("lpm", 100_000, lpm), ("exact_", 1_000_000, exact), ("ternary_", 10_000, ternary)];
    for (table, many, add) in tables {
        // Threads change nothing about tables.
        if !more.is_empty() && table != "lpm" {
            continue;
        }
        for (from, to) in [(0, 1), (1, many)] {
            let alone = from..to.min(from + ALONE);
            let (one_by_one, _) = running.insert(table, alone.clone(), 1, add);
            if to > alone.end {
                let (per_s, mib) = running.insert(table, alone.end..to, 64, add);
                println!(
                    "{who:24} {table:>10} {to:>9} entries: {one_by_one:.0} inserts/s one by one, {per_s:.0} with 64 under way, RSS {mib} MiB",
                );
            }
            for bytes in [100, 1400] {
                if table != "lpm" && bytes == 1400 {
                    continue;
                }
                // A first run warms caches, and finds out how many a second or so takes.
                let (rate, _) = ends.exchange(&running, table, to, bytes, 2_000);
                let packets = (rate * 1.5) as usize;
                let (rate, cpu_us) = ends.exchange(&running, table, to, bytes, packets.max(2_000));
                println!(
                    "{who:24} {table:>10} {bytes:>6} bytes {to:>9} entries {rate:>10.0} packets/s {cpu_us:>8.2} CPU us"
                );
            }
        }
    }
    drop(running);
    drop(ends);
    ip("link delete ba");
    ip("link delete bb");
}

fn ip(args: &str) {
    let status = Command::new("ip").args(args.split_whitespace()).status();
    assert!(status.is_ok_and(|status| status.success()), "ip {args}");
}

struct Running {
    child: Child,
    thrift: TcpStream,
}

impl Running {
    fn new(program: &str, more: &[&str]) -> Running {
        let port = PORT.to_string();
        let mut command = Command::new(program);
        command.args(["-i", "1@ba", "-i", "2@bb", PROGRAM, "--thrift-port", &port]).args(more);
        if Path::new(program).file_name().is_some_and(|name| name == "zsr-switch") {
            command.args(["--", "--grpc-server-addr", "127.0.0.1:0"]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|e| panic!("{program}: {e}"));
        let until = Instant::now() + Duration::from_secs(20);
        let thrift = loop {
            match TcpStream::connect(("127.0.0.1", PORT)) {
                Ok(thrift) => break thrift,
                Err(e) if Instant::now() > until => panic!("{program} does not listen: {e}"),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        thrift.set_nodelay(true).expect("a TCP connection");
        thrift.set_read_timeout(Some(Duration::from_secs(20))).expect("a TCP connection");
        // Machine code is made beside the first packets.
        std::thread::sleep(Duration::from_secs(1));
        Running { child, thrift }
    }

    /// Adds entries with so many calls under way. Entries per second, and the MiB that the switch has then.
    fn insert(&mut self, table: &str, entries: Range<usize>, under_way: usize, add: Add) -> (f64, u64) {
        let (begun, all) = (Instant::now(), entries.collect::<Vec<_>>());
        for chunk in all.chunks(under_way) {
            let calls: Vec<u8> = chunk.iter().flat_map(|i| call(table, &add(*i))).collect();
            self.thrift.write_all(&calls).expect("a server");
            for i in chunk {
                // Version, name without the service, number, then field 0: an i32, and the end.
                let mut head = vec![0; 4 + 4 + NAME.len() - SERVICE + 4 + 3];
                self.thrift.read_exact(&mut head).expect("an answer");
                assert_eq!(head[head.len() - 3..], [8, 0, 0], "entry {i} of {table} is refused");
                self.thrift.read_exact(&mut [0; 5]).expect("an answer");
            }
        }
        (all.len() as f64 / begun.elapsed().as_secs_f64(), self.rss_mib())
    }

    fn stat(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("a process")
    }

    /// Time of the processor, user and system.
    fn cpu(&self) -> Duration {
        let stat = self.stat("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().map(|i| fields[*i].parse::<u64>().expect("ticks")).sum();
        Duration::from_millis(ticks * 10)
    }

    fn rss_mib(&self) -> u64 {
        let status = self.stat("status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
        line.split_whitespace().nth(1).expect("kB").parse::<u64>().expect("a number") / 1024
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The fields of an entry, as a call has them: key, name of the action, its data, options.
type Add = fn(usize) -> (Vec<Vec<u8>>, &'static str, Vec<Vec<u8>>);

const NAME: &str = "standard:bm_mt_add_entry";
const SERVICE: usize = "standard:".len();

fn mac(i: usize) -> [u8; 6] {
    let [.., a, b, c, d] = i.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// Addresses in 10.0.0.0/8 with prefixes of 24 to 32 bits.
fn address(i: usize) -> [u8; 4] {
    let [.., a, b, c] = (i * 64).to_be_bytes();
    [10, a, b, c]
}

fn lpm(i: usize) -> (Vec<Vec<u8>>, &'static str, Vec<Vec<u8>>) {
    let bits = 26 + i as i32 % 7;
    let prefix = field(12, 3, &[bytes(1, &address(i)), i32s(2, bits), vec![0]].concat());
    (vec![[i32s(1, 1), prefix, vec![0]].concat()], "In.route", vec![mac(i).to_vec(), vec![0, 2]])
}

fn exact(i: usize) -> (Vec<Vec<u8>>, &'static str, Vec<Vec<u8>>) {
    let value = field(12, 2, &[bytes(1, &mac(i)), vec![0]].concat());
    (vec![[i32s(1, 0), value, vec![0]].concat()], "In.forward", vec![vec![0, 2]])
}

/// Two masks by turns.
fn ternary(i: usize) -> (Vec<Vec<u8>>, &'static str, Vec<Vec<u8>>) {
    let source: [u8; 6] = if i.is_multiple_of(2) { [0; 6] } else { [0xff, 0, 0, 0, 0, 0] };
    let one = |value: &[u8], mask: &[u8]| {
        let inner = field(12, 4, &[bytes(1, value), bytes(2, mask), vec![0]].concat());
        [i32s(1, 2), inner, vec![0]].concat()
    };
    (vec![one(&mac(i), &[0xff; 6]), one(&[0; 6], &source)], "In.forward", vec![vec![0, 2]])
}

fn field(kind: u8, id: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 0, id], body].concat()
}

fn i32s(id: u8, value: i32) -> Vec<u8> {
    field(8, id, &value.to_be_bytes())
}

fn bytes(id: u8, value: &[u8]) -> Vec<u8> {
    field(11, id, &[&(value.len() as u32).to_be_bytes(), value].concat())
}

fn call(table: &str, (key, action, data): &(Vec<Vec<u8>>, &str, Vec<Vec<u8>>)) -> Vec<u8> {
    let list = |kind: u8, many: usize| [&[kind][..], &(many as u32).to_be_bytes()].concat();
    let data: Vec<u8> =
        data.iter().flat_map(|one| [&(one.len() as u32).to_be_bytes()[..], one].concat()).collect();
    let many = if *action == "In.route" { 2 } else { 1 };
    [
        &[0x80, 1, 0, 1],
        &(NAME.len() as u32).to_be_bytes()[..],
        NAME.as_bytes(),
        &[0, 0, 0, 1],
        &i32s(1, 0),
        &bytes(2, format!("In.{table}").as_bytes()),
        &field(15, 3, &[list(12, key.len()), key.concat()].concat()),
        &bytes(4, action.as_bytes()),
        &field(15, 5, &[list(11, many), data].concat()),
        &field(12, 6, &[i32s(1, 1), vec![0]].concat()),
        &[0],
    ]
    .concat()
}

/// The ends of the veth pairs that are not the switch's.
struct Ends {
    near: PacketPort,
    far: PacketPort,
    pool: FramePool,
    start: Instant,
}

impl Ends {
    /// Packets per second, and microseconds of the switch's processor per packet. Their keys go through all entries.
    fn exchange(
        &mut self,
        switch: &Running,
        table: &str,
        entries: usize,
        len: usize,
        many: usize,
    ) -> (f64, f64) {
        let (mut sent, mut got, mut lost, mut looked) = (0, 0, 0, Instant::now());
        let (begun, cpu, mut waited) = (Instant::now(), switch.cpu(), Duration::ZERO);
        while got + lost < many {
            let now = self.start.elapsed().as_nanos() as u64;
            while sent < many && sent - got - lost < WINDOW {
                let frame = packet(&mut self.pool, table, sent * 7919 % entries, len);
                assert!(self.near.send(now, frame, &mut self.pool).is_ok(), "no room for a packet");
                sent += 1;
            }
            self.near.flush(now, &mut self.pool);
            let before = got;
            while let Some(frame) = self.far.recv(now, &mut self.pool) {
                self.pool.put(frame);
                got += 1;
            }
            if got > before {
                looked = Instant::now();
            } else if looked.elapsed() > LOST {
                // The time of waiting for them does not count.
                (lost, waited, looked) = (sent - got, waited + looked.elapsed(), Instant::now());
            } else {
                std::thread::yield_now();
            }
        }
        if lost > 0 {
            println!("  {lost} of {many} packets to {table} were lost");
        }
        assert!(got > 0, "no packet of {table} comes through");
        let took = (begun.elapsed() - waited).as_secs_f64();
        (got as f64 / took, (switch.cpu() - cpu).as_secs_f64() * 1e6 / got as f64)
    }
}

fn packet(pool: &mut FramePool, table: &str, i: usize, len: usize) -> Frame {
    let mut data = [0u8; 1400];
    data[..6].copy_from_slice(&mac(i));
    data[6..12].copy_from_slice(&[0, 0, 0, 0, 0, 1]);
    let kind: u16 = match table {
        "lpm" => 0x0800,
        "exact_" => 0x88b5,
        _ => 0x88b6,
    };
    data[12..14].copy_from_slice(&kind.to_be_bytes());
    if table == "lpm" {
        data[14..24].copy_from_slice(&[0x45, 0, 0, 86, 0, 0, 0, 0, 64, 17]);
        data[30..34].copy_from_slice(&address(i));
    }
    let mut frame = pool.take();
    frame.append(&data[..len]);
    frame
}
