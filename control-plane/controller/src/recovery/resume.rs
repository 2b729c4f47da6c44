//! Flows with workers that are adrift. Their switch was replaced, and the registers with their progress are gone; or a
//! NIC has refused a request of theirs ([`crate::health::nic_refusals`]). The rings hold the progress as well: a commit
//! record that of its consumer and its producer's next tail, a tail word that of a producer. So a flow goes on from
//! there, over connections that are made anew, since nobody knows the PSNs that NICs expect.
//!
//! ```text
//!  flow is adrift: its workers do not run ─► agents: rings suspended, their words ─► what is known of each ring ─► agents: items that
//!      some consumers of a group lack, rings connected ─► switch: registers ─► journal ─► workers go on
//! ```
//! A flow waits for as long as one of its agents does not answer. A consumer whose ring is gone, and its record with
//! it, may have consumed the transfer that was under way to it. No other consumer gets those items before it is taken
//! out ([`crate::health::doubts`]).

use crate::agents::{Agents, CLOSED, answer, grouped};
use crate::api::events::of_flow;
use crate::health::doubts;
use crate::times::resume::{AGAIN, KNOCK, LONG_KNOCK};
use crate::{Controller, Work};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio::task::JoinSet;
use zsr_api::agent::{self as proto, ReadItemsRequest, ResumeRingsRequest, SuspendRingsRequest};
use zsr_api::controller::EventKind;
use zsr_plan::dataplane::admin::{self, Reset};
use zsr_plan::dataplane::diff::Diff;
use zsr_plan::dataplane::flow::{DataPlane, Ticks};
use zsr_plan::dataplane::model::{Flow, Lost, Member, Ring};
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_plan::refusals::Verdict;
use zsr_plan::surroundings::Surroundings;

/// Most bytes of one transfer.
const MOST: u32 = 4 << 20;

/// Agents' words about suspended rings, by name.
type Words = HashMap<String, proto::Ring>;

/// Items that one consumer of a group lacks, and another one has.
#[derive(Debug, PartialEq, Eq)]
struct Lack {
    /// The ring that lacks the items, and its head behind them.
    ring: String,
    head: u32,
    len: u32,
    /// Host and name of the ring that has the items.
    from: (String, String),
}

/// The steps by which one flow goes on.
#[derive(Debug, Default)]
struct Plan {
    /// Rings to be connected, with their hosts.
    rings: Vec<(String, proto::ResumeRing)>,
    resets: Vec<Reset>,
    /// Progress of rings whose connections are made anew, by name.
    places: HashMap<String, u32>,
    /// Workers that have written their last commit record.
    ended: Vec<u16>,
    lacks: Vec<Lack>,
}

/// The distance from `from` to `to`, if that is at most `most`.
fn ahead(from: u32, to: u32, most: u32) -> Option<u32> {
    Some(to.wrapping_sub(from)).filter(|by| *by > 0 && *by <= most)
}

/// The items of `producer` that the record of `consumer` says to be delivered, and the tail word does not.
fn delivered(producer: (&Ring, &proto::Ring), consumer: &proto::Ring) -> Option<u32> {
    let (ring, words) = producer;
    let is_its = consumer.producer_id == u32::from(ring.ids.id);
    let fill = words.head.wrapping_sub(words.tail);
    ahead(words.tail, consumer.producer_tail, fill.min(MOST)).filter(|_| is_its)
}

/// Plans how `flow` goes on. Its rings get connections with other first PSNs. Rings without words are left out; records
/// of the rings in `stale` count for nothing.
///
/// # Errors
/// The reason why the flow can't go on.
fn plan(
    flow: &mut Flow,
    words: &Words,
    stale: &HashSet<String>,
    plane: &DataPlane,
    mut psn: impl FnMut() -> u32,
) -> Result<Plan, String> {
    let mut out = Plan::default();
    let all = !flow.adrift_workers.is_empty();
    if all {
        note_lost(flow, words, stale);
    }
    let (mtu, mut by_worker) = (flow.mtu, BTreeMap::<u16, Vec<&mut Ring>>::new());
    let records: Vec<&proto::Ring> = flow
        .consumers
        .iter()
        .flat_map(|m| &m.rings)
        .filter(|r| !stale.contains(&r.name))
        .filter_map(|r| words.get(&r.name))
        .collect();
    for ring in flow.consumers.iter_mut().flat_map(|m| &mut m.rings) {
        if words.contains_key(&ring.name) {
            by_worker.entry(ring.ids.worker).or_default().push(ring);
        }
    }
    for (worker, rings) in by_worker {
        let (first, known) = (psn(), |r: &Ring| &words[&r.name]);
        let base = known(rings[0]).head;
        let Some(foremost) = rings.iter().max_by_key(|r| known(r).head.wrapping_sub(base) as i32) else {
            continue;
        };
        let (head, from) = (known(foremost).head, (foremost.host.clone(), foremost.name.clone()));
        if known(foremost).head_flags & CLOSED != 0 {
            out.ended.push(worker);
        }
        let tail = rings.iter().map(|r| known(r).tail).max_by_key(|tail| head.wrapping_sub(*tail));
        for (number, ring) in rings.into_iter().enumerate() {
            let words = known(ring);
            if words.head != head {
                let Some(len) = ahead(words.head, head, MOST.min(ring.size)) else {
                    return Err(format!(
                        "consumer ring `{}` is at byte {} and `{}` at {head}",
                        ring.name, words.head, from.1
                    ));
                };
                out.lacks.push(Lack { ring: ring.name.clone(), head, len, from: from.clone() });
            }
            (ring.ids.data.psn, ring.ids.poll.psn) = (first, first);
            let reset = ring.ids.reset_poll(words.tail);
            // The first ring's tail stands for the worker, too, which has to know the smallest tail.
            let consumer_tail = if number == 0 { tail.unwrap_or(words.tail) } else { words.tail };
            let worker = if number == 0 { worker } else { 0 };
            out.resets.push(Reset { worker, head, consumer_tail, ..reset });
            out.places.insert(ring.name.clone(), head);
            out.rings.push((ring.host.clone(), resume(ring, mtu, plane, None)));
        }
    }
    // A transfer that standing workers had under way must not be taken for a present one.
    let stand = if all { flow.standing_workers() } else { BTreeSet::new() };
    let unknown = stand.iter().filter(|worker| out.resets.iter().all(|reset| reset.worker != **worker));
    let idle: Vec<Reset> = unknown.map(|&worker| Reset { worker, ..Default::default() }).collect();
    out.resets.extend(idle);
    let empty = flow.lanes_without_producers();
    out.ended
        .extend(empty.into_iter().filter(|worker| out.resets.iter().any(|reset| reset.worker == *worker)));
    let in_doubt: BTreeSet<String> =
        flow.held.iter().filter(|ring| flow.is_in_doubt(ring)).cloned().collect();
    for ring in flow.producers.iter_mut().flat_map(|m| &mut m.rings) {
        let Some(known) = words.get(&ring.name) else { continue };
        let moved = records.iter().filter_map(|record| delivered((ring, known), record)).max().unwrap_or(0);
        let (tail, first) = (known.tail.wrapping_add(moved), psn());
        (ring.ids.data.psn, ring.ids.poll.psn) = (first, first);
        out.resets.push(ring.ids.reset(tail));
        out.places.insert(ring.name.clone(), tail);
        // The ring is polled in vain, and looks empty.
        if !in_doubt.contains(&ring.name) {
            out.rings.push((ring.host.clone(), resume(ring, mtu, plane, Some(tail))));
        }
    }
    flow.held = in_doubt;
    if all {
        flow.past_batch = 0;
    }
    Ok(out)
}

/// Notes consumer rings that are gone, and the items that were under way to them, if nobody can know their fate any
/// more. A worker has one transfer under way, and so has a producer. While a producer's tail lags behind a record, the
/// worker of that record has the producer.
fn note_lost(flow: &mut Flow, words: &Words, stale: &HashSet<String>) {
    let consumers = || flow.consumers.iter().flat_map(|m| m.rings.iter().map(move |r| (m, r)));
    let mut lost: Vec<Lost> = flow.lost.iter().filter(|l| !words.contains_key(&l.ring)).cloned().collect();
    // A ring that is back says itself what it got, so nothing is kept for it.
    let stood = flow.standing_workers();
    if !flow.kind.routes() {
        let records = consumers().filter(|(_, r)| !stale.contains(&r.name));
        let records: Vec<&proto::Ring> = records.filter_map(|(_, r)| words.get(&r.name)).collect();
        let producers = || flow.producers.iter().flat_map(|m| &m.rings);
        let is_known = |ring: &Ring| {
            let moved = |known| records.iter().any(|record| delivered((ring, known), record).is_some());
            words.get(&ring.name).is_some_and(moved)
        };
        let group_is_known = flow.kind.copies() && producers().any(is_known);
        let known = |name: &str| lost.iter().any(|l| l.ring == name);
        let gone = consumers().filter(|(_, r)| !words.contains_key(&r.name) && !known(&r.name));
        let gone: Vec<Lost> = gone
            .map(|(member, ring)| {
                let to = (member.name.as_str(), ring.size);
                let doubts = producers().filter_map(|from| match words.get(&from.name) {
                    Some(known) => doubts::doubt(flow, to, from, known).filter(|_| !is_known(from)),
                    // A group's other members will never get the items that only this one has got.
                    None => flow.kind.copies().then(|| doubts::doubt_of_lost(flow, to, from)),
                });
                // Nothing has moved since the rings are held, or stand.
                let moves = |ring: &str| !flow.held.contains(ring);
                let none = group_is_known || stood.contains(&ring.ids.worker);
                let doubts = doubts.filter(|doubt| !none && moves(&doubt.ring)).collect();
                Lost { ring: ring.name.clone(), doubts }
            })
            .collect();
        lost.extend(gone);
    }
    flow.lost = lost;
    if flow.kind.competes() {
        let in_doubt = flow.lost.iter().flat_map(|lost| &lost.doubts).map(|doubt| doubt.ring.clone());
        flow.held.extend(in_doubt.collect::<Vec<_>>());
    }
}

fn resume(ring: &Ring, mtu: u32, plane: &DataPlane, tail: Option<u32>) -> proto::ResumeRing {
    let target = |qp, is_poll| Some(crate::agents::target(qp, mtu, plane, is_poll));
    proto::ResumeRing {
        name: ring.name.clone(),
        data: target(ring.ids.data, false),
        poll: target(ring.ids.poll, true),
        tail,
        ..Default::default()
    }
}

/// Hosts whose agents have to say something before these flows go on.
fn hosts(flows: &[Flow]) -> BTreeSet<String> {
    let rings = flows.iter().flat_map(|flow| flow.rings().filter(|ring| flow.waits(ring)));
    rings.map(|ring| ring.host.clone()).collect()
}

/// Calls agents at the same time; those whose call fails.
async fn at_once<T: Send + 'static>(
    calls: impl Iterator<Item = (String, impl Future<Output = Result<T, ControllerError>> + Send + 'static)>,
    mut done: impl FnMut(T),
) -> BTreeSet<String> {
    let mut tasks: JoinSet<(String, Result<T, ControllerError>)> = JoinSet::new();
    for (host, call) in calls {
        tasks.spawn(async move { (host, call.await) });
    }
    let mut failed = BTreeSet::new();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok((_, Ok(result))) => done(result),
            Ok((host, Err(_))) => drop(failed.insert(host)),
            Err(_) => {}
        }
    }
    failed
}

async fn suspend(agents: &Agents, rings: Vec<(String, String)>) -> (Words, BTreeSet<String>) {
    let mut words = Words::new();
    let calls = grouped(rings.into_iter()).into_iter().map(|(host, names)| {
        let (agents, whom) = (agents.clone(), host.clone());
        let call = async move {
            let mut client = agents.of(&whom)?;
            answer(&whom, client.suspend_rings(SuspendRingsRequest { names })).await
        };
        (host, call)
    });
    let silent = at_once(calls, |found| {
        words.extend(found.rings.into_iter().map(|r| (r.name.clone(), r)));
    });
    let silent = silent.await;
    (words, silent)
}

async fn read(
    agents: &Agents,
    host: &str,
    name: &str,
    from: u32,
    length: u32,
) -> Result<Vec<u8>, ControllerError> {
    let request = ReadItemsRequest { name: name.to_owned(), from, length };
    let mut client = agents.of(host)?;
    Ok(answer(host, client.read_items(request)).await?.items)
}

/// In a load balance, consumer rings whose record is an old one: a producer's counter may have wrapped since, so that
/// the record looks like the newest. Then its items are not those that the producer still has.
async fn stale(agents: &Agents, flow: &Flow, words: &Words) -> Result<HashSet<String>, ControllerError> {
    let mut out = HashSet::new();
    if !flow.kind.competes() || flow.consumers.len() < 2 {
        return Ok(out);
    }
    for consumer in flow.consumers.iter().flat_map(|m| &m.rings) {
        let Some(record) = words.get(&consumer.name) else { continue };
        for producer in flow.producers.iter().flat_map(|m| &m.rings) {
            let Some(known) = words.get(&producer.name) else { continue };
            let Some(len) = delivered((producer, known), record) else { continue };
            let got = read(agents, &consumer.host, &consumer.name, record.head.wrapping_sub(len), len).await;
            let has = read(agents, &producer.host, &producer.name, known.tail, len).await;
            if got? != has? {
                out.insert(consumer.name.clone());
            }
        }
    }
    Ok(out)
}

/// The rings that are [`stale`] in flows, asked for at the same time. Flows of agents that do not answer are left out.
async fn all_stale(agents: &Agents, flows: Vec<Flow>, words: Arc<Words>) -> Vec<(Flow, HashSet<String>)> {
    let each = flows.into_iter().map(|flow| {
        let (agents, words) = (agents.clone(), words.clone());
        async move {
            let stale = stale(&agents, &flow, &words).await.ok()?;
            Some((flow, stale))
        }
    });
    in_order(each).await
}

/// Flows whose plans have the items that consumers lack, from the consumers that have them. Flows of agents that do not
/// deliver the items are left out.
async fn all_fetched(agents: &Agents, plans: Vec<(Flow, Plan)>) -> Vec<(Flow, Plan)> {
    let each = plans.into_iter().map(|(flow, mut plan)| {
        let agents = agents.clone();
        async move {
            for lack in &plan.lacks {
                let (host, name) = &lack.from;
                let items =
                    read(&agents, host, name, lack.head.wrapping_sub(lack.len), lack.len).await.ok()?;
                let rings = plan.rings.iter_mut().map(|(_, ring)| ring);
                for ring in rings.filter(|ring| ring.name == lack.ring) {
                    (ring.head, ring.items) = (Some(lack.head), items.clone());
                }
            }
            Some((flow, plan))
        }
    });
    in_order(each).await
}

/// Carries out all of `work` at the same time; returns the results in order.
async fn in_order<T: Send + 'static>(
    work: impl Iterator<Item = impl Future<Output = Option<T>> + Send + 'static>,
) -> Vec<T> {
    let mut tasks = JoinSet::new();
    for (number, work) in work.enumerate() {
        tasks.spawn(async move { (number, work.await) });
    }
    let mut done = BTreeMap::new();
    while let Some(ended) = tasks.join_next().await {
        if let Ok((number, Some(result))) = ended {
            done.insert(number, result);
        }
    }
    done.into_values().collect()
}

impl Controller {
    /// Flows with workers that wait to go on.
    fn adrift(&self) -> Vec<Flow> {
        self.state().flows.values().filter(|f| f.is_adrift() && f.failed.is_none()).cloned().collect()
    }

    /// Has flows go on, for as long as it is polled.
    pub(crate) async fn keep_resuming(&self) {
        loop {
            self.0.adrift.notified().await;
            let mut patience = KNOCK;
            loop {
                // Not while others wait for this turn: an agent may hang.
                let there = self.0.agents.answering(hosts(&self.adrift()), patience).await;
                let mut work = self.work_at_last().await;
                if self.is_open() {
                    let flows = self.adrift();
                    // Flows that did not go on are tried again.
                    let _ = self.resume(&mut work, flows, &there, &BTreeSet::new()).await;
                    self.note_adrift(&mut work);
                }
                drop(work);
                if self.adrift().is_empty() {
                    break;
                }
                patience = (patience * 2).min(LONG_KNOCK);
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// From now on a successor of this controller knows that the switch has what the journal says. Until now, it would
    /// begin anew.
    fn note_adrift(&self, work: &mut Work) {
        if !std::mem::take(&mut work.is_new) {
            return;
        }
        work.journal.note_all(self.adrift().iter());
        work.journal.note_program(work.cookie);
    }

    /// The agent that an adrift flow waits for, for people. Agents of members in `leaving` are not waited for. Only
    /// agents in `there` are sure to answer.
    fn absent(&self, flow: &Flow, there: &BTreeSet<String>, leaving: &BTreeSet<String>) -> Option<String> {
        let away = |m: &&Member| !self.is_connected(&m.host) || !there.contains(&m.host);
        let waited_for = |m: &&Member| !leaving.contains(&m.name) && m.rings.iter().any(|r| flow.waits(r));
        let away = flow.members().filter(waited_for).find(away)?;
        Some(format!(
            "{}, and host `{}` of member `{}` has not said yet what its rings hold",
            self.why_adrift(flow),
            away.host,
            away.name
        ))
    }

    /// Has a flow go on before a change of it. Members in `leaving` whose agents do not answer are left out, whatever
    /// becomes of their items.
    ///
    /// # Errors
    /// When the flow does not go on.
    pub(crate) async fn resume_first(
        &self,
        work: &mut Work,
        name: &str,
        leaving: &BTreeSet<String>,
    ) -> Result<(), ControllerError> {
        let flows: Vec<Flow> = self.adrift().into_iter().filter(|f| f.name == name).collect();
        let Some(flow) = flows.first().cloned() else { return Ok(()) };
        let there = self.0.agents.answering(hosts(&flows), KNOCK).await;
        self.resume(work, flows, &there, leaving).await?;
        match self.get_flow(name) {
            Ok(now) if now.is_adrift() && now.failed.is_none() => {
                let why = self.absent(&flow, &there, leaving).unwrap_or_else(|| self.why_adrift(&flow));
                // Members that stay may be gone, too: then they leave together.
                let kind = if leaving.is_empty() { ErrorKind::NotNow } else { ErrorKind::Stuck };
                let advice = match leaving.is_empty() {
                    true => "try again",
                    false => "try again, or take out by one command, with --force, all who are gone",
                };
                Err(ControllerError::new(kind, format!("flow `{name}`: {why}; {advice}")))
            }
            _ => Ok(()),
        }
    }

    /// Has flows go on. A flow that waits for an agent stays as it is, unless the agent is that of a member in
    /// `leaving`. Only agents in `there` are asked.
    async fn resume(
        &self,
        work: &mut Work,
        mut flows: Vec<Flow>,
        there: &BTreeSet<String>,
        leaving: &BTreeSet<String>,
    ) -> Result<(), ControllerError> {
        let agents = &self.0.agents;
        flows.retain(|flow| self.absent(flow, there, leaving).is_none());
        let rings = flows.iter().flat_map(|flow| flow.rings().filter(|ring| flow.waits(ring)));
        let rings = rings.filter(|ring| self.is_connected(&ring.host) && there.contains(&ring.host));
        let rings: Vec<(String, String)> = rings.map(|r| (r.host.clone(), r.name.clone())).collect();
        let (mut words, silent) = suspend(agents, rings).await;
        let fell_silent = |flow: &Flow, silent: &BTreeSet<String>| {
            flow.members().any(|m| silent.contains(&m.host) && !leaving.contains(&m.name))
        };
        flows.retain(|flow| !fell_silent(flow, &silent));
        // A ring that was made anew under the same name is another ring.
        let same = |ring: &Ring, words: &proto::Ring| {
            ring.address.is_some_and(|a| u32::from(a.epoch) == words.epoch)
        };
        let others =
            flows.iter().flat_map(Flow::rings).filter(|r| words.get(&r.name).is_some_and(|w| !same(r, w)));
        let others: Vec<String> = others.map(|r| r.name.clone()).collect();
        others.iter().for_each(|name| drop(words.remove(name)));
        let words = Arc::new(words);

        let waited: HashMap<String, HashSet<String>> = flows
            .iter()
            .map(|flow| {
                let rings = flow.rings().filter(|ring| flow.waits(ring)).map(|ring| ring.name.clone());
                (flow.name.clone(), rings.collect())
            })
            .collect();
        let mut ready: Vec<(Flow, Plan)> = Vec::new();
        for (mut flow, stale) in all_stale(agents, flows, words.clone()).await {
            let planned = plan(&mut flow, &words, &stale, &self.0.plane, || self.state().chance.psn());
            match planned {
                Ok(plan) => ready.push((flow, plan)),
                Err(why) => {
                    let why = format!("{}, and the flow can't go on: {why}", self.why_adrift(&flow));
                    self.fail_flow(work, &flow.name, &why).await;
                }
            }
        }
        let mut refused = HashMap::new();
        for (flow, plan) in &ready {
            let verdict = self.state().refusals.judge(flow, |ring| plan.places.get(ring).copied());
            match verdict {
                Verdict::Again(list) => drop(refused.insert(flow.name.clone(), list)),
                Verdict::Enough(why) => self.fail_flow(work, &flow.name, &why).await,
            }
        }
        ready.retain(|(flow, _)| refused.contains_key(&flow.name));
        let mut ready = all_fetched(agents, ready).await;
        let rings = ready.iter_mut().flat_map(|(_, plan)| std::mem::take(&mut plan.rings));
        let calls = grouped(rings).into_iter().map(|(host, rings)| {
            let (agents, whom) = (agents.clone(), host.clone());
            let call = async move {
                let mut client = agents.of(&whom)?;
                answer(&whom, client.resume_rings(ResumeRingsRequest { rings })).await
            };
            (host, call)
        });
        let silent = at_once(calls, |_| ()).await;
        ready.retain(|(flow, _)| !fell_silent(flow, &silent));
        let resets: Vec<Reset> = ready.iter().flat_map(|(_, plan)| plan.resets.iter().copied()).collect();
        self.reset(work, &resets).await?;
        // The workers write the record again, which changes nothing, and begin no transfer any more.
        for worker in ready.iter().flat_map(|(_, plan)| &plan.ended) {
            work.switch.packet_out(admin::close(*worker, self.0.plane.pipes())).await?;
        }
        let (mut bells, mut run) = (Vec::new(), Ticks::new());
        let around = Surroundings::of(&self.state());
        for (flow, _) in &mut ready {
            let rings = &waited[&flow.name];
            let rings = |ring: &Ring| rings.contains(&ring.name) && !flow.held.contains(&ring.name);
            bells.extend(self.0.plane.doorbells(flow, &around.context(false), rings)?);
            let waited = std::mem::take(&mut flow.adrift_workers);
            let ticks = self.0.plane.tick_groups(flow);
            run.extend(ticks.into_iter().filter(|(worker, _)| waited.contains(worker)));
        }
        work.journal.note_all(ready.iter().map(|(flow, _)| flow));
        work.switch.update(Diff::between(Vec::new(), bells).additions().into_iter()).await?;
        self.run_workers(work, &Ticks::new(), &run).await?;
        for (flow, plan) in ready {
            let name = flow.name.clone();
            let before = self.state().flows.get(&name).cloned();
            self.state().set(&name, Some(flow.clone()));
            if before.as_ref().is_none_or(|before| before.lost != flow.lost) {
                self.look_for_lost(&name);
            }
            let refused = refused.remove(&name).unwrap_or_default();
            if refused.is_empty() {
                self.tell_resumed(before.as_ref(), &flow, &plan);
            } else {
                self.tell_renewed(&name, refused);
                self.tell_who_waits(before.as_ref(), &flow);
            }
        }
        Ok(())
    }

    /// Emits an event that a flow goes on, or that its held producers go on.
    fn tell_resumed(&self, before: Option<&Flow>, flow: &Flow, plan: &Plan) {
        let all = before.is_none_or(|flow| !flow.adrift_workers.is_empty());
        let goes_on = |m: &&Member| m.rings.iter().any(|r| plan.places.contains_key(&r.name));
        let text = match all {
            true => {
                let switch = self.switch_name();
                format!("switch `{switch}` was given its entries; the flow goes on from what its rings hold")
            }
            false => {
                let names: Vec<&str> =
                    flow.producers.iter().filter(goes_on).map(|m| m.name.as_str()).collect();
                format!("nobody is waited for any more; what `{}` holds is delivered", names.join("`, `"))
            }
        };
        self.0.events.emit(EventKind::FlowResumed, of_flow(&flow.name, text));
        self.tell_who_waits(before, flow);
    }

    /// Emits an event about producers that wait from now on, if they did not before.
    fn tell_who_waits(&self, before: Option<&Flow>, flow: &Flow) {
        let waiting = doubts::waiting(flow).filter(|_| before.is_none_or(|before| before.lost != flow.lost));
        if let Some(text) = waiting {
            let all: Vec<_> = flow.lost.iter().flat_map(|lost| lost.doubts.clone()).collect();
            let event =
                zsr_api::controller::Event { doubts: doubts::told(&all), ..of_flow(&flow.name, text) };
            self.0.events.emit(EventKind::FlowChanged, event);
        }
    }
}
