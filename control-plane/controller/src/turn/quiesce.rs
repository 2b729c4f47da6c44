//! Workers at rest, and fresh registers: the questions of the controller to the data plane itself. It sends packets
//! through the CPU port. The data plane answers an `EV_QUERY` with a report (`REPORT_STATE`). An `EV_RESET` has no
//! answer.

use crate::health::doubts;
use crate::times::quiesce::{ANSWER, GATHER, LAST_COMMIT, LATE_ANSWER, NO_ANSWER, PAUSE};
use crate::turn::transaction::stuck;
use crate::{Controller, Work};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use zsr_api::agent;
use zsr_plan::dataplane::admin::{self, Reset};
use zsr_plan::dataplane::alloc::{Number, Resting};
use zsr_plan::dataplane::model::{Doubt, Flow, Ring};
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_plan::p4::names::{PHASE_CLOSED, PHASE_CLOSING, PHASE_FAULT, PHASE_IDLE};
use zsr_switch::patience::within;

/// Packets to the data plane between two questions whether it has processed them: its queue has room for some more.
const AT_ONCE: usize = 256;

/// A worker's answer about its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerState {
    pub(crate) worker: u16,
    /// The producer ring of its present or last transfer.
    pub(crate) producer: u16,
    pub(crate) phase: u8,
    /// Head of the worker's consumer rings, in bytes.
    pub(crate) head: u32,
    /// PSN of the next packet to the worker's consumers.
    pub(crate) psn: u32,
}

/// Workers that were asked to come to rest.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Workers without a transfer under way.
    pub(crate) resting: Vec<WorkerState>,
    /// Workers that still have a transfer under way.
    pub(crate) stuck: Vec<WorkerState>,
}

impl WorkerState {
    fn at_rest(&self) -> bool {
        [PHASE_IDLE, PHASE_CLOSED, PHASE_FAULT].contains(&self.phase)
    }

    /// Whether the worker moves nothing any more, because of an error that it has reported.
    pub(crate) fn has_stopped(&self) -> bool {
        self.phase == PHASE_FAULT
    }

    /// Whether the worker has written its last commit record, or is about to.
    pub(crate) fn has_ended(&self) -> bool {
        [PHASE_CLOSING, PHASE_CLOSED].contains(&self.phase)
    }
}

impl Controller {
    /// Asks a worker for its state.
    pub(crate) async fn ask(&self, work: &mut Work, worker: u16) -> Result<WorkerState, ControllerError> {
        self.ask_behind(work, Vec::new(), worker).await
    }

    /// Sends `packets` to the data plane, and then asks a worker for its state.
    async fn ask_behind(
        &self,
        work: &mut Work,
        mut packets: Vec<Vec<u8>>,
        worker: u16,
    ) -> Result<WorkerState, ControllerError> {
        let _doing = self.doings().begin("asks a worker at the switch");
        let mut answers = self.0.states.subscribe();
        let mut patience = ANSWER;
        let asked = async {
            // Without a session nobody gets the answer.
            while self.is_open() {
                packets.push(admin::query(worker, self.0.plane.pipes()));
                work.switch.packets_out(std::mem::take(&mut packets)).await?;
                let own = async {
                    loop {
                        // Other states are another worker's, or some were missed.
                        if let Ok(state) = answers.recv().await
                            && state.worker == worker
                        {
                            return state;
                        }
                    }
                };
                if let Ok(state) = tokio::time::timeout(patience, own).await {
                    return Ok(Some(state));
                }
                patience = (patience * 2).min(LATE_ANSWER);
            }
            Ok::<_, ControllerError>(None)
        };
        if let Some(state) = within(NO_ANSWER, asked).await.unwrap_or(Ok(None))? {
            return Ok(state);
        }
        let message = format!("switch `{}` does not answer for worker {worker}", self.switch_name());
        Err(ControllerError::new(ErrorKind::Unavailable, message))
    }

    /// Has a worker without producers write its last commit record, and waits until it is acknowledged. Its ticks end at its empty list, so
    /// it repeats nothing by itself: every `rto` it is told to.
    pub(crate) async fn end_worker(
        &self,
        work: &mut Work,
        worker: u16,
        rto: Duration,
    ) -> Result<(), ControllerError> {
        let pipes = self.0.plane.pipes();
        let begun = Instant::now();
        let (mut told, mut packets) = (begun, vec![admin::close(worker, pipes)]);
        loop {
            let state = self.ask_behind(work, std::mem::take(&mut packets), worker).await?;
            if state.phase == PHASE_CLOSED || state.has_stopped() {
                return Ok(());
            }
            if begun.elapsed() > LAST_COMMIT {
                let message = format!("worker {worker} is still in phase {}", state.phase);
                return Err(ControllerError::new(ErrorKind::Stuck, message));
            }
            tokio::time::sleep(PAUSE).await;
            if told.elapsed() >= rto {
                told = Instant::now();
                packets.push(match state.phase {
                    PHASE_CLOSING => admin::retry(worker, pipes),
                    _ => admin::close(worker, pipes),
                });
            }
        }
    }

    /// Waits until `workers`, which are held, have no transfer under way, for at most `time`. Returns the workers that
    /// still have one.
    pub(crate) async fn quiesce(
        &self,
        work: &mut Work,
        workers: &BTreeSet<u16>,
        time: Duration,
    ) -> Result<Rest, ControllerError> {
        let begun = Instant::now();
        let mut rest = Rest::default();
        for &worker in workers {
            let state = loop {
                let state = self.ask(work, worker).await?;
                if state.at_rest() || begun.elapsed() > time {
                    break state;
                }
                tokio::time::sleep(PAUSE).await;
            };
            if state.at_rest() { rest.resting.push(state) } else { rest.stuck.push(state) }
        }
        Ok(rest)
    }

    /// Rings without an address begin at the position of their group's worker.
    pub(crate) fn join(new: &mut Flow, state: &WorkerState) {
        for ring in new.consumers.iter_mut().flat_map(|m| &mut m.rings).filter(|r| r.address.is_none()) {
            ring.start = state.head;
            ring.ids.data.psn = state.psn;
        }
    }

    /// Sets registers, and waits until that is done.
    pub(crate) async fn reset(&self, work: &mut Work, resets: &[Reset]) -> Result<(), ControllerError> {
        for some in resets.chunks(AT_ONCE) {
            let packets = some.iter().map(|r| r.packet(self.0.plane.pipes())).collect();
            // A reset has no answer of its own.
            self.ask_behind(work, packets, self.0.plane.room().probe()).await?;
        }
        Ok(())
    }

    /// Gives up the transfer of a worker that does not end, because one of its members is leaving and does not answer
    /// any more. The connections of members that stay are made anew, since their NICs may have seen part of the
    /// transfer. A consumer does not see items that were not committed, and the producer still has items that were not
    /// completed.
    pub(crate) async fn give_up(
        &self,
        work: &mut Work,
        old: &Flow,
        new: &mut Flow,
        state: &WorkerState,
    ) -> Result<(), ControllerError> {
        let stuck = stuck(old, state);
        let stays = new.rings().any(|r| r.ids.is_producer && r.ids.id == state.producer);
        if new.workers().contains(&state.worker) {
            // The other members that it waits for are not leaving.
            return if stays {
                Err(stuck)
            } else {
                self.renew_consumers(work, (old, new), state, stuck).await
            };
        }
        // The worker leaves with its consumer; no other worker has a shuffle's rings.
        if new.kind.competes() && stays {
            self.renew_producer(work, (old, new), state, stuck).await?;
        }
        Ok(())
    }

    /// Notes that consumers which leave may have consumed the transfer of a worker that is about to be given up, though
    /// the switch has not heard so. The note is written before the items can come to others.
    async fn note_given_up(
        &self,
        work: &mut Work,
        (old, new): (&Flow, &mut Flow),
        state: &WorkerState,
    ) -> Result<(), ControllerError> {
        let stays = |ring: &Ring| new.rings().any(|r| r.name == ring.name);
        let producers = || old.producers.iter().flat_map(|m| &m.rings);
        let Some(producer) = producers().find(|r| r.ids.id == state.producer) else { return Ok(()) };
        let consumers = old.consumers.iter().flat_map(|m| m.rings.iter().map(move |r| (m, r)));
        let leave = consumers.filter(|(_, r)| r.ids.worker == state.worker && !stays(r));
        let leave: Vec<(&str, u32)> = leave.map(|(m, r)| (m.name.as_str(), r.size)).collect();
        if state.phase == PHASE_CLOSING || leave.is_empty() {
            return Ok(());
        }
        let found = self.0.agents.look(std::iter::once(producer)).await.0;
        let doubts = leave.into_iter().map(|to| match found.get(&producer.name) {
            Some(words) => doubts::doubt(old, to, producer, words),
            None => Some(doubts::doubt_of_lost(old, to, producer)),
        });
        let doubts: Vec<Doubt> = doubts.flatten().collect();
        new.note_told(&doubts);
        self.written(work, std::slice::from_ref(&new.name), |journal| journal.begin(&new.name, Some(new)))?;
        Ok(())
    }

    /// Gives up a worker's transfer; its consumers stay.
    async fn renew_consumers(
        &self,
        work: &mut Work,
        (old, new): (&Flow, &mut Flow),
        state: &WorkerState,
        stuck: ControllerError,
    ) -> Result<(), ControllerError> {
        self.note_given_up(work, (old, new), state).await?;
        let (mtu, worker) = (new.mtu, state.worker);
        let of_worker = |r: &&mut Ring| r.ids.worker == worker;
        let mut rings: Vec<&mut Ring> =
            new.consumers.iter_mut().flat_map(|m| &mut m.rings).filter(of_worker).collect();
        let words = self.words(rings.iter().map(|r| &**r), stuck).await?;
        let Some(head) = words.first().map(|w| w.head) else { return Ok(()) };
        if words.iter().any(|w| w.head != head) {
            let message = format!(
                "the last transfer reached some consumers and not others before its producer `{}` was lost",
                self.state().user_of_producer(state.producer).map_or("?".into(), |u| u.member.clone())
            );
            return Err(ControllerError::new(ErrorKind::NotNow, message));
        }
        // The tail of the consumer that has the most to pop.
        let tail = words.iter().map(|w| w.tail).max_by_key(|t| head.wrapping_sub(*t)).unwrap_or(head);
        // Far from all packets that may still be on their way.
        let psn = (state.psn + (1 << 22)) & 0xff_ffff;
        let tails: Vec<u32> = words.iter().map(|w| w.tail).collect();
        for ring in &mut rings {
            (ring.ids.data.psn, ring.ids.poll.psn) = (psn, 0);
            self.0.agents.reconnect(ring, mtu, &self.0.plane).await?;
        }
        let mut resets = vec![Reset { worker, head, consumer_tail: tail, psn, ..Default::default() }];
        for (ring, consumer_tail) in rings.iter().zip(tails) {
            resets.push(Reset { poll_qp: ring.ids.poll.index, consumer_tail, ..Default::default() });
        }
        self.reset(work, &resets).await
    }

    /// The agents' words about these rings, about all of them.
    async fn words<'r>(
        &self,
        rings: impl Iterator<Item = &'r Ring> + Clone,
        stuck: ControllerError,
    ) -> Result<Vec<agent::Ring>, ControllerError> {
        // Other changes wait meanwhile, and the member is gone, too.
        if rings.clone().any(|r| !self.is_connected(&r.host)) {
            return Err(stuck);
        }
        let (mut found, failure) = self.0.agents.look(rings.clone()).await;
        let words: Option<Vec<_>> = rings.map(|r| found.remove(&r.name)).collect();
        words.ok_or_else(|| failure.unwrap_or(stuck))
    }

    /// Gives up a worker's transfer together with the worker; its producer stays, for other workers.
    async fn renew_producer(
        &self,
        work: &mut Work,
        (old, new): (&Flow, &mut Flow),
        state: &WorkerState,
        stuck: ControllerError,
    ) -> Result<(), ControllerError> {
        self.note_given_up(work, (old, new), state).await?;
        // The worker first, so that it repeats nothing in between.
        let (worker, head, psn) = (state.worker, state.head, state.psn);
        let idle = Reset { worker, head, consumer_tail: head, psn, ..Default::default() };
        work.switch.packet_out(idle.packet(self.0.plane.pipes())).await?;
        let mtu = new.mtu;
        let mut rings = new.producers.iter_mut().flat_map(|m| &mut m.rings);
        let Some(ring) = rings.find(|r| r.ids.id == state.producer) else { return Err(stuck) };
        let tail = self.words(std::iter::once(&*ring), stuck).await?[0].tail;
        // Any PSN: the position of the old connection is not known, and was far away all but surely.
        ring.ids.data.psn = self.state().chance.psn();
        ring.ids.poll.psn = 0;
        self.0.agents.reconnect(ring, mtu, &self.0.plane).await?;
        // The reset makes the producer free for other workers, too.
        let reset = Reset {
            producer: ring.ids.id,
            producer_tail: tail,
            psn: ring.ids.data.psn,
            ..Default::default()
        };
        let poll = Reset { poll_qp: ring.ids.poll.index, ..Default::default() };
        self.reset(work, &[reset, poll]).await
    }

    /// Has workers look at once at what they wait for, not only when their back-off ends.
    pub(crate) async fn nudge(&self, work: &mut Work, stuck: &[WorkerState]) -> Result<(), ControllerError> {
        for state in stuck {
            work.switch.packet_out(admin::retry(state.worker, self.0.plane.pipes())).await?;
        }
        Ok(())
    }

    /// Makes registers of numbers that were given back fresh, batch by batch, until the controller ends.
    pub(crate) async fn recycle(&self, mut resting: mpsc::UnboundedReceiver<Resting>) {
        let mut next = None;
        loop {
            let first = match next.take() {
                Some(resting) => Some(resting),
                None => resting.recv().await,
            };
            let Some((era, mut numbers)) = first else { return };
            if numbers.len() < AT_ONCE / 2 {
                tokio::time::sleep(GATHER).await;
            }
            while next.is_none() && numbers.len() < AT_ONCE / 2 {
                match resting.try_recv() {
                    Ok((of, more)) if of == era => numbers.extend(more),
                    Ok(other) => next = Some(other),
                    Err(_) => break,
                }
            }
            loop {
                let mut work = self.work_at_last().await;
                // Numbers of a switch that has gone rest until it is started anew.
                if self.state().numbers.era() != era || !self.is_open() {
                    break;
                }
                if self.clean(&mut work, &numbers).await.is_ok() {
                    self.state().numbers.reusable(&numbers);
                    break;
                }
                drop(work);
                tokio::time::sleep(LATE_ANSWER).await;
            }
        }
    }

    async fn clean(&self, work: &mut Work, numbers: &[Number]) -> Result<(), ControllerError> {
        self.reset(work, &resets(numbers)).await?;
        Ok(work.switch.update(self.zeros(numbers)?.into_iter()).await?)
    }
}

/// As few packets as possible: each packet resets one number of each kind.
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
