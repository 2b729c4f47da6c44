//! What the recording server holds, as a driver does, and what is wrong with a request.

use super::check::Tables;
use super::exchanges::Exchange;
use bf::data_field::Value;
use bf::table_entry::Value as Key;
use bf::update::Type;
use prost::Message;
use std::collections::{BTreeMap, HashMap, HashSet};
use tokio::sync::mpsc;
use tonic::{Code, Status};
use zsr_switch::bfrt::proto as bf;

use super::server::PROGRAM;

/// Events (p4/common/types.p4), and where a generated packet has its event, its worker and the group that it goes to first: 6 bytes
/// are the generator's.
const EV_QUERY: u8 = 38;
const ELSEWHERE: u8 = 0x80;
const EVENT: usize = 14 - 6;
const WORKER: usize = 16 - 6;
const GROUP: usize = 26 - 6;
const REPORT_STATE: u8 = 4;

/// Entries of one table by key.
pub type Entries = BTreeMap<Vec<u64>, (String, HashMap<String, Value>, bf::TableEntry)>;

#[derive(Debug)]
pub struct State {
    pub(super) tables: Tables,
    pub(super) files: (String, String),
    /// The learn filter of reports.
    pub(super) report: serde_json::Value,
    pub(super) entries: HashMap<u32, Entries>,
    /// What was wrong.
    pub problems: Vec<String>,
    /// The end of a table's name, and how many entries it takes: fewer than it says.
    pub room: Option<(&'static str, u64)>,
    /// Updates by kind and table.
    pub updates: Vec<(Type, String)>,
    /// Packets that the generator has made once, without its own bytes.
    pub packets: Vec<Vec<u8>>,
    /// Applications that have made one in this Write.
    pub(super) one_shots: HashSet<u64>,
    /// What the chip has counted, by counter and cell, in packets.
    pub counted: HashMap<(u32, u64), u64>,
    /// Counters that the driver was told to fetch from the chip.
    pub fetched: Vec<String>,
    pub(super) stream: Option<mpsc::Sender<Result<bf::StreamMessageResponse, Status>>>,
    pub(super) bound: bool,
    /// What was asked and what the driver answered, if somebody wants to know.
    pub(super) exchanges: Option<Vec<Exchange>>,
}

impl State {
    /// Carries out one update, or says what is wrong with it.
    pub fn update(&mut self, update: &bf::Update) -> Result<(), String> {
        let entry = match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
            Some(bf::entity::Entity::TableEntry(entry)) => entry,
            Some(bf::entity::Entity::TableOperation(operation)) => return self.operate(operation),
            None => return Err("no entry".into()),
        };
        let kind = Type::try_from(update.r#type).map_err(|e| e.to_string())?;
        let (kind, entry) = match kind {
            Type::ModifyInc => (Type::Modify, &self.changed(entry)?),
            kind => (kind, entry),
        };
        let Some(table) = self.tables.0.get(&entry.table_id) else {
            return Err(format!("no table has number {}", entry.table_id));
        };
        let Some(Key::Key(key)) = &entry.value else { return Err(format!("{}: no key", table.name)) };
        let key = table.key(key)?;
        let name = table.name.clone();
        let room = self.room.filter(|(table, _)| name.ends_with(table));
        let size = room.map_or(table.size, |(_, room)| room);
        let of_program = table.of_program();
        let fixed = table.has_fixed_rows();
        let content = match (&entry.data, kind) {
            (Some(data), Type::Insert | Type::Modify) => {
                Some(table.data(data, kind == Type::Insert || of_program)?)
            }
            (None, Type::Delete) => None,
            (None, Type::Insert) if table.is_value_set() => Some((String::new(), HashMap::new())),
            _ => return Err(format!("{name}: {kind:?} with the wrong data")),
        };
        if let Some((_, data)) = &content {
            let is_tofino_2 = self.tables.0.values().any(|t| t.name.starts_with("tf2."));
            of_chip(&name, &key, data, is_tofino_2)?;
        }
        let held = self.entries.entry(entry.table_id).or_default();
        let before = held.get(&key).cloned();
        match (kind, held.contains_key(&key)) {
            // The driver takes it as a new value.
            (Type::Insert, true) if name == "$pre.prune" => {}
            (Type::Insert, true) => return Err(format!("{name}: {key:?} is there already")),
            (Type::Modify, true) if name == "$pre.mgid" && update.r#type == i32::from(kind) => {
                self.problems
                    .push(format!("{name}: {key:?} is made anew, and its nodes get nothing meanwhile"));
            }
            (Type::Modify | Type::Delete, false) if !fixed => {
                return Err(format!("{name}: {key:?} is not there"));
            }
            _ => {}
        }
        match content {
            None => drop(held.remove(&key)),
            Some((action, data)) => {
                let old = held.entry(key.clone()).or_default();
                if !action.is_empty() {
                    old.0.clone_from(&action);
                }
                old.1.extend(data);
                let whole = kind == Type::Insert || of_program;
                if whole || old.2.value.is_none() {
                    // A Read finds data also where there are none.
                    let data = Some(entry.data.clone().unwrap_or_default());
                    old.2 = bf::TableEntry { data, ..entry.clone() };
                } else if let (Some(all), Some(new)) = (&mut old.2.data, &entry.data) {
                    all.fields.retain(|f| new.fields.iter().all(|n| n.field_id != f.field_id));
                    all.fields.extend(new.fields.iter().cloned());
                }
            }
        }
        let fits = match held.len() as u64 > size {
            true => Err(format!("{name}: more than {size} entries")),
            false => self.groups(&name),
        };
        if let Err(problem) = fits {
            let held = self.entries.entry(entry.table_id).or_default();
            match before {
                None => drop(held.remove(&key)),
                Some(before) => drop(held.insert(key, before)),
            }
            return Err(problem);
        }
        self.updates.push((kind, name.clone()));
        if name.ends_with("pktgen.app_cfg") {
            self.generate(entry.table_id, &key);
        }
        Ok(())
    }

    /// The driver has refused this one.
    pub(super) fn forget(&mut self, update: &bf::Update) {
        let Some(bf::entity::Entity::TableEntry(entry)) =
            update.entity.as_ref().and_then(|e| e.entity.as_ref())
        else {
            return;
        };
        let (table, held) = (self.tables.0.get(&entry.table_id), self.entries.get_mut(&entry.table_id));
        if let (Some(Key::Key(key)), Some(table), Some(held)) = (&entry.value, table, held)
            && let Ok(key) = table.key(key)
        {
            held.remove(&key);
        }
    }

    pub(super) fn note(&mut self, exchange: Exchange) {
        self.exchanges.iter_mut().for_each(|all| all.push(exchange.clone()));
    }

    fn operate(&mut self, operation: &bf::TableOperation) -> Result<(), String> {
        let (id, what) = (operation.table_id, &operation.table_operations_type);
        let table = self.tables.0.get(&id).ok_or(format!("no table has number {id}"))?;
        if !table.is_counter() || !["Sync", "SyncCounters"].contains(&what.as_str()) {
            return Err(format!("{}: no operation {what}", table.name));
        }
        self.fetched.push(table.name.clone());
        let cells: Vec<u64> = self.counted.keys().filter(|(t, _)| *t == id).map(|(_, cell)| *cell).collect();
        cells.into_iter().for_each(|cell| self.take_over(id, cell));
        Ok(())
    }

    /// The driver knows now what the chip has counted in that cell.
    fn take_over(&mut self, id: u32, cell: u64) {
        let Some(packets) = self.counted.get(&(id, cell)) else { return };
        let entry = self.tables.0[&id].counted(id, cell as u32, *packets);
        self.entries.entry(id).or_default().insert(vec![cell], (String::new(), HashMap::new(), entry));
    }

    /// A packet that the generator makes once, if the controller has just asked for one.
    fn generate(&mut self, table: u32, key: &[u64]) {
        let Some((action, data, _)) = self.entries.get(&table).and_then(|e| e.get(key)) else { return };
        if data.get("app_enable") != Some(&Value::BoolVal(true)) || !action.ends_with("one_shot") {
            return;
        }
        let number = |name: &str| value(data, name).unwrap_or_default();
        let place = vec![number("pkt_buffer_offset"), number("pkt_len")];
        let id = self.tables.0.iter().find(|(_, t)| t.name.ends_with("pktgen.pkt_buffer")).map(|(id, _)| *id);
        let entry = id.and_then(|id| self.entries.get(&id)).and_then(|e| e.get(&place));
        let Some(Value::Stream(packet)) = entry.and_then(|(_, data, _)| data.get("buffer")).cloned() else {
            self.problems.push(format!("the generator has no packet at {place:?}"));
            return;
        };
        if packet.len() as u64 != place[1] || packet[6..8] != [0x88, 0xb6] {
            self.problems.push(format!("not a frame of the generator's: {packet:?}"));
            return;
        }
        if !self.one_shots.insert(key[0]) {
            self.problems.push(format!(
                "application {} makes two packets in one Write: is the first one out?",
                key[0]
            ));
            return;
        }
        self.packets.push(packet.clone());
        if packet[EVENT] & ELSEWHERE != 0 {
            let group = u64::from(packet[GROUP]) << 8 | u64::from(packet[GROUP + 1]);
            if !self.of("$pre.mgid").is_some_and(|groups| groups.contains_key(&vec![group])) {
                self.problems.push(format!("a packet goes to group {group:#x}, which is not there"));
                return;
            }
        }
        if packet[EVENT] & !ELSEWHERE == EV_QUERY {
            self.answer([packet[WORKER], packet[WORKER + 1]]);
        }
    }

    /// The entries of a table.
    pub(super) fn of(&self, name: &str) -> Option<&Entries> {
        let id = self.tables.0.iter().find(|(_, t)| t.name == name).map(|(id, _)| *id);
        id.and_then(|id| self.entries.get(&id))
    }

    /// A worker says that it is idle.
    fn answer(&self, worker: [u8; 2]) {
        let filter = &self.report;
        let fields = filter["fields"].as_array().expect("fields").iter().map(|f| {
            let width = f["type"]["width"].as_u64().expect("a width").div_ceil(8) as usize;
            let bytes = match f["name"].as_str() {
                Some("reason") => vec![REPORT_STATE],
                Some("worker") => worker.to_vec(),
                _ => vec![0; width],
            };
            bf::DataField {
                field_id: f["id"].as_u64().expect("an id") as u32,
                value: Some(Value::Stream(bytes)),
            }
        });
        let digest = bf::DigestList {
            digest_id: filter["id"].as_u64().expect("an id") as u32,
            list_id: 1,
            data: vec![bf::TableData { action_id: 0, fields: fields.collect() }],
            target: None,
        };
        let update = Some(bf::stream_message_response::Update::Digest(digest));
        if let Some(stream) = &self.stream {
            let _ = stream.try_send(Ok(bf::StreamMessageResponse { update }));
        }
    }

    pub(super) fn write(&mut self, request: &bf::WriteRequest) -> Result<(), Status> {
        self.request(request.client_id, &request.p4_name, request.target);
        self.one_shots.clear();
        let mut parts = Vec::new();
        for update in &request.updates {
            let done = self.update(update);
            self.problems.extend(done.as_ref().err().cloned());
            parts.push(done.map_err(|problem| {
                let full = problem.contains("more than");
                (if full { Code::ResourceExhausted } else { Code::InvalidArgument }, problem)
            }));
        }
        outcome("Write Error Status", parts)
    }

    /// What a Read finds, and how it ends: what is there comes first, and then what is not.
    pub(super) fn read(&mut self, request: &bf::ReadRequest) -> (Vec<bf::Entity>, Result<(), Status>) {
        self.request(request.client_id, &request.p4_name, request.target);
        let (mut out, mut parts) = (Vec::new(), Vec::new());
        for part in &request.entities {
            let before = out.len();
            let Some(bf::entity::Entity::TableEntry(asked)) = &part.entity else { continue };
            let Some(table) = self.tables.0.get(&asked.table_id) else {
                self.problems.push(format!("no table has number {}", asked.table_id));
                continue;
            };
            let key = match &asked.value {
                Some(Key::Key(key)) => match table.key(key) {
                    Ok(key) => Some(key),
                    Err(problem) => {
                        self.problems.push(problem);
                        continue;
                    }
                },
                _ => None,
            };
            let from_chip = asked.table_flags.is_some_and(|f| f.from_hw);
            if let (Some(key), true, true) = (&key, from_chip, table.is_counter()) {
                self.take_over(asked.table_id, key[0]);
            }
            let table = &self.tables.0[&asked.table_id];
            let default = key.is_none().then(|| table.default_entry(asked.table_id)).flatten();
            if let Some(held) = self.entries.get(&asked.table_id) {
                match &key {
                    Some(key) => out.extend(held.get(key).map(|(_, _, entry)| entity(entry.clone()))),
                    None => out.extend(held.values().map(|(_, _, entry)| entity(entry.clone()))),
                }
            }
            if let (Some(key), true) = (&key, out.len() == before) {
                out.extend(
                    table
                        .initial(key)
                        .map(|data| entity(bf::TableEntry { data: Some(data), ..asked.clone() })),
                );
            }
            parts.push(match key.is_some() && out.len() == before {
                true => Err((Code::NotFound, format!("Entry not found in table:{}", table.name))),
                false => Ok(()),
            });
            out.extend(default.map(entity));
        }
        (out, outcome("Read Error Status", parts))
    }

    fn request(&mut self, client: u32, program: &str, target: Option<bf::TargetDevice>) {
        if client != 1 || program != PROGRAM || target.is_none_or(|t| t.device_id != 0) || !self.bound {
            self.problems.push(format!("a request of client {client} for program `{program}` at {target:?}"));
        }
    }
}

pub fn entity(entry: bf::TableEntry) -> bf::Entity {
    bf::Entity { entity: Some(bf::entity::Entity::TableEntry(entry)) }
}

fn value(data: &HashMap<String, Value>, name: &str) -> Option<u64> {
    match data.get(name) {
        Some(Value::Stream(bytes)) => Some(bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b))),
        _ => None,
    }
}

/// What the driver checks of its own tables. The packet generator adds 6 bytes in front and 4 behind.
fn of_chip(table: &str, key: &[u64], data: &HashMap<String, Value>, is_tofino_2: bool) -> Result<(), String> {
    let sessions = if is_tofino_2 { 255 } else { 1015 };
    if table == "$mirror.cfg" && !(1..=sessions).contains(&key[0]) {
        return Err(format!("{table}: {key:?}: sessions are numbered from 1 to {sessions}"));
    }
    if table == "$PORT" && !port_can_be(key[0], data, is_tofino_2) {
        return Err(format!("{table}: {key:?}: no port there can be {data:?}"));
    }
    if table == "$pre.prune" && key[0] >= 4 * 72 {
        return Err(format!("{table}: {key:?}: a chip has four pipes of 72 ports"));
    }
    if table.ends_with("pktgen.pkt_buffer") {
        let bytes = matches!(data.get("buffer"), Some(Value::Stream(b)) if b.len() as u64 == key[1]);
        return if bytes && key[0].is_multiple_of(16) && key[0] + key[1] <= 16 << 10 {
            Ok(())
        } else {
            Err(format!("{table}: {key:?}: not as long as the key says, or not where packets can lie"))
        };
    }
    if !table.ends_with("pktgen.app_cfg") {
        return Ok(());
    }
    let shortest: u64 = if table.starts_with("tf2.") { 69 - 6 - 4 } else { 21 - 6 - 4 };
    for (name, right) in [
        ("pkt_len", &(|n| n >= shortest) as &dyn Fn(u64) -> bool),
        ("pkt_buffer_offset", &|n| n % 16 == 0),
        ("pipe_local_source_port", &|n| n <= 127),
        ("assigned_chnl_id", &|n| n <= 7),
    ] {
        if let Some(n) = value(data, name).filter(|&n| !right(n)) {
            return Err(format!("{table}: {key:?}: no application can have {name} {n}"));
        }
    }
    Ok(())
}

/// Whether a port can have that speed, with so many lanes and that error correction, where it begins. One that exists is not asked.
fn port_can_be(number: u64, data: &HashMap<String, Value>, is_tofino_2: bool) -> bool {
    let word = |name: &str| match data.get(name) {
        Some(Value::StrVal(word)) => word.as_str(),
        _ => "",
    };
    let Some(lanes) = value(data, "$N_LANES") else { return true };
    let (rs, fc) = (word("$FEC").ends_with("REED_SOLOMON"), word("$FEC").ends_with("FIRECODE"));
    let can_be = match (word("$SPEED"), lanes) {
        ("BF_SPEED_10G", 1) | ("BF_SPEED_40G", 4) => !rs,
        ("BF_SPEED_25G", 1) | ("BF_SPEED_50G", 2) => true,
        ("BF_SPEED_100G", 4) => !fc,
        ("BF_SPEED_50G", 1) | ("BF_SPEED_100G", 2) | ("BF_SPEED_200G", 4 | 8) | ("BF_SPEED_400G", 8) => {
            rs && is_tofino_2
        }
        _ => false,
    };
    can_be && number.is_multiple_of(lanes)
}

/// The status of a request whose parts ended so: it has an error for each, up to the last that failed.
fn outcome(what: &str, parts: Vec<Result<(), (Code, String)>>) -> Result<(), Status> {
    let Some(last) = parts.iter().rposition(Result::is_err) else { return Ok(()) };
    let error = |part: Result<(), (Code, String)>| {
        let (code, message) = part.err().unwrap_or((Code::Ok, String::new()));
        let error = bf::Error { canonical_code: code.into(), message, ..Default::default() };
        prost_types::Any { type_url: String::new(), value: error.encode_to_vec() }
    };
    let details = parts.into_iter().take(last + 1).map(error).collect();
    let all =
        p4runtime_proto::google::rpc::Status { code: Code::Unknown.into(), message: what.into(), details };
    Err(Status::with_details(Code::Unknown, what, all.encode_to_vec().into()))
}
