//! Watching ports, and what is written of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zsr_link::{
    Direction, PcapngInterface, PcapngPacket, PcapngStatistics, PcapngWriter, Port, TapPoint, TapReader,
    TapRecord, Tapped, memory_link,
};
use zsr_wire::{Frame, FramePool};

fn frame(n: u8, len: usize) -> Frame {
    Frame::copy_from(&vec![n; len]).unwrap()
}

fn all(reader: &mut TapReader) -> Vec<u8> {
    let mut bytes = vec![0; reader.waiting()];
    // In parts, as a reader with a small buffer does.
    let (first, second) = bytes.split_at_mut(reader.waiting().min(7));
    assert_eq!(reader.read(first) + reader.read(second), first.len() + second.len());
    bytes
}

fn records(bytes: &[u8]) -> Vec<TapRecord<'_>> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while let Some((record, behind)) = TapRecord::split(rest) {
        found.push(record);
        rest = behind;
    }
    assert!(rest.is_empty(), "records are whole");
    found
}

/// Number, length and direction of each frame.
fn seen(bytes: &[u8]) -> Vec<(u8, usize, Direction)> {
    let frames = records(bytes).into_iter().map(|r| r.frame.expect("a frame"));
    frames.map(|f| (f.bytes[0], f.len, f.direction)).collect()
}

#[test]
fn readers_come_and_go_while_frames_pass() {
    let mut pool = FramePool::default();
    let point = TapPoint::new();
    let (a, mut b) = memory_link(8);
    let mut a = Tapped::new(a, point.clone());
    a.send(0, frame(1, 60), &mut pool).unwrap();
    let mut first = point.attach(9216, 1 << 16);
    a.send(10, frame(2, 60), &mut pool).unwrap();
    let mut second = point.attach(16, 1 << 16);
    b.send(20, frame(3, 100), &mut pool).unwrap();
    assert_eq!(a.recv(30, &mut pool).unwrap().bytes(), [3; 100], "the port works on as ever");
    assert_eq!(seen(&all(&mut first)), [(2, 60, Direction::Out), (3, 100, Direction::In)]);
    let bytes = all(&mut second);
    assert_eq!(seen(&bytes), [(3, 100, Direction::In)]);
    assert_eq!(records(&bytes)[0].frame.unwrap().bytes.len(), 16, "no more than was asked for");
    drop(first);
    a.send(40, frame(4, 60), &mut pool).unwrap();
    assert_eq!(seen(&all(&mut second)), [(4, 60, Direction::Out)]);
    assert!(!second.is_ended());
    drop(a);
    assert!(second.is_ended());
    assert_eq!((1..=3).map(|_| b.recv(50, &mut pool).unwrap().bytes()[0]).collect::<Vec<_>>(), [1, 2, 4]);
}

#[test]
fn times_are_of_the_day_and_keep_their_distances() {
    let mut pool = FramePool::default();
    let point = TapPoint::new();
    let (a, _b) = memory_link(8);
    let mut a = Tapped::new(a, point.clone());
    let mut reader = point.attach(64, 1 << 16);
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    a.send(5_000, frame(1, 60), &mut pool).unwrap();
    let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    a.send(9_000, frame(2, 60), &mut pool).unwrap();
    let bytes = all(&mut reader);
    let found = records(&bytes);
    let time = Duration::from_nanos(found[0].time_ns);
    assert!(before <= time && time <= after);
    assert_eq!(found[1].time_ns - found[0].time_ns, 4_000);
}

#[test]
fn what_a_reader_has_no_room_for_is_lost_to_it_alone_and_counted() {
    let mut pool = FramePool::default();
    let point = TapPoint::new();
    let (a, mut b) = memory_link(64);
    let mut a = Tapped::new(a, point.clone());
    let (mut slow, mut fast) = (point.attach(9216, 1), point.attach(9216, 1 << 20));
    for n in 0..5 {
        a.send(n, frame(n as u8, 4000), &mut pool).unwrap();
        assert_eq!(b.recv(n, &mut pool).unwrap().len(), 4000, "the link itself loses nothing");
    }
    assert_eq!(seen(&all(&mut fast)).len(), 5);
    // The least that a buffer holds is the longest frame: two of these.
    assert_eq!((slow.lost(), seen(&all(&mut slow)).len()), (3, 2));
    a.send(9, frame(9, 60), &mut pool).unwrap();
    let bytes = all(&mut slow);
    assert_eq!((records(&bytes)[0].lost, fast.lost()), (3, 0));
}

#[test]
fn frames_that_the_link_refuses_are_not_recorded() {
    let mut pool = FramePool::default();
    let point = TapPoint::new();
    let (a, _b) = memory_link(1);
    let mut a = Tapped::new(a, point.clone());
    let mut reader = point.attach(64, 1 << 16);
    a.send(0, frame(1, 60), &mut pool).unwrap();
    a.send(0, frame(2, 60), &mut pool).unwrap_err();
    assert_eq!(seen(&all(&mut reader)), [(1, 60, Direction::Out)]);
}

/// Blocks of a capture: type and body. Lengths at both ends agree.
fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
    let word = |at: &[u8]| u32::from_le_bytes(at[..4].try_into().unwrap());
    let mut found = Vec::new();
    while !file.is_empty() {
        let len = word(&file[4..]) as usize;
        assert!(len.is_multiple_of(4) && word(&file[len - 4..]) as usize == len);
        found.push((word(file), &file[8..len - 4]));
        file = &file[len..];
    }
    found
}

/// Options of a block: code and value.
fn options(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    loop {
        let half = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
        let (code, len) = (half(0), usize::from(half(2)));
        if code == 0 {
            assert_eq!(bytes.len(), 4, "nothing behind the end");
            return found;
        }
        found.push((code, &bytes[4..4 + len]));
        bytes = &bytes[4 + len.next_multiple_of(4)..];
    }
}

#[test]
fn a_capture_says_of_each_packet_what_is_known() {
    let interface = PcapngInterface { name: "h1-s1-1", description: "port 1", snaplen: 128, program: "zsr" };
    let mut w = PcapngWriter::new(Vec::new(), &interface).unwrap();
    let time_ns = 1_700_000_000_123_456_789;
    let packet = PcapngPacket {
        time_ns,
        direction: Direction::Out,
        len: 70,
        bytes: &[7; 61],
        comment: "flow=ü",
        lost_before: 3,
    };
    w.packet(&packet).unwrap();
    w.packet(&PcapngPacket { direction: Direction::In, comment: "", lost_before: 0, ..packet }).unwrap();
    let statistics = PcapngStatistics { begin_ns: 1 << 40, end_ns: time_ns, passed: 5, lost: 3 };
    let file = w.finish(&statistics).unwrap();

    let found = blocks(&file);
    assert_eq!(found.iter().map(|b| b.0).collect::<Vec<_>>(), [0x0a0d_0d0a, 1, 6, 6, 5]);
    assert_eq!(options(&found[0].1[16..]), [(4, b"zsr".as_slice())]);
    assert_eq!(options(&found[1].1[8..]), [(2, b"h1-s1-1".as_slice()), (3, b"port 1"), (9, &[9])]);
    let body = found[2].1;
    let halves = [(time_ns >> 32) as u32, time_ns as u32, 61, 70];
    let want: Vec<u8> = [0].iter().chain(&halves).flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(body[..20], want);
    assert_eq!(body[20..84], [&[7; 61][..], &[0; 3]].concat());
    let want = [(1, "flow=ü".as_bytes()), (2, &[2, 0, 0, 0]), (4, &[3, 0, 0, 0, 0, 0, 0, 0])];
    assert_eq!(options(&body[84..]), want);
    assert_eq!(options(&found[3].1[84..]), [(2, [1, 0, 0, 0].as_slice())]);
    let counted = options(&found[4].1[12..]);
    assert_eq!(counted[0], (2, [0, 1, 0, 0, 0, 0, 0, 0].as_slice()), "upper half first");
    let want = [(4, [5, 0, 0, 0, 0, 0, 0, 0].as_slice()), (5, &[3, 0, 0, 0, 0, 0, 0, 0])];
    assert_eq!(counted[2..], want);
}
