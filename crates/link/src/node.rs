//! What sits between ports: a switch, or a NIC.

use std::time::Instant;

use zsr_wire::{Frame, FramePool};

/// A node that a [`PortLoop`](crate::PortLoop) drives. It does no I/O and reads no clock; no call blocks, except those about sleep.
pub trait Node {
    /// Takes a frame that arrived at `port`. What leaves because of it is added to `out`, each with the port that it
    /// leaves by.
    fn handle(
        &mut self,
        now_ns: u64,
        port: u16,
        frame: Frame,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    );

    /// Does what is to be done though no frame came: timers that are due, requests of other threads. Called every
    /// round; returns how many things were done, 0 if there was nothing to do.
    fn work(&mut self, now_ns: u64, pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) -> usize;

    /// The next frame that the node has to send by `port`. Asked only while the link has room, so that a node which
    /// makes frames on demand makes them no sooner.
    fn transmit(&mut self, _now_ns: u64, _port: u16, _pool: &mut FramePool) -> Option<Frame> {
        None
    }

    /// As many frames wait at `port` now ([`Port::waiting`](crate::Port::waiting)), for a node that marks what meets a
    /// queue. Told when the number has changed.
    fn queued(&mut self, _port: u16, _frames: usize) {}

    /// When [`Node::work`] has something to do at the latest; `None` if at no particular time.
    fn next_due(&self) -> Option<u64>;

    /// Told that the loop is about to sleep, until `due` if nothing ends the sleep before; `start` is the moment of its
    /// time 0. Until [`wakes_up`](Node::wakes_up) no other call comes, so that other threads may use what the node has.
    fn falls_asleep(&mut self, _start: Instant, _due: Option<u64>) {}

    /// Told that the sleep is over. It may wait for a thread that uses what the node has.
    fn wakes_up(&mut self) {}
}
