//! The host agent: owner of a host's rings and of their side of the NIC.
//!
//! ```text
//! controller ── gRPC (zsr_api::agent) ───────► Service ─┐
//!                                                      ├─► Agent ─► rings in memory, NicBackend
//! programs in this process ── attach_producer, … ──────┘
//! ```
//!
//! [`Agent`] is a library type without I/O of its own but the NIC's; [`Agent::serve`] puts the service in
//! front of it. Calls to the NIC are made one at a time under one lock: setting up rings is rare, and the
//! order of its steps matters. Items never come here.

mod batch;
mod carry_over;
mod convert;
mod error;
mod holders;
mod passes;
mod programs;
mod service;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use zsr_wire::{Qpn, Rkey};

use crate::memory::{Memories, MemoryRefusal};
use crate::nic::{NicBackend, NicInfo, QpTarget, RingPart};
use zsr_api::{agent::HostFigures, machine::Machine, word};
use zsr_ring::doorbell::Doorbell;
use zsr_ring::layout::SMALLEST_ITEM;
use zsr_ring::memory::MemoryKind;
use zsr_ring::{ByteOrder, Cancel, Consumer, Lease, Producer, Ring, RingSpec, Role};
use zsr_tls::Doings;

pub use batch::OpenRing;
pub use carry_over::ResumeRing;
pub use error::AgentError;
pub use service::{AgentService, ServeError};

/// Events that a slow watcher may lag behind before it loses some.
const EVENT_BACKLOG: usize = 1024;
const MAX_NAME: usize = 255;

/// A ring asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingRequest {
    /// Unique on this host; 1 to 255 bytes, no control characters.
    pub name: String,
    /// [`Role::Producer`] or [`Role::Consumer`].
    pub role: Role,
    /// Bytes per item.
    pub item_size: u64,
    /// Bytes of items.
    pub ring_size: u64,
    /// Byte order of the control words.
    pub byte_order: ByteOrder,
    /// Where both counters start, bytes; rounded down to whole items.
    pub start: u32,
    /// Where its memory is to be.
    pub memory: MemoryKind,
}

impl RingRequest {
    /// A ring in host memory and this host's byte order whose counters start at 0.
    pub fn new(name: impl Into<String>, role: Role, item_size: u64, ring_size: u64) -> Self {
        let (name, byte_order, memory) = (name.into(), ByteOrder::NATIVE, MemoryKind::Host);
        Self { name, role, item_size, ring_size, byte_order, start: 0, memory }
    }
}

/// How far a ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RingState {
    /// Memory and queue pairs are there, the switch is not connected.
    Registered,
    /// The switch may read and write.
    Connected,
    /// Given up.
    Aborted,
}

/// One of the two queue pairs of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePair {
    /// Number at this NIC.
    pub qpn: Qpn,
    /// The connected peer.
    pub remote: Option<QpTarget>,
}

/// The agent's knowledge of a ring.
#[derive(Debug, Clone)]
pub struct RingInfo {
    /// The ring's name.
    pub name: String,
    /// Number on this agent, from 1; never used again.
    pub id: u64,
    /// The ring itself: shape, role, epoch, words, statistics.
    pub ring: Arc<Ring>,
    /// Remote key of its memory, which lies at I/O virtual address 0.
    pub rkey: Rkey,
    /// The queue pair for items, tail words and commit records.
    pub data: QueuePair,
    /// The queue pair for READs of the word that the processing unit writes.
    pub poll: QueuePair,
    /// The state of the ring.
    pub state: RingState,
    /// Secret of its doorbell, if it has one (a producer ring).
    pub doorbell: Option<u32>,
    /// How its last program died, if none has come since.
    pub died: Option<String>,
    /// Whether its last program was at the end of its stream, and none has come since.
    pub finished: bool,
    /// Until when no program can take it.
    held: Option<Instant>,
}

impl RingInfo {
    /// Whether a program can take it now.
    ///
    /// # Errors
    /// [`AgentError::Held`].
    fn open(&self) -> Result<(), AgentError> {
        match self.held.is_some_and(|until| Instant::now() < until) {
            true => Err(AgentError::Held(self.name.clone())),
            false => Ok(()),
        }
    }

    fn at_nic(&self) -> RingPart {
        RingPart { rkey: self.rkey, data: self.data.qpn, poll: self.poll.qpn }
    }
}

/// The kind of an event at a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Memory, key and queue pairs were made.
    Created,
    /// Both queue pairs were connected.
    Connected,
    /// Both queue pairs were reset.
    Disconnected,
    /// The ring was given up.
    Aborted,
    /// Key and queue pairs are gone.
    Destroyed,
    /// A program took the ring's handle.
    Attached,
    /// A program in another process has left, at the end of the stream or so that another can go on.
    Left,
    /// A program in another process is gone without having said so, or has given up.
    Died,
}

/// Something happened to a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentEvent {
    /// The kind of the event.
    pub kind: EventKind,
    /// The ring's name.
    pub name: String,
    /// The ring's number.
    pub id: u64,
    /// The ring's epoch.
    pub epoch: u16,
    /// The reason of an abort; which program came, left or died.
    pub detail: String,
}

/// How the cable of the NIC is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkState {
    /// The system's interface there, if it has one.
    pub interface: String,
    /// Why frames are lost, and what to do.
    pub trouble: Option<String>,
}

/// The agent of one host and one NIC. Clones are the same agent.
#[derive(Clone)]
pub struct Agent(Arc<Inner>);

struct Inner {
    name: String,
    nic: Box<dyn NicBackend>,
    memory_limit: Option<u64>,
    memories: Memories,
    table: Mutex<Table>,
    holders: holders::Holders,
    events: broadcast::Sender<AgentEvent>,
    link: watch::Sender<LinkState>,
    late: broadcast::Sender<String>,
    doings: Doings,
    programs: Mutex<Option<(PathBuf, Machine)>>,
    passes: passes::Passes,
    /// Programs that did not get a ring.
    refused: AtomicU64,
}

#[derive(Default)]
struct Table {
    rings: BTreeMap<String, RingInfo>,
    last_id: u64,
    bytes: u64,
    down: bool,
}

impl Agent {
    /// An agent without rings.
    pub fn new(name: impl Into<String>, nic: impl NicBackend) -> Self {
        Self::with_memories(name, nic, None, Memories::of_this_machine(false))
    }

    /// An agent whose rings programs in other processes can attach to ([`Agent::serve_programs`]); `limit` is as for
    /// [`with_memories`](Self::with_memories).
    pub fn with_shared_memory(name: impl Into<String>, nic: impl NicBackend, limit: Option<u64>) -> Self {
        Self::with_memories(name, nic, limit, Memories::of_this_machine(true))
    }

    /// An agent whose rings are in `memories`, and get at most `memory_limit` bytes of them, control pages included.
    pub fn with_memories(
        name: impl Into<String>,
        nic: impl NicBackend,
        memory_limit: Option<u64>,
        memories: Memories,
    ) -> Self {
        let (events, _) = broadcast::channel(EVENT_BACKLOG);
        Self(Arc::new(Inner {
            name: name.into(),
            nic: Box::new(nic),
            memory_limit,
            memories,
            table: Mutex::default(),
            holders: holders::Holders::default(),
            events,
            link: watch::Sender::default(),
            late: broadcast::channel(16).0,
            doings: Doings::default(),
            programs: Mutex::default(),
            passes: passes::Passes::default(),
            refused: AtomicU64::new(0),
        }))
    }

    /// Notes where programs attach: the socket of [`serve_programs`](Self::serve_programs), and the machine that it is on.
    /// [`GetInfo`](zsr_api::agent::AgentInfo) tells it from then on.
    pub fn set_programs(&self, socket: &Path, machine: Machine) {
        *self.0.programs.lock().unwrap_or_else(PoisonError::into_inner) = Some((socket.to_owned(), machine));
    }

    /// Programs of other processes attach only by leave of the controller from now on, which knows them by their certificates.
    pub fn ask_for_passes(&self) {
        self.0.passes.ask_for();
    }

    /// Lets a program that shows `pass` attach to a ring, once and within a minute.
    ///
    /// # Errors
    /// [`AgentError::NotFound`].
    pub fn admit_program(&self, name: &str, pass: Vec<u8>) -> Result<(), AgentError> {
        self.0.passes.give(self.ring(name)?.id, pass);
        Ok(())
    }

    /// Where programs attach, if that was said.
    pub fn programs(&self) -> Option<(PathBuf, Machine)> {
        self.0.programs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The host's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The NIC.
    pub fn nic(&self) -> NicInfo {
        self.0.nic.info()
    }

    /// What the NIC and this agent count. Blocks on the NIC.
    pub fn figures(&self) -> HostFigures {
        HostFigures {
            nic: self.0.nic.stats(),
            ring_bytes: self.lock().bytes,
            refused_programs: self.0.refused.load(Ordering::Relaxed),
        }
    }

    /// Events at rings from now on.
    pub fn events(&self) -> broadcast::Receiver<AgentEvent> {
        self.0.events.subscribe()
    }

    /// How the NIC's cable is, which its driver says with [`set_link`](Self::set_link).
    pub fn link(&self) -> watch::Receiver<LinkState> {
        self.0.link.subscribe()
    }

    /// Tells watchers of something in the agent's process that does not come round, or does again.
    pub fn tell_late(&self, text: &str) {
        // Fails only when nobody listens.
        let _ = self.0.late.send(text.to_owned());
    }

    /// The work under way, for people. Takes no lock that is held for long.
    pub fn under_way(&self) -> Vec<String> {
        let since =
            |(_, what, time): (u64, String, Duration)| format!("{what}, for {:.1} s", time.as_secs_f64());
        let mut all: Vec<String> = self.0.doings.list().into_iter().map(since).collect();
        match self.0.table.try_lock() {
            Ok(table) => all.push(format!("rings: {}", table.rings.len())),
            Err(_) => all.push("the list of rings is being changed".to_owned()),
        }
        let programs = self.0.holders.programs();
        all.extend(programs.into_iter().map(|program| format!("{program} has a ring")));
        all
    }

    /// Waits until the agent's rings can be looked at, as a call does.
    pub fn come_round(&self) {
        drop(self.lock());
    }

    /// Why nothing passes the NIC's port at this moment, as far as the NIC itself can tell.
    pub fn nic_trouble(&self) -> Option<String> {
        self.0.nic.trouble().map(|e| e.to_string())
    }

    /// Notes how the NIC's cable is; watchers are told if that is news.
    pub fn set_link(&self, interface: &str, trouble: Option<String>) {
        let fresh = LinkState { interface: interface.to_owned(), trouble };
        self.0.link.send_if_modified(|link| {
            let news = link.trouble != fresh.trouble;
            *link = fresh;
            news
        });
    }

    /// Makes a ring in fresh memory, registers it, and makes its queue pairs. Blocks on the NIC.
    ///
    /// # Errors
    /// [`AgentError`]: name taken or unusable, sizes, memory, NIC. Nothing is left behind then.
    pub fn create_ring(&self, request: RingRequest) -> Result<RingInfo, AgentError> {
        let RingRequest { name, role, item_size, ring_size, byte_order, start, memory } = request;
        if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(AgentError::Name(name));
        }
        if role == Role::Loopback {
            let message = "a ring of an agent is a producer's or a consumer's".to_owned();
            return Err(AgentError::Argument { name, message });
        }
        let spec = match RingSpec::new(item_size, ring_size) {
            Ok(spec) => spec.with_byte_order(byte_order),
            Err(source) => return Err(AgentError::Geometry { name, source }),
        };
        let mut table = self.table()?;
        if table.rings.contains_key(&name) {
            return Err(AgentError::Exists(name));
        }
        let need = spec.memory_len() as u64;
        if let Some(limit) = self.0.memory_limit {
            let left = limit.saturating_sub(table.bytes);
            if need > left {
                return Err(AgentError::Limit { name, need, left, limit });
            }
        }
        let id = table.last_id + 1;
        // Differs from that of any ring made shortly before, of this name or another.
        let epoch = id as u16;
        if memory == MemoryKind::Layouts && role == Role::Producer && item_size < SMALLEST_ITEM.into() {
            let message = format!(
                "items of {item_size} B are too small for layouts: expected {SMALLEST_ITEM} B or more"
            );
            return Err(AgentError::Argument { name, message });
        }
        let memory = match self.0.memories.for_ring(memory, role, spec) {
            Ok(memory) => memory,
            Err(MemoryRefusal::Host(source)) => {
                return Err(AgentError::Memory { name, source: source.into() });
            }
            Err(source) => return Err(AgentError::Device { name, source }),
        };
        let ring = match Ring::over(role, spec, memory, start, epoch) {
            Ok(ring) => ring,
            Err(source) => return Err(AgentError::Memory { name, source }),
        };
        reachable(&name, &ring)?;
        let RingPart { rkey, data, poll } = match self.0.nic.make(Arc::clone(ring.memory())) {
            Ok(made) => made,
            Err(source) => return Err(AgentError::Nic { name, source }),
        };
        let [data, poll] = [data, poll].map(|qpn| QueuePair { qpn, remote: None });
        let state = RingState::Registered;
        let info = RingInfo {
            name: name.clone(),
            id,
            ring,
            rkey,
            data,
            poll,
            state,
            doorbell: None,
            died: None,
            finished: false,
            held: None,
        };
        table.last_id = id;
        table.bytes += need;
        table.rings.insert(name, info.clone());
        self.emit(EventKind::Created, &info, "");
        Ok(info)
    }

    /// Connects both queue pairs, or neither. Blocks on the NIC.
    ///
    /// # Errors
    /// [`AgentError`]: no such ring, connected or aborted already, path MTU too large or none, NIC.
    pub fn connect_ring(&self, name: &str, data: &QpTarget, poll: &QpTarget) -> Result<RingInfo, AgentError> {
        let limit = self.nic().path_mtu;
        for (which, target) in [("data", data), ("poll", poll)] {
            if target.path_mtu > limit {
                let message = format!(
                    "path MTU {} B of the {which} queue pair is more than this NIC's {limit} B",
                    target.path_mtu
                );
                return Err(AgentError::Argument { name: name.to_owned(), message });
            }
        }
        self.change(name, |nic, info| {
            let advice = match info.state {
                RingState::Registered => None,
                RingState::Connected => Some("disconnect it first"),
                RingState::Aborted => Some("destroy it and make it again"),
            };
            if let Some(advice) = advice {
                return Err(AgentError::State {
                    name: info.name.clone(),
                    state: state_name(info.state),
                    advice,
                });
            }
            let fail = |source| AgentError::Nic { name: info.name.clone(), source };
            nic.connect(info.at_nic(), data, poll).map_err(fail)?;
            (info.data.remote, info.poll.remote) = (Some(*data), Some(*poll));
            info.state = RingState::Connected;
            Ok(Some(EventKind::Connected))
        })
    }

    /// Resets both queue pairs of a connected ring; does nothing to any other. Blocks on the NIC.
    ///
    /// # Errors
    /// [`AgentError`]: no such ring, NIC.
    pub fn disconnect_ring(&self, name: &str) -> Result<RingInfo, AgentError> {
        let info = self.change(name, |nic, info| {
            if info.state != RingState::Connected {
                return Ok(None);
            }
            disconnect(nic, info)?;
            info.state = RingState::Registered;
            Ok(Some(EventKind::Disconnected))
        })?;
        // Here the agent looks into refusals by the NIC for the ring: nobody has to wait for the reason.
        self.note_trouble(&info);
        Ok(info)
    }

    /// Disconnects a ring and tells its processing unit through ABORTED. Blocks on the NIC.
    ///
    /// # Errors
    /// [`AgentError`]: no such ring, NIC. The processing unit is told in any case.
    pub fn abort_ring(&self, name: &str, reason: &str) -> Result<RingInfo, AgentError> {
        self.change(name, |nic, info| {
            // First the switch's writes end, which would overwrite the flag.
            let result = if info.state == RingState::Connected { disconnect(nic, info) } else { Ok(()) };
            info.ring.abort(reason);
            let first = info.state != RingState::Aborted;
            info.state = RingState::Aborted;
            result.map(|()| first.then_some(EventKind::Aborted))
        })
    }

    /// Disconnects a consumer ring and ends its stream behind what is in it; a producer ring stays as it is. Blocks on the NIC.
    fn finish_ring(&self, name: &str) -> Result<(), AgentError> {
        let finish = |nic: &dyn NicBackend, info: &mut RingInfo| {
            if info.ring.role() != Role::Consumer || info.state != RingState::Connected {
                return Ok(None);
            }
            let result = disconnect(nic, info);
            info.state = RingState::Registered;
            info.ring.finish();
            result.map(|()| None)
        };
        self.change(name, finish).map(|_| ())
    }

    /// Disconnects a ring, makes its key and queue pairs invalid, and forgets it. Blocks on the NIC.
    ///
    /// # Errors
    /// [`AgentError`]: no such ring; NIC, in which case the ring is forgotten all the same.
    pub fn destroy_ring(&self, name: &str) -> Result<(), AgentError> {
        let mut table = self.table()?;
        let info = table.rings.remove(name).ok_or_else(|| AgentError::NotFound(name.to_owned()))?;
        table.bytes -= info.ring.spec().memory_len() as u64;
        self.destroy(&info)
    }

    fn destroy(&self, info: &RingInfo) -> Result<(), AgentError> {
        let result = self.0.nic.destroy(info.at_nic());
        // A program that waits in the ring would wait for ever. An end that the switch wrote before stands.
        info.ring.abort("the ring was destroyed");
        self.emit(EventKind::Destroyed, info, "");
        result.map_err(|source| AgentError::Nic { name: info.name.clone(), source })
    }

    /// Destroys all rings and refuses every call from then on. Blocks on the NIC.
    ///
    /// # Errors
    /// The first error of the NIC; all rings are gone all the same.
    pub fn shutdown(&self) -> Result<(), AgentError> {
        let mut table = self.lock();
        table.down = true;
        table.bytes = 0;
        let mut result = Ok(());
        for info in std::mem::take(&mut table.rings).into_values() {
            result = result.and(self.destroy(&info));
        }
        result
    }

    /// The ring of this name.
    ///
    /// # Errors
    /// [`AgentError::NotFound`].
    pub fn ring(&self, name: &str) -> Result<RingInfo, AgentError> {
        let table = self.table()?;
        table.rings.get(name).cloned().ok_or_else(|| AgentError::NotFound(name.to_owned()))
    }

    /// All rings, by name.
    ///
    /// # Errors
    /// [`AgentError::ShuttingDown`].
    pub fn rings(&self) -> Result<Vec<RingInfo>, AgentError> {
        Ok(self.table()?.rings.values().cloned().collect())
    }

    /// No program can take these producer rings for so long, from now on.
    ///
    /// # Errors
    /// [`AgentError::ShuttingDown`].
    pub fn hold_rings(&self, names: &[String], time: Duration) -> Result<(), AgentError> {
        let mut table = self.table()?;
        for name in names {
            if let Some(info) = table.rings.get_mut(name).filter(|info| info.ring.role() == Role::Producer) {
                info.held = Some(Instant::now() + time);
            }
        }
        Ok(())
    }

    /// The rings of these names, as far as there are any.
    ///
    /// # Errors
    /// [`AgentError::ShuttingDown`].
    pub fn rings_named(&self, names: &[String]) -> Result<Vec<RingInfo>, AgentError> {
        let table = self.table()?;
        Ok(names.iter().filter_map(|name| table.rings.get(name)).cloned().collect())
    }

    /// The pushing handle of a producer ring, for a program in this process.
    ///
    /// # Errors
    /// [`AgentError::NotFound`], [`AgentError::Held`], [`AgentError::Attach`].
    pub fn attach_producer(&self, name: &str, cancel: Cancel) -> Result<Producer, AgentError> {
        let mut producer = self.attach(name, |ring| ring.attach_producer(cancel))?;
        if let Some(bell) = self.bell_of(&self.ring(name)?) {
            producer.set_doorbell(bell);
        }
        Ok(producer)
    }

    /// The doorbell of a ring, if it is to ring and its NIC can: the switch polls rings that do not.
    fn bell_of(&self, info: &RingInfo) -> Option<Box<dyn Doorbell>> {
        let (Some(secret), Some(target)) = (info.doorbell, &info.poll.remote) else { return None };
        match self.0.nic.doorbell(target, secret) {
            Ok(bell) => Some(bell),
            Err(error) => {
                tracing::warn!("ring `{}`: {error}; the switch polls it", info.name);
                None
            }
        }
    }

    /// Gives a ring a doorbell, for the program that attaches to it next.
    ///
    /// # Errors
    /// [`AgentError`]: no such ring.
    pub fn set_doorbell(&self, name: &str, secret: u32) -> Result<RingInfo, AgentError> {
        self.change(name, |_, info| {
            info.doorbell = Some(secret);
            Ok(None)
        })
    }

    /// The popping handle of a consumer ring, for a program in this process.
    ///
    /// # Errors
    /// [`AgentError::NotFound`], [`AgentError::Attach`].
    pub fn attach_consumer(&self, name: &str, cancel: Cancel) -> Result<Consumer, AgentError> {
        self.attach(name, |ring| ring.attach_consumer(cancel))
    }

    fn attach<H>(
        &self,
        name: &str,
        attach: impl FnOnce(&Arc<Ring>) -> Result<H, zsr_ring::AttachError>,
    ) -> Result<H, AgentError> {
        let table = self.table()?;
        let info = table.rings.get(name).ok_or_else(|| AgentError::NotFound(name.to_owned()))?;
        info.open()?;
        let handle =
            attach(&info.ring).map_err(|source| AgentError::Attach { name: name.to_owned(), source })?;
        self.emit(EventKind::Attached, info, "");
        Ok(handle)
    }

    /// The processing unit's side of a ring, for a program in another process.
    fn lease(&self, name: &str, program: &str) -> Result<(RingInfo, Lease), AgentError> {
        let mut table = self.table()?;
        let info = table.rings.get_mut(name).ok_or_else(|| AgentError::NotFound(name.to_owned()))?;
        info.open()?;
        let lease =
            info.ring.lease().map_err(|source| AgentError::Attach { name: name.to_owned(), source })?;
        info.died = None;
        info.finished = false;
        self.emit(EventKind::Attached, info, program);
        Ok((info.clone(), lease))
    }

    /// Changes one ring and says what happened to it.
    fn change(
        &self,
        name: &str,
        change: impl FnOnce(&dyn NicBackend, &mut RingInfo) -> Result<Option<EventKind>, AgentError>,
    ) -> Result<RingInfo, AgentError> {
        let mut table = self.table()?;
        let info = table.rings.get_mut(name).ok_or_else(|| AgentError::NotFound(name.to_owned()))?;
        if let Some(kind) = change(&*self.0.nic, info)? {
            self.emit(kind, info, info.ring.abort_reason().unwrap_or_default());
        }
        Ok(info.clone())
    }

    fn emit(&self, kind: EventKind, info: &RingInfo, detail: &str) {
        let what = convert::kind(kind);
        tracing::info!(
            kind = word(what.as_str_name(), "KIND_"),
            host = self.name(),
            ring = info.name,
            "{detail}"
        );
        let (name, detail) = (info.name.clone(), detail.to_owned());
        // Fails only when nobody listens.
        let _ = self.0.events.send(AgentEvent { kind, name, id: info.id, epoch: info.ring.epoch(), detail });
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> Result<MutexGuard<'_, Table>, AgentError> {
        let table = self.lock();
        if table.down { Err(AgentError::ShuttingDown) } else { Ok(table) }
    }
}

/// Whether the memory of ring `name` is still there: what was read of memory that is gone is nothing to go by.
fn reachable(name: &str, ring: &Ring) -> Result<(), AgentError> {
    match ring.memory().trouble() {
        Some(trouble) => Err(AgentError::Lost { name: name.to_owned(), trouble }),
        None => Ok(()),
    }
}

fn disconnect(nic: &dyn NicBackend, info: &mut RingInfo) -> Result<(), AgentError> {
    let result = nic.reset(info.at_nic());
    (info.data.remote, info.poll.remote) = (None, None);
    // Everything that the switch has written is there from now on, and nothing comes behind it.
    if let Some(bus) = info.ring.memory().bus() {
        // Memory that is gone is told of by `note_trouble`.
        let _ = bus.settle();
    }
    result.map_err(|source| AgentError::Nic { name: info.name.clone(), source })
}

fn state_name(state: RingState) -> &'static str {
    match state {
        RingState::Registered => "not connected",
        RingState::Connected => "connected",
        RingState::Aborted => "aborted",
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("name", &self.0.name).field("nic", &self.nic()).finish_non_exhaustive()
    }
}
