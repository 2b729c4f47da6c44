//! Takes out the surplus of p4c's output: copies of fields into temporaries that one hash or register index reads, and
//! stores to metadata that nothing reads.

use std::collections::HashMap;

use super::asm::Asm;
use super::calc::{CalcPlan, Segment};
use super::operands::Writes;
use crate::op::{Op, R};

/// Slots, one truth value each.
#[derive(Clone)]
pub(crate) struct SlotSet(Box<[bool]>);

impl SlotSet {
    pub(crate) fn new() -> SlotSet {
        SlotSet(vec![false; 65536].into())
    }

    pub(crate) fn add(&mut self, first: R, n: usize) {
        let end = (first as usize + n).min(65536);
        self.0[first as usize..end].fill(true);
    }

    pub(crate) fn has(&self, r: R) -> bool {
        self.0[r as usize]
    }

    pub(crate) fn set(&mut self, r: R, is_in: bool) {
        self.0[r as usize] = is_in;
    }

    pub(crate) fn add_all(&mut self, other: &SlotSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(to, from)| *to |= from);
    }

    /// The set's slots below `end` as runs; gaps too short to be worth a run of their own are filled.
    pub(crate) fn runs(&self, end: usize) -> Vec<std::ops::Range<usize>> {
        const GAP: usize = 16;
        let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
        for i in (0..end).filter(|i| self.0[*i]) {
            match runs.last_mut() {
                Some(r) if i - r.end < GAP => r.end = i + 1,
                _ => runs.push(i..i + 1),
            }
        }
        runs
    }
}

/// Optimizes code in place. `kept` are the slots whose values matter whether or not code reads them.
/// Returns all slots whose values matter in the end.
pub(crate) fn optimize(asm: &mut Asm, calcs: &mut Vec<CalcPlan>, mut kept: SlotSet) -> SlotSet {
    own_calcs(asm, calcs);
    forward_copies(asm, calcs);
    // Each round can make more stores useless.
    for _ in 0..8 {
        if !drop_dead_stores(asm, calcs, &kept) {
            break;
        }
    }
    add_reads(asm, calcs, &mut kept);
    for s in calcs.iter_mut().flat_map(|c| &mut c.segments) {
        if let Segment::Pack { pack, .. } = s {
            pack.fold(&|r| asm.const_value(r));
        }
    }
    kept
}

/// Adds the slots that code reads.
fn add_reads(asm: &mut Asm, calcs: &[CalcPlan], read: &mut SlotSet) {
    for op in &mut asm.code {
        op.reads(&mut |r| read.add(*r, 1));
        op.range_reads(&mut |r, n| read.add(r, n));
        if let Some(c) = op.calc() {
            add_inputs(&calcs[*c as usize], read);
        }
    }
}

/// Makes one instruction of copies, or of arguments, that follow each other. Returns the pairs that they name.
pub(crate) fn fuse(asm: &mut Asm) -> Vec<(R, R)> {
    let entered = asm.entered();
    let all = asm.konst(u64::MAX);
    let mut pairs = Vec::new();
    let mut remove = vec![false; asm.code.len()];
    let copy = |op: &Op| match *op {
        Op::Copy { d, a } => Some((d, a)),
        _ => None,
    };
    let arg = |op: &Op| match *op {
        Op::Arg { d, i, m } if m == all => Some((d, i)),
        _ => None,
    };
    for of in [&copy as &dyn Fn(&Op) -> Option<(R, R)>, &arg] {
        let mut at = 0;
        while at < asm.code.len() {
            let first = pairs.len();
            let mut end = at;
            while let Some(pair) = asm.code.get(end).and_then(of)
                && (end == at || !entered[end])
                && end - at < 65535
            {
                pairs.push(pair);
                end += 1;
            }
            if end - at < 2 {
                pairs.truncate(first);
                at = end.max(at + 1);
                continue;
            }
            let is_copy = copy(&asm.code[at]).is_some();
            let (first, n) = (first as u32, (end - at) as u16);
            asm.code[at] = if is_copy { Op::Copies { first, n } } else { Op::Args { first, n } };
            remove[at + 1..end].fill(true);
            at = end;
        }
    }
    asm.remove(&remove);
    pairs
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
    add_reads(asm, calcs, &mut read);
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
            // Headers and metadata with a varbit are kept as a whole.
            Segment::Var { valid, .. } | Segment::Header { valid, .. } => {
                valid.iter().for_each(|r| read.add(*r, 1));
            }
        }
    }
}
