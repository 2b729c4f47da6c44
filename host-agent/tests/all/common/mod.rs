//! A host's NIC and a peer that plays the switch, back to back, in a thread of their own.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

#[path = "../../../../tests/gpu/standin.rs"]
#[allow(dead_code, reason = "other programs of tests use the rest of it")]
pub mod standin;

use zsr_host_agent::nic::{NicHandle, SoftNicBackend, nic_queue};
use zsr_soft_nic::{Nic, NicConfig};
use zsr_wire::{FramePool, Mac};

pub const HOST: (Mac, Ipv4Addr) = (Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1));
pub const PEER: (Mac, Ipv4Addr) = (Mac([2, 0, 0, 0, 0, 254]), Ipv4Addr::new(10, 0, 0, 254));
pub const PATH_MTU: u32 = 1024;

/// The device of [`device`].
pub const ADDRESS: &str = "0000:00:05.0";
/// Bytes of its BAR 2.
pub const BAR: u64 = 64 << 10;

/// The sysfs entry of a device whose BAR 2 is memory of 64 KiB, BAR 0 is I/O ports, and BAR 3 is not there.
pub fn device(devices: &Path) {
    let folder = devices.join(ADDRESS);
    fs::create_dir_all(&folder).expect("a folder");
    let none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    let resource = format!(
        "0x000000000000c000 0x000000000000c0ff 0x0000000000040101\n{none}\
         0x00000000fe000000 0x00000000fe00ffff 0x000000000014220c\n{none}{none}{none}"
    );
    fs::write(folder.join("resource"), resource).expect("written");
    fs::write(folder.join("enable"), "1\n").expect("written");
    for name in ["resource2", "resource2_wc"] {
        File::create(folder.join(name)).expect("a file").set_len(BAR).expect("a length");
    }
}

/// Two NICs and the thread that carries frames between them.
pub struct Pair {
    pub host: NicHandle,
    pub peer: NicHandle,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pair {
    pub fn start() -> Self {
        let (host, host_queue) = nic_queue(|| ());
        let (peer, peer_queue) = nic_queue(|| ());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut a = Nic::new(NicConfig::new(HOST.0, HOST.1));
            let mut b = Nic::new(NicConfig::new(PEER.0, PEER.1));
            let mut pool = FramePool::with_frames(64);
            // The NICs' clock only has to go on, not to be right.
            let mut now = 0;
            while !stopped.load(Ordering::Acquire) {
                now += 1000;
                let mut work = host_queue.drain(&mut a) + peer_queue.drain(&mut b);
                a.on_timeout(now);
                while let Some(frame) = a.poll_transmit(now, &mut pool) {
                    b.handle(now, frame, &mut pool);
                    work += 1;
                }
                while let Some(frame) = b.poll_transmit(now, &mut pool) {
                    a.handle(now, frame, &mut pool);
                    work += 1;
                }
                if work == 0 {
                    std::thread::yield_now();
                }
            }
        });
        Self { host, peer, stop, thread: Some(thread) }
    }

    pub fn backend(&self) -> SoftNicBackend {
        SoftNicBackend::new("nic0", self.host.clone(), &NicConfig::new(HOST.0, HOST.1), PATH_MTU)
            .expect("a path MTU")
    }

    /// Ends the NICs; calls to them fail from then on.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the NICs' thread");
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.stop();
    }
}
