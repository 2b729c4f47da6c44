//! Hosts as network namespaces: each behind a veth pair whose other end is in the switch's namespace. The namespaces
//! are made with `ip` (iproute2). They are written down before that, so that they can be removed after a crash.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zsr::Place;
use zsr_topology::{HOST_INTERFACE, MacAddr, Topology, switch_interface};

/// The folder in which the operating system shows namespaces that have a name.
const NAMED: &str = "/run/netns";
/// Room for path MTU 4096 with VLAN tags and headers.
const MTU: u32 = 9000;

/// The reason why namespaces can't be made or taken away.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// Not root.
    #[error("network namespaces need root: sudo zsr up ... --netns")]
    NoRoot,
    /// No `ip`.
    #[error(
        "network namespaces are made with the command ip, which does not start: {0}; install it (Debian: iproute2)"
    )]
    NoIp(io::Error),
    /// The namespace belongs to somebody else.
    #[error(
        "the network namespace {0} is there already and not this system's: ip netns delete {0}, or choose another name with --system"
    )]
    Taken(String),
    /// `ip` refused.
    #[error("ip {command}: {said}")]
    Refused {
        /// The arguments of the command.
        command: String,
        /// The command's words.
        said: String,
    },
    /// The list of namespaces.
    #[error("{}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The namespace of a switch or host of a system.
pub fn name(system: &str, node: &str) -> String {
    format!("zsr-{system}-{node}")
}

fn exists(namespace: &str) -> bool {
    Path::new(NAMED).join(namespace).exists()
}

/// Runs `ip ARGUMENTS`; with lines on its input if there are some.
fn ip(arguments: &[&str], input: &str) -> Result<(), NetnsError> {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(NetnsError::NoIp)?;
    let written = child.stdin.take().map_or(Ok(()), |mut pipe| pipe.write_all(input.as_bytes()));
    let done = child.wait_with_output().map_err(NetnsError::NoIp)?;
    if done.status.success() && written.is_ok() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ");
    Err(NetnsError::Refused { command: arguments.join(" "), said })
}

/// Makes the namespaces of `topology`, which is laid out for them, and the pairs between them.
///
/// # Errors
/// [`NetnsError`]; the namespaces made until then are in the record.
pub fn make(place: &Place, topology: &Topology) -> Result<(), NetnsError> {
    if !rustix::process::geteuid().is_root() {
        return Err(NetnsError::NoRoot);
    }
    let Some(switch) = topology.switches.first() else { return Ok(()) };
    let switch = name(place.name(), &switch.name);
    let links = topology.links.iter().map(|l| (&topology.hosts[l.host], l.port));
    let hosts: Vec<(String, u32, MacAddr)> =
        links.map(|(host, port)| (name(place.name(), &host.name), port, host.mac)).collect();
    if let Some(taken) = hosts.iter().map(|(n, _, _)| n).chain([&switch]).find(|n| exists(n)) {
        return Err(NetnsError::Taken(taken.clone()));
    }
    let mut record = format!("{switch}\n");
    hosts.iter().for_each(|(namespace, port, _)| record += &format!("{namespace} {port}\n"));
    let path = place.netns_file();
    std::fs::write(&path, record).map_err(|source| NetnsError::Record { path, source })?;

    ip(&["netns", "add", &switch], "")?;
    let mut links = String::from("link set lo up\n");
    for (namespace, port, mac) in &hosts {
        ip(&["netns", "add", namespace], "")?;
        let own = switch_interface(*port);
        // The kernel sends by itself (IPv6), and the switch takes no other source address from the port.
        links += &format!(
            "link add {own} mtu {MTU} type veth peer name {HOST_INTERFACE} address {mac} mtu {MTU} netns {namespace}\n"
        );
        links += &format!("link set {own} up\n");
    }
    ip(&["-n", &switch, "-batch", "-"], &links)?;
    for (namespace, _, _) in &hosts {
        ip(&["-n", namespace, "-batch", "-"], &format!("link set lo up\nlink set {HOST_INTERFACE} up\n"))?;
    }
    Ok(())
}

/// Takes away the namespaces that are written down at `place`, if any are, and the pairs between them. Other processes
/// in these namespaces lose their network, and live on.
///
/// # Errors
/// [`NetnsError`]; the record stays then.
pub fn remove(place: &Place) -> Result<(), NetnsError> {
    let path = place.netns_file();
    let record = match std::fs::read_to_string(&path) {
        Ok(record) => record,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(NetnsError::Record { path, source }),
    };
    let mut switch = None;
    for line in record.lines() {
        let (namespace, port) = line.split_once(' ').map_or((line, None), |(n, p)| (n, p.parse().ok()));
        match (port, switch) {
            (None, _) => switch = Some(namespace),
            (Some(port), Some(switch)) => {
                if exists(switch) {
                    // A namespace lives on with a process in it, and would keep its end of the pair. If there is no
                    // such pair, that is fine.
                    let _ = ip(&["-n", switch, "link", "delete", &switch_interface(port)], "");
                }
                delete(namespace)?;
            }
            (Some(_), None) => {}
        }
    }
    switch.map_or(Ok(()), delete)?;
    std::fs::remove_file(&path).map_err(|source| NetnsError::Record { path, source })
}

fn delete(namespace: &str) -> Result<(), NetnsError> {
    // Only names that `make` makes are written down; the file may be damaged all the same.
    if !namespace.starts_with("zsr-") || namespace.contains('/') || !exists(namespace) {
        return Ok(());
    }
    ip(&["netns", "delete", namespace], "")
}
