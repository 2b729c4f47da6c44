//! `zsr-entries P4RUNTIME`: how many entries of flows and how many multicast groups a switch of ours holds, by another
//! client than its controller. P4RUNTIME is IP:PORT or unix:/PATH. For tests/soak.

use zsr_plan::dataplane::flow::DataPlane;
use zsr_plan::p4::{Artifacts, Schema};
use zsr_switch::SwitchReader;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: p4runtime_proto::Address =
        std::env::args().nth(1).ok_or("usage: zsr-entries P4RUNTIME")?.parse()?;
    let schema = Schema::new(&Artifacts::built_in()?.p4info);
    let tables = DataPlane::flow_tables().into_iter().map(|t| schema.table(t));
    let tables: Vec<u32> = tables.collect::<Result<_, _>>()?;
    let reader = SwitchReader::connect("s1", address, 1).await?;
    let entries = reader.entities(tables.into_iter(), |_| false).await?.len();
    println!("{entries} {}", reader.groups().await?.len());
    Ok(())
}
