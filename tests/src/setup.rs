//! A switch with a plan's entries, and NICs with its rings.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use zsr_control_plane::p4::Artifacts;
use zsr_control_plane::plan::{Plan, Qp, RingAddress, RingIds};
use zsr_control_plane::run::install::switch_in_hand;
use zsr_control_plane::topology::Traffic;
use zsr_ring::Ring;
use zsr_soft_nic::{Access, HostMemory, Modify, Mtu, Nic, QpCaps, RtrAttr, RtsAttr};
use zsr_soft_switch::Switch;
use zsr_wire::{Mac, Psn, Qpn};

/// Registers a ring with a NIC and connects its two queue pairs to the switch.
pub fn connect(nic: &mut Nic, ring: &Arc<Ring>, plan: &Plan, ids: RingIds, mtu: u32) -> RingAddress {
    let block = ring.memory();
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(ring.clone());
    // SAFETY: the ring, kept alive by `owner`, holds the block.
    let region = unsafe { HostMemory::from_raw(block.base().as_ptr(), block.len(), owner) };
    let access = Access::REMOTE_READ.with(Access::REMOTE_WRITE);
    let rkey = nic.register_mr(Arc::new(region), 0, access).expect("a valid region");
    let mut queue_pair = |remote: Qp, is_poll| {
        let qpn = nic.create_qp(QpCaps::default()).expect("a queue pair");
        let mtu = Mtu::from_bytes(mtu).expect("a path MTU");
        let psn = Psn::new(remote.psn);
        let mut rtr = RtrAttr::new(Qpn::new(remote.qpn), plan.switch.ip, psn, mtu);
        rtr.dest_mac = Some(Mac(plan.switch.mac.0));
        rtr.tos = Traffic::default().of_host(is_poll);
        for step in [Modify::Init { access }, Modify::Rtr(rtr), Modify::Rts(RtsAttr::new(psn))] {
            nic.modify_qp(qpn, step).expect("states in order");
        }
        qpn.get()
    };
    let data_qpn = queue_pair(ids.data, false);
    RingAddress { rkey: rkey.0, data_qpn, poll_qpn: queue_pair(ids.poll, true), epoch: 0 }
}

/// A switch that runs the built-in program with the plan's entries, put there by the controller's client through P4Runtime.
pub fn switch(plan: &Plan, addresses: &[Option<RingAddress>]) -> Switch {
    static BUILT_IN: OnceLock<Artifacts> = OnceLock::new();
    let artifacts = BUILT_IN.get_or_init(|| Artifacts::built_in().expect("artifacts that fit"));
    switch_in_hand(plan, addresses, artifacts).expect("a switch with the plan's entries")
}
