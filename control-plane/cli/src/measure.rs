//! `zsr bw` and `zsr lat`: a flow of its own between two hosts of a running system, measured by a program at both ends.

use std::path::Path;
use std::time::{Duration, Instant};

use super::figures::{Bandwidth, Format, Latency};
use super::measure_args::{BwArgs, LatArgs, MeasureArgs};
use super::{FAILED, OK, USAGE, complain, print};
use tonic::Code;
use zsr::{
    ClientError, Session,
    pu::{self, PuError},
};
use zsr_api::controller as proto;
use zsr_ring::{Cancel, Consumer, PopError, Producer, PushError};

/// How long a message may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most messages that are pushed with one store.
const BURST: u64 = 256;
/// Number of parts into which a run is divided to find its best rate.
const PARTS: u64 = 100;

/// Errors that end a measurement without a result.
#[derive(Debug, thiserror::Error)]
enum MeasureError {
    #[error(transparent)]
    Controller(#[from] ClientError),
    #[error("{0}; bw and lat run on the machine of both hosts' agents")]
    Attach(#[from] PuError),
    #[error("the sender's ring: {0}")]
    Push(#[from] PushError),
    #[error("the receiver's ring: {0}")]
    Pop(#[from] PopError),
    #[error("the controller made a flow without rings")]
    NoRings,
    #[error("no message arrived for {} s; see zsr flow list and zsr events", PATIENCE.as_secs())]
    Silent,
    #[error("message {wanted} was expected, and message {got} arrived")]
    Order { wanted: u32, got: u32 },
    #[error("{0}")]
    Signals(#[from] ctrlc::Error),
}

/// `zsr bw`.
pub(super) fn bw(args: &BwArgs) -> u8 {
    let format = format(&args.measure);
    let mut header = Bandwidth::header(format);
    finish(each_size(&args.measure, 64 << 10, "bw", |ends, size| {
        let row = bandwidth(ends, size, args.measure.warm_up, args.iterations)?.row(format);
        print(&(std::mem::take(&mut header) + &row));
        Ok(())
    }))
}

/// `zsr lat`.
pub(super) fn lat(args: &LatArgs) -> u8 {
    let format = format(&args.measure);
    let mut header = Latency::header(format, &args.percentile);
    finish(each_size(&args.measure, 64, "lat", |ends, size| {
        let row = latency(ends, size, args.measure.warm_up, args.iterations)?.row(format, &args.percentile);
        print(&(std::mem::take(&mut header) + &row));
        Ok(())
    }))
}

fn format(args: &MeasureArgs) -> Format {
    match (args.json.json, args.csv) {
        (true, _) => Format::Json,
        (_, true) => Format::Csv,
        _ => Format::Table(args.wide.room()),
    }
}

fn finish(done: Result<(), MeasureError>) -> u8 {
    let Err(e) = done else { return OK };
    match e {
        MeasureError::Push(PushError::Cancelled) | MeasureError::Pop(PopError::Cancelled) => {
            complain("interrupted");
            FAILED
        }
        MeasureError::Controller(ClientError::Refused { code: Code::InvalidArgument, .. }) => {
            complain(format_args!("error: {e}"));
            USAGE
        }
        e => {
            complain(format_args!("error: {e}"));
            FAILED
        }
    }
}

/// Both ends of a flow.
struct Ends {
    producer: Producer,
    consumer: Consumer,
    cancel: Cancel,
}

/// Measures each size over a flow that lives as long as the measurement.
fn each_size(
    args: &MeasureArgs,
    default: u32,
    what: &str,
    mut measure: impl FnMut(&mut Ends, u32) -> Result<(), MeasureError>,
) -> Result<(), MeasureError> {
    let cancel = Cancel::new();
    let by_signal = cancel.clone();
    ctrlc::set_handler(move || by_signal.cancel())?;
    let session = Session::find(args.system.system.as_deref()).map(Session::telling)?;
    for size in args.sizes(default) {
        let name = format!("{what}-{}-{size}", std::process::id());
        let request = request(args, &name, size, what == "lat");
        let made = session.call(|mut c| async move { c.create_flow(request).await })?;
        let done = ends(&made, &cancel).and_then(|mut ends| {
            let done = measure(&mut ends, size);
            ends.producer.detach();
            ends.consumer.detach();
            done
        });
        // Of a measurement that failed, messages may be left.
        let request = proto::DeleteFlowRequest { name, force: true };
        let deleted = session.call(|mut c| async move { c.delete_flow(request).await });
        done?;
        deleted?;
    }
    Ok(())
}

fn request(args: &MeasureArgs, name: &str, size: u32, latency: bool) -> proto::CreateFlowRequest {
    let member = |host: &String, name: &str| {
        // Two members on one host have to have names.
        let name = if args.from == args.to { name.to_owned() } else { String::new() };
        vec![proto::Member { host: host.clone(), name, ..Default::default() }]
    };
    let mut settings = args.settings.message();
    if latency && args.settings.hint.is_none() {
        settings.hint = Some(proto::Hint::Latency.into());
    }
    // If this process is killed, the flow goes by itself.
    settings.policy = settings.policy.or(Some(proto::Policy::Abort.into()));
    settings.when_ended = settings.when_ended.or(Some(proto::WhenEnded::Delete.into()));
    proto::CreateFlowRequest {
        name: name.to_owned(),
        producers: member(&args.from, "from"),
        consumers: member(&args.to, "to"),
        item_size: size,
        ring_size: args.ring_size.unwrap_or(0),
        settings: Some(settings),
        ..Default::default()
    }
}

fn ends(flow: &proto::Flow, cancel: &Cancel) -> Result<Ends, MeasureError> {
    let ring = |members: &[proto::FlowMember]| members.first().and_then(|m| m.rings.first().cloned());
    let (Some(from), Some(to)) = (ring(&flow.producers), ring(&flow.consumers)) else {
        return Err(MeasureError::NoRings);
    };
    Ok(Ends {
        producer: pu::attach_producer(Path::new(&from.programs), &from.name, cancel.clone())?,
        consumer: pu::attach_consumer(Path::new(&to.programs), &to.name, cancel.clone())?,
        cancel: cancel.clone(),
    })
}

/// Checks that a message is the one that comes next. Each begins with its number.
fn check(message: &[u8], wanted: u64) -> Result<(), MeasureError> {
    let mut number = [0; 4];
    number.copy_from_slice(&message[..4]);
    let (wanted, got) = (wanted as u32, u32::from_le_bytes(number));
    if wanted == got { Ok(()) } else { Err(MeasureError::Order { wanted, got }) }
}

fn bandwidth(ends: &mut Ends, size: u32, warm_up: u64, iterations: u64) -> Result<Bandwidth, MeasureError> {
    let total = warm_up.saturating_add(iterations);
    let Ends { producer, consumer, cancel } = ends;
    let start = Instant::now();
    let (pushed, popped) = std::thread::scope(|threads| {
        let pusher = threads.spawn(|| push_all(producer, total));
        let popped = pop_all(consumer, total, warm_up, iterations);
        if popped.is_err() {
            cancel.cancel();
        }
        let pushed = pusher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (pushed, popped)
    });
    let marks = popped?;
    pushed?;
    let (first, last) = (marks.first(), marks.last());
    // All messages may have arrived at once: then the time since the first push counts.
    let begun = match first {
        Some(first) if marks.len() > 1 => *first,
        _ => (start, 0),
    };
    let end = last.copied().unwrap_or(begun);
    let rate = |a: (Instant, u64), b: (Instant, u64)| {
        (b.1 - a.1) as f64 * f64::from(size) / b.0.duration_since(a.0).as_secs_f64().max(1e-9)
    };
    let average = rate(begun, end);
    let best = marks.windows(2).map(|pair| rate(pair[0], pair[1])).fold(average, f64::max);
    Ok(Bandwidth { size, iterations, average, best })
}

/// Pushes `total` messages, their numbers written in place and nothing else.
fn push_all(producer: &mut Producer, total: u64) -> Result<(), PushError> {
    let mut next = 0;
    while next < total {
        let mut room = producer.reserve_wait((total - next).min(BURST) as usize)?;
        let count = room.len();
        for i in 0..count {
            if let Some(message) = room.item(i) {
                message[..4].copy_from_slice(&(next as u32).to_le_bytes());
                next += 1;
            }
        }
        room.publish(count);
    }
    Ok(())
}

/// Pops `total` messages. Returns the time of the first message behind the warm-up, and the time and number of messages
/// after each part of the run.
fn pop_all(
    consumer: &mut Consumer,
    total: u64,
    warm_up: u64,
    iterations: u64,
) -> Result<Vec<(Instant, u64)>, MeasureError> {
    let part = (iterations / PARTS).max(1);
    let (mut seen, mut marks) = (0, Vec::new());
    while seen < total {
        let mut view = match consumer.wait_timeout(PATIENCE) {
            Err(PopError::TimedOut) => return Err(MeasureError::Silent),
            view => view?,
        };
        let count = view.len();
        for (i, message) in view.iter().enumerate() {
            check(message, seen + i as u64)?;
        }
        view.advance(count);
        drop(view);
        seen += count as u64;
        let due = marks.last().map_or(warm_up.max(1), |(_, at): &(Instant, u64)| at + part);
        if seen >= due || seen == total {
            marks.push((Instant::now(), seen));
        }
    }
    Ok(marks)
}

/// Measures one message at a time: from its push until the receiver has it.
fn latency(ends: &mut Ends, size: u32, warm_up: u64, iterations: u64) -> Result<Latency, MeasureError> {
    let mut samples = Vec::with_capacity(iterations as usize);
    let mut message = vec![0; size as usize];
    let mut arrived = message.clone();
    for n in 0..warm_up.saturating_add(iterations) {
        message[..4].copy_from_slice(&(n as u32).to_le_bytes());
        let start = Instant::now();
        ends.producer.push(&message)?;
        let end = loop {
            match ends.consumer.try_pop(&mut arrived) {
                // The agents may need this very core.
                Err(PopError::Empty) => std::thread::yield_now(),
                Err(e) => return Err(e.into()),
                Ok(()) => break Instant::now(),
            }
            if ends.cancel.is_cancelled() {
                return Err(PopError::Cancelled.into());
            }
            if start.elapsed() > PATIENCE {
                return Err(MeasureError::Silent);
            }
        };
        check(&arrived, n)?;
        if n >= warm_up {
            samples.push(end.duration_since(start));
        }
    }
    Ok(Latency::of(size, samples))
}
