//! A switch of any kind and protocol. The controller uses P4Runtime's entities; differences of a Tofino (the port that
//! leads back, BF Runtime) are converted here.

#![forbid(unsafe_code)]

pub mod bfrt;
pub mod p4runtime;
pub mod patience;
mod tofino;

use crate::bfrt::{BfrtClient, BfrtDigests, BfrtError, BfrtReader};
use p4runtime::P4RuntimeDigests;
pub use p4runtime::{Cell, ClientError, P4RuntimeReader, P4RuntimeSession};
use p4runtime_proto::Address;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as rt;
use prost::Message;
use rt::entity::Entity;
use rt::packet_replication_engine_entry::Type as Replication;
use rt::update::Type;
use tofino::Compiled;
use xxhash_rust::xxh3::xxh3_64;
use zsr_plan::dataplane::pipes::{self, port_again};
use zsr_plan::dataplane::ticks::Timer;
use zsr_plan::p4::names::table;
use zsr_plan::p4::schema::{SchemaError, canonical};
use zsr_plan::p4::{Artifacts, Clock, OPTIONAL, Schema};
use zsr_tls::Doings;
use zsr_topology::{Pipes, Switch, TofinoApi, Topology};

/// A session as the only controller.
pub struct SwitchClient {
    session: Session,
    /// A chip's port that leads back into its first pipe.
    again: Option<u32>,
    /// The list in which it notes requests that it waits for.
    doings: Doings,
}

enum Session {
    P4Runtime(P4RuntimeSession),
    /// P4Runtime, with the program for the chip.
    Chip(P4RuntimeSession, Box<Compiled>),
    Bfrt(Box<BfrtClient>),
}

/// A switch, for reading.
#[derive(Clone, Debug)]
pub struct SwitchReader {
    reader: Reader,
    again: Option<u32>,
}

#[derive(Clone, Debug)]
enum Reader {
    P4Runtime(P4RuntimeReader),
    Bfrt(BfrtReader),
}

/// Digest messages of one switch, as they come.
pub enum Digests {
    /// By P4Runtime.
    P4Runtime(P4RuntimeDigests),
    /// By BF Runtime.
    Bfrt(BfrtDigests),
}

impl SwitchClient {
    /// Connects to v1model switch `name` and becomes its primary controller.
    pub async fn connect(
        name: &str,
        address: impl Into<Address>,
        device_id: u64,
        election_id: u128,
    ) -> Result<Self, ClientError> {
        let session = P4RuntimeSession::connect(name, address, device_id, election_id).await?;
        Ok(SwitchClient { session: Session::P4Runtime(session), again: None, doings: Doings::default() })
    }

    /// Connects to `switch` of a topology, whose server is at `address`, by the switch's protocol.
    pub async fn open(switch: &Switch, address: &Address, election_id: u128) -> Result<Self, ClientError> {
        let Some(tofino) = switch.kind.tofino() else {
            return Self::connect(&switch.name, address, switch.device_id, election_id).await;
        };
        let session = match tofino.api {
            TofinoApi::BfRuntime => {
                Session::Bfrt(Box::new(BfrtClient::connect(switch, tofino, address).await?))
            }
            TofinoApi::P4Runtime => {
                let compiled = Compiled::load(switch).map_err(|why| ClientError::Program {
                    switch: switch.name.clone(),
                    why: Box::new(why),
                })?;
                let session =
                    P4RuntimeSession::connect(&switch.name, address, switch.device_id, election_id).await?;
                Session::Chip(session, Box::new(compiled))
            }
        };
        let again = Some(tofino.chip.port_again());
        Ok(SwitchClient { session, again, doings: Doings::default() })
    }

    /// Names of the switch's program: of `artifacts`, or of the program that was compiled for the chip, which has to be
    /// the same program.
    pub fn schema(&self, artifacts: &Artifacts) -> Result<Schema, ClientError> {
        match &self.session {
            Session::P4Runtime(_) => Ok(Schema::new(&artifacts.p4info)),
            Session::Chip(session, compiled) => {
                let schema = Schema::new(&compiled.p4info).with_clock(Clock::Slices);
                let unfit = |e: SchemaError| ClientError::Program {
                    switch: session.name.clone(),
                    why: Box::new(BfrtError::Unfit(format!("{}: {e}", compiled.folder.display()))),
                };
                let lacks = |table: &&str| OPTIONAL.contains(table) && schema.table(table).is_err();
                for &(table, action) in table::ALL.iter().filter(|(table, _)| !lacks(table)) {
                    schema.check(table, action).map_err(unfit)?;
                }
                Ok(schema)
            }
            Session::Bfrt(client) => client.schema(&artifacts.p4info),
        }
    }

    /// Reads the same switch over the same connection.
    pub fn reader(&self) -> SwitchReader {
        let reader = match &self.session {
            Session::P4Runtime(session) | Session::Chip(session, _) => Reader::P4Runtime(session.reader()),
            Session::Bfrt(client) => Reader::Bfrt(client.reader()),
        };
        SwitchReader { reader, again: self.again }
    }

    /// Gives the switch its program; it starts with empty tables. The switch returns `cookie` when it is asked for its
    /// program.
    pub async fn load(&mut self, artifacts: &Artifacts, cookie: Option<u64>) -> Result<(), ClientError> {
        match &mut self.session {
            Session::P4Runtime(session) => {
                session.set_pipeline(&artifacts.p4info, &artifacts.json, cookie).await
            }
            Session::Chip(session, compiled) => {
                session.set_pipeline(&compiled.p4info, &compiled.device, cookie).await
            }
            // The driver has loaded it.
            Session::Bfrt(client) => client.clear().await,
        }
    }

    /// Sets up the parts of a switch that are no entries.
    pub async fn set_up(&mut self, topology: &Topology) -> Result<(), ClientError> {
        match &mut self.session {
            Session::P4Runtime(_) => {}
            Session::Chip(session, _) => session.send_timers(Timer::of(&topology.switches[0]).packets()),
            Session::Bfrt(client) => client.set_up(topology).await?,
        }
        Ok(())
    }

    /// A fingerprint of the switch's program.
    pub fn fingerprint(&self, artifacts: &Artifacts) -> u32 {
        let of = |info: &P4Info, device: &[u8]| {
            let parts = [xxh3_64(&info.encode_to_vec()), xxh3_64(device)].map(u64::to_le_bytes);
            xxh3_64(&parts.concat()) as u32
        };
        match &self.session {
            Session::Chip(_, compiled) => of(&compiled.p4info, &compiled.device),
            // The driver has loaded it.
            Session::P4Runtime(_) | Session::Bfrt(_) => of(&artifacts.p4info, &artifacts.json),
        }
    }

    /// The cookie of the switch's pipeline, if it has a pipeline and keeps one.
    pub async fn cookie(&self) -> Result<Option<u64>, ClientError> {
        match &self.session {
            Session::P4Runtime(session) | Session::Chip(session, _) => {
                Ok(session.reader().cookie().await?.flatten())
            }
            Session::Bfrt(_) => Ok(None),
        }
    }

    /// Whether the switch still has the pipeline that it was given, with the program's registers. Compares the cookie
    /// that it kept, or the program if it keeps none.
    pub async fn has_kept(&self, artifacts: &Artifacts, cookie: Option<u64>) -> Result<bool, ClientError> {
        let (session, (info, device)) = match &self.session {
            Session::P4Runtime(session) => (session, (&artifacts.p4info, &artifacts.json)),
            Session::Chip(session, compiled) => (session, (&compiled.p4info, &compiled.device)),
            Session::Bfrt(client) => return client.reader().has_pipeline().await,
        };
        let reader = session.reader();
        match reader.cookie().await? {
            None => Ok(false),
            Some(None) if cookie.is_none() => reader.has_program(info, device).await,
            Some(held) => Ok(held == cookie),
        }
    }

    /// Whether entries that do not depend on flows can be read back as they were written.
    pub fn tells_all(&self) -> bool {
        !matches!(self.session, Session::Bfrt(_))
    }

    /// From now on, notes in `doings` which requests it waits for.
    pub fn note_in(&mut self, doings: &Doings) {
        self.doings = doings.clone();
    }

    /// Inserts table entries, in order.
    pub async fn insert(&mut self, entities: Vec<rt::Entity>) -> Result<(), ClientError> {
        let update = |e| rt::Update { r#type: Type::Insert.into(), entity: Some(e) };
        self.update(entities.into_iter().map(update)).await
    }

    /// Makes `updates`, in order as far as the switch keeps it within a request.
    pub async fn update(&mut self, updates: impl Iterator<Item = rt::Update>) -> Result<(), ClientError> {
        let _doing = self.doings.begin("writes entries into the switch");
        let again = self.again;
        let updates = updates.map(|mut update| {
            if let Some(again) = again
                && let Some(rt::Entity { entity: Some(Entity::PacketReplicationEngineEntry(entry)) }) =
                    &mut update.entity
                && let Some(Replication::MulticastGroupEntry(group)) = &mut entry.r#type
            {
                renumber(group, |pipe| (port_again(pipe), Pipes::port_in(pipe, again)));
            }
            update
        });
        match &mut self.session {
            Session::P4Runtime(session) | Session::Chip(session, _) => session.update(updates).await,
            Session::Bfrt(client) => client.update(updates).await,
        }
    }

    /// Has the switch send messages of digest `digest_id`, each at once.
    pub async fn enable_digest(&mut self, digest_id: u32) -> Result<(), ClientError> {
        match &mut self.session {
            Session::P4Runtime(session) | Session::Chip(session, _) => session.enable_digest(digest_id).await,
            // A client that has subscribed gets all digests.
            Session::Bfrt(_) => Ok(()),
        }
    }

    /// Has the switch take `packet` as a packet of the controller.
    pub async fn packet_out(&mut self, packet: Vec<u8>) -> Result<(), ClientError> {
        self.packets_out(vec![packet]).await
    }

    /// Has the switch take `packets` as packets of the controller, in order.
    pub async fn packets_out(&mut self, packets: Vec<Vec<u8>>) -> Result<(), ClientError> {
        let _doing = self.doings.begin("sends packets to the switch");
        match &mut self.session {
            Session::P4Runtime(session) | Session::Chip(session, _) => {
                for packet in packets {
                    session.packet_out(packet).await?;
                }
                Ok(())
            }
            Session::Bfrt(client) => client.packets_out(&packets).await,
        }
    }

    /// Ends the session, if nobody holds its digests: later requests are refused.
    pub fn hang_up(&mut self) {
        match &mut self.session {
            Session::P4Runtime(session) | Session::Chip(session, _) => session.hang_up(),
            Session::Bfrt(client) => client.hang_up(),
        }
    }

    /// The digest messages from now on; `None` if somebody has them already.
    pub fn digests(&mut self) -> Option<Digests> {
        match &mut self.session {
            Session::P4Runtime(session) | Session::Chip(session, _) => {
                session.digests().map(Digests::P4Runtime)
            }
            Session::Bfrt(client) => client.digests().map(Digests::Bfrt),
        }
    }
}

impl SwitchReader {
    /// Ends requests that wait for an answer over this connection, now and later: the switch hangs. Calls of BF Runtime
    /// go on waiting.
    pub fn give_up(&self) {
        if let Reader::P4Runtime(reader) = &self.reader {
            reader.give_up();
        }
    }

    /// Connects to v1model switch `name`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn connect(
        name: &str,
        address: impl Into<Address>,
        device_id: u64,
    ) -> Result<Self, ClientError> {
        let reader = P4RuntimeReader::connect(name, address, device_id).await?;
        Ok(SwitchReader { reader: Reader::P4Runtime(reader), again: None })
    }

    /// Whether the switch has been given a program.
    pub async fn has_pipeline(&self) -> Result<bool, ClientError> {
        match &self.reader {
            Reader::P4Runtime(reader) => Ok(reader.cookie().await?.is_some()),
            Reader::Bfrt(reader) => reader.has_pipeline().await,
        }
    }

    /// All clone sessions, where the server tells them.
    pub async fn sessions(&self) -> Result<Vec<rt::Entity>, ClientError> {
        let found = match &self.reader {
            Reader::P4Runtime(reader) => reader.sessions().await?,
            Reader::Bfrt(_) => Vec::new(),
        };
        let entity = |e| rt::Entity { entity: Some(Entity::PacketReplicationEngineEntry(e)) };
        Ok(found.into_iter().map(entity).collect())
    }

    /// All entries of these tables, and those multicast groups whose number is `wanted`.
    pub async fn entities(
        &self,
        tables: impl Iterator<Item = u32>,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<Vec<rt::Entity>, ClientError> {
        let entries = match &self.reader {
            Reader::P4Runtime(reader) => reader.entries(tables).await?,
            Reader::Bfrt(reader) => reader.entries(tables).await?,
        };
        let groups = self.groups().await?.into_iter().filter(|g| wanted(g.multicast_group_id));
        let groups = groups.map(|g| {
            let r#type = Some(Replication::MulticastGroupEntry(g));
            Entity::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type })
        });
        let all = entries.into_iter().map(Entity::TableEntry).chain(groups);
        Ok(all.map(|e| rt::Entity { entity: Some(e) }).collect())
    }

    /// All multicast groups.
    pub async fn groups(&self) -> Result<Vec<rt::MulticastGroupEntry>, ClientError> {
        let mut groups = match &self.reader {
            Reader::P4Runtime(reader) => reader.groups().await?,
            Reader::Bfrt(reader) => reader.groups().await?,
        };
        if let Some(again) = self.again {
            groups
                .iter_mut()
                .for_each(|g| renumber(g, |pipe| (Pipes::port_in(pipe, again), port_again(pipe))));
        }
        Ok(groups)
    }

    /// Cells of counters, given as (counter, index), in the order asked.
    pub async fn cells(&self, cells: &[(u32, u16)]) -> Result<Vec<Cell>, ClientError> {
        match &self.reader {
            Reader::P4Runtime(reader) => reader.cells(cells).await,
            Reader::Bfrt(reader) => reader.cells(cells).await,
        }
    }
}

impl Digests {
    /// The next digest list: its messages, each a list of field values.
    pub async fn next(&mut self) -> Result<Vec<Vec<u64>>, ClientError> {
        match self {
            Digests::P4Runtime(digests) => digests.next().await,
            Digests::Bfrt(digests) => digests.next().await,
        }
    }
}

/// Replaces the ports of replicas that leave at a port which leads back into a pipe: `ports` gives both numbers.
fn renumber(group: &mut rt::MulticastGroupEntry, ports: impl Fn(u32) -> (u32, u32)) {
    let in_bytes = |(from, to): (u32, u32)| (canonical(from.into()), canonical(to.into()));
    let ports: Vec<_> = (0..pipes::MAX_PIPES).map(|pipe| in_bytes(ports(pipe))).collect();
    for replica in &mut group.replicas {
        if let Some(rt::replica::PortKind::Port(port)) = &mut replica.port_kind
            && let Some((_, to)) = ports.iter().find(|(from, _)| from == port)
        {
            port.clone_from(to);
        }
    }
}
