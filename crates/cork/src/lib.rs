//! Connections for gRPC whose small writes of one moment go out together.
//!
//! HTTP/2 writes the parts of a message one by one: headers, data, and the status behind them. Each part costs a system
//! call here, and wakes up the process at the other end. [`Corked`] keeps small parts until all tasks that are ready have
//! run once, and writes them together then. So a call costs one write in each direction in place of two or three.
//!
//! - [`unix`] and [`tcp`][]: connectors for a client's endpoint.
//! - `corked` and `corked_unix` (feature `server`): connections that come to a server.
//!
//! [`Socket`] is a UNIX socket that is not woken up for each message that the other end has read.

mod corked;
mod socket;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::transport::Uri;

pub use corked::Corked;
#[cfg(feature = "server")]
pub use corked::{corked, corked_unix};
pub use socket::Socket;

/// A connection that is being made.
pub type Connecting<S> = Pin<Box<dyn Future<Output = io::Result<TokioIo<Corked<S>>>> + Send>>;

/// Connects to the socket at `path`, for an endpoint's `connect_with_connector`.
pub fn unix(
    path: PathBuf,
) -> impl tower::Service<Uri, Response = TokioIo<Corked<Socket>>, Error = io::Error, Future = Connecting<Socket>>
+ Send
+ use<> {
    tower::service_fn(move |_| -> Connecting<Socket> {
        let path = path.clone();
        Box::pin(async move { Ok(TokioIo::new(Corked::new(Socket::connect(&path).await?))) })
    })
}

/// Connects to `address`, `HOST:PORT`, for an endpoint's `connect_with_connector`.
pub fn tcp(
    address: String,
) -> impl tower::Service<
    Uri,
    Response = TokioIo<Corked<TcpStream>>,
    Error = io::Error,
    Future = Connecting<TcpStream>,
> + Send
+ use<> {
    tower::service_fn(move |_| -> Connecting<TcpStream> {
        let address = address.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            // Calls must not wait for each other.
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(Corked::new(stream)))
        })
    })
}
