//! Runs a script on both switches in lockstep, and says where they differ.

use std::collections::BTreeMap;

use p4runtime_proto::p4::config::v1::{self as p4, P4Info};
use p4runtime_proto::p4::v1 as rt;
use rt::entity::Entity;
use rt::field_match::FieldMatchType;
use zsr_bmv2::PortPacket;

use crate::peer::{Ours, Theirs};
use crate::random::prefix;
use crate::script::{Step, canonical, update};

/// Where the switches differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What was compared: "load", "write", "packet", "entries", "counters", "registers". Or what bmv2 alone is to blame for:
    /// "unloadable"; "crash", which is an endless packet too; "unreadable" entries; "remains" of earlier packets, without which
    /// there is no difference; a "race" for the order of copies. A "script" was not understood, so it was not compared.
    pub kind: &'static str,
    /// Both sides.
    pub text: String,
}

/// How much was compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Packets in.
    pub packets: usize,
    /// Packets out.
    pub out: usize,
    /// Table entries read back.
    pub entries: usize,
    /// Counter cells.
    pub counters: usize,
    /// Register cells.
    pub registers: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.packets += other.packets;
        self.out += other.out;
        self.entries += other.entries;
        self.counters += other.counters;
        self.registers += other.registers;
    }
}

/// Both switches with one program.
pub struct Pair {
    ours: Ours,
    theirs: Theirs,
    info: P4Info,
    /// What bmv2 and we made of the last packet.
    pub last: [Vec<PortPacket>; 2],
    /// What was compared so far.
    pub tally: Tally,
}

/// A difference of that kind.
pub fn differ(kind: &'static str, text: impl Into<String>) -> Difference {
    Difference { kind, text: text.into() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Packets by port, in the order in which they left there.
pub fn by_port(packets: &[PortPacket]) -> BTreeMap<u16, Vec<&[u8]>> {
    let mut ports: BTreeMap<u16, Vec<&[u8]>> = BTreeMap::new();
    for (port, bytes) in packets {
        ports.entry(*port).or_default().push(bytes);
    }
    ports
}

fn show(packets: &[PortPacket]) -> String {
    if packets.is_empty() {
        return "      nothing".into();
    }
    let ports = by_port(packets);
    let lines = ports.iter().flat_map(|(p, list)| list.iter().map(move |b| format!("      {p}: {}", hex(b))));
    Vec::from_iter(lines).join("\n")
}

impl Pair {
    /// Whether bmv2 shows its registers.
    pub fn reads_registers(&self) -> bool {
        self.theirs.registers.is_some()
    }

    /// Whether all that packets can leave behind in the program's own state is compared in the end.
    pub fn sees_state(&self) -> bool {
        self.info.registers.is_empty() || self.theirs.registers.is_some()
    }

    /// Gives both switches the program.
    pub async fn load(
        mut ours: Ours,
        mut theirs: Theirs,
        info: P4Info,
        json: &[u8],
    ) -> Result<Pair, Difference> {
        let (a, b) = (
            ours.controller.set_pipeline(&info, json).await,
            theirs.controller.set_pipeline(&info, json).await,
        );
        match (a, b) {
            (Ok(()), Ok(())) => {
                Ok(Pair { ours, theirs, info, last: Default::default(), tally: Tally::default() })
            }
            (Err(a), Err(b)) => Err(differ("refused", format!("ours: {a}; bmv2: {b}"))),
            (Err(a), Ok(())) => Err(differ("load", format!("ours refuses it: {a}"))),
            (Ok(()), Err(b)) => Err(differ("unloadable", format!("bmv2 refuses it: {b}"))),
        }
    }

    /// Takes one step on both.
    pub async fn step(&mut self, step: &Step) -> Result<Vec<PortPacket>, Difference> {
        match step {
            Step::Write(updates) => self.write(updates).await.map(|()| Vec::new()),
            Step::Packet { port, bytes } => self.packet(*port, bytes).await,
            Step::Register { name, index, value } => {
                let Some(theirs) = &mut self.theirs.registers else { return Ok(Vec::new()) };
                theirs.write(name, *index, *value).map_err(|e| differ("registers", e.to_string()))?;
                let (name, index, value) = (name.clone(), *index, value.to_be_bytes());
                let set = move |switch: &mut zsr_soft_switch::Switch| {
                    let id = switch.info().register(&name).ok_or(format!("no register {name}"))?;
                    switch.register_write(id, index as usize, &value).map_err(|e| e.to_string())
                };
                let set = self.ours.call(set).await.and_then(|r| r);
                set.map(|()| Vec::new()).map_err(|e| differ("registers", e))
            }
        }
    }

    async fn write(&mut self, updates: &[rt::Update]) -> Result<(), Difference> {
        let ours = self.ours.controller.write(updates).await;
        let theirs = self.theirs.controller.write(&grown(updates)).await;
        if ours.is_ok() == theirs.is_ok() {
            return Ok(());
        }
        let say = |r: Result<(), String>| r.map_or_else(|e| e, |()| "accepts it".into());
        let what = format!("{updates:?}");
        Err(differ("write", format!("ours: {}; bmv2: {}\n    {what:.600}", say(ours), say(theirs))))
    }

    async fn packet(&mut self, port: u16, bytes: &[u8]) -> Result<Vec<PortPacket>, Difference> {
        let ours = self.ours.packet(port, bytes).await.map_err(|e| differ("packet", format!("ours: {e}")))?;
        let theirs = self.theirs.packet(port, bytes).await;
        let theirs = theirs.map_err(|e| differ("crash", format!("into {port}: {}\n    {e}", hex(bytes))))?;
        self.tally.packets += 1;
        self.tally.out += ours.len();
        self.last = [theirs.clone(), ours.clone()];
        if by_port(&ours) == by_port(&theirs) {
            return Ok(ours);
        }
        let text =
            format!("into {port}: {}\n    ours:\n{}\n    bmv2:\n{}", hex(bytes), show(&ours), show(&theirs));
        Err(differ("packet", text))
    }

    /// Compares table entries, counters, and registers except those for whose name `skip` holds.
    pub async fn state(&mut self, skip: impl Fn(&str) -> bool) -> Vec<Difference> {
        let mut out = Vec::new();
        out.extend(self.entries().await.err());
        out.extend(self.counters().await.err());
        if let Err(mut e) = self.registers(skip).await {
            out.append(&mut e);
        }
        out
    }

    async fn entries(&mut self) -> Result<(), Difference> {
        for table in self.info.tables.clone() {
            let Some(preamble) = &table.preamble else { continue };
            let counter = table.direct_resource_ids.iter().any(|id| id >> 24 == 0x13);
            let wanted = rt::TableEntry {
                table_id: preamble.id,
                counter_data: counter.then(rt::CounterData::default),
                ..Default::default()
            };
            let mut defaults = wanted.clone();
            defaults.is_default_action = true;
            defaults.counter_data = None;
            // bmv2 does not tell the default action of a table with an action profile.
            let direct = table.implementation_id == 0;
            for (what, wanted) in [("entries", wanted), ("the default entry", defaults)]
                .into_iter()
                .take(1 + usize::from(direct))
            {
                let ours = self.ours.controller.read(Entity::TableEntry(wanted.clone())).await;
                let theirs = self.theirs.controller.read(Entity::TableEntry(wanted)).await;
                // Priorities of the program's own entries are numbered otherwise; their order is the same.
                let ranks = table.is_const_table || table.has_initial_entries;
                let own = ranks.then_some(&table);
                let (ours, theirs) = (ours.map(|l| comparable(l, own)), theirs.map(|l| comparable(l, own)));
                if let (Ok(_), Err(e)) = (&ours, &theirs) {
                    return Err(differ("unreadable", format!("{what} of {}: bmv2: {e}", preamble.name)));
                }
                if ours.is_err() && theirs.is_err() {
                    continue;
                }
                if ours != theirs {
                    let text =
                        format!("{what} of {}\n    ours: {ours:?}\n    bmv2: {theirs:?}", preamble.name);
                    return Err(differ("entries", text));
                }
                self.tally.entries += ours.map_or(0, |l| l.len());
            }
        }
        Ok(())
    }

    async fn counters(&mut self) -> Result<(), Difference> {
        for counter in self.info.counters.clone() {
            let Some(preamble) = &counter.preamble else { continue };
            let wanted = rt::CounterEntry { counter_id: preamble.id, ..Default::default() };
            let cells = |read: Result<Vec<Entity>, String>| {
                let cell = |e| match e {
                    Entity::CounterEntry(rt::CounterEntry { index: Some(i), data, .. }) => {
                        let data = data.unwrap_or_default();
                        (i.index, data.packet_count, data.byte_count)
                    }
                    _ => (-1, 0, 0),
                };
                read.map(|list| Vec::from_iter(list.into_iter().map(cell)))
            };
            let ours = cells(self.ours.controller.read(Entity::CounterEntry(wanted)).await);
            let theirs = cells(self.theirs.controller.read(Entity::CounterEntry(wanted)).await);
            match (ours, theirs) {
                (Ok(a), Ok(b)) if a == b => self.tally.counters += a.len(),
                (Ok(a), Ok(b)) => {
                    let only = |x: &[(i64, i64, i64)], y: &[(i64, i64, i64)]| {
                        Vec::from_iter(x.iter().filter(|c| !y.contains(c)).take(6).copied())
                    };
                    let (a, b): (Vec<(i64, i64, i64)>, Vec<_>) = (only(&a, &b), only(&b, &a));
                    let text = format!("{}: ours {a:?}; bmv2 {b:?}", preamble.name);
                    return Err(differ("counters", text));
                }
                (a, b) if a.is_err() == b.is_err() => {}
                (a, b) => {
                    let say =
                        |r: Result<Vec<_>, String>| r.map_or_else(|e| e, |l| format!("{} cells", l.len()));
                    let text = format!("{}: ours {}; bmv2 {}", preamble.name, say(a), say(b));
                    return Err(differ("counters", text));
                }
            }
        }
        Ok(())
    }

    async fn registers(&mut self, skip: impl Fn(&str) -> bool) -> Result<(), Vec<Difference>> {
        let Some(theirs) = &mut self.theirs.registers else { return Ok(()) };
        let ours = self.ours.registers().await.map_err(|e| vec![differ("registers", e)])?;
        let mut out = Vec::new();
        for (name, _, ours) in ours.into_iter().filter(|(name, ..)| !skip(name)) {
            match theirs.read_all(&name) {
                Ok(theirs) if theirs == ours => self.tally.registers += ours.len(),
                Ok(theirs) => {
                    let cells = ours.iter().zip(&theirs).enumerate().filter(|(_, (a, b))| a != b);
                    let cells =
                        Vec::from_iter(cells.take(6).map(|(i, (a, b))| format!("[{i}] ours {a}, bmv2 {b}")));
                    let lengths = (ours.len(), theirs.len());
                    out.push(differ(
                        "registers",
                        format!("{name} (lengths {lengths:?}): {}", cells.join("; ")),
                    ));
                }
                Err(e) => {
                    out.push(differ("registers", e.to_string()));
                    break;
                }
            }
        }
        if out.is_empty() { Ok(()) } else { Err(out) }
    }
}

/// Table entries in an order of their own, without the servers' marks. Of a table with entries of the program's `own`,
/// priorities become ranks, and prefixes lose bits that do not matter.
fn comparable(entities: Vec<Entity>, own: Option<&p4::Table>) -> Vec<String> {
    let mut priorities: Vec<i32> = entities
        .iter()
        .filter_map(|e| if let Entity::TableEntry(e) = e { Some(e.priority) } else { None })
        .collect();
    priorities.sort_unstable();
    priorities.dedup();
    let entry = |e| match e {
        Entity::TableEntry(mut e) => {
            e.is_const = false;
            if let Some(table) = own {
                e.priority = priorities.binary_search(&e.priority).map_or(-1, |rank| rank as i32);
                for field in &mut e.r#match {
                    let key = table.match_fields.iter().find(|k| k.id == field.field_id);
                    if let (Some(FieldMatchType::Lpm(lpm)), Some(key)) = (&mut field.field_match_type, key) {
                        cut(lpm, key.bitwidth as u32);
                    }
                }
            }
            e.r#match.sort_by_key(|f| f.field_id);
            format!("{e:?}")
        }
        other => format!("{other:?}"),
    };
    let mut list = Vec::from_iter(entities.into_iter().map(entry));
    list.sort();
    list
}

/// The same updates, but multicast groups grow by one instance at a time: of several that come at once, bmv2 makes copies in an
/// order of its own.
fn grown(updates: &[rt::Update]) -> Vec<rt::Update> {
    use rt::packet_replication_engine_entry::Type;
    let mut out = Vec::new();
    for one in updates {
        let entity = one.entity.as_ref().and_then(|e| e.entity.as_ref());
        let group = match entity {
            Some(Entity::PacketReplicationEngineEntry(e))
                if one.r#type == rt::update::Type::Insert as i32 =>
            {
                e.r#type.as_ref()
            }
            _ => None,
        };
        let Some(Type::MulticastGroupEntry(group)) = group else {
            out.push(one.clone());
            continue;
        };
        let ends = (1..group.replicas.len())
            .filter(|&i| group.replicas[i].instance != group.replicas[i - 1].instance)
            .chain([group.replicas.len()]);
        for (n, end) in ends.enumerate() {
            let replicas = group.replicas[..end].to_vec();
            let group = Type::MulticastGroupEntry(rt::MulticastGroupEntry { replicas, ..group.clone() });
            let entry = rt::PacketReplicationEngineEntry { r#type: Some(group) };
            let kind = if n == 0 { rt::update::Type::Insert } else { rt::update::Type::Modify };
            out.push(update(kind, Entity::PacketReplicationEngineEntry(entry)));
        }
    }
    out
}

/// Clears the bits of a prefix's value behind its length.
fn cut(lpm: &mut rt::field_match::Lpm, bits: u32) {
    let mask = prefix(bits, lpm.prefix_len as u32);
    let value = &lpm.value;
    let padded = vec![0; mask.len().saturating_sub(value.len())].into_iter().chain(value.iter().copied());
    lpm.value = canonical(&Vec::from_iter(padded.zip(mask).map(|(v, m)| v & m)));
}
