//! The client's end: a server at an address, which has to show a certificate of ours with its name.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Error};
use zsr_cork::Corked;

use crate::held::Held;
use crate::identity::Identity;

/// How long a server may take to say something after the handshake.
const ANSWER: Duration = Duration::from_secs(5);

/// A server that speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// `HOST:PORT`.
    pub address: String,
    /// The name that its certificate has to have.
    pub name: String,
    /// The identity that is shown to the server, and by whose authority the server is believed.
    pub identity: Identity,
}

type Secured = Corked<Held<TlsStream<TcpStream>>>;
type Connecting = Pin<Box<dyn Future<Output = io::Result<TokioIo<Secured>>> + Send>>;

impl Peer {
    /// A connection, with the certificates of now.
    pub async fn stream(&self) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(self.name.clone()).map_err(io::Error::other)?;
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(self.identity.client()).connect(name, stream).await
    }

    /// Connects, over what `settings` make of the endpoint.
    ///
    /// # Errors
    /// When the address makes no URI, nobody answers there, or another than was expected.
    pub async fn connect(&self, settings: impl FnOnce(Endpoint) -> Endpoint) -> Result<Channel, Error> {
        self.endpoint(settings)?.connect_with_connector(self.connector()).await
    }

    /// A channel that connects when it is used, and again when the connection was lost.
    ///
    /// # Errors
    /// When the address makes no URI.
    pub fn connect_lazy(&self, settings: impl FnOnce(Endpoint) -> Endpoint) -> Result<Channel, Error> {
        Ok(self.endpoint(settings)?.connect_with_connector_lazy(self.connector()))
    }

    /// Not https: the connector is what speaks TLS.
    fn endpoint(&self, settings: impl FnOnce(Endpoint) -> Endpoint) -> Result<Endpoint, Error> {
        Ok(settings(Endpoint::from_shared(format!("http://{}", self.address))?))
    }

    fn connector(
        &self,
    ) -> impl tower::Service<
        tonic::transport::Uri,
        Response = TokioIo<Secured>,
        Error = io::Error,
        Future = Connecting,
    > + Send
    + use<> {
        let own = self.clone();
        tower::service_fn(move |_| -> Connecting {
            let own = own.clone();
            Box::pin(async move {
                let mut stream = own.stream().await?;
                // In TLS 1.3 a client learns from the server's first byte whether its certificate was taken. That byte
                // is of the server's settings of HTTP/2. A client that writes before may see a broken pipe, and no
                // reason.
                let first = tokio::time::timeout(ANSWER, stream.read_u8()).await;
                let first = first.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
                let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).cloned();
                let held = Held::new(stream, certificate.as_ref(), own.identity).behind(first);
                Ok(TokioIo::new(Corked::new(held)))
            })
        })
    }
}
