//! The work that a process has under way, for people who ask why it does not answer. Calls of a server are there by
//! themselves, as a layer of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tonic::codegen::http::Request;
use tower::{Layer, Service};

/// The list of all that is under way. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Doings(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    newest: u64,
    /// The work, and since when it is under way, by number.
    open: BTreeMap<u64, (Cow<'static, str>, Instant)>,
}

/// Something that is under way until this is dropped.
#[derive(Debug)]
pub struct Doing {
    all: Doings,
    number: u64,
}

impl Drop for Doing {
    fn drop(&mut self) {
        self.all.lock().open.remove(&self.number);
    }
}

impl Doings {
    /// Something begins.
    pub fn begin(&self, what: impl Into<Cow<'static, str>>) -> Doing {
        let mut all = self.lock();
        all.newest += 1;
        let number = all.newest;
        all.open.insert(number, (what.into(), Instant::now()));
        Doing { all: self.clone(), number }
    }

    /// All that is under way: its number, which nothing else ever has, its name, and for how long. The oldest comes
    /// first.
    pub fn list(&self) -> Vec<(u64, String, Duration)> {
        let all = self.lock();
        all.open.iter().map(|(number, (what, since))| (*number, what.to_string(), since.elapsed())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Layer<S> for Doings {
    type Service = Noted<S>;

    fn layer(&self, inner: S) -> Noted<S> {
        Noted { inner, all: self.clone() }
    }
}

/// A service whose calls are noted.
#[derive(Clone, Debug)]
pub struct Noted<S> {
    inner: S,
    all: Doings,
}

impl<S, B> Service<Request<B>> for Noted<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let call = request.uri().path().rsplit('/').next().unwrap_or_default();
        let doing = self.all.begin(format!("answers {call}"));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            drop(doing);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_is_there_until_it_ends() {
        let all = Doings::default();
        let first = all.begin("writes");
        tokio::time::advance(Duration::from_secs(3)).await;
        let answer = |_: Request<()>| async { Ok::<_, std::convert::Infallible>(()) };
        let mut service = all.layer(tower::service_fn(answer));
        let call =
            service.call(Request::builder().uri("/zsr.controller.v1.Controller/GetFlow").body(()).unwrap());
        let texts = || -> Vec<(String, u64)> {
            all.list().into_iter().map(|(_, what, time)| (what, time.as_secs())).collect()
        };
        assert_eq!(texts(), [("writes".to_owned(), 3), ("answers GetFlow".to_owned(), 0)]);
        call.await.unwrap();
        drop(first);
        assert_eq!(texts(), []);
    }
}
