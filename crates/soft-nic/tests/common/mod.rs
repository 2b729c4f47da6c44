//! A host with a NIC, and packets written by hand to it.
#![allow(dead_code, reason = "each test uses its part")]

use std::net::Ipv4Addr;
use std::sync::Arc;

use zsr_soft_nic::*;
use zsr_wire::message::Message;
use zsr_wire::roce::{Packet, Path, Repr};
use zsr_wire::{Frame, FramePool, Mac, Psn, Qpn, Rkey, reth};

pub const SIZE: usize = 1 << 16;

pub struct Host {
    pub nic: Nic,
    pub memory: Arc<HostMemory>,
    pub rkey: Rkey,
    pub qpn: Qpn,
    pub pool: FramePool,
}

pub fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

pub fn ip(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

impl Host {
    pub fn new(n: u8) -> Host {
        Host::with(NicConfig::new(mac(n), ip(n)))
    }

    pub fn with(config: NicConfig) -> Host {
        let mut nic = Nic::new(config);
        let memory = Arc::new(HostMemory::allocate(SIZE).unwrap());
        let rkey = nic.register_mr(memory.clone(), 0, Access::ALL).unwrap();
        let qpn = nic.create_qp(QpCaps::default()).unwrap();
        Host { nic, memory, rkey, qpn, pool: FramePool::with_frames(512) }
    }

    pub fn rtr(&mut self, attr: RtrAttr) {
        self.nic.modify_qp(self.qpn, Modify::Init { access: Access::ALL }).unwrap();
        self.nic.modify_qp(self.qpn, Modify::Rtr(attr)).unwrap();
    }

    pub fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.memory.read(at, &mut out);
        out
    }

    pub fn drain(&mut self, now: u64) -> Vec<Frame> {
        std::iter::from_fn(|| self.nic.poll_transmit(now, &mut self.pool)).collect()
    }
}

/// A responder under test, host 1, and a peer, host 2, whose packets are written by hand.
pub struct Bench {
    pub host: Host,
    pub psn: Psn,
}

pub const PEER_QPN: Qpn = Qpn::new(0x77);

impl Bench {
    pub fn new(mtu: Mtu, psn: u32) -> Bench {
        Bench::with(NicConfig::new(mac(1), ip(1)), mtu, psn)
    }

    pub fn with(config: NicConfig, mtu: Mtu, psn: u32) -> Bench {
        let mut bench = Bench { host: Host::with(config), psn: Psn::new(psn) };
        bench.connect(mtu);
        bench
    }

    /// From Reset.
    pub fn connect(&mut self, mtu: Mtu) {
        let mut attr = RtrAttr::new(PEER_QPN, ip(2), self.psn, mtu);
        attr.dest_mac = Some(mac(2));
        attr.max_dest_rd_atomic = 4;
        self.host.rtr(attr);
    }

    pub fn repr(&self, psn: Psn, message: Message) -> Repr {
        let path = Path {
            src_mac: mac(2),
            dst_mac: mac(1),
            src_ip: ip(2),
            dst_ip: ip(1),
            src_port: 0xc001,
            tos: 2,
            ttl: 64,
        };
        Repr::new(path, self.host.qpn, psn, message)
    }

    pub fn reth(&self, address: u64, length: u32) -> reth::Repr {
        reth::Repr { address, rkey: self.host.rkey, length }
    }

    /// Hands the NIC a packet with AckReq; `psn` counts from the first expected one.
    pub fn send(&mut self, psn: i32, message: Message, payload: &[u8]) {
        let mut repr = self.repr(Psn::new(self.psn.get().wrapping_add(psn as u32)), message);
        repr.ack_req = true;
        self.send_repr(&repr, payload);
    }

    pub fn send_repr(&mut self, repr: &Repr, payload: &[u8]) {
        let mut frame = self.host.pool.take();
        repr.emit(payload, &mut frame).unwrap();
        self.host.nic.handle(0, frame, &mut self.host.pool);
    }

    /// The NIC's packets, checked in every respect that goes for all packets. PSNs count from the first expected.
    pub fn replies(&mut self) -> Vec<(i32, Message, Vec<u8>)> {
        let frames = self.host.drain(0);
        frames
            .into_iter()
            .map(|frame| {
                let packet = Packet::new_checked(frame.bytes()).unwrap();
                assert!(packet.icrc_ok());
                assert_eq!((packet.src_ip(), packet.dst_ip()), (ip(1), ip(2)));
                assert_eq!((packet.src_mac(), packet.dst_mac()), (mac(1), mac(2)));
                assert_eq!(packet.dest_qp(), PEER_QPN);
                assert_eq!(packet.frame_len(), frame.len());
                let repr = Repr::parse(&packet).unwrap();
                let reply = (repr.psn.since(self.psn), repr.message, packet.payload().to_vec());
                self.host.pool.put(frame);
                reply
            })
            .collect()
    }

    pub fn state(&self) -> QpState {
        self.host.nic.qp_info(self.host.qpn).unwrap().state
    }
}

/// `n` bytes that differ from place to place.
pub fn pattern(n: usize, salt: u8) -> Vec<u8> {
    (0..n).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ salt).collect()
}

/// Two connected hosts that both send.
pub struct Pair {
    pub a: Host,
    pub b: Host,
}

impl Pair {
    pub fn new(mtu: Mtu, tune: impl Fn(&mut RtrAttr, &mut RtsAttr)) -> Pair {
        let (mut a, mut b) = (Host::new(1), Host::new(2));
        let (qa, qb) = (a.qpn, b.qpn);
        for (host, n, peer, mine, theirs) in [(&mut a, 2, qb, 0xff_fff0, 5), (&mut b, 1, qa, 5, 0xff_fff0)] {
            host.nic.add_neighbour(ip(n), mac(n));
            let mut rtr = RtrAttr::new(peer, ip(n), Psn::new(theirs), mtu);
            let mut rts = RtsAttr::new(Psn::new(mine));
            tune(&mut rtr, &mut rts);
            host.rtr(rtr);
            host.nic.modify_qp(host.qpn, Modify::Rts(rts)).unwrap();
        }
        Pair { a, b }
    }

    pub fn work(&self, wr_id: u64, operation: Operation, local: u64, remote: u64, len: u32) -> WorkRequest {
        let local = Sge { lkey: self.a.rkey, address: local, len };
        WorkRequest { wr_id, operation, local, remote_address: remote, rkey: self.b.rkey }
    }

    /// Carries frames both ways until nobody has any; `lose` says which to drop.
    pub fn pump(&mut self, now: u64, mut lose: impl FnMut(&Packet<&[u8]>) -> bool) {
        loop {
            let sent = carry(now, &mut self.a, &mut self.b, &mut lose);
            let answered = carry(now, &mut self.b, &mut self.a, &mut lose);
            if !sent && !answered {
                return;
            }
        }
    }

    /// As [`Pair::pump`], letting time pass to every timer until none runs; at most `rounds` of them.
    pub fn run(&mut self, mut lose: impl FnMut(&Packet<&[u8]>) -> bool, rounds: usize) {
        let mut now = 0;
        for _ in 0..rounds {
            self.pump(now, &mut lose);
            match self.a.nic.next_timeout() {
                Some(t) => now = t,
                None => return,
            }
            self.a.nic.on_timeout(now);
        }
        panic!("timers still run after {rounds} rounds");
    }

    pub fn completions(&mut self) -> Vec<(u64, Status)> {
        std::iter::from_fn(|| self.a.nic.poll_completion()).map(|c| (c.wr_id, c.status)).collect()
    }
}

fn carry(now: u64, from: &mut Host, to: &mut Host, lose: &mut impl FnMut(&Packet<&[u8]>) -> bool) -> bool {
    let mut any = false;
    while let Some(frame) = from.nic.poll_transmit(now, &mut from.pool) {
        any = true;
        if lose(&Packet::new_checked(frame.bytes()).unwrap()) {
            from.pool.put(frame);
        } else {
            to.nic.handle(now, frame, &mut from.pool);
        }
    }
    any
}
