use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
#[cfg(feature = "server")]
use tonic::transport::server::Connected;

/// A connected UNIX socket that waits for room only after a write has found none.
///
/// Each read at the other end makes room. Tokio's own socket always waits for room, so that each read at the other end wakes
/// up its process.
#[derive(Debug)]
pub struct Socket {
    stream: AsyncFd<UnixStream>,
    /// For the wait for room, made when it is first needed.
    full: Option<AsyncFd<UnixStream>>,
}

impl Socket {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        Self::of(tokio::net::UnixStream::connect(path).await?)
    }

    /// A connection that is made.
    pub(crate) fn of(stream: tokio::net::UnixStream) -> io::Result<Self> {
        Ok(Self { stream: registered(stream.into_std()?, Interest::READABLE)?, full: None })
    }

    /// Writes by `write`, once there is room.
    fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match write(self.stream.get_ref()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let full = match &mut self.full {
                        Some(full) => full,
                        none => {
                            let second = self.stream.get_ref().try_clone()?;
                            none.insert(registered(second, Interest::WRITABLE)?)
                        }
                    };
                    let mut room = ready!(full.poll_write_ready(cx))?;
                    // Its readiness may be older than the write that found none.
                    match write(full.get_ref()) {
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => room.clear_ready(),
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        done => return Poll::Ready(done),
                    }
                }
                done => return Poll::Ready(done),
            }
        }
    }
}

fn registered(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    // SAFETY: a UnixStream owns its descriptor, which stays the same as long as it lives.
    Ok(unsafe { AsyncFd::register_with_interest(stream, interest) }?)
}

#[cfg(feature = "server")]
impl Connected for Socket {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut readable = ready!(self.stream.poll_read_ready(cx))?;
            let room = buf.initialize_unfilled();
            let asked = room.len();
            match readable.try_io(|stream| stream.get_ref().read(room)) {
                Ok(Ok(got)) => {
                    // Less than there was room for: nothing is left.
                    if 0 < got && got < asked {
                        readable.clear_ready();
                    }
                    buf.advance(got);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(e)) => return Poll::Ready(Err(e)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_room(cx, |mut stream| stream.write(buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_room(cx, |mut stream| stream.write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.get_ref().shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn pair() -> (Socket, Socket) {
        let (one, other) = tokio::net::UnixStream::pair().unwrap();
        (Socket::of(one).unwrap(), Socket::of(other).unwrap())
    }

    #[tokio::test]
    async fn more_than_the_socket_holds_comes_through() {
        let (mut one, mut other) = pair();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let write = async {
            one.write_all(&sent).await.unwrap();
            one.shutdown().await.unwrap();
            one
        };
        let read = async {
            // So that the writer has to wait, more than once.
            drop(other.stream.readable().await);
            let mut got = Vec::new();
            other.read_to_end(&mut got).await.unwrap();
            got
        };
        let (one, got) = tokio::join!(write, read);
        assert!(one.full.is_some(), "the socket was never full");
        assert!(got == sent);
    }

    #[tokio::test]
    async fn an_end_is_told_to_who_reads_and_to_who_writes() {
        let (mut one, other) = pair();
        drop(other);
        assert_eq!(one.read(&mut [0; 8]).await.unwrap(), 0);
        assert_eq!(one.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn who_waits_for_room_is_told_of_the_end() {
        let (mut one, other) = pair();
        let filled = async { while one.write(&[0; 4096]).await.is_ok() {} };
        let end = async {
            tokio::task::yield_now().await;
            drop(other);
        };
        tokio::join!(filled, end);
    }
}
