//! Batches of a flow `sales` from one end to the other, both in this program. The flow is made with
//! `zsr flow create sales -p h1 -c h3 --item-size 64KiB`.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use zsr::{Options, Place};
use zsr_arrow::{Receiver, Sender};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The only system that is up.
    exchange(&Place::find(None)?)
}

/// The program in any system: a test gives it that of `zsr::testing`.
pub fn exchange(system: &Place) -> Result<(), Box<dyn std::error::Error>> {
    let batch = RecordBatch::try_from_iter([
        ("shop", Arc::new(StringArray::from(vec!["oslo", "bonn", "oslo"])) as _),
        ("amount", Arc::new(Int64Array::from(vec![Some(3), None, Some(5)])) as _),
    ])?;

    let mut sender = Sender::attach(system, "sales", batch.schema(), &Options::default())?;
    let receiver = Receiver::attach(system, "sales", &Options::default())?;

    // Each row goes to the consumer that the hash of its shop says.
    sender.send_by_hash(&batch, &[0])?;
    sender.close()?;

    // Arrays lie where the switch has written them, and give the space back when they are dropped.
    for batch in receiver {
        println!("{:?}", batch?);
    }
    Ok(())
}
