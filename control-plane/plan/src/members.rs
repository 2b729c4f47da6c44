//! A member joins a planned flow: its rings, and their numbers at the switch.

use crate::dataplane::alloc::{Exhausted, Number};
use crate::dataplane::model::{DeclaredRing, Flow, Member, Ring};
use crate::dataplane::{RingIds, secret_in_pipe};
use crate::error::{ControllerError, ErrorKind};
use crate::requests::NewMember;
use crate::state::State;
use std::collections::{BTreeSet, HashSet};
use zsr_topology::{MemoryKind, RingRole, limits::MAX_MEMBERS, rules};

impl State {
    /// `new` joins `flow`, whose registers are in pipe `home`, as a consumer. In a shuffle each producer gets a ring that leads
    /// to one of its lanes. Its numbers are added to `taken`.
    ///
    /// # Errors
    /// The rule that `new` breaks; numbers may have been taken all the same.
    pub fn add_consumer(
        &mut self,
        flow: &mut Flow,
        new: &NewMember,
        home: u32,
        taken: &mut Vec<Number>,
    ) -> Result<(), ControllerError> {
        let name = self.check_member(flow, new)?;
        let memory = new.memory(&flow.name)?;
        // A lane that begins without a producer would end at once. While a flow is made, its producers are still to come.
        let there = if flow.producers.is_empty() { usize::MAX } else { flow.producers.len() };
        let lanes = there.min(flow.lanes as usize);
        let declared = self.declared_rings(flow, new, RingRole::Consumer, lanes)?;
        let (shared, member) = place_of_consumer(flow)?;
        // A group's worker counts packets to all members as one.
        let psn = shared.and_then(|_| flow.consumers.first()?.rings.first()).map(|r| r.ids.data.psn);
        let mut rings: Vec<Ring> = Vec::with_capacity(lanes);
        for lane in 0..lanes {
            let worker = match shared {
                Some(worker) => worker,
                None => {
                    let worker = self.numbers.worker(self.pipes.share(home))?;
                    taken.push(Number::Worker(worker));
                    worker
                }
            };
            let ids = self.ring_ids((worker, psn), None, member, taken)?;
            let first = format!("{}.{name}", flow.name);
            let made = || Made { name: rules::lane_name(&first, lane), host: &new.host, memory };
            let ring = ring(flow, declared.get(lane), made, ids);
            self.check_ring_name(flow, &ring)?;
            rings.push(ring);
        }
        if shared.is_some()
            && let (Some(ring), Some(first)) =
                (rings.first(), flow.consumers.iter().flat_map(|m| &m.rings).next())
        {
            let what = rules::flow(&flow.name);
            rules::ring_of_group(&what, (&ring.name, ring.size), (&first.name, first.size))?;
        }
        if flow.kind.routes() {
            for p in 0..flow.producers.len() {
                let number = self.producer_number(taken)?;
                let worker = rings[p % lanes].ids.worker;
                let ids = self.ring_ids((worker, None), Some(number), 0, taken)?;
                let producer = &flow.producers[p];
                let name = format!("{}.{}.{name}", flow.name, producer.name);
                // The same as in its other rings.
                let memory = producer.rings.first().and_then(|r| r.memory);
                let lane = ring_of(flow, Made { name, host: &producer.host, memory }, ids);
                self.check_ring_name(flow, &lane)?;
                flow.producers[p].rings.push(lane);
            }
        }
        flow.consumers.push(Member { name, host: new.host.clone(), rings });
        Ok(())
    }

    /// `new` joins `flow` as a producer; as for [`add_consumer`](Self::add_consumer). Each consumer reads from it by the lane that
    /// reads from the fewest others, and is none of the workers in `ended`.
    pub fn add_producer(
        &mut self,
        flow: &mut Flow,
        new: &NewMember,
        ended: &BTreeSet<u16>,
        taken: &mut Vec<Number>,
    ) -> Result<(), ControllerError> {
        let name = self.check_member(flow, new)?;
        let memory = new.memory(&flow.name)?;
        let count = flow.kind.rings_per_producer(flow.consumers.len());
        let declared = self.declared_rings(flow, new, RingRole::Producer, count)?;
        let mut rings = Vec::with_capacity(count);
        for at in 0..count {
            let consumer = &flow.consumers[at];
            let worker = lane_for_one_more(flow, consumer, ended);
            let number = self.producer_number(taken)?;
            let ids = self.ring_ids((worker, None), Some(number), 0, taken)?;
            let made = || {
                let name = match flow.kind.routes() {
                    true => format!("{}.{name}.{}", flow.name, consumer.name),
                    false => format!("{}.{name}", flow.name),
                };
                Made { name, host: &new.host, memory }
            };
            let ring = ring(flow, declared.get(at), made, ids);
            self.check_ring_name(flow, &ring)?;
            rings.push(ring);
        }
        flow.producers.push(Member { name, host: new.host.clone(), rings });
        Ok(())
    }

    fn producer_number(&mut self, taken: &mut Vec<Number>) -> Result<u16, Exhausted> {
        let number = self.numbers.producer()?;
        taken.push(Number::Producer(number));
        Ok(number)
    }

    /// Numbers of a ring of `worker`; `producer` is the number of a producer ring. `psn`: the ring's first PSN, if it
    /// is given.
    fn ring_ids(
        &mut self,
        (worker, psn): (u16, Option<u32>),
        producer: Option<u16>,
        member: u8,
        taken: &mut Vec<Number>,
    ) -> Result<RingIds, Exhausted> {
        let data = self.numbers.qp()?;
        taken.push(Number::Qp(data.index));
        let poll = self.numbers.qp()?;
        taken.push(Number::Qp(poll.index));
        let (id, is_producer) = (producer.unwrap_or(worker), producer.is_some());
        let psn = psn.or(self.first_psn).unwrap_or_else(|| self.chance.psn());
        let pipe = self.pipes.of_worker(worker);
        let [data, poll] = [data, poll].map(|qp| qp.from_psn(psn).in_pipe(pipe));
        let mut secret = self.chance.secret();
        if self.pipes.are_several() {
            secret = secret_in_pipe(secret, pipe);
        }
        Ok(RingIds { id, worker, is_producer, member, data, poll, secret })
    }
}

/// The worker of `consumer` that has the fewest producers, of those that are not in `ended`.
fn lane_for_one_more(flow: &Flow, consumer: &Member, ended: &BTreeSet<u16>) -> u16 {
    let workers = consumer.rings.iter().map(|ring| ring.ids.worker).filter(|worker| !ended.contains(worker));
    let producers = |worker: &u16| {
        flow.producers.iter().flat_map(|m| &m.rings).filter(|ring| ring.ids.worker == *worker).count()
    };
    workers.min_by_key(producers).unwrap_or_default()
}

/// The worker that a further consumer shares, if any, and its place there.
fn place_of_consumer(flow: &Flow) -> Result<(Option<u16>, u8), ControllerError> {
    if !flow.kind.copies() {
        return Ok((None, 0));
    }
    let taken: HashSet<u8> = flow.consumers.iter().flat_map(|m| &m.rings).map(|r| r.ids.member).collect();
    let free = (0..MAX_MEMBERS as u8).find(|place| !taken.contains(place));
    let full = || {
        let fault = rules::consumers(&rules::flow(&flow.name), flow.kind, MAX_MEMBERS + 1);
        ControllerError::new(ErrorKind::Full, fault.err().map_or(String::new(), |e| e.to_string()))
    };
    Ok((flow.workers().first().copied(), free.ok_or_else(full)?))
}

/// A ring that a flow makes.
struct Made<'a> {
    name: String,
    host: &'a str,
    memory: Option<MemoryKind>,
}

fn ring<'a>(
    flow: &Flow,
    declared: Option<&DeclaredRing>,
    made: impl FnOnce() -> Made<'a>,
    ids: RingIds,
) -> Ring {
    match declared {
        None => ring_of(flow, made(), ids),
        Some(d) => Ring {
            name: d.name.clone(),
            host: d.host.clone(),
            declared: true,
            owner: d.owner.clone(),
            size: d.size,
            memory: d.memory,
            start: 0,
            ids,
            address: None,
        },
    }
}

fn ring_of(flow: &Flow, Made { name, host, memory }: Made<'_>, ids: RingIds) -> Ring {
    let (host, owner, size) = (host.to_owned(), flow.owner.clone(), flow.ring_size);
    Ring { name, host, declared: false, owner, size, memory, start: 0, ids, address: None }
}
