//! Compiles expressions. Where a value's low 64 bits suffice, or its exact value fits in a word, one-word
//! instructions are used; otherwise numbers of several limbs, in two's complement wide enough to be exact.

use super::asm::{Asm, Label};
use super::range::{Range, range};
use crate::load::big::Big;
use crate::load::expr::{Bin, Cast, Expr, HeaderExpr, Rel, Test, UnionExpr};
use crate::load::layout::{FieldRef, Layout};
use crate::load::node::Result;
use crate::op::{Cmp, Op, R, WideOp};

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

/// What expressions are compiled with.
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

fn limbs(bits: u32) -> usize {
    (bits as usize).div_ceil(64).max(1)
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

    fn register(&self, name: &str, place: &str) -> Result<u16> {
        let found = self.registers.iter().position(|r| r.name == name);
        found.map(|i| i as u16).ok_or_else(|| crate::error::LoadError::Malformed {
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
    fn masked(&mut self, a: R, dst: Option<R>, m: u64, w: u32) -> Result<R> {
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

    fn arg_low(&mut self, i: usize, dst: Option<R>, m: u64) -> Result<R> {
        match &self.args {
            Args::Runtime(a) => {
                let word = a[i].0 as u16;
                let (d, m) = (self.dst(dst), self.asm.konst(m));
                self.asm.emit(Op::Arg { d, i: word, m });
                Ok(d)
            }
            Args::Known(a) => {
                let v = a[i].low() & m;
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
    fn shift_amount(&mut self, b: &Expr) -> Result<R> {
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

    /// Computes with limbs and takes the lowest.
    fn via_wide(&mut self, e: &Expr, dst: Option<R>, m: u64) -> Result<R> {
        let n = limbs(self.range(e).signed_bits());
        let r = self.wide(e, n)?;
        self.masked(r, dst, m, 64)
    }

    /// The value modulo 2^(64 n), in `n` consecutive slots.
    pub(crate) fn wide(&mut self, e: &Expr, n: usize) -> Result<R> {
        let count = n as u8;
        match e {
            Expr::Const(c) => Ok(self.asm.konst_wide(c.twos(n))),
            Expr::Field(f) => Ok(self.extend(f.slot, f.limbs(), if f.signed { f.width } else { 0 }, n)),
            Expr::Arg(i) => {
                let (first, width) = match &self.args {
                    Args::Runtime(a) => a[*i],
                    Args::Known(a) => {
                        let v = a[*i].twos(n);
                        return Ok(self.asm.konst_wide(v));
                    }
                    Args::None => (0, 1),
                };
                let (s, m) = (limbs(width), self.asm.konst(u64::MAX));
                let t = self.asm.temp(s);
                for l in 0..s {
                    self.asm.emit(Op::Arg { d: t + l as u16, i: (first + l) as u16, m });
                }
                Ok(self.extend(t, s, 0, n))
            }
            Expr::Bin(op, a, b) => self.wide_bin(*op, a, b, n),
            Expr::Not(a) => {
                let a = self.wide(a, n)?;
                let d = self.asm.temp(n);
                self.asm.emit(Op::WideNot { d, a, n: count });
                Ok(d)
            }
            Expr::Cast(c, inner, w) => {
                let need = match c {
                    Cast::TwoComp => limbs(*w),
                    _ => limbs(self.range(inner).signed_bits().max(w + 1)),
                };
                let a = self.wide(inner, need)?;
                let (t, w16) = (self.asm.temp(need), *w as u16);
                self.asm.emit(match c {
                    Cast::TwoComp => Op::WideSext { d: t, a, n: need as u8, w: w16 },
                    Cast::SatUnsigned => Op::WideSat { d: t, a, n: need as u8, w: w16, signed: false },
                    Cast::SatSigned => Op::WideSat { d: t, a, n: need as u8, w: w16, signed: true },
                });
                Ok(self.extend(t, need, (need * 64) as u32, n))
            }
            Expr::Cond(test, a, b) => {
                let d = self.asm.temp(n);
                let (no, end) = (self.asm.label(), self.asm.label());
                self.branch_unless(test, no)?;
                let a = self.wide(a, n)?;
                self.asm.emit(Op::WideLoad { d, a, s: count, n: count, w: 0 });
                self.asm.jump(end);
                self.asm.bind(no);
                let b = self.wide(b, n)?;
                self.asm.emit(Op::WideLoad { d, a: b, s: count, n: count, w: 0 });
                self.asm.bind(end);
                Ok(d)
            }
            Expr::Last { .. } | Expr::Elem { .. } | Expr::UnionElem { .. } | Expr::Register { .. } => {
                let (a, width, signed) = self.load_indexed(e)?;
                Ok(self.extend(a, limbs(width), if signed { width } else { 0 }, n))
            }
            Expr::FromBool(_) | Expr::LastIndex(_) | Expr::Size(_) | Expr::UnionStackSize(_) => {
                let a = self.low(e)?;
                Ok(self.extend(a, 1, if self.range(e).signed { 64 } else { 0 }, n))
            }
        }
    }

    fn extend(&mut self, a: R, s: usize, sign_width: u32, n: usize) -> R {
        if s == n && sign_width == 0 {
            return a;
        }
        let d = self.asm.temp(n);
        self.asm.emit(Op::WideLoad { d, a, s: s as u8, n: n as u8, w: sign_width as u16 });
        d
    }

    fn wide_bin(&mut self, op: Bin, a: &Expr, b: &Expr, n: usize) -> Result<R> {
        let wide_op = match op {
            Bin::Add => WideOp::Add,
            Bin::Sub => WideOp::Sub,
            Bin::Mul => WideOp::Mul,
            Bin::Div => WideOp::Div,
            Bin::Mod => WideOp::Mod,
            Bin::And => WideOp::And,
            Bin::Or => WideOp::Or,
            Bin::Xor => WideOp::Xor,
            Bin::Shl => WideOp::Shl,
            Bin::Shr => WideOp::Shr,
        };
        // Right shift and division need exact operands, however few bits of the result count.
        let need = match op {
            Bin::Shr => n.max(limbs(self.range(a).signed_bits())),
            Bin::Div | Bin::Mod => n.max(limbs(self.range(a).signed_bits().max(self.range(b).signed_bits()))),
            _ => n,
        };
        let ra = self.wide(a, need)?;
        let rb = if matches!(op, Bin::Shl | Bin::Shr) { self.shift_amount(b)? } else { self.wide(b, need)? };
        let d = self.asm.temp(need);
        self.asm.emit(Op::Wide { op: wide_op, d, a: ra, b: rb, n: need as u8 });
        Ok(d)
    }

    /// Loads a field or cell found by index; returns slot, width and whether it is signed.
    pub(crate) fn load_indexed(&mut self, e: &Expr) -> Result<(R, u32, bool)> {
        let (base, idx, stride, count, def) = match e {
            Expr::Register { register, place, index } => {
                let reg = self.register(register, place)?;
                let width = self.registers[reg as usize].width;
                let (idx, n) = (self.low(index)?, limbs(width));
                let d = self.asm.temp(n);
                if n == 1 {
                    let m = self.asm.konst(u64::MAX);
                    self.asm.emit(Op::RegRead { d, reg, idx, m });
                } else {
                    self.asm.emit(Op::RegReadWide { d, reg, idx, n: n as u8 });
                }
                return Ok((d, width, false));
            }
            Expr::Last { stack, field } => {
                let one = self.asm.konst(1);
                let m = self.asm.konst(u64::MAX);
                let (idx, a) = (self.asm.temp(1), self.layout.stacks[*stack].next as R);
                self.asm.emit(Op::Sub { d: idx, a, b: one, m });
                self.stack_field(*stack, idx, *field)
            }
            Expr::Elem { stack, index, field } => {
                let idx = self.low(index)?;
                self.stack_field(*stack, idx, *field)
            }
            Expr::UnionElem { stack, index, member, field } => {
                let idx = self.low(index)?;
                self.union_stack_field(*stack, idx, *member, *field)
            }
            _ => return Ok((self.low(e)?, 64, false)),
        };
        let n = limbs(def.width);
        let d = self.asm.temp(n);
        for l in 0..n as u16 {
            self.asm.emit(Op::LoadIdx { d: d + l, base: base + l, idx, stride, count });
        }
        Ok((d, def.width, def.signed))
    }

    fn stack_field(&mut self, stack: usize, idx: R, field: usize) -> (R, R, R, u8, FieldRef) {
        let s = &self.layout.stacks[stack];
        let stride = self.layout.types[s.ty].slots as u64;
        let def = self.layout.field_at(s.elems[0], field);
        (def.slot, idx, self.asm.konst(stride), s.elems.len() as u8, def)
    }

    fn union_stack_field(&mut self, stack: usize, idx: R, m: usize, f: usize) -> (R, R, R, u8, FieldRef) {
        let s = &self.layout.union_stacks[stack];
        let members = &self.layout.unions[s.elems[0]].members;
        let stride: usize = members.iter().map(|&h| self.layout.header_type(h).slots).sum();
        let def = self.layout.field_at(members[m], f);
        (def.slot, idx, self.asm.konst(stride as u64), s.elems.len() as u8, def)
    }

    /// Assigns a number to a field, cut to its width.
    pub(crate) fn assign(&mut self, f: FieldRef, e: &Expr) -> Result<()> {
        if f.width <= 64 {
            let r = self.range(e);
            let fits = !r.signed && r.bits <= f.width;
            self.low_to(e, Some(f.slot), if fits { u64::MAX } else { mask(f.width) })?;
        } else {
            let n = f.limbs();
            let a = self.wide(e, n)?;
            self.asm.emit(Op::WideStore { d: f.slot, a, n: n as u8, w: f.width as u16 });
        }
        self.asm.reset_temps();
        Ok(())
    }

    /// Assigns a number to a field of a stack's element, found by index.
    pub(crate) fn assign_indexed(&mut self, target: &Expr, e: &Expr) -> Result<bool> {
        let (base, idx, stride, count, def) = match target {
            Expr::Field(f) => return self.assign(*f, e).map(|()| true),
            Expr::Elem { stack, index, field } => {
                let idx = self.low(index)?;
                self.stack_field(*stack, idx, *field)
            }
            Expr::UnionElem { stack, index, member, field } => {
                let idx = self.low(index)?;
                self.union_stack_field(*stack, idx, *member, *field)
            }
            Expr::Last { stack, field } => {
                let (one, m) = (self.asm.konst(1), self.asm.konst(u64::MAX));
                let (idx, a) = (self.asm.temp(1), self.layout.stacks[*stack].next as R);
                self.asm.emit(Op::Sub { d: idx, a, b: one, m });
                self.stack_field(*stack, idx, *field)
            }
            Expr::Register { register, place, index } => {
                let reg = self.register(register, place)?;
                let n = limbs(self.registers[reg as usize].width);
                let idx = self.low(index)?;
                if n == 1 {
                    let a = self.low(e)?;
                    self.asm.emit(Op::RegWrite { reg, idx, a });
                } else {
                    let a = self.wide(e, n)?;
                    self.asm.emit(Op::RegWriteWide { reg, idx, a, n: n as u8 });
                }
                self.asm.reset_temps();
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let n = limbs(def.width);
        let t = self.asm.temp(n);
        if n == 1 {
            self.low_to(e, Some(t), mask(def.width))?;
        } else {
            let a = self.wide(e, n)?;
            self.asm.emit(Op::WideStore { d: t, a, n: n as u8, w: def.width as u16 });
        }
        for l in 0..n as u16 {
            self.asm.emit(Op::StoreIdx { a: t + l, base: base + l, idx, stride, count });
        }
        self.asm.reset_temps();
        Ok(true)
    }

    /// A comparison's operands in slots, and the comparison to make.
    fn compare(&mut self, rel: Rel, a: &Expr, b: &Expr) -> Result<(R, R, Cmp)> {
        let (rel, a, b) = match rel {
            Rel::Gt => (Rel::Lt, b, a),
            Rel::Le => (Rel::Ge, b, a),
            other => (other, a, b),
        };
        let (ra, rb) = (self.range(a), self.range(b));
        let unsigned = !ra.signed && !rb.signed && ra.narrow() && rb.narrow();
        let signed = ra.signed_bits() <= 64 && rb.signed_bits() <= 64;
        if unsigned || signed {
            let (a, b) = (self.low(a)?, self.low(b)?);
            let cmp = match rel {
                Rel::Eq => Cmp::Eq,
                Rel::Ne => Cmp::Ne,
                Rel::Lt if unsigned => Cmp::LtU,
                Rel::Lt => Cmp::LtS,
                _ if unsigned => Cmp::GeU,
                _ => Cmp::GeS,
            };
            return Ok((a, b, cmp));
        }
        let n = limbs(ra.signed_bits().max(rb.signed_bits()));
        let (a, b) = (self.wide(a, n)?, self.wide(b, n)?);
        let cmp = match rel {
            Rel::Eq => Cmp::Eq,
            Rel::Ne => Cmp::Ne,
            Rel::Lt => Cmp::LtS,
            _ => Cmp::GeS,
        };
        let d = self.asm.temp(1);
        self.asm.emit(Op::WideSet { d, a, b, n: n as u8, cmp });
        Ok((d, self.asm.konst(0), Cmp::Ne))
    }

    /// A truth value as 0 or 1 in a slot.
    pub(crate) fn test_value(&mut self, t: &Test) -> Result<R> {
        if let Test::Valid(HeaderExpr::Fixed(h)) = t
            && !self.layout.headers[*h].metadata
        {
            return Ok(self.layout.headers[*h].base as R);
        }
        let d = self.asm.temp(1);
        if let Test::Rel(rel, a, b) = t {
            let (a, b, cmp) = self.compare(*rel, a, b)?;
            self.asm.emit(Op::Set { d, a, b, cmp });
            return Ok(d);
        }
        let (zero, one) = (self.asm.konst(0), self.asm.konst(1));
        let no = self.asm.label();
        let end = self.asm.label();
        self.branch_unless(t, no)?;
        self.asm.emit(Op::Copy { d, a: one });
        self.asm.jump(end);
        self.asm.bind(no);
        self.asm.emit(Op::Copy { d, a: zero });
        self.asm.bind(end);
        Ok(d)
    }

    /// Goes on if the test holds, else to `no`.
    pub(crate) fn branch_unless(&mut self, t: &Test, no: Label) -> Result<()> {
        self.branch(t, no, false)
    }

    /// Jumps to `to` if the test comes out as `want`; goes on otherwise.
    pub(crate) fn branch(&mut self, t: &Test, to: Label, want: bool) -> Result<()> {
        match t {
            Test::Const(v) => {
                if *v == want {
                    self.asm.jump(to);
                }
            }
            Test::Rel(rel, a, b) => {
                let (a, b, cmp) = self.compare(*rel, a, b)?;
                let cmp = if want { cmp } else { cmp.negate() };
                self.asm.emit(Op::Br { a, b, cmp, t: to.0 });
            }
            Test::Not(x) => self.branch(x, to, !want)?,
            Test::And(a, b) if !want => {
                self.branch(a, to, false)?;
                self.branch(b, to, false)?;
            }
            Test::Or(a, b) if want => {
                self.branch(a, to, true)?;
                self.branch(b, to, true)?;
            }
            Test::And(a, b) => {
                let skip = self.asm.label();
                self.branch(a, skip, false)?;
                self.branch(b, to, true)?;
                self.asm.bind(skip);
            }
            Test::Or(a, b) => {
                let skip = self.asm.label();
                self.branch(a, skip, true)?;
                self.branch(b, to, false)?;
                self.asm.bind(skip);
            }
            Test::NonZero(e) => {
                let r = self.range(e);
                let zero = Expr::Const(Big::from_u64(0));
                if r.narrow() {
                    let a = self.low(e)?;
                    self.asm.emit(if want { Op::BrNz { a, t: to.0 } } else { Op::BrZ { a, t: to.0 } });
                } else {
                    self.branch(&Test::Rel(Rel::Ne, e.clone(), zero), to, want)?;
                }
            }
            Test::Same(a, b) => {
                let (a, b) = (self.test_value(a)?, self.test_value(b)?);
                self.asm.emit(Op::Br { a, b, cmp: if want { Cmp::Eq } else { Cmp::Ne }, t: to.0 });
            }
            Test::Cond(c, a, b) => {
                let (no, end) = (self.asm.label(), self.asm.label());
                self.branch_unless(c, no)?;
                self.branch(a, to, want)?;
                self.asm.jump(end);
                self.asm.bind(no);
                self.branch(b, to, want)?;
                self.asm.bind(end);
            }
            Test::Valid(HeaderExpr::Fixed(h)) if self.layout.headers[*h].metadata => {
                self.branch(&Test::Const(true), to, want)?;
            }
            Test::Valid(HeaderExpr::Fixed(h)) => {
                let a = self.layout.headers[*h].base as R;
                self.asm.emit(if want { Op::BrNz { a, t: to.0 } } else { Op::BrZ { a, t: to.0 } });
            }
            Test::Valid(h) => {
                let (a, d) = (self.header_number(h)?, self.asm.temp(1));
                self.asm.emit(Op::ValidDyn { d, a });
                self.asm.emit(if want { Op::BrNz { a: d, t: to.0 } } else { Op::BrZ { a: d, t: to.0 } });
            }
            Test::ValidUnion(u) => {
                let any = self.union_members(u).into_iter().map(Test::Valid);
                let any = any.reduce(|a, b| Test::Or(Box::new(a), Box::new(b)));
                self.branch(&any.unwrap_or(Test::Const(false)), to, want)?;
            }
            Test::EqHeader(a, b) => {
                let (a, b) = (self.header_number(a)?, self.header_number(b)?);
                let d = self.asm.temp(1);
                self.asm.emit(Op::EqHeader { d, a, b });
                self.asm.emit(if want { Op::BrNz { a: d, t: to.0 } } else { Op::BrZ { a: d, t: to.0 } });
            }
            Test::EqVarbit(a, b) => {
                let d = self.asm.temp(1);
                self.asm.emit(Op::EqVarbit { d, a: a.slot, b: b.slot });
                self.asm.emit(if want { Op::BrNz { a: d, t: to.0 } } else { Op::BrZ { a: d, t: to.0 } });
            }
            Test::EqUnion(a, b) => {
                let pairs = self.union_members(a).into_iter().zip(self.union_members(b));
                let any =
                    pairs.map(|(a, b)| Test::EqHeader(a, b)).reduce(|a, b| Test::Or(a.into(), b.into()));
                self.branch(&any.unwrap_or(Test::Const(false)), to, want)?;
            }
        }
        Ok(())
    }

    /// The members of a union.
    pub(crate) fn union_members(&self, u: &UnionExpr) -> Vec<HeaderExpr> {
        match u {
            UnionExpr::Fixed(u) => {
                self.layout.unions[*u].members.iter().map(|&h| HeaderExpr::Fixed(h)).collect()
            }
            UnionExpr::Elem { stack, .. } => {
                let ty = self.layout.union_stacks[*stack].ty;
                let n = self.layout.union_types[ty].members.len();
                (0..n).map(|member| HeaderExpr::Member { union: u.clone(), member }).collect()
            }
        }
    }

    /// A slot that holds the number of a header.
    pub(crate) fn header_number(&mut self, h: &HeaderExpr) -> Result<R> {
        match h {
            HeaderExpr::Fixed(h) => Ok(self.asm.konst(*h as u64)),
            HeaderExpr::Elem { stack, index } => {
                let (idx, d) = (self.low(index)?, self.asm.temp(1));
                self.asm.emit(Op::Elem { d, stack: *stack as u16, idx });
                Ok(d)
            }
            HeaderExpr::Member { union: UnionExpr::Fixed(u), member } => {
                Ok(self.asm.konst(self.layout.unions[*u].members[*member] as u64))
            }
            HeaderExpr::Member { union: UnionExpr::Elem { stack, index }, member } => {
                let (idx, d) = (self.low(index)?, self.asm.temp(1));
                let (stack, member) = (*stack as u16, *member as u8);
                self.asm.emit(Op::UnionElem { d, stack, idx, member });
                Ok(d)
            }
        }
    }
}
