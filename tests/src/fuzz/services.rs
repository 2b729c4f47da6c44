//! Messages of clients to controller, agents and switch: any bytes, through gRPC, into the services that users run. The
//! system behind them is whole, and runs in virtual time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::{Address, p4::v1 as pb};
use prost::bytes::{Buf, BufMut};
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{StdError, http};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use zsr_api::controller as proto;
use zsr_api::controller::controller_server::ControllerServer;
use zsr_controller::Controller;
use zsr_simnet::LinkConfig;
use zsr_tls::rights::CALLS;

use crate::controlled::{Controlled, Task};

pub(super) const CONTROLLER: &str = "zsr.controller.v1.Controller";
pub(super) const AGENT: &str = "zsr.agent.v1.Agent";
pub(super) const P4RUNTIME: &str = "p4.v1.P4Runtime";

/// Virtual time that a call may take. Some calls wait by design: a barrier, a member that leaves, a watch of events.
const PATIENCE: Duration = Duration::from_millis(20);
/// Virtual time in which all waiting calls have to be over, or given back.
const LIMIT: Duration = Duration::from_secs(60);
/// Inputs that one system gets.
const INPUTS: u32 = 500;

/// The calls of a service, in an order that stays.
pub(super) fn calls(service: &str) -> Vec<&'static str> {
    CALLS.iter().filter(|(s, ..)| *s == service).map(|(_, call, _)| *call).collect()
}

/// The calls in an input: number of the call (a byte), length (two bytes, the least first), message.
fn script(service: &str, mut bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let calls = calls(service);
    let mut said = Vec::new();
    while let [call, low, high, rest @ ..] = bytes {
        let (message, behind) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([*low, *high]))));
        said.push((calls[usize::from(*call) % calls.len()], message.to_vec()));
        bytes = behind;
    }
    // More of them show nothing new, and take long.
    said.truncate(16);
    said
}

/// Messages as raw bytes.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

/// Makes a call of one message, of any kind; returns the bytes of all answers.
async fn say<S>(to: S, service: &str, call: &str, message: Vec<u8>) -> Result<usize, Status>
where
    S: GrpcService<Body>,
    S::ResponseBody: tonic::codegen::Body + Send + 'static,
    <S::ResponseBody as tonic::codegen::Body>::Error: Into<StdError> + Send,
{
    let mut grpc = Grpc::new(to).max_decoding_message_size(usize::MAX);
    grpc.ready().await.map_err(|_| Status::unavailable("nobody serves"))?;
    let path = http::uri::PathAndQuery::try_from(format!("/{service}/{call}")).expect("a path");
    let request = Request::new(tokio_stream::once(message));
    let mut answers = grpc.streaming(request, path, Raw).await?.into_inner();
    let mut said = 0;
    while let Some(answer) = answers.next().await {
        said += answer?.len();
    }
    Ok(said)
}

/// Lets virtual time pass until a task is done, or the time is over.
fn wait<R>(sim: &mut Controlled, task: Task<R>, time: Duration) -> Option<R> {
    let end = sim.net.now() + time.as_nanos() as u64;
    while !task.is_finished() && sim.net.now() < end {
        sim.run_for(Duration::from_micros(20));
    }
    if task.is_finished() {
        return sim.result(task);
    }
    task.abort();
    None
}

/// Checks that a refusal has a reason; one that says that something inside has ended early is a failure.
fn judge(call: &str, said: &Result<usize, Status>) {
    if let Err(status) = said {
        let text = status.message();
        assert!(!text.is_empty(), "{call}: {:?} without a word", status.code());
        let undecoded = text.starts_with("failed to decode");
        assert!(status.code() != Code::Internal || undecoded, "{call}: {status}");
    }
}

/// Runs `entry` with the thread's system of this kind, which it may give up.
fn with<T: 'static>(
    held: &'static std::thread::LocalKey<RefCell<Option<(T, u32)>>>,
    make: impl FnOnce() -> T,
    entry: impl FnOnce(&mut T) -> bool,
) {
    held.with_borrow_mut(|held| {
        let (mut system, inputs) = held.take().unwrap_or_else(|| (make(), 0));
        if entry(&mut system) && inputs < INPUTS {
            *held = Some((system, inputs + 1));
        }
    });
}

/// A system of three hosts, and the entries of its switch without flows.
struct Commanded {
    sim: Controlled,
    controller: Controller,
    empty: BTreeMap<String, usize>,
}

thread_local! {
    /// As long as the program is loaded, systems are made in a fraction of the time.
    static PROGRAMS: [zsr_soft_switch::Program; 2] = crate::controlled::load();
}

/// Keeps the program loaded.
pub(super) fn keep_program() {
    PROGRAMS.with(|_| ());
}

impl Commanded {
    fn new() -> Commanded {
        keep_program();
        let mut sim = Controlled::new("hosts: [h1, h2, h3]\nflows: []\n", LinkConfig::FAST, 1);
        let controller = sim.controller(None).expect("a controller");
        let empty = sim.switch_holds(0);
        Commanded { sim, controller, empty }
    }

    /// Carries out the calls in `bytes`; returns whether the system can take more.
    fn take(&mut self, bytes: &[u8]) -> bool {
        for (call, message) in script(CONTROLLER, bytes) {
            let to = ControllerServer::new(self.controller.clone());
            let task = self.sim.begin(say(to, CONTROLLER, call, message)).expect("a controller");
            let Some(said) = wait(&mut self.sim, task, PATIENCE) else { continue };
            judge(call, &said);
            if call == "Shutdown" && said.is_ok() {
                return false;
            }
        }
        self.all_is_given_back();
        true
    }

    /// Checks that, after any calls, every flow can be deleted, and that nothing is left of any.
    fn all_is_given_back(&mut self) {
        let end = self.sim.net.now() + LIMIT.as_nanos() as u64;
        loop {
            for flow in self.controller.list_flows() {
                let controller = self.controller.clone();
                let deletion = async move { controller.delete_flow(&flow.name, true).await };
                let task = self.sim.begin(deletion).expect("a controller");
                // A deletion that is under way already is refused.
                wait(&mut self.sim, task, LIMIT);
            }
            let left = (self.controller.list_flows().len(), self.sim.hosts_hold(), self.sim.switch_holds(0));
            if left.0 == 0 && left.1.is_none() && left.2 == self.empty {
                return;
            }
            assert!(self.sim.net.now() < end, "left behind: {left:?}");
            self.sim.run_for(Duration::from_millis(1));
        }
    }
}

/// Messages of clients to the controller. The controller refuses with words, or does it. Afterwards every flow can be
/// deleted, and agents and switch hold nothing more.
pub fn controller(bytes: &[u8]) {
    thread_local!(static HELD: RefCell<Option<(Commanded, u32)>> = const { RefCell::new(None) });
    with(&HELD, Commanded::new, |system| system.take(bytes));
}

/// Messages to an agent from a client that passes for a controller. The agent refuses with words, or does it.
/// Afterwards every ring can be destroyed, and the NIC holds nothing more.
pub fn agent(bytes: &[u8]) {
    thread_local!(static HELD: RefCell<Option<((Controlled, Channel), u32)>> = const { RefCell::new(None) });
    let make = || {
        let mut sim = Controlled::new("hosts: [h1, h2]\nflows: []\n", LinkConfig::FAST, 1);
        let address = Address::from(sim.agent_place(0));
        let connecting = sim.outside(async move { address.connect(|endpoint| endpoint).await });
        let channel = wait(&mut sim, connecting, LIMIT).expect("it answers").expect("an agent");
        (sim, channel)
    };
    with(&HELD, make, |(sim, channel)| {
        for (call, message) in script(AGENT, bytes) {
            let task = sim.outside(say(channel.clone(), AGENT, call, message));
            match wait(sim, task, PATIENCE) {
                Some(said) => judge(call, &said),
                None => assert_eq!(call, "WatchEvents", "an answer comes"),
            }
        }
        let agent = sim.agents[0].clone();
        for ring in agent.rings().expect("a NIC") {
            agent.destroy_ring(&ring.name).expect("whatever it is");
        }
        assert_eq!(sim.hosts_hold(), None);
        true
    });
}

const DEVICE: u64 = 1;

/// A switch with a program, whose primary is the first client.
struct Programmed {
    sim: Controlled,
    channel: Channel,
    /// Ends the primary's session when it goes.
    _primary: tokio::sync::mpsc::Sender<pb::StreamMessageRequest>,
}

impl Programmed {
    fn new() -> Programmed {
        let mut sim = Controlled::new("hosts: [h1, h2]\nflows: []\n", LinkConfig::FAST, 1);
        let address = Address::from(sim.p4runtime_place());
        let (primary, said) = tokio::sync::mpsc::channel(4);
        let request = pb::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
        let config = pb::SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            action: request.into(),
            config: Some(super::seeds::pipeline()),
            ..Default::default()
        };
        let arbitration = super::seeds::arbitration(ELECTION);
        let begin = primary.clone();
        let beginning = sim.outside(async move {
            let channel = address.connect(|endpoint| endpoint).await.expect("a switch");
            let mut client = P4RuntimeClient::new(channel.clone());
            begin.send(arbitration).await.expect("somebody listens");
            let said = tokio_stream::wrappers::ReceiverStream::new(said);
            let mut answers = client.stream_channel(said).await.expect("a stream").into_inner();
            answers.message().await.expect("an answer").expect("a primary");
            // The answers are not read, as by a client that is too slow.
            tokio::spawn(async move { while let Ok(Some(_)) = answers.message().await {} });
            client.set_forwarding_pipeline_config(config).await.expect("a sound program");
            channel
        });
        let channel = wait(&mut sim, beginning, LIMIT).expect("it answers");
        Programmed { sim, channel, _primary: primary }
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        let (mut renewed, mut sessions) = (false, false);
        for (call, message) in script(P4RUNTIME, bytes) {
            let task = self.sim.outside(say(self.channel.clone(), P4RUNTIME, call, message));
            let said = wait(&mut self.sim, task, LIMIT).expect("an answer comes");
            judge(call, &said);
            renewed |= call.starts_with("Set") && said.is_ok();
            sessions |= call == "StreamChannel";
        }
        if renewed {
            return false;
        }
        match self.serves() {
            // Somebody with a higher number was the primary, and has gone.
            Err(status) if sessions && status.code() == Code::PermissionDenied => false,
            found => {
                assert_eq!(found.map_err(|status| status.to_string()), Ok(1), "what was written is read");
                true
            }
        }
    }

    /// Whether the primary can write and read.
    fn serves(&mut self) -> Result<usize, Status> {
        let mut client = P4RuntimeClient::new(self.channel.clone());
        let task = self.sim.outside(async move {
            let group = |kind: pb::update::Type| super::seeds::write(kind, super::seeds::group(0x7777));
            // The group may exist.
            let _ = client.write(group(pb::update::Type::Delete)).await;
            client.write(group(pb::update::Type::Insert)).await?;
            let mut read = client.read(super::seeds::read(super::seeds::group(0x7777))).await?.into_inner();
            let mut found = 0;
            while let Some(answer) = read.message().await? {
                found += answer.entities.len();
            }
            client.write(group(pb::update::Type::Delete)).await?;
            Ok::<usize, Status>(found)
        });
        wait(&mut self.sim, task, LIMIT).expect("an answer comes")
    }
}

/// The election id of the primary.
pub(super) const ELECTION: pb::Uint128 = pb::Uint128 { high: 0, low: 1 };

/// Messages of clients to the switch's P4Runtime server. The server refuses with words, or does it; the primary goes on
/// writing and reading.
pub fn p4runtime(bytes: &[u8]) {
    thread_local!(static HELD: RefCell<Option<(Programmed, u32)>> = const { RefCell::new(None) });
    with(&HELD, Programmed::new, |system| system.take(bytes));
}

/// An input that makes these calls.
pub(super) fn script_of(service: &str, said: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let calls = calls(service);
    let one = |(call, message): &(&str, Vec<u8>)| {
        let number = calls.iter().position(|c| c == call).expect("a call of the service") as u8;
        let len = u16::try_from(message.len()).expect("a short message").to_le_bytes();
        [&[number], &len[..], message].concat()
    };
    said.iter().flat_map(one).collect()
}

/// A member on a host.
pub(super) fn member(host: &str) -> Vec<proto::Member> {
    vec![proto::Member { host: host.into(), ..Default::default() }]
}
