//! Names kept up to date in the background, from the controller's API.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::names::Names;
use zsr::{Client, ClientError, Place, Session, refused};
use zsr_api::controller as proto;

/// Least time between two looks, and before a controller that has gone is tried again.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Default)]
struct Shared {
    names: Mutex<Arc<Names>>,
    /// Whether there are newer names than those last taken.
    fresh: AtomicBool,
    wanted: Notify,
}

/// Follows the flows of a system. The thread behind it ends with the process.
pub struct Directory {
    shared: Arc<Shared>,
    names: Arc<Names>,
}

impl Directory {
    /// The present names, and later ones. Without a controller there are no names until one comes.
    ///
    /// # Errors
    /// The controller does not answer; the directory goes on trying.
    pub fn open(place: &Place) -> (Directory, Result<(), ClientError>) {
        let shared = Arc::new(Shared::default());
        let first = Session::open(place).and_then(|session| {
            let names = session.runtime.block_on(look(&session.client))?.0;
            shared.publish(names);
            Ok(session)
        });
        let (session, result) = match first {
            Ok(session) => (Some(session), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let (follower, place) = (shared.clone(), place.clone());
        let started = std::thread::Builder::new()
            .name("zsr-names".into())
            .spawn(move || follow(session, &place, &follower))
            .map(drop)
            .map_err(|source| ClientError::Io { what: "starting threads", source });
        (Directory { shared, names: Arc::default() }, result.and(started))
    }

    /// The newest names.
    pub fn names(&mut self) -> &Names {
        if self.shared.fresh.swap(false, Ordering::Acquire) {
            self.names = self.shared.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        }
        &self.names
    }

    /// Asks for another look soon, since a packet is not in the names.
    pub fn ask(&self) {
        self.shared.wanted.notify_one();
    }
}

impl Shared {
    fn publish(&self, names: Names) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
        self.fresh.store(true, Ordering::Release);
    }
}

/// The names now, and the number of the newest event before.
async fn look(client: &Client) -> Result<(Names, u64), ClientError> {
    let mut client = client.clone();
    let system = client.get_system(proto::GetSystemRequest {}).await.map_err(|e| refused(&e))?.into_inner();
    let flows = client.list_flows(proto::ListFlowsRequest {}).await.map_err(|e| refused(&e))?.into_inner();
    Ok((Names::new(&flows.flows, &system.hosts), system.newest_event))
}

fn follow(mut session: Option<Session>, place: &Place, shared: &Shared) {
    loop {
        if let Some(session) = session.take().or_else(|| Session::open(place).ok()) {
            // Whatever ended the session: a new one begins with a look.
            let _ = session.runtime.block_on(follow_events(&session.client, shared));
        }
        std::thread::sleep(PAUSE);
    }
}

async fn follow_events(client: &Client, shared: &Shared) -> Result<(), ClientError> {
    let (names, newest) = look(client).await?;
    shared.publish(names);
    let request = proto::WatchEventsRequest { after: Some(newest), past_only: false, ..Default::default() };
    let events = client.clone().watch_events(request).await.map_err(|e| refused(&e))?;
    let mut events = events.into_inner();
    loop {
        let due = tokio::select! {
            event = events.message() => match event.map_err(|e| refused(&e))? {
                Some(event) => is_change(event.kind()),
                None => return Ok(()),
            },
            () = shared.wanted.notified() => true,
        };
        if due {
            shared.publish(look(client).await?.0);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Whether queue pairs may have come or gone.
fn is_change(kind: proto::EventKind) -> bool {
    use proto::EventKind as K;
    matches!(
        kind,
        K::FlowCreated
            | K::FlowChanged
            | K::FlowDeleted
            | K::FlowFailed
            | K::MemberAdded
            | K::MemberRemoved
            | K::ControllerStarted
            | K::Missed
    )
}
