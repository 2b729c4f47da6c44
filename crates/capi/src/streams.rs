//! Many streams over one flow.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

use zsr::Wait;
use zsr::streams::{InStream, InStreams, Next, OutStream, OutStreams, StreamError, StreamOptions};

use crate::attach::{Attach, read, zsr_options};
use crate::fault::{Fault, call, invalid};
use crate::handle::{Handle, bytes, end, put, text, wait, with};
use crate::status::zsr_status::{self, *};

/// Streams from one producer of a flow to all of its consumers.
pub struct zsr_out_streams(Handle<OutStreams>);

/// A stream that goes out.
pub struct zsr_out_stream(Handle<OutStream>);

/// Streams that come to one consumer of a flow.
pub struct zsr_in_streams(Handle<InStreams>);

/// A stream that comes in.
pub struct zsr_in_stream(Handle<Coming>);

struct Coming {
    stream: InStream,
    /// The record that was popped last.
    record: Vec<u8>,
}

impl From<StreamError> for Fault {
    fn from(error: StreamError) -> Self {
        Fault { status: error.kind().into(), text: error.to_string() }
    }
}

/// Two flows, and what the program says.
///
/// # Safety
/// As [`text`] and [`read`].
unsafe fn flows<'a>(
    flow: *const c_char,
    answers: *const c_char,
    options: *const zsr_options,
) -> Result<(&'a str, &'a str, Attach), Fault> {
    // SAFETY: by contract.
    let (flow, answers, attach) = unsafe { (text(flow, "flow")?, text(answers, "answers")?, read(options)?) };
    let flow = flow.ok_or_else(|| invalid("flow is null"))?;
    Ok((flow, answers.ok_or_else(|| invalid("answers is null"))?, attach))
}

/// A status for what was found in time.
fn found<T>(next: Next<T>, work: impl FnOnce(T) -> Result<(), Fault>) -> Result<zsr_status, Fault> {
    match next {
        Next::Some(found) => work(found).map(|()| ZSR_OK),
        Next::Nothing => Ok(ZSR_AGAIN),
        Next::End => Ok(ZSR_END),
    }
}

/// Takes a producer of `flow`, and a consumer of `answers`: a shuffle whose consumers produce in `flow`, and the other way round.
/// `options.member` is the producer's; of `answers` it is the first whose ring is free.
///
/// Ownership: `*streams` is the caller's, until zsr_out_streams_close() or zsr_out_streams_abort(). The texts, and `options`, which may
/// be NULL, stay the caller's.
/// Blocks: until controller and agent have answered, for at most 20 s.
/// Threads: any.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
/// (another program is there), ZSR_ERROR_SCHEMA. `*streams` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_out_streams_attach(
    flow: *const c_char,
    answers: *const c_char,
    options: *const zsr_options,
    streams: *mut *mut zsr_out_streams,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: room for a pointer, texts, options.
        let (flow, answers, attach) = unsafe {
            put(streams, "streams", null_mut())?;
            flows(flow, answers, options)?
        };
        let options = StreamOptions { program: attach.options, ..StreamOptions::default() };
        let out = OutStreams::attach(attach.contact, flow, answers, &options)?;
        // SAFETY: as above.
        unsafe { put(streams, "streams", Box::into_raw(Box::new(zsr_out_streams(Handle::new(out))))) }?;
        Ok(ZSR_OK)
    })
}

/// Opens a stream to the consumer with the number `consumer`, from 0, in the flow's order. Its name of `length` bytes may be anything,
/// also one that another stream has. The receiver sees it with the stream's first record, or its flush.
///
/// Ownership: `*stream` is the caller's, until zsr_out_stream_end() or zsr_out_stream_abort(); it may be used by another thread than
/// `streams`, and after that. `name` stays the caller's.
/// Blocks: until there is room in the ring.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_ROUTE, ZSR_ERROR_SIZE (the name), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED.
/// `*stream` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_out_streams_open(
    streams: *mut zsr_out_streams,
    name: *const c_void,
    length: usize,
    consumer: usize,
    stream: *mut *mut zsr_out_stream,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, so many bytes, and room for a pointer.
    unsafe {
        with(streams.as_ref().map(|s| &s.0), |out| {
            put(stream, "stream", null_mut())?;
            let opened = out.open(bytes(name.cast(), length, "name")?, consumer)?;
            put(stream, "stream", Box::into_raw(Box::new(zsr_out_stream(Handle::new(opened)))))?;
            Ok(ZSR_OK)
        })
    }
}

/// Ends the flow. Streams that were not ended are aborted.
///
/// Ownership: takes `streams`, also when it fails.
/// Blocks: until each consumer has read its ring to the end.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_LOST.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_out_streams_close(streams: *mut zsr_out_streams) -> zsr_status {
    // SAFETY: a handle, by contract.
    unsafe { end(streams, |s| &s.0, |s| s.0, |out| Ok(out.close().map(|()| ZSR_OK)?)) }
}

/// Gives the flow up. Its policy says what follows.
///
/// Ownership: takes `streams`. Its open streams can only be ended.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_out_streams_abort(streams: *mut zsr_out_streams) -> zsr_status {
    let work = |out| {
        drop(out);
        Ok(ZSR_OK)
    };
    // SAFETY: a handle, by contract.
    unsafe { end(streams, |s| &s.0, |s| s.0, work) }
}

/// Pushes a record of `length` bytes. It may be longer than the flow's items, and not longer than the receiver's window. It may stay in an
/// item that is not full until another record fills that, or the stream is flushed or ended, or a push waits.
///
/// Ownership: the record is copied; all arguments stay the caller's.
/// Blocks: until the receiver has room, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes. A long
/// record that has begun to go goes as a whole, however long that takes.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_AGAIN when there was no room in time; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_STREAM (the receiver wants no more),
/// ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_out_stream_push(
    stream: *mut zsr_out_stream,
    record: *const c_void,
    length: usize,
    timeout_us: i64,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and so many bytes.
    unsafe {
        with(stream.as_ref().map(|s| &s.0), |stream| {
            let record = bytes(record.cast(), length, "record")?;
            let taken = match wait(timeout_us) {
                Wait::No => stream.try_push(record)?,
                Wait::For(time) => stream.push_timeout(record, time)?,
                Wait::Forever => stream.push(record).map(|()| true)?,
            };
            Ok(if taken { ZSR_OK } else { ZSR_AGAIN })
        })
    }
}

/// Has all that was pushed go now.
///
/// Ownership: `stream` stays the caller's.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_ENDED, ZSR_ERROR_LOST.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_out_stream_flush(stream: *mut zsr_out_stream) -> zsr_status {
    // SAFETY: a handle, by contract.
    with(unsafe { stream.as_ref() }.map(|s| &s.0), |stream| Ok(stream.flush().map(|()| ZSR_OK)?))
}

/// Ends the stream: its receiver finds ZSR_END behind all records.
///
/// Ownership: takes `stream`, also when it fails.
/// Blocks: until there is room in the ring.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on), ZSR_ERROR_STREAM (the receiver wanted no more), ZSR_ERROR_CANCELLED,
/// ZSR_ERROR_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_out_stream_end(stream: *mut zsr_out_stream) -> zsr_status {
    // SAFETY: a handle, by contract.
    unsafe { end(stream, |s| &s.0, |s| s.0, |stream| Ok(stream.end().map(|()| ZSR_OK)?)) }
}

/// Gives the stream up. Its receiver finds ZSR_ERROR_STREAM with `why`, which may be NULL, behind all records.
///
/// Ownership: takes `stream`, also when it fails; `why` stays the caller's.
/// Blocks: until there is room in the ring.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_out_stream_abort(stream: *mut zsr_out_stream, why: *const c_char) -> zsr_status {
    // SAFETY: a text, by contract.
    let why = unsafe { text(why, "why") }.ok().flatten().unwrap_or("its sender has given it up");
    // SAFETY: a handle, by contract.
    unsafe { end(stream, |s| &s.0, |s| s.0, |stream| Ok(stream.abort(why).map(|()| ZSR_OK)?)) }
}

/// Takes a consumer of `flow`, and a producer of `answers`: a shuffle whose consumers produce in `flow`, and the other way round.
/// `options.member` is the consumer's; of `answers` it is the first whose rings are free.
///
/// `window`: bytes of one stream that wait here, at most, and the longest record: 64 KiB or more; 0: 256 KiB. Each record counts for
/// 64 B beside its bytes. `most`: streams that are open here, at most; one more is cancelled; 0: 1024.
///
/// Ownership: `*streams` is the caller's, until zsr_in_streams_end(). The texts, and `options`, which may be NULL, stay the caller's.
/// Blocks: until controller and agent have answered, for at most 20 s.
/// Threads: any.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
/// (another program is there), ZSR_ERROR_SCHEMA. `*streams` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_in_streams_attach(
    flow: *const c_char,
    answers: *const c_char,
    window: u32,
    most: usize,
    options: *const zsr_options,
    streams: *mut *mut zsr_in_streams,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: room for a pointer, texts, options.
        let (flow, answers, attach) = unsafe {
            put(streams, "streams", null_mut())?;
            flows(flow, answers, options)?
        };
        let usual = StreamOptions::default();
        let options = StreamOptions {
            window: if window == 0 { usual.window } else { window },
            most: if most == 0 { usual.most } else { most },
            program: attach.options,
        };
        let come = InStreams::attach(attach.contact, flow, answers, &options)?;
        // SAFETY: as above.
        unsafe { put(streams, "streams", Box::into_raw(Box::new(zsr_in_streams(Handle::new(come))))) }?;
        Ok(ZSR_OK)
    })
}

/// The next stream that a sender has opened.
///
/// Ownership: `*stream` is the caller's, until zsr_in_stream_end(); it may be used by another thread than `streams`, and after that.
/// Blocks: until there is one, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_AGAIN when none came in time, ZSR_END when all senders have closed; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY,
/// ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_DAMAGED (the flow carries no streams). `*stream` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_in_streams_accept(
    streams: *mut zsr_in_streams,
    timeout_us: i64,
    stream: *mut *mut zsr_in_stream,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer.
    unsafe {
        with(streams.as_ref().map(|s| &s.0), |come| {
            put(stream, "stream", null_mut())?;
            let next = match wait(timeout_us) {
                Wait::Forever => come.accept()?.map_or(Next::End, Next::Some),
                other => come.accept_timeout(other.at_most().unwrap_or_default())?,
            };
            found(next, |opened| {
                let coming = Coming { stream: opened, record: Vec::new() };
                put(stream, "stream", Box::into_raw(Box::new(zsr_in_stream(Handle::new(coming)))))
            })
        })
    }
}

/// Accepts no more streams: those that were not accepted, and later ones, are cancelled. Those that were accepted go on.
///
/// Ownership: takes `streams`.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_in_streams_end(streams: *mut zsr_in_streams) -> zsr_status {
    let work = |come| {
        drop(come);
        Ok(ZSR_OK)
    };
    // SAFETY: a handle, by contract.
    unsafe { end(streams, |s| &s.0, |s| s.0, work) }
}

/// The name that the sender has given the stream: `*length` bytes.
///
/// Ownership: `*name` is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_in_stream_name(
    stream: *const zsr_in_stream,
    name: *mut *const c_void,
    length: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer and a number.
    unsafe {
        with(stream.as_ref().map(|s| &s.0), |coming| {
            put(name, "name", coming.stream.name().as_ptr().cast())?;
            put(length, "length", coming.stream.name().len())?;
            Ok(ZSR_OK)
        })
    }
}

/// Pops the next record: `*length` bytes.
///
/// Ownership: `*record` is the handle's, and valid until the next call with it. NULL if there is none.
/// Blocks: until there is a record, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_AGAIN when none came in time, ZSR_END at the stream's end; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_STREAM (its
/// sender has given it up, or is gone), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_in_stream_pop(
    stream: *mut zsr_in_stream,
    timeout_us: i64,
    record: *mut *const c_void,
    length: *mut usize,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer and a number.
    unsafe {
        with(stream.as_ref().map(|s| &s.0), |coming| {
            put(record, "record", std::ptr::null())?;
            put(length, "length", 0)?;
            let next = match wait(timeout_us) {
                Wait::Forever => coming.stream.pop()?.map_or(Next::End, Next::Some),
                Wait::No => coming.stream.try_pop()?,
                Wait::For(time) => coming.stream.pop_timeout(time)?,
            };
            found(next, |popped| {
                coming.record = popped;
                put(record, "record", coming.record.as_ptr().cast())?;
                put(length, "length", coming.record.len())
            })
        })
    }
}

/// Ends the reading of a stream. If the stream has not ended, it is cancelled: its sender finds ZSR_ERROR_STREAM with `why`, which may
/// be NULL.
///
/// Ownership: takes `stream`; `why` stays the caller's.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_in_stream_end(stream: *mut zsr_in_stream, why: *const c_char) -> zsr_status {
    // SAFETY: a text, by contract.
    let why = unsafe { text(why, "why") }.ok().flatten();
    let work = |coming: Coming| {
        match why {
            Some(why) => coming.stream.cancel(why),
            None => drop(coming.stream),
        }
        Ok(ZSR_OK)
    };
    // SAFETY: a handle, by contract.
    unsafe { end(stream, |s| &s.0, |s| s.0, work) }
}
