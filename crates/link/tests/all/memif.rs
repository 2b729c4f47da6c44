//! Links in shared memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use tempfile::TempDir;
use zsr_link::{LinkError, LoopConfig, MemifPort, Node, Port, PortLoop, SendError, UnixPort, Waker};
use zsr_wire::frame::MAX_FRAME;
use zsr_wire::{Frame, FramePool};

fn path(dir: &TempDir) -> PathBuf {
    dir.path().join("link.memif")
}

/// A time at which a port makes its next attempt, whatever the last was.
const LATER: u64 = 1 << 40;

/// Has both ends do what is to be done, until they are connected.
fn join(a: &mut MemifPort, b: &mut MemifPort, pool: &mut FramePool) {
    for round in 1.. {
        if a.is_connected() && b.is_connected() {
            return;
        }
        for port in [&mut *a, &mut *b] {
            port.attend(LATER * round);
            assert!(port.recv(LATER * round, pool).is_none());
        }
    }
}

fn pair(dir: &TempDir, pool: &mut FramePool) -> (MemifPort, MemifPort) {
    let mut listens = MemifPort::listen(&path(dir)).unwrap();
    let mut connects = MemifPort::connect(&path(dir)).unwrap();
    join(&mut listens, &mut connects, pool);
    (listens, connects)
}

fn frame(n: u32, len: usize) -> Frame {
    let mut bytes = vec![n as u8; len];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    Frame::copy_from(&bytes).unwrap()
}

#[test]
fn frames_of_every_size_pass_in_order_both_ways() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let (mut a, mut b) = pair(&dir, &mut pool);
    let lengths = [4, 60, 64, 1500, 4200, MAX_FRAME];
    for n in 0..20_000u32 {
        let len = lengths[n as usize % lengths.len()];
        let (from, to) = if n % 3 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        from.send(0, frame(n, len), &mut pool).unwrap();
        from.flush(0, &mut pool);
        let came = to.recv(0, &mut pool).expect("it was flushed");
        assert_eq!(came.bytes(), frame(n, len).bytes());
        pool.put(came);
        assert!(to.recv(0, &mut pool).is_none());
    }
    assert_eq!((a.lost(), b.lost()), (0, 0));
}

#[test]
fn a_peer_that_does_not_read_makes_the_link_full_and_nothing_is_lost() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let (mut a, mut b) = pair(&dir, &mut pool);
    for (from, to) in [(0, 1), (1, 0)] {
        let ends = [&mut a, &mut b];
        let mut sent = 0;
        while ends[from].send(0, frame(sent, 100), &mut pool).is_ok() {
            sent += 1;
            assert!(sent < 100_000, "the link never gets full");
        }
        assert!(ends[from].is_blocked() && ends[from].waiting() > 0);
        assert!(ends[from].next_due().is_some(), "or nobody would try again");
        let mut got = 0;
        while got < sent {
            let Some(came) = ends[to].recv(0, &mut pool) else {
                ends[from].flush(0, &mut pool);
                continue;
            };
            assert_eq!(came.bytes(), frame(got, 100).bytes());
            got += 1;
        }
        ends[from].flush(0, &mut pool);
        assert!(!ends[from].is_blocked() && ends[from].lost() == 0);
    }
}

#[test]
fn either_end_starts_first_ends_and_comes_back() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let mut connects = MemifPort::connect(&path(&dir)).unwrap();
    connects.send(0, frame(1, 60), &mut pool).unwrap();
    connects.flush(0, &mut pool);
    assert_eq!(connects.lost(), 1, "nobody is there");
    let mut listens = MemifPort::listen(&path(&dir)).unwrap();
    join(&mut listens, &mut connects, &mut pool);

    // What was sent before the end is received.
    connects.send(0, frame(2, 60), &mut pool).unwrap();
    connects.flush(0, &mut pool);
    drop(connects);
    listens.attend(0);
    assert!(!listens.is_connected());
    assert_eq!(listens.recv(0, &mut pool).unwrap().bytes(), frame(2, 60).bytes());
    let mut connects = MemifPort::connect(&path(&dir)).unwrap();
    join(&mut listens, &mut connects, &mut pool);

    drop(listens);
    assert!(!path(&dir).exists(), "the file goes with the port");
    connects.attend(0);
    assert!(!connects.is_connected() && connects.trouble().is_none(), "an end that goes is no trouble");
    let mut listens = MemifPort::listen(&path(&dir)).unwrap();
    join(&mut listens, &mut connects, &mut pool);
    listens.send(0, frame(3, 60), &mut pool).unwrap();
    listens.flush(0, &mut pool);
    assert_eq!(connects.recv(0, &mut pool).unwrap().bytes(), frame(3, 60).bytes());
}

#[test]
fn a_peer_that_takes_connections_and_says_nothing_costs_nothing() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    // It listens, and does not look at what comes.
    let mut hangs = MemifPort::listen(&path(&dir)).unwrap();
    let mut connects = MemifPort::connect(&path(&dir)).unwrap();
    assert!(connects.recv(LATER, &mut pool).is_none());
    assert_eq!(connects.next_due(), None, "or a loop would look again and again");
    assert!(connects.may_sleep());
    connects.send(LATER, frame(1, 60), &mut pool).unwrap();
    connects.flush(LATER, &mut pool);
    assert_eq!(connects.lost(), 1);
    join(&mut hangs, &mut connects, &mut pool);
}

#[test]
fn a_second_process_is_told_that_the_port_is_taken() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let (mut listens, mut first) = pair(&dir, &mut pool);
    let mut second = MemifPort::connect(&path(&dir)).unwrap();
    listens.attend(0);
    second.attend(0);
    let trouble = second.trouble().expect("it is refused").to_string();
    assert!(trouble.contains("another process is connected"), "{trouble}");
    first.send(0, frame(1, 60), &mut pool).unwrap();
    first.flush(0, &mut pool);
    assert!(listens.recv(0, &mut pool).is_some(), "the first does not notice");
    assert!(matches!(MemifPort::listen(&path(&dir)), Err(LinkError::InUse { .. })));
}

#[test]
fn an_end_that_sleeps_is_woken_and_one_that_is_awake_is_not() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let (mut a, mut b) = pair(&dir, &mut pool);
    let readable = |port: &MemifPort| {
        let fd = port.fd().unwrap();
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&rustix::event::Timespec::default()))
            .unwrap()
            == 1
    };
    for turn in 0..2 {
        let (from, to) = if turn == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        from.send(0, frame(1, 60), &mut pool).unwrap();
        from.flush(0, &mut pool);
        assert!(!readable(to), "nobody has asked");
        assert!(!to.may_sleep(), "a frame is there");
        assert!(to.recv(0, &mut pool).is_some());
        assert!(to.may_sleep());
        from.send(0, frame(2, 60), &mut pool).unwrap();
        assert!(!readable(to), "not before it is flushed");
        from.flush(0, &mut pool);
        assert!(readable(to));
        to.attend(0);
        assert!(!readable(to) && to.recv(0, &mut pool).is_some());
        // Also by frames that the other end could see before the flush.
        for many in [8, 16, 64] {
            assert!(to.may_sleep());
            for n in 0..many {
                from.send(0, frame(n, 60), &mut pool).unwrap();
            }
            from.flush(0, &mut pool);
            assert!(readable(to), "{many} frames");
            to.attend(0);
            while to.recv(0, &mut pool).is_some() {}
        }
    }
}

#[test]
fn what_is_no_memif_peer_is_refused_and_the_port_goes_on() {
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let listens = MemifPort::listen(&path(&dir)).unwrap();
    let error = UnixPort::open(&path(&dir), &dir.path().join("other")).expect_err("somebody is there");
    assert!(matches!(error, LinkError::InUse { .. } | LinkError::Bind { .. }), "{error}");
    let (listens, connects) = (&mut { listens }, &mut MemifPort::connect(&path(&dir)).unwrap());
    join(listens, connects, &mut pool);
    assert!(matches!(connects.send(0, frame(0, 60), &mut pool), Ok(()) | Err(SendError::Full(_))));
    let long = dir.path().join("x".repeat(120));
    assert!(matches!(MemifPort::connect(&long), Err(LinkError::PathTooLong { .. })));
    let nowhere = dir.path().join("nowhere/link");
    assert!(MemifPort::listen(&nowhere).unwrap_err().to_string().contains("its folder must exist"));
}

/// Sends each frame back, with its number one higher, until it has a number.
struct Echo {
    last: u64,
    seen: Arc<AtomicU64>,
}

impl Node for Echo {
    fn handle(
        &mut self,
        _: u64,
        port: u16,
        mut frame: Frame,
        _: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) {
        let number = u64::from_be_bytes(frame.bytes()[..8].try_into().unwrap()) + 1;
        self.seen.store(number, Ordering::Release);
        if number < self.last {
            frame.bytes_mut()[..8].copy_from_slice(&number.to_be_bytes());
            out.push((port, frame));
        }
    }

    fn work(&mut self, _: u64, _: &mut FramePool, _: &mut Vec<(u16, Frame)>) -> usize {
        0
    }

    fn next_due(&self) -> Option<u64> {
        None
    }
}

#[test]
fn two_loops_that_fall_asleep_between_frames_miss_none() {
    const LAST: u64 = 50_000;
    let dir = TempDir::new().unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    // Without spinning, each frame finds the other loop on its way to sleep.
    let config = LoopConfig { spin: std::time::Duration::ZERO, ..LoopConfig::default() };
    let start = |link: MemifPort, name: &str| {
        let node = Echo { last: LAST, seen: seen.clone() };
        let mut one = PortLoop::new(node, &Waker::new().unwrap(), config).unwrap();
        one.add_port(1, Box::new(link)).unwrap();
        one.spawn(name).unwrap()
    };
    let mut pool = FramePool::default();
    let (listens, mut connects) = pair(&dir, &mut pool);
    let first = Frame::copy_from(&[0; 60]).unwrap();
    connects.send(0, first, &mut pool).unwrap();
    connects.flush(0, &mut pool);
    let loops = [start(listens, "listens"), start(connects, "connects")];
    while seen.load(Ordering::Acquire) < LAST {
        assert!(loops.iter().all(|one| !one.is_finished()));
        std::thread::yield_now();
    }
    for one in loops {
        let end = one.stop();
        assert!(end.error.is_none());
        assert!(end.stats.sleeps > 0, "it never slept");
    }
}

/// Sends frames of its own on demand; sends what comes at port 1 out at port 2.
struct Passes {
    own: std::ops::Range<u32>,
}

impl Node for Passes {
    fn handle(&mut self, _: u64, port: u16, frame: Frame, _: &mut FramePool, out: &mut Vec<(u16, Frame)>) {
        assert_eq!(port, 1);
        out.push((2, frame));
    }

    fn work(&mut self, _: u64, _: &mut FramePool, _: &mut Vec<(u16, Frame)>) -> usize {
        0
    }

    fn transmit(&mut self, _: u64, _: u16, _: &mut FramePool) -> Option<Frame> {
        self.own.next().map(|n| frame(n, 100))
    }

    fn next_due(&self) -> Option<u64> {
        None
    }
}

fn run(node: Passes, links: Vec<(u16, MemifPort)>) -> zsr_link::LoopThread<Passes> {
    let mut one = PortLoop::new(node, &Waker::new().unwrap(), LoopConfig::default()).unwrap();
    for (port, link) in links {
        one.add_port(port, Box::new(link)).unwrap();
    }
    one.spawn("passes").unwrap()
}

#[test]
fn a_node_that_was_stopped_by_a_full_ring_goes_on() {
    const FRAMES: u32 = 20_000;
    let dir = TempDir::new().unwrap();
    let mut pool = FramePool::default();
    let (listens, mut connects) = pair(&dir, &mut pool);
    let sender = run(Passes { own: 0..FRAMES }, vec![(1, listens)]);
    for n in 0..FRAMES {
        let came = loop {
            if let Some(came) = connects.recv(0, &mut pool) {
                break came;
            }
            // Long enough for the sender to fall asleep with a full ring, now and then.
            if n % 4_096 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            std::thread::yield_now();
        };
        assert_eq!(came.bytes(), frame(n, 100).bytes());
        pool.put(came);
    }
    assert!(sender.stop().error.is_none());
}

#[test]
fn a_loop_whose_frames_find_no_room_receives_no_more_and_loses_none() {
    const FRAMES: u32 = 20_000;
    let dirs = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let mut pool = FramePool::default();
    let (first, mut source) = pair(&dirs[0], &mut pool);
    let (second, mut sink) = pair(&dirs[1], &mut pool);
    let switch = run(Passes { own: 0..0 }, vec![(1, first), (2, second)]);
    let (mut sent, mut came) = (0, 0);
    while came < FRAMES {
        while sent < FRAMES && source.send(0, frame(sent, 100), &mut pool).is_ok() {
            sent += 1;
        }
        source.flush(0, &mut pool);
        assert!(switch.handle().stats().ports.iter().all(|port| port.stats.refused == 0));
        // A reader that is slower than the sender, and never slow enough to count as stuck.
        for _ in 0..64 {
            if let Some(next) = sink.recv(0, &mut pool) {
                assert_eq!(next.bytes(), frame(came, 100).bytes());
                pool.put(next);
                came += 1;
            }
        }
        std::thread::yield_now();
    }
    let end = switch.stop();
    assert!(end.error.is_none());
    assert!(end.stats.ports.iter().all(|port| port.stats.refused == 0 && port.lost == 0));
}
