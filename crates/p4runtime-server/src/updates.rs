//! From an Update to an [`Op`]: everything but table entries (specification, "P4 Entity Messages").

use std::collections::HashSet;

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;
use tonic::Code;

use super::keys::read_member;
use super::ops::{Op, Verb};
use super::ports;
use super::refusal::{Outcome, Refusal};
use super::schema::{MeterType, Profile, Schema};
use zsr_soft_switch::{CloneSession, CounterValue, DigestConfig, Group, GroupMember, MeterConfig, Replica};

/// v1model's `mcast_grp` has 16 bits.
const MAX_MULTICAST_GROUP: u32 = 0xffff;
/// Clone sessions have 15 bits, as in bmv2.
const MAX_CLONE_SESSION: u32 = 0x7fff;

/// The context in which updates are read.
pub(super) struct Reader<'a> {
    pub schema: &'a Schema,
    pub cpu_port: u16,
}

impl Reader<'_> {
    /// Says in each refusal which object it is about; no other part of a message does.
    pub fn name(&self, updates: &[pb::Update], outcomes: &mut [Outcome<()>]) {
        for (update, outcome) in updates.iter().zip(outcomes) {
            if let Err(refusal) = outcome
                && refusal.code != Code::Aborted
            {
                *outcome = Err(refusal.clone().at_some(self.schema.place(update.entity.as_ref())));
            }
        }
    }

    /// One update of a Write. None for an update that is legal and changes nothing.
    pub fn read(&self, update: &pb::Update) -> Outcome<Option<Op>> {
        let verb = match update.r#type() {
            pb::update::Type::Insert => Verb::Insert,
            pb::update::Type::Modify => Verb::Modify,
            pb::update::Type::Delete => Verb::Delete,
            pb::update::Type::Unspecified => {
                return Err(Refusal::invalid("the update's type must be INSERT, MODIFY or DELETE"));
            }
        };
        let entity = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        match entity.ok_or_else(|| Refusal::invalid("the update has no entity"))? {
            Entity::TableEntry(entry) => self.table_entry(verb, entry).map(Some),
            Entity::DirectCounterEntry(entry) => self.direct_counter(verb, entry),
            Entity::DirectMeterEntry(entry) => self.direct_meter(verb, entry).map(Some),
            Entity::ActionProfileMember(member) => self.member(verb, member).map(Some),
            Entity::ActionProfileGroup(group) => self.group(verb, group).map(Some),
            Entity::CounterEntry(entry) => self.counter(verb, entry),
            Entity::MeterEntry(entry) => self.meter(verb, entry).map(Some),
            Entity::RegisterEntry(entry) => self.register(verb, entry).map(Some),
            Entity::PacketReplicationEngineEntry(entry) => self.replication(verb, entry).map(Some),
            Entity::ValueSetEntry(entry) => self.value_set(verb, entry).map(Some),
            Entity::DigestEntry(entry) => self.digest(verb, entry).map(Some),
            Entity::ExternEntry(entry) => Err(Refusal::unimplemented(format!(
                "v1model has no externs of its own, such as type {:#x}",
                entry.extern_type_id
            ))),
        }
    }

    fn profile(&self, id: u32) -> Outcome<&Profile> {
        self.schema.profiles.get(&id).ok_or_else(|| no_object("action profile", id))
    }

    fn member(&self, verb: Verb, member: &pb::ActionProfileMember) -> Outcome<Op> {
        let profile = self.profile(member.action_profile_id)?;
        if member.member_id == 0 {
            return Err(Refusal::invalid("member_id must not be 0"));
        }
        let call = match (&member.action, verb) {
            (_, Verb::Delete) => None,
            (Some(action), _) => Some(self.schema.read_member_action(profile, action)?),
            (None, _) => return Err(Refusal::invalid("a member needs an action")),
        };
        Ok(Op::Member { verb, profile: profile.engine, id: member.member_id, call })
    }

    fn group(&self, verb: Verb, given: &pb::ActionProfileGroup) -> Outcome<Op> {
        let profile = self.profile(given.action_profile_id)?;
        if !profile.selector {
            return Err(Refusal::invalid("it has no selector"));
        }
        if given.group_id == 0 {
            return Err(Refusal::invalid("group_id must not be 0"));
        }
        let mut group = Group { max_size: 0, members: Vec::new() };
        if verb != Verb::Delete {
            let most = profile.max_group_size;
            group.max_size = u32::try_from(given.max_size)
                .map_err(|_| Refusal::invalid(format!("max_size {} is negative", given.max_size)))?;
            if most > 0 && group.max_size > most {
                return Err(Refusal::invalid(format!("max_size {} is above {most}", given.max_size)));
            }
            let limit = i64::from(if group.max_size > 0 { group.max_size } else { most });
            let weights: Vec<i32> = given.members.iter().map(|member| member.weight).collect();
            let too_big = |message| Refusal::new(Code::ResourceExhausted, message);
            profile.check_weights(profile.group_size, &weights, limit, too_big)?;
            let mut seen = HashSet::new();
            for member in &given.members {
                use pb::action_profile_group::member::WatchKind;
                if member.member_id == 0 {
                    return Err(Refusal::invalid("member_id must not be 0"));
                }
                if !seen.insert(member.member_id) {
                    return Err(Refusal::invalid(format!(
                        "member {} is in the group twice; give it a weight instead",
                        member.member_id
                    )));
                }
                let watch_port = match &member.watch_kind {
                    None => None,
                    Some(WatchKind::WatchPort(port)) => ports::read_watch(port)?,
                    #[allow(deprecated)]
                    Some(WatchKind::Watch(port)) => ports::read_old_watch(*port)?,
                };
                let weight = member.weight.max(1).unsigned_abs();
                group.members.push(GroupMember { member: member.member_id, weight, watch_port });
            }
        }
        Ok(Op::Group { verb, profile: profile.engine, id: given.group_id, group })
    }

    fn counter(&self, verb: Verb, entry: &pb::CounterEntry) -> Outcome<Option<Op>> {
        only_modify(verb, "counter")?;
        let of = self.schema.counters.get(&entry.counter_id);
        let of = of.ok_or_else(|| no_object("counter", entry.counter_id))?;
        let index = read_index(entry.index.as_ref(), of.size)?;
        let Some(data) = &entry.data else { return Ok(None) };
        Ok(Some(Op::Counter { counter: of.engine, index, size: of.size, value: read_counter(data)? }))
    }

    fn meter(&self, verb: Verb, entry: &pb::MeterEntry) -> Outcome<Op> {
        only_modify(verb, "meter")?;
        let of = self.schema.meters.get(&entry.meter_id);
        let of = of.ok_or_else(|| no_object("meter", entry.meter_id))?;
        let index = read_index(entry.index.as_ref(), of.size)?;
        no_colors(entry.counter_data.as_ref())?;
        let config = entry.config.as_ref().map(|config| read_meter(config, of.kind)).transpose()?;
        Ok(Op::Meter { meter: of.engine, index, size: of.size, config })
    }

    fn register(&self, verb: Verb, entry: &pb::RegisterEntry) -> Outcome<Op> {
        only_modify(verb, "register")?;
        let of = self.schema.registers.get(&entry.register_id);
        let of = of.ok_or_else(|| no_object("register", entry.register_id))?;
        let index = read_index(entry.index.as_ref(), of.size)?;
        let data = entry.data.as_ref().ok_or_else(|| Refusal::invalid("data is not set"))?;
        Ok(Op::Register { register: of.engine, index, size: of.size, value: of.data.read(data)? })
    }

    fn replication(&self, verb: Verb, entry: &pb::PacketReplicationEngineEntry) -> Outcome<Op> {
        use pb::packet_replication_engine_entry::Type;
        match &entry.r#type {
            Some(Type::MulticastGroupEntry(group)) => {
                let id = group.multicast_group_id;
                if !(1..=MAX_MULTICAST_GROUP).contains(&id) {
                    return Err(Refusal::invalid(format!(
                        "multicast_group_id {id} is not from 1 to {MAX_MULTICAST_GROUP}"
                    )));
                }
                let replicas =
                    if verb == Verb::Delete { Vec::new() } else { self.replicas(&group.replicas)? };
                let mut seen = HashSet::new();
                if let Some(twice) = replicas.iter().find(|replica| !seen.insert(**replica)) {
                    return Err(Refusal::invalid(format!(
                        "port {} with instance {} is in the group twice",
                        twice.port, twice.instance
                    )));
                }
                Ok(Op::Multicast { verb, id, replicas, as_written: group.clone() })
            }
            Some(Type::CloneSessionEntry(given)) => {
                let id = given.session_id;
                if !(1..=MAX_CLONE_SESSION).contains(&id) {
                    return Err(Refusal::invalid(format!(
                        "session_id {id} is not from 1 to {MAX_CLONE_SESSION}"
                    )));
                }
                let mut session = CloneSession::default();
                if verb != Verb::Delete {
                    session.replicas = self.replicas(&given.replicas)?;
                    session.class_of_service = given.class_of_service;
                    session.packet_length_bytes = u32::try_from(given.packet_length_bytes)
                        .map_err(|_| Refusal::invalid("packet_length_bytes is negative"))?;
                }
                Ok(Op::Clone { verb, id, session, as_written: given.clone() })
            }
            None => Err(Refusal::invalid("the entry is neither a multicast group nor a clone session")),
        }
    }

    fn replicas(&self, given: &[pb::Replica]) -> Outcome<Vec<Replica>> {
        use pb::replica::PortKind;
        let read = |replica: &pb::Replica| {
            if !replica.backup_replicas.is_empty() {
                return Err(Refusal::unimplemented("this switch has no backup replicas"));
            }
            let port = match &replica.port_kind {
                Some(PortKind::Port(port)) => ports::read(port, self.cpu_port)?,
                #[allow(deprecated)]
                Some(PortKind::EgressPort(port)) => ports::read_number(*port, self.cpu_port)?,
                None => return Err(Refusal::invalid("a replica has no port")),
            };
            let instance = u16::try_from(replica.instance)
                .map_err(|_| Refusal::invalid(format!("instance {} is above 65535", replica.instance)))?;
            Ok(Replica { port, instance })
        };
        given.iter().map(read).collect()
    }

    fn value_set(&self, verb: Verb, entry: &pb::ValueSetEntry) -> Outcome<Op> {
        only_modify(verb, "value set")?;
        let of = self.schema.value_sets.get(&entry.value_set_id);
        let of = of.ok_or_else(|| no_object("value set", entry.value_set_id))?;
        if entry.members.len() > of.size {
            return Err(Refusal::new(
                Code::ResourceExhausted,
                format!("it holds {} members, not {}", of.size, entry.members.len()),
            ));
        }
        let mut members = Vec::with_capacity(entry.members.len());
        for member in &entry.members {
            let key = read_member(&of.fields, &member.r#match)?;
            if members.contains(&key) {
                return Err(Refusal::new(Code::AlreadyExists, "two members are equal"));
            }
            members.push(key);
        }
        Ok(Op::ValueSet { set: of.engine, members })
    }

    fn digest(&self, verb: Verb, entry: &pb::DigestEntry) -> Outcome<Op> {
        let of = self.schema.digests.get(&entry.digest_id);
        let of = of.ok_or_else(|| no_object("digest", entry.digest_id))?;
        let given = entry.config.unwrap_or_default();
        let negative = |_| Refusal::invalid("a digest's timeouts and list size must not be negative");
        let config = if verb == Verb::Delete {
            DigestConfig { max_timeout_ns: 0, max_list_size: 0, ack_timeout_ns: 0 }
        } else {
            DigestConfig {
                max_timeout_ns: u64::try_from(given.max_timeout_ns).map_err(negative)?,
                max_list_size: u32::try_from(given.max_list_size).map_err(negative)?,
                ack_timeout_ns: u64::try_from(given.ack_timeout_ns).map_err(negative)?,
            }
        };
        Ok(Op::Digest { verb, digest: of.engine, config })
    }
}

/// An id that P4Info lacks, 0 included.
pub(super) fn no_object(kind: &str, id: u32) -> Refusal {
    Refusal::invalid(format!("there is no {kind} {id} ({id:#010x}) in P4Info"))
}

pub(super) fn only_modify(verb: Verb, kind: &str) -> Outcome<()> {
    if verb == Verb::Modify {
        Ok(())
    } else {
        Err(Refusal::invalid(format!("a {kind} can only be modified")))
    }
}

/// A cell number; none for all cells.
pub(super) fn read_index(index: Option<&pb::Index>, size: u32) -> Outcome<Option<u32>> {
    let Some(pb::Index { index }) = index else { return Ok(None) };
    if *index < 0 {
        return Err(Refusal::invalid(format!("index {index} is negative")));
    }
    match u32::try_from(*index) {
        Ok(cell) if cell < size => Ok(Some(cell)),
        _ => {
            let last = i64::from(size) - 1;
            Err(Refusal::out_of_range(format!("it has cells 0 to {last}, not {index}")))
        }
    }
}

pub(super) fn read_counter(data: &pb::CounterData) -> Outcome<CounterValue> {
    let negative = |_| Refusal::invalid("a counter's value must not be negative");
    Ok(CounterValue {
        packets: u64::try_from(data.packet_count).map_err(negative)?,
        bytes: u64::try_from(data.byte_count).map_err(negative)?,
    })
}

/// This switch does not count per color.
pub(super) fn no_colors(data: Option<&pb::MeterCounterData>) -> Outcome<()> {
    match data {
        None => Ok(()),
        Some(_) => Err(Refusal::unimplemented("this switch's meters don't count per color")),
    }
}

pub(super) fn read_meter(config: &pb::MeterConfig, kind: MeterType) -> Outcome<MeterConfig> {
    let negative = |_| Refusal::invalid("a meter's rates and bursts must not be negative");
    let read = MeterConfig {
        cir: u64::try_from(config.cir).map_err(negative)?,
        cburst: u64::try_from(config.cburst).map_err(negative)?,
        pir: u64::try_from(config.pir).map_err(negative)?,
        pburst: u64::try_from(config.pburst).map_err(negative)?,
    };
    u64::try_from(config.eburst).map_err(negative)?;
    let single_rate = (config.cir, config.cburst) == (config.pir, config.pburst);
    match kind {
        MeterType::TwoRates | MeterType::TwoColors if config.eburst != 0 => {
            Err(Refusal::invalid("eburst is for single-rate three-color meters only"))
        }
        MeterType::TwoColors | MeterType::OneRate if !single_rate => {
            Err(Refusal::invalid("a single-rate meter needs pir = cir and pburst = cburst"))
        }
        MeterType::OneRate if config.eburst != 0 => {
            Err(Refusal::unimplemented("this switch's meters have no excess burst"))
        }
        _ => Ok(read),
    }
}
