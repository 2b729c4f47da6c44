//! A session with a Tofino's driver.

use super::info::Info;
use super::proto as bf;
use super::reader::{BfrtReader, everywhere};
use super::{BfrtDigests, BfrtError, chip, convert, digests, groups, schema};
use crate::ClientError;
use bf::bf_runtime_client::BfRuntimeClient;
use bf::set_forwarding_pipeline_config_request::Action;
use bf::update::Type;
use p4runtime_proto::Address;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as rt;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use zsr_plan::dataplane::ticks::Timer;
use zsr_plan::p4::names::table;
use zsr_plan::p4::{OPTIONAL, Schema};
use zsr_topology::{Switch, Tofino, Topology};

/// Updates in one Write request. Node updates of groups come on top, so that a group and its nodes go together.
const UPDATES_PER_WRITE: usize = 1024;
const MAX_MESSAGE: usize = 64 << 20;
/// The status of a failed Write names every update.
const MAX_STATUS: u32 = 4 << 20;
/// The driver's name for this controller among its clients.
const CLIENT_ID: u32 = 1;
/// The file for BF Runtime in a topology's `artifacts`.
const BF_RT: &str = "bf-rt.json";

/// A BF Runtime session that is bound to the program.
pub struct BfrtClient {
    reader: BfrtReader,
    tofino: Tofino,
    /// The known groups of the switch.
    groups: Option<groups::Groups>,
    requests: mpsc::Sender<bf::StreamMessageRequest>,
    responses: Option<tonic::Streaming<bf::StreamMessageResponse>>,
    /// The generator's application of the next packet.
    next_app: u32,
}

impl BfrtClient {
    /// Connects to `switch`, whose server is at `address`, and binds to its program.
    ///
    /// # Errors
    /// When the server does not answer, another controller has the switch, or its program is another one.
    pub async fn connect(switch: &Switch, tofino: &Tofino, address: &Address) -> Result<Self, ClientError> {
        let name = &switch.name;
        let fail = |reason: String| ClientError::connect(name, address, reason);
        let channel = address.connect(|endpoint| endpoint.http2_max_header_list_size(MAX_STATUS)).await;
        let channel = channel.map_err(|e| ClientError::no_connection(name, address, &e))?;
        let mut rpc = BfRuntimeClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let device = switch.device_id as u32;
        let refused = |what: &str, e: &tonic::Status| ClientError::Refused {
            switch: name.clone(),
            what: what.into(),
            message: explain(e),
        };

        let (requests, outgoing) = mpsc::channel(4);
        requests.send(subscribe(device)).await.map_err(|e| fail(e.to_string()))?;
        let stream = rpc.stream_channel(ReceiverStream::new(outgoing)).await;
        let mut responses = stream.map_err(|e| refused(subscribing(&e), &e))?.into_inner();
        loop {
            let message = responses.next().await.ok_or_else(|| ClientError::Lost { switch: name.clone() })?;
            let update = message.map_err(|e| refused(subscribing(&e), &e))?.update;
            let Some(bf::stream_message_response::Update::Subscribe(answer)) = update else { continue };
            match answer.status {
                Some(status) if status.code != tonic::Code::Ok as i32 => {
                    return Err(refused(
                        "subscribing",
                        &tonic::Status::new(status.code.into(), status.message),
                    ));
                }
                _ => break,
            }
        }

        let bind = bf::SetForwardingPipelineConfigRequest {
            device_id: device,
            client_id: CLIENT_ID,
            action: Action::Bind.into(),
            config: vec![bf::ForwardingPipelineConfig {
                p4_name: tofino.program.clone(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let bound = rpc.set_forwarding_pipeline_config(bind).await;
        bound.map_err(|e| refused(&format!("binding to program `{}`", tofino.program), &e))?;
        let request = bf::GetForwardingPipelineConfigRequest { device_id: device, client_id: CLIENT_ID };
        let config = rpc.get_forwarding_pipeline_config(request).await;
        let config = config.map_err(|e| refused("asking for its program", &e))?.into_inner();
        let info = info(switch, tofino, &config)
            .map_err(|why| ClientError::Program { switch: name.clone(), why: Box::new(why) })?;
        let reader = BfrtReader {
            name: name.clone(),
            device,
            client_id: CLIENT_ID,
            program: tofino.program.clone(),
            info: Arc::new(info),
            rpc,
            turn: Arc::default(),
        };
        let tofino = tofino.clone();
        Ok(BfrtClient { reader, tofino, groups: None, requests, responses: Some(responses), next_app: 0 })
    }

    /// Reads the same switch over the same connection.
    pub fn reader(&self) -> BfrtReader {
        self.reader.clone()
    }

    /// The plan's names in the switch's program; `built_in` has their order.
    ///
    /// # Errors
    /// The names that the program lacks.
    pub fn schema(&self, built_in: &P4Info) -> Result<Schema, ClientError> {
        schema::schema(&self.reader.info, built_in).map_err(|e| self.reader.unfit(e))
    }

    /// Ends the session, if nobody holds its digests.
    pub fn hang_up(&mut self) {
        // Nobody receives: as after the stream has ended.
        self.requests = mpsc::channel(1).0;
        self.responses = None;
    }

    /// Removes all entries that an earlier controller has left: a driver keeps the tables of a program that runs.
    pub async fn clear(&mut self) -> Result<(), ClientError> {
        let info = self.reader.info.clone();
        // Nothing may start in between.
        self.write_to_generator(chip::silence(&info, self.tofino.chip)).await?;
        let mut deletes = Vec::new();
        let mut tables: Vec<&str> = table::ALL.iter().map(|(table, _)| *table).collect();
        tables.dedup();
        for name in tables {
            let table = match info.table(name) {
                Err(_) if OPTIONAL.contains(&name) => continue,
                table => table.map_err(|e| self.reader.unfit(e))?.id,
            };
            for table in info.both(table) {
                let held = self.reader.all_of(table).await?;
                let own = held.into_iter().filter(|e| !e.is_default_entry && e.value.is_some());
                deletes.extend(own.map(|e| groups::update(Type::Delete, bf::TableEntry { data: None, ..e })));
            }
        }
        let mut held = self.reader.held_groups().await?;
        for id in held.keys().copied().collect::<Vec<_>>() {
            let entry =
                rt::packet_replication_engine_entry::Type::MulticastGroupEntry(rt::MulticastGroupEntry {
                    multicast_group_id: id.into(),
                    ..Default::default()
                });
            let entry = rt::PacketReplicationEngineEntry { r#type: Some(entry) };
            let gone = groups::updates(&info, &mut held, Type::Delete, &entry);
            deletes.extend(gone.map_err(|e| self.reader.unfit(e))?);
        }
        let sessions = info.table(groups::SESSION).map_err(|e| self.reader.unfit(e))?.id;
        let held = self.reader.all_of(sessions).await?;
        deletes.extend(
            held.into_iter()
                .filter(|e| e.value.is_some())
                .map(|e| groups::update(Type::Delete, bf::TableEntry { data: None, ..e })),
        );
        self.groups = Some(groups::Groups::new());
        self.write(deletes).await
    }

    /// Sets up the chip around the program: ports, recirculation, timer packets.
    pub async fn set_up(&mut self, topology: &Topology) -> Result<(), ClientError> {
        let info = self.reader.info.clone();
        let (chip, pipes) = (self.tofino.chip, topology.switches[0].pipes);
        let links = || topology.links.iter().map(|l| chip::Port { number: l.port, mtu: l.mtu, loops: false });
        if let Some(setup) = &self.tofino.ports {
            let mtu = links().map(|l| l.mtu).max().unwrap_or(0);
            let loops = self.tofino.loops.iter().map(|&number| chip::Port { number, mtu, loops: true });
            let there = self.all_of(&info, chip::PORT).await?;
            self.write_now(chip::ports(&info, setup, links().chain(loops), &there)).await?;
        }
        if let Some(own) = chip.port_fold() {
            let there = self.all_of(&info, chip::WAYS).await?;
            let known = self.all_of(&info, chip::LOOPS).await?;
            // No packet may go to a loop before the parser knows the loop.
            self.write_now(chip::loops(&info, &self.tofino.loops, &known)).await?;
            self.write_now(chip::ways(&info, own, pipes, &self.tofino.loops, &there)).await?;
        }
        self.write_now(chip::prunes(&info, links().map(|l| l.number))).await?;
        for port in chip::recirculating(chip, pipes) {
            let entry = chip::recirculation_port(&info, port).map_err(|e| self.reader.unfit(e))?;
            let now = self.reader.read(vec![entry]).await?;
            self.write_now(chip::recirculation(&info, port, now.first())).await?;
        }
        // In whichever pipe workers are, their ticks begin in the first one.
        self.write_to_generator(chip::timers(&info, chip, &Timer::of(&topology.switches[0]).packets())).await
    }

    async fn all_of(&self, info: &Info, table: &str) -> Result<Vec<bf::TableEntry>, ClientError> {
        let table = info.table(table).map_err(|e| self.reader.unfit(e))?.id;
        self.reader.all_of(table).await
    }

    /// Makes `updates`, in order.
    pub async fn update(&mut self, updates: impl Iterator<Item = rt::Update>) -> Result<(), ClientError> {
        let mut updates = updates.peekable();
        while updates.peek().is_some() {
            let some: Vec<rt::Update> = updates.by_ref().take(UPDATES_PER_WRITE).collect();
            let made = self.converted(&some).await?;
            let done = self.write(made).await;
            if done.is_err() {
                // The state of groups among them is read when it matters.
                self.groups = None;
            }
            done?;
        }
        Ok(())
    }

    async fn converted(&mut self, updates: &[rt::Update]) -> Result<Vec<bf::Update>, ClientError> {
        use rt::entity::Entity;
        let info = self.reader.info.clone();
        let with_twin = |kind, entry: bf::TableEntry| {
            let twin = convert::twin(&info, &entry);
            std::iter::once(entry).chain(twin).map(|e| groups::update(kind, e)).collect()
        };
        let mut out = Vec::with_capacity(updates.len());
        for update in updates {
            let kind = match rt::update::Type::try_from(update.r#type) {
                Ok(rt::update::Type::Insert) => Type::Insert,
                Ok(rt::update::Type::Modify) => Type::Modify,
                Ok(rt::update::Type::Delete) => Type::Delete,
                _ => return Err(self.reader.unfit(BfrtError::Unsaid("an update of no kind"))),
            };
            let made = match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
                Some(Entity::TableEntry(entry)) => convert::entry(&info, entry).map(|e| with_twin(kind, e)),
                Some(Entity::PacketReplicationEngineEntry(entry)) => {
                    let held = match self.groups.take() {
                        Some(held) => held,
                        None => self.reader.held_groups().await?,
                    };
                    groups::updates(&info, self.groups.insert(held), kind, entry)
                }
                Some(Entity::CounterEntry(entry)) => {
                    convert::counter(&info, entry).map(|e| with_twin(kind, e))
                }
                _ => Err(BfrtError::Unsaid("an entity of this kind")),
            };
            out.extend(made.map_err(|e| {
                self.groups = None;
                self.reader.unfit(e)
            })?);
        }
        Ok(out)
    }

    /// Has the packet generator make each of `packets` once, in order.
    pub async fn packets_out(&mut self, packets: &[Vec<u8>]) -> Result<(), ClientError> {
        let (info, chip) = (self.reader.info.clone(), self.tofino.chip);
        // Applications behind those of the timers, in turn, so that a packet that follows at once does not overtake its
        // forerunner. No application makes two packets of a Write: the first has to be out before its place in the
        // buffer is written anew.
        let first = Timer::CLASSES as u32;
        let own = chip.generators() - first;
        for some in packets.chunks(own as usize) {
            let made = some.iter().map(|packet| {
                let app = first + self.next_app % own;
                self.next_app = self.next_app.wrapping_add(1);
                chip::generate(&info, chip, app, packet, None)
            });
            let updates = made.collect::<Result<Vec<_>, _>>().map(|updates| updates.concat());
            self.write_to_generator(updates).await?;
        }
        Ok(())
    }

    /// The reports from now on; `None` if somebody has them already.
    pub fn digests(&mut self) -> Option<BfrtDigests> {
        Some(BfrtDigests {
            name: self.reader.name.clone(),
            report: digests::filter(&self.reader.info),
            responses: self.responses.take()?,
            _requests: self.requests.clone(),
        })
    }

    async fn write_now(&mut self, updates: Result<Vec<bf::Update>, BfrtError>) -> Result<(), ClientError> {
        let updates = updates.map_err(|e| self.reader.unfit(e))?;
        self.write(updates).await
    }

    /// The generator runs in the first pipe only. The driver refuses settings for all pipes if one of them differs.
    async fn write_to_generator(
        &mut self,
        updates: Result<Vec<bf::Update>, BfrtError>,
    ) -> Result<(), ClientError> {
        let updates = updates.map_err(|e| self.reader.unfit(e))?;
        let target = bf::TargetDevice { pipe_id: 0, ..everywhere(self.reader.device) };
        self.write_at(target, updates).await
    }

    async fn write(&mut self, updates: Vec<bf::Update>) -> Result<(), ClientError> {
        self.write_at(everywhere(self.reader.device), updates).await
    }

    async fn write_at(
        &mut self,
        target: bf::TargetDevice,
        updates: Vec<bf::Update>,
    ) -> Result<(), ClientError> {
        let mut updates = updates.into_iter().peekable();
        while updates.peek().is_some() {
            let some = updates.by_ref().take(2 * UPDATES_PER_WRITE).collect();
            self.reader.write(target, some, "writing table entries").await?;
        }
        Ok(())
    }
}

/// The attempt that failed when a driver ended the stream with this status. A driver tells clients apart by their
/// numbers, and every controller has the same.
fn subscribing(status: &tonic::Status) -> &'static str {
    match status.code() {
        tonic::Code::InvalidArgument => "another controller is connected to its driver; stop that one first",
        _ => "subscribing",
    }
}

fn subscribe(device_id: u32) -> bf::StreamMessageRequest {
    let notifications =
        bf::subscribe::Notifications { enable_learn_notifications: true, ..Default::default() };
    let subscribe = bf::Subscribe {
        is_master: true,
        device_id,
        notifications: Some(notifications),
        ..Default::default()
    };
    let update = Some(bf::stream_message_request::Update::Subscribe(subscribe));
    bf::StreamMessageRequest { client_id: CLIENT_ID, update }
}

/// The tables of the program that the switch runs, and the driver's own. A file that the topology names has to agree.
fn info(
    switch: &Switch,
    tofino: &Tofino,
    config: &bf::GetForwardingPipelineConfigResponse,
) -> Result<Info, BfrtError> {
    let program = config.config.iter().find(|c| c.p4_name == tofino.program).ok_or_else(|| {
        let others: Vec<&str> = config.config.iter().map(|c| c.p4_name.as_str()).collect();
        BfrtError::Unfit(format!(
            "it runs no program `{}` (but: {}); name the one that is ours with program: NAME in the topology",
            tofino.program,
            if others.is_empty() { "none".into() } else { others.join(", ") }
        ))
    })?;
    let running =
        Info::parse(&program.bfruntime_info, &format!("the program `{}` that it runs", tofino.program))?;
    if let Some(folder) = &switch.artifacts {
        let path = folder.join(BF_RT);
        let text = std::fs::read(&path).map_err(|e| BfrtError::Unfit(format!("{}: {e}", path.display())))?;
        if !Info::parse(&text, &path.display().to_string())?.agrees(&running) {
            return Err(BfrtError::Unfit(format!(
                "it runs another build of `{}` than that of {}: load that one, or name the folder of the one that runs",
                tofino.program,
                path.display()
            )));
        }
    }
    let own = config.non_p4_config.as_ref().map(|c| c.bfruntime_info.as_slice()).unwrap_or_default();
    Ok(running.and(Info::parse(own, "the list of its driver's own tables")?))
}

/// The outcome of each part of a request.
pub(super) fn errors(status: &tonic::Status) -> impl Iterator<Item = bf::Error> {
    use prost::Message;
    let details = p4runtime_proto::google::rpc::Status::decode(status.details()).unwrap_or_default().details;
    details.into_iter().filter_map(|any| bf::Error::decode(any.value.as_slice()).ok())
}

/// The status' message, and the first part that failed.
pub(super) fn explain(status: &tonic::Status) -> String {
    let failed = errors(status).enumerate().find(|(_, e)| e.canonical_code != tonic::Code::Ok as i32);
    let text = match status.message() {
        "" => format!("{:?}", status.code()),
        message => message.to_owned(),
    };
    match failed {
        Some((_, e)) if e.canonical_code == tonic::Code::ResourceExhausted as i32 => format!(
            "the chip has no room for another entry, which can be before a table has as many as it says ({}): delete \
             flows that nobody needs",
            e.message
        ),
        Some((index, e)) => format!("{text} (part {}: {})", index + 1, e.message),
        None => text,
    }
}
