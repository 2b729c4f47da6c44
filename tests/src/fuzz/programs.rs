//! Messages of programs to an agent at its socket.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

use zsr_host_agent::agent::{Agent, RingRequest};
use zsr_host_agent::nic::{SoftNicBackend, nic_queue};
use zsr_ring::Role;
use zsr_soft_nic::{Nic, NicConfig};
use zsr_wire::Mac;

/// An agent with a ring `r`, and the socket at which programs attach to the ring.
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

    /// Sends these bytes and nothing more; returns the answers until the agent ends the connection.
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

/// Any message of a program to an agent: the next program can attach all the same.
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
