//! Starts a whole local system in the background, and creates the flows of its topology.

use super::launch::{Launch, last_words};
use super::log::Log;
use super::netns::{self, NetnsError};
use super::roles::Role;
use super::{Down, down};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonic::{Code, Response, Status};
use zsr::{
    ClientError, Place, PlaceError, Session,
    lock::{Holder, Lock},
    refused,
};
use zsr_api::controller as proto;
use zsr_plan::from_topology::create_flow_request;
use zsr_topology::{Flow, Layout, Topology};

/// How long agents that are started elsewhere may take to come up.
const OTHERS: Duration = Duration::from_secs(60);
/// How long a process may take to end after a part that it depends on has failed.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long creating a flow is tried while agents do not answer.
const BUSY: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// How many flows are created at once: as many as the controller makes together.
const AT_ONCE: usize = 64;

/// The reason why a system did not come up. All processes that had been started are ended again.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The system's folder.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The system is up already.
    #[error("system `{name}` is up already ({what}); end it with: zsr down {name}")]
    Twice {
        /// The system's name.
        name: String,
        /// The processes that run.
        what: String,
    },
    /// A process did not start.
    #[error("the {process} did not start: {reason}")]
    Process {
        /// The process.
        process: String,
        /// The end of its log.
        reason: String,
    },
    /// The caller has changed their mind.
    #[error("interrupted; what had been started is ended again")]
    Interrupted,
    /// The switch has ended before everything was there.
    #[error("the switch has ended: {words}. That was when: {meanwhile}")]
    SwitchEnded {
        /// The end of its log.
        words: String,
        /// The error that followed from it.
        meanwhile: String,
    },
    /// The system's network namespaces.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// An agent that is started elsewhere.
    #[error(
        "host `{host}`: its agent at {address} does not answer; start it on its machine with: zsr agent TOPOLOGY {host}"
    )]
    NoAgent {
        /// The host.
        host: String,
        /// The expected address of its agent.
        address: SocketAddr,
    },
    /// The controller.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A flow of the topology.
    #[error("flow `{flow}`: {reason}")]
    Flow {
        /// The flow.
        flow: String,
        /// The controller's words.
        reason: String,
    },
}

/// The system to bring up, and options.
#[derive(Clone, Copy)]
pub struct Up<'u> {
    /// The topology, laid out.
    pub topology: &'u Topology,
    /// The layout; the system's processes lay the topology out again.
    pub layout: &'u Layout,
    /// Folder with the compiled program, if not the built-in one.
    pub artifacts: Option<&'u Path>,
    /// How the system's processes log.
    pub log: &'u Log,
    /// Whether the topology's flows are created.
    pub flows: bool,
    /// Turns true when the caller has changed their mind.
    pub interrupted: &'u AtomicBool,
    /// Gets each step.
    pub tell: &'u dyn Fn(&str),
}

/// Brings up system `name`.
///
/// # Errors
/// [`UpError`]; nothing of the system is left then, unless it was up already.
pub fn up(name: &str, how: &Up<'_>) -> Result<Place, UpError> {
    let place = Place::make(name)?;
    let twice = |what: String| UpError::Twice { name: name.to_owned(), what };
    let _busy = place.take_busy()?;
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
        // The reported reason is that of the failed start, not an error of ending the system.
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
        let switches = match topology.standby() {
            Some(standby) => format!("1 switch, its standby {}", standby.name),
            None => "1 switch".to_owned(),
        };
        (self.tell)(&format!("starting {switches}, {} agents, 1 controller", own.len()));
        let launch = Launch {
            place,
            topology,
            netns: self.layout.netns,
            artifacts: self.artifacts,
            log: self.log,
            interrupted: self.interrupted,
        };
        launch.ready(launch.spawn(&Role::Switch)?)?;
        if let Some(standby) = topology.standby() {
            launch.ready(launch.spawn(&Role::Standby { name: standby.name.clone() })?)?;
        }
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
        let taken_up = self.taken_up(&session).map_err(|e| self.reason(place, e))?;
        let flows: Vec<&Flow> = topology.flows.iter().filter(|f| !taken_up.contains(&f.name)).collect();
        for flows in flows.chunks(AT_ONCE) {
            self.create(&session, flows).map_err(|e| self.reason(place, e))?;
        }
        Ok(())
    }

    /// Flows of the topology that the controller has found in its journal.
    fn taken_up(&self, session: &Session) -> Result<BTreeSet<String>, UpError> {
        // A journal in the system's folder is as new as the folder.
        if self.layout.journal.is_none() {
            return Ok(BTreeSet::new());
        }
        let Some(first) = self.topology.flows.first() else { return Ok(BTreeSet::new()) };
        let there = session.call(|mut c| async move { c.list_flows(proto::ListFlowsRequest {}).await });
        let there = there.map_err(|e| UpError::Flow { flow: first.name.clone(), reason: e.to_string() })?;
        let names: BTreeSet<String> = there.flows.into_iter().map(|flow| flow.name).collect();
        for flow in self.topology.flows.iter().filter(|flow| names.contains(&flow.name)) {
            (self.tell)(&format!(
                "flow `{}` was in the journal, and goes on with what it was told last",
                flow.name
            ));
        }
        Ok(names)
    }

    /// Creates flows of the topology, all at once: the controller makes them together. On a machine with too much to do an agent may not
    /// answer in time: the controller is asked again for what it has not made.
    fn create(&self, session: &Session, flows: &[&Flow]) -> Result<(), UpError> {
        let begun = Instant::now();
        let mut left: Vec<&Flow> = flows.to_vec();
        while let Some(first) = left.first() {
            self.go_on()?;
            let requests: Vec<_> = left.iter().map(|flow| create_flow_request(self.topology, flow)).collect();
            let made = session.change(|client| async move {
                let calls = requests.into_iter().map(|request| {
                    let mut client = client.clone();
                    tokio::spawn(async move { client.create_flow(request).await.map(drop) })
                });
                let calls: Vec<_> = calls.collect();
                let mut answers = Vec::with_capacity(calls.len());
                for call in calls {
                    answers.push(call.await.unwrap_or_else(|e| Err(Status::internal(e.to_string()))));
                }
                Ok(Response::new(answers))
            });
            let failed = |flow: &Flow, reason| UpError::Flow { flow: flow.name.clone(), reason };
            let answers = made.map_err(|e| failed(first, e.to_string()))?;
            let mut again = Vec::new();
            for (flow, answer) in left.into_iter().zip(answers) {
                let Err(why) = answer else { continue };
                let why = refused(&why);
                let busy = matches!(why, ClientError::Refused { code: Code::Unavailable, .. });
                if !busy || begun.elapsed() > BUSY {
                    return Err(failed(flow, why.to_string()));
                }
                (self.tell)(&format!("flow `{}`: {why}; trying again", flow.name));
                again.push(flow);
            }
            left = again;
            if !left.is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    fn go_on(&self) -> Result<(), UpError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(UpError::Interrupted) } else { Ok(()) }
    }

    /// The error to report: if the switch has ended, the rest failed for that reason.
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
