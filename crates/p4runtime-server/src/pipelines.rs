//! SetForwardingPipelineConfig and GetForwardingPipelineConfig.

use std::sync::Arc;

use p4runtime_proto::p4::v1 as pb;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tonic::Code;

use super::agree::agree;
use super::apply::Extras;
use super::arbitration::RoleKey;
use super::device::Device;
use super::device_config;
use super::headers;
use super::notifications::{Feed, NOTIFICATIONS};
use super::reconcile::carry_over;
use super::refusal::{Outcome, Refusal};
use super::schema::Schema;
use super::target::Pipeline;
use zsr_soft_switch::Program;
use zsr_soft_switch::{Switch, SwitchConfig};

/// A pipeline that the switch can run.
struct Built {
    schema: Schema,
    config: pb::ForwardingPipelineConfig,
    program: Program,
}

/// Verifies a pipeline; takes long, and is to be called where that harms nobody.
fn build(config: pb::ForwardingPipelineConfig, traced: bool) -> Outcome<Built> {
    let Some(info) = &config.p4info else {
        return Err(Refusal::invalid("the config has no p4info"));
    };
    if config.p4_device_config.is_empty() {
        return Err(Refusal::invalid(
            "the config has no p4_device_config; it is the JSON that p4c-bm2-ss writes",
        ));
    }
    let text = device_config::json(&config.p4_device_config)?;
    let program = if traced { Program::traced(&text) } else { Program::from_json(&text) };
    let program = program.map_err(|error| Refusal::invalid(error.to_string()).at("p4_device_config"))?;
    let mut schema = agree(info, program.info())?;
    let types = &program.info().header_types;
    (schema.packet_in, schema.packet_out) = headers::controller_headers(info, types)?;
    Ok(Built { schema, config, program })
}

/// Runs what takes long where it holds up nobody. A runtime of one thread has no such place, and a simulated one must not depend on
/// threads.
async fn apart<R: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> R + Send + 'static,
) -> Outcome<R> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(work());
    }
    let failed = |error| Refusal::new(Code::Internal, format!("{what} failed: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

impl Built {
    async fn new(config: Option<pb::ForwardingPipelineConfig>, traced: bool) -> Outcome<Self> {
        let config = config.ok_or_else(|| Refusal::invalid("the request has no config"))?;
        apart("verifying", move || build(config, traced)).await?
    }

    /// Takes as long as the program's tables and registers are big.
    async fn saved(self, config: &SwitchConfig) -> Outcome<Pipeline> {
        let config = config.clone();
        apart("starting", move || {
            let mut switch = Switch::new(&self.program, config);
            for table in self.schema.tables.values() {
                if let Some(size) = table.initial_size {
                    // The table is the program's own.
                    let _ = switch.table_unlock(table.engine, size);
                }
            }
            Pipeline::saved(self.schema, self.config, switch)
        })
        .await
    }
}

impl Device {
    /// The SetForwardingPipelineConfig call.
    pub async fn set_pipeline(&self, request: pb::SetForwardingPipelineConfigRequest) -> Outcome<()> {
        use pb::set_forwarding_pipeline_config_request::Action;
        #[allow(deprecated)]
        let role = RoleKey::new(&request.role, request.role_id);
        let election = request.election_id.as_ref();
        self.check_primary(request.device_id, &role, election)?;
        let mut saved = self.saved.write().await;
        self.check_primary(request.device_id, &role, election)?;
        match Action::try_from(request.action) {
            Ok(Action::Verify) => Built::new(request.config, self.config.trace).await.map(|_| ()),
            Ok(Action::VerifyAndSave) => {
                let built = Built::new(request.config, self.config.trace).await?;
                *saved = Some(Arc::new(built.saved(&self.config).await?));
                Ok(())
            }
            Ok(Action::VerifyAndCommit) => {
                let built = Built::new(request.config, self.config.trace).await?;
                self.commit(built.saved(&self.config).await?).await?;
                *saved = None;
                Ok(())
            }
            Ok(Action::Commit) => {
                if request.config.is_some() {
                    return Err(Refusal::invalid(
                        "COMMIT comes without a config; it commits the one that was saved",
                    ));
                }
                let pipeline = saved.take().ok_or_else(|| {
                    Refusal::not_found("no config is saved; COMMIT follows a VERIFY_AND_SAVE")
                })?;
                let pipeline = Arc::try_unwrap(pipeline)
                    .map_err(|_| Refusal::new(Code::Internal, "the saved config is in use"))?;
                self.commit(pipeline).await
            }
            Ok(Action::ReconcileAndCommit) => {
                let pipeline =
                    Built::new(request.config, self.config.trace).await?.saved(&self.config).await?;
                if let Some(running) = self.running() {
                    carry_over(&running, &pipeline, self.config.cpu_port).await?;
                }
                self.commit(pipeline).await?;
                *saved = None;
                Ok(())
            }
            Ok(Action::Unspecified) | Err(_) => {
                Err(Refusal::invalid(format!("unknown action {}", request.action)))
            }
        }
    }

    /// Makes a saved pipeline the running one.
    async fn commit(&self, pipeline: Pipeline) -> Outcome<()> {
        let (schema, config, switch, extras) = pipeline.into_parts();
        let switch = switch.ok_or_else(|| Refusal::new(Code::Internal, "the saved config is in use"))?;
        self.replace(schema, config, switch, extras).await
    }

    async fn replace(
        &self,
        schema: Schema,
        config: pb::ForwardingPipelineConfig,
        switch: Switch,
        extras: Extras,
    ) -> Outcome<()> {
        let pipeline = Arc::new(Pipeline::running(schema, config, extras, self.handle.clone()));
        let (feed, wake) = (self.feeds.clone(), Arc::new(Notify::new()));
        let waker = wake.clone();
        let swap = move |running: &mut Switch| {
            let old = running.adopt(switch);
            // A receiver of its own, so that what the old program still said is not taken for the new one's.
            let receiver = running.notifications(NOTIFICATIONS);
            running.set_notification_waker(Some(Arc::new(move || waker.notify_one())));
            (old, receiver)
        };
        let (old, notifications) = self.handle.call(swap).await?;
        // The pump ends only with the server, which then has no use for them.
        let _ = feed.send(Feed { pipeline: pipeline.clone(), notifications, wake });
        tracing::info!(tables = pipeline.schema.tables.len(), "the switch runs a new program");
        self.set_running(pipeline);
        tokio::spawn(apart("ending the old program", move || drop(old)));
        Ok(())
    }

    /// The GetForwardingPipelineConfig call.
    pub async fn get_pipeline(
        &self,
        request: pb::GetForwardingPipelineConfigRequest,
    ) -> Outcome<pb::GetForwardingPipelineConfigResponse> {
        use pb::get_forwarding_pipeline_config_request::ResponseType;
        self.sessions.arbiter(|arbiter| arbiter.check_device(request.device_id))?;
        let wanted = ResponseType::try_from(request.response_type)
            .map_err(|_| Refusal::invalid(format!("unknown response_type {}", request.response_type)))?;
        let saved = self.saved.read().await;
        let config = self.newest(&saved).map(|pipeline| {
            let config = &pipeline.config;
            let info = matches!(wanted, ResponseType::All | ResponseType::P4infoAndCookie);
            let device = matches!(wanted, ResponseType::All | ResponseType::DeviceConfigAndCookie);
            pb::ForwardingPipelineConfig {
                p4info: config.p4info.clone().filter(|_| info),
                p4_device_config: if device { config.p4_device_config.clone() } else { Vec::new() },
                cookie: config.cookie,
            }
        });
        Ok(pb::GetForwardingPipelineConfigResponse { config })
    }
}
