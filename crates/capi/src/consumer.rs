//! The popping end of a flow.

use std::ffi::{c_char, c_void};

use zsr::{FlowConsumer, HeldBatch, Popped, Urgent, Wait, most_urgent};

use crate::attach::{read, zsr_options};
use crate::batch::{Records, zsr_batch};
use crate::columns::{Described, zsr_column};
use crate::fault::{Fault, call, invalid};
use crate::handle::{Handle, check, end, fits, put, text, wait, with};
use crate::status::zsr_status::{self, *};

/// The popping side of one member of a flow.
pub struct zsr_consumer(Handle<Popping>);

pub(crate) struct Popping {
    flow: FlowConsumer,
    described: Described,
    /// What is left of the batch that was peeked, which lies in the ring in front of all others.
    peeked: Option<Records>,
    /// Batches that were taken, by their numbers.
    taken: Vec<(u64, HeldBatch)>,
    next: u64,
}

impl Popping {
    /// The batch that was peeked, or the next one.
    pub(crate) fn peek(&mut self, wait: Wait) -> Result<Result<&mut Records, zsr_status>, Fault> {
        while self.peeked.is_none() {
            let popped = match wait {
                Wait::No => self.flow.try_pop()?,
                Wait::For(time) => self.flow.pop_timeout(time)?,
                Wait::Forever => self.flow.pop()?.map_or(Popped::End, Popped::Batch),
            };
            match popped {
                Popped::Batch(batch) if batch.is_empty() => {}
                Popped::Batch(batch) => {
                    let (bytes, size) = batch.as_they_lie();
                    self.peeked = Some(Records::new(bytes, size, batch.len()));
                    batch.keep(0);
                }
                Popped::Nothing => return Ok(Err(ZSR_AGAIN)),
                Popped::End => return Ok(Err(ZSR_END)),
            }
        }
        Ok(self.peeked.as_mut().ok_or(ZSR_AGAIN))
    }

    /// Gives back what of the peeked batch is done with, all of it if `all`.
    fn settle(&mut self, all: bool) -> Result<(), Fault> {
        let Some(records) = self.peeked.take() else { return Ok(()) };
        // It is there: it was kept.
        if let Popped::Batch(batch) = self.flow.try_pop()? {
            if all { drop(batch) } else { batch.keep(records.done()) }
        }
        Ok(())
    }
}

/// A call with a handle.
///
/// # Safety
/// `consumer` is null, or came from an attach and was not ended.
pub(crate) unsafe fn within(
    consumer: *const zsr_consumer,
    work: impl FnOnce(&mut Popping) -> Result<zsr_status, Fault>,
) -> zsr_status {
    // SAFETY: null, or a handle that was not ended, by contract.
    with(unsafe { consumer.as_ref() }.map(|consumer| &consumer.0), work)
}

/// The last call with a handle, which takes it.
///
/// # Safety
/// `consumer` is null, or came from an attach and was not ended.
unsafe fn ended(
    consumer: *mut zsr_consumer,
    work: impl FnOnce(Popping) -> Result<zsr_status, Fault>,
) -> zsr_status {
    // SAFETY: by contract.
    unsafe { end(consumer, |c| &c.0, |c| c.0, work) }
}

/// Takes the ring of a consumer of `flow`.
///
/// Ownership: `*consumer` is the caller's, until zsr_consumer_leave() or zsr_consumer_abort(). `flow` and `options`, which may be
/// NULL, stay the caller's.
/// Blocks: until controller and agent have answered, for at most 20 s.
/// Threads: any.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
/// (another program is there), ZSR_ERROR_SCHEMA. `*consumer` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_attach(
    flow: *const c_char,
    options: *const zsr_options,
    consumer: *mut *mut zsr_consumer,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: room for a pointer, a text, options.
        let (flow, attach) = unsafe {
            put(consumer, "consumer", std::ptr::null_mut())?;
            (text(flow, "flow")?, read(options)?)
        };
        let flow = flow.ok_or_else(|| invalid("flow is null"))?;
        let flow = FlowConsumer::attach(attach.contact, flow, &attach.options)?;
        let described = Described::new(flow.member(), flow.schema());
        let popping = Popping { flow, described, peeked: None, taken: Vec::new(), next: 1 };
        let attached = Box::new(zsr_consumer(Handle::new(popping)));
        // SAFETY: as above.
        unsafe { put(consumer, "consumer", Box::into_raw(attached)) }?;
        Ok(ZSR_OK)
    })
}

/// The member that it is.
///
/// Ownership: `*member` is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_member(
    consumer: *const zsr_consumer,
    member: *mut *const c_char,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer.
    unsafe { within(consumer, |c| put(member, "member", c.described.member.as_ptr()).map(|()| ZSR_OK)) }
}

/// What the flow's records are, as `id: u64, price: f64`; an empty text if the flow does not say.
///
/// Ownership: `*schema` is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_schema(
    consumer: *const zsr_consumer,
    schema: *mut *const c_char,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer.
    unsafe { within(consumer, |c| put(schema, "schema", c.described.schema.as_ptr()).map(|()| ZSR_OK)) }
}

/// The columns of the flow's schema, in order; none if the flow has no schema.
///
/// Ownership: `*columns` and all in it is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_columns(
    consumer: *const zsr_consumer,
    columns: *mut *const zsr_column,
    count: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer and a number.
    unsafe { within(consumer, |c| c.described.put_columns(columns, count)) }
}

/// Pops one record into `buffer`, which has `capacity` bytes; the record has `*length`.
///
/// Ownership: the record is copied; all arguments stay the caller's.
/// Blocks: until there is a record, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_AGAIN when none came in time, ZSR_END at the end of the stream; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_SIZE (it
/// has `*length` bytes, more than `capacity`, and stays in the ring), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_pop(
    consumer: *mut zsr_consumer,
    buffer: *mut c_void,
    capacity: usize,
    timeout_us: i64,
    length: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, so much memory, and room for a number.
    unsafe {
        within(consumer, |c| {
            put(length, "length", 0)?;
            if capacity > 0 {
                check(buffer.cast::<u8>(), "buffer")?;
            }
            let records = match c.peek(wait(timeout_us))? {
                Ok(records) => records,
                Err(status) => return Ok(status),
            };
            let Some((begin, bytes)) = records.first() else { return c.damaged() };
            put(length, "length", bytes)?;
            if bytes > capacity {
                let text = format!(
                    "the next record has {bytes} B, and the buffer {capacity} B: it stays in the ring"
                );
                return Err(Fault { status: ZSR_ERROR_SIZE, text });
            }
            std::ptr::copy_nonoverlapping(begin, buffer.cast(), bytes);
            c.release(1)?;
            Ok(ZSR_OK)
        })
    }
}

/// Pops up to `count` records of a flow whose records have a size (of the producer's zsr_options.record_size, or the schema's) into
/// `records`, side by side; `*popped` of them came.
///
/// Ownership: the records are copied; all arguments stay the caller's.
/// Blocks: until there is at least one record, as zsr_consumer_pop(). Takes what is there then.
/// Threads: any, one call with a handle at a time.
/// Errors: as zsr_consumer_pop(); ZSR_ERROR_SIZE also if records do not have `record_size` bytes each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_pop_rows(
    consumer: *mut zsr_consumer,
    records: *mut c_void,
    record_size: usize,
    count: usize,
    timeout_us: i64,
    popped: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, so much memory, and room for a number.
    unsafe {
        within(consumer, |c| {
            put(popped, "popped", 0)?;
            let records = records.cast::<u8>();
            check(records, "records")?;
            if count == 0 {
                return Err(invalid("count is 0"));
            }
            let (mut done, mut wait) = (0, wait(timeout_us));
            while done < count {
                let batch = match c.peek(wait) {
                    Ok(Ok(batch)) => batch,
                    Ok(Err(_)) | Err(_) if done > 0 => break,
                    Ok(Err(status)) => return Ok(status),
                    Err(fault) => return Err(fault),
                };
                let Some((begin, size)) = batch.side_by_side().filter(|(_, size)| *size == record_size)
                else {
                    if done > 0 {
                        break;
                    }
                    let text = format!(
                        "the next record is not one of {record_size} B among others: pop it with zsr_consumer_pop()"
                    );
                    return Err(Fault { status: ZSR_ERROR_SIZE, text });
                };
                let now = batch.left().min(count - done);
                std::ptr::copy_nonoverlapping(begin, records.add(done * size), now * size);
                c.release(now)?;
                done += now;
                put(popped, "popped", done)?;
                wait = Wait::No;
            }
            Ok(ZSR_OK)
        })
    }
}

/// Shows the next records where they lie in the ring, as many as came together. They stay there: the same ones are shown again
/// until zsr_consumer_release().
///
/// Ownership: `batch` is the caller's, and `batch->size` has to be sizeof(zsr_batch) (ZSR_BATCH_INIT). `batch->data` is the
/// ring's, and may be read until the records are released or the handle ends.
/// Blocks: as zsr_consumer_pop().
/// Threads: any, one call with a handle at a time; the records may be read by any threads.
/// Errors: as zsr_consumer_pop(); ZSR_ERROR_ABI if `batch->size` is wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_peek(
    consumer: *mut zsr_consumer,
    timeout_us: i64,
    batch: *mut zsr_batch,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and a batch.
    unsafe {
        within(consumer, |c| {
            zsr_batch::check(batch)?;
            let records = match c.peek(wait(timeout_us))? {
                Ok(records) => records,
                Err(status) => return Ok(status),
            };
            put(batch, "batch", records.batch(0))?;
            Ok(ZSR_OK)
        })
    }
}

/// Pops the first `records` of the records that zsr_consumer_peek() has shown (ZSR_ALL: all of them), whose memory may be
/// overwritten from then on.
///
/// Ownership: what is released is no longer the caller's to read.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID (nothing is peeked), ZSR_ERROR_BUSY, ZSR_ERROR_DAMAGED (some of the records could not be read; all
/// are popped).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_release(consumer: *mut zsr_consumer, records: usize) -> zsr_status {
    // SAFETY: the caller's promise: a handle.
    unsafe {
        within(consumer, |c| {
            if c.peeked.is_none() {
                return Err(invalid("no batch is peeked: zsr_consumer_peek() comes first"));
            }
            c.release(records)?;
            Ok(ZSR_OK)
        })
    }
}

/// Pops the next records, as many as came together, and leaves them where they lie in the ring. Others can be popped before they
/// are given back, in any order, with zsr_consumer_give_back().
///
/// Ownership: `batch` is the caller's, and `batch->size` has to be sizeof(zsr_batch) (ZSR_BATCH_INIT). `batch->data` is the
/// ring's, and may be read until the batch is given back or the handle ends.
/// Blocks: as zsr_consumer_pop(). The ring has room for more when batches are given back.
/// Threads: any, one call with a handle at a time; the records may be read by any threads.
/// Errors: as zsr_consumer_peek(); ZSR_ERROR_INVALID when the whole ring is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_take(
    consumer: *mut zsr_consumer,
    timeout_us: i64,
    batch: *mut zsr_batch,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and a batch.
    unsafe {
        within(consumer, |c| {
            zsr_batch::check(batch)?;
            if let Err(status) = c.peek(wait(timeout_us))? {
                return Ok(status);
            }
            c.settle(false)?;
            // It is there: it was kept.
            let Popped::Batch(popped) = c.flow.try_pop()? else { return Ok(ZSR_AGAIN) };
            let held = popped.hold();
            c.hand_out(held, batch)
        })
    }
}

/// Pops all that is there, and gives the newest records as zsr_consumer_take() does: those that came together last. Older ones, also of
/// a batch that was peeked, are popped unread. For who wants to know what is so now, such as a price: the ring never fills, however late
/// a program looks. The last record of the batch is the newest; of several producers, the one that came last, whoever pushed it.
///
/// Ownership: as zsr_consumer_take().
/// Blocks: as zsr_consumer_pop().
/// Threads: any, one call with a handle at a time; the records may be read by any threads.
/// Errors: as zsr_consumer_take().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_take_newest(
    consumer: *mut zsr_consumer,
    timeout_us: i64,
    batch: *mut zsr_batch,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and a batch.
    unsafe {
        within(consumer, |c| {
            zsr_batch::check(batch)?;
            c.settle(false)?;
            match c.newest(wait(timeout_us))? {
                Ok(held) => c.hand_out(held, batch),
                Err(status) => Ok(status),
            }
        })
    }
}

/// Gives back the memory of a batch that was taken.
///
/// Ownership: `batch` stays the caller's, its `data` is no longer the caller's to read.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID (it is not one that this handle has taken, or was given back), ZSR_ERROR_ABI, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_give_back(
    consumer: *mut zsr_consumer,
    batch: *const zsr_batch,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and a batch.
    unsafe {
        within(consumer, |c| {
            let number = zsr_batch::check(batch)?.taken;
            let Some(at) = c.taken.iter().position(|(taken, _)| *taken == number) else {
                return Err(invalid("batch is not one that this handle has taken and not given back"));
            };
            let (_, held) = c.taken.swap_remove(at);
            c.flow.give_back(&held);
            Ok(ZSR_OK)
        })
    }
}

/// Waits until one of several consumers, of which the first is the most urgent, has records: `*urgent` is the place in `consumers`, from 0,
/// of the first that has. Nothing is popped: any call with that consumer does it, and does not wait. A consumer whose stream has ended
/// is passed over.
///
/// Ownership: `consumers`, of which there are `count`, stay the caller's, as do the handles.
/// Blocks: until one has records, as zsr_consumer_pop(). It ends with the cancel of the first whose stream has not ended.
/// Threads: any, one call with each of the handles at a time.
/// Errors: ZSR_AGAIN when none had a record in time, ZSR_END when all streams have ended; ZSR_ERROR_INVALID (also if `count` is 0). Of an
/// error of one consumer, `*urgent` is its place: ZSR_ERROR_BUSY (also if it is there twice), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED (leave
/// it out of the next call), ZSR_ERROR_DAMAGED; and ZSR_ERROR_INVALID when its whole ring is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_most_urgent(
    consumers: *const *mut zsr_consumer,
    count: usize,
    timeout_us: i64,
    urgent: *mut usize,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: room for a number, so many pointers, and handles that were not ended.
        unsafe {
            put(urgent, "urgent", 0)?;
            if count == 0 {
                return Err(invalid("count is 0"));
            }
            check(consumers, "consumers")?;
            fits(count.saturating_mul(size_of::<*mut zsr_consumer>()), "consumers")?;
            let consumers = std::slice::from_raw_parts(consumers, count);
            let (mut entered, mut flows) = (Vec::with_capacity(count), Vec::with_capacity(count));
            for (at, consumer) in consumers.iter().enumerate() {
                put(urgent, "urgent", at)?;
                let mut one = consumer
                    .as_ref()
                    .ok_or_else(|| invalid(format!("consumers[{at}] is null")))?
                    .0
                    .enter()?;
                flows.push(Some(&mut one.inside().flow));
                entered.push(one);
            }
            match most_urgent(&mut flows, wait(timeout_us).at_most()) {
                Ok(Urgent::At(at)) => put(urgent, "urgent", at).map(|()| ZSR_OK),
                Ok(Urgent::Nothing) => Ok(ZSR_AGAIN),
                Ok(Urgent::End) => Ok(ZSR_END),
                Err((at, why)) => put(urgent, "urgent", at).and(Err(why.into())),
            }
        }
    })
}

/// Leaves. Records that are not popped are for the next program at this member, and so are those of batches that were taken and not
/// given back.
///
/// Ownership: takes the handle, other than with ZSR_ERROR_BUSY. No batch of it may be read any more.
/// Blocks: until the agent has the ring back, for at most 1 s.
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_leave(consumer: *mut zsr_consumer) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe {
        ended(consumer, |mut c| {
            // What can't be said any more is popped again by the next program.
            let _ = c.settle(false);
            c.flow.leave();
            Ok(ZSR_OK)
        })
    }
}

/// Gives up: before the end of the stream, the flow does what its policy says when a program dies.
///
/// Ownership: takes the handle, other than with ZSR_ERROR_BUSY. No batch of it may be read any more.
/// Blocks: as zsr_consumer_leave().
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_abort(consumer: *mut zsr_consumer) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe {
        ended(consumer, |c| {
            drop(c);
            Ok(ZSR_OK)
        })
    }
}

impl Popping {
    /// Pops the first `count` of what is peeked.
    pub(crate) fn release(&mut self, count: usize) -> Result<(), Fault> {
        let Some(records) = &mut self.peeked else { return Ok(()) };
        if count >= records.left() {
            return self.settle(true);
        }
        for _ in 0..count {
            // SAFETY: what is peeked is still in the ring.
            if !unsafe { records.pass() } {
                return self.damaged().map(|_| ());
            }
        }
        Ok(())
    }

    /// Pops all, and holds what came last.
    fn newest(&mut self, wait: Wait) -> Result<Result<HeldBatch, zsr_status>, Fault> {
        loop {
            let popped = match wait.at_most() {
                Some(time) => self.flow.pop_newest_timeout(time)?,
                None => self.flow.pop_newest()?.map_or(Popped::End, Popped::Batch),
            };
            match popped {
                Popped::Batch(batch) if batch.is_empty() => {}
                Popped::Batch(batch) => return Ok(Ok(batch.hold())),
                Popped::Nothing => return Ok(Err(ZSR_AGAIN)),
                Popped::End => return Ok(Err(ZSR_END)),
            }
        }
    }

    /// Lends a batch that was popped to the caller.
    ///
    /// # Safety
    /// `batch` points to room for one.
    unsafe fn hand_out(&mut self, held: HeldBatch, batch: *mut zsr_batch) -> Result<zsr_status, Fault> {
        // SAFETY: it is not given back yet; room, by contract.
        unsafe {
            let data = std::slice::from_raw_parts(held.begin, held.bytes);
            put(batch, "batch", Records::new(data, held.record_size, held.records).batch(self.next))?;
        }
        self.taken.push((self.next, held));
        self.next += 1;
        Ok(ZSR_OK)
    }

    /// Passes over a batch that can't be read.
    pub(crate) fn damaged(&mut self) -> Result<zsr_status, Fault> {
        let text =
            "a batch says of a record that it is longer than the batch: the rest of it was passed over";
        self.settle(true)?;
        Err(Fault { status: ZSR_ERROR_DAMAGED, text: text.into() })
    }
}
