//! Flow queues by one-sided RDMA, of one producer and one consumer: "Data Flow Structures for Remote Direct Memory Access", chapters 5
//! and 6. Each has a ring at both ends, and three flows: of data, of notices that data has come, and of notices that there is room.
//!
//! The counters keep `consumed <= intransit <= produced` and `transferred <= intransit`, which is checked at each step. The paper writes
//! `consumed <= transferred`, which does not hold as `transferred` counts completions that the producer has seen. Two of its listings were
//! corrected: 5.3's `iscfull` has to look at `intransit`, and 5.1's `chk_lazyrefresh` divides whole numbers before it multiplies them by 100.
//! Rings have 8,192 items or 16 MiB, and a queue pair has 64 requests under way.

use std::collections::VecDeque;

use zsr_soft_nic::{Access, QpCaps};

use super::cluster::Hosts;
use super::memory::Block;
use super::run::Program;
use super::verbs::{ArrivalQueue, CompletionQueue, NIC_DEPTH, ReceiveQueue, SendQueue, connect};
use super::virtual_time::{LINK, STEP, VirtualTime};

/// How data moves. The producer WRITEs or SENDs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Push-1, *Basic*: a WRITE for each item.
    Push,
    /// A WRITE for all items that are there, one at a time, posted by enqueue.
    Batch,
    /// The same, posted by a thread of its own (*Data Mover*).
    Mover,
    /// Push-2: a SEND for each item. The consumer posts a RECV for each slot, as many at a time as its pool has.
    Send {
        /// RECVs of the pool.
        pool: u64,
    },
}

/// How the consumer learns of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// By a word behind each item.
    Watermark,
    /// The producer WRITEs how much was transferred, one WRITE at a time.
    Push,
    /// The consumer READs how much was transferred: ahead when less than a tenth of the ring is left, and when there is nothing.
    Pull,
}

/// How the producer learns of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// It READs how much was consumed, when half of the ring is used, as far as it knows.
    Pull,
    /// The consumer WRITEs it, one WRITE at a time.
    Push,
}

/// A design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// Of the flow of data.
    pub data: Data,
    /// Of the notices of data.
    pub transfer: Transfer,
    /// Of the notices of room.
    pub space: Space,
}

/// The answer of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Success,
    Full,
    Empty,
}

/// What a run made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    /// Items consumed.
    pub items: u64,
    /// Nanoseconds.
    pub ns: u64,
    /// Requests that were posted: for data, for notices of data, for notices of room.
    pub requests: [u64; 3],
}

/// Bytes of a ring at most, and items.
const MOST_BYTES: usize = 16 << 20;
const MOST_ITEMS: usize = 8192;
/// RECVs of a pool at most.
const MOST_RECVS: usize = 64;
/// Bytes of a WRITE at most.
const MOST_AT_ONCE: usize = 1 << 20;

/// Slots of items, with a word behind each, and words behind all slots.
#[derive(Clone, Copy)]
struct Shape {
    item: usize,
    slots: u64,
}

impl Shape {
    fn of(item: usize) -> Self {
        let stride = item.next_multiple_of(8) + 8;
        Self { item, slots: MOST_ITEMS.min(MOST_BYTES / stride) as u64 }
    }

    fn stride(self) -> usize {
        self.item.next_multiple_of(8) + 8
    }

    fn at(self, number: u64) -> usize {
        (number % self.slots) as usize * self.stride()
    }

    fn watermark(self, number: u64) -> usize {
        self.at(number) + self.stride() - 8
    }

    /// Word `n` behind the slots.
    fn word(self, n: usize) -> usize {
        self.slots as usize * self.stride() + 8 * n
    }
}

/// What was consumed and what was transferred, in the memory of either end.
const CONSUMED: usize = 0;
const TRANSFERRED: usize = 1;
const WORDS: usize = 2;

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Data(u64),
    Transfer,
    Space,
}

/// An end's way to the other one's memory.
struct Way {
    queue: SendQueue,
    done: CompletionQueue,
    posted: VecDeque<For>,
    requests: [u64; 3],
}

impl Way {
    fn note(&mut self, what: For) {
        self.posted.push_back(what);
        self.requests[match what {
            For::Data(_) => 0,
            For::Transfer => 1,
            For::Space => 2,
        }] += 1;
    }

    /// Requests complete in order.
    fn completed(&mut self) -> Option<For> {
        self.done.poll()?;
        self.posted.pop_front()
    }

    fn awaits(&self, what: For) -> bool {
        self.posted.contains(&what)
    }
}

struct Producer {
    design: Design,
    shape: Shape,
    block: Block,
    way: Way,
    produced: u64,
    intransit: u64,
    transferred: u64,
    /// Enough of it was noticed by the other end.
    noticed: u64,
    item: Vec<u8>,
}

impl Producer {
    fn consumed(&self) -> u64 {
        self.block.load(self.shape.word(CONSUMED))
    }

    fn enqueue(&mut self) -> Answer {
        while let Some(done) = self.way.completed() {
            if let For::Data(items) = done {
                self.transferred += items;
            }
        }
        self.block.store(self.shape.word(TRANSFERRED), self.transferred);
        self.check();
        let answer =
            if self.produced - self.transferred == self.shape.slots { Answer::Full } else { Answer::Success };
        let used = (self.transferred.saturating_sub(self.consumed())) * 100 / self.shape.slots;
        if self.design.space == Space::Pull && (used > 50 || self.is_consumer_full()) {
            self.refresh();
        }
        if answer == Answer::Success {
            let number = self.produced;
            let bytes = number.to_le_bytes();
            let some = self.shape.item.min(bytes.len());
            self.item[..some].copy_from_slice(&bytes[..some]);
            self.block.write(self.shape.at(number), &self.item);
            self.block.store(self.shape.watermark(number), number + 1);
            self.produced += 1;
        }
        if self.design.data != Data::Mover {
            self.send();
        }
        answer
    }

    fn is_consumer_full(&self) -> bool {
        self.intransit - self.consumed() == self.shape.slots
    }

    /// READs how much was consumed, unless that is under way.
    fn refresh(&mut self) {
        if !self.way.awaits(For::Space) && self.way.queue.has_room(1) {
            self.way.queue.read(self.shape.word(CONSUMED), 8, self.shape.word(CONSUMED));
            self.way.note(For::Space);
        }
    }

    /// Starts transfers, and tells of those that are done.
    fn send(&mut self) {
        // In front of data, which may fill the queue.
        let tells = self.design.transfer == Transfer::Push && self.noticed < self.transferred;
        if tells && !self.way.awaits(For::Transfer) && self.way.queue.has_room(1) {
            let word = self.shape.word(TRANSFERRED);
            self.way.queue.write(word, 8, word, true);
            self.way.note(For::Transfer);
            self.noticed = self.transferred;
        }
        let slots = self.shape.slots;
        let most = match self.design.data {
            Data::Push | Data::Send { .. } => 1,
            Data::Batch | Data::Mover => (MOST_AT_ONCE / self.shape.stride()).max(1) as u64,
        };
        loop {
            let writes = self.way.posted.iter().any(|what| matches!(what, For::Data(_)));
            let there = self.produced - self.intransit;
            let room = slots - (self.intransit - self.consumed());
            let items = there.min(room).min(slots - self.intransit % slots).min(most);
            let waits = matches!(self.design.data, Data::Batch | Data::Mover) && writes;
            if items == 0 || waits || !self.way.queue.has_room(1) {
                break;
            }
            let (at, len) = (self.shape.at(self.intransit), items as usize * self.shape.stride());
            match self.design.data {
                Data::Send { .. } => self.way.queue.send(Some(0), at, len),
                _ => self.way.queue.write(at, len, at, true),
            }
            self.way.note(For::Data(items));
            self.intransit += items;
        }
        self.check();
    }

    fn check(&self) {
        let counters = (self.consumed(), self.transferred, self.intransit, self.produced);
        let (consumed, transferred, intransit, produced) = counters;
        assert!(consumed <= intransit && transferred <= intransit && intransit <= produced, "{counters:?}");
    }
}

struct Consumer {
    design: Design,
    shape: Shape,
    block: Block,
    way: Way,
    consumed: u64,
    receives: ReceiveQueue,
    came: ArrivalQueue,
    /// RECVs posted, and those that were used up.
    posted: u64,
    used: u64,
}

impl Consumer {
    /// Posts RECVs for slots that are free, as far as the pool goes.
    fn post(&mut self) {
        let Data::Send { pool } = self.design.data else { return };
        while self.came.poll().is_some() {
            self.used += 1;
        }
        while self.posted - self.used < pool && self.posted - self.consumed < self.shape.slots {
            self.receives.post(0, self.shape.at(self.posted), self.shape.stride());
            self.posted += 1;
        }
    }

    fn dequeue(&mut self) -> Answer {
        self.post();
        while self.way.completed().is_some() {}
        let transferred = self.block.load(self.shape.word(TRANSFERRED));
        let is_there = match self.design.transfer {
            Transfer::Watermark => self.block.load(self.shape.watermark(self.consumed)) == self.consumed + 1,
            Transfer::Push | Transfer::Pull => transferred > self.consumed,
        };
        let few = transferred.saturating_sub(self.consumed) < self.shape.slots / 10;
        if self.design.transfer == Transfer::Pull
            && few
            && !self.way.awaits(For::Transfer)
            && self.way.queue.has_room(1)
        {
            let word = self.shape.word(TRANSFERRED);
            self.way.queue.read(word, 8, word);
            self.way.note(For::Transfer);
        }
        if !is_there {
            return Answer::Empty;
        }
        let expected = self.consumed.to_le_bytes();
        let some = self.shape.item.min(expected.len());
        // SAFETY: the producer writes the slot again only when it was told that it is consumed.
        let item = unsafe { self.block.bytes(self.shape.at(self.consumed), self.shape.item) };
        assert_eq!(item[..some], expected[..some], "item {}", self.consumed);
        self.consumed += 1;
        self.block.store(self.shape.word(CONSUMED), self.consumed);
        let tells = self.design.space == Space::Push && !self.way.awaits(For::Space);
        if tells && self.way.queue.has_room(1) {
            let word = self.shape.word(CONSUMED);
            self.way.queue.write(word, 8, word, true);
            self.way.note(For::Space);
        }
        Answer::Success
    }
}

/// An end of a queue, as a program.
enum End {
    Producer(Box<Producer>),
    Consumer(Box<Consumer>),
}

impl Program for End {
    fn push(&mut self) -> usize {
        let End::Producer(producer) = self else { return 0 };
        let mut pushed = 0;
        while producer.enqueue() == Answer::Success {
            pushed += 1;
            // So much as a look's time would allow.
            if pushed == 64 {
                break;
            }
        }
        pushed
    }

    fn consume(&mut self) -> usize {
        match self {
            End::Producer(producer) => {
                if producer.design.data == Data::Mover {
                    producer.send();
                }
                0
            }
            End::Consumer(consumer) => {
                let mut consumed = 0;
                while consumer.dequeue() == Answer::Success {
                    consumed += 1;
                }
                consumed
            }
        }
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// Runs a queue of items of `item` bytes for `ns` of virtual time.
pub fn run(design: Design, item: usize, ns: u64) -> Made {
    let shape = Shape::of(item);
    let mut hosts = Hosts::new(2, 1, &[], 4096);
    let access = Access::REMOTE_READ.with(Access::REMOTE_WRITE).with(Access::LOCAL_WRITE);
    let blocks = [(); 2].map(|()| Block::new(shape.word(WORDS)));
    let keys = [0, 1].map(|host: usize| {
        hosts.hands.nics[host].register_mr(blocks[host].region(), 0, access).expect("a key")
    });
    let qpns = [0, 1].map(|host: usize| {
        let caps = QpCaps { send_depth: NIC_DEPTH, recv_depth: MOST_RECVS };
        hosts.hands.nics[host].create_qp(caps).expect("a queue pair")
    });
    connect(&mut hosts, (0, qpns[0]), (1, qpns[1]));
    let mut way = |host: usize| {
        let (number, done) = hosts.devices[host].completion_queue();
        let remote = super::verbs::Remote { rkey: keys[1 - host] };
        let queue = hosts.devices[host].send_queue(qpns[host], keys[host], remote, number, 0);
        Way { queue, done, posted: VecDeque::new(), requests: [0; 3] }
    };
    let [producers, consumers] = blocks;
    let producer = Producer {
        design,
        shape,
        block: producers,
        way: way(0),
        produced: 0,
        intransit: 0,
        transferred: 0,
        noticed: 0,
        item: vec![0; item],
    };
    let consumer_way = way(1);
    let (arrivals, came) = hosts.devices[1].arrival_queue(MOST_RECVS);
    let receives = hosts.devices[1].receive_queue(qpns[1], keys[1], MOST_RECVS, arrivals, 0);
    let consumer = Consumer {
        design,
        shape,
        block: consumers,
        way: consumer_way,
        consumed: 0,
        receives,
        came,
        posted: 0,
        used: 0,
    };
    let mut programs = [End::Producer(Box::new(producer)), End::Consumer(Box::new(consumer))];
    let mut time = VirtualTime::new(hosts, LINK);
    let made = |programs: &[End; 2], now: u64| {
        let [End::Producer(producer), End::Consumer(consumer)] = programs else { return Made::default() };
        assert!(consumer.consumed <= producer.intransit);
        let requests = std::array::from_fn(|n| producer.way.requests[n] + consumer.way.requests[n]);
        Made { items: consumer.consumed, ns: now, requests }
    };
    time.run_for(&mut programs, ns / 4, STEP);
    let before = made(&programs, time.now());
    time.run_for(&mut programs, ns, STEP);
    let after = made(&programs, time.now());
    Made {
        items: after.items - before.items,
        ns: after.ns - before.ns,
        requests: std::array::from_fn(|n| after.requests[n] - before.requests[n]),
    }
}
