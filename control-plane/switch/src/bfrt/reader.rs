//! Reading a Tofino back: entries, groups, counters.

use super::BfrtError;
use super::client::explain;
use super::convert;
use super::groups::{self, GROUP, Groups, NODE};
use super::info::Info;
use super::proto as bf;
use super::row::keys;
use crate::{Cell, ClientError};
use bf::bf_runtime_client::BfRuntimeClient;
use bf::update::Type;
use p4runtime_proto::p4::v1 as rt;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_stream::StreamExt;
use tonic::transport::Channel;

/// Entries in one Read request.
const ENTRIES_PER_READ: usize = 1024;
/// Number of cells of a counter from which on the driver fetches the whole counter from the chip, rather than each cell
/// by itself. A cell takes an instruction in every pipe and a barrier behind it, as the whole counter does.
const CELLS_AT_ONCE: usize = 16;
/// The driver's operation that fetches a counter.
const SYNC: &str = "SyncCounters";

/// A switch, for reading.
#[derive(Clone, Debug)]
pub struct BfrtReader {
    pub(super) name: String,
    pub(super) device: u32,
    pub(super) client_id: u32,
    pub(super) program: String,
    pub(super) info: Arc<Info>,
    pub(super) rpc: BfRuntimeClient<Channel>,
    /// Held while a Read or a Write is under way. All requests of a client share a session in the driver, and a batch
    /// that one of them begins there is ended by the first one that ends.
    pub(super) turn: Arc<Mutex<()>>,
}

impl BfrtReader {
    /// Whether the switch has the entries that a controller gives it first: programs start with empty tables.
    pub async fn has_pipeline(&self) -> Result<bool, ClientError> {
        let table = self.info.table("own_ip").map_err(|e| self.unfit(e))?;
        // Among all entries of a table the driver names its default entry.
        Ok(self.all_of(table.id).await?.iter().any(|e| !e.is_default_entry))
    }

    /// All entries of these tables. Twins of the tables are made equal, as a controller may have ended between its
    /// writes to both.
    pub async fn entries(
        &self,
        tables: impl Iterator<Item = u32>,
    ) -> Result<Vec<rt::TableEntry>, ClientError> {
        let mut out = Vec::new();
        for table in tables {
            let held = self.all_of(table).await?;
            if let Some(twin) = self.info.twin(table) {
                let same = held.iter().filter_map(|e| convert::twin(&self.info, e)).collect();
                self.level(same, self.all_of(twin.id).await?).await?;
            }
            out.extend(held.iter().filter_map(convert::entry_back));
        }
        Ok(out)
    }

    /// Makes a table hold `wanted` in place of `there`.
    async fn level(
        &self,
        wanted: Vec<bf::TableEntry>,
        there: Vec<bf::TableEntry>,
    ) -> Result<(), ClientError> {
        let by_key = |entries: Vec<bf::TableEntry>| -> BTreeMap<_, _> {
            let own = entries.into_iter().filter(|e| !e.is_default_entry);
            own.filter_map(|e| Some((keys(&e)?, e))).collect()
        };
        let (wanted, there) = (by_key(wanted), by_key(there));
        let gone = there.iter().filter(|(key, _)| !wanted.contains_key(*key));
        let gone = gone.map(|(_, e)| (Type::Delete, bf::TableEntry { data: None, ..e.clone() }));
        let new = wanted.iter().filter_map(|(key, e)| match there.get(key) {
            None => Some((Type::Insert, e.clone())),
            Some(now) if convert::entry_back(now) == convert::entry_back(e) => None,
            Some(_) => Some((Type::Modify, e.clone())),
        });
        let updates: Vec<bf::Update> = gone.chain(new).map(|(kind, e)| groups::update(kind, e)).collect();
        for some in updates.chunks(ENTRIES_PER_READ) {
            self.write(everywhere(self.device), some.to_vec(), "writing table entries").await?;
        }
        Ok(())
    }

    /// All multicast groups.
    pub async fn groups(&self) -> Result<Vec<rt::MulticastGroupEntry>, ClientError> {
        let all = self.held_groups().await?;
        Ok(all.iter().map(|(&id, group)| groups::entry_back(id, group)).collect())
    }

    pub(super) async fn held_groups(&self) -> Result<Groups, ClientError> {
        let table = |name| self.info.table(name).map(|t| t.id).map_err(|e| self.unfit(e));
        let (groups, nodes) = (self.all_of(table(GROUP)?).await?, self.all_of(table(NODE)?).await?);
        Ok(groups::read(&self.info, &groups, &nodes))
    }

    /// Cells of counters, given as (counter, index), in the order asked: values of the chip, not those that the driver
    /// remembers.
    pub async fn cells(&self, cells: &[(u32, u16)]) -> Result<Vec<Cell>, ClientError> {
        let mut asked = HashMap::<u32, usize>::new();
        // A counter that both programs of a chip have is one counter.
        let all: Vec<(u32, u16)> =
            cells.iter().flat_map(|&(counter, i)| self.info.both(counter).map(move |c| (c, i))).collect();
        for &(counter, _) in &all {
            *asked.entry(counter).or_default() += 1;
        }
        asked.retain(|_, cells| *cells >= CELLS_AT_ONCE);
        self.fetch(asked.keys().copied()).await?;
        let mut found = HashMap::new();
        for some in all.chunks(ENTRIES_PER_READ) {
            let one = |&(counter_id, index): &(u32, u16)| {
                let index = Some(rt::Index { index: index.into() });
                let entry = rt::CounterEntry { counter_id, index, data: None };
                let from_hw = !asked.contains_key(&counter_id);
                let table_flags = Some(bf::TableFlags { from_hw, ..Default::default() });
                Ok(bf::TableEntry { table_flags, ..convert::counter(&self.info, &entry)? })
            };
            let request =
                some.iter().map(one).collect::<Result<_, BfrtError>>().map_err(|e| self.unfit(e))?;
            for entry in self.read(request).await? {
                if let Some((index, packets, bytes)) = convert::counter_back(&self.info, &entry) {
                    found.insert((entry.table_id, index), Cell { packets, bytes });
                }
            }
        }
        let cell = |&(counter, index): &(u32, u16)| {
            let parts = self.info.both(counter).filter_map(|c| found.get(&(c, u64::from(index))));
            parts.fold(Cell::default(), |sum, part: &Cell| Cell {
                packets: sum.packets + part.packets,
                bytes: sum.bytes + part.bytes,
            })
        };
        Ok(cells.iter().map(cell).collect())
    }

    /// Has the driver fetch the values of these counters from the chip.
    async fn fetch(&self, counters: impl Iterator<Item = u32>) -> Result<(), ClientError> {
        let operation = |table_id| {
            let operation = bf::TableOperation { table_id, table_operations_type: SYNC.into() };
            bf::Update {
                r#type: bf::update::Type::Insert.into(),
                entity: Some(bf::Entity { entity: Some(bf::entity::Entity::TableOperation(operation)) }),
            }
        };
        let updates: Vec<_> = counters.map(operation).collect();
        match updates.is_empty() {
            true => Ok(()),
            false => self.write(everywhere(self.device), updates, "fetching counters from the chip").await,
        }
    }

    /// A single Write, of which the driver carries out as much as it can.
    pub(super) async fn write(
        &self,
        target: bf::TargetDevice,
        updates: Vec<bf::Update>,
        what: &str,
    ) -> Result<(), ClientError> {
        let request = bf::WriteRequest {
            target: Some(target),
            client_id: self.client_id,
            updates,
            atomicity: bf::write_request::Atomicity::ContinueOnError.into(),
            p4_name: self.program.clone(),
        };
        let _turn = self.turn.lock().await;
        let done = self.rpc.clone().write(request).await;
        done.map(drop).map_err(|e| self.refused(what, &e))
    }

    pub(super) async fn all_of(&self, table_id: u32) -> Result<Vec<bf::TableEntry>, ClientError> {
        self.read(vec![bf::TableEntry { table_id, ..Default::default() }]).await
    }

    /// The entries that `entries` ask for; missing ones are left out.
    pub(super) async fn read(
        &self,
        entries: Vec<bf::TableEntry>,
    ) -> Result<Vec<bf::TableEntry>, ClientError> {
        let entity = |e| bf::Entity { entity: Some(bf::entity::Entity::TableEntry(e)) };
        let request = bf::ReadRequest {
            target: Some(everywhere(self.device)),
            client_id: self.client_id,
            entities: entries.into_iter().map(entity).collect(),
            p4_name: self.program.clone(),
        };
        let mut out = Vec::new();
        let _turn = self.turn.lock().await;
        let mut stream = match self.rpc.clone().read(request).await {
            Ok(stream) => stream.into_inner(),
            // An empty table is not found.
            Err(e) if is_absent(&e) => return Ok(out),
            Err(e) => return Err(self.refused("reading it back", &e)),
        };
        while let Some(response) = stream.next().await {
            let response = match response {
                Ok(response) => response,
                Err(e) if is_absent(&e) => break,
                Err(e) => return Err(self.refused("reading it back", &e)),
            };
            out.extend(response.entities.into_iter().filter_map(|e| match e.entity? {
                bf::entity::Entity::TableEntry(entry) => Some(entry),
                bf::entity::Entity::TableOperation(_) => None,
            }));
        }
        Ok(out)
    }

    pub(super) fn refused(&self, what: &str, status: &tonic::Status) -> ClientError {
        ClientError::Refused { switch: self.name.clone(), what: what.into(), message: explain(status) }
    }

    pub(super) fn unfit(&self, why: BfrtError) -> ClientError {
        ClientError::Program { switch: self.name.clone(), why: Box::new(why) }
    }
}

/// The target of a request to all pipes, ingress and egress.
pub(super) fn everywhere(device_id: u32) -> bf::TargetDevice {
    bf::TargetDevice { device_id, pipe_id: 0xffff, direction: 0xff, prsr_id: 0xff }
}

fn is_absent(status: &tonic::Status) -> bool {
    let mut errors = super::client::errors(status).peekable();
    match errors.peek() {
        None => status.code() == tonic::Code::NotFound,
        Some(_) => {
            errors.all(|e| [tonic::Code::Ok, tonic::Code::NotFound].contains(&e.canonical_code.into()))
        }
    }
}
