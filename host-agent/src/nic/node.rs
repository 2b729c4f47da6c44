//! The soft NIC as a node of a [`zsr_link::PortLoop`].

use zsr_link::Node;
use zsr_soft_nic::Nic;
use zsr_wire::{Frame, FramePool};

use super::NicQueue;

/// A NIC and the requests of its agent, to be driven over one link (any port number): make the queue with a waker's
/// [`wake`](zsr_link::Waker::wake), and the loop with the same waker.
pub struct NicNode {
    /// The NIC.
    pub nic: Nic,
    /// What the agent asks of it.
    pub queue: NicQueue,
}

impl Node for NicNode {
    fn handle(
        &mut self,
        now_ns: u64,
        _port: u16,
        frame: Frame,
        pool: &mut FramePool,
        _out: &mut Vec<(u16, Frame)>,
    ) {
        self.nic.handle(now_ns, frame, pool);
    }

    fn work(&mut self, now_ns: u64, _pool: &mut FramePool, _out: &mut Vec<(u16, Frame)>) -> usize {
        let mut done = self.queue.drain(&mut self.nic);
        if self.nic.next_timeout().is_some_and(|t| t <= now_ns) {
            self.nic.on_timeout(now_ns);
            done += 1;
        }
        done
    }

    fn transmit(&mut self, now_ns: u64, _port: u16, pool: &mut FramePool) -> Option<Frame> {
        self.nic.poll_transmit(now_ns, pool)
    }

    fn next_due(&self) -> Option<u64> {
        self.nic.next_timeout()
    }
}
