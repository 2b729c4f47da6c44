//! The side that makes a flow and reads it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, RecordBatch};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use zsr::{Cancel, Options};
use zsr_arrow::Receiver;

use super::Inner;
use super::ask::{self, Ask};
use super::fill::CANCELLED;
use super::flows::Made;
use super::part::take;

/// What is said when the flow is there.
const MADE: u8 = 1;

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

/// Reads what `from` is asked for into `outputs`, until its end, an error, which all partitions get, or `cancelled` comes.
pub(crate) async fn read(
    inner: Arc<Inner>,
    from: String,
    ask: Ask,
    outputs: Outputs,
    waiting: Arc<Waiting>,
    cancelled: oneshot::Receiver<()>,
) {
    let one = inner.running.one();
    let outputs = Arc::new(outputs);
    if let Err(why) = exchange(&inner, &from, ask, outputs.clone(), waiting, cancelled).await {
        outputs.fail(&why);
    }
    drop(one);
}

async fn exchange(
    inner: &Arc<Inner>,
    from: &str,
    ask: Ask,
    outputs: Arc<Outputs>,
    waiting: Arc<Waiting>,
    mut cancelled: oneshot::Receiver<()>,
) -> Result<(), String> {
    let gone = |e: std::io::Error| format!("the worker of host `{from}` has gone: {e}");
    // It begins its task, and asks others for their rows, while the flow is made.
    let asked = async {
        let mut stream = UnixStream::connect(inner.asks(from)).await?;
        ask::write(&mut stream, &ask).await?;
        std::io::Result::Ok(stream)
    };
    let mut stream = asked.await.map_err(gone)?;
    let (mut answers, mut asks) = stream.split();

    let cancel = Cancel::new();
    let (made_tx, made) = oneshot::channel();
    let mut popping = tokio::task::spawn_blocking({
        let (inner, from, flow) = (inner.clone(), from.to_owned(), ask.flow.clone());
        let (cancel, waiting) = (cancel.clone(), waiting.clone());
        move || pop(&inner, &from, &flow, &outputs, &waiting, &cancel, made_tx)
    });
    let stop = || {
        cancel.cancel();
        waiting.wake();
    };
    if made.await.is_err() {
        return popping.await.unwrap_or_else(|e| Err(e.to_string()));
    }
    // If it is gone, its answer does not come, either.
    let _ = asks.write_u8(MADE).await;
    let answer = ask::read_answer(&mut answers);
    tokio::pin!(answer);
    let said = |answer: std::io::Result<ask::Answer>| answer.map_err(gone)?.into_result();
    tokio::select! {
        biased;
        _ = &mut cancelled => {
            stop();
            let _ = asks.shutdown().await;
            let _ = popping.await;
            // It has ended there, too, when it answers.
            let _ = answer.await;
            Ok(())
        }
        answer = &mut answer => match said(answer) {
            Ok(()) => tokio::select! {
                biased;
                _ = &mut cancelled => {
                    stop();
                    let _ = popping.await;
                    Ok(())
                }
                popped = &mut popping => popped.unwrap_or_else(|e| Err(e.to_string())),
            },
            Err(why) => {
                stop();
                let _ = popping.await;
                Err(why)
            }
        },
        popped = &mut popping => {
            let popped = popped.unwrap_or_else(|e| Err(e.to_string()));
            if popped.is_err() {
                let _ = asks.shutdown().await;
            }
            // Who fills it knows better what went wrong.
            match (said(answer.await), popped) {
                (Err(why), Err(_)) if why != CANCELLED => Err(why),
                (_, popped) => popped,
            }
        }
    }
}

fn pop(
    inner: &Inner,
    from: &str,
    flow: &str,
    outputs: &Outputs,
    waiting: &Waiting,
    cancel: &Cancel,
    is_made: oneshot::Sender<()>,
) -> Result<(), String> {
    let made = Made::new(&inner.contact, flow, from, &inner.host).map_err(|e| e.to_string())?;
    let _ = is_made.send(());
    let result = (|| -> Result<(), Box<dyn std::error::Error>> {
        let options = Options { cancel: cancel.clone(), ..Options::default() };
        let mut receiver = Receiver::attach(inner.contact.clone(), flow, &options)?;
        while let Some(batch) = receiver.receive()? {
            let (part, batch) = take(&batch)?;
            let Some(output) = outputs.of(part) else {
                return Err(format!("rows of partition {part} came, which nobody has asked for").into());
            };
            let bytes = bytes_of(&batch);
            waiting.add(bytes, cancel);
            if output.send(Ok((batch, bytes))).is_err() {
                // Nobody wants that partition any more; others may want theirs.
                waiting.remove(bytes);
            }
        }
        // Who reads goes on while the flow is deleted.
        outputs.end();
        Ok(())
    })();
    let deleted = made.delete();
    result.map_err(|e| e.to_string())?;
    deleted.map_err(|e| e.to_string())
}

fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
