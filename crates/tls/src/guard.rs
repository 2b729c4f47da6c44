//! Holds the calls of a server to the table of rights. A caller at a socket of its own user's, or in this process, has
//! no certificate and may do everything.

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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::caller::Role;

    /// The answer to a call: its gRPC status, if that comes from the guard, and its message.
    fn call(caller: Option<Role>, path: &str) -> Option<(String, String)> {
        let answer = |_: Request<()>| async { Ok::<_, Infallible>(Response::new(String::new())) };
        let mut service = Guard.layer(tower::service_fn(answer));
        let mut request = Request::builder().uri(path).body(()).unwrap();
        if let Some(role) = caller {
            let caller = Caller { name: "me".into(), role: Some(role), flows: Vec::new() };
            request.extensions_mut().insert(Arc::new(caller));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let response = runtime.block_on(service.call(request)).unwrap();
        let header = |name| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
        header("grpc-status").map(|status| (status, header("grpc-message").unwrap_or_default()))
    }

    #[test]
    fn each_role_gets_as_far_as_the_table_says_and_is_told_what_it_lacks() {
        for (service, name, right) in rights::CALLS {
            let path = format!("/{service}/{name}");
            assert_eq!(call(None, &path), None, "{path}: a caller through a socket");
            for role in Role::ALL {
                match call(Some(role), &path) {
                    None => assert!(rights::of(role).contains(&right), "{role}: {path}"),
                    Some((status, message)) => {
                        assert!(!rights::of(role).contains(&right) && status == "7", "{role}: {path}");
                        assert!(
                            message.contains(right.words().0) && message.contains(role.word()),
                            "{message}"
                        );
                    }
                }
            }
        }
        // A call that is not in the table is nobody's.
        assert!(call(Some(Role::Operator), "/zsr.controller.v1.Controller/Format").is_some());
        assert!(call(Some(Role::Controller), "/").is_some());
    }

    /// The rights of each role, said once more.
    #[test]
    fn readers_change_nothing_and_nobody_but_the_controller_sees_keys() {
        for (service, name, _) in rights::CALLS {
            let path = format!("/{service}/{name}");
            let may = |role| call(Some(role), &path).is_none();
            let questions = [
                "GetSystem",
                "ListFlows",
                "GetFlow",
                "ListRings",
                "WatchEvents",
                "GetStats",
                "GetInfo",
                "Capabilities",
            ];
            let is_controllers = service == "zsr.controller.v1.Controller";
            let is_workers = ["worker.WorkerService", "zsr.sql.v1.Exchange"].contains(&service);
            let is_question =
                questions.contains(&name) && (is_controllers || name == "GetInfo" || name == "Capabilities");
            assert_eq!(may(Role::Reader), is_question, "{path}");
            assert_eq!(may(Role::Operator), is_controllers || is_question || is_workers, "{path}");
            assert_eq!(may(Role::Worker), may(Role::Operator) && name != "Shutdown", "{path}");
            assert_eq!(may(Role::Program), is_question || ["Barrier", "GetPass"].contains(&name), "{path}");
            assert_eq!(may(Role::Controller), !(is_controllers || is_workers) || is_question, "{path}");
            assert!(!may(Role::Agent) && !may(Role::Switch), "{path}");
        }
    }
}
