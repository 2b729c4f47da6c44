//! A BF Runtime server that records: it holds entries as a driver does, and notes whatever is wrong with a request. Of the data
//! plane it has the one thing that the controller waits for, the answer to EV_QUERY. With a driver beside it, the answers are the driver's, and
//! where its own differ is noted, too.

use super::beside::{self, Driver};
use super::check::Tables;
use bf::bf_runtime_server::{BfRuntime, BfRuntimeServer};
use bf::data_field::Value;
use bf::table_entry::Value as Key;
use bf::update::Type;
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};
use zsr_control_plane::bfrt::proto as bf;

/// Name of the program.
pub const PROGRAM: &str = "zsr";
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
    tables: Tables,
    files: (String, String),
    entries: HashMap<u32, Entries>,
    /// What was wrong.
    pub problems: Vec<String>,
    /// Updates by kind and table.
    pub updates: Vec<(Type, String)>,
    stream: Option<mpsc::Sender<Result<bf::StreamMessageResponse, Status>>>,
    bound: bool,
}

/// The server, and the way to look into it.
#[derive(Clone, Debug)]
pub struct Recorder {
    state: Arc<Mutex<State>>,
    driver: Option<Driver>,
}

impl Recorder {
    /// With the tables of these two files.
    pub fn new(program: &str, driver: &str) -> Self {
        let state = State {
            tables: Tables::read(&[program, driver]),
            files: (program.into(), driver.into()),
            entries: HashMap::new(),
            problems: Vec::new(),
            updates: Vec::new(),
            stream: None,
            bound: false,
        };
        Recorder { state: Arc::new(Mutex::new(state)), driver: None }
    }

    /// Beside the driver whose BF Runtime server is at `address`, with the tables that the driver has.
    pub async fn beside(address: &str) -> Self {
        let driver = Driver::connect(address).await;
        let (program, own) = driver.files().await;
        let recorder = Recorder { driver: Some(driver.clone()), ..Recorder::new(&program, &own) };
        let tables = {
            let state = recorder.state();
            let own = |t: &&super::check::Table| {
                t.of_program() && t.has_actions()
                    || ["$PORT", "$mirror.cfg", "$pre.mgid", "$pre.node"].contains(&&*t.name)
            };
            let mut tables: Vec<_> =
                state.tables.0.iter().filter(|(_, t)| own(t)).map(|(id, t)| (t.name.clone(), *id)).collect();
            // Groups before their nodes.
            tables.sort();
            tables.into_iter().map(|(_, id)| id)
        };
        driver.empty(tables).await;
        recorder
    }

    /// Serves it on a free port of this host.
    pub async fn serve(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let service = BfRuntimeServer::new(self.clone()).max_decoding_message_size(64 << 20);
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test has panicked in it")
    }

    /// The driver is started anew: its tables are empty.
    pub fn restart(&self) {
        self.state().entries.clear();
    }

    /// A row of a table whose rows are always there, as a Read finds it, by the names of its data.
    pub async fn row(&self, name: &str, key: u32) -> HashMap<String, Value> {
        let request = {
            let state = self.state();
            let (&table_id, table) =
                state.tables.0.iter().find(|(_, t)| t.name.ends_with(name)).expect("a table");
            let asked =
                bf::TableEntry { table_id, value: Some(Key::Key(table.key_of(key))), ..Default::default() };
            let target =
                Some(bf::TargetDevice { device_id: 0, pipe_id: 0xffff, direction: 0xff, prsr_id: 0xff });
            bf::ReadRequest { target, client_id: 1, entities: vec![entity(asked)], p4_name: PROGRAM.into() }
        };
        let (entities, _) = match &self.driver {
            Some(driver) => driver.read(request).await,
            None => self.state().read(&request),
        };
        let state = self.state();
        let mut out = HashMap::new();
        for entry in beside::table_entries(&entities) {
            let table = &state.tables.0[&entry.table_id];
            let initial = table.initial(&[u64::from(key)]).into_iter();
            for data in initial.chain(entry.data.clone()) {
                out.extend(table.data(&data, false).expect("data").1);
            }
        }
        out
    }

    /// Entries of the table whose name ends in `name`.
    pub fn held(&self, name: &str) -> Vec<(Vec<u64>, String, HashMap<String, Value>)> {
        let state = self.state();
        let id = state.tables.0.iter().find(|(_, t)| t.name.ends_with(name)).map(|(id, _)| *id);
        let entries = id.and_then(|id| state.entries.get(&id)).into_iter().flatten();
        entries.map(|(key, (action, data, _))| (key.clone(), action.clone(), data.clone())).collect()
    }
}

impl State {
    /// Carries out one update, or says what is wrong with it.
    pub fn update(&mut self, update: &bf::Update) -> Result<(), String> {
        let Some(bf::entity::Entity::TableEntry(entry)) =
            update.entity.as_ref().and_then(|e| e.entity.as_ref())
        else {
            return Err("no entry".into());
        };
        let kind = Type::try_from(update.r#type).map_err(|e| e.to_string())?;
        let Some(table) = self.tables.0.get(&entry.table_id) else {
            return Err(format!("no table has number {}", entry.table_id));
        };
        let Some(Key::Key(key)) = &entry.value else { return Err(format!("{}: no key", table.name)) };
        let key = table.key(key)?;
        let name = table.name.clone();
        let size = table.size;
        let of_program = table.of_program();
        let fixed = table.has_fixed_rows();
        let content = match (&entry.data, kind) {
            (Some(data), Type::Insert | Type::Modify) => {
                Some(table.data(data, kind == Type::Insert || of_program)?)
            }
            (None, Type::Delete) => None,
            _ => return Err(format!("{name}: {kind:?} with the wrong data")),
        };
        if let Some((_, data)) = &content {
            of_chip(&name, &key, data)?;
        }
        let held = self.entries.entry(entry.table_id).or_default();
        match (kind, held.contains_key(&key)) {
            // The driver takes it as a new value.
            (Type::Insert, true) if name == "$pre.prune" => {}
            (Type::Insert, true) => return Err(format!("{name}: {key:?} is there already")),
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
                    old.2 = entry.clone();
                } else if let (Some(all), Some(new)) = (&mut old.2.data, &entry.data) {
                    all.fields.retain(|f| new.fields.iter().all(|n| n.field_id != f.field_id));
                    all.fields.extend(new.fields.iter().cloned());
                }
            }
        }
        if held.len() as u64 > size {
            return Err(format!("{name}: more than {size} entries"));
        }
        self.updates.push((kind, name.clone()));
        self.groups(&name)?;
        if name.ends_with("pktgen.app_cfg") {
            self.generate(entry.table_id, &key);
        }
        Ok(())
    }

    /// Every node that a group names is there and in no other group.
    fn groups(&self, changed: &str) -> Result<(), String> {
        if !changed.starts_with("$pre.m") && !changed.starts_with("$pre.node") {
            return Ok(());
        }
        let (groups, nodes) = (self.of("$pre.mgid"), self.of("$pre.node"));
        let mut named = std::collections::HashSet::new();
        for (group, (_, data, _)) in &groups {
            let Some(Value::IntArrVal(ids)) = data.get("$MULTICAST_NODE_ID") else { continue };
            let Some(Value::BoolArrVal(valid)) = data.get("$MULTICAST_NODE_L1_XID_VALID") else {
                return Err("$pre.mgid: lists of different lengths".into());
            };
            if valid.val.len() != ids.val.len() {
                return Err("$pre.mgid: lists of different lengths".into());
            }
            for &id in &ids.val {
                if !nodes.contains_key(&vec![u64::from(id)]) {
                    return Err(format!("$pre.mgid: group {group:?} names node {id:#x}, which is not there"));
                }
                if !named.insert(id) {
                    return Err(format!("$pre.mgid: node {id:#x} is in two groups"));
                }
            }
        }
        Ok(())
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
        if packet[EVENT] & ELSEWHERE != 0 {
            let group = u64::from(packet[GROUP]) << 8 | u64::from(packet[GROUP + 1]);
            if !self.of("$pre.mgid").contains_key(&vec![group]) {
                self.problems.push(format!("a packet goes to group {group:#x}, which is not there"));
                return;
            }
        }
        if packet[EVENT] & !ELSEWHERE == EV_QUERY {
            self.answer([packet[WORKER], packet[WORKER + 1]]);
        }
    }

    /// The entries of a table.
    fn of(&self, name: &str) -> Entries {
        let id = self.tables.0.iter().find(|(_, t)| t.name == name).map(|(id, _)| *id);
        id.and_then(|id| self.entries.get(&id)).cloned().unwrap_or_default()
    }

    /// A worker says that it is idle.
    fn answer(&self, worker: [u8; 2]) {
        let json: serde_json::Value = serde_json::from_str(&self.files.0).expect("JSON");
        let filter = &json["learn_filters"][0];
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

    fn write(&mut self, request: &bf::WriteRequest) -> Result<(), Status> {
        self.request(request.client_id, &request.p4_name, request.target);
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
    fn read(&mut self, request: &bf::ReadRequest) -> (Vec<bf::Entity>, Result<(), Status>) {
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
            let default = key.is_none().then(|| table.default_entry(asked.table_id)).flatten();
            let held = self.entries.get(&asked.table_id).into_iter().flatten();
            let wanted = held.filter(|(k, _)| key.as_ref().is_none_or(|key| key == *k));
            out.extend(wanted.map(|(_, (_, _, entry))| entity(entry.clone())));
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
fn of_chip(table: &str, key: &[u64], data: &HashMap<String, Value>) -> Result<(), String> {
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

type Out<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl BfRuntime for Recorder {
    type ReadStream = Out<bf::ReadResponse>;
    type StreamChannelStream = ReceiverStream<Result<bf::StreamMessageResponse, Status>>;

    async fn write(&self, request: Request<bf::WriteRequest>) -> Result<Response<bf::WriteResponse>, Status> {
        let request = request.into_inner();
        let ours = self.state().write(&request);
        let Some(driver) = &self.driver else {
            return ours.map(|()| Response::new(bf::WriteResponse::default()));
        };
        let its = driver.write(request.clone()).await;
        let mut state = self.state();
        let differ = beside::written(&request.updates, &state.tables, &ours, &its);
        state.problems.extend(differ);
        its.map(|()| Response::new(bf::WriteResponse::default()))
    }

    async fn read(&self, request: Request<bf::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let (mut entities, mut end) = self.state().read(&request);
        if let Some(driver) = &self.driver {
            (entities, end) = driver.read(request.clone()).await;
            let mut state = self.state();
            let differ = beside::read(&state.tables, &state.entries, &request.entities, &entities);
            state.problems.extend(differ);
        }
        let answer = Ok(bf::ReadResponse { entities, status: Vec::new() });
        Ok(Response::new(Box::pin(tokio_stream::iter(std::iter::once(answer).chain(end.err().map(Err))))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<bf::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<bf::SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        {
            let mut state = self.state();
            if state.stream.is_none() {
                state.problems.push("bound before it has subscribed".into());
            }
            if !request.config.iter().any(|c| c.p4_name == PROGRAM) {
                return Err(Status::not_found("no such program"));
            }
            state.bound = true;
        }
        if let Some(driver) = &self.driver {
            driver.bind(request).await?;
        }
        Ok(Response::new(bf::SetForwardingPipelineConfigResponse::default()))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        _: Request<bf::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<bf::GetForwardingPipelineConfigResponse>, Status> {
        let (program, driver) = self.state().files.clone();
        let config = bf::ForwardingPipelineConfig {
            p4_name: PROGRAM.into(),
            bfruntime_info: program.into_bytes(),
            profiles: Vec::new(),
        };
        Ok(Response::new(bf::GetForwardingPipelineConfigResponse {
            config: vec![config],
            non_p4_config: Some(bf::NonP4Config { bfruntime_info: driver.into_bytes() }),
        }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<bf::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let mut requests = request.into_inner();
        let (answers, out) = mpsc::channel(1024);
        let own = self.clone();
        tokio::spawn(async move {
            let mut upstream = None;
            while let Some(Ok(message)) = requests.next().await {
                let Some(bf::stream_message_request::Update::Subscribe(mut subscribe)) = message.update
                else {
                    own.state().problems.push("the stream is for subscriptions".into());
                    continue;
                };
                // A client's number is its name, and every controller has the same.
                if own.state().stream.is_some() {
                    let refused = "Can't have two clients with the same client id Invalid arguments";
                    let _ = answers.send(Err(Status::invalid_argument(refused))).await;
                    return;
                }
                own.state().stream = Some(answers.clone());
                if let Some(driver) = &own.driver {
                    // It answers by itself.
                    let update = Some(bf::stream_message_request::Update::Subscribe(subscribe));
                    let request = bf::StreamMessageRequest { client_id: 1, update };
                    upstream = Some(driver.subscribe(request, answers.clone()).await);
                    continue;
                }
                let ok = p4runtime_proto::google::rpc::Status::default();
                subscribe.status = Some(ok);
                let update = Some(bf::stream_message_response::Update::Subscribe(subscribe));
                let _ = answers.send(Ok(bf::StreamMessageResponse { update })).await;
            }
            drop(upstream);
            let mut state = own.state();
            // Only the one who has subscribed leaves a place.
            if state.stream.as_ref().is_some_and(|s| s.same_channel(&answers)) {
                (state.stream, state.bound) = (None, false);
            }
        });
        Ok(Response::new(ReceiverStream::new(out)))
    }
}
