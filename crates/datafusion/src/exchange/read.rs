//! The side that makes a flow and reads it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, RecordBatch};
use datafusion_distributed::grpc::BoxCloneSyncChannel;
use tokio::sync::{mpsc, oneshot};
use zsr::{Cancel, Options};
use zsr_arrow::Receiver;

use super::Inner;
use super::ask::Ask;
use super::fill::CANCELLED;
use super::flows::{Made, new_name};
use super::kept::Reading;
use super::part::take;
use super::service::{Asked, Refusal};

/// A batch of a partition, and what it is counted with.
pub(crate) type Batch = Result<(RecordBatch, usize), Arc<str>>;

/// Where batches of each partition go, the first of which has the number `start`.
pub(crate) struct Outputs {
    start: usize,
    parts: Mutex<Vec<mpsc::UnboundedSender<Batch>>>,
}

impl Outputs {
    pub(crate) fn new(start: usize, parts: Vec<mpsc::UnboundedSender<Batch>>) -> Self {
        Outputs { start, parts: Mutex::new(parts) }
    }

    fn of(&self, part: u32) -> Option<mpsc::UnboundedSender<Batch>> {
        let number = (part as usize).checked_sub(self.start)?;
        self.parts().get(number).cloned()
    }

    /// Ends the streams of all partitions: all rows have come.
    fn end(&self) {
        self.parts().clear();
    }

    /// Those whose rows have not all come end with this.
    fn fail(&self, why: &str) {
        let why: Arc<str> = why.into();
        for part in self.parts().drain(..) {
            let _ = part.send(Err(why.clone()));
        }
    }

    /// Senders are whole also behind a panic.
    fn parts(&self) -> MutexGuard<'_, Vec<mpsc::UnboundedSender<Batch>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that wait to be taken. Partitions have no bounds of their own, since one that nobody takes yet would keep others from theirs.
pub(crate) struct Waiting {
    most: usize,
    now: Mutex<usize>,
    less: Condvar,
}

impl Waiting {
    pub(crate) fn new(most: usize) -> Self {
        Waiting { most, now: Mutex::new(0), less: Condvar::new() }
    }

    fn add(&self, bytes: usize, cancel: &Cancel) {
        let now = self.now.lock().expect("no panic");
        let is_full = |now: &mut usize| *now >= self.most && !cancel.is_cancelled();
        *self.less.wait_while(now, is_full).expect("no panic") += bytes;
    }

    pub(crate) fn remove(&self, bytes: usize) {
        *self.now.lock().expect("no panic") -= bytes;
        self.less.notify_all();
    }

    /// Wakes who waits for room, who looks whether it is cancelled.
    fn wake(&self) {
        drop(self.now.lock().expect("no panic"));
        self.less.notify_all();
    }
}

/// The worker that rows come from.
#[derive(Clone)]
pub(crate) struct Source {
    /// Its host.
    pub(crate) host: String,
    pub(crate) channel: BoxCloneSyncChannel,
}

/// Reads what `from` is asked for into `outputs`, until its end, an error, which all partitions get, or `cancelled` comes.
pub(crate) async fn read(
    inner: Arc<Inner>,
    from: Source,
    ask: Ask,
    outputs: Outputs,
    waiting: Arc<Waiting>,
    cancelled: oneshot::Receiver<()>,
) {
    let one = inner.running.one();
    let outputs = Arc::new(outputs);
    if let Err(why) = exchange(&inner, from, ask, outputs.clone(), waiting, cancelled).await {
        outputs.fail(&why);
    }
    drop(one);
}

async fn exchange(
    inner: &Arc<Inner>,
    from: Source,
    mut ask: Ask,
    outputs: Arc<Outputs>,
    waiting: Arc<Waiting>,
    mut cancelled: oneshot::Receiver<()>,
) -> Result<(), String> {
    let Source { host: from, channel } = from;
    let why = |refusal| match refusal {
        Refusal::Said(why) => why,
        Refusal::Gone(e) => format!("its worker has gone: {e}"),
    };
    let kept = blocking({
        let (inner, from) = (inner.clone(), from.clone());
        move || Ok(inner.kept.take_reading(&from))
    });
    let kept = kept.await?;
    let name = kept.as_ref().map(|kept| kept.flow.name().to_owned());
    let is_made = name.is_some();
    ask.is_made = is_made;
    ask.flow = name.unwrap_or_else(|| new_name(&inner.prefix));
    let cancel = kept.as_ref().map_or_else(Cancel::new, |kept| kept.cancel.clone());
    // It begins its task, and asks others for their rows, while the flow is made.
    let mut asked = Asked::new(channel, ask.clone());

    let (made_tx, made) = oneshot::channel();
    let mut popping = Box::pin(blocking({
        let (inner, from, flow) = (inner.clone(), from.clone(), ask.flow);
        let (cancel, waiting, outputs) = (cancel.clone(), waiting.clone(), outputs.clone());
        move || {
            let reading = reading(&inner, &from, &flow, kept, cancel, made_tx)?;
            pop(reading, &outputs, &waiting)
        }
    }));
    let stop = || {
        cancel.cancel();
        waiting.wake();
    };
    if made.await.is_err() {
        return popping.await.map(drop);
    }
    if !is_made {
        asked.made();
    }
    let mut is_answered = false;
    let popped = tokio::select! {
        biased;
        _ = &mut cancelled => {
            stop();
            let answer = asked.cancel();
            discard(popping.await).await;
            // It has ended there, too, when it answers.
            let _ = answer.await;
            return Ok(());
        }
        answer = asked.answer() => match answer.map_err(why) {
            Ok(()) => tokio::select! {
                biased;
                _ = &mut cancelled => {
                    stop();
                    discard(popping.await).await;
                    return Ok(());
                }
                popped = &mut popping => {
                    is_answered = true;
                    popped
                }
            },
            Err(why) => {
                stop();
                discard(popping.await).await;
                return Err(why);
            }
        },
        popped = &mut popping => popped,
    };
    match popped {
        Ok(reading) => {
            // Who reads goes on while the other end says that it has ended, too.
            outputs.end();
            let said = if is_answered { Ok(()) } else { asked.answer().await };
            let inner = inner.clone();
            blocking(move || {
                if said.is_ok() {
                    inner.kept.keep_reading(&from, reading);
                }
                Ok(())
            })
            .await
        }
        // Who fills it knows better what went wrong.
        Err(popped) if !is_answered => match asked.cancel().await.map(|answer| answer.map_err(why)) {
            Ok(Err(why)) if why != CANCELLED => Err(why),
            _ => Err(popped),
        },
        Err(popped) => Err(popped),
    }
}

/// Begins at once to do what blocks, beside the futures.
fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> impl Future<Output = Result<T, String>> {
    let task = tokio::task::spawn_blocking(work);
    async { task.await.unwrap_or_else(|e| Err(e.to_string())) }
}

/// Drops the end of a flow, which deletes the flow, where it may block.
async fn discard<T: Send + 'static>(end: T) {
    let _ = tokio::task::spawn_blocking(move || drop(end)).await;
}

/// The end of flow `flow`, which comes from host `from`: the one that was kept, or a new one.
fn reading(
    inner: &Inner,
    from: &str,
    flow: &str,
    kept: Option<Reading>,
    cancel: Cancel,
    is_made: oneshot::Sender<()>,
) -> Result<Reading, String> {
    if let Some(kept) = kept {
        let _ = is_made.send(());
        return Ok(kept);
    }
    let flow = Made::new(&inner.contact, flow, from, &inner.host).map_err(|e| e.to_string())?;
    let _ = is_made.send(());
    let options = Options { cancel: cancel.clone(), ..Options::default() };
    let receiver =
        Receiver::attach(inner.contact.clone(), flow.name(), &options).map_err(|e| e.to_string())?;
    Ok(Reading { receiver, cancel, flow })
}

/// Gives the batches of one stream to `outputs`, until its end.
fn pop(mut reading: Reading, outputs: &Outputs, waiting: &Waiting) -> Result<Reading, String> {
    while let Some(batch) = reading.receiver.receive().map_err(|e| e.to_string())? {
        let (part, batch) = take(&batch).map_err(|e| e.to_string())?;
        let Some(output) = outputs.of(part) else {
            return Err(format!("rows of partition {part} came, which nobody has asked for"));
        };
        let bytes = bytes_of(&batch);
        waiting.add(bytes, &reading.cancel);
        if output.send(Ok((batch, bytes))).is_err() {
            // Nobody wants that partition any more; others may want theirs.
            waiting.remove(bytes);
        }
    }
    Ok(reading)
}

fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
