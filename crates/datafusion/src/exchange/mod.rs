//! How batches of a query travel between workers.
//!
//! Plans, metrics and work units go over gRPC, as `datafusion-distributed` has it, here over UNIX sockets. A worker that wants the output of
//! a task at another asks it for that at a socket of its own (`ask`), takes or makes a flow from there to itself, and says when it is there:
//! the other begins the task at once, fills the flow when it is there, and answers when all is pushed, or why it is not. Who hangs up has
//! cancelled. A flow that has carried a stream to its end is kept for the next one (`kept`).

mod ask;
mod channel;
mod fill;
mod flows;
mod kept;
mod part;
mod read;
mod running;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, Worker, WorkerChannel};
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Endpoint, Server};
use url::Url;
use zsr::Contact;

use ask::Ask;
use channel::FlowChannel;
use kept::Kept;
use running::Running;

pub use flows::{left_behind, remove};

/// A host has no worker that answers.
#[derive(Debug, thiserror::Error)]
#[error("the worker of host `{host}` does not answer: {why}")]
pub struct Unreachable {
    /// The host.
    pub host: String,
    /// Why.
    pub why: String,
}

/// What carries batches of queries to and from one host of a system. Give it to DataFusion with `with_distributed_channel_resolver`, at
/// the coordinator and at all workers.
///
/// Its clones are one and the same.
#[derive(Clone)]
pub struct Exchange {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    contact: Contact,
    host: String,
    prefix: String,
    sockets: PathBuf,
    channels: Mutex<HashMap<String, BoxCloneSyncChannel>>,
    running: Running,
    kept: Kept,
}

impl Exchange {
    /// For the program of `host` in the system of `contact`. Workers have their sockets in the folder `sockets`, which is the same for
    /// all; names of all flows begin with `prefix`: a letter, then at most 15 letters, digits, `_` and `-`.
    pub fn new(contact: impl Into<Contact>, host: &str, prefix: &str, sockets: &Path) -> Self {
        Exchange {
            inner: Arc::new(Inner {
                contact: contact.into(),
                host: host.to_owned(),
                prefix: prefix.to_owned(),
                sockets: sockets.to_owned(),
                channels: Mutex::default(),
                running: Running::default(),
                kept: Kept::default(),
            }),
        }
    }

    /// The URL of the worker of `host`, for a `WorkerResolver`.
    pub fn url(host: &str) -> Url {
        let mut url = Url::parse("http://zsr/").expect("a URL");
        url.set_path(host);
        url
    }

    /// The host that a URL stands for.
    pub fn host_of(url: &Url) -> &str {
        url.path().trim_start_matches('/')
    }

    /// Serves `worker` as this host's until the future is dropped. `ready` is called when others can reach it.
    ///
    /// # Errors
    /// Sockets that can't be made, or fail.
    pub async fn serve(&self, worker: Worker, ready: impl FnOnce()) -> Result<()> {
        let bind = |path: PathBuf| {
            let _ = std::fs::remove_file(&path);
            UnixListener::bind(&path).map_err(|e| exec_datafusion_err!("{}: {e}", path.display()))
        };
        let plans = bind(self.inner.plans(&self.inner.host))?;
        let asks = bind(self.inner.asks(&self.inner.host))?;
        let server = Server::builder()
            .add_service(worker.clone().into_worker_server())
            .serve_with_incoming(UnixListenerStream::new(plans));
        ready();
        tokio::select! {
            done = server => done.map_err(|e| exec_datafusion_err!("serving plans: {e}")),
            e = fill::serve(self.inner.clone(), worker, asks) => Err(exec_datafusion_err!("serving batches: {e}")),
        }
    }

    /// Waits until nothing of a query is left here: no flow is read or filled.
    pub async fn idle(&self) {
        self.inner.running.none().await;
    }

    /// Waits until nothing of a query is left at the worker of `host`.
    ///
    /// # Errors
    /// [`Unreachable`]: there is no worker, or it takes longer than `patience`.
    pub async fn idle_at(&self, host: &str, patience: Duration) -> Result<(), Unreachable> {
        let asked = async {
            let mut stream = UnixStream::connect(self.inner.asks(host)).await.map_err(|e| e.to_string())?;
            ask::write(&mut stream, &Ask::idle()).await.map_err(|e| e.to_string())?;
            let answer = ask::read_answer(&mut stream).await.map_err(|e| e.to_string())?;
            answer.into_result()
        };
        let late = |_| format!("parts of a query are still there after {} s", patience.as_secs_f64());
        let done = tokio::time::timeout(patience, asked).await.map_err(late).and_then(|done| done);
        done.map_err(|why| Unreachable { host: host.to_owned(), why })
    }

    /// Deletes the flows that are kept here for the next query. They go with the last clone, too, but not when a process exits.
    pub async fn clear(&self) {
        let inner = self.inner.clone();
        // If it panics, they are gone all the same.
        let _ = tokio::task::spawn_blocking(move || inner.kept.clear()).await;
    }

    /// Forgets the connection to a worker, which is started anew.
    pub fn forget(&self, host: &str) {
        self.inner.channels.lock().expect("no panic").remove(host);
    }
}

impl Inner {
    fn plans(&self, host: &str) -> PathBuf {
        self.sockets.join(format!("{host}.plans"))
    }

    fn asks(&self, host: &str) -> PathBuf {
        self.sockets.join(format!("{host}.asks"))
    }

    async fn channel(&self, host: &str) -> Result<BoxCloneSyncChannel> {
        if let Some(channel) = self.channels.lock().expect("no panic").get(host) {
            return Ok(channel.clone());
        }
        let path = self.plans(host);
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let channel =
            Endpoint::from_static("http://zsr").connect_with_connector(connector).await.map_err(|e| {
                let why = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
                DataFusionError::External(Unreachable { host: host.to_owned(), why }.into())
            })?;
        let channel = BoxCloneSyncChannel::new(channel);
        self.channels.lock().expect("no panic").insert(host.to_owned(), channel.clone());
        Ok(channel)
    }
}

#[async_trait]
impl ChannelResolver for Exchange {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let host = Self::host_of(url);
        let plans = create_worker_client(self.inner.channel(host).await?);
        Ok(Box::new(FlowChannel::new(self.inner.clone(), host, plans)))
    }
}
