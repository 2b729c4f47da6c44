//! Links of AF_UNIX datagrams: what arrives, and what happens when an end is not there.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zsr_link::{LinkError, Port, SendError, UnixPort};
use zsr_wire::{Frame, FramePool};

/// Longest frame that a link with MTU 9000 carries: Ethernet header and a VLAN tag.
const LONGEST: usize = 9018 + 4;
/// Far enough apart that an end looks for its peer again.
const SECOND: u64 = 1_000_000_000;

struct Paths {
    _dir: TempDir,
    a: PathBuf,
    b: PathBuf,
}

fn paths() -> Paths {
    let dir = TempDir::new().unwrap();
    let (a, b) = (dir.path().join("a.sock"), dir.path().join("b.sock"));
    Paths { _dir: dir, a, b }
}

fn numbered(n: usize, len: usize) -> Frame {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i * 7 + n) as u8).collect();
    bytes[..4].copy_from_slice(&(n as u32).to_be_bytes());
    Frame::copy_from(&bytes).unwrap()
}

fn send_all(port: &mut UnixPort, now: u64, frames: Vec<Frame>, pool: &mut FramePool) {
    for frame in frames {
        port.send(now, frame, pool).unwrap();
    }
    port.flush(now, pool);
}

/// Everything that has arrived; asks until two looks in a row find nothing.
fn drain(port: &mut UnixPort, now: u64, pool: &mut FramePool) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    let mut empty = 0;
    while empty < 2 {
        match port.recv(now, pool) {
            Some(frame) => {
                got.push(frame.bytes().to_vec());
                pool.put(frame);
                empty = 0;
            }
            None => empty += 1,
        }
    }
    got
}

#[test]
fn frames_of_every_length_arrive_whole_and_in_order() {
    let p = paths();
    let mut pool = FramePool::default();
    let mut a = UnixPort::open(&p.a, &p.b).unwrap();
    let mut b = UnixPort::open(&p.b, &p.a).unwrap();
    let lengths = [14, 60, 64, 1100, 1518, 4200, 9018, LONGEST, 60];
    for _ in 0..2 {
        let (from, to) = (&mut a, &mut b);
        let frames = lengths.iter().enumerate().map(|(n, &len)| numbered(n, len)).collect();
        send_all(from, 0, frames, &mut pool);
        let want: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(n, &len)| numbered(n, len).bytes().to_vec()).collect();
        assert_eq!(drain(to, 0, &mut pool), want);
        std::mem::swap(&mut a, &mut b);
    }
    assert_eq!((a.lost(), b.lost()), (0, 0));
}

#[test]
fn a_slow_reader_fills_the_link_and_loses_nothing() {
    let p = paths();
    let mut pool = FramePool::default();
    let mut a = UnixPort::open(&p.a, &p.b).unwrap();
    let mut b = UnixPort::open(&p.b, &p.a).unwrap();
    let mut sent = 0;
    let refused = loop {
        match a.send(0, numbered(sent, 1500), &mut pool) {
            Ok(()) => sent += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(&refused, SendError::Full(_)));
    assert!(a.is_blocked());
    let mut got = 0;
    while got < sent {
        for bytes in drain(&mut b, 0, &mut pool) {
            assert_eq!(bytes, numbered(got, 1500).bytes());
            got += 1;
        }
        a.flush(0, &mut pool);
    }
    assert!(!a.is_blocked());
    a.send(0, refused.into_frame(), &mut pool).unwrap();
    a.flush(0, &mut pool);
    assert_eq!(drain(&mut b, 0, &mut pool), [numbered(sent, 1500).bytes()]);
    assert_eq!(a.lost(), 0);
}

#[test]
fn frames_to_nobody_are_lost_and_counted_until_the_peer_comes() {
    let p = paths();
    let mut pool = FramePool::default();
    let mut a = UnixPort::open(&p.a, &p.b).unwrap();
    send_all(&mut a, 0, (0..5).map(|n| numbered(n, 60)).collect(), &mut pool);
    assert_eq!(a.lost(), 5);
    assert!(a.trouble().is_none(), "an absent peer is no trouble");

    let mut b = UnixPort::open(&p.b, &p.a).unwrap();
    send_all(&mut a, SECOND, vec![numbered(9, 60)], &mut pool);
    assert_eq!(drain(&mut b, SECOND, &mut pool).len(), 1);
    assert_eq!(a.lost(), 5);
}

#[test]
fn a_peer_that_dies_and_comes_back_is_found_from_both_sides() {
    let p = paths();
    let mut pool = FramePool::default();
    let mut a = UnixPort::open(&p.a, &p.b).unwrap();
    let mut b = UnixPort::open(&p.b, &p.a).unwrap();
    send_all(&mut a, 0, vec![numbered(0, 60)], &mut pool);
    assert_eq!(drain(&mut b, 0, &mut pool).len(), 1);
    drop(b);
    assert!(!p.b.exists(), "a port takes its socket with it");
    send_all(&mut a, 1, vec![numbered(1, 60)], &mut pool);
    assert_eq!(a.lost(), 1);

    // The one that stayed speaks first.
    let mut b = UnixPort::open(&p.b, &p.a).unwrap();
    send_all(&mut a, SECOND, vec![numbered(2, 60)], &mut pool);
    assert_eq!(drain(&mut b, SECOND, &mut pool).len(), 1);
    drop(b);

    // The successor speaks first: heard as soon as the one that stayed has looked.
    let mut b = UnixPort::open(&p.b, &p.a).unwrap();
    assert!(drain(&mut a, 2 * SECOND, &mut pool).is_empty());
    send_all(&mut b, 2 * SECOND, vec![numbered(3, 60)], &mut pool);
    assert_eq!(drain(&mut a, 2 * SECOND, &mut pool).len(), 1);
    assert_eq!((a.lost(), b.lost()), (1, 0));
}

#[test]
fn a_peer_that_never_connects_back_is_served_too() {
    // As QEMU does: bound, and sending to a path.
    let p = paths();
    let mut pool = FramePool::default();
    let qemu = UnixDatagram::bind(&p.b).unwrap();
    qemu.set_nonblocking(true).unwrap();
    let mut a = UnixPort::open(&p.a, &p.b).unwrap();
    qemu.send_to(numbered(0, 60).bytes(), &p.a).unwrap();
    assert_eq!(drain(&mut a, 0, &mut pool).len(), 1);
    // More than such a peer's queue holds: the rest waits here.
    let count = 600;
    send_all(&mut a, 0, (0..count).map(|n| numbered(n, 1500)).collect(), &mut pool);
    assert!(a.is_blocked());
    let (mut got, mut buffer) = (0, [0; LONGEST]);
    while got < count {
        while let Ok(len) = qemu.recv(&mut buffer) {
            assert_eq!(&buffer[..len], numbered(got, 1500).bytes());
            got += 1;
        }
        a.flush(0, &mut pool);
    }
    assert_eq!(a.lost(), 0);
}

#[test]
fn what_is_no_frame_is_counted_and_harmless() {
    let p = paths();
    let mut pool = FramePool::default();
    let stranger = UnixDatagram::bind(&p.b).unwrap();
    let mut a = UnixPort::open(&p.a, &p.b).unwrap();
    stranger.send_to(&[], &p.a).unwrap();
    stranger.send_to(&[1; 20_000], &p.a).unwrap();
    stranger.send_to(numbered(1, 60).bytes(), &p.a).unwrap();
    assert_eq!(drain(&mut a, 0, &mut pool), [numbered(1, 60).bytes()]);
    assert_eq!(a.lost(), 2);
}

#[test]
fn a_dead_process_leaves_its_path_and_a_living_one_keeps_it() {
    let p = paths();
    drop(UnixDatagram::bind(&p.a).unwrap());
    assert!(p.a.exists(), "std leaves the file, like a process that was killed");
    let first = UnixPort::open(&p.a, &p.b).expect("the file is stale");
    let error = UnixPort::open(&p.a, &p.b).expect_err("somebody is there");
    assert!(matches!(error, LinkError::InUse { .. }));
    assert!(error.to_string().contains(p.a.to_str().unwrap()), "{error}");

    // Also if the owner speaks to somebody else.
    let _b = UnixPort::open(&p.b, &p.a).unwrap();
    assert!(matches!(UnixPort::open(&p.a, &p.b), Err(LinkError::InUse { .. })));

    // A successor's socket is not taken away by the predecessor's end.
    std::fs::remove_file(&p.a).unwrap();
    let second = UnixPort::open(&p.a, &p.b).unwrap();
    drop(first);
    assert!(p.a.exists());
    drop(second);
    assert!(!p.a.exists());
}

#[test]
fn paths_that_can_not_be_are_refused_by_name() {
    let p = paths();
    std::fs::write(&p.a, "mine").unwrap();
    assert!(matches!(UnixPort::open(&p.a, &p.b), Err(LinkError::NotASocket { .. })));
    assert_eq!(std::fs::read(&p.a).unwrap(), b"mine");

    let long = p.b.with_file_name("x".repeat(120));
    for (local, peer) in [(&*long, &*p.b), (&*p.b, &*long)] {
        let error = UnixPort::open(local, peer).expect_err("too long").to_string();
        assert!(error.contains("107"), "{error}");
    }
    let nowhere = p.b.with_file_name("no-such-folder").join("a.sock");
    let error = UnixPort::open(&nowhere, &p.b).expect_err("no folder").to_string();
    assert!(error.contains("folder must exist"), "{error}");
    assert!(matches!(UnixPort::open(&p.b, &p.b), Err(LinkError::SamePath { .. })));
    assert!(matches!(UnixPort::open(Path::new(""), &p.b), Err(LinkError::NoPath)));
}
