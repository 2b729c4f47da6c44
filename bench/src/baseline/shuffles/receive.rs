//! The receiving side: GETDATA and RELEASE.

use super::endpoint::{Endpoint, For, Owed};
use super::layout::{Header, Layout, State, Word, entry};
use super::send::{FINAL, check};
use super::{Notice, Stream, Way};

impl Endpoint {
    pub(super) fn receive(&mut self) {
        self.counts.polls += 1;
        match self.design.way {
            Way::Send => {
                while let Some(came) = self.queues.came.poll() {
                    self.take(came.connection, came.cookie);
                }
            }
            Way::Datagram => {
                while let Some(came) = self.queues.came.poll() {
                    let header = Header::read(&self.block, self.lay.came(came.cookie));
                    let source = usize::from(header.source);
                    if header.state == State::Credit {
                        let word = self.lay.word(Word::Credit, source, 0);
                        self.block.store(word, header.number.max(self.block.load(word)));
                        self.post_receive(0, came.cookie);
                    } else {
                        self.take(source, came.cookie);
                    }
                }
            }
            Way::Read => (0..self.setup.nodes).for_each(|node| self.read(node)),
            Way::Write(Notice::Completion) => {
                while let Some(came) = self.queues.came.poll() {
                    let buffer = came.immediate.expect("the sender gives a buffer");
                    self.take(came.connection, buffer as u16);
                }
            }
            Way::Write(Notice::Queue) => {
                for node in 0..self.setup.nodes {
                    while let Some(buffer) = self.next_valid(node) {
                        self.take(node, buffer);
                    }
                }
            }
            Way::Write(Notice::Buffer) => {
                for node in 0..self.setup.nodes {
                    self.counts.polled += self.links[node].local.len() as u64;
                    let of = |at: usize, e: &Self| {
                        let buffer = e.links[node].local[at];
                        let seal = e.block.load(e.lay.seal(e.lay.came(buffer)));
                        (seal != 0).then_some((seal, buffer))
                    };
                    let sealed = (0..self.links[node].local.len()).filter_map(|at| of(at, self));
                    let mut sealed: Vec<_> = sealed.collect();
                    sealed.sort_unstable();
                    for (_, buffer) in sealed {
                        self.block.store(self.lay.seal(self.lay.came(buffer)), 0);
                        self.take(node, buffer);
                    }
                }
            }
        }
    }

    /// The next entry of `ValidArr` for a node.
    fn next_valid(&mut self, node: usize) -> Option<u16> {
        self.counts.polled += 1;
        let buffer = self.entry(Word::Valid, node, self.links[node].taken)?;
        self.links[node].taken += 1;
        Some(buffer)
    }

    /// READs what is there, as long as there are buffers for it.
    fn read(&mut self, node: usize) {
        loop {
            let is_there = self.entry(Word::Valid, node, self.links[node].taken).is_some();
            if !is_there || self.links[node].local.is_empty() || !self.may_post(node, For::Data) {
                return;
            }
            let (Some(remote), Some(local)) = (self.next_valid(node), self.links[node].local.pop()) else {
                return;
            };
            self.remote[usize::from(local)] = remote;
            let (from, to) = (self.lay.send(remote), self.lay.came(local));
            self.queues.send[node].read_as(local, from, self.lay.message, to);
        }
    }

    /// Consumes a message, and releases its buffer.
    pub(super) fn take(&mut self, source: usize, buffer: u16) {
        let at = self.lay.came(buffer);
        let header = Header::read(&self.block, at);
        if header.state == State::Empty {
            self.links[source].empties += 1;
            return;
        }
        self.counts.messages += 1;
        self.counts.rows += u64::from(header.rows);
        let mut last = 0;
        for n in 0..header.rows {
            let row = self.lay.row(at, n);
            let (key, second) = (self.block.load(row), self.block.load(row + 8));
            let elsewhere = !self.setup.broadcast && key % self.setup.nodes as u64 != self.node as u64;
            self.counts.strays += u64::from(elsewhere || second != check(key));
            self.counts.keys = self.counts.keys.wrapping_add(key);
            last = key;
        }
        let link = &mut self.links[source];
        link.coming.add(header.number, last);
        if header.state == State::Depleted {
            let hash = self.block.load(self.lay.row(at, header.rows));
            link.total = Some(Stream { messages: header.number, hash });
        }
        self.release(source, buffer);
    }

    fn release(&mut self, source: usize, buffer: u16) {
        let ends = self.links[source].total.is_some();
        match self.design.way {
            Way::Send if ends => self.owed.push_back(Owed::Credit(source)),
            Way::Send => {
                self.post_receive(source, buffer);
                self.grant(source);
            }
            Way::Datagram => {
                self.post_receive(0, buffer);
                self.grant(source);
            }
            Way::Read => {
                self.links[source].local.push(buffer);
                self.owed.push_back(Owed::Free(source, self.remote[usize::from(buffer)]));
            }
            Way::Write(notice) => {
                self.owed.push_back(Owed::Free(source, buffer));
                if notice == Notice::Completion {
                    self.queues.receive[source].post(0, 0, 0);
                    self.grant(source);
                }
            }
        }
    }

    /// One more receive for a node, which is told of some at a time.
    fn grant(&mut self, source: usize) {
        let link = &mut self.links[source];
        link.granted += 1;
        if link.granted - link.told >= self.setup.credit_every {
            link.told = link.granted;
            self.owed.push_back(Owed::Credit(source));
        }
    }

    /// Posts what is owed, as far as that goes.
    pub(super) fn pay(&mut self) {
        while let Some(owed) = self.owed.front().copied() {
            let (node, what) = match owed {
                Owed::Credit(node) => (node, For::Credit),
                Owed::Free(node, _) => (node, For::Free),
            };
            if !self.may_post(node, what) {
                return;
            }
            self.owed.pop_front();
            match owed {
                Owed::Credit(node) => self.tell_credit(node),
                Owed::Free(node, buffer) => {
                    let count = self.links[node].released;
                    let from = self.lay.word(Word::FreeOut, node, count);
                    self.block.store(from, entry(count, buffer));
                    let to = self.lay.word(Word::Free, self.node, count);
                    self.queues.send[node].write(from, 8, to, false);
                    self.links[node].released += 1;
                }
            }
        }
    }

    fn tell_credit(&mut self, node: usize) {
        let ends = self.design.way == Way::Send && self.links[node].total.is_some();
        let credit = self.links[node].granted | if ends { FINAL } else { 0 };
        if self.design.way == Way::Datagram {
            let at = self.short(State::Credit, credit);
            self.queues.send[0].datagram(None, self.queues.to[node], at, Layout::short_len());
            return;
        }
        // Absolute: a word that is read only now says more than it did when it was posted.
        let from = self.lay.word(Word::CreditOut, node, 0);
        self.block.store(from, credit);
        self.queues.send[node].write(from, 8, self.lay.word(Word::Credit, self.node, 0), false);
    }
}
