//! The arguments of native code, and the functions that native code calls back.
//!
//! Native code knows where fields of [`Core`] and [`Env`] lie (`offset_of!`) and reads and writes these:
//!
//! - slots, by numbers below 65536, of which there are 65536;
//! - register and counter cells, after comparing the index with the size that they were allocated with;
//! - argument words, up to `words`;
//! - of tables with a direct index, the index, by a key of as many bits as it was allocated for, and the actions of the
//!   entries that are in it;
//! - of tables with a hash of one or two words, keys and numbers up to the last place, and likewise the actions; a free
//!   place ends the search, and half of all places are free;
//! - bytes of the frame, up to `len`;
//! - the scratch buffer, up to the calculation's `max_bytes`, for which it was allocated.
//!
//! Functions of this module do everything else for it.

use crate::control::CounterValue;
use crate::exec::core::{Core, Stop};
use crate::image::Image;
use crate::table::Place;

/// The program, the frame and where the state's vectors lie, for the length of one call.
#[repr(C)]
pub(crate) struct Env {
    image: *const Image,
    pub data: *const u8,
    pub len: usize,
    pub cells: *mut u64,
    pub counters: *mut CounterValue,
    /// Arguments of all entries.
    pub words: *const u64,
    pub word_count: usize,
    pub scratch: *mut u8,
    pub places: *const Place,
}

impl Env {
    #[inline]
    pub(super) fn new(core: &mut Core, image: &Image, data: &[u8]) -> Env {
        Env {
            image,
            data: data.as_ptr(),
            len: data.len(),
            cells: core.cells.as_mut_ptr(),
            counters: core.counters.as_mut_ptr(),
            words: core.arena.words.as_ptr(),
            word_count: core.arena.words.len(),
            scratch: core.scratch.as_mut_ptr(),
            places: core.tables.places(),
        }
    }

    /// The program and the frame.
    ///
    /// # Safety
    /// `env` is what [`Native`](super::Native) called the code with that is calling back.
    #[inline]
    unsafe fn parts<'a>(env: *const Env) -> (&'a Image, &'a [u8]) {
        // SAFETY: `Native` made it from references that outlive the call of the code.
        unsafe { (&*(*env).image, std::slice::from_raw_parts((*env).data, (*env).len)) }
    }
}

/// Zeros, where the arguments of an action are not where they should be.
pub(super) static ZEROS: [u64; 256] = [0; 256];

/// Executes one instruction as the interpreter does. 0, or 1 with the error in [`Core::stop`].
///
/// # Safety
/// Called by native code with its own arguments, for all functions here: `core` is the only way to the core then.
pub(super) unsafe extern "C" fn step(core: *mut Core, env: *const Env, pc: u64) -> u64 {
    // SAFETY: see above.
    let (core, (image, data)) = unsafe { (&mut *core, Env::parts(env)) };
    let Some(op) = image.code.get(pc as usize) else { return 0 };
    match core.step(image, op, data) {
        Ok(()) => 0,
        Err(Stop::Error(e)) => {
            core.stop = e;
            1
        }
    }
}

/// Looks a table up: the action's code below, the next node's above; arguments in [`Core::args`].
///
/// # Safety
/// As for [`step`].
pub(super) unsafe extern "C" fn apply(core: *mut Core, env: *const Env, t: u64) -> u64 {
    // SAFETY: see `step`.
    let (core, (image, _)) = unsafe { (&mut *core, Env::parts(env)) };
    let entry = core.tables[t as usize].lookup.find(&image.tables[t as usize].key, &core.slots);
    found(core, image, t, entry)
}

/// [`apply`] of a table without key, or whose key is the one or two words that are given.
///
/// # Safety
/// As for [`step`].
pub(super) unsafe extern "C" fn apply_0(core: *mut Core, env: *const Env, t: u64) -> u64 {
    // SAFETY: see `step`.
    let (core, (image, _)) = unsafe { (&mut *core, Env::parts(env)) };
    found(core, image, t, 0)
}

/// See [`apply_0`].
///
/// # Safety
/// As for [`step`].
pub(super) unsafe extern "C" fn apply_1(core: *mut Core, env: *const Env, t: u64, key: u64) -> u64 {
    // SAFETY: see `step`.
    let (core, (image, _)) = unsafe { (&mut *core, Env::parts(env)) };
    let entry = core.tables[t as usize].lookup.find_word(|| &image.tables[t as usize].key, key);
    found(core, image, t, entry)
}

/// See [`apply_0`].
///
/// # Safety
/// As for [`step`].
pub(super) unsafe extern "C" fn apply_2(core: *mut Core, env: *const Env, t: u64, a: u64, b: u64) -> u64 {
    // SAFETY: see `step`.
    let (core, (image, _)) = unsafe { (&mut *core, Env::parts(env)) };
    let entry = core.tables[t as usize].lookup.find_pair(|| &image.tables[t as usize].key, [a, b]);
    found(core, image, t, entry)
}

#[inline(always)]
fn found(core: &mut Core, image: &Image, t: u64, entry: u32) -> u64 {
    let (action, next, args) = core.found(image, t as usize, entry);
    core.args = args;
    u64::from(action) | u64::from(next) << 32
}

/// Whether another loop iteration is allowed, as 0 or 1.
///
/// # Safety
/// As for [`step`].
pub(super) unsafe extern "C" fn spend_loop(core: *mut Core, _: *const Env) -> u64 {
    // SAFETY: see `step`.
    u64::from(unsafe { &mut *core }.spend_loop())
}

/// Whether a value set has the key that one of its uses sees, as 0 or 1.
///
/// # Safety
/// As for [`step`].
pub(super) unsafe extern "C" fn in_set(core: *mut Core, env: *const Env, set_use: u64) -> u64 {
    // SAFETY: see `step`.
    let (core, (image, _)) = unsafe { (&mut *core, Env::parts(env)) };
    u64::from(core.in_set(image, set_use as usize))
}

/// A calculation's result over the first `bytes` bytes of the scratch buffer, and the payload.
///
/// # Safety
/// As for [`step`].
pub(super) unsafe extern "C" fn hash(core: *mut Core, env: *const Env, calc: u64, bytes: u64) -> u64 {
    // SAFETY: see `step`.
    let (core, (image, data)) = unsafe { (&mut *core, Env::parts(env)) };
    let payload = if image.calcs[calc as usize].payload { core.payload(data) } else { &[] };
    let input = &core.scratch[..bytes as usize];
    core.algos[calc as usize].run([input, payload], &mut core.algo_states[calc as usize])
}

/// Bytes of a header with a varbit.
///
/// # Safety
/// As for [`step`].
pub(super) unsafe extern "C" fn var_size(core: *mut Core, env: *const Env, header: u64) -> u64 {
    // SAFETY: see `step`.
    let (core, (image, _)) = unsafe { (&mut *core, Env::parts(env)) };
    image.headers[header as usize].size(&core.slots) as u64
}

/// Writes a header with a varbit; returns its bytes.
///
/// # Safety
/// As for [`step`]; `out` has room for as many bytes as [`var_size`] says.
pub(super) unsafe extern "C" fn var_write(
    core: *mut Core,
    env: *const Env,
    header: u64,
    out: *mut u8,
) -> u64 {
    // SAFETY: see `step`.
    let (core, (image, _)) = unsafe { (&mut *core, Env::parts(env)) };
    let plan = &image.headers[header as usize];
    let size = plan.size(&core.slots);
    // SAFETY: see above.
    let out = unsafe { std::slice::from_raw_parts_mut(out, size) };
    plan.write(&core.slots, out);
    size as u64
}
