//! `zsr metrics`: what a system does, for Prometheus.

mod exposition;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::{TcpListener, UnixListener};
use zsr::{ClientError, Session};
use zsr_api::controller as proto;

use super::live_args::MetricsArgs;
use super::{FAILED, OK, USAGE, complain, print};
use exposition::Snapshot;

/// The two forms of a scrape.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Why there is no scrape.
#[derive(Debug, thiserror::Error)]
enum MetricsError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("can't listen at {at}: {source}")]
    Listen { at: String, source: std::io::Error },
    #[error(
        "--listen {0}: figures go out in clear and to anybody, so only addresses of this machine will do (127.0.0.1:9464): for others, put \
         a server with TLS in front"
    )]
    Open(SocketAddr),
    #[error("can't start: {0}")]
    Start(std::io::Error),
}

/// Prints one scrape, or answers scrapes.
pub(super) fn metrics(args: &MetricsArgs) -> u8 {
    match run(args) {
        Ok(()) => OK,
        Err(e) => {
            complain(format_args!("error: {e}"));
            if matches!(e, MetricsError::Open(_)) { USAGE } else { FAILED }
        }
    }
}

fn run(args: &MetricsArgs) -> Result<(), MetricsError> {
    if let Some(open) = args.listen.filter(|at| !at.ip().is_loopback()) {
        return Err(MetricsError::Open(open));
    }
    let session = args.contact.open()?;
    if args.listen.is_none() && args.socket.is_none() {
        print(&exposition::plain_text(look(&session)?));
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(MetricsError::Start)?.block_on(serve(args, Arc::new(session)))
}

/// Asks the controller for all that a scrape has.
fn look(session: &Session) -> Result<Snapshot, ClientError> {
    session.call(|mut controller| async move {
        let system = controller.get_system(proto::GetSystemRequest {}).await?;
        let flows = controller.list_flows(proto::ListFlowsRequest {}).await?;
        let stats = controller.get_stats(proto::GetStatsRequest::default()).await?;
        let (system, flows, stats) = (system.into_inner(), flows.into_inner().flows, stats.into_inner());
        Ok(tonic::Response::new(Snapshot { system, flows, stats }))
    })
}

/// Answers scrapes until Ctrl-C.
async fn serve(args: &MetricsArgs, session: Arc<Session>) -> Result<(), MetricsError> {
    let app = Router::new().route("/metrics", get(scrape)).with_state(session);
    let end = || async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let mut serving = tokio::task::JoinSet::new();
    if let Some(at) = args.listen {
        let failed = |source| MetricsError::Listen { at: at.to_string(), source };
        let listener = TcpListener::bind(at).await.map_err(failed)?;
        let at = listener.local_addr().map_err(failed)?;
        complain(format_args!("metrics are at http://{at}/metrics"));
        let served = axum::serve(listener, app.clone()).with_graceful_shutdown(end());
        serving.spawn(async move { served.await });
    }
    let _socket = match &args.socket {
        None => None,
        Some(path) => {
            let failed = |source| MetricsError::Listen { at: path.display().to_string(), source };
            let listener = bound(path).map_err(failed)?;
            complain(format_args!("metrics are at {}, path /metrics", path.display()));
            let served = axum::serve(listener, app).with_graceful_shutdown(end());
            serving.spawn(async move { served.await });
            Some(Socket(path.clone()))
        }
    };
    while serving.join_next().await.is_some() {}
    Ok(())
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

async fn scrape(State(session): State<Arc<Session>>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let open = accepted.into_iter().any(|accepted| accepted.contains("application/openmetrics-text"));
    let looked = tokio::task::spawn_blocking(move || look(&session)).await;
    let (status, kind, text) = match looked {
        Ok(Ok(snapshot)) if open => (StatusCode::OK, OPEN_METRICS, exposition::open_metrics(snapshot)),
        Ok(Ok(snapshot)) => (StatusCode::OK, PLAIN, exposition::plain_text(snapshot)),
        Ok(Err(e)) => (StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", format!("{e}\n")),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", format!("{e}\n")),
    };
    (status, [(header::CONTENT_TYPE, kind)], text).into_response()
}
