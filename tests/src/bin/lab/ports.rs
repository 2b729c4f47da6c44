//! Links, as the command line names them.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::str::FromStr;

use zsr_link::{AnyPort, PacketPort, Port, SendError, UnixPort, XdpPort};
use zsr_wire::{Frame, FramePool};

use super::Result;

/// Headers and trailer of a RoCEv2 packet on top of its payload, in an IP packet.
const OVERHEAD: u32 = 128;

/// `if:INTERFACE` (AF_PACKET), `xdp:INTERFACE` or `unix:LOCAL,PEER`.
#[derive(Debug, Clone)]
pub enum Link {
    Interface(String),
    Xdp(String),
    Unix(String, String),
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Link, String> {
        if let Some(name) = text.strip_prefix("if:") {
            return Ok(Link::Interface(name.into()));
        }
        if let Some(name) = text.strip_prefix("xdp:") {
            return Ok(Link::Xdp(name.into()));
        }
        let paths = text.strip_prefix("unix:").and_then(|p| p.split_once(','));
        let (local, peer) = paths
            .ok_or_else(|| format!("`{text}` is none of if:INTERFACE, xdp:INTERFACE and unix:LOCAL,PEER"))?;
        Ok(Link::Unix(local.into(), peer.into()))
    }
}

impl Link {
    /// Opens it for packets of path MTU `mtu`.
    pub fn open(&self, mtu: u32) -> Result<AnyPort> {
        Ok(match self {
            Link::Interface(name) => Box::new(PacketPort::open(name, mtu + OVERHEAD)?),
            Link::Xdp(name) => Box::new(XdpPort::open(name, mtu + OVERHEAD)?),
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

/// A faulty switch: it rewrites READ responses to WRITEs, and leaves the identification at zero instead of solving for
/// the one that keeps the ICRC right.
pub struct Spoil(pub AnyPort);

/// Ethernet and IPv4 headers, without options, up to the UDP header.
const UDP_AT: usize = 34;
const IDENT: std::ops::Range<usize> = 18..20;
const CHECKSUM: std::ops::Range<usize> = 24..26;
/// RC RDMA WRITE FIRST to ONLY (IBTA 9.2, table 38).
const WRITES: std::ops::RangeInclusive<u8> = 0x06..=0x0a;

impl Port for Spoil {
    fn send(
        &mut self,
        now_ns: u64,
        mut frame: Frame,
        pool: &mut FramePool,
    ) -> std::result::Result<(), SendError> {
        let bytes = frame.bytes_mut();
        let opcode = bytes.get(UDP_AT + 8).copied();
        if opcode.is_some_and(|o| WRITES.contains(&o)) && bytes.get(12..14) == Some(&[8, 0]) {
            bytes[IDENT].fill(0);
            bytes[CHECKSUM].fill(0);
            let mut sum: u32 =
                bytes[14..UDP_AT].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
            sum = (sum & 0xffff) + (sum >> 16);
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            bytes[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        }
        self.0.send(now_ns, frame, pool)
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        self.0.recv(now_ns, pool)
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn next_due(&self) -> Option<u64> {
        self.0.next_due()
    }

    fn flush(&mut self, now_ns: u64, pool: &mut FramePool) {
        self.0.flush(now_ns, pool);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }

    fn is_blocked(&self) -> bool {
        self.0.is_blocked()
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }

    fn lost(&self) -> u64 {
        self.0.lost()
    }
}
