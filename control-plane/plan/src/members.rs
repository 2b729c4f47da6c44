//! A member joins a planned flow: its rings, and their numbers at the switch.

use crate::dataplane::alloc::{Exhausted, Number};
use crate::dataplane::model::{DeclaredRing, Flow, Member, Ring};
use crate::dataplane::{RingIds, secret_in_pipe};
use crate::error::{ControllerError, ErrorKind};
use crate::requests::NewMember;
use crate::state::State;
use std::collections::HashSet;
use zsr_topology::{MemoryKind, RingRole, limits::MAX_MEMBERS, rules};

impl State {
    /// `new` joins `flow`, whose registers are in pipe `home`, as a consumer. In a shuffle it gets a ring of each
    /// producer. Its numbers are added to `taken`.
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
        let declared = self.declared_rings(flow, new, RingRole::Consumer, 1)?;
        let (shared, member) = place_of_consumer(flow)?;
        // A group's worker counts packets to all members as one.
        let psn = shared.and_then(|_| flow.consumers.first()?.rings.first()).map(|r| r.ids.data.psn);
        let worker = match shared {
            Some(worker) => worker,
            None => {
                let worker = self.numbers.worker(self.pipes.share(home))?;
                taken.push(Number::Worker(worker));
                worker
            }
        };
        let ids = self.ring_ids((worker, psn), None, member, taken)?;
        let made = || Made { name: format!("{}.{name}", flow.name), host: &new.host, memory };
        let ring = ring(flow, declared.first(), made, ids);
        self.check_ring_name(flow, &ring)?;
        if shared.is_some()
            && let Some(first) = flow.consumers.iter().flat_map(|m| &m.rings).next()
        {
            let what = rules::flow(&flow.name);
            rules::ring_of_group(&what, (&ring.name, ring.size), (&first.name, first.size))?;
        }
        if flow.kind.has_lanes() {
            for p in 0..flow.producers.len() {
                let number = self.producer_number(taken)?;
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
        flow.consumers.push(Member { name, host: new.host.clone(), rings: vec![ring] });
        Ok(())
    }

    /// `new` joins `flow` as a producer; as for [`add_consumer`](Self::add_consumer).
    pub fn add_producer(
        &mut self,
        flow: &mut Flow,
        new: &NewMember,
        taken: &mut Vec<Number>,
    ) -> Result<(), ControllerError> {
        let name = self.check_member(flow, new)?;
        let memory = new.memory(&flow.name)?;
        let lanes = flow.kind.lanes(flow.consumers.len());
        let declared = self.declared_rings(flow, new, RingRole::Producer, lanes)?;
        let mut rings = Vec::with_capacity(lanes);
        for lane in 0..lanes {
            let consumer = &flow.consumers[lane];
            let worker = consumer.rings.first().map_or(0, |r| r.ids.worker);
            let number = self.producer_number(taken)?;
            let ids = self.ring_ids((worker, None), Some(number), 0, taken)?;
            let made = || {
                let name = match flow.kind.has_lanes() {
                    true => format!("{}.{name}.{}", flow.name, consumer.name),
                    false => format!("{}.{name}", flow.name),
                };
                Made { name, host: &new.host, memory }
            };
            let ring = ring(flow, declared.get(lane), made, ids);
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
