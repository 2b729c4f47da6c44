//! The client's side against a data plane of our own.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_stream::{Stream, StreamExt, wrappers::TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use zsr_link::{AnyPort, Port, memory_link};
use zsr_wire::{Frame, FramePool};

use crate::proto::dataplane_interface_server::{DataplaneInterface, DataplaneInterfaceServer};
use crate::proto::{PacketStreamRequest, PacketStreamResponse};
use crate::{Bridge, Dataplane, Ticks};

/// Sends each packet back one port higher; is not ready at first.
#[derive(Clone)]
struct Echo {
    not_ready: Arc<AtomicUsize>,
}

type Responses = Pin<Box<dyn Stream<Item = Result<PacketStreamResponse, Status>> + Send>>;

#[tonic::async_trait]
impl DataplaneInterface for Echo {
    type PacketStreamStream = Responses;

    async fn packet_stream(
        &self,
        request: Request<Streaming<PacketStreamRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let left = |n: usize| n.checked_sub(1);
        if self.not_ready.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok() {
            return Err(Status::unavailable("not ready"));
        }
        let back = |r: Result<PacketStreamRequest, Status>| {
            r.map(|r| PacketStreamResponse {
                id: r.id,
                device_id: r.device_id,
                port: r.port + 1,
                packet: r.packet,
            })
        };
        Ok(Response::new(Box::pin(request.into_inner().map(back))))
    }
}

async fn serve(not_ready: usize) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let echo = Echo { not_ready: Arc::new(AtomicUsize::new(not_ready)) };
    let server = tonic::transport::Server::builder().add_service(DataplaneInterfaceServer::new(echo));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

#[tokio::test]
async fn an_exchange_waits_for_a_switch_that_is_not_ready_and_ends_with_the_last_packet() {
    let mut dataplane = Dataplane::connect(serve(3).await, 1).await.unwrap();
    dataplane.ready().await.unwrap();
    let out = dataplane.exchange(&[(1, vec![7]), (500, vec![8, 9])]).await.unwrap();
    assert_eq!(out, [(2, vec![7]), (501, vec![8, 9])]);
    assert_eq!(dataplane.exchange(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn nobody_there_is_said_with_the_address() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let error = Dataplane::connect(address, 1).await.unwrap_err().to_string();
    assert!(error.contains(&address.to_string()) && error.contains("--dp-grpc-server-addr"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_moves_frames_and_numbers_its_ticks() {
    let dataplane = Dataplane::connect(serve(1).await, 1).await.unwrap();
    let (mut a, switch_a) = memory_link(64);
    let (mut b, switch_b) = memory_link(64);
    let links: Vec<(u16, AnyPort)> = vec![(1, Box::new(switch_a)), (2, Box::new(switch_b))];
    // Frames that come in at port 1 leave at port 2, and so do the ticks at port 1.
    let ticks =
        Ticks { port: 1, interval: Duration::from_micros(100), packet: vec![0xee, 0, 0], number_at: Some(1) };
    let bridge = Bridge::start(dataplane, links, Some(ticks), |_, _| ()).unwrap();
    let received = tokio::task::spawn_blocking(move || {
        let mut pool = FramePool::default();
        let (mut frames, mut ticks) = (Vec::new(), Vec::new());
        while frames.is_empty() || ticks.len() < 3 {
            // Frames that come before bmv2 is ready are lost, and there are no ticks before.
            if ticks.len() == 1 && frames.is_empty() {
                a.send(0, Frame::copy_from(b"hello").unwrap(), &mut pool).unwrap();
                ticks.push(u8::MAX);
            }
            match b.recv(0, &mut pool) {
                Some(frame) if frame.bytes()[0] == 0xee => ticks.push(frame.bytes()[2]),
                Some(frame) => frames.push(frame.bytes().to_vec()),
                None => std::thread::yield_now(),
            }
        }
        // The ends live until the bridge has stopped.
        (frames, ticks, a, b)
    });
    let (frames, ticks, _a, _b) = received.await.unwrap();
    assert_eq!(frames, [b"hello"]);
    assert_eq!(ticks[..3], [0, u8::MAX, 1]);
    assert!(bridge.error().is_none());
    let stats = tokio::task::spawn_blocking(|| bridge.stop()).await.unwrap();
    assert_eq!(stats.to_switch, 1);
    assert!(stats.ticks >= 2 && stats.to_links >= 3, "{stats:?}");
}
