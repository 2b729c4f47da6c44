//! Programs at rings of a running system, as threads of this process: they attach as any process would.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use zsr::pu;
use zsr_api::controller::Ring;
use zsr_ring::{Cancel, PopError, Producer, PushError};

/// Items in the order in which they came: their producers' numbers, and theirs.
pub type Log = Vec<(u64, u64)>;

const ITEM: usize = 64;
/// Every producer pushes at least so many items.
const LEAST: u64 = 300;
/// How often a pusher without room looks for orders.
const LISTEN: Duration = Duration::from_millis(1);
/// After how long without an item a flow is taken to hang.
const HANGS: Duration = Duration::from_secs(60);

/// How many wait for items of any popper, and how they are told: yielding in a loop starves the rest of a machine.
static AWAITED: AtomicU64 = AtomicU64::new(0);
static PASSED: Mutex<()> = Mutex::new(());
static CAME: Condvar = Condvar::new();

fn item(producer: u64, number: u64) -> [u8; ITEM] {
    let mut item = [(producer * 31 + number) as u8; ITEM];
    item[..8].copy_from_slice(&producer.to_le_bytes());
    item[8..16].copy_from_slice(&number.to_le_bytes());
    item
}

enum Order {
    Attach(String, Box<Producer>),
    /// Leaves the ring to this consumer once it is empty, then answers.
    Forget(String, Sender<()>),
    Leave,
    LeaveDrained,
    Close,
}

/// Pushes numbered items into its rings in turn until told otherwise.
pub struct Pusher {
    orders: Sender<Order>,
    thread: JoinHandle<(u64, u64)>,
    rings: Vec<String>,
}

impl Pusher {
    pub fn start(number: u64) -> Self {
        let (orders, todo) = channel();
        Pusher { orders, thread: std::thread::spawn(move || push(number, &todo)), rings: Vec::new() }
    }

    /// At a ring for a consumer, unless it is there already.
    pub fn attach(&mut self, consumer: &str, ring: &Ring) {
        if self.rings.contains(&ring.name) {
            return;
        }
        let producer = pu::attach_producer(Path::new(&ring.programs), &ring.name, Cancel::new());
        self.rings.push(ring.name.clone());
        self.order(Order::Attach(consumer.into(), Box::new(producer.expect("attached"))));
    }

    /// No item goes to this consumer any more; all that did were taken.
    pub fn forget(&self, consumer: &str) {
        let (done, is_done) = channel();
        self.order(Order::Forget(consumer.into(), done));
        is_done.recv().expect("a pusher that answers");
    }

    /// Its number, and how many items it has pushed; so for the others.
    pub fn leave(self) -> (u64, u64) {
        self.end(Order::Leave)
    }

    pub fn leave_drained(self) -> (u64, u64) {
        self.end(Order::LeaveDrained)
    }

    pub fn close(self) -> (u64, u64) {
        self.end(Order::Close)
    }

    fn end(self, order: Order) -> (u64, u64) {
        self.order(order);
        self.thread.join().expect("a pusher that ends well")
    }

    fn order(&self, order: Order) {
        // Fails for one that was aborted.
        let _ = self.orders.send(order);
    }

    /// How many items it had pushed when it was told that its flow has failed.
    pub fn aborted(self) -> (u64, u64) {
        self.thread.join().expect("a pusher")
    }
}

fn push(producer: u64, todo: &Receiver<Order>) -> (u64, u64) {
    let mut rings: Vec<(String, Producer)> = Vec::new();
    let (mut pushed, mut full) = (0, false);
    loop {
        // A ring that stays full may be that of a dead one.
        // Without a ring there is nothing to do but wait, and nobody leaves without having done something.
        let order = match rings.len() {
            0 => todo.recv().ok(),
            _ if pushed > LEAST || full => todo.try_recv().ok(),
            _ => None,
        };
        match order {
            Some(Order::Attach(consumer, ring)) => rings.push((consumer, *ring)),
            Some(Order::Forget(consumer, done)) => {
                if let Some(at) = rings.iter().position(|(name, _)| *name == consumer) {
                    let (_, mut ring) = rings.remove(at);
                    ring.wait_drained().expect("taken");
                    ring.detach();
                }
                done.send(()).expect("somebody waits");
            }
            Some(Order::Leave) => {
                rings.into_iter().for_each(|(_, ring)| ring.detach());
                return (producer, pushed);
            }
            Some(Order::LeaveDrained) => {
                rings.iter_mut().for_each(|(_, ring)| ring.wait_drained().expect("taken"));
                rings.into_iter().for_each(|(_, ring)| ring.detach());
                return (producer, pushed);
            }
            Some(Order::Close) => {
                rings.into_iter().for_each(|(_, ring)| ring.close());
                return (producer, pushed);
            }
            None => {
                let at = pushed as usize % rings.len();
                match rings[at].1.push_timeout(&item(producer, pushed), LISTEN) {
                    Ok(()) => pushed += 1,
                    Err(PushError::TimedOut) => full = true,
                    // Its flow has failed; whoever gives orders learns it from the count.
                    Err(PushError::Aborted(_)) => return (producer, pushed),
                    Err(e) => panic!("producer {producer}: {e}"),
                }
            }
        }
    }
}

/// Pops until the end of the stream.
pub struct Popper {
    thread: JoinHandle<(Log, PopError)>,
    popped: Arc<AtomicU64>,
    cancel: Cancel,
}

impl Popper {
    pub fn start(ring: &Ring) -> Self {
        let cancel = Cancel::new();
        let mut rx =
            pu::attach_consumer(Path::new(&ring.programs), &ring.name, cancel.clone()).expect("attached");
        let name = ring.name.clone();
        let popped = Arc::new(AtomicU64::new(0));
        let count = popped.clone();
        let pop = move || {
            let (mut log, mut buffer) = (Log::new(), [0; ITEM]);
            loop {
                match rx.pop_timeout(&mut buffer, HANGS) {
                    Ok(()) => {}
                    Err(end) => return (log, end),
                }
                let word = |at: usize| u64::from_le_bytes(buffer[at..at + 8].try_into().expect("8 bytes"));
                let (producer, number) = (word(0), word(8));
                assert!(buffer == item(producer, number), "{name}: an item is not as it was");
                log.push((producer, number));
                count.fetch_add(1, Ordering::SeqCst);
                if AWAITED.load(Ordering::SeqCst) > 0 {
                    drop(PASSED.lock().expect("nobody panics"));
                    CAME.notify_all();
                }
            }
        };
        Popper { thread: std::thread::spawn(pop), popped, cancel }
    }

    /// How many items it has popped.
    pub fn popped(&self) -> u64 {
        self.popped.load(Ordering::SeqCst)
    }

    /// What it has popped, once it has seen the end.
    pub fn log(self) -> Log {
        let (log, end) = self.thread.join().expect("a popper");
        assert_eq!(end, PopError::Closed, "behind {} items, the last {:?}", log.len(), log.last());
        log
    }

    /// What it has popped, once it has been told that there will be no more, and no end.
    pub fn aborted(self) -> Log {
        let (log, end) = self.thread.join().expect("a popper");
        assert!(matches!(end, PopError::Aborted(_)), "{end}");
        log
    }

    /// What it has popped by now.
    pub fn stop(self) -> Log {
        self.cancel.cancel();
        self.thread.join().expect("a popper").0
    }
}

/// Waits until more than `before` items were popped at all of `poppers` together.
pub fn moves_on<'p>(
    poppers: impl Iterator<Item = &'p Popper> + Clone,
    before: u64,
    state: &dyn Fn() -> String,
) {
    let until = Instant::now() + HANGS;
    let is_there = || poppers.clone().map(Popper::popped).sum::<u64>() > before;
    AWAITED.fetch_add(1, Ordering::SeqCst);
    let mut passed = PASSED.lock().expect("nobody panics");
    while !is_there() && Instant::now() < until {
        passed = CAME.wait_timeout(passed, until - Instant::now()).expect("nobody panics").0;
    }
    drop(passed);
    AWAITED.fetch_sub(1, Ordering::SeqCst);
    assert!(is_there(), "no item has come for a minute: {}", state());
}
