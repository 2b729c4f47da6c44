//! One StreamChannel: what a controller sends on it.

use std::sync::Arc;

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::stream_error::Details;
use p4runtime_proto::p4::v1::stream_message_request::Update as Request;
use p4runtime_proto::p4::v1::stream_message_response::Update as Response;
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Status};

use super::device::{Device, no_pipeline};
use super::refusal::{Outcome, Refusal};
use super::sessions::Session;
use super::target::Pipeline;
use super::updates::no_object;

/// Reads a stream until its controller or the server ends it.
pub(super) async fn serve(
    device: Arc<Device>,
    session: Session,
    mut requests: impl Stream<Item = Result<pb::StreamMessageRequest, Status>> + Unpin,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let request = tokio::select! {
            biased;
            () = session.overrun.notified() => {
                session.fail(Status::resource_exhausted("too many unread messages"));
                break;
            }
            _ = stop.wait_for(|stop| *stop) => {
                session.fail(Status::unavailable("the server is shutting down"));
                break;
            }
            // Last, so that requests in an endless row do not keep a client from its end.
            request = requests.next() => request,
        };
        // The end, or a connection that broke.
        let Some(Ok(request)) = request else { break };
        if let Err(refusal) = handle(&device, &session, request).await {
            session.fail(refusal.into());
            break;
        }
    }
    device.sessions.close(session.id);
}

/// One message. Only arbitration errors end the stream; others are reported on it.
async fn handle(device: &Device, session: &Session, request: pb::StreamMessageRequest) -> Outcome<()> {
    let (outcome, details) = match request.update {
        Some(Request::Arbitration(bid)) => {
            if device.sessions.bid(session.id, &bid)? {
                // Writes under way belong to the one before; they are through when this lock is free.
                drop(device.saved.write().await);
                device.sessions.confirm(session.id);
            }
            return Ok(());
        }
        Some(Request::Packet(packet)) => {
            let outcome = packet_out(device, session, &packet).await;
            (outcome, Details::PacketOut(pb::PacketOutError { packet_out: Some(packet) }))
        }
        Some(Request::DigestAck(ack)) => {
            let outcome = digest_ack(device, session, ack).await;
            (outcome, Details::DigestListAck(pb::DigestListAckError { digest_list_ack: Some(ack) }))
        }
        Some(Request::Other(other)) => {
            let refusal =
                Refusal::unimplemented(format!("this switch has no messages such as {}", other.type_url));
            (Err(refusal), Details::Other(pb::StreamOtherError { other: Some(other) }))
        }
        None => {
            let refusal = Refusal::invalid("the message is empty");
            (Err(refusal), Details::Other(pb::StreamOtherError { other: None }))
        }
    };
    if let Err(refusal) = outcome {
        session.send(Response::Error(pb::StreamError {
            canonical_code: refusal.code as i32,
            message: refusal.message,
            details: Some(details),
            ..pb::StreamError::default()
        }));
    }
    Ok(())
}

fn check_primary(device: &Device, session: &Session, what: &str) -> Outcome<Arc<Pipeline>> {
    if !device.sessions.arbiter(|arbiter| arbiter.is_primary(session.id)) {
        return Err(Refusal::new(
            Code::PermissionDenied,
            format!("only a primary controller may send {what}"),
        ));
    }
    device.running().ok_or_else(no_pipeline)
}

async fn packet_out(device: &Device, session: &Session, packet: &pb::PacketOut) -> Outcome<()> {
    let pipeline = check_primary(device, session, "packets")?;
    let mut bytes = match &pipeline.schema.packet_out {
        Some(header) => header.pack(&packet.metadata)?,
        None if packet.metadata.is_empty() => Vec::new(),
        None => {
            return Err(Refusal::invalid(
                "the program has no packet_out header, so packets have no metadata",
            ));
        }
    };
    bytes.extend_from_slice(&packet.payload);
    device.handle.call(move |switch| switch.queue_packet_out(&bytes)).await??;
    Ok(())
}

async fn digest_ack(device: &Device, session: &Session, ack: pb::DigestListAck) -> Outcome<()> {
    let pipeline = check_primary(device, session, "digest acknowledgements")?;
    let of = pipeline.schema.digests.get(&ack.digest_id);
    let digest = of.ok_or_else(|| no_object("digest", ack.digest_id))?.engine;
    // A list that is not known any more needs no acknowledgement.
    let _ = device.handle.call(move |switch| switch.ack_digest(digest, ack.list_id)).await?;
    Ok(())
}
