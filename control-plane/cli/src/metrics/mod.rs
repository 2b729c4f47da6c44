//! `zsr metrics`: what a system does, for Prometheus.

mod exposition;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use zsr::{ClientError, Session};
use zsr_api::controller as proto;

use super::doors::{self, DoorError, Doors};
use super::live_args::MetricsArgs;
use super::print;
pub use exposition::{Snapshot, open_metrics};

/// The two forms of a scrape.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Prints one scrape, or answers scrapes.
pub(super) fn metrics(args: &MetricsArgs) -> u8 {
    doors::exit(run(args))
}

fn run(args: &MetricsArgs) -> Result<(), DoorError> {
    let doors = Doors::new(args.listen, args.socket.as_deref())?;
    let session = args.contact.open()?;
    if args.listen.is_none() && args.socket.is_none() {
        print(&exposition::plain_text(look(&session)?));
        return Ok(());
    }
    let app = Router::new().route("/metrics", get(scrape)).with_state(Arc::new(session));
    doors.serve("metrics are", "/metrics", app)
}

/// Asks the controller for all that a scrape has.
///
/// # Errors
/// The controller's, or of the connection to it.
pub fn look(session: &Session) -> Result<Snapshot, ClientError> {
    session.call(|mut controller| async move {
        let system = controller.get_system(proto::GetSystemRequest {}).await?;
        let flows = controller.list_flows(proto::ListFlowsRequest {}).await?;
        let stats = controller.get_stats(proto::GetStatsRequest::default()).await?;
        let (system, flows, stats) = (system.into_inner(), flows.into_inner().flows, stats.into_inner());
        Ok(tonic::Response::new(Snapshot { system, flows, stats }))
    })
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
