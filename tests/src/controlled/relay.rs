//! The network between controller, agents and switch: it connects clients to servers, and can hold connections up or
//! break them.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use p4runtime_proto::{Local, LocalListener, local};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio_stream::StreamExt;

/// Bytes that are passed on at once.
const CHUNK: usize = 16 << 10;

/// The way to one server, which may be started anew.
#[derive(Clone, Debug)]
pub struct Way {
    /// The address for clients.
    pub place: Local,
    server: Arc<Mutex<Option<Local>>>,
    open: watch::Sender<bool>,
    /// Counts how often all connections broke.
    breaks: watch::Sender<u64>,
    carried: Arc<AtomicU64>,
}

impl Way {
    /// A way without a server, and the future that carries it, to be run as a task. Counts the bytes that pass in
    /// `carried`.
    pub fn new(carried: Arc<AtomicU64>) -> (Way, impl Future<Output = ()> + Send + 'static) {
        let (place, listener) = local();
        let (server, open, breaks) = (Arc::default(), watch::Sender::new(true), watch::Sender::new(0));
        let way = Way { place, server, open, breaks, carried };
        (way.clone(), way.carry(listener))
    }

    /// A server listens from now on.
    pub fn listen(&self) -> LocalListener {
        let (place, listener) = local();
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        listener
    }

    /// Whether bytes pass. Otherwise they wait.
    pub fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// Breaks the present connections, with the bytes under way in them.
    pub fn break_all(&self) {
        self.breaks.send_modify(|breaks| *breaks += 1);
    }

    async fn carry(self, mut listener: LocalListener) {
        while let Some(Ok(client)) = listener.next().await {
            let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // Nobody there: the client's connection ends.
            let Some(server) = server.and_then(|place| place.connect().ok()) else { continue };
            let (from_client, to_client) = tokio::io::split(client);
            let (from_server, to_server) = tokio::io::split(server);
            for (from, to) in [(from_client, to_server), (from_server, to_client)] {
                let (way, mut breaks) = (self.clone(), self.breaks.subscribe());
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        // The sender is part of `way`.
                        _ = breaks.changed() => {}
                        _ = way.pass(from, to) => {}
                    }
                });
            }
        }
    }

    async fn pass(
        &self,
        mut from: ReadHalf<DuplexStream>,
        mut to: WriteHalf<DuplexStream>,
    ) -> io::Result<()> {
        let mut open = self.open.subscribe();
        let mut chunk = vec![0; CHUNK];
        loop {
            let len = from.read(&mut chunk).await?;
            // The sender is part of `self`.
            let _ = open.wait_for(|open| *open).await;
            self.carried.fetch_add(1, Ordering::Relaxed);
            if len == 0 {
                return to.shutdown().await;
            }
            to.write_all(&chunk[..len]).await?;
        }
    }
}
