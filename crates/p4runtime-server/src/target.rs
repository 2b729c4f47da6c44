//! Where requests go: to the running switch, or to a pipeline that was saved and not yet committed.

use std::sync::{Arc, Mutex};

use p4runtime_proto::p4::v1 as pb;

use super::apply::Extras;
use super::refusal::Outcome;
use super::schema::Schema;
use zsr_soft_switch::Switch;
use zsr_soft_switch::SwitchHandle;

/// A pipeline, and what it runs in.
pub(super) struct Pipeline {
    pub schema: Schema,
    /// As the controller sent it.
    pub config: pb::ForwardingPipelineConfig,
    /// Locked for one batch at a time, and never while waiting for the switch.
    pub extras: Arc<Mutex<Extras>>,
    target: Target,
}

enum Target {
    /// The switch that another thread owns.
    Running(SwitchHandle),
    /// A switch without packets. A commit makes it the running one, with all that was written to it.
    Saved(Arc<Mutex<Switch>>),
}

impl Pipeline {
    pub fn running(
        schema: Schema,
        config: pb::ForwardingPipelineConfig,
        extras: Extras,
        handle: SwitchHandle,
    ) -> Self {
        Self { schema, config, extras: Arc::new(Mutex::new(extras)), target: Target::Running(handle) }
    }

    pub fn saved(schema: Schema, config: pb::ForwardingPipelineConfig, switch: Switch) -> Self {
        let target = Target::Saved(Arc::new(Mutex::new(switch)));
        Self { schema, config, extras: Arc::new(Mutex::new(Extras::default())), target }
    }

    /// Runs `f` on the switch and what is kept beside it, as one step that no packet and no other call divides.
    pub async fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Switch, &mut Extras) -> R + Send + 'static,
    ) -> Outcome<R> {
        let extras = self.extras.clone();
        let f = move |switch: &mut Switch| {
            let mut extras = extras.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            extras.follow(switch);
            f(switch, &mut extras)
        };
        match &self.target {
            Target::Running(handle) => Ok(handle.call(f).await?),
            Target::Saved(switch) => {
                Ok(f(&mut switch.lock().unwrap_or_else(|poisoned| poisoned.into_inner())))
            }
        }
    }

    /// The parts of a pipeline that nobody else holds any more.
    pub fn into_parts(self) -> (Schema, pb::ForwardingPipelineConfig, Option<Switch>, Extras) {
        let extras = match Arc::try_unwrap(self.extras) {
            Ok(extras) => extras.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()),
            Err(_) => Extras::default(),
        };
        let switch = match self.target {
            Target::Saved(switch) => Arc::try_unwrap(switch)
                .ok()
                .map(|switch| switch.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())),
            Target::Running(_) => None,
        };
        (self.schema, self.config, switch, extras)
    }
}
