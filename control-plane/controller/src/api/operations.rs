//! How long calls that change something take, and how many are refused, by kind. A layer of the server sees them all.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tonic::Status;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};
use zsr_api::controller as proto;

/// Calls that are counted, and what they are called.
const KINDS: [(&str, &str); 7] = [
    ("CreateFlow", "create-flow"),
    ("SetFlow", "set-flow"),
    ("AddProducer", "add-producer"),
    ("AddConsumer", "add-consumer"),
    ("RemoveMember", "remove-member"),
    ("DeleteFlow", "delete-flow"),
    ("GetPass", "get-pass"),
];

/// The times in milliseconds that calls are held against.
const WITHIN_MS: [u64; 9] = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000];

/// The times of calls by kind. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operations(Arc<Mutex<[Times; KINDS.len()]>>);

/// The times of all calls of a kind that have ended.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    calls: u64,
    refused: u64,
    all: Duration,
    /// Calls that took no longer than [`WITHIN_MS`].
    within: [u64; WITHIN_MS.len()],
}

/// A call until this is dropped.
struct Call {
    times: Operations,
    kind: usize,
    begun: Instant,
    is_well: bool,
}

impl Drop for Call {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        let times = &mut self.times.lock()[self.kind];
        times.calls += 1;
        times.refused += u64::from(!self.is_well);
        times.all += took;
        for (calls, within) in times.within.iter_mut().zip(WITHIN_MS) {
            *calls += u64::from(took <= Duration::from_millis(within));
        }
    }
}

impl Operations {
    /// A call begins, which counts as refused if it is dropped without an answer: its caller has gone.
    fn begin(&self, call: &str) -> Option<Call> {
        let kind = KINDS.iter().position(|(name, _)| *name == call)?;
        Some(Call { times: self.clone(), kind, begun: Instant::now(), is_well: false })
    }

    /// All kinds, also those of which there was no call yet.
    pub(crate) fn list(&self) -> Vec<proto::Operation> {
        let message = |((_, name), times): (&(&str, &str), &Times)| proto::Operation {
            name: (*name).into(),
            calls: times.calls,
            refused: times.refused,
            time_ns: times.all.as_nanos() as u64,
            times: WITHIN_MS
                .iter()
                .zip(times.within)
                .map(|(within, calls)| proto::OperationTime { within_us: within * 1000, calls })
                .collect(),
        };
        KINDS.iter().zip(self.lock().iter()).map(message).collect()
    }

    fn lock(&self) -> MutexGuard<'_, [Times; KINDS.len()]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Layer<S> for Operations {
    type Service = Timed<S>;

    fn layer(&self, inner: S) -> Timed<S> {
        Timed { inner, times: self.clone() }
    }
}

/// A service whose calls are timed.
#[derive(Clone, Debug)]
pub(crate) struct Timed<S> {
    inner: S,
    times: Operations,
}

impl<S, B, R> Service<Request<B>> for Timed<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let call = self.times.begin(request.uri().path().rsplit('/').next().unwrap_or_default());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Some(mut call) = call {
                // A refusal has its status in front; that of an answer comes behind it.
                let status = |answer: &Response<R>| Status::from_header_map(answer.headers());
                call.is_well = answer.as_ref().is_ok_and(|answer| status(answer).is_none());
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(call: &str) -> Request<()> {
        Request::builder().uri(format!("/zsr.controller.v1.Controller/{call}")).body(()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_timed_and_those_without_a_good_answer_are_refused() {
        let times = Operations::default();
        let answer = |request: Request<()>| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<Response<()>, std::convert::Infallible>(match request.uri().path().ends_with("SetFlow") {
                true => Status::not_found("no flow").into_http(),
                false => Response::new(()),
            })
        };
        let mut service = times.layer(tower::service_fn(answer));
        service.call(request("CreateFlow")).await.unwrap();
        service.call(request("SetFlow")).await.unwrap();
        service.call(request("GetStats")).await.unwrap();
        let left = tokio::time::timeout(Duration::from_millis(2), service.call(request("CreateFlow"))).await;
        assert!(left.is_err(), "the caller goes away");
        let of = |name: &str| times.list().into_iter().find(|operation| operation.name == name).unwrap();
        let created = of("create-flow");
        assert_eq!((created.calls, created.refused, created.time_ns), (2, 1, 22_000_000));
        let within: Vec<(u64, u64)> = created.times.iter().map(|time| (time.within_us, time.calls)).collect();
        assert_eq!(within[..5], [(1000, 0), (3000, 1), (10_000, 1), (30_000, 2), (100_000, 2)]);
        assert_eq!((of("set-flow").calls, of("set-flow").refused, of("delete-flow").calls), (1, 1, 0));
        assert_eq!(times.list().iter().map(|operation| operation.calls).sum::<u64>(), 3);
    }
}
