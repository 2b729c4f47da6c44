//! A bare P4Runtime client: sends what it is given, and says exactly what came back.

use std::net::SocketAddr;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as rt;
use prost::Message;
use rt::p4_runtime_client::P4RuntimeClient;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

const MAX_MESSAGE: usize = 64 << 20;
const MAX_STATUS: u32 = 4 << 20;
const ELECTION: rt::Uint128 = rt::Uint128 { high: 0, low: 1 };

/// A session as primary.
pub struct Controller {
    rpc: P4RuntimeClient<Channel>,
    device_id: u64,
    /// The session lasts as long as this.
    _requests: mpsc::Sender<rt::StreamMessageRequest>,
    _responses: tonic::Streaming<rt::StreamMessageResponse>,
}

impl Controller {
    /// Becomes primary at the server.
    pub async fn connect(address: SocketAddr, device_id: u64) -> Result<Controller, String> {
        let channel = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|e| e.to_string())?
            .http2_max_header_list_size(MAX_STATUS)
            .connect()
            .await
            .map_err(|e| format!("{address}: {e}"))?;
        let mut rpc = P4RuntimeClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let (requests, outgoing) = mpsc::channel(16);
        let arbitration =
            rt::MasterArbitrationUpdate { device_id, election_id: Some(ELECTION), ..Default::default() };
        let update = Some(rt::stream_message_request::Update::Arbitration(arbitration));
        requests.send(rt::StreamMessageRequest { update }).await.map_err(|e| e.to_string())?;
        let responses = rpc.stream_channel(ReceiverStream::new(outgoing)).await.map_err(text)?;
        let mut responses = responses.into_inner();
        let first = responses.message().await.map_err(text)?;
        match first.and_then(|m| m.update) {
            Some(rt::stream_message_response::Update::Arbitration(a))
                if a.status.as_ref().is_none_or(|s| s.code == 0) => {}
            other => return Err(format!("{address}: not primary: {other:?}")),
        }
        Ok(Controller { rpc, device_id, _requests: requests, _responses: responses })
    }

    /// Pushes a pipeline.
    pub async fn set_pipeline(&mut self, info: &P4Info, json: &[u8]) -> Result<(), String> {
        let request = rt::SetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            election_id: Some(ELECTION),
            action: rt::set_forwarding_pipeline_config_request::Action::VerifyAndCommit as i32,
            config: Some(rt::ForwardingPipelineConfig {
                p4info: Some(info.clone()),
                p4_device_config: json.to_vec(),
                cookie: None,
            }),
            ..Default::default()
        };
        self.rpc.set_forwarding_pipeline_config(request).await.map(|_| ()).map_err(text)
    }

    /// Writes; the errors are one line per update that failed.
    pub async fn write(&mut self, updates: &[rt::Update]) -> Result<(), String> {
        let request = rt::WriteRequest {
            device_id: self.device_id,
            election_id: Some(ELECTION),
            updates: updates.to_vec(),
            ..Default::default()
        };
        self.rpc.write(request).await.map(|_| ()).map_err(text)
    }

    /// Reads everything that `entity` asks for.
    pub async fn read(&mut self, entity: rt::entity::Entity) -> Result<Vec<rt::entity::Entity>, String> {
        let request = rt::ReadRequest {
            device_id: self.device_id,
            entities: vec![rt::Entity { entity: Some(entity) }],
            ..Default::default()
        };
        let mut stream = self.rpc.read(request).await.map_err(text)?.into_inner();
        let mut out = Vec::new();
        while let Some(response) = stream.next().await {
            out.extend(response.map_err(text)?.entities.into_iter().filter_map(|e| e.entity));
        }
        Ok(out)
    }
}

/// A status with the errors of its updates.
fn text(status: tonic::Status) -> String {
    let mut text = format!("{:?} {}", status.code(), status.message());
    if let Ok(details) = p4runtime_proto::google::rpc::Status::decode(status.details()) {
        let errors = details.details.iter().filter_map(|any| rt::Error::decode(any.value.as_slice()).ok());
        for (i, e) in errors.enumerate().filter(|(_, e)| e.canonical_code != 0) {
            text += &format!("; update {i}: {:?} {}", tonic::Code::from(e.canonical_code), e.message);
        }
    }
    text
}
