//! Messages of the switch to its controllers: packets, digests, idle entries.

use std::sync::{Arc, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::stream_message_response::Update as Response;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, watch};

use super::device::Device;
use super::target::Pipeline;
use zsr_soft_switch::Notification;

/// Notifications that may wait; the switch drops and counts more.
pub(super) const NOTIFICATIONS: usize = 4096;

/// The notifications of one pipeline.
pub(super) struct Feed {
    pub pipeline: Arc<Pipeline>,
    pub notifications: mpsc::Receiver<Notification>,
    /// Wakes when there are some.
    pub wake: Arc<Notify>,
}

/// Passes the switch's notifications on to the primary controllers.
pub(super) async fn pump(
    device: Arc<Device>,
    mut feeds: UnboundedReceiver<Feed>,
    mut stop: watch::Receiver<bool>,
) {
    let mut feed: Option<Feed> = None;
    loop {
        let wake = feed.as_ref().map(|feed| feed.wake.clone());
        let woken = async {
            match wake {
                Some(wake) => wake.notified().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // First, so that notifications in an endless row do not keep the server from its end.
            _ = stop.wait_for(|stop| *stop) => break,
            next = feeds.recv() => match next {
                Some(next) => feed = Some(next),
                None => break,
            },
            () = woken => {}
        }
        let Some(feed) = &feed else { continue };
        for notification in feed.notifications.try_iter().take(NOTIFICATIONS) {
            if let Some(update) = translate(&feed.pipeline, notification) {
                device.sessions.send_to_primaries(&update);
            }
            // There may be more than this round takes.
            feed.wake.notify_one();
        }
    }
}

fn nanoseconds_since_epoch() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

/// The message of a notification to a controller; none if the pipeline does not have the object (any more).
fn translate(pipeline: &Pipeline, notification: Notification) -> Option<Response> {
    let schema = &pipeline.schema;
    match notification {
        Notification::PacketIn(frame) => {
            let bytes = frame.bytes();
            let (metadata, start) = match &schema.packet_in {
                Some(header) => header.unpack(bytes)?,
                None => (Vec::new(), 0),
            };
            let payload = bytes.get(start..)?.to_vec();
            Some(Response::Packet(pb::PacketIn { payload, metadata }))
        }
        Notification::Digest(list) => {
            let digest_id = *schema.by_engine.digests.get(&list.digest)?;
            let of = schema.digests.get(&digest_id)?;
            let fold = |sample: Vec<Vec<u8>>| of.data.fold(&mut sample.into_iter());
            let data = list.samples.into_iter().map(fold).collect();
            let timestamp = nanoseconds_since_epoch();
            Some(Response::Digest(pb::DigestList { digest_id, list_id: list.list_id, data, timestamp }))
        }
        Notification::IdleTimeout { table, entries, .. } => {
            let table = schema.table_of(table)?;
            let table_entry: Vec<_> =
                entries.into_iter().map(|entry| schema.write_idle_entry(table, entry)).collect();
            if table_entry.is_empty() {
                return None;
            }
            let timestamp = nanoseconds_since_epoch();
            Some(Response::IdleTimeoutNotification(pb::IdleTimeoutNotification { table_entry, timestamp }))
        }
    }
}
