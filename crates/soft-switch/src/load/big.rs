//! Integers of any size, as constants have them.

use super::node::{Node, Result};

/// A signed constant: sign and magnitude, least significant limb first, no leading zero limbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Big {
    pub negative: bool,
    pub limbs: Vec<u64>,
}

/// Most hexadecimal digits of a constant: 4096 bits.
const MAX_DIGITS: usize = 1024;

impl Big {
    pub(crate) fn from_u64(v: u64) -> Big {
        Big { negative: false, limbs: if v == 0 { vec![] } else { vec![v] } }
    }

    /// Reads `0x1f`, `-0x1f` or `1f`.
    pub(crate) fn hex(n: &Node) -> Result<Big> {
        let text = n.str()?;
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |r| (true, r));
        let digits = rest.strip_prefix("0x").unwrap_or(rest);
        if digits.is_empty() || digits.len() > MAX_DIGITS {
            return n.err(format!("'{text}' is no hexadecimal number of 1 to {MAX_DIGITS} digits"));
        }
        let mut limbs = Vec::new();
        for chunk in digits.as_bytes().rchunks(16) {
            let mut limb = 0u64;
            for &c in chunk {
                let Some(d) = (c as char).to_digit(16) else {
                    return n.err(format!("'{text}' is no hexadecimal number"));
                };
                limb = limb << 4 | u64::from(d);
            }
            limbs.push(limb);
        }
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Ok(Big { negative: negative && !limbs.is_empty(), limbs })
    }

    /// Bits of the magnitude.
    pub(crate) fn bits(&self) -> u32 {
        self.limbs.last().map_or(0, |top| self.limbs.len() as u32 * 64 - top.leading_zeros())
    }

    /// Two's complement in `n` limbs.
    pub(crate) fn twos(&self, n: usize) -> Vec<u64> {
        let mut out: Vec<u64> = (0..n).map(|i| self.limbs.get(i).copied().unwrap_or(0)).collect();
        if self.negative {
            let mut carry = true;
            for l in &mut out {
                let (v, c) = (!*l).overflowing_add(u64::from(carry));
                (*l, carry) = (v, c);
            }
        }
        out
    }

    /// The value modulo 2^64.
    pub(crate) fn low(&self) -> u64 {
        let v = self.limbs.first().copied().unwrap_or(0);
        if self.negative { v.wrapping_neg() } else { v }
    }

    /// The value if it is no negative number and fits.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        (!self.negative && self.limbs.len() <= 1).then(|| self.low())
    }
}

/// A hexadecimal string as big-endian bytes, two digits per byte (bmv2's byte containers).
pub(crate) fn hex_bytes(n: &Node) -> Result<Vec<u8>> {
    let text = n.str()?;
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let nibble = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    let mut out = Vec::with_capacity(digits.len().div_ceil(2));
    // An odd number of digits has half a byte in front.
    for chunk in digits.as_bytes().rchunks(2).rev() {
        let mut byte = 0;
        for &c in chunk {
            let Some(d) = nibble(c) else { return n.err(format!("'{text}' is no hexadecimal string")) };
            byte = byte << 4 | d;
        }
        out.push(byte);
    }
    Ok(out)
}

impl Big {
    /// A number from big-endian bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Big {
        let mut limbs: Vec<u64> = Vec::new();
        for chunk in bytes.rchunks(8) {
            limbs.push(chunk.iter().fold(0, |v, b| v << 8 | u64::from(*b)));
        }
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Big { negative: false, limbs }
    }
}
