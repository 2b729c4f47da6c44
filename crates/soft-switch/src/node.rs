//! The switch as a node of a [`zsr_link::PortLoop`].

use std::time::Instant;

use zsr_link::Node;
use zsr_wire::{Frame, FramePool};

use crate::handle::ControlQueue;
use crate::switch::{AssertReport, Switch, TimerShare};

/// Packets that wait for another pass, or came as packet-outs, and are run per round.
const BURST: usize = 64;

/// Hears of assertions that do not hold.
type Tell = Box<dyn FnMut(&AssertReport) + Send>;

/// A switch, and what drives it in a loop.
pub(crate) struct Driven {
    pub switch: Switch,
    timers: TimerShare,
    tell_failed: Option<Tell>,
    tell_trace: Option<Box<dyn FnMut(Vec<String>) + Send>>,
    /// Whether frames came since the last round.
    came: bool,
}

impl Driven {
    /// When there is something to do next.
    pub(crate) fn next_due(&self) -> Option<u64> {
        if self.switch.has_pending() {
            return Some(0);
        }
        let told = self.switch.next_assert_report().filter(|_| self.tell_failed.is_some());
        [self.timers.next(&self.switch), told].into_iter().flatten().min()
    }
}

/// A switch and the requests of its control plane, to be driven over links. The queue is made with a waker's
/// [`wake`](zsr_link::Waker::wake), and the loop with the same waker.
pub struct SwitchNode {
    /// None while the loop sleeps, and callers may use it.
    driven: Option<Box<Driven>>,
    control: ControlQueue,
}

impl SwitchNode {
    /// `switch`, asked by `control`.
    pub fn new(switch: Switch, control: ControlQueue) -> Self {
        let driven = Driven {
            switch,
            timers: TimerShare::default(),
            tell_failed: None,
            tell_trace: None,
            came: false,
        };
        SwitchNode { driven: Some(Box::new(driven)), control }
    }

    #[inline]
    fn driven(&mut self) -> &mut Driven {
        self.driven.as_mut().expect("the loop is awake")
    }

    /// Has `tell` called for each assertion of the program that does not hold, once a second at most.
    pub fn on_failed_assert(&mut self, tell: impl FnMut(&AssertReport) + Send + 'static) {
        self.driven().tell_failed = Some(Box::new(tell));
    }

    /// Has `tell` called with what traced programs tell, once per round.
    pub fn on_trace(&mut self, tell: impl FnMut(Vec<String>) + Send + 'static) {
        self.driven().tell_trace = Some(Box::new(tell));
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
        let driven = self.driven();
        driven.came = true;
        driven.switch.process(now_ns, port, frame, pool, out);
    }

    fn work(&mut self, now_ns: u64, pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) -> usize {
        let SwitchNode { driven: Some(driven), control } = self else { return 0 };
        let Driven { switch, timers, tell_failed, tell_trace, came } = &mut **driven;
        let mut done = control.drain(switch, now_ns);
        done += timers.fire(switch, std::mem::take(came), now_ns, pool, out);
        if switch.has_pending() {
            done += switch.run_pending(now_ns, BURST, pool, out);
        }
        if let Some(tell) = tell_trace {
            let lines = switch.take_trace();
            if !lines.is_empty() {
                tell(lines);
            }
        }
        if let Some(tell) = tell_failed {
            switch.failed_asserts(now_ns).iter().for_each(tell);
        }
        done
    }

    fn queued(&mut self, port: u16, frames: usize) {
        self.driven().switch.set_queue_depth(port, frames);
    }

    fn next_due(&self) -> Option<u64> {
        self.driven.as_ref().and_then(|driven| driven.next_due())
    }

    fn falls_asleep(&mut self, start: Instant, due: Option<u64>) {
        if let Some(driven) = self.driven.take() {
            self.control.lend(driven, start, due);
        }
    }

    fn wakes_up(&mut self) {
        if let Some(driven) = self.control.take_back() {
            self.driven = Some(driven);
        }
    }
}
