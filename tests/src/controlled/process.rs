//! A process of a simulated system: tasks that start, stall and die together, on a clock of their own.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::Instant;

/// How often the tasks that can run have their turn at one time; what is left has it at the next.
const TURNS: usize = 2;

/// Tasks, and their clock, which goes on only when it is told to. To drop it is to kill the process: its tasks vanish where they are.
#[derive(Debug)]
pub struct Process {
    runtime: Runtime,
    began: Instant,
    began_ns: u64,
    /// How far its clock has jumped ahead.
    jumped: Duration,
}

impl Process {
    /// A process that begins at this virtual time.
    pub fn new(now_ns: u64) -> Process {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let began = runtime.block_on(async { Instant::now() });
        Process { runtime, began, began_ns: now_ns, jumped: Duration::ZERO }
    }

    /// Starts a task.
    pub fn spawn<R: Send + 'static>(&self, work: impl Future<Output = R> + Send + 'static) -> JoinHandle<R> {
        self.runtime.spawn(work)
    }

    /// Its clock, and no other one, jumps ahead.
    pub fn jump(&mut self, by: Duration) {
        self.jumped += by;
    }

    /// Lets the tasks run until they wait, with the clock at `now_ns`. A process that was not called for a while has stalled, and its
    /// clock jumps.
    pub fn advance(&self, now_ns: u64) {
        let due = self.began + self.jumped + Duration::from_nanos(now_ns.saturating_sub(self.began_ns));
        self.runtime.block_on(async {
            let behind = due.saturating_duration_since(Instant::now());
            if !behind.is_zero() {
                tokio::time::advance(behind).await;
            }
            for _ in 0..TURNS {
                yield_now().await;
            }
        });
    }

    /// What a task, of this or another process, has returned; `None` if its process was killed before.
    pub fn result<R>(&self, task: JoinHandle<R>) -> Option<R> {
        match self.runtime.block_on(task) {
            Ok(result) => Some(result),
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => None,
        }
    }
}
