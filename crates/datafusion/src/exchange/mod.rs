//! How batches of a query travel between workers.
//!
//! Plans, metrics and work units go over gRPC, as `datafusion-distributed` has it, to a worker's socket or address (`meeting`). A worker
//! that wants the output of a task at another asks it for that by a call of our own at the same place (`service`), takes or makes a flow
//! from there to itself, and says when it is there: the other begins the task at once, fills the flow when it is there, and answers when
//! all is pushed, or why it is not. A flow that has carried a stream to its end is kept for the next one (`kept`).

mod ask;
mod channel;
mod fill;
mod flows;
mod kept;
mod meeting;
mod part;
mod read;
mod running;
mod service;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion_distributed::grpc::BoxCloneSyncChannel;
use datafusion_distributed::{ChannelResolver, Worker, WorkerChannel};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::{Router, TcpIncoming};
use url::Url;
use zsr::Contact;
use zsr_cork::{corked, corked_unix};
use zsr_tls::{Guard, Identity, incoming};

use ask::Ask;
use channel::FlowChannel;
use kept::Kept;
use meeting::{LOOK, PATIENCE, host_of};
use running::Running;
use service::{Asked, Refusal, Service, cause};

pub use flows::{left_behind, remove};
pub use meeting::{Meeting, Unknown};

/// How often it is looked for flows that have failed.
const SWEEP: Duration = Duration::from_secs(1);

/// A host has no worker that answers, or none that can be used.
#[derive(Debug, thiserror::Error)]
#[error("the worker of host `{host}`: {why}")]
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
    meeting: Meeting,
    channels: Mutex<HashMap<Url, BoxCloneSyncChannel>>,
    running: Running,
    kept: Kept,
}

impl Exchange {
    /// For the program of `host` in the system of `contact`. `meeting` says where workers are reached; a folder is the same for all. Names
    /// of all flows begin with `prefix`: a letter, then at most 15 letters, digits, `_` and `-`.
    pub fn new(contact: impl Into<Contact>, host: &str, prefix: &str, meeting: impl Into<Meeting>) -> Self {
        Exchange {
            inner: Arc::new(Inner {
                contact: contact.into(),
                host: host.to_owned(),
                prefix: prefix.to_owned(),
                meeting: meeting.into(),
                channels: Mutex::default(),
                running: Running::default(),
                kept: Kept::default(),
            }),
        }
    }

    /// The URL of the worker of `host`, for a `WorkerResolver`.
    ///
    /// # Errors
    /// [`Unknown`]: its address is not among those of [`Meeting::Network`].
    pub fn url(&self, host: &str) -> Result<Url, Unknown> {
        self.inner.meeting.url(host)
    }

    /// The host that a URL stands for.
    pub fn host_of(url: &Url) -> &str {
        host_of(url)
    }

    /// Serves `worker` as this host's until the future is dropped, at a socket in the folder of [`Meeting::Folder`]. `ready` is called
    /// when others can reach it.
    ///
    /// # Errors
    /// A socket that can't be made, or fails; workers meet at addresses.
    pub async fn serve(&self, worker: Worker, ready: impl FnOnce()) -> Result<()> {
        let path = self.inner.meeting.socket(&self.inner.host);
        let path = path.ok_or_else(|| exec_datafusion_err!("workers meet at addresses: call serve_at"))?;
        let _ = std::fs::remove_file(&path);
        let listener =
            UnixListener::bind(&path).map_err(|e| exec_datafusion_err!("{}: {e}", path.display()))?;
        let served = self.router(Server::builder(), worker);
        ready();
        self.swept(served.serve_with_incoming(corked_unix(UnixListenerStream::new(listener)))).await
    }

    /// Serves `worker` as this host's until the future is dropped, at an address: with TLS by the certificate of [`Meeting::Network`], or
    /// without one at an address that only this machine reaches.
    ///
    /// # Errors
    /// A certificate that can't be used, or none where others reach the address; a listener that fails.
    pub async fn serve_at(&self, worker: Worker, listener: TcpListener) -> Result<()> {
        let watched =
            Server::builder().http2_keepalive_interval(Some(LOOK)).http2_keepalive_timeout(Some(PATIENCE));
        let certificate = match &self.inner.meeting {
            Meeting::Folder(_) => None,
            Meeting::Network { certificate, .. } => certificate.as_ref(),
        };
        if let Some(certificate) = certificate {
            let identity = Identity::open(certificate).map_err(|e| DataFusionError::External(e.into()))?;
            let served = self.router(watched.layer(Guard), worker);
            return self.swept(served.serve_with_incoming(incoming(listener, identity))).await;
        }
        let at = listener.local_addr()?;
        if !at.ip().is_loopback() {
            return Err(exec_datafusion_err!(
                "{at}: other machines reach this address, so it takes a certificate"
            ));
        }
        let served = self.router(watched, worker);
        self.swept(served.serve_with_incoming(corked(TcpIncoming::from(listener).with_nodelay(Some(true)))))
            .await
    }

    /// Serves, and drops meanwhile what is left of flows that have failed.
    async fn swept(&self, served: impl Future<Output = Result<(), tonic::transport::Error>>) -> Result<()> {
        let sweeping = async {
            loop {
                tokio::time::sleep(SWEEP).await;
                let inner = self.inner.clone();
                // If it panics, the next one goes on.
                let _ = tokio::task::spawn_blocking(move || inner.kept.sweep()).await;
            }
        };
        tokio::select! {
            served = served => served.map_err(|e| exec_datafusion_err!("serving a worker: {}", cause(&e))),
            () = sweeping => Ok(()),
        }
    }

    fn router<L: Clone>(&self, mut server: Server<L>, worker: Worker) -> Router<L> {
        let batches = Service::new(self.inner.clone(), worker.clone());
        server.add_service(worker.into_worker_server()).add_service(batches)
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
        let late = || format!("parts of a query are still there after {} s", patience.as_secs_f64());
        self.asked(host, Ask::idle(), patience, late).await
    }

    /// Asks the worker of `host` whether it is there, and of this version.
    ///
    /// # Errors
    /// [`Unreachable`]: there is no worker, it is of another version, or it takes longer than `patience`.
    pub async fn greet(&self, host: &str, patience: Duration) -> Result<(), Unreachable> {
        let late = || format!("it says nothing for {} s", patience.as_secs_f64());
        self.asked(host, Ask::greeting(), patience, late).await
    }

    async fn asked(
        &self,
        host: &str,
        ask: Ask,
        patience: Duration,
        late: impl Fn() -> String,
    ) -> Result<(), Unreachable> {
        let answered = async {
            let url = self.url(host).map_err(|e| e.to_string())?;
            let channel = self.inner.channel(&url).await.map_err(|e| e.why)?;
            match Asked::new(channel, ask).answer().await {
                Ok(()) => Ok(()),
                Err(Refusal::Said(why) | Refusal::Gone(why)) => Err(why),
            }
        };
        let done = tokio::time::timeout(patience, answered).await.unwrap_or_else(|_| Err(late()));
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
        self.inner.channels.lock().expect("no panic").retain(|url, _| host_of(url) != host);
    }
}

impl Inner {
    async fn channel(&self, url: &Url) -> Result<BoxCloneSyncChannel, Unreachable> {
        if let Some(channel) = self.channels.lock().expect("no panic").get(url) {
            return Ok(channel.clone());
        }
        let channel = self.meeting.connect(url).await.map_err(|e| {
            let why = cause(e.as_ref());
            Unreachable { host: host_of(url).to_owned(), why }
        })?;
        self.channels.lock().expect("no panic").insert(url.clone(), channel.clone());
        Ok(channel)
    }
}

#[async_trait]
impl ChannelResolver for Exchange {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = self.inner.channel(url).await.map_err(|e| DataFusionError::External(e.into()))?;
        Ok(Box::new(FlowChannel::new(self.inner.clone(), host_of(url), channel)))
    }
}
