//! `zsr produce` and `zsr consume`: a program at a flow's rings, from standard input and to standard output.

use super::client::{ClientError, Session};
use super::live_args::{ConsumeArgs, ProduceArgs, StreamArgs};
use super::{FAILED, OK, USAGE, complain};
use crate::controller::proto;
use crate::process::Place;
use crate::program::{FlowProducer, Options, ProgramError, check_size, schema_of};
use crate::topology::{FileFormat, FileInput, KeyRef, Routing, Workload, parse_key, parse_routing};
use crate::tuples::Schema;
use crate::workload::{KeyReader, Router};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use zsr_host_agent::pu::{self, PuError};
use zsr_host_agent::ring::{Cancel, Consumer, PopError};
use zsr_host_agent::segment::{SegmentPushError, SegmentReadError, SegmentReader};

/// What is read at once.
const CHUNK: usize = 64 << 10;
/// How often a wait for input looks for signals.
const SIGNALS: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Why a stream ended early.
enum Stop {
    /// The command or the flow does not allow it.
    Usage(String),
    /// What comes in is not what the flow takes; flow and rings are well.
    Input(String),
    /// What comes out can't be written; flow and rings are well.
    Output(String),
    /// Something failed.
    Failed(String),
    /// Something failed, which was said when it did.
    Told,
    /// A signal, or a reader that has gone away.
    Quietly,
}

impl From<ClientError> for Stop {
    fn from(e: ClientError) -> Self {
        Stop::Failed(e.to_string())
    }
}

fn failed(e: impl std::fmt::Display) -> Stop {
    Stop::Failed(e.to_string())
}

fn exit(result: Result<(), Stop>) -> u8 {
    match result {
        Ok(()) | Err(Stop::Quietly) => OK,
        Err(Stop::Told) => FAILED,
        Err(Stop::Usage(why)) => {
            complain(format_args!("error: {why}"));
            USAGE
        }
        Err(Stop::Input(why) | Stop::Output(why) | Stop::Failed(why)) => {
            complain(format_args!("error: {why}"));
            FAILED
        }
    }
}

fn cancelled_by_signals() -> Result<Cancel, Stop> {
    let cancel = Cancel::new();
    let by_signal = cancel.clone();
    ctrlc::set_handler(move || by_signal.cancel()).map_err(failed)?;
    Ok(cancel)
}

fn find(args: &StreamArgs) -> Result<proto::Flow, Stop> {
    let session = Session::find(args.system.system.as_deref())?;
    let request = proto::GetFlowRequest { name: args.flow.clone() };
    Ok(session.call(|mut c| async move { c.get_flow(request).await })?)
}

/// The handles of a member's rings: of the one named, or of the first whose rings are free.
fn attach<H>(
    args: &StreamArgs,
    members: &[proto::FlowMember],
    attach: impl Fn(&Path, &str) -> Result<H, PuError>,
) -> Result<(String, Vec<H>), Stop> {
    let wanted = |m: &&proto::FlowMember| args.member.as_ref().is_none_or(|name| *name == m.name);
    let mut why = None;
    for member in members.iter().filter(wanted) {
        let rings: Result<Vec<H>, PuError> =
            member.rings.iter().map(|r| attach(Path::new(&r.programs), &r.name)).collect();
        match rings {
            Ok(rings) => return Ok((member.name.clone(), rings)),
            Err(e) => why = why.or(Some(e)),
        }
    }
    Err(match (why, &args.member) {
        (Some(e), _) => failed(e),
        (None, Some(name)) => Stop::Usage(format!("flow `{}` has no such member `{name}`", args.flow)),
        (None, None) => Stop::Usage(format!("flow `{}` has no members", args.flow)),
    })
}

/// `zsr produce`.
pub(super) fn produce(args: &ProduceArgs) -> u8 {
    exit(push_all(args))
}

fn push_all(args: &ProduceArgs) -> Result<(), Stop> {
    let cancel = cancelled_by_signals()?;
    let flow = find(&args.stream)?;
    let schema = schema_of(&flow)?;
    let (routing, key) = routing(args, &flow, schema.as_ref())?;
    let place = Place::find(args.stream.system.system.as_deref()).map_err(failed)?;
    let options = Options {
        member: args.stream.member.clone(),
        record_size: args.stream.record_size,
        cancel: cancel.clone(),
    };
    let mut producer = FlowProducer::attach(&place, &args.stream.flow, &options)?;
    let mut router = Router::new(&routing, producer.consumers());
    // Lines stand for tuples, unless these are asked for as bytes.
    let tuples = schema.filter(|_| args.stream.record_size.is_none());
    let mut tuple = Vec::new();
    let mut lost = false;
    let mut push = |event: Input<'_>| -> Result<(), Stop> {
        let (record, number) = match event {
            Input::Record(line, number) => match &tuples {
                Some(schema) => {
                    let encoded = schema.encode(line, args.stream.delimiter, &mut tuple);
                    encoded.map_err(|e| Stop::Input(format!("record {}: {e}", number + 1)))?;
                    (tuple.as_slice(), number)
                }
                None => (line, number),
            },
            // Whoever waits for more must not keep what there is.
            Input::Pause => {
                lost |= told(producer.flush())?;
                return Ok(());
            }
        };
        let mut route = |record: &[u8], consumers: usize| {
            if router.consumers() != consumers {
                router = Router::new(&routing, consumers);
            }
            let key_of = key.key(record).map_err(|e| e.to_string())?;
            router.tuple(key_of, key.form(), number).map_err(|e| e.to_string())
        };
        // A loss is of records before this one.
        while told(producer.push(record, &mut route)).map_err(|stop| match stop {
            Stop::Input(e) => Stop::Input(format!("record {}: {e}", number + 1)),
            stop => stop,
        })? {
            lost = true;
        }
        Ok(())
    };
    let stdin = rustix::io::dup(rustix::stdio::stdin()).map_err(failed)?;
    let mut input = BufReader::with_capacity(CHUNK, File::from(stdin));
    let done = match args.stream.record_size {
        Some(size) => fixed(&mut input, size as usize, &cancel, &mut push),
        None => lines(&mut input, &cancel, &mut push),
    };
    match &done {
        Ok(()) if !args.keep_open => lost |= told(producer.close())?,
        Ok(()) | Err(Stop::Quietly | Stop::Input(_)) => lost |= told(producer.leave())?,
        // Its handles go without an end: the stream is broken, and says so.
        Err(_) => drop(producer),
    }
    let left = "what was pushed is delivered, and another program can go on";
    match done {
        Err(Stop::Quietly) => Err(Stop::Failed(format!("interrupted: {left}"))),
        Err(Stop::Input(why)) => Err(Stop::Input(format!("{why} ({left})"))),
        // Who does without members that die has said so.
        Ok(()) if lost && flow.settings.is_none_or(|s| s.policy() != proto::Policy::DropMember) => {
            Err(Stop::Told)
        }
        done => done,
    }
}

/// Whether records pushed before are lost, which is said at once: the others can still be delivered.
fn told(pushed: Result<(), ProgramError>) -> Result<bool, Stop> {
    match pushed {
        Ok(()) => Ok(false),
        Err(e @ ProgramError::Lost { .. }) => {
            complain(format_args!("error: {e}"));
            Ok(true)
        }
        Err(e) => Err(e.into()),
    }
}

impl From<ProgramError> for Stop {
    fn from(e: ProgramError) -> Self {
        match e {
            e if e.is_cancelled() => Stop::Quietly,
            ProgramError::NoMember { .. } | ProgramError::Records(_) | ProgramError::Tuples { .. } => {
                Stop::Usage(e.to_string())
            }
            ProgramError::Route(_) | ProgramError::Push(SegmentPushError::RecordTooLong { .. }) => {
                Stop::Input(e.to_string())
            }
            e => failed(e),
        }
    }
}

/// What comes from standard input.
enum Input<'i> {
    /// A record and its number, from 0.
    Record(&'i [u8], u64),
    /// There is no more for now.
    Pause,
}

type Push<'p> = &'p mut dyn FnMut(Input<'_>) -> Result<(), Stop>;

/// Waits until reading does not have to. Whatever was pushed before is on its way by then.
fn await_input(input: &BufReader<File>, cancel: &Cancel, push: Push<'_>) -> Result<(), Stop> {
    let ready = |time: Timespec| {
        let mut look = [PollFd::new(input.get_ref(), PollFlags::IN)];
        // An interrupted look is repeated, any other error is for the read to tell.
        !matches!(poll(&mut look, Some(&time)), Ok(0) | Err(rustix::io::Errno::INTR))
    };
    let looked = Timespec { tv_sec: 0, tv_nsec: 0 };
    if !input.buffer().is_empty() || ready(looked) {
        return if cancel.is_cancelled() { Err(Stop::Quietly) } else { Ok(()) };
    }
    while !cancel.is_cancelled() {
        // Again and again, since a consumer that leaves waits for its producers.
        push(Input::Pause)?;
        if ready(SIGNALS) {
            return Ok(());
        }
    }
    Err(Stop::Quietly)
}

/// How records are routed, and where their keys are.
fn routing(
    args: &ProduceArgs,
    flow: &proto::Flow,
    schema: Option<&Schema>,
) -> Result<(Routing, KeyReader), Stop> {
    let bad = |what: String| Stop::Usage(what);
    let routing = match &args.key {
        Some(key) => Routing::Hash(parse_key(key).ok_or_else(|| {
            bad(format!(
                "--key {key}: expected a column by name or number from 1, OFFSET:LENGTH in bytes, or *"
            ))
        })?),
        None => parse_routing(&flow.routing).ok_or_else(|| {
            bad(format!("flow `{}`: routing {} is not known here", flow.name, flow.routing))
        })?,
    };
    if let Some(schema) = schema {
        let resolved = schema.resolve(&routing, args.stream.delimiter, flow.consumers.len());
        let (routing, records) = resolved
            .map_err(|e| bad(format!("flow `{}`: {}: expected {}", flow.name, e.message, e.expected)))?;
        let key = KeyReader::new(routing.key(), &records, schema.columns());
        return Ok((routing, key));
    }
    let routed = flow.kind() == proto::FlowKind::Shuffle;
    let format = match args.stream.record_size {
        Some(record_size) => FileFormat::Binary { record_size },
        None => FileFormat::Delimited { delimiter: args.stream.delimiter, header: false },
    };
    if routed
        && flow.consumers.len() > 1
        && let KeyRef::Name(name) = routing.key()
    {
        return Err(bad(format!(
            "flow `{}` routes by column `{name}`, but the input has no header and the flow no schema: name the column by number with --key",
            flow.name
        )));
    }
    let input = FileInput { path: "-".into(), format };
    let key = KeyReader::new(routing.key(), &Workload::File(input), &[]);
    Ok((routing, key))
}

/// Lines, without their ends. The last one may lack its end.
fn lines(input: &mut BufReader<File>, cancel: &Cancel, push: Push<'_>) -> Result<(), Stop> {
    let mut line = Vec::new();
    for number in 0.. {
        line.clear();
        await_input(input, cancel, push)?;
        match input.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) => return Err(Stop::Input(format!("standard input: {e}"))),
        }
        let end = line.strip_suffix(b"\n").map_or(line.as_slice(), |l| l.strip_suffix(b"\r").unwrap_or(l));
        push(Input::Record(end, number))?;
    }
    Ok(())
}

/// Records of one size.
fn fixed(input: &mut BufReader<File>, size: usize, cancel: &Cancel, push: Push<'_>) -> Result<(), Stop> {
    let mut record = vec![0; size];
    for number in 0.. {
        let mut have = 0;
        while have < size {
            await_input(input, cancel, push)?;
            match input.read(&mut record[have..]) {
                Ok(0) if have == 0 => return Ok(()),
                Ok(0) => {
                    let what = format!("standard input ends with {have} of {size} B of a record");
                    return Err(Stop::Input(what));
                }
                Ok(got) => have += got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Stop::Input(format!("standard input: {e}"))),
            }
        }
        push(Input::Record(&record, number))?;
    }
    Ok(())
}

/// `zsr consume`.
pub(super) fn consume(args: &ConsumeArgs) -> u8 {
    exit(pop_all(args))
}

fn pop_all(args: &ConsumeArgs) -> Result<(), Stop> {
    let cancel = cancelled_by_signals()?;
    let flow = find(&args.stream)?;
    let schema = schema_of(&flow)?;
    check_size(&flow, schema.as_ref(), args.stream.record_size)?;
    let attach_one = |socket: &Path, ring: &str| pu::attach_consumer(socket, ring, cancel.clone());
    let (_, mut rings) = attach(&args.stream, &flow.consumers, attach_one)?;
    let Some(ring) = rings.pop() else { return Ok(()) };
    let mut reader = SegmentReader::new(ring);
    let done = copy_out(args, flow.kind(), schema.as_ref(), &mut reader);
    match done {
        // The handle's own end: there was nothing left to give back.
        Ok(true) => Ok(()),
        Ok(false) | Err(Stop::Quietly) => {
            Consumer::detach(reader.into_consumer());
            Ok(())
        }
        Err(Stop::Output(why)) => {
            Consumer::detach(reader.into_consumer());
            let left = "what was not written is left to another program";
            Err(Stop::Output(format!("{why} ({left})")))
        }
        Err(stop) => Err(stop),
    }
}

/// Copies records until the stream ends (true) or enough were read (false).
fn copy_out(
    args: &ConsumeArgs,
    kind: proto::FlowKind,
    schema: Option<&Schema>,
    reader: &mut SegmentReader,
) -> Result<bool, Stop> {
    // Not by way of Rust's own buffer, which would keep what could not be written.
    let mut out = File::from(rustix::io::dup(rustix::stdio::stdout()).map_err(|e| written(&e.into()))?);
    let mut left = args.count.unwrap_or(u64::MAX);
    let text = args.stream.record_size.is_none();
    let tuples = schema.filter(|_| text);
    let mut lines = Vec::new();
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
        let (mut printed, mut bad, mut done) = (Ok(()), None, 0);
        for record in segment.records().take(wanted) {
            let shown = match (record, tuples) {
                (Err(e), _) => Err(failed(e)),
                (Ok(record), Some(schema)) => {
                    let decoded = schema.decode(record, args.stream.delimiter, &mut lines);
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
        Ok(flow) if flow.state() == proto::FlowState::Failed => {
            format!("flow `{}` has failed: {}", flow.name, flow.reason)
        }
        Ok(flow) => format!("flow `{}`: {e}: its member was taken out, or lost its agent", flow.name),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek;

    type Pushed = Vec<(u64, Vec<u8>)>;

    fn read(bytes: &[u8], size: Option<usize>) -> (bool, Pushed) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let mut input = BufReader::new(file);
        let mut all = Vec::new();
        let mut push = |event: Input<'_>| {
            if let Input::Record(record, number) = event {
                all.push((number, record.to_vec()));
            }
            Ok(())
        };
        let done = match size {
            Some(size) => fixed(&mut input, size, &Cancel::new(), &mut push),
            None => lines(&mut input, &Cancel::new(), &mut push),
        };
        (done.is_ok(), all)
    }

    #[test]
    fn lines_lose_their_ends_only() {
        let (well, got) = read(b"one\r\n\ntwo\xff\nlast", None);
        let wanted: [&[u8]; 4] = [b"one", b"", b"two\xff", b"last"];
        assert!(well && got.iter().map(|(_, r)| r.as_slice()).eq(wanted));
    }

    #[test]
    fn records_of_one_size_may_not_be_cut_off() {
        let bytes: Vec<u8> = (0..=255).collect();
        let (well, got) = read(&bytes, Some(64));
        assert!(well && got.len() == 4 && got[3] == (3, bytes[192..].to_vec()));
        let (well, got) = read(&bytes[..100], Some(64));
        assert!(!well && got.len() == 1);
    }
}
