//! Counters of flows and rings: what the switch counts by connection, worker and producer ring, and the rings' own words.

use super::Controller;
use super::alloc::Number;
use super::model::{Flow, Ring};
use super::proto;
use super::refusal::Refusal;
use crate::p4::{Cell, SchemaError};
use crate::plan::{COUNTERS, PlanError};
use p4runtime_proto::p4::v1 as rt;

/// Cells read for a ring.
const CELLS: usize = 6;

impl Controller {
    /// Counters of flow `name`, or of all if it is empty.
    ///
    /// # Errors
    /// When there is no such flow, or the switch can't be read. Agents that do not answer leave zeros.
    pub async fn stats(&self, name: &str) -> Result<proto::Stats, Refusal> {
        let flows = if name.is_empty() { self.list_flows() } else { vec![self.get_flow(name)?] };
        let counters = self.counters().map_err(crate::plan::PlanError::from)?;
        let rings: Vec<&Ring> = flows.iter().flat_map(|f| f.rings()).collect();
        let cells: Vec<(u32, u16)> = rings.iter().flat_map(|r| cells_of(r, counters)).collect();
        let counted = self.reader().cells(&cells).await?;
        let (seen, _) = self.0.agents.look(rings.iter().copied()).await;
        let time_ns = self.0.started.elapsed().as_nanos() as u64;
        let mut counted = counted.chunks_exact(CELLS);
        let flows = flows.iter().map(|flow| {
            let ring = |ring: &Ring| {
                ring_stats(flow, ring, counted.next().unwrap_or_default(), seen.get(&ring.name))
            };
            flow_stats(flow, flow.rings().map(ring).collect())
        });
        Ok(proto::Stats { time_ns, flows: flows.collect() })
    }

    /// Sets what is counted for `numbers` back to zero, for whoever has them next.
    pub(super) fn zeros(&self, numbers: &[Number]) -> Result<Vec<rt::Update>, PlanError> {
        let [received, sent, transfers, producer, retries] = self.counters()?;
        let cells = numbers.iter().flat_map(|&number| match number {
            Number::Qp(n) => vec![(received, n), (sent, n)],
            Number::Worker(n) => vec![(transfers, n), (retries, n)],
            Number::Producer(n) => vec![(producer, n)],
            Number::Flow(_) => Vec::new(),
        });
        let zero = |(counter_id, index): (u32, u16)| {
            let entry = rt::CounterEntry {
                counter_id,
                index: Some(rt::Index { index: index.into() }),
                data: Some(rt::CounterData::default()),
            };
            let entity = rt::Entity { entity: Some(rt::entity::Entity::CounterEntry(entry)) };
            rt::Update { r#type: rt::update::Type::Modify.into(), entity: Some(entity) }
        };
        Ok(cells.map(zero).collect())
    }

    fn counters(&self) -> Result<[u32; 5], SchemaError> {
        let mut ids = [0; 5];
        for (id, name) in ids.iter_mut().zip(COUNTERS) {
            *id = self.0.plane.schema().counter(name)?;
        }
        Ok(ids)
    }
}

fn cells_of(ring: &Ring, [received, sent, transfers, producer, retries]: [u32; 5]) -> [(u32, u16); CELLS] {
    let (data, poll, worker) = (ring.ids.data.index, ring.ids.poll.index, ring.ids.worker);
    let transfers = if ring.ids.is_producer { (producer, ring.ids.id) } else { (transfers, worker) };
    [(received, data), (sent, data), (received, poll), (sent, poll), transfers, (retries, worker)]
}

fn ring_stats(
    flow: &Flow,
    ring: &Ring,
    counted: &[Cell],
    seen: Option<&zsr_host_agent::proto::Ring>,
) -> proto::RingStats {
    let cell = |at: usize| counted.get(at).copied().unwrap_or_default();
    let connections = [cell(0), cell(1), cell(2), cell(3)];
    let bytes = seen.map_or(0, |r| r.bytes);
    let (role, retries) = match ring.ids.is_producer {
        true => (proto::Role::Producer, 0),
        false => (proto::Role::Consumer, cell(5).packets),
    };
    proto::RingStats {
        name: ring.name.clone(),
        host: ring.host.clone(),
        role: role.into(),
        bytes,
        items: bytes / u64::from(flow.item_size),
        fill: seen.map_or(0, |r| r.head.wrapping_sub(r.tail)),
        size: ring.size,
        transfers: cell(4).packets,
        retries,
        polls: cell(3).packets,
        packets: connections.iter().map(|c| c.packets).sum(),
        wire_bytes: connections.iter().map(|c| c.bytes).sum(),
        attached: seen.is_some_and(|r| r.attached),
        closed: seen.is_some_and(|r| r.head_flags & 1 != 0),
    }
}

fn flow_stats(flow: &Flow, rings: Vec<proto::RingStats>) -> proto::FlowStats {
    let consumers = || rings.iter().filter(|r| r.role() == proto::Role::Consumer);
    let bytes = consumers().map(|r| r.bytes).sum();
    proto::FlowStats {
        name: flow.name.clone(),
        bytes,
        items: bytes / u64::from(flow.item_size),
        transfers: consumers().map(|r| r.transfers).sum(),
        retries: consumers().map(|r| r.retries).sum(),
        polls: rings.iter().map(|r| r.polls).sum(),
        rings,
    }
}
