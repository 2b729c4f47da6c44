//! The cost of one packet, in nanoseconds of this machine: READ responses and WRITEs made and taken, per MTU. Medians
//! over rounds of 64 KiB, so that other load of the machine matters little.
//!
//! `cargo run --release -p zsr-soft-nic --example nic_cost [ROUNDS [MTU]]`

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use zsr_soft_nic::*;
use zsr_wire::{Frame, FramePool, Mac, Psn, Qpn, Rkey};

const SIZE: usize = 1 << 16;

struct End {
    nic: Nic,
    qpn: Qpn,
    key: Rkey,
}

fn end(n: u8) -> End {
    let mut nic = Nic::new(NicConfig::new(Mac([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n)));
    let memory = match HostMemory::allocate(SIZE) {
        Ok(memory) => Arc::new(memory),
        Err(error) => panic!("{error}"),
    };
    memory.write(0, &vec![n; SIZE]);
    let (Ok(key), Ok(qpn)) = (nic.register_mr(memory, 0, Access::ALL), nic.create_qp(QpCaps::default()))
    else {
        panic!("a fresh NIC takes a region and a queue pair");
    };
    End { nic, qpn, key }
}

fn connect(from: &mut End, to: Qpn, n: u8, mtu: Mtu) {
    let mut rtr = RtrAttr::new(to, Ipv4Addr::new(10, 0, 0, n), Psn::ZERO, mtu);
    rtr.dest_mac = Some(Mac([2, 0, 0, 0, 0, n]));
    for step in [Modify::Init { access: Access::ALL }, Modify::Rtr(rtr), Modify::Rts(RtsAttr::new(Psn::ZERO))]
    {
        if let Err(error) = from.nic.modify_qp(from.qpn, step) {
            panic!("{error}");
        }
    }
}

/// Moves all frames from one end to the other in batches; returns (frames, ns to make them, ns to take them).
fn carry(from: &mut End, to: &mut End, pool: &mut FramePool, batch: &mut Vec<Frame>) -> (u64, f64, f64) {
    let start = Instant::now();
    while batch.len() < 64
        && let Some(frame) = from.nic.poll_transmit(0, pool)
    {
        batch.push(frame);
    }
    let made = start.elapsed().as_nanos() as f64;
    let n = batch.len() as u64;
    let start = Instant::now();
    for frame in batch.drain(..) {
        to.nic.handle(0, frame, pool);
    }
    (n, made, start.elapsed().as_nanos() as f64)
}

fn measure(operation: Operation, mtu: Mtu, rounds: u32) {
    let (mut a, mut b) = (end(1), end(2));
    connect(&mut a, b.qpn, 2, mtu);
    connect(&mut b, a.qpn, 1, mtu);
    let mut pool = FramePool::with_frames(80);
    let mut batch = Vec::with_capacity(64);
    let (mut make, mut take) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        // Per direction: frames, ns to make, ns to take.
        let mut sums = [[0f64; 3]; 2];
        let local = Sge { lkey: a.key, address: 0, len: SIZE as u32 };
        let work = WorkRequest { wr_id: 1, operation, local, remote_address: 0, rkey: b.key };
        if let Err(error) = a.nic.post_send(a.qpn, work) {
            panic!("{error}");
        }
        loop {
            let there = carry(&mut a, &mut b, &mut pool, &mut batch);
            let back = carry(&mut b, &mut a, &mut pool, &mut batch);
            for (sum, one) in sums.iter_mut().zip([there, back]) {
                sum[0] += one.0 as f64;
                sum[1] += one.1;
                sum[2] += one.2;
            }
            if there.0 + back.0 == 0 {
                break;
            }
        }
        match a.nic.poll_completion() {
            Some(done) if done.status == Status::Success => {}
            other => panic!("expected success, got {other:?}"),
        }
        // The direction with the payload has all but a few of the packets.
        let data = if operation == Operation::Read { sums[1] } else { sums[0] };
        make.push(data[1] / data[0]);
        take.push(data[2] / data[0]);
    }
    println!(
        "{:5} MTU {:>6}: make {:6.1} ns, take {:6.1} ns per packet",
        if operation == Operation::Read { "READ" } else { "WRITE" },
        mtu.to_string(),
        median(&mut make),
        median(&mut take),
    );
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let mut args = std::env::args().skip(1).map(|a| match a.parse::<u32>() {
        Ok(n) => n,
        Err(_) => {
            eprintln!("{a:?} is not a number; usage: nic_cost [ROUNDS [MTU]]");
            std::process::exit(2)
        }
    });
    let (rounds, only) = (args.next().unwrap_or(3000), args.next());
    for mtu in Mtu::ALL.into_iter().filter(|m| only.is_none_or(|bytes| bytes == m.bytes())) {
        measure(Operation::Read, mtu, rounds);
        measure(Operation::Write, mtu, rounds);
    }
}
