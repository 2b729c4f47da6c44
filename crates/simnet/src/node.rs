//! The nodes of a simulated network.

use std::any::Any;

use zsr_wire::{Frame, FramePool};

/// A state machine without I/O. Times are nanoseconds since the start of the simulation.
pub trait Node: Any {
    /// A frame has arrived at `port`. The buffer is the node's now; [`FramePool::put`] gives it back.
    fn handle(&mut self, now_ns: u64, port: u16, frame: Frame, pool: &mut FramePool);

    /// The next frame to be sent, and the port that it leaves by. Called until it returns `None`, or until a link asks
    /// the node to wait ([`LinkConfig::backlog_ns`](crate::LinkConfig::backlog_ns)).
    fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)>;

    /// When [`Node::on_timer`] is to be called; `None` if no timer runs. A time that has passed means now.
    fn next_timer(&self) -> Option<u64> {
        None
    }

    /// The time of [`Node::next_timer`] has come. Must move that time on or clear it.
    fn on_timer(&mut self, _now_ns: u64) {}
}
