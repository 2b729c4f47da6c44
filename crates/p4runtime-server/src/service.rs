//! The gRPC service: hands each call to the device.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use p4runtime_proto::API_VERSION;
use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::p4_runtime_server::P4Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::device::Device;
use super::stream;

/// Shared by all connections.
#[derive(Clone)]
pub(super) struct Service {
    pub device: Arc<Device>,
    pub stop: watch::Receiver<bool>,
    /// Every task holds a clone; the receiver's end tells when all have ended.
    pub alive: mpsc::Sender<()>,
}

impl Service {
    /// Runs a call to its end even if the client goes away, so that nothing is left half done.
    async fn to_the_end<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let alive = self.alive.clone();
        let task = tokio::spawn(async move {
            let _alive = alive;
            call.await
        });
        task.await.map_err(|error| Status::internal(format!("the call failed: {error}")))?
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Responses<pb::ReadResponse>;
    type StreamChannelStream = Responses<pb::StreamMessageResponse>;

    async fn write(&self, request: Request<pb::WriteRequest>) -> Result<Response<pb::WriteResponse>, Status> {
        let (device, request) = (self.device.clone(), request.into_inner());
        self.to_the_end(async move { device.write(request).await }).await?;
        Ok(Response::new(pb::WriteResponse {}))
    }

    async fn read(&self, request: Request<pb::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let responses = self.device.read(request.into_inner()).await;
        Ok(Response::new(Box::pin(tokio_stream::iter(responses))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<pb::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<pb::SetForwardingPipelineConfigResponse>, Status> {
        let (device, request) = (self.device.clone(), request.into_inner());
        self.to_the_end(async move { Ok(device.set_pipeline(request).await?) }).await?;
        Ok(Response::new(pb::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<pb::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<pb::GetForwardingPipelineConfigResponse>, Status> {
        Ok(Response::new(self.device.get_pipeline(request.into_inner()).await?))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<pb::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (session, outgoing) = self.device.sessions.open();
        let (device, stop, alive) = (self.device.clone(), self.stop.clone(), self.alive.clone());
        tokio::spawn(async move {
            let _alive = alive;
            stream::serve(device, session, request.into_inner(), stop).await;
        });
        Ok(Response::new(Box::pin(outgoing)))
    }

    async fn capabilities(
        &self,
        request: Request<pb::CapabilitiesRequest>,
    ) -> Result<Response<pb::CapabilitiesResponse>, Status> {
        let device = request.into_inner().device_id;
        if device != 0 {
            self.device.sessions.arbiter(|arbiter| arbiter.check_device(device))?;
        }
        let p4runtime_api_version = API_VERSION.to_owned();
        Ok(Response::new(pb::CapabilitiesResponse { p4runtime_api_version, experimental: None }))
    }
}
