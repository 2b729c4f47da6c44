//! What parses bytes that others wrote, each as one function of any bytes that must not panic, hang, or break its promises.
//! Run by `fuzz/` without end, and by `tests/fuzz.rs` on damaged copies of sound input.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

use zsr_api::controller as proto;
use zsr_control_plane::capture::{Annotator, Names};
use zsr_control_plane::controller::journal::Journal;
use zsr_control_plane::p4::Schema;
use zsr_host_agent::agent::{Agent, RingRequest};
use zsr_host_agent::nic::{SoftNicBackend, nic_queue};
use zsr_link::TapRecord;
use zsr_ring::segment::{SegmentReadError, SegmentReader};
use zsr_ring::{Ring, RingSpec, Role};
use zsr_soft_nic::{Nic, NicConfig};
use zsr_soft_switch::{Program, Switch, SwitchConfig};
use zsr_topology::Topology;
use zsr_wire::{Frame, FramePool, Mac};

/// Makes damaged copies of sound input: bytes changed, left out, repeated, put in, from a seed.
#[derive(Debug)]
pub struct Damage(u64);

impl Damage {
    /// The same seed makes the same damage.
    pub fn new(seed: u64) -> Damage {
        Damage(seed.wrapping_mul(2).wrapping_add(1))
    }

    fn below(&mut self, n: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n.max(1)
    }

    /// A damaged copy.
    pub fn of(&mut self, sound: &[u8]) -> Vec<u8> {
        let mut bytes = sound.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(16)).min(bytes.len());
            match self.below(6) {
                0 => drop(bytes.drain(at..end)),
                1 => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.below(256) as u8),
                // Where numbers are, extremes are worth more than chance.
                4 => bytes[at..end].fill([0, 0xff, 0x80, b'9'][self.below(4)]),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        bytes
    }
}

/// A topology file: taken, or refused with places and words.
pub fn topology(bytes: &[u8]) {
    if let Err(wrong) = Topology::parse(Path::new("fuzz.yaml"), bytes) {
        assert!(!wrong.to_string().is_empty(), "an error says what is wrong");
    }
}

/// The controller's store: what is read from it is what is read from it again.
pub fn journal(bytes: &[u8]) {
    static FILE: LazyLock<PathBuf> =
        LazyLock::new(|| std::env::temp_dir().join(format!("zsr-fuzz-{}.journal", std::process::id())));
    let path = FILE.as_path();
    std::fs::write(path, bytes).expect("the temporary folder takes a file");
    if let Ok((journal, first)) = Journal::open(path) {
        drop(journal);
        let (_, again) = Journal::open(path).expect("what it wrote itself is sound");
        // What was under way is so until it is said what came of it.
        assert_eq!((first.flows, first.unfinished), (again.flows, again.unfinished));
    }
    let _ = std::fs::remove_file(path);
}

/// Items of 128 B in a consumer's ring, as segments: each is one, is refused, or is the end.
pub fn segments(bytes: &[u8]) {
    const ITEM: usize = 128;
    let spec = RingSpec::new(ITEM as u64, 4096).expect("powers of two");
    let (mut producer, consumer) = Ring::loopback(spec).expect("memory");
    let mut reader = SegmentReader::expecting(consumer, [(3, 0)]);
    for chunk in bytes.chunks(ITEM) {
        let mut item = [0; ITEM];
        item[..chunk.len()].copy_from_slice(chunk);
        producer.try_push(&item).expect("room");
        match reader.try_next_segment() {
            Ok(segment) => {
                let held: usize = segment.records().filter_map(Result::ok).map(<[u8]>::len).sum();
                assert!(held <= ITEM, "records lie in their segment");
            }
            Err(SegmentReadError::Ring(_)) => return,
            Err(wrong) => assert!(!wrong.to_string().is_empty()),
        }
    }
}

/// A compiled program (bmv2 JSON): refused, or run on some packets.
pub fn program(bytes: &[u8]) {
    let Ok(program) = Program::from_json(&String::from_utf8_lossy(bytes)) else { return };
    let mut switch = Switch::new(&program, SwitchConfig::default());
    let (mut pool, mut out) = (FramePool::default(), Vec::new());
    for len in [0, 14, 60, 128, 1500] {
        let content: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let frame = Frame::copy_from(&content).expect("it fits");
        switch.process(0, 1, frame, &mut pool, &mut out);
        // A program that sends a packet round for ever is sound.
        for _ in 0..16 {
            switch.run_pending(0, 16, &mut pool, &mut out);
        }
        out.clear();
    }
}

/// P4Info in text.
pub fn p4info(bytes: &[u8]) {
    match p4runtime_proto::p4info::parse(&String::from_utf8_lossy(bytes)) {
        Ok(info) => drop(Schema::new(&info)),
        Err(wrong) => assert!(!wrong.to_string().is_empty()),
    }
}

/// An agent with a ring `r`, and where programs attach to it.
struct Host {
    socket: PathBuf,
}

impl Host {
    fn start() -> Host {
        let (handle, queue) = nic_queue(|| ());
        let config = NicConfig::new(Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1));
        let backend = SoftNicBackend::new("nic0", handle, &config, 1024).expect("a path MTU");
        std::thread::spawn(move || {
            let mut nic = Nic::new(config);
            loop {
                if queue.drain(&mut nic) == 0 {
                    std::thread::park_timeout(Duration::from_micros(100));
                }
            }
        });
        let agent = Agent::with_shared_memory("h", backend, None);
        agent.create_ring(RingRequest::new("r", Role::Producer, 64, 4096)).expect("a ring");
        let socket = std::env::temp_dir().join(format!("zsr-fuzz-{}.programs", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let (ready, is_ready) = mpsc::channel();
        let path = socket.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = tokio::net::UnixListener::bind(path).expect("a socket");
                ready.send(()).expect("somebody waits");
                agent.serve_programs(listener, std::future::pending()).await;
            });
        });
        is_ready.recv().expect("it comes up");
        Host { socket }
    }

    /// Says these bytes and nothing more; returns what is answered until the agent ends the connection.
    fn say(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(&self.socket).expect("an agent");
        // An agent that has heard enough closes its end.
        let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }
}

/// A program that attaches to ring `r` as its producer, and leaves in good order.
pub const ATTACH: &[u8] = &[7, 0, 0, 0, 0x08, 1, 0x12, 1, b'r', 0x18, 1, 0];

/// What a program says to an agent: whatever it was, the next one can attach.
pub fn programs(bytes: &[u8]) {
    static HOST: LazyLock<Host> = LazyLock::new(Host::start);
    HOST.say(bytes);
    // The agent frees the ring right after it has closed the connection.
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        // Attached: item size 64 (field 2), and no refusal (field 1).
        if HOST.say(ATTACH).get(4..6) == Some(&[0x10, 64]) {
            return;
        }
        assert!(Instant::now() < until, "no program can attach any more");
        std::thread::yield_now();
    }
}

/// What a process that owns a link streams to `zsr pcap`, and frames of any content in it.
pub fn capture(bytes: &[u8]) {
    static NAMES: LazyLock<Names> = LazyLock::new(names);
    let (mut annotator, mut rest, now, mut frames) = (Annotator::default(), bytes, Instant::now(), 0);
    while let Some((record, behind)) = TapRecord::split(rest) {
        rest = behind;
        if let Some(frame) = record.frame {
            let _ = Annotator::lacks(&frame, &NAMES);
            annotator.take(now, (record.time_ns, record.lost), &frame, &NAMES);
            frames += 1;
        }
    }
    assert_eq!(std::iter::from_fn(|| annotator.next_noted(now, true)).count(), frames);
}

/// A flow from ring 1 at 10.0.0.1 (queue pairs 1 and 2 to the switch, 3 and 4 to the NIC) to ring 2 at 10.0.0.2 (5 to 8).
fn names() -> Names {
    let member = |host: &str, role: proto::Role, first: u32| proto::FlowMember {
        name: host.into(),
        leaving: false,
        host: host.into(),
        rings: vec![proto::Ring {
            name: format!("f.{host}"),
            host: host.into(),
            role: role.into(),
            size: 8192,
            number: first.div_ceil(4),
            data_qpn: first,
            poll_qpn: first + 1,
            nic_data_qpn: first + 2,
            nic_poll_qpn: first + 3,
            ..Default::default()
        }],
    };
    let flow = proto::Flow {
        name: "f".into(),
        kind: proto::FlowKind::Shuffle.into(),
        mtu: 1024,
        producers: vec![member("h1", proto::Role::Producer, 1)],
        consumers: vec![member("h2", proto::Role::Consumer, 5)],
        ..Default::default()
    };
    let host = |name: &str, ip: &str| proto::Host { name: name.into(), ip: ip.into(), ..Default::default() };
    Names::new(&[flow], &[host("h1", "10.0.0.1"), host("h2", "10.0.0.2")])
}
