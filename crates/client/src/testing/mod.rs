//! Flows inside this process, for unit tests of programs: without `zsr up`, a switch, or a network.
//!
//! What a program sees is real. It attaches by the flow's name, over the sockets of a controller and an agent, and its rings are shared
//! memory. Only the switch is not there: a thread copies items from ring to ring.
//!
//! ```
//! let flow = zsr::testing::shuffle(1, 2).routing("explicit(1)").start()?;
//! let mut producer = flow.producer(0)?;
//! producer.push(b"1,for the second consumer")?;
//! producer.push(b"0,for the first")?;
//! producer.close()?;
//!
//! let mut second = flow.consumer(1)?;
//! let batch = second.pop()?.expect("a record is on its way");
//! assert_eq!(batch.newest()?, Some(&b"1,for the second consumer"[..]));
//! drop(batch);
//! assert!(second.pop()?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program that attaches by itself takes [`Flow::place`] in place of the [`Place`] that it finds otherwise.
//!
//! Items move as in a system: those of one producer stay in order, and a replicate flow has one order for all consumers. An item is moved when
//! there is room for it, so pushes wait for consumers that do not pop. Members do not change. A program that dies or gives up
//! fails the flow for all, as under the policy `abort`.

mod agent;
mod controller;
mod mover;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use zsr_api::controller as proto;
use zsr_api::machine::Machine;
use zsr_records::{Schema, parse_routing};
use zsr_ring::memory::SharedMemory;
use zsr_ring::{ByteOrder, Ring, RingSpec, Role};

use crate::consumer::FlowConsumer;
use crate::error::ProgramError;
use crate::flow::Options;
use crate::place::Place;
use crate::producer::{FlowProducer, KeyRoute};
use mover::Mover;

/// Between two looks at rings in which nothing moves.
const PAUSE: Duration = Duration::from_micros(100);
/// The one host of a system.
const HOST: &str = "testing";

/// A flow in which each record goes to the consumer that the flow's routing says.
pub fn shuffle(producers: usize, consumers: usize) -> Setup {
    Setup::new(proto::FlowKind::Shuffle, producers, consumers)
}

/// A flow in which each item goes to a consumer that has room: to each in turn.
pub fn load_balance(producers: usize, consumers: usize) -> Setup {
    Setup::new(proto::FlowKind::LoadBalance, producers, consumers)
}

/// A flow in which each record goes to every consumer, in one order for all.
pub fn replicate(producers: usize, consumers: usize) -> Setup {
    Setup::new(proto::FlowKind::Replicate, producers, consumers)
}

/// A flow that is to be made.
#[derive(Clone, Debug)]
pub struct Setup {
    kind: proto::FlowKind,
    members: [usize; 2],
    name: String,
    item_size: u32,
    ring_size: u32,
    routing: String,
    schema: String,
    hint: proto::Hint,
}

impl Setup {
    fn new(kind: proto::FlowKind, producers: usize, consumers: usize) -> Self {
        Setup {
            kind,
            members: [producers, consumers],
            name: "flow".to_owned(),
            item_size: 4 << 10,
            ring_size: 64 << 10,
            routing: "hash".to_owned(),
            schema: String::new(),
            hint: proto::Hint::Bandwidth,
        }
    }

    /// The flow's name, which is `flow` otherwise.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Setup { name: name.to_owned(), ..self }
    }

    /// Bytes of an item and of a ring's items; 4 KiB and 64 KiB otherwise.
    #[must_use]
    pub fn sizes(self, item: u32, ring: u32) -> Self {
        Setup { item_size: item, ring_size: ring, ..self }
    }

    /// The routing of a shuffle, as `zsr flow create --routing` takes it. Otherwise it is the hash of the whole record.
    #[must_use]
    pub fn routing(self, routing: &str) -> Self {
        Setup { routing: routing.to_owned(), ..self }
    }

    /// What records are, as `zsr flow create --schema` takes it. Otherwise they are any bytes.
    #[must_use]
    pub fn schema(self, schema: &str) -> Self {
        Setup { schema: schema.to_owned(), ..self }
    }

    /// With the hint `latency`: what a call pushes goes at once, and needs no flush.
    #[must_use]
    pub fn latency(self) -> Self {
        Setup { hint: proto::Hint::Latency, ..self }
    }

    /// Makes the flow.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if there can be no such flow; else what the operating system says.
    pub fn start(self) -> io::Result<Flow> {
        let system = System::start()?;
        self.start_in(&Arc::new(system))
    }

    /// Makes the flow in the system of another one, for programs that have several flows.
    ///
    /// # Errors
    /// As [`start`](Self::start); also if that system has a flow of this name.
    pub fn start_beside(self, other: &Flow) -> io::Result<Flow> {
        self.start_in(&other.system)
    }

    fn start_in(self, system: &Arc<System>) -> io::Result<Flow> {
        let shared = system.shared.clone();
        let (flow, made) = self.lay(&shared.programs)?;
        let mut state = shared.lock();
        if state.flows.contains_key(&flow.name) {
            return Err(invalid(format!("there is a flow `{}` already", flow.name)));
        }
        let mover = Mover::new(self.kind, made.producers.clone(), made.consumers.clone());
        let rings = made.producers.into_iter().flatten().chain(made.consumers);
        let names = flow.producers.iter().chain(&flow.consumers).flat_map(|member| &member.rings);
        let held = names.zip(rings).map(|(named, ring)| (named.name.clone(), (flow.name.clone(), ring)));
        state.rings.extend(held);
        state.flows.insert(flow.name.clone(), (flow, mover));
        Ok(Flow { system: system.clone(), name: self.name, members: self.members })
    }

    /// The flow as the controller tells it, and its rings in the same order.
    fn lay(&self, programs: &std::path::Path) -> io::Result<(proto::Flow, Rings)> {
        let Setup { kind, members: [producers, consumers], name, .. } = self;
        if *producers == 0 || *consumers == 0 {
            return Err(invalid("a flow has a producer and a consumer at least".to_owned()));
        }
        let spec = RingSpec::new(self.item_size.into(), self.ring_size.into())
            .map_err(|e| invalid(e.to_string()))?
            .with_byte_order(ByteOrder::NATIVE);
        let make = |role| {
            let memory = SharedMemory::create(spec.memory_len(), spec.byte_order());
            let memory = memory.map_err(|e| io::Error::other(e.to_string()))?;
            Ring::over(role, spec, Arc::new(memory), 0, 1).map_err(|e| io::Error::other(e.to_string()))
        };
        let per_producer = if *kind == proto::FlowKind::Shuffle { *consumers } else { 1 };
        let mut made = Rings::default();
        for _ in 0..*producers {
            made.producers.push((0..per_producer).map(|_| make(Role::Producer)).collect::<io::Result<_>>()?);
        }
        made.consumers = (0..*consumers).map(|_| make(Role::Consumer)).collect::<io::Result<_>>()?;

        let (machine, mut number) = (Machine::this(), 0);
        let mut member = |member: String, rings: Vec<String>| proto::FlowMember {
            name: member.clone(),
            host: HOST.to_owned(),
            machine: machine.name.clone(),
            boot: machine.boot.clone(),
            rings: rings
                .into_iter()
                .map(|ring| {
                    number += 1;
                    proto::Ring {
                        name: format!("{name}.{ring}"),
                        host: HOST.to_owned(),
                        item_size: self.item_size,
                        size: self.ring_size,
                        flow: name.clone(),
                        member: member.clone(),
                        programs: programs.to_string_lossy().into_owned(),
                        number,
                        ..Default::default()
                    }
                })
                .collect(),
            ..Default::default()
        };
        let rings_of = |i: usize| match kind {
            proto::FlowKind::Shuffle => (0..*consumers).map(|j| format!("p{i}.c{j}")).collect(),
            _ => vec![format!("p{i}")],
        };
        let producers = (0..*producers).map(|i| member(format!("p{i}"), rings_of(i))).collect();
        let consumers = (0..*consumers).map(|j| member(format!("c{j}"), vec![format!("c{j}")])).collect();
        let mut flow = proto::Flow {
            name: name.clone(),
            state: proto::FlowState::Running.into(),
            item_size: self.item_size,
            ring_size: self.ring_size,
            settings: Some(proto::Settings { hint: Some(self.hint.into()), ..Default::default() }),
            producers,
            consumers,
            version: 1,
            schema: self.schema.clone(),
            ..Default::default()
        };
        flow.set_kind(*kind);
        self.check(&mut flow).map_err(invalid)?;
        Ok((flow, made))
    }

    /// What the controller would refuse.
    fn check(&self, flow: &mut proto::Flow) -> Result<(), String> {
        let schema = (!self.schema.is_empty()).then(|| Schema::parse(&self.schema)).transpose();
        let schema = schema.map_err(|e| e.to_string())?;
        flow.tuple_size = schema.as_ref().and_then(Schema::tuple_size).unwrap_or(0);
        if self.kind == proto::FlowKind::Shuffle {
            parse_routing(&self.routing).ok_or_else(|| format!("routing `{}` is not known", self.routing))?;
            flow.routing.clone_from(&self.routing);
            KeyRoute::of(flow, schema.as_ref(), None).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[derive(Default)]
struct Rings {
    producers: Vec<Vec<Arc<Ring>>>,
    consumers: Vec<Arc<Ring>>,
}

/// A flow inside this process. When the last flow of its system is dropped, programs that are still attached find their rings aborted.
pub struct Flow {
    system: Arc<System>,
    name: String,
    members: [usize; 2],
}

impl Flow {
    /// Attaches as the producer with this number, from 0.
    ///
    /// # Errors
    /// As [`FlowProducer::attach`].
    pub fn producer(&self, number: usize) -> Result<FlowProducer, ProgramError> {
        let member = Some(format!("p{number}"));
        FlowProducer::attach(self.place(), &self.name, &Options { member, ..Options::default() })
    }

    /// Attaches as the consumer with this number, from 0.
    ///
    /// # Errors
    /// As [`FlowConsumer::attach`].
    pub fn consumer(&self, number: usize) -> Result<FlowConsumer, ProgramError> {
        let member = Some(format!("c{number}"));
        FlowConsumer::attach(self.place(), &self.name, &Options { member, ..Options::default() })
    }

    /// Where programs find the flow. Producers are members `p0`, `p1`, …, consumers `c0`, `c1`, ….
    pub fn place(&self) -> &Place {
        &self.system.place
    }

    /// The flow's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many producers it has.
    pub fn producers(&self) -> usize {
        self.members[0]
    }

    /// How many consumers it has.
    pub fn consumers(&self) -> usize {
        self.members[1]
    }
}

/// A controller and an agent of one host, and what stands in for the switch.
struct System {
    shared: Arc<Shared>,
    place: Place,
    runtime: Option<Runtime>,
    mover: Option<JoinHandle<()>>,
    _folder: TempDir,
}

/// What its threads share.
struct Shared {
    /// The agent's socket.
    programs: PathBuf,
    state: Mutex<State>,
    /// How many events there were.
    events: watch::Sender<usize>,
    is_over: AtomicBool,
}

/// It is locked while items move, so that a flow that fails stands still before its rings are aborted.
#[derive(Default)]
struct State {
    flows: HashMap<String, (proto::Flow, Mover)>,
    /// By name, with their flow's.
    rings: HashMap<String, (String, Arc<Ring>)>,
    events: Vec<proto::Event>,
}

impl System {
    fn start() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("zsr-testing-").tempdir()?;
        let place = Place::at(folder.path());
        let programs = place.programs(0);
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("zsr-testing").enable_all().build()?;
        let listeners = {
            let _inside = runtime.enter();
            (UnixListener::bind(place.controller())?, UnixListener::bind(&programs)?)
        };
        let shared = Arc::new(Shared {
            programs,
            state: Mutex::default(),
            events: watch::Sender::new(0),
            is_over: AtomicBool::new(false),
        });
        runtime.spawn(controller::serve(shared.clone(), listeners.0));
        runtime.spawn(agent::serve(shared.clone(), listeners.1));
        let moving = shared.clone();
        let mover =
            std::thread::Builder::new().name("zsr-testing".to_owned()).spawn(move || moving.move_items())?;
        Ok(System { shared, place, runtime: Some(runtime), mover: Some(mover), _folder: folder })
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(mover) = self.mover.take() {
            let _ = mover.join();
        }
        // Connections end, so programs learn that their agent has.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn move_items(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let mut moved = false;
            for (flow, mover) in self.lock().flows.values_mut() {
                if flow.state() == proto::FlowState::Running {
                    moved |= mover.round();
                    if mover.is_done() {
                        flow.set_state(proto::FlowState::Ended);
                    }
                }
            }
            if !moved {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// A program at `ring` has died: its flow fails for all.
    fn fail(&self, ring: &str, why: &str) {
        let mut state = self.lock();
        let State { flows, rings, events } = &mut *state;
        let Some((name, _)) = rings.get(ring) else { return };
        let Some((flow, _)) = flows.get_mut(name) else { return };
        // Of what has ended nothing can be lost.
        if flow.state() != proto::FlowState::Running {
            return;
        }
        let reason = format!("ring `{ring}`: {why}");
        flow.set_state(proto::FlowState::Failed);
        flow.version += 1;
        flow.reason.clone_from(&reason);
        for (_, ring) in rings.values().filter(|(of, _)| of == name) {
            ring.abort(reason.clone());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = events.len() as u64 + 1;
        let mut event = proto::Event {
            number,
            time_ms: now.as_millis() as u64,
            flow: name.clone(),
            text: reason,
            ..Default::default()
        };
        event.set_kind(proto::EventKind::FlowFailed);
        events.push(event);
        self.events.send_replace(events.len());
    }
}
