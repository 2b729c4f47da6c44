//! Wrappers of ports: capture files byte by byte, faults by seed, and a disk that fills up.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use zsr_link::*;
use zsr_wire::{Frame, FramePool};

fn frame(bytes: &[u8]) -> Frame {
    Frame::copy_from(bytes).unwrap()
}

/// Frames of a pcap file: time in nanoseconds and bytes.
fn read_pcap(file: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 1), "nanosecond pcap, Ethernet");
    assert_eq!(file[4..8], [2, 0, 4, 0], "version 2.4");
    let mut at = 24;
    let mut out = Vec::new();
    while at < file.len() {
        let len = word(at + 8) as usize;
        assert_eq!(word(at + 12) as usize, len);
        let time = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        out.push((time, file[at + 16..at + 16 + len].to_vec()));
        at += 16 + len;
    }
    out
}

#[test]
fn capture_holds_both_directions_with_their_times() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link.pcap");
    let sink = PcapSink::create(&path).unwrap();
    let mut pool = FramePool::default();
    let (a, mut b) = memory_link(2);
    let mut a = Capture::new(a, sink.clone());
    a.send(1_500_000_000, frame(&[1; 60]), &mut pool).unwrap();
    a.send(1_500_000_001, frame(&[2; 61]), &mut pool).unwrap();
    a.send(1_500_000_002, frame(&[9; 60]), &mut pool).unwrap_err();
    b.send(0, frame(&[3; 100]), &mut pool).unwrap();
    assert_eq!(a.recv(2_000_000_007, &mut pool).unwrap().bytes(), [3; 100]);
    assert_eq!(b.recv(0, &mut pool).unwrap().bytes(), [1; 60]);
    let summary = sink.finish().unwrap();
    a.send(3_000_000_000, frame(&[4; 60]), &mut pool).unwrap();
    let file = std::fs::read(&path).unwrap();
    assert_eq!(summary, PcapSummary { packets: 3, bytes: file.len() as u64 });
    assert_eq!(
        read_pcap(&file),
        [(1_500_000_000, vec![1; 60]), (1_500_000_001, vec![2; 61]), (2_000_000_007, vec![3; 100])]
    );
}

/// A disk with room for so many bytes.
struct SmallDisk(Arc<Mutex<Vec<u8>>>, usize);

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut disk = self.0.lock().unwrap();
        let n = bytes.len().min(self.1 - disk.len());
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        disk.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_stops_the_capture_with_one_report_and_not_the_link() {
    let disk = Arc::new(Mutex::new(Vec::new()));
    let sink = PcapSink::to_writer(Path::new("x.pcap"), SmallDisk(disk.clone(), 24 + 2 * 76 + 30));
    let mut pool = FramePool::default();
    let (a, mut b) = memory_link(16);
    let mut a = Capture::new(a, sink.clone());
    for n in 0..10 {
        a.send(0, frame(&[n; 60]), &mut pool).unwrap();
        assert_eq!(b.recv(0, &mut pool).unwrap().bytes(), [n; 60]);
    }
    let text = sink.take_error().unwrap().to_string();
    assert!(text.contains("x.pcap") && text.contains("after 2 packets"), "{text}");
    assert!(sink.take_error().is_none(), "reported once");
    assert_eq!(disk.lock().unwrap().len(), 24 + 2 * 76 + 30);
    let again = PcapSink::to_writer(Path::new("y.pcap"), SmallDisk(Arc::default(), 3));
    assert!(again.finish().unwrap_err().to_string().contains("y.pcap"));
}

#[test]
fn a_capture_that_can_not_be_created_names_the_file() {
    let error = PcapSink::create(Path::new("/nonexistent/dir/a.pcap")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/dir/a.pcap"), "{error}");
}

#[test]
fn rates_out_of_range_are_refused() {
    for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let rates = FaultRates { duplicate: bad, ..FaultRates::NONE };
        let error = Faults::new(rates, 1).unwrap_err().to_string();
        assert!(error.contains("duplicate"), "{error}");
    }
}

/// Sends `n` numbered frames through a faulty port and returns what arrives, and the counters.
fn through(rates: FaultRates, seed: u64, n: u32) -> (Vec<Vec<u8>>, FaultStats) {
    let mut pool = FramePool::default();
    let (a, mut b) = memory_link(1 << 14);
    let mut a = Faulty::new(a, rates, FaultRates::NONE, seed).unwrap();
    let mut got = Vec::new();
    let mut now = 0;
    for i in 0..n {
        now = u64::from(i) * 100;
        let mut f = pool.take();
        f.append(&i.to_be_bytes());
        f.append(&[0x55; 60]);
        a.send(now, f, &mut pool).unwrap();
    }
    while let Some(due) = a.next_due() {
        now = now.max(due);
        assert!(a.recv(now, &mut pool).is_none());
    }
    while let Some(f) = b.recv(now, &mut pool) {
        got.push(f.bytes().to_vec());
        pool.put(f);
    }
    (got, *a.stats().0)
}

#[test]
fn without_faults_everything_arrives_in_order() {
    let (got, stats) = through(FaultRates::NONE, 1, 1000);
    let numbers: Vec<u32> = got.iter().map(|f| u32::from_be_bytes(f[..4].try_into().unwrap())).collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    assert_eq!(stats, FaultStats { frames: 1000, ..FaultStats::default() });
}

#[test]
fn each_fault_does_what_its_counter_says() {
    let (got, stats) = through(FaultRates { loss: 0.1, ..FaultRates::NONE }, 3, 5000);
    assert_eq!(got.len() as u64, 5000 - stats.lost);
    assert!((400..600).contains(&stats.lost), "{stats:?}");
    let (got, stats) = through(FaultRates { duplicate: 0.1, ..FaultRates::NONE }, 3, 5000);
    assert_eq!(got.len() as u64, 5000 + stats.duplicated);
    assert!((400..600).contains(&stats.duplicated), "{stats:?}");
    let (got, stats) = through(FaultRates { corrupt: 0.1, ..FaultRates::NONE }, 3, 5000);
    let damaged =
        got.iter().enumerate().filter(|(i, f)| f[..4] != (*i as u32).to_be_bytes() || f[4..] != [0x55; 60]);
    // Two flips may hit the same bit, which is no damage.
    let damaged = damaged.count() as u64;
    assert!(damaged <= stats.corrupted && damaged + 5 >= stats.corrupted, "{damaged} {stats:?}");
    let (got, stats) = through(FaultRates { reorder: 0.1, reorder_ns: 1000, ..FaultRates::NONE }, 3, 5000);
    assert_eq!(got.len(), 5000);
    let numbers: Vec<u32> = got.iter().map(|f| u32::from_be_bytes(f[..4].try_into().unwrap())).collect();
    let overtaken = numbers.windows(2).filter(|w| w[0] > w[1]).count();
    assert!(overtaken > 100 && stats.reordered > 400, "{overtaken} {stats:?}");
}

proptest! {
    #[test]
    fn the_same_seed_gives_the_same_faults(seed in any::<u64>()) {
        let rates = FaultRates { jitter_ns: 300, ..FaultRates::all(0.1, 500) };
        prop_assert_eq!(through(rates, seed, 200), through(rates, seed, 200));
        prop_assert_ne!(through(rates, seed, 200).0, through(rates, seed ^ 1, 200).0);
    }

    #[test]
    fn a_full_inner_link_loses_nothing(capacity in 1usize..5) {
        let mut pool = FramePool::default();
        let (a, mut b) = memory_link(capacity);
        let mut a = Faulty::new(a, FaultRates::NONE, FaultRates::NONE, 1).unwrap();
        for i in 0..20u8 {
            a.send(0, frame(&[i; 60]), &mut pool).unwrap();
        }
        for i in 0..20u8 {
            a.recv(0, &mut pool);
            let got = b.recv(0, &mut pool).unwrap();
            prop_assert_eq!(got.bytes(), &[i; 60][..]);
        }
    }
}

#[test]
fn frames_that_come_in_have_faults_and_a_time_as_well() {
    let mut pool = FramePool::default();
    let (a, mut b) = memory_link(8);
    let rates = FaultRates { duplicate: 1.0, delay_ns: 500, ..FaultRates::NONE };
    let mut a = Faulty::new(a, FaultRates::NONE, rates, 1).unwrap();
    b.send(0, Frame::copy_from(&[1; 60]).unwrap(), &mut pool).unwrap();
    assert!(a.recv(0, &mut pool).is_none());
    assert_eq!((a.next_due(), a.faults()), (Some(500), 1));
    assert!(a.recv(499, &mut pool).is_none());
    assert!(a.recv(500, &mut pool).is_some() && a.recv(500, &mut pool).is_some());
    assert_eq!(a.next_due(), None);
}
