//! Listens for events of one flow, in a thread of its own.

use crate::cli::client::Session;
use crate::controller::proto;
use crate::process::Place;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two attempts to reach the controller.
const AGAIN: Duration = Duration::from_millis(200);

/// Knows whether something has happened to a flow.
pub(super) struct Follower {
    news: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Follower {
    /// Follows `flow` until it is dropped.
    pub(super) fn start(place: &Place, flow: &str) -> Self {
        let (news, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (tell, is_over) = (news.clone(), ended.clone());
        let (place, flow) = (place.clone(), flow.to_owned());
        // Without a thread there are no news; what was given up is noticed all the same.
        let _ = std::thread::Builder::new().name("zsr-follow".to_owned()).spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(session) = Session::open(&place) {
                    listen(&session, &flow, &tell, &is_over);
                }
                std::thread::sleep(AGAIN);
            }
        });
        Follower { news, ended }
    }

    /// Whether something has happened since the last call.
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Acquire)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Until the stream ends, or nobody wants to know any more.
fn listen(session: &Session, flow: &str, tell: &AtomicBool, is_over: &AtomicBool) {
    session.runtime.block_on(async {
        let mut client = session.client.clone();
        let request = proto::WatchEventsRequest { after: None, past_only: false };
        let Ok(events) = client.watch_events(request).await else { return };
        let mut events = events.into_inner();
        // What was before may have been missed.
        tell.store(true, Ordering::Release);
        while !is_over.load(Ordering::Relaxed) {
            match tokio::time::timeout(AGAIN, events.message()).await {
                Ok(Ok(Some(event))) => {
                    use proto::EventKind::{ProgramAttached, ProgramDied, ProgramLeft};
                    let of_programs = matches!(event.kind(), ProgramAttached | ProgramDied | ProgramLeft);
                    // Without a flow: events were missed.
                    if (event.flow == flow && !of_programs) || event.flow.is_empty() {
                        tell.store(true, Ordering::Release);
                    }
                }
                Ok(_) => return,
                Err(_) => {}
            }
        }
    });
}
