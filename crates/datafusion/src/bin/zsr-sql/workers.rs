//! One process per host that works.

use std::path::Path;
use std::process::Stdio;

use futures::future::select_all;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use zsr::Place;
use zsr_datafusion::Exchange;

/// What a worker says when it can be reached.
const READY: &str = "ready";

/// Is the worker of `host`, until standard input ends: so when who has started it is gone.
pub(crate) async fn be(host: &str, system: &Path, prefix: &str, sockets: &Path) -> Result<(), String> {
    let exchange = Exchange::new(&Place::at(system), host, prefix, sockets);
    let over = async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    };
    tokio::select! {
        served = exchange.serve(exchange.worker(), || println!("{READY}")) => served.map_err(|e| e.to_string()),
        () = over => {
            exchange.clear().await;
            std::process::exit(0)
        }
    }
}

/// A worker's process.
pub(crate) struct Worker {
    pub(crate) host: String,
    child: Child,
    /// It lives as long as this is open. Apart from `child`, which would close it when it is waited for.
    alive: ChildStdin,
}

impl Worker {
    /// Starts it, and waits until it can be reached.
    pub(crate) async fn start(
        host: &str,
        system: &Path,
        prefix: &str,
        sockets: &Path,
    ) -> Result<Self, String> {
        let fail = |why: String| format!("the worker of host `{host}`: {why}");
        let own = std::env::current_exe().map_err(|e| fail(e.to_string()))?;
        let mut child = Command::new(own)
            .args(["--be", host, "--prefix", prefix])
            .arg("--place")
            .arg(system)
            .arg("--sockets")
            .arg(sockets)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at a terminal is for who asks.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| fail(e.to_string()))?;
        let (Some(out), Some(alive)) = (child.stdout.take(), child.stdin.take()) else {
            return Err(fail("it has no pipes".to_owned()));
        };
        match BufReader::new(out).lines().next_line().await {
            Ok(Some(line)) if line == READY => Ok(Worker { host: host.to_owned(), child, alive }),
            _ => Err(fail("it has ended before it was ready".to_owned())),
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_died(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it.
    pub(crate) async fn end(mut self) {
        drop(self.alive);
        let _ = self.child.wait().await;
    }
}

/// Waits until one of them dies, and says which, and how. Of none it waits for ever.
pub(crate) async fn death(workers: &mut [Worker]) -> String {
    if workers.is_empty() {
        return std::future::pending().await;
    }
    let deaths = workers.iter_mut().map(|worker| {
        Box::pin(async {
            let how = worker.child.wait().await.map_or_else(|e| e.to_string(), |status| status.to_string());
            format!("the worker of host `{}` has died ({how})", worker.host)
        })
    });
    select_all(deaths).await.0
}
