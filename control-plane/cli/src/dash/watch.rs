//! What the page is told, for all its readers together.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::response::sse::Event;
use serde_json::json;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use zsr::Session;
use zsr_api::controller as proto;

use crate::metrics::{Snapshot, look};
use crate::{json, top};

/// Between two looks, while somebody reads.
const EVERY: Duration = Duration::from_millis(500);
/// Until a controller that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// Events that are kept for new readers.
const KEPT: usize = 200;

/// The newest of what changes.
#[derive(Clone, Default)]
struct Seen {
    state: Arc<str>,
    rates: Arc<str>,
    trouble: Arc<str>,
}

/// The events so far, and those to come. A line that is empty says that the list begins anew.
struct Events {
    kept: Mutex<VecDeque<Arc<str>>>,
    news: broadcast::Sender<Arc<str>>,
}

impl Events {
    fn add(&self, event: Arc<str>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if event.is_empty() {
            kept.clear();
        } else {
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(event.clone());
        }
        // Nobody may be reading.
        let _ = self.news.send(event);
    }

    fn all(&self) -> (Vec<Arc<str>>, broadcast::Receiver<Arc<str>>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.iter().cloned().collect(), self.news.subscribe())
    }
}

/// One look at a system, for all readers.
#[derive(Clone)]
pub(super) struct Watch {
    seen: watch::Sender<Seen>,
    events: Arc<Events>,
    /// Wakes the thread that looks: a reader has come.
    wake: std::sync::mpsc::Sender<()>,
}

impl Watch {
    /// Watches a system for as long as the process lives.
    pub(super) fn start(session: Session) -> Self {
        let events = Arc::new(Events { kept: Mutex::default(), news: broadcast::channel(KEPT).0 });
        let (wake, woken) = std::sync::mpsc::channel();
        let watch = Self { seen: watch::Sender::default(), events, wake };
        let session = Arc::new(session);
        let (own, of_events) = (watch.clone(), session.clone());
        std::thread::spawn(move || own.look(&session, &woken));
        let own = watch.clone();
        std::thread::spawn(move || own.follow(&of_events));
        watch
    }

    fn look(&self, session: &Session, woken: &std::sync::mpsc::Receiver<()>) {
        let mut before: Option<proto::Stats> = None;
        loop {
            if self.seen.receiver_count() == 0 {
                before = None;
                // The sender's other end is in this thread, too, so there is no error.
                let _ = woken.recv();
                continue;
            }
            match look(session) {
                Ok(Snapshot { system, flows, stats }) => {
                    let rates = top::figures(before.as_ref().unwrap_or(&stats), &stats).to_string();
                    let flows: Vec<_> = flows.iter().map(json::flow).collect();
                    let system = json::status(&system.name, &[], Some(&system));
                    let state = json!({"system": system, "flows": flows}).to_string();
                    self.seen.send_replace(Seen {
                        state: state.into(),
                        rates: rates.into(),
                        // Browsers don't tell pages of events without data.
                        trouble: "\"\"".into(),
                    });
                    before = Some(stats);
                    std::thread::sleep(EVERY);
                }
                Err(e) => {
                    self.seen.send_modify(|seen| seen.trouble = json!(e.to_string()).to_string().into());
                    std::thread::sleep(AGAIN);
                }
            }
        }
    }

    /// Takes events as they come. A controller that is started anew begins to count anew.
    fn follow(&self, session: &Session) {
        loop {
            let mut is_first = true;
            if let Ok(events) = session.events(Some(0), true) {
                for event in events.map_while(Result::ok) {
                    // What the last controller told stays until another one tells something.
                    if std::mem::take(&mut is_first) {
                        self.events.add("".into());
                    }
                    self.events.add(json::event(&event).to_string().into());
                }
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// What one reader is told, from now on.
    pub(super) fn stream(&self) -> ReceiverStream<Result<Event, Infallible>> {
        let (to, stream) = mpsc::channel(16);
        let mut seen = self.seen.subscribe();
        // The thread that looks lives as long as the process.
        let _ = self.wake.send(());
        let (past, mut news) = self.events.all();
        let own = self.clone();
        tokio::spawn(async move {
            let event = |kind: &str, text: &str| Ok(Event::default().event(kind).data(text));
            let mut last = Seen::default();
            // All at once: a reader has the list in one piece.
            if to.send(event("events", &listed(&past))).await.is_err() {
                return;
            }
            loop {
                let next = seen.borrow_and_update().clone();
                for (kind, before, now) in [
                    ("trouble", &last.trouble, &next.trouble),
                    ("state", &last.state, &next.state),
                    ("rates", &last.rates, &next.rates),
                ] {
                    if before != now && to.send(event(kind, now)).await.is_err() {
                        return;
                    }
                }
                last = next;
                let come = tokio::select! {
                    _ = to.closed() => return,
                    changed = seen.changed() => if changed.is_err() { return } else { None },
                    come = news.recv() => Some(come),
                };
                let told = match come {
                    None => continue,
                    Some(Ok(one)) if !one.is_empty() => event("event", &one),
                    // The list begins anew, or this reader is too slow for single events.
                    Some(_) => {
                        let (all, rest) = own.events.all();
                        news = rest;
                        event("events", &listed(&all))
                    }
                };
                if to.send(told).await.is_err() {
                    return;
                }
            }
        });
        ReceiverStream::new(stream)
    }
}

fn listed(events: &[Arc<str>]) -> String {
    format!("[{}]", events.join(","))
}
