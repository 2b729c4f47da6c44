//! Holds the calls of a server to the table of rights. Whoever came through a socket of its own user's, or through this process,
//! has no certificate and may do everything.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

use crate::caller::Caller;
use crate::rights;

/// The layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guard;

/// A service behind it.
#[derive(Clone, Debug)]
pub struct Guarded<S>(S);

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded(inner)
    }
}

type Answer<R, E> = Pin<Box<dyn Future<Output = Result<Response<R>, E>> + Send>>;

impl<S, B, R> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    R: Default + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Answer<R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let caller = request.extensions().get::<Arc<Caller>>();
        match caller.and_then(|caller| refusal(caller, request.uri().path())) {
            Some(status) => Box::pin(std::future::ready(Ok(status.into_http()))),
            None => Box::pin(self.0.call(request)),
        }
    }
}

/// Why a caller may not make this call, if it may not.
fn refusal(caller: &Caller, path: &str) -> Option<Status> {
    let call = path.rsplit('/').next().unwrap_or_default();
    let Some(right) = rights::needed(path) else {
        return Some(Status::permission_denied(format!(
            "{call}: nobody has the right to this call from outside"
        )));
    };
    if caller.has(right) {
        return None;
    }
    let (word, meaning) = right.words();
    Some(Status::permission_denied(format!(
        "{call}: {caller} lacks the right `{word}` ({meaning}), which {} has",
        rights::who(right)
    )))
}
