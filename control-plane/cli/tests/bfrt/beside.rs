//! The vendor's driver beside our recording server: each request goes to both, and where their answers differ, a problem is noted.

use super::check::Tables;
use super::held::{Entries, entity};
use super::server::PROGRAM;
use bf::bf_runtime_client::BfRuntimeClient;
use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};
use zsr_switch::bfrt::proto as bf;

/// The target of a request to all pipes, ingress and egress.
pub const EVERYWHERE: bf::TargetDevice =
    bf::TargetDevice { device_id: 0, pipe_id: 0xffff, direction: 0xff, prsr_id: 0xff };

pub fn writing(pipe_id: u32, updates: Vec<bf::Update>) -> bf::WriteRequest {
    let target = Some(bf::TargetDevice { pipe_id, ..EVERYWHERE });
    bf::WriteRequest { target, client_id: 1, updates, p4_name: PROGRAM.into(), ..Default::default() }
}

pub fn reading(entities: Vec<bf::Entity>) -> bf::ReadRequest {
    bf::ReadRequest { target: Some(EVERYWHERE), client_id: 1, entities, p4_name: PROGRAM.into() }
}

/// A client's place at a driver, which is free again when it has gone.
pub struct Session(
    mpsc::Sender<bf::StreamMessageRequest>,
    mpsc::Receiver<Result<bf::StreamMessageResponse, Status>>,
);

impl Session {
    /// The driver ends the stream when it has noticed.
    pub async fn go(self) {
        let Session(open, mut heard) = self;
        drop(open);
        while heard.recv().await.is_some() {}
    }
}

/// A driver's BF Runtime server. It can be asked by one client at a time: two requests in one session have stopped it for good.
#[derive(Clone, Debug)]
pub struct Driver {
    client: BfRuntimeClient<Channel>,
    turn: Arc<Mutex<()>>,
}

impl Driver {
    /// Connects to `address`, such as `127.0.0.1:50052`.
    pub async fn connect(address: &str) -> Self {
        let endpoint =
            tonic::transport::Endpoint::from_shared(format!("http://{address}")).expect("an address");
        // The status of a failed Write names every update.
        let channel = endpoint.http2_max_header_list_size(4 << 20).connect().await;
        let channel = channel.unwrap_or_else(|e| panic!("no driver at {address}: {e}"));
        let client = BfRuntimeClient::new(channel).max_decoding_message_size(64 << 20);
        Driver { client, turn: Arc::default() }
    }

    /// The tables of the program and of the driver: bf-rt.json of both.
    pub async fn files(&self) -> (String, String) {
        let request = bf::GetForwardingPipelineConfigRequest { device_id: 0, client_id: 1 };
        let answer = self
            .client
            .clone()
            .get_forwarding_pipeline_config(request)
            .await
            .expect("its program")
            .into_inner();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let program = answer.config.into_iter().next().expect("a program");
        let driver = answer.non_p4_config.expect("the driver's own tables");
        (text(program.bfruntime_info), text(driver.bfruntime_info))
    }

    /// Takes away what is in these tables: a controller keeps what an earlier one has made of the chip.
    pub async fn empty(&self, tables: impl Iterator<Item = u32>) {
        let session = self.come().await;
        for table_id in tables {
            let all = vec![entity(bf::TableEntry { table_id, ..Default::default() })];
            let (held, _) = self.read(reading(all)).await;
            let gone = table_entries(&held).filter(|e| !e.is_default_entry).map(|e| bf::Update {
                r#type: bf::update::Type::Delete.into(),
                entity: Some(entity(bf::TableEntry { data: None, ..e.clone() })),
            });
            // Entries that the program brings stay.
            let _ = self.write(writing(EVERYWHERE.pipe_id, gone.collect())).await;
        }
        session.go().await;
    }

    /// Subscribes and binds, as a controller does.
    pub async fn come(&self) -> Session {
        let (answers, mut heard) = mpsc::channel(16);
        let subscribe = bf::Subscribe { device_id: 0, ..Default::default() };
        let update = Some(bf::stream_message_request::Update::Subscribe(subscribe));
        let open = self.subscribe(bf::StreamMessageRequest { client_id: 1, update }, answers).await;
        heard.recv().await.expect("an answer").expect("subscribed");
        let bind = bf::SetForwardingPipelineConfigRequest {
            client_id: 1,
            action: bf::set_forwarding_pipeline_config_request::Action::Bind.into(),
            config: vec![bf::ForwardingPipelineConfig { p4_name: PROGRAM.into(), ..Default::default() }],
            ..Default::default()
        };
        self.bind(bind).await.expect("bound");
        Session(open, heard)
    }

    pub async fn bind(&self, request: bf::SetForwardingPipelineConfigRequest) -> Result<(), Status> {
        self.client.clone().set_forwarding_pipeline_config(request).await.map(|_| ())
    }

    /// Subscribes; what the driver says goes to `answers`. The subscription ends with the sender that is returned.
    pub async fn subscribe(
        &self,
        request: bf::StreamMessageRequest,
        answers: mpsc::Sender<Result<bf::StreamMessageResponse, Status>>,
    ) -> mpsc::Sender<bf::StreamMessageRequest> {
        let (requests, outgoing) = mpsc::channel(4);
        requests.send(request).await.expect("open");
        let mut stream = self
            .client
            .clone()
            .stream_channel(ReceiverStream::new(outgoing))
            .await
            .expect("a stream")
            .into_inner();
        tokio::spawn(async move {
            while let Some(message) = stream.next().await {
                if answers.send(message).await.is_err() {
                    break;
                }
            }
        });
        requests
    }

    pub async fn write(&self, request: bf::WriteRequest) -> Result<(), Status> {
        let _turn = self.turn.lock().await;
        self.client.clone().write(request).await.map(|_| ())
    }

    /// What it reads, and how the read ended.
    pub async fn read(&self, request: bf::ReadRequest) -> (Vec<bf::Entity>, Result<(), Status>) {
        let _turn = self.turn.lock().await;
        let mut entities = Vec::new();
        let mut stream = match self.client.clone().read(request).await {
            Ok(stream) => stream.into_inner(),
            Err(e) => return (entities, Err(e)),
        };
        while let Some(response) = stream.next().await {
            match response {
                Ok(response) => entities.extend(response.entities),
                Err(e) => return (entities, Err(e)),
            }
        }
        (entities, Ok(()))
    }
}

/// Of each of so many updates whether it was taken, or what was said.
pub fn said(outcome: &Result<(), Status>, updates: usize) -> Vec<String> {
    let words = |(code, message): (Code, String)| match code {
        Code::Ok => "OK".into(),
        code => format!("{code:?}: {message}"),
    };
    codes(outcome, updates).into_iter().map(words).collect()
}

/// The code of each of `parts` parts of a request that ended so.
fn codes(outcome: &Result<(), Status>, parts: usize) -> Vec<(Code, String)> {
    let mut out = vec![(Code::Ok, String::new()); parts];
    let Err(status) = outcome else { return out };
    let whole = p4runtime_proto::google::rpc::Status::decode(status.details()).unwrap_or_default();
    if whole.details.is_empty() {
        return vec![(status.code(), status.message().to_owned()); parts];
    }
    for (part, detail) in out.iter_mut().zip(&whole.details) {
        let error = bf::Error::decode(detail.value.as_slice()).unwrap_or_default();
        *part = (error.canonical_code.into(), error.message);
    }
    out
}

/// What the driver does otherwise than the recorder with a Write.
pub fn written(tables: &Tables, updates: &[bf::Update], ours: &[String], its: &[String]) -> Vec<String> {
    let answers = ours.iter().zip(its);
    let differ = updates.iter().zip(answers).filter(|(_, (ours, its))| (*ours == "OK") != (*its == "OK"));
    differ
        .map(|(update, (ours, its))| {
            let name = match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
                Some(bf::entity::Entity::TableEntry(e)) => tables.0.get(&e.table_id).map_or("?", |t| &t.name),
                _ => "?",
            };
            format!("{name}: the driver says {its:?}, the recorder {ours:?}: {update:?}")
        })
        .collect()
}

pub fn table_entries(entities: &[bf::Entity]) -> impl Iterator<Item = &bf::TableEntry> {
    entities.iter().filter_map(|e| match e.entity.as_ref()? {
        bf::entity::Entity::TableEntry(e) => Some(e),
        bf::entity::Entity::TableOperation(_) => None,
    })
}

/// The driver has a group's nodes in an order of its own.
fn in_order(field: &bf::DataField) -> bf::DataField {
    let mut field = field.clone();
    if let Some(bf::data_field::Value::IntArrVal(all)) = &mut field.value {
        all.val.sort_unstable();
    }
    field
}

/// The table and the key of an entry; what is done where no entry matches has none.
fn place(tables: &Tables, e: &bf::TableEntry) -> (u32, Option<Vec<u64>>) {
    let key = match (&e.value, tables.0.get(&e.table_id)) {
        (Some(bf::table_entry::Value::Key(key)), Some(table)) => table.key(key).ok(),
        _ => None,
    };
    (e.table_id, key)
}

/// What a Read finds, and what is said of each part of it.
pub type Found<'a> = (&'a [bf::Entity], &'a [String]);

/// What the driver finds otherwise than the recorder, of the tables that a Read asked for.
pub fn read(
    tables: &Tables,
    held: &HashMap<u32, Entries>,
    asked: &[bf::Entity],
    ours: Found<'_>,
    its: Found<'_>,
) -> Vec<String> {
    let mut out = Vec::new();
    let by_place = |found| table_entries(found).map(|e| (place(tables, e), e)).collect::<HashMap<_, _>>();
    let (mine, theirs) = (by_place(ours.0), by_place(its.0));
    for (asked, (ours, its)) in table_entries(asked).zip(ours.1.iter().zip(its.1)) {
        let Some(table) = tables.0.get(&asked.table_id) else { continue };
        let (_, one) = place(tables, asked);
        let all = mine.keys().chain(theirs.keys()).filter(|(id, _)| *id == asked.table_id);
        let keys: BTreeSet<_> = match &one {
            Some(_) => [&one].into(),
            None => all.map(|(_, key)| key).collect(),
        };
        let is_held = |key: &Option<Vec<u64>>| {
            key.as_ref().is_some_and(|key| held.get(&asked.table_id).is_some_and(|all| all.contains_key(key)))
        };
        // Rows that are always there are as an earlier client left them, or as the chip counts.
        if !table.has_fixed_rows() && (ours == "OK") != (its == "OK") {
            out.push(format!("{}: {one:?}: the driver says {its:?}, the recorder {ours:?}", table.name));
        }
        for key in keys.into_iter().filter(|key| !table.has_fixed_rows() || is_held(key)) {
            let place = (asked.table_id, key.clone());
            let what = key.as_ref().map_or("the default entry".into(), |key| format!("{key:?}"));
            let (mine, theirs) = match (mine.get(&place), theirs.get(&place)) {
                (Some(mine), Some(theirs)) => (mine.data.as_ref(), theirs.data.as_ref()),
                (Some(_), None) => {
                    out.push(format!("{}: the driver does not have {what}", table.name));
                    continue;
                }
                (None, Some(_)) => {
                    out.push(format!("{}: only the driver has {what}", table.name));
                    continue;
                }
                (None, None) => continue,
            };
            if mine.map(|d| d.action_id) != theirs.map(|d| d.action_id) {
                out.push(format!("{}: {what}: the driver has {theirs:?} for {mine:?}", table.name));
            }
            for field in mine.into_iter().flat_map(|d| &d.fields) {
                let same = theirs.into_iter().flat_map(|d| &d.fields).find(|f| f.field_id == field.field_id);
                if same.map(in_order) != Some(in_order(field)) {
                    out.push(format!("{}: {what}: the driver has {same:?} for {field:?}", table.name));
                }
            }
        }
    }
    out
}
