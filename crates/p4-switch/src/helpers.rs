//! Threads that receive from interfaces and send to them, so that the thread of the program has no system calls to make.

use std::sync::Mutex;

use zsr_link::{AnyPort, LinkError, LoopConfig, LoopStats, LoopThread, Node, PortLoop, Waker, loop_link};
use zsr_wire::{Frame, FramePool};

use crate::ports::lock;

/// Frames between two threads, in each direction.
const BETWEEN: usize = 1024;
/// Added to a port's number: its other side, towards the program.
pub(crate) const INNER: u16 = 512;

/// Passes on what comes in at one side of a port to the other.
struct Patch;

impl Node for Patch {
    fn handle(&mut self, _: u64, port: u16, frame: Frame, _: &mut FramePool, out: &mut Vec<(u16, Frame)>) {
        out.push((port ^ INNER, frame));
    }

    fn work(&mut self, _: u64, _: &mut FramePool, _: &mut Vec<(u16, Frame)>) -> usize {
        0
    }

    fn next_due(&self) -> Option<u64> {
        None
    }
}

struct Helper {
    thread: LoopThread<Patch>,
    waker: Waker,
    ports: Vec<u16>,
}

/// The helping threads. There may be none.
pub(crate) struct Helpers {
    /// Wakes the thread of the program.
    program: Waker,
    all: Mutex<Vec<Helper>>,
}

impl Helpers {
    /// So many threads; `trouble` hears of what goes wrong at which port.
    pub(crate) fn new(
        many: usize,
        program: &Waker,
        trouble: impl Fn(u16, Option<&LinkError>) + Clone + Send + Sync + 'static,
    ) -> Result<Helpers, String> {
        let helper = |i: usize| {
            let waker = Waker::new().map_err(|e| e.to_string())?;
            let mut ports = PortLoop::new(Patch, &waker, LoopConfig::default()).map_err(|e| e.to_string())?;
            ports.on_trouble(trouble.clone());
            let thread = ports.spawn(&format!("zsr-ports-{i}")).map_err(|e| e.to_string())?;
            Ok::<_, String>(Helper { thread, waker, ports: Vec::new() })
        };
        let all = (1..=many).map(helper).collect::<Result<Vec<_>, _>>()?;
        Ok(Helpers { program: program.clone(), all: Mutex::new(all) })
    }

    /// Gives an interface to the thread that has fewest. `Ok`: what the program's thread has in its place. Behind an error the port may be
    /// there in part: [`give_back`](Self::give_back) it.
    pub(crate) fn take(&self, port: u16, link: AnyPort) -> Result<AnyPort, String> {
        let mut all = lock(&self.all);
        let Some(helper) = all.iter_mut().min_by_key(|helper| helper.ports.len()) else { return Ok(link) };
        let (near, far) = loop_link(BETWEEN, &self.program, &helper.waker);
        helper.ports.push(port);
        for (number, link) in [(port | INNER, Box::new(far) as AnyPort), (port, link)] {
            let added = helper.thread.handle().add_port(number, link).ok_or("the switch has stopped")?;
            added.map_err(|e| e.to_string())?;
        }
        Ok(Box::new(near))
    }

    /// Closes the interface of a port.
    pub(crate) fn give_back(&self, port: u16) {
        let mut all = lock(&self.all);
        for helper in all.iter_mut().filter(|helper| helper.ports.contains(&port)) {
            helper.ports.retain(|one| *one != port);
            let handle = helper.thread.handle();
            drop((handle.remove_port(port), handle.remove_port(port | INNER)));
        }
    }

    /// Has all threads look at their ports again.
    pub(crate) fn wake(&self) {
        lock(&self.all).iter().for_each(|helper| helper.waker.wake());
    }

    /// What each thread has done.
    pub(crate) fn stats(&self) -> Vec<LoopStats> {
        lock(&self.all).iter().map(|helper| helper.thread.handle().stats()).collect()
    }

    /// Ends all threads. What still waits between them is lost.
    pub(crate) fn stop(&self) {
        let mut all = lock(&self.all);
        all.drain(..).for_each(|helper| drop(helper.thread.stop()));
    }
}
