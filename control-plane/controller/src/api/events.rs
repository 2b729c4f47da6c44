//! Events: numbered, remembered for a while, and sent to all watchers.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast;
use zsr_api::controller::{self as proto, EventKind};
use zsr_api::word;

/// Events that are remembered, and that a watcher may lag behind.
const REMEMBERED: usize = 4096;

/// The log.
#[derive(Debug)]
pub struct Events {
    log: Mutex<Log>,
    news: broadcast::Sender<proto::Event>,
}

#[derive(Debug, Default)]
struct Log {
    newest: u64,
    remembered: VecDeque<proto::Event>,
}

impl Default for Events {
    fn default() -> Self {
        Events { log: Mutex::default(), news: broadcast::channel(REMEMBERED).0 }
    }
}

impl Events {
    /// Notes that something happened, and logs it; number and time are filled in.
    pub fn emit(&self, kind: EventKind, mut event: proto::Event) {
        tracing::info!(
            kind = word(kind.as_str_name(), "EVENT_KIND_"),
            flow = said(&event.flow),
            member = said(&event.member),
            ring = said(&event.ring),
            host = said(&event.host),
            "{}",
            event.text
        );
        let mut log = self.lock();
        log.newest += 1;
        event.number = log.newest;
        event.kind = kind.into();
        event.time_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        if log.remembered.len() == REMEMBERED {
            log.remembered.pop_front();
        }
        log.remembered.push_back(event.clone());
        // Under the lock, so that a watcher sees each event once. Fails only when nobody listens.
        let _ = self.news.send(event);
    }

    /// Number of the newest event.
    pub fn newest(&self) -> u64 {
        self.lock().newest
    }

    /// The remembered events behind `after` (`None`: none of them), and those to come.
    pub fn watch(&self, after: Option<u64>) -> (Vec<proto::Event>, broadcast::Receiver<proto::Event>) {
        let log = self.lock();
        let after = after.unwrap_or(log.newest);
        let past = log.remembered.iter().filter(|e| e.number > after).cloned().collect();
        (past, self.news.subscribe())
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A field of an event, unless it is empty.
fn said(field: &str) -> Option<&str> {
    Some(field).filter(|field| !field.is_empty())
}

/// An event about a flow.
pub fn of_flow(flow: &str, text: impl Into<String>) -> proto::Event {
    proto::Event { flow: flow.into(), text: text.into(), ..Default::default() }
}

/// An event about a host.
pub fn of_host(host: &str, text: impl Into<String>) -> proto::Event {
    proto::Event { host: host.into(), text: text.into(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_gets_the_past_and_the_future_once() {
        let events = Events::default();
        for n in 0..3 {
            events.emit(EventKind::FlowCreated, of_flow(&format!("f{n}"), ""));
        }
        let (past, mut news) = events.watch(Some(1));
        assert_eq!(past.iter().map(|e| e.number).collect::<Vec<_>>(), [2, 3]);
        events.emit(EventKind::FlowDeleted, of_flow("f0", ""));
        assert_eq!(news.try_recv().unwrap().number, 4);
        assert!(events.watch(None).0.is_empty());
        assert_eq!(events.newest(), 4);
    }
}
