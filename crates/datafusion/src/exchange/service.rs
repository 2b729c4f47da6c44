//! The call by which one worker asks another to fill a flow: a gRPC service of one call, beside those of datafusion-distributed.
//!
//! Who asks says what it wants, and then that the flow is there. Who fills answers when all is pushed, or why it is not. The one who asks
//! cancels by ending its half before the answer.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion_distributed::Worker;
use datafusion_distributed::grpc::BoxCloneSyncChannel;
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::server::{ClientStreamingService, NamedService};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::Inner;
use super::ask::{Answer, Ask};
use super::fill;

const SERVICE: &str = "zsr.sql.v1.Exchange";
const PATH: &str = "/zsr.sql.v1.Exchange/Fill";
/// Bytes of a question. Partitionings are expressions over columns.
const LONGEST: usize = 16 << 20;

/// What who asks says.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Said {
    /// What is wanted. Nothing: the flow is there.
    #[prost(message, optional, tag = "1")]
    pub(crate) ask: Option<Ask>,
}

/// A question that was asked. It is cancelled when it is dropped.
pub(crate) struct Asked {
    to: mpsc::Sender<Said>,
    answer: JoinHandle<Result<(), Refusal>>,
}

/// Why a question was not answered well.
pub(crate) enum Refusal {
    /// The worker says it.
    Said(String),
    /// The worker is not there any more, or does not speak to us.
    Gone(String),
}

impl Asked {
    /// Asks at once, beside the futures.
    pub(crate) fn new(channel: BoxCloneSyncChannel, ask: Ask) -> Self {
        // Of two messages neither waits.
        let (to, said) = mpsc::channel(2);
        let first = to.try_send(Said { ask: Some(ask) });
        debug_assert!(first.is_ok());
        Asked { to, answer: tokio::spawn(call(channel, said)) }
    }

    /// Says that the flow is there.
    pub(crate) fn made(&self) {
        // If it can't be said, the answer is there.
        let _ = self.to.try_send(Said { ask: None });
    }

    /// Says that nothing is wanted any more, and what may still be said to it.
    pub(crate) fn cancel(self) -> JoinHandle<Result<(), Refusal>> {
        self.answer
    }

    /// Waits for the answer.
    pub(crate) async fn answer(&mut self) -> Result<(), Refusal> {
        (&mut self.answer).await.unwrap_or_else(|e| Err(Refusal::Gone(e.to_string())))
    }
}

async fn call(channel: BoxCloneSyncChannel, said: mpsc::Receiver<Said>) -> Result<(), Refusal> {
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.map_err(|e| Refusal::Gone(cause(&e)))?;
    let request = Request::new(ReceiverStream::new(said));
    let answer = grpc.client_streaming(request, PathAndQuery::from_static(PATH), ProstCodec::default()).await;
    match answer {
        Ok(answer) => Answer::into_result(answer.into_inner()).map_err(Refusal::Said),
        Err(status) if status.code() == Code::PermissionDenied => {
            Err(Refusal::Said(status.message().to_owned()))
        }
        Err(status) => Err(Refusal::Gone(match status.source() {
            Some(source) => cause(source),
            None => status.message().to_owned(),
        })),
    }
}

/// The innermost error, which says what has happened.
pub(crate) fn cause(e: &(dyn Error + 'static)) -> String {
    let mut inner: &(dyn Error + 'static) = e;
    while let Some(source) = inner.source() {
        inner = source;
    }
    match inner.downcast_ref::<io::Error>() {
        // What TLS says of a process that was killed is long.
        Some(e) if e.kind() == io::ErrorKind::UnexpectedEof => "it has closed the connection".to_owned(),
        _ => inner.to_string(),
    }
}

/// Answers what others ask.
#[derive(Clone)]
pub(crate) struct Service {
    inner: Arc<Inner>,
    worker: Worker,
}

impl Service {
    pub(crate) fn new(inner: Arc<Inner>, worker: Worker) -> Self {
        Service { inner, worker }
    }
}

impl NamedService for Service {
    const NAME: &'static str = SERVICE;
}

impl tower::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move {
            if request.uri().path() != PATH {
                return Ok(
                    Status::unimplemented(format!("{}: no such call", request.uri().path())).into_http()
                );
            }
            let mut grpc = tonic::server::Grpc::new(ProstCodec::default())
                .apply_max_message_size_config(Some(LONGEST), None);
            Ok(grpc.client_streaming(method, request).await)
        })
    }
}

impl ClientStreamingService<Said> for Service {
    type Response = Answer;
    type Future = BoxFuture<'static, Result<Response<Answer>, Status>>;

    fn call(&mut self, request: Request<Streaming<Said>>) -> Self::Future {
        let Service { inner, worker } = self.clone();
        // A task of its own: this future is dropped when the connection breaks, and the task has to end in good order then.
        let answer = tokio::spawn(fill::answer(inner, worker, request.into_inner()));
        Box::pin(async move {
            let result = answer.await.unwrap_or_else(|e| Err(e.to_string()));
            Ok(Response::new(Answer::of(result)))
        })
    }
}
