//! A switch in its thread, a server on a free loopback port, and controllers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::stream_message_request::Update as Request;
use p4runtime_proto::p4::v1::stream_message_response::Update as Response;
use prost::Message;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use zsr_p4runtime_server::{P4RuntimeServer, ServeError, bind, empty_program};
use zsr_soft_switch::{Switch, SwitchConfig, SwitchHandle, control_queue};
use zsr_wire::frame::{Frame, FramePool};

pub const DEVICE: u64 = 7;

const JSON: &str = include_str!("../../../soft-switch/tests/programs/p4runtime.json");
const INFO: &str = include_str!("../../../soft-switch/tests/programs/p4runtime.p4info.txtpb");

pub fn p4info() -> P4Info {
    p4runtime_proto::p4info::parse(INFO).expect("the committed P4Info is whole")
}

pub fn config() -> pb::ForwardingPipelineConfig {
    let cookie = Some(pb::forwarding_pipeline_config::Cookie { cookie: 0xc0ffee });
    pb::ForwardingPipelineConfig { p4info: Some(p4info()), p4_device_config: JSON.into(), cookie }
}

/// Ids by name, from P4Info.
pub struct Ids(P4Info);

impl Ids {
    pub fn new() -> Self {
        Self(p4info())
    }

    pub fn table(&self, alias: &str) -> u32 {
        find(self.0.tables.iter().map(|object| &object.preamble), alias)
    }

    pub fn action(&self, alias: &str) -> u32 {
        find(self.0.actions.iter().map(|object| &object.preamble), alias)
    }

    pub fn profile(&self, alias: &str) -> u32 {
        find(self.0.action_profiles.iter().map(|object| &object.preamble), alias)
    }

    pub fn counter(&self, alias: &str) -> u32 {
        find(self.0.counters.iter().map(|object| &object.preamble), alias)
    }

    pub fn meter(&self, alias: &str) -> u32 {
        find(self.0.meters.iter().map(|object| &object.preamble), alias)
    }

    pub fn register(&self, alias: &str) -> u32 {
        find(self.0.registers.iter().map(|object| &object.preamble), alias)
    }

    pub fn value_set(&self, alias: &str) -> u32 {
        find(self.0.value_sets.iter().map(|object| &object.preamble), alias)
    }

    pub fn digest(&self, alias: &str) -> u32 {
        find(self.0.digests.iter().map(|object| &object.preamble), alias)
    }
}

fn find<'a>(
    mut preambles: impl Iterator<Item = &'a Option<p4runtime_proto::p4::config::v1::Preamble>>,
    alias: &str,
) -> u32 {
    let found = preambles.find_map(|preamble| preamble.as_ref().filter(|preamble| preamble.alias == alias));
    found.unwrap_or_else(|| panic!("P4Info has no '{alias}'")).id
}

/// The thread that owns the switch.
pub struct Owner {
    pub handle: SwitchHandle,
    /// Wakes when a call has been queued.
    pub called: Arc<Notify>,
    /// The time at which calls are carried out.
    clock: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    pub fn new() -> Self {
        let (give, taken) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let called = Arc::new(Notify::new());
        let call = called.clone();
        let clock = Arc::new(AtomicU64::new(0));
        let time = clock.clone();
        let thread = std::thread::spawn(move || {
            let me = std::thread::current();
            let (handle, queue) = control_queue(move || {
                me.unpark();
                call.notify_one();
            });
            give.send(handle).expect("the test waits");
            let program = empty_program().expect("the empty program loads");
            let mut switch = Switch::new(&program, SwitchConfig::default());
            while !stopped.load(Ordering::Acquire) {
                if queue.drain(&mut switch, time.load(Ordering::Acquire)) == 0 {
                    std::thread::park();
                }
            }
        });
        let handle = taken.recv().expect("the thread gives its handle");
        Self { handle, called, clock, stop, thread: Some(thread) }
    }

    /// Keeps the switch busy until what this returns is dropped.
    pub async fn hold(&self) -> std::sync::mpsc::Sender<()> {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (busy, is_busy) = oneshot::channel();
        let wait = move |_: &mut Switch| {
            let _ = busy.send(());
            let _ = released.recv();
        };
        drop(self.handle.call(wait));
        is_busy.await.expect("the switch runs");
        // The notification was this call's own.
        self.called.notified().await;
        release
    }

    /// Sends one frame in at a time, and returns what comes out.
    pub async fn inject(&self, now_ns: u64, port: u16, bytes: Vec<u8>) -> Vec<(u16, Vec<u8>)> {
        let process = move |switch: &mut Switch| {
            let (mut pool, mut out) = (FramePool::with_frames(4), Vec::new());
            let frame = Frame::copy_from(&bytes).expect("fits");
            switch.process(now_ns, port, frame, &mut pool, &mut out);
            switch.run_pending(now_ns, 64, &mut pool, &mut out);
            out.into_iter().map(|(port, frame)| (port, frame.bytes().to_vec())).collect()
        };
        self.handle.call(process).await.expect("the switch runs")
    }

    /// Lets time pass without anybody noticing.
    pub fn set_clock(&self, now_ns: u64) {
        self.clock.store(now_ns, Ordering::Release);
    }

    /// Lets time pass.
    pub async fn advance(&self, now_ns: u64) {
        self.set_clock(now_ns);
        let tick = move |switch: &mut Switch| {
            switch.fire_timers(now_ns, &mut FramePool::with_frames(1), &mut Vec::new());
        };
        self.handle.call(tick).await.expect("the switch runs");
    }

    /// Runs what packet-outs are queued.
    pub async fn run_pending(&self) -> Vec<(u16, Vec<u8>)> {
        let run = |switch: &mut Switch| {
            let (mut pool, mut out) = (FramePool::with_frames(4), Vec::new());
            switch.run_pending(1, 64, &mut pool, &mut out);
            out.into_iter().map(|(port, frame)| (port, frame.bytes().to_vec())).collect()
        };
        self.handle.call(run).await.expect("the switch runs")
    }

    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().expect("the owner ends cleanly");
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A switch and its server, running.
pub struct Rig {
    pub owner: Owner,
    pub address: std::net::SocketAddr,
    pub ids: Ids,
    shutdown: oneshot::Sender<()>,
    serving: tokio::task::JoinHandle<Result<(), ServeError>>,
}

impl Rig {
    /// Without a pipeline.
    pub async fn empty() -> Self {
        Self::of_device(DEVICE).await
    }

    /// A rig whose device has this number.
    pub async fn of_device(device: u64) -> Self {
        let owner = Owner::new();
        let listener = bind(([127, 0, 0, 1], 0).into()).await.expect("loopback has free ports");
        let address = listener.local_addr().expect("it is bound");
        let (shutdown, down) = oneshot::channel::<()>();
        let server = P4RuntimeServer::new(owner.handle.clone(), device);
        let serving = tokio::spawn(server.serve(listener, async {
            let _ = down.await;
        }));
        Self { owner, address, ids: Ids::new(), shutdown, serving }
    }

    /// With the pipeline of p4runtime.p4, and its primary controller.
    pub async fn new() -> (Self, Controller) {
        let rig = Self::empty().await;
        let mut controller = rig.primary().await;
        controller.commit(config()).await.expect("the pipeline is good");
        (rig, controller)
    }

    pub async fn client(&self) -> P4RuntimeClient<Channel> {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).expect("an address");
        // Statuses of big batches are big.
        let channel =
            endpoint.http2_max_header_list_size(1 << 20).connect().await.expect("the server listens");
        P4RuntimeClient::new(channel)
    }

    /// A controller that has opened its stream and sent nothing on it.
    pub async fn controller(&self) -> Controller {
        let mut client = self.client().await;
        let (requests, outgoing) = mpsc::channel(64);
        let stream = client.stream_channel(ReceiverStream::new(outgoing)).await.expect("a stream opens");
        Controller { client, requests, stream: stream.into_inner(), role: String::new(), election: None }
    }

    /// A controller with election id 1 that is primary.
    pub async fn primary(&self) -> Controller {
        let mut controller = self.controller().await;
        let status = controller.bid("", Some(1)).await;
        assert_eq!(status, Code::Ok);
        controller
    }

    /// Ends the server; fails if it leaves anything behind.
    pub async fn shut_down(mut self) {
        self.shutdown.send(()).expect("the server runs");
        self.serving.await.expect("the server does not panic").expect("the server ends well");
        self.owner.stop();
    }
}

/// One controller.
pub struct Controller {
    pub client: P4RuntimeClient<Channel>,
    pub requests: mpsc::Sender<pb::StreamMessageRequest>,
    pub stream: Streaming<pb::StreamMessageResponse>,
    pub role: String,
    pub election: Option<pb::Uint128>,
}

impl Controller {
    pub async fn send(&self, update: Request) {
        let request = pb::StreamMessageRequest { update: Some(update) };
        self.requests.send(request).await.expect("the stream is open");
    }

    /// The next message, or the status that ended the stream.
    pub async fn receive(&mut self) -> Result<Response, Status> {
        match self.stream.message().await? {
            Some(message) => Ok(message.update.expect("no empty messages")),
            None => Err(Status::ok("ended")),
        }
    }

    pub async fn arbitration(&mut self) -> pb::MasterArbitrationUpdate {
        match self.receive().await.expect("the stream is open") {
            Response::Arbitration(update) => update,
            other => panic!("expected arbitration, got {other:?}"),
        }
    }

    /// Sends a bid.
    pub async fn offer(&mut self, role: &str, election: Option<u64>) {
        self.role = role.to_owned();
        self.election = election.map(|low| pb::Uint128 { high: 0, low });
        let role = (!role.is_empty()).then(|| pb::Role { name: role.to_owned(), ..pb::Role::default() });
        let bid =
            pb::MasterArbitrationUpdate { device_id: DEVICE, role, election_id: self.election, status: None };
        self.send(Request::Arbitration(bid)).await;
    }

    /// Sends a bid and returns the status of the answer.
    pub async fn bid(&mut self, role: &str, election: Option<u64>) -> Code {
        self.offer(role, election).await;
        status_of(&self.arbitration().await)
    }

    pub async fn set_pipeline(
        &mut self,
        action: pb::set_forwarding_pipeline_config_request::Action,
        config: Option<pb::ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = pb::SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            role: self.role.clone(),
            election_id: self.election,
            action: action as i32,
            config,
            ..Default::default()
        };
        self.client.set_forwarding_pipeline_config(request).await.map(|_| ())
    }

    pub async fn commit(&mut self, config: pb::ForwardingPipelineConfig) -> Result<(), Status> {
        use pb::set_forwarding_pipeline_config_request::Action;
        self.set_pipeline(Action::VerifyAndCommit, Some(config)).await
    }

    pub async fn write_batch(
        &mut self,
        updates: Vec<pb::Update>,
        atomicity: pb::write_request::Atomicity,
    ) -> Result<(), Status> {
        let request = pb::WriteRequest {
            device_id: DEVICE,
            role: self.role.clone(),
            election_id: self.election,
            updates,
            atomicity: atomicity as i32,
            ..Default::default()
        };
        self.client.write(request).await.map(|_| ())
    }

    /// One update; its own error, if any.
    pub async fn write(&mut self, kind: pb::update::Type, entity: Entity) -> Result<(), pb::Error> {
        let updates = vec![update(kind, entity)];
        match self.write_batch(updates, pb::write_request::Atomicity::ContinueOnError).await {
            Ok(()) => Ok(()),
            Err(status) => Err(errors(&status).remove(0)),
        }
    }

    pub async fn insert(&mut self, entity: Entity) -> Result<(), pb::Error> {
        self.write(pb::update::Type::Insert, entity).await
    }

    pub async fn modify(&mut self, entity: Entity) -> Result<(), pb::Error> {
        self.write(pb::update::Type::Modify, entity).await
    }

    pub async fn delete(&mut self, entity: Entity) -> Result<(), pb::Error> {
        self.write(pb::update::Type::Delete, entity).await
    }

    /// All entities that one request gives, and the status at the end.
    pub async fn try_read(&mut self, entity: Entity) -> (Vec<Entity>, Result<(), Status>) {
        let entities = vec![pb::Entity { entity: Some(entity) }];
        let request = pb::ReadRequest { device_id: DEVICE, entities, ..Default::default() };
        let mut responses = match self.client.read(request).await {
            Ok(responses) => responses.into_inner(),
            Err(status) => return (Vec::new(), Err(status)),
        };
        let mut entities = Vec::new();
        loop {
            match responses.message().await {
                Ok(Some(response)) => entities.extend(response.entities.into_iter().filter_map(|e| e.entity)),
                Ok(None) => return (entities, Ok(())),
                Err(status) => return (entities, Err(status)),
            }
        }
    }

    pub async fn read(&mut self, entity: Entity) -> Vec<Entity> {
        let (entities, status) = self.try_read(entity).await;
        status.expect("the read is legal");
        entities
    }

    /// The error that a read gives.
    pub async fn read_error(&mut self, entity: Entity) -> pb::Error {
        let (_, status) = self.try_read(entity).await;
        errors(&status.expect_err("the read is illegal")).remove(0)
    }
}

pub fn update(kind: pb::update::Type, entity: Entity) -> pb::Update {
    pb::Update { r#type: kind as i32, entity: Some(pb::Entity { entity: Some(entity) }) }
}

pub fn status_of(update: &pb::MasterArbitrationUpdate) -> Code {
    Code::from_i32(update.status.as_ref().expect("the switch sets a status").code)
}

/// The p4.v1.Errors in a batch's status.
pub fn errors(status: &Status) -> Vec<pb::Error> {
    assert_eq!(status.code(), Code::Unknown, "{status:?}");
    let details = rpc::Status::decode(status.details()).expect("details are a google.rpc.Status");
    assert_eq!((details.code, details.message.as_str()), (Code::Unknown as i32, status.message()));
    let decode = |any: &prost_types::Any| {
        assert_eq!(any.type_url, "type.googleapis.com/p4.v1.Error");
        pb::Error::decode(&any.value[..]).expect("a p4.v1.Error")
    };
    details.details.iter().map(decode).collect()
}

pub fn code(outcome: Result<(), pb::Error>) -> Code {
    outcome.map_or_else(|error| Code::from_i32(error.canonical_code), |()| Code::Ok)
}

pub fn exact(field_id: u32, value: &[u8]) -> pb::FieldMatch {
    use pb::field_match::{Exact, FieldMatchType};
    pb::FieldMatch {
        field_id,
        field_match_type: Some(FieldMatchType::Exact(Exact { value: value.to_vec() })),
    }
}

pub fn lpm(field_id: u32, value: &[u8], prefix_len: i32) -> pb::FieldMatch {
    use pb::field_match::{FieldMatchType, Lpm};
    let lpm = FieldMatchType::Lpm(Lpm { value: value.to_vec(), prefix_len });
    pb::FieldMatch { field_id, field_match_type: Some(lpm) }
}

pub fn ternary(field_id: u32, value: &[u8], mask: &[u8]) -> pb::FieldMatch {
    use pb::field_match::{FieldMatchType, Ternary};
    let ternary = FieldMatchType::Ternary(Ternary { value: value.to_vec(), mask: mask.to_vec() });
    pb::FieldMatch { field_id, field_match_type: Some(ternary) }
}

pub fn range(field_id: u32, low: &[u8], high: &[u8]) -> pb::FieldMatch {
    use pb::field_match::{FieldMatchType, Range};
    let range = FieldMatchType::Range(Range { low: low.to_vec(), high: high.to_vec() });
    pb::FieldMatch { field_id, field_match_type: Some(range) }
}

pub fn optional(field_id: u32, value: &[u8]) -> pb::FieldMatch {
    use pb::field_match::{FieldMatchType, Optional};
    let optional = FieldMatchType::Optional(Optional { value: value.to_vec() });
    pb::FieldMatch { field_id, field_match_type: Some(optional) }
}

pub fn action(action_id: u32, values: &[&[u8]]) -> pb::Action {
    let param = |(index, value): (usize, &&[u8])| pb::action::Param {
        param_id: index as u32 + 1,
        value: value.to_vec(),
    };
    pb::Action { action_id, params: values.iter().enumerate().map(param).collect() }
}

pub fn direct(action: pb::Action) -> Option<pb::TableAction> {
    Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(action)) })
}

pub fn as_member(id: u32) -> Option<pb::TableAction> {
    Some(pb::TableAction { r#type: Some(pb::table_action::Type::ActionProfileMemberId(id)) })
}

pub fn as_group(id: u32) -> Option<pb::TableAction> {
    Some(pb::TableAction { r#type: Some(pb::table_action::Type::ActionProfileGroupId(id)) })
}

pub fn table_entry(entry: pb::TableEntry) -> Entity {
    Entity::TableEntry(entry)
}

/// Ethernet of the program's headers, padded to 60 bytes.
pub fn ethernet(dst: u64, src: u64, kind: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend_from_slice(&dst.to_be_bytes()[2..]);
    frame.extend_from_slice(&src.to_be_bytes()[2..]);
    frame.extend_from_slice(&kind.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Ethernet with IPv4 in it.
pub fn ipv4(dst_mac: u64, src: u32, dst: u32) -> Vec<u8> {
    let mut frame = ethernet(dst_mac, 2, 0x0800);
    frame[14] = 0x45;
    frame[22] = 64;
    frame[26..30].copy_from_slice(&src.to_be_bytes());
    frame[30..34].copy_from_slice(&dst.to_be_bytes());
    frame
}
