//! Instructions whose operands are known are carried out when code is made.

use crate::exec::run::{holds, sext};
use crate::op::{Op, R};

/// The slot that an instruction writes and what it puts there, if `known` says all that this depends on.
pub(super) fn fold(op: Op, known: impl Fn(R) -> Option<u64>) -> Option<(R, u64)> {
    let k = known;
    Some(match op {
        Op::Mov { d, a, m } => (d, k(a)? & k(m)?),
        Op::Add { d, a, b, m } => (d, k(a)?.wrapping_add(k(b)?) & k(m)?),
        Op::Sub { d, a, b, m } => (d, k(a)?.wrapping_sub(k(b)?) & k(m)?),
        Op::And { d, a, b } => match (k(a), k(b)) {
            (Some(0), _) | (_, Some(0)) => (d, 0),
            (a, b) => (d, a? & b?),
        },
        Op::Or { d, a, b, m } => (d, (k(a)? | k(b)?) & k(m)?),
        Op::Xor { d, a, b, m } => (d, (k(a)? ^ k(b)?) & k(m)?),
        Op::Not { d, a, m } => (d, !k(a)? & k(m)?),
        Op::ShlK { d, a, k: by, m } => (d, k(a)? << (by & 63) & k(m)?),
        Op::ShrK { d, a, k: by, m } => (d, k(a)? >> (by & 63) & k(m)?),
        Op::Sext { d, a, w, m } => (d, sext(k(a)?, w) & k(m)?),
        Op::Set { d, a, b, cmp } => (d, u64::from(holds(cmp, k(a)?, k(b)?))),
        _ => return None,
    })
}

/// The operands of an instruction that [`fold`] knows, constant masks apart, and the slot that it writes.
pub(super) fn operands(op: Op) -> Option<(R, [R; 2])> {
    Some(match op {
        Op::Mov { d, a, .. }
        | Op::Not { d, a, .. }
        | Op::ShlK { d, a, .. }
        | Op::ShrK { d, a, .. }
        | Op::Sext { d, a, .. } => (d, [a, a]),
        Op::Add { d, a, b, .. }
        | Op::Sub { d, a, b, .. }
        | Op::And { d, a, b }
        | Op::Or { d, a, b, .. }
        | Op::Xor { d, a, b, .. }
        | Op::Set { d, a, b, .. } => (d, [a, b]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Cmp;

    #[test]
    fn what_is_known_is_folded_as_the_interpreter_computes_it() {
        let slots = [0xf0u64, 0x3c, 0xff, 0];
        let known = |r: R| slots.get(r as usize).copied();
        let (d, a, b, m) = (9, 0, 1, 2);
        let folded = |op| fold(op, known).map(|(_, v)| v);
        assert_eq!(folded(Op::Add { d, a, b, m }), Some(0x2c));
        assert_eq!(folded(Op::Sub { d, a: 1, b: 0, m }), Some(0x4c));
        assert_eq!(folded(Op::And { d, a, b }), Some(0x30));
        assert_eq!(folded(Op::Xor { d, a, b, m }), Some(0xcc));
        assert_eq!(folded(Op::Not { d, a, m }), Some(0x0f));
        assert_eq!(folded(Op::ShlK { d, a, k: 1, m }), Some(0xe0));
        assert_eq!(folded(Op::ShrK { d, a, k: 4, m }), Some(0xf));
        assert_eq!(folded(Op::Sext { d, a, w: 8, m: 2 }), Some(0xf0));
        assert_eq!(folded(Op::Set { d, a, b, cmp: Cmp::GeU }), Some(1));
        // Nothing AND anything is nothing; of all else every operand has to be known.
        assert_eq!(folded(Op::And { d, a: 7, b: 3 }), Some(0));
        assert_eq!(folded(Op::And { d, a: 7, b: 0 }), None);
        assert_eq!(folded(Op::Or { d, a: 7, b: 0, m }), None);
    }
}
