//! The reach of a system's servers. At UNIX sockets it is the system's user alone, at addresses everybody with a
//! certificate (`tls`). If the file says so (`insecure`), it is everybody.

use std::net::SocketAddr;

use super::build::Builder;
use super::model::{Bmv2, SwitchKind, Topology};
use super::read::Table;

/// The remedy for an address where anybody could command a part of the system.
pub const TRUST_HELP: &str = "tls: FOLDER at the top of the topology (`zsr ca TOPOLOGY` makes its certificates), or insecure: true there, if whoever can \
                              reach the address may do everything";

impl Topology {
    /// Whether a server of ours may listen at `address`.
    ///
    /// # Errors
    /// Why it may not, and what to do.
    pub fn may_listen(&self, what: &str, address: SocketAddr) -> Result<(), String> {
        if self.tls.is_some() || self.insecure {
            return Ok(());
        }
        Err(format!("{what} would obey whoever can reach {address}: expected {TRUST_HELP}"))
    }

    /// Whether the server of somebody else's switch may be spoken to without TLS.
    pub(crate) fn may_speak_to(&self, kind: &SwitchKind) -> Result<(), String> {
        let at = match kind {
            SwitchKind::Bmv2(Bmv2::Running { address, packets }) => [Some(*address), *packets],
            SwitchKind::Tofino(tofino) => [Some(tofino.address), None],
            SwitchKind::Soft | SwitchKind::Bmv2(Bmv2::Started { .. }) => [None, None],
        };
        let far = at.into_iter().flatten().find(|at| !at.ip().is_loopback());
        match far {
            Some(at) if !self.insecure => Err(format!(
                "bmv2's and a chip's servers are spoken to without encryption, and {at} is on another machine: expected an address of this \
                 machine, such as the end of a tunnel, or insecure: true at the top of the topology"
            )),
            _ => Ok(()),
        }
    }
}

impl Builder<'_> {
    /// Reads `tls` and `insecure`.
    pub(crate) fn trust(&mut self, top: &Table<'_>) {
        self.topology.tls = self.path(top, "tls");
        self.topology.insecure = self.reader.flag(top, "insecure").is_some_and(|at| at.value);
    }

    /// Whether nobody but who is meant to can reach servers.
    pub(crate) fn trusted(&mut self) {
        let t = &self.topology;
        let mut found = Vec::new();
        for switch in &t.switches {
            let what = format!("the P4Runtime server of switch '{}'", switch.name);
            let listen = switch.listen.map_or(Ok(()), |at| match switch.kind {
                SwitchKind::Bmv2(_) if !t.insecure => Err(format!(
                    "{what} is bmv2's, which would obey whoever can reach {at}: expected no listen (a UNIX socket), or insecure: true at the top of \
                     the topology"
                )),
                _ => t.may_listen(&what, at),
            });
            found.extend(listen.and_then(|()| t.may_speak_to(&switch.kind)).err().map(|e| (switch.place, e)));
        }
        for host in &t.hosts {
            let Some(at) = host.agent else { continue };
            let refused = t.may_listen(&format!("the agent of host '{}'", host.name), at).err();
            found.extend(refused.map(|e| (host.place, e)));
        }
        for (place, why) in found {
            let (message, expected) = why.split_once(": expected ").unwrap_or((&why, ""));
            self.reader.error(place, message, expected);
        }
    }
}
