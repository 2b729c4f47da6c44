//! The assembler: code, labels, constants and temporaries.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::load::node::Result;
use crate::op::{Op, Pc, R};

/// A place in code that is not yet known. Until [`Asm::finish`], jump targets in code are label numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(pub Pc);

const UNBOUND: Pc = Pc::MAX;

/// Code under construction. Constants grow from the end of the packet's slots upwards, temporaries from the end of
/// the slot array downwards.
pub(crate) struct Asm {
    pub code: Vec<Op>,
    labels: Vec<Pc>,
    pub consts: Vec<u64>,
    first_const: usize,
    singles: HashMap<u64, R>,
    wides: HashMap<Vec<u64>, R>,
    next_temp: usize,
    lowest_temp: usize,
}

impl Asm {
    pub(crate) fn new(first_const: usize) -> Asm {
        Asm {
            code: Vec::new(),
            labels: Vec::new(),
            consts: Vec::new(),
            first_const,
            singles: HashMap::new(),
            wides: HashMap::new(),
            next_temp: 65536,
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

    /// `n` consecutive temporaries, free until [`reset_temps`](Self::reset_temps).
    pub(crate) fn temp(&mut self, n: usize) -> R {
        self.next_temp = self.next_temp.saturating_sub(n);
        self.lowest_temp = self.lowest_temp.min(self.next_temp);
        self.next_temp as R
    }

    /// Frees all temporaries.
    pub(crate) fn reset_temps(&mut self) {
        self.next_temp = 65536;
    }

    pub(crate) fn emit(&mut self, op: Op) {
        self.code.push(op);
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(UNBOUND);
        Label(self.labels.len() as Pc - 1)
    }

    pub(crate) fn bind(&mut self, l: Label) {
        self.labels[l.0 as usize] = self.code.len() as Pc;
    }

    pub(crate) fn here(&mut self) -> Label {
        let l = self.label();
        self.bind(l);
        l
    }

    pub(crate) fn jump(&mut self, l: Label) {
        self.emit(Op::Jmp { t: l.0 });
    }

    /// The address that a label was bound to, after [`finish`](Self::finish).
    pub(crate) fn address(&self, l: Label) -> Pc {
        self.labels[l.0 as usize]
    }

    /// Puts addresses in place of labels.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let refuse = |what: &str| Err(LoadError::Unsupported { place: "$".into(), what: what.to_string() });
        if self.first_const + self.consts.len() > self.lowest_temp {
            return refuse("program with more fields, constants and temporaries than 65536 slots");
        }
        for (pc, op) in self.code.iter_mut().enumerate() {
            let target = match op {
                Op::Jmp { t }
                | Op::Br { t, .. }
                | Op::BrZ { t, .. }
                | Op::BrNz { t, .. }
                | Op::BrSet { t, .. }
                | Op::BrExit { t } => {
                    *t = self.labels[*t as usize];
                    *t
                }
                _ => continue,
            };
            if target == UNBOUND {
                return refuse("jump to nowhere");
            }
            if target as usize <= pc {
                // Conditional jumps back lead to parser states only, and those on a cycle begin with a guard.
                if let Op::Jmp { t } = op {
                    *op = Op::JmpBack { t: *t };
                }
            }
        }
        Ok(())
    }
}
