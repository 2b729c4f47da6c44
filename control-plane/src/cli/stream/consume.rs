//! `zsr consume`.

use super::screen::Screen;
use super::{CHUNK, Stop, cancelled_by_signals, exit, failed, find};
use crate::cli::live_args::{ConsumeArgs, StreamArgs};
use crate::program::{Counts, check_size, members_here, schema_of};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use zsr_api::controller as proto;
use zsr_host_agent::pu::{self, PuError};
use zsr_records::Schema;
use zsr_ring::segment::{SegmentReadError, SegmentReader};
use zsr_ring::{Cancel, Consumer, PopError};

/// `zsr consume`.
pub(in crate::cli) fn consume(args: &ConsumeArgs) -> u8 {
    exit(pop_all(args))
}

fn pop_all(args: &ConsumeArgs) -> Result<(), Stop> {
    let (cancel, _) = cancelled_by_signals()?;
    let (session, flow) = find(&args.stream)?;
    let schema = schema_of(&flow)?;
    check_size(&flow, schema.as_ref(), args.stream.record_size)?;
    let members = members_here(&session, &flow.name, &flow.consumers, args.stream.member.as_deref())?;
    let mut reader = SegmentReader::new(attach(&members, &cancel)?);
    let counts = Arc::new(Counts::default());
    counts.wait_for("items");
    // Where records are seen there is no room for a line.
    let mut screen = Screen::new(counts.clone(), !io::stdout().is_terminal(), args.stream.quiet);
    let done = copy_out(args, flow.kind(), schema.as_ref(), &mut reader, &counts);
    let done = match done {
        // The handle's own end: there was nothing left to give back.
        Ok(true) => Ok(()),
        Ok(false) | Err(Stop::Quietly) => {
            Consumer::detach(reader.into_consumer());
            Ok(())
        }
        Err(Stop::Output(why)) => {
            Consumer::detach(reader.into_consumer());
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

/// The handle of the first member's ring that is free.
fn attach(members: &[&proto::FlowMember], cancel: &Cancel) -> Result<Consumer, Stop> {
    let mut why = None;
    for ring in members.iter().flat_map(|m| &m.rings) {
        match pu::attach_consumer(Path::new(&ring.programs), &ring.name, cancel.clone()) {
            Ok(ring) => return Ok(ring),
            Err(e) => why = why.or(Some(e)),
        }
    }
    Err(why.map_or_else(|| failed("the flow has no consumer ring"), |e: PuError| failed(e)))
}

/// Copies records until the stream ends (true) or enough were read (false).
fn copy_out(
    args: &ConsumeArgs,
    kind: proto::FlowKind,
    schema: Option<&Schema>,
    reader: &mut SegmentReader,
    counts: &Counts,
) -> Result<bool, Stop> {
    // Not by way of Rust's own buffer, which would keep what could not be written.
    let mut out = File::from(rustix::io::dup(rustix::stdio::stdout()).map_err(|e| written(&e.into()))?);
    let mut left = args.count.unwrap_or(u64::MAX);
    let (text, style) = (args.stream.record_size.is_none(), args.stream.style());
    let tuples = schema.filter(|_| text);
    let mut lines = Vec::new();
    if args.header {
        let Some(schema) = schema else {
            return Err(Stop::Usage(
                "--header prints the names of a schema's columns, and the flow has none".into(),
            ));
        };
        style.write(schema.columns().iter().map(|c| c.name.as_bytes()), &mut lines);
        lines.push(b'\n');
        out.write_all(&lines).map_err(|e| written(&e))?;
        lines.clear();
    }
    while left > 0 {
        let segment = match reader.next_segment() {
            Ok(segment) => segment,
            Err(SegmentReadError::Ring(PopError::Closed)) => return Ok(true),
            Err(SegmentReadError::Ring(PopError::Cancelled)) => return Err(Stop::Quietly),
            // Of a producer's segments, each consumer of a load balance gets some.
            Err(SegmentReadError::Sequence { .. }) if kind == proto::FlowKind::LoadBalance => continue,
            Err(SegmentReadError::Ring(e @ PopError::Aborted(_))) => {
                return Err(Stop::Failed(ended(&args.stream, e)));
            }
            Err(e) => return Err(failed(e)),
        };
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(segment.len());
        let (mut printed, mut bad, mut done, mut bytes) = (Ok(()), None, 0, 0);
        for record in segment.records().take(wanted) {
            // As `zsr produce` counts them: without line ends.
            bytes += record.as_ref().map_or(0, |r| r.len());
            let shown = match (record, tuples) {
                (Err(e), _) => Err(failed(e)),
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
            segment.keep(0);
            return Err(written(&e));
        }
        counts.add(u64::from(done), bytes as u64);
        left -= u64::from(done);
        match bad {
            None if done as usize == segment.len() => {}
            None => segment.keep(done),
            Some(stop @ Stop::Output(_)) => {
                segment.keep(done);
                return Err(stop);
            }
            Some(stop) => return Err(stop),
        }
    }
    Ok(false)
}

/// What became of the flow whose ring says `e`, which is all that a ring can say.
fn ended(args: &StreamArgs, e: PopError) -> String {
    match find(args) {
        Ok((_, flow)) if flow.state() == proto::FlowState::Failed => {
            format!("flow `{}` has failed: {}", flow.name, flow.reason)
        }
        Ok((_, flow)) => format!("flow `{}`: {e}: its member was taken out, or lost its agent", flow.name),
        Err(Stop::Failed(why) | Stop::Input(why) | Stop::Output(why) | Stop::Usage(why)) => {
            format!("{e}: {why}")
        }
        Err(Stop::Told | Stop::Quietly) => e.to_string(),
    }
}

fn written(e: &io::Error) -> Stop {
    match e.kind() {
        io::ErrorKind::BrokenPipe => Stop::Quietly,
        _ => Stop::Output(format!("standard output: {e}")),
    }
}
