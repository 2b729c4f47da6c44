//! A program of fpga/cosim as a process: its start, its first line, and its end.

use crate::parts::own_program;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zsr_ring::{ByteOrder, Ring};
use zsr_wire::ring::ABI_VERSION;

/// How long the program may take to begin, and to end after it has closed its standard output.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(1);
/// Bytes of the program's first line, at most.
const LINE: u64 = 100;

/// A program, until its exit status is known.
pub struct Program {
    name: &'static str,
    /// Path that was started, for people.
    pub path: String,
    child: Mutex<Option<Child>>,
}

/// A program's standard input and output.
pub struct Pipes {
    pub input: ChildStdin,
    pub output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program of this name at the memory of `ring`; `None` if this machine has none.
    pub fn start(name: &'static str, ring: &Ring) -> Result<Option<(Arc<Self>, Pipes)>, String> {
        let spec = ring.spec();
        let Some(memory) = ring.memory().file() else {
            return Err("another process can't reach the ring's memory".to_owned());
        };
        // All processes that are started meanwhile inherit this copy, so designs are started one after the other.
        let memory = memory
            .try_clone_to_owned()
            .and_then(|copy| Ok(rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).map(|()| copy)?))
            .map_err(|e| format!("the ring's memory: {e}"))?;
        let mut command = Command::new(own_program(name));
        let path = command.get_program().to_string_lossy().into_owned();
        for (option, value) in [
            ("--memory", memory.as_raw_fd().to_string()),
            ("--ring-size", spec.ring_size().to_string()),
            ("--item-size", spec.item_size().to_string()),
            ("--big-endian", u8::from(spec.byte_order() == ByteOrder::Big).to_string()),
        ] {
            command.arg(option).arg(value);
        }
        // A group of its own: a Ctrl-C is for the run, which has what was pushed delivered.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(format!("{path} does not start: {e}")),
        };
        let pipes = child.stdin.take().zip(child.stdout.take());
        let program = Arc::new(Program { name, path, child: Mutex::new(Some(child)) });
        let (input, output) = pipes.ok_or("it has no standard input and output")?;
        Ok(Some((program, Pipes { input, output: BufReader::new(output) })))
    }

    /// The bits of a beat, from the program's first line: its name, the version of the rings that it knows, and the
    /// bits. Or else the error.
    pub fn greeting(&self, output: &mut BufReader<ChildStdout>) -> Result<u32, String> {
        let mut line = Vec::new();
        let _ = output.take(LINE).read_until(b'\n', &mut line);
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        let (name, path) = (self.name, &self.path);
        if let Some(bits) = line.strip_prefix(&format!("{name} {ABI_VERSION} ")).and_then(|b| b.parse().ok())
        {
            return Ok(bits);
        }
        if line.is_empty() {
            return Err(self.ended().unwrap_or_else(|| format!("{path} ended at once")));
        }
        Err(format!(
            "{path} says `{line}`, and `{name} {ABI_VERSION} BITS` was expected, with the version of the rings' layout: build it anew \
             (fpga/cosim/build)"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the program and the processes that it has started, unless it has ended.
    pub fn kill(&self) {
        if let Some(child) = self.lock().as_ref() {
            let _ = rustix::process::kill_process_group(
                rustix::process::Pid::from_child(child),
                rustix::process::Signal::KILL,
            );
        }
    }

    /// Waits until the program has ended, and returns the error. `None`: it ended as it should, or the error was
    /// reported before.
    pub fn ended(&self) -> Option<String> {
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
            // Processes that the program has started may still have the other end.
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
