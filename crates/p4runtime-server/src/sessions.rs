//! The open streams: who is primary, and what waits to be sent to whom.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::stream_message_response::Update;
use tokio::sync::{Notify, mpsc};
use tokio_stream::Stream;
use tonic::Status;

use super::arbitration::{Arbiter, Notice, StreamId, Verdict};
use super::refusal::Outcome;

/// Arbitration messages that may wait for a slow controller; one that lets more wait loses its stream.
const CONTROL_QUEUE: usize = 256;
/// Packets, digests, notifications and errors that may wait for a slow controller; more are dropped.
const DATA_QUEUE: usize = 4096;

type Message = Result<pb::StreamMessageResponse, Status>;

/// The state of a stream's task.
pub(super) struct Session {
    pub id: StreamId,
    /// Wakes when the controller has let too much wait.
    pub overrun: Arc<Notify>,
    outbox: Outbox,
}

#[derive(Clone)]
struct Outbox {
    control: mpsc::Sender<Message>,
    data: mpsc::Sender<Message>,
    overrun: Arc<Notify>,
}

impl Outbox {
    fn control(&self, message: Message) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.control.try_send(message) {
            self.overrun.notify_one();
        }
    }

    /// Best effort, as the specification has it for everything but arbitration.
    fn data(&self, update: Update) {
        let _ = self.data.try_send(Ok(pb::StreamMessageResponse { update: Some(update) }));
    }
}

impl Session {
    /// Ends the stream with an error, behind what was sent before.
    pub fn fail(&self, status: Status) {
        self.outbox.control(Err(status));
    }

    /// Sends what may be dropped.
    pub fn send(&self, update: Update) {
        self.outbox.data(update);
    }
}

/// The messages that the controller reads. Arbitration goes first.
pub(super) struct Outgoing {
    control: mpsc::Receiver<Message>,
    data: mpsc::Receiver<Message>,
}

impl Stream for Outgoing {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        let control = self.control.poll_recv(context);
        if let Poll::Ready(Some(_)) = control {
            return control;
        }
        match (control, self.data.poll_recv(context)) {
            (_, Poll::Ready(Some(message))) => Poll::Ready(Some(message)),
            (Poll::Ready(None), Poll::Ready(None)) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }
}

struct State {
    arbiter: Arbiter,
    outboxes: HashMap<StreamId, Outbox>,
    next: StreamId,
}

impl State {
    fn tell(&self, notices: Vec<Notice>) {
        for (to, notice) in notices {
            if let Some(outbox) = self.outboxes.get(&to) {
                outbox.control(Ok(pb::StreamMessageResponse { update: Some(Update::Arbitration(notice)) }));
            }
        }
    }
}

/// All streams of a device. Decisions and the messages about them are made under one lock, so every controller
/// hears of them in their order.
pub(super) struct Sessions(Mutex<State>);

impl Sessions {
    pub fn new(device: u64) -> Self {
        let arbiter = Arbiter::new(device);
        Self(Mutex::new(State { arbiter, outboxes: HashMap::new(), next: 1 }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A new stream, not yet a controller.
    pub fn open(&self) -> (Session, Outgoing) {
        let (control, control_rx) = mpsc::channel(CONTROL_QUEUE);
        let (data, data_rx) = mpsc::channel(DATA_QUEUE);
        let outbox = Outbox { control, data, overrun: Arc::new(Notify::new()) };
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        state.outboxes.insert(id, outbox.clone());
        tracing::info!(client = id, "a client has opened a session");
        (
            Session { id, overrun: outbox.overrun.clone(), outbox },
            Outgoing { control: control_rx, data: data_rx },
        )
    }

    /// A stream has ended.
    pub fn close(&self, stream: StreamId) {
        tracing::info!(client = stream, "a client's session has ended");
        let mut state = self.state();
        state.outboxes.remove(&stream);
        let notices = state.arbiter.leave(stream);
        state.tell(notices);
    }

    /// A controller's bid. If it makes it primary, [`confirm`](Self::confirm) must follow.
    pub fn bid(&self, stream: StreamId, bid: &pb::MasterArbitrationUpdate) -> Outcome<bool> {
        let mut state = self.state();
        let Verdict { now, primary } = state.arbiter.update(stream, bid)?;
        state.tell(now);
        tracing::info!(client = stream, primary = primary.is_some(), "a client asks to be primary");
        Ok(primary.is_some())
    }

    /// Tells a controller that it is primary, if it still is.
    pub fn confirm(&self, stream: StreamId) {
        let state = self.state();
        state.tell(state.arbiter.confirm(stream).into_iter().collect());
    }

    /// Looks at the arbitration.
    pub fn arbiter<R>(&self, look: impl FnOnce(&Arbiter) -> R) -> R {
        look(&self.state().arbiter)
    }

    /// Sends to the primary of every role; what a slow controller has no room for is dropped.
    pub fn send_to_primaries(&self, update: &Update) {
        let state = self.state();
        for stream in state.arbiter.primaries() {
            if let Some(outbox) = state.outboxes.get(&stream) {
                outbox.data(update.clone());
            }
        }
    }
}
