//! `zsr consume`.

use super::screen::Screen;
use super::{CHUNK, Stop, cancelled_by_signals, exit};
use crate::closed::no_output;
use crate::live_args::ConsumeArgs;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use zsr::{Combiner, FlowConsumer, Options, Schema};
use zsr_records::rows::Style;

/// `zsr consume`.
pub(crate) fn consume(args: &ConsumeArgs) -> u8 {
    exit(pop_all(args))
}

fn pop_all(args: &ConsumeArgs) -> Result<(), Stop> {
    if let Some(why) = no_output() {
        return Err(Stop::Output(why));
    }
    let (cancel, _) = cancelled_by_signals()?;
    let options = Options {
        member: args.stream.member.clone(),
        record_size: args.stream.record_size,
        cancel,
        ..Options::default()
    };
    let mut consumer = FlowConsumer::attach(args.stream.contact()?, &args.stream.flow, &options)?;
    let counts = consumer.counts();
    // Where records are seen there is no room for a line.
    let mut screen = Screen::new(counts.clone(), !io::stdout().is_terminal(), args.stream.quiet);
    let done = match &args.aggregate {
        Some(functions) => combine(args, functions, &mut consumer),
        None => copy_out(args, &mut consumer),
    };
    let done = match done {
        // The stream's own end: there was nothing left to give back.
        Ok(true) => Ok(()),
        Ok(false) | Err(Stop::Quietly) => {
            consumer.leave();
            Ok(())
        }
        Err(Stop::Usage(why)) => {
            consumer.leave();
            Err(Stop::Usage(why))
        }
        Err(Stop::Output(why)) => {
            consumer.leave();
            let written = counts.records();
            let left =
                format!("{written} records were written; what was not written is left to another program");
            Err(Stop::Output(format!("{why} ({left})")))
        }
        Err(stop) => Err(stop),
    };
    match done {
        Ok(()) => screen.end("consumed", ""),
        Err(_) => screen.clear(),
    }
    done
}

/// Copies records until the stream ends (true) or enough were read (false).
fn copy_out(args: &ConsumeArgs, consumer: &mut FlowConsumer) -> Result<bool, Stop> {
    // Not by way of Rust's own buffer, which would keep what could not be written.
    let mut out = File::from(rustix::io::dup(rustix::stdio::stdout()).map_err(|e| written(&e.into()))?);
    let mut left = args.count.unwrap_or(u64::MAX);
    let (text, style) = (args.stream.record_size.is_none(), args.stream.style());
    let schema = consumer.schema().cloned();
    let mut lines = Vec::new();
    if args.header {
        let Some(schema) = &schema else {
            return Err(Stop::Usage(
                "--header prints the names of a schema's columns, and the flow has none".into(),
            ));
        };
        header(schema, style, &mut lines);
        out.write_all(&lines).map_err(|e| written(&e))?;
        lines.clear();
    }
    let tuples = schema.filter(|_| text);
    while left > 0 {
        let popped = if args.newest { consumer.pop_newest()? } else { consumer.pop()? };
        let Some(batch) = popped else { return Ok(true) };
        let passed = if args.newest { batch.len().saturating_sub(1) } else { 0 };
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(batch.len() - passed);
        let (mut printed, mut bad, mut done) = (Ok(()), None, 0);
        for record in batch.records().take(passed + wanted) {
            let shown = match (record, &tuples) {
                (Err(e), _) => Err(e.into()),
                (Ok(_), _) if done < passed => {
                    done += 1;
                    continue;
                }
                (Ok(record), Some(schema)) => {
                    let decoded = schema.decode(record, style, &mut lines);
                    decoded.map_err(|e| Stop::Output(e.to_string()))
                }
                (Ok(record), None) => {
                    lines.extend_from_slice(record);
                    Ok(())
                }
            };
            if let Err(stop) = shown {
                bad = Some(stop);
                break;
            }
            if text {
                lines.push(b'\n');
            }
            done += 1;
            if lines.len() >= CHUNK {
                printed = out.write_all(&lines);
                lines.clear();
            }
            if printed.is_err() {
                break;
            }
        }
        // Printed before its place in the ring is given back.
        let printed = printed.and_then(|()| out.write_all(&lines));
        lines.clear();
        if let Err(e) = printed {
            // How much of it somebody has read is not known.
            batch.keep(0);
            return Err(written(&e));
        }
        left -= done.saturating_sub(passed) as u64;
        match bad {
            None if done == batch.len() => {}
            None => batch.keep(done),
            Some(stop @ Stop::Output(_)) => {
                batch.keep(done);
                return Err(stop);
            }
            Some(stop) => return Err(stop),
        }
    }
    Ok(false)
}

/// Prints what all records come to, at the end of the stream (true) or when a signal has ended it (false).
fn combine(args: &ConsumeArgs, functions: &str, consumer: &mut FlowConsumer) -> Result<bool, Stop> {
    let Some(schema) = consumer.schema().cloned() else {
        return Err(Stop::Usage("--aggregate takes the columns of a schema, and the flow has none".into()));
    };
    let group_by = args.group_by.as_deref().unwrap_or_default();
    let mut combiner = Combiner::new(&schema, group_by, functions).map_err(|e| Stop::Usage(e.to_string()))?;
    let ended = match consumer.combine(&mut combiner) {
        Ok(()) => true,
        Err(e) if e.is_cancelled() => false,
        Err(e) => return Err(e.into()),
    };
    let lost = |why: String| Stop::Failed(format!("{why}: what the records came to is lost"));
    let (style, mut lines) = (args.stream.style(), Vec::new());
    if args.header {
        header(combiner.schema(), style, &mut lines);
    }
    for result in combiner.results().map_err(|e| lost(e.to_string()))? {
        combiner.schema().decode(&result, style, &mut lines).map_err(|e| lost(e.to_string()))?;
        lines.push(b'\n');
    }
    match io::stdout().write_all(&lines).and_then(|()| io::stdout().flush()) {
        Ok(()) => Ok(ended),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(Stop::Quietly),
        Err(e) => Err(lost(format!("standard output: {e}"))),
    }
}

/// Appends a line with the names of the columns.
fn header(schema: &Schema, style: Style, lines: &mut Vec<u8>) {
    style.write(schema.columns().iter().map(|c| c.name.as_bytes()), lines);
    lines.push(b'\n');
}

fn written(e: &io::Error) -> Stop {
    match e.kind() {
        io::ErrorKind::BrokenPipe => Stop::Quietly,
        _ => Stop::Output(format!("standard output: {e}")),
    }
}
