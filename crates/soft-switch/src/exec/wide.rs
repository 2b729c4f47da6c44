//! Arithmetic on numbers of several limbs in the slot array: two's complement, least significant limb first. The
//! destination is a temporary of its own, so operands are never overwritten while they are read.

use std::cmp::Ordering;

use super::plan::Slots;
use crate::op::{Cmp, R, WideOp};

#[inline]
fn at(r: R, i: usize) -> usize {
    (r as usize + i) & 0xffff
}

fn sign(slots: &Slots, a: R, n: usize) -> u64 {
    if slots[at(a, n - 1)] >> 63 == 1 { u64::MAX } else { 0 }
}

/// Sign-extends `n` limbs at `d` from bit `w - 1`.
pub(crate) fn extend_sign(slots: &mut Slots, d: R, n: usize, w: usize) {
    let negative = slots[at(d, (w - 1) / 64)] >> ((w - 1) % 64) & 1 == 1;
    fill_from(slots, d, n, w, if negative { u64::MAX } else { 0 });
}

/// Sets all bits from `w` on.
fn fill_from(slots: &mut Slots, d: R, n: usize, w: usize, with: u64) {
    for i in w / 64..n {
        let keep = if i == w / 64 { (1u64 << (w % 64)) - 1 } else { 0 };
        let s = &mut slots[at(d, i)];
        *s = *s & keep | with & !keep;
    }
}

/// Copies `s` limbs to `n`, extending by bit `w - 1` (unsigned if `w` is 0).
pub(crate) fn load(slots: &mut Slots, d: R, a: R, s: usize, n: usize, w: usize) {
    for i in 0..n {
        slots[at(d, i)] = if i < s { slots[at(a, i)] } else { 0 };
    }
    if w > 0 && w < n * 64 {
        extend_sign(slots, d, n, w);
    }
}

/// Copies `n` limbs and clears bits from `w` on.
pub(crate) fn store(slots: &mut Slots, d: R, a: R, n: usize, w: usize) {
    for i in 0..n {
        slots[at(d, i)] = slots[at(a, i)];
    }
    fill_from(slots, d, n, w, 0);
}

/// Signed order of two numbers.
fn order(slots: &Slots, a: R, b: R, n: usize) -> Ordering {
    let top = |r| slots[at(r, n - 1)] as i64;
    top(a).cmp(&top(b)).then_with(|| {
        let limb = |r: R| (0..n - 1).rev().map(move |i| slots[at(r, i)]);
        limb(a).cmp(limb(b))
    })
}

pub(crate) fn compare(slots: &Slots, a: R, b: R, n: usize, cmp: Cmp) -> bool {
    let o = order(slots, a, b, n);
    match cmp {
        Cmp::Eq => o.is_eq(),
        Cmp::Ne => o.is_ne(),
        Cmp::LtU | Cmp::LtS => o.is_lt(),
        Cmp::GeU | Cmp::GeS => o.is_ge(),
    }
}

/// Clamps to `w` bits, signed or unsigned.
pub(crate) fn saturate(slots: &mut Slots, d: R, a: R, n: usize, w: usize, signed: bool) {
    load(slots, d, a, n, n, 0);
    let negative = sign(slots, d, n) != 0;
    let limit = if signed { w - 1 } else { w };
    if negative && !signed {
        fill_from(slots, d, n, 0, 0);
        return;
    }
    // In range if every bit from the limit on equals the sign.
    let want = if negative { u64::MAX } else { 0 };
    let outside = (limit / 64..n).any(|i| {
        let skip = if i == limit / 64 { (1u64 << (limit % 64)) - 1 } else { 0 };
        (slots[at(d, i)] ^ want) & !skip != 0
    });
    if outside {
        // Largest: ones below the limit. Smallest: zeros below it, ones above.
        fill_from(slots, d, n, 0, !want);
        fill_from(slots, d, n, limit, want);
    }
}

pub(crate) fn not(slots: &mut Slots, d: R, a: R, n: usize) {
    for i in 0..n {
        slots[at(d, i)] = !slots[at(a, i)];
    }
}

/// `d = a op b`; for shifts `b` is one slot.
pub(crate) fn binary(slots: &mut Slots, op: WideOp, d: R, a: R, b: R, n: usize) {
    match op {
        WideOp::And | WideOp::Or | WideOp::Xor => {
            for i in 0..n {
                let (x, y) = (slots[at(a, i)], slots[at(b, i)]);
                slots[at(d, i)] = match op {
                    WideOp::And => x & y,
                    WideOp::Or => x | y,
                    _ => x ^ y,
                };
            }
        }
        WideOp::Add | WideOp::Sub => {
            let flip = if op == WideOp::Sub { u64::MAX } else { 0 };
            let mut carry = u128::from(flip & 1);
            for i in 0..n {
                let sum = u128::from(slots[at(a, i)]) + u128::from(slots[at(b, i)] ^ flip) + carry;
                slots[at(d, i)] = sum as u64;
                carry = sum >> 64;
            }
        }
        WideOp::Mul => {
            fill_from(slots, d, n, 0, 0);
            for i in 0..n {
                let mut carry = 0u128;
                for j in 0..n - i {
                    let prod = u128::from(slots[at(a, i)]) * u128::from(slots[at(b, j)]);
                    let sum = prod + u128::from(slots[at(d, i + j)]) + carry;
                    slots[at(d, i + j)] = sum as u64;
                    carry = sum >> 64;
                }
            }
        }
        WideOp::Shl => {
            let by = slots[b as usize];
            let (limbs, bits) = (by / 64, by % 64);
            for i in (0..n).rev() {
                let from = |back: u64| (i as u64).checked_sub(back).map_or(0, |j| slots[at(a, j as usize)]);
                let high = from(limbs) << bits;
                let low = if bits > 0 { from(limbs.saturating_add(1)) >> (64 - bits) } else { 0 };
                slots[at(d, i)] = high | low;
            }
        }
        WideOp::Shr => {
            let by = slots[b as usize];
            let (limbs, bits) = (by / 64, by % 64);
            let fill = sign(slots, a, n);
            for i in 0..n {
                let from = |on: u64| {
                    let j = (i as u64).saturating_add(on);
                    if j < n as u64 { slots[at(a, j as usize)] } else { fill }
                };
                let low = from(limbs) >> bits;
                let high = if bits > 0 { from(limbs.saturating_add(1)) << (64 - bits) } else { 0 };
                slots[at(d, i)] = high | low;
            }
        }
        WideOp::Div | WideOp::Mod => divide(slots, op == WideOp::Div, d, a, b, n),
    }
}

/// Long division, bit by bit. bmv2 defines it for no negative operand and no zero divisor; then the result is 0.
fn divide(slots: &mut Slots, quotient: bool, d: R, a: R, b: R, n: usize) {
    let zero = (0..n).all(|i| slots[at(b, i)] == 0);
    let undefined = zero || sign(slots, a, n) != 0 || sign(slots, b, n) != 0;
    let mut rest = [0u64; 130];
    let mut quot = [0u64; 130];
    if !undefined {
        for bit in (0..n * 64).rev() {
            let mut carry = slots[at(a, bit / 64)] >> (bit % 64) & 1;
            for r in &mut rest[..n] {
                (*r, carry) = (*r << 1 | carry, *r >> 63);
            }
            let less = (0..n).rev().map(|i| rest[i]).lt((0..n).rev().map(|i| slots[at(b, i)]));
            if !less {
                let mut borrow = false;
                for (i, r) in rest[..n].iter_mut().enumerate() {
                    let (v, b1) = r.overflowing_sub(slots[at(b, i)]);
                    let (v, b2) = v.overflowing_sub(u64::from(borrow));
                    (*r, borrow) = (v, b1 || b2);
                }
                quot[bit / 64] |= 1 << (bit % 64);
            }
        }
    }
    for i in 0..n {
        slots[at(d, i)] = if quotient { quot[i] } else { rest[i] };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots(a: i128, b: i128) -> Box<Slots> {
        let mut s: Box<Slots> =
            vec![0u64; 65536].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!());
        (s[0], s[1], s[2], s[3]) = (a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64);
        s
    }

    fn result(s: &Slots) -> i128 {
        (u128::from(s[5]) << 64 | u128::from(s[4])) as i128
    }

    proptest! {
        #[test]
        fn agrees_with_i128(a in any::<i128>(), b in any::<i128>(), by in 0u32..140, w in 1usize..=128) {
            let run = |op, a, b| {
                let mut s = slots(a, b);
                binary(&mut s, op, 4, 0, 2, 2);
                result(&s)
            };
            prop_assert_eq!(run(WideOp::Add, a, b), a.wrapping_add(b));
            prop_assert_eq!(run(WideOp::Sub, a, b), a.wrapping_sub(b));
            prop_assert_eq!(run(WideOp::Mul, a, b), a.wrapping_mul(b));
            prop_assert_eq!(run(WideOp::Xor, a, b), a ^ b);
            prop_assert_eq!(run(WideOp::Shl, a, i128::from(by)), a.checked_shl(by).unwrap_or(0));
            prop_assert_eq!(run(WideOp::Shr, a, i128::from(by)), a.checked_shr(by).unwrap_or(a >> 127));
            let (p, q) = (a & i128::MAX, (b & i128::MAX) >> (by % 120));
            prop_assert_eq!(run(WideOp::Div, p, q), p.checked_div(q).unwrap_or(0));
            prop_assert_eq!(run(WideOp::Mod, p, q), p.checked_rem(q).unwrap_or(0));
            let s = slots(a, b);
            prop_assert_eq!(compare(&s, 0, 2, 2, Cmp::LtS), a < b);
            prop_assert!(compare(&s, 0, 0, 2, Cmp::GeS));
            let mut s = slots(a, b);
            saturate(&mut s, 4, 0, 2, w, true);
            let top = i128::MAX >> (128 - w);
            prop_assert_eq!(result(&s), a.clamp(-top - 1, top));
            if w < 128 {
                saturate(&mut s, 4, 0, 2, w, false);
                prop_assert_eq!(result(&s), a.clamp(0, (1i128 << w.min(126)).wrapping_mul(if w == 127 { 2 } else { 1 }).wrapping_sub(1)));
                load(&mut s, 4, 0, 2, 2, w);
                prop_assert_eq!(result(&s), a << (128 - w) >> (128 - w));
                store(&mut s, 4, 0, 2, w);
                prop_assert_eq!(result(&s), a & ((1i128 << w).wrapping_sub(1)));
            }
        }
    }
}
