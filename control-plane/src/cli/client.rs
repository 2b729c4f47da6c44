//! A session with a running system's controller.

use super::contact::Contact;
use crate::controller::proto::controller_client::ControllerClient;
use crate::process::{Place, PlaceError};
use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

/// The controller's client.
pub type Client = ControllerClient<Channel>;

const MAX_MESSAGE: usize = 64 << 20;
/// How long a call may take: more than a change takes whose agents do not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a controller may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No system.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// No controller.
    #[error("the controller of system `{system}` does not answer at {}: {reason}; see zsr status, or start over with zsr down and zsr up", socket.display())]
    Connect {
        /// Which system.
        system: String,
        /// Where.
        socket: PathBuf,
        /// Why.
        reason: String,
    },
    /// No controller at an address.
    #[error(
        "no controller answers at {address}: {reason}; it listens where zsr up --listen (or zsr controller --listen) said"
    )]
    Unreachable {
        /// `HOST:PORT`.
        address: String,
        /// Why.
        reason: String,
    },
    /// The controller refused; nothing was changed.
    #[error("{message}")]
    Refused {
        /// Its words.
        message: String,
        /// Of what kind the refusal is.
        code: Code,
    },
    /// The controller has gone.
    #[error("the controller went away: {0}")]
    Lost(String),
    /// The controller takes longer than it may.
    #[error("the controller has not answered within {} s", .after.as_secs_f64())]
    Late {
        /// How long was waited.
        after: Duration,
    },
    /// The system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What it says.
        source: std::io::Error,
    },
}

/// A session.
pub struct Session {
    /// The runtime that carries it.
    pub runtime: tokio::runtime::Runtime,
    /// The client.
    pub client: Client,
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
        let contact = contact.into();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| ClientError::Io { what: "starting threads", source })?;
        let fail = |reason: String| match &contact {
            Contact::Place(place) => {
                ClientError::Connect { system: place.name().to_owned(), socket: place.controller(), reason }
            }
            Contact::Address(address) => ClientError::Unreachable { address: address.clone(), reason },
        };
        let endpoint = Endpoint::from_shared(contact.uri()).map_err(|e| fail(e.to_string()))?;
        let endpoint = endpoint.connect_timeout(CONNECT);
        let channel = runtime.block_on(endpoint.connect()).map_err(|e| {
            let mut cause: &dyn Error = &e;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            fail(cause.to_string())
        })?;
        let client = ControllerClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        Ok(Session { runtime, client })
    }

    /// One call.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn call<T, F>(&self, call: impl FnOnce(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.call_within(PATIENCE, call)
    }

    /// One call that must be answered in time.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn call_within<T, F>(&self, time: Duration, call: impl FnOnce(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let call = call(self.client.clone());
        match self.runtime.block_on(async { tokio::time::timeout(time, call).await }) {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(refused(&status)),
            Err(_) => Err(ClientError::Late { after: time }),
        }
    }
}

/// A status in words.
pub fn refused(status: &Status) -> ClientError {
    let message = status.message().to_owned();
    // What did not come from the controller has a cause here.
    let lost = status.source().is_some() || matches!(status.code(), Code::Cancelled | Code::Unknown);
    if lost { ClientError::Lost(message) } else { ClientError::Refused { message, code: status.code() } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn only_a_controller_that_answers_refuses() {
        let answer = Status::unavailable("no agent");
        assert!(matches!(refused(&answer), ClientError::Refused { code: Code::Unavailable, .. }));
        let mut silence = Status::unavailable("Connection refused");
        silence.set_source(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)));
        assert!(matches!(refused(&silence), ClientError::Lost(_)));
    }
}
