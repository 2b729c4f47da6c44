//! Relays items between a program and a ring of this process.

use super::program::Pipes;
use std::io::{BufRead, ErrorKind, Read, Write};
use zsr_ring::{Consumer, PopError, Producer};

/// Reason why a relay has stopped bringing items.
pub enum Broken {
    /// The run has given up.
    Run,
    /// The program breaks the rules.
    Program(&'static str),
    /// The operating system refuses.
    System(std::io::Error),
}

/// Brings items from a program to the run, or the other way.
pub trait Relay: Send + Sized + 'static {
    /// The program.
    const PROGRAM: &str;
    /// The module that is verilated in it.
    const MODULE: &str;
    /// The run's handle of the ring in this process.
    type Handle: Send;

    /// The state between the two ends of that ring.
    fn between(producer: Producer, consumer: Consumer) -> (Self, Self::Handle);

    /// Brings all items, until the program has closed its standard output.
    fn bring(&mut self, pipes: Pipes) -> Result<(), Broken>;

    /// The program has ended as it should.
    fn finish(self);

    /// Leaves the ring as it is.
    fn detach(self);
}

/// A consumer: the program has popped the items that it writes to its standard output.
pub struct Pop(Producer);

impl Relay for Pop {
    const PROGRAM: &str = "zsr-fpga-pop";
    const MODULE: &str = "zsr_consumer";
    type Handle = Consumer;

    fn between(producer: Producer, consumer: Consumer) -> (Self, Consumer) {
        (Pop(producer), consumer)
    }

    fn bring(&mut self, Pipes { mut output, .. }: Pipes) -> Result<(), Broken> {
        while !output.fill_buf().map_err(Broken::System)?.is_empty() {
            let mut room = self.0.reserve_wait(1).map_err(|_| Broken::Run)?;
            output.read_exact(room.bytes()).map_err(|_| Broken::Program("it ended inside an item"))?;
            room.publish(1);
        }
        Ok(())
    }

    fn finish(self) {
        self.0.close();
    }

    fn detach(self) {
        self.0.detach();
    }
}

/// A producer: the program pushes the items from its standard input.
pub struct Feed(Consumer);

impl Relay for Feed {
    const PROGRAM: &str = "zsr-fpga-feed";
    const MODULE: &str = "zsr_producer";
    type Handle = Producer;

    fn between(producer: Producer, consumer: Consumer) -> (Self, Producer) {
        (Feed(consumer), producer)
    }

    fn bring(&mut self, Pipes { mut input, mut output }: Pipes) -> Result<(), Broken> {
        loop {
            let items = match self.0.wait() {
                Ok(items) => items,
                Err(PopError::Closed) => break,
                Err(_) => return Err(Broken::Run),
            };
            match input.write_all(items.bytes()) {
                Ok(()) => {}
                // The program's exit says more.
                Err(e) if e.kind() == ErrorKind::BrokenPipe => break,
                Err(e) => return Err(Broken::System(e)),
            }
        }
        drop(input);
        // Waits while there is no room for the items that it has taken.
        std::io::copy(&mut output, &mut std::io::sink()).map(|_| ()).map_err(Broken::System)
    }

    fn finish(self) {}

    fn detach(self) {
        self.0.detach();
    }
}
