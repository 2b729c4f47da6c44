//! One device: its sessions, its pipelines, and what Write, Read and the pipeline calls do to them.

use std::sync::{Arc, Mutex};

use p4runtime_proto::p4::v1 as pb;
use tokio::sync::{RwLock, mpsc};
use tonic::{Code, Status};

use super::apply::apply_batch;
use super::arbitration::RoleKey;
use super::notifications::Feed;
use super::reads;
use super::refusal::{Outcome, Refusal, batch_status};
use super::sessions::Sessions;
use super::target::Pipeline;
use super::updates::Reader;
use zsr_soft_switch::SwitchConfig;
use zsr_soft_switch::SwitchHandle;

/// Largest ReadResponse, in bytes; clients refuse more than 4 MiB by default.
const RESPONSE_BYTES: usize = 1 << 20;

/// Everything that the calls of all controllers share.
pub(super) struct Device {
    pub sessions: Sessions,
    pub handle: SwitchHandle,
    pub config: SwitchConfig,
    /// The pipeline that packets run through; none before the first commit.
    running: Mutex<Option<Arc<Pipeline>>>,
    /// Locked by Read for reading, and by whatever changes state for writing. Holds the pipeline that was saved and
    /// not yet committed.
    pub(super) saved: RwLock<Option<Arc<Pipeline>>>,
    /// Notifications of each pipeline that comes to run.
    pub(super) feeds: mpsc::UnboundedSender<Feed>,
}

impl Device {
    /// The device, and the notifications of its pipelines.
    pub fn new(id: u64, handle: SwitchHandle, config: SwitchConfig) -> (Self, mpsc::UnboundedReceiver<Feed>) {
        let (running, saved) = (Mutex::new(None), RwLock::new(None));
        let (feeds, receiver) = mpsc::unbounded_channel();
        (Self { sessions: Sessions::new(id), handle, config, running, saved, feeds }, receiver)
    }

    /// The pipeline that packets run through.
    pub fn running(&self) -> Option<Arc<Pipeline>> {
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(super) fn set_running(&self, pipeline: Arc<Pipeline>) {
        *self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(pipeline);
    }

    /// The pipeline that Write and Read refer to: the saved one, if there is one.
    pub(super) fn newest(&self, saved: &Option<Arc<Pipeline>>) -> Option<Arc<Pipeline>> {
        saved.clone().or_else(|| self.running())
    }

    /// Whether a call may change the device.
    pub(super) fn check_primary(
        &self,
        device: u64,
        role: &RoleKey,
        election: Option<&pb::Uint128>,
    ) -> Outcome<()> {
        self.sessions.arbiter(|arbiter| arbiter.check(device, role, election))
    }

    /// The Write call.
    pub async fn write(&self, request: pb::WriteRequest) -> Result<(), Status> {
        #[allow(deprecated)]
        let role = RoleKey::new(&request.role, request.role_id);
        let election = request.election_id.as_ref();
        self.check_primary(request.device_id, &role, election)?;
        let saved = self.saved.write().await;
        // Another controller may have become primary while this call waited.
        self.check_primary(request.device_id, &role, election)?;
        let pipeline = self.newest(&saved).ok_or_else(no_pipeline)?;
        let all_or_nothing = match request.atomicity() {
            _ if pb::write_request::Atomicity::try_from(request.atomicity).is_err() => {
                return Err(Status::invalid_argument(format!("unknown atomicity {}", request.atomicity)));
            }
            pb::write_request::Atomicity::ContinueOnError => false,
            pb::write_request::Atomicity::RollbackOnError | pb::write_request::Atomicity::DataplaneAtomic => {
                true
            }
        };
        let reader = Reader { schema: &pipeline.schema, cpu_port: self.config.cpu_port };
        let batch: Vec<_> = request.updates.iter().map(|update| reader.read(update)).collect();
        let mut outcomes =
            pipeline.call(move |switch, extras| apply_batch(switch, extras, batch, all_or_nothing)).await?;
        reader.name(&request.updates, &mut outcomes);
        batch_status("write", &outcomes)
    }

    /// The Read call: the responses, and the status behind them.
    pub async fn read(&self, request: pb::ReadRequest) -> Vec<Result<pb::ReadResponse, Status>> {
        match self.try_read(request).await {
            Ok(responses) => responses,
            Err(refusal) => vec![Err(refusal.into())],
        }
    }

    async fn try_read(&self, request: pb::ReadRequest) -> Outcome<Vec<Result<pb::ReadResponse, Status>>> {
        self.sessions.arbiter(|arbiter| arbiter.check_device(request.device_id))?;
        let saved = self.saved.read().await;
        let pipeline = self.newest(&saved).ok_or_else(no_pipeline)?;
        let mut outcomes = Vec::with_capacity(request.entities.len());
        let (mut responses, mut response, mut bytes) = (Vec::new(), pb::ReadResponse::default(), 0);
        let cells = reads::counter_cells(&pipeline, &request.entities).await;
        for (one, cell) in request.entities.iter().zip(cells) {
            let entities = match cell {
                Some(cell) => Ok(vec![cell]),
                None => reads::read(&pipeline, one).await,
            };
            let entities = entities.map_err(|refusal| refusal.at_some(pipeline.schema.place(Some(one))));
            outcomes.push(entities.as_ref().map(|_| ()).map_err(Refusal::clone));
            for entity in entities.unwrap_or_default() {
                bytes += prost::Message::encoded_len(&entity);
                response.entities.push(entity);
                if bytes >= RESPONSE_BYTES {
                    responses.push(Ok(std::mem::take(&mut response)));
                    bytes = 0;
                }
            }
        }
        if !response.entities.is_empty() {
            responses.push(Ok(response));
        }
        if let Err(status) = batch_status("read", &outcomes) {
            responses.push(Err(status));
        }
        Ok(responses)
    }
}

/// Write and Read need a pipeline to refer to.
pub(super) fn no_pipeline() -> Refusal {
    Refusal::new(Code::FailedPrecondition, "no pipeline is set; call SetForwardingPipelineConfig first")
}
