//! Compiles places: fields and cells found by index, and assignments.

use super::expr::{Cx, limbs, mask};
use crate::load::expr::Expr;
use crate::load::layout::FieldRef;
use crate::load::node::Result;
use crate::op::{Op, R};

impl Cx<'_> {
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
}
