//! A 1:1 flow with everything in one thread and in the caller's hand: two NICs, a switch that runs the built-in program, set
//! up by the controller through P4Runtime. Benchmarks take the steps apart with it.

use std::path::Path;
use std::sync::Arc;
use zsr_control_plane::p4::Artifacts;
use zsr_control_plane::plan::{PORT_TIMER, Plan, Qp, RingAddress, admin};
use zsr_control_plane::run::install::switch_in_hand;
use zsr_ring::{Cancel, Consumer, Producer, Ring, RingSpec, Role};
use zsr_soft_nic::{Access, HostMemory, Modify, Mtu, Nic, NicConfig, QpCaps, RtrAttr, RtsAttr};
use zsr_soft_switch::Switch;
use zsr_topology::Topology;
use zsr_wire::{Frame, FramePool, Mac, Psn, Qpn, Rkey};

/// The flow.
pub struct Flow {
    /// The switch.
    pub switch: Switch,
    /// The producer's NIC, at port 1.
    pub producer_nic: Nic,
    /// The consumer's NIC, at port 2.
    pub consumer_nic: Nic,
    /// The producer's end of its ring.
    pub producer: Producer,
    /// The consumer's end of its ring.
    pub consumer: Consumer,
    /// Buffers.
    pub pool: FramePool,
    /// Frames that left the switch.
    pub out: Vec<(u16, Frame)>,
    /// Time, in nanoseconds; the caller moves it.
    pub now: u64,
}

impl Flow {
    /// A flow of items of `item_size` bytes in rings of `ring_size` bytes, READ `max_batch` bytes at a time over path MTU
    /// `mtu`.
    pub fn new(item_size: u32, ring_size: u32, max_batch: u32, mtu: u32) -> Flow {
        let text = format!(
            "defaults: {{mtu: {mtu}}}\nhosts: [h1, h2]\nflows:\n  - {{name: f, producers: [h1], consumers: [h2], item_size: {item_size}, \
             ring_size: {ring_size}, max_batch: {max_batch}, poll_interval: 1us, rto: 10s}}\n\
             workload: {{kind: synthetic, items: 1}}\n"
        );
        let topology =
            Topology::parse(Path::new("bench.yaml"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let plan = Plan::new(&topology, 0, 1).expect("one flow fits");
        let mut nics = Vec::new();
        let mut rings = Vec::new();
        let mut addresses = vec![None; topology.rings.len()];
        for (h, host) in topology.hosts.iter().enumerate() {
            let mut nic = Nic::new(NicConfig::new(Mac(host.mac.0), host.ip));
            for (r, ring) in topology.rings.iter().enumerate().filter(|(_, r)| r.host == h) {
                let ids = plan.rings[r].expect("every ring is in the flow");
                let role = if ids.is_producer { Role::Producer } else { Role::Consumer };
                let spec = RingSpec::new(ring.item_size.into(), ring.size.into()).expect("checked sizes");
                let memory = Ring::allocate(role, spec).expect("memory for a ring");
                let block = memory.memory();
                let owner: Arc<dyn std::any::Any + Send + Sync> = Arc::new(memory.clone());
                // SAFETY: the ring, kept alive by `owner`, holds the block.
                let region = unsafe { HostMemory::from_raw(block.base().as_ptr(), block.len(), owner) };
                let access = Access::REMOTE_READ.with(Access::REMOTE_WRITE);
                let rkey: Rkey = nic.register_mr(Arc::new(region), 0, access).expect("a valid region");
                let mut connect = |remote: Qp| {
                    let qpn = nic.create_qp(QpCaps::default()).expect("a queue pair");
                    let mut rtr = RtrAttr::new(
                        Qpn::new(remote.qpn),
                        plan.switch.ip,
                        Psn::new(remote.psn),
                        Mtu::from_bytes(mtu).expect("a path MTU"),
                    );
                    rtr.dest_mac = Some(Mac(plan.switch.mac.0));
                    let rts = RtsAttr::new(Psn::new(remote.psn));
                    for step in [Modify::Init { access }, Modify::Rtr(rtr), Modify::Rts(rts)] {
                        nic.modify_qp(qpn, step).expect("states in order");
                    }
                    qpn.get()
                };
                addresses[r] = Some(RingAddress {
                    rkey: rkey.0,
                    data_qpn: connect(ids.data),
                    poll_qpn: connect(ids.poll),
                    epoch: 0,
                });
                rings.push(memory);
            }
            nics.push(nic);
        }
        let artifacts = Artifacts::built_in().expect("artifacts that fit");
        let switch = switch_in_hand(&plan, &addresses, &artifacts).expect("a switch with the plan's entries");
        let consumer_nic = nics.pop().expect("two hosts");
        let producer_nic = nics.pop().expect("two hosts");
        let find = |role| rings.iter().find(|r| r.role() == role).expect("one ring each").clone();
        Flow {
            switch,
            producer_nic,
            consumer_nic,
            producer: find(Role::Producer).attach_producer(Cancel::default()).expect("a free ring"),
            consumer: find(Role::Consumer).attach_consumer(Cancel::default()).expect("a free ring"),
            pool: FramePool::with_frames(4096),
            out: Vec::with_capacity(4096),
            now: 1_000_000,
        }
    }

    /// A timer packet.
    pub fn tick(&mut self) {
        let frame = Frame::copy_from(&admin::timer_packet(0)).expect("a short frame");
        self.switch.process(self.now, PORT_TIMER, frame, &mut self.pool, &mut self.out);
    }

    /// Hands what left the switch to the NICs.
    pub fn deliver(&mut self) {
        for (port, frame) in self.out.drain(..) {
            let nic = if port == 1 { &mut self.producer_nic } else { &mut self.consumer_nic };
            nic.handle(self.now, frame, &mut self.pool);
        }
    }

    /// Takes everything that the NICs want to send, as (port, frame), without passing it on.
    pub fn collect(&mut self, frames: &mut Vec<(u16, Frame)>) {
        for (port, nic) in [(1, &mut self.producer_nic), (2, &mut self.consumer_nic)] {
            while let Some(frame) = nic.poll_transmit(self.now, &mut self.pool) {
                frames.push((port, frame));
            }
        }
    }

    /// Has the switch process `frames`.
    pub fn process(&mut self, frames: &mut Vec<(u16, Frame)>) {
        for (port, frame) in frames.drain(..) {
            self.switch.process(self.now, port, frame, &mut self.pool, &mut self.out);
        }
    }
}
