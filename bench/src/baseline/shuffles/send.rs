//! The sending side: PUTDATA and ACQUIRE.

use super::endpoint::{Endpoint, For};
use super::layout::{Header, Layout, State, Word, entry};
use super::{Notice, Stream, Way};

/// Of a credit word: the receiver grants no more.
pub(super) const FINAL: u64 = 1 << 63;

/// The second word of a row, by its key.
pub(super) fn check(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995
}

impl Stream {
    /// A message of a stream, by its number and its last key.
    pub(super) fn add(&mut self, number: u64, key: u64) {
        self.messages += 1;
        self.hash = self.hash.wrapping_add(check(number.wrapping_mul(31).wrapping_add(key)));
    }
}

impl Endpoint {
    pub(super) fn send(&mut self) {
        self.acquire();
        for group in 0..self.free.len() {
            while !self.links[group].has_ended
                && let Some(buffer) = self.free[group].pop()
            {
                self.fill(group, buffer);
            }
        }
        let nodes = self.setup.nodes;
        self.turn += 1;
        for node in (self.turn..self.turn + nodes).map(|n| n % nodes) {
            while let Some(buffer) = self.links[node].waiting.front().copied()
                && self.transmit(node, buffer)
            {
                self.links[node].waiting.pop_front();
            }
            self.use_up(node);
        }
    }

    /// Buffers that their destinations are done with are free.
    fn acquire(&mut self) {
        while let Some(done) = self.queues.done.poll() {
            match done.read {
                true => self.take(done.connection, done.cookie),
                false => self.is_done_with(done.cookie),
            }
        }
        if self.design.way == Way::Read {
            for node in 0..self.setup.nodes {
                while let Some(buffer) = self.next_free(node) {
                    self.is_done_with(buffer);
                }
            }
        }
    }

    /// The next entry of `FreeArr` for a node.
    pub(super) fn next_free(&mut self, node: usize) -> Option<u16> {
        let buffer = self.entry(Word::Free, node, self.links[node].freed)?;
        self.links[node].freed += 1;
        Some(buffer)
    }

    fn is_done_with(&mut self, buffer: u16) {
        let left = &mut self.left[usize::from(buffer)];
        *left -= 1;
        if *left == 0 {
            let groups = self.free.len();
            self.free[usize::from(buffer) % groups].push(buffer);
        }
    }

    /// The n-th row's key for a group.
    fn key(&self, group: usize, n: u64) -> u64 {
        let endpoints = (self.setup.nodes * self.setup.endpoints(self.design)) as u64;
        let row = n * endpoints + self.number as u64;
        if self.setup.broadcast { row } else { row * self.setup.nodes as u64 + group as u64 }
    }

    /// Fills a buffer with rows, and has it sent.
    fn fill(&mut self, group: usize, buffer: u16) {
        let left = self.setup.rows.map_or(u64::MAX, |rows| rows - self.made[group]);
        let rows = left.min(self.lay.rows().into()) as u32;
        let at = self.lay.send(buffer);
        let ends = rows < self.lay.rows();
        let mut key = 0;
        for n in 0..rows {
            key = self.key(group, self.made[group] + u64::from(n));
            let row = self.lay.row(at, n);
            self.block.store(row, key);
            self.block.store(row + 8, check(key));
        }
        self.made[group] += u64::from(rows);
        let to = if self.setup.broadcast { 0..self.setup.nodes } else { group..group + 1 };
        self.left[usize::from(buffer)] = to.len();
        // All destinations of a group get the same messages.
        let number = self.links[to.start].sending.messages + 1;
        for node in to {
            let link = &mut self.links[node];
            link.sending.add(number, key);
            link.waiting.push_back(buffer);
            link.has_ended = ends;
            if ends {
                // The total stands where one more row would.
                let row = self.lay.row(at, rows);
                self.block.store(row, link.sending.hash);
            }
        }
        let state = if ends { State::Depleted } else { State::More };
        Header { state, source: self.node as u16, rows, number }.write(&self.block, at);
        self.block.store(self.lay.seal(at), number);
    }

    /// Credit that a node gives.
    fn credit(&self, node: usize) -> u64 {
        let word = self.block.load(self.lay.word(Word::Credit, node, 0)) & !FINAL;
        word.max(self.lay.first_credit())
    }

    /// All receives that a node has ever posted for this endpoint, once it posts no more.
    pub(super) fn granted_by(&self, node: usize) -> Option<u64> {
        let word = self.block.load(self.lay.word(Word::Credit, node, 0));
        (word & FINAL != 0).then_some(word & !FINAL)
    }

    /// PUTDATA for one destination. `false`: it has to wait.
    fn transmit(&mut self, node: usize, buffer: u16) -> bool {
        let (from, len) = (self.lay.send(buffer), self.lay.message);
        let has_credit = self.links[node].sent < self.credit(node);
        match self.design.way {
            Way::Send | Way::Datagram => {
                if !has_credit || !self.may_post(node, For::Data) {
                    return false;
                }
                match self.queues.to.get(node) {
                    Some(to) => self.queues.send[0].datagram(Some(buffer), *to, from, len),
                    None => self.queues.send[node].send(Some(buffer), from, len),
                }
            }
            Way::Read => {
                if !self.may_post(node, For::Valid) {
                    return false;
                }
                self.validate(node, buffer);
            }
            Way::Write(notice) => {
                while let Some(free) = self.next_free(node) {
                    self.links[node].room.push_back(free);
                }
                let Some(there) = self.links[node].room.front().copied() else { return false };
                let lacks_credit = notice == Notice::Completion && !has_credit;
                let queued = notice == Notice::Queue;
                if lacks_credit || (queued && !self.queues.send[node].has_room(2)) {
                    return false;
                }
                if !self.may_post(node, For::Data) {
                    return false;
                }
                self.links[node].room.pop_front();
                let immediate = (notice == Notice::Completion).then_some(u32::from(there));
                let to = self.lay.came(there);
                self.queues.send[node].write_as(buffer, immediate, from, len, to);
                if queued {
                    // The second request of one post.
                    self.counts.requests[For::Valid as usize] += 1;
                    self.validate(node, there);
                }
            }
        }
        self.links[node].sent += 1;
        true
    }

    /// WRITEs a buffer's number into a node's `ValidArr`.
    fn validate(&mut self, node: usize, buffer: u16) {
        let count = self.links[node].validated;
        let from = self.lay.word(Word::ValidOut, node, count);
        self.block.store(from, entry(count, buffer));
        self.queues.send[node].write(from, 8, self.lay.word(Word::Valid, self.node, count), false);
        self.links[node].validated += 1;
    }

    /// After the last message over a connection, empty SENDs use up the receives that are left.
    fn use_up(&mut self, node: usize) {
        let link = &self.links[node];
        if self.design.way != Way::Send || !link.has_ended || !link.waiting.is_empty() {
            return;
        }
        while self.granted_by(node).is_some_and(|all| self.links[node].sent < all)
            && self.may_post(node, For::Data)
        {
            let at = self.short(State::Empty, 0);
            self.queues.send[node].send(None, at, Layout::short_len());
            self.links[node].sent += 1;
        }
    }

    /// A message without rows; gives where it is.
    pub(super) fn short(&mut self, state: State, number: u64) -> usize {
        let at = self.lay.short(self.shorts);
        self.shorts += 1;
        Header { state, source: self.node as u16, rows: 0, number }.write(&self.block, at);
        at
    }
}
