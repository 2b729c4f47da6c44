//! Any frames to a NIC with a connected queue pair that has requests outstanding. The input is cut into frames; most
//! get the right addresses, checksum and ICRC, so that the state machines are reached and not only the first checks.
#![no_main]

use std::net::Ipv4Addr;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use zsr_soft_nic::*;
use zsr_wire::roce::{BTH_AT, EXT_AT, IP_AT, Path, UDP_AT};
use zsr_wire::{Frame, FramePool, Mac, Psn, Qpn, Rkey, icrc, ipv4, udp};

const SIZE: usize = 8192;
const NIC: (Mac, Ipv4Addr) = (Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1));
const PEER: (Mac, Ipv4Addr) = (Mac([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 0, 2));

/// Makes a frame from fuzz bytes: the first says how much is put right, the rest is BTH and what follows.
fn frame(bytes: &[u8], qpn: Qpn, key: Rkey) -> Option<Frame> {
    let (&how, body) = bytes.split_first()?;
    if how & 0x80 != 0 || body.len() < 12 {
        return Frame::copy_from(body);
    }
    let path = Path {
        src_mac: PEER.0,
        dst_mac: NIC.0,
        src_ip: PEER.1,
        dst_ip: NIC.1,
        src_port: 0xc000,
        tos: how & 3,
        ttl: 64,
    };
    let mut out = Frame::new();
    let all = out.grow_back(BTH_AT + body.len() + icrc::LEN)?;
    all[0..6].copy_from_slice(&path.dst_mac.0);
    all[6..12].copy_from_slice(&path.src_mac.0);
    all[12..14].copy_from_slice(&[8, 0]);
    let udp_len = (udp::LEN + body.len() + icrc::LEN) as u16;
    let ip = ipv4::Repr {
        src: path.src_ip,
        dst: path.dst_ip,
        protocol: ipv4::UDP,
        tos: path.tos,
        ident: 0,
        dont_fragment: true,
        ttl: 64,
        payload_len: udp_len,
    };
    ip.emit(&mut all[IP_AT..]).ok()?;
    let u = udp::Repr {
        src_port: path.src_port,
        dst_port: udp::ROCE_PORT,
        payload_len: udp_len - udp::LEN as u16,
    };
    u.emit(&mut all[UDP_AT..]).ok()?;
    all[BTH_AT..BTH_AT + body.len()].copy_from_slice(body);
    all[BTH_AT + 1] &= 0xf0;
    all[BTH_AT + 2..BTH_AT + 4].copy_from_slice(&[0xff, 0xff]);
    all[BTH_AT + 5..BTH_AT + 8].copy_from_slice(&qpn.get().to_be_bytes()[1..]);
    if how & 4 != 0 {
        // PSN near the ones in use.
        all[BTH_AT + 9..BTH_AT + 11].fill(0);
    }
    if how & 8 != 0 && body.len() >= 28 {
        // A key that exists, an address and a length that may fit.
        all[EXT_AT..EXT_AT + 6].fill(0);
        all[EXT_AT + 8..EXT_AT + 12].copy_from_slice(&key.0.to_be_bytes());
        all[EXT_AT + 12..EXT_AT + 14].fill(0);
    }
    icrc::write(&mut all[IP_AT..]);
    Some(out)
}

fn run(data: &[u8]) -> Option<()> {
    let mut nic = Nic::new(NicConfig::new(NIC.0, NIC.1));
    let memory = Arc::new(HostMemory::allocate(SIZE).ok()?);
    let key = nic.register_mr(memory, 0, Access::ALL).ok()?;
    let qpn = nic.create_qp(QpCaps::default()).ok()?;
    let mut rtr = RtrAttr::new(Qpn::new(7), PEER.1, Psn::new(4), Mtu::Mtu256);
    rtr.dest_mac = Some(PEER.0);
    let rts = RtsAttr::new(Psn::new(4));
    for step in [Modify::Init { access: Access::ALL }, Modify::Rtr(rtr), Modify::Rts(rts)] {
        nic.modify_qp(qpn, step).ok()?;
    }
    nic.post_recv(qpn, Receive { wr_id: 1, local: Some(Sge { lkey: key, address: 8, len: 400 }) }).ok()?;
    let mut pool = FramePool::with_frames(2);
    for (operation, len) in [(Operation::Write, 700), (Operation::Read, 700), (Operation::Send, 700)] {
        let local = Sge { lkey: key, address: 0, len };
        nic.post_send(qpn, WorkRequest { wr_id: 2, operation, local, remote_address: 0, rkey: Rkey(1) })
            .ok()?;
    }
    let (mut now, mut rest) = (0, data);
    while let Some((&len, more)) = rest.split_first() {
        // Lengths up to 510, so that a whole packet of 256 bytes of payload fits.
        let (bytes, more) = more.split_at(more.len().min(usize::from(len) * 2));
        rest = more;
        if let Some(frame) = frame(bytes, qpn, key) {
            nic.handle(now, frame, &mut pool);
        }
        let polls = if len & 1 == 0 { 3 } else { 0 };
        for _ in 0..polls {
            if let Some(frame) = nic.poll_transmit(now, &mut pool) {
                assert!(icrc::verify_frame(frame.bytes()) || frame.bytes()[12..14] == [8, 6]);
                pool.put(frame);
            }
        }
        if len & 7 == 7
            && let Some(t) = nic.next_timeout()
        {
            now = now.max(t);
            nic.on_timeout(now);
        }
        while nic.poll_completion().is_some() {}
    }
    // Whatever happened, what is left to send comes to an end.
    let mut left = 0;
    while let Some(frame) = nic.poll_transmit(now, &mut pool) {
        pool.put(frame);
        left += 1;
        assert!(left < 100_000, "transmits without end");
    }
    Some(())
}

fuzz_target!(init: zsr_tests::fuzz::write_seeds("soft_nic"), |data: &[u8]| {
    let _ = run(data);
});
