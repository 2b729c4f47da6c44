//! `gpu-header PEER SEED ITEMS`: Rust at one end of a ring in shared memory, zsr.cuh (the program PEER) at the other one, in a process of its
//! own. Every item is checked, and how the stream ends.

use std::error::Error;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use zsr_random::mix;
use zsr_ring::memory::{ByteOrder, Memory, SharedMemory};
use zsr_ring::segment::{SegmentConfig, SegmentReader, SegmentWriter};
use zsr_ring::{Cancel, NullSwitch, PopError, PushError, Ring, RingSpec, Role};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// host.hpp makes the same, so `mix` is there, too.
fn item(seed: u64, number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 4).flat_map(|w| (mix(seed ^ number << 20 ^ w) as u32).to_ne_bytes()).collect()
}

/// Numbers, and pauses at any place.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % n
    }

    fn stall(&mut self) {
        match self.below(64) {
            0 => std::thread::yield_now(),
            1 => std::thread::sleep(Duration::from_micros(self.below(100))),
            _ => {}
        }
    }
}

/// One ring and the peer at its other end.
struct Case<'a> {
    peer: &'a str,
    item: u32,
    slots: u32,
    order: ByteOrder,
    seed: u64,
    count: u64,
    threads: u64,
}

impl Case<'_> {
    /// A ring in shared memory, whose counters are about to go round.
    fn ring(&self, role: Role) -> Result<(Arc<Ring>, Arc<SharedMemory>)> {
        let spec =
            RingSpec::new(self.item.into(), u64::from(self.item * self.slots))?.with_byte_order(self.order);
        let memory = Arc::new(SharedMemory::create(spec.memory_len(), self.order)?);
        Ok((Ring::over(role, spec, memory.clone(), 0u32.wrapping_sub(self.item * 5), 3)?, memory))
    }

    fn start(&self, memory: &SharedMemory, role: &str, end: &str) -> Result<Child> {
        let file = memory.file().ok_or("memory without a file")?.as_raw_fd();
        let order = if self.order == ByteOrder::Big { "big" } else { "little" };
        let path = format!("/proc/{}/fd/{file}", std::process::id());
        let sizes = [self.item * self.slots, self.item].map(|n| n.to_string());
        let numbers = [self.seed, self.count].map(|n| n.to_string());
        Ok(Command::new(self.peer)
            .args([&path, role, &sizes[0], &sizes[1], order, &numbers[0], &numbers[1], end])
            .arg(self.threads.to_string())
            .stdout(Stdio::piped())
            .spawn()?)
    }

    fn ended(&self, child: Child, expected: &str) -> Result<()> {
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        match output.status.success() && said.trim() == expected {
            true => Ok(()),
            false => {
                Err(format!("the peer ended with {} `{}`, expected `{expected}`", output.status, said.trim())
                    .into())
            }
        }
    }

    /// zsr.cuh pushes, Rust pops through a null switch: the peer's tail and the commit records are what a switch writes.
    fn read_peer(&self, end: &str) -> Result<()> {
        let (ring, memory) = self.ring(Role::Producer)?;
        let spec = RingSpec::new(self.item.into(), u64::from(self.item * 4))?;
        let there = Ring::with_start(Role::Consumer, spec, 0, 1)?;
        let mut switch = NullSwitch::new(ring, there.clone(), 7)?;
        let child = self.start(&memory, "push", end)?;
        let mut consumer = there.attach_consumer(Cancel::new())?;
        let mut chance = Chance(self.seed);
        let mut got = vec![0; self.item as usize];
        let mut came = 0;
        let last = loop {
            chance.stall();
            switch.step(self.item * chance.below(8) as u32);
            match consumer.try_pop(&mut got) {
                Ok(()) if got != item(self.seed, came, got.len()) => {
                    return Err(format!("item {came} is another").into());
                }
                Ok(()) => came += 1,
                Err(PopError::Empty) => {}
                Err(error) => break error,
            }
        };
        let right = match end {
            "close" => last == PopError::Closed,
            _ => matches!(last, PopError::Aborted(_)),
        };
        if !right || came != self.count {
            return Err(format!("{came} items of {}, and then {last}", self.count).into());
        }
        self.ended(child, "ok 0")
    }

    /// Rust pushes through a null switch, zsr.cuh pops what the commit records say.
    fn to_peer(&self, end: &str) -> Result<()> {
        let (ring, memory) = self.ring(Role::Consumer)?;
        let spec = RingSpec::new(self.item.into(), u64::from(self.item * 4))?;
        let here = Ring::with_start(Role::Producer, spec, 0, 1)?;
        let mut switch = NullSwitch::new(here.clone(), ring.clone(), 7)?;
        let most = Case { count: self.count + 1, ..*self };
        let child = most.start(&memory, "pop", "leave")?;
        let mut producer = here.attach_producer(Cancel::new())?;
        let mut chance = Chance(self.seed);
        let mut pushed = 0;
        while pushed < self.count {
            chance.stall();
            match producer.try_push(&item(self.seed, pushed, self.item as usize)) {
                Ok(()) => pushed += 1,
                Err(PushError::Full) => {}
                Err(error) => return Err(error.into()),
            }
            switch.step(self.item * chance.below(8) as u32);
        }
        if end == "close" {
            producer.close();
        }
        while (end == "close" && !switch.is_closed()) || here.snapshot().fill() > 0 {
            switch.step(u32::MAX);
            std::thread::yield_now();
        }
        if end == "abort" {
            ring.abort("the flow is given up");
        }
        self.ended(child, &format!("{} {}", if end == "close" { "closed" } else { "aborted" }, self.count))
    }

    /// The flow fails while zsr.cuh waits for room, or gives up: both sides are told.
    fn given_up(&self) -> Result<()> {
        let (ring, memory) = self.ring(Role::Producer)?;
        let endless = Case { count: u64::MAX >> 1, ..*self };
        let child = endless.start(&memory, "push", "close")?;
        while ring.snapshot().fill() < self.item * self.slots {
            std::thread::yield_now();
        }
        ring.abort("the flow is given up");
        self.ended(child, "aborted 0")?;
        let (ring, memory) = self.ring(Role::Consumer)?;
        let none = Case { count: 0, ..*self };
        none.ended(none.start(&memory, "pop", "abort")?, "ok 0")?;
        match ring.snapshot().tail.flags.aborted() {
            true => Ok(()),
            false => Err("a consumer that gives up sets ABORTED".into()),
        }
    }
}

/// Segments, whose headers and checksums Rust and zsr.cuh have to lay out alike: `PEER-segments push FILE ...`.
fn segments(peer: &str, checksum: bool, seed: u64) -> Result<()> {
    let spec = RingSpec::new(512, 512 * 64)?;
    let (size, tuple) = (512u32 * 64, 24);
    for threads in ["1", "3"] {
        let memory = Arc::new(SharedMemory::create(spec.memory_len(), ByteOrder::NATIVE)?);
        let ring = Ring::over(Role::Loopback, spec, memory.clone(), 0, 1)?;
        let file = memory.file().ok_or("memory without a file")?.as_raw_fd();
        let path = format!("/proc/{}/fd/{file}", std::process::id());
        let run = |role: &str| {
            let sum = if checksum { "checksum" } else { "plain" };
            let args = [&path, role, &size.to_string(), &seed.to_string(), sum, threads];
            Command::new(format!("{peer}-segments")).args(args).status()
        };
        if !run("push")?.success() {
            return Err("the peer could not push segments".into());
        }
        let mut reader = SegmentReader::new(ring.attach_consumer(Cancel::new())?);
        let (mut number, mut sequence) = (0, 0);
        loop {
            let segment = match reader.next_segment() {
                Ok(segment) => segment,
                Err(end) if end.is_end_of_stream() => break,
                Err(error) => return Err(error.into()),
            };
            if (segment.header().sequence, segment.header().checksum) != (sequence, checksum) {
                return Err(format!("segment {sequence} has header {:?}", segment.header()).into());
            }
            for record in segment.records() {
                if record? != item(seed, number, tuple) {
                    return Err(format!("tuple {number} is another").into());
                }
                number += 1;
            }
            sequence += 1;
        }
        if number != 500 {
            return Err(format!("{number} tuples came of 500").into());
        }
        // And back.
        let ring = Ring::over(Role::Loopback, spec, memory.clone(), 0, 1)?;
        let config = SegmentConfig { producer: 4, checksum, first_sequence: 0, stamp_every: 2 };
        let mut writer = SegmentWriter::tuples(ring.attach_producer(Cancel::new())?, config, tuple as u32)?;
        for number in 0..500 {
            writer.push(&item(seed, number, tuple))?;
        }
        writer.close()?;
        if !run("pop")?.success() {
            return Err("the peer did not read the segments".into());
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, peer, seed, count] = args.as_slice() else {
        return Err("usage: gpu-header PEER SEED ITEMS".into());
    };
    let (mut seed, count): (u64, u64) = (seed.parse()?, count.parse()?);
    let mut passed = 0;
    for threads in [1, 3] {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for item in [4, 16, 64, 4096] {
                seed += 1;
                let slots = 1 << (mix(seed) % 5);
                let count = count / if threads > 1 { 4 } else { 1 };
                let case = Case { peer, item, slots, order, seed, count, threads };
                let all: [(&str, Result<()>); 5] = [
                    ("from the peer, closed", case.read_peer("close")),
                    ("from the peer, aborted", case.read_peer("abort")),
                    ("to the peer, closed", case.to_peer("close")),
                    ("to the peer, aborted", case.to_peer("abort")),
                    ("given up", case.given_up()),
                ];
                for (what, result) in all {
                    result.map_err(|e| format!("{what}, {slots} items of {item} B, {order:?}, {threads} threads, seed {seed}: {e}"))?;
                    passed += 1;
                }
            }
        }
    }
    for checksum in [false, true] {
        segments(peer, checksum, seed)
            .map_err(|e| format!("segments, checksum {checksum}, seed {seed}: {e}"))?;
        passed += 1;
    }
    println!("{passed} passed, 0 failed");
    Ok(())
}
