//! The programs at the rings: the items that they push and pop, and whether these keep the guarantees.

use std::collections::{BTreeMap, BTreeSet};

use zsr_api::controller::{self as proto, FlowKind};
use zsr_host_agent::agent::{Agent, AgentError, RingInfo, RingState};
use zsr_link::Rng;
use zsr_ring::{Cancel, Consumer, ControlWord, Flags, PopError, Producer, PushError, Role};

use crate::schedule::NewFlow;

/// Most items that a program pushes or pops at one time.
const AT_ONCE: u64 = 8;

/// Offsets of the words that a ring's program writes: a producer's, and a consumer's.
const HEAD: usize = 0;
const TAIL: usize = 64;

/// Items pushed into a producer ring, and those that have arrived.
#[derive(Debug)]
struct Lane {
    flow: usize,
    /// The ring's name, and its number on its agent.
    ring: (String, u64),
    host: usize,
    pushed: u32,
    closed: bool,
    /// Items that programs have popped: their number, and, in a load balance, the consumer of each.
    arrived: u32,
    seen: BTreeMap<u32, String>,
    /// The ring was given up, and its program was told so.
    told: bool,
}

/// Items that the consumers of a flow have got.
#[derive(Debug)]
struct Book {
    asked: NewFlow,
    /// In a replicate: all items in the order of the first consumer that popped them.
    order: Vec<(u32, u32)>,
    /// In a replicate: consumers from the beginning that no program has come to yet.
    founders: BTreeSet<String>,
    /// Number of operators that want to end the flow or take a member out: nothing is pushed meanwhile.
    paused: u32,
    /// The flow was deleted, or lost members, but no item may be lost: all pushed items have to arrive.
    whole: bool,
    /// The reason why items of this flow may be missing.
    excused: Option<String>,
    /// A consumer has died with its host. It may have popped items that no other consumer has got.
    buried: bool,
    /// A program of the flow wrote nonsense into the control word of this ring, by host and number. Items of the flow
    /// no longer matter.
    nonsense: Option<(Nonsense, (usize, u64))>,
    /// Reports about items that consumers who were taken out may have consumed.
    doubts: Vec<proto::Doubt>,
    /// Items of a load balance that came once more: lane, number, and the first consumer.
    twice: Vec<(u32, u32, String)>,
    /// The one order of a group has changed.
    reordered: bool,
}

/// A consumer ring and the progress of its programs.
#[derive(Debug, Default)]
struct Sink {
    /// In a replicate: the place of its next item in the order, once it is known. Until then the consumer's items are
    /// in `unplaced`: a consumer that has joined a group does not know its place.
    place: Option<usize>,
    unplaced: Vec<(u32, u32)>,
    /// The last item of every lane.
    last: BTreeMap<u32, u32>,
    ended: bool,
    told: bool,
}

enum End {
    Push(Producer, u32),
    Pop(Consumer, (usize, u64)),
}

struct Handle {
    host: usize,
    end: End,
    flow: usize,
    member: String,
    /// Items that the program has looked at, and not given back yet.
    kept: Vec<u8>,
}

impl Handle {
    /// Gives the items that were looked at back to the ring, and checks that they have not changed.
    fn give_back(&mut self) {
        let End::Pop(consumer, _) = &mut self.end else { return };
        let items = self.kept.len() / consumer.spec().item_size() as usize;
        if items > 0 {
            let mut view = consumer.peek_at_most(items).expect("it was there");
            assert!(
                view.bytes() == self.kept,
                "f{}.{}: items have changed in the ring",
                self.flow,
                self.member
            );
            view.advance(items);
            view.keep();
            self.kept.clear();
        }
    }
}

/// The kind of nonsense that a program has written into its control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// The switch can detect it, and has to end the flow.
    Beyond,
    /// The nonsense could be a valid counter.
    Unknown,
}

/// All programs and their state.
pub struct Programs {
    rng: Rng,
    books: BTreeMap<usize, Book>,
    lanes: Vec<Lane>,
    sinks: BTreeMap<(usize, u64), Sink>,
    handles: Vec<Handle>,
    /// Rings, by host and number, that some program has or has had to its end.
    taken: BTreeSet<(usize, u64)>,
    paused: BTreeSet<usize>,
    /// Programs push as fast as they can, whatever their flows say.
    hurry: bool,
    /// A switch has died, and with it its state of transfers under way.
    switch_died: bool,
    leaving: BTreeSet<(usize, String)>,
    /// Consumers, by flow, that were told that the flow is over.
    aborted: BTreeSet<(usize, String)>,
    /// Flows of which a consumer has seen the end.
    ended: BTreeSet<usize>,
    /// Items popped.
    pub popped: u64,
}

/// Flow and members in a ring's name, which may end in that of a lane.
fn parts(ring: &str) -> (usize, &str, Option<&str>) {
    let (ring, _lane) = ring.split_once('~').unwrap_or((ring, ""));
    let mut parts = ring.split('.');
    let flow = parts.next().and_then(|f| f[1..].parse().ok()).unwrap_or(usize::MAX);
    (flow, parts.next().unwrap_or(""), parts.next())
}

/// Fills an item with its lane and number. The other bytes follow from both, so that damage shows.
fn fill(lane: u32, number: u32, item: &mut [u8]) {
    item[..4].copy_from_slice(&lane.to_le_bytes());
    item[4..8].copy_from_slice(&number.to_le_bytes());
    let mut state = lane.wrapping_mul(0x9e37_79b1) ^ number;
    for byte in &mut item[8..] {
        state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x85eb_ca6b);
        *byte = (state >> 24) as u8;
    }
}

impl Programs {
    pub fn new(seed: u64) -> Programs {
        Programs {
            rng: Rng::new(seed ^ 0x7075_7368),
            books: BTreeMap::new(),
            lanes: Vec::new(),
            sinks: BTreeMap::new(),
            handles: Vec::new(),
            taken: BTreeSet::new(),
            paused: BTreeSet::new(),
            hurry: false,
            switch_died: false,
            leaving: BTreeSet::new(),
            aborted: BTreeSet::new(),
            ended: BTreeSet::new(),
            popped: 0,
        }
    }

    /// An operator has asked for a flow.
    pub fn know(&mut self, flow: &NewFlow) {
        let founders = flow.consumers.iter().map(|host| format!("c{host}")).collect();
        let book = Book {
            asked: flow.clone(),
            order: Vec::new(),
            founders,
            paused: 0,
            whole: false,
            excused: None,
            buried: false,
            nonsense: None,
            doubts: Vec::new(),
            twice: Vec::new(),
            reordered: false,
        };
        self.books.insert(flow.name, book);
    }

    /// From now on items of the flow may be missing, but none may come twice, or in another order.
    pub fn excuse(&mut self, flow: usize, why: &str) {
        if let Some(book) = self.books.get_mut(&flow) {
            book.excused.get_or_insert_with(|| why.to_owned());
        }
    }

    pub fn excused(&self, flow: usize) -> Option<&str> {
        self.books.get(&flow)?.excused.as_deref()
    }

    /// Stops and starts pushing into a flow. It starts again after as many calls with `false` as with `true`.
    pub fn pause_flow(&mut self, flow: usize, paused: bool) {
        if let Some(book) = self.books.get_mut(&flow) {
            book.paused = if paused { book.paused + 1 } else { book.paused.saturating_sub(1) };
        }
    }

    /// Rings of the flow have gone, though no item was to be lost with them.
    pub fn went_in_peace(&mut self, flow: usize) {
        self.books.get_mut(&flow).into_iter().for_each(|book| book.whole = true);
    }

    /// Items that were lost with rings of which no item was to be lost.
    pub fn lost(&self) -> Option<String> {
        let book = |lane: &Lane| self.books.get(&lane.flow).is_some_and(|b| b.whole && b.excused.is_none());
        let lane = self.lanes.iter().find(|lane| book(lane) && lane.arrived != lane.pushed)?;
        let Lane { ring, pushed, arrived, flow, .. } = lane;
        Some(format!("{arrived} of {pushed} items of {ring:?} in f{flow} have arrived, which nobody gave up"))
    }

    /// Notes a report about items that a consumer who was taken out may have consumed. `again`: it may have been
    /// reported before.
    pub fn doubted(&mut self, flow: usize, doubts: &[proto::Doubt], again: bool) {
        if let Some(book) = self.books.get_mut(&flow) {
            let news = doubts.iter().filter(|doubt| !again || !book.doubts.contains(doubt));
            let news: Vec<_> = news.cloned().collect();
            book.doubts.extend(news);
        }
    }

    /// Items that came twice, or in two orders, without a report that they may.
    pub fn unsaid(&self) -> Option<String> {
        self.books.iter().find_map(|(flow, book)| {
            if book.reordered && book.doubts.is_empty() {
                return Some(format!("f{flow}: two orders, and nobody has told so"));
            }
            // Of each lane and consumer.
            let mut came: BTreeMap<(u32, &str), Vec<u32>> = BTreeMap::new();
            for (lane, which, by) in &book.twice {
                came.entry((*lane, by)).or_default().push(*which);
            }
            came.into_iter().find_map(|((lane, by), items)| {
                let ring = &self.lanes[lane as usize].ring.0;
                let of = |d: &&proto::Doubt| d.consumer == by && d.ring == *ring;
                let told: u32 = book.doubts.iter().filter(of).map(|d| d.items).sum();
                (items.len() > told as usize).then(|| {
                    format!("items {items:?} of {ring:?} have come to {by} in f{flow} and to another one; {told} were told of")
                })
            })
        })
    }

    /// A chance of one in two.
    pub fn coin(&mut self) -> bool {
        self.rng.chance(0.5)
    }

    /// From now on programs push as fast as they can.
    pub fn hurry(&mut self) {
        self.hurry = true;
    }

    /// Whether the programs of a host do anything.
    pub fn pause_host(&mut self, host: usize, paused: bool) {
        match paused {
            true => self.paused.insert(host),
            false => self.paused.remove(&host),
        };
    }

    /// A consumer is leaving: programs leave their rings for it.
    pub fn leave(&mut self, flow: usize, member: &str, leaving: bool) {
        match leaving {
            true => self.leaving.insert((flow, member.to_owned())),
            false => self.leaving.remove(&(flow, member.to_owned())),
        };
    }

    /// A host has died, and its programs with it. Each flow with a member there may have lost items.
    pub fn bury(&mut self, host: usize) {
        let flows: BTreeSet<usize> = self.handles.iter().filter(|h| h.host == host).map(|h| h.flow).collect();
        let members =
            |book: &Book| book.asked.producers.contains(&host) || book.asked.consumers.contains(&host);
        let had = self.books.iter().filter(|(_, b)| members(b)).map(|(f, _)| *f).collect::<Vec<_>>();
        for flow in flows.into_iter().chain(had) {
            self.excuse(flow, "a host of it died");
        }
        for handle in self.handles.extract_if(.., |h| h.host == host) {
            if let (End::Pop(..), Some(book)) = (handle.end, self.books.get_mut(&handle.flow)) {
                book.buried = true;
            }
        }
        self.taken.retain(|(h, _)| *h != host);
        self.sinks.retain(|(h, _), _| *h != host);
        // The host's next agent counts its rings from 1 again.
        self.lanes.iter_mut().filter(|l| l.host == host).for_each(|l| l.host = usize::MAX);
    }

    /// A switch has died, or goes on too late.
    pub fn switch_died(&mut self) {
        self.switch_died = true;
    }

    /// A member on this host may have joined.
    pub fn joined(&mut self, flow: usize, host: usize, as_producer: bool) {
        if let Some(book) = self.books.get_mut(&flow) {
            let members = if as_producer { &mut book.asked.producers } else { &mut book.asked.consumers };
            members.push(host);
        }
    }

    /// The programs of a host leave their rings, where others go on.
    pub fn change(&mut self, host: usize) {
        for handle in self.handles.extract_if(.., |h| h.host == host).collect::<Vec<_>>() {
            self.put_back(handle);
        }
    }

    fn put_back(&mut self, mut handle: Handle) {
        if self.books[&handle.flow].nonsense.is_none() {
            handle.give_back();
        }
        let (Handle { host, end, .. }, lanes) = (handle, &self.lanes);
        match end {
            End::Push(producer, lane) => {
                self.taken.remove(&(host, lanes[lane as usize].ring.1));
                producer.detach();
            }
            End::Pop(consumer, sink) => {
                self.taken.remove(&sink);
                consumer.detach();
            }
        }
    }

    /// A program of a host writes nonsense into the control word of one of its rings, and is gone. Returns its flow, if
    /// there is one.
    pub fn spoil(&mut self, host: usize) -> Option<(usize, Nonsense)> {
        let here: Vec<usize> =
            self.handles.iter().enumerate().filter(|(_, h)| h.host == host).map(|(at, _)| at).collect();
        let at = *here.get(self.rng.below(here.len().max(1) as u64) as usize)?;
        let Handle { end, flow, .. } = self.handles.swap_remove(at);
        let (ring, offset, place) = match &end {
            End::Push(producer, lane) => {
                (producer.ring().clone(), HEAD, (host, self.lanes[*lane as usize].ring.1))
            }
            End::Pop(consumer, sink) => (consumer.ring().clone(), TAIL, *sink),
        };
        match end {
            End::Push(producer, _) => producer.detach(),
            End::Pop(consumer, _) => consumer.detach(),
        }
        let (words, size, bits) = (ring.snapshot(), ring.spec().ring_size(), self.rng.bits() as u32);
        let (word, nonsense) = match (offset, self.rng.chance(0.6)) {
            (HEAD, true) => {
                let counter = words.tail.counter.wrapping_add(size).wrapping_add(4 + (bits & 0xf_fffc));
                (ControlWord { counter, ..words.head }, Nonsense::Beyond)
            }
            _ => (ControlWord { counter: bits, flags: Flags(self.rng.bits() as u32) }, Nonsense::Unknown),
        };
        let bytes = word.to_bytes(ring.spec().byte_order());
        // SAFETY: the word lies within the ring's memory, which the handle keeps; no other thread is there.
        unsafe { ring.memory().base().add(offset).cast::<[u8; 8]>().write_volatile(bytes) };
        self.excuse(flow, "a program of it wrote nonsense");
        self.books.get_mut(&flow)?.nonsense.get_or_insert((nonsense, place));
        Some((flow, nonsense))
    }

    /// Whether a program of the flow has written nonsense that the switch can detect into one of these rings.
    pub fn is_spoilt(&self, flow: usize, rings: &[(usize, RingInfo)]) -> bool {
        let nonsense = self.books.get(&flow).and_then(|book| book.nonsense);
        nonsense.is_some_and(|(nonsense, place)| {
            let is_it = |(host, ring): &(usize, RingInfo)| {
                (*host, ring.id) == place && ring.state == RingState::Connected
            };
            nonsense == Nonsense::Beyond && rings.iter().any(is_it)
        })
    }

    /// Whether a consumer of the flow has seen its end.
    pub fn has_ended(&self, flow: usize) -> bool {
        self.ended.contains(&flow)
    }

    /// Consumers of a flow that were told that the flow is over, though it may not be.
    pub fn aborted(&self, flow: usize) -> impl Iterator<Item = &str> {
        self.aborted.iter().filter(move |(of, _)| *of == flow).map(|(_, member)| member.as_str())
    }

    /// A program of the flow that has one of its rings.
    pub fn present(&self, flow: usize) -> Option<String> {
        self.handles.iter().find(|h| h.flow == flow).map(|h| format!("{} on h{}", h.member, h.host))
    }

    /// A consumer that has not seen the end of its stream, though all of the flow's producers have ended theirs, and
    /// all items have arrived.
    pub fn unended(&self, flow: usize) -> Option<String> {
        let book = self.books.get(&flow).filter(|book| book.asked.closes && book.paused == 0)?;
        let mut lanes = self.lanes.iter().filter(|l| l.flow == flow && !l.told).peekable();
        lanes.peek()?;
        if lanes.any(|l| !l.closed) || !self.leaving.is_empty() || book.excused.is_some() {
            return None;
        }
        let handles = self.handles.iter().filter(|h| h.flow == flow);
        let mut left = handles.filter(|h| matches!(h.end, End::Pop(..)));
        left.next().map(|h| format!("f{flow}.{} has not seen the end of its stream", h.member))
    }

    /// Takes those of the `named` rings that have no program yet.
    pub fn attach(&mut self, host: usize, agent: &Agent, named: &BTreeSet<&str>) {
        let rings = agent.rings().unwrap_or_default();
        for ring in rings.into_iter().filter(|ring| named.contains(ring.name.as_str())) {
            let (flow, member, to) = parts(&ring.name);
            let is_leaving = to.is_some_and(|to| self.leaving.contains(&(flow, to.to_owned())));
            let known = self.books.contains_key(&flow);
            if ring.state == RingState::Connected
                && known
                && !is_leaving
                && self.taken.insert((host, ring.id))
            {
                self.take(host, agent, &ring, flow, member);
            }
        }
    }

    fn take(&mut self, host: usize, agent: &Agent, ring: &RingInfo, flow: usize, member: &str) {
        let end = if ring.ring.role() == Role::Producer {
            let name = (ring.name.clone(), ring.id);
            let had = self.lanes.iter().position(|l| l.host == host && l.ring == name);
            let lane = had.unwrap_or_else(|| {
                self.lanes.push(Lane {
                    flow,
                    ring: name,
                    host,
                    pushed: 0,
                    closed: false,
                    arrived: 0,
                    seen: BTreeMap::new(),
                    told: false,
                });
                self.lanes.len() - 1
            });
            if self.lanes[lane].closed {
                return;
            }
            let end = agent.attach_producer(&ring.name, Cancel::default());
            if let Err(AgentError::Held(_)) = end {
                self.taken.remove(&(host, ring.id));
            }
            end.map(|p| End::Push(p, lane as u32))
        } else {
            let sink = (host, ring.id);
            let founds = self.books.get_mut(&flow).is_some_and(|book| book.founders.remove(member));
            let fresh = Sink { place: founds.then_some(0), ..Sink::default() };
            if self.sinks.entry(sink).or_insert(fresh).ended {
                return;
            }
            agent.attach_consumer(&ring.name, Cancel::default()).map(|c| End::Pop(c, sink))
        };
        // A ring that came with a consumer of a flow whose producers have ended their streams is closed already.
        let Ok(end) = end else { return };
        self.handles.push(Handle { host, end, flow, member: member.to_owned(), kept: Vec::new() });
    }

    /// Lets every program do a little. Programs that have pushed all items end their streams, where they do.
    pub fn step(&mut self) {
        let mut gone = Vec::new();
        for at in 0..self.handles.len() {
            // Another handle fills the place at once; the other programs are there meanwhile.
            let mut handle = self.handles.swap_remove(at);
            if !self.paused.contains(&handle.host) && !self.work(&mut handle) {
                gone.push(at);
            }
            let last = self.handles.len();
            self.handles.push(handle);
            self.handles.swap(at, last);
        }
        for at in gone.into_iter().rev() {
            let handle = self.handles.swap_remove(at);
            if let End::Push(producer, lane) = handle.end {
                let (lane, flow) = (&mut self.lanes[lane as usize], handle.flow);
                let to = parts(&lane.ring.0).2.unwrap_or("").to_owned();
                if self.leaving.contains(&(flow, to)) {
                    self.taken.remove(&(handle.host, lane.ring.1));
                    producer.detach();
                } else if !lane.told {
                    lane.closed = true;
                    producer.close();
                }
            }
        }
    }

    /// Whether the program still has its ring.
    fn work(&mut self, handle: &mut Handle) -> bool {
        let flow = handle.flow;
        if self.books[&flow].nonsense.is_some() {
            return self.work_in_vain(handle);
        }
        handle.give_back();
        match &mut handle.end {
            End::Push(producer, lane) => self.push(flow, producer, *lane),
            End::Pop(consumer, sink) => self.pop(flow, consumer, *sink, &handle.member, &mut handle.kept),
        }
    }

    /// A step in a flow with nonsense: whatever the program gets, it goes on.
    fn work_in_vain(&mut self, handle: &mut Handle) -> bool {
        match &mut handle.end {
            End::Push(producer, _) => !producer.is_aborted(),
            End::Pop(consumer, sink) => {
                let mut item = vec![0; consumer.spec().item_size() as usize];
                match consumer.try_pop(&mut item) {
                    Ok(()) | Err(PopError::Empty) => true,
                    Err(PopError::Closed) => {
                        self.sinks.entry(*sink).or_default().ended = true;
                        self.ended.insert(handle.flow);
                        false
                    }
                    Err(_) => false,
                }
            }
        }
    }

    fn push(&mut self, flow: usize, producer: &mut Producer, number: u32) -> bool {
        let book = &self.books[&flow];
        let lane = &mut self.lanes[number as usize];
        let mut item = vec![0; book.asked.item_size as usize];
        let to = parts(&lane.ring.0).2.unwrap_or("");
        if self.leaving.contains(&(flow, to.to_owned())) {
            return false;
        }
        let room = u64::from(book.asked.items - lane.pushed.min(book.asked.items));
        let every = if self.hurry { 1 } else { book.asked.every };
        let rests = book.paused > 0 || (every > 1 && self.rng.below(every.into()) > 0);
        let most = if rests { 0 } else { room.min(self.rng.below(AT_ONCE)) };
        for _ in 0..most {
            fill(number, lane.pushed, &mut item);
            match producer.try_push(&item) {
                Ok(()) => lane.pushed += 1,
                Err(PushError::Full) => return true,
                Err(PushError::Aborted(_)) => {
                    lane.told = true;
                    return false;
                }
                Err(wrong) => panic!("ring `{}`: {wrong}", lane.ring.0),
            }
        }
        if producer.is_aborted() {
            lane.told = true;
            return false;
        }
        !(book.asked.closes && lane.pushed == book.asked.items)
    }

    /// Takes some items, or looks at some and leaves them in the ring for now.
    fn pop(
        &mut self,
        flow: usize,
        consumer: &mut Consumer,
        number: (usize, u64),
        member: &str,
        kept: &mut Vec<u8>,
    ) -> bool {
        let most = self.rng.below(AT_ONCE) as usize;
        if most > 0 && self.rng.chance(0.2) {
            match consumer.peek_at_most(most) {
                Ok(view) => {
                    *kept = view.bytes().to_vec();
                    view.keep();
                }
                Err(wrong) => return self.no_item(flow, number, member, &wrong),
            }
            let size = consumer.spec().item_size() as usize;
            kept.chunks_exact(size).for_each(|item| self.popped(flow, number, member, item));
            return true;
        }
        let mut item = vec![0; consumer.spec().item_size() as usize];
        for _ in 0..most {
            if let Err(wrong) = consumer.try_pop(&mut item) {
                return self.no_item(flow, number, member, &wrong);
            }
            self.popped(flow, number, member, &item);
        }
        true
    }

    /// Whether the program stays after this error.
    fn no_item(&mut self, flow: usize, number: (usize, u64), member: &str, why: &PopError) -> bool {
        let sink = self.sinks.entry(number).or_default();
        match why {
            PopError::Empty => return true,
            PopError::Closed => {
                sink.ended = true;
                self.ended.insert(flow);
            }
            PopError::Aborted(_) => {
                sink.told = true;
                self.aborted.insert((flow, member.to_owned()));
            }
            wrong => panic!("f{flow}.{member}: {wrong}"),
        }
        false
    }

    fn popped(&mut self, flow: usize, number: (usize, u64), member: &str, item: &[u8]) {
        let mut expected = vec![0; item.len()];
        let word = |at: usize| u32::from_le_bytes(item[at..at + 4].try_into().expect("4 bytes"));
        let (lane, which) = (word(0), word(4));
        fill(lane, which, &mut expected);
        assert!(item == expected, "f{flow}.{member}: an item is damaged, or none");
        self.arrived(flow, number, member, lane, which);
    }

    fn arrived(&mut self, flow: usize, sink_number: (usize, u64), member: &str, number: u32, which: u32) {
        self.popped += 1;
        let place = format!("f{flow}.{member}");
        let lane =
            self.lanes.get_mut(number as usize).unwrap_or_else(|| panic!("{place}: an item of nobody"));
        assert_eq!(lane.flow, flow, "{place}: an item of another flow");
        assert!(which < lane.pushed, "{place}: item {which} of {:?} was not pushed", lane.ring);
        let book = self.books.get_mut(&flow).expect("a known flow");
        let sink = self.sinks.entry(sink_number).or_default();
        let last = sink.last.insert(number, which);
        assert!(last.is_none_or(|last| last < which), "{place}: {which} behind {last:?} of {:?}", lane.ring);
        match book.asked.kind {
            FlowKind::LoadBalance => {
                match lane.seen.insert(which, member.to_owned()) {
                    // Whether that was told is seen in the end.
                    Some(by) => book.twice.push((number, which, by)),
                    None => lane.arrived += 1,
                }
            }
            FlowKind::Replicate => {
                sink.unplaced.push((number, which));
                self.place(flow, sink_number, &place);
            }
            _ => {
                assert_eq!(parts(&lane.ring.0).2, Some(member), "{place}: an item for another consumer");
                assert_eq!(which, lane.arrived, "{place}: item {which} of {:?} out of turn", lane.ring);
                lane.arrived += 1;
            }
        }
    }

    /// Adds the items that a consumer of a group has got to the one order of the group.
    fn place(&mut self, flow: usize, sink: (usize, u64), place: &str) {
        let others = self.furthest_other(flow, sink);
        let (book, sink) =
            (self.books.get_mut(&flow).expect("a known flow"), self.sinks.entry(sink).or_default());
        let Some(first) = sink.unplaced.first() else { return };
        // The place from which on no other consumer knows the order any more. Those that had got more have died, and so
        // has the switch, before it could bring the items to the others.
        let forgotten = (self.switch_died && book.buried).then(|| others.unwrap_or(0));
        let known = sink.place.or_else(|| book.order.iter().position(|item| item == first));
        // Without others, nobody will ever say.
        let Some(mut at) = known.or_else(|| others.is_none().then_some(book.order.len())) else { return };
        for item in std::mem::take(&mut sink.unplaced) {
            if forgotten.is_some_and(|from| at >= from) && book.order.get(at).is_some_and(|has| *has != item)
            {
                book.reordered = true;
                for (lane, _) in book.order.drain(at..) {
                    self.lanes[lane as usize].arrived -= 1;
                }
            }
            match book.order.get(at) {
                Some(has) => assert_eq!(*has, item, "{place}: two orders"),
                None => {
                    book.order.push(item);
                    self.lanes[item.0 as usize].arrived += 1;
                }
            }
            at += 1;
        }
        sink.place = Some(at);
    }

    /// The furthest place in the flow's order of a consumer other than `sink`, if a consumer knows its place.
    fn furthest_other(&self, flow: usize, sink: (usize, u64)) -> Option<usize> {
        let others = self.handles.iter().filter(|h| h.flow == flow).filter_map(|h| match &h.end {
            End::Pop(_, other) if *other != sink => self.sinks.get(other)?.place,
            _ => None,
        });
        others.max()
    }

    /// Items that were pushed into a flow and have not arrived; `None`: none. Rings that are gone do not count.
    pub fn lacking(&mut self, flow: usize) -> Option<String> {
        let unplaced: Vec<(usize, u64)> = self
            .handles
            .iter()
            .filter(|h| h.flow == flow)
            .filter_map(|h| if let End::Pop(_, sink) = &h.end { Some(*sink) } else { None })
            .collect();
        unplaced.into_iter().for_each(|sink| self.place(flow, sink, &format!("f{flow}")));
        let book = self.books.get(&flow)?;
        let lanes = self.lanes.iter().enumerate().filter(|(_, l)| l.flow == flow && !l.told);
        for (number, lane) in lanes {
            if lane.arrived != lane.pushed {
                let Lane { ring, pushed, arrived, .. } = lane;
                return Some(format!("{arrived} of {pushed} items of {ring:?} have arrived"));
            }
            let goal = book.asked.items;
            if book.paused == 0 && lane.pushed < goal && self.pushes(number) {
                return Some(format!("{} of {goal} items are pushed into {:?}", lane.pushed, lane.ring));
            }
        }
        if book.asked.kind == FlowKind::Replicate {
            let pops = self.handles.iter().filter(|h| h.flow == flow);
            for handle in pops {
                if let End::Pop(_, sink) = &handle.end
                    && let Some(place) = self.sinks.get(sink).and_then(|s| s.place)
                    && place != book.order.len()
                {
                    return Some(format!("{} has {place} of {} items", handle.member, book.order.len()));
                }
            }
        }
        None
    }

    fn pushes(&self, lane: usize) -> bool {
        self.handles.iter().any(|h| matches!(&h.end, End::Push(_, has) if *has as usize == lane))
    }

    /// A program was told that its flow is over, though its ring is there and connected.
    pub fn misled(&self, flow: usize, rings: &[(usize, RingInfo)]) -> Option<String> {
        let told = |(host, ring): &&(usize, RingInfo)| {
            let is = |l: &Lane| l.told && l.host == *host && l.ring.1 == ring.id;
            let is_sink = self.sinks.get(&(*host, ring.id)).is_some_and(|s| s.told);
            ring.state == RingState::Connected
                && parts(&ring.name).0 == flow
                && (is_sink || self.lanes.iter().any(is))
        };
        rings.iter().find(told).map(|(_, ring)| ring.name.clone())
    }

    /// A program that has a ring which is not there any more, and was not told.
    pub fn untold(&self, rings: &[(usize, RingInfo)]) -> Option<String> {
        let there: BTreeSet<(usize, u64)> = rings.iter().map(|(host, ring)| (*host, ring.id)).collect();
        let ring = |handle: &Handle| match &handle.end {
            End::Push(_, lane) => (handle.host, self.lanes[*lane as usize].ring.1),
            End::Pop(_, sink) => *sink,
        };
        let gone = self.handles.iter().find(|handle| !there.contains(&ring(handle)))?;
        Some(format!(
            "the program of f{}.{} on h{} does not know that its ring is gone",
            gone.flow, gone.member, gone.host
        ))
    }

    /// Leaves all rings.
    pub fn leave_all(&mut self) {
        for handle in std::mem::take(&mut self.handles) {
            self.put_back(handle);
        }
    }
}
