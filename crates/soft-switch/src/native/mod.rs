//! Native code: the loaded program as machine code of the host, made by cranelift.
//!
//! ```text
//!  ops ── flow (graph, a copy of each action per table) ── emit, bytes (one op, headers) ── stores ──► cranelift ──► functions
//!           │ facts (copies of what decides), fixed (tables that never change), find, fold                 │
//!  `Native::run(entry, core, ..)` ◄──────────── runtime (what the functions call back) ◄───────────────────┘
//! ```
//!
//! The interpreter is the definition: native code does what [`Core::interpret`] does, instruction by instruction, but it
//! does not store what nothing reads any more (`stores`). It calls [`Core::step`] for the instructions that are not worth
//! code of their own. Where there is no native code (an unknown host, memory that cannot be made executable, a program too
//! big), the interpreter runs.

mod backward;
mod bytes;
mod emit;
mod facts;
mod find;
mod fixed;
mod flow;
mod fold;
mod runtime;
mod stores;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::rc::Rc;

use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, default_libcall_names};

use crate::compile::optimize::SlotSet;
use crate::exec::core::{Core, Entry, Stop};
use crate::image::Image;
use crate::op::Op;
use emit::Emitter;
use fixed::Fixed;
use runtime::Env;
use zsr_wire::frame::Frame;

/// Runs an entry. Returns 0, or 1 with the parser's error in [`Core::stop`].
type Run = unsafe extern "C" fn(*mut Core, *const Env) -> u64;
/// Runs what comes before deparsing. Returns the bytes of all valid headers.
type Size = unsafe extern "C" fn(*mut Core, *const Env) -> u64;
/// Writes all valid headers.
type Write = unsafe extern "C" fn(*mut Core, *const Env, *mut u8) -> u64;

/// Instructions that a program may have when every action is counted once per table that can run it. A bigger program
/// is interpreted: code for it would take long to make.
const MAX_OPS: usize = 40_000;

/// Why there is no native code; only for people who debug this crate.
#[derive(Debug)]
pub(crate) struct NoCode;

impl<E: std::error::Error> From<E> for NoCode {
    fn from(_: E) -> NoCode {
        NoCode
    }
}

/// The code of one program.
pub(crate) struct Native {
    /// Code of the entries of [`Entry::PACKET`]; `None` where there is nothing to do.
    entries: [Option<Run>; Entry::PACKET.len()],
    size: Size,
    write: Write,
    /// The metadata that has to be 0 in front of the code, in runs of slots. All else is written before it is
    /// read, or is never read, since it is known to be 0.
    cleared: Vec<Range<usize>>,
    _module: Code,
}

/// The memory that code lies in. Nothing is done with it but freeing it.
struct Code(Option<JITModule>);

// SAFETY: the module is not `Send` and `Sync` because of its symbol tables and its memory provider. Neither is touched
// between `Native::compile` and `drop`, which has exclusive access; what other threads share are addresses of code.
unsafe impl Send for Code {}
// SAFETY: see above; no method takes `&Code`.
unsafe impl Sync for Code {}

// Nothing of it can be seen half changed.
impl std::panic::UnwindSafe for Code {}
impl std::panic::RefUnwindSafe for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.0.take() {
            // SAFETY: function pointers into this memory are only in `Native`, which owns it, private, and gone.
            unsafe { module.free_memory() }
        }
    }
}

impl Native {
    /// Compiles a program.
    pub(crate) fn compile(image: &Image) -> Result<Native, NoCode> {
        let isa = isa()?;
        let mut module = Code(Some(JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()))));
        let Some(m) = &mut module.0 else { return Err(NoCode) };
        let mut maker = Maker { image, module: m, context: FunctionBuilderContext::new(), budget: MAX_OPS };
        let fixed = Rc::new(Fixed::new(image));
        // From the last function to the first: each keeps what those behind it read.
        let visible = stores::visible(image);
        let mut live = visible.clone();
        let write = maker.function(3, &mut live, |e, _| e.headers_write())?;
        live.add_all(&visible);
        let size = maker.function(2, &mut live, |e, budget| e.before_deparsing(&fixed, budget))?;
        let mut cleared = visible.clone();
        let mut ids = [None; Entry::PACKET.len()];
        for entry in Entry::PACKET.into_iter().rev() {
            live.add_all(&visible);
            let start = image.entry(entry);
            let zeros = facts::zeros(image, entry)?;
            if !matches!(image.code.get(start as usize), Some(Op::End)) {
                let program = |e: &mut Emitter, budget: &mut usize| e.program(start, &zeros, &fixed, budget);
                ids[entry as usize] = Some(maker.function(2, &mut live, program)?);
            }
            // Packets begin with the parser, and copies with egress.
            if matches!(entry, Entry::Parser | Entry::Egress) {
                cleared.add_all(&live);
            }
        }
        let cleared = cleared.runs(image.metadata_slots);
        m.finalize_definitions()?;
        let address = |id: FuncId| m.get_finalized_function(id);
        // SAFETY: these are the addresses of functions that were compiled with the signatures of these types. A
        // signature has two or three pointers, a 64-bit result and the host's C calling convention.
        let run = |id| unsafe { std::mem::transmute::<*const u8, Run>(address(id)) };
        let entries = ids.map(|id| id.map(run));
        // SAFETY: as above.
        let size = unsafe { std::mem::transmute::<*const u8, Size>(address(size)) };
        // SAFETY: as above.
        let write = unsafe { std::mem::transmute::<*const u8, Write>(address(write)) };
        Ok(Native { entries, size, write, cleared, _module: module })
    }

    /// The metadata that has to be 0 in front of the code, in runs of slots.
    #[inline]
    pub(crate) fn cleared(&self) -> &[Range<usize>] {
        &self.cleared
    }

    /// The native form of [`Core::interpret`], for the entries of [`Entry::PACKET`].
    #[inline]
    pub(crate) fn run(&self, core: &mut Core, image: &Image, entry: Entry, data: &[u8]) -> Result<(), Stop> {
        let Some(code) = self.entries[entry as usize] else { return Ok(()) };
        let env = Env::new(core, image, data);
        // SAFETY: the code was made from this image (a `Native` is part of it), for a core of this image. It uses both
        // and the frame only as `runtime` says, and all three outlive the call.
        match unsafe { code(core, &env) } {
            0 => Ok(()),
            _ => Err(Stop::Error(core.stop)),
        }
    }

    /// The native form of [`Core::deparse`].
    #[inline]
    pub(crate) fn deparse(
        &self,
        core: &mut Core,
        image: &Image,
        frame: &mut Frame,
        room: impl FnOnce(&mut Frame, usize, usize) -> bool,
    ) -> bool {
        let mut env = Env::new(core, image, frame.bytes());
        // SAFETY: as in `run`.
        let size = unsafe { (self.size)(core, &env) } as usize;
        if core.condemned || !room(frame, core.cursor, size) {
            return false;
        }
        let out = &mut frame.bytes_mut()[..size];
        env.len = 0;
        // SAFETY: as in `run`, since the state's vectors are where they were; and the code writes the headers that it has
        // just counted: nothing else had the core.
        unsafe { (self.write)(core, &env, out.as_mut_ptr()) };
        true
    }
}

/// Instruction set and settings of the host.
fn isa() -> Result<OwnedTargetIsa, NoCode> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed")?;
    flags.set("is_pic", "false")?;
    flags.set("use_colocated_libcalls", "false")?;
    flags.set("unwind_info", "false")?;
    flags.set("enable_verifier", if cfg!(test) { "true" } else { "false" })?;
    let native = cranelift_native::builder().map_err(|_| NoCode)?;
    let isa = native.finish(settings::Flags::new(flags)).map_err(|_| NoCode)?;
    // Code loads and stores whole words of 64 bits, and addresses are as long.
    if isa.pointer_type() != types::I64 { Err(NoCode) } else { Ok(isa) }
}

/// Makes functions.
struct Maker<'a> {
    image: &'a Image,
    module: &'a mut JITModule,
    context: FunctionBuilderContext,
    /// Instructions that may still be compiled.
    budget: usize,
}

impl Maker<'_> {
    /// A function of `params` pointers whose code `body` emits. `live` are the slots that matter when it has ended, and then those that
    /// matter when it begins.
    fn function(
        &mut self,
        params: usize,
        live: &mut SlotSet,
        body: impl FnOnce(&mut Emitter, &mut usize) -> Result<(), NoCode>,
    ) -> Result<FuncId, NoCode> {
        let word = AbiParam::new(types::I64);
        let mut signature = Signature::new(self.module.isa().default_call_conv());
        signature.params.extend(vec![word; params]);
        signature.returns.push(word);
        let id = self.module.declare_anonymous_function(&signature)?;
        let mut context = Context::new();
        context.func.signature = signature;
        let mut builder = FunctionBuilder::new(&mut context.func, &mut self.context);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        let mut emitter = Emitter::new(self.image, builder, block, self.module.isa().default_call_conv());
        body(&mut emitter, &mut self.budget)?;
        let slots = emitter.slots;
        emitter.finish();
        *live = stores::drop_unread(&mut context.func, slots, self.image, live);
        self.module.define_function(id, &mut context).map_err(|_| NoCode)?;
        Ok(id)
    }
}
