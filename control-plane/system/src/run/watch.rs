//! Reports of the controller while a run moves data: silent members, flows that have failed. A run delivers all items
//! to all members, so a member that is taken out of a flow ends it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast::error::RecvError;
use zsr_api::controller::{Event, EventKind};
use zsr_controller::Controller;

/// Reports so far.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Said>>);

#[derive(Default)]
struct Said {
    fatal: Option<String>,
    notes: Vec<String>,
    /// The run is being taken down: members that go now were meant to.
    ended: bool,
}

impl Reports {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first report that ended a flow.
    pub fn fatal(&self) -> Option<String> {
        self.said().fatal.clone()
    }

    /// Reports so far that did not end a flow; each is returned once.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.said().notes)
    }

    /// The run has failed, for this reason.
    pub(super) fn fail(&self, why: String) {
        self.said().fatal.get_or_insert(why);
    }

    /// From now on, reports are not about the run.
    pub(super) fn end(&self) {
        self.said().ended = true;
    }

    /// Takes in reports until the controller ends.
    pub(super) async fn watch(self, controller: Controller) {
        let (_, mut news) = controller.events(None);
        let gone = controller.is_gone();
        drop(controller);
        let listening = async {
            loop {
                match news.recv().await {
                    Ok(event) => self.take(&event),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        };
        tokio::select! {
            () = gone => {}
            () = listening => {}
        }
    }

    fn take(&self, event: &Event) {
        let mut said = self.said();
        if said.ended {
            return;
        }
        let (flow, member, text) = (&event.flow, &event.member, &event.text);
        match event.kind() {
            EventKind::FlowFailed => drop(said.fatal.get_or_insert(format!("flow `{flow}`: {text}"))),
            EventKind::MemberRemoved => {
                let why = format!("flow `{flow}`: member `{member}` was taken out: {text}");
                said.fatal.get_or_insert(why);
            }
            EventKind::MemberSilent => {
                said.notes.push(match member.as_str() {
                    "" => format!("flow `{flow}`: {text}; still trying"),
                    _ => format!("flow `{flow}`, member `{member}`: {text}; still trying"),
                });
            }
            _ => {}
        }
    }
}
