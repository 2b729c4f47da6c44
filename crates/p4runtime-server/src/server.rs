//! The server: a listener, the service behind it, and a clean end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use p4runtime_proto::p4::v1::p4_runtime_server;
use p4runtime_proto::{Address, LocalListener};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::TcpIncoming;

use super::device::Device;
use super::notifications::pump;
use super::service::Service;
use zsr_cork::{corked, corked_unix};
use zsr_soft_switch::{SwitchHandle, SwitchStopped};
use zsr_tls::{Guard, Identity};

/// Largest request, in bytes: a pipeline's artifacts may well exceed gRPC's default of 4 MiB.
const MAX_REQUEST: usize = 256 << 20;

/// How often the transport asks a controller whether it is alive, and how long it waits for the answer, unless it is told otherwise.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Why a port can't be listened on.
#[derive(Debug, thiserror::Error)]
#[error("P4Runtime can't listen on {address}: {source}{}", hint(source))]
pub struct BindError {
    /// The address that was asked for.
    pub address: Address,
    /// The system's message.
    pub source: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another server has it, so end that one or choose another port (0: any)"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 are for root, the usual one is 9559",
        _ => "",
    }
}

/// Why serving ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The transport failed.
    #[error("the P4Runtime server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// Nobody runs the switch any more.
    #[error("P4Runtime can't be served: {0}")]
    Stopped(#[from] SwitchStopped),
}

/// A listener for [`P4RuntimeServer::serve`].
///
/// # Errors
/// With the address and what to do, in particular if the port is in use.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| BindError { address: address.into(), source })
}

/// A listener for [`P4RuntimeServer::serve`] that only this user can reach. A socket that a dead process has left at `path` is
/// replaced: the caller knows that nobody else listens there.
///
/// # Errors
/// With the path, and what the system says. Called outside of a tokio runtime it panics.
pub fn bind_unix(path: &Path) -> Result<UnixListener, BindError> {
    let failed = |source| BindError { address: Address::Unix(path.to_owned()), source };
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// As [`bind_unix`], unless another process listens at `path`, or what is there is no socket.
///
/// # Errors
/// With the path, and what to do.
pub fn bind_free_unix(path: &Path) -> Result<UnixListener, BindError> {
    let refused =
        |kind, why| BindError { address: Address::Unix(path.to_owned()), source: io::Error::new(kind, why) };
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            Err(refused(io::ErrorKind::AlreadyExists, "it is no socket: choose another path, or remove it"))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => Err(refused(
            io::ErrorKind::Other,
            "another process listens there: end it, or choose another path",
        )),
        _ => bind_unix(path),
    }
}

/// Where controllers come in.
pub enum Listener {
    /// For everybody who can reach the address.
    Tcp(TcpListener),
    /// For everybody with a certificate, as far as its rights go.
    Tls(TcpListener, Identity),
    /// For everybody who may open the socket.
    Unix(UnixListener),
    /// For everybody who was given the listener's place, in this process.
    Local(LocalListener),
}

impl From<LocalListener> for Listener {
    fn from(listener: LocalListener) -> Self {
        Listener::Local(listener)
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Listener::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Listener::Unix(listener)
    }
}

/// Serves p4.v1.P4Runtime for one switch.
pub struct P4RuntimeServer {
    handle: SwitchHandle,
    device_id: u64,
    keep_alive: Duration,
}

impl P4RuntimeServer {
    /// A server for the switch behind `handle`, which is device `device_id` to controllers (0 is bmv2's default). Until a controller commits
    /// a pipeline, the switch runs what it runs now, and Write and Read are refused. The switch's
    /// [notifications](zsr_soft_switch::Switch::notifications) belong to the server from the first commit on.
    pub fn new(handle: SwitchHandle, device_id: impl Into<u64>) -> Self {
        Self { handle, device_id: device_id.into(), keep_alive: KEEPALIVE }
    }

    /// Sets how often a controller is asked whether it is alive, and how long its answer may take until its session
    /// ends. The default is 20 s.
    pub fn keep_alive(self, keep_alive: Duration) -> Self {
        Self { keep_alive, ..self }
    }

    /// Serves until `shutdown` is ready; then ends all streams with UNAVAILABLE, finishes what has begun, and leaves
    /// no task behind.
    ///
    /// # Errors
    /// If the transport fails, or nobody runs the switch.
    pub async fn serve(
        self,
        listener: impl Into<Listener>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        self.serve_until(listener.into(), Box::pin(shutdown)).await
    }

    /// The server, compiled once and here, whoever ends it.
    async fn serve_until(
        self,
        listener: Listener,
        shutdown: Pin<Box<dyn Future<Output = ()> + Send + '_>>,
    ) -> Result<(), ServeError> {
        let config = self.handle.call(|switch| switch.config().clone()).await?;
        let (stop, stopped) = watch::channel(false);
        let (alive, mut ended) = mpsc::channel(1);
        let (device, feeds) = Device::new(self.device_id, self.handle, config);
        let device = Arc::new(device);
        let pump = tokio::spawn(pump(device.clone(), feeds, stopped.clone()));
        let service = Service { device, stop: stopped, alive };
        let service = p4_runtime_server::P4RuntimeServer::new(service)
            .max_decoding_message_size(MAX_REQUEST)
            .max_encoding_message_size(usize::MAX);
        let ending = async {
            shutdown.await;
            // Streams never end by themselves, and the server waits for them.
            let _ = stop.send(true);
        };
        let router = tonic::transport::Server::builder()
            // A controller whose machine died ends its session without a word.
            .http2_keepalive_interval(Some(self.keep_alive))
            .http2_keepalive_timeout(Some(self.keep_alive))
            .layer(Guard)
            .add_service(service);
        let served = match listener {
            Listener::Tcp(listener) => {
                // Packets must not wait for each other.
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                router.serve_with_incoming_shutdown(corked(incoming), ending).await
            }
            Listener::Tls(listener, identity) => {
                router.serve_with_incoming_shutdown(zsr_tls::incoming(listener, identity), ending).await
            }
            Listener::Unix(listener) => {
                let incoming = UnixListenerStream::new(listener);
                router.serve_with_incoming_shutdown(corked_unix(incoming), ending).await
            }
            Listener::Local(listener) => router.serve_with_incoming_shutdown(listener, ending).await,
        };
        let _ = stop.send(true);
        let _ = pump.await;
        // All clones are gone when the last task is.
        while ended.recv().await.is_some() {}
        Ok(served?)
    }
}
