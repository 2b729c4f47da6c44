//! Hosts, rings and switch of a topology in the caller's hand: the caller alone moves packets and time. For benchmarks
//! and simulations.

use super::error::RunError;
use crate::parts::{SwitchError, nic_config, switch_without_timers};
use p4runtime_proto::local;
use std::num::NonZeroU64;
use std::sync::Arc;
use zsr_controller::give_base;
use zsr_host_agent::nic::{NicError, QpTarget, soft};
use zsr_p4runtime_server::P4RuntimeServer;
use zsr_plan::dataplane::{Qp, RingAddress};
use zsr_plan::draft::Draft;
use zsr_plan::p4::{Artifacts, Schema};
use zsr_ring::{Ring, RingSpec, Role};
use zsr_soft_nic::Nic;
use zsr_soft_switch::{Switch, control_queue};
use zsr_switch::SwitchClient;
use zsr_topology::{ByteOrder, MemoryKind, Topology};
use zsr_wire::{FramePool, Mac, Psn, Qpn};

/// The hosts of a topology, with the rings of its flows in memory, registered and connected.
pub struct InHand {
    /// The flows.
    pub draft: Draft,
    /// Parallel to the topology's hosts.
    pub nics: Vec<Nic>,
    /// Parallel to the draft's rings.
    pub rings: Vec<Arc<Ring>>,
    /// Addresses of the rings, parallel to them.
    pub addresses: Vec<RingAddress>,
}

impl InHand {
    /// The hosts of a topology with one switch, which runs the program of `artifacts`. All counters begin at `start`
    /// bytes, rounded down to whole items.
    ///
    /// # Errors
    /// Refusals of the controller, and rings for which there is no memory.
    pub fn new(topology: &Topology, artifacts: &Artifacts, start: u32) -> Result<InHand, RunError> {
        let mut draft = Draft::new(topology, Schema::new(&artifacts.p4info))?;
        let nic = |number| Nic::new(nic_config(topology, number));
        let mut nics: Vec<Nic> = (0..topology.hosts.len()).map(nic).collect();
        let (mut rings, mut addresses) = (Vec::new(), Vec::new());
        for drafted in draft.rings().to_vec() {
            let spec = &topology.rings[drafted.index];
            let host = &topology.hosts[spec.host];
            let refused =
                |reason: String| RunError::Agent { host: host.name.clone(), ring: spec.name.clone(), reason };
            let memory = spec.memory.unwrap_or(host.memory);
            if memory != MemoryKind::Host {
                return Err(refused(format!("memory `{memory}`: only host memory here")));
            }
            let order = match host.byte_order {
                ByteOrder::Little => zsr_ring::ByteOrder::Little,
                ByteOrder::Big => zsr_ring::ByteOrder::Big,
            };
            let shape = RingSpec::new(spec.item_size.into(), spec.size.into());
            let shape = shape.map_err(|e| refused(e.to_string()))?.with_byte_order(order);
            let role = if drafted.ids.is_producer { Role::Producer } else { Role::Consumer };
            let start = start & !(spec.item_size - 1);
            let ring = Ring::with_start(role, shape, start, 0).map_err(|e| refused(e.to_string()))?;
            let nic = &mut nics[spec.host];
            let ends = (drafted.ids.data, drafted.ids.poll);
            let address = connect(nic, &ring, topology, ends, host.mtu);
            let address = address.map_err(|e| refused(e.to_string()))?;
            draft.connect(&drafted.name, address, start);
            rings.push(ring);
            addresses.push(address);
        }
        Ok(InHand { draft, nics, rings, addresses })
    }

    /// A switch with its program, entries, groups and registers. They are written through a P4Runtime server that is
    /// gone again.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn switch(&self, artifacts: &Artifacts) -> Result<Switch, RunError> {
        let draft = &self.draft;
        let mut switch = switch_without_timers(&draft.topology().switches[0])?;
        let (handle, queue) = control_queue(|| ());
        let name = &draft.topology().switches[0].name;
        std::thread::scope(|scope| {
            let controller = scope.spawn(|| -> Result<(), RunError> {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|source| RunError::Io { what: "starting the control thread".into(), source })?;
                runtime.block_on(async {
                    let (place, listener) = local();
                    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
                    let server = P4RuntimeServer::new(handle, NonZeroU64::MIN);
                    let task = tokio::spawn(server.serve(listener, async {
                        let _ = stopped.await;
                    }));
                    let mut client = SwitchClient::connect(name, place, NonZeroU64::MIN.get(), 1).await?;
                    give_base(&mut client, artifacts, draft.schema(), draft.topology(), None).await?;
                    client.insert(draft.flows()?).await?;
                    client.insert(draft.ticks()).await?;
                    drop(client);
                    drop(stop);
                    // The switch is complete; how its server ends changes nothing.
                    let _ = task.await;
                    Ok(())
                })
            });
            while !controller.is_finished() {
                queue.drain(&mut switch, 0);
                std::thread::yield_now();
            }
            controller.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let (mut pool, mut out) = (FramePool::default(), Vec::new());
        for reset in draft.resets() {
            switch.queue_packet_out(&reset).map_err(SwitchError::from)?;
            switch.run_pending(0, 1, &mut pool, &mut out);
        }
        Ok(switch)
    }
}

/// Registers a ring with a NIC and connects its two queue pairs to the switch.
fn connect(
    nic: &mut Nic,
    ring: &Ring,
    topology: &Topology,
    (data, poll): (Qp, Qp),
    path_mtu: u32,
) -> Result<RingAddress, NicError> {
    let (switch, traffic) = (&topology.switches[0], topology.traffic);
    let rkey = soft::register(nic, ring.memory().clone())?.0;
    let mut queue_pair = |remote: Qp, is_poll| {
        let (qpn, psn) = (soft::create_qp(nic)?, Psn::new(remote.psn));
        let target = QpTarget {
            qpn: Qpn::new(remote.qpn),
            ip: switch.ip,
            mac: Mac(switch.mac.0),
            rq_psn: psn,
            sq_psn: psn,
            path_mtu,
            traffic_class: traffic.of_host(is_poll),
        };
        soft::connect_qp(nic, qpn, &target)?;
        Ok::<u32, NicError>(qpn.get())
    };
    let data_qpn = queue_pair(data, false)?;
    Ok(RingAddress { rkey, data_qpn, poll_qpn: queue_pair(poll, true)?, epoch: 0 })
}
