//! Two soft NICs over links with loss, duplication, reordering and bit flips: everything arrives, and a seed is a run.

use std::net::Ipv4Addr;
use std::sync::Arc;

use zsr_simnet::*;
use zsr_soft_nic::*;
use zsr_wire::{Frame, FramePool, Mac, Psn, Qpn, Rkey};

const SIZE: usize = 1 << 18;
/// Work requests per run.
const OPS: u64 = 3000;

/// A host: a NIC at port 0 and its memory.
struct Host {
    nic: Nic,
    memory: Arc<HostMemory>,
    key: Rkey,
    qpn: Qpn,
}

impl Node for Host {
    fn handle(&mut self, now_ns: u64, _port: u16, frame: Frame, pool: &mut FramePool) {
        self.nic.handle(now_ns, frame, pool);
    }

    fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        Some((0, self.nic.poll_transmit(now_ns, pool)?))
    }

    fn next_timer(&self) -> Option<u64> {
        self.nic.next_timeout()
    }

    fn on_timer(&mut self, now_ns: u64) {
        self.nic.on_timeout(now_ns);
    }
}

fn host(n: u8) -> Host {
    let mut nic = Nic::new(NicConfig::new(Mac([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n)));
    let memory = Arc::new(HostMemory::allocate(SIZE).unwrap());
    let key = nic.register_mr(memory.clone(), 0, Access::ALL).unwrap();
    let qpn = nic.create_qp(QpCaps::default()).unwrap();
    Host { nic, memory, key, qpn }
}

fn connect(host: &mut Host, peer: Qpn, n: u8, mine: u32, theirs: u32) {
    let ip = Ipv4Addr::new(10, 0, 0, n);
    host.nic.add_neighbour(ip, Mac([2, 0, 0, 0, 0, n]));
    let rtr = RtrAttr::new(peer, ip, Psn::new(theirs), Mtu::Mtu1024);
    let rts = RtsAttr { timeout_ns: 30_000, retry_count: 60, ..RtsAttr::new(Psn::new(mine)) };
    for step in [Modify::Init { access: Access::ALL }, Modify::Rtr(rtr), Modify::Rts(rts)] {
        host.nic.modify_qp(host.qpn, step).unwrap();
    }
}

struct Run {
    hash: u64,
    deliveries: u64,
    requester: Stats,
    responder: Stats,
    faults: [FaultStats; 2],
}

/// Runs a requester and a responder; the requester keeps 16 work requests going until `OPS` are done. Its WRITEs and
/// READs have stretches of memory of their own, so that the memory at the end is known whatever was sent again.
fn run(seed: u64, rates: FaultRates) -> Run {
    let mut net = Network::new(seed);
    let (mut a, mut b) = (host(1), host(2));
    connect(&mut a, b.qpn, 2, 0xff_ff00, 0x10);
    connect(&mut b, a.qpn, 1, 0x10, 0xff_ff00);
    let (rkey, half) = (b.key, SIZE / 2);
    let mut rng = Rng::new(seed ^ 77);
    let mut a_want: Vec<u8> = (0..SIZE).map(|_| rng.bits() as u8).collect();
    let mut b_want: Vec<u8> = (0..SIZE).map(|_| rng.bits() as u8).collect();
    a.memory.write(0, &a_want);
    b.memory.write(0, &b_want);
    let (a_id, b_id) = (net.add(a), net.add(b));
    let ends = [a_id, b_id].map(|node| End { node, port: 0 });
    net.connect(ends[0], ends[1], LinkConfig::FAST.with_faults(rates)).unwrap();

    let (mut posted, mut done) = (0u64, 0u64);
    let stop = net.run_until(u64::MAX, |net| {
        let host: &mut Host = net.node_mut(a_id).unwrap();
        while let Some(completion) = host.nic.poll_completion() {
            assert_eq!((completion.wr_id, completion.status), (done, Status::Success));
            done += 1;
        }
        while posted < OPS && posted < done + 16 {
            // The lower halves are sources, the upper halves targets. WRITEs carry what never changes, so order and
            // repetition of overlapping ones alone decide the result.
            let len = [8, 16, 64, 1000, 1024, 5000][rng.below(6) as usize] as usize;
            let from = rng.below((half - len) as u64) as usize;
            let to = half + rng.below((half - len) as u64) as usize;
            let read = rng.chance(0.5);
            let (operation, local, remote) =
                if read { (Operation::Read, to, from) } else { (Operation::Write, from, to) };
            let local = Sge { lkey: host.key, address: local as u64, len: len as u32 };
            let work = WorkRequest { wr_id: posted, operation, local, remote_address: remote as u64, rkey };
            host.nic.post_send(host.qpn, work).unwrap();
            if read {
                a_want[to..to + len].copy_from_slice(&b_want[from..from + len]);
            } else {
                b_want[to..to + len].copy_from_slice(&a_want[from..from + len]);
            }
            posted += 1;
        }
        done == OPS
    });
    assert_eq!(stop, Stop::Condition, "{done} of {posted} done");
    net.run_until(u64::MAX, |_| false);
    let memory = |id| {
        let host: &Host = net.node(id).unwrap();
        let mut bytes = vec![0; SIZE];
        host.memory.read(0, &mut bytes);
        (bytes, *host.nic.stats())
    };
    let (a_bytes, requester) = memory(a_id);
    let (b_bytes, responder) = memory(b_id);
    assert!(a_bytes == a_want, "what was read differs");
    assert!(b_bytes == b_want, "what was written differs");
    Run {
        hash: net.trace_hash(),
        deliveries: net.deliveries(),
        requester,
        responder,
        faults: ends.map(|end| net.fault_stats(end).unwrap()),
    }
}

#[test]
fn without_faults_nothing_is_sent_twice() {
    let run = run(1, FaultRates::NONE);
    assert_eq!(run.requester.retries, 0);
    assert_eq!(run.responder.duplicates, 0);
    assert_eq!(run.requester.dropped_total() + run.responder.dropped_total(), 0);
}

#[test]
fn with_every_fault_memory_is_right_and_each_fault_was_met() {
    for seed in 1..=6 {
        let run = run(seed, FaultRates::all(0.02, 3_000));
        for stats in run.faults {
            assert!(stats.lost > 0 && stats.duplicated > 0 && stats.reordered > 0 && stats.corrupted > 0);
        }
        let met = |reason| run.requester.dropped(reason) + run.responder.dropped(reason);
        assert!(met(DropReason::Icrc) > 10, "seed {seed}");
        assert!(run.requester.retries > 100 && run.requester.timeouts > 0, "seed {seed}");
        assert!(run.responder.duplicates > 100 && run.responder.naks[0] > 10, "seed {seed}");
        assert_eq!(run.responder.naks[1..], [0; 3], "seed {seed}: nothing but gaps was refused");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let rates = FaultRates { jitter_ns: 200, ..FaultRates::all(0.02, 3_000) };
    let (one, two, other) = (run(10, rates), run(10, rates), run(9, rates));
    assert_eq!((one.hash, one.deliveries), (two.hash, two.deliveries));
    assert_ne!(one.hash, other.hash);
}
