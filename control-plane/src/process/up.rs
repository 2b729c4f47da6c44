//! Starts a whole local system in the background, and creates the flows of its topology.

use super::launch::{Launch, last_words};
use super::netns::{self, NetnsError};
use super::roles::Role;
use super::{Down, down};
use crate::workload::input_columns;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonic::Code;
use zsr::lock::{Holder, Lock};
use zsr::{ClientError, Place, PlaceError, Session};
use zsr_api::controller as proto;
use zsr_records::{Bound, KeyRef, Routing, Schema};
use zsr_topology::{Endpoint, Flow, FlowKind, Hint, Layout, Policy, Topology, default_schema};

/// How long agents that are started elsewhere may take to come up.
const OTHERS: Duration = Duration::from_secs(60);
/// How long a process may take to end when what it depends on has failed.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long creating a flow is tried while agents do not answer.
const BUSY: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Why a system did not come up. Whatever had been started is ended again.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// Its folder.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It is up.
    #[error("system `{name}` is up already ({what}); end it with: zsr down {name}")]
    Twice {
        /// Its name.
        name: String,
        /// What is there.
        what: String,
    },
    /// A process did not start.
    #[error("the {process} did not start: {reason}")]
    Process {
        /// Which.
        process: String,
        /// The end of its log.
        reason: String,
    },
    /// Somebody has changed their mind.
    #[error("interrupted; what had been started is ended again")]
    Interrupted,
    /// The switch has ended before everything was there.
    #[error("the switch has ended: {words}. That was when: {meanwhile}")]
    SwitchEnded {
        /// The end of its log.
        words: String,
        /// What failed with it.
        meanwhile: String,
    },
    /// Its network namespaces.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// An agent that is started elsewhere.
    #[error(
        "host `{host}`: its agent at {address} does not answer; start it on its machine with: zsr agent TOPOLOGY {host}"
    )]
    NoAgent {
        /// The host.
        host: String,
        /// Where its agent should be.
        address: SocketAddr,
    },
    /// The controller.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A flow of the topology.
    #[error("flow `{flow}`: {reason}")]
    Flow {
        /// Which.
        flow: String,
        /// The controller's words.
        reason: String,
    },
}

/// What to bring up, and how.
#[derive(Clone, Copy)]
pub struct Up<'u> {
    /// The topology, laid out.
    pub topology: &'u Topology,
    /// How it was laid out; the system's processes lay it out again.
    pub layout: &'u Layout,
    /// Folder with the compiled program, if not the built-in one.
    pub artifacts: Option<&'u Path>,
    /// Whether the topology's flows are created.
    pub flows: bool,
    /// Turns true when whoever asked has changed their mind.
    pub interrupted: &'u AtomicBool,
    /// Hears of what is found and done.
    pub tell: &'u dyn Fn(&str),
}

/// Brings up system `name`.
///
/// # Errors
/// [`UpError`]; nothing of the system is left then, unless it was up already.
pub fn up(name: &str, how: &Up<'_>) -> Result<Place, UpError> {
    let place = Place::make(name)?;
    let twice = |what: String| UpError::Twice { name: name.to_owned(), what };
    let _busy = Lock::take(&place.busy()).map_err(|e| twice(e.to_string()))?;
    let stale = place.processes();
    for process in &stale {
        if let Holder::Process(pid) = Lock::holder(&place.pid(process)) {
            return Err(twice(format!("{process} is process {pid}")));
        }
    }
    if !stale.is_empty() || place.netns_file().exists() {
        (how.tell)(&format!("system `{name}` was not ended in good order; what it left is taken away"));
        netns::remove(&place)?;
        place.remove()?;
    }
    let place = Place::make(name)?;
    let done = how.start(&place);
    if done.is_err() {
        // The reason that it did not come up is the one to tell.
        let _ = down(&place, &Down { already_locked: true, quick: true }, &|_| ());
    }
    done.map(|()| place)
}

impl Up<'_> {
    fn start(&self, place: &Place) -> Result<(), UpError> {
        let topology = self.topology;
        if *self.layout != Layout::default() {
            super::layout::write_layout(place, self.layout)?;
        }
        if self.layout.netns {
            netns::make(place, topology)?;
        }
        let own: Vec<_> = topology.hosts.iter().filter(|h| h.agent.is_none()).collect();
        (self.tell)(&format!("starting 1 switch, {} agents, 1 controller", own.len()));
        let launch = Launch {
            place,
            topology,
            netns: self.layout.netns,
            artifacts: self.artifacts,
            interrupted: self.interrupted,
        };
        launch.ready(launch.spawn(&Role::Switch)?)?;
        let agents: Vec<_> = own
            .iter()
            .map(|h| launch.spawn(&Role::Agent { host: h.name.clone(), listen: None }))
            .collect::<Result<_, _>>()?;
        agents.into_iter().try_for_each(|agent| launch.ready(agent))?;
        let controller = launch.spawn(&Role::Controller)?;
        launch.ready(controller).map_err(|e| self.reason(place, e))?;
        let session = Session::open(place)?.telling();
        self.wait_for_others(&session)?;
        if !self.flows {
            return Ok(());
        }
        for flow in &topology.flows {
            let created = self.create(&session, flow);
            created.map_err(|e| self.reason(place, e))?;
        }
        Ok(())
    }

    /// Creates a flow of the topology. On a machine with too much to do an agent may not answer in time: it is asked again.
    fn create(&self, session: &Session, flow: &Flow) -> Result<(), UpError> {
        let begun = Instant::now();
        loop {
            self.go_on()?;
            let request = create_flow_request(self.topology, flow);
            let why = match session.change(|mut c| async move { c.create_flow(request).await }) {
                Ok(_) => return Ok(()),
                Err(e) => e,
            };
            let busy = matches!(why, ClientError::Refused { code: Code::Unavailable, .. });
            if !busy || begun.elapsed() > BUSY {
                return Err(UpError::Flow { flow: flow.name.clone(), reason: why.to_string() });
            }
            (self.tell)(&format!("flow `{}`: {why}; trying again", flow.name));
            std::thread::sleep(PAUSE);
        }
    }

    fn go_on(&self) -> Result<(), UpError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(UpError::Interrupted) } else { Ok(()) }
    }

    /// If the switch has ended, that is why the rest failed.
    fn reason(&self, place: &Place, error: UpError) -> UpError {
        if let UpError::Interrupted = error {
            return error;
        }
        let switch = Role::Switch.process();
        let begun = Instant::now();
        while begun.elapsed() < LAST_WORDS {
            if Lock::holder(&place.pid(&switch)) == Holder::Nobody {
                let words = last_words(place, &switch, 0).unwrap_or_else(|| "it does not say why".into());
                return UpError::SwitchEnded { words, meanwhile: error.to_string() };
            }
            std::thread::sleep(PAUSE);
        }
        error
    }

    /// Agents that are started elsewhere have to be there before anything can be done with their hosts.
    fn wait_for_others(&self, session: &Session) -> Result<(), UpError> {
        let others: Vec<_> = self.topology.hosts.iter().filter_map(|h| Some((&h.name, h.agent?))).collect();
        let begun = Instant::now();
        let mut told = false;
        while !others.is_empty() {
            self.go_on()?;
            let system =
                session.call(|mut c| async move { c.get_system(proto::GetSystemRequest {}).await })?;
            let is_there = |name: &String| system.hosts.iter().any(|h| h.name == *name && h.connected);
            let Some((host, address)) = others.iter().find(|(name, _)| !is_there(name)) else { break };
            if begun.elapsed() > OTHERS {
                return Err(UpError::NoAgent { host: (*host).clone(), address: *address });
            }
            if !std::mem::replace(&mut told, true) {
                (self.tell)(&format!("waiting for the agent of host `{host}` at {address}"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// The request for a flow of a topology.
pub fn create_flow_request(topology: &Topology, flow: &Flow) -> proto::CreateFlowRequest {
    // A host may be on both sides; the controller knows members by one name each.
    let mut taken = HashSet::new();
    let mut members = |endpoints: &[Endpoint]| -> Vec<proto::Member> {
        let all = endpoints.iter().map(|e| member(topology, flow, e));
        all.map(|m| proto::Member { name: unused(&mut taken, m.name), ..m }).collect()
    };
    let made = flow.producers.iter().chain(&flow.consumers).flat_map(|e| &e.rings).copied();
    let made = made.map(|r| &topology.rings[r]).find(|r| r.name.starts_with(&format!("{}.", flow.name)));
    proto::CreateFlowRequest {
        name: flow.name.clone(),
        kind: match flow.kind {
            FlowKind::Shuffle => proto::FlowKind::Shuffle.into(),
            FlowKind::LoadBalance => proto::FlowKind::LoadBalance.into(),
            FlowKind::Replicate => proto::FlowKind::Replicate.into(),
        },
        producers: members(&flow.producers),
        consumers: members(&flow.consumers),
        item_size: flow.item_size,
        ring_size: made.map_or(0, |r| r.size),
        settings: Some(proto::Settings {
            weight: Some(flow.weight),
            rate_cap_bps: Some(flow.rate_cap.map_or(0, |bytes| bytes.saturating_mul(8))),
            poll_interval_us: Some(flow.poll_interval.as_micros().max(1) as u64),
            poll_timeout_us: Some(flow.poll_timeout.as_micros() as u64),
            rto_us: Some(flow.rto.as_micros() as u64),
            dead_after_us: Some(flow.dead_after.as_micros() as u64),
            max_batch: Some(flow.max_batch),
            doorbell: flow.doorbell,
            hint: Some(match flow.hint {
                Hint::Bandwidth => proto::Hint::Bandwidth.into(),
                Hint::Latency => proto::Hint::Latency.into(),
            }),
            policy: Some(match flow.policy {
                Policy::Wait => proto::Policy::Wait.into(),
                Policy::DropMember => proto::Policy::DropMember.into(),
                Policy::Abort => proto::Policy::Abort.into(),
            }),
        }),
        // What is not routed has no routing to ask for.
        routing: match flow.kind {
            FlowKind::Shuffle => routing(&by_header(flow)),
            FlowKind::LoadBalance | FlowKind::Replicate => String::new(),
        },
        schema: schema(flow),
    }
}

/// `name`, or else that with `~2`, `~3` and so on.
fn unused(taken: &mut HashSet<String>, name: String) -> String {
    let more = (2..).map(|n: u32| format!("{name}~{n}"));
    let free = std::iter::once(name.clone()).chain(more).find(|n| !taken.contains(n)).unwrap_or(name);
    taken.insert(free.clone());
    free
}

fn member(topology: &Topology, flow: &Flow, endpoint: &Endpoint) -> proto::Member {
    let own = format!("{}.", flow.name);
    let names = endpoint.rings.iter().map(|r| topology.rings[*r].name.clone());
    proto::Member {
        name: endpoint.name.clone(),
        host: topology.hosts[endpoint.host].name.clone(),
        rings: names.filter(|n| !n.starts_with(&own)).collect(),
    }
}

/// The schema that a flow's file declares: what a workload of the topology makes has none of its own here, as programs bring
/// their own records.
fn schema(flow: &Flow) -> String {
    match flow.schema == default_schema(&flow.workload) {
        true => String::new(),
        false => Schema::of(&flow.schema).to_string(),
    }
}

/// The routing with a column of the input's header by number: programs bring their own records, but in these columns. A header
/// that can't be read leaves the name, which the controller refuses.
fn by_header(flow: &Flow) -> Routing {
    let columns = input_columns(&flow.workload);
    match (flow.routing.key(), columns) {
        (KeyRef::Name(name), Some(columns)) => match columns.iter().position(|column| column == name) {
            Some(index) => flow.routing.with_key(KeyRef::Number(index as u32 + 1)),
            None => flow.routing.clone(),
        },
        _ => flow.routing.clone(),
    }
}

/// A routing function as it is written.
fn routing(routing: &Routing) -> String {
    let key = |k: &KeyRef| match k {
        KeyRef::Whole => "*".to_owned(),
        KeyRef::Name(name) => name.clone(),
        KeyRef::Number(n) => n.to_string(),
        KeyRef::Bytes { offset, length } => format!("{offset}:{length}"),
    };
    match routing {
        Routing::Hash(k) => format!("hash({})", key(k)),
        Routing::Explicit(KeyRef::Whole) => "round-robin".into(),
        Routing::Explicit(k) => format!("explicit({})", key(k)),
        Routing::Range { key: k, bounds } => {
            let bounds: Vec<String> = bounds
                .iter()
                .map(|b| match b {
                    Bound::Int(n) => n.to_string(),
                    Bound::Text(t) => t.clone(),
                })
                .collect();
            format!("range({}, [{}])", key(k), bounds.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsr_records::parse_routing;

    #[test]
    fn routing_is_written_as_it_is_read() {
        for text in ["hash(*)", "hash(3)", "round-robin", "explicit(2)", "range(1, [5, 9])", "hash(0:8)"] {
            let parsed = parse_routing(text).unwrap();
            assert_eq!(routing(&parsed), text);
            assert_eq!(parse_routing(&routing(&parsed)), Some(parsed));
        }
    }

    #[test]
    fn a_host_on_both_sides_is_two_members() {
        let text = "hosts: [h1, h2]\nflows:\n  - {name: f, producers: [h1, h2], consumers: [h2, h1]}\n";
        let t = Topology::parse("t.yaml".as_ref(), text.as_bytes()).unwrap();
        let request = create_flow_request(&t, &t.flows[0]);
        let names = |members: &[proto::Member]| members.iter().map(|m| m.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&request.producers), ["h1", "h2"]);
        assert_eq!(names(&request.consumers), ["h2~2", "h1~2"]);
    }

    #[test]
    fn a_topologys_flow_is_asked_for_as_it_stands() {
        let text = "
hosts:
  - {name: h1, rings: [{name: out, role: producer, item_size: 64, size: 4096}]}
  - h2
flows:
  - {name: f, producers: [h1.out], consumers: [h2], ring_size: 8KiB, weight: 3, kind: replicate}
workload: {kind: synthetic}
";
        let t = Topology::parse("t.yaml".as_ref(), text.as_bytes()).unwrap();
        let request = create_flow_request(&t, &t.flows[0]);
        assert_eq!(request.producers[0].rings, ["h1.out"]);
        assert!(request.consumers[0].rings.is_empty());
        assert_eq!(
            (request.item_size, request.ring_size, request.kind()),
            (64, 8192, proto::FlowKind::Replicate)
        );
        assert_eq!(request.settings.unwrap().weight, Some(3));
    }
}
