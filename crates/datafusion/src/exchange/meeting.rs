//! How those who take part in an exchange reach each other's workers: at sockets in a folder, or at addresses.

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use datafusion_distributed::grpc::BoxCloneSyncChannel;
use tonic::transport::{Channel, Endpoint};
use url::Url;
use zsr::Contact;
use zsr_tls::{Identity, Peer, worker_name};

/// How long a worker at an address may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection is silent before it is looked whether the other end is still there.
pub(crate) const LOOK: Duration = Duration::from_secs(5);
/// How long the other end may take to answer that.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// What stands for an address in the URLs of workers at sockets.
const NO_ADDRESS: &str = "zsr";

/// Where workers are reached.
#[derive(Clone, Debug)]
pub enum Meeting {
    /// At UNIX sockets in this folder, which all share: everybody is on one machine.
    Folder(PathBuf),
    /// At addresses, with TLS.
    Network {
        /// `HOST:PORT` of the worker of each host. Who only works may leave it empty: queries name their workers.
        workers: HashMap<String, String>,
        /// The file of a certificate, NAME.pem, with its key NAME.key and the authority ca.pem beside it. Without one there is no TLS, and
        /// all addresses have to be of this machine.
        certificate: Option<PathBuf>,
    },
}

impl From<&Path> for Meeting {
    fn from(folder: &Path) -> Self {
        Meeting::Folder(folder.to_owned())
    }
}

impl From<&PathBuf> for Meeting {
    fn from(folder: &PathBuf) -> Self {
        Meeting::Folder(folder.clone())
    }
}

/// A worker's address is not known, or its name makes no URL.
#[derive(Debug, thiserror::Error)]
#[error("host `{host}` has no worker that is known here{known}")]
pub struct Unknown {
    host: String,
    known: String,
}

impl Meeting {
    /// The URL of the worker of `host`.
    pub(crate) fn url(&self, host: &str) -> Result<Url, Unknown> {
        let (address, known) = match self {
            Meeting::Folder(_) => (Some(NO_ADDRESS), String::new()),
            Meeting::Network { workers, .. } => {
                let mut known: Vec<_> = workers.keys().map(String::as_str).collect();
                known.sort_unstable();
                (workers.get(host).map(String::as_str), format!(": known are those of {}", known.join(", ")))
            }
        };
        let url = address.and_then(|address| Url::parse(&format!("http://{address}/")).ok());
        let mut url = url.ok_or_else(|| Unknown { host: host.to_owned(), known })?;
        url.set_path(host);
        Ok(url)
    }

    /// The socket of the worker of `host`, if all are at sockets.
    pub(crate) fn socket(&self, host: &str) -> Option<PathBuf> {
        match self {
            Meeting::Folder(folder) => Some(socket(folder, host)),
            Meeting::Network { .. } => None,
        }
    }

    /// A connection to the worker of this URL.
    pub(crate) async fn connect(
        &self,
        url: &Url,
    ) -> Result<BoxCloneSyncChannel, Box<dyn Error + Send + Sync>> {
        let host = host_of(url);
        let channel = match self {
            Meeting::Folder(folder) => {
                let connector = zsr_cork::unix(socket(folder, host));
                Endpoint::from_static("http://zsr").connect_with_connector(connector).await?
            }
            Meeting::Network { certificate, .. } => {
                let address = url.authority();
                match Contact::find(Some(address), certificate.as_deref(), None)? {
                    Contact::Secured { address, certificate } => {
                        let identity = Identity::open(&certificate)?;
                        Peer { address, name: worker_name(host), identity }.connect(watched).await?
                    }
                    _ => open(address).await?,
                }
            }
        };
        Ok(BoxCloneSyncChannel::new(channel))
    }
}

async fn open(address: &str) -> Result<Channel, tonic::transport::Error> {
    let endpoint = watched(Endpoint::from_shared(format!("http://{address}"))?);
    endpoint.connect_with_connector(zsr_cork::tcp(address.to_owned())).await
}

fn socket(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("{host}.worker"))
}

/// A connection notices that the other machine is cut off.
fn watched(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(LOOK)
        .keep_alive_timeout(PATIENCE)
        .keep_alive_while_idle(true)
}

/// The host that a worker's URL stands for.
pub(crate) fn host_of(url: &Url) -> &str {
    url.path().trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_hosts_and_their_addresses() {
        let folder = Meeting::from(Path::new("/tmp/x"));
        assert_eq!(host_of(&folder.url("h1").unwrap()), "h1");
        let workers = [("h1", "10.0.0.1:7400"), ("h2", "[fe80::1]:7400"), ("h3", "not an address")];
        let workers = workers.into_iter().map(|(host, at)| (host.to_owned(), at.to_owned())).collect();
        let network = Meeting::Network { workers, certificate: None };
        for (host, address) in [("h1", "10.0.0.1:7400"), ("h2", "[fe80::1]:7400")] {
            let url = network.url(host).unwrap();
            assert_eq!((host_of(&url), url.authority()), (host, address));
        }
        for host in ["h3", "h4"] {
            let why = network.url(host).unwrap_err().to_string();
            assert!(why.contains(host) && why.contains("h1, h2, h3"), "{why}");
        }
    }

    #[tokio::test]
    async fn another_machine_takes_a_certificate() {
        let workers = HashMap::from([("h1".to_owned(), "10.0.0.1:7400".to_owned())]);
        let network = Meeting::Network { workers, certificate: None };
        let why = network.connect(&network.url("h1").unwrap()).await.err().unwrap().to_string();
        assert!(why.contains("10.0.0.1:7400") && why.contains("certificate"), "{why}");
    }
}
