//! The faults of an RDMA device, and what to do about them.

use std::io;

use zsr_wire::Mac;

use crate::nic::{NicError, NicErrorKind};

fn new(kind: NicErrorKind, message: String) -> NicError {
    NicError { kind, message }
}

pub(super) fn no_library(reason: &str) -> NicError {
    new(
        NicErrorKind::Other,
        format!(
            "can't load libibverbs: {reason}; install it with its drivers (Debian: libibverbs1 and \
             ibverbs-providers), or use the soft NIC. A statically linked program can't load it"
        ),
    )
}

pub(super) fn no_provider(device: &str) -> NicError {
    new(
        NicErrorKind::Other,
        format!(
            "libibverbs has no driver for the RDMA device {device}, or no access to it: install ibverbs-providers, \
             and check that /dev/infiniband/uverbs* is there and may be read and written"
        ),
    )
}

pub(super) fn no_device(wanted: &str, found: &[String]) -> NicError {
    let there = if found.is_empty() {
        "there is none; load the NIC's RDMA driver, or make a soft one: rdma link add rxe0 type rxe netdev ETH".into()
    } else {
        format!("there are: {}", found.join(", "))
    };
    new(NicErrorKind::Other, format!("no {wanted}; {there}"))
}

pub(super) fn no_gid(device: &str, port: u8, wanted: &str) -> NicError {
    new(
        NicErrorKind::Invalid,
        format!(
            "port {port} of the RDMA device {device} has no {wanted}: give its network interface an IPv4 address in \
             the switch's subnet (ip addr add A.B.C.D/16 dev ETH); InfiniBand and RoCEv1 can't be used"
        ),
    )
}

pub(super) fn port_down(device: &str, port: u8, state: &str) -> NicError {
    new(
        NicErrorKind::Other,
        format!(
            "port {port} of the RDMA device {device} is {state}, not ACTIVE: bring its network interface up (ip link \
             set ETH up) and check the cable"
        ),
    )
}

pub(super) fn os(what: &str, device: &str, source: &io::Error) -> NicError {
    let advice = match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "; run as root, or give access to /dev/infiniband/uverbs*",
        Some(libc::ENODEV | libc::EIO) => "; the device is gone or broken",
        _ => "",
    };
    new(NicErrorKind::Other, format!("RDMA device {device}: {what}: {source}{advice}"))
}

/// Registering `bytes` failed.
pub(super) fn register(device: &str, bytes: usize, limit: Option<u64>, source: &io::Error) -> NicError {
    let out_of = matches!(source.raw_os_error(), Some(libc::ENOMEM | libc::EAGAIN));
    match limit {
        Some(limit) if out_of && limit < u64::MAX => new(
            NicErrorKind::Exhausted,
            format!(
                "RDMA device {device}: can't register {bytes} bytes of ring memory: {source}; this process may lock \
                 {limit} bytes of memory: raise the limit (ulimit -l unlimited, or LimitMEMLOCK=infinity in its unit), \
                 or make rings smaller or fewer"
            ),
        ),
        _ if out_of => new(
            NicErrorKind::Exhausted,
            format!(
                "RDMA device {device}: can't register {bytes} bytes of ring memory: {source}; the device has no \
                 room for more regions, or the system no memory: make rings smaller or fewer"
            ),
        ),
        _ => os(&format!("registering {bytes} bytes of ring memory"), device, source),
    }
}

/// The device has no way to this memory.
pub(super) fn unreachable(device: &str, memory: &str, why: &str) -> NicError {
    invalid(format!(
        "RDMA device {device} can't reach {memory}: {why}. Give the host a soft NIC, or its rings other memory (`memory: host`; \
         for kernels of GPU 0 `memory: gpu:0:host`)"
    ))
}

/// Registering a dma-buf of `bytes` bytes failed.
pub(super) fn register_dma_buf(device: &str, memory: &str, bytes: usize, source: &io::Error) -> NicError {
    let why = match source.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => "its driver takes no dma-buf".to_owned(),
        _ => format!("registering {bytes} bytes of it as a dma-buf failed: {source}"),
    };
    unreachable(device, memory, &why)
}

/// Making a queue pair failed.
pub(super) fn queue_pair(device: &str, have: usize, max: i32, source: &io::Error) -> NicError {
    match source.raw_os_error() {
        Some(libc::ENOMEM | libc::ENOSPC | libc::EINVAL | libc::EAGAIN) => new(
            NicErrorKind::Exhausted,
            format!(
                "RDMA device {device}: can't make a queue pair: {source}; this agent has {have}, the device holds \
                 {max} in all: delete flows, or spread rings over more NICs"
            ),
        ),
        _ => os("making a queue pair", device, source),
    }
}

/// The queue pair could not be taken to the next state.
pub(super) fn state(device: &str, step: &str, peer: &str, mac: &str, source: &io::Error) -> NicError {
    let advice = match source.raw_os_error() {
        Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN) => format!(
            "; the way to the switch's address is not known: it must be in the subnet of the NIC's address, and its \
             MAC address known (ip neigh replace {peer} lladdr {mac} dev ETH)"
        ),
        Some(libc::EINVAL) => {
            "; the device does not take these attributes: is the path MTU within its limit?".into()
        }
        _ => String::new(),
    };
    new(
        NicErrorKind::Other,
        format!(
            "RDMA device {device}: queue pair to the switch {peer} does not reach {step}: {source}{advice}"
        ),
    )
}

/// The interface has another address than queue pairs and switch were told.
pub(super) fn other_mac(device: &str, interface: &str, used: Mac, found: Mac) -> NicError {
    new(
        NicErrorKind::Other,
        format!(
            "the interface {interface} of the RDMA device {device} has the address {found} now, and flows use {used}: \
             give it back (ip link set {interface} address {used}), or put the new one into the topology and start \
             the system anew"
        ),
    )
}

/// `count` queue pairs could not be told where their GID is now.
pub(super) fn stays_behind(device: &str, count: usize, index: u8, source: &io::Error) -> NicError {
    new(
        NicErrorKind::Other,
        format!(
            "RDMA device {device}: the GID has moved to index {index}, and {count} queue pairs can't follow it: {source}; \
             delete the flows of this host and create them again"
        ),
    )
}

/// The device went while queue pairs were at it.
pub(super) fn taken_away(device: &str) -> NicError {
    new(
        NicErrorKind::Stopped,
        format!(
            "the RDMA device {device} was taken away (its driver unloaded, or its link deleted), and with it the queue pairs \
             of this agent: when it is there again, start the agent anew, and delete the flows of this host and create \
             them again"
        ),
    )
}

pub(super) fn unknown(what: &str, number: u32) -> NicError {
    new(NicErrorKind::Other, format!("there is no {what} {number:#x}"))
}

pub(super) fn invalid(message: String) -> NicError {
    new(NicErrorKind::Invalid, message)
}
