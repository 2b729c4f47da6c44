//! What one worker asks another, and what that answers.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion_distributed::{ExecuteTaskRequest, MaybeEncoded, ProducerHead, TaskKey};
use prost::Message;
use uuid::Uuid;

/// Fill a flow with partitions of a task's output.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ask {
    #[prost(bytes = "vec", tag = "1")]
    query: Vec<u8>,
    #[prost(uint64, tag = "2")]
    stage: u64,
    #[prost(uint64, tag = "3")]
    task: u64,
    #[prost(uint64, tag = "4")]
    start: u64,
    #[prost(uint64, tag = "5")]
    end: u64,
    #[prost(enumeration = "What", tag = "6")]
    what: i32,
    #[prost(uint64, tag = "7")]
    broadcast: u64,
    #[prost(bytes = "vec", tag = "8")]
    partitioning: Vec<u8>,
    /// Which flow. Empty: nobody wants it any more, and it is to be started and dropped, so that the task can end.
    #[prost(string, tag = "9")]
    pub(crate) flow: String,
    /// Of a greeting: who asks.
    #[prost(string, tag = "10")]
    version: String,
    /// Whether the flow is there already. Else a second message says so.
    #[prost(bool, tag = "11")]
    pub(crate) is_made: bool,
}

/// What workers and who asks them have to have in common: plans are understood by the same version only.
const VERSION: &str = concat!("zsr-datafusion ", env!("CARGO_PKG_VERSION"), " with DataFusion 55");

/// What a task's head is, or that the question is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum What {
    /// As the plan is.
    Plain = 0,
    /// All rows to all.
    Broadcast = 1,
    /// Divided.
    Repartition = 2,
    /// No task: answer when nothing of a query is left.
    Idle = 3,
    /// No task: answer at once whether the versions fit.
    Greeting = 4,
}

impl Ask {
    pub(crate) fn idle() -> Self {
        Ask { what: What::Idle.into(), ..Ask::default() }
    }

    pub(crate) fn greeting() -> Self {
        Ask { what: What::Greeting.into(), version: VERSION.to_owned(), ..Ask::default() }
    }

    /// The answer, if this is a greeting.
    pub(crate) fn greeted(&self) -> Option<Result<(), String>> {
        let fits = || match self.version.as_str() {
            VERSION => Ok(()),
            other => Err(format!("it is {VERSION}, and who asks is {other}")),
        };
        (self.what == i32::from(What::Greeting)).then(fits)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.what == i32::from(What::Idle)
    }

    /// Says of no flow yet.
    pub(crate) fn of(request: ExecuteTaskRequest, ctx: &Arc<TaskContext>) -> Result<Self> {
        let (what, broadcast, partitioning) = match request.producer_head {
            ProducerHead::None => (What::Plain, 0, Vec::new()),
            ProducerHead::BroadcastExec { output_partitions } => {
                (What::Broadcast, output_partitions as u64, Vec::new())
            }
            ProducerHead::RepartitionExec { partitioning } => {
                (What::Repartition, 0, partitioning.encode(ctx)?)
            }
        };
        Ok(Ask {
            query: request.task_key.query_id.as_bytes().to_vec(),
            stage: request.task_key.stage_id as u64,
            task: request.task_key.task_number as u64,
            start: request.target_partition_start as u64,
            end: request.target_partition_end as u64,
            what: what.into(),
            broadcast,
            partitioning,
            ..Ask::default()
        })
    }

    pub(crate) fn request(&self) -> Result<ExecuteTaskRequest, String> {
        let query_id = Uuid::from_slice(&self.query).map_err(|e| format!("a query's number: {e}"))?;
        let producer_head = match What::try_from(self.what) {
            Ok(What::Plain) => ProducerHead::None,
            Ok(What::Broadcast) => ProducerHead::BroadcastExec { output_partitions: self.broadcast as usize },
            Ok(What::Repartition) => ProducerHead::RepartitionExec {
                partitioning: MaybeEncoded::Encoded(self.partitioning.clone()),
            },
            Ok(What::Idle | What::Greeting) | Err(_) => {
                return Err(format!("a head of kind {} is not known here", self.what));
            }
        };
        if self.start > self.end {
            return Err(format!("partitions from {} to {}", self.start, self.end));
        }
        Ok(ExecuteTaskRequest {
            task_key: TaskKey { query_id, stage_id: self.stage as usize, task_number: self.task as usize },
            target_partition_start: self.start as usize,
            target_partition_end: self.end as usize,
            producer_head,
        })
    }
}

/// All is pushed, or why it is not.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    /// Empty: all went well.
    #[prost(string, tag = "1")]
    error: String,
}

impl Answer {
    pub(crate) fn of(result: Result<(), String>) -> Self {
        let error = match result {
            Ok(()) => String::new(),
            Err(why) if why.is_empty() => "no reason is known".to_owned(),
            Err(why) => why,
        };
        Answer { error }
    }

    pub(crate) fn into_result(self) -> Result<(), String> {
        if self.error.is_empty() { Ok(()) } else { Err(self.error) }
    }
}
