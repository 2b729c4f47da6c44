//! A topology, checked and with every default filled in.
//!
//! Objects refer to each other by index into the lists of [`Topology`]; every index is in range.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zsr_records::{Column, FileFormat, Routing};
pub use zsr_ring::memory::MemoryKind;

use super::addr::MacAddr;
use super::diag::Place;
use super::pipes::Pipes;
use super::settings::Settings;
use super::tofino::{Tofino, TofinoApi};
use super::traffic::Traffic;

/// A whole system: nodes, links, rings, flows and what runs over them.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Name of the topology; the file's stem unless the file says otherwise.
    pub name: String,
    /// The file it came from, for messages.
    pub file: PathBuf,
    /// Seed of everything that is random: faults, synthetic items; in a run first PSNs, too.
    pub seed: u64,
    /// First PSN of all connections, 24 bits; `None`: random ones.
    pub first_psn: Option<u32>,
    /// How packets are marked for queues.
    pub traffic: Traffic,
    /// The folder of its certificates: what listens at an address speaks TLS.
    pub tls: Option<PathBuf>,
    /// Whether parts may listen at addresses, and be spoken to at those of other machines, without TLS.
    pub insecure: bool,
    /// Switches, in the order of the file.
    pub switches: Vec<Switch>,
    /// Hosts, in the order of the file.
    pub hosts: Vec<Host>,
    /// Links, in the order of the file.
    pub links: Vec<Link>,
    /// Rings: those declared under hosts first, then those that flows made.
    pub rings: Vec<Ring>,
    /// Flows, in the order of the file.
    pub flows: Vec<Flow>,
}

/// The kind of machine or program that runs a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwitchKind {
    /// The software switch of this repository.
    Soft,
    /// bmv2's `simple_switch_grpc`.
    Bmv2(Bmv2),
    /// A Tofino, which runs already.
    Tofino(Tofino),
}

/// Where a bmv2 is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bmv2 {
    /// The system starts it.
    Started {
        /// The program; `None`: `simple_switch_grpc` on PATH.
        binary: Option<PathBuf>,
    },
    /// The bmv2 runs already.
    Running {
        /// bmv2's P4Runtime server.
        address: SocketAddr,
        /// bmv2's packet stream (`--dp-grpc-server-addr`); `None`: its ports are interfaces of its own.
        packets: Option<SocketAddr>,
    },
}

/// Times and batches that suit a kind of switch: the defaults of a switch and its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// [`Switch::tick`].
    pub tick: Duration,
    /// [`Settings::poll_interval_us`].
    pub poll_interval: Duration,
    /// [`Settings::poll_timeout_us`].
    pub poll_timeout: Duration,
    /// [`Settings::rto_us`].
    pub rto: Duration,
    /// Most bytes of a transfer, unless an item has more.
    pub batch: u32,
}

impl Default for Pace {
    fn default() -> Self {
        SwitchKind::Soft.pace()
    }
}

impl SwitchKind {
    /// Where it is, if it is a Tofino.
    pub fn tofino(&self) -> Option<&Tofino> {
        if let SwitchKind::Tofino(tofino) = self { Some(tofino) } else { None }
    }

    /// The pace that suits the switch. bmv2 moves some thousand packets a second, the software switch some million.
    /// bmv2 has room for 64 packets in a queue, and for 32 in the buffer of an interface that takes segments of any
    /// size.
    pub fn pace(&self) -> Pace {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        let batch = 1 << 20;
        match self {
            SwitchKind::Soft => {
                Pace { tick: us(20), poll_interval: us(100), poll_timeout: ms(5), rto: ms(20), batch }
            }
            SwitchKind::Bmv2(_) => {
                let batch = 16 << 10;
                Pace { tick: ms(2), poll_interval: ms(4), poll_timeout: ms(1000), rto: ms(1000), batch }
            }
            SwitchKind::Tofino(Tofino { api: TofinoApi::BfRuntime, .. }) => {
                Pace { tick: us(5), poll_interval: us(20), poll_timeout: ms(1), rto: ms(4), batch }
            }
            // The controller sends timer packets itself.
            SwitchKind::Tofino(_) => {
                Pace { tick: ms(1), poll_interval: ms(1), poll_timeout: ms(5), rto: ms(20), batch }
            }
        }
    }
}

/// A network interface of the system's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name, as `ip link` shows it.
    pub name: String,
    /// Frames go by AF_XDP, past the host's network stack, instead of AF_PACKET.
    pub xdp: bool,
}

impl Interface {
    /// With AF_PACKET.
    pub fn new(name: impl Into<String>) -> Interface {
        Interface { name: name.into(), xdp: false }
    }
}

/// A switch and its controller-facing settings.
#[derive(Clone, Debug)]
pub struct Switch {
    /// Unique among switches and hosts.
    pub name: String,
    /// Whether it takes over when the other switch dies.
    pub standby: bool,
    /// The kind of the switch.
    pub kind: SwitchKind,
    /// Pipes of the switch.
    pub pipes: Pipes,
    /// The address that hosts connect their queue pairs to.
    pub ip: Ipv4Addr,
    /// The Ethernet address of `ip`.
    pub mac: MacAddr,
    /// Where the P4Runtime server listens, for everybody who can reach it; port 0 takes a free one. `None`: at a UNIX socket that
    /// only this user can open.
    pub listen: Option<SocketAddr>,
    /// How often the software switch asks a controller whether it is alive, and how long the answer may take.
    pub keep_alive: Duration,
    /// Whether the controller takes the switch back from another client that has become primary.
    pub keep_primary: bool,
    /// How long the switch may be silent before it counts as dead.
    pub dead_after: Duration,
    /// P4Runtime device id, unique.
    pub device_id: u64,
    /// How often the timer port makes a tick packet.
    pub tick: Duration,
    /// Where ticks are sent, if the switch takes packets only from interfaces: the far end of its timer port.
    pub tick_interface: Option<Interface>,
    /// Port number of packet-in and packet-out; no link may use it.
    pub cpu_port: u32,
    /// Folder with the compiled program, if not the built-in one.
    pub artifacts: Option<PathBuf>,
    /// Where the file names it.
    pub place: Place,
}

/// Byte order of a host's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// The kind of a host's RDMA NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicKind {
    /// The software NIC of this repository.
    Soft {
        /// Where its cable is; `None`: on the sockets of its link.
        interface: Option<Interface>,
    },
    /// An RDMA device that libibverbs knows. Values that are `None` are chosen.
    Verbs {
        /// The device's name, as `rdma link` shows it.
        device: Option<String>,
        /// The device's port, from 1.
        port: Option<u8>,
        /// Index of the GID.
        gid_index: Option<u8>,
    },
}

impl NicKind {
    /// Whether its cable is its own, and so no socket of the system's.
    pub fn has_cable(&self) -> bool {
        !matches!(self, NicKind::Soft { interface: None })
    }
}

/// A host with one NIC port.
#[derive(Clone, Debug)]
pub struct Host {
    /// Unique among switches and hosts.
    pub name: String,
    /// Address of the NIC.
    pub ip: Ipv4Addr,
    /// Ethernet address of the NIC.
    pub mac: MacAddr,
    /// Byte order of the host's counters.
    pub byte_order: ByteOrder,
    /// Where its rings are that say nothing else.
    pub memory: MemoryKind,
    /// Records per second of a CPU that takes its producers' and consumers' place in `zsr run`, where no program for its own device is there.
    pub stand_in: Option<u32>,
    /// The kind of the NIC.
    pub nic: NicKind,
    /// Where its agent listens, if that runs on another machine, in a guest or in a container, and is started there.
    pub agent: Option<SocketAddr>,
    /// RoCE path MTU: payload bytes per packet, 256 to 4096.
    pub mtu: u32,
    /// The VLAN that its frames are on; `None`: they have no tag.
    pub vlan: Option<u16>,
    /// Packets that a soft NIC keeps behind a missing one until it comes.
    pub reorder_window: u16,
    /// Where the file names it.
    pub place: Place,
}

/// A cable between a host and a switch port.
#[derive(Clone, Debug)]
pub struct Link {
    /// `HOST-SWITCH-PORT`, fit for a file name.
    pub name: String,
    /// Which of the topology's links it is, from 0.
    pub number: usize,
    /// Index of the host.
    pub host: usize,
    /// Index of the switch.
    pub switch: usize,
    /// Port number at the switch.
    pub port: u32,
    /// The largest RoCE path MTU that the link carries, equal to the host's.
    pub mtu: u32,
    /// The cable of the link.
    pub cable: Cable,
    /// The link's faults on frames.
    pub faults: Faults,
    /// How long it takes from one end to the other.
    pub latency: Duration,
    /// Bits per second, `None`: as many as it can.
    pub rate: Option<u64>,
    /// Where the file names it.
    pub place: Place,
}

impl Link {
    /// Whether frames pass it as they are, and at once.
    pub fn is_plain(&self) -> bool {
        self.faults.is_none() && self.latency.is_zero() && self.rate.is_none()
    }
}

/// The kind of cable of a link, as seen from the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cable {
    /// Sockets in the system's folder, or memory: both ends belong to this system. At a switch whose ports are its own
    /// affair, nothing.
    Own,
    /// A network interface of the switch's.
    Interface(Interface),
    /// AF_UNIX datagram sockets, such as QEMU's.
    Sockets {
        /// The switch's end.
        switch: PathBuf,
        /// The host's end.
        host: PathBuf,
    },
}

/// How a link maltreats frames, each a probability per frame and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The frame is lost.
    pub loss: f64,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// The frame is overtaken by later ones.
    pub reorder: f64,
    /// A bit of the frame is flipped.
    pub corrupt: f64,
    /// Seed of this link, if it is not to be derived from the topology's.
    pub seed: Option<u64>,
}

impl Faults {
    /// Whether the link does nothing to frames.
    pub fn is_none(&self) -> bool {
        self.loss == 0.0 && self.duplicate == 0.0 && self.reorder == 0.0 && self.corrupt == 0.0
    }
}

/// Which side fills a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingRole {
    /// Filled by the PU, drained by the switch.
    Producer,
    /// Filled by the switch, drained by the PU.
    Consumer,
}

impl RingRole {
    /// As in a topology.
    pub fn word(self) -> &'static str {
        match self {
            RingRole::Producer => "producer",
            RingRole::Consumer => "consumer",
        }
    }
}

/// A ring in a host's memory.
#[derive(Clone, Debug)]
pub struct Ring {
    /// `HOST.NAME`, or `FLOW.HOST...` for those made by a flow; unique, fit for a file name.
    pub name: String,
    /// Index of the host.
    pub host: usize,
    /// Which side fills it.
    pub role: RingRole,
    /// Bytes of an item, a power of two, 4 B to 1 MiB.
    pub item_size: u32,
    /// Bytes of items, a power of two up to 1 GiB.
    pub size: u32,
    /// The ring's owner; empty: anybody may use it. Rings of different owners are in no flow together.
    pub owner: String,
    /// Where it is to be; `None`: where its host says.
    pub memory: Option<MemoryKind>,
    /// Where the file names it (its flow, if that made it).
    pub place: Place,
}

/// The way in which a flow passes items on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowKind {
    /// Each item goes to the consumer that the routing function names (1:1, N:1, N:M).
    Shuffle,
    /// Each item goes to whichever consumer has room for it first; all consumers share the producers' rings.
    LoadBalance,
    /// Every consumer gets every item, all of them in one order.
    Replicate,
}

impl FlowKind {
    /// As in a topology.
    pub fn word(self) -> &'static str {
        match self {
            FlowKind::Shuffle => "shuffle",
            FlowKind::LoadBalance => "load-balance",
            FlowKind::Replicate => "replicate",
        }
    }

    /// Whether a producer has a ring for each consumer, and chooses one by the flow's routing. Else it has one ring.
    pub fn routes(self) -> bool {
        match self {
            FlowKind::Shuffle => true,
            FlowKind::LoadBalance | FlowKind::Replicate => false,
        }
    }

    /// Whether an item goes to every consumer, by one worker for all of them. Else each consumer has a worker.
    pub fn copies(self) -> bool {
        match self {
            FlowKind::Replicate => true,
            FlowKind::Shuffle | FlowKind::LoadBalance => false,
        }
    }

    /// Whether workers of several consumers take items out of one ring, so that a worker locks it first.
    pub fn competes(self) -> bool {
        match self {
            FlowKind::LoadBalance => true,
            FlowKind::Shuffle | FlowKind::Replicate => false,
        }
    }

    /// Rings that each producer of a flow with `consumers` consumers has.
    pub fn rings_per_producer(self, consumers: usize) -> usize {
        if self.routes() { consumers } else { 1 }
    }
}

/// A member of a flow: an endpoint on a host with its rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The name used in reports: the host's, with `~n` when a host has several endpoints.
    pub name: String,
    /// Index of the host.
    pub host: usize,
    /// Indices of its rings. A shuffle producer has one per consumer, in the order of the consumers; any other
    /// endpoint has one.
    pub rings: Vec<usize>,
}

/// Largest transfer, as the file gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxBatch {
    /// In bytes.
    Bytes(u32),
    /// In items.
    Items(u32),
}

/// A flow and its settings.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Unique among flows.
    pub name: String,
    /// The kind of the flow.
    pub kind: FlowKind,
    /// Members that push, at least one.
    pub producers: Vec<Endpoint>,
    /// Members that pop, at least one.
    pub consumers: Vec<Endpoint>,
    /// Rings of each consumer. Each has a worker, which reads from some of the producers.
    pub lanes: usize,
    /// Bytes of an item in all of its rings.
    pub item_size: u32,
    /// Settings that can be changed while the flow runs. `doorbell` is as the file says, or the default.
    pub settings: Settings,
    /// `max_batch` as written, to be evaluated again when the item size changes.
    pub max_batch_rule: MaxBatch,
    /// Whether the file says if producers ring.
    pub doorbell_said: bool,
    /// Columns of its tuples.
    pub schema: Vec<Column>,
    /// Which consumer a tuple goes to.
    pub routing: Routing,
    /// Where its tuples come from.
    pub workload: Workload,
    /// Where the file names it.
    pub place: Place,
}

/// A table of TPC-H.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TpchTable {
    /// The order positions, 6 million rows per scale factor.
    Lineitem,
}

/// Where a flow's tuples come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Generated rows of a TPC-H table in `tbl` form, an equal share of them at each producer.
    Tpch {
        /// The table.
        table: TpchTable,
        /// Scale factor, 0.001 to 1000.
        scale: f64,
    },
    /// Numbered items without tuples.
    Synthetic {
        /// How many over all producers.
        items: u64,
    },
    /// Records of a file, a contiguous share of them at each producer.
    File(FileInput),
}

/// A file of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInput {
    /// The file.
    pub path: PathBuf,
    /// How it divides into records.
    pub format: FileFormat,
    /// Whether rows are taken that RFC 4180 does not allow.
    pub lenient: bool,
}

impl Topology {
    /// The link of a host, to the switch that is no standby; every host that takes part in a flow has one.
    pub fn link_of(&self, host: usize) -> Option<&Link> {
        self.links.iter().find(|l| l.host == host)
    }

    /// The switch that takes over when the other one dies.
    pub fn standby(&self) -> Option<&Switch> {
        self.switches.iter().find(|s| s.standby)
    }

    /// This topology as switch number `switch` has it: with no other switch, and its own links alone.
    pub fn of_switch(&self, switch: usize) -> Topology {
        let links = self.links.iter().filter(|l| l.switch == switch).cloned();
        Topology {
            switches: self.switches.get(switch).cloned().into_iter().collect(),
            links: links.map(|link| Link { switch: 0, ..link }).collect(),
            ..self.clone()
        }
    }
}
