//! The controller's gRPC service. A change goes on to its end in a task of its own, also when its caller goes away.

use crate::Controller;
use crate::health::stall::Motion;
use crate::link::session::Reach;
use std::future::Future;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{broadcast, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::server::{Connected, TcpIncoming};
use tonic::{Code, Extensions, Request, Response, Status};
use zsr_api::{
    controller as proto,
    controller::controller_server::{Controller as Service, ControllerServer},
};
use zsr_cork::{corked, corked_unix};
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_plan::messages;
use zsr_tls::{Caller, Guard, Identity, check_flow, confined};
use zsr_topology::RingRole;

type Answer<T> = Result<Response<T>, Status>;

/// Serves `controller` on `listener` until the controller is asked to end and all calls under way are answered. Any
/// program that can open the socket can do everything.
///
/// # Errors
/// The error of the transport.
pub async fn serve(controller: Controller, listener: UnixListener) -> Result<(), tonic::transport::Error> {
    serve_incoming(controller, corked_unix(UnixListenerStream::new(listener))).await
}

/// As [`serve`], at an address, for programs on other machines. Any program that can reach the address can do
/// everything.
///
/// # Errors
/// The error of the transport.
pub async fn serve_tcp(controller: Controller, listener: TcpListener) -> Result<(), tonic::transport::Error> {
    // Calls must not wait for each other.
    serve_incoming(controller, corked(TcpIncoming::from(listener).with_nodelay(Some(true)))).await
}

/// As [`serve_tcp`], with TLS: the rights in a client's certificate say what the client may do.
///
/// # Errors
/// The error of the transport.
pub async fn serve_tls(
    controller: Controller,
    listener: TcpListener,
    identity: Identity,
) -> Result<(), tonic::transport::Error> {
    serve_incoming(controller, zsr_tls::incoming(listener, identity)).await
}

async fn serve_incoming<IO>(
    controller: Controller,
    incoming: impl Stream<Item = std::io::Result<IO>>,
) -> Result<(), tonic::transport::Error>
where
    IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (ended, ending, doings) = (controller.clone(), controller.clone(), controller.doings().clone());
    let operations = controller.0.operations.clone();
    let served = tonic::transport::Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .layer(doings)
        .layer(operations)
        .layer(Guard)
        .add_service(ControllerServer::new(controller))
        .serve_with_incoming_shutdown(incoming, async move { ended.stopped().await });
    tokio::select! {
        biased;
        served = served => served,
        // A client that holds its connection and does not listen is not waited for.
        () = async { ending.stopped().await; tokio::time::sleep(FAREWELL).await } => Ok(()),
    }
}

/// Calls under way on one connection. All flows of a program share one, and each producer follows its flow by a call
/// that does not end.
const MAX_STREAMS: u32 = 1 << 16;
/// How long calls may take that are under way when the controller ends.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(1);

impl Controller {
    /// Carries out `change`, also when its caller no longer waits.
    async fn to_its_end<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, ControllerError>> + Send + 'static,
    ) -> Result<T, Status> {
        match tokio::spawn(change).await {
            Ok(done) => done.map_err(status),
            Err(e) => Err(Status::internal(format!("the controller's operation ended early: {e}"))),
        }
    }

    fn flow_message(&self, flow: &zsr_plan::dataplane::model::Flow) -> proto::Flow {
        let mut message = messages::flow(flow, self.waits_for(flow), &|host| self.of_ring(host));
        message.producers.iter_mut().chain(&mut message.consumers).for_each(|member| self.place(member));
        let state = self.state();
        if !state.leaving.is_empty() {
            for member in &mut message.consumers {
                member.leaving = state.leaving.contains(&(flow.name.clone(), member.name.clone()));
            }
        }
        drop(state);
        self.say_what_it_does(flow, &mut message);
        message
    }

    /// Changes that are under way, in words for people.
    fn pending(&self) -> Vec<proto::Pending> {
        self.0.pending.list(&self.0.agents.unanswered())
    }

    /// Whether a flow moves, and what is being done to it.
    fn say_what_it_does(&self, flow: &zsr_plan::dataplane::model::Flow, message: &mut proto::Flow) {
        if message.state() == proto::FlowState::Running {
            let (state, reason) = match self.0.stalls.of(flow) {
                Some(Motion::Stalled(why)) => (proto::FlowState::Stalled, format!("waits for {why}")),
                Some(Motion::Ended(left)) if left.is_empty() => (proto::FlowState::Ended, left),
                Some(Motion::Ended(left)) => (proto::FlowState::Ended, format!("waits for {left}")),
                Some(Motion::Moves) | None => return self.say_what_changes(message),
            };
            (message.state, message.reason) = (state.into(), reason);
        }
        self.say_what_changes(message);
    }

    fn say_what_changes(&self, message: &mut proto::Flow) {
        let changes: Vec<String> = self
            .pending()
            .into_iter()
            .filter(|change| change.flow == message.name)
            .map(|c| {
                if c.waits_for.is_empty() { c.what } else { format!("{}: waits for {}", c.what, c.waits_for) }
            })
            .collect();
        message.pending = changes.join("; ");
        if self.0.pending.is_deleting(&message.name) {
            message.state = proto::FlowState::Deleting.into();
        }
    }

    async fn add(&self, request: proto::AddMemberRequest, role: RingRole) -> Answer<proto::Flow> {
        let member = messages::new_member(request.member.unwrap_or_default());
        let own = self.clone();
        let flow = self.to_its_end(async move { own.add_member(&request.flow, role, &member).await }).await?;
        Ok(Response::new(self.flow_message(&flow)))
    }
}

#[tonic::async_trait]
impl Service for Controller {
    async fn get_system(&self, request: Request<proto::GetSystemRequest>) -> Answer<proto::System> {
        let confined = confined(request.extensions());
        let pending = self.pending().into_iter().filter(|change| knows(&confined, &change.flow)).collect();
        let inner = &self.0;
        let state = self.state();
        let (used, most) = (state.numbers.in_use(), state.numbers.most());
        let mut rings = std::collections::HashMap::new();
        for ring in state.flows.values().flat_map(|f| f.rings()) {
            *rings.entry(ring.host.as_str()).or_insert(0) += 1;
        }
        let host = |h: &zsr_plan::dataplane::model::Host| {
            let rings = rings.get(h.name.as_str()).copied().unwrap_or(0);
            messages::host(h, self.is_connected(&h.name), rings, inner.link_faults.at_host(&h.name))
        };
        let mut hosts: Vec<proto::Host> = state.hosts.values().map(host).collect();
        drop(state);
        hosts = hosts.into_iter().map(|host| self.with_place(host)).collect();
        hosts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Response::new(proto::System {
            name: inner.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            switch: Some(proto::Switch {
                name: self.switch_name().to_owned(),
                p4runtime: self.session().address.to_string(),
                connected: self.is_open(),
                trouble: match self.reach() {
                    Reach::Open => String::new(),
                    Reach::Lost(why) | Reach::Gone(why) => why,
                },
                workers: used.workers,
                producer_rings: used.producers,
                queue_pairs: used.qps,
                workers_max: most.workers,
                producer_rings_max: most.producers,
                queue_pairs_max: most.qps,
                ports: inner.link_faults.ports(&inner.base.choice().topology),
            }),
            standby: self.standby(),
            hosts,
            pid: std::process::id(),
            newest_event: inner.events.newest(),
            pending,
            // The questions name rings of all flows.
            unanswered: if confined.is_none() { inner.agents.unanswered() } else { Vec::new() },
            journal_trouble: inner.unwritten.borrow().clone().unwrap_or_default(),
        }))
    }

    async fn create_flow(&self, request: Request<proto::CreateFlowRequest>) -> Answer<proto::Flow> {
        check_flow(request.extensions(), &request.get_ref().name)?;
        let new = messages::new_flow(request.into_inner()).map_err(status)?;
        let own = self.clone();
        let flow = self.to_its_end(async move { own.create_flow(&new).await }).await?;
        Ok(Response::new(self.flow_message(&flow)))
    }

    async fn list_flows(
        &self,
        request: Request<proto::ListFlowsRequest>,
    ) -> Answer<proto::ListFlowsResponse> {
        let confined = confined(request.extensions());
        let flows = Controller::list_flows(self);
        let mut flows: Vec<proto::Flow> = flows.iter().map(|f| self.flow_message(f)).collect();
        for mut made in self.0.pending.creating() {
            // A name that is taken is refused in a moment; one that was made is there.
            if flows.iter().all(|f| f.name != made.name) {
                self.say_what_changes(&mut made);
                flows.push(made);
            }
        }
        flows.retain(|flow| knows(&confined, &flow.name));
        flows.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Response::new(proto::ListFlowsResponse { flows }))
    }

    async fn get_flow(&self, request: Request<proto::GetFlowRequest>) -> Answer<proto::Flow> {
        check_flow(request.extensions(), &request.get_ref().name)?;
        let newest_event = self.0.events.newest();
        let flow = Controller::get_flow(self, &request.into_inner().name).map_err(status)?;
        Ok(Response::new(proto::Flow { newest_event, ..self.flow_message(&flow) }))
    }

    async fn set_flow(&self, request: Request<proto::SetFlowRequest>) -> Answer<proto::Flow> {
        check_flow(request.extensions(), &request.get_ref().name)?;
        let request = request.into_inner();
        let changes = request.settings.unwrap_or_default();
        let own = self.clone();
        let flow = self.to_its_end(async move { own.set_flow(&request.name, &changes).await }).await?;
        Ok(Response::new(self.flow_message(&flow)))
    }

    async fn add_producer(&self, request: Request<proto::AddMemberRequest>) -> Answer<proto::Flow> {
        check_flow(request.extensions(), &request.get_ref().flow)?;
        self.add(request.into_inner(), RingRole::Producer).await
    }

    async fn add_consumer(&self, request: Request<proto::AddMemberRequest>) -> Answer<proto::Flow> {
        check_flow(request.extensions(), &request.get_ref().flow)?;
        self.add(request.into_inner(), RingRole::Consumer).await
    }

    async fn remove_member(&self, request: Request<proto::RemoveMemberRequest>) -> Answer<proto::Flow> {
        check_flow(request.extensions(), &request.get_ref().flow)?;
        let proto::RemoveMemberRequest { flow, member, force, others } = request.into_inner();
        let members: Vec<String> = std::iter::once(member).chain(others).collect();
        let own = self.clone();
        let flow = self.to_its_end(async move { own.remove_members(&flow, &members, force).await }).await?;
        Ok(Response::new(self.flow_message(&flow)))
    }

    async fn delete_flow(
        &self,
        request: Request<proto::DeleteFlowRequest>,
    ) -> Answer<proto::DeleteFlowResponse> {
        check_flow(request.extensions(), &request.get_ref().name)?;
        let proto::DeleteFlowRequest { name, force } = request.into_inner();
        let own = self.clone();
        self.to_its_end(async move { own.delete_flow(&name, force).await }).await?;
        Ok(Response::new(proto::DeleteFlowResponse {}))
    }

    async fn list_rings(
        &self,
        request: Request<proto::ListRingsRequest>,
    ) -> Answer<proto::ListRingsResponse> {
        let confined = confined(request.extensions());
        check_flow_if_named(request.extensions(), &request.get_ref().flow)?;
        let flow = request.into_inner().flow;
        let of_host = |host: &str| self.of_ring(host);
        let mut rings = Vec::new();
        if flow.is_empty() {
            let (flows, declared) = {
                let state = self.state();
                let free =
                    |r: &&zsr_plan::dataplane::model::DeclaredRing| state.user_of_ring(&r.name).is_none();
                let declared: Vec<_> = state.declared.values().filter(free).cloned().collect();
                (state.flows.values().cloned().collect::<Vec<_>>(), declared)
            };
            rings.extend(flows.iter().flat_map(|f| messages::rings(f, &of_host)));
            rings.extend(declared.iter().map(|r| messages::free_ring(r, &of_host)));
        } else {
            rings = messages::rings(&Controller::get_flow(self, &flow).map_err(status)?, &of_host);
        }
        rings.retain(|ring| knows(&confined, &ring.flow));
        rings.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Response::new(proto::ListRingsResponse { rings }))
    }

    type WatchEventsStream = ReceiverStream<Result<proto::Event, Status>>;

    async fn watch_events(
        &self,
        request: Request<proto::WatchEventsRequest>,
    ) -> Answer<Self::WatchEventsStream> {
        let confined = confined(request.extensions());
        check_flow_if_named(request.extensions(), &request.get_ref().flow)?;
        let request = request.into_inner();
        let (past, news) = self.0.events.watch(request.after);
        let (to_client, stream) = mpsc::channel(16);
        let news = (!request.past_only).then_some(news);
        let wanted = Wanted { confined, flow: request.flow, kinds: request.kinds };
        tokio::spawn(forward(self.clone(), past, news, wanted, to_client));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn get_stats(&self, request: Request<proto::GetStatsRequest>) -> Answer<proto::Stats> {
        let confined = confined(request.extensions());
        check_flow_if_named(request.extensions(), &request.get_ref().flow)?;
        let flow = request.into_inner().flow;
        let mut stats = self.stats(&flow).await.map_err(status)?;
        stats.flows.retain(|flow| knows(&confined, &flow.name));
        if confined.is_some() {
            stats.hosts.clear();
        } else if flow.is_empty() {
            stats.drops = self.drops().await;
            stats.operations = self.0.operations.list();
        }
        Ok(Response::new(stats))
    }

    async fn barrier(&self, request: Request<proto::BarrierRequest>) -> Answer<proto::BarrierResponse> {
        let proto::BarrierRequest { name, participants } = request.into_inner();
        tokio::select! {
            biased;
            met = self.0.barriers.meet(&name, participants) => met.map_err(status)?,
            () = self.stopped() => {
                let message = format!("barrier `{name}`: the controller ends; ask again when there is another");
                return Err(Status::unavailable(message));
            }
        }
        Ok(Response::new(proto::BarrierResponse {}))
    }

    async fn get_pass(&self, request: Request<proto::GetPassRequest>) -> Answer<proto::Pass> {
        let name = &request.get_ref().ring;
        let (host, pass) = {
            let mut state = self.state();
            let flow = state.user_of_ring(name).map(|user| state.flows.get(&user.flow));
            let of_flow =
                flow.flatten().and_then(|flow| Some((flow, flow.rings().find(|r| r.name == *name)?)));
            let host = match (of_flow, state.declared.get(name)) {
                (Some((flow, ring)), _) => {
                    check_flow(request.extensions(), &flow.name)?;
                    ring.host.clone()
                }
                (None, Some(free)) if confined(request.extensions()).is_none() => free.host.clone(),
                _ => return Err(Status::not_found(format!("no ring of a flow is called `{name}`"))),
            };
            (host, [(); 4].map(|()| state.chance.secret().to_le_bytes()).concat())
        };
        self.0.agents.admit(&host, name, &pass).await.map_err(status)?;
        Ok(Response::new(proto::Pass { pass }))
    }

    async fn shutdown(&self, request: Request<proto::ShutdownRequest>) -> Answer<proto::ShutdownResponse> {
        // The call ends all flows.
        if let Some(caller) = confined(request.extensions()) {
            let message = format!("{caller} lacks the right `end`: its certificate is for some flows only");
            return Err(Status::permission_denied(message));
        }
        let own = self.clone();
        self.to_its_end(async move { Controller::shutdown(&own).await }).await?;
        Ok(Response::new(proto::ShutdownResponse {}))
    }
}

/// As [`check_flow`]; a caller that names no flow asks for all, and gets the flows that it may [know](knows).
fn check_flow_if_named(extensions: &Extensions, flow: &str) -> Result<(), Status> {
    if flow.is_empty() { Ok(()) } else { check_flow(extensions, flow) }
}

/// Whether a caller may hear of a flow. A caller that is confined to some flows hears no events without a flow.
fn knows(confined: &Option<Arc<Caller>>, flow: &str) -> bool {
    confined.as_ref().is_none_or(|caller| !flow.is_empty() && caller.knows(flow))
}

/// The events that a caller may and wants to hear.
struct Wanted {
    confined: Option<Arc<Caller>>,
    /// Name of the flow; empty: all flows.
    flow: String,
    /// Kinds of events; none: all kinds.
    kinds: Vec<i32>,
}

impl Wanted {
    fn is(&self, event: &proto::Event) -> bool {
        knows(&self.confined, &event.flow)
            && (self.flow.is_empty() || self.flow == event.flow)
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
    }
}

/// Hands events on until the controller ends or the client goes.
async fn forward(
    controller: Controller,
    past: Vec<proto::Event>,
    news: Option<broadcast::Receiver<proto::Event>>,
    wanted: Wanted,
    to_client: mpsc::Sender<Result<proto::Event, Status>>,
) {
    for event in past.into_iter().filter(|event| wanted.is(event)) {
        if to_client.send(Ok(event)).await.is_err() {
            return;
        }
    }
    let Some(mut news) = news else { return };
    let stopped = controller.stopped();
    tokio::pin!(stopped);
    loop {
        let event = tokio::select! {
            biased;
            event = news.recv() => event,
            () = &mut stopped => return,
            () = to_client.closed() => return,
        };
        let event = match event {
            Ok(event) => event,
            Err(broadcast::error::RecvError::Lagged(n)) => proto::Event {
                kind: proto::EventKind::Missed.into(),
                text: format!("{n} events were missed"),
                ..Default::default()
            },
            Err(broadcast::error::RecvError::Closed) => return,
        };
        if !wanted.is(&event) && event.kind() != proto::EventKind::Missed {
            continue;
        }
        tokio::select! {
            biased;
            sent = to_client.send(Ok(event)) => if sent.is_err() { return },
            () = controller.stopped() => return,
        }
    }
}

/// A refusal as gRPC says it.
pub(crate) fn status(refusal: ControllerError) -> Status {
    let code = match refusal.kind {
        ErrorKind::Exists => Code::AlreadyExists,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::NotNow | ErrorKind::Stuck => Code::FailedPrecondition,
        ErrorKind::Full => Code::ResourceExhausted,
        ErrorKind::Unavailable | ErrorKind::Unwritten => Code::Unavailable,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::Internal => Code::Internal,
    };
    Status::new(code, refusal.message)
}
