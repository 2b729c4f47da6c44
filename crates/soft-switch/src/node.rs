//! The switch as a node of a [`zsr_link::PortLoop`].

use zsr_link::Node;
use zsr_wire::{Frame, FramePool};

use crate::handle::ControlQueue;
use crate::switch::{AssertReport, Switch, TimerShare};

/// Packets that wait for another pass, or came as packet-outs, and are run per round.
const BURST: usize = 64;

/// Hears of assertions that do not hold.
type Tell = Box<dyn FnMut(&AssertReport) + Send>;

/// A switch and the requests of its control plane, to be driven over links. The queue is made with a waker's
/// [`wake`](zsr_link::Waker::wake), and the loop with the same waker.
pub struct SwitchNode {
    /// The switch.
    pub switch: Switch,
    /// The requests of other threads to the switch.
    pub control: ControlQueue,
    timers: TimerShare,
    tell_failed: Option<Tell>,
    tell_trace: Option<Box<dyn FnMut(Vec<String>) + Send>>,
    /// Whether frames came since the last round.
    came: bool,
}

impl SwitchNode {
    /// `switch`, asked by `control`.
    pub fn new(switch: Switch, control: ControlQueue) -> Self {
        SwitchNode {
            switch,
            control,
            timers: TimerShare::default(),
            tell_failed: None,
            tell_trace: None,
            came: false,
        }
    }

    /// Has `tell` called for each assertion of the program that does not hold, once a second at most.
    pub fn on_failed_assert(&mut self, tell: impl FnMut(&AssertReport) + Send + 'static) {
        self.tell_failed = Some(Box::new(tell));
    }

    /// Has `tell` called with what traced programs tell, once per round.
    pub fn on_trace(&mut self, tell: impl FnMut(Vec<String>) + Send + 'static) {
        self.tell_trace = Some(Box::new(tell));
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
        if let Some(tell) = &mut self.tell_trace {
            let lines = self.switch.take_trace();
            if !lines.is_empty() {
                tell(lines);
            }
        }
        if let Some(tell) = &mut self.tell_failed {
            self.switch.failed_asserts(now_ns).iter().for_each(tell);
        }
        done
    }

    fn queued(&mut self, port: u16, frames: usize) {
        self.switch.set_queue_depth(port, frames);
    }

    fn next_due(&self) -> Option<u64> {
        if self.switch.has_pending() {
            return Some(0);
        }
        let told = self.switch.next_assert_report().filter(|_| self.tell_failed.is_some());
        [self.timers.next(&self.switch), told].into_iter().flatten().min()
    }
}
