//! A connection that ends when the certificate at its other end is taken back.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::identity::Identity;

/// How rarely a connection that is in use looks whether the certificate was taken back.
const LOOK: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_millis(500) };

/// The connection. It looks when something comes or goes.
#[derive(Debug)]
pub(crate) struct Held<S> {
    stream: S,
    /// The serial number of the certificate at the other end.
    serial: Vec<u8>,
    identity: Identity,
    looked: Instant,
    /// The stream's first byte, if it was read before and nobody has it yet.
    first: Option<u8>,
}

impl<S> Held<S> {
    pub(crate) fn new(stream: S, certificate: Option<&CertificateDer<'_>>, identity: Identity) -> Held<S> {
        let parsed = certificate.and_then(|c| webpki::EndEntityCert::try_from(c).ok());
        let serial = parsed.map_or(Vec::new(), |certificate| certificate.serial().to_vec());
        Held { stream, serial, identity, looked: Instant::now(), first: None }
    }

    /// The connection, of which `first` was read before.
    pub(crate) fn behind(self, first: u8) -> Held<S> {
        Held { first: Some(first), ..self }
    }

    fn look(&mut self) -> io::Result<()> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        if self.identity.revokes(&self.serial) {
            let why = "the certificate at the other end was taken back";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Held<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.look()?;
        if buf.remaining() > 0
            && let Some(first) = self.first.take()
        {
            buf.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Held<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.look()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
