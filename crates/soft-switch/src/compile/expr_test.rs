//! Compiles truth values, into branches where possible.

use super::asm::Label;
use super::expr::{Cx, limbs};
use crate::load::big::Big;
use crate::load::expr::{Expr, HeaderExpr, Rel, Test, UnionExpr};
use crate::load::node::Result;
use crate::op::{Cmp, Op, R};

impl Cx<'_> {
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
