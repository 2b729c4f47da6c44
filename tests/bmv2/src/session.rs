//! The controller's own session with a switch, for writing and reading.

use p4runtime_proto::Address;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as rt;
use zsr_switch::{P4RuntimeReader, P4RuntimeSession};

/// A session as primary.
pub struct Session {
    client: P4RuntimeSession,
    reader: P4RuntimeReader,
}

impl Session {
    /// Becomes primary at the server.
    pub async fn connect(address: impl Into<Address>, device_id: u64) -> Result<Session, String> {
        let address = address.into();
        let name = address.to_string();
        let client =
            P4RuntimeSession::connect(&name, address, device_id, 1).await.map_err(|e| e.to_string())?;
        Ok(Session { reader: client.reader(), client })
    }

    /// Pushes a pipeline.
    pub async fn set_pipeline(&mut self, info: &P4Info, json: &[u8]) -> Result<(), String> {
        self.client.set_pipeline(info, json, None).await.map_err(|e| e.to_string())
    }

    /// Writes, in one request as far as there is room.
    pub async fn write(&mut self, updates: &[rt::Update]) -> Result<(), String> {
        self.client.update(updates.iter().cloned()).await.map_err(|e| e.to_string())
    }

    /// Reads everything that `entity` asks for.
    pub async fn read(&mut self, entity: rt::entity::Entity) -> Result<Vec<rt::entity::Entity>, String> {
        self.reader.read([entity].into_iter()).await.map_err(|e| e.to_string())
    }
}
