//! Takes out stores to slots that nothing reads behind them: what a program keeps for itself alone, and fields that are cleared before they
//! get their values. Found backwards from the ends of a function (liveness), when all that is constant has been folded.

use std::collections::HashMap;

use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{Block, Function, Inst, InstructionData, Opcode, Value, ValueDef, types};

use super::{backward, runtime};
use crate::compile::calc::Segment;
use crate::compile::optimize::SlotSet;
use crate::image::Image;
use crate::op::{Pc, R};

/// What an instruction does with slots.
enum Access {
    Reads(Vec<R>),
    ReadsAll,
    Writes(R),
    /// The function ends.
    Ends,
}

/// The slots that the switch looks at itself, or that a copy of a packet takes along.
pub(super) fn visible(image: &Image) -> SlotSet {
    let mut visible = SlotSet::new();
    visible.add(image.metadata_slots as R, image.phv_slots - image.metadata_slots);
    image.standard.slots().for_each(|r| visible.add(r, 1));
    for &(r, limbs) in image.field_lists.values().flatten() {
        visible.add(r, limbs.into());
    }
    for &(r, width) in image.learn_lists.values().flat_map(|(_, fields)| fields) {
        visible.add(r, width.div_ceil(64) as usize);
    }
    let nexts = image.stacks.iter().map(|s| s.next).chain(image.union_stacks.iter().map(|s| s.next));
    nexts.for_each(|r| visible.add(r, 1));
    for plan in image.headers.iter().filter(|plan| plan.var.is_some()) {
        visible.add(plan.base, plan.slots);
    }
    visible
}

/// Takes stores out of a function. `slots` is the address of all slots, `behind` are those that matter when the function has ended.
/// Returns the slots that matter when it begins.
pub(super) fn drop_unread(func: &mut Function, slots: Value, image: &Image, behind: &SlotSet) -> SlotSet {
    let slots = func.dfg.resolve_aliases(slots);
    let blocks: Vec<Block> = func.layout.blocks().collect();
    // An address among the slots that is known only when the code runs could be read from anywhere behind it.
    let computes = |inst: Inst| {
        let is_access =
            matches!(func.dfg.insts[inst], InstructionData::Load { .. } | InstructionData::Store { .. });
        !is_access && func.dfg.inst_args(inst).iter().any(|v| func.dfg.resolve_aliases(*v) == slots)
    };
    if blocks.iter().any(|block| func.layout.block_insts(*block).any(computes)) {
        return with_metadata(image, behind.clone());
    }
    let of_block = |block: &Block| -> Vec<(Inst, Access)> {
        let accesses = func.layout.block_insts(*block);
        accesses.filter_map(|inst| Some((inst, access(func, inst, slots, image)?))).collect()
    };
    let accesses: Vec<Vec<(Inst, Access)>> = blocks.iter().map(of_block).collect();
    let live = Live::new(&accesses, behind);
    let cfg = ControlFlowGraph::with_function(func);
    let number: HashMap<Block, usize> = blocks.iter().enumerate().map(|(i, b)| (*b, i)).collect();
    let nexts: Vec<Vec<usize>> =
        blocks.iter().map(|block| cfg.succ_iter(*block).map(|next| number[&next]).collect()).collect();
    let begins = backward::solve(&nexts, live.behind.len(), |i, now| {
        for (_, access) in accesses[i].iter().rev() {
            live.before(access, now);
        }
    });
    for (nexts, accesses) in nexts.iter().zip(&accesses) {
        let mut now = backward::joined(nexts, &begins, live.behind.len());
        for (inst, access) in accesses.iter().rev() {
            if !live.before(access, &mut now) {
                func.layout.remove_inst(*inst);
            }
        }
    }
    live.all(image, behind, begins.first())
}

/// The slots that a function touches, by number from 1; sets of them are words of bits. Bit 0 stands for all other slots.
struct Live {
    numbers: HashMap<R, usize>,
    /// Those that matter when the function has ended.
    behind: Vec<u64>,
}

impl Live {
    fn new(accesses: &[Vec<(Inst, Access)>], behind: &SlotSet) -> Live {
        let mut numbers = HashMap::new();
        for (_, access) in accesses.iter().flatten() {
            let touched = match access {
                Access::Reads(slots) => slots.as_slice(),
                Access::Writes(r) => std::slice::from_ref(r),
                Access::ReadsAll | Access::Ends => &[],
            };
            for &r in touched {
                let next = numbers.len() + 1;
                numbers.entry(r).or_insert(next);
            }
        }
        let mut live = Live { behind: vec![0; (numbers.len() + 1).div_ceil(64)], numbers };
        for (r, at) in &live.numbers {
            live.behind[at / 64] |= u64::from(behind.has(*r)) << (at % 64);
        }
        live
    }

    /// From what matters behind an instruction to what does in front of it; `false` if the instruction does nothing that matters.
    fn before(&self, access: &Access, now: &mut [u64]) -> bool {
        match access {
            Access::Ends => now.copy_from_slice(&self.behind),
            Access::ReadsAll => now.fill(u64::MAX),
            Access::Reads(slots) => {
                for r in slots {
                    let at = self.numbers[r];
                    now[at / 64] |= 1 << (at % 64);
                }
            }
            Access::Writes(r) => {
                let at = self.numbers[r];
                let was = now[at / 64] >> (at % 64) & 1 == 1;
                now[at / 64] &= !(1 << (at % 64));
                return was;
            }
        }
        true
    }

    /// The slots that matter where `now` holds; those that the function does not touch are as behind it, if no call reads any slots.
    fn all(&self, image: &Image, behind: &SlotSet, now: Option<&Vec<u64>>) -> SlotSet {
        let has = |at: usize| now.is_some_and(|now| now[at / 64] >> (at % 64) & 1 == 1);
        let mut all = if has(0) { with_metadata(image, behind.clone()) } else { behind.clone() };
        self.numbers.iter().for_each(|(r, at)| all.set(*r, has(*at)));
        all
    }
}

/// Adds all metadata that any code reads.
fn with_metadata(image: &Image, mut slots: SlotSet) -> SlotSet {
    image.metadata_runs.iter().for_each(|run| slots.add(run.start as R, run.len()));
    slots
}

fn access(func: &Function, inst: Inst, slots: Value, image: &Image) -> Option<Access> {
    let is_slots = |v: Value| func.dfg.resolve_aliases(v) == slots;
    let slot = |offset: i32| (offset / 8) as R;
    match func.dfg.insts[inst] {
        InstructionData::Load { arg, offset, .. } if is_slots(arg) => {
            Some(Access::Reads(vec![slot(offset.into())]))
        }
        InstructionData::Store { opcode: Opcode::Store, args: [v, at], offset, .. }
            if is_slots(at) && func.dfg.value_type(v) == types::I64 =>
        {
            Some(Access::Writes(slot(offset.into())))
        }
        InstructionData::CallIndirect { .. } => {
            Some(read_by_call(func, func.dfg.inst_args(inst), image).map_or(Access::ReadsAll, Access::Reads))
        }
        ref data if data.opcode().is_return() => Some(Access::Ends),
        _ => None,
    }
}

/// The slots that a function of [`runtime`] reads; `None`: any.
fn read_by_call(func: &Function, args: &[Value], image: &Image) -> Option<Vec<R>> {
    let constant = |v: &Value| match func.dfg.value_def(*v) {
        ValueDef::Result(inst, _) => match func.dfg.insts[inst] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits() as u64),
            _ => None,
        },
        _ => None,
    };
    let function = args.first().and_then(constant)? as usize;
    // Behind the function, the core and the environment.
    let first = args.get(3).and_then(constant);
    let is = |one: *const ()| function == one as usize;
    if is(runtime::hash as *const ()) || is(runtime::spend_loop as *const ()) {
        return Some(Vec::new());
    }
    let applies =
        [runtime::apply_0 as *const (), runtime::apply_1 as *const (), runtime::apply_2 as *const ()];
    if applies.into_iter().any(is) {
        // The hash that chooses a member of a group is over fields.
        let table = image.tables.get(first? as usize)?;
        return table.profile.is_none().then(Vec::new);
    }
    if is(runtime::apply as *const ()) {
        let table = image.tables.get(first? as usize).filter(|table| table.profile.is_none())?;
        return Some(table.key.parts.iter().map(|part| part.slot).collect());
    }
    if is(runtime::step as *const ()) {
        return read_by(image, first? as Pc);
    }
    None
}

/// The slots that an instruction reads which the interpreter executes; `None`: any.
fn read_by(image: &Image, pc: Pc) -> Option<Vec<R>> {
    let mut op = *image.code.get(pc as usize)?;
    if op.reads_others() {
        return None;
    }
    let mut read = Vec::new();
    op.reads(&mut |r| read.push(*r));
    op.range_reads(&mut |r, n| read.extend((r..=R::MAX).take(n)));
    if let Some(calc) = op.calc() {
        for segment in &image.calcs[*calc as usize].segments {
            let Segment::Pack { valid, pack } = segment else { return None };
            read.extend(valid.iter().copied().chain(pack.slots()));
        }
    }
    Some(read)
}
