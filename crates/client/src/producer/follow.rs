//! Follows a flow, in a thread of its own: what it is now is there for whoever pushes into it, without a call to the controller.

use crate::contact::Contact;
use crate::session::{ClientError, Session, refused};
use crate::sigpipe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tonic::Code;
use zsr_api::controller as proto;

/// Between two attempts to reach the controller.
const AGAIN: Duration = Duration::from_millis(200);
/// How long the controller may take to say what the flow is.
const ANSWER: Duration = Duration::from_secs(10);

/// What has become of a flow.
#[derive(Debug)]
pub(super) enum News {
    /// It is this now.
    Flow(Box<proto::Flow>),
    /// There is no such flow any more, in the controller's words.
    Gone(String),
}

/// Knows what a flow is.
pub(super) struct Follower(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Whether `latest` was not looked at.
    fresh: AtomicBool,
    latest: Mutex<Option<News>>,
    is_over: AtomicBool,
}

impl Follower {
    /// Follows `flow` until it is dropped.
    ///
    /// # Errors
    /// No room for a thread.
    pub(super) fn start(contact: &Contact, flow: &str) -> Result<Self, ClientError> {
        let shared = Arc::new(Shared::default());
        let (tell, contact, flow) = (shared.clone(), contact.clone(), flow.to_owned());
        let follow = move || {
            let _quiet = sigpipe::block();
            while !tell.is_over.load(Ordering::Relaxed) {
                if let Ok(session) = Session::open(&contact)
                    && session.runtime.block_on(listen(&session, &flow, &tell))
                {
                    return;
                }
                std::thread::sleep(AGAIN);
            }
        };
        let thread = std::thread::Builder::new().name("zsr-follow".to_owned());
        thread.spawn(follow).map_err(|source| ClientError::Io { what: "starting threads", source })?;
        Ok(Follower(shared))
    }

    /// Whether something has happened that was not [taken](Self::take).
    pub(super) fn has_news(&self) -> bool {
        self.0.fresh.load(Ordering::Relaxed)
    }

    /// What the flow is, if that is news.
    pub(super) fn take(&self) -> Option<News> {
        if !self.has_news() {
            return None;
        }
        let mut latest = self.0.latest.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.fresh.store(false, Ordering::Relaxed);
        latest.take()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn tell(&self, news: News) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Some(news);
        self.fresh.store(true, Ordering::Relaxed);
    }
}

/// Until the controller is away, nobody wants to know any more, or the flow is gone: says whether it is.
async fn listen(session: &Session, flow: &str, shared: &Shared) -> bool {
    let mut client = session.client.clone();
    let request = proto::WatchEventsRequest { after: None, past_only: false };
    let Ok(events) = client.watch_events(request).await else { return false };
    let mut events = events.into_inner();
    // What was before may have been missed.
    let mut asked = true;
    while !shared.is_over.load(Ordering::Relaxed) {
        if std::mem::take(&mut asked) {
            let request = proto::GetFlowRequest { name: flow.to_owned() };
            let news = match tokio::time::timeout(ANSWER, client.get_flow(request)).await {
                Ok(Ok(answer)) => News::Flow(Box::new(answer.into_inner())),
                Ok(Err(status)) => match refused(&status) {
                    ClientError::Refused { message, code: Code::NotFound } => News::Gone(message),
                    // Flows outlive their controller.
                    _ => return false,
                },
                Err(_) => return false,
            };
            let gone = matches!(news, News::Gone(_));
            shared.tell(news);
            if gone {
                return true;
            }
        }
        match tokio::time::timeout(AGAIN, events.message()).await {
            Ok(Ok(Some(event))) => {
                use proto::EventKind::{ProgramAttached, ProgramDied, ProgramLeft};
                let of_programs = matches!(event.kind(), ProgramAttached | ProgramDied | ProgramLeft);
                // Without a flow: events were missed.
                asked = (event.flow == flow && !of_programs) || event.flow.is_empty();
            }
            Ok(_) => return false,
            Err(_) => {}
        }
    }
    false
}
