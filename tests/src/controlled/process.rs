//! A process of a simulated system: tasks that start, stall and die together, on a clock of their own.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime, RuntimeMetrics};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The resolution of tokio's timers, in nanoseconds from the start of their runtime: none ends between two of these
/// ticks.
const TICK: u64 = 1_000_000;

/// Tasks and their clock, which goes on only when it is told to. Dropping the value kills the process: its tasks vanish
/// where they are.
#[derive(Debug)]
pub struct Process {
    runtime: Runtime,
    metrics: RuntimeMetrics,
    began: Instant,
    began_ns: u64,
    /// How far the process's clock has jumped ahead.
    jumped: Duration,
    /// The tick at which the process's tasks had their last turn.
    tick: Cell<u64>,
    /// Notified when all of the process's tasks wait.
    rest: Arc<Notify>,
}

impl Process {
    /// A process that begins at this virtual time.
    pub fn new(now_ns: u64) -> Process {
        let rest = Arc::new(Notify::new());
        let rests = rest.clone();
        let mut runtime = Builder::new_current_thread();
        runtime.enable_time().start_paused(true).on_thread_park(move || rests.notify_waiters());
        let runtime = runtime.build().expect("a runtime");
        let began = runtime.block_on(async { Instant::now() });
        let metrics = runtime.metrics();
        Process {
            runtime,
            metrics,
            began,
            began_ns: now_ns,
            jumped: Duration::ZERO,
            tick: Cell::new(u64::MAX),
            rest,
        }
    }

    /// Starts a task.
    pub fn spawn<R: Send + 'static>(&self, work: impl Future<Output = R> + Send + 'static) -> JoinHandle<R> {
        self.runtime.spawn(work)
    }

    /// Lets the process's clock alone jump ahead.
    pub fn jump(&mut self, by: Duration) {
        self.jumped += by;
    }

    /// Lets the tasks run until they wait, with the clock at `now_ns`. If the process was not called for a while it has
    /// stalled, and its clock jumps. The call costs next to nothing while there is nothing to do.
    pub fn advance(&self, now_ns: u64) {
        let age = self.jumped + Duration::from_nanos(now_ns.saturating_sub(self.began_ns));
        let tick = age.as_nanos() as u64 / TICK;
        // The tasks all wait. A wake-up from outside puts a task into the global queue; a timer ends at a tick.
        if tick == self.tick.get() && self.metrics.global_queue_depth() == 0 {
            return;
        }
        self.tick.set(tick);
        let due = self.began + age;
        self.runtime.block_on(async {
            let behind = due.saturating_duration_since(Instant::now());
            if !behind.is_zero() {
                tokio::time::advance(behind).await;
            }
            self.rest.notified().await;
        });
    }

    /// The result of a task, of this or another process; `None` if its process was killed before.
    pub fn result<R>(&self, task: JoinHandle<R>) -> Option<R> {
        match self.runtime.block_on(task) {
            Ok(result) => Some(result),
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => None,
        }
    }
}
