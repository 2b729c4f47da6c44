//! A query over two workers, all in this program. The system is brought up with `zsr up topologies/tpch.yaml`.

use std::error::Error;

use datafusion::prelude::SessionContext;
use zsr::Place;
use zsr_datafusion::{Exchange, tpch};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The only system that is up. Workers meet at sockets in a folder.
    let system = Place::find(None)?;
    let sockets = std::env::temp_dir();

    let mut exchanges = Vec::new();
    for host in ["h1", "h2"] {
        let exchange = Exchange::new(&system, host, "example", &sockets);
        exchanges.push(exchange.clone());
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            exchange.serve(exchange.worker(), || ready.send(()).expect("waited for")).await
        });
        is_ready.await?;
    }

    // Rows of a join go from worker to worker through flows, and those of the result to the host `head`.
    let head = Exchange::new(&system, "head", "example", &sockets);
    let context = SessionContext::new_with_state(head.session(&["h1", "h2"], 2)?);
    tpch::register(&context, 0.01, 2)?;
    let query =
        "select n_name, count(*) from customer join nation on c_nationkey = n_nationkey group by n_name";
    context.sql(query).await?.show().await?;

    // Flows are kept for the next query, and there is none.
    exchanges.push(head);
    for exchange in exchanges {
        exchange.clear().await;
    }
    Ok(())
}
