//! The controller of flows that are only looked at: what programs ask while they push and pop.

use std::sync::Arc;

use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status};
use zsr_api::controller::controller_server::{Controller, ControllerServer};
use zsr_api::controller::*;

use super::Shared;

type Answer<T> = Result<Response<T>, Status>;

/// Until the runtime ends.
pub(super) async fn serve(shared: Arc<Shared>, listener: UnixListener) {
    let server = tonic::transport::Server::builder().add_service(ControllerServer::new(Service(shared)));
    let _ = server.serve_with_incoming(UnixListenerStream::new(listener)).await;
}

struct Service(Arc<Shared>);

fn nothing<T>(what: &str) -> Answer<T> {
    Err(Status::unimplemented(format!("a flow of zsr::testing {what}: that takes a system (zsr up)")))
}

#[tonic::async_trait]
impl Controller for Service {
    type WatchEventsStream = ReceiverStream<Result<Event, Status>>;

    async fn get_system(&self, _: Request<GetSystemRequest>) -> Answer<System> {
        Ok(Response::new(System::default()))
    }

    async fn list_flows(&self, _: Request<ListFlowsRequest>) -> Answer<ListFlowsResponse> {
        let flows = self.0.lock().flows.values().map(|(flow, _)| flow.clone()).collect();
        Ok(Response::new(ListFlowsResponse { flows }))
    }

    async fn get_flow(&self, request: Request<GetFlowRequest>) -> Answer<Flow> {
        let name = request.into_inner().name;
        let state = self.0.lock();
        let Some((flow, _)) = state.flows.get(&name) else {
            return Err(Status::not_found(format!("there is no flow `{name}`")));
        };
        Ok(Response::new(Flow { newest_event: state.events.len() as u64, ..flow.clone() }))
    }

    async fn watch_events(&self, request: Request<WatchEventsRequest>) -> Answer<Self::WatchEventsStream> {
        let WatchEventsRequest { after, past_only, flow, kinds } = request.into_inner();
        let mut count = self.0.events.subscribe();
        let mut next = after.map_or(*count.borrow(), |after| after as usize);
        let (to, events) = mpsc::channel(16);
        let shared = self.0.clone();
        tokio::spawn(async move {
            loop {
                count.borrow_and_update();
                let news = shared.lock().events.get(next..).unwrap_or_default().to_vec();
                next += news.len();
                let asked = |e: &Event| {
                    (flow.is_empty() || flow == e.flow) && (kinds.is_empty() || kinds.contains(&e.kind))
                };
                for event in news.into_iter().filter(asked) {
                    if to.send(Ok(event)).await.is_err() {
                        return;
                    }
                }
                if past_only {
                    return;
                }
                tokio::select! {
                    changed = count.changed() => if changed.is_err() { return },
                    () = to.closed() => return,
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(events)))
    }

    async fn create_flow(&self, _: Request<CreateFlowRequest>) -> Answer<Flow> {
        nothing("makes no other flows")
    }

    async fn set_flow(&self, _: Request<SetFlowRequest>) -> Answer<Flow> {
        nothing("does not change")
    }

    async fn add_producer(&self, _: Request<AddMemberRequest>) -> Answer<Flow> {
        nothing("does not change")
    }

    async fn add_consumer(&self, _: Request<AddMemberRequest>) -> Answer<Flow> {
        nothing("does not change")
    }

    async fn remove_member(&self, _: Request<RemoveMemberRequest>) -> Answer<Flow> {
        nothing("does not change")
    }

    async fn delete_flow(&self, _: Request<DeleteFlowRequest>) -> Answer<DeleteFlowResponse> {
        nothing("ends when it is dropped")
    }

    async fn list_rings(&self, _: Request<ListRingsRequest>) -> Answer<ListRingsResponse> {
        nothing("lists no rings")
    }

    async fn get_stats(&self, _: Request<GetStatsRequest>) -> Answer<Stats> {
        nothing("counts nothing")
    }

    async fn barrier(&self, _: Request<BarrierRequest>) -> Answer<BarrierResponse> {
        nothing("has no barriers")
    }

    async fn get_pass(&self, _: Request<GetPassRequest>) -> Answer<Pass> {
        nothing("asks for no passes")
    }

    async fn shutdown(&self, _: Request<ShutdownRequest>) -> Answer<ShutdownResponse> {
        nothing("ends when it is dropped")
    }
}
