//! The switch as a node of a [`zsr_link::PortLoop`].

use zsr_link::Node;
use zsr_wire::{Frame, FramePool};

use crate::handle::ControlQueue;
use crate::switch::{Switch, TimerShare};

/// Packets that wait for another pass, or came as packet-outs, and are run per round.
const BURST: usize = 64;

/// A switch and the requests of its control plane, to be driven over links: make the queue with a waker's
/// [`wake`](zsr_link::Waker::wake), and the loop with the same waker.
pub struct SwitchNode {
    /// The switch.
    pub switch: Switch,
    /// What other threads ask of it.
    pub control: ControlQueue,
    timers: TimerShare,
    /// Whether frames came since the last round.
    came: bool,
}

impl SwitchNode {
    /// `switch`, asked by `control`.
    pub fn new(switch: Switch, control: ControlQueue) -> Self {
        SwitchNode { switch, control, timers: TimerShare::default(), came: false }
    }
}

impl Node for SwitchNode {
    fn handle(
        &mut self,
        now_ns: u64,
        port: u16,
        frame: Frame,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) {
        self.came = true;
        self.switch.process(now_ns, port, frame, pool, out);
    }

    fn work(&mut self, now_ns: u64, pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) -> usize {
        let mut done = self.control.drain(&mut self.switch, now_ns);
        let waiting = std::mem::take(&mut self.came);
        done += self.timers.fire(&mut self.switch, waiting, now_ns, pool, out);
        if self.switch.has_pending() {
            done += self.switch.run_pending(now_ns, BURST, pool, out);
        }
        done
    }

    fn queued(&mut self, port: u16, frames: usize) {
        self.switch.set_queue_depth(port, frames);
    }

    fn next_due(&self) -> Option<u64> {
        if self.switch.has_pending() { Some(0) } else { self.timers.next(&self.switch) }
    }
}
