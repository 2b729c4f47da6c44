//! A session with a running system's controller.

use crate::contact::Contact;
use crate::error::ProgramError;
use crate::place::{Place, PlaceError};
use crate::pu::{Pass, PuError};
use crate::{shared, sigpipe, waiting};
use std::error::Error;
use std::future::Future;
use std::io::Write;
use std::ops::Deref;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use zsr_api::controller::{self as proto, controller_client::ControllerClient};

/// The controller's client.
pub type Client = ControllerClient<Channel>;

const MAX_MESSAGE: usize = 64 << 20;
/// How long a question may take, and a controller to give any sign of life while a change is under way.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The controller could not be asked, or has refused.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No system.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// No controller.
    #[error("the controller of system `{system}` does not answer at {}: {reason}; see zsr status, then run zsr restart controller", socket.display())]
    Connect {
        /// Which system.
        system: String,
        /// Where.
        socket: PathBuf,
        /// The reason, for people.
        reason: String,
    },
    /// No controller at an address.
    #[error(
        "no controller answers at {address}: {reason}; it listens where zsr up --listen (or zsr controller --listen) said"
    )]
    Unreachable {
        /// `HOST:PORT`.
        address: String,
        /// The reason, for people.
        reason: String,
    },
    /// A certificate's files can't be used.
    #[error("{0}")]
    Certificate(String),
    /// The controller refused; nothing was changed.
    #[error("{message}")]
    Refused {
        /// The controller's words.
        message: String,
        /// Of what kind the refusal is.
        code: Code,
    },
    /// The controller has gone.
    #[error("the controller went away: {0}")]
    Lost(String),
    /// The controller takes longer than it may. A change that was asked for may still happen.
    #[error("no answer within {} s; waited for {waits_for}", .after.as_secs_f64())]
    Late {
        /// How long was waited.
        after: Duration,
        /// For whom.
        waits_for: String,
    },
    /// The system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
}

/// A runtime that can be dropped anywhere, also by a program that is asynchronous itself: its last array of a ring, say.
pub struct Carrier(Option<Runtime>);

impl Deref for Carrier {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken only when it is dropped")
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // A runtime's own end waits, for which tokio panics where no one may.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A session.
pub struct Session {
    /// The runtime that carries it.
    pub runtime: Arc<Carrier>,
    /// The client.
    pub client: Client,
    contact: Contact,
    tell: Option<fn(&str)>,
}

impl Session {
    /// With the system of this name, or the only one that is up.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn find(system: Option<&str>) -> Result<Self, ClientError> {
        Self::open(&Place::find(system)?)
    }

    /// With a controller: that of the system at a [`Place`], or at an address.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn open(contact: impl Into<Contact>) -> Result<Self, ClientError> {
        Self::connect(contact.into(), &mut Builder::new_current_thread())
    }

    /// The same, over the one connection that all sessions opened by this call share in this process, with a thread of its own that
    /// ends with the last of them. Not for [`events`](Self::events) that nobody may take for long: they would hold up the others.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn shared(contact: impl Into<Contact>) -> Result<Self, ClientError> {
        let contact = contact.into();
        if let Some((runtime, client)) = shared::find(&contact) {
            return Ok(Session { runtime, client, contact, tell: None });
        }
        let start = || {
            // The thread's own; the library's calls never raise it in the program's.
            std::mem::forget(sigpipe::block());
        };
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(1).thread_name("zsr-client").on_thread_start(start);
        let session = Self::connect(contact, &mut runtime)?;
        shared::keep(&session.contact, &session.runtime, &session.client);
        Ok(session)
    }

    fn connect(contact: Contact, runtime: &mut Builder) -> Result<Self, ClientError> {
        let runtime = runtime
            .enable_all()
            .build()
            .map_err(|source| ClientError::Io { what: "starting threads", source })?;
        let runtime = Arc::new(Carrier(Some(runtime)));
        let fail = |reason: String| match &contact {
            Contact::Place(place) => {
                ClientError::Connect { system: place.name().to_owned(), socket: place.controller(), reason }
            }
            Contact::Address(address) | Contact::Secured { address, .. } => {
                ClientError::Unreachable { address: address.clone(), reason }
            }
        };
        let _quiet = sigpipe::block();
        let connect = async { tokio::time::timeout(PATIENCE, Self::client(&contact)).await };
        let connected =
            runtime.block_on(connect).map_err(|_| late(PATIENCE, waiting::controller(&contact)))?;
        let client = connected.map_err(|e| match contact.own_fault(&*e) {
            true => ClientError::Certificate(e.to_string()),
            false => fail(cause(&*e)),
        })?;
        Ok(Session { runtime, client, contact, tell: None })
    }

    pub(crate) async fn client(contact: &Contact) -> Result<Client, Box<dyn Error + Send + Sync>> {
        let channel = contact.connect().await?;
        Ok(ControllerClient::new(channel).max_decoding_message_size(MAX_MESSAGE))
    }

    pub(crate) fn contact(&self) -> &Contact {
        &self.contact
    }

    /// This one; calls that take long say on standard error what they wait for.
    #[must_use]
    pub fn telling(self) -> Self {
        let tell = |text: &str| {
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        };
        Session { tell: Some(tell), ..self }
    }

    /// A question, which is answered within 10 s.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn call<T, F>(&self, call: impl FnOnce(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.call_within(PATIENCE, call)
    }

    /// A call that must be answered in time.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn call_within<T, F>(&self, time: Duration, call: impl FnOnce(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.wait(self.answer(Some(time), call(self.client.clone())))
    }

    /// A change, which may take as long as the controller says what it waits for.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn change<T, F>(&self, call: impl FnOnce(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.wait(self.answer(None, call(self.client.clone())))
    }

    /// Leave to attach to a ring: what agents of a system with certificates ask programs for.
    ///
    /// # Errors
    /// [`ClientError`]: no such ring, a certificate that may not push or pop there, an agent that does not answer.
    pub fn pass(&self, ring: &str) -> Result<Pass, ClientError> {
        let request = proto::GetPassRequest { ring: ring.to_owned() };
        let given = self.call(|mut client| async move { client.get_pass(request).await })?;
        Ok(Pass(given.pass))
    }

    /// What `work` comes to. The runtime is compiled for one kind of future, not for each call.
    fn wait<T>(&self, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        let mut done = Err(ClientError::Lost("it was not asked".into()));
        let work: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(async { done = work.await });
        let _quiet = sigpipe::block();
        self.runtime.block_on(work);
        done
    }

    /// The answer to `call`. After two seconds, and whenever that changes, it is told what is waited for. `time` is how long it may
    /// take; none: as long as the controller answers other questions.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn answer<T>(
        &self,
        time: Option<Duration>,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, ClientError> {
        let late = waiting::until_late(&self.client, &self.contact, time, PATIENCE, self.tell);
        self.either(call, late).await
    }

    async fn either<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
        is_late: impl Future<Output = (Duration, String)>,
    ) -> Result<T, ClientError> {
        tokio::select! {
            biased;
            answer = call => answer.map(Response::into_inner).map_err(|status| self.refused(&status)),
            (after, waits_for) = is_late => Err(late(after, waits_for)),
        }
    }
}

impl Session {
    /// As [`answer`](Self::answer) to a question; nothing is told meanwhile.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn quiet_answer<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, ClientError> {
        let late = waiting::until_late(&self.client, &self.contact, Some(PATIENCE), PATIENCE, Some(|_| ()));
        self.either(call, late).await
    }
}

impl Session {
    /// A status in words. A server that speaks TLS hangs up on whoever does not.
    fn refused(&self, status: &Status) -> ClientError {
        let mut refused = refused(status);
        if let ClientError::Lost(why) = &mut refused {
            shared::forget(&self.runtime);
            if let Contact::Address(_) = &self.contact {
                why.push_str("; if it speaks TLS, name a certificate (--certificate)");
            }
        }
        refused
    }
}

/// What `attach` comes to, with a pass if the agent asks for one.
pub(crate) fn with_pass<T>(
    pass: impl FnOnce() -> Result<Pass, ClientError>,
    attach: impl Fn(Option<&Pass>) -> Result<T, PuError>,
) -> Result<T, ProgramError> {
    match attach(None) {
        Err(PuError::NoPass(_)) => Ok(attach(Some(&pass()?))?),
        done => Ok(done?),
    }
}

fn late(after: Duration, waits_for: String) -> ClientError {
    ClientError::Late { after, waits_for }
}

/// A status in words.
pub fn refused(status: &Status) -> ClientError {
    let message = status.message().to_owned();
    match status.source() {
        // What did not come from the controller has a cause here.
        Some(source) => ClientError::Lost(cause(source)),
        None if matches!(status.code(), Code::Cancelled | Code::Unknown) => ClientError::Lost(message),
        None => ClientError::Refused { message, code: status.code() },
    }
}

/// What an error came from. In TLS 1.3 it is only with its first answer that a server refuses a certificate.
fn cause(e: &(dyn Error + 'static)) -> String {
    let mut cause = e;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    match text.contains("fatal alert") {
        true => format!(
            "it refused the connection: {text}; see the certificate (`openssl x509 -text -noout -in FILE`)"
        ),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_session_can_end_in_an_asynchronous_program() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let carrier = Carrier(Some(runtime()));
        runtime().block_on(async { drop(carrier) });
    }

    #[test]
    fn only_a_controller_that_answers_refuses() {
        let answer = Status::unavailable("no agent");
        assert!(matches!(refused(&answer), ClientError::Refused { code: Code::Unavailable, .. }));
        let mut silence = Status::unavailable("Connection refused");
        silence.set_source(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)));
        assert!(matches!(refused(&silence), ClientError::Lost(_)));
    }
}
