//! The agent's gRPC service, and serving it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{broadcast, mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::server::{Connected, TcpIncoming};
use tonic::{Request, Response, Status};

use super::{Agent, AgentError, RingInfo, convert};
use zsr_api::{
    agent::event::Event as Told,
    agent::{self as proto, agent_server},
};
use zsr_cork::{corked, corked_unix};
use zsr_tls::{Guard, Identity, Secured};

/// Serving ended by an error of the network.
#[derive(Debug, thiserror::Error)]
#[error("the agent's server failed: {0}")]
pub struct ServeError(#[from] tonic::transport::Error);

/// Items that consumers of a group lack come in messages: a transfer is at most 4 MiB, of each of their rings.
const MAX_MESSAGE: usize = 256 << 20;

/// Bytes of a pass: one that nobody can guess, and no memory that somebody fills.
const PASS: std::ops::RangeInclusive<usize> = 16..=64;

/// [`Agent`] as a tonic service.
#[derive(Debug, Clone)]
pub struct AgentService {
    agent: Agent,
    /// Turns true when event streams have to end, for a server does not end before they do.
    stop: watch::Receiver<bool>,
}

type Shutdown<'f> = Pin<Box<dyn Future<Output = ()> + Send + 'f>>;

impl Agent {
    /// Serves this agent on `listener` until `shutdown` resolves and all calls under way are answered.
    /// Rings stay as they are; [`Agent::shutdown`] takes them down.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        // Calls must not wait for each other.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        self.serve_tcp_until(incoming, Box::pin(shutdown)).await
    }

    /// As [`serve`](Self::serve), with TLS: only those with a certificate are listened to, as far as their rights go.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn serve_tls(
        &self,
        listener: TcpListener,
        identity: Identity,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        self.serve_tls_until(zsr_tls::incoming(listener, identity), Box::pin(shutdown)).await
    }

    /// As [`serve`](Self::serve), on a UNIX socket.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn serve_unix(
        &self,
        listener: UnixListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        self.serve_unix_until(UnixListenerStream::new(listener), Box::pin(shutdown)).await
    }

    // The servers, compiled once and here, whoever ends them.
    async fn serve_tcp_until(&self, incoming: TcpIncoming, shutdown: Shutdown<'_>) -> Result<(), ServeError> {
        self.serve_incoming(corked(incoming), shutdown).await
    }

    async fn serve_tls_until(
        &self,
        incoming: ReceiverStream<std::io::Result<Secured>>,
        shutdown: Shutdown<'_>,
    ) -> Result<(), ServeError> {
        self.serve_incoming(incoming, shutdown).await
    }

    async fn serve_unix_until(
        &self,
        incoming: UnixListenerStream,
        shutdown: Shutdown<'_>,
    ) -> Result<(), ServeError> {
        self.serve_incoming(corked_unix(incoming), shutdown).await
    }

    /// As [`serve`](Self::serve), on connections that come from elsewhere.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn serve_incoming<IO>(
        &self,
        incoming: impl Stream<Item = std::io::Result<IO>>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError>
    where
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        let service = AgentService { agent: self.clone(), stop: stopped };
        tonic::transport::Server::builder()
            .layer(self.0.doings.clone())
            .layer(Guard)
            .add_service(agent_server::AgentServer::new(service).max_decoding_message_size(MAX_MESSAGE))
            .serve_with_incoming_shutdown(incoming, async {
                shutdown.await;
                // Fails only when no stream listens.
                let _ = stop.send(true);
            })
            .await?;
        Ok(())
    }
}

impl AgentService {
    /// Runs a call that may block on the NIC where it holds up nobody.
    async fn run<R: Send + 'static>(
        &self,
        call: impl FnOnce(&Agent) -> Result<R, AgentError> + Send + 'static,
    ) -> Result<R, Status> {
        // A runtime of one thread has nobody else to give it to; a simulated one must not depend on threads.
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Ok(call(&self.agent)?);
        }
        let agent = self.agent.clone();
        match tokio::task::spawn_blocking(move || call(&agent)).await {
            Ok(result) => Ok(result?),
            Err(error) => Err(Status::internal(format!("the agent's call ended early: {error}"))),
        }
    }

    async fn ring(
        &self,
        call: impl FnOnce(&Agent) -> Result<RingInfo, AgentError> + Send + 'static,
    ) -> Result<Response<proto::Ring>, Status> {
        let ring = self.run(move |agent| Ok(convert::ring(&call(agent)?, &agent.nic()))).await?;
        Ok(Response::new(ring))
    }
}

#[tonic::async_trait]
impl agent_server::Agent for AgentService {
    async fn get_info(
        &self,
        _request: Request<proto::GetInfoRequest>,
    ) -> Result<Response<proto::AgentInfo>, Status> {
        let programs = self.agent.programs();
        let (socket, machine) = programs
            .map_or((String::new(), None), |(socket, machine)| (socket.display().to_string(), Some(machine)));
        Ok(Response::new(proto::AgentInfo {
            programs: socket,
            machine: machine.as_ref().map(|m| m.name.clone()).unwrap_or_default(),
            boot: machine.map(|m| m.boot).unwrap_or_default(),
            name: self.agent.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ring_abi_version: zsr_ring::ABI_VERSION,
            nics: vec![convert::nic(&self.agent.nic())],
        }))
    }

    async fn create_ring(
        &self,
        request: Request<proto::CreateRingRequest>,
    ) -> Result<Response<proto::Ring>, Status> {
        let request = convert::ring_request(request.into_inner())?;
        self.ring(move |agent| agent.create_ring(request)).await
    }

    async fn connect_ring(
        &self,
        request: Request<proto::ConnectRingRequest>,
    ) -> Result<Response<proto::Ring>, Status> {
        let request = request.into_inner();
        let data = convert::target(&request.name, "data", request.data.as_ref())?;
        let poll = convert::target(&request.name, "poll", request.poll.as_ref())?;
        self.ring(move |agent| {
            let connected = agent.connect_ring(&request.name, &data, &poll)?;
            match request.doorbell_secret {
                Some(secret) => agent.set_doorbell(&request.name, secret),
                None => Ok(connected),
            }
        })
        .await
    }

    async fn disconnect_ring(
        &self,
        request: Request<proto::DisconnectRingRequest>,
    ) -> Result<Response<proto::Ring>, Status> {
        let name = request.into_inner().name;
        self.ring(move |agent| agent.disconnect_ring(&name)).await
    }

    async fn abort_ring(
        &self,
        request: Request<proto::AbortRingRequest>,
    ) -> Result<Response<proto::Ring>, Status> {
        let request = request.into_inner();
        self.ring(move |agent| agent.abort_ring(&request.name, &request.reason)).await
    }

    async fn destroy_ring(
        &self,
        request: Request<proto::DestroyRingRequest>,
    ) -> Result<Response<proto::DestroyRingResponse>, Status> {
        let name = request.into_inner().name;
        self.run(move |agent| agent.destroy_ring(&name)).await?;
        Ok(Response::new(proto::DestroyRingResponse {}))
    }

    async fn open_rings(
        &self,
        request: Request<proto::OpenRingsRequest>,
    ) -> Result<Response<proto::OpenRingsResponse>, Status> {
        let rings = request.into_inner().rings.into_iter().map(convert::open_ring);
        let rings: Vec<_> = rings.collect::<Result<_, _>>()?;
        let rings = self
            .run(move |agent| {
                let nic = agent.nic();
                Ok(agent.open_rings(rings)?.iter().map(|info| convert::ring(info, &nic)).collect())
            })
            .await?;
        Ok(Response::new(proto::OpenRingsResponse { rings }))
    }

    async fn close_rings(
        &self,
        request: Request<proto::CloseRingsRequest>,
    ) -> Result<Response<proto::CloseRingsResponse>, Status> {
        let proto::CloseRingsRequest { names, reason, finished } = request.into_inner();
        let closed = self.run(move |agent| agent.close_rings(&names, &reason, finished)).await?;
        Ok(Response::new(proto::CloseRingsResponse { closed: closed as u32 }))
    }

    async fn end_rings(
        &self,
        request: Request<proto::EndRingsRequest>,
    ) -> Result<Response<proto::EndRingsResponse>, Status> {
        let names = request.into_inner().names;
        let ended = self.run(move |agent| agent.end_rings(&names)).await?;
        Ok(Response::new(proto::EndRingsResponse { ended: ended as u32 }))
    }

    async fn suspend_rings(
        &self,
        request: Request<proto::SuspendRingsRequest>,
    ) -> Result<Response<proto::SuspendRingsResponse>, Status> {
        let names = request.into_inner().names;
        let suspend = move |agent: &Agent| {
            let (nic, rings) = (agent.nic(), agent.suspend_rings(&names)?);
            Ok(rings.iter().map(|info| convert::ring(info, &nic)).collect())
        };
        Ok(Response::new(proto::SuspendRingsResponse { rings: self.run(suspend).await? }))
    }

    async fn resume_rings(
        &self,
        request: Request<proto::ResumeRingsRequest>,
    ) -> Result<Response<proto::ResumeRingsResponse>, Status> {
        let rings = request.into_inner().rings.into_iter().map(convert::resume_ring);
        let rings: Vec<_> = rings.collect::<Result<_, _>>()?;
        self.run(move |agent| agent.resume_rings(&rings)).await?;
        Ok(Response::new(proto::ResumeRingsResponse {}))
    }

    async fn read_items(
        &self,
        request: Request<proto::ReadItemsRequest>,
    ) -> Result<Response<proto::ReadItemsResponse>, Status> {
        let proto::ReadItemsRequest { name, from, length } = request.into_inner();
        let items = self.run(move |agent| agent.read_items(&name, from, length as usize)).await?;
        Ok(Response::new(proto::ReadItemsResponse { items }))
    }

    async fn admit_program(
        &self,
        request: Request<proto::AdmitProgramRequest>,
    ) -> Result<Response<proto::AdmitProgramResponse>, Status> {
        let proto::AdmitProgramRequest { ring, pass } = request.into_inner();
        if !PASS.contains(&pass.len()) {
            let message = format!("ring `{ring}`: a pass of {} B, expected 16 to 64", pass.len());
            return Err(Status::invalid_argument(message));
        }
        self.agent.admit_program(&ring, pass)?;
        Ok(Response::new(proto::AdmitProgramResponse {}))
    }

    async fn get_ring(
        &self,
        request: Request<proto::GetRingRequest>,
    ) -> Result<Response<proto::Ring>, Status> {
        let name = request.into_inner().name;
        self.ring(move |agent| agent.ring(&name)).await
    }

    async fn list_rings(
        &self,
        request: Request<proto::ListRingsRequest>,
    ) -> Result<Response<proto::ListRingsResponse>, Status> {
        let proto::ListRingsRequest { names, figures, hold_ms } = request.into_inner();
        let answer = self
            .run(move |agent| {
                let nic = agent.nic();
                // Before it says who has them.
                if let Some(ms) = hold_ms {
                    agent.hold_rings(&names, Duration::from_millis(ms.into()))?;
                }
                let rings = if names.is_empty() { agent.rings()? } else { agent.rings_named(&names)? };
                let rings = rings.iter().map(|info| convert::ring(info, &nic)).collect();
                Ok(proto::ListRingsResponse { rings, figures: figures.then(|| agent.figures()) })
            })
            .await?;
        Ok(Response::new(answer))
    }

    type WatchEventsStream = ReceiverStream<Result<proto::Event, Status>>;

    async fn watch_events(
        &self,
        request: Request<proto::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let (to_client, stream) = mpsc::channel(16);
        let kinds = request.into_inner().kinds;
        let (link, late) = (self.agent.link(), self.agent.0.late.subscribe());
        tokio::spawn(forward(self.agent.events(), kinds, (link, late), to_client, self.stop.clone()));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Hands events on until the server stops or the client goes; of ring events those of `kinds`, or all if that is empty.
async fn forward(
    mut events: broadcast::Receiver<super::AgentEvent>,
    kinds: Vec<i32>,
    (mut link, mut late): (watch::Receiver<super::LinkState>, broadcast::Receiver<String>),
    to_client: mpsc::Sender<Result<proto::Event, Status>>,
    mut stop: watch::Receiver<bool>,
) {
    // A watcher takes it for well until it is told.
    if link.borrow().trouble.is_some() {
        link.mark_changed();
    }
    loop {
        let event = tokio::select! {
            biased;
            // First, so that events in an endless row do not keep the server from its end.
            _ = stop.wait_for(|&stopped| stopped) => return,
            () = to_client.closed() => return,
            // Fails only when the agent has gone, and with it the events.
            Ok(()) = link.changed() => Ok(convert::link(&link.borrow_and_update())),
            // Missed messages of it are old.
            Ok(text) = late.recv() => Ok(proto::Event { event: Some(Told::Late(text)) }),
            event = events.recv() => event.map(convert::event),
        };
        let event = match event {
            Ok(event) => event,
            Err(broadcast::error::RecvError::Lagged(events)) => convert::missed(events),
            Err(broadcast::error::RecvError::Closed) => return,
        };
        if let Some(Told::Ring(ring)) = &event.event
            && !kinds.is_empty()
            && !kinds.contains(&ring.kind)
        {
            continue;
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|&stopped| stopped) => return,
            sent = to_client.send(Ok(event)) => if sent.is_err() { return },
        }
    }
}
