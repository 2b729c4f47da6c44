//! `zsr dash`: a page that shows a running system while it runs.
//!
//! The page is static. What it shows comes as server-sent events: `state` (system and flows, whenever they change),
//! `rates` (as `zsr top --json` prints them, twice a second), `events` (as `zsr events --json`), and `trouble` (why there
//! is nothing new).

mod watch;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use zsr::Session;

use super::doors::{self, DoorError, Doors};
use super::live_args::DashArgs;
use watch::Watch;

/// The page talks to nobody but this process, and nothing can be put into it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the page until Ctrl-C.
pub(super) fn dash(args: &DashArgs) -> u8 {
    doors::exit(run(args))
}

fn run(args: &DashArgs) -> Result<(), DoorError> {
    let doors = Doors::new(Some(args.listen), None)?;
    serve(doors, args.contact.open()?)
}

/// Serves the page of a session's system until Ctrl-C.
pub(super) fn serve(doors: Doors<'_>, session: Session) -> Result<(), DoorError> {
    let watch = Watch::start(session);
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    let app = Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page.html")))
        .route("/page.css", file("text/css; charset=utf-8", include_str!("page.css")))
        .route("/page.js", file("text/javascript; charset=utf-8", include_str!("page.js")))
        .route("/live", get(live))
        .layer(middleware::from_fn(guarded))
        .with_state(watch);
    doors.serve("the page is", "/", app)
}

/// Refuses what a page of somebody else could ask for by giving its own name this machine's address.
async fn guarded(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if !["localhost", "127.0.0.1", "[::1]"].contains(&name) {
        let why = "the page is at 127.0.0.1 or localhost only; a server in front has to say so in Host\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn live(State(watch): State<Watch>) -> Response {
    Sse::new(watch.stream()).keep_alive(KeepAlive::default()).into_response()
}
