//! The assembler: code, labels, constants and temporaries.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::image::AssertSite;
use crate::load::node::Result;
use crate::op::{Cmp, Op, Pc, R};
use crate::trace::Note;

/// A place in code that is not yet known. Until [`Asm::finish`], jump targets in code are label numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(pub Pc);

const UNBOUND: Pc = Pc::MAX;

/// Code under construction. Constants grow from the end of the packet's slots upwards, temporaries from the end of
/// the slot array downwards.
pub(crate) struct Asm {
    pub code: Vec<Op>,
    labels: Vec<Pc>,
    /// Per label: whether its address is used other than by jumps.
    pinned: Vec<bool>,
    pub consts: Vec<u64>,
    pub asserts: Vec<AssertSite>,
    /// Notes, if the program is to be traced.
    pub notes: Option<Vec<Note>>,
    first_const: usize,
    singles: HashMap<u64, R>,
    wides: HashMap<Vec<u64>, R>,
    next_temp: usize,
    /// Where temporaries start: slots above are reserved for good.
    top: usize,
    lowest_temp: usize,
}

impl Asm {
    pub(crate) fn new(first_const: usize) -> Asm {
        Asm {
            code: Vec::new(),
            labels: Vec::new(),
            pinned: Vec::new(),
            consts: Vec::new(),
            asserts: Vec::new(),
            notes: None,
            first_const,
            singles: HashMap::new(),
            wides: HashMap::new(),
            next_temp: 65536,
            top: 65536,
            lowest_temp: 65536,
        }
    }

    /// The slot of a constant.
    pub(crate) fn konst(&mut self, v: u64) -> R {
        if let Some(&r) = self.singles.get(&v) {
            return r;
        }
        let r = self.push_const(&[v]);
        self.singles.insert(v, r);
        r
    }

    /// The slots of a constant of several limbs.
    pub(crate) fn konst_wide(&mut self, limbs: Vec<u64>) -> R {
        if let Some(&r) = self.wides.get(&limbs) {
            return r;
        }
        let r = self.push_const(&limbs);
        self.wides.insert(limbs, r);
        r
    }

    fn push_const(&mut self, limbs: &[u64]) -> R {
        let r = self.first_const + self.consts.len();
        self.consts.extend(limbs);
        r as R
    }

    /// The value of a slot if it is a constant.
    pub(crate) fn const_value(&self, r: R) -> Option<u64> {
        self.consts.get((r as usize).checked_sub(self.first_const)?).copied()
    }

    /// `n` consecutive temporaries, free until [`reset_temps`](Self::reset_temps).
    pub(crate) fn temp(&mut self, n: usize) -> R {
        self.next_temp = self.next_temp.saturating_sub(n);
        self.lowest_temp = self.lowest_temp.min(self.next_temp);
        self.next_temp as R
    }

    /// `n` consecutive slots that are never temporaries. Frees all temporaries.
    pub(crate) fn reserve(&mut self, n: usize) -> R {
        self.top = self.top.saturating_sub(n);
        self.next_temp = self.top;
        self.lowest_temp = self.lowest_temp.min(self.top);
        self.top as R
    }

    /// Frees all temporaries.
    pub(crate) fn reset_temps(&mut self) {
        self.next_temp = self.top;
    }

    pub(crate) fn emit(&mut self, op: Op) {
        self.code.push(op);
    }

    /// Says something here, if the program is to be traced. Each `{}` in the text stands for a value.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String, values: &[(R, u32)]) {
        self.note_parts(|| text().split("{}").map(str::to_owned).collect(), values);
    }

    /// As [`note`](Self::note), where the text between two values may be anything.
    pub(crate) fn note_parts(&mut self, parts: impl FnOnce() -> Vec<String>, values: &[(R, u32)]) {
        if let Some(notes) = &mut self.notes {
            let site = notes.len() as u32;
            notes.push(Note { parts: parts(), values: values.to_vec() });
            self.emit(Op::Note { site });
        }
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(UNBOUND);
        self.pinned.push(false);
        Label(self.labels.len() as Pc - 1)
    }

    /// Says that a label's address is used other than by jumps.
    pub(crate) fn pin(&mut self, l: Label) {
        self.pinned[l.0 as usize] = true;
    }

    pub(crate) fn bind(&mut self, l: Label) {
        self.labels[l.0 as usize] = self.code.len() as Pc;
    }

    pub(crate) fn here(&mut self) -> Label {
        let l = self.label();
        self.bind(l);
        self.pin(l);
        l
    }

    pub(crate) fn jump(&mut self, l: Label) {
        self.emit(Op::Jmp { t: l.0 });
    }

    /// The address that a label was bound to, after [`finish`](Self::finish).
    pub(crate) fn address(&self, l: Label) -> Pc {
        self.labels[l.0 as usize]
    }

    /// Headers that instructions treat as a whole; all of the first `count` if some are found at run time only.
    pub(crate) fn whole_headers(&self, count: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for op in &self.code {
            match *op {
                Op::CopyHeader { d, s } => found.extend([d as usize, s as usize]),
                Op::SetValid { h } | Op::SetInvalid { h } | Op::Extract { h } | Op::ExtractVar { h, .. } => {
                    found.push(h as usize);
                }
                Op::EqHeader { .. }
                | Op::CopyHeaderDyn { .. }
                | Op::SetValidDyn { .. }
                | Op::SetInvalidDyn { .. }
                | Op::ValidDyn { .. } => return (0..count).collect(),
                _ => {}
            }
        }
        found
    }

    /// Forgets the code from `pc` on.
    pub(crate) fn cut(&mut self, pc: usize) {
        self.code.truncate(pc);
        for l in self.labels.iter_mut().filter(|l| **l != UNBOUND) {
            *l = (*l).min(pc as Pc);
        }
    }

    /// Per instruction, whether control may come there otherwise than from the one before.
    pub(crate) fn entered(&self) -> Vec<bool> {
        let mut entered = vec![false; self.code.len() + 1];
        let mut used = self.pinned.clone();
        for op in &self.code {
            if let Some(t) = op.target() {
                used[t as usize] = true;
            }
        }
        for (&l, used) in self.labels.iter().zip(used) {
            if used && l != UNBOUND {
                entered[l as usize] = true;
            }
        }
        entered
    }

    /// Removes instructions; labels move with what they stood before.
    pub(crate) fn remove(&mut self, which: &[bool]) {
        let mut new_pc = Vec::with_capacity(which.len() + 1);
        let mut at = 0;
        for gone in which {
            new_pc.push(at);
            at += Pc::from(!gone);
        }
        new_pc.push(at);
        for l in self.labels.iter_mut().filter(|l| **l != UNBOUND) {
            *l = new_pc[*l as usize];
        }
        let mut gone = which.iter();
        self.code.retain(|_| !gone.next().copied().unwrap_or(false));
    }

    /// Puts addresses in place of labels.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let refuse = |what: &str| Err(LoadError::Unsupported { place: "$".into(), what: what.to_string() });
        if self.first_const + self.consts.len() > self.lowest_temp {
            return refuse("program with more fields, constants and temporaries than 65536 slots");
        }
        for op in &mut self.code {
            if let Some(t) = op.target_mut() {
                *t = self.labels[*t as usize];
                if *t == UNBOUND {
                    return refuse("jump to nowhere");
                }
            }
            *op = match *op {
                Op::Br { a, b, cmp: Cmp::Eq, t } => Op::BrEq { a, b, t },
                Op::Br { a, b, cmp: Cmp::Ne, t } => Op::BrNe { a, b, t },
                other => other,
            };
        }
        Ok(())
    }
}
