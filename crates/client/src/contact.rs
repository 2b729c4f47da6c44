//! Where a program finds the controller.

use std::error::Error;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tonic::transport::{Channel, Endpoint};

use crate::place::{Place, PlaceError};

/// A controller: that of a system on this machine, or one at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// At the socket in the system's folder.
    Place(Place),
    /// At `HOST:PORT`, without encryption: on this machine, such as at the end of a tunnel, or where that does not matter.
    Address(String),
    /// At `HOST:PORT`, with TLS.
    Secured {
        /// `HOST:PORT`.
        address: String,
        /// The file of a certificate, NAME.pem, with its key NAME.key and the authority ca.pem beside it.
        certificate: PathBuf,
    },
}

impl From<&Place> for Contact {
    fn from(place: &Place) -> Self {
        Contact::Place(place.clone())
    }
}

impl From<&Contact> for Contact {
    fn from(contact: &Contact) -> Self {
        contact.clone()
    }
}

impl Contact {
    /// The controller at the address `controller`, else that of the system on this machine that is named, or the only one. To an
    /// address on another machine it takes a certificate's file (feature `tls`).
    ///
    /// # Errors
    /// [`PlaceError`]: no such system, no certificate.
    pub fn find(
        controller: Option<&str>,
        certificate: Option<&Path>,
        system: Option<&str>,
    ) -> Result<Self, PlaceError> {
        let Some(address) = controller.map(str::to_owned) else {
            return Place::find(system).map(Contact::Place);
        };
        match certificate {
            Some(certificate) => Ok(Contact::Secured { address, certificate: certificate.to_owned() }),
            None if is_local(&address) => Ok(Contact::Address(address)),
            None => Err(PlaceError::NoCertificate { address }),
        }
    }

    /// The endpoint's URI.
    pub(crate) fn uri(&self) -> String {
        match self {
            Contact::Place(place) => format!("unix://{}", place.controller().display()),
            Contact::Address(address) | Contact::Secured { address, .. } => format!("http://{address}"),
        }
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<Channel, Box<dyn Error + Send + Sync>> {
        match self {
            Contact::Place(place) => {
                let endpoint = Endpoint::from_shared(self.uri())?;
                Ok(endpoint.connect_with_connector(zsr_cork::unix(place.controller())).await?)
            }
            Contact::Address(address) => {
                let endpoint = Endpoint::from_shared(self.uri())?;
                Ok(endpoint.connect_with_connector(zsr_cork::tcp(address.clone())).await?)
            }
            #[cfg(feature = "tls")]
            Contact::Secured { address, certificate } => {
                let identity = zsr_tls::Identity::open(certificate)?;
                let name = zsr_tls::CONTROLLER.to_owned();
                Ok(zsr_tls::Peer { address: address.clone(), name, identity }
                    .connect(|endpoint| endpoint)
                    .await?)
            }
            #[cfg(not(feature = "tls"))]
            Contact::Secured { .. } => {
                Err("this program was built without the feature `tls` of the crate zsr".into())
            }
        }
    }

    /// Whether [`connect`](Self::connect) failed before it asked anybody.
    pub(crate) fn own_fault(&self, e: &(dyn Error + 'static)) -> bool {
        #[cfg(feature = "tls")]
        let is = e.is::<zsr_tls::IdentityError>();
        #[cfg(not(feature = "tls"))]
        let is = e.source().is_none() && matches!(self, Contact::Secured { .. });
        is
    }
}

/// Whether nobody but this machine sees what goes to `HOST:PORT`.
fn is_local(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_takes_a_certificate() {
        for local in ["127.0.0.1:7700", "localhost:7700", "[::1]:7700"] {
            assert_eq!(Contact::find(Some(local), None, None).unwrap(), Contact::Address(local.into()));
        }
        for far in ["10.0.0.5:7700", "localhost.example:7700", "[fe80::1]:7700", "127.0.0.1.example:1", "far"]
        {
            let why = Contact::find(Some(far), None, None).unwrap_err().to_string();
            assert!(why.contains(far) && why.contains("zsr ca"), "{why}");
            let secured = Contact::find(Some(far), Some(Path::new("c/me.pem")), None).unwrap();
            assert_eq!(secured, Contact::Secured { address: far.into(), certificate: "c/me.pem".into() });
        }
    }
}
