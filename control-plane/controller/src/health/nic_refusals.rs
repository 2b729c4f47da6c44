//! A NIC has refused a request: its queue pair is in error, and the worker that asked has stopped. The cause need not
//! last, so the worker's connections are made anew ([`crate::recovery::resume`]), and the flow goes on from what its
//! rings hold. A request that is refused again and again at the same place, such as for a memory key that is gone,
//! fails the flow.

use crate::Controller;
use crate::api::events::of_flow;
use zsr_api::controller as proto;
use zsr_plan::dataplane::diff::Diff;
use zsr_plan::dataplane::flow::Ticks;
use zsr_plan::dataplane::model::{Flow, Ring};
use zsr_plan::state::User;
use zsr_switch::ClientError;

impl Controller {
    /// The NIC of `who` has refused a request of `worker`. That worker, and workers that share its rings, wait until
    /// their connections have been made anew.
    pub(crate) async fn refused(&self, worker: u16, who: User, why: String) {
        let mut work = self.work_at_last().await;
        let running = {
            let state = self.state();
            let flow = state.flow_of_worker(worker).filter(|f| f.name == who.flow && f.failed.is_none());
            flow.filter(|f| !f.adrift_workers.contains(&worker)).cloned()
        };
        let Some(running) = running else { return };
        // This may be one of several reports, and the cause be mended. A switch that does not answer is watched.
        if !self.ask(&mut work, worker).await.is_ok_and(|state| state.has_stopped()) {
            return;
        }
        let mut waiting = running.clone();
        waiting.adrift_workers.extend(running.workers_beside(worker));
        // Should the session end meanwhile, the next one begins with what the state says.
        let _ = self.stand_still(&mut work, &running, &waiting).await;
        work.journal.note(&waiting.name, Some(&waiting));
        {
            let mut state = self.state();
            let name = waiting.name.clone();
            state.set(&name, Some(waiting));
            state.refusals.note(who, why, self.0.started.elapsed());
        }
        self.0.adrift.notify_one();
    }

    /// A ring that the flow took for lost was only away. The ring's words say which items it was given, so all rings
    /// are looked at once more.
    pub(crate) async fn found_again(&self, flow: &str) {
        let mut work = self.work_at_last().await;
        let running = self.state().flows.get(flow).filter(|f| f.failed.is_none()).cloned();
        let Some(running) = running.filter(|f| !f.lost.is_empty()) else { return };
        let waiting = Flow { adrift_workers: running.workers(), ..running.clone() };
        // Should the session end meanwhile, the next one begins with what the state says.
        let _ = self.stand_still(&mut work, &running, &waiting).await;
        work.journal.note(flow, Some(&waiting));
        self.state().set(flow, Some(waiting));
        self.0.adrift.notify_one();
    }

    /// Workers that are adrift in `waiting` and not in `running` tick no more, and nobody rings for them.
    async fn stand_still(
        &self,
        work: &mut crate::Work,
        running: &Flow,
        waiting: &Flow,
    ) -> Result<(), ClientError> {
        let mut had = self.0.plane.tick_groups(running);
        had.retain(|worker, _| waiting.adrift_workers.contains(worker));
        self.run_workers(work, &had, &Ticks::new()).await?;
        let around = zsr_plan::surroundings::Surroundings::of(&self.state());
        // Rings that are held have no doorbells.
        let newly =
            |ring: &Ring| waiting.waits(ring) && !running.waits(ring) && !running.held.contains(&ring.name);
        // An error would have shown at the start: program and controller fit.
        let bells = self.0.plane.doorbells(running, &around.context(false), newly).unwrap_or_default();
        work.switch.update(Diff::between(bells, Vec::new()).removals().into_iter()).await
    }

    /// Why a flow has workers that are adrift.
    pub(crate) fn why_adrift(&self, flow: &Flow) -> String {
        if flow.adrift_workers.is_empty() {
            return "a consumer that producers waited for was taken out".to_owned();
        }
        let refused = self.state().refusals.of(flow);
        refused.unwrap_or_else(|| format!("switch `{}` had nothing of it", self.switch_name()))
    }

    /// Tells that a flow goes on whose connections were made anew, since requests were `refused`.
    pub(crate) fn tell_renewed(&self, flow: &str, refused: Vec<(User, String)>) {
        self.state().refusals.close(&refused);
        for (user, what) in refused {
            let text = format!(
                "{what}; its queue pairs were made anew, and the flow goes on from what its rings hold"
            );
            let (member, ring) = (user.member, user.ring);
            let event = proto::Event { member, ring, ..of_flow(flow, text) };
            self.0.events.emit(proto::EventKind::FlowResumed, event);
        }
    }
}
