use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(feature = "server")]
use tokio::net::UnixStream;
#[cfg(feature = "server")]
use tokio_stream::{Stream, StreamExt};
#[cfg(feature = "server")]
use tonic::transport::server::Connected;

#[cfg(feature = "server")]
use crate::Socket;

/// Bytes that are kept at most, and the size from which a write is not kept.
const KEPT: usize = 8 << 10;

/// A connection that keeps small writes until tasks that are ready have run once. Nothing is kept for longer than a flush.
#[derive(Debug)]
pub struct Corked<S> {
    stream: S,
    kept: Vec<u8>,
    /// How much of `kept` is written.
    gone: usize,
    /// Whether the flush under way has let other tasks run.
    let_others_run: bool,
}

impl<S> Corked<S> {
    /// Keeps small writes to `stream`.
    pub fn new(stream: S) -> Self {
        Self { stream, kept: Vec::new(), gone: 0, let_others_run: false }
    }
}

/// Connections to a server, corked.
#[cfg(feature = "server")]
pub fn corked<S>(incoming: impl Stream<Item = io::Result<S>>) -> impl Stream<Item = io::Result<Corked<S>>> {
    incoming.map(|stream| stream.map(Corked::new))
}

/// Connections to a server at a UNIX socket, corked.
#[cfg(feature = "server")]
pub fn corked_unix(
    incoming: impl Stream<Item = io::Result<UnixStream>>,
) -> impl Stream<Item = io::Result<Corked<Socket>>> {
    corked(incoming.map(|stream| stream.and_then(Socket::of)))
}

#[cfg(feature = "server")]
impl<S: Connected> Connected for Corked<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncWrite + Unpin> Corked<S> {
    /// Writes what is kept.
    fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.gone < self.kept.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.kept[self.gone..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                wrote => self.gone += wrote,
            }
        }
        self.kept.clear();
        self.gone = 0;
        Poll::Ready(Ok(()))
    }

    /// Whether `more` bytes can be kept.
    fn keeps(&self, more: usize) -> bool {
        self.kept.len() + more <= KEPT
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Corked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.keeps(buf.len()) {
            self.kept.extend_from_slice(buf);
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(self.poll_empty(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = bufs.iter().map(|buf| buf.len()).sum();
        if self.keeps(all) {
            bufs.iter().for_each(|buf| self.kept.extend_from_slice(buf));
            return Poll::Ready(Ok(all));
        }
        ready!(self.poll_empty(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.kept.is_empty() && self.gone == 0 && !self.let_others_run {
            self.let_others_run = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_empty(cx))?;
        self.let_others_run = false;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_empty(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Takes all that is written, at most `most` bytes at a time, and notes each write.
    #[derive(Default)]
    struct Notes {
        writes: Vec<Vec<u8>>,
        most: Option<usize>,
    }

    impl AsyncWrite for Notes {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let taken = buf.len().min(self.most.unwrap_or(usize::MAX));
            self.writes.push(buf[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    async fn flush_once<S: AsyncWrite + Unpin>(corked: &mut Corked<S>) -> bool {
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *corked).poll_flush(cx).is_ready())).await
    }

    #[tokio::test]
    async fn parts_written_while_a_flush_lets_others_run_go_out_with_it() {
        let mut corked = Corked::new(Notes::default());
        corked.write_all(b"headers").await.unwrap();
        assert!(!flush_once(&mut corked).await, "others run first");
        corked.write_all(b" and data").await.unwrap();
        assert!(flush_once(&mut corked).await);
        assert_eq!(corked.stream.writes, [b"headers and data"]);
        // The next flush lets others run again, and one with nothing to write does not.
        corked.write_all(b"more").await.unwrap();
        assert!(!flush_once(&mut corked).await);
        assert!(flush_once(&mut corked).await && flush_once(&mut corked).await);
        assert_eq!(corked.stream.writes.len(), 2);
    }

    #[tokio::test]
    async fn large_writes_are_not_kept_and_come_behind_what_is() {
        let large = vec![7; KEPT + 1];
        let mut corked = Corked::new(Notes::default());
        corked.write_all(b"small").await.unwrap();
        corked.write_all(&large).await.unwrap();
        assert_eq!(corked.stream.writes, [b"small".to_vec(), large.clone()]);
        let parts = [IoSlice::new(&large), IoSlice::new(b"x")];
        corked.write_all(b"small").await.unwrap();
        assert!(corked.write_vectored(&parts).await.unwrap() > 0);
        assert_eq!(corked.stream.writes.len(), 4);
    }

    #[tokio::test]
    async fn all_comes_in_order_also_where_writes_are_cut_short() {
        let mut corked = Corked::new(Notes { most: Some(1000), ..Notes::default() });
        let mut sent = Vec::new();
        for (n, length) in [3, 9000, 5000, 4000, 1, 8192, 8193, 20].into_iter().enumerate() {
            let part = vec![n as u8; length];
            sent.extend(&part);
            corked.write_all(&part).await.unwrap();
            if n % 3 == 2 {
                corked.flush().await.unwrap();
            }
        }
        corked.shutdown().await.unwrap();
        assert_eq!(corked.stream.writes.concat(), sent);
    }

    #[tokio::test]
    async fn an_answer_comes_through() {
        let (here, there) = tokio::io::duplex(64);
        let (mut here, mut there) = (Corked::new(here), Corked::new(there));
        let ask = async {
            here.write_all(b"ask").await.unwrap();
            here.flush().await.unwrap();
            let mut answer = [0; 6];
            here.read_exact(&mut answer).await.unwrap();
            answer
        };
        let reply = async {
            let mut asked = [0; 3];
            there.read_exact(&mut asked).await.unwrap();
            there.write_all(b"answer").await.unwrap();
            there.flush().await.unwrap();
        };
        assert_eq!(tokio::join!(ask, reply).0, *b"answer");
    }
}
