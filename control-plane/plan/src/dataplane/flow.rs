//! The one place where flows become table entries: everything that a flow is (kind, members, settings) comes in as a
//! [`Flow`], everything that the switch has to hold for it goes out. Changing a flow is the difference of two such lists
//! ([`super::diff`]), so nothing here knows what changed.

use super::alloc::{Number, NumberOf, Room, group_of};
use super::model::{Flow, Host, Member, Ring};
use super::worker::{self, Target, Times, WorkerSpec};
use super::{
    PlanError, SwitchAddress, base_entries, doorbell, member_groups, port_replication, ring_entries, ticks,
};
use crate::p4::{Schema, SchemaError};
use p4runtime_proto::p4::v1 as rt;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use zsr_topology::{Hint, LATENCY_POLL, Pipes, Settings, Switch, Topology, Traffic};

/// The switch's program, as far as flows are concerned.
#[derive(Clone, Debug)]
pub struct DataPlane {
    schema: Schema,
    /// That of the switch that moves flows now.
    address: Arc<Mutex<SwitchAddress>>,
    traffic: Traffic,
    timer: ticks::Timer,
    pipes: Pipes,
    room: Room,
}

/// The multicast group that makes a worker tick, by worker.
pub type Ticks = BTreeMap<u16, u32>;

/// Bytes per second that flows are held to because of their weights, by name.
pub type Limits = BTreeMap<String, u64>;

/// What a flow that loses packets is set to, in place of what its settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapted {
    /// The first timeout of a transfer, and of polls.
    pub rto: Duration,
    /// Most bytes of one transfer.
    pub max_batch: u32,
}

/// Flows that lose packets, by name.
pub type AdaptedFlows = BTreeMap<String, Adapted>;

/// The shortest `dead_after` of flows that may be polled as rarely as ten times a second.
const POLLED_RARELY: Duration = Duration::from_secs(2);

/// Hosts by name.
pub type Hosts = HashMap<String, Host>;

/// What a flow's entries depend on beside the flow.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    /// All hosts.
    pub hosts: &'c Hosts,
    /// What weights leave to flows.
    pub limits: &'c Limits,
    /// What flows that lose packets are set to.
    pub adapted: &'c AdaptedFlows,
    /// No timeout is shorter.
    pub min_timeout: Duration,
    /// The flow's workers begin no transfer.
    pub hold: bool,
}

impl Context<'_> {
    /// What the flow may move, bytes per second.
    fn cap(&self, flow: &Flow) -> Option<u64> {
        let own = Some(flow.settings.rate_cap_bps / 8).filter(|_| flow.settings.rate_cap_bps != 0);
        let shared = self.limits.get(&flow.name).copied();
        own.into_iter().chain(shared).min()
    }

    fn times(&self, flow: &Flow) -> Times {
        let own = times(&flow.settings);
        let most = self.adapted.get(&flow.name).map_or(Duration::MAX, |adapted| adapted.rto);
        Times {
            poll_timeout: own.poll_timeout.min(most).max(self.min_timeout),
            rto: own.rto.min(most).max(self.min_timeout),
            ..own
        }
    }

    fn max_batch(&self, flow: &Flow) -> u32 {
        let own = flow.settings.max_batch;
        self.adapted.get(&flow.name).map_or(own, |adapted| own.min(adapted.max_batch))
    }

    fn host(&self, name: &str) -> Result<&Host, PlanError> {
        self.hosts.get(name).ok_or_else(|| PlanError::Unlinked { host: name.to_owned() })
    }
}

impl DataPlane {
    /// For a switch that runs the program of `schema`, and packets marked as in `traffic`.
    ///
    /// # Errors
    /// When program and controller do not fit.
    pub fn new(schema: Schema, switch: &Switch, traffic: Traffic) -> Result<Self, SchemaError> {
        let address = Arc::new(Mutex::new(SwitchAddress { ip: switch.ip, mac: switch.mac }));
        let room = Room::of(&schema)?;
        Ok(DataPlane { schema, address, traffic, timer: ticks::Timer::of(switch), pipes: switch.pipes, room })
    }

    /// How many of what the program has.
    pub fn room(&self) -> Room {
        self.room
    }

    /// The switch's pipes.
    pub fn pipes(&self) -> Pipes {
        self.pipes
    }

    /// Names of the program.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The address that hosts connect their queue pairs to.
    pub fn address(&self) -> SwitchAddress {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on hosts connect their queue pairs to `switch`, which is as the one before but for its addresses.
    pub fn move_to(&self, switch: &Switch) {
        let address = SwitchAddress { ip: switch.ip, mac: switch.mac };
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// How hosts mark what they send.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Everything that the switch holds for a flow, in an order in which it can be inserted: what is named comes before
    /// what names it. Rings without an address are left out.
    ///
    /// # Errors
    /// When program and controller do not fit.
    pub fn entities(&self, flow: &Flow, context: &Context<'_>) -> Result<Vec<rt::Entity>, PlanError> {
        let mut out = Vec::with_capacity(flow.rings().count() * 9);
        for ring in flow.rings() {
            let Some(address) = ring.address else { continue };
            let station = &context.host(&ring.host)?.station;
            out.extend(
                ring_entries(&self.schema, self.address(), station, &ring.ids, address)?
                    .into_iter()
                    .map(table),
            );
        }
        for ring in flow.producers.iter().flat_map(|p| &p.rings) {
            let qps = (ring.ids.data.index, ring.ids.poll.index);
            out.extend(worker::producer_entries(&self.schema, ring.ids.id, ring.size, qps)?.map(table));
        }
        if let Some(cap) = context.cap(flow) {
            out.push(table(worker::cap_entry(&self.schema, flow.number, cap)?));
        }
        if flow.kind.copies() {
            out.extend(groups(flow, context, self.pipes)?.map(replication));
        }
        for id in flow.workers() {
            self.worker(flow, id, context, &mut out)?;
        }
        // The switch would believe what it hears of a ring and does not know.
        out.extend(
            self.doorbells(flow, context, |ring| !flow.waits(ring) && !flow.held.contains(&ring.name))?,
        );
        Ok(out)
    }

    /// A worker, the producers that it visits, and the members of its group.
    fn worker(
        &self,
        flow: &Flow,
        id: u16,
        context: &Context<'_>,
        out: &mut Vec<rt::Entity>,
    ) -> Result<(), PlanError> {
        let consumers: Vec<&Ring> =
            flow.consumers.iter().flat_map(|m| &m.rings).filter(|r| r.ids.worker == id).collect();
        let Some(first) = consumers.first() else { return Ok(()) };
        // A shuffle's producer has a ring for each worker; of the other kinds, all workers share its one ring.
        let lane = |m: &'_ Member| match flow.kind.routes() {
            true => m.rings.iter().find(|r| r.ids.worker == id).map(|r| r.ids.id),
            false => m.rings.first().map(|r| r.ids.id),
        };
        let producers: Vec<u16> = flow.producers.iter().filter_map(lane).collect();
        let poll_qp = first.ids.poll.index;
        let replicate = flow.kind.copies();
        let cap = context.cap(flow);
        let spec = WorkerSpec {
            id,
            producers: producers.len() as u16,
            settings: worker::Settings {
                hold: context.hold,
                open: false,
                locks: flow.kind.competes(),
                capped: cap.is_some(),
                rings: flow.settings.doorbell,
            },
            max_batch: worker::paced_batch(context.max_batch(flow), flow.item_size, cap),
            ring_size: consumers.iter().map(|r| r.size).min().unwrap_or(first.size),
            item_size: flow.item_size,
            mtu: flow.mtu,
            target: if replicate {
                let members = consumers.iter().fold(0, |bits, r| bits | 1 << r.ids.member);
                Target::Group { group: group_of(flow.number), members, poll_qp }
            } else {
                Target::Ring { data_qp: first.ids.data.index, poll_qp }
            },
            flow: flow.number,
            times: context.times(flow),
        };
        for ((place, &producer), next) in (0..).zip(&producers).zip(worker::circle(id, &producers)) {
            out.push(table(spec.list_entry(&self.schema, place, producer, next)?));
        }
        if replicate {
            for (place, ring) in consumers.iter().enumerate() {
                out.push(table(spec.member_entry(&self.schema, place as u16, ring.ids.poll.index)?));
            }
        }
        out.extend(spec.entries(&self.schema)?.map(table));
        Ok(())
    }

    /// Which datagrams are doorbells of the flow's producer rings, if it has doorbells, and whose turn they are: never that of a worker
    /// that stands. Only of `rings`.
    ///
    /// # Errors
    /// When program and controller do not fit.
    pub fn doorbells(
        &self,
        flow: &Flow,
        context: &Context<'_>,
        rings: impl Fn(&Ring) -> bool,
    ) -> Result<Vec<rt::Entity>, PlanError> {
        if !flow.settings.doorbell {
            return Ok(Vec::new());
        }
        // A bell makes a worker run that does not tick: where nobody else is there, a producer has none.
        let stand = flow.standing_workers();
        let first = flow.workers().difference(&stand).next().copied();
        let whose = |ring: &Ring| match flow.kind.routes() {
            true => Some(ring.ids.worker).filter(|worker| !stand.contains(worker)),
            false => first,
        };
        let all = flow.producers.iter().flat_map(|p| &p.rings).filter(|ring| rings(ring));
        let entry = |(ring, worker): (&Ring, u16)| {
            let host = context.host(&ring.host)?;
            Ok(table(doorbell(&self.schema, &host.station, &ring.ids, worker)?))
        };
        all.filter_map(|ring| Some((ring, whose(ring)?))).map(entry).collect()
    }

    /// What entries are about.
    ///
    /// # Errors
    /// When program and controller do not fit.
    pub fn numbers_of(&self, entities: &[rt::Entity]) -> Result<Vec<Number>, SchemaError> {
        let kinds: [(&str, NumberOf); 4] = [
            ("workers", Number::Worker),
            ("producers", Number::Producer),
            ("peers", Number::Qp),
            ("flows", Number::Flow),
        ];
        let mut out = Vec::new();
        for (name, number) in kinds {
            let table = self.schema.table(name)?;
            out.extend(entities.iter().filter_map(|e| key_in(table, e)).map(number));
        }
        Ok(out)
    }

    /// A worker that never runs and answers when asked.
    ///
    /// # Errors
    /// When program and controller do not fit.
    pub fn probe(&self) -> Result<rt::Entity, PlanError> {
        let spec = WorkerSpec {
            id: self.room.probe(),
            producers: 0,
            settings: worker::Settings { hold: true, open: true, ..Default::default() },
            max_batch: 4,
            ring_size: 4,
            item_size: 4,
            mtu: 256,
            target: Target::Ring { data_qp: 0, poll_qp: 0 },
            flow: 0,
            times: times(&Settings::of_items(4)),
        };
        Ok(table(spec.entry(&self.schema)?))
    }

    /// The shortest timeout that workers keep: they look at it when they tick.
    pub fn least_timeout(&self) -> Duration {
        self.timer.tick() * 2
    }

    /// Whether packets may wait for as long as there are many: not in a chip.
    pub fn queues(&self) -> bool {
        !self.timer.is_named()
    }

    /// The multicast group that makes each worker of a flow tick, by worker; of those that are neither adrift nor stand. Of a flow that has
    /// failed none does.
    pub fn tick_groups(&self, flow: &Flow) -> Ticks {
        if flow.failed.is_some() {
            return Ticks::new();
        }
        let poll = times(&flow.settings).poll_interval;
        let (workers, stand) = (flow.workers(), flow.standing_workers());
        let run = workers.difference(&flow.adrift_workers).filter(|worker| !stand.contains(worker));
        run.map(|&w| (w, self.timer.group_of(w, poll))).collect()
    }

    /// The same of a flow that moves nothing, if its workers tick more rarely then.
    pub fn idle_groups(&self, flow: &Flow) -> Option<Ticks> {
        let times = times(&flow.settings);
        // Who does not answer has to be noticed by its polls in time.
        let rings = flow.settings.doorbell && times.dead_after >= POLLED_RARELY;
        let group = |w| Some((w, self.timer.idle_group_of(w, times.poll_interval, rings)?));
        flow.workers().into_iter().map(group).collect()
    }

    /// The same of a flow that is new and has nothing to move before a producer rings, if its workers tick more rarely then. Workers of a load
    /// balance look again by ticks when another one has let go of a producer, those of a capped flow when their rate allows it.
    pub fn new_groups(&self, flow: &Flow) -> Option<Ticks> {
        if !flow.settings.doorbell || flow.settings.rate_cap_bps != 0 || flow.kind.competes() {
            return None;
        }
        let poll = times(&flow.settings).poll_interval;
        flow.workers().into_iter().map(|w| Some((w, self.timer.new_group_of(w, poll)?))).collect()
    }

    /// Tables that hold nothing but flows' entries.
    pub fn flow_tables() -> [&'static str; 11] {
        [
            "peers",
            "routes",
            "qps",
            "producers",
            "producer_rings",
            "producer_list",
            "members",
            "flows",
            "worker_rings",
            "workers",
            "doorbells",
        ]
    }
}

/// The key of an entry of that table, whose only field it is.
fn key_in(table: u32, entity: &rt::Entity) -> Option<u16> {
    let Some(rt::entity::Entity::TableEntry(entry)) = &entity.entity else { return None };
    let field = entry.r#match.first().filter(|_| entry.table_id == table)?;
    let Some(rt::field_match::FieldMatchType::Exact(exact)) = &field.field_match_type else { return None };
    let number = exact.value.iter().fold(0, |n: u32, byte| n << 8 | u32::from(*byte));
    number.try_into().ok()
}

/// What the switch of a topology holds without flows.
///
/// # Errors
/// When program and controller do not fit.
pub fn base(topology: &Topology, schema: &Schema) -> Result<Vec<rt::Entity>, PlanError> {
    let entries = base_entries(topology, schema)?.into_iter().map(table);
    Ok(entries.chain(port_replication(topology).into_iter().map(replication)).collect())
}

/// A table's entry as an entity.
pub fn table(entry: rt::TableEntry) -> rt::Entity {
    rt::Entity { entity: Some(rt::entity::Entity::TableEntry(entry)) }
}

/// A group or session as an entity.
pub fn replication(entry: rt::PacketReplicationEngineEntry) -> rt::Entity {
    rt::Entity { entity: Some(rt::entity::Entity::PacketReplicationEngineEntry(entry)) }
}

/// The groups of a replicate flow.
fn groups(
    flow: &Flow,
    context: &Context<'_>,
    pipes: Pipes,
) -> Result<[rt::PacketReplicationEngineEntry; 2], PlanError> {
    let rings = flow.consumers.iter().flat_map(|m| &m.rings);
    let members: Vec<_> = rings
        .map(|ring| Ok((context.host(&ring.host)?.station.port, ring.ids)))
        .collect::<Result<_, PlanError>>()?;
    Ok(member_groups(group_of(flow.number), &members, pipes))
}

fn times(s: &Settings) -> Times {
    // A producer that is looked at often has its first item on its way soon.
    let poll = Duration::from_micros(s.poll_interval_us);
    Times {
        poll_interval: if s.hint == Hint::Latency { poll.min(LATENCY_POLL) } else { poll },
        poll_timeout: Duration::from_micros(s.poll_timeout_us),
        rto: Duration::from_micros(s.rto_us),
        dead_after: Duration::from_micros(s.dead_after_us),
    }
}
