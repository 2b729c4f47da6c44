//! The transports.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::array::{Array, RecordBatch};
use async_trait::async_trait;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CompressionType, CoordinatorToWorkerMsg, DistributedExt, ExecuteTaskRequest,
    GetWorkerInfoRequest, GetWorkerInfoResponse, MaybeEncoded, ProducerHead, SetPlanRequest, Worker,
    WorkerChannel, WorkerQueryContext, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::HeaderMap;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use url::Url;
use zsr::Place;
use zsr_datafusion::{Exchange, Unreachable, tpch};

const HOSTS: [&str; 2] = ["h1", "h2"];
/// How long flows may take to be deleted.
const PATIENCE: Duration = Duration::from_secs(10);

/// The transport of batches.
pub(crate) enum Carrier {
    /// They are handed over, and counted.
    Memory(Carried),
    /// As the engine does it, with TCP connections to the worker.
    Grpc(Option<CompressionType>),
    /// As `zsr sql` does it.
    Flows,
}

/// Rows and bytes that went from one host to another.
#[derive(Clone, Default)]
pub(crate) struct Carried(Arc<(AtomicU64, AtomicU64)>);

impl Carried {
    fn add(&self, batch: &RecordBatch) {
        let bytes = |array: &Arc<dyn Array>| array.to_data().get_slice_memory_size().unwrap_or(0);
        self.0.0.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        self.0.1.fetch_add(batch.columns().iter().map(bytes).sum::<usize>() as u64, Ordering::Relaxed);
    }

    /// What was counted since the last time.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.0.0.swap(0, Ordering::Relaxed), self.0.1.swap(0, Ordering::Relaxed))
    }
}

/// Waits until no flow of a query is left.
pub(crate) async fn gone(flows: &Option<Exchange>) -> Result<(), Unreachable> {
    let Some(head) = flows else { return Ok(()) };
    head.idle().await;
    for host in HOSTS {
        head.idle_at(host, PATIENCE).await?;
    }
    Ok(())
}

/// Starts workers, and gives a session that asks them, and what it has to be asked whether flows are left.
pub(crate) async fn session(
    carrier: Carrier,
    system: &Place,
    sockets: &Path,
) -> Result<(SessionState, Option<Exchange>)> {
    let head = Exchange::new(system, "head", "transports", sockets);
    let state = head.session(&HOSTS, 2)?;
    match carrier {
        Carrier::Flows => {
            for host in HOSTS {
                let exchange = Exchange::new(system, host, "transports", sockets);
                let (ready, is_ready) = tokio::sync::oneshot::channel();
                tokio::spawn(async move {
                    exchange.serve(exchange.worker(), || ready.send(()).expect("waited for")).await
                });
                is_ready.await.map_err(|e| exec_datafusion_err!("worker of {host}: {e}"))?;
            }
            Ok((state, Some(head)))
        }
        Carrier::Memory(carried) => {
            let resolver = Memory { workers: Arc::default(), carried };
            let workers = HOSTS.map(|host| (host.to_owned(), worker(resolver.clone())));
            let _ = resolver.workers.set(workers.into());
            let builder = SessionStateBuilder::new_from_existing(state);
            Ok((builder.with_distributed_channel_resolver(resolver).build(), None))
        }
        Carrier::Grpc(compression) => {
            let resolver = Grpc::default();
            let mut channels = HashMap::new();
            for host in HOSTS {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                let url = format!("http://{}", listener.local_addr()?);
                let server = Server::builder().add_service(worker(resolver.clone()).into_worker_server());
                tokio::spawn(
                    server.serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true))),
                );
                let endpoint = Endpoint::from_shared(url).map_err(|e| exec_datafusion_err!("{e}"))?;
                channels.insert(host.to_owned(), BoxCloneSyncChannel::new(endpoint.connect_lazy()));
            }
            let _ = resolver.channels.set(channels);
            let builder = SessionStateBuilder::new_from_existing(state);
            let builder = builder.with_distributed_channel_resolver(resolver);
            Ok((builder.with_distributed_compression(compression)?.build(), None))
        }
    }
}

fn worker(resolver: impl ChannelResolver + Clone + Send + Sync + 'static) -> Worker {
    Worker::from_session_builder(move |context: WorkerQueryContext| {
        let builder = context.builder.with_distributed_channel_resolver(resolver.clone());
        let builder = builder.with_distributed_user_codec(tpch::Codec);
        async move { Ok(builder.build()) }
    })
}

#[derive(Clone, Default)]
struct Grpc {
    channels: Arc<OnceLock<HashMap<String, BoxCloneSyncChannel>>>,
}

#[async_trait]
impl ChannelResolver for Grpc {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = self.channels.get().and_then(|channels| channels.get(Exchange::host_of(url)));
        channel.cloned().map(create_worker_client).ok_or_else(|| exec_datafusion_err!("no worker {url}"))
    }
}

#[derive(Clone)]
struct Memory {
    workers: Arc<OnceLock<HashMap<String, Worker>>>,
    carried: Carried,
}

#[async_trait]
impl ChannelResolver for Memory {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let worker = self.workers.get().and_then(|workers| workers.get(Exchange::host_of(url)));
        let worker = worker.cloned().ok_or_else(|| exec_datafusion_err!("no worker {url}"))?;
        Ok(Box::new(MemoryChannel { worker, carried: self.carried.clone() }))
    }
}

struct MemoryChannel {
    worker: Worker,
    carried: Carried,
}

#[async_trait]
impl WorkerChannel for MemoryChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        mut request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        _metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        // Plans are encoded, as by all transports: tasks don't share their state.
        request.plan = MaybeEncoded::Encoded(request.plan.encode(context)?);
        self.worker.coordinator_channel(headers, request, messages.map(Ok).boxed()).await
    }

    async fn execute_task(
        &mut self,
        _headers: HeaderMap,
        mut request: ExecuteTaskRequest,
        _metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        if let ProducerHead::RepartitionExec { partitioning } = request.producer_head {
            let partitioning = MaybeEncoded::Encoded(partitioning.encode(context)?);
            request.producer_head = ProducerHead::RepartitionExec { partitioning };
        }
        let (streams, _context) = self.worker.execute_task(request).await?;
        let counted = streams.into_iter().map(|stream| {
            let carried = self.carried.clone();
            stream.inspect(move |batch| batch.iter().for_each(|batch| carried.add(batch))).boxed()
        });
        Ok(counted.collect())
    }

    async fn get_worker_info(&mut self, _request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        Ok(GetWorkerInfoResponse { version: self.worker.version().to_string() })
    }
}
