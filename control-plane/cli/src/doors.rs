//! Where a command answers HTTP: an address of this machine, a UNIX socket, or both. Whoever gets there only reads.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use axum::Router;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use zsr::ClientError;

use super::{FAILED, OK, USAGE, complain};

/// The reason why a command answers nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum DoorError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("can't listen at {at}: {source}")]
    Listen { at: String, source: std::io::Error },
    #[error(
        "--listen {0}: answers go out in clear and to anybody, so only addresses of this machine will do (127.0.0.1:PORT): for others, put \
         a server with TLS in front"
    )]
    Open(SocketAddr),
    #[error("can't start: {0}")]
    Start(std::io::Error),
}

/// The exit code of a command that has answered; an error is printed.
pub(super) fn exit(done: Result<(), DoorError>) -> u8 {
    match done {
        Ok(()) => OK,
        Err(e) => {
            complain(format_args!("error: {e}"));
            if matches!(e, DoorError::Open(_)) { USAGE } else { FAILED }
        }
    }
}

/// The address, which is taken at once, and the socket.
pub(super) struct Doors<'a> {
    listen: Option<std::net::TcpListener>,
    socket: Option<&'a Path>,
}

impl<'a> Doors<'a> {
    /// # Errors
    /// [`DoorError::Open`], [`DoorError::Listen`].
    pub(super) fn new(listen: Option<SocketAddr>, socket: Option<&'a Path>) -> Result<Self, DoorError> {
        if let Some(open) = listen.filter(|at| !at.ip().is_loopback()) {
            return Err(DoorError::Open(open));
        }
        let bound = |at: SocketAddr| {
            let failed = |source| DoorError::Listen { at: at.to_string(), source };
            let listener = std::net::TcpListener::bind(at).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            Ok::<_, DoorError>(listener)
        };
        Ok(Self { listen: listen.map(bound).transpose()?, socket })
    }

    /// Answers until Ctrl-C, or until it is told to end. `what` is at `path`: that is said once it is there.
    pub(super) fn serve(self, what: &str, path: &str, app: Router) -> Result<(), DoorError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(DoorError::Start)?;
        let done = runtime.block_on(self.answer(what, path, app));
        // Streams to readers have no end of their own.
        runtime.shutdown_background();
        done
    }

    async fn answer(self, what: &str, path: &str, app: Router) -> Result<(), DoorError> {
        let mut serving = tokio::task::JoinSet::new();
        if let Some(listener) = self.listen {
            let listener = TcpListener::from_std(listener).map_err(DoorError::Start)?;
            let at = listener.local_addr().map_err(DoorError::Start)?;
            complain(format_args!("{what} at http://{at}{path}"));
            let served = axum::serve(listener, app.clone());
            serving.spawn(async move { served.await });
        }
        let _socket = match self.socket {
            None => None,
            Some(at) => {
                let failed = |source| DoorError::Listen { at: at.display().to_string(), source };
                let listener = bound(at).map_err(failed)?;
                complain(format_args!("{what} at {}, path {path}", at.display()));
                let served = axum::serve(listener, app);
                serving.spawn(async move { served.await });
                Some(Socket(at.to_owned()))
            }
        };
        let mut terminate = signal(SignalKind::terminate()).map_err(DoorError::Start)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(DoorError::Start)?;
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = serving.join_next() => {}
        }
        Ok(())
    }
}

/// A socket at `path`, in place of one that nobody listens at any more.
fn bound(path: &Path) -> std::io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
            match std::os::unix::net::UnixStream::connect(path) {
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)?;
                    UnixListener::bind(path)
                }
                _ => Err(e),
            }
        }
        done => done,
    }
}

/// A socket's file, which goes with the process.
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // One that is gone needs nothing.
        let _ = std::fs::remove_file(&self.0);
    }
}
