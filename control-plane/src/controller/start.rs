//! From a store, a switch and agents to a running controller. What an earlier controller had begun and not ended is taken
//! back or completed first: switch and agents then hold what the store says, and nothing else.

use super::agents::Agents;
use super::alloc::{Allocator, Number};
use super::barriers::Barriers;
use super::change::Surroundings;
use super::dataplane::DataPlane;
use super::events::{Events, of_flow};
use super::journal::{Journal, JournalError, Recovered};
use super::links::Links;
use super::model::{DeclaredRing, Flow, Host};
use super::pending::Pending;
use super::proto::EventKind;
use super::pulse::Pulse;
use super::reconcile::{program_cookie, reconcile, set_right, ticking};
use super::refusal::Refusal;
use super::session::{Reach, Session, become_primary};
use super::state::State;
use super::store::Store;
use super::unfinished::{self, Leaving};
use super::{Controller, Inner, Work, again, stats};
use crate::p4::names::digest::REPORT_T;
use crate::p4::{Artifacts, ClientError, SchemaError, SwitchClient};
use crate::plan::{Plan, PlanError};
use crate::run::{RunError, install};
use crate::topology::{Switch, Topology};
use p4runtime_proto::Address;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch as channel;

/// Election id of the first controller; whoever holds it or a higher one is the only controller.
const ELECTION_ID: u128 = 1;
/// How many numbers are made fresh at once: others want the switch, too.
const AT_ONCE: usize = 256;
/// How long the switch may take to notice that an earlier controller is gone.
const PREDECESSOR: Duration = Duration::from_secs(1);

/// Why a controller does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The switch.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The program.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The topology does not fit the program.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The program could not be installed.
    #[error(transparent)]
    Install(#[from] RunError),
    /// The store.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Agents.
    #[error(transparent)]
    Agents(#[from] Refusal),
    /// More or fewer switches than one.
    #[error("the topology has {0} switches; a controller takes exactly one")]
    Switches(usize),
}

/// What a controller is told.
#[derive(Debug)]
pub struct Setup<'s> {
    /// Name of the system.
    pub name: String,
    /// Switch, hosts, links, declared rings. Its flows are not created.
    pub topology: &'s Topology,
    /// The program.
    pub artifacts: &'s Artifacts,
    /// Where the switch's P4Runtime server listens.
    pub p4runtime: Address,
    /// The file that says so, for a switch that listens somewhere else after it was started anew.
    pub listens: Option<PathBuf>,
    /// Per host of the topology: its agent's URI, and the socket for programs.
    pub agents: Vec<(String, Option<PathBuf>)>,
    /// The topology's flows, as they are asked for: made again when the switch was started anew and has lost them.
    pub own: Vec<super::proto::CreateFlowRequest>,
    /// Where the journal is; `None`: the system lives and dies with its controller.
    pub journal: Option<Box<dyn Store>>,
}

/// Starts a controller.
///
/// # Errors
/// When another controller is there, the switch does not answer, or the store is damaged.
pub async fn start(mut setup: Setup<'_>) -> Result<Controller, StartError> {
    let [switch] = setup.topology.switches.as_slice() else {
        return Err(StartError::Switches(setup.topology.switches.len()));
    };
    // The session first: it is what keeps a second controller away from everything else.
    let (mut client, election_id) = session(switch, &setup.p4runtime).await?;
    let (mut journal, mut recovered) = match setup.journal.take() {
        Some(store) => Journal::on(store)?,
        None => (Journal::none(), Recovered::default()),
    };
    let schema = client.schema(setup.artifacts)?;
    let plane = DataPlane::new(schema, switch, setup.topology.traffic)?;
    let mut state = State::new(hosts(&setup), declared(setup.topology), switch.kind.pace());
    state.switch.clone_from(&switch.name);
    state.numbers = Allocator::with(plane.room());
    state.first_psn = setup.topology.first_psn;
    let agents = Agents::new(&state.hosts)?;
    let reader = client.reader();

    let bare = Topology { flows: Vec::new(), ..setup.topology.clone() };
    let plan = Plan::new(&bare, 0, 1)?;
    // With flows in the journal the switch should have their entries; if it has another pipeline, it was started anew. Without, it
    // begins anew, too: its registers are fresh then.
    let known = recovered.cookie.filter(|c| (c >> 32) as u32 == client.fingerprint(setup.artifacts));
    let taken_up = !recovered.flows.is_empty() && client.has_kept(setup.artifacts, known).await?;
    let cookie = match taken_up {
        true => known,
        false => {
            let cookie = give_program(&mut client, setup.artifacts, &plane, &plan).await?;
            journal.note_program(cookie);
            cookie
        }
    };
    client.set_up(&plan).await?;
    let holdings = unfinished::holdings(&agents, agents.hosts()).await;
    let mut leaving = Vec::new();
    let mut lost = BTreeMap::new();
    if taken_up {
        leaving = unfinished::begin_again(&mut recovered, &holdings);
    } else {
        lost = std::mem::take(&mut recovered.flows);
    }
    let text = settle(&mut client, &plane, &plan, &mut state, (&recovered, &leaving), taken_up).await?;
    unfinished::close_strays(&agents, &unfinished::known(&state), &holdings, &recovered).await;
    // From here on it does not matter that they were not completed, but for those who are still to be taken out.
    for name in lost.keys().chain(recovered.unfinished.keys()) {
        if leaving.iter().all(|l| l.flow != *name) {
            journal.end(name, state.flows.get(name))?;
        }
    }
    let Some(digests) = client.digests() else {
        return Err(ClientError::Lost { switch: switch.name.clone() }.into());
    };
    let (resting, given_back) = tokio::sync::mpsc::unbounded_channel();
    let in_use = state.flows.values().flat_map(|f| f.numbers()).collect();
    for some in state.numbers.idle(&in_use).chunks(AT_ONCE) {
        // The receiver is just below.
        let _ = resting.send((state.numbers.era(), some.to_vec()));
    }
    let controller = Controller(Arc::new(Inner {
        name: setup.name,
        switch_name: switch.name.clone(),
        base: again::Base { topology: bare, artifacts: setup.artifacts.clone(), listens: setup.listens },
        session: Mutex::new(Session { reader, address: setup.p4runtime, election_id }),
        plane,
        agents,
        events: Events::default(),
        state: Mutex::new(state),
        unwritten: journal.trouble(),
        work: tokio::sync::Mutex::new(Work { switch: client, journal, cookie }),
        connected: channel::channel(HashMap::new()).0,
        reach: channel::channel(Reach::Open).0,
        last: stats::Last::default(),
        links: Links::of(setup.topology),
        pending: Pending::default(),
        pulse: Pulse::default(),
        own: setup.own,
        barriers: Barriers::default(),
        started: Instant::now(),
        resting,
        states: tokio::sync::broadcast::channel(256).0,
        reweighed: tokio::sync::Notify::new(),
        crowd: tokio::sync::Notify::new(),
        stop: channel::channel(false).0,
        alive: channel::channel(()).0,
    }));
    controller.0.events.emit(EventKind::ControllerStarted, of_flow("", text));
    lost.keys().for_each(|name| controller.says_lost(name));
    // What was taken up may be a crowd.
    controller.0.crowd.notify_one();
    controller.watch(digests, given_back);
    if taken_up {
        controller.look_for_faults();
    }
    for leaving in &leaving {
        controller.take_out_again(leaving).await;
    }
    controller.make_again(lost.keys());
    Ok(controller)
}

/// Gives a switch that has nothing its program, and what does not depend on flows. Returns the cookie of its pipeline, if it keeps
/// one.
pub(super) async fn give_program(
    client: &mut SwitchClient,
    artifacts: &Artifacts,
    plane: &DataPlane,
    plan: &Plan<'_>,
) -> Result<Option<u64>, StartError> {
    let schema = plane.schema();
    let cookie = program_cookie(client, artifacts);
    install::base(client, artifacts, schema, plan, Some(cookie)).await?;
    client.enable_digest(schema.digest(REPORT_T)?).await?;
    client.insert(vec![plane.probe()?]).await?;
    Ok(client.cookie().await?.filter(|kept| *kept == cookie))
}

/// Becomes the switch's controller. One that has just ended may still be there for a moment.
async fn session(switch: &Switch, p4runtime: &Address) -> Result<(SwitchClient, u128), ClientError> {
    let begun = Instant::now();
    loop {
        match become_primary(switch, p4runtime, ELECTION_ID, false).await {
            // One election id has one holder: the switch says either of these to a second one.
            Err(ClientError::NotPrimary { .. } | ClientError::Refused { .. })
                if begun.elapsed() < PREDECESSOR =>
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            done => return done,
        }
    }
}

/// Brings the switch to what the store says; tells what there was to do.
async fn settle(
    client: &mut SwitchClient,
    plane: &DataPlane,
    plan: &Plan<'_>,
    state: &mut State,
    (recovered, leaving): (&Recovered, &[Leaving]),
    taken_up: bool,
) -> Result<String, StartError> {
    let qps = |flow: &Flow| flow.rings().flat_map(|r| [r.ids.data, r.ids.poll]).collect::<Vec<_>>();
    for flow in recovered.unfinished.values().flatten() {
        state.numbers.note(&[], qps(flow).into_iter());
    }
    for flow in recovered.flows.values() {
        let numbers: Vec<Number> = flow.numbers().into_iter().collect();
        state.numbers.note(&numbers, qps(flow).into_iter());
        state.set(&flow.name, Some(flow.clone()));
    }
    if !taken_up {
        return Ok("the switch was given its program".to_owned());
    }
    // The switch remembers them, whether it still has their entries or not.
    for flow in recovered.unfinished.values().flatten() {
        state.numbers.skip(&flow.numbers().into_iter().collect::<Vec<_>>());
    }
    state.ticking = ticking(plane, recovered.flows.values());
    let around = Surroundings::of(state);
    // Flows of whom somebody is leaving begin nothing until it has left.
    let holds = |flow: &Flow| leaving.iter().any(|l| l.flow == flow.name);
    let flows = recovered.flows.values().map(|flow| (flow, holds(flow)));
    let difference = reconcile(client, plane, plan, flows, (&around, &state.ticking)).await?;
    state.numbers.skip(&plane.numbers_of(&difference.deletes)?);
    if !recovered.unfinished.is_empty() {
        state.numbers.skip_joiner();
    }
    let (flows, unfinished) = (recovered.flows.len(), recovered.unfinished.len());
    let done = set_right(&difference);
    Ok(format!("{flows} flows were taken up, {unfinished} changes had not been completed; {done}"))
}

fn hosts(setup: &Setup<'_>) -> Vec<Host> {
    let t = setup.topology;
    let host = |(at, h): (usize, &crate::topology::Host)| {
        let (agent, programs) = setup.agents.get(at).cloned()?;
        Some(Host { name: h.name.clone(), station: t.station_of(at)?, mtu: h.mtu, agent, programs })
    };
    t.hosts.iter().enumerate().filter_map(host).collect()
}

fn declared(topology: &Topology) -> Vec<DeclaredRing> {
    let made: HashSet<usize> = topology
        .flows
        .iter()
        .flat_map(|f| f.producers.iter().chain(&f.consumers))
        .flat_map(|e| e.rings.iter().copied())
        .collect();
    let declared = topology.rings.iter().enumerate().filter(|(at, r)| {
        let host = &topology.hosts[r.host].name;
        // A flow names the rings that it makes for itself; those of hosts are named for their host.
        !made.contains(at) || r.name.strip_prefix(host.as_str()).is_some_and(|rest| rest.starts_with('.'))
    });
    let ring = |(_, r): (usize, &crate::topology::Ring)| DeclaredRing {
        name: r.name.clone(),
        host: topology.hosts[r.host].name.clone(),
        role: r.role,
        item_size: r.item_size,
        size: r.size,
        owner: r.owner.clone(),
    };
    declared.map(ring).collect()
}
