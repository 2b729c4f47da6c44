//! A switch with a plan's entries, and NICs with its rings.

use std::any::Any;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

use zsr_control_plane::p4::{Artifacts, Schema, SwitchClient};
use zsr_control_plane::plan::{Plan, RingAddress, RingIds};
use zsr_host_agent::ring::Ring;
use zsr_soft_nic::{Access, HostMemory, Modify, Mtu, Nic, QpCaps, RtrAttr, RtsAttr};
use zsr_soft_switch::p4runtime::P4RuntimeServer;
use zsr_soft_switch::{Program, Switch, SwitchConfig, control_queue};
use zsr_wire::{Mac, Psn, Qpn};

/// Registers a ring with a NIC and connects its two queue pairs to the switch; both count their packets from `psn`.
pub fn connect(
    nic: &mut Nic,
    ring: &Arc<Ring>,
    plan: &Plan,
    ids: RingIds,
    mtu: u32,
    psn: u32,
) -> RingAddress {
    let block = ring.memory();
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(ring.clone());
    // SAFETY: the ring, kept alive by `owner`, holds the block.
    let region = unsafe { HostMemory::from_raw(block.base().as_ptr(), block.len(), owner) };
    let access = Access::REMOTE_READ.with(Access::REMOTE_WRITE);
    let rkey = nic.register_mr(Arc::new(region), 0, access).expect("a valid region");
    let mut queue_pair = |remote: u32| {
        let qpn = nic.create_qp(QpCaps::default()).expect("a queue pair");
        let mtu = Mtu::from_bytes(mtu).expect("a path MTU");
        let mut rtr = RtrAttr::new(Qpn::new(remote), plan.switch.ip, Psn::new(psn), mtu);
        rtr.dest_mac = Some(Mac(plan.switch.mac.0));
        for step in [Modify::Init { access }, Modify::Rtr(rtr), Modify::Rts(RtsAttr::new(Psn::new(psn)))] {
            nic.modify_qp(qpn, step).expect("states in order");
        }
        qpn.get()
    };
    let data_qpn = queue_pair(ids.data.qpn);
    RingAddress { rkey: rkey.0, data_qpn, poll_qpn: queue_pair(ids.poll.qpn), epoch: 0 }
}

/// A switch that runs the built-in program with the plan's entries, put there by the controller's client through P4Runtime.
pub fn switch(plan: &Plan, addresses: &[Option<RingAddress>]) -> Switch {
    static BUILT_IN: OnceLock<(Artifacts, Program)> = OnceLock::new();
    let (artifacts, program) = BUILT_IN.get_or_init(|| {
        let artifacts = Artifacts::built_in().expect("artifacts that fit");
        let json = std::str::from_utf8(&artifacts.json).expect("JSON is text");
        let program = Program::from_json(json).expect("our own program loads");
        (artifacts, program)
    });
    let mut switch = Switch::new(program, SwitchConfig::default());
    let (handle, queue) = control_queue(|| ());
    let schema = Schema::new(&artifacts.p4info);
    std::thread::scope(|scope| {
        let controller = scope.spawn(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
                let address = listener.local_addr().expect("a bound port");
                let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
                let server = P4RuntimeServer::new(handle, NonZeroU64::MIN);
                let task = tokio::spawn(server.serve(listener, async {
                    let _ = stopped.await;
                }));
                let mut client = SwitchClient::connect("s1", address, 1, 1).await.expect("a connection");
                client.set_pipeline(&artifacts.p4info, &artifacts.json).await.expect("the program");
                client.insert(plan.base_entries(&schema).expect("names")).await.expect("entries");
                client.insert_replication(plan.port_replication()).await.expect("sessions");
                client.insert(plan.flow_entries(&schema, addresses).expect("names")).await.expect("entries");
                client.insert_replication(vec![plan.tick_group()]).await.expect("a group");
                drop(client);
                drop(stop);
                task.await.expect("the server's task").expect("the server ends well");
            });
        });
        while !controller.is_finished() {
            queue.drain(&mut switch);
            std::thread::yield_now();
        }
        controller.join().expect("the controller succeeds");
    });
    switch
}
