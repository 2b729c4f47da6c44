//! Where a gRPC server listens: at an address of TCP, or at a UNIX socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where a gRPC server listens. Written as other gRPC clients take it: `127.0.0.1:9559` or `unix:/run/x/p4runtime.sock`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Whoever can reach it can speak to the server.
    Tcp(SocketAddr),
    /// Whoever may open the socket can speak to the server. An absolute path.
    Unix(PathBuf),
}

impl Address {
    /// What tonic connects to.
    pub fn uri(&self) -> String {
        match self {
            Address::Tcp(address) => format!("http://{address}"),
            Address::Unix(path) => format!("unix://{}", path.display()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The text is neither `IP:PORT` nor `unix:/PATH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected IP:PORT or unix:/PATH")]
pub struct NoAddress;

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let Some(path) = text.strip_prefix("unix:") else {
            return text.parse().map(Address::Tcp).map_err(|_| NoAddress);
        };
        // `unix:///path` says the same.
        let path = Path::new(path.strip_prefix("//").unwrap_or(path));
        if path.is_absolute() { Ok(Address::Unix(path.to_owned())) } else { Err(NoAddress) }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::Tcp(address)
    }
}

impl From<&Address> for Address {
    fn from(address: &Address) -> Self {
        address.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["127.0.0.1:9559", "[::1]:1", "unix:/tmp/zsr-0/s/p4runtime.sock"] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("unix:///a/b".parse(), Ok(Address::Unix("/a/b".into())));
        assert_eq!(Address::Unix("/a/b".into()).uri(), "unix:///a/b");
        for wrong in ["", "localhost", "unix:", "unix:a/b", "127.0.0.1"] {
            assert_eq!(wrong.parse::<Address>(), Err(NoAddress), "{wrong}");
        }
    }
}
