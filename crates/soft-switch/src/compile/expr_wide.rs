//! Compiles arithmetic on numbers of several limbs.

use super::expr::{Args, Cx, limbs, parameter};
use crate::load::expr::{Bin, Cast, Expr};
use crate::load::node::Result;
use crate::op::{Op, R, WideOp};

impl Cx<'_> {
    /// Computes with limbs and takes the lowest.
    pub(super) fn via_wide(&mut self, e: &Expr, dst: Option<R>, m: u64) -> Result<R> {
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
                    Args::Runtime(a) => *parameter(a, *i)?,
                    Args::Known(a) => {
                        let v = parameter(a, *i)?.twos(n);
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
}
