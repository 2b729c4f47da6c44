//! Transfers over a [`Flow`] in one thread, step by step as the embedded fabric makes them, with the time of each step.
//!
//! ```text
//! push ─► producer NIC ─► link ─► switch ─► link ─► consumer NIC ─► pop
//! ```
//!
//! The three steps in the middle are functions with fixed symbol names, so that a profiler can be told to count in them
//! alone: `zsr_bench_transmit`, `zsr_bench_switch`, `zsr_bench_receive`.

use crate::alloc::allocations;
use crate::flow::Flow;
use std::time::Instant;
use zsr_link::{MemoryPort, Port, memory_link};
use zsr_soft_nic::Nic;
use zsr_soft_switch::Switch;
use zsr_wire::{Frame, FramePool};

/// Frames that a link holds in each direction.
const LINK_DEPTH: usize = 2048;

/// Time of each step, in nanoseconds, over [`packets`](Self::packets) data packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stages {
    /// Data packets that the switch took in bursts without any other packet.
    pub packets: u64,
    /// Pushing items.
    pub push: u64,
    /// The producer's NIC making READ responses.
    pub transmit: u64,
    /// Both links.
    pub links: u64,
    /// The switch turning READ responses into WRITEs.
    pub switch: u64,
    /// The consumer's NIC taking WRITEs.
    pub receive: u64,
    /// Popping items.
    pub pop: u64,
    /// All that is not data: timer packets, polls, requests, acknowledgements, commits, through NICs and switch.
    pub control: u64,
    /// Allocations while the switch processed data packets.
    pub switch_allocations: u64,
    /// Allocations in all steps.
    pub allocations: u64,
}

impl Stages {
    /// Time of everything, in nanoseconds.
    pub fn total(&self) -> u64 {
        self.push + self.transmit + self.links + self.switch + self.receive + self.pop + self.control
    }
}

/// A flow and links for it, driven from here.
pub struct Stepper {
    /// The flow.
    pub flow: Flow,
    /// Measurements since they were last taken.
    pub stages: Stages,
    /// Links between the NICs (first) and the switch (second), by port number less 1.
    links: [(MemoryPort, MemoryPort); 2],
    frames: Vec<Frame>,
    item: Vec<u8>,
    mtu: usize,
    burst: usize,
}

struct Clock(Instant);

impl Clock {
    /// Nanoseconds since the last call.
    fn lap(&mut self) -> u64 {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.0, now)).as_nanos() as u64
    }
}

impl Stepper {
    /// A flow of items of `item_size` bytes, READ `max_batch` bytes at a time over path MTU `mtu`. A step takes up to
    /// `burst` packets before the next has its turn. Rings hold two batches.
    pub fn new(item_size: u32, max_batch: u32, mtu: u32, burst: usize) -> Self {
        let flow = Flow::new(item_size, 2 * max_batch, max_batch, mtu);
        // Machine code is measured, however long it takes to be made.
        flow.switch.program().is_native();
        Stepper {
            flow,
            stages: Stages::default(),
            links: [memory_link(LINK_DEPTH), memory_link(LINK_DEPTH)],
            frames: Vec::with_capacity(LINK_DEPTH),
            item: vec![7; item_size as usize],
            mtu: mtu as usize,
            burst: burst.min(LINK_DEPTH),
        }
    }

    /// Pushes `items` items and goes on until all are popped.
    pub fn transfer(&mut self, items: u32) {
        let allocated = allocations();
        let mut clock = Clock(Instant::now());
        for _ in 0..items {
            self.flow.producer.try_push(&self.item).expect("room for a batch");
        }
        self.stages.push += clock.lap();
        let mut popped = 0;
        while popped < items {
            self.flow.now += 20_000;
            self.flow.tick();
            self.deliver();
            self.stages.control += clock.lap();
            while self.round(&mut clock) {}
            self.stages.control += clock.lap();
            while self.flow.consumer.try_pop(&mut self.item).is_ok() {
                popped += 1;
            }
            self.stages.pop += clock.lap();
        }
        self.stages.allocations += allocations() - allocated;
    }

    /// A burst from the producer's NIC to the consumer's, and the answer of the consumer's NIC; returns whether
    /// anything moved.
    fn round(&mut self, clock: &mut Clock) -> bool {
        let Flow { producer_nic, consumer_nic, switch, pool, out, now, .. } = &mut self.flow;
        transmit(producer_nic, *now, pool, &mut self.frames, self.burst);
        let transmitted = clock.lap();
        let mut moved = !self.frames.is_empty();
        let data = moved && self.frames.iter().all(|f| f.len() > self.mtu);

        let (nic_end, switch_end) = &mut self.links[0];
        carry(nic_end, switch_end, *now, &mut self.frames, pool);
        let linked = clock.lap();

        let packets = self.frames.len() as u64;
        if data {
            let allocated = allocations();
            process(switch, *now, &mut self.frames, pool, out);
            self.stages.switch_allocations += allocations() - allocated;
        } else {
            process_other(switch, *now, &mut self.frames, pool, out);
        }
        let switched = clock.lap();
        if data {
            self.stages.packets += packets;
            self.stages.transmit += transmitted;
            self.stages.links += linked;
            self.stages.switch += switched;
        } else {
            self.stages.control += transmitted + linked + switched;
        }

        if data {
            // The packet behind the data of a transfer, its commit, is control.
            let written = out.iter().take_while(|(port, f)| *port == 2 && f.len() > self.mtu).count();
            self.frames.extend(out.drain(..written).map(|(_, f)| f));
            let (nic_end, switch_end) = &mut self.links[1];
            carry(switch_end, nic_end, *now, &mut self.frames, pool);
            self.stages.links += clock.lap();
            receive(consumer_nic, *now, &mut self.frames, pool);
            self.stages.receive += clock.lap();
        }
        self.deliver();

        let Flow { consumer_nic, switch, pool, out, now, .. } = &mut self.flow;
        while let Some(frame) = consumer_nic.poll_transmit(*now, pool) {
            moved = true;
            switch.process(*now, 2, frame, pool, out);
        }
        self.deliver();
        self.stages.control += clock.lap();
        moved
    }

    /// Takes what left the switch to the NICs, in order.
    fn deliver(&mut self) {
        let Flow { producer_nic, consumer_nic, pool, out, now, .. } = &mut self.flow;
        for (port, frame) in out.drain(..) {
            let (nic, (nic_end, switch_end)) = if port == 1 {
                (&mut *producer_nic, &mut self.links[0])
            } else {
                (&mut *consumer_nic, &mut self.links[1])
            };
            switch_end.send(*now, frame, pool).expect("room on the link");
            while let Some(frame) = nic_end.recv(*now, pool) {
                nic.handle(*now, frame, pool);
            }
        }
    }
}

fn carry(
    from: &mut MemoryPort,
    to: &mut MemoryPort,
    now: u64,
    frames: &mut Vec<Frame>,
    pool: &mut FramePool,
) {
    for frame in frames.drain(..) {
        from.send(now, frame, pool).expect("room on the link");
    }
    while let Some(frame) = to.recv(now, pool) {
        frames.push(frame);
    }
}

/// Takes up to `burst` frames from the NIC.
#[inline(never)]
#[unsafe(export_name = "zsr_bench_transmit")]
fn transmit(nic: &mut Nic, now: u64, pool: &mut FramePool, frames: &mut Vec<Frame>, burst: usize) {
    while frames.len() < burst
        && let Some(frame) = nic.poll_transmit(now, pool)
    {
        frames.push(frame);
    }
}

/// Has the switch process data packets.
#[inline(never)]
#[unsafe(export_name = "zsr_bench_switch")]
fn process(
    switch: &mut Switch,
    now: u64,
    frames: &mut Vec<Frame>,
    pool: &mut FramePool,
    out: &mut Vec<(u16, Frame)>,
) {
    for frame in frames.drain(..) {
        switch.process(now, 1, frame, pool, out);
    }
}

/// Has the switch process packets that are not all data: a function of its own, which no profiler looks at.
#[inline(never)]
fn process_other(
    switch: &mut Switch,
    now: u64,
    frames: &mut Vec<Frame>,
    pool: &mut FramePool,
    out: &mut Vec<(u16, Frame)>,
) {
    for frame in frames.drain(..) {
        switch.process(now, 1, frame, pool, out);
    }
}

/// Has the NIC take data packets.
#[inline(never)]
#[unsafe(export_name = "zsr_bench_receive")]
fn receive(nic: &mut Nic, now: u64, frames: &mut Vec<Frame>, pool: &mut FramePool) {
    for frame in frames.drain(..) {
        nic.handle(now, frame, pool);
    }
}
