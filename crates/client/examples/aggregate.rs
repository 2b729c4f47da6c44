//! An operator of a query, as a worker of a DBMS runs it: it pops the flow `sales`, groups by shop, and pushes its groups into the flow
//! `totals`. The flows are made with
//!
//! ```text
//! zsr flow create sales -p h1 h2 -c h3 --schema 'shop: u16, cents: u32'
//! zsr flow create totals -p h3 -c h4 --schema 'shop: u16, count: u64, sum_cents: u64'
//! ```

use std::error::Error;

use zsr::{Combiner, FlowConsumer, FlowProducer, Options, Place};

fn main() -> Result<(), Box<dyn Error>> {
    group_by_shop(&Place::find(None)?)
}

/// The operator, from its first tuple to the end of the stream. A test runs it in a system of `zsr::testing`.
pub(crate) fn group_by_shop(system: &Place) -> Result<(), Box<dyn Error>> {
    let mut sales = FlowConsumer::attach(system, "sales", &Options::default())?;
    let schema = sales.schema().ok_or("the flow `sales` has no schema")?;
    let mut groups = Combiner::new(schema, "shop", "count, sum(cents)")?;
    let options = Options { schema: Some(groups.schema().clone()), ..Options::default() };
    let mut totals = FlowProducer::attach(system, "totals", &options)?;

    // Tuples are read where the switch has written them.
    sales.combine(&mut groups)?;
    for group in groups.results()? {
        totals.push(&group)?;
    }
    totals.close()?;
    Ok(())
}
