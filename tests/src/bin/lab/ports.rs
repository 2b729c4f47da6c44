//! Links, as the command line names them.

use std::path::Path;
use std::str::FromStr;

use zsr_link::{AnyPort, PacketPort, UnixPort};

use super::Result;

/// Headers and trailer of a RoCEv2 packet on top of its payload, in an IP packet.
const OVERHEAD: u32 = 128;

/// `if:INTERFACE` or `unix:LOCAL,PEER`.
#[derive(Debug, Clone)]
pub enum Link {
    Interface(String),
    Unix(String, String),
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Link, String> {
        if let Some(name) = text.strip_prefix("if:") {
            return Ok(Link::Interface(name.into()));
        }
        let paths = text.strip_prefix("unix:").and_then(|p| p.split_once(','));
        let (local, peer) =
            paths.ok_or_else(|| format!("`{text}` is neither if:INTERFACE nor unix:LOCAL,PEER"))?;
        Ok(Link::Unix(local.into(), peer.into()))
    }
}

impl Link {
    /// Opens it for packets of path MTU `mtu`.
    pub fn open(&self, mtu: u32) -> Result<AnyPort> {
        Ok(match self {
            Link::Interface(name) => Box::new(PacketPort::open(name, mtu + OVERHEAD)?),
            Link::Unix(local, peer) => Box::new(UnixPort::open(Path::new(local), Path::new(peer))?),
        })
    }
}

/// `NAME=VALUE`.
#[derive(Debug, Clone)]
pub struct Named<T> {
    pub name: String,
    pub value: T,
}

impl<T: FromStr> FromStr for Named<T>
where
    T::Err: std::fmt::Display,
{
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Named<T>, String> {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}`: expected NAME=VALUE"))?;
        Ok(Named { name: name.into(), value: value.parse().map_err(|e: T::Err| e.to_string())? })
    }
}
