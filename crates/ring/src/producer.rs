//! The pushing end of a ring.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::abi::{ByteOrder, ControlWord, Flags, from_raw, to_raw};
use super::doorbell::{Bell, Doorbell};
use super::error::PushError;
use super::region::{Ring, RingStats};
use super::side::{End, Side};
use super::spec::RingSpec;
use super::wait::{Cancel, Deadline, is_over};
use super::words::{Items, Word, copy_item};

/// Pushes items into a ring by plain stores to memory: the items, then `head` with release ordering.
///
/// A ring has at most one producer handle, which may move between threads but is never shared:
///
/// ```compile_fail
/// fn shared<T: Sync>() {}
/// shared::<zsr_ring::Producer>();
/// ```
/// ```compile_fail
/// fn copied<T: Clone>() {}
/// copied::<zsr_ring::Producer>();
/// ```
/// and nothing can be pushed behind the end of the stream:
/// ```compile_fail
/// # use zsr_ring::{Ring, RingSpec};
/// let (mut tx, rx) = Ring::loopback(RingSpec::new(8, 64).unwrap()).unwrap();
/// tx.close();
/// tx.try_push(&[0; 8]);
/// ```
///
/// Dropping a handle that was neither [closed](Self::close) nor [detached](Self::detach) sets ABORTED
/// beside `head`: its program died in the middle, and the other side must not take that for an end.
#[derive(Debug)]
pub struct Producer {
    items: Items,
    own: Word,
    peer: Word,
    /// Bytes pushed, counted on from the `head` found at attachment; `head` is its low half.
    position: u64,
    /// The `head` at which the ring is full as far as known: last `tail` read, plus the ring's size.
    limit: u32,
    item: u32,
    item_mask: u32,
    size: u32,
    mask: u32,
    flags: Flags,
    spec: RingSpec,
    side: Side,
    bell: Bell,
    /// Words are in this host's byte order, and there is no bell to ring.
    plain: bool,
    finished: bool,
}

impl Producer {
    pub(crate) fn new(ring: Arc<Ring>, cancel: Cancel) -> Self {
        let spec = ring.spec();
        let head = from_raw(ring.control.head.load(Ordering::Acquire), spec.byte_order());
        let plain = spec.byte_order() == ByteOrder::NATIVE && ring.control.head.word().is_coherent();
        // Whoever has the memory may have changed it since it was looked at: what goes on from here stays in the ring.
        let head = ControlWord { counter: spec.align_down(head.counter), ..head };
        Self {
            items: ring.items.clone(),
            own: ring.control.head.word().clone(),
            peer: ring.control.tail.word().clone(),
            position: u64::from(head.counter),
            // As if full, so that the first push reads `tail`.
            limit: head.counter,
            item: spec.item_size(),
            item_mask: spec.item_size() - 1,
            size: spec.ring_size(),
            mask: spec.ring_size() - 1,
            flags: head.flags,
            spec,
            side: Side::new(ring, cancel, u64::from(head.counter), |ring| &ring.pushed),
            bell: Bell::default(),
            plain,
            finished: false,
        }
    }

    /// Pushes one item if there is room.
    ///
    /// # Errors
    /// [`PushError::Full`], [`PushError::ItemSize`] unless `item` has exactly the ring's item size,
    /// [`PushError::Aborted`] (noticed when the ring looks full), [`PushError::Corrupt`].
    #[inline(always)]
    pub fn try_push(&mut self, item: &[u8]) -> Result<(), PushError> {
        if item.len() != self.item as usize {
            return Err(PushError::ItemSize { item: self.item, got: item.len() });
        }
        self.room()?;
        // SAFETY: the slot is in bounds, free (between head and tail + size), and `item` is as long.
        unsafe {
            let slot = self.items.write(self.offset(), self.item);
            copy_item(item.as_ptr(), slot, item.len());
        }
        self.publish(self.item);
        Ok(())
    }

    /// Pushes one item, waiting for room as long as it takes.
    ///
    /// # Errors
    /// As [`try_push`](Self::try_push), with [`PushError::Cancelled`] in place of `Full`.
    #[inline]
    pub fn push(&mut self, item: &[u8]) -> Result<(), PushError> {
        match self.try_push(item) {
            Err(PushError::Full) => self.wait_and(Deadline::Never, |ring| ring.try_push(item)),
            done => done,
        }
    }

    /// Pushes one item, waiting for room for at most `time`.
    ///
    /// # Errors
    /// As [`push`](Self::push), and [`PushError::TimedOut`].
    pub fn push_timeout(&mut self, item: &[u8], time: Duration) -> Result<(), PushError> {
        match self.try_push(item) {
            Err(PushError::Full) => self.wait_and(Deadline::after(time), |ring| ring.try_push(item)),
            done => done,
        }
    }

    /// Pushes as many whole items of `data` as there is room for, and says how many. At most two
    /// copies and one store of `head`, however many items.
    ///
    /// # Errors
    /// [`PushError::Full`] when there is no room at all; otherwise as [`try_push`](Self::try_push).
    /// `data` must be a multiple of the item size; empty data is a success of 0 items.
    pub fn try_push_slice(&mut self, data: &[u8]) -> Result<usize, PushError> {
        if !data.len().is_multiple_of(self.item as usize) {
            return Err(PushError::ItemSize { item: self.item, got: data.len() });
        }
        if data.is_empty() {
            return Ok(0);
        }
        let free = self.free_for(u32::try_from(data.len()).unwrap_or(u32::MAX))?;
        // Both are whole items, so is the smaller.
        let bytes = data.len().min(free as usize) as u32;
        let first = bytes.min(self.spec.to_wrap(self.head()));
        let (head, rest) = data.split_at(first as usize);
        // SAFETY: `first` bytes fit before the wrap, the others from the ring's begin; all are free.
        unsafe {
            let slot = self.items.write(self.offset(), first);
            std::ptr::copy_nonoverlapping(head.as_ptr(), slot, head.len());
            if bytes > first {
                let slot = self.items.write(0, bytes - first);
                std::ptr::copy_nonoverlapping(rest.as_ptr(), slot, (bytes - first) as usize);
            }
        }
        self.publish(bytes);
        Ok((bytes >> self.item.trailing_zeros()) as usize)
    }

    /// Pushes all items of `data`, waiting for room as often as needed.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`stats`](Self::stats) then tells how many items went in.
    pub fn push_slice(&mut self, mut data: &[u8]) -> Result<(), PushError> {
        while !data.is_empty() {
            let items = match self.try_push_slice(data) {
                Err(PushError::Full) => self.wait_and(Deadline::Never, |ring| ring.try_push_slice(data))?,
                done => done?,
            };
            data = &data[items * self.item as usize..];
        }
        Ok(())
    }

    /// Claims free items that lie side by side, at most `max_items` and at least one, to be written in
    /// place and then [published](Reservation::publish).
    ///
    /// # Errors
    /// [`PushError::Full`], [`PushError::Aborted`], [`PushError::Corrupt`]. Asking for 0 items is
    /// asking for 1.
    #[inline]
    pub fn reserve(&mut self, max_items: usize) -> Result<Reservation<'_>, PushError> {
        let want = max_items.max(1).saturating_mul(self.item as usize);
        let want = u32::try_from(want).unwrap_or(self.size).min(self.size);
        let free = self.free_for(want)?;
        let bytes = want.min(free).min(self.spec.to_wrap(self.head()));
        // SAFETY: in bounds, and free: only this reservation touches these bytes until it is published.
        let slots = unsafe { self.items.write(self.offset(), bytes) };
        Ok(Reservation { slots, bytes, producer: self })
    }

    /// As [`reserve`](Self::reserve), waiting until at least one item is free.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), with [`PushError::Cancelled`] in place of `Full`.
    pub fn reserve_wait(&mut self, max_items: usize) -> Result<Reservation<'_>, PushError> {
        if self.room() == Err(PushError::Full) {
            self.wait_and(Deadline::Never, Self::room)?;
        }
        self.reserve(max_items)
    }

    /// Waits until at least one item is free, `stop` says that there is something else to do, or `end` is over. `stop` is asked every few
    /// milliseconds, and whenever the ring is [nudged](Ring::nudge).
    ///
    /// # Errors
    /// [`PushError::Cancelled`], [`PushError::Aborted`], [`PushError::Corrupt`].
    pub fn wait_unless(&mut self, stop: impl Fn() -> bool, end: Option<Instant>) -> Result<(), PushError> {
        let attempt = |ring: &mut Self| if stop() { Ok(()) } else { ring.room() };
        match self.room() {
            Err(PushError::Full) if is_over(end) => Ok(()),
            Err(PushError::Full) => match self.wait_and(Deadline::of(end), attempt) {
                Err(PushError::TimedOut) => Ok(()),
                done => done,
            },
            done => done,
        }
    }

    /// Whether the ring was given up, by a fresh look. A push notices only when the ring is full.
    pub fn is_aborted(&self) -> bool {
        let tail = from_raw(self.peer.load(Ordering::Acquire), self.spec.byte_order());
        self.side.is_given_up(tail)
    }

    /// The items that were pushed and not taken yet, oldest first, by a fresh look.
    pub(crate) fn untaken(&self) -> impl Iterator<Item = &[u8]> {
        let tail = from_raw(self.peer.load(Ordering::Acquire), self.spec.byte_order());
        let fill = if self.believable(tail, 0) { self.head().wrapping_sub(tail.counter) } else { 0 };
        (0..fill >> self.item.trailing_zeros()).map(move |n| {
            let offset = tail.counter.wrapping_add(n * self.item) & self.mask;
            // SAFETY: in bounds, and nobody writes what is between tail and head.
            unsafe { std::slice::from_raw_parts(self.items.read(offset, self.item), self.item as usize) }
        })
    }

    /// Ends the stream: CLOSED is set in the store that also repeats the last `head`. Everything pushed
    /// is still delivered.
    pub fn close(mut self) {
        self.flags = self.flags.with(Flags::CLOSED);
        self.publish(0);
        self.finished = true;
    }

    /// Gives the handle up without ending the stream; the ring can be attached again and goes on.
    pub fn detach(mut self) {
        self.finished = true;
    }

    /// Items that could be pushed at once without waiting, by a fresh look at `tail`.
    ///
    /// # Errors
    /// [`PushError::Aborted`], [`PushError::Corrupt`].
    pub fn free_items(&mut self) -> Result<u32, PushError> {
        match self.refresh(self.known_free()) {
            Ok(()) => Ok(self.known_free() >> self.item.trailing_zeros()),
            Err(PushError::Full) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Whether everything pushed has been taken and its slots given back.
    ///
    /// # Errors
    /// [`PushError::Aborted`], [`PushError::Corrupt`].
    pub fn is_drained(&mut self) -> Result<bool, PushError> {
        Ok(self.free_items()? == self.spec.capacity())
    }

    /// Waits until everything pushed has been taken and its slots given back.
    ///
    /// # Errors
    /// [`PushError::Cancelled`], [`PushError::Aborted`], [`PushError::Corrupt`].
    pub fn wait_drained(&mut self) -> Result<(), PushError> {
        if self.is_drained()? {
            return Ok(());
        }
        self.wait_and(Deadline::Never, |ring| if ring.is_drained()? { Ok(()) } else { Err(PushError::Full) })
    }

    /// Has `bell` ring whenever items come into a ring from which the switch has taken all others.
    pub fn set_doorbell(&mut self, bell: Box<dyn Doorbell>) {
        self.bell = Bell(Some(bell));
        self.plain = false;
    }

    /// What was pushed through this handle and those before it.
    pub fn stats(&mut self) -> RingStats {
        self.side.report(self.position);
        self.side.ring.push_stats()
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
    fn head(&self) -> u32 {
        self.position as u32
    }

    #[inline]
    fn offset(&self) -> u32 {
        self.head() & self.mask
    }

    /// Free bytes as far as known without looking.
    #[inline]
    fn known_free(&self) -> u32 {
        self.limit.wrapping_sub(self.head())
    }

    #[inline(always)]
    fn room(&mut self) -> Result<(), PushError> {
        if self.limit == self.head() { self.refresh(0) } else { Ok(()) }
    }

    /// Free bytes; looks at `tail` again only if fewer than `want` are known to be free.
    fn free_for(&mut self, want: u32) -> Result<u32, PushError> {
        if self.known_free() < want {
            self.refresh(self.known_free())?;
        }
        Ok(self.known_free())
    }

    /// Reads `tail`; succeeds when there is room for at least one item.
    ///
    /// `free` is [`known_free`](Self::known_free), which the hottest caller knows to be 0 at compile time.
    #[inline(always)]
    fn refresh(&mut self, free: u32) -> Result<(), PushError> {
        let tail = from_raw(self.peer.load(Ordering::Acquire), self.spec.byte_order());
        let full = self.head().wrapping_sub(tail.counter) == self.size;
        if full || tail.flags.aborted() || !self.believable(tail, free) {
            return Err(self.refused(tail, free));
        }
        self.limit = tail.counter.wrapping_add(self.size);
        Ok(())
    }

    /// `tail` only moves forward, by whole items, and never beyond `head`.
    #[inline(always)]
    fn believable(&self, tail: ControlWord, free: u32) -> bool {
        let fill = self.head().wrapping_sub(tail.counter);
        fill <= self.size - free && fill & self.item_mask == 0
    }

    /// Why there is no room.
    #[cold]
    fn refused(&mut self, tail: ControlWord, free: u32) -> PushError {
        if self.side.is_given_up(tail) {
            return PushError::Aborted(self.side.abort_origin());
        }
        if !self.believable(tail, free) {
            return PushError::Corrupt { head: self.head(), tail: tail.counter };
        }
        self.side.found_nothing(self.position);
        PushError::Full
    }

    /// Makes `bytes` more bytes of items visible.
    #[inline(always)]
    fn publish(&mut self, bytes: u32) {
        self.position += u64::from(bytes);
        if !self.plain {
            return self.publish_and_ring(bytes);
        }
        let word = ControlWord { counter: self.head(), flags: self.flags };
        self.own.store_coherent(to_raw(word, ByteOrder::NATIVE));
    }

    /// As [`publish`](Self::publish) for a ring of foreign byte order, in a device's memory or with a doorbell, which rings when the switch has taken
    /// all there was, and at the end of the stream.
    #[cold]
    fn publish_and_ring(&mut self, bytes: u32) {
        let order = self.spec.byte_order();
        let word = ControlWord { counter: self.head(), flags: self.flags };
        self.own.store(to_raw(word, order), Ordering::Release);
        let Some(bell) = &mut self.bell.0 else { return };
        let tail = from_raw(self.peer.load(Ordering::Acquire), order);
        if tail.counter == word.counter.wrapping_sub(bytes) {
            bell.ring(word.counter, word.flags.0);
        }
    }
}

impl End for Producer {
    type Error = PushError;

    const NOTHING: PushError = PushError::Full;
    const CANCELLED: PushError = PushError::Cancelled;
    const TIMED_OUT: PushError = PushError::TimedOut;

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let tail = from_raw(self.peer.load(Ordering::Acquire), self.spec.byte_order());
        // Who was given up has not given up.
        let is_over = self.side.is_given_up(tail);
        if !self.finished && !is_over {
            self.flags = self.flags.with(Flags::ABORTED);
            self.publish(0);
        }
        self.side.report(self.position);
        self.side.ring.release_producer();
    }
}

/// Free items of a [`Producer`]'s ring, side by side in its memory, to be written in place.
///
/// Dropping it without [`publish`](Self::publish) pushes nothing. What was written stays in memory, and
/// the next reservation begins at the same item.
#[derive(Debug)]
pub struct Reservation<'a> {
    slots: *mut u8,
    bytes: u32,
    producer: &'a mut Producer,
}

impl<'a> Reservation<'a> {
    /// The memory of all reserved items, for as long as the handle is borrowed. Nothing is pushed.
    pub(crate) fn into_bytes(self) -> &'a mut [u8] {
        // SAFETY: as in `bytes`; the handle stays borrowed for `'a`, so nobody can push or reserve meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.slots, self.bytes as usize) }
    }
}

impl Reservation<'_> {
    /// How many items are reserved: at least one.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        (self.bytes >> self.producer.item.trailing_zeros()) as usize
    }

    /// The memory of item `index`, or nothing beyond [`len`](Self::len). It holds whatever was there.
    pub fn item(&mut self, index: usize) -> Option<&mut [u8]> {
        let size = self.producer.item as usize;
        let start = index.checked_mul(size)?;
        self.bytes().get_mut(start..start.checked_add(size)?)
    }

    /// The memory of all reserved items, one after the other.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `bytes` free bytes of the ring, which the borrowed handle keeps alive and which
        // nobody else touches before they are published.
        unsafe { std::slice::from_raw_parts_mut(self.slots, self.bytes as usize) }
    }

    /// Pushes the first `items` of them (all, if there are fewer); the others stay free.
    #[inline]
    pub fn publish(self, items: usize) {
        let bytes = items.saturating_mul(self.producer.item as usize).min(self.bytes as usize);
        self.producer.publish(bytes as u32);
    }
}
