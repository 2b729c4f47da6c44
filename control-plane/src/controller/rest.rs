//! Workers at rest, and registers as fresh: what the controller asks the data plane itself, by packets through the CPU port
//! that it answers with reports (P4: `EV_QUERY`, `EV_RESET`, `REPORT_STATE`).

use super::alloc::{Number, PROBE};
use super::model::{Flow, FlowKind};
use super::refusal::{Kind, Refusal};
use super::{Controller, Work};
use crate::plan::admin::{self, Reset};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

// Phases (p4/common/types.p4).
const IDLE: u8 = 0;
const CLOSED: u8 = 5;
const FAULT: u8 = 6;

/// How long an answer may take before the question is repeated.
const ANSWER: Duration = Duration::from_millis(100);
/// How often a question is repeated.
const QUESTIONS: u32 = 20;
/// How long a worker may take to come to rest.
const REST: Duration = Duration::from_secs(2);
/// Between two questions to a worker that is not at rest.
const PAUSE: Duration = Duration::from_micros(500);

/// What a worker says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkerState {
    pub(super) worker: u16,
    /// The producer ring of its present or last transfer.
    pub(super) producer: u16,
    pub(super) phase: u8,
    /// Of its consumer rings, in bytes.
    pub(super) head: u32,
    /// Of the next packet to its consumers.
    pub(super) psn: u32,
}

impl WorkerState {
    fn at_rest(&self) -> bool {
        [IDLE, CLOSED, FAULT].contains(&self.phase)
    }
}

impl Controller {
    /// Asks a worker how it is.
    async fn ask(&self, work: &mut Work, worker: u16) -> Result<WorkerState, Refusal> {
        let mut answers = self.0.states.subscribe();
        for _ in 0..QUESTIONS {
            work.switch.packet_out(admin::query(worker)).await?;
            let asked = Instant::now();
            while let Some(left) = ANSWER.checked_sub(asked.elapsed()) {
                match tokio::time::timeout(left, answers.recv()).await {
                    Ok(Ok(state)) if state.worker == worker => return Ok(state),
                    // Another worker's, or some were missed.
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
        let message = format!("switch `{}` does not answer for worker {worker}", self.0.switch_name);
        Err(Refusal::new(Kind::Unavailable, message))
    }

    /// Waits until the workers of `old`, which are held, have nothing under way. Rings that join a group in `new` are made
    /// to begin where the group is.
    pub(super) async fn bring_to_rest(
        &self,
        work: &mut Work,
        old: &Flow,
        new: &mut Flow,
    ) -> Result<(), Refusal> {
        let begun = Instant::now();
        let staying = new.workers();
        for worker in old.workers().into_iter().filter(|w| staying.contains(w)) {
            let state = loop {
                let state = self.ask(work, worker).await?;
                if state.at_rest() {
                    break state;
                }
                if begun.elapsed() > REST {
                    self.unstick(work, old, new, &state).await?;
                    break state;
                }
                tokio::time::sleep(PAUSE).await;
            };
            if new.kind == FlowKind::Replicate {
                self.join(work, new, &state).await?;
            }
        }
        Ok(())
    }

    /// Rings without an address begin where the worker is.
    async fn join(&self, work: &mut Work, new: &mut Flow, state: &WorkerState) -> Result<(), Refusal> {
        for ring in new.consumers.iter_mut().flat_map(|m| &mut m.rings).filter(|r| r.address.is_none()) {
            ring.start = state.head;
            ring.ids.data.psn = state.psn;
            let tail =
                Reset { poll_qp: ring.ids.poll.index, consumer_tail: state.head, ..Default::default() };
            work.switch.packet_out(tail.packet()).await?;
        }
        // Behind the resets, which are answered by nothing.
        self.ask(work, PROBE).await.map(|_| ())
    }

    /// A worker that waits for a producer which is leaving, and does not answer any more: its transfer is given up. The
    /// consumer's connections are made anew, since its NIC may have seen part of the transfer; what it was not told to be
    /// complete, it does not see.
    async fn unstick(
        &self,
        work: &mut Work,
        old: &Flow,
        new: &mut Flow,
        state: &WorkerState,
    ) -> Result<(), Refusal> {
        let leaves = |id: u16| !new.rings().any(|r| r.ids.is_producer && r.ids.id == id);
        let stuck = || {
            let message = format!(
                "flow `{}`: its worker {} has a transfer under way that does not come to an end (phase {})",
                old.name, state.worker, state.phase
            );
            Refusal::new(Kind::NotNow, message)
        };
        if !leaves(state.producer) || new.kind == FlowKind::Replicate {
            return Err(stuck());
        }
        let ring = new.consumers.iter_mut().flat_map(|m| &mut m.rings).find(|r| r.ids.worker == state.worker);
        let Some(ring) = ring else { return Err(stuck()) };
        let (found, failure) = self.0.agents.look(std::iter::once(&*ring)).await;
        let Some(words) = found.get(&ring.name) else { return Err(failure.unwrap_or_else(stuck)) };
        // Far from all that may still be on its way.
        ring.ids.data.psn = (state.psn + (1 << 22)) & 0xff_ffff;
        ring.ids.poll.psn = 0;
        self.0.agents.reconnect(ring, new.mtu, &self.0.plane).await?;
        let reset = Reset {
            worker: state.worker,
            poll_qp: ring.ids.poll.index,
            head: words.head,
            consumer_tail: words.tail,
            psn: ring.ids.data.psn,
            ..Default::default()
        };
        // The connection's PSN is the poll's own, and comes last.
        work.switch.packet_out(reset.packet()).await?;
        let poll = Reset { poll_qp: ring.ids.poll.index, consumer_tail: words.tail, ..Default::default() };
        work.switch.packet_out(poll.packet()).await?;
        self.ask(work, PROBE).await.map(|_| ())
    }

    /// Makes registers of numbers that were given back as fresh, batch by batch, until the controller ends.
    pub(super) async fn recycle(&self, mut resting: mpsc::UnboundedReceiver<Vec<Number>>) {
        while let Some(numbers) = resting.recv().await {
            let mut work = self.0.work.lock().await;
            let mut cleaned = Ok(());
            for reset in resets(&numbers) {
                cleaned = work.switch.packet_out(reset.packet()).await.map_err(Refusal::from);
                if cleaned.is_err() {
                    break;
                }
            }
            let cleaned = match cleaned {
                Ok(()) => self.ask(&mut work, PROBE).await.map(|_| ()),
                Err(e) => Err(e),
            };
            // Numbers of a switch that does not answer rest for good.
            if cleaned.is_ok() {
                self.state().numbers.reusable(&numbers);
            }
        }
    }
}

/// As few packets as it takes: each resets one number of each kind.
fn resets(numbers: &[Number]) -> Vec<Reset> {
    let mut out: Vec<Reset> = Vec::new();
    let (mut workers, mut producers, mut qps, mut flows) = (0, 0, 0, 0);
    for &number in numbers {
        let (next, set): (&mut usize, fn(&mut Reset, u16)) = match number {
            Number::Worker(_) => (&mut workers, |r, n| r.worker = n),
            Number::Producer(_) => (&mut producers, |r, n| r.producer = n),
            Number::Qp(_) => (&mut qps, |r, n| r.poll_qp = n),
            Number::Flow(_) => (&mut flows, |r, n| r.flow = n),
        };
        let (Number::Worker(n) | Number::Producer(n) | Number::Qp(n) | Number::Flow(n)) = number;
        if out.len() == *next {
            out.push(Reset::default());
        }
        set(&mut out[*next], n);
        *next += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_takes_one_number_of_each_kind() {
        let numbers = [Number::Worker(1), Number::Qp(2), Number::Qp(3), Number::Producer(4), Number::Qp(5)];
        let resets = resets(&numbers);
        assert_eq!(resets.len(), 3);
        assert_eq!(resets[0], Reset { worker: 1, poll_qp: 2, producer: 4, ..Default::default() });
        assert_eq!((resets[1].poll_qp, resets[2].poll_qp), (3, 5));
    }
}
