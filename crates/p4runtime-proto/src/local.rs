//! A gRPC server in the caller's own process, reached without a socket: for a whole system in one process, and for simulations, whose
//! time must not depend on the kernel's.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_stream::Stream;

/// Bytes that one direction of a connection holds.
const BUFFER: usize = 64 << 10;

/// Where a server of this process listens. Clones are the same place.
#[derive(Clone, Debug)]
pub struct Local {
    number: u32,
    connections: mpsc::UnboundedSender<DuplexStream>,
}

/// The server's end of a [`Local`]: the connections that come in, as tonic's `serve_with_incoming` takes them.
#[derive(Debug)]
pub struct LocalListener(mpsc::UnboundedReceiver<DuplexStream>);

/// A place to connect to, and its listener.
pub fn local() -> (Local, LocalListener) {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let (connections, incoming) = mpsc::unbounded_channel();
    (Local { number: NUMBER.fetch_add(1, Ordering::Relaxed), connections }, LocalListener(incoming))
}

impl Local {
    /// A new connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`] when the listener is gone.
    pub fn connect(&self) -> io::Result<DuplexStream> {
        let (here, there) = tokio::io::duplex(BUFFER);
        self.connections.send(there).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(here)
    }
}

impl PartialEq for Local {
    fn eq(&self, other: &Self) -> bool {
        self.connections.same_channel(&other.connections)
    }
}

impl Eq for Local {}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local:{}", self.number)
    }
}

impl Stream for LocalListener {
    type Item = io::Result<DuplexStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|connection| connection.map(Ok))
    }
}
