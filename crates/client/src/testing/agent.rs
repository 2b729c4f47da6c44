//! The agent: gives rings to programs that attach, and notes how they leave.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use zsr_api::agent as proto;
use zsr_api::program::server::{greeting, hand_over};
use zsr_api::program::{BEGUN, BELL, FAREWELL, framed};
use zsr_ring::{ByteOrder, Lease, Left, Ring, Role};

use super::Shared;

/// Until the runtime ends.
pub(super) async fn serve(shared: Arc<Shared>, listener: UnixListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(program(shared.clone(), stream));
    }
}

/// One connection, from its greeting to its end.
async fn program(shared: Arc<Shared>, mut stream: UnixStream) {
    let Ok((attach, _)) = greeting(&mut stream).await else { return };
    let (ring, lease, file) = match admit(&shared, &attach) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            let reply = proto::Attached { refusal, ..Default::default() };
            let _ = stream.write_all(&framed(&reply)).await;
            return;
        }
    };
    let spec = ring.spec();
    let mut reply = proto::Attached {
        item_size: spec.item_size(),
        ring_size: spec.ring_size(),
        epoch: ring.epoch().into(),
        begun: (ring.role() == Role::Consumer).then(|| ring.begun().at(ring.snapshot().tail.counter)),
        ..Default::default()
    };
    reply.set_byte_order(match spec.byte_order() {
        ByteOrder::Little => proto::ByteOrder::Little,
        ByteOrder::Big => proto::ByteOrder::Big,
    });
    let came = hand_over(&mut stream, &framed(&reply), &file).await.is_ok();
    let left_well = came && listen(&mut stream, &ring).await.unwrap_or(false);
    let left = lease.left();
    // The program waits for the end of the connection: whoever attaches next finds the ring free.
    drop(lease);
    match (left, left_well) {
        (Left::GaveUp, _) => shared.fail(&attach.ring, "its program gave up"),
        (Left::Open, false) => shared.fail(&attach.ring, "its program died"),
        (Left::Open | Left::Finished, _) => {}
    }
}

fn admit(shared: &Shared, attach: &proto::Attach) -> Result<(Arc<Ring>, Lease, OwnedFd), String> {
    let name = &attach.ring;
    let state = shared.lock();
    let (_, ring) = state.rings.get(name).ok_or_else(|| format!("there is no ring `{name}`"))?;
    let wanted = if attach.role() == proto::Role::Consumer { Role::Consumer } else { Role::Producer };
    if ring.role() != wanted {
        return Err(format!("ring `{name}`: a {wanted} handle cannot be attached to a {} ring", ring.role()));
    }
    if !attach.registered.is_empty() {
        return Err(format!("ring `{name}` has no layouts: flows of zsr::testing move plain items only"));
    }
    let file = ring.memory().file().ok_or("it has no descriptor")?.try_clone_to_owned();
    let file = file.map_err(|e| format!("ring `{name}`: its descriptor: {e}"))?;
    let lease = ring.lease().map_err(|e| format!("ring `{name}`: {e}"))?;
    Ok((ring.clone(), lease, file))
}

/// Until the program leaves. Says whether it did so in good order.
async fn listen(stream: &mut UnixStream, ring: &Ring) -> std::io::Result<bool> {
    loop {
        match stream.read_u8().await? {
            FAREWELL => return Ok(true),
            BELL => drop(stream.read_u64_le().await?),
            BEGUN => {
                let (tail, records) = (stream.read_u32_le().await?, stream.read_u32_le().await?);
                ring.begun().set(tail, records);
            }
            _ => return Ok(false),
        }
    }
}
