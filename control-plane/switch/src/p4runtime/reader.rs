//! Reading a switch back: entries, groups, counters. Reading needs no primary, so any number of readers may do it.

use super::client::{ClientError, P4RuntimeSession, explain};
use super::given_up::GivenUp;
use p4runtime_proto::Address;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as rt;
use rt::entity::Entity;
use rt::get_forwarding_pipeline_config_request::ResponseType;
use rt::p4_runtime_client::P4RuntimeClient;
use tokio_stream::StreamExt;
use tonic::transport::Channel;

/// Entities in one Read request.
const ENTITIES_PER_READ: usize = 1024;
const MAX_MESSAGE: usize = 64 << 20;

/// A switch, for reading.
#[derive(Clone, Debug)]
pub struct P4RuntimeReader {
    name: String,
    device_id: u64,
    rpc: P4RuntimeClient<Channel>,
    given_up: GivenUp,
}

/// A cell of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Packets.
    pub packets: u64,
    /// Bytes, where the counter counts them.
    pub bytes: u64,
}

impl P4RuntimeSession {
    /// Reads the same switch over the same connection.
    pub fn reader(&self) -> P4RuntimeReader {
        let (rpc, given_up) = (self.rpc.clone(), self.given_up.clone());
        P4RuntimeReader { name: self.name.clone(), device_id: self.device_id, rpc, given_up }
    }
}

impl P4RuntimeReader {
    /// Connects to switch `name`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn connect(
        name: &str,
        address: impl Into<Address>,
        device_id: u64,
    ) -> Result<Self, ClientError> {
        let address = address.into();
        let channel = address.connect(|endpoint| endpoint).await;
        let channel = channel.map_err(|e| ClientError::no_connection(name, &address, &e))?;
        let rpc = P4RuntimeClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        Ok(P4RuntimeReader { name: name.into(), device_id, rpc, given_up: GivenUp::new() })
    }

    /// Ends requests that wait for an answer over this connection, now and later, with [`ClientError::Lost`]: the
    /// switch hangs.
    pub fn give_up(&self) {
        self.given_up.give_up();
    }

    /// The cookie of the switch's pipeline (`Some(None)`: it has none); `None`: the switch has no pipeline.
    pub async fn cookie(&self) -> Result<Option<Option<u64>>, ClientError> {
        let config = self.pipeline(ResponseType::CookieOnly).await?;
        Ok(config.map(|config| config.cookie.map(|c| c.cookie)))
    }

    /// Whether the switch's pipeline is this one.
    pub async fn has_program(&self, info: &P4Info, device: &[u8]) -> Result<bool, ClientError> {
        let config = self.pipeline(ResponseType::All).await?;
        Ok(config.is_some_and(|c| c.p4info.as_ref() == Some(info) && c.p4_device_config == device))
    }

    async fn pipeline(
        &self,
        wanted: ResponseType,
    ) -> Result<Option<rt::ForwardingPipelineConfig>, ClientError> {
        let request = rt::GetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            response_type: wanted.into(),
        };
        let mut rpc = self.rpc.clone();
        match self.given_up.unless(&self.name, rpc.get_forwarding_pipeline_config(request)).await? {
            Ok(answer) => Ok(answer.into_inner().config),
            Err(e) if e.code() == tonic::Code::FailedPrecondition => Ok(None),
            Err(e) => Err(self.refused("asking for its program", &e)),
        }
    }

    /// All entries of these tables.
    pub async fn entries(
        &self,
        tables: impl Iterator<Item = u32>,
    ) -> Result<Vec<rt::TableEntry>, ClientError> {
        let all = |table_id| Entity::TableEntry(rt::TableEntry { table_id, ..Default::default() });
        let found = self.read(tables.map(all)).await?;
        Ok(found
            .into_iter()
            .filter_map(|e| if let Entity::TableEntry(e) = e { Some(e) } else { None })
            .collect())
    }

    /// All multicast groups.
    pub async fn groups(&self) -> Result<Vec<rt::MulticastGroupEntry>, ClientError> {
        use rt::packet_replication_engine_entry::Type;
        // Wildcards find all groups; a request for a single group that is missing would be an error.
        let wildcard = rt::MulticastGroupEntry::default();
        let entry = rt::PacketReplicationEngineEntry { r#type: Some(Type::MulticastGroupEntry(wildcard)) };
        let found = self.read([Entity::PacketReplicationEngineEntry(entry)].into_iter()).await?;
        let group = |e| match e {
            Entity::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry {
                r#type: Some(Type::MulticastGroupEntry(g)),
            }) => Some(g),
            _ => None,
        };
        Ok(found.into_iter().filter_map(group).collect())
    }

    /// All clone sessions; none where the server does not return them.
    pub async fn sessions(&self) -> Result<Vec<rt::PacketReplicationEngineEntry>, ClientError> {
        use rt::packet_replication_engine_entry::Type;
        let wildcard = rt::CloneSessionEntry::default();
        let entry = rt::PacketReplicationEngineEntry { r#type: Some(Type::CloneSessionEntry(wildcard)) };
        let found = match self.read([Entity::PacketReplicationEngineEntry(entry)].into_iter()).await {
            Err(ClientError::Refused { .. }) => Vec::new(),
            found => found?,
        };
        let session = |e| match e {
            Entity::PacketReplicationEngineEntry(e @ rt::PacketReplicationEngineEntry { .. }) => Some(e),
            _ => None,
        };
        Ok(found.into_iter().filter_map(session).collect())
    }

    /// Cells of counters, given as (counter, index), in the order asked.
    pub async fn cells(&self, cells: &[(u32, u16)]) -> Result<Vec<Cell>, ClientError> {
        let one = |&(counter_id, index): &(u32, u16)| {
            let index = Some(rt::Index { index: index.into() });
            Entity::CounterEntry(rt::CounterEntry { counter_id, index, ..Default::default() })
        };
        let found = self.read(cells.iter().map(one)).await?;
        let mut by_cell = std::collections::HashMap::new();
        for entity in found {
            if let Entity::CounterEntry(rt::CounterEntry { counter_id, index: Some(i), data: Some(d) }) =
                entity
            {
                let cell = Cell { packets: d.packet_count as u64, bytes: d.byte_count as u64 };
                by_cell.insert((counter_id, i.index as u16), cell);
            }
        }
        Ok(cells.iter().map(|c| by_cell.get(c).copied().unwrap_or_default()).collect())
    }

    /// Everything that `entities` ask for, in their order.
    pub async fn read(&self, entities: impl Iterator<Item = Entity>) -> Result<Vec<Entity>, ClientError> {
        self.given_up.unless(&self.name, self.read_all(entities)).await?
    }

    async fn read_all(&self, entities: impl Iterator<Item = Entity>) -> Result<Vec<Entity>, ClientError> {
        let mut entities = entities.map(|e| rt::Entity { entity: Some(e) }).peekable();
        let mut out = Vec::new();
        while entities.peek().is_some() {
            let request = rt::ReadRequest {
                device_id: self.device_id,
                entities: entities.by_ref().take(ENTITIES_PER_READ).collect(),
                ..Default::default()
            };
            let answer = self.rpc.clone().read(request).await;
            let mut stream = answer.map_err(|e| self.refused("reading it back", &e))?.into_inner();
            while let Some(response) = stream.next().await {
                let response = response.map_err(|e| self.refused("reading it back", &e))?;
                out.extend(response.entities.into_iter().filter_map(|e| e.entity));
            }
        }
        Ok(out)
    }

    fn refused(&self, what: &str, status: &tonic::Status) -> ClientError {
        ClientError::Refused { switch: self.name.clone(), what: what.into(), message: explain(status) }
    }
}
