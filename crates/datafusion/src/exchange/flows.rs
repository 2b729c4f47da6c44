//! Flows of queries: made, deleted, and found when they were left behind.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tokio::runtime::Handle;
use zsr::api::{
    CreateFlowRequest, DeleteFlowRequest, FlowKind, ListFlowsRequest, Member, Policy, Settings, WhenEnded,
};
use zsr::{ClientError, Contact, Session};

/// Bytes of an item: what the switch moves at once, and the most that a row may have.
const ITEM: u32 = 64 << 10;
/// Bytes of a ring. A ring that is full waits for a poll.
const RING: u32 = 4 << 20;
/// Between two looks at a ring without items, in microseconds. Producers ring, so this is no latency. A worker that polls so rarely also
/// ticks rarely, and a flow that waits for its next query costs little.
const POLL_US: u64 = 6000;

/// A name that no other flow of this machine has.
pub(crate) fn new_name(prefix: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    format!("{prefix}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A flow from one host to another, until it is dropped, which blocks until it is deleted.
pub(crate) struct Made {
    session: Session,
    name: String,
}

impl Made {
    pub(crate) fn new(contact: &Contact, name: &str, from: &str, to: &str) -> Result<Self, ClientError> {
        let session = Session::shared(contact.clone())?;
        let member = |host: &str| vec![Member { host: host.to_owned(), ..Member::default() }];
        let request = CreateFlowRequest {
            name: name.to_owned(),
            kind: FlowKind::Shuffle.into(),
            producers: member(from),
            consumers: member(to),
            item_size: ITEM,
            ring_size: RING,
            settings: Some(Settings {
                poll_interval_us: Some(POLL_US),
                // If a worker is killed, the other end fails, and the flow goes by itself.
                policy: Some(Policy::Abort.into()),
                when_ended: Some(WhenEnded::Delete.into()),
                ..Settings::default()
            }),
            ..CreateFlowRequest::default()
        };
        session.change(|mut c| async move { c.create_flow(request).await })?;
        Ok(Made { session, name: name.to_owned() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let delete = || delete(&self.session, &self.name);
        // A runtime that ends drops its futures in threads in which nothing may block on another one.
        let _ = match Handle::try_current() {
            Ok(_) => thread::scope(|scope| scope.spawn(delete).join().unwrap_or(Ok(()))),
            Err(_) => delete(),
        };
    }
}

fn delete(session: &Session, name: &str) -> Result<(), ClientError> {
    let request = DeleteFlowRequest { name: name.to_owned(), force: true };
    match session.change(|mut c| async move { c.delete_flow(request).await }) {
        Err(ClientError::Refused { code: tonic::Code::NotFound, .. }) | Ok(_) => Ok(()),
        Err(e) => Err(e),
    }
}

/// Names of flows that begin with `prefix`. Blocks.
///
/// # Errors
/// [`ClientError`].
pub fn left_behind(contact: &Contact, prefix: &str) -> Result<Vec<String>, ClientError> {
    let session = Session::open(contact.clone())?;
    let flows = session.call(|mut c| async move { c.list_flows(ListFlowsRequest {}).await })?.flows;
    Ok(flows.into_iter().map(|flow| flow.name).filter(|name| name.starts_with(prefix)).collect())
}

/// Deletes flows that were left behind, whatever is in them. Blocks.
///
/// # Errors
/// [`ClientError`].
pub fn remove(contact: &Contact, flows: &[String]) -> Result<(), ClientError> {
    if flows.is_empty() {
        return Ok(());
    }
    let session = Session::open(contact.clone())?;
    flows.iter().try_for_each(|flow| delete(&session, flow))
}
