//! Fills p4/pipeline/params.p4: settings of workers and rings.

use super::{Plan, PlanError};
use crate::p4::Schema;
use crate::topology::Flow;
use p4runtime_proto::p4::v1::TableEntry;
use std::time::Duration;

pub(super) fn entries(plan: &Plan, schema: &Schema) -> Result<Vec<TableEntry>, PlanError> {
    let mut out = Vec::new();
    for worker in 0..plan.workers.len() {
        let flow = plan.flow_of(worker);
        let consumer = plan.consumer_ring_of(worker);
        let producers = plan.producer_rings_of(worker);
        for (index, &ring) in producers.iter().enumerate() {
            let Some(ids) = plan.rings[ring] else { continue };
            let size = u64::from(plan.topology.rings[ring].size);
            out.push(schema.entry(
                "producers",
                &[ids.id.into()],
                "producer",
                &[size, size - 1, ids.data.index.into(), ids.poll.index.into()],
            )?);
            out.push(schema.entry(
                "producer_list",
                &[worker as u64, index as u64],
                "member",
                &[ids.id.into(), (index as u64 + 1) % producers.len() as u64],
            )?);
        }
        let Some(ids) = plan.rings[consumer] else { continue };
        let size = u64::from(plan.topology.rings[consumer].size);
        let low_space = (size / 2).max(flow.item_size.into());
        let mtu = plan.peer_of(consumer)?.host.mtu;
        out.push(schema.entry(
            "workers",
            &[worker as u64],
            "worker",
            &[
                producers.len() as u64,
                0,
                flow.max_batch.into(),
                size,
                size - 1,
                low_space,
                mtu_code(mtu),
                u64::from(mtu) - 1,
                ids.data.index.into(),
                ids.poll.index.into(),
                0,
                1,
                1,
                0,
                micros(flow.poll_interval),
                micros(flow.poll_timeout),
                micros(flow.rto),
                max_tries(flow),
            ],
        )?);
    }
    Ok(out)
}

/// Whole microseconds, at least one: the data plane's unit of time.
fn micros(d: Duration) -> u64 {
    (d.as_micros() as u64).clamp(1, u32::MAX as u64 / 4)
}

/// 1 to 5 for a path MTU of 256 to 4096.
fn mtu_code(mtu: u32) -> u64 {
    u64::from(mtu.max(256).ilog2().min(12) - 7)
}

/// Retries until a peer has been silent for `dead_after`: each waits twice as long as the one before, up to 64 times `rto`.
fn max_tries(flow: &Flow) -> u64 {
    let dead = micros(flow.dead_after);
    let mut waited = 0;
    let mut wait = micros(flow.rto);
    let longest = wait * 64;
    let mut tries = 0;
    while waited < dead && tries < 1 << 20 {
        waited += wait;
        wait = (wait * 2).min(longest);
        tries += 1;
    }
    tries.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_codes() {
        assert_eq!([256, 512, 1024, 2048, 4096].map(mtu_code), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn times_fit_the_data_plane() {
        assert_eq!(micros(Duration::from_nanos(10)), 1);
        assert_eq!(micros(Duration::from_millis(2)), 2000);
        assert!(micros(Duration::from_secs(1 << 40)) < 1 << 31);
    }
}
