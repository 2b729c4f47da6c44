//! From a store, a switch and agents to a running controller. Changes that an earlier controller had begun and not
//! ended are taken back or completed first: switch and agents then hold what the store says, and nothing else.

use crate::agents::Agents;
use crate::api::barriers::Barriers;
use crate::api::counters;
use crate::api::events::{Events, of_flow};
use crate::api::pending::Pending;
use crate::health::link_faults::LinkFaults;
use crate::health::stall::Stalls;
use crate::ledger::journal::{Journal, JournalError, Recovered};
use crate::ledger::store::Store;
use crate::link::reconcile::{program_cookie, reconcile, set_right, ticking};
use crate::link::reconnect::{Base, CONNECT, Choice};
use crate::link::session::{Reach, Session, become_primary, is_unreachable};
use crate::recovery::unfinished::{self, Leaving};
use crate::times::start::PREDECESSOR;
use crate::{Controller, Inner, Work};
use p4runtime_proto::Address;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch as channel;
use tokio::time::Instant;
use zsr_api::controller::EventKind;
use zsr_plan::dataplane::PlanError;
use zsr_plan::dataplane::alloc::Number;
use zsr_plan::dataplane::flow::{DataPlane, base};
use zsr_plan::dataplane::model::Flow;
use zsr_plan::error::ControllerError;
use zsr_plan::p4::names::digest::REPORT_T;
use zsr_plan::p4::{Artifacts, Schema, SchemaError};
use zsr_plan::state::State;
use zsr_plan::surroundings::Surroundings;
use zsr_switch::ClientError;
use zsr_switch::SwitchClient;
use zsr_switch::patience::within;
use zsr_tls::Doings;
use zsr_topology::{Switch, Topology};

/// Election id of the first controller; the holder of this or a higher id is the only controller.
const ELECTION_ID: u128 = 1;
/// The number of registers that are made fresh at once: other tasks want the switch, too.
const AT_ONCE: usize = 256;

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
    /// The store.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Agents.
    #[error(transparent)]
    Agents(#[from] ControllerError),
    /// More or fewer switches than one, standbys not counted.
    #[error("the topology has {0} switches; a controller takes exactly one, and perhaps its standby")]
    Switches(usize),
}

/// The place of a switch's P4Runtime server.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The server's address.
    pub p4runtime: Address,
    /// The file with the address, for a switch that listens somewhere else after it was started anew.
    pub listens: Option<PathBuf>,
}

/// The settings that a controller starts with.
#[derive(Debug)]
pub struct Setup<'s> {
    /// Name of the system.
    pub name: String,
    /// Switch, hosts, links, declared rings. Flows of the topology are not created.
    pub topology: &'s Topology,
    /// The program.
    pub artifacts: &'s Artifacts,
    /// The place of the switch's P4Runtime server.
    pub switch: Seat,
    /// The place of the standby's server, if the topology has a standby.
    pub standby: Option<Seat>,
    /// For each host of the topology: the address of its agent, and the socket for programs.
    pub agents: Vec<(Address, Option<PathBuf>)>,
    /// Seed of first PSNs and doorbells' secrets, for simulations; `None`: they are random.
    pub seed: Option<u64>,
    /// The store of the journal; `None`: the system lives and dies with its controller.
    pub journal: Option<Box<dyn Store>>,
}

/// Starts a controller.
///
/// # Errors
/// When another controller is there, the switch does not answer, or the store is damaged.
pub async fn start(mut setup: Setup<'_>) -> Result<Controller, StartError> {
    let choices = choices(&setup)?;
    // The sessions first: they keep a second controller away from everything else.
    let mut met = meet(&choices).await?;
    let (mut journal, mut recovered) = match setup.journal.take() {
        Some(store) => Journal::on(store)?,
        None => (Journal::none(), Recovered::default()),
    };
    // With flows in the journal the switch should have their entries; if it has another pipeline, it was started anew.
    // Without flows it begins anew, too: its registers are fresh then.
    let taken_up = !recovered.flows.is_empty();
    let known = |client: &SwitchClient| {
        recovered.cookie.filter(|c| (c >> 32) as u32 == client.fingerprint(setup.artifacts))
    };
    let (mut chosen, mut kept) = (0, false);
    for (at, Met { client, .. }) in met.iter().enumerate().filter(|_| taken_up) {
        if !kept && client.has_kept(setup.artifacts, known(client)).await? {
            (chosen, kept) = (at, true);
        }
    }
    let Met { number, mut client, election_id } = met.swap_remove(chosen);
    // The other switch gets a session of its own when it is needed.
    drop(met);
    let (Choice { switch, topology: bare, .. }, known) = (&choices[number], known(&client));
    let schema = client.schema(setup.artifacts)?;
    let plane = DataPlane::new(schema, switch, setup.topology.traffic)?;
    let mut state = State::of(setup.topology, switch, &setup.agents, plane.room(), setup.seed);
    let agents = Agents::new(&state.hosts)?;
    let reader = client.reader();
    if !kept && choices.len() > 1 {
        // The switch that had the flows may come back.
        journal.forget_program()?;
    }
    let cookie = match kept {
        true => known,
        false => give_program(&mut client, setup.artifacts, &plane, bare).await?,
    };
    client.set_up(bare).await?;
    let holdings = unfinished::holdings(&agents, agents.hosts()).await;
    let leaving = unfinished::begin_again(&mut recovered, &holdings);
    if !kept {
        recovered.flows.values_mut().for_each(|flow| flow.adrift_workers = flow.workers());
    }
    let text = settle(&mut client, &plane, bare, &mut state, (&recovered, &leaving), taken_up).await?;
    unfinished::close_strays(&agents, &unfinished::known(&state), &holdings, &recovered).await;
    // From here on unfinished changes no longer matter, except for members that are still to be taken out.
    for name in recovered.unfinished.keys() {
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
        // The receiver is created just below.
        let _ = resting.send((state.numbers.era(), some.to_vec()));
    }
    let address = choices[number].address();
    let doings = Doings::default();
    client.note_in(&doings);
    let controller = Controller(Arc::new(Inner {
        name: setup.name,
        base: Base::new(setup.artifacts.clone(), choices, number),
        session: Mutex::new(Session { reader, address, election_id }),
        plane,
        agents,
        events: Events::default(),
        state: Mutex::new(state),
        unwritten: journal.trouble(),
        work: tokio::sync::Mutex::new(Work { switch: client, journal, cookie, is_new: !kept }),
        connected: channel::channel(HashMap::new()).0,
        reach: channel::channel(Reach::Open).0,
        last: counters::Last::default(),
        link_faults: LinkFaults::default(),
        pending: Pending::default(),
        coming_and_going: Default::default(),
        doings,
        operations: Default::default(),
        stalls: Stalls::default(),
        barriers: Barriers::default(),
        started: Instant::now(),
        resting,
        adrift: tokio::sync::Notify::new(),
        standby: Default::default(),
        states: tokio::sync::broadcast::channel(256).0,
        reweighed: tokio::sync::Notify::new(),
        crowd: tokio::sync::Notify::new(),
        stop: channel::channel(false).0,
        alive: channel::channel(()).0,
    }));
    controller.0.events.emit(EventKind::ControllerStarted, of_flow("", text));
    controller.tell_again();
    // The flows that were taken up may be a crowd.
    controller.0.crowd.notify_one();
    controller.watch(digests, given_back);
    controller.0.adrift.notify_one();
    if taken_up {
        controller.look_for_faults();
    }
    for leaving in &leaving {
        controller.take_out_again(leaving).await;
    }
    // The last controller may have ended before it did so.
    let mut work = controller.work().await;
    controller.end_empty_lanes(&mut work, &controller.list_flows()).await;
    drop(work);
    Ok(controller)
}

/// The same, and what a controller needs to speak with it. Returns the cookie of its pipeline, if it keeps one.
pub(crate) async fn give_program(
    client: &mut SwitchClient,
    artifacts: &Artifacts,
    plane: &DataPlane,
    topology: &Topology,
) -> Result<Option<u64>, StartError> {
    let schema = plane.schema();
    let cookie = program_cookie(client, artifacts);
    give_base(client, artifacts, schema, topology, Some(cookie)).await?;
    client.enable_digest(schema.digest(REPORT_T)?).await?;
    client.insert(vec![plane.probe()?]).await?;
    Ok(client.cookie().await?.filter(|kept| *kept == cookie))
}

/// Gives a switch that has nothing its program and the entries that do not depend on flows. The switch returns `cookie`
/// when it is asked for its program.
///
/// # Errors
/// When the switch refuses, or program and controller do not fit.
pub async fn give_base(
    client: &mut SwitchClient,
    artifacts: &Artifacts,
    schema: &Schema,
    topology: &Topology,
    cookie: Option<u64>,
) -> Result<(), StartError> {
    client.load(artifacts, cookie).await?;
    Ok(client.insert(base(topology, schema)?).await?)
}

/// The switch of a topology, and its standby.
fn choices(setup: &Setup<'_>) -> Result<Vec<Choice>, StartError> {
    let switches = &setup.topology.switches;
    let seats = [Some(setup.switch.clone()), setup.standby.clone()].into_iter().flatten();
    let count = switches.iter().filter(|s| !s.standby).count();
    if count != 1 || switches.len() != seats.clone().count() {
        return Err(StartError::Switches(count));
    }
    let choice = |(number, (switch, seat)): (usize, (&Switch, Seat))| {
        let topology = Topology { flows: Vec::new(), ..setup.topology.of_switch(number) };
        Choice::new(switch.clone(), topology, seat)
    };
    Ok(switches.iter().zip(seats).enumerate().map(choice).collect())
}

/// A session with switch `number`.
struct Met {
    number: usize,
    client: SwitchClient,
    election_id: u128,
}

/// Sessions with the switches that are there, one at least.
async fn meet(choices: &[Choice]) -> Result<Vec<Met>, StartError> {
    let (mut met, mut silent) = (Vec::new(), None);
    for (number, choice) in choices.iter().enumerate() {
        let address = choice.address();
        let begun = session(&choice.switch, &address);
        let begun = match choices.len() {
            1 => begun.await,
            _ => within(CONNECT, begun).await.unwrap_or_else(|_| {
                Err(ClientError::Silent { switch: choice.switch.name.clone(), seconds: CONNECT.as_secs() })
            }),
        }
        .map_err(StartError::from);
        match begun {
            Ok((client, election_id)) => met.push(Met { number, client, election_id }),
            // Another controller has the switch, and everything on the other switch.
            Err(e) if !is_unreachable(&e) => return Err(e),
            Err(e) => drop(silent.get_or_insert(e)),
        }
    }
    match silent {
        Some(e) if met.is_empty() => Err(e),
        _ => Ok(met),
    }
}

/// Becomes the switch's controller. A controller that has just ended may still be there for a moment.
async fn session(switch: &Switch, p4runtime: &Address) -> Result<(SwitchClient, u128), ClientError> {
    let begun = Instant::now();
    loop {
        match become_primary(switch, p4runtime, ELECTION_ID, false).await {
            // An election id has one holder: the switch gives either of these errors to a second one.
            Err(ClientError::NotPrimary { .. } | ClientError::Refused { .. })
                if begun.elapsed() < PREDECESSOR =>
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            done => return done,
        }
    }
}

/// Brings the switch to what the store says; returns the differences.
async fn settle(
    client: &mut SwitchClient,
    plane: &DataPlane,
    topology: &Topology,
    state: &mut State,
    (recovered, leaving): (&Recovered, &[Leaving]),
    taken_up: bool,
) -> Result<String, StartError> {
    for flow in recovered.unfinished.values().flatten() {
        state.numbers.note(&[], flow.connections());
    }
    for flow in recovered.flows.values() {
        let numbers: Vec<Number> = flow.numbers().into_iter().collect();
        state.numbers.note(&numbers, flow.connections());
        state.set(&flow.name, Some(flow.clone()));
    }
    if !taken_up {
        return Ok("the switch was given its program".to_owned());
    }
    // The switch remembers the numbers of unfinished flows, whether it still has their entries or not.
    for flow in recovered.unfinished.values().flatten() {
        state.numbers.skip(&flow.numbers().into_iter().collect::<Vec<_>>());
    }
    let ticking = ticking(plane, recovered.flows.values());
    let around = Surroundings::of(state);
    // Flows with a member that is leaving begin no transfer until it has left.
    let holds = |flow: &Flow| leaving.iter().any(|l| l.flow == flow.name);
    let flows = recovered.flows.values().map(|flow| (flow, holds(flow)));
    let (difference, ticking, idle) = reconcile(client, plane, topology, flows, (&around, ticking)).await?;
    (state.ticking, state.idle) = (ticking, idle);
    state.numbers.skip(&plane.numbers_of(&difference.deletes)?);
    if !recovered.unfinished.is_empty() {
        state.numbers.skip_joiner();
    }
    let (flows, unfinished) = (recovered.flows.len(), recovered.unfinished.len());
    let done = set_right(&difference);
    Ok(format!(
        "flows that were taken up: {flows}, changes that had not been completed: {unfinished}; {done}"
    ))
}
