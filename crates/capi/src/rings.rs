//! Rings as memory, for units that push and pop there themselves.

use std::ffi::{CString, c_char};

use zsr::{ByteOrder, FlowRings, Role};

use crate::attach::{read, zsr_options};
use crate::columns::Described;
use crate::fault::{Fault, call, invalid};
use crate::handle::{Handle, check_size, end, put, text, with};
use crate::status::zsr_status::{self, *};

/// All rings of one member of a flow, whose memory a GPU or another unit reads and writes itself (zsr.cuh).
pub struct zsr_rings(Handle<Held>);

struct Held {
    flow: FlowRings,
    described: Described,
    /// Names of each ring and of its consumer.
    names: Vec<[CString; 2]>,
}

/// A ring in memory that this process has mapped, of ABI version 1. Begin with ZSR_RING_INIT.
#[repr(C)]
pub struct zsr_ring {
    /// sizeof(zsr_ring).
    pub size: usize,
    /// Its first byte, at a multiple of 4096: a page of control words, and then the items. If `gpu` is not 0, an address for kernels of
    /// that GPU (a CUdeviceptr), which the host must not follow.
    pub base: *mut u8,
    /// Bytes of all of it: what a CUDA program registers (cuMemHostRegister) if `gpu` is 0.
    pub length: usize,
    /// Bytes of items, a power of two.
    pub ring_size: u32,
    /// Bytes of each item, a power of two.
    pub item_size: u32,
    /// 1: control words have their most significant byte first; 0: last.
    pub big_endian: u32,
    /// The epoch in the upper 16 bits of its flags.
    pub epoch: u32,
    /// What stands in the headers of segments that this program writes there.
    pub number: u32,
    /// 0: in host memory. Otherwise in the own memory of a GPU, whose number for this process it is, and 1 more.
    pub gpu: u32,
    /// The ring's name.
    pub name: *const c_char,
    /// The consumer that it leads to; an empty text where consumers share it, and for a consumer's ring.
    pub consumer: *const c_char,
}

/// Takes all rings of a producer of `flow`, for a unit that pushes there itself. It ends its streams itself, too (`close` of zsr.cuh, or
/// zsr_rings_close()). Nothing rings doorbells: a flow that is to begin fast after a pause is created with `--doorbell false`.
///
/// Ownership: `*rings` is the caller's, until zsr_rings_leave() or zsr_rings_close(). `flow` and `options`, which may be NULL,
/// stay the caller's.
/// Blocks: until controller and agent have answered, for at most 20 s.
/// Threads: any.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
/// (another program is there, the stream has ended, the rings are in memory of a GPU that this process does not have), ZSR_ERROR_SCHEMA.
/// `*rings` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_rings_produce(
    flow: *const c_char,
    options: *const zsr_options,
    rings: *mut *mut zsr_rings,
) -> zsr_status {
    // SAFETY: the caller's promises.
    unsafe { attach(flow, options, rings, Role::Producer) }
}

/// Takes all rings of a consumer of `flow`, one for each of the flow's lanes, for a unit that pops there itself.
///
/// Ownership: `*rings` is the caller's, until zsr_rings_leave(). `flow` and `options`, which may be NULL, stay the caller's.
/// Blocks: until controller and agent have answered, for at most 20 s.
/// Threads: any.
/// Errors: as zsr_rings_produce(). `*rings` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_rings_consume(
    flow: *const c_char,
    options: *const zsr_options,
    rings: *mut *mut zsr_rings,
) -> zsr_status {
    // SAFETY: the caller's promises.
    unsafe { attach(flow, options, rings, Role::Consumer) }
}

/// # Safety
/// As for the functions above.
unsafe fn attach(
    flow: *const c_char,
    options: *const zsr_options,
    rings: *mut *mut zsr_rings,
    role: Role,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: room for a pointer, a text, options.
        let (flow, attach) = unsafe {
            put(rings, "rings", std::ptr::null_mut())?;
            (text(flow, "flow")?, read(options)?)
        };
        let flow = flow.ok_or_else(|| invalid("flow is null"))?;
        let flow = FlowRings::attach(attach.contact, flow, role, &attach.options)?;
        let described = Described::new(flow.member(), flow.schema());
        // Neither names of rings nor of members have zero bytes.
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let names = flow.rings().iter().map(|held| [text(&held.name), text(&held.consumer)]).collect();
        let attached = Box::new(zsr_rings(Handle::new(Held { flow, described, names })));
        // SAFETY: as above.
        unsafe { put(rings, "rings", Box::into_raw(attached)) }?;
        Ok(ZSR_OK)
    })
}

/// A call with a handle.
///
/// # Safety
/// `rings` is null, or came from an attach and was not ended.
unsafe fn within(
    rings: *const zsr_rings,
    work: impl FnOnce(&mut Held) -> Result<zsr_status, Fault>,
) -> zsr_status {
    // SAFETY: null, or a handle that was not ended, by contract.
    with(unsafe { rings.as_ref() }.map(|rings| &rings.0), work)
}

/// The last call with a handle, which takes it.
///
/// # Safety
/// `rings` is null, or came from an attach and was not ended.
unsafe fn ended(rings: *mut zsr_rings, work: impl FnOnce(Held) -> Result<zsr_status, Fault>) -> zsr_status {
    // SAFETY: by contract.
    unsafe { end(rings, |r| &r.0, |r| r.0, work) }
}

/// The member that it is.
///
/// Ownership: `*member` is the handle's, and valid as long as it.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_rings_member(rings: *const zsr_rings, member: *mut *const c_char) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a pointer.
    unsafe { within(rings, |r| put(member, "member", r.described.member.as_ptr()).map(|()| ZSR_OK)) }
}

/// How many rings there are: one, or, of a producer of a shuffle, one to each consumer.
///
/// Ownership: nothing.
/// Blocks: no.
/// Threads: any, one call with a handle at a time.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_rings_count(rings: *const zsr_rings, count: *mut usize) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and room for a number.
    unsafe { within(rings, |r| put(count, "count", r.names.len()).map(|()| ZSR_OK)) }
}

/// Ring number `index`, from 0: of a producer in the order of the flow's consumers, of a consumer in that of its lanes.
///
/// Ownership: `ring` is the caller's, and `ring->size` has to be sizeof(zsr_ring) (ZSR_RING_INIT). What it points to is the
/// handle's: before that ends, no unit may use the memory any more, and a CUDA program has unregistered it if `ring->gpu` is 0.
/// Blocks: no.
/// Threads: any, one call with a handle at a time; the memory is for one producer, or one consumer, at a time.
/// Errors: ZSR_ERROR_INVALID (no such ring), ZSR_ERROR_BUSY, ZSR_ERROR_ABI if `ring->size` is wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_rings_get(
    rings: *const zsr_rings,
    index: usize,
    ring: *mut zsr_ring,
) -> zsr_status {
    // SAFETY: the caller's promises: a handle, and a zsr_ring that says its size.
    unsafe {
        within(rings, |r| {
            check_size(ring, "ring", "ZSR_RING_INIT")?;
            let (Some(held), Some([name, consumer])) = (r.flow.rings().get(index), r.names.get(index)) else {
                return Err(invalid(format!("there is no ring {index}: there are {}", r.names.len())));
            };
            let (spec, memory) = (held.ring.spec(), held.ring.memory());
            let filled = zsr_ring {
                size: size_of::<zsr_ring>(),
                base: memory.base().as_ptr(),
                length: spec.memory_len(),
                ring_size: spec.ring_size(),
                item_size: spec.item_size(),
                big_endian: u32::from(spec.byte_order() == ByteOrder::Big),
                epoch: held.ring.epoch().into(),
                number: held.number,
                gpu: memory.gpu().map_or(0, |gpu| gpu.number + 1),
                name: name.as_ptr(),
                consumer: consumer.as_ptr(),
            };
            put(ring, "ring", filled)?;
            Ok(ZSR_OK)
        })
    }
}

/// Leaves. Rings whose streams were closed, or drained to their end, have ended; the others are for the next program.
///
/// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
/// Blocks: until the agent has the rings back, for at most 1 s each.
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_rings_leave(rings: *mut zsr_rings) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe {
        ended(rings, |held| {
            drop(held);
            Ok(ZSR_OK)
        })
    }
}

/// Ends the streams of a producer's rings behind what was pushed, and leaves. To be called when no unit pushes any more.
///
/// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
/// Blocks: as zsr_rings_leave().
/// Threads: any, one call with a handle at a time, and none after it.
/// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_rings_close(rings: *mut zsr_rings) -> zsr_status {
    // SAFETY: the caller's promise: a handle that no call comes to any more.
    unsafe {
        ended(rings, |held| {
            for held in held.flow.rings().iter().filter(|held| held.ring.role() == Role::Producer) {
                held.ring.finish();
            }
            Ok(ZSR_OK)
        })
    }
}
