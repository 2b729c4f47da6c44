//! Guarantees of a port on an interface, tested on a veth pair whose two ends are in this namespace.

use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zsr_link::{AnyPort, PacketPort, XdpPort};
use zsr_wire::{Frame, FramePool};

use super::Result;

#[derive(Args)]
pub struct InterfaceOptions {
    /// Names of the pair's ends, which are made and removed here.
    ends: Vec<String>,
    /// AF_XDP instead of AF_PACKET.
    #[arg(long)]
    xdp: bool,
}

/// How long the system may take for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Addresses of our frames; the system's own protocols send others.
const OURS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

fn ip(arguments: &str) -> Result<()> {
    let done = Command::new("ip").args(arguments.split(' ')).status()?;
    if done.success() { Ok(()) } else { Err(format!("ip {arguments}: {done}").into()) }
}

/// A frame with Ethernet addresses, perhaps a VLAN tag, an unused type, and numbered bytes.
fn frame(vlan: Option<u16>, len: usize, n: u8) -> Frame {
    let mut bytes = OURS.to_vec();
    if let Some(vlan) = vlan {
        bytes.extend([0x81, 0x00]);
        bytes.extend(vlan.to_be_bytes());
    }
    bytes.extend([0x88, 0xb5]);
    bytes.extend((bytes.len()..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(n)));
    Frame::copy_from(&bytes).unwrap_or_default()
}

struct Bench {
    start: Instant,
    pool: FramePool,
    a: AnyPort,
    b: AnyPort,
}

impl Bench {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn send(&mut self, frame: &Frame) -> Result<()> {
        let now = self.now();
        let copy = Frame::copy_from(frame.bytes()).unwrap_or_default();
        self.a.send(now, copy, &mut self.pool).map_err(|e| e.to_string())?;
        self.a.flush(now, &mut self.pool);
        Ok(())
    }

    /// The next frame of ours at the other end; other protocols' frames are skipped.
    fn receive(&mut self) -> Result<Vec<u8>> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let now = self.now();
            if let Some(frame) = self.b.recv(now, &mut self.pool) {
                let bytes = frame.bytes().to_vec();
                self.pool.put(frame);
                if bytes.starts_with(&OURS) {
                    return Ok(bytes);
                }
                continue;
            }
            let Some(fd) = self.b.fd() else { break };
            let time = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&time))?;
        }
        Err("no frame came".into())
    }

    /// Waits until the sending end reports an error; returns it.
    fn trouble(&mut self) -> Result<String> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.send(&frame(None, 64, 9))?;
            let now = self.now();
            while let Some(frame) = self.a.recv(now, &mut self.pool) {
                self.pool.put(frame);
            }
            if let Some(trouble) = self.a.trouble() {
                return Ok(trouble.to_string());
            }
        }
        Err("the port said nothing".into())
    }

    /// Waits until frames pass again.
    fn recovers(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let wanted = frame(None, 80, 77);
        while Instant::now() < until {
            self.send(&wanted)?;
            let now = self.now();
            while let Some(frame) = self.a.recv(now, &mut self.pool) {
                self.pool.put(frame);
            }
            while let Some(frame) = self.b.recv(now, &mut self.pool) {
                let same = frame.bytes() == wanted.bytes();
                self.pool.put(frame);
                if same {
                    return Ok(());
                }
            }
        }
        Err("frames do not pass again".into())
    }
}

fn expect(what: &str, good: bool) -> Result<()> {
    if good {
        println!("interfaces: OK: {what}");
        return Ok(());
    }
    Err(format!("{what}: it is not so").into())
}

pub fn run(options: &InterfaceOptions) -> Result<()> {
    let [a, b] = options.ends.as_slice() else { return Err("two names are needed".into()) };
    let make = || -> Result<()> {
        ip(&format!("link add {a} type veth peer name {b}"))?;
        for end in [a, b] {
            ip(&format!("link set {end} mtu 9000 up"))?;
        }
        Ok(())
    };
    make()?;
    let open = |name: &str| -> Result<AnyPort> {
        if options.xdp {
            return Ok(Box::new(XdpPort::open(name, 9000)?));
        }
        Ok(Box::new(PacketPort::open(name, 9000)?))
    };
    let (pa, pb) = (open(a)?, open(b)?);
    let mut bench = Bench { start: Instant::now(), pool: FramePool::default(), a: pa, b: pb };

    let lengths = [60, 1500, 9014];
    for (n, len) in lengths.into_iter().enumerate() {
        for vlan in [None, Some(0x6005)] {
            let len = if vlan.is_some() { len + 4 } else { len };
            let sent = frame(vlan, len, n as u8);
            bench.send(&sent)?;
            let what = format!("{len} B with tag {vlan:?} arrive whole, whatever their address");
            expect(&what, bench.receive()? == sent.bytes())?;
        }
    }
    for n in 0..200u8 {
        bench.send(&frame(None, 300, n))?;
    }
    let order = (0..200u8).map(|n| Ok(bench.receive()? == frame(None, 300, n).bytes()));
    expect("frames keep their order", order.collect::<Result<Vec<_>>>()?.iter().all(|same| *same))?;
    let (now, mut own) = (bench.now(), 0);
    while let Some(frame) = bench.a.recv(now, &mut bench.pool) {
        own += u32::from(frame.bytes().starts_with(&OURS));
        bench.pool.put(frame);
    }
    expect("a port does not hear itself", own == 0)?;

    bench.send(&frame(None, 9100, 1))?;
    expect("a frame beyond the MTU is counted as lost", bench.a.lost() == 1)?;

    ip(&format!("link set {a} down"))?;
    let said = bench.trouble()?;
    expect(&format!("down is said: {said}"), said.contains(&format!("ip link set {a} up")))?;
    ip(&format!("link set {a} up"))?;
    bench.recovers()?;
    expect("frames pass when it is up again", bench.a.trouble().is_none())?;

    ip(&format!("link delete {a}"))?;
    let said = bench.trouble()?;
    expect(&format!("its vanishing is said: {said}"), said.contains(a))?;
    make()?;
    bench.recovers()?;
    expect("frames pass through a new interface of the same name", bench.a.lost() > 1)?;
    ip(&format!("link delete {a}"))
}
