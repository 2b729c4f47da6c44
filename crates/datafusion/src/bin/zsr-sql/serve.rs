//! A worker that others reach at an address, and how they find it.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use tokio::net::TcpListener;
use zsr::api::GetSystemRequest;
use zsr::{Contact, Session};
use zsr_datafusion::{Exchange, Meeting};

use crate::system::Signals;
use crate::words;

/// What names of flows begin with whose programs are on several machines: no process of this machine is responsible for them.
pub(crate) const FLOWS: &str = "sqlw";

/// Options of a worker of its own, and of who asks it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Be the worker of a host of a running system, until Ctrl-C
    ///
    /// It runs on the host's machine. Who asks names it with --worker.
    #[arg(long, value_name = "HOST", requires = "listen", conflicts_with_all = ["topology", "queries"])]
    pub(crate) serve: Option<String>,
    /// Where the worker listens
    #[arg(long, value_name = "ADDRESS:PORT", requires = "serve")]
    pub(crate) listen: Option<String>,
    /// Controller at an address [default: that of the system on this machine]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) controller: Option<String>,
    /// Certificate to show to the controller and workers: FOLDER/NAME.pem, with NAME.key and ca.pem beside it
    ///
    /// Of a worker: that of its host, with the role `worker`; of who asks: one with the role `operator`.
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
    /// The worker's system on this machine [default: the only one]
    #[arg(long, value_name = "NAME", conflicts_with = "controller", requires = "serve")]
    pub(crate) system: Option<String>,
}

impl ServeArgs {
    /// How workers at `addresses` are met.
    pub(crate) fn meeting(&self, addresses: &[Address]) -> Meeting {
        let workers: HashMap<_, _> =
            addresses.iter().map(|worker| (worker.host.clone(), worker.address.clone())).collect();
        Meeting::Network { workers, certificate: self.certificate.clone() }
    }

    /// Is the worker of a host, until a signal.
    pub(crate) async fn run(&self) -> Result<(), String> {
        let (Some(host), Some(listen)) = (&self.serve, &self.listen) else { return Ok(()) };
        let mut stop = Signals::catch()?;
        let found =
            Contact::find(self.controller.as_deref(), self.certificate.as_deref(), self.system.as_deref());
        let contact = found.map_err(|e| e.to_string())?;
        let hosts = hosts(contact.clone()).await?;
        if !hosts.contains(host) {
            return Err(format!("the system has no host `{host}`: it has {}", hosts.join(", ")));
        }
        let fail = |e: std::io::Error| format!("--listen {listen}: {e}");
        let listener = TcpListener::bind(listen).await.map_err(fail)?;
        let at = listener.local_addr().map_err(fail)?;
        let exchange = Exchange::new(contact, host, FLOWS, self.meeting(&[]));
        let serving = exchange.serve_at(exchange.worker(), listener);
        tokio::pin!(serving);
        // A certificate that is no good is found before it is said that all is well.
        if let Some(failed) =
            tokio::select! { biased; served = &mut serving => Some(served), () = async {} => None }
        {
            return failed.map_err(words);
        }
        let _ = writeln!(std::io::stdout(), "{host}: worker at {at}");
        tokio::select! {
            served = &mut serving => served.map_err(words),
            () = stop.wait() => {
                exchange.clear().await;
                Ok(())
            }
        }
    }
}

/// Hosts of a system.
async fn hosts(contact: Contact) -> Result<Vec<String>, String> {
    let ask = move || {
        let session = Session::open(contact)?;
        let system = session.call(|mut c| async move { c.get_system(GetSystemRequest {}).await })?;
        Ok(system.hosts.into_iter().map(|host| host.name).collect())
    };
    let done = tokio::task::spawn_blocking(ask).await.map_err(|e| e.to_string())?;
    done.map_err(|e: zsr::ClientError| e.to_string())
}

/// Where the worker of a host listens.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) address: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').filter(|(host, _)| !host.is_empty());
        let parts = parts.filter(|(_, at)| {
            let port = at.rsplit_once(':').filter(|(name, _)| !name.is_empty());
            port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
        });
        let (host, address) = parts.ok_or("expected HOST=ADDRESS:PORT, such as h1=10.0.0.5:7400")?;
        Ok(Address { host: host.to_owned(), address: address.to_owned() })
    }
}
