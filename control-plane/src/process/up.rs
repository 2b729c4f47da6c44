//! Starts a whole local system in the background, and creates the flows of its topology.

use super::lock::{Held, Lock};
use super::place::{Place, PlaceError};
use super::roles::Role;
use super::{Down, down};
use crate::cli::client::{self, ClientError};
use crate::controller::proto;
use crate::topology::{Bound, Endpoint, Flow, FlowKind, Hint, KeyRef, Policy, Routing, Topology};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

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

/// Brings up system `name` of `topology`, with its flows if `flows`. `tell` hears of what is found and done.
///
/// # Errors
/// [`UpError`]; nothing of the system is left then, unless it was up already.
pub fn up(
    name: &str,
    topology: &Topology,
    artifacts: Option<&Path>,
    flows: bool,
    tell: &dyn Fn(&str),
) -> Result<Place, UpError> {
    let place = Place::make(name)?;
    let twice = |what: String| UpError::Twice { name: name.to_owned(), what };
    let _busy = Lock::take(&place.busy()).map_err(|e| twice(e.to_string()))?;
    let stale = place.processes();
    for process in &stale {
        if let Held::By(pid) = Lock::holder(&place.pid(process)) {
            return Err(twice(format!("{process} is process {pid}")));
        }
    }
    if !stale.is_empty() {
        tell(&format!("system `{name}` was not ended in good order; what it left is taken away"));
        place.remove()?;
    }
    let place = Place::make(name)?;
    let done = start(&place, topology, artifacts, flows, tell);
    if done.is_err() {
        // The reason that it did not come up is the one to tell.
        let _ = down(&place, &Down { already_locked: true, quick: true }, &|_| ());
    }
    done.map(|()| place)
}

fn start(
    place: &Place,
    topology: &Topology,
    artifacts: Option<&Path>,
    flows: bool,
    tell: &dyn Fn(&str),
) -> Result<(), UpError> {
    tell(&format!("starting 1 switch, {} agents, 1 controller", topology.hosts.len()));
    wait(place, spawn(place, topology, artifacts, Role::Switch)?)?;
    let agents: Vec<_> = topology
        .hosts
        .iter()
        .map(|h| spawn(place, topology, artifacts, Role::Agent(h.name.clone())))
        .collect::<Result<_, _>>()?;
    agents.into_iter().try_for_each(|agent| wait(place, agent))?;
    wait(place, spawn(place, topology, artifacts, Role::Controller)?)?;
    if !flows {
        return Ok(());
    }
    let session = client::Session::open(place)?;
    for flow in &topology.flows {
        let created = session.call(|mut c| {
            let request = create_flow_request(topology, flow);
            async move { c.create_flow(request).await }
        });
        created.map_err(|e| UpError::Flow { flow: flow.name.clone(), reason: e.to_string() })?;
    }
    Ok(())
}

struct Started {
    process: String,
    child: Child,
}

/// Starts a process of the system, away from this terminal.
fn spawn(
    place: &Place,
    topology: &Topology,
    artifacts: Option<&Path>,
    role: Role,
) -> Result<Started, UpError> {
    let process = role.process();
    let fail = |e: std::io::Error| UpError::Process { process: process.clone(), reason: e.to_string() };
    let log = std::fs::File::create(place.log(&process)).map_err(fail)?;
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    match &role {
        Role::Switch => command.arg("switch").arg(&topology.file),
        Role::Agent(host) => command.arg("agent").arg(&topology.file).arg(host),
        Role::Controller => command.arg("controller").arg(&topology.file),
    };
    if let (Role::Controller, Some(folder)) = (&role, artifacts) {
        command.arg("--artifacts").arg(folder);
    }
    command.args(["--system", place.name(), "--daemon"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let child = command.spawn().map_err(fail)?;
    Ok(Started { process, child })
}

/// Waits until a process says that it is ready, or ends.
fn wait(place: &Place, mut started: Started) -> Result<(), UpError> {
    let mut line = String::new();
    if let Some(out) = started.child.stdout.take() {
        // The end of the process ends the pipe, too.
        let _ = BufReader::new(out).read_line(&mut line);
    }
    if line.trim() == "ready" {
        return Ok(());
    }
    let status = started.child.wait();
    let mut log = String::new();
    if let Ok(mut file) = std::fs::File::open(place.log(&started.process)) {
        let _ = file.read_to_string(&mut log);
    }
    let last = log.lines().rev().find(|l| !l.trim().is_empty()).map(|l| l.trim_start_matches("error: "));
    let reason = last.map_or_else(
        || status.map_or_else(|e| e.to_string(), |s| format!("it ended with {s}")),
        str::to_owned,
    );
    Err(UpError::Process { process: started.process, reason })
}

/// The request for a flow of a topology.
pub fn create_flow_request(topology: &Topology, flow: &Flow) -> proto::CreateFlowRequest {
    let members = |endpoints: &[Endpoint]| endpoints.iter().map(|e| member(topology, flow, e)).collect();
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
            doorbell: Some(flow.doorbell),
            hint: Some(match flow.hint {
                Hint::Bandwidth => proto::Hint::Bandwidth.into(),
                Hint::Latency => proto::Hint::Latency.into(),
            }),
            policy: Some(match flow.policy {
                Policy::Wait => proto::Policy::Wait.into(),
            }),
        }),
        routing: routing(&flow.routing),
    }
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
    use crate::topology::parse_routing;

    #[test]
    fn routing_is_written_as_it_is_read() {
        for text in ["hash(*)", "hash(3)", "round-robin", "explicit(2)", "range(1, [5, 9])", "hash(0:8)"] {
            let parsed = parse_routing(text).unwrap();
            assert_eq!(routing(&parsed), text);
            assert_eq!(parse_routing(&routing(&parsed)), Some(parsed));
        }
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
