//! A switch, reached through P4Runtime and nothing else.

use super::given_up::GivenUp;
use crate::patience::within;
use p4runtime_proto::Address;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as rt;
use rt::p4_runtime_client::P4RuntimeClient;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use zsr_plan::dataplane::ticks::TimerPacket;
use zsr_plan::error::{ControllerError, ErrorKind};

/// Updates in one Write request: large enough to amortize the round trip, small enough for gRPC's message limit.
const UPDATES_PER_WRITE: usize = 1024;
/// The status of a failed Write travels in a header and names every update.
const MAX_STATUS: u32 = 4 << 20;
/// How long the switch may take for a Write.
const ANSWER: Duration = Duration::from_secs(30);
/// bmv2 JSON of big programs exceeds gRPC's default of 4 MiB.
const MAX_MESSAGE: usize = 64 << 20;

/// An error between the controller and a switch.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection.
    #[error("switch `{switch}` at {address}: cannot connect: {reason}")]
    Connect {
        /// Name of the switch.
        switch: String,
        /// The server's expected address.
        address: Address,
        /// The reason.
        reason: String,
        /// Whether nobody listens there, so that the server's process is not there.
        nobody: bool,
    },
    /// Another controller is primary.
    #[error(
        "switch `{switch}`: another controller holds election id {held} or a higher one than ours ({ours}); stop it first"
    )]
    NotPrimary {
        /// Name of the switch.
        switch: String,
        /// The highest election id that the switch has seen.
        held: u128,
        /// Our election id.
        ours: u128,
        /// Whether the holder of that id has gone, so that a higher one is primary at once.
        vacant: bool,
    },
    /// The server refused a request.
    #[error("switch `{switch}`: {what}: {message}")]
    Refused {
        /// Name of the switch.
        switch: String,
        /// The request.
        what: String,
        /// The server's words, with the first failing update.
        message: String,
    },
    /// The server has ended the session, since its process ends.
    #[error("switch `{switch}`: {message}")]
    ShuttingDown {
        /// Name of the switch.
        switch: String,
        /// The server's words.
        message: String,
    },
    /// No answer in time.
    #[error("switch `{switch}`: it did not answer within {seconds} s")]
    Silent {
        /// Name of the switch.
        switch: String,
        /// How long the answer was waited for.
        seconds: u64,
    },
    /// The switch's program is not one for this controller.
    #[error("switch `{switch}`: {why}")]
    Program {
        /// Name of the switch.
        switch: String,
        /// The mismatch.
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The stream ended.
    #[error("switch `{switch}`: the connection is lost")]
    Lost {
        /// Name of the switch.
        switch: String,
    },
}

impl From<ClientError> for ControllerError {
    fn from(e: ClientError) -> Self {
        ControllerError::new(ErrorKind::Unavailable, e.to_string())
    }
}

/// A P4Runtime session as primary controller.
pub struct P4RuntimeSession {
    pub(crate) name: String,
    pub(super) device_id: u64,
    election_id: u128,
    pub(super) rpc: P4RuntimeClient<Channel>,
    pub(super) given_up: GivenUp,
    requests: mpsc::Sender<rt::StreamMessageRequest>,
    responses: Option<tonic::Streaming<rt::StreamMessageResponse>>,
}

/// Digest messages of one switch, as they come.
pub struct P4RuntimeDigests {
    name: String,
    election_id: u128,
    requests: mpsc::Sender<rt::StreamMessageRequest>,
    responses: tonic::Streaming<rt::StreamMessageResponse>,
}

impl P4RuntimeSession {
    /// Connects to switch `name` and becomes its primary controller.
    pub async fn connect(
        name: &str,
        address: impl Into<Address>,
        device_id: u64,
        election_id: u128,
    ) -> Result<Self, ClientError> {
        let address = address.into();
        let fail = |reason: String| ClientError::connect(name, &address, reason);
        let channel = address.connect(|endpoint| endpoint.http2_max_header_list_size(MAX_STATUS)).await;
        let channel = channel.map_err(|e| ClientError::no_connection(name, &address, &e))?;
        let mut rpc = P4RuntimeClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let (requests, outgoing) = mpsc::channel(64);
        let hello = rt::StreamMessageRequest {
            update: Some(rt::stream_message_request::Update::Arbitration(rt::MasterArbitrationUpdate {
                device_id,
                election_id: Some(uint128(election_id)),
                ..Default::default()
            })),
        };
        requests.send(hello).await.map_err(|e| fail(e.to_string()))?;
        let refused = |e: tonic::Status| match e.message().to_lowercase().contains("election id") {
            // No two clients may have the same id.
            true => ClientError::NotPrimary {
                switch: name.into(),
                held: election_id,
                ours: election_id,
                vacant: false,
            },
            // The other client has gone again.
            false if matches!(e.code(), tonic::Code::Unavailable | tonic::Code::Unknown) => {
                fail(e.message().into())
            }
            false => ClientError::Refused {
                switch: name.into(),
                what: "opening the stream".into(),
                message: e.message().into(),
            },
        };
        let mut responses =
            rpc.stream_channel(ReceiverStream::new(outgoing)).await.map_err(refused)?.into_inner();
        while let Some(message) = responses.next().await {
            let Some(rt::stream_message_response::Update::Arbitration(a)) = message.map_err(refused)?.update
            else {
                continue;
            };
            if let Some(lost) = not_primary(name, election_id, &a) {
                return Err(lost);
            }
            return Ok(P4RuntimeSession {
                name: name.into(),
                device_id,
                election_id,
                rpc,
                given_up: GivenUp::new(),
                requests,
                responses: Some(responses),
            });
        }
        Err(ClientError::Lost { switch: name.into() })
    }

    /// Gives the switch its program; it starts with empty tables. The switch returns `cookie` when it is asked for its
    /// pipeline.
    pub async fn set_pipeline(
        &mut self,
        info: &P4Info,
        json: &[u8],
        cookie: Option<u64>,
    ) -> Result<(), ClientError> {
        let request = rt::SetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            election_id: Some(uint128(self.election_id)),
            action: rt::set_forwarding_pipeline_config_request::Action::VerifyAndCommit as i32,
            config: Some(rt::ForwardingPipelineConfig {
                p4info: Some(info.clone()),
                p4_device_config: json.to_vec(),
                cookie: cookie.map(|cookie| rt::forwarding_pipeline_config::Cookie { cookie }),
            }),
            ..Default::default()
        };
        let result = self.rpc.set_forwarding_pipeline_config(request).await;
        result.map(|_| ()).map_err(|e| self.refused("loading the P4 program", &e))
    }

    /// Has the switch send messages of digest `digest_id`, each at once, in place of earlier settings.
    pub async fn enable_digest(&mut self, digest_id: u32) -> Result<(), ClientError> {
        let config = rt::digest_entry::Config { max_timeout_ns: 0, max_list_size: 1, ack_timeout_ns: 0 };
        let entity = rt::entity::Entity::DigestEntry(rt::DigestEntry { digest_id, config: Some(config) });
        let entity = Some(rt::Entity { entity: Some(entity) });
        let update = |kind: rt::update::Type| rt::Update { r#type: kind.into(), entity: entity.clone() };
        match self.update([update(rt::update::Type::Insert)].into_iter()).await {
            // The digest is enabled already.
            Err(ClientError::Refused { .. }) => {
                self.update([update(rt::update::Type::Modify)].into_iter()).await
            }
            done => done,
        }
    }

    /// Makes `updates`, in order as far as the switch keeps it within a request.
    pub async fn update(&mut self, updates: impl Iterator<Item = rt::Update>) -> Result<(), ClientError> {
        let mut updates = updates.peekable();
        while updates.peek().is_some() {
            let request = rt::WriteRequest {
                device_id: self.device_id,
                election_id: Some(uint128(self.election_id)),
                updates: updates.by_ref().take(UPDATES_PER_WRITE).collect(),
                ..Default::default()
            };
            // Nobody knows how many of the updates have happened.
            let silent = |_| ClientError::Silent { switch: self.name.clone(), seconds: ANSWER.as_secs() };
            let answer = within(ANSWER, self.rpc.write(request));
            let result = self.given_up.unless(&self.name, answer).await?.map_err(silent)?;
            result.map_err(|e| self.refused("writing table entries", &e))?;
        }
        Ok(())
    }

    /// Has the switch take `packet` as if it came in at its CPU port.
    pub async fn packet_out(&mut self, payload: Vec<u8>) -> Result<(), ClientError> {
        let lost = |_| ClientError::Lost { switch: self.name.clone() };
        self.requests.send(packet_message(payload)).await.map_err(lost)
    }

    /// Ends the session, if nobody holds its digests: later requests are refused.
    pub fn hang_up(&mut self) {
        // Nobody receives, as after the end of the stream.
        self.requests = mpsc::channel(1).0;
        self.responses = None;
    }

    /// Sends timer packets by itself, for a switch that makes none, as long as the session lasts.
    pub(crate) fn send_timers(&self, timers: Vec<TimerPacket>) {
        for TimerPacket { every, packet } in timers {
            let requests = self.requests.clone().downgrade();
            tokio::spawn(async move {
                let mut ticks = tokio::time::interval(every);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    let Some(requests) = requests.upgrade() else { return };
                    if requests.send(packet_message(packet.clone())).await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    /// The digest messages from now on; `None` if somebody has them already.
    pub fn digests(&mut self) -> Option<P4RuntimeDigests> {
        let responses = self.responses.take()?;
        let (name, election_id) = (self.name.clone(), self.election_id);
        Some(P4RuntimeDigests { name, election_id, requests: self.requests.clone(), responses })
    }

    fn refused(&self, what: &str, status: &tonic::Status) -> ClientError {
        ClientError::Refused { switch: self.name.clone(), what: what.into(), message: explain(status) }
    }
}

fn packet_message(payload: Vec<u8>) -> rt::StreamMessageRequest {
    let packet = rt::PacketOut { payload, metadata: Vec::new() };
    rt::StreamMessageRequest { update: Some(rt::stream_message_request::Update::Packet(packet)) }
}

impl P4RuntimeDigests {
    /// The next digest list: its messages, each a list of field values.
    ///
    /// # Errors
    /// The session is over, or another controller is primary.
    pub async fn next(&mut self) -> Result<Vec<Vec<u64>>, ClientError> {
        while let Some(message) = self.responses.next().await {
            let message = message.map_err(|e| {
                let (switch, message) = (self.name.clone(), explain(&e));
                match e.code() {
                    // A connection that broke has a source error.
                    tonic::Code::Unavailable if std::error::Error::source(&e).is_none() => {
                        ClientError::ShuttingDown { switch, message }
                    }
                    _ => ClientError::Refused { switch, what: "the stream".into(), message },
                }
            })?;
            let list = match message.update {
                Some(rt::stream_message_response::Update::Digest(list)) => list,
                Some(rt::stream_message_response::Update::Arbitration(a)) => {
                    match not_primary(&self.name, self.election_id, &a) {
                        Some(lost) => return Err(lost),
                        None => continue,
                    }
                }
                _ => continue,
            };
            let ack = rt::StreamMessageRequest {
                update: Some(rt::stream_message_request::Update::DigestAck(rt::DigestListAck {
                    digest_id: list.digest_id,
                    list_id: list.list_id,
                })),
            };
            let lost = || ClientError::Lost { switch: self.name.clone() };
            self.requests.send(ack).await.map_err(|_| lost())?;
            return Ok(list.data.iter().map(fields).collect());
        }
        Err(ClientError::Lost { switch: self.name.clone() })
    }
}

fn uint128(id: u128) -> rt::Uint128 {
    rt::Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

/// The error in an arbitration message, unless the message says that we are primary.
fn not_primary(switch: &str, ours: u128, said: &rt::MasterArbitrationUpdate) -> Option<ClientError> {
    let status = said.status.as_ref().filter(|s| s.code != tonic::Code::Ok as i32)?;
    let held = said.election_id.as_ref().map_or(0, |id| u128::from(id.high) << 64 | u128::from(id.low));
    let vacant = status.code == tonic::Code::NotFound as i32;
    Some(ClientError::NotPrimary { switch: switch.into(), held, ours, vacant })
}

impl ClientError {
    /// An error about the connection, in the caller's words.
    pub(crate) fn connect(switch: &str, address: &Address, reason: String) -> Self {
        ClientError::Connect { switch: switch.into(), address: address.clone(), reason, nobody: false }
    }

    /// An error about the connection, in the transport's words.
    pub(crate) fn no_connection(switch: &str, address: &Address, e: &tonic::transport::Error) -> Self {
        let mut source = std::error::Error::source(e);
        let mut nobody = false;
        while let Some(e) = source {
            let kind = e.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            nobody |=
                matches!(kind, Some(std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound));
            source = e.source();
        }
        let (switch, address) = (switch.to_owned(), address.clone());
        ClientError::Connect { switch, address, reason: chain(e), nobody }
    }
}

/// The status' message, and the first update that failed.
pub(super) fn explain(status: &tonic::Status) -> String {
    use prost::Message;
    let mut text = status.message().to_string();
    if let Ok(details) = p4runtime_proto::google::rpc::Status::decode(status.details()) {
        let errors = details.details.iter().filter_map(|any| rt::Error::decode(any.value.as_slice()).ok());
        let failed = errors.enumerate().find(|(_, e)| e.canonical_code != tonic::Code::Ok as i32);
        if let Some((index, e)) = failed {
            text += &format!(" (update {}: {})", index + 1, e.message);
        }
    }
    if text.is_empty() { format!("{:?}", status.code()) } else { text }
}

pub(crate) fn chain(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(s) = source {
        let more = format!(": {s}");
        // Some errors only pass on the error below them.
        if !text.ends_with(&more) {
            text += &more;
        }
        source = s.source();
    }
    text
}

/// Bit strings of a digest message, in order.
fn fields(data: &rt::P4Data) -> Vec<u64> {
    match &data.data {
        Some(rt::p4_data::Data::Bitstring(bytes)) => {
            vec![zsr_plan::p4::schema::number(bytes)]
        }
        Some(rt::p4_data::Data::Struct(list)) => list.members.iter().flat_map(fields).collect(),
        Some(rt::p4_data::Data::Tuple(list)) => list.members.iter().flat_map(fields).collect(),
        _ => Vec::new(),
    }
}
