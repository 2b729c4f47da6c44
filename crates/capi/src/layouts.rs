//! Records that stay where the program keeps them.

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use zsr::layouts::{Column, Layout, MOST_COLUMNS, Registered, Rows, find};

use crate::attach::zsr_options;
use crate::fault::{Fault, call, invalid};
use crate::handle::{at, check, put, to, wait};
use crate::producer::{attach, within, zsr_producer};
use crate::status::zsr_status::{self, *};

/// Most regions that a program registers.
const MOST_REGISTERED: usize = 16;

/// The regions that a program names when it attaches.
///
/// # Safety
/// `regions` points to `count` pointers, each null or to memory that was not freed.
pub(crate) unsafe fn registered(
    regions: *const *const zsr_registered,
    count: usize,
) -> Result<Vec<Registered>, Fault> {
    if count > MOST_REGISTERED {
        return Err(invalid(format!("{count} regions: expected {MOST_REGISTERED} at most")));
    }
    if count > 0 {
        check(regions, "regions")?;
    }
    let region = |n: usize| {
        // SAFETY: by contract.
        unsafe { at(*regions.add(n), &format!("regions[{n}]")) }.map(|memory| memory.0.clone())
    };
    (0..count).map(region).collect()
}

/// ZSR_ROWS_EVERY and the others.
const EVERY: i32 = 0;
const CHOSEN: i32 = 1;
const LISTED: i32 = 2;

/// Memory of this program that a NIC on this machine can read and write.
pub struct zsr_registered(Registered);

/// A column of a layout: row n has `width` bytes at `first` plus n times `stride`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zsr_layout_column {
    /// The element of row 0, in registered memory.
    pub first: *const c_void,
    /// Bytes from one row's element to the next row's.
    pub stride: u64,
    /// Bytes of an element.
    pub width: u32,
}

/// Where records lie. Each row makes one: an element of each column, side by side. Begin with zeros.
#[repr(C)]
pub struct zsr_layout {
    /// The columns, 1 to 255.
    pub columns: *const zsr_layout_column,
    /// How many there are.
    pub column_count: usize,
    /// ZSR_ROWS_EVERY: the first `frequency` of every `period` rows from row `start` on, `count` in all; 0 of both is 1.
    /// ZSR_ROWS_CHOSEN: those whose bit is set of `count` bits at `by`, the least significant of a byte first; the first bit is row
    /// `start`'s. ZSR_ROWS_LISTED: those whose numbers are at `by`, `count` of them.
    pub rows: i32,
    /// Rows, bits or numbers.
    pub count: u32,
    /// The first row.
    pub start: u64,
    /// Rows from the begin of one group to that of the next.
    pub period: u64,
    /// Rows of a group.
    pub frequency: u64,
    /// Bits, or numbers, in registered memory.
    pub by: *const c_void,
    /// Bytes of each number, 4 or 8.
    pub width: u32,
}

/// An item that was laid out.
#[repr(C)]
pub struct zsr_ticket {
    /// Nothing for programs to read.
    pub words: [u64; 2],
}

/// Makes zeroed memory of `length` bytes.
///
/// Ownership: `*memory` is the caller's, until zsr_registered_free().
/// Blocks: no.
/// Threads: any.
/// Errors: ZSR_ERROR_INVALID (there is no memory of that length). `*memory` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_registered_new(length: usize, memory: *mut *mut zsr_registered) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promise: room for a pointer.
        unsafe { put(memory, "memory", std::ptr::null_mut()) }?;
        let made = Registered::allocate(length).map_err(|e| invalid(e.to_string()))?;
        // SAFETY: as above.
        unsafe { put(memory, "memory", Box::into_raw(Box::new(zsr_registered(made)))) }?;
        Ok(ZSR_OK)
    })
}

/// The first byte of registered memory, aligned to 4096 bytes; NULL if `memory` is NULL.
///
/// Ownership: the bytes live as long as `memory`. What a producer's layout names must not change until
/// zsr_producer_was_taken(). What a consumer's layout names is the NIC's until its item was popped.
/// Blocks: no.
/// Threads: any, also several at once.
/// Errors: none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_registered_begin(memory: *const zsr_registered) -> *mut c_void {
    // SAFETY: the caller's promise: null, or memory that was not freed.
    unsafe { memory.as_ref() }.map_or(std::ptr::null_mut(), |memory| memory.0.as_ptr().cast())
}

/// Frees registered memory. Producers that have registered it keep it until they end and their items were taken. Consumers keep it until
/// they end.
///
/// Ownership: takes `memory`, which may be NULL.
/// Blocks: no.
/// Threads: any, but not while another call has this memory.
/// Errors: none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_registered_free(memory: *mut zsr_registered) {
    if !memory.is_null() {
        // SAFETY: the caller's promise: it came from zsr_registered_new() and was not freed.
        let free = || drop(unsafe { Box::from_raw(memory) });
        // Nothing to tell, and nobody to tell it.
        let _ = catch_unwind(AssertUnwindSafe(free));
    }
}

/// As zsr_producer_attach(), with `count` regions of memory that layouts name, at most 16. The member's rings have to be in memory of the
/// kind `layouts` (`memory: layouts` in the topology).
///
/// Ownership: as zsr_producer_attach(); `regions` stay the caller's, and may be freed.
/// Blocks: as zsr_producer_attach().
/// Threads: any.
/// Errors: as zsr_producer_attach(); ZSR_ERROR_RING also when the rings have no layouts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_attach_registered(
    flow: *const c_char,
    options: *const zsr_options,
    regions: *const *const zsr_registered,
    count: usize,
    producer: *mut *mut zsr_producer,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promise: room for a pointer.
        unsafe { put(producer, "producer", std::ptr::null_mut()) }?;
        // SAFETY: the caller's promises: so many pointers to memory, a text, options, room for a pointer.
        unsafe { attach(flow, options, registered(regions, count)?, producer) }
    })
}

/// Pushes the records of a layout as one item to `consumer`, behind all that was pushed to it before: ZSR_TO_KEY where there is only one,
/// or a number from 0 in the flow's order. Nothing is copied: the NIC reads the records where they lie.
///
/// Ownership: `layout` stays the caller's, and what it names must not change until zsr_producer_was_taken() of `*ticket`, which may be
/// NULL.
/// Blocks: as zsr_producer_push().
/// Threads: any, one call with a handle at a time.
/// Errors: as zsr_producer_push(). ZSR_ERROR_INVALID also for a layout that makes no sense, leaves registered memory, or doesn't fit an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_lay_out(
    producer: *mut zsr_producer,
    consumer: i32,
    layout: *const zsr_layout,
    timeout_us: i64,
    ticket: *mut zsr_ticket,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, a layout with so many columns, room for a ticket or none.
    unsafe {
        within(producer, |p| {
            let layout = read(at(layout, "layout")?, p.flow.registered())?;
            let Some(laid) = p.flow.lay_out(&layout, to(consumer)?, wait(timeout_us))? else {
                return Ok(ZSR_AGAIN);
            };
            if !ticket.is_null() {
                put(ticket, "ticket", zsr_ticket { words: laid.into() })?;
            }
            Ok(ZSR_OK)
        })
    }
}

/// Whether the memory of an item may change: `*taken` is 1 then, else 0.
///
/// Ownership: `ticket` stays the caller's.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_RING.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_producer_was_taken(
    producer: *mut zsr_producer,
    ticket: *const zsr_ticket,
    taken: *mut i32,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, a ticket, room for a number.
    unsafe {
        within(producer, |p| {
            let was = p.flow.was_taken(&at(ticket, "ticket")?.words.into())?;
            put(taken, "taken", i32::from(was))?;
            Ok(ZSR_OK)
        })
    }
}

/// # Safety
/// There are as many columns as the layout says.
pub(crate) unsafe fn read(layout: &zsr_layout, regions: &[Registered]) -> Result<Layout, Fault> {
    let place = |address: *const c_void, what: &str| {
        find(regions, address.cast()).ok_or_else(|| {
            invalid(format!(
                "{what} is not in memory that this program has registered when it attached (zsr_registered_new)"
            ))
        })
    };
    if !(1..=MOST_COLUMNS).contains(&layout.column_count) {
        return Err(invalid(format!(
            "layout.column_count is {}: expected 1 to {MOST_COLUMNS}",
            layout.column_count
        )));
    }
    check(layout.columns, "layout.columns")?;
    // SAFETY: by contract.
    let columns = unsafe { std::slice::from_raw_parts(layout.columns, layout.column_count) };
    let column = |(n, column): (usize, &zsr_layout_column)| {
        let at = place(column.first, &format!("layout.columns[{n}].first"))?;
        Ok(Column { at, stride: column.stride, width: column.width })
    };
    let columns = columns.iter().enumerate().map(column).collect::<Result<Vec<_>, Fault>>()?;
    let (start, count) = (layout.start, layout.count);
    let rows = match layout.rows {
        EVERY => {
            let (period, frequency) = match (layout.period, layout.frequency) {
                (0, 0) => (1, 1),
                both => both,
            };
            Rows::Every { start, period, frequency, count }
        }
        CHOSEN => Rows::Chosen { start, at: place(layout.by, "layout.by")?, bits: count },
        LISTED => Rows::Listed { at: place(layout.by, "layout.by")?, width: layout.width, count },
        other => {
            return Err(invalid(format!(
                "layout.rows is {other}: expected ZSR_ROWS_EVERY, _CHOSEN or _LISTED"
            )));
        }
    };
    Ok(Layout::new(rows, columns))
}
