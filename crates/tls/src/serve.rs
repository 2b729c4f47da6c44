//! The server's end: connections whose handshake is done, and whose certificate is one of our authority's.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;
use zsr_cork::Corked;

use crate::caller::Caller;
use crate::held::Held;
use crate::identity::Identity;

/// How long a handshake may take, and how many there may be at once.
const HANDSHAKE: Duration = Duration::from_secs(5);
const HANDSHAKES: usize = 256;
/// Between two attempts to accept after an error, such as too many open files.
const AGAIN: Duration = Duration::from_millis(50);
/// Refused connections are told of at most so often.
const TELL: Duration = Duration::from_secs(1);

/// A connection to a client with a certificate.
#[derive(Debug)]
pub struct Secured {
    stream: Corked<Held<TlsStream<TcpStream>>>,
    caller: Arc<Caller>,
}

impl Connected for Secured {
    type ConnectInfo = Arc<Caller>;

    fn connect_info(&self) -> Arc<Caller> {
        self.caller.clone()
    }
}

/// Connections to `listener`, for tonic's `serve_with_incoming`. Ends when nobody takes them any more. Called in a runtime of tokio.
pub fn incoming(listener: TcpListener, identity: Identity) -> ReceiverStream<io::Result<Secured>> {
    let (to, secured) = mpsc::channel(1);
    tokio::spawn(async move {
        let room = Arc::new(Semaphore::new(HANDSHAKES));
        let told = Arc::new(Mutex::new(None));
        loop {
            let Ok(place) = room.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                biased;
                () = to.closed() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(e) => {
                    refused(&told, None, &e);
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            };
            let (to, identity, told) = (to.clone(), identity.clone(), told.clone());
            tokio::spawn(async move {
                let shaken = tokio::time::timeout(HANDSHAKE, shake(stream, &identity)).await;
                drop(place);
                match shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    // Fails only when the server has ended.
                    Ok(secured) => drop(to.send(Ok(secured)).await),
                    Err(e) => refused(&told, Some(from), &e),
                }
            });
        }
    });
    ReceiverStream::new(secured)
}

async fn shake(stream: TcpStream, identity: &Identity) -> io::Result<Secured> {
    // Answers must not wait for each other.
    stream.set_nodelay(true)?;
    let stream = TlsAcceptor::from(identity.server()).accept(stream).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.cloned().ok_or(io::ErrorKind::PermissionDenied)?;
    let stream = Corked::new(Held::new(stream, Some(&certificate), identity.clone()));
    Ok(Secured { caller: Arc::new(Caller::of(&certificate)), stream })
}

/// Says why a connection came to nothing, unless one was told of just now.
fn refused(told: &Mutex<Option<Instant>>, from: Option<SocketAddr>, why: &io::Error) {
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    if told.is_some_and(|at| at.elapsed() < TELL) {
        return;
    }
    *told = Some(Instant::now());
    match from {
        Some(from) => eprintln!("a connection from {from} was refused: {why}"),
        None => eprintln!("a connection was not accepted: {why}"),
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
