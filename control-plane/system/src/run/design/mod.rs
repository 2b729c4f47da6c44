//! Verilated designs at rings of a run: programs of fpga/cosim, which have the ring's memory as an inherited
//! descriptor. Items come from a program's standard output into a ring of this process, or go from such a ring to its
//! standard input ([`Relay`]).

mod program;
mod relay;

use super::watch::Reports;
use program::{PATIENCE, Pipes, Program};
use relay::Broken;
pub use relay::{Feed, Pop, Relay};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use zsr_ring::{Cancel, Lease, Left, Ring, Role};

/// A program that runs; it ends with its owner.
pub struct Design {
    program: Arc<Program>,
    relay: Option<JoinHandle<()>>,
}

/// A program that has begun, and the run's end of it.
pub struct Started<H> {
    /// The program.
    pub design: Design,
    /// The relay of its items, into the run or out of it.
    pub handle: H,
    /// The program and the width of its beats, for people.
    pub text: String,
}

/// The owner of a program, and the channel for a program that ends before the stream does.
pub struct Owner {
    /// The endpoint, for people.
    pub name: String,
    /// Ends all waits, the program's as well.
    pub cancel: Cancel,
    pub reports: Reports,
}

impl Design {
    /// Starts the program at `ring`, `None` if this machine has none. If it ends before the stream does, the run fails.
    pub fn start<R: Relay>(ring: &Arc<Ring>, owner: Owner) -> Result<Option<Started<R::Handle>>, String> {
        let lease = ring.lease().map_err(|e| e.to_string())?;
        let Some((program, pipes)) = Program::start(R::PROGRAM, ring)? else { return Ok(None) };
        let mut design = Design { program: program.clone(), relay: None };

        let local = Ring::allocate(Role::Loopback, ring.spec()).map_err(|e| e.to_string())?;
        let producer = local.attach_producer(owner.cancel.clone()).map_err(|e| e.to_string())?;
        let consumer = local.attach_consumer(owner.cancel.clone()).map_err(|e| e.to_string())?;
        let (relay, handle) = R::between(producer, consumer);
        let (tell, told) = mpsc::channel();
        let relaying = Relaying { program, lease, relay, owner };
        let thread = std::thread::Builder::new().name("zsr-fpga".to_owned());
        let thread =
            thread.spawn(move || relaying.run(pipes, &tell)).map_err(|e| format!("no thread for it: {e}"))?;
        design.relay = Some(thread);
        match told.recv_timeout(PATIENCE) {
            Ok(text) => Ok(Some(Started { design, handle, text: text? })),
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
        self.program.ended();
    }
}

/// A relay at work.
struct Relaying<R> {
    program: Arc<Program>,
    lease: Lease,
    relay: R,
    owner: Owner,
}

impl<R: Relay> Relaying<R> {
    fn run(mut self, mut pipes: Pipes, tell: &Sender<Result<String, String>>) {
        let path = &self.program.path;
        let said = self.program.greeting(&mut pipes.output);
        let said = said.map(|bits| format!("a verilated {} of {bits} bits a beat ({path})", R::MODULE));
        let begun = said.is_ok();
        // If the receiver no longer waits, the program is ended.
        if tell.send(said).is_err() || !begun {
            return;
        }
        let brought = self.relay.bring(pipes);
        if matches!(brought, Err(Broken::Run)) {
            // The side that gave up reports the reason, and need not hear it from here.
            self.program.kill();
            return self.relay.detach();
        }
        let ended = self.program.ended();
        let trouble = ended.or_else(|| match brought {
            Err(Broken::Run) => None,
            Err(Broken::Program(why)) => Some(format!("{path}: {why}")),
            Err(Broken::System(e)) => Some(format!("{path}: {e}")),
            Ok(()) if self.lease.left() == Left::Finished => None,
            Ok(()) => Some(format!("{path} ended before the stream did")),
        });
        let Owner { name, cancel, reports } = self.owner;
        match trouble {
            None => self.relay.finish(),
            // A run that is cancelled ends the program in the middle.
            Some(_) if cancel.is_cancelled() => {}
            Some(why) => {
                reports.fail(format!("{name}: {why}"));
                cancel.cancel();
            }
        }
    }
}
