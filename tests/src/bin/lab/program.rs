//! A program of its own at a ring of a running agent, like that of a processing unit: it pushes numbered items, or
//! checks popped items, to the byte.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use clap::Args;
use zsr::pu;
use zsr_ring::{Cancel, PopError};
use zsr_tests::items::{self, Received};

use super::Result;

#[derive(Args)]
pub struct ProgramOptions {
    /// The agent's socket for programs.
    #[arg(long)]
    socket: PathBuf,
    /// The ring's name.
    #[arg(long)]
    ring: String,
    /// Bytes of an item.
    #[arg(long)]
    item_size: u32,
    /// Pushes so many items.
    #[arg(long, requires = "number", conflicts_with = "pop")]
    push: Option<u32>,
    /// Pushes as many again for each line of standard input, and ends with it.
    #[arg(long, requires = "push")]
    rounds: bool,
    /// Number of this ring in its items, below 256.
    #[arg(long)]
    number: Option<u32>,
    /// Pops what rings of these numbers have pushed.
    #[arg(long, value_delimiter = ',', required_unless_present = "push")]
    pop: Vec<u32>,
    /// Other consumers get items of the same rings.
    #[arg(long)]
    shared: bool,
}

pub fn run(options: &ProgramOptions) -> Result<()> {
    let (socket, ring) = (&options.socket, &options.ring);
    let mut item = vec![0; options.item_size as usize];
    if let (Some(count), Some(number)) = (options.push, options.number) {
        let mut producer = pu::attach_producer(socket, ring, Cancel::default())?;
        let mut pushed = 0;
        let mut round = || {
            for _ in 0..count {
                items::fill(number, pushed, &mut item);
                producer.push(&item)?;
                pushed += 1;
            }
            Result::Ok(())
        };
        if options.rounds {
            for _ in std::io::stdin().lines() {
                round()?;
            }
        } else {
            round()?;
        }
        producer.close();
        println!("{ring}: {pushed} items pushed");
        return Ok(());
    }
    let mut consumer = pu::attach_consumer(socket, ring, Cancel::default())?;
    let rings = options.pop.iter().max().map_or(0, |m| *m as usize + 1);
    let from = |r| options.pop.contains(&(r as u32));
    let mut received = Received::new(rings, options.item_size, options.shared, from);
    loop {
        match consumer.pop(&mut item) {
            // Panics with what is wrong about the item.
            Ok(()) => received.take(&item),
            Err(PopError::Closed) => break,
            Err(e) => return Err(e.into()),
        }
    }
    let mut hasher = DefaultHasher::new();
    received.order.hash(&mut hasher);
    let sum: u64 = received.order.iter().map(|name| u64::from(name & 0xff_ffff)).sum();
    let count: u32 = received.counts().sum();
    println!("{ring}: {count} items, each as it should be, order {:016x} sum {sum}", hasher.finish());
    Ok(())
}
