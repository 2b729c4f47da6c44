//! A BF Runtime server that records: it holds entries as a driver does, and notes whatever is wrong with a request. Of the data
//! plane it has the one thing that the controller waits for, the answer to EV_QUERY. With a driver beside it, the answers are the driver's, and
//! where its own differ is noted, too.

use super::beside::{self, Driver, EVERYWHERE};
use super::check::Tables;
use super::exchanges::Exchange;
use super::held::{State, entity};
use bf::bf_runtime_server::{BfRuntime, BfRuntimeServer};
use bf::data_field::Value;
use bf::table_entry::Value as Key;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use zsr_switch::bfrt::proto as bf;

/// Name of the program.
pub const PROGRAM: &str = "zsr";
/// The server, and the way to look into it.
#[derive(Clone, Debug)]
pub struct Recorder {
    state: Arc<Mutex<State>>,
    driver: Option<Driver>,
}

impl Recorder {
    /// With the tables of these two files.
    pub fn new(program: &str, driver: &str) -> Self {
        let json: serde_json::Value = serde_json::from_str(program).expect("JSON");
        let state = State {
            report: json["learn_filters"][0].clone(),
            tables: Tables::read(&[program, driver]),
            files: (program.into(), driver.into()),
            entries: HashMap::new(),
            problems: Vec::new(),
            room: None,
            updates: Vec::new(),
            packets: Vec::new(),
            one_shots: HashSet::new(),
            counted: HashMap::new(),
            fetched: Vec::new(),
            stream: None,
            bound: false,
            exchanges: None,
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
                t.of_program() && (t.has_actions() || t.is_value_set())
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
        // As a driver's: an answer in several segments waits for no acknowledgement.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(server.serve_with_incoming(incoming));
        address
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test has panicked in it")
    }

    /// The driver is started anew: its tables are empty.
    pub fn restart(&self) {
        self.state().entries.clear();
    }

    /// What the driver says to updates, in one Write, of a controller that is connected.
    pub async fn at_driver(&self, updates: Vec<bf::Update>) -> Vec<String> {
        let number = updates.len();
        let request = beside::writing(EVERYWHERE.pipe_id, updates);
        beside::said(&self.driver.as_ref().expect("a driver").write(request).await, number)
    }

    /// A row of a table whose rows are always there, as a Read finds it, by the names of its data.
    pub async fn row(&self, name: &str, key: u32) -> HashMap<String, Value> {
        let request = {
            let state = self.state();
            let (table_id, table) = state.tables.named(name).expect("a table");
            let asked =
                bf::TableEntry { table_id, value: Some(Key::Key(table.key_of(key))), ..Default::default() };
            beside::reading(vec![entity(asked)])
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
        let id = state.tables.named(name).map(|(id, _)| id);
        let entries = id.and_then(|id| state.entries.get(&id)).into_iter().flatten();
        entries.map(|(key, (action, data, _))| (key.clone(), action.clone(), data.clone())).collect()
    }
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
        // Only the driver knows how much room there is.
        let updates = request.updates;
        let [ours, said] = [&ours, &its].map(|outcome| beside::said(outcome, updates.len()));
        let full = updates.iter().zip(&said).filter(|(_, said)| said.starts_with("ResourceExhausted"));
        full.for_each(|(update, _)| state.forget(update));
        let differ = beside::written(&state.tables, &updates, &ours, &said);
        state.problems.extend(differ);
        let pipe = request.target.unwrap_or_default().pipe_id;
        state.note(Exchange::Write { pipe, updates, said });
        its.map(|()| Response::new(bf::WriteResponse::default()))
    }

    async fn read(&self, request: Request<bf::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let (mut entities, mut end) = self.state().read(&request);
        if let Some(driver) = &self.driver {
            let (found, its) = driver.read(request.clone()).await;
            let mut state = self.state();
            let asked = request.entities;
            let [ours, said] = [&end, &its].map(|outcome| beside::said(outcome, asked.len()));
            let differ =
                beside::read(&state.tables, &state.entries, &asked, (&entities, &ours), (&found, &said));
            state.problems.extend(differ);
            state.note(Exchange::Read { asked, found: found.clone(), said });
            (entities, end) = (found, its);
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
            self.state().note(Exchange::Comes);
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
                {
                    // Its forerunner's last requests may still come.
                    let mut state = own.state();
                    (state.stream, state.bound) = (Some(answers.clone()), false);
                }
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
                state.stream = None;
                state.note(Exchange::Goes);
            }
        });
        Ok(Response::new(ReceiverStream::new(out)))
    }
}
