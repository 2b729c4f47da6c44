//! Compiles expressions. Where a value's low 64 bits suffice, or its exact value fits in a word, one-word instructions
//! are used. All other values are numbers of several limbs, in two's complement wide enough to be exact.

use super::asm::Asm;
use super::range::{Range, range};
use crate::error::LoadError;
use crate::load::big::Big;
use crate::load::expr::{Bin, Cast, Expr};
use crate::load::layout::{FieldRef, Layout};
use crate::load::node::Result;
use crate::op::{Cmp, Op, R};

/// Arguments of the action being compiled.
#[derive(Clone, Debug)]
pub(crate) enum Args {
    /// Not in an action.
    None,
    /// Given at run time: first word and width in bits of each.
    Runtime(Vec<(usize, u32)>),
    /// Known: the action is compiled in place.
    Known(Vec<Big>),
}

/// A register array as expressions see it.
#[derive(Clone, Debug)]
pub(crate) struct RegisterRef {
    pub name: String,
    pub width: u32,
}

/// The context that expressions are compiled in.
pub(crate) struct Cx<'a> {
    pub layout: &'a Layout,
    pub asm: &'a mut Asm,
    pub args: Args,
    pub registers: &'a [RegisterRef],
}

/// A mask of the low `w` bits.
pub(crate) fn mask(w: u32) -> u64 {
    if w >= 64 { u64::MAX } else { (1u64 << w) - 1 }
}

pub(super) fn limbs(bits: u32) -> usize {
    (bits as usize).div_ceil(64).max(1)
}

/// Parameter `i` of the action that is compiled.
pub(super) fn parameter<T>(all: &[T], i: usize) -> Result<&T> {
    all.get(i).ok_or_else(|| LoadError::Malformed {
        place: "an expression".into(),
        reason: format!("it takes parameter {i}, counted from 0, of {}", all.len()),
    })
}

impl Cx<'_> {
    pub(crate) fn range(&self, e: &Expr) -> Range {
        let arg = |i: usize| match &self.args {
            Args::Runtime(a) => a.get(i).map_or(Range::unsigned(1), |(_, w)| Range::unsigned(*w)),
            Args::Known(a) => a.get(i).map_or(Range::unsigned(1), |v| Range::unsigned(v.bits())),
            Args::None => Range::unsigned(1),
        };
        let reg = |name: &str| self.registers.iter().find(|r| r.name == name).map_or(1, |r| r.width);
        range(e, self.layout, &arg, &reg)
    }

    pub(super) fn register(&self, name: &str, place: &str) -> Result<u16> {
        let found = self.registers.iter().position(|r| r.name == name);
        found.map(|i| i as u16).ok_or_else(|| LoadError::Malformed {
            place: place.to_string(),
            reason: format!("there is no register '{name}'"),
        })
    }

    /// The value modulo 2^64, in any slot.
    pub(crate) fn low(&mut self, e: &Expr) -> Result<R> {
        self.low_to(e, None, u64::MAX)
    }

    /// The value modulo 2^64 ANDed with `m`, into `dst` if one is given.
    pub(crate) fn low_to(&mut self, e: &Expr, dst: Option<R>, m: u64) -> Result<R> {
        match e {
            Expr::Const(c) => self.place(|cx| cx.asm.konst(c.low() & m), dst),
            Expr::Field(f) => self.field_low(*f, dst, m),
            Expr::Arg(i) => self.arg_low(*i, dst, m),
            Expr::Bin(Bin::And, a, b) => match (&**a, &**b) {
                (x, Expr::Const(c)) | (Expr::Const(c), x) => {
                    let m = m & c.low();
                    let r = self.range(x);
                    // Bits that the operand cannot have need no mask.
                    let m = if !r.signed && r.bits <= 64 && mask(r.bits) & !m == 0 { u64::MAX } else { m };
                    self.low_to(x, dst, m)
                }
                (a, b) => {
                    let (a, b) = (self.low(a)?, self.low(b)?);
                    if m == u64::MAX {
                        let d = self.dst(dst);
                        self.asm.emit(Op::And { d, a, b });
                        return Ok(d);
                    }
                    let t = self.asm.temp(1);
                    self.asm.emit(Op::And { d: t, a, b });
                    let (d, b) = (self.dst(dst), self.asm.konst(m));
                    self.asm.emit(Op::And { d, a: t, b });
                    Ok(d)
                }
            },
            Expr::Bin(Bin::Shr, a, b) => self.shr_low(a, b, dst, m),
            Expr::Bin(op, a, b) => self.bin_low(e, *op, a, b, dst, m),
            Expr::Not(a) => {
                let a = self.low(a)?;
                let (d, m) = (self.dst(dst), self.asm.konst(m));
                self.asm.emit(Op::Not { d, a, m });
                Ok(d)
            }
            Expr::Cast(c, a, w) => {
                let exact = self.range(a);
                let fits = match c {
                    Cast::TwoComp => *w <= 64,
                    _ => exact.signed_bits() <= 64 && *w <= 63,
                };
                if !fits {
                    return self.via_wide(e, dst, m);
                }
                let a = self.low(a)?;
                let (d, m, w) = (self.dst(dst), self.asm.konst(m), *w as u8);
                self.asm.emit(match c {
                    Cast::TwoComp => Op::Sext { d, a, w, m },
                    Cast::SatUnsigned => Op::SatU { d, a, w, m },
                    Cast::SatSigned => Op::SatS { d, a, w, m },
                });
                Ok(d)
            }
            Expr::Cond(test, a, b) => {
                // A destination may be an operand of the other branch or of the test, so go through a temporary.
                let d = self.asm.temp(1);
                let (no, end) = (self.asm.label(), self.asm.label());
                self.branch_unless(test, no)?;
                self.low_to(a, Some(d), m)?;
                self.asm.jump(end);
                self.asm.bind(no);
                self.low_to(b, Some(d), m)?;
                self.asm.bind(end);
                self.place(|_| d, dst)
            }
            Expr::FromBool(t) => {
                let r = self.test_value(t)?;
                self.masked(r, dst, m, 1)
            }
            Expr::LastIndex(s) | Expr::Size(s) => {
                let a = self.layout.stacks[*s].next as R;
                if let Expr::Size(_) = e {
                    return self.masked(a, dst, m, 8);
                }
                let one = self.asm.konst(1);
                let (d, m) = (self.dst(dst), self.asm.konst(m));
                self.asm.emit(Op::Sub { d, a, b: one, m });
                Ok(d)
            }
            Expr::UnionStackSize(s) => self.masked(self.layout.union_stacks[*s].next as R, dst, m, 8),
            Expr::Last { .. } | Expr::Elem { .. } | Expr::UnionElem { .. } | Expr::Register { .. } => {
                let (a, width, signed) = self.load_indexed(e)?;
                let f = FieldRef { header: 0, slot: a, width, signed, varbit: false };
                self.field_low(f, dst, m)
            }
        }
    }

    fn dst(&mut self, dst: Option<R>) -> R {
        dst.unwrap_or_else(|| self.asm.temp(1))
    }

    /// A slot as it is, or copied to the destination.
    fn place(&mut self, slot: impl FnOnce(&mut Self) -> R, dst: Option<R>) -> Result<R> {
        let a = slot(self);
        let Some(d) = dst else { return Ok(a) };
        if d != a {
            self.asm.emit(Op::Copy { d, a });
        }
        Ok(d)
    }

    /// A slot of at most `w` bits, masked.
    pub(super) fn masked(&mut self, a: R, dst: Option<R>, m: u64, w: u32) -> Result<R> {
        if mask(w) & !m == 0 {
            return self.place(|_| a, dst);
        }
        let (d, m) = (self.dst(dst), self.asm.konst(m));
        self.asm.emit(Op::Mov { d, a, m });
        Ok(d)
    }

    fn field_low(&mut self, f: FieldRef, dst: Option<R>, m: u64) -> Result<R> {
        if f.signed && f.width < 64 && m & !mask(f.width) != 0 {
            let (d, m) = (self.dst(dst), self.asm.konst(m));
            self.asm.emit(Op::Sext { d, a: f.slot, w: f.width.max(1) as u8, m });
            return Ok(d);
        }
        self.masked(f.slot, dst, m, f.width)
    }

    pub(super) fn arg_low(&mut self, i: usize, dst: Option<R>, m: u64) -> Result<R> {
        match &self.args {
            Args::Runtime(a) => {
                let word = parameter(a, i)?.0 as u16;
                let (d, m) = (self.dst(dst), self.asm.konst(m));
                self.asm.emit(Op::Arg { d, i: word, m });
                Ok(d)
            }
            Args::Known(a) => {
                let v = parameter(a, i)?.low() & m;
                self.place(|cx| cx.asm.konst(v), dst)
            }
            Args::None => self.place(|cx| cx.asm.konst(0), dst),
        }
    }

    fn shr_low(&mut self, a: &Expr, b: &Expr, dst: Option<R>, m: u64) -> Result<R> {
        let exact = self.range(a);
        if let (Expr::Field(f), Expr::Const(c)) = (a, b)
            && f.width > 64
            && !f.signed
            && let Some(k) = c.to_u64()
        {
            // A slice of a wide field: the two limbs that hold it.
            let (limb, bit) = ((k / 64) as usize, (k % 64) as u8);
            if limb >= f.limbs() {
                return self.place(|cx| cx.asm.konst(0), dst);
            }
            let d = self.dst(dst);
            let a = f.slot + limb as u16;
            let m = self.asm.konst(m);
            if bit == 0 {
                self.asm.emit(Op::Mov { d, a, m });
            } else if limb + 1 == f.limbs() {
                self.asm.emit(Op::ShrK { d, a, k: bit, m });
            } else {
                self.asm.emit(Op::Slice { d, a, k: bit, m });
            }
            return Ok(d);
        }
        if !exact.narrow() {
            let e = Expr::Bin(Bin::Shr, Box::new(a.clone()), Box::new(b.clone()));
            return self.via_wide(&e, dst, m);
        }
        let by = match b {
            Expr::Const(c) => c.to_u64().filter(|k| *k < 64),
            _ => None,
        };
        let a = self.low(a)?;
        if let (Some(k), false) = (by, exact.signed) {
            let (d, m) = (self.dst(dst), self.asm.konst(m));
            self.asm.emit(Op::ShrK { d, a, k: k as u8, m });
            return Ok(d);
        }
        let b = self.shift_amount(b)?;
        let (d, m) = (self.dst(dst), self.asm.konst(m));
        self.asm.emit(if exact.signed { Op::ShrS { d, a, b, m } } else { Op::ShrU { d, a, b, m } });
        Ok(d)
    }

    /// A shift amount as one word: more than a word's range shifts everything out.
    pub(super) fn shift_amount(&mut self, b: &Expr) -> Result<R> {
        if self.range(b).narrow() {
            return self.low(b);
        }
        let n = limbs(self.range(b).signed_bits());
        let a = self.wide(b, n)?;
        let all = self.asm.temp(1);
        self.asm.emit(Op::Copy { d: all, a });
        let none = self.asm.konst(u64::MAX);
        let zero = self.asm.konst(0);
        for i in 1..n {
            let skip = self.asm.label();
            self.asm.emit(Op::Br { a: a + i as u16, b: zero, cmp: Cmp::Eq, t: skip.0 });
            self.asm.emit(Op::Copy { d: all, a: none });
            self.asm.bind(skip);
        }
        Ok(all)
    }

    fn bin_low(&mut self, e: &Expr, op: Bin, a: &Expr, b: &Expr, dst: Option<R>, m: u64) -> Result<R> {
        if matches!(op, Bin::Div | Bin::Mod) {
            let (ra, rb) = (self.range(a), self.range(b));
            if ra.signed || rb.signed || !ra.narrow() || !rb.narrow() {
                return self.via_wide(e, dst, m);
            }
        }
        if let (Bin::Shl, Expr::Const(c)) = (op, b) {
            let k = c.to_u64().unwrap_or(u64::MAX);
            if k >= 64 {
                return self.place(|cx| cx.asm.konst(0), dst);
            }
            let a = self.low(a)?;
            let (d, m) = (self.dst(dst), self.asm.konst(m));
            self.asm.emit(Op::ShlK { d, a, k: k as u8, m });
            return Ok(d);
        }
        let ra = self.low(a)?;
        let rb = if op == Bin::Shl { self.shift_amount(b)? } else { self.low(b)? };
        let (d, m) = (self.dst(dst), self.asm.konst(m));
        let (a, b) = (ra, rb);
        self.asm.emit(match op {
            Bin::Add => Op::Add { d, a, b, m },
            Bin::Sub => Op::Sub { d, a, b, m },
            Bin::Mul => Op::Mul { d, a, b, m },
            Bin::Or => Op::Or { d, a, b, m },
            Bin::Xor => Op::Xor { d, a, b, m },
            Bin::Shl => Op::Shl { d, a, b, m },
            Bin::Div => Op::Div { d, a, b, m },
            Bin::Mod => Op::Rem { d, a, b, m },
            Bin::And | Bin::Shr => Op::And { d, a, b },
        });
        Ok(d)
    }
}
