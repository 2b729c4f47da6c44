//! The popping end of a ring.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::abi::{ControlWord, Flags, from_raw, to_raw};
use super::error::PopError;
use super::region::{Ring, RingStats};
use super::side::{End, Side};
use super::spec::RingSpec;
use super::wait::{Backoff, Cancel, Deadline, WaitEnd, is_over};
use super::wake::Sleeper;
use super::words::{Items, Word, copy_item};

/// Pops items out of a ring by plain loads from memory: `head` with acquire ordering, then the items;
/// then `tail` is stored with release ordering, which gives the slots back.
///
/// A ring has at most one consumer handle, which may move between threads but is never shared:
///
/// ```compile_fail
/// fn shared<T: Sync>() {}
/// shared::<zsr_ring::Consumer>();
/// ```
/// ```compile_fail
/// fn copied<T: Clone>() {}
/// copied::<zsr_ring::Consumer>();
/// ```
/// and a view of items in the ring ends before they are popped:
/// ```compile_fail
/// # use zsr_ring::{Ring, RingSpec};
/// let (tx, mut rx) = Ring::loopback(RingSpec::new(8, 64).unwrap()).unwrap();
/// let view = rx.peek().unwrap();
/// rx.try_pop(&mut [0; 8]);
/// drop(view);
/// ```
///
/// Dropping a handle before it has seen the end of the stream sets ABORTED beside `tail`, so that the
/// flow does not wait for ever for someone who is gone; [`detach`](Self::detach) does not.
#[derive(Debug)]
pub struct Consumer {
    items: Items,
    own: Word,
    peer: Word,
    /// Bytes popped, counted on from the `tail` found at attachment; `tail` is its low half.
    position: u64,
    /// Last `head` read.
    available: u32,
    /// `tail` as last stored for the switch to see; kept up to date only while there is a lag.
    published: u32,
    /// How many bytes may be popped before `tail` is stored.
    lag: u32,
    /// Where the oldest item that was popped and is still read in its place begins, if there is one: `tail` stays there.
    held: u32,
    holds: bool,
    item: u32,
    item_mask: u32,
    size: u32,
    mask: u32,
    flags: Flags,
    spec: RingSpec,
    side: Side,
    finished: bool,
}

impl Consumer {
    pub(crate) fn new(ring: Arc<Ring>, cancel: Cancel) -> Self {
        let spec = ring.spec();
        let tail = from_raw(ring.control.tail.load(Ordering::Acquire), spec.byte_order());
        // Whoever has the memory may have changed it since it was looked at: what goes on from here stays in the ring.
        let tail = ControlWord { counter: spec.align_down(tail.counter), ..tail };
        Self {
            items: ring.items.clone(),
            own: ring.control.tail.word().clone(),
            peer: ring.control.head.word().clone(),
            position: u64::from(tail.counter),
            // As if empty, so that the first pop reads `head`.
            available: tail.counter,
            published: tail.counter,
            lag: 0,
            held: 0,
            holds: false,
            item: spec.item_size(),
            item_mask: spec.item_size() - 1,
            size: spec.ring_size(),
            mask: spec.ring_size() - 1,
            flags: tail.flags,
            spec,
            side: Side::new(ring, cancel, u64::from(tail.counter), |ring| &ring.popped),
            finished: false,
        }
    }

    /// Lets up to `bytes` be popped before `tail` is stored, to write that cache line less often. It is
    /// stored in any case when the ring is found empty and when the handle goes. 0, the default, stores
    /// it with every pop; more than a quarter of the ring is taken as a quarter.
    pub fn set_publish_lag(&mut self, bytes: u32) {
        self.publish();
        self.published = self.tail();
        self.lag = bytes.min(self.size / 4);
    }

    /// Pops one item into `buffer` if there is one.
    ///
    /// # Errors
    /// [`PopError::Empty`], [`PopError::Closed`], [`PopError::Aborted`], [`PopError::ItemSize`] unless
    /// `buffer` has exactly the ring's item size, [`PopError::Corrupt`].
    #[inline(always)]
    pub fn try_pop(&mut self, buffer: &mut [u8]) -> Result<(), PopError> {
        if buffer.len() != self.item as usize {
            return Err(PopError::ItemSize { item: self.item, got: buffer.len() });
        }
        self.some()?;
        // SAFETY: the slot is in bounds, committed (between tail and head), and `buffer` is as long.
        unsafe {
            let slot = self.items.read(self.offset(), self.item);
            copy_item(slot, buffer.as_mut_ptr(), buffer.len());
        }
        self.release(self.item);
        Ok(())
    }

    /// Pops one item, waiting for it as long as it takes.
    ///
    /// # Errors
    /// As [`try_pop`](Self::try_pop), with [`PopError::Cancelled`] in place of `Empty`.
    #[inline]
    pub fn pop(&mut self, buffer: &mut [u8]) -> Result<(), PopError> {
        match self.try_pop(buffer) {
            Err(PopError::Empty) => self.wait_and(Deadline::Never, |ring| ring.try_pop(buffer)),
            done => done,
        }
    }

    /// Pops one item, waiting for it for at most `time`.
    ///
    /// # Errors
    /// As [`pop`](Self::pop), and [`PopError::TimedOut`].
    pub fn pop_timeout(&mut self, buffer: &mut [u8], time: Duration) -> Result<(), PopError> {
        match self.try_pop(buffer) {
            Err(PopError::Empty) => self.wait_and(Deadline::after(time), |ring| ring.try_pop(buffer)),
            done => done,
        }
    }

    /// Pops as many whole items as there are and `buffer` holds, and says how many.
    ///
    /// # Errors
    /// [`PopError::Empty`] when there are none; otherwise as [`try_pop`](Self::try_pop). `buffer` must
    /// be a multiple of the item size; an empty one is a success of 0 items.
    pub fn try_pop_slice(&mut self, buffer: &mut [u8]) -> Result<usize, PopError> {
        if !buffer.len().is_multiple_of(self.item as usize) {
            return Err(PopError::ItemSize { item: self.item, got: buffer.len() });
        }
        if buffer.is_empty() {
            return Ok(0);
        }
        if (self.known() as usize) < buffer.len() {
            self.refresh(self.known())?;
        }
        let bytes = buffer.len().min(self.known() as usize) as u32;
        let first = bytes.min(self.spec.to_wrap(self.tail()));
        let (head, rest) = buffer.split_at_mut(first as usize);
        // SAFETY: `first` bytes lie before the wrap, the others at the ring's begin; all are committed.
        unsafe {
            let slot = self.items.read(self.offset(), first);
            std::ptr::copy_nonoverlapping(slot, head.as_mut_ptr(), head.len());
            if bytes > first {
                let slot = self.items.read(0, bytes - first);
                std::ptr::copy_nonoverlapping(slot, rest.as_mut_ptr(), (bytes - first) as usize);
            }
        }
        self.release(bytes);
        Ok((bytes >> self.item.trailing_zeros()) as usize)
    }

    /// Shows all committed items that lie side by side, in place.
    ///
    /// # Errors
    /// [`PopError::Empty`], [`PopError::Closed`], [`PopError::Aborted`], [`PopError::Corrupt`].
    pub fn peek(&mut self) -> Result<View<'_>, PopError> {
        self.peek_at_most(usize::MAX)
    }

    /// Shows at most `max_items` committed items that lie side by side, in place. Asking for 0 is
    /// asking for 1.
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    #[inline]
    pub fn peek_at_most(&mut self, max_items: usize) -> Result<View<'_>, PopError> {
        let want = max_items.max(1).saturating_mul(self.item as usize);
        let want = u32::try_from(want).unwrap_or(self.size).min(self.spec.to_wrap(self.tail()));
        // Looks also when some are known but not enough: the more at once, the better.
        if self.known() < want {
            self.refresh(self.known())?;
        }
        let bytes = self.known().min(want);
        // SAFETY: in bounds and committed.
        let items = unsafe { self.items.read(self.offset(), bytes) };
        Ok(View { items, bytes, consumer: self })
    }

    /// As [`peek`](Self::peek), waiting until there is at least one item.
    ///
    /// # Errors
    /// As [`peek`](Self::peek), with [`PopError::Cancelled`] in place of `Empty`.
    pub fn wait(&mut self) -> Result<View<'_>, PopError> {
        self.wait_some()?;
        self.peek()
    }

    /// Waits until there is at least one item, without showing it.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_some(&mut self) -> Result<(), PopError> {
        match self.some() {
            Err(PopError::Empty) => self.wait_and(Deadline::Never, Self::some),
            done => done,
        }
    }

    /// Waits until there is at least one item, `stop` says that there is something else to do, or `end` is over. `stop` is asked every few
    /// milliseconds, and whenever the ring is [nudged](Ring::nudge).
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_unless(&mut self, stop: impl Fn() -> bool, end: Option<Instant>) -> Result<(), PopError> {
        let attempt = |ring: &mut Self| if stop() { Ok(()) } else { ring.some() };
        match self.some() {
            Err(PopError::Empty) if is_over(end) => Ok(()),
            Err(PopError::Empty) => match self.wait_and(Deadline::of(end), attempt) {
                Err(PopError::TimedOut) => Ok(()),
                done => done,
            },
            done => done,
        }
    }

    /// As [`wait`](Self::wait), for at most `time`.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`PopError::TimedOut`].
    pub fn wait_timeout(&mut self, time: Duration) -> Result<View<'_>, PopError> {
        if self.some() == Err(PopError::Empty) {
            self.wait_and(Deadline::after(time), Self::some)?;
        }
        self.peek()
    }

    /// Gives back all that is popped in front of the item that was [held](View::hold) as number `first`, which is now the oldest
    /// that is held; without a number, all that is popped.
    pub fn give_back(&mut self, first: Option<u64>) {
        match first {
            None => self.holds = false,
            // What was given back is not taken again.
            Some(first) if self.tail().wrapping_sub(first as u32) < self.tail().wrapping_sub(self.held) => {
                self.held = first as u32;
            }
            Some(_) => {}
        }
        self.publish();
    }

    /// Has `fill` write what a NIC finds in the slot of the oldest item that is [held](View::hold), and gives the slot back. `None`: no item
    /// is held.
    ///
    /// # Errors
    /// What `fill` says; then the item is still held.
    pub fn refill<E>(&mut self, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Option<Result<(), E>> {
        if self.held() == 0 {
            return None;
        }
        let at = self.held & self.mask;
        // SAFETY: in bounds, and nobody else reads or writes the slot before it is given back.
        let filled = fill(unsafe {
            std::slice::from_raw_parts_mut(self.items.write(at, self.item), self.item as usize)
        });
        if filled.is_ok() {
            self.held = self.held.wrapping_add(self.item);
            self.holds = self.held != self.tail();
            self.publish();
        }
        Some(filled)
    }

    /// How many items there are to be popped, also behind the wrap.
    ///
    /// # Errors
    /// As [`peek`](Self::peek); [`PopError::Empty`] when there are none.
    pub fn unread(&mut self) -> Result<usize, PopError> {
        self.refresh(self.known())?;
        Ok((self.known() >> self.item.trailing_zeros()) as usize)
    }

    /// How many items are popped and not given back.
    pub fn held(&self) -> usize {
        (self.tail().wrapping_sub(self.oldest()) >> self.item.trailing_zeros()) as usize
    }

    /// Tells the other side at once that nobody pops any more. Items that are held stay as they are.
    pub fn abort(&mut self) {
        if !self.finished {
            self.finished = true;
            self.flags = self.flags.with(Flags::ABORTED);
            self.publish();
        }
    }

    /// Gives the handle up without a word to the other side; the ring can be attached again. Items that are held stay in it.
    pub fn detach(mut self) {
        self.finished = true;
    }

    /// How many records of the oldest item a program before this one has dealt with, if items hold records.
    pub fn begun(&self) -> u32 {
        self.side.ring.begun.at(self.oldest())
    }

    /// Tells whoever attaches next how many records of the oldest item were dealt with. Popping that item ends it.
    pub fn set_begun(&mut self, records: u32) {
        self.side.ring.begun.set(self.oldest(), records);
    }

    /// What was popped through this handle and those before it.
    pub fn stats(&mut self) -> RingStats {
        self.side.report(self.position);
        self.side.ring.pop_stats()
    }

    /// The ring's shape.
    pub fn spec(&self) -> RingSpec {
        self.spec
    }

    /// The ring this handle is attached to.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.side.ring
    }

    #[inline]
    fn tail(&self) -> u32 {
        self.position as u32
    }

    /// Where `tail` may be: in front of all that is still read.
    #[inline]
    fn oldest(&self) -> u32 {
        if self.holds { self.held } else { self.tail() }
    }

    #[inline]
    fn offset(&self) -> u32 {
        self.tail() & self.mask
    }

    /// Bytes that are there as far as known without looking.
    #[inline]
    fn known(&self) -> u32 {
        self.available.wrapping_sub(self.tail())
    }

    #[inline(always)]
    fn some(&mut self) -> Result<(), PopError> {
        if self.available == self.tail() { self.refresh(0) } else { Ok(()) }
    }

    /// Reads `head`; succeeds when there is at least one item, new or known before.
    ///
    /// `known` is [`known`](Self::known), which the hottest caller knows to be 0 at compile time.
    #[inline(always)]
    fn refresh(&mut self, known: u32) -> Result<(), PopError> {
        let head = from_raw(self.peer.load(Ordering::Acquire), self.spec.byte_order());
        if head.counter == self.tail() || !self.believable(head, known) {
            return Err(self.refused(head, known));
        }
        self.available = head.counter;
        Ok(())
    }

    /// `head` only moves forward, by whole items, and at most one ring ahead of `tail`.
    #[inline(always)]
    fn believable(&self, head: ControlWord, known: u32) -> bool {
        let fill = head.counter.wrapping_sub(self.tail());
        fill >= known && fill <= self.size && fill & self.item_mask == 0
    }

    /// Why there is no item. The flags are looked at only here: what was committed before the end is
    /// delivered first.
    #[cold]
    fn refused(&mut self, head: ControlWord, known: u32) -> PopError {
        if !self.believable(head, known) {
            return PopError::Corrupt { head: head.counter, tail: self.tail() };
        }
        // Whoever waits for items must not keep slots that the other side may be waiting for.
        self.publish();
        if head.flags.closed() {
            self.finished = true;
            return PopError::Closed;
        }
        if self.side.is_given_up(head) {
            return PopError::Aborted(self.side.abort_origin());
        }
        self.side.found_nothing(self.position);
        PopError::Empty
    }

    /// Gives `bytes` bytes of items back.
    #[inline(always)]
    fn release(&mut self, bytes: u32) {
        self.position += u64::from(bytes);
        if self.lag == 0 || self.tail().wrapping_sub(self.published) > self.lag {
            self.publish();
        }
    }

    #[inline(always)]
    fn publish(&mut self) {
        let word = ControlWord { counter: self.oldest(), flags: self.flags };
        if self.lag != 0 {
            self.published = self.tail();
        }
        self.own.store(to_raw(word, self.spec.byte_order()), Ordering::Release);
    }
}

/// Waits until one of `rings` has an item, or something to say other than that it has none, or `stop` says that there is something else to
/// do, or `end` is over. `stop` is asked as by [`Consumer::wait_unless`].
///
/// # Errors
/// [`PopError::Closed`] when all have ended. [`PopError::Cancelled`], by the token of the first that has not.
pub fn wait_for_any(
    rings: &mut [&mut Consumer],
    stop: impl Fn() -> bool,
    end: Option<Instant>,
) -> Result<(), PopError> {
    let mut backoff = Backoff::new(Deadline::of(end));
    // If one has nobody who wakes, all are looked at again and again.
    let places: Option<Vec<Sleeper>> = rings.iter().map(|ring| ring.side.sleeper()).collect();
    let places = places.unwrap_or_default();
    let done = loop {
        let mut cancel = None;
        let something = rings.iter_mut().any(|ring| {
            let looked = ring.unread();
            ring.side.waiting = true;
            match looked {
                Err(PopError::Closed) => false,
                Err(PopError::Empty) => {
                    cancel.get_or_insert_with(|| ring.side.cancel.clone());
                    false
                }
                // Whoever looks at the ring sees what is wrong.
                Ok(_) | Err(_) => true,
            }
        });
        let Some(cancel) = cancel.filter(|_| !something) else {
            break if something { Ok(()) } else { Err(PopError::Closed) };
        };
        if stop() {
            break Ok(());
        }
        match backoff.wait(&cancel, &places) {
            Ok(()) => {}
            Err(WaitEnd::Cancelled) => break Err(PopError::Cancelled),
            Err(WaitEnd::TimedOut) => break Ok(()),
        }
    };
    rings.iter_mut().for_each(|ring| ring.side.waiting = false);
    places.iter().for_each(Sleeper::stay_awake);
    done
}

impl End for Consumer {
    type Error = PopError;

    const NOTHING: PopError = PopError::Empty;
    const CANCELLED: PopError = PopError::Cancelled;
    const TIMED_OUT: PopError = PopError::TimedOut;

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let head = from_raw(self.peer.load(Ordering::Acquire), self.spec.byte_order());
        // Who was given up has not given up.
        let is_over = self.side.is_given_up(head);
        if !self.finished && !is_over {
            self.flags = self.flags.with(Flags::ABORTED);
        }
        self.publish();
        self.side.report(self.position);
        self.side.ring.release_consumer();
    }
}

/// All items of a [`Consumer`]'s ring that lie side by side, in the ring's own memory.
///
/// Items are popped by [`advance`](Self::advance), and those left when the view is dropped are popped
/// then, except by a panic; [`keep`](Self::keep) ends the view and leaves them in the ring.
#[derive(Debug)]
pub struct View<'a> {
    items: *const u8,
    bytes: u32,
    consumer: &'a mut Consumer,
}

impl View<'_> {
    /// How many items the view shows.
    pub fn len(&self) -> usize {
        (self.bytes >> self.consumer.item.trailing_zeros()) as usize
    }

    /// Whether all items of the view were popped by [`advance`](Self::advance).
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// All items, one after the other.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: committed bytes of the ring, which the borrowed handle keeps alive and which nobody
        // writes before they are released.
        unsafe { std::slice::from_raw_parts(self.items, self.bytes as usize) }
    }

    /// The items, oldest first.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, u8> {
        self.bytes().chunks_exact(self.consumer.item as usize)
    }

    /// The ring whose items these are.
    pub(crate) fn ring(&self) -> &Ring {
        &self.consumer.side.ring
    }

    /// Pops the first `items` items (all, if there are fewer); the view goes on with the others.
    pub fn advance(&mut self, items: usize) {
        let bytes = items.saturating_mul(self.consumer.item as usize).min(self.bytes as usize) as u32;
        // SAFETY: at most the view's own length.
        self.items = unsafe { self.items.add(bytes as usize) };
        self.bytes -= bytes;
        self.consumer.release(bytes);
    }

    /// Ends the view; what was not [advanced](Self::advance) over stays in the ring.
    pub fn keep(mut self) {
        self.bytes = 0;
    }

    /// Ends the view: its items are popped, and the next view shows those behind them. They stay as they are in memory, and what is
    /// popped behind them too, until they are [given back](Consumer::give_back). Says by which number.
    pub fn hold(mut self) -> u64 {
        let first = self.consumer.position;
        if !self.consumer.holds {
            (self.consumer.held, self.consumer.holds) = (first as u32, true);
        }
        self.advance(usize::MAX);
        first
    }

    /// As [`hold`](Self::hold), once `change` has written to the items.
    pub(crate) fn hold_as(self, change: impl FnOnce(&mut [u8])) -> u64 {
        // SAFETY: as for `bytes`; until the items are given back nobody else writes there, and the view, which could read them, ends here.
        change(unsafe {
            let at = self.consumer.items.write(self.consumer.offset(), self.bytes);
            std::slice::from_raw_parts_mut(at, self.bytes as usize)
        });
        self.hold()
    }
}

impl<'a> IntoIterator for &'a View<'_> {
    type Item = &'a [u8];
    type IntoIter = std::slice::ChunksExact<'a, u8>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.consumer.release(self.bytes);
        }
    }
}
