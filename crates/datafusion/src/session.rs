//! Sessions of DataFusion whose queries run at several hosts.

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DistributedExt, RouteTasksEvent, RouteTasksEventResponse, SessionStateBuilderExt, Worker,
    WorkerQueryContext, WorkerResolver,
};
use url::Url;

use crate::exchange::Exchange;
use crate::tpch::Codec;

struct Hosts(Vec<Url>);

impl WorkerResolver for Hosts {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

impl Exchange {
    /// A worker for [`serve`](Self::serve). One with functions or codecs of its own is made with `Worker::from_session_builder`, and takes
    /// this exchange as its channel resolver.
    pub fn worker(&self) -> Worker {
        let exchange = self.clone();
        Worker::from_session_builder(move |context: WorkerQueryContext| {
            let builder = context
                .builder
                .with_distributed_channel_resolver(exchange.clone())
                .with_distributed_user_codec(Codec);
            async move { Ok(builder.build()) }
        })
    }

    /// A session whose queries run at the workers of `hosts`, and end here. Task number n of a stage is at the n-th of them; each divides
    /// what it has into `partitions`.
    ///
    /// # Errors
    /// A host whose worker's address is not known.
    pub fn session(&self, hosts: &[impl AsRef<str>], partitions: usize) -> Result<SessionState> {
        let urls = hosts.iter().map(|host| self.url(host.as_ref())).collect::<Result<Vec<Url>, _>>();
        let urls = urls.map_err(|e| DataFusionError::External(e.into()))?;
        let route = {
            let urls = urls.clone();
            move |event: RouteTasksEvent<'_>| {
                let tasks = urls.iter().cycle().take(event.task_count);
                Some(Ok(RouteTasksEventResponse::new(tasks.cloned().collect())))
            }
        };
        // One partition would make DataFusion leave out what is divided.
        let config = SessionConfig::new().with_target_partitions(partitions.max(2));
        Ok(SessionStateBuilder::new()
            .with_default_features()
            .with_config(config)
            .with_distributed_desired_task_count_handler(urls.len())
            .with_distributed_route_tasks_handler(route)
            .with_distributed_worker_resolver(Hosts(urls))
            .with_distributed_channel_resolver(self.clone())
            .with_distributed_user_codec(Codec)
            .with_distributed_planner()
            .build())
    }
}
