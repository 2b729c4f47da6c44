//! Follows a flow: what it is now is there for whoever pushes into it, without a call to the controller.

use crate::contact::Contact;
use crate::session::{Client, ClientError, Session, refused};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::Code;
use zsr_api::controller::{self as proto, EventKind};

/// Between two attempts to reach the controller.
const AGAIN: Duration = Duration::from_millis(200);
/// How long the controller may take to say what the flow is.
const ANSWER: Duration = Duration::from_secs(10);
/// Behind which a flow is another one for a producer.
const CHANGES: [EventKind; 7] = [
    EventKind::FlowChanged,
    EventKind::FlowDeleted,
    EventKind::FlowFailed,
    EventKind::FlowResumed,
    EventKind::MemberAdded,
    EventKind::MemberLeaving,
    EventKind::MemberRemoved,
];

/// What has become of a flow.
#[derive(Debug)]
pub(super) enum News {
    /// It is this now.
    Flow(Box<proto::Flow>),
    /// There is no such flow any more, in the controller's words.
    Gone(String),
}

/// Knows what a flow is.
pub(super) struct Follower {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// Whether `latest` was not looked at.
    fresh: AtomicBool,
    latest: Mutex<Option<News>>,
}

impl Follower {
    /// Follows what becomes of `flow` behind event `after` until it is dropped. The session has to be a
    /// [shared](Session::shared) one, whose runtime runs by itself.
    pub(super) fn start(session: &Session, flow: &str, after: u64) -> Self {
        let shared = Arc::<Shared>::default();
        let (client, contact) = (session.client.clone(), session.contact().clone());
        let task = session.runtime.spawn(follow(client, contact, flow.to_owned(), after, shared.clone()));
        Follower { shared, task }
    }

    /// Whether something has happened that was not [taken](Self::take).
    pub(super) fn has_news(&self) -> bool {
        self.shared.fresh.load(Ordering::Relaxed)
    }

    /// What the flow is, if that is news.
    pub(super) fn take(&self) -> Option<News> {
        if !self.has_news() {
            return None;
        }
        let mut latest = self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.fresh.store(false, Ordering::Relaxed);
        latest.take()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn tell(&self, news: News) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Some(news);
        self.fresh.store(true, Ordering::Relaxed);
    }
}

async fn follow(mut client: Client, contact: Contact, flow: String, after: u64, shared: Arc<Shared>) {
    let mut after = Some(after);
    while !listen(&mut client, &flow, after.take(), &shared).await {
        tokio::time::sleep(AGAIN).await;
        if let Ok(connected) = Session::client(&contact).await {
            client = connected;
        }
    }
}

/// Until the controller is away, or the flow is gone: says whether it is. Without `after`, what was before may have been missed.
async fn listen(client: &mut Client, flow: &str, mut after: Option<u64>, shared: &Shared) -> bool {
    let request = proto::WatchEventsRequest {
        after,
        past_only: false,
        flow: flow.to_owned(),
        kinds: CHANGES.map(i32::from).to_vec(),
    };
    let Ok(events) = client.watch_events(request).await else { return false };
    let mut events = events.into_inner();
    loop {
        if after.take().is_none() {
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
        let Ok(Some(_)) = events.message().await else { return false };
    }
}
