//! Errors of links.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A link can't be made or used.
#[derive(Debug, Error)]
pub enum LinkError {
    /// An empty socket path.
    #[error("a link's socket path is empty: name a file for each end")]
    NoPath,
    /// A socket path that the system can't hold.
    #[error(
        "the socket path {} has {len} bytes, more than the {max} that the system can hold: choose a folder with a \
         shorter path",
        path.display()
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// The path's length, bytes.
        len: usize,
        /// The most that fits, bytes.
        max: usize,
    },
    /// Both ends of a link at one path.
    #[error("the socket path {} is given for both ends of a link: each end needs a path of its own", path.display())]
    SamePath {
        /// The path.
        path: PathBuf,
    },
    /// Somebody else is there.
    #[error(
        "the socket {} belongs to a process that runs: stop that process, or choose another path",
        path.display()
    )]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something that is no socket is there.
    #[error("{} exists and is not a socket: remove it, or choose another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The socket can't be made at its path.
    #[error(
        "can't make the socket {}: {source}; its folder must exist and be writable",
        path.display()
    )]
    Bind {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The other end can't be reached for another reason than its absence.
    #[error("can't reach the other end at {}: {source}; frames to it are lost until this is put right", path.display())]
    Peer {
        /// The peer's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The other end of a link in shared memory does not keep to memif's rules.
    #[error(
        "the other end of the link at {} broke off, or breaks memif's rules: {what}; frames of its are lost until it \
         keeps to them",
        path.display()
    )]
    Memif {
        /// The socket at which the ends meet.
        path: PathBuf,
        /// What it did.
        what: String,
    },
    /// The system refused frames.
    #[error("the system refuses frames at {port}: {source}; they are lost until this is put right")]
    Refused {
        /// The port: a path or an interface.
        port: String,
        /// What the system said.
        source: io::Error,
    },
    /// Raw frames need a privilege.
    #[error(
        "no permission to send and receive raw frames on {interface}: run as root, or give the program the capability \
         (setcap cap_net_raw+ep PROGRAM)"
    )]
    NoPrivilege {
        /// The interface.
        interface: String,
    },
    /// No interface of this name.
    #[error(
        "there is no interface {interface} in this network namespace: `ip link` lists those that are there"
    )]
    NoInterface {
        /// The name.
        interface: String,
    },
    /// An interface without Ethernet frames.
    #[error(
        "the interface {interface} is not an Ethernet interface: choose one that is (`ip link` says link/ether)"
    )]
    NotEthernet {
        /// The interface.
        interface: String,
    },
    /// The interface is down.
    #[error("the interface {interface} is down, frames there are lost: `ip link set {interface} up`")]
    InterfaceDown {
        /// The interface.
        interface: String,
    },
    /// Nothing is at the other end of the interface's cable.
    #[error(
        "the interface {interface} has no carrier, frames there are lost: see to the cable, and that the other end is up"
    )]
    NoCarrier {
        /// The interface.
        interface: String,
    },
    /// The interface carries too small packets.
    #[error(
        "the interface {interface} has MTU {has}, the link needs {needs}: `ip link set {interface} mtu {needs}`, at \
         both ends"
    )]
    SmallMtu {
        /// The interface.
        interface: String,
        /// The interface's MTU, bytes.
        has: u32,
        /// The least that is needed, bytes.
        needs: u32,
    },
    /// The kernel has no AF_XDP.
    #[error(
        "this kernel has no AF_XDP as it is needed here ({what}: {source}; Linux 6.6 has it): use the interface without \
         xdp (AF_PACKET)"
    )]
    NoXdp {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// AF_XDP needs more privileges than raw frames.
    #[error(
        "no permission for AF_XDP on {interface} ({what}): run as root, or give the program the capabilities (setcap \
         cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM) and enough locked memory (ulimit -l unlimited)"
    )]
    NoXdpPrivilege {
        /// The interface.
        interface: String,
        /// What was tried.
        what: &'static str,
    },
    /// Another XDP program is on the interface.
    #[error(
        "another XDP program is on the interface {interface}: take it away (`ip link set {interface} xdp off` and \
         xdpgeneric off), or end the program that uses it"
    )]
    XdpTaken {
        /// The interface.
        interface: String,
    },
    /// An AF_XDP port takes the frames of one queue.
    #[error(
        "the interface {interface} has {queues} receive queues, and an AF_XDP port takes one: `ethtool -L {interface} \
         combined 1` (or rx 1)"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// How many.
        queues: usize,
    },
    /// The system refused something else at an interface.
    #[error("the interface {interface} can't be used ({what}): {source}")]
    Interface {
        /// The interface.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Waiting for frames is not possible.
    #[error("can't wait for frames ({what}): {source}; the limit on open files may be too low (ulimit -n)")]
    Poll {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A port number was given twice.
    #[error("port {port} has a link already: give each link a port number of its own")]
    PortTaken {
        /// The port.
        port: u16,
    },
}
