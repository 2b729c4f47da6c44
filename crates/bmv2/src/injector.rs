//! Gives the time to a bmv2 whose ports are interfaces: timer packets into the far end of one.

use std::time::Duration;

use zsr_link::{AnyPort, LinkError, LoopConfig, LoopThread, Node, PortLoop, Waker};
use zsr_wire::{Frame, FramePool};

use crate::bridge::{Clock, Ticks};
use crate::error::Bmv2Error;

/// A thread that sends [`Ticks`] over a link. It ends when this is dropped.
pub struct Injector(Option<LoopThread<Source>>);

impl Injector {
    /// Sends `ticks` over `link` from now on; their port's number is the far end's affair. `trouble` hears of what goes
    /// wrong there, and when that is over.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(
        link: AnyPort,
        ticks: Ticks,
        trouble: impl Fn(u16, Option<&LinkError>) + Send + Sync + 'static,
    ) -> Result<Injector, Bmv2Error> {
        let port = ticks.port;
        let mut source = PortLoop::new(
            Source { port, clock: Clock::new(ticks) },
            &Waker::new()?,
            LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() },
        )?;
        source.on_trouble(trouble);
        source.add_port(port, link)?;
        let thread = source
            .spawn("zsr-ticks")
            .map_err(|source| Bmv2Error::Io { what: "starting the thread that ticks", source })?;
        Ok(Injector(Some(thread)))
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            thread.stop();
        }
    }
}

struct Source {
    port: u16,
    clock: Clock,
}

impl Node for Source {
    fn handle(
        &mut self,
        _now_ns: u64,
        _port: u16,
        frame: Frame,
        pool: &mut FramePool,
        _out: &mut Vec<(u16, Frame)>,
    ) {
        pool.put(frame);
    }

    fn work(&mut self, now_ns: u64, _pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) -> usize {
        let Some(frame) = self.clock.take(now_ns).and_then(|packet| Frame::copy_from(&packet)) else {
            return 0;
        };
        out.push((self.port, frame));
        1
    }

    fn next_due(&self) -> Option<u64> {
        Some(self.clock.due())
    }
}
