//! `zsr pcap`: a link of a running system, live, as pcapng.

use super::live_args::PcapArgs;
use super::{FAILED, OK, USAGE, complain, json, print};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use zsr::{Place, PlaceError};
use zsr_link::{PcapngInterface, PcapngPacket, PcapngStatistics, PcapngWriter};
use zsr_system::capture::{Annotator, Directory, Noted};
use zsr_system::process::{self, Capture, CaptureError, LinkName, Request, Stopper};

/// Between two looks at everything while no packet comes.
const LOOK: Duration = Duration::from_millis(20);
/// How long packets wait for names of queue pairs that are new.
const STALL: Duration = Duration::from_millis(600);
/// Bytes that wait for that at most.
const STALLED: usize = 64 << 20;
/// How long the other side may take to send the rest after it was asked to end.
const REST: Duration = Duration::from_secs(2);

/// The reason why there is no capture, or why it ended.
#[derive(Debug, thiserror::Error)]
enum PcapError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(
        "a capture on a terminal is not readable: name a file with -w FILE, or a reader: | wireshark -k -i -"
    )]
    Terminal,
    #[error("cannot catch signals: {0}")]
    Signals(String),
    #[error("can't create the capture file {}: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error(
        "can't write {to} ({source}): the capture ended after {packets} packets, the last of which may be cut off"
    )]
    Write { to: String, packets: u64, source: io::Error },
}

/// `zsr pcap`.
pub(super) fn pcap(args: &PcapArgs) -> u8 {
    let done = match &args.link {
        Some(link) => capture(args, link),
        None => list(args),
    };
    match done {
        Ok(()) => OK,
        // The reader has had enough.
        Err(PcapError::Write { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => OK,
        Err(e) => {
            complain(format_args!("error: {e}"));
            let usage = matches!(e, PcapError::Terminal | PcapError::Capture(CaptureError::NoLink { .. }));
            if usage { USAGE } else { FAILED }
        }
    }
}

fn list(args: &PcapArgs) -> Result<(), PcapError> {
    let place = Place::find(args.system.system.as_deref())?;
    let mut ends = process::ends(&place)?;
    ends.sort_by(|(a, _), (b, _)| {
        (a.port, &a.name, a.end != "switch").cmp(&(b.port, &b.name, b.end != "switch"))
    });
    let text = match args.json.json {
        true => json::lines(ends.iter().map(|(l, _)| json!({"name": l.name, "port": l.port, "end": l.end}))),
        false => {
            ends.iter().map(|(l, _)| format!("{}  port {}, at the {}\n", l.name, l.port, l.end)).collect()
        }
    };
    print(&text);
    Ok(())
}

/// The end of a link to watch: the one that was asked for, if it can be had, and the socket of its process.
fn choose(
    ends: &[(LinkName, PathBuf)],
    link: &str,
    host_end: bool,
) -> Result<(LinkName, PathBuf), CaptureError> {
    let is_it = |l: &LinkName| l.name == link;
    let has_port = |l: &LinkName| link.parse() == Ok(l.port);
    let by_name = ends.iter().any(|(l, _)| is_it(l));
    let mut found = ends.iter().filter(|(l, _)| if by_name { is_it(l) } else { has_port(l) });
    let wanted = found.clone().find(|(l, _)| (l.end == "switch") != host_end);
    // A switch that is not ours lets us watch the hosts' ends only.
    wanted.or_else(|| found.next()).cloned().ok_or_else(|| CaptureError::NoLink {
        link: link.to_owned(),
        links: ends.iter().map(|(l, _)| l.clone()).collect(),
    })
}

/// The output of the capture.
enum Output {
    File(PathBuf),
    Standard,
}

impl Output {
    fn of(write: Option<&Path>) -> Result<Output, PcapError> {
        match write {
            Some(path) if path.as_os_str() != "-" => Ok(Output::File(path.to_owned())),
            None if io::stdout().is_terminal() => Err(PcapError::Terminal),
            _ => Ok(Output::Standard),
        }
    }

    fn open(&self) -> Result<Box<dyn Write>, PcapError> {
        match self {
            Output::File(path) => {
                let file =
                    File::create(path).map_err(|source| PcapError::Create { path: path.clone(), source })?;
                Ok(Box::new(file))
            }
            Output::Standard => Ok(Box::new(io::stdout().lock())),
        }
    }

    fn failed(&self, packets: u64) -> impl FnOnce(io::Error) -> PcapError + '_ {
        move |source| {
            let to = match self {
                Output::File(path) => format!("the capture file {}", path.display()),
                Output::Standard => "the capture to standard output".into(),
            };
            PcapError::Write { to, packets, source }
        }
    }

    /// Whether nobody will read any more, which a quiet link would not show.
    fn is_abandoned(&self) -> bool {
        let Output::Standard = self else { return false };
        let out = io::stdout();
        let mut fds = [PollFd::new(&out, PollFlags::empty())];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&none)).is_ok() && fds[0].revents().contains(PollFlags::ERR)
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64)
}

fn capture(args: &PcapArgs, link: &str) -> Result<(), PcapError> {
    let output = Output::of(args.write.as_deref())?;
    let place = Place::find(args.system.system.as_deref())?;
    let (end, socket) = choose(&process::ends(&place)?, link, args.host_end)?;
    let (mut directory, known) = Directory::open(&place);
    if let Err(e) = known {
        complain(format_args!("packets have no comments until the controller answers: {e}"));
    }
    let request = Request { link: Some(end.name.clone()), snaplen: args.snaplen, ..Request::default() };
    let begin_ns = now_ns();
    let (capture, _) = Capture::open(&socket, &request)?;
    let stop = on_signal(&capture)?;
    let description = format!("port {} of system {}, at the {}", end.port, place.name(), end.end);
    let interface = PcapngInterface {
        name: &end.name,
        description: &description,
        snaplen: u32::from(args.snaplen),
        program: concat!("zsr ", env!("CARGO_PKG_VERSION")),
    };
    let buffered = BufWriter::with_capacity(1 << 18, output.open()?);
    let mut writer = PcapngWriter::new(buffered, &interface).map_err(output.failed(0))?;
    complain(format_args!("capturing {} ({description}); Ctrl-C ends it", end.name));
    let mut session =
        Session { capture, annotator: Annotator::default(), output: &output, packets: 0, lost: 0 };
    session.run(args, &mut directory, &stop, &mut writer)?;
    let (packets, lost) = (session.packets, session.lost);
    let statistics = PcapngStatistics { begin_ns, end_ns: now_ns(), passed: packets + lost, lost };
    writer.finish(&statistics).map_err(output.failed(packets))?;
    complain(format_args!("{packets} packets captured, {lost} lost by the capture"));
    if args.json.json && matches!(output, Output::File(_)) {
        print(&json::one(&json!({"link": end.name, "packets": packets, "lost": lost})));
    }
    Ok(())
}

/// Ends a capture from outside.
struct Stop {
    stopper: Stopper,
    asked: Arc<AtomicBool>,
}

/// The first signal ends the capture in good order, a second one at once.
fn on_signal(capture: &Capture) -> Result<Stop, PcapError> {
    let clone = || capture.stopper().map_err(|e| PcapError::Signals(e.to_string()));
    let (stopper, from_handler, asked) = (clone()?, clone()?, Arc::new(AtomicBool::new(false)));
    let flag = asked.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(FAILED));
        }
        from_handler.stop();
    })
    .map_err(|e| PcapError::Signals(e.to_string()))?;
    Ok(Stop { stopper, asked })
}

struct Session<'o> {
    capture: Capture,
    annotator: Annotator,
    output: &'o Output,
    /// Packets that were written.
    packets: u64,
    /// Packets that the capture lost, up to the last one that was written or, at the end, in total.
    lost: u64,
}

impl Session<'_> {
    fn run(
        &mut self,
        args: &PcapArgs,
        directory: &mut Directory,
        stop: &Stop,
        writer: &mut PcapngWriter<impl Write>,
    ) -> Result<(), PcapError> {
        let until = args.seconds.map(|s| Instant::now() + s);
        let limit = args.count.unwrap_or(u64::MAX);
        let mut last = None;
        let (mut strangers, mut stalled) = (HashSet::new(), None);
        let mut lost_at_end = 0;
        loop {
            let more = self.capture.wait(LOOK)?;
            let now = Instant::now();
            while let Some(record) = self.capture.peek() {
                if let Some(stranger) = record.frame.and_then(|f| Annotator::lacks(&f, directory.names()))
                    && !strangers.contains(&stranger)
                {
                    directory.ask();
                    let since = *stalled.get_or_insert(now);
                    let patient = now.duration_since(since) < STALL && self.capture.waiting() < STALLED;
                    if patient && more && last.is_none() {
                        break;
                    }
                    strangers.insert(stranger);
                }
                stalled = None;
                lost_at_end = record.lost;
                if let Some(frame) = record.frame {
                    self.annotator.take(now, (record.time_ns, record.lost), &frame, directory.names());
                }
                self.capture.next_record();
            }
            self.write(now, !more, limit, writer)?;
            if self.packets >= limit {
                return Ok(());
            }
            if !more {
                self.lost = lost_at_end;
                if last.is_none() && !stop.asked.load(Ordering::Relaxed) {
                    complain("the process that owns the link has ended");
                }
                return Ok(());
            }
            if last.is_none() && (stop.asked.load(Ordering::Relaxed) || until.is_some_and(|t| now >= t)) {
                stop.stopper.stop();
                last = Some(now + REST);
            }
            if last.is_some_and(|t| now >= t) {
                self.write(now, true, limit, writer)?;
                self.lost = lost_at_end;
                return Ok(());
            }
            if self.output.is_abandoned() {
                let gone = io::Error::from(io::ErrorKind::BrokenPipe);
                return Err(self.output.failed(self.packets)(gone));
            }
        }
    }

    /// Writes the packets that are ready, up to the `limit`-th packet, and flushes the output.
    fn write(
        &mut self,
        now: Instant,
        all: bool,
        limit: u64,
        writer: &mut PcapngWriter<impl Write>,
    ) -> Result<(), PcapError> {
        while self.packets < limit
            && let Some(noted) = self.annotator.next_noted(now, all)
        {
            let Noted { time_ns, lost, direction, len, bytes, comment } = noted;
            let lost_before = lost.saturating_sub(self.lost);
            let packet =
                PcapngPacket { time_ns, direction, len, bytes: &bytes, comment: &comment, lost_before };
            writer.packet(&packet).map_err(self.output.failed(self.packets))?;
            self.packets += 1;
            self.lost = lost;
        }
        writer.flush().map_err(self.output.failed(self.packets))
    }
}
