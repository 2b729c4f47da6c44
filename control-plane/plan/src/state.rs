//! Controller state, and every check that an operation needs before anything is touched. No I/O. A check looks only at
//! the objects that its operation names.

use crate::dataplane::alloc::{Allocator, Number};
use crate::dataplane::flow::{AdaptedFlows, Hosts, Limits, Ticks};
use crate::dataplane::model::{DeclaredRing, Flow, Host, Member, Ring};
use crate::dataplane::{Chance, RingAddress};
use crate::error::{ControllerError, ErrorKind};
use crate::placement::Loops;
use crate::refusals::Refusals;
pub use crate::requests::{NewFlow, NewMember};
use crate::requests::{check_name, check_records};
use crate::settings::changed;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use zsr_api::controller as proto;
use zsr_api::machine::Machine;
use zsr_records::Schema;
use zsr_records::{Routing, parse_routing};
use zsr_topology::{Pace, Pipes, RingRole, Settings, rules};

const DEFAULT_ITEM: u32 = 32 << 10;
const DEFAULT_RING: u32 = 1 << 20;

/// The place where programs of a host attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramsPlace {
    /// The agent's socket for programs.
    pub socket: String,
    /// The machine that programs have to run on to use the socket.
    pub machine: Machine,
}

/// The owner of a ring, or of a number of the switch. Names may be used again, also for another ring: that ring has
/// another address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The flow.
    pub flow: String,
    /// The member.
    pub member: String,
    /// The ring.
    pub ring: String,
    /// The agent's words about the ring.
    pub address: Option<RingAddress>,
}

impl User {
    /// `member` of `flow`, which has `ring`.
    pub fn new(flow: &Flow, member: &Member, ring: &Ring) -> Self {
        User {
            flow: flow.name.clone(),
            member: member.name.clone(),
            ring: ring.name.clone(),
            address: ring.address,
        }
    }

    /// All of a member's rings.
    pub fn all<'m>(flow: &'m Flow, member: &'m Member) -> impl Iterator<Item = User> + 'm {
        member.rings.iter().map(|ring| User::new(flow, member, ring))
    }
}

/// Controller state: hosts, declared rings, flows, and the numbers that they have.
#[derive(Debug, Default)]
pub struct State {
    /// Hosts by name.
    pub hosts: Arc<Hosts>,
    /// The switch's name.
    pub switch: String,
    /// Times that suit the switch: the settings of flows that ask for nothing else.
    pub pace: Pace,
    /// The place where programs of a host attach, as its agent reports it, by host.
    pub places: HashMap<String, ProgramsPlace>,
    /// First PSN of all connections, if the topology gives one.
    pub first_psn: Option<u32>,
    /// The source of other first PSNs and secrets.
    pub chance: Chance,
    /// Rings that the topology declares, by name.
    pub declared: BTreeMap<String, DeclaredRing>,
    /// Flows by name.
    pub flows: BTreeMap<String, Flow>,
    /// Workers that the switch runs, by the multicast group that makes them tick.
    pub ticking: BTreeMap<u32, BTreeSet<u16>>,
    /// Workers in `ticking` that tick more rarely, since their flow moves nothing, with their group.
    pub idle: Ticks,
    /// Numbers.
    pub numbers: Allocator,
    /// The switch's pipes.
    pub pipes: Pipes,
    /// Bits per second that can get from one pipe to another.
    pub loops: Option<Loops>,
    /// Rings whose program died and has no successor yet, with the reason.
    pub troubles: HashMap<String, String>,
    /// Rings that did not answer for `dead_after`, until they are heard again.
    pub silent: HashMap<String, String>,
    /// Requests that NICs have refused.
    pub refusals: Refusals,
    /// Limits that follow from the weights of flows.
    pub limits: Arc<Limits>,
    /// Adapted settings of flows that lose packets.
    pub adapted: Arc<AdaptedFlows>,
    /// The shortest timeout of a flow, as there are so many busy workers.
    pub min_timeout: Duration,
    /// Members that are to be taken out of their flows.
    pub leaving: HashSet<(String, String)>,
    /// The number of flows, of those that have not failed, with a weight.
    weights: BTreeMap<u32, u32>,
    rings: HashMap<String, User>,
    by_worker: HashMap<u16, String>,
    by_producer: HashMap<u16, User>,
}

/// A refusal of a value that is against the rules.
pub fn invalid(message: String) -> ControllerError {
    ControllerError::new(ErrorKind::Invalid, message)
}

fn exists(message: String) -> ControllerError {
    ControllerError::new(ErrorKind::Exists, message)
}

impl State {
    /// A state without flows.
    pub fn new(hosts: Vec<Host>, declared: Vec<DeclaredRing>, pace: Pace) -> Self {
        State {
            pace,
            hosts: Arc::new(hosts.into_iter().map(|h| (h.name.clone(), h)).collect()),
            declared: declared.into_iter().map(|r| (r.name.clone(), r)).collect(),
            ..Default::default()
        }
    }

    /// Flow `name`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub fn flow(&self, name: &str) -> Result<&Flow, ControllerError> {
        let missing = || ControllerError::new(ErrorKind::NotFound, format!("no flow is called `{name}`"));
        self.flows.get(name).ok_or_else(missing)
    }

    /// The owner of ring `name`.
    pub fn user_of_ring(&self, name: &str) -> Option<&User> {
        self.rings.get(name)
    }

    /// Whether `user` still has its ring, and the ring its address.
    pub fn has(&self, user: &User) -> bool {
        self.rings.get(&user.ring) == Some(user)
    }

    /// The flow that has worker number `worker`.
    pub fn flow_of_worker(&self, worker: u16) -> Option<&Flow> {
        self.flows.get(self.by_worker.get(&worker)?)
    }

    /// Numbers of all workers that flows have.
    pub fn workers(&self) -> impl Iterator<Item = u16> {
        self.by_worker.keys().copied()
    }

    /// The member that has producer ring number `producer`.
    pub fn user_of_producer(&self, producer: u16) -> Option<&User> {
        self.by_producer.get(&producer)
    }

    /// Plans the flow that `new` asks for, with numbers of its own. Unless the flow is [set](Self::set), its numbers
    /// have to be given back.
    ///
    /// # Errors
    /// The rule that `new` breaks; then no number was taken.
    pub fn plan_flow(&mut self, new: &NewFlow) -> Result<Flow, ControllerError> {
        check_name("flow", &new.name, "")?;
        let name = &new.name;
        if self.flows.contains_key(name) {
            return Err(exists(format!(
                "flow `{name}` exists already: delete it first, or choose another name"
            )));
        }
        if self.hosts.contains_key(name) || self.switch == *name {
            return Err(exists(rules::name_of_node(name).to_string()));
        }
        let what = rules::flow(name);
        rules::sides(&what, new.producers.len(), new.consumers.len())?;
        rules::consumers(&what, new.kind, new.consumers.len())?;
        let lanes = new.lanes.max(1);
        rules::lanes(&what, new.kind, lanes as usize, new.producers.len())?;
        let schema = check_records(new)?;
        let declared = new.producers.iter().chain(&new.consumers).flat_map(|m| &m.rings).next();
        let declared = declared.and_then(|r| self.declared.get(r));
        let of_ring = declared.map(|r| r.item_size);
        let item_size = match new.item_size {
            0 => of_ring.unwrap_or(DEFAULT_ITEM),
            size => size,
        };
        rules::power_of_two(&what, "item_size", item_size.into(), &rules::ITEM_SIZES)?;
        if let Some(size) = schema.as_ref().and_then(Schema::tuple_size) {
            rules::tuples(&what, size, item_size)?;
        }
        let ring_size = match new.ring_size {
            0 => DEFAULT_RING.max(item_size * 4),
            size => size,
        };
        rules::power_of_two(&what, "ring_size", ring_size.into(), &rules::RING_SIZES)?;
        rules::ring_holds_item(&what, item_size.into(), ring_size.into())?;
        let first = new.producers.first().or(new.consumers.first()).map_or("", |m| m.host.as_str());
        let mut flow = Flow {
            name: name.clone(),
            number: 0,
            kind: new.kind,
            item_size,
            ring_size,
            lanes,
            mtu: self.host(name, first)?.mtu,
            owner: declared.map(|r| r.owner.clone()).unwrap_or_default(),
            settings: changed(&Settings::on(&self.pace, item_size), &new.settings, name, item_size)?,
            routing: if new.routing.is_empty() { "hash".into() } else { new.routing.clone() },
            schema: schema.map(|s| s.to_string()).unwrap_or_default(),
            producers: Vec::new(),
            consumers: Vec::new(),
            version: 1,
            failed: None,
            adrift_workers: BTreeSet::new(),
            lost: Vec::new(),
            held: Default::default(),
            told: Vec::new(),
            past_batch: 0,
        };
        let mut taken = Vec::new();
        let done = self.fill(&mut flow, new, &mut taken);
        self.or_give_back(done, &taken)?;
        Ok(flow)
    }

    fn fill(
        &mut self,
        flow: &mut Flow,
        new: &NewFlow,
        taken: &mut Vec<Number>,
    ) -> Result<(), ControllerError> {
        flow.number = self.numbers.flow()?;
        taken.push(Number::Flow(flow.number));
        let home = self.home_for(new);
        for member in &new.consumers {
            self.add_consumer(flow, member, home, taken)?;
        }
        for member in &new.producers {
            self.add_producer(flow, member, &BTreeSet::new(), taken)?;
        }
        self.check_crossing(flow)
    }

    /// Plans flow `name` with one more member; numbers as for [`plan_flow`](Self::plan_flow). Workers in `ended` get no producer
    /// more, as long as their consumers have others.
    ///
    /// # Errors
    /// The rule that `new` breaks; then no number was taken.
    pub fn plan_member(
        &mut self,
        name: &str,
        role: RingRole,
        member: &NewMember,
        ended: &BTreeSet<u16>,
    ) -> Result<Flow, ControllerError> {
        let mut flow = self.running(name)?.clone();
        let mut taken = Vec::new();
        let done = match role {
            RingRole::Producer => self
                .add_producer(&mut flow, member, ended, &mut taken)
                .and_then(|()| self.check_crossing(&flow)),
            RingRole::Consumer => {
                let home = self.home_of(&flow);
                check_fixed_range(&flow).and_then(|()| self.add_consumer(&mut flow, member, home, &mut taken))
            }
        };
        self.or_give_back(done, &taken)?;
        flow.version += 1;
        Ok(flow)
    }

    /// Plans flow `name` without these members.
    ///
    /// # Errors
    /// When there is no member of that name, or no member would be left on its side.
    pub fn plan_removal(&self, name: &str, members: &[String]) -> Result<Flow, ControllerError> {
        let mut flow = self.flow(name)?.clone();
        if let Some(stranger) = members.iter().find(|m| flow.members().all(|n| n.name != **m)) {
            let message = format!("flow `{name}` has no member `{stranger}`");
            return Err(ControllerError::new(ErrorKind::NotFound, message));
        }
        let leaves = |m: &Member| members.contains(&m.name);
        for (side, what) in [(&flow.producers, "producer"), (&flow.consumers, "consumer")] {
            if let Some(last) = side.first().filter(|_| side.iter().all(leaves)) {
                let message = format!(
                    "`{}` is the last {what} of flow `{name}`: delete the flow, or add another first",
                    last.name
                );
                return Err(ControllerError::new(ErrorKind::NotNow, message));
            }
        }
        let stays: Vec<bool> = flow.consumers.iter().map(|m| !leaves(m)).collect();
        if stays.contains(&false) {
            check_fixed_range(&flow)?;
        }
        flow.producers.retain(|m| !leaves(m));
        flow.consumers.retain(|m| !leaves(m));
        if flow.kind.routes() {
            for producer in &mut flow.producers {
                let mut kept = stays.iter();
                producer.rings.retain(|_| kept.next() != Some(&false));
            }
        }
        flow.version += 1;
        Ok(flow)
    }

    /// Plans flow `name` with other settings.
    ///
    /// # Errors
    /// The setting that is out of range.
    pub fn plan_settings(&self, name: &str, changes: &proto::Settings) -> Result<Flow, ControllerError> {
        let mut flow = self.running(name)?.clone();
        if changes.doorbell.is_some_and(|bell| bell != flow.settings.doorbell) {
            let message = format!(
                "flow `{name}`: programs learn of the doorbell when they attach, so it is chosen when a flow is created"
            );
            return Err(ControllerError::new(ErrorKind::NotNow, message));
        }
        flow.settings = changed(&flow.settings, changes, name, flow.item_size)?;
        self.check_crossing(&flow)?;
        flow.version += 1;
        Ok(flow)
    }

    fn running(&self, name: &str) -> Result<&Flow, ControllerError> {
        let flow = self.flow(name)?;
        match &flow.failed {
            None => Ok(flow),
            Some(why) => {
                let message = format!("flow `{name}` has failed and can only be deleted: {why}");
                Err(ControllerError::new(ErrorKind::NotNow, message))
            }
        }
    }

    fn host(&self, flow: &str, name: &str) -> Result<&Host, ControllerError> {
        let missing = || {
            let mut names: Vec<&str> = self.hosts.keys().map(String::as_str).collect();
            names.sort_unstable();
            names.truncate(20);
            let names = names.join(", ");
            ControllerError::new(
                ErrorKind::Invalid,
                format!("flow `{flow}`: no host is called `{name}`; there are {names}"),
            )
        };
        self.hosts.get(name).ok_or_else(missing)
    }

    /// The member's name, if it may join.
    pub fn check_member(&self, flow: &Flow, new: &NewMember) -> Result<String, ControllerError> {
        let host = self.host(&flow.name, &new.host)?;
        rules::mtu(&rules::flow(&flow.name), (&host.name, host.mtu), flow.mtu)?;
        let name = if new.name.is_empty() { &new.host } else { &new.name };
        check_name("member", name, "~.")?;
        if flow.members().any(|m| m.name == *name) {
            return Err(exists(format!(
                "flow `{}` has a member `{name}` already; a second one on the same host takes a name of its own (such as {name}~2@{})",
                flow.name, new.host
            )));
        }
        Ok(name.clone())
    }

    /// The declared rings that a member brings, if any: of the right number, role, size and owner, and free.
    pub fn declared_rings(
        &self,
        flow: &Flow,
        new: &NewMember,
        role: RingRole,
        wanted: usize,
    ) -> Result<Vec<DeclaredRing>, ControllerError> {
        let f = flow.name.clone();
        if new.rings.is_empty() {
            return Ok(Vec::new());
        }
        let what = rules::flow(&f);
        rules::ring_count(&what, &new.host, role, new.rings.len(), wanted)?;
        let mut seen = HashSet::new();
        let mut out = Vec::with_capacity(wanted);
        for name in &new.rings {
            let missing = || {
                ControllerError::new(
                    ErrorKind::Invalid,
                    format!("flow `{f}`: the topology declares no ring `{name}`"),
                )
            };
            let ring = self.declared.get(name).ok_or_else(missing)?;
            if let Some(user) = self.rings.get(name) {
                return Err(ControllerError::new(
                    ErrorKind::NotNow,
                    rules::ring_user(&f, name, &user.flow).to_string(),
                ));
            }
            if flow.rings().any(|r| r.name == *name) || !seen.insert(name) {
                return Err(rules::ring_user(&f, name, &f).into());
            }
            if ring.host != new.host {
                return Err(invalid(format!(
                    "ring '{name}' is on host '{}', not on '{}'",
                    ring.host, new.host
                )));
            }
            rules::ring_role(&what, name, ring.role, role)?;
            rules::ring_items(&what, name, ring.item_size, flow.item_size)?;
            rules::ring_owner(&what, name, &ring.owner, &flow.owner)?;
            out.push(ring.clone());
        }
        Ok(out)
    }

    /// Checks that the name of `ring` is free for `flow`.
    ///
    /// # Errors
    /// The owner of the name, if there is one.
    pub fn check_ring_name(&self, flow: &Flow, ring: &Ring) -> Result<(), ControllerError> {
        let user = self.rings.get(&ring.name).map(|u| u.flow.as_str());
        match user.or_else(|| flow.rings().any(|r| r.name == ring.name).then_some(&flow.name)) {
            None => Ok(()),
            Some(user) => Err(exists(format!("ring `{}` exists already in flow `{user}`", ring.name))),
        }
    }

    fn or_give_back(
        &mut self,
        done: Result<(), ControllerError>,
        taken: &[Number],
    ) -> Result<(), ControllerError> {
        if done.is_err() {
            self.numbers.untouched(taken);
        }
        done
    }

    /// Numbers of `flow` that the present flow of that name does not have.
    pub fn left_over(&self, flow: &Flow) -> Vec<Number> {
        let kept = self.flows.get(&flow.name).map(Flow::numbers).unwrap_or_default();
        flow.numbers().difference(&kept).copied().collect()
    }

    /// Flow `name` has this value now; `None`: it is gone.
    pub fn set(&mut self, name: &str, flow: Option<Flow>) {
        if let Some(old) = self.flows.remove(name) {
            if old.failed.is_none()
                && let Entry::Occupied(mut count) = self.weights.entry(old.settings.weight)
            {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
            for ring in old.rings() {
                self.rings.remove(&ring.name);
                if !flow.as_ref().is_some_and(|f| f.rings().any(|r| r.name == ring.name)) {
                    self.troubles.remove(&ring.name);
                    self.silent.remove(&ring.name);
                }
                if ring.ids.is_producer {
                    self.by_producer.remove(&ring.ids.id);
                }
            }
            old.workers().iter().for_each(|w| drop(self.by_worker.remove(w)));
        }
        // The switch still holds the entries of a flow that has failed.
        if flow.is_none() && self.limits.contains_key(name) {
            Arc::make_mut(&mut self.limits).remove(name);
        }
        if flow.is_none() && self.adapted.contains_key(name) {
            Arc::make_mut(&mut self.adapted).remove(name);
        }
        let Some(flow) = flow else { return self.forget_refusals() };
        if flow.failed.is_none() {
            *self.weights.entry(flow.settings.weight).or_insert(0) += 1;
        }
        for member in flow.members() {
            for ring in &member.rings {
                let user = User::new(&flow, member, ring);
                if ring.ids.is_producer {
                    self.by_producer.insert(ring.ids.id, user.clone());
                }
                self.rings.insert(ring.name.clone(), user);
            }
        }
        self.by_worker.extend(flow.workers().into_iter().map(|w| (w, flow.name.clone())));
        self.flows.insert(name.to_owned(), flow);
        self.forget_refusals();
    }

    /// Forgets troubles of rings that are not there any more.
    fn forget_refusals(&mut self) {
        if !self.refusals.is_empty() {
            let rings = &self.rings;
            self.refusals.keep(|user| rings.get(&user.ring) == Some(user));
        }
    }

    /// Another switch is there, without any state: the position of flows is only known from their rings.
    pub fn forget_switch(&mut self) {
        self.numbers.forget();
        self.ticking.clear();
        self.idle.clear();
        for flow in self.flows.values_mut() {
            flow.adrift_workers = flow.workers();
            let numbers: Vec<Number> = flow.numbers().into_iter().collect();
            self.numbers.note(&numbers, flow.connections());
        }
        let in_use = self.flows.values().flat_map(|f| f.numbers()).collect();
        let idle = self.numbers.idle(&in_use);
        self.numbers.reusable(&idle);
        self.limits = Arc::default();
        self.adapted = Arc::default();
        self.min_timeout = Duration::ZERO;
    }

    /// Whether there is more than one weight, so that shares have to be kept.
    pub fn weights_differ(&self) -> bool {
        self.weights.len() > 1
    }
}

/// A shuffle by range has as many consumers as ranges.
fn check_fixed_range(flow: &Flow) -> Result<(), ControllerError> {
    match parse_routing(&flow.routing) {
        Some(Routing::Range { bounds, .. }) if flow.kind.routes() => {
            let message = format!(
                "flow `{}` routes by range, and its {} bounds are for {} consumers: create a flow with other bounds",
                flow.name,
                bounds.len(),
                bounds.len() + 1
            );
            Err(ControllerError::new(ErrorKind::NotNow, message))
        }
        _ => Ok(()),
    }
}
