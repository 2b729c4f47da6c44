//! The pushing end of a flow.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use zsr::layouts::Registered;
use zsr::{Cancel, FlowProducer, Options};

use crate::attach::{read, zsr_options};
use crate::columns::{Described, zsr_column};
use crate::fault::{Fault, call, invalid};
use crate::handle::{Handle, bytes, end, fits, put, text, to, wait, with};
use crate::status::zsr_status::{self, *};

/// The pushing side of one member of a flow.
pub struct zsr_producer(Handle<Pushing>);

pub(crate) struct Pushing {
    pub(crate) flow: FlowProducer,
    described: Described,
    cancel: Cancel,
}

/// A call with a handle.
///
/// # Safety
/// `producer` is null, or came from an attach and was not ended.
pub(crate) unsafe fn within(
    producer: *const zsr_producer,
    work: impl FnOnce(&mut Pushing) -> Result<zsr_status, Fault>,
) -> zsr_status {
    // SAFETY: null, or a handle that was not ended, by contract.
    with(unsafe { producer.as_ref() }.map(|producer| &producer.0), work)
}

/// The last call with a handle, which takes it.
///
/// # Safety
/// `producer` is null, or came from an attach and was not ended.
unsafe fn ended(
    producer: *mut zsr_producer,
    work: impl FnOnce(Pushing) -> Result<zsr_status, Fault>,
) -> zsr_status {
    // SAFETY: by contract.
    unsafe { end(producer, |p| &p.0, |p| p.0, work) }
}

/// Takes all rings of a producer of `flow`.
///
/// Ownership: `*producer` is the caller's, until zsr_producer_close(), zsr_producer_leave() or zsr_producer_abort(). `flow` and
/// `options`, which may be NULL, stay the caller's.
/// Blocks: until controller and agent have answered, for at most 20 s.
/// Threads: any.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
/// (another program is there, the stream has ended), ZSR_ERROR_SCHEMA. `*producer` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_attach(
    flow: *const c_char,
    options: *const zsr_options,
    producer: *mut *mut zsr_producer,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: room for a pointer, a text, options.
        unsafe { attach(flow, options, Vec::new(), producer) }
    })
}

/// Attaches, with memory that layouts name.
///
/// # Safety
/// As [`zsr_producer_attach`].
pub(crate) unsafe fn attach(
    flow: *const c_char,
    options: *const zsr_options,
    registered: Vec<Registered>,
    producer: *mut *mut zsr_producer,
) -> Result<zsr_status, Fault> {
    // SAFETY: by contract.
    let (flow, attach) = unsafe {
        put(producer, "producer", std::ptr::null_mut())?;
        (text(flow, "flow")?, read(options)?)
    };
    let flow = flow.ok_or_else(|| invalid("flow is null"))?;
    let cancel = attach.options.cancel.clone();
    let flow = FlowProducer::attach(attach.contact, flow, &Options { registered, ..attach.options })?;
    let described = Described::new(flow.member(), flow.schema());
    let attached = Box::new(zsr_producer(Handle::new(Pushing { flow, described, cancel })));
    // SAFETY: as above.
    unsafe { put(producer, "producer", Box::into_raw(attached)) }?;
    Ok(ZSR_OK)
}

/// The member that it is.
///
/// Ownership: `*member` is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_member(
    producer: *const zsr_producer,
    member: *mut *const c_char,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer.
    unsafe { within(producer, |p| put(member, "member", p.described.member.as_ptr()).map(|()| ZSR_OK)) }
}

/// What the flow's records are, as `id: u64, price: f64`; an empty text if the flow does not say.
///
/// Ownership: `*schema` is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_schema(
    producer: *const zsr_producer,
    schema: *mut *const c_char,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer.
    unsafe { within(producer, |p| put(schema, "schema", p.described.schema.as_ptr()).map(|()| ZSR_OK)) }
}

/// The columns of the flow's schema, in order; none if the flow has no schema.
///
/// Ownership: `*columns` and all in it is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_columns(
    producer: *const zsr_producer,
    columns: *mut *const zsr_column,
    count: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer and a number.
    unsafe { within(producer, |p| p.described.put_columns(columns, count)) }
}

/// Bytes of each record, by the flow's schema or zsr_options.record_size; 0: records differ in length.
///
/// Ownership: nothing.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_record_size(
    producer: *const zsr_producer,
    size: *mut u32,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a number.
    unsafe { within(producer, |p| put(size, "size", p.flow.record_size().unwrap_or(0)).map(|()| ZSR_OK)) }
}

/// How many consumers a push can choose from. 1 for flows in which all consumers share the producer's one ring.
///
/// Ownership: nothing.
/// Blocks: no. Consumers that join or leave are noticed by the next push.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_consumers(
    producer: *const zsr_producer,
    count: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a number.
    unsafe { within(producer, |p| put(count, "count", p.flow.consumers()).map(|()| ZSR_OK)) }
}

/// Pushes one record of `length` bytes to `consumer`: ZSR_TO_KEY, or a number from 0 in the flow's order. It is on its way when
/// its item is full, or with zsr_producer_flush(); at once in a flow with the hint `latency`.
///
/// Ownership: the record is copied; it stays the caller's. It may be NULL if `length` is 0.
/// Blocks: until there is room, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes. A change of
/// the flow that is under way may add up to 10 s.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_AGAIN when there was no room in time; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_SIZE, ZSR_ERROR_ROUTE,
/// ZSR_ERROR_CANCELLED, ZSR_ERROR_LOST, ZSR_ERROR_ENDED, ZSR_ERROR_RING, ZSR_ERROR_CONTROLLER. The record was not taken then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_push(
    producer: *mut zsr_producer,
    consumer: i32,
    record: *const c_void,
    length: usize,
    timeout_us: i64,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and so many bytes.
    unsafe {
        within(producer, |p| {
            let record = bytes(record.cast(), length, "record")?;
            let taken = p.flow.push_to(record, to(consumer)?, wait(timeout_us))?;
            Ok(if taken { ZSR_OK } else { ZSR_AGAIN })
        })
    }
}

/// Pushes `count` records that lie side by side in `records`, each of the record size, to `consumer` as zsr_producer_push().
/// `*pushed` of them, the first ones, were taken, whatever the call returns.
///
/// Ownership: the records are copied; they stay the caller's. `pushed` may be NULL.
/// Blocks: until all are taken, for at most `timeout_us` microseconds; 0: takes what there is room for; ZSR_FOREVER: as long as it
/// takes. A change of the flow that is under way may add up to 10 s.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_AGAIN when not all were taken in time; ZSR_ERROR_SCHEMA if records have no size; the others of
/// zsr_producer_push().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_push_rows(
    producer: *mut zsr_producer,
    consumer: i32,
    records: *const c_void,
    count: usize,
    timeout_us: i64,
    pushed: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, so many records, and room for a number.
    unsafe {
        within(producer, |p| {
            let size = p.flow.record_size().unwrap_or(1) as usize;
            let length = count.checked_mul(size).ok_or_else(|| invalid("count is beyond any memory"))?;
            let rows = bytes(records.cast(), length, "records")?;
            let (consumer, before) = (to(consumer)?, p.flow.counts().records());
            let done = p.flow.push_rows(rows, consumer, wait(timeout_us));
            if !pushed.is_null() {
                put(pushed, "pushed", (p.flow.counts().records() - before) as usize)?;
            }
            Ok(if done? == count { ZSR_OK } else { ZSR_AGAIN })
        })
    }
}

/// Room in the ring for records that the caller writes in place: for one record of at most `length` bytes; where records have a
/// size, for as many of them as the item takes, but no more than `length` bytes, and at least for one. `consumer` is as for
/// zsr_producer_push(); where a flow has several, ZSR_TO_KEY is refused, as the record is not there yet.
///
/// Ownership: `*place`, with `*room` bytes, is the ring's. It holds anything, and may be written until zsr_producer_publish() or any
/// other call with the handle, which forgets the reservation.
/// Blocks: as zsr_producer_push().
/// Threads: any, one call with a handle at a time; `*place` may be written by any threads before the publish.
/// Errors: as zsr_producer_push(). `*place` is NULL then, and `*room` 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_reserve(
    producer: *mut zsr_producer,
    consumer: i32,
    length: usize,
    timeout_us: i64,
    place: *mut *mut u8,
    room: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer and a number.
    unsafe {
        within(producer, |p| {
            put(place, "place", std::ptr::null_mut())?;
            put(room, "room", 0)?;
            fits(length, "a record")?;
            let Some(memory) = p.flow.reserve(length, to(consumer)?, wait(timeout_us))? else {
                return Ok(ZSR_AGAIN);
            };
            put(place, "place", memory.as_mut_ptr())?;
            put(room, "room", memory.len())?;
            Ok(ZSR_OK)
        })
    }
}

/// Pushes the first `used` bytes of what was reserved: one record, or, where records have a size, as many as that is.
///
/// Ownership: the memory that was reserved is no longer the caller's to write.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID (nothing is reserved), ZSR_ERROR_BUSY, ZSR_ERROR_SIZE (more than was reserved, or no whole records:
/// the reservation stays), ZSR_ERROR_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_publish(producer: *mut zsr_producer, used: usize) -> zsr_status {
    // SAFETY: the caller's promise: a handle.
    unsafe {
        within(producer, |p| {
            p.flow.publish(used)?;
            Ok(ZSR_OK)
        })
    }
}

/// Sends what is kept to fill items.
///
/// Ownership: nothing.
/// Blocks: no. A change of the flow that is under way may take up to 10 s.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_LOST, ZSR_ERROR_ENDED, ZSR_ERROR_RING, ZSR_ERROR_CONTROLLER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_flush(producer: *mut zsr_producer) -> zsr_status {
    // SAFETY: the caller's promise: a handle.
    unsafe {
        within(producer, |p| {
            p.flow.flush()?;
            Ok(ZSR_OK)
        })
    }
}

/// Sends what is kept, and waits until all that was pushed lies in the rings of its consumers. `*left` records lie in the
/// producer's own rings when nothing has moved for so long; they are delivered when there is room, also without this program.
///
/// Ownership: nothing. `left` may be NULL.
/// Blocks: until nothing has moved for `patience_us` microseconds; below 0: until all is delivered, or the cancel is triggered.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_AGAIN when some are left; as zsr_producer_flush().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_settle(
    producer: *mut zsr_producer,
    patience_us: i64,
    left: *mut u64,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a number.
    unsafe {
        within(producer, |p| {
            let patience = wait(patience_us).at_most().unwrap_or(Duration::MAX);
            let held = p.flow.settle(patience, &p.cancel)?;
            let records: u64 = held.iter().map(|held| held.records).sum();
            if !left.is_null() {
                put(left, "left", records)?;
            }
            Ok(if held.is_empty() { ZSR_OK } else { ZSR_AGAIN })
        })
    }
}

/// Ends the stream. All that was pushed is still delivered, also when this program has ended.
///
/// Ownership: takes the handle, whatever the call returns, other than ZSR_ERROR_BUSY.
/// Blocks: until the controller has answered, for at most 10 s.
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_LOST (the stream has ended all the same), ZSR_ERROR_ENDED, ZSR_ERROR_RING,
/// ZSR_ERROR_CONTROLLER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_close(producer: *mut zsr_producer) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe {
        ended(producer, |p| {
            p.flow.close()?;
            Ok(ZSR_OK)
        })
    }
}

/// Leaves without ending the stream: all that was pushed is delivered, and another program can go on.
///
/// Ownership: takes the handle, whatever the call returns, other than ZSR_ERROR_BUSY.
/// Blocks: until the agent has the rings back, for at most 1 s each.
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: as zsr_producer_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_leave(producer: *mut zsr_producer) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe {
        ended(producer, |p| {
            p.flow.leave()?;
            Ok(ZSR_OK)
        })
    }
}

/// Gives up: what is kept to fill items is not sent, and the flow does what its policy says when a program dies.
///
/// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
/// Blocks: as zsr_producer_leave().
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_abort(producer: *mut zsr_producer) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe {
        ended(producer, |p| {
            drop(p);
            Ok(ZSR_OK)
        })
    }
}
