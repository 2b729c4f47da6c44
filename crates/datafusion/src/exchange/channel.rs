//! A worker as others see it: plans go over gRPC, batches come through flows.

use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    CoordinatorToWorkerMsg, DistributedConfig, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::Stream;
use futures::stream::BoxStream;
use http::HeaderMap;
use std::pin::Pin;
use std::sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::Inner;
use super::ask::Ask;
use super::read::{Batch, Outputs, Source, Waiting, read};
use super::service::Asked;

pub(crate) struct FlowChannel {
    inner: Arc<Inner>,
    from: Source,
    plans: Box<dyn WorkerChannel>,
}

impl FlowChannel {
    pub(crate) fn new(inner: Arc<Inner>, host: &str, channel: BoxCloneSyncChannel) -> Self {
        let plans = create_worker_client(channel.clone());
        FlowChannel { inner, from: Source { host: host.to_owned(), channel }, plans }
    }
}

#[async_trait]
impl WorkerChannel for FlowChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        set_plan_request: SetPlanRequest,
        c2w_stream: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        self.plans.coordinator_channel(headers, set_plan_request, c2w_stream, metrics, task_ctx).await
    }

    async fn execute_task(
        &mut self,
        _headers: HeaderMap,
        request: ExecuteTaskRequest,
        _metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let config = DistributedConfig::from_session_config(task_ctx.session_config())?;
        let waiting = Arc::new(Waiting::new(config.worker_connection_buffer_budget_bytes));
        let range = request.target_partition_start..request.target_partition_end;
        let start = range.start;
        let ask = Ask::of(request, task_ctx)?;

        let (txs, rxs): (Vec<_>, Vec<_>) = range.map(|_| mpsc::unbounded_channel()).unzip();
        let outputs = Outputs::new(start, txs);
        let later = Later { inner: self.inner.clone(), from: self.from.clone(), ask, outputs };
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::new(Shared {
            later: Mutex::new(Some((later, stopped))),
            waiting,
            runtime: Handle::current(),
            _stop: stop,
        });
        let part = |rx| Box::pin(Part { rx, shared: shared.clone(), from: self.from.host.clone() }) as _;
        Ok(rxs.into_iter().map(part).collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.plans.get_worker_info(request).await
    }
}

/// What begins with the first poll of a partition.
struct Later {
    inner: Arc<Inner>,
    from: Source,
    ask: Ask,
    outputs: Outputs,
}

/// What the partitions of one flow have in common; when the last of them is dropped, the stream ends.
struct Shared {
    later: Mutex<Option<(Later, oneshot::Receiver<()>)>>,
    waiting: Arc<Waiting>,
    runtime: Handle,
    _stop: oneshot::Sender<()>,
}

impl Shared {
    fn begin(&self) {
        let Some((later, stopped)) = self.later.lock().expect("no panic").take() else { return };
        let Later { inner, from, ask, outputs } = later;
        self.runtime.spawn(read(inner, from, ask, outputs, self.waiting.clone(), stopped));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some((later, _)) = self.later.lock().expect("no panic").take() else { return };
        // Nobody has read it. The task there waits for readers of all its partitions, and is told that this one does not come.
        let Later { inner, from, ask, .. } = later;
        self.runtime.spawn(async move {
            let _one = inner.running.one();
            let _ = Asked::new(from.channel, ask).answer().await;
        });
    }
}

struct Part {
    rx: mpsc::UnboundedReceiver<Batch>,
    shared: Arc<Shared>,
    from: String,
}

impl Stream for Part {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.shared.begin();
        self.rx.poll_recv(cx).map(|next| match next {
            Some(Ok((batch, bytes))) => {
                self.shared.waiting.remove(bytes);
                Some(Ok(batch))
            }
            Some(Err(why)) => Some(Err(exec_datafusion_err!("host `{}`: {why}", self.from))),
            None => None,
        })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // What came and is not taken does not wait any more.
        self.rx.close();
        while let Ok(next) = self.rx.try_recv() {
            if let Ok((_, bytes)) = next {
                self.shared.waiting.remove(bytes);
            }
        }
    }
}
