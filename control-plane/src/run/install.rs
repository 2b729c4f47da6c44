//! The order in which a switch is given its program, entries and groups, and the same for a switch in the caller's hand.

use super::error::RunError;
use crate::p4::{Artifacts, Digests, Schema, SwitchClient};
use crate::plan::{Plan, RingAddress, admin};
use p4runtime_proto::Address;
use p4runtime_proto::p4::v1::TableEntry;
use std::num::NonZeroU64;
use std::os::unix::fs::PermissionsExt;
use zsr_p4runtime_server::{P4RuntimeServer, bind_unix, empty_program};
use zsr_soft_switch::{Switch, SwitchConfig, control_queue};
use zsr_wire::FramePool;

/// Name of the P4Runtime server's socket in a private folder.
pub(super) const P4RUNTIME: &str = "p4runtime";

/// A folder for sockets that nobody but this user can enter, which goes with its owner.
pub(super) fn private_folder() -> Result<tempfile::TempDir, RunError> {
    // Paths of sockets are short.
    let usual = std::env::temp_dir();
    let folder = if usual.as_os_str().len() > 80 { "/tmp".into() } else { usual };
    let alone = std::fs::Permissions::from_mode(0o700);
    let made = tempfile::Builder::new().prefix("zsr-run-").permissions(alone).tempdir_in(folder);
    made.map_err(|source| RunError::Io { what: "making a folder for sockets".into(), source })
}

/// The program, and what does not depend on rings. The switch says `cookie` when it is asked which program it has.
pub async fn base(
    client: &mut SwitchClient,
    artifacts: &Artifacts,
    schema: &Schema,
    plan: &Plan<'_>,
    cookie: Option<u64>,
) -> Result<(), RunError> {
    client.load(artifacts, cookie).await?;
    client.insert(plan.base_entries(schema)?).await?;
    Ok(client.insert_replication(plan.port_replication()).await?)
}

/// The entries of all flows, which are returned; `addresses` is parallel to the topology's rings.
pub async fn flows(
    client: &mut SwitchClient,
    schema: &Schema,
    plan: &Plan<'_>,
    addresses: &[Option<RingAddress>],
) -> Result<Vec<TableEntry>, RunError> {
    let entries = plan.flow_entries(schema, addresses)?;
    client.insert(entries.clone()).await?;
    client.insert_replication(plan.flow_groups()?).await?;
    Ok(entries)
}

/// Packets to the data plane between two answers: the switch has room for some more.
const AT_ONCE: usize = 256;

/// Sets what the switch's registers begin with, and waits until it has. No worker runs yet, so nothing else is reported.
pub async fn registers(
    client: &mut SwitchClient,
    digests: &mut Digests,
    plan: &Plan<'_>,
) -> Result<(), RunError> {
    let Some(worker) = plan.workers.first() else { return Ok(()) };
    let resets: Vec<_> = plan.resets().collect();
    for some in resets.chunks(AT_ONCE) {
        for reset in some {
            client.packet_out(reset.packet()).await?;
        }
        client.packet_out(admin::query(worker.id)).await?;
        digests.next().await?;
    }
    Ok(())
}

/// Starts the workers: to be called last, when everything that they need is in place.
pub async fn workers(client: &mut SwitchClient, plan: &Plan<'_>) -> Result<(), RunError> {
    Ok(client.insert_replication(plan.tick_groups()).await?)
}

/// A switch for the caller's own thread, with the plan's program, entries and groups, put there through a P4Runtime server
/// that is gone again. For benchmarks and simulations.
///
/// # Errors
/// What the server refuses, or the system.
pub fn switch_in_hand(
    plan: &Plan<'_>,
    addresses: &[Option<RingAddress>],
    artifacts: &Artifacts,
) -> Result<Switch, RunError> {
    let program = empty_program().map_err(|e| RunError::Program(e.to_string()))?;
    let mut switch = Switch::new(&program, SwitchConfig::default());
    let (handle, queue) = control_queue(|| ());
    let schema = Schema::new(&artifacts.p4info);
    let io = |what: &str, source| RunError::Io { what: what.into(), source };
    std::thread::scope(|scope| {
        let controller = scope.spawn(|| -> Result<(), RunError> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|e| io("starting the control thread", e))?;
            runtime.block_on(async {
                let folder = private_folder()?;
                let path = folder.path().join(P4RUNTIME);
                let listener = bind_unix(&path)
                    .map_err(|source| RunError::Listen { switch: plan.switch.name.clone(), source })?;
                let address = Address::Unix(path);
                let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
                let server = P4RuntimeServer::new(handle, NonZeroU64::MIN);
                let task = tokio::spawn(server.serve(listener, async {
                    let _ = stopped.await;
                }));
                let mut client =
                    SwitchClient::connect(&plan.switch.name, address, NonZeroU64::MIN.get(), 1).await?;
                base(&mut client, artifacts, &schema, plan, None).await?;
                flows(&mut client, &schema, plan, addresses).await?;
                workers(&mut client, plan).await?;
                drop(client);
                drop(stop);
                // The switch is complete; how its server ends changes nothing.
                let _ = task.await;
                Ok(())
            })
        });
        while !controller.is_finished() {
            queue.drain(&mut switch);
            std::thread::yield_now();
        }
        controller.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let (mut pool, mut out) = (FramePool::default(), Vec::new());
    for reset in plan.resets() {
        switch.queue_packet_out(&reset.packet()).map_err(|e| RunError::Program(e.to_string()))?;
        switch.run_pending(0, 1, &mut pool, &mut out);
    }
    Ok(switch)
}
