//! Captures of a process's links: a socket in the system's folder, one capture per connection.
//!
//! ```text
//!  zsr pcap                      the process that owns the ports
//!     ── Request, a line ──────►
//!     ◄── Answer, a line ──────  attaches to the port
//!     ◄── records of frames ───  a thread per capture, from the tap's buffer to the socket
//!     ── end of writing ───────► detaches, sends what waits and how much was lost
//! ```
//! The port's thread only copies into the buffer; a reader that is too slow loses frames, which are counted.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;

use super::troubles::{Troubled, Troubles};
use zsr::Place;
use zsr_link::{TapPoint, TapReader, TapRecord};
use zsr_wire::frame::MAX_FRAME;

/// Bytes that may wait for a reader: some milliseconds of a fast link.
const BUFFER: usize = 16 << 20;
/// The most captures at a time.
const MOST: usize = 16;
/// Longest request, bytes.
const LONGEST_REQUEST: u64 = 4096;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks for frames. Captures poll, so that the port's thread need not wake anybody.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
/// Bytes that one look moves.
const MOVE: usize = 256 << 10;
/// How long the end of a process waits for captures to be read.
const LAST: Duration = Duration::from_secs(1);

/// A capture's request: one line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Name or port number of the link; absent: a request for the list of links.
    pub link: Option<String>,
    /// Bytes of each frame that are wanted.
    pub snaplen: u16,
    /// In place of a capture: the troubles of the links, now and from now on, an [`Answer`] each time.
    #[serde(default)]
    pub troubles: bool,
}

/// The answer to a request: one line of JSON. If a link was taken, [`TapRecord`]s follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The link that is captured from now on.
    pub taken: Option<LinkName>,
    /// The reason why the link is not captured, if there is such a link.
    pub refused: Option<String>,
    /// All links of this process.
    pub links: Vec<LinkName>,
    /// The troubles of the links, if the request asked for them.
    #[serde(default)]
    pub troubled: Troubled,
}

/// A link of the process that owns its ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkName {
    /// The link's name in the topology.
    pub name: String,
    /// The link's port at the switch.
    pub port: u32,
    /// The process that has this end: `switch`, or `host NAME`.
    pub end: String,
}

/// Links of a process that can be captured.
#[derive(Debug, Default)]
pub(super) struct Captures {
    links: Vec<(LinkName, TapPoint)>,
    troubles: Troubles,
}

impl Captures {
    /// The notes of troubles of these links.
    pub(super) fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    /// The point at which the port of a link is watched.
    pub(super) fn point(&mut self, name: &str, port: u32, end: &str) -> TapPoint {
        let point = TapPoint::new();
        self.links.push((LinkName { name: name.to_owned(), port, end: end.to_owned() }, point.clone()));
        point
    }

    /// Serves captures at `listener`, in tasks of the runtime that this is called in, until the [`Serving`] is ended.
    pub(super) fn serve(self, listener: UnixListener) -> Serving {
        let (alive, ended) = mpsc::channel();
        let (links, troubles) = (std::sync::Arc::new(self.links), self.troubles);
        let task = tokio::spawn(async move {
            let running = std::sync::Arc::new(());
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // No descriptor left, say: others may be given back.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let (links, running, alive) = (links.clone(), running.clone(), alive.clone());
                let troubles = troubles.clone();
                tokio::spawn(async move {
                    let admitted = admit(stream, alive, &links, &troubles, &running).await;
                    if let Ok(Some((stream, reader, alive))) = admitted {
                        let thread = std::thread::Builder::new().name("zsr-capture".into());
                        // Without a thread the client finds the connection closed.
                        let _ = thread.spawn(move || {
                            let _held = (running, alive);
                            // The client has gone; that ends its capture, as it wants.
                            let _ = pump(stream, reader);
                        });
                    }
                });
            }
        });
        Serving { task, ended }
    }
}

/// Captures that are served.
pub(super) struct Serving {
    task: tokio::task::JoinHandle<()>,
    ended: mpsc::Receiver<()>,
}

impl Serving {
    /// Takes no more captures, and waits a moment until those under way have sent their records. Returns whether they
    /// have. The ports must be gone by now.
    pub(super) fn end(self) -> bool {
        self.task.abort();
        // Nobody sends on this channel; the wait ends when the last sender is gone.
        self.ended.recv_timeout(LAST) == Err(mpsc::RecvTimeoutError::Disconnected)
    }
}

/// Reads a client's request, and attaches its reader. The end of the process waits for `alive`.
async fn admit(
    stream: tokio::net::UnixStream,
    alive: mpsc::Sender<()>,
    links: &[(LinkName, TapPoint)],
    troubles: &Troubles,
    running: &std::sync::Arc<()>,
) -> io::Result<Option<(UnixStream, TapReader, mpsc::Sender<()>)>> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    let mut limited = (&mut stream).take(LONGEST_REQUEST);
    match tokio::time::timeout(PATIENCE, limited.read_line(&mut line)).await {
        Ok(read) => read?,
        Err(_) => return Ok(None),
    };
    let mut stream = stream.into_inner();
    let (answer, reader) = match serde_json::from_str::<Request>(&line) {
        Ok(request) if request.troubles => {
            // A client that asks for troubles does so for as long as the process is there.
            drop(alive);
            troubles.serve(&mut stream).await?;
            return Ok(None);
        }
        Ok(request) => answer(&request, links, std::sync::Arc::strong_count(running)),
        Err(e) => (Answer { refused: Some(format!("not a request: {e}")), ..Answer::default() }, None),
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    stream.write_all(text.as_bytes()).await?;
    let Some(reader) = reader else { return Ok(None) };
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(Some((stream, reader, alive)))
}

/// `holders` of the count of captures: the task that accepts them, this request, and each capture.
fn answer(request: &Request, links: &[(LinkName, TapPoint)], holders: usize) -> (Answer, Option<TapReader>) {
    let all = links.iter().map(|(link, _)| link.clone()).collect();
    let mut answer = Answer { links: all, ..Answer::default() };
    let Some(wanted) = &request.link else { return (answer, None) };
    // A name that looks like a number is a name first.
    let found = links.iter().find(|(link, _)| link.name == *wanted);
    let found = found.or_else(|| links.iter().find(|(link, _)| wanted.parse() == Ok(link.port)));
    let Some((link, point)) = found else { return (answer, None) };
    if holders > MOST + 2 {
        answer.refused = Some(format!("{MOST} captures run already; end one of them first"));
        return (answer, None);
    }
    answer.taken = Some(link.clone());
    (answer, Some(point.attach(usize::from(request.snaplen).min(MAX_FRAME), BUFFER)))
}

/// Moves records from a tap to a client, until either is gone or the client has had enough.
fn pump(mut stream: UnixStream, mut reader: TapReader) -> io::Result<()> {
    let mut buffer = vec![0; MOVE];
    let mut told = 0;
    loop {
        let ended = reader.is_ended();
        let n = reader.read(&mut buffer);
        stream.write_all(&buffer[..n])?;
        if n == buffer.len() {
            // More records wait, but a client that wants to end need not take all that come meanwhile.
            if !wants_end(&stream, Timespec { tv_sec: 0, tv_nsec: 0 })? {
                continue;
            }
        } else if !ended && !wants_end(&stream, LOOK)? {
            // Frames that were lost behind the last one, once the link is quiet.
            if n == 0 && reader.lost() > told {
                told = reader.lost();
                tell_lost(&mut stream, told)?;
            }
            continue;
        }
        // The records that wait now are whole, and the last ones for the client.
        let mut left = reader.waiting();
        while left > 0 {
            let room = left.min(buffer.len());
            let n = reader.read(&mut buffer[..room]);
            stream.write_all(&buffer[..n])?;
            left -= n;
        }
        return tell_lost(&mut stream, reader.lost());
    }
}

fn tell_lost(stream: &mut UnixStream, lost: u64) -> io::Result<()> {
    let mut record = Vec::new();
    TapRecord { time_ns: 0, lost, frame: None }.write(&mut record);
    stream.write_all(&record)
}

/// Whether the client has closed its end, or does so within this time. The client sends nothing else.
fn wants_end(stream: &UnixStream, time: Timespec) -> io::Result<bool> {
    match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&time)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
        Ok(_) => {
            let mut byte = [0];
            let n = (&mut &*stream).read(&mut byte)?;
            Ok(n == 0)
        }
        Err(e) => Err(e.into()),
    }
}

/// A client's end of a capture.
#[derive(Debug)]
pub struct Capture {
    stream: UnixStream,
    bytes: Vec<u8>,
    /// Position in `bytes` of the first record that was not taken.
    at: usize,
    ended: bool,
}

/// The reason why there is no capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Nobody serves captures.
    #[error(
        "no process of system `{system}` that owns an end of a link answers (see zsr status); where both ends are the system's, \
         as an RDMA NIC's and those of a bmv2 with interfaces of its own, capture there: tcpdump -i INTERFACE"
    )]
    NoOwner {
        /// The system.
        system: String,
    },
    /// The connection broke.
    #[error("the process that owns the link does not speak as expected: {0}")]
    Talk(String),
    /// No such link.
    #[error("there is no link `{link}`; there are: {}", list(links))]
    NoLink {
        /// The link that was asked for.
        link: String,
        /// Links that exist.
        links: Vec<LinkName>,
    },
    /// The process refuses.
    #[error("{0}")]
    Refused(String),
}

fn list(links: &[LinkName]) -> String {
    let mut names: Vec<_> = links.iter().map(|l| format!("{} (port {})", l.name, l.port)).collect();
    // Both ends of a link have its name.
    names.sort();
    names.dedup();
    names.join(", ")
}

/// All ends of links of a system that can be captured, each with the socket that takes captures of it.
///
/// # Errors
/// [`CaptureError::NoOwner`].
pub fn ends(place: &Place) -> Result<Vec<(LinkName, PathBuf)>, CaptureError> {
    let list = Request::default();
    let sockets = place.all_captures();
    let answers = sockets.iter().filter_map(|s| Some((s, Capture::open(s, &list).ok()?.1)));
    let ends: Vec<_> = answers.flat_map(|(s, a)| a.links.into_iter().map(|l| (l, s.clone()))).collect();
    match ends.is_empty() {
        true => Err(CaptureError::NoOwner { system: place.name().to_owned() }),
        false => Ok(ends),
    }
}

impl Capture {
    /// Asks the process whose socket is `socket`. No link is taken if none is asked for.
    ///
    /// # Errors
    /// [`CaptureError`], but not [`CaptureError::NoOwner`].
    pub fn open(socket: &Path, request: &Request) -> Result<(Capture, Answer), CaptureError> {
        let talk = |e: io::Error| CaptureError::Talk(e.to_string());
        let stream = UnixStream::connect(socket).map_err(talk)?;
        let mut line = serde_json::to_string(request).map_err(|e| talk(e.into()))?;
        line.push('\n');
        (&stream).write_all(line.as_bytes()).map_err(talk)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(talk)?;
        let mut capture = Capture { stream, bytes: Vec::new(), at: 0, ended: false };
        let end = loop {
            if let Some(end) = capture.bytes.iter().position(|&b| b == b'\n') {
                break end;
            }
            if capture.fill().map_err(talk)? == 0 {
                return Err(CaptureError::Talk("it closed the connection".into()));
            }
        };
        let answer: Answer =
            serde_json::from_slice(&capture.bytes[..end]).map_err(|e| CaptureError::Talk(e.to_string()))?;
        capture.at = end + 1;
        match (&request.link, &answer.taken, &answer.refused) {
            (_, _, Some(why)) => Err(CaptureError::Refused(why.clone())),
            (Some(link), None, None) => Err(CaptureError::NoLink { link: link.clone(), links: answer.links }),
            _ => Ok((capture, answer)),
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let (held, room) = (self.bytes.len(), MOVE);
        self.bytes.resize(held + room, 0);
        let read = self.stream.read(&mut self.bytes[held..]);
        self.bytes.truncate(held + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Waits up to `time` for more. Returns whether more can come: the process has not ended its side.
    ///
    /// # Errors
    /// The connection broke.
    pub fn wait(&mut self, time: Duration) -> Result<bool, CaptureError> {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let talk = |e: io::Error| CaptureError::Talk(e.to_string());
            // None would be for ever.
            self.stream.set_read_timeout(Some(left.max(Duration::from_micros(100)))).map_err(talk)?;
            match self.fill() {
                Ok(n) => {
                    self.ended |= n == 0;
                    return Ok(!self.ended);
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(true);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted && !left.is_zero() => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
                // A process that was killed.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(e) => return Err(talk(e)),
            }
        }
    }

    /// Bytes that have come and were not taken.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next record that has come; it stays the next.
    pub fn peek(&self) -> Option<TapRecord<'_>> {
        TapRecord::split(self.bytes.get(self.at..)?).map(|(record, _)| record)
    }

    /// The next record that has come.
    pub fn next_record(&mut self) -> Option<TapRecord<'_>> {
        let (record, rest) = TapRecord::split(self.bytes.get(self.at..)?)?;
        self.at = self.bytes.len() - rest.len();
        Some(record)
    }

    /// Another hold on the connection, which can end the capture from any thread.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn stopper(&self) -> io::Result<Stopper> {
        self.stream.try_clone().map(Stopper)
    }
}

/// Ends a [`Capture`] in good order: what waits still comes.
#[derive(Debug)]
pub struct Stopper(UnixStream);

impl Stopper {
    /// Asks for the end.
    pub fn stop(&self) {
        // Fails only where the other side is gone, which is an end as well.
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_does_not_wait_for_who_watches_its_troubles() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("captures");
        let serving = Captures::default().serve(UnixListener::bind(&path).unwrap());
        let mut watching = BufReader::new(tokio::net::UnixStream::connect(&path).await.unwrap());
        let request = Request { troubles: true, ..Request::default() };
        let line = serde_json::to_string(&request).unwrap() + "\n";
        watching.write_all(line.as_bytes()).await.unwrap();
        assert_ne!(watching.read_line(&mut String::new()).await.unwrap(), 0);
        assert!(tokio::task::spawn_blocking(|| serving.end()).await.unwrap());
    }
}
