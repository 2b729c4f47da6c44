//! A topology's flows as the controller makes them, for programs that have the switch and the NICs in hand: benchmarks,
//! simulations, and the comparison with bmv2. A draft makes the same checks, numbers and entries, without journal,
//! agents or clock.

use crate::dataplane::flow::{DataPlane, base, replication, table};
use crate::dataplane::model::{Flow, Ring};
use crate::dataplane::sequencer::{Sequencer, TicketClient};
use crate::dataplane::{PlanError, Qp, RingAddress, RingIds, Station, ticks};
use crate::error::ControllerError;
use crate::from_topology::create_flow_request;
use crate::messages::new_flow;
use crate::p4::Schema;
use crate::state::State;
use crate::surroundings::Surroundings;
use p4runtime_proto::local;
use p4runtime_proto::p4::v1 as rt;
use zsr_topology::Topology;

/// A ring of a drafted flow.
#[derive(Clone, Debug)]
pub struct DraftRing {
    /// The ring's index in the topology.
    pub index: usize,
    /// The ring's flow's index in the topology.
    pub flow: usize,
    /// The ring's name at the controller.
    pub name: String,
    /// The ring's numbers at the switch.
    pub ids: RingIds,
    /// Numbers of the producer rings whose items come into it; none come into a producer ring.
    pub feeders: Vec<u16>,
    /// Whether each item goes to one of several consumers, whichever is first.
    pub shared: bool,
    /// The secret at the beginning of the ring's doorbells, if its producer rings.
    pub doorbell: Option<u32>,
}

/// The flows of a topology, with their numbers.
#[derive(Debug)]
pub struct Draft {
    topology: Topology,
    plane: DataPlane,
    state: State,
    rings: Vec<DraftRing>,
    /// Sequencers with their first tickets.
    sequencers: Vec<(Sequencer, u64)>,
    clients: Vec<(Sequencer, TicketClient)>,
}

impl Draft {
    /// The draft of a topology with one switch, which runs the program of `schema`. First PSNs that the topology does
    /// not give are made of its seed.
    ///
    /// # Errors
    /// The refusals of the controller.
    pub fn new(topology: &Topology, schema: Schema) -> Result<Draft, ControllerError> {
        let switch = &topology.switches[0];
        let plane = DataPlane::new(schema, switch, topology.traffic).map_err(PlanError::from)?;
        let agents = vec![(local().0.into(), None); topology.hosts.len()];
        let mut state = State::of(topology, switch, &agents, plane.room(), Some(topology.seed));
        let mut rings = Vec::new();
        for (number, flow) in topology.flows.iter().enumerate() {
            let made = state.plan_flow(&new_flow(create_flow_request(topology, flow))?)?;
            let indices = flow.producers.iter().chain(&flow.consumers).flat_map(|e| &e.rings);
            let of_flow =
                indices.zip(made.rings()).map(|(&index, ring)| draft_ring(index, number, &made, ring));
            rings.extend(of_flow);
            state.set(&flow.name, Some(made));
        }
        rings.sort_by_key(|r| r.index);
        let (sequencers, clients) = Default::default();
        Ok(Draft { topology: topology.clone(), plane, state, rings, sequencers, clients })
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The rings of all flows, in the topology's order.
    pub fn rings(&self) -> &[DraftRing] {
        &self.rings
    }

    /// Notes a ring's address, and the bytes at which both of its counters begin.
    pub fn connect(&mut self, ring: &str, address: RingAddress, start: u32) {
        let Some(flow) = self.state.user_of_ring(ring).map(|user| user.flow.clone()) else { return };
        let Some(flow) = self.state.flows.get_mut(&flow) else { return };
        // Nobody asks a draft for the users of its rings by address, so they need not be told.
        for found in flow.rings_mut().filter(|r| r.name == ring) {
            (found.address, found.start) = (Some(address), start);
        }
    }

    /// The entries that the switch holds without flows.
    ///
    /// # Errors
    /// When program and controller do not fit. So for all calls below.
    pub fn base(&self) -> Result<Vec<rt::Entity>, ControllerError> {
        Ok(base(&self.topology, self.plane.schema())?)
    }

    /// The entries that the switch holds for flows whose rings are connected, and for sequencers.
    pub fn flows(&self) -> Result<Vec<rt::Entity>, ControllerError> {
        let around = Surroundings::of(&self.state);
        let mut out = Vec::new();
        for flow in self.in_order() {
            out.extend(self.plane.entities(flow, &around.context(false))?);
        }
        for (sequencer, client) in &self.clients {
            let entries = sequencer.entries(self.plane.schema(), self.plane.address(), client);
            out.extend(entries.map_err(PlanError::from)?.map(table));
        }
        Ok(out)
    }

    /// The multicast groups that turn timer packets into ticks: workers start when these are written.
    pub fn ticks(&self) -> Vec<rt::Entity> {
        let workers = self.in_order().flat_map(|flow| self.plane.tick_groups(flow));
        ticks::groups(workers, self.plane.pipes()).into_iter().map(replication).collect()
    }

    /// Packets that set the initial values of the switch's registers. They have to be sent before workers start, and
    /// before clients of sequencers send.
    pub fn resets(&self) -> impl Iterator<Item = Vec<u8>> {
        let rings = self
            .in_order()
            .flat_map(Flow::rings)
            .map(|ring| ring.ids.reset(ring.start).packet(self.plane.pipes()));
        let sequencers = self.sequencers.iter().map(|(sequencer, first)| sequencer.reset(*first));
        rings.chain(sequencers).chain(self.clients.iter().map(|(_, client)| client.reset()))
    }

    /// A sequencer that begins with ticket `first`.
    ///
    /// # Errors
    /// When the switch has no room for one more.
    pub fn sequencer(&mut self, first: u64) -> Result<Sequencer, ControllerError> {
        let State { numbers, chance, .. } = &mut self.state;
        let sequencer = Sequencer { number: numbers.flow()?, rkey: chance.secret() };
        self.sequencers.push((sequencer, first));
        Ok(sequencer)
    }

    /// The switch's end of a connection by which queue pair `qpn` of host number `host` gets tickets. The queue pair
    /// may have one request outstanding.
    ///
    /// # Errors
    /// When the switch has no room for one more, or no link to the host.
    pub fn ticket_client(
        &mut self,
        sequencer: Sequencer,
        host: usize,
        qpn: u32,
    ) -> Result<Qp, ControllerError> {
        let unlinked = || PlanError::Unlinked { host: self.topology.hosts[host].name.clone() };
        let station = Station::of(&self.topology, host).ok_or_else(unlinked)?;
        let State { numbers, chance, .. } = &mut self.state;
        let qp = numbers.qp()?.from_psn(chance.psn());
        self.clients.push((sequencer, TicketClient { station, qp, qpn }));
        Ok(qp)
    }

    /// Names of the switch's program.
    pub fn schema(&self) -> &Schema {
        self.plane.schema()
    }

    /// Flows in the topology's order.
    fn in_order(&self) -> impl Iterator<Item = &Flow> {
        self.topology.flows.iter().filter_map(|flow| self.state.flows.get(&flow.name))
    }
}

fn draft_ring(index: usize, flow: usize, made: &Flow, ring: &Ring) -> DraftRing {
    let ids = ring.ids;
    let producers = made.producers.iter().flat_map(|m| &m.rings);
    // A shuffle's producer has a ring for each worker; of the other kinds, all workers drain all of them.
    let feeds = |p: &&Ring| !ids.is_producer && (!made.kind.routes() || p.ids.worker == ids.worker);
    DraftRing {
        index,
        flow,
        name: ring.name.clone(),
        ids,
        feeders: producers.filter(feeds).map(|p| p.ids.id).collect(),
        shared: made.kind.competes(),
        doorbell: (ids.is_producer && made.settings.doorbell).then_some(ids.secret),
    }
}
