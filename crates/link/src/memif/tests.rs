//! Peers that lie, by the hands of one that is connected.

use std::sync::atomic::{AtomicU16, Ordering};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use zsr_wire::{Frame, FramePool};

use super::channel::{Channel, Progress, Rings};
use super::message::{AddRing, Message};
use super::ring::Lie;

fn sockets() -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// The rings of a listening and of a connecting side.
fn rings() -> (Box<Rings>, Box<Rings>) {
    let (a, b) = sockets();
    let (mut listens, mut connects) = (Channel::accepted(a).unwrap(), Channel::connected(b).unwrap());
    let (mut one, mut other) = (None, None);
    while one.is_none() || other.is_none() {
        for (channel, place) in [(&mut listens, &mut one), (&mut connects, &mut other)] {
            match channel.attend() {
                Progress::Up(rings) => *place = Some(rings),
                Progress::Waits => {}
                Progress::Ended(why) => panic!("{why:?}"),
            }
        }
    }
    (one.unwrap(), other.unwrap())
}

fn send(rings: &mut Rings, bytes: &[u8]) {
    assert_eq!(rings.send.ring.send(&Frame::copy_from(bytes).unwrap()), Ok(true));
    rings.send.ring.show();
}

#[test]
fn an_index_that_cannot_be_is_found() {
    let mut pool = FramePool::default();
    let (mut listens, mut connects) = rings();
    send(&mut connects, b"one");
    assert_eq!(listens.receive.ring.receive(&mut pool).unwrap().unwrap().bytes(), b"one");
    // SAFETY: the word of a ring that both sides access atomically.
    let head: &AtomicU16 = unsafe { connects.send.ring.word_for_tests(6).as_ref() };
    head.store(5_000, Ordering::Relaxed);
    let lie = listens.receive.ring.receive(&mut pool).unwrap_err();
    assert_eq!(lie, Lie::Index { has: 4_999, size: 256 });

    // A guest that gives back more than it got.
    // SAFETY: as above.
    let tail: &AtomicU16 = unsafe { listens.send.ring.word_for_tests(64).as_ref() };
    tail.store(300, Ordering::Relaxed);
    assert_eq!(connects.receive.ring.receive(&mut pool).unwrap_err(), Lie::Index { has: 300, size: 256 });
}

#[test]
fn a_descriptor_of_foreign_memory_costs_its_frame_only() {
    let mut pool = FramePool::default();
    let (mut listens, mut connects) = rings();
    let whole = super::ring::region_len(256) as u32;
    for (region, offset, length) in [
        (0, whole - 10, 11),
        (0, u32::MAX, 64),
        (1, 0, 64),
        (u16::MAX, 0, 64),
        (0, 0, u32::MAX),
        (0, 0, 20_000),
    ] {
        send(&mut connects, b"bad");
        connects.send.ring.lie_for_tests(region, offset, length);
        send(&mut connects, b"good");
        let lie = listens.receive.ring.receive(&mut pool).unwrap_err();
        assert_eq!(lie, Lie::Descriptor { region, offset, length });
        assert_eq!(listens.receive.ring.receive(&mut pool).unwrap().unwrap().bytes(), b"good");
    }
    // A guest that claims more than a buffer of the owner holds.
    send(&mut listens, b"bad");
    listens.send.ring.lie_for_tests(0, 0, 9_217);
    send(&mut listens, b"good");
    assert!(matches!(connects.receive.ring.receive(&mut pool), Err(Lie::Descriptor { length: 9_217, .. })));
    assert_eq!(connects.receive.ring.receive(&mut pool).unwrap().unwrap().bytes(), b"good");
}

#[test]
fn a_buffer_of_foreign_memory_is_not_written() {
    let (mut listens, connects) = rings();
    for i in 0..3 {
        connects.receive.ring.descriptor_for_tests(i, 0, u32::MAX - 64, 2_048);
    }
    for _ in 0..3 {
        let sent = listens.send.ring.send(&Frame::copy_from(&[7; 100]).unwrap());
        assert!(matches!(sent, Err(Lie::Descriptor { .. })), "{sent:?}");
    }
    send(&mut listens, b"good");
}

#[test]
fn small_buffers_are_chained() {
    let mut pool = FramePool::default();
    let (mut listens, mut connects) = rings();
    let frame: Vec<u8> = (0..5_000u32).map(|n| n as u8).collect();
    // As a peer has whose buffers hold 2 KiB.
    for i in 0..3 {
        connects.receive.ring.shorten_for_tests(i, 2_048);
    }
    send(&mut listens, &frame);
    assert_eq!(connects.receive.ring.receive(&mut pool).unwrap().unwrap().bytes(), frame);
    send(&mut listens, b"next");
    assert_eq!(connects.receive.ring.receive(&mut pool).unwrap().unwrap().bytes(), b"next");
}

/// What a listening side says to messages of a peer that follows no order.
fn refused(messages: &[Message]) -> String {
    let (a, b) = sockets();
    let mut listens = Channel::accepted(a).unwrap();
    for message in messages {
        rustix::net::send(&b, &message.encode(), rustix::net::SendFlags::empty()).unwrap();
    }
    match listens.attend() {
        Progress::Ended(Some(why)) => why,
        Progress::Ended(None) => "it ended without a reason".to_owned(),
        Progress::Waits | Progress::Up(_) => "it went on".to_owned(),
    }
}

#[test]
fn a_handshake_out_of_order_is_refused_by_name() {
    let init = Message::Init { version: super::message::VERSION, id: 0, is_ethernet: true };
    let ring = Message::AddRing(AddRing { from_owner: true, index: 0, region: 0, offset: 0, log2_size: 8 });
    for (messages, expected) in [
        (vec![Message::Connect], "before the connection was initiated"),
        (vec![Message::Init { version: 0x300, id: 0, is_ethernet: true }], "version 3.0"),
        (vec![Message::Init { version: super::message::VERSION, id: 0, is_ethernet: false }], "Ethernet"),
        (vec![init.clone(), Message::Connect], "without a ring in each direction"),
        (vec![init.clone(), ring], "a ring without its descriptor"),
        (vec![init.clone(), Message::AddRegion { index: 0, size: 10 }], "a region without its descriptor"),
        (vec![init.clone(), Message::Connected], "for the side that connects"),
        (vec![init, Message::Disconnect { text: "enough".into() }], "it says: enough"),
    ] {
        let why = refused(&messages);
        assert!(why.contains(expected), "{messages:?}: {why}");
    }
}

#[test]
fn memory_that_may_shrink_is_not_mapped() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let memory = || {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, 4_096).unwrap();
        fd
    };
    let open = super::region::Region::open;
    assert!(open(memory(), 4_096).unwrap_err().contains("F_SEAL_SHRINK"));
    let sealed = || {
        let fd = memory();
        fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        fd
    };
    assert!(open(sealed(), 4_097).unwrap_err().contains("in a memfd of 4096"));
    assert!(open(sealed(), 0).is_err() && open(sealed(), u64::MAX).is_err());
    let file = tempfile::tempfile().unwrap();
    assert!(open(file.into(), 1).is_err());
    assert!(open(sealed(), 4_096).is_ok());
}
