//! How many bits an expression's exact value can take: decides between one-word and many-limb arithmetic.

use crate::load::expr::{Bin, Cast, Expr};
use crate::load::layout::Layout;

/// Widest intermediate value in bits; shifts by a variable are cut there.
const MAX_BITS: u32 = 8192;

/// Unsigned: `0 <= v < 2^bits`. Signed: `-2^(bits-1) <= v < 2^(bits-1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub bits: u32,
    pub signed: bool,
}

impl Range {
    pub(crate) fn unsigned(bits: u32) -> Range {
        Range { bits: bits.min(MAX_BITS), signed: false }
    }

    pub(crate) fn signed(bits: u32) -> Range {
        Range { bits: bits.clamp(1, MAX_BITS), signed: true }
    }

    /// Bits in two's complement.
    pub(crate) fn signed_bits(self) -> u32 {
        self.bits + u32::from(!self.signed)
    }

    /// Whether one word holds the value, in its own signedness.
    pub(crate) fn narrow(self) -> bool {
        self.bits <= 64
    }

    fn join(self, other: Range) -> Range {
        if self.signed || other.signed {
            Range::signed(self.signed_bits().max(other.signed_bits()))
        } else {
            Range::unsigned(self.bits.max(other.bits))
        }
    }
}

/// The range of an expression. `arg` tells the width of an action's argument.
pub(crate) fn range(
    e: &Expr,
    layout: &Layout,
    arg: &dyn Fn(usize) -> Range,
    reg: &dyn Fn(&str) -> u32,
) -> Range {
    let of = |e: &Expr| range(e, layout, arg, reg);
    let field = |ty: usize, f: usize| {
        let def = &layout.types[ty].fields[f];
        if def.signed { Range::signed(def.width) } else { Range::unsigned(def.width) }
    };
    match e {
        Expr::Const(c) if c.negative => Range::signed(c.bits() + 1),
        Expr::Const(c) => Range::unsigned(c.bits()),
        Expr::Field(f) if f.signed => Range::signed(f.width),
        Expr::Field(f) => Range::unsigned(f.width),
        Expr::Arg(i) => arg(*i),
        Expr::Last { stack, field: f } => field(layout.stacks[*stack].ty, *f),
        Expr::Elem { stack, field: f, .. } => field(layout.stacks[*stack].ty, *f),
        Expr::UnionElem { stack, member, field: f, .. } => {
            field(layout.union_types[layout.union_stacks[*stack].ty].members[*member].1, *f)
        }
        Expr::Register { register, .. } => Range::unsigned(reg(register)),
        Expr::Not(a) => Range::signed(of(a).signed_bits()),
        Expr::Cast(Cast::SatUnsigned, _, w) => Range::unsigned(*w),
        Expr::Cast(_, _, w) => Range::signed(*w),
        Expr::Cond(_, a, b) => of(a).join(of(b)),
        Expr::FromBool(_) => Range::unsigned(1),
        Expr::LastIndex(_) => Range::signed(64),
        Expr::Size(_) | Expr::UnionStackSize(_) => Range::unsigned(8),
        Expr::Bin(op, a, b) => binary(*op, of(a), of(b), b),
    }
}

fn binary(op: Bin, a: Range, b: Range, right: &Expr) -> Range {
    let both_unsigned = !a.signed && !b.signed;
    let widest = a.signed_bits().max(b.signed_bits());
    match op {
        Bin::Add if both_unsigned => Range::unsigned(a.bits.max(b.bits) + 1),
        Bin::Add => Range::signed(widest + 1),
        Bin::Sub if both_unsigned => Range::signed(widest),
        Bin::Sub => Range::signed(widest + 1),
        Bin::Mul if both_unsigned => Range::unsigned(a.bits + b.bits),
        Bin::Mul => Range::signed(a.signed_bits() + b.signed_bits()),
        Bin::And if both_unsigned => Range::unsigned(a.bits.min(b.bits)),
        Bin::And if !a.signed => a,
        Bin::And if !b.signed => b,
        Bin::And => Range::signed(widest),
        Bin::Or | Bin::Xor if both_unsigned => Range::unsigned(a.bits.max(b.bits)),
        Bin::Or | Bin::Xor => Range::signed(widest),
        Bin::Div if both_unsigned => a,
        Bin::Div => Range::signed(widest + 1),
        Bin::Mod if both_unsigned => b,
        Bin::Mod => Range::signed(widest),
        Bin::Shl => {
            let by = match right {
                Expr::Const(c) => c.to_u64().unwrap_or(0).min(u64::from(MAX_BITS)) as u32,
                _ => 1u32.checked_shl(b.bits.min(16)).map_or(MAX_BITS, |n| (n - 1).min(MAX_BITS)),
            };
            Range { bits: (a.bits + by).min(MAX_BITS), signed: a.signed }
        }
        Bin::Shr => {
            let by = match right {
                Expr::Const(c) => c.to_u64().unwrap_or(0).min(u64::from(MAX_BITS)) as u32,
                _ => 0,
            };
            Range { bits: a.bits.saturating_sub(by).max(u32::from(a.signed)), signed: a.signed }
        }
    }
}
