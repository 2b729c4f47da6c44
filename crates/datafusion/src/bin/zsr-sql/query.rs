//! Queries, one after the other; nothing of one is left when the next begins.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;
use arrow::json::LineDelimitedWriter;
use arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use tempfile::TempDir;
use zsr::Contact;
use zsr_datafusion::tpch::{self, Table};
use zsr_datafusion::{Exchange, left_behind, remove};

use crate::explain;
use crate::serve;
use crate::system::{Signals, System};
use crate::workers::{Worker, death};
use crate::{Args, Format, INTERRUPTED, complain, words};

/// How long parts of a query may take to end, which compute nothing any more.
const PATIENCE: Duration = Duration::from_secs(30);
/// What names of all flows begin with, of all programs of this kind.
const FLOWS: &str = "sql";
/// How long a worker that others have started may take to say that it is there.
const GREETING: Duration = Duration::from_secs(10);

/// A session with workers that answers queries, one after the other.
pub(crate) struct Queries {
    exchange: Exchange,
    context: SessionContext,
    /// Workers that were started here.
    workers: Vec<Worker>,
    own: Option<Own>,
    hosts: Vec<String>,
    head: String,
    stop: Signals,
}

/// What workers that are started here need, and what they leave.
struct Own {
    contact: Contact,
    prefix: String,
    folder: PathBuf,
    sockets: TempDir,
}

impl Own {
    async fn start(&self, host: &str) -> Result<Worker, String> {
        Worker::start(host, &self.folder, &self.prefix, self.sockets.path()).await
    }

    /// Deletes what is left of all of them.
    async fn clear(&self) -> Result<(), String> {
        let prefix = self.prefix.clone();
        clear(&self.contact, &move |flow: &str| flow.starts_with(&prefix)).await
    }
}

impl Queries {
    pub(crate) async fn new(
        system: &System,
        head: &str,
        hosts: &[String],
        args: &Args,
        stop: Signals,
    ) -> Result<Self, String> {
        let partitions = usize::from(args.partitions);
        let contact = system.contact.clone();
        let (exchange, own) = if args.addresses.is_empty() {
            let Contact::Place(place) = &contact else {
                return Err("who asks a controller at an address names the workers with --worker".to_owned());
            };
            clear(&contact, &left_by_the_dead).await?;
            let prefix = format!("{FLOWS}{}", std::process::id());
            let sockets = tempfile::Builder::new().prefix("zsr-sql-").tempdir();
            let sockets = sockets.map_err(|e| format!("a folder: {e}"))?;
            let exchange = Exchange::new(contact.clone(), head, &prefix, sockets.path());
            let folder = place.folder().to_owned();
            (exchange, Some(Own { contact, prefix, folder, sockets }))
        } else {
            let exchange = Exchange::new(contact, head, serve::FLOWS, args.serve.meeting(&args.addresses));
            for host in hosts {
                let hint = match args.serve.certificate {
                    Some(_) => "",
                    None => "; if it was started with --certificate, give one here, too",
                };
                exchange.greet(host, GREETING).await.map_err(|e| format!("{e}{hint}"))?;
            }
            (exchange, None)
        };
        let state = exchange.session(hosts, partitions).map_err(|e| e.to_string())?;
        let context = SessionContext::new_with_state(state);
        tpch::register(&context, args.scale, partitions).map_err(|e| e.to_string())?;
        for table in &args.own_tables {
            table.register(&context).await?;
        }
        let mut workers = Vec::new();
        if let Some(own) = &own {
            for host in hosts {
                workers.push(own.start(host).await?);
            }
        }
        let (hosts, head) = (hosts.to_vec(), head.to_owned());
        Ok(Queries { exchange, context, workers, own, hosts, head, stop })
    }

    /// What `future` gives; `None` when a signal comes first.
    pub(crate) async fn unless_stopped<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stop.wait() => None,
            done = future => Some(done),
        }
    }

    /// Prints the rows of a query, or why there are none; the exit code.
    pub(crate) async fn answer(&mut self, text: &str, args: &Args) -> u8 {
        let text = text.trim().trim_end_matches(';');
        if text.is_empty() {
            return 0;
        }
        let begin = Instant::now();
        let done = tokio::select! {
            biased;
            () = self.stop.wait() => Err((INTERRUPTED, "interrupted".to_owned())),
            who = death(&mut self.workers) => Err((1, format!("{who}: the query is given up"))),
            rows = rows(&self.context, text, &self.head, &self.hosts) => rows.map_err(|e| (1, e)),
        };
        let took = begin.elapsed();
        // The query is dropped by now: its parts end, wherever they are.
        let settled = self.settle().await;
        let printed = match done {
            Ok(Rows::Text(text)) => print(&text).map_err(|e| (1, e)),
            Ok(Rows::Batches(schema, batches)) => {
                let shown = show(&schema, &batches, args.format).and_then(|text| print(&text));
                if args.timing {
                    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                    complain(format_args!("{rows} rows in {:.1} ms", took.as_secs_f64() * 1e3));
                }
                shown.map_err(|e| (1, e))
            }
            Err(e) => Err(e),
        };
        let mut code = 0;
        for (failed, why) in [printed, settled.map_err(|e| (1, e))].into_iter().filter_map(Result::err) {
            complain(format_args!("error: {why}"));
            code = code.max(failed);
        }
        code
    }

    /// Waits until nothing of a query is left here and at workers that were started here. Starts those that have died anew.
    async fn settle(&mut self) -> Result<(), String> {
        let mut dead = None;
        for worker in &mut self.workers {
            let Some(own) = &self.own else { break };
            let idle = self.exchange.idle_at(&worker.host, PATIENCE).await;
            if idle.is_err() || worker.has_died() {
                let host = worker.host.clone();
                let new = own.start(&host).await?;
                std::mem::replace(worker, new).end().await;
                self.exchange.forget(&host);
                dead = Some(own);
            }
        }
        if tokio::time::timeout(PATIENCE, self.exchange.idle()).await.is_err() {
            return Err(format!("parts of the query are still there after {} s", PATIENCE.as_secs()));
        }
        match dead {
            Some(own) => own.clear().await,
            None => Ok(()),
        }
    }

    /// Ends all workers that were started here.
    pub(crate) async fn end(self) -> Result<(), String> {
        for worker in self.workers {
            worker.end().await;
        }
        match &self.own {
            Some(own) => own.clear().await,
            None => {
                self.exchange.clear().await;
                Ok(())
            }
        }
    }
}

/// Whether who has made this flow is gone.
fn left_by_the_dead(flow: &str) -> bool {
    let digits = flow.strip_prefix(FLOWS).and_then(|rest| rest.split_once('-')).map(|(pid, _)| pid);
    let pid = digits.and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Deletes flows that are left.
async fn clear(
    contact: &Contact,
    which: &(impl Fn(&str) -> bool + Clone + Send + 'static),
) -> Result<(), String> {
    let (contact, which) = (contact.clone(), which.clone());
    let work = move || {
        let mut flows = left_behind(&contact, FLOWS)?;
        flows.retain(|flow| which(flow));
        remove(&contact, &flows)
    };
    let done = tokio::task::spawn_blocking(work).await.map_err(|e| e.to_string())?;
    done.map_err(|e| format!("flows of an earlier query: {e}"))
}

enum Rows {
    Text(String),
    Batches(SchemaRef, Vec<RecordBatch>),
}

async fn rows(context: &SessionContext, text: &str, head: &str, hosts: &[String]) -> Result<Rows, String> {
    let frame = context.sql(text).await.map_err(words)?;
    if let LogicalPlan::Explain(explained) = frame.logical_plan() {
        let plan = context.state().create_physical_plan(&explained.plan).await.map_err(words)?;
        return Ok(Rows::Text(explain::text(&plan, head, hosts)));
    }
    let plan = frame.create_physical_plan().await.map_err(words)?;
    let schema = plan.schema();
    let batches = datafusion::physical_plan::collect(plan, context.task_ctx()).await.map_err(words)?;
    Ok(Rows::Batches(schema, batches))
}

fn show(schema: &SchemaRef, batches: &[RecordBatch], format: Format) -> Result<String, String> {
    let fail = |e: arrow::error::ArrowError| format!("showing rows: {e}");
    match format {
        Format::Table => {
            let mut text = String::new();
            let table = pretty_format_batches_with_schema(schema.clone(), batches).map_err(fail)?;
            let _ = writeln!(text, "{table}");
            Ok(text)
        }
        Format::Json => {
            let mut bytes = Vec::new();
            let mut writer = LineDelimitedWriter::new(&mut bytes);
            writer.write_batches(&batches.iter().collect::<Vec<_>>()).map_err(fail)?;
            writer.finish().map_err(fail)?;
            drop(writer);
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        Format::Csv => {
            let mut bytes = Vec::new();
            let mut writer = WriterBuilder::new().with_header(true).build(&mut bytes);
            writer.write(&RecordBatch::new_empty(schema.clone())).map_err(fail)?;
            for batch in batches {
                writer.write(batch).map_err(fail)?;
            }
            drop(writer);
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
    }
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    done.map_err(|e| format!("standard output: {e}"))
}

/// Writes all tables as CSV, by no flow.
pub(crate) fn tables(folder: &Path, scale: f64) -> Result<(), String> {
    for table in Table::ALL {
        let batches = table.batches(scale, 0, 1).map_err(|e| e.to_string())?;
        let path = folder.join(format!("{}.csv", table.name()));
        let text = show(&table.schema(), &batches, Format::Csv)?;
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}
