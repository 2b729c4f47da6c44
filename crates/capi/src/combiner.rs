//! Aggregates by group.

use std::ffi::c_char;
use std::time::Instant;

use zsr::{Combiner, Schema, Wait};

use crate::batch::{Records, zsr_batch};
use crate::columns::{Described, zsr_column};
use crate::consumer::{Popping, within as at_consumer, zsr_consumer};
use crate::fault::{Fault, call, invalid};
use crate::handle::{Handle, bytes, end, put, text, wait, with};
use crate::status::zsr_status::{self, *};

/// Aggregates of rows by group: counts, sums, least, largest and mean values.
pub struct zsr_combiner(Handle<Combining>);

struct Combining {
    combiner: Combiner,
    of: String,
    described: Described,
    /// Side by side, as they were last asked for.
    results: Vec<u8>,
}

impl Combining {
    /// Takes rows, or refuses them with `status`.
    fn add(&mut self, rows: &[u8], status: zsr_status) -> Result<(), Fault> {
        let text = |why| format!("the combiner is of rows ({}): {why}", self.of);
        self.combiner.add(rows).map_err(|why| Fault { status, text: text(why) })
    }
}

/// A call with a handle.
///
/// # Safety
/// `combiner` is null, or came from zsr_combiner_new() and was not freed.
unsafe fn within(
    combiner: *const zsr_combiner,
    work: impl FnOnce(&mut Combining) -> Result<zsr_status, Fault>,
) -> zsr_status {
    // SAFETY: null, or a handle that was not freed, by contract.
    with(unsafe { combiner.as_ref() }.map(|combiner| &combiner.0), work)
}

/// Makes a combiner of rows of `schema`, a text as `id: u64, price: f64` whose columns all have a width. `aggregates` are, with commas
/// between them: count, sum(COLUMN), min(COLUMN), max(COLUMN), avg(COLUMN). `group_by` names columns of whole numbers or bytes, with
/// commas between them; NULL or an empty text: all rows are one group. Its memory grows with the number of groups, not of rows.
///
/// Ownership: `*combiner` is the caller's, until zsr_combiner_free(). The texts stay the caller's.
/// Blocks: no.
/// Threads: any.
/// Errors: ZSR_ERROR_INVALID (a text says nothing that can be combined; zsr_last_error() says why). `*combiner` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_combiner_new(
    schema: *const c_char,
    group_by: *const c_char,
    aggregates: *const c_char,
    combiner: *mut *mut zsr_combiner,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: room for a pointer, and texts.
        let (schema, group_by, aggregates) = unsafe {
            put(combiner, "combiner", std::ptr::null_mut())?;
            (text(schema, "schema")?, text(group_by, "group_by")?, text(aggregates, "aggregates")?)
        };
        let schema = schema.ok_or_else(|| invalid("schema is null"))?;
        let aggregates = aggregates.ok_or_else(|| invalid("aggregates is null"))?;
        let schema = Schema::parse(schema).map_err(|e| invalid(format!("schema: {e}")))?;
        let group_by = group_by.unwrap_or_default();
        let made = Combiner::new(&schema, group_by, aggregates).map_err(|e| invalid(e.to_string()))?;
        let described = Described::new("", Some(made.schema()));
        let made = Combining { combiner: made, of: schema.to_string(), described, results: Vec::new() };
        // SAFETY: as above.
        unsafe { put(combiner, "combiner", Box::into_raw(Box::new(zsr_combiner(Handle::new(made))))) }?;
        Ok(ZSR_OK)
    })
}

/// What the results are, as `shop: u16, count: u64, sum_price: f64`: the columns of the group, then the aggregates. Sums of whole numbers
/// are i64 or u64, those of fractions and mean values f64, least and largest values as their column.
///
/// Ownership: `*schema` is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_combiner_schema(
    combiner: *const zsr_combiner,
    schema: *mut *const c_char,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer.
    unsafe { within(combiner, |k| put(schema, "schema", k.described.schema.as_ptr()).map(|()| ZSR_OK)) }
}

/// The columns of the results, in order.
///
/// Ownership: `*columns` and all in it is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_combiner_columns(
    combiner: *const zsr_combiner,
    columns: *mut *const zsr_column,
    count: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer and a number.
    unsafe { within(combiner, |k| k.described.put_columns(columns, count)) }
}

/// Takes rows of the combiner's schema that lie side by side, `length` bytes in all.
///
/// Ownership: `rows` stays the caller's.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_SIZE (`length` is not that of a whole number of rows; none was taken).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_combiner_add(
    combiner: *mut zsr_combiner,
    rows: *const u8,
    length: usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and so much memory.
    unsafe { within(combiner, |k| k.add(bytes(rows, length, "rows")?, ZSR_ERROR_SIZE).map(|()| ZSR_OK)) }
}

/// Pops until the end of the stream, and gives all records to a combiner, where they lie in the ring. What was popped before an error or
/// before the time is over is in the combiner: the call can be made again.
///
/// Ownership: both handles stay the caller's.
/// Blocks: until the end of the stream, for at most `timeout_us` microseconds, but for records that are there, of which one batch is
/// taken in any case; ZSR_FOREVER: as long as it takes.
/// Threads: any, one call with each of the handles at a time.
/// Errors: ZSR_OK at the end of the stream, ZSR_AGAIN when it did not come in time; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_SCHEMA
/// (a record has not the size of the combiner's rows: it stays in the ring), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_consumer_combine(
    consumer: *mut zsr_consumer,
    combiner: *mut zsr_combiner,
    timeout_us: i64,
) -> zsr_status {
    // SAFETY: the caller's promise: handles. What the inner call says is the outer one's status, too, and so is its text.
    unsafe { at_consumer(consumer, |c| Ok(within(combiner, |k| combine(c, k, wait(timeout_us))))) }
}

fn combine(c: &mut Popping, k: &mut Combining, wait: Wait) -> Result<zsr_status, Fault> {
    let end = wait.at_most().and_then(|time| Instant::now().checked_add(time));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let records = match c.peek(left.map_or(Wait::Forever, Wait::For))? {
            Ok(records) => records,
            Err(ZSR_END) => return Ok(ZSR_OK),
            Err(status) => return Ok(status),
        };
        if let Some((begin, size)) = records.side_by_side() {
            // SAFETY: a batch that is peeked lies in the ring until it is released, and has so many records of that size.
            k.add(unsafe { std::slice::from_raw_parts(begin, records.left() * size) }, ZSR_ERROR_SCHEMA)?;
        } else {
            // SAFETY: as above.
            while let Some((begin, length)) = unsafe { records.first() } {
                // SAFETY: as above; the record is in the batch.
                k.add(unsafe { std::slice::from_raw_parts(begin, length) }, ZSR_ERROR_SCHEMA)?;
                // SAFETY: as above.
                unsafe { records.pass() };
            }
            if records.left() > 0 {
                return c.damaged();
            }
        }
        c.release(usize::MAX)?;
        if end.is_some_and(|end| end <= Instant::now()) {
            return Ok(ZSR_AGAIN);
        }
    }
}

/// The results: one row per group, side by side, in the order of their groups: numbers by value, bytes as they are. More rows can be added
/// and the results asked for again. Of no rows at all, sums are 0, mean values are not numbers, and least values are the largest
/// that there are.
///
/// Ownership: `batch` is the caller's, and `batch->size` has to be sizeof(zsr_batch) (ZSR_BATCH_INIT). `batch->data` is the handle's, and
/// valid until the next call of this function with it, or until it is freed.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_BUSY, ZSR_ERROR_SUM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_combiner_results(
    combiner: *mut zsr_combiner,
    batch: *mut zsr_batch,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and a batch.
    unsafe {
        within(combiner, |k| {
            zsr_batch::check(batch)?;
            let rows = k.combiner.results();
            let rows = rows.map_err(|e| Fault { status: ZSR_ERROR_SUM, text: e.to_string() })?;
            let size = k.combiner.schema().tuple_size();
            k.results = rows.concat();
            put(batch, "batch", Records::new(&k.results, size, rows.len()).batch(0))?;
            Ok(ZSR_OK)
        })
    }
}

/// Frees a combiner.
///
/// Ownership: takes the handle, other than with ZSR_ERROR_BUSY. Nothing that it has given may be read any more.
/// Blocks: no.
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_combiner_free(combiner: *mut zsr_combiner) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe {
        end(
            combiner,
            |k| &k.0,
            |k| k.0,
            |k| {
                drop(k);
                Ok(ZSR_OK)
            },
        )
    }
}
