//! A 1:1 flow in one thread and in the caller's hand: two NICs, and a switch that runs the built-in program, set up by
//! the controller through P4Runtime. Benchmarks measure its steps one by one.

use std::path::Path;
use zsr_plan::dataplane::{PORT_TIMER, admin};
use zsr_plan::p4::Artifacts;
use zsr_ring::{Cancel, Consumer, Producer, Role};
use zsr_soft_nic::Nic;
use zsr_soft_switch::Switch;
use zsr_system::run::in_hand::InHand;
use zsr_topology::Topology;
use zsr_wire::{Frame, FramePool};

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
    /// A flow of items of `item_size` bytes in rings of `ring_size` bytes, READ `max_batch` bytes at a time over path
    /// MTU `mtu`.
    pub fn new(item_size: u32, ring_size: u32, max_batch: u32, mtu: u32) -> Flow {
        let text = format!(
            "defaults: {{mtu: {mtu}}}\nhosts: [h1, h2]\nflows:\n  - {{name: f, producers: [h1], consumers: [h2], item_size: {item_size}, \
             ring_size: {ring_size}, max_batch: {max_batch}, poll_interval: 1us, rto: 10s, doorbell: false}}\n\
             workload: {{kind: synthetic, items: 1}}\n"
        );
        let topology =
            Topology::parse(Path::new("bench.yaml"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let artifacts = Artifacts::built_in().expect("artifacts that fit");
        let mut hosts = InHand::new(&topology, &artifacts, 0).expect("one flow fits");
        let switch = hosts.switch(&artifacts).expect("a switch with the flow's entries");
        let consumer_nic = hosts.nics.pop().expect("two hosts");
        let producer_nic = hosts.nics.pop().expect("two hosts");
        let rings = hosts.rings;
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
