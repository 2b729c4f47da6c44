//! Arrow streams into a flow, and out of it, for programs in other languages:
//!
//! ```text
//! stream send FLOW [KEY…] < rows.arrows        numbers of key columns, by which rows are scattered
//! stream receive FLOW > rows.arrows
//! ```

use std::io::{stdin, stdout};

use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use zsr::{Options, Place};
use zsr_arrow::{Receiver, Sender};

fn main() {
    if let Err(e) = run() {
        eprintln!("stream: {e}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let system = Place::find(None)?;
    match *args {
        ["send", flow, ref keys @ ..] => {
            let keys = keys.iter().map(|key| key.parse()).collect::<Result<Vec<usize>, _>>()?;
            let batches = StreamReader::try_new(stdin().lock(), None)?;
            let mut sender = Sender::attach(&system, flow, batches.schema(), &Options::default())?;
            for batch in batches {
                if keys.is_empty() {
                    sender.send(&batch?)?;
                } else {
                    sender.send_by_hash(&batch?, &keys)?;
                }
            }
            sender.close()?;
        }
        ["receive", flow] => {
            let mut to = None;
            for batch in Receiver::attach(&system, flow, &Options::default())? {
                let batch = batch?;
                let to = match &mut to {
                    Some(to) => to,
                    none => none.insert(StreamWriter::try_new(stdout().lock(), &batch.schema())?),
                };
                to.write(&batch)?;
            }
            to.as_mut().map_or(Ok(()), StreamWriter::finish)?;
        }
        _ => return Err("stream send FLOW [KEY…], or stream receive FLOW".into()),
    }
    Ok(())
}
