//! The vendor's driver beside our recording server: each request goes to both, and where their answers differ, a problem is noted.

use super::check::Tables;
use super::held::{Entries, entity};
use super::server::PROGRAM;
use bf::bf_runtime_client::BfRuntimeClient;
use prost::Message;
use std::collections::{BTreeSet, HashMap};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};
use zsr_control_plane::bfrt::proto as bf;

/// A driver's BF Runtime server.
#[derive(Clone, Debug)]
pub struct Driver(BfRuntimeClient<Channel>);

impl Driver {
    /// Connects to `address`, such as `127.0.0.1:50052`.
    pub async fn connect(address: &str) -> Self {
        let endpoint =
            tonic::transport::Endpoint::from_shared(format!("http://{address}")).expect("an address");
        // The status of a failed Write names every update.
        let channel = endpoint.http2_max_header_list_size(4 << 20).connect().await;
        let channel = channel.unwrap_or_else(|e| panic!("no driver at {address}: {e}"));
        Driver(BfRuntimeClient::new(channel).max_decoding_message_size(64 << 20))
    }

    /// The tables of the program and of the driver: bf-rt.json of both.
    pub async fn files(&self) -> (String, String) {
        let request = bf::GetForwardingPipelineConfigRequest { device_id: 0, client_id: 1 };
        let answer =
            self.0.clone().get_forwarding_pipeline_config(request).await.expect("its program").into_inner();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let program = answer.config.into_iter().next().expect("a program");
        let driver = answer.non_p4_config.expect("the driver's own tables");
        (text(program.bfruntime_info), text(driver.bfruntime_info))
    }

    /// Takes away what is in these tables: a controller keeps what an earlier one has made of the chip.
    pub async fn empty(&self, tables: impl Iterator<Item = u32>) {
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
        let target = Some(bf::TargetDevice { device_id: 0, pipe_id: 0xffff, ..Default::default() });
        for table_id in tables {
            let all = vec![entity(bf::TableEntry { table_id, ..Default::default() })];
            let read = bf::ReadRequest { target, client_id: 1, entities: all, p4_name: PROGRAM.into() };
            let (held, _) = self.read(read).await;
            let gone = table_entries(&held).filter(|e| !e.is_default_entry).map(|e| bf::Update {
                r#type: bf::update::Type::Delete.into(),
                entity: Some(entity(bf::TableEntry { data: None, ..e.clone() })),
            });
            let write = bf::WriteRequest {
                target,
                client_id: 1,
                updates: gone.collect(),
                p4_name: PROGRAM.into(),
                ..Default::default()
            };
            // Entries that the program brings stay.
            let _ = self.write(write).await;
        }
        drop(open);
        // The driver ends the stream when it has noticed.
        while heard.recv().await.is_some() {}
    }

    pub async fn bind(&self, request: bf::SetForwardingPipelineConfigRequest) -> Result<(), Status> {
        self.0.clone().set_forwarding_pipeline_config(request).await.map(|_| ())
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
            .0
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
        self.0.clone().write(request).await.map(|_| ())
    }

    /// What it reads, and how the read ended.
    pub async fn read(&self, request: bf::ReadRequest) -> (Vec<bf::Entity>, Result<(), Status>) {
        let mut entities = Vec::new();
        let mut stream = match self.0.clone().read(request).await {
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
pub fn written(
    updates: &[bf::Update],
    tables: &Tables,
    ours: &Result<(), Status>,
    its: &Result<(), Status>,
) -> Vec<String> {
    let (ours, its) = (codes(ours, updates.len()), codes(its, updates.len()));
    let differ = updates
        .iter()
        .zip(ours.iter().zip(&its))
        .filter(|(_, (a, b))| (a.0 == Code::Ok) != (b.0 == Code::Ok));
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

/// What the driver holds otherwise than the recorder, of the tables that a Read asked for.
pub fn read(
    tables: &Tables,
    held: &HashMap<u32, Entries>,
    asked: &[bf::Entity],
    its: &[bf::Entity],
) -> Vec<String> {
    let mut out = Vec::new();
    let key = |e: &bf::TableEntry| match &e.value {
        Some(bf::table_entry::Value::Key(key)) => tables.0.get(&e.table_id)?.key(key).ok(),
        _ => None,
    };
    let mut of_tables = HashMap::<u32, HashMap<Vec<u64>, &bf::TableEntry>>::new();
    for e in table_entries(its).filter(|e| !e.is_default_entry) {
        if let Some(key) = key(e) {
            of_tables.entry(e.table_id).or_default().insert(key, e);
        }
    }
    let none = (Entries::new(), HashMap::new());
    for asked in table_entries(asked) {
        let Some(table) = tables.0.get(&asked.table_id) else { continue };
        let ours = held.get(&asked.table_id).unwrap_or(&none.0);
        let its = of_tables.get(&asked.table_id).unwrap_or(&none.1);
        let one = key(asked);
        let keys: BTreeSet<_> = match &one {
            Some(one) => [one].into(),
            None => ours.keys().chain(its.keys()).collect(),
        };
        for key in keys {
            let (mine, theirs) = match (ours.get(key), its.get(key)) {
                (Some((_, _, mine)), Some(theirs)) => (mine.data.as_ref(), theirs.data.as_ref()),
                (Some(_), None) => {
                    out.push(format!("{}: the driver does not have {key:?}", table.name));
                    continue;
                }
                (None, Some(_)) if !table.has_fixed_rows() => {
                    out.push(format!("{}: only the driver has {key:?}", table.name));
                    continue;
                }
                (None, _) => continue,
            };
            for field in mine.into_iter().flat_map(|d| &d.fields) {
                let same = theirs.into_iter().flat_map(|d| &d.fields).find(|f| f.field_id == field.field_id);
                if same.map(in_order) != Some(in_order(field)) {
                    out.push(format!("{}: {key:?}: the driver has {same:?} for {field:?}", table.name));
                }
            }
        }
    }
    out
}
