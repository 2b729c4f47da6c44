//! Numbers that must not be mixed up: packet sequence numbers, queue pair numbers, remote keys.

use std::fmt;

const MASK24: u32 = 0x00ff_ffff;

/// A packet sequence number: a 24-bit serial number (IBTA vol. 1, 9.7.1). It wraps, so it has no total order; compare
/// with [`Psn::since`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Zero.
    pub const ZERO: Psn = Psn(0);

    /// The low 24 bits of `bits`.
    #[inline]
    pub const fn new(bits: u32) -> Psn {
        Psn(bits & MASK24)
    }

    /// The number, below 2²⁴.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// `n` packets later, modulo 2²⁴.
    #[inline]
    #[must_use]
    pub const fn plus(self, n: u32) -> Psn {
        Psn(self.0.wrapping_add(n) & MASK24)
    }

    /// `n` packets earlier, modulo 2²⁴.
    #[inline]
    #[must_use]
    pub const fn minus(self, n: u32) -> Psn {
        Psn(self.0.wrapping_sub(n) & MASK24)
    }

    /// The PSN that follows.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Psn {
        self.plus(1)
    }

    /// Packets from `earlier` to `self`, modulo 2²⁴ (0 to 2²⁴ - 1).
    #[inline]
    pub const fn distance(self, earlier: Psn) -> u32 {
        self.0.wrapping_sub(earlier.0) & MASK24
    }

    /// Signed distance from `other`: positive when `self` is ahead. It lies in -2²³ ..= 2²³ - 1, so it is only
    /// meaningful within half the number space. A responder divides its valid and duplicate regions in the same way.
    #[inline]
    pub const fn since(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }

    /// Whether `self` lies in the `count` numbers that start at `first`.
    #[inline]
    pub const fn within(self, first: Psn, count: u32) -> bool {
        self.distance(first) < count
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A queue pair number, 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// The low 24 bits of `bits`.
    #[inline]
    pub const fn new(bits: u32) -> Qpn {
        Qpn(bits & MASK24)
    }

    /// The number, below 2²⁴.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qpn({:#x})", self.0)
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A remote key: names a memory region and proves the right to use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rkey(pub u32);

impl fmt::Debug for Rkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rkey({:#010x})", self.0)
    }
}

impl fmt::Display for Rkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_arithmetic_wraps() {
        let top = Psn::new(0xff_ffff);
        assert_eq!(top.next(), Psn::ZERO);
        assert_eq!(Psn::ZERO.minus(1), top);
        assert_eq!(Psn::ZERO.since(top), 1);
        assert_eq!(top.since(Psn::ZERO), -1);
        assert_eq!(Psn::new(0x80_0000).since(Psn::ZERO), -(1 << 23));
        assert_eq!(Psn::new(0x7f_ffff).since(Psn::ZERO), (1 << 23) - 1);
        assert!(Psn::new(2).within(Psn::new(0xff_fffe), 5));
        assert!(!Psn::new(3).within(Psn::new(0xff_fffe), 5));
        assert_eq!(Psn::new(0x0100_0001), Psn::new(1), "only 24 bits count");
    }
}
