//! The loop that drives a node over its links.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use tempfile::TempDir;
use zsr_link::{
    FaultRates, Faulty, LinkError, LoopConfig, LoopThread, Node, Port, PortLoop, UnixPort, Waker, thread_link,
};
use zsr_wire::{Frame, FramePool};

/// Sends what comes in at a port out at the port that the first byte says; says "tick" whenever its timer is due; makes
/// `source` frames of its own; passes on what it is told of queues.
#[derive(Default)]
struct Toy {
    timer: Option<(u64, u16)>,
    requests: Arc<AtomicUsize>,
    source: VecDeque<u32>,
    queues: Option<mpsc::Sender<(u16, usize)>>,
}

impl Node for Toy {
    fn handle(
        &mut self,
        _now: u64,
        _port: u16,
        frame: Frame,
        _pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) {
        out.push((u16::from(frame.bytes()[0]), frame));
    }

    fn work(&mut self, now: u64, pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) -> usize {
        if let Some((due, port)) = self.timer
            && due <= now
        {
            self.timer = None;
            let mut frame = pool.take();
            frame.append(b"tick");
            out.push((port, frame));
            return 1;
        }
        self.requests.swap(0, Ordering::AcqRel)
    }

    fn transmit(&mut self, _now: u64, _port: u16, pool: &mut FramePool) -> Option<Frame> {
        let n = self.source.pop_front()?;
        let mut frame = pool.take();
        frame.append(&n.to_be_bytes());
        Some(frame)
    }

    fn queued(&mut self, port: u16, frames: usize) {
        if let Some(queues) = &self.queues {
            queues.send((port, frames)).unwrap();
        }
    }

    fn next_due(&self) -> Option<u64> {
        self.timer.map(|t| t.0)
    }
}

/// A loop with one link per port, and the links' other ends.
fn start(dir: &Path, node: Toy, ports: &[u16]) -> (LoopThread<Toy>, Vec<UnixPort>) {
    let waker = Waker::new().unwrap();
    let mut running = PortLoop::new(node, &waker, LoopConfig::default()).unwrap();
    let mut ends = Vec::new();
    for &port in ports {
        let (inner, outer) = open(dir, port);
        running.add_port(port, Box::new(inner)).unwrap();
        ends.push(outer);
    }
    (running.spawn("toy").unwrap(), ends)
}

fn open(dir: &Path, port: u16) -> (UnixPort, UnixPort) {
    let [inner, outer] = ["in", "out"].map(|side| dir.join(format!("{port}.{side}")));
    let inner_port = UnixPort::open(&inner, &outer).unwrap();
    (inner_port, UnixPort::open(&outer, &inner).unwrap())
}

/// The next frame, waited for in the system.
fn next(port: &mut impl Port, pool: &mut FramePool) -> Vec<u8> {
    loop {
        if let Some(frame) = port.recv(0, pool) {
            let bytes = frame.bytes().to_vec();
            pool.put(frame);
            return bytes;
        }
        let fd = port.fd().unwrap();
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None).unwrap();
    }
}

/// Until the system has all of it.
fn push(port: &mut UnixPort, pool: &mut FramePool) {
    port.flush(0, pool);
    while port.is_blocked() {
        std::thread::yield_now();
        port.flush(0, pool);
    }
}

fn send(port: &mut UnixPort, bytes: &[u8], pool: &mut FramePool) {
    let mut frame = Frame::copy_from(bytes).unwrap();
    while let Err(refused) = port.send(0, frame, pool) {
        frame = refused.into_frame();
        push(port, pool);
    }
}

#[test]
fn frames_pass_between_ports_in_order_and_are_counted() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let (running, mut ends) = start(dir.path(), Toy::default(), &[1, 2]);
    const FRAMES: u32 = 20_000;
    // As many at a time as the queue of the port that they leave by holds for certain.
    for first in (0..FRAMES).step_by(500) {
        let text = |n: u32| [&[2u8], &n.to_be_bytes()[..]].concat();
        for n in first..first + 500 {
            send(&mut ends[0], &text(n), &mut pool);
        }
        push(&mut ends[0], &mut pool);
        for n in first..first + 500 {
            assert_eq!(next(&mut ends[1], &mut pool), text(n));
        }
    }
    let end = running.stop();
    assert!(end.error.is_none());
    let stats = &end.stats.ports;
    assert_eq!((stats[0].port, stats[0].stats.rx_frames), (1, FRAMES.into()));
    assert_eq!((stats[1].port, stats[1].stats.tx_frames), (2, FRAMES.into()));
    assert_eq!((stats[1].stats.refused, stats[1].lost, end.stats.astray), (0, 0, 0));
}

#[test]
fn a_node_that_makes_frames_makes_them_as_fast_as_the_link_takes_them() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    // More than any queue on the way holds, so the loop must wait for the reader.
    let frames = 50_000;
    let node = Toy { source: (0..frames).collect(), ..Toy::default() };
    let (running, mut ends) = start(dir.path(), node, &[0]);
    for n in 0..frames {
        assert_eq!(next(&mut ends[0], &mut pool), n.to_be_bytes());
    }
    let end = running.stop();
    assert_eq!(end.stats.ports[0].stats.refused, 0);
}

#[test]
fn a_node_is_told_how_much_waits_for_a_slow_reader() {
    let dir = TempDir::new().unwrap();
    let (tell, told) = mpsc::channel();
    let (running, mut ends) = start(dir.path(), Toy { queues: Some(tell), ..Toy::default() }, &[1, 2]);
    let mut pool = FramePool::default();
    let depth = loop {
        send(&mut ends[0], &[2; 64], &mut pool);
        push(&mut ends[0], &mut pool);
        if let Ok((port, frames)) = told.try_recv() {
            assert_eq!(port, 2);
            break frames;
        }
    };
    assert!(depth > 0);
    loop {
        while let Some(frame) = ends[1].recv(0, &mut pool) {
            pool.put(frame);
        }
        if told.recv().unwrap() == (2, 0) {
            break;
        }
    }
    running.stop();
}

#[test]
fn a_timer_ends_the_sleep() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let node = Toy { timer: Some((3_000_000, 5)), ..Toy::default() };
    let (running, mut ends) = start(dir.path(), node, &[5]);
    assert_eq!(next(&mut ends[0], &mut pool), b"tick");
    running.stop();
}

#[test]
fn a_request_ends_the_sleep() {
    let waker = Waker::new().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let node = Toy { requests: requests.clone(), ..Toy::default() };
    let running = PortLoop::new(node, &waker, LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() });
    let running = running.unwrap().spawn("toy").unwrap();
    // Without ports and timers it can only sleep.
    for _ in 0..100 {
        requests.store(1, Ordering::Release);
        waker.wake();
        while requests.load(Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
    }
    assert!(running.stop().stats.busy_rounds >= 100);
}

#[test]
fn ports_come_and_go_while_it_runs() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let (running, mut ends) = start(dir.path(), Toy::default(), &[1]);
    let (inner, mut outer) = open(dir.path(), 7);
    running.handle().add_port(7, Box::new(inner)).unwrap().unwrap();
    send(&mut ends[0], &[7, 1], &mut pool);
    push(&mut ends[0], &mut pool);
    assert_eq!(next(&mut outer, &mut pool), [7, 1]);

    let (spare, _keep) = open(dir.path(), 8);
    let taken = running.handle().add_port(7, Box::new(spare)).unwrap();
    assert!(matches!(taken, Err(LinkError::PortTaken { port: 7 })));

    for _ in 0..100 {
        send(&mut ends[0], &[7; 1000], &mut pool);
        push(&mut ends[0], &mut pool);
        assert_eq!(next(&mut outer, &mut pool), [7; 1000]);
    }
    drop(running.handle().remove_port(7).expect("it was there"));
    assert!(running.handle().remove_port(7).is_none());
    send(&mut ends[0], &[7, 2], &mut pool);
    send(&mut ends[0], &[1, 3], &mut pool);
    push(&mut ends[0], &mut pool);
    assert_eq!(next(&mut ends[0], &mut pool), [1, 3], "the other port goes on");
    let handle = running.handle().clone();
    let end = running.stop();
    assert_eq!((end.stats.astray, end.ports.len()), (1, 1));
    assert!(handle.remove_port(1).is_none(), "a loop that has ended has no ports");
}

#[test]
fn frames_that_a_wrapper_holds_back_leave_in_time() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let waker = Waker::new().unwrap();
    let mut running = PortLoop::new(Toy::default(), &waker, LoopConfig::default()).unwrap();
    let (inner, mut outer) = open(dir.path(), 1);
    let late = FaultRates { delay_ns: 2_000_000, ..FaultRates::NONE };
    running.add_port(1, Box::new(Faulty::new(inner, late, late, 1).unwrap())).unwrap();
    let running = running.spawn("toy").unwrap();
    for n in 0..5 {
        send(&mut outer, &[1, n], &mut pool);
        push(&mut outer, &mut pool);
        assert_eq!(next(&mut outer, &mut pool), [1, n]);
    }
    running.stop();
}

#[test]
fn links_without_a_descriptor_and_troubles_are_served() {
    let dir = TempDir::new().unwrap();
    let waker = Waker::new().unwrap();
    let node = Toy { timer: Some((0, 2)), ..Toy::default() };
    let mut running = PortLoop::new(node, &waker, LoopConfig::default()).unwrap();
    let (inner, mut outer) = thread_link(8);
    running.add_port(1, Box::new(inner)).unwrap();
    // A peer of the wrong kind: no datagram socket.
    let peer = dir.path().join("stream");
    let stream = std::os::unix::net::UnixListener::bind(&peer).unwrap();
    running.add_port(2, Box::new(UnixPort::open(&dir.path().join("x"), &peer).unwrap())).unwrap();
    let (told, troubles) = mpsc::channel();
    running.on_trouble(move |port, error| drop(told.send((port, error.map(ToString::to_string)))));
    let running = running.spawn("toy").unwrap();
    let (port, message) = troubles.recv().unwrap();
    assert!(port == 2 && message.as_ref().is_some_and(|m| m.contains("stream")), "{port}: {message:?}");
    drop(stream);
    std::fs::remove_file(&peer).unwrap();
    let _right = std::os::unix::net::UnixDatagram::bind(&peer).unwrap();
    assert_eq!(troubles.recv().unwrap(), (2, None), "its end is told as well");
    let mut pool = FramePool::default();
    outer.send(0, Frame::copy_from(&[1, 42]).unwrap(), &mut pool).unwrap();
    running.handle().wake();
    let echo = loop {
        match outer.recv(0, &mut pool) {
            Some(frame) => break frame,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(echo.bytes(), [1, 42]);
    running.stop();
}

/// Its first piece of work takes long.
struct Slow {
    worked: Option<u64>,
    handled: mpsc::Sender<(u64, u64)>,
}

const LONG: Duration = Duration::from_millis(20);

impl Node for Slow {
    fn handle(
        &mut self,
        now: u64,
        _port: u16,
        frame: Frame,
        pool: &mut FramePool,
        _out: &mut Vec<(u16, Frame)>,
    ) {
        self.handled.send((self.worked.unwrap_or_default(), now)).unwrap();
        pool.put(frame);
    }

    fn work(&mut self, now: u64, _pool: &mut FramePool, _out: &mut Vec<(u16, Frame)>) -> usize {
        if self.worked.is_some() {
            return 0;
        }
        self.worked = Some(now);
        std::thread::sleep(LONG);
        1
    }

    fn next_due(&self) -> Option<u64> {
        None
    }
}

#[test]
fn a_frame_behind_long_work_has_the_time_behind_it() {
    let dir = TempDir::new().unwrap();
    let (handled, times) = mpsc::channel();
    let mut running =
        PortLoop::new(Slow { worked: None, handled }, &Waker::new().unwrap(), LoopConfig::default()).unwrap();
    let (inner, mut outer) = open(dir.path(), 1);
    running.add_port(1, Box::new(inner)).unwrap();
    let mut pool = FramePool::with_frames(4);
    send(&mut outer, b"before the loop runs", &mut pool);
    push(&mut outer, &mut pool);
    let running = running.spawn("slow").unwrap();
    let (worked, handled) = times.recv().unwrap();
    assert!(handled >= worked + LONG.as_nanos() as u64, "{worked} {handled}");
    running.stop();
}
