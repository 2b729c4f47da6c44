//! The popping end of a flow whose records come to where the program wants them.

use std::ffi::c_char;

use zsr::layouts::{Came, LayoutConsumer};
use zsr::{Options, Wait};

use crate::attach::{read, zsr_options};
use crate::fault::{Fault, call, invalid};
use crate::handle::{Handle, at, end, put, text, wait, with};
use crate::layouts::{self, registered, zsr_layout, zsr_registered};
use crate::status::zsr_status::{self, *};

/// The popping side of one member of a flow, which says where records go before they come.
pub struct zsr_layout_consumer(Handle<Placing>);

struct Placing {
    flow: LayoutConsumer,
    /// The rest of the item that was popped last.
    rest: Vec<u8>,
}

/// An item that was popped, whose records are where its layout says.
#[repr(C)]
pub struct zsr_arrived {
    /// Number of the producer that pushed it.
    pub producer: u32,
    /// Number of its records.
    pub records: u32,
    /// Bytes of its records.
    pub bytes: u64,
    /// The last of these bytes, which the layout had no room for. The handle's, until the next call with it.
    pub rest: *const u8,
    /// Bytes of `rest`; mostly 0.
    pub rest_length: usize,
}

/// A call with a handle.
///
/// # Safety
/// `consumer` is null, or came from an attach and was not ended.
unsafe fn within(
    consumer: *const zsr_layout_consumer,
    work: impl FnOnce(&mut Placing) -> Result<zsr_status, Fault>,
) -> zsr_status {
    // SAFETY: null, or a handle that was not ended, by contract.
    with(unsafe { consumer.as_ref() }.map(|consumer| &consumer.0), work)
}

/// The last call with a handle, which takes it.
///
/// # Safety
/// `consumer` is null, or came from an attach and was not ended.
unsafe fn ended(consumer: *mut zsr_layout_consumer, work: impl FnOnce(Placing)) -> zsr_status {
    let work = |placing| {
        work(placing);
        Ok(ZSR_OK)
    };
    // SAFETY: by contract.
    unsafe { end(consumer, |c| &c.0, |c| c.0, work) }
}

/// As zsr_consumer_attach(), with `count` regions of memory that layouts name, at most 16. The member's ring has to be in memory of the kind
/// `layouts` (`memory: layouts` in the topology).
///
/// Ownership: `*consumer` is the caller's, until zsr_layout_consumer_leave() or zsr_layout_consumer_abort(). `flow`, `options`, which may be
/// NULL, and `regions` stay the caller's; regions may be freed.
/// Blocks: as zsr_consumer_attach().
/// Threads: any.
/// Errors: as zsr_consumer_attach(); ZSR_ERROR_INVALID also for a flow that is no shuffle, or has several lanes; ZSR_ERROR_RING also when the
/// ring has no layouts. `*consumer` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_layout_consumer_attach(
    flow: *const c_char,
    options: *const zsr_options,
    regions: *const *const zsr_registered,
    count: usize,
    consumer: *mut *mut zsr_layout_consumer,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: room for a pointer, a text, options, so many pointers to memory.
        let (flow, attach, registered) = unsafe {
            put(consumer, "consumer", std::ptr::null_mut())?;
            (text(flow, "flow")?, read(options)?, registered(regions, count)?)
        };
        let flow = flow.ok_or_else(|| invalid("flow is null"))?;
        let options = Options { registered, ..attach.options };
        let flow = LayoutConsumer::attach(attach.contact, flow, &options)?;
        let attached = Box::new(zsr_layout_consumer(Handle::new(Placing { flow, rest: Vec::new() })));
        // SAFETY: as above.
        unsafe { put(consumer, "consumer", Box::into_raw(attached)) }?;
        Ok(ZSR_OK)
    })
}

/// Says where the records go of the next item that has no place yet. The first layout is the first item's, and so on.
///
/// Ownership: `layout` stays the caller's. What it names belongs to the NIC until its item was popped, and no other layout that is placed may
/// name it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_AGAIN: as many layouts are placed as the ring has items, and one has to be popped first. ZSR_ERROR_BUSY; ZSR_ERROR_INVALID, also
/// for a layout that makes no sense, leaves registered memory, or names more than an item brings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_layout_consumer_place(
    consumer: *mut zsr_layout_consumer,
    layout: *const zsr_layout,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, a layout with so many columns.
    unsafe {
        within(consumer, |c| {
            let layout = layouts::read(at(layout, "layout")?, c.flow.registered())?;
            Ok(if c.flow.place(&layout)? { ZSR_OK } else { ZSR_AGAIN })
        })
    }
}

/// Pops the next item, whose records are where its layout says.
///
/// Ownership: `arrived` is the caller's; its `rest` is the handle's.
/// Blocks: until there is one, for at most `timeout_us` microseconds; ZSR_FOREVER: as long as it takes.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_AGAIN when none came in time, ZSR_END when all producers have closed and all is popped; ZSR_ERROR_INVALID, also when no layout
/// is placed for the item, which stays; ZSR_ERROR_BUSY, ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED; ZSR_ERROR_DAMAGED (the item is popped, and its
/// layout is dropped).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_layout_consumer_pop(
    consumer: *mut zsr_layout_consumer,
    timeout_us: i64,
    arrived: *mut zsr_arrived,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for what has come.
    unsafe {
        within(consumer, |c| {
            crate::handle::check(arrived, "arrived")?;
            let came = match wait(timeout_us) {
                Wait::No => c.flow.try_pop()?,
                Wait::For(time) => c.flow.pop_timeout(time)?,
                Wait::Forever => c.flow.pop()?.map_or(Came::End, Came::Item),
            };
            match came {
                Came::Item(item) => {
                    c.rest = item.rest;
                    let (producer, records, bytes) = (item.producer, item.records, item.bytes.into());
                    let (rest, rest_length) = (c.rest.as_ptr(), c.rest.len());
                    put(arrived, "arrived", zsr_arrived { producer, records, bytes, rest, rest_length })?;
                    Ok(ZSR_OK)
                }
                Came::Nothing => Ok(ZSR_AGAIN),
                Came::End => Ok(ZSR_END),
            }
        })
    }
}

/// Leaves. Items that are not popped are for the next program at this member, also such that have come to this program's memory, which is
/// its own again behind this.
///
/// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
/// Blocks: as zsr_consumer_leave().
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_layout_consumer_leave(consumer: *mut zsr_layout_consumer) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe { ended(consumer, |c| c.flow.leave()) }
}

/// Gives up: before the end of the stream, the flow does what its policy says when a program dies.
///
/// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
/// Blocks: as zsr_consumer_leave().
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_layout_consumer_abort(consumer: *mut zsr_layout_consumer) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe { ended(consumer, drop) }
}
