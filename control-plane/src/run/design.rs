//! A verilated design as the consumer at a ring: the program zsr-fpga-pop (fpga/cosim), whose standard input is the ring's memory. What
//! it writes to its standard output, the items that it has taken, comes into a ring of this process.

use super::watch::Reports;
use crate::parts::own_program;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zsr_ring::{ByteOrder, Cancel, Consumer, Lease, Left, Producer, Ring, Role};
use zsr_wire::ring::ABI_VERSION;

/// The program.
pub const PROGRAM: &str = "zsr-fpga-pop";
/// How long it may take to begin, and to end when it has closed its standard output.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(1);
/// Bytes of the program's first line, at most.
const LINE: u64 = 100;

/// A program that runs; it ends with its owner.
pub struct Design {
    program: Arc<Running>,
    relay: Option<JoinHandle<()>>,
}

/// A program that has begun, and where its items come out.
pub struct Started {
    /// The program.
    pub design: Design,
    /// Where the items come out that it has taken.
    pub consumer: Consumer,
    /// The program and the width of its beats, for people.
    pub text: String,
}

/// The program, until it is known how it ended.
struct Running {
    path: String,
    child: Mutex<Option<Child>>,
}

impl Design {
    /// Starts the program at `ring`, `None` if this machine has none. `cancel` ends waits for the consumer. If the program ends before
    /// the stream does, this is reported, and the consumer's stream breaks off.
    pub fn start(
        ring: &Arc<Ring>,
        name: &str,
        cancel: &Cancel,
        reports: Reports,
    ) -> Result<Option<Started>, String> {
        let spec = ring.spec();
        let lease = ring.lease().map_err(|e| e.to_string())?;
        let Some(memory) = ring.memory().file() else {
            return Err("another process can't reach the ring's memory".to_owned());
        };
        let memory = memory.try_clone_to_owned().map_err(|e| format!("the ring's memory: {e}"))?;
        let mut command = Command::new(own_program(PROGRAM));
        let path = command.get_program().to_string_lossy().into_owned();
        command.args([
            "--ring-size",
            &spec.ring_size().to_string(),
            "--item-size",
            &spec.item_size().to_string(),
        ]);
        if spec.byte_order() == ByteOrder::Big {
            command.args(["--big-endian", "1"]);
        }
        // A group of its own: a Ctrl-C is for the run, which has what was pushed delivered.
        command.stdin(memory).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(format!("{path} does not start: {e}")),
        };
        let out = child.stdout.take();
        let program = Arc::new(Running { path, child: Mutex::new(Some(child)) });
        let mut design = Design { program: program.clone(), relay: None };
        let out = out.ok_or("it has no standard output")?;

        let local = Ring::allocate(Role::Loopback, spec).map_err(|e| e.to_string())?;
        let producer = local.attach_producer(cancel.clone()).map_err(|e| e.to_string())?;
        let consumer = local.attach_consumer(cancel.clone()).map_err(|e| e.to_string())?;
        let (tell, told) = mpsc::channel();
        let relay =
            Relay { program, lease, producer, cancel: cancel.clone(), reports, consumer: name.to_owned() };
        let thread = std::thread::Builder::new().name("zsr-fpga".to_owned());
        let thread =
            thread.spawn(move || relay.run(out, &tell)).map_err(|e| format!("no thread for it: {e}"))?;
        design.relay = Some(thread);
        match told.recv_timeout(PATIENCE) {
            Ok(text) => Ok(Some(Started { design, consumer, text: text? })),
            Err(_) => Err(format!(
                "{}: it has not said within {} s what it is",
                design.program.path,
                PATIENCE.as_secs()
            )),
        }
    }
}

impl Drop for Design {
    fn drop(&mut self) {
        self.program.kill();
        if let Some(relay) = self.relay.take() {
            let _ = relay.join();
        }
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it and what it has started, unless it has ended.
    fn kill(&self) {
        if let Some(child) = self.lock().as_ref() {
            let _ = rustix::process::kill_process_group(
                rustix::process::Pid::from_child(child),
                rustix::process::Signal::KILL,
            );
        }
    }

    /// Waits until it has ended, and says how; `None`: as it should.
    fn ended(&self) -> Option<String> {
        let patience = Instant::now() + PATIENCE;
        let (status, stderr) = loop {
            let mut slot = self.lock();
            let mut child = slot.take()?;
            match child.try_wait() {
                Ok(Some(status)) => break (status, child.stderr.take()),
                Ok(None) => *slot = Some(child),
                Err(e) => return Some(format!("{}: {e}", self.path)),
            }
            drop(slot);
            if Instant::now() > patience {
                self.kill();
            }
            std::thread::sleep(LOOK);
        };
        let mut said = Vec::new();
        if let Some(mut stderr) = stderr {
            // Whatever it has started may still have the other end.
            let _ = rustix::io::ioctl_fionbio(&stderr, true);
            let _ = stderr.read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        match (status.success(), said.is_empty()) {
            (true, _) => None,
            (false, true) => Some(format!("{} ended with {status}", self.path)),
            (false, false) => Some(format!("{} ended with {status}: {said}", self.path)),
        }
    }
}

/// What brings the items from the program to the consumer.
struct Relay {
    program: Arc<Running>,
    lease: Lease,
    producer: Producer,
    cancel: Cancel,
    reports: Reports,
    /// The consumer's name.
    consumer: String,
}

impl Relay {
    fn run(mut self, out: ChildStdout, tell: &Sender<Result<String, String>>) {
        let mut out = BufReader::new(out);
        let said = match hello(&mut out) {
            Ok(bits) => Ok(format!("a verilated zsr_consumer of {bits} bits a beat ({})", self.program.path)),
            Err(line) => Err(self.unknown(&line)),
        };
        let begun = said.is_ok();
        // Who has waited for too long is not there, and ends the program.
        if tell.send(said).is_err() || !begun {
            return;
        }
        let copied = self.copy(&mut out);
        drop(out);
        let path = &self.program.path;
        let ended = self.program.ended();
        let trouble = match copied {
            Err(e) => ended.or(Some(format!("{path}: {e}"))),
            Ok(()) if self.lease.left() == Left::Finished => ended,
            Ok(()) => ended.or(Some(format!("{path} ended before the stream did"))),
        };
        match trouble {
            None => self.producer.close(),
            // Who cancels ends it in the middle.
            Some(_) if self.cancel.is_cancelled() => {}
            Some(why) => self.reports.fail(format!("consumer `{}`: {why}", self.consumer)),
        }
    }

    /// What to say of a program that has begun with this line.
    fn unknown(&self, line: &str) -> String {
        let path = &self.program.path;
        if line.is_empty() {
            return self.program.ended().unwrap_or_else(|| format!("{path} ended at once"));
        }
        self.program.kill();
        format!(
            "{path} says `{line}`, and `{PROGRAM} {ABI_VERSION} BITS` was expected, with the version of the rings' layout: build it anew \
             (fpga/cosim/build)"
        )
    }

    /// Copies items from the program's output into the ring, to the output's end.
    fn copy(&mut self, out: &mut BufReader<ChildStdout>) -> Result<(), String> {
        loop {
            if out.fill_buf().map_err(|e| e.to_string())?.is_empty() {
                return Ok(());
            }
            let mut room = self.producer.reserve_wait(1).map_err(|e| e.to_string())?;
            out.read_exact(room.bytes()).map_err(|_| "it ended inside an item".to_owned())?;
            room.publish(1);
        }
    }
}

/// The program's first line: its name, the version of the rings that it knows, and the bits of a beat, which it gives; or what stands
/// there instead.
fn hello(out: &mut BufReader<ChildStdout>) -> Result<u32, String> {
    let mut line = Vec::new();
    let _ = out.take(LINE).read_until(b'\n', &mut line);
    let line = String::from_utf8_lossy(&line).trim().to_owned();
    let bits = line.strip_prefix(&format!("{PROGRAM} {ABI_VERSION} ")).and_then(|bits| bits.parse().ok());
    bits.ok_or(line)
}
