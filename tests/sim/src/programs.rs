//! The programs at the rings: what they push, what they pop, and whether that is what the guarantees say.

use std::collections::{BTreeMap, BTreeSet};

use zsr_api::controller::FlowKind;
use zsr_host_agent::agent::{Agent, RingInfo, RingState};
use zsr_link::Rng;
use zsr_ring::{Cancel, Consumer, PopError, Producer, PushError, Role};

use crate::schedule::NewFlow;

/// Most items that a program pushes or pops at one time.
const AT_ONCE: u64 = 8;

/// What one producer ring was given, and what of it has arrived.
#[derive(Debug)]
struct Lane {
    flow: usize,
    /// The ring's name, and its number on its agent.
    ring: (String, u64),
    host: usize,
    pushed: u32,
    closed: bool,
    /// What programs have popped of it: of a load balance, by item.
    arrived: u32,
    seen: BTreeSet<u32>,
    /// It was given up, and its program was told so.
    told: bool,
}

/// What the consumers of a flow have got.
#[derive(Debug)]
struct Book {
    asked: NewFlow,
    /// Of a replicate: all items in the order of the first consumer that popped them.
    order: Vec<(u32, u32)>,
    /// Of a replicate: consumers from the beginning that no program has come to yet.
    founders: BTreeSet<String>,
    /// Nothing is pushed for now: somebody wants to end it.
    paused: bool,
    /// Why items of this flow may be missing.
    excused: Option<String>,
}

/// A consumer ring: how far its programs are.
#[derive(Debug, Default)]
struct Sink {
    /// Of a replicate: its next item's place in the order, once that is known; until then, what it has got. Who has joined a group does
    /// not know where.
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
}

/// All programs, and what they know.
pub struct Programs {
    rng: Rng,
    books: BTreeMap<usize, Book>,
    lanes: Vec<Lane>,
    sinks: BTreeMap<(usize, u64), Sink>,
    handles: Vec<Handle>,
    /// Rings, by host and number, that some program has or has had to its end.
    taken: BTreeSet<(usize, u64)>,
    paused: BTreeSet<usize>,
    leaving: BTreeSet<(usize, String)>,
    /// Items popped.
    pub popped: u64,
}

/// Flow and members that a ring's name says.
fn parts(ring: &str) -> (usize, &str, Option<&str>) {
    let mut parts = ring.split('.');
    let flow = parts.next().and_then(|f| f[1..].parse().ok()).unwrap_or(usize::MAX);
    (flow, parts.next().unwrap_or(""), parts.next())
}

/// An item says which it is, and shows damage.
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
            leaving: BTreeSet::new(),
            popped: 0,
        }
    }

    /// Somebody has asked for a flow.
    pub fn know(&mut self, flow: &NewFlow) {
        let founders = flow.consumers.iter().map(|host| format!("c{host}")).collect();
        let book = Book { asked: flow.clone(), order: Vec::new(), founders, paused: false, excused: None };
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

    /// Whether anything is pushed into a flow.
    pub fn pause_flow(&mut self, flow: usize, paused: bool) {
        if let Some(book) = self.books.get_mut(&flow) {
            book.paused = paused;
        }
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

    /// A host has died, and its programs with it. Whatever flow had a member there may have lost items.
    pub fn bury(&mut self, host: usize) {
        let flows: BTreeSet<usize> = self.handles.iter().filter(|h| h.host == host).map(|h| h.flow).collect();
        let members =
            |book: &Book| book.asked.producers.contains(&host) || book.asked.consumers.contains(&host);
        let had = self.books.iter().filter(|(_, b)| members(b)).map(|(f, _)| *f).collect::<Vec<_>>();
        for flow in flows.into_iter().chain(had) {
            self.excuse(flow, "a host of it died");
        }
        self.handles.retain(|h| h.host != host);
        self.taken.retain(|(h, _)| *h != host);
        self.sinks.retain(|(h, _), _| *h != host);
        // Its next agent counts its rings from 1 again.
        self.lanes.iter_mut().filter(|l| l.host == host).for_each(|l| l.host = usize::MAX);
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

    fn put_back(&mut self, handle: Handle) {
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

    /// Takes rings that have no program yet.
    pub fn attach(&mut self, host: usize, agent: &Agent) {
        for ring in agent.rings().unwrap_or_default() {
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
                    seen: BTreeSet::new(),
                    told: false,
                });
                self.lanes.len() - 1
            });
            if self.lanes[lane].closed {
                return;
            }
            agent.attach_producer(&ring.name, Cancel::default()).map(|p| End::Push(p, lane as u32))
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
        self.handles.push(Handle { host, end, flow, member: member.to_owned() });
    }

    /// Every program does a little. Those that have pushed everything end their streams, where they do.
    pub fn step(&mut self) {
        let mut gone = Vec::new();
        for at in 0..self.handles.len() {
            // Its place is filled again at once; the others are there meanwhile.
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
        match &mut handle.end {
            End::Push(producer, lane) => self.push(flow, producer, *lane),
            End::Pop(consumer, sink) => self.pop(flow, consumer, *sink, &handle.member),
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
        let most = if book.paused { 0 } else { room.min(self.rng.below(AT_ONCE)) };
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

    fn pop(&mut self, flow: usize, consumer: &mut Consumer, number: (usize, u64), member: &str) -> bool {
        let size = self.books[&flow].asked.item_size as usize;
        let (mut item, mut expected) = (vec![0; size], vec![0; size]);
        for _ in 0..self.rng.below(AT_ONCE) {
            match consumer.try_pop(&mut item) {
                Ok(()) => {}
                Err(PopError::Empty) => return true,
                Err(PopError::Closed) => {
                    self.sinks.entry(number).or_default().ended = true;
                    return false;
                }
                Err(PopError::Aborted(_)) => {
                    self.sinks.entry(number).or_default().told = true;
                    return false;
                }
                Err(wrong) => panic!("f{flow}.{member}: {wrong}"),
            }
            let word = |at: usize| u32::from_le_bytes(item[at..at + 4].try_into().expect("4 bytes"));
            let (lane, which) = (word(0), word(4));
            fill(lane, which, &mut expected);
            assert!(item == expected, "f{flow}.{member}: an item is damaged, or none");
            self.arrived(flow, number, member, lane, which);
        }
        true
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
                assert!(lane.seen.insert(which), "{place}: item {which} of {:?} twice", lane.ring);
                lane.arrived += 1;
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

    /// Puts what a consumer of a group has got into the one order, which is that of the others.
    fn place(&mut self, flow: usize, sink: (usize, u64), place: &str) {
        let others = self.handles_of_order(flow, sink);
        let (book, sink) =
            (self.books.get_mut(&flow).expect("a known flow"), self.sinks.entry(sink).or_default());
        let Some(first) = sink.unplaced.first() else { return };
        let known = sink.place.or_else(|| book.order.iter().position(|item| item == first));
        // Without others, nobody will ever say.
        let Some(mut at) = known.or_else(|| (!others).then_some(book.order.len())) else { return };
        for item in std::mem::take(&mut sink.unplaced) {
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

    /// Whether a consumer of the flow other than `sink` knows its place in the order.
    fn handles_of_order(&self, flow: usize, sink: (usize, u64)) -> bool {
        self.handles.iter().filter(|h| h.flow == flow).any(|h| match &h.end {
            End::Pop(_, other) => *other != sink && self.sinks.get(other).is_some_and(|s| s.place.is_some()),
            End::Push(..) => false,
        })
    }

    /// What has been pushed into a flow, and has not arrived; `None`: nothing. Rings that are not there any more do not count.
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
            if !book.paused && lane.pushed < goal && self.pushes(number) {
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

    /// Leaves all rings.
    pub fn leave_all(&mut self) {
        for handle in std::mem::take(&mut self.handles) {
            self.put_back(handle);
        }
    }
}
