//! The soft NIC as a node of a [`zsr_link::PortLoop`].

use std::collections::VecDeque;

use zsr_link::Node;
use zsr_soft_nic::Nic;
use zsr_wire::{Frame, FramePool, Mac};

use super::NicQueue;

/// Most frames that wait for a link while another one is asked for its next.
const WAITING: usize = 64;
/// A link that takes nothing for so long has nobody at its end.
const DEAD_NS: u64 = 50_000_000;

/// A NIC and the requests of its agent, to be driven over one link, or one to each of several switches. The queue is
/// made with a waker's [`wake`](zsr_link::Waker::wake), and the loop with the same waker. A frame leaves by the link to
/// the switch that it is addressed to.
///
/// A queue pair is connected to one switch, and takes nothing from another ([`zsr_soft_nic`] drops and counts it). So
/// the NIC listens to the switch that it sends to.
pub struct NicNode {
    /// The NIC.
    pub nic: Nic,
    /// Requests of the agent to the NIC.
    pub queue: NicQueue,
    /// By port. Empty with one link.
    links: Vec<Link>,
}

/// A link to one of several switches.
struct Link {
    switch: Mac,
    /// Frames for it, and since when they wait.
    waiting: VecDeque<(u64, Frame)>,
}

impl Link {
    fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING
    }

    fn is_dead(&self, now_ns: u64) -> bool {
        self.waiting.front().is_some_and(|(since, _)| now_ns.saturating_sub(*since) > DEAD_NS)
    }
}

impl NicNode {
    /// A NIC whose port number n leads to the n-th of `switches`.
    pub fn between(nic: Nic, queue: NicQueue, switches: Vec<Mac>) -> Self {
        let several = switches.len() > 1;
        let link = |switch| Link { switch, waiting: VecDeque::new() };
        let links = switches.into_iter().filter(|_| several).map(link).collect();
        NicNode { nic, queue, links }
    }

    /// A NIC with one link.
    pub fn new(nic: Nic, queue: NicQueue) -> Self {
        Self::between(nic, queue, Vec::new())
    }
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

    fn transmit(&mut self, now_ns: u64, port: u16, pool: &mut FramePool) -> Option<Frame> {
        let own = usize::from(port);
        if let Some((_, frame)) = self.links.get_mut(own).and_then(|link| link.waiting.pop_front()) {
            return Some(frame);
        }
        loop {
            // The NIC's next frame may be for a link that is slow: it waits for that. For a link at which nobody is,
            // nothing waits.
            if self.links.iter().any(|link| link.is_full() && !link.is_dead(now_ns)) {
                return None;
            }
            let frame = self.nic.poll_transmit(now_ns, pool)?;
            let to = self.links.iter().position(|link| frame.bytes().starts_with(&link.switch.0));
            match to {
                Some(other) if other != own => {
                    let link = &mut self.links[other];
                    if link.is_full() {
                        pool.put(frame);
                    } else {
                        link.waiting.push_back((now_ns, frame));
                    }
                }
                _ => return Some(frame),
            }
        }
    }

    fn next_due(&self) -> Option<u64> {
        self.nic.next_timeout()
    }
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
