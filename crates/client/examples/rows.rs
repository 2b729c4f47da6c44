//! Both ends of a flow `rows`, in one program.

use zsr::{FlowConsumer, FlowProducer, Options, Place, ProgramError};

fn main() -> Result<(), ProgramError> {
    // The only system that is up. A name in place of `None` chooses one.
    rows(&Place::find(None)?)
}

/// The program in any system: a test gives it that of `zsr::testing`.
pub fn rows(system: &Place) -> Result<(), ProgramError> {
    let mut producer = FlowProducer::attach(system, "rows", &Options::default())?;
    let mut consumer = FlowConsumer::attach(system, "rows", &Options::default())?;

    for row in ["1,ada", "2,grace", "3,edsger"] {
        // Of several consumers, the flow's routing says which gets the row.
        producer.push(row.as_bytes())?;
    }
    producer.close()?;

    // Rows are read where the switch has written them. `None` is the end of the stream.
    while let Some(batch) = consumer.pop()? {
        for row in batch.records() {
            println!("{}", String::from_utf8_lossy(row?));
        }
    }
    Ok(())
}
