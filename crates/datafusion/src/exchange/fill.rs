//! The side that fills flows with what its tasks make.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion_distributed::Worker;
use futures::StreamExt;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::Streaming;
use zsr::{Cancel, FlowProducer, Options};
use zsr_arrow::Sender;

use super::Inner;
use super::ask::Ask;
use super::kept::Filling;
use super::part::{add, with_part};
use super::service::Said;

/// Batches that wait for room in the ring.
const WAITING: usize = 2;
/// How long a batch waits in an item that is not full for the next batch, or the end, of its stream.
const SOON: Duration = Duration::from_micros(100);
/// What is answered to who has hung up.
pub(crate) const CANCELLED: &str = "the query was cancelled";

/// Does what is asked, until it is done or is not wanted any more: then who asks has ended its half, or is gone.
pub(crate) async fn answer(
    inner: Arc<Inner>,
    worker: Worker,
    mut asks: Streaming<Said>,
) -> Result<(), String> {
    let ask = asks.message().await.ok().flatten().and_then(|said| said.ask);
    let ask = ask.ok_or("nothing was asked")?;
    if let Some(answer) = ask.greeted() {
        return answer;
    }
    if ask.is_idle() {
        inner.running.none().await;
        return Ok(());
    }
    let _one = inner.running.one();
    let (made_tx, made) = oneshot::channel();
    let mut made_tx = Some(made_tx);
    let mut is_made = ask.is_made;
    let gone = async move {
        loop {
            if is_made && let Some(made) = made_tx.take() {
                let _ = made.send(());
            }
            let Ok(Some(_)) = asks.message().await else { return };
            is_made = true;
        }
    };
    fill(inner, worker, ask, made, gone).await
}

/// Fills the flow, which is there when `made` comes, until all is in it or `gone` comes. The task begins before.
async fn fill(
    inner: Arc<Inner>,
    worker: Worker,
    ask: Ask,
    made: oneshot::Receiver<()>,
    gone: impl Future<Output = ()>,
) -> Result<(), String> {
    let request = ask.request()?;
    let start = request.target_partition_start;
    let (streams, _context) = worker.execute_task(request).await.map_err(|e| e.to_string())?;
    let Some(first) = streams.first().filter(|_| !ask.flow.is_empty()) else { return Ok(()) };
    let schema = with_part(&first.schema());

    let kept = inner.kept.take_filling(&ask.flow);
    let cancel = kept.as_ref().map_or_else(Cancel::new, |kept| kept.cancel.clone());
    let (batches, waiting) = mpsc::channel(WAITING);
    let mut pushing = tokio::task::spawn_blocking({
        let cancel = cancel.clone();
        move || match made.blocking_recv() {
            Ok(()) => push(&inner, ask.flow, kept, schema, waiting, cancel),
            Err(_) => Err(CANCELLED.to_owned()),
        }
    });
    let mut parts = JoinSet::new();
    for (number, stream) in streams.into_iter().enumerate() {
        parts.spawn(forward(start + number, stream, batches.clone()));
    }
    drop(batches);
    let mut gone = Box::pin(gone);
    let why = loop {
        tokio::select! {
            biased;
            () = &mut gone => break CANCELLED.to_owned(),
            pushed = &mut pushing => {
                parts.shutdown().await;
                return pushed.unwrap_or_else(|e| Err(e.to_string()));
            }
            Some(done) = parts.join_next() => match done {
                Ok(Ok(())) => {}
                Ok(Err(why)) => break why,
                Err(e) => break format!("a part of a query: {e}"),
            }
        }
    };
    // Before batches end, which is the end of the stream otherwise.
    cancel.cancel();
    parts.shutdown().await;
    // Nobody says any more that the flow is made.
    drop(gone);
    let _ = pushing.await;
    Err(why)
}

/// Ends early when nobody takes batches any more, who knows why.
async fn forward(
    part: usize,
    mut stream: SendableRecordBatchStream,
    to: mpsc::Sender<(usize, RecordBatch)>,
) -> Result<(), String> {
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|e| e.to_string())?;
        if batch.num_rows() > 0 && to.send((part, batch)).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn push(
    inner: &Inner,
    flow: String,
    kept: Option<Filling>,
    schema: SchemaRef,
    mut batches: mpsc::Receiver<(usize, RecordBatch)>,
    cancel: Cancel,
) -> Result<(), String> {
    let options = Options { cancel: cancel.clone(), ..Options::default() };
    let work = || -> Result<FlowProducer, Box<dyn std::error::Error>> {
        let producer = match kept {
            Some(kept) => kept.producer,
            None => FlowProducer::attach(inner.contact.clone(), &flow, &options)?,
        };
        let mut sender = Sender::over(producer, schema.clone())?;
        loop {
            let next = match soon(&mut batches) {
                Ok(next) => Some(next),
                Err(TryRecvError::Disconnected) => None,
                Err(TryRecvError::Empty) => {
                    // What is there goes, while the next is computed.
                    sender.flush()?;
                    batches.blocking_recv()
                }
            };
            if cancel.is_cancelled() {
                return Err(CANCELLED.into());
            }
            let Some((part, batch)) = next else { break };
            sender.send(&add(&batch, u32::try_from(part)?, &schema)?)?;
        }
        Ok(sender.finish()?)
    };
    let producer = work().map_err(|e| e.to_string())?;
    inner.kept.keep_filling(flow, Filling { producer, cancel });
    Ok(())
}

/// The next batch, or the end, if it comes within [`SOON`]. Items have one size: it is better to fill one than to push two.
fn soon<T>(batches: &mut mpsc::Receiver<T>) -> Result<T, TryRecvError> {
    let begin = Instant::now();
    loop {
        match batches.try_recv() {
            Err(TryRecvError::Empty) if begin.elapsed() < SOON => std::thread::yield_now(),
            next => return next,
        }
    }
}
