//! Takes out what p4c's output has too much of: copies of fields into temporaries that one hash or register index
//! reads, and stores to metadata that nothing reads.

use std::collections::HashMap;

use super::asm::Asm;
use super::calc::{CalcPlan, Segment};
use super::operands::Writes;
use crate::op::{Op, R};

/// Slots, one truth value each.
pub(crate) struct SlotSet(Box<[bool]>);

impl SlotSet {
    pub(crate) fn new() -> SlotSet {
        SlotSet(vec![false; 65536].into())
    }

    pub(crate) fn add(&mut self, first: R, n: usize) {
        let end = (first as usize + n).min(65536);
        self.0[first as usize..end].fill(true);
    }

    fn has(&self, r: R) -> bool {
        self.0[r as usize]
    }
}

/// Optimizes code in place. `kept` are the slots whose values matter whether or not code reads them.
pub(crate) fn optimize(asm: &mut Asm, calcs: &mut Vec<CalcPlan>, kept: &SlotSet) {
    own_calcs(asm, calcs);
    forward_copies(asm, calcs);
    // Each round can make more stores useless.
    for _ in 0..8 {
        if !drop_dead_stores(asm, calcs, kept) {
            break;
        }
    }
}

/// Gives each instruction a calculation of its own, so that its input can be renamed.
fn own_calcs(asm: &mut Asm, calcs: &mut Vec<CalcPlan>) {
    let mut taken = vec![false; calcs.len()];
    for op in &mut asm.code {
        let Some(calc) = op.calc() else { continue };
        let i = *calc as usize;
        if taken[i] && calcs.len() < 65535 {
            calcs.push(calcs[i].clone());
            taken.push(true);
            *calc = (calcs.len() - 1) as u16;
        } else {
            taken[i] = true;
        }
    }
}

/// Reads what a copy copied instead of the copy, within stretches of code without jumps into them.
fn forward_copies(asm: &mut Asm, calcs: &mut [CalcPlan]) {
    let entered = asm.entered();
    // Destination to source of the copies that still hold.
    let mut copies: HashMap<R, R> = HashMap::new();
    let mut owners = vec![0u32; calcs.len()];
    for op in &mut asm.code {
        if let Some(c) = op.calc() {
            owners[*c as usize] += 1;
        }
    }
    for (pc, op) in asm.code.iter_mut().enumerate() {
        if entered[pc] {
            copies.clear();
        }
        op.reads(&mut |r| {
            if let Some(source) = copies.get(r) {
                *r = *source;
            }
        });
        if let Some(c) = op.calc()
            && owners[*c as usize] == 1
        {
            rename_inputs(&mut calcs[*c as usize], &copies);
        }
        match op.writes() {
            Writes::None => {}
            Writes::Unknown => copies.clear(),
            Writes::Pure(d, n) | Writes::Slots(d, n) => {
                let hit = |r: R| (d as usize..d as usize + n).contains(&(r as usize));
                copies.retain(|to, from| !hit(*to) && !hit(*from));
            }
        }
        if let Op::Copy { d, a } = *op
            && d != a
        {
            copies.insert(d, a);
        }
    }
}

fn rename_inputs(calc: &mut CalcPlan, copies: &HashMap<R, R>) {
    for s in &mut calc.segments {
        if let Segment::Pack { pack, .. } = s {
            pack.rename(&|r| copies.get(&r).copied().unwrap_or(r));
        }
    }
}

/// Removes instructions that only write slots that nothing reads. Returns whether there were any.
fn drop_dead_stores(asm: &mut Asm, calcs: &[CalcPlan], kept: &SlotSet) -> bool {
    let mut read = SlotSet::new();
    for op in &mut asm.code {
        op.reads(&mut |r| read.add(*r, 1));
        op.range_reads(&mut |r, n| read.add(r, n));
        if let Some(c) = op.calc() {
            add_inputs(&calcs[*c as usize], &mut read);
        }
    }
    let dead = |op: &Op| match op.writes() {
        Writes::Pure(d, n) => (0..n as u16).all(|i| !read.has(d + i) && !kept.has(d + i)),
        _ => false,
    };
    let remove: Vec<bool> = asm.code.iter().map(dead).collect();
    let any = remove.contains(&true);
    if any {
        asm.remove(&remove);
    }
    any
}

/// Adds the slots that a calculation reads.
pub(crate) fn add_inputs(calc: &CalcPlan, read: &mut SlotSet) {
    for s in &calc.segments {
        match s {
            Segment::Pack { valid, pack } => {
                pack.slots().for_each(|r| read.add(r, 1));
                valid.iter().for_each(|r| read.add(*r, 1));
            }
            Segment::Var { valid, .. } | Segment::Header { valid, .. } => read.add(*valid, 1),
        }
    }
}
