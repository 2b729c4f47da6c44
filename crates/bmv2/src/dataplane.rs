//! Packets over the gRPC data plane.

use std::time::{Duration, Instant};

use p4runtime_proto::Address;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

use crate::PortPacket;
use crate::error::Bmv2Error;
use crate::proto::PacketStreamRequest;
use crate::proto::dataplane_interface_client::DataplaneInterfaceClient;

/// Packets that wait in each direction of an open stream.
const DEPTH: usize = 1024;
/// How long a bmv2 may take from its first program until its packet threads run, and the time between two looks.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the stream of somebody who has ended may last.
const PREDECESSOR: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(5);

/// A session with bmv2's data plane. bmv2 serves one stream at a time.
#[derive(Clone, Debug)]
pub struct Dataplane {
    client: DataplaneInterfaceClient<Channel>,
    device_id: u64,
    address: Address,
}

/// The sending half of a stream.
#[derive(Clone, Debug)]
pub struct PacketSender {
    requests: mpsc::Sender<PacketStreamRequest>,
    device_id: u64,
}

/// The receiving half of a stream.
#[derive(Debug)]
pub struct PacketReceiver {
    packets: mpsc::Receiver<Result<PortPacket, tonic::Status>>,
    address: Address,
}

impl Dataplane {
    /// Connects to the data plane of device `device_id`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn connect(address: impl Into<Address>, device_id: u64) -> Result<Dataplane, Bmv2Error> {
        let address = address.into();
        let failed = |e: &dyn std::fmt::Display| Bmv2Error::Dataplane {
            address: address.clone(),
            reason: e.to_string(),
        };
        let endpoint = Endpoint::from_shared(address.uri()).map_err(|e| failed(&e))?;
        let channel = endpoint.connect().await.map_err(|e| failed(&e))?;
        Ok(Dataplane { client: DataplaneInterfaceClient::new(channel), device_id, address })
    }

    /// Waits until bmv2 takes packets, which it does from its first program on.
    ///
    /// # Errors
    /// It has gone, another stream is open, or it has no program after ten seconds.
    pub async fn ready(&mut self) -> Result<(), Bmv2Error> {
        self.exchange(&[]).await.map(drop)
    }

    /// Makes sure that nobody else exchanges packets with it; one that has just ended may still be there for a moment.
    ///
    /// # Errors
    /// [`Bmv2Error::Taken`]; or it has gone.
    pub async fn free(&mut self) -> Result<(), Bmv2Error> {
        let start = Instant::now();
        loop {
            match self.stream(&[]).await {
                Err(e) if e.code() == tonic::Code::ResourceExhausted && start.elapsed() < PREDECESSOR => {
                    tokio::time::sleep(RETRY).await;
                }
                Err(e) if !is_early(&e) => return Err(refused(&self.address, &e)),
                _ => return Ok(()),
            }
        }
    }

    /// As [`ready`](Self::ready), for as long as it takes until somebody gives bmv2 a program.
    ///
    /// # Errors
    /// It has gone, or another stream is open.
    pub async fn programmed(&mut self) -> Result<(), Bmv2Error> {
        while let Err(e) = self.stream(&[]).await {
            if !is_early(&e) {
                return Err(refused(&self.address, &e));
            }
            tokio::time::sleep(RETRY).await;
        }
        Ok(())
    }

    /// Sends `packets`, one behind another, and waits until bmv2 has done with all of them and all that came of them.
    /// Returns what left, in the order in which it did; packets to different ports may overtake one another.
    ///
    /// # Errors
    /// Another stream is open, or bmv2 has gone.
    pub async fn exchange(&mut self, packets: &[PortPacket]) -> Result<Vec<PortPacket>, Bmv2Error> {
        let start = Instant::now();
        loop {
            match self.stream(packets).await {
                Ok(out) => return Ok(out),
                Err(e) if is_early(&e) && start.elapsed() < PATIENCE => {
                    tokio::time::sleep(RETRY).await;
                }
                Err(e) => return Err(refused(&self.address, &e)),
            }
        }
    }

    async fn stream(&mut self, packets: &[PortPacket]) -> Result<Vec<PortPacket>, tonic::Status> {
        let device_id = self.device_id;
        let requests: Vec<_> = packets
            .iter()
            .map(|(port, packet)| PacketStreamRequest {
                id: 0,
                device_id,
                port: (*port).into(),
                packet: packet.clone(),
            })
            .collect();
        let mut responses = self.client.packet_stream(tokio_stream::iter(requests)).await?.into_inner();
        let mut out = Vec::new();
        while let Some(response) = responses.message().await? {
            out.push((response.port as u16, response.packet));
        }
        Ok(out)
    }

    /// Opens a stream, once bmv2 is [`ready`](Self::ready). It ends when all its senders are dropped. `wake` is called
    /// after each packet that arrives, and once at the end.
    pub fn open(&self, wake: impl Fn() + Send + Sync + 'static) -> (PacketSender, PacketReceiver) {
        let (requests, outgoing) = mpsc::channel(DEPTH);
        let (packets, incoming) = mpsc::channel(DEPTH);
        let mut client = self.client.clone();
        // bmv2 answers the call only with the first packet that leaves, so somebody else has to wait for that.
        tokio::spawn(async move {
            let run = async {
                let mut responses = client.packet_stream(ReceiverStream::new(outgoing)).await?.into_inner();
                while let Some(r) = responses.message().await? {
                    if packets.send(Ok((r.port as u16, r.packet))).await.is_err() {
                        break;
                    }
                    wake();
                }
                Ok(())
            };
            if let Err(e) = run.await {
                // Nobody wants to know any more if this fails.
                let _ = packets.send(Err(e)).await;
            }
            drop(packets);
            wake();
        });
        let device_id = self.device_id;
        (
            PacketSender { requests, device_id },
            PacketReceiver { packets: incoming, address: self.address.clone() },
        )
    }
}

/// bmv2 listens before its packet threads run, and says so.
fn is_early(status: &tonic::Status) -> bool {
    status.message() == "not ready"
}

fn refused(address: &Address, status: &tonic::Status) -> Bmv2Error {
    let address = address.clone();
    match status.code() {
        tonic::Code::ResourceExhausted => Bmv2Error::Taken { address },
        code => Bmv2Error::Dataplane { address, reason: format!("{code:?}: {}", status.message()) },
    }
}

impl PacketSender {
    /// Sends a packet in at `port`, unless too many wait already, or the stream has ended: then `false`.
    pub fn try_send(&self, port: u16, packet: Vec<u8>) -> bool {
        let device_id = self.device_id;
        self.requests.try_send(PacketStreamRequest { id: 0, device_id, port: port.into(), packet }).is_ok()
    }

    /// Whether [`try_send`](Self::try_send) would take a packet now.
    pub fn has_room(&self) -> bool {
        self.requests.capacity() > 0
    }
}

impl PacketReceiver {
    /// The next packet that has left, if there is one.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn try_recv(&mut self) -> Result<Option<PortPacket>, Bmv2Error> {
        match self.packets.try_recv() {
            Ok(packet) => packet.map(Some).map_err(|e| refused(&self.address, &e)),
            Err(mpsc::error::TryRecvError::Empty) => Ok(None),
            Err(mpsc::error::TryRecvError::Disconnected) => Err(self.over()),
        }
    }

    /// The next packet that leaves.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn recv(&mut self) -> Result<PortPacket, Bmv2Error> {
        match self.packets.recv().await {
            Some(packet) => packet.map_err(|e| refused(&self.address, &e)),
            None => Err(self.over()),
        }
    }

    fn over(&self) -> Bmv2Error {
        Bmv2Error::Dataplane { address: self.address.clone(), reason: "the packet stream has ended".into() }
    }
}
