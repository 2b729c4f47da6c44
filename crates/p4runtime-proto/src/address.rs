//! Where a gRPC server listens: at an address of TCP with TLS or without, at a UNIX socket, or in this process.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint, Error};
use zsr_tls::Peer;

use crate::local::Local;

/// Where a gRPC server listens. Written as other gRPC clients take it: `127.0.0.1:9559` or `unix:/run/x/p4runtime.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Whoever can reach it can speak to the server.
    Tcp(SocketAddr),
    /// Whoever has a certificate can speak to the server.
    Tls(Box<Peer>),
    /// Whoever may open the socket can speak to the server. An absolute path.
    Unix(PathBuf),
    /// Whoever was given it, in this process.
    Local(Local),
}

impl Address {
    /// What tonic connects to; of a server in this process, a name that leads nowhere.
    pub fn uri(&self) -> String {
        match self {
            Address::Tcp(address) => format!("http://{address}"),
            Address::Tls(peer) => format!("https://{}", peer.address),
            Address::Unix(path) => format!("unix://{}", path.display()),
            Address::Local(_) => "http://local".into(),
        }
    }

    /// Connects to the server, over what `settings` make of the endpoint.
    ///
    /// # Errors
    /// When the address makes no URI, or nobody answers there.
    pub async fn connect(&self, settings: impl FnOnce(Endpoint) -> Endpoint) -> Result<Channel, Error> {
        if let Address::Tls(peer) = self {
            return peer.connect(settings).await;
        }
        let endpoint = settings(Endpoint::from_shared(self.uri())?);
        match self {
            Address::Tls(_) => endpoint.connect().await,
            Address::Local(local) => endpoint.connect_with_connector(connector(local)).await,
            Address::Tcp(at) => endpoint.connect_with_connector(zsr_cork::tcp(at.to_string())).await,
            Address::Unix(path) => endpoint.connect_with_connector(zsr_cork::unix(path.clone())).await,
        }
    }

    /// A channel that connects when it is used, and again when the connection was lost.
    ///
    /// # Errors
    /// When the address makes no URI.
    pub fn connect_lazy(&self, settings: impl FnOnce(Endpoint) -> Endpoint) -> Result<Channel, Error> {
        if let Address::Tls(peer) = self {
            return peer.connect_lazy(settings);
        }
        let endpoint = settings(Endpoint::from_shared(self.uri())?);
        Ok(match self {
            Address::Tls(_) => endpoint.connect_lazy(),
            Address::Local(local) => endpoint.connect_with_connector_lazy(connector(local)),
            Address::Tcp(at) => endpoint.connect_with_connector_lazy(zsr_cork::tcp(at.to_string())),
            Address::Unix(path) => endpoint.connect_with_connector_lazy(zsr_cork::unix(path.clone())),
        })
    }
}

type Connection = std::future::Ready<std::io::Result<TokioIo<tokio::io::DuplexStream>>>;

fn connector(
    local: &Local,
) -> impl tower::Service<
    tonic::transport::Uri,
    Response = TokioIo<tokio::io::DuplexStream>,
    Error = std::io::Error,
    Future = Connection,
> + Send
+ use<> {
    let local = local.clone();
    tower::service_fn(move |_| std::future::ready(local.connect().map(TokioIo::new)))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Tls(peer) => f.write_str(&peer.address),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Local(local) => local.fmt(f),
        }
    }
}

/// The text is neither `IP:PORT` nor `unix:/PATH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected IP:PORT or unix:/PATH")]
pub struct NoAddress;

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let Some(path) = text.strip_prefix("unix:") else {
            return text.parse().map(Address::Tcp).map_err(|_| NoAddress);
        };
        // `unix:///path` says the same.
        let path = Path::new(path.strip_prefix("//").unwrap_or(path));
        if path.is_absolute() { Ok(Address::Unix(path.to_owned())) } else { Err(NoAddress) }
    }
}

impl From<Peer> for Address {
    fn from(peer: Peer) -> Self {
        Address::Tls(Box::new(peer))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::Tcp(address)
    }
}

impl From<Local> for Address {
    fn from(local: Local) -> Self {
        Address::Local(local)
    }
}

impl From<&Address> for Address {
    fn from(address: &Address) -> Self {
        address.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["127.0.0.1:9559", "[::1]:1", "unix:/tmp/zsr-0/s/p4runtime.sock"] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("unix:///a/b".parse(), Ok(Address::Unix("/a/b".into())));
        assert_eq!(Address::Unix("/a/b".into()).uri(), "unix:///a/b");
        for wrong in ["", "localhost", "unix:", "unix:a/b", "127.0.0.1"] {
            assert_eq!(wrong.parse::<Address>(), Err(NoAddress), "{wrong}");
        }
    }
}
