//! Both ends of a flow `rows`, in one program.

use zsr::{FlowConsumer, FlowProducer, Options, Place, ProgramError};

fn main() -> Result<(), ProgramError> {
    // The only system that is up. A name in place of `None` chooses one.
    let system = Place::find(None)?;
    let mut producer = FlowProducer::attach(&system, "rows", &Options::default())?;
    let mut consumer = FlowConsumer::attach(&system, "rows", &Options::default())?;

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
