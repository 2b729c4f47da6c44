//! One question to an agent, asked again while the connection breaks. On a machine with too much to do, a connection
//! can be given up though the agent is well. [`Questions`] lists the questions that are not answered yet, for callers
//! that ask why a change waits.

pub(crate) use crate::times::call::PATIENCE;
use crate::times::call::{AGAIN, LATE};
use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Code, Response, Status};
use tracing::instrument;
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_switch::patience::within;

/// Errors of the operating system where no process listens. A process that has no time still has its connections
/// accepted, so a second attempt would not help here.
const NOT_THERE: [io::ErrorKind; 6] = [
    io::ErrorKind::ConnectionRefused,
    io::ErrorKind::NotFound,
    io::ErrorKind::TimedOut,
    io::ErrorKind::HostUnreachable,
    io::ErrorKind::NetworkUnreachable,
    io::ErrorKind::PermissionDenied,
];

/// Questions that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    newest: u64,
    /// Text of each open question and the time when it was asked, by number.
    open: BTreeMap<u64, (String, Instant)>,
}

struct Question<'q> {
    all: &'q Questions,
    number: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.all.lock().open.remove(&self.number);
    }
}

impl Questions {
    fn note(&self, text: String) -> Question<'_> {
        let mut all = self.lock();
        all.newest += 1;
        let number = all.newest;
        all.open.insert(number, (text, Instant::now()));
        Question { all: self, number }
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All open questions, and for how long each has been open.
    pub(crate) fn open(&self) -> Vec<(String, Duration)> {
        self.lock().open.values().map(|(text, since)| (text.clone(), since.elapsed())).collect()
    }

    /// Questions that have been open for longer than [`LATE`].
    pub(crate) fn unanswered(&self) -> Vec<String> {
        let all = self.lock();
        let mut late: Vec<String> = all
            .open
            .values()
            .filter(|(_, since)| since.elapsed() > LATE)
            .map(|(text, _)| text.clone())
            .collect();
        late.sort();
        late.dedup();
        late
    }
}

/// Which agent is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whom<'w> {
    pub(crate) host: &'w str,
    /// The agent's address, as a URI.
    pub(crate) uri: &'w str,
}

/// The answer to `call`. The call is made again while the connection breaks, until [`PATIENCE`] is over. `what` is the
/// agent's task, in words that follow "to".
///
/// # Errors
/// The agent's refusal; that it is not there, or has not answered in time.
#[instrument(name = "agent", skip_all, fields(host = whom.host, what = what))]
pub(crate) async fn ask<T, F>(
    questions: &Questions,
    whom: Whom<'_>,
    what: &str,
    mut call: impl FnMut() -> F,
) -> Result<T, ControllerError>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let Whom { host, uri } = whom;
    let _noted = questions.note(format!("the agent of host `{host}` at {uri} to {what}"));
    let mut last = None;
    let attempts = async {
        loop {
            let status = match call().await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => status,
            };
            let Some(broken) = Broken::of(&status) else { return Err(refused(host, &status)) };
            if broken.is_final {
                let message = format!("host `{host}`: its agent at {uri} is not there: {}", broken.why);
                return Err(ControllerError::new(ErrorKind::Unavailable, message));
            }
            tracing::debug!("the connection broke: {}", broken.why);
            last = Some(broken.why);
            tokio::time::sleep(AGAIN).await;
        }
    };
    let begun = Instant::now();
    let answer = within(PATIENCE, attempts).await.unwrap_or_else(|_| {
        let why = last.map_or(String::new(), |why| format!(" ({why})"));
        let seconds = PATIENCE.as_secs();
        let message = format!(
            "host `{host}`: its agent at {uri} did not answer within {seconds} s when it was asked to {what}{why}"
        );
        Err(ControllerError::new(ErrorKind::Unavailable, message))
    });
    let took = begun.elapsed();
    match &answer {
        Ok(_) => tracing::debug!(?took, "answered"),
        Err(refusal) => tracing::debug!(?took, "{}", refusal.message),
    }
    answer
}

/// A refusal in the agent's words.
pub(crate) fn refused(host: &str, status: &Status) -> ControllerError {
    let kind = match status.code() {
        Code::AlreadyExists => ErrorKind::Exists,
        Code::NotFound => ErrorKind::NotFound,
        Code::InvalidArgument => ErrorKind::Invalid,
        Code::FailedPrecondition => ErrorKind::NotNow,
        Code::ResourceExhausted => ErrorKind::Full,
        _ => ErrorKind::Unavailable,
    };
    let said = Broken::of(status).map_or_else(|| status.message().to_owned(), |broken| broken.why);
    ControllerError::new(kind, format!("host `{host}`: its agent: {said}"))
}

/// A connection that has failed, as against an agent that refuses.
struct Broken {
    why: String,
    /// Nobody listens there.
    is_final: bool,
}

impl Broken {
    /// A status with a cause was made here, not by the agent.
    fn of(status: &Status) -> Option<Self> {
        let mut cause = status.source()?;
        let (mut words, mut is_final) = (Vec::new(), false);
        loop {
            if let Some(e) = cause.downcast_ref::<std::io::Error>() {
                is_final |= NOT_THERE.contains(&e.kind());
            }
            words.push(cause.to_string());
            match cause.source() {
                Some(deeper) => cause = deeper,
                None => break,
            }
        }
        words.dedup();
        // The deepest says most; "transport error" says nothing.
        let keep = words.len().saturating_sub(2);
        Some(Broken { why: words.split_off(keep).join(": "), is_final })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const H1: Whom<'static> = Whom { host: "h1", uri: "unix:///agent-0" };

    fn broken(kind: io::ErrorKind) -> Status {
        let mut status = Status::unknown("transport error");
        status.set_source(Arc::new(std::io::Error::new(kind, "http2 error")));
        status
    }

    /// An agent that gives these answers, one after the other.
    async fn asked(answers: Vec<Result<u32, Status>>) -> (Result<u32, ControllerError>, usize) {
        let questions = Questions::default();
        let mut answers = answers.into_iter();
        let mut calls = 0;
        let answer = ask(&questions, H1, "make 2 rings", || {
            calls += 1;
            let answer = answers.next();
            async move {
                match answer {
                    Some(answer) => answer.map(Response::new),
                    None => std::future::pending().await,
                }
            }
        })
        .await;
        assert!(questions.unanswered().is_empty());
        (answer, calls)
    }

    #[tokio::test]
    async fn a_broken_connection_is_tried_again_and_a_refusal_is_not() {
        let broke = || Err(broken(io::ErrorKind::BrokenPipe));
        assert_eq!(asked(vec![broke(), broke(), Ok(7)]).await, (Ok(7), 3));
        let (refused, calls) = asked(vec![broke(), Err(Status::already_exists("ring `x` exists"))]).await;
        let refused = refused.unwrap_err();
        assert_eq!((refused.kind, calls), (ErrorKind::Exists, 2));
        let (gone, calls) = asked(vec![Err(broken(io::ErrorKind::ConnectionRefused)), Ok(7)]).await;
        let text = gone.unwrap_err().message;
        assert!(calls == 1 && text.contains("`h1`") && text.contains("is not there"), "{text}");
    }
}
