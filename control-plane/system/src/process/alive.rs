//! The watchdog of a process: a thread that reports loops which do not come round, and, at SIGQUIT, the work under way.

use super::log;
use super::roles::{RoleError, other};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tonic::Code;
use tonic::transport::Endpoint;
use zsr_api::controller::{GetFlowRequest, controller_client::ControllerClient};
use zsr_controller::watchdog::{LOOK, News, Watched, watch};

/// Reports that a loop is late, or late no more, in these words.
type Tell = Box<dyn Fn(&Watched, News) -> String + Send>;

/// The parts of a process that are watched.
pub(super) struct Watchdog {
    /// The process's name, for people.
    pub(super) process: String,
    /// Returns when the first lock that a call needs is free.
    pub(super) round: Box<dyn Fn() + Send>,
    /// The socket of the controller's service, if the process is the controller.
    pub(super) service: Option<PathBuf>,
    /// Other watched items.
    pub(super) watched: Vec<Watched>,
    pub(super) tell: Tell,
    /// Lists the work under way.
    pub(super) under_way: Box<dyn Fn() -> Vec<String> + Send>,
}

impl Watchdog {
    /// Watches from now on, for as long as the process lives. Must be called inside of the runtime that is watched.
    ///
    /// # Errors
    /// There is no thread or no signal to be had.
    pub(super) fn start(self) -> Result<(), RoleError> {
        let Watchdog { process, round, service, mut watched, tell, under_way } = self;
        let quit = signal(SignalKind::quit()).map_err(|e| other("signals")(&e))?;
        let (beats, answers) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let counted = |count: &Arc<AtomicU64>| {
            let count = count.clone();
            Box::new(move || Some(count.load(Ordering::Relaxed)))
        };
        watched.push(Watched { what: "its event loop has not come round".to_owned(), sign: counted(&beats) });
        if service.is_some() {
            watched.push(Watched { what: "it has answered no question".to_owned(), sign: counted(&answers) });
        }
        tokio::spawn(async move {
            loop {
                round();
                beats.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(LOOK).await;
            }
        });
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| other("starting threads")(&e))?;
        let dog = move || {
            runtime.block_on(async {
                let asks = async {
                    if let Some(socket) = service {
                        ask(&socket, &answers).await;
                    }
                };
                let news = watch(&watched, |one, news| tracing::warn!("{}", tell(one, news)));
                tokio::join!(news, dump(quit, &process, &*under_way), asks);
            });
        };
        let thread = std::thread::Builder::new().name("zsr-watchdog".to_owned()).spawn(dog);
        thread.map(drop).map_err(|e| other("starting threads")(&e))
    }
}

/// Writes the work under way to standard error at each SIGQUIT.
async fn dump(mut quit: Signal, process: &str, under_way: &(dyn Fn() -> Vec<String> + Send)) {
    while quit.recv().await.is_some() {
        let mut text = format!("{process}: what is under way, the oldest first");
        for one in under_way() {
            text.push_str("\n  ");
            text.push_str(&one);
        }
        log::tell(&text);
    }
}

/// Asks the controller at `socket` a small question again and again, and counts its answers.
async fn ask(socket: &Path, answers: &AtomicU64) {
    loop {
        let uri = format!("unix://{}", socket.display());
        if let Ok(endpoint) = Endpoint::from_shared(uri)
            && let Ok(channel) = endpoint.connect().await
        {
            let mut client = ControllerClient::new(channel);
            // There is no flow without a name; that refusal is an answer, too.
            let answered = |code| matches!(code, Code::Ok | Code::NotFound);
            while client
                .get_flow(GetFlowRequest::default())
                .await
                .map_or_else(|s| answered(s.code()), |_| true)
            {
                answers.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(LOOK).await;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
