//! Hosts, rings, members and flows: the plain data that the controller's state and its journal hold.

use super::alloc::Number;
use super::{Qp, RingAddress, RingIds, Station};
use p4runtime_proto::Address;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use zsr_records::Schema;
pub use zsr_topology::FlowKind;
use zsr_topology::{MemoryKind, RingRole, Settings};

/// A host with one NIC port behind the switch, and its agent.
#[derive(Clone, Debug)]
pub struct Host {
    /// Unique.
    pub name: String,
    /// The host's NIC.
    pub station: Station,
    /// RoCE path MTU.
    pub mtu: u32,
    /// Packets that its NIC is known to keep behind a missing one until it comes; 0 of a NIC that is not ours.
    pub reorder_window: u16,
    /// Where its rings are that say nothing else.
    pub memory: MemoryKind,
    /// Where its agent listens.
    pub agent: Address,
    /// The socket for programs that attach to its rings.
    pub programs: Option<PathBuf>,
}

/// A ring that the topology declares, for flows to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredRing {
    /// `HOST.NAME`.
    pub name: String,
    /// The ring's host.
    pub host: String,
    /// Which side fills it.
    pub role: RingRole,
    /// Bytes of an item.
    pub item_size: u32,
    /// Bytes of items.
    pub size: u32,
    /// The ring's owner; empty: anybody may use it.
    pub owner: String,
    /// Where it is to be; `None`: where its host says.
    pub memory: Option<MemoryKind>,
}

/// A ring of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    /// Unique.
    pub name: String,
    /// The ring's host.
    pub host: String,
    /// Whether the topology declares it, or the flow made it.
    pub declared: bool,
    /// The ring's owner; empty: anybody may use it.
    pub owner: String,
    /// Bytes of items.
    pub size: u32,
    /// Where it is to be; `None`: where its host says.
    #[serde(default, with = "memory")]
    pub memory: Option<MemoryKind>,
    /// Where both of its counters began.
    pub start: u32,
    /// The ring's numbers at the switch.
    #[serde(with = "NumbersOfRing")]
    pub ids: RingIds,
    /// What its agent said, once that has made it.
    #[serde(with = "address")]
    pub address: Option<RingAddress>,
}

/// A member of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Unique in its flow.
    pub name: String,
    /// The member's host.
    pub host: String,
    /// A shuffle producer has one per consumer, in their order; a consumer has one per lane of the flow; all others have one.
    pub rings: Vec<Ring>,
}

/// What is kept of what was told.
const KEPT: usize = 32;

/// Items that a consumer may have consumed, though nobody has said so: those of one transfer that was under way when all who knew of it
/// were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// The consumer.
    pub consumer: String,
    /// The producer whose transfer it may have been.
    pub producer: String,
    /// The producer's ring.
    pub ring: String,
    /// How many items, at most, from the oldest on that the ring still has.
    pub items: u32,
}

/// A consumer ring that was gone when its flow went on from what its rings hold. Its worker does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The ring.
    pub ring: String,
    /// What its member may have consumed: it was given a transfer of one of these producers at most.
    pub doubts: Vec<Doubt>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Unique.
    pub name: String,
    /// The flow's number at the switch.
    pub number: u16,
    /// What it does with items.
    pub kind: FlowKind,
    /// Bytes of an item in all of its rings.
    pub item_size: u32,
    /// Of rings that it makes.
    pub ring_size: u32,
    /// Rings of each consumer. Each has a worker, which reads from some of the producers.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub lanes: u32,
    /// Path MTU of all its members.
    pub mtu: u32,
    /// Owner of all of its rings; empty: anybody may use them.
    pub owner: String,
    /// What can be changed while it runs.
    pub settings: Settings,
    /// How producers route.
    pub routing: String,
    /// What its records are; empty: anything.
    #[serde(default)]
    pub schema: String,
    /// Those that push.
    pub producers: Vec<Member>,
    /// Those that pop.
    pub consumers: Vec<Member>,
    /// Counts changes, from 1.
    pub version: u64,
    /// Why it has ended.
    pub failed: Option<String>,
    /// Workers that do not know how far their rings are, since the switch was started anew, or since a NIC has refused a request of
    /// theirs: they do not run, and nobody rings for them.
    #[serde(default)]
    pub adrift_workers: BTreeSet<u16>,
    /// Consumer rings that were gone when the flow went on; of a shuffle none, since nobody else gets what they would have got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
    /// Producer rings of a load balance that are not connected: they wait for a consumer that is lost, or for their turn now that it is
    /// not waited for any more.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub held: BTreeSet<String>,
    /// What consumers that were taken out may have consumed, as was told: a controller that starts anew tells it once more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<Doubt>,
    /// The largest `max_batch` that transfers may still have which are under way, if it is another one than that of the settings.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub past_batch: u32,
}

fn one() -> u32 {
    1
}

fn is_one(lanes: &u32) -> bool {
    *lanes == 1
}

fn is_zero(bytes: &u32) -> bool {
    *bytes == 0
}

impl Flow {
    /// What members of this flow may have consumed that `after` has no longer.
    pub fn doubts_of_leavers(&self, after: &Flow) -> Vec<Doubt> {
        let stays = |ring: &str| after.rings().any(|r| r.name == ring);
        self.lost.iter().filter(|lost| !stays(&lost.ring)).flat_map(|lost| lost.doubts.clone()).collect()
    }

    /// Notes what is told of members that leave; the oldest notes go.
    pub fn note_told(&mut self, doubts: &[Doubt]) {
        self.told.extend_from_slice(doubts);
        let many = self.told.len().saturating_sub(KEPT.max(doubts.len()));
        self.told.drain(..many);
    }

    /// All members, producers first.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.producers.iter().chain(&self.consumers)
    }

    /// All rings, those of producers first.
    pub fn rings(&self) -> impl Iterator<Item = &Ring> {
        self.members().flat_map(|m| &m.rings)
    }

    /// All rings, those of producers first.
    pub fn rings_mut(&mut self) -> impl Iterator<Item = &mut Ring> {
        self.producers.iter_mut().chain(&mut self.consumers).flat_map(|m| &mut m.rings)
    }

    /// The rings that `other` has, too, have its connections: they may have been made anew meanwhile.
    pub fn take_connections_of(&mut self, other: &Flow) {
        self.adrift_workers = other.adrift_workers.intersection(&self.workers()).copied().collect();
        let there: BTreeSet<&str> = self.rings().map(|r| r.name.as_str()).collect();
        let lost = other.lost.iter().filter(|lost| there.contains(lost.ring.as_str())).cloned().collect();
        let held = other.held.iter().filter(|ring| there.contains(ring.as_str())).cloned().collect();
        (self.lost, self.held) = (lost, held);
        (self.told, self.past_batch) = (other.told.clone(), other.past_batch);
        let known: HashMap<&str, RingIds> = other.rings().map(|r| (r.name.as_str(), r.ids)).collect();
        for ring in self.rings_mut() {
            if let Some(ids) = known.get(ring.name.as_str()) {
                ring.ids = *ids;
            }
        }
    }

    /// The switch's ends of all connections.
    pub fn connections(&self) -> impl Iterator<Item = Qp> {
        self.rings().flat_map(|r| [r.ids.data, r.ids.poll])
    }

    /// Numbers of its workers: one per consumer ring, or one for all of a replicate flow.
    pub fn workers(&self) -> BTreeSet<u16> {
        self.consumers.iter().flat_map(|m| &m.rings).map(|r| r.ids.worker).collect()
    }

    /// Workers of a shuffle that have no producer any more, as those of their lane were taken out.
    pub fn lanes_without_producers(&self) -> BTreeSet<u16> {
        if !self.kind.routes() {
            return BTreeSet::new();
        }
        let read: BTreeSet<u16> =
            self.producers.iter().flat_map(|m| &m.rings).map(|r| r.ids.worker).collect();
        self.workers().difference(&read).copied().collect()
    }

    /// Whether a worker of it is adrift, or a producer that was held waits to go on.
    pub fn is_adrift(&self) -> bool {
        !self.adrift_workers.is_empty() || self.held.iter().any(|ring| !self.is_in_doubt(ring))
    }

    /// Whether a worker of this ring, which is one of the flow's, is adrift, or the ring was held and waits to go on.
    pub fn waits(&self, ring: &Ring) -> bool {
        let adrift = match self.kind.routes() {
            true => self.adrift_workers.contains(&ring.ids.worker),
            // Several workers may have the ring.
            false => !self.adrift_workers.is_empty(),
        };
        adrift || self.held.contains(&ring.name) && !self.is_in_doubt(&ring.name)
    }

    /// Whether a consumer that is lost may have consumed the next items of a producer ring, which no other consumer may get therefore. The
    /// consumers of a group get all of them all the same.
    pub fn is_in_doubt(&self, ring: &str) -> bool {
        self.kind.competes() && self.lost.iter().flat_map(|lost| &lost.doubts).any(|doubt| doubt.ring == ring)
    }

    /// Workers that do not run, as a consumer ring of theirs is lost.
    pub fn standing_workers(&self) -> BTreeSet<u16> {
        let lost = |ring: &&Ring| self.lost.iter().any(|lost| lost.ring == ring.name);
        self.consumers.iter().flat_map(|m| &m.rings).filter(lost).map(|r| r.ids.worker).collect()
    }

    /// How many items a transfer can have had at most that was under way from `ring`, which holds `fill` bytes from `tail` on, to a
    /// consumer ring of `room` bytes: neither ring wraps within a transfer.
    pub fn most_under_way(&self, ring: &Ring, tail: u32, fill: u32, room: u32) -> u32 {
        let to_wrap = ring.size - (tail & (ring.size - 1));
        let bytes = fill.min(self.settings.max_batch.max(self.past_batch)).min(to_wrap).min(room);
        bytes / self.item_size
    }

    /// The workers whose rings `worker` has: itself and, where producers' rings have several, all of them.
    pub fn workers_beside(&self, worker: u16) -> BTreeSet<u16> {
        if self.kind.routes() { BTreeSet::from([worker]) } else { self.workers() }
    }

    /// Bytes of a record by its schema; 0: they differ, or there is none.
    pub fn tuple_size(&self) -> u32 {
        let schema = (!self.schema.is_empty()).then(|| Schema::parse(&self.schema).ok());
        schema.flatten().and_then(|s| s.tuple_size()).unwrap_or(0)
    }

    /// All of its numbers.
    pub fn numbers(&self) -> BTreeSet<Number> {
        let mut out: BTreeSet<Number> = self.workers().into_iter().map(Number::Worker).collect();
        out.insert(Number::Flow(self.number));
        for ring in self.rings() {
            out.extend([Number::Qp(ring.ids.data.index), Number::Qp(ring.ids.poll.index)]);
            if ring.ids.is_producer {
                out.insert(Number::Producer(ring.ids.id));
            }
        }
        out
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RingIds")]
struct NumbersOfRing {
    id: u16,
    worker: u16,
    is_producer: bool,
    member: u8,
    #[serde(with = "NumbersOfQp")]
    data: Qp,
    #[serde(with = "NumbersOfQp")]
    poll: Qp,
    secret: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Qp")]
struct NumbersOfQp {
    index: u16,
    qpn: u32,
    psn: u32,
}

/// As a topology says it.
mod memory {
    use super::{Deserialize, MemoryKind, Serialize};
    use serde::{Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(memory: &Option<MemoryKind>, s: S) -> Result<S::Ok, S::Error> {
        memory.map(|m| m.to_string()).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<MemoryKind>, D::Error> {
        Option::<String>::deserialize(d)?.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

mod address {
    use super::{Deserialize, RingAddress, Serialize};
    use serde::{Deserializer, Serializer};

    type Parts = (u32, u32, u32, u16);

    pub(super) fn serialize<S: Serializer>(a: &Option<RingAddress>, s: S) -> Result<S::Ok, S::Error> {
        a.map(|a| -> Parts { (a.rkey, a.data_qpn, a.poll_qpn, a.epoch) }).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<RingAddress>, D::Error> {
        let parts = Option::<Parts>::deserialize(d)?;
        Ok(parts.map(|(rkey, data_qpn, poll_qpn, epoch)| RingAddress { rkey, data_qpn, poll_qpn, epoch }))
    }
}
