//! The hash and checksum algorithms that v1model and bmv2 name, over a field list and perhaps the payload.

/// An algorithm.
#[derive(Clone, Debug)]
pub(crate) enum Algo {
    /// A hasher that nothing was given to: a copy of it does not look up again what the processor can do.
    Crc32(crc32fast::Hasher),
    Crc16,
    /// CRC-16/CCITT-FALSE.
    CrcCcitt,
    Custom(Box<Crc>),
    Csum16,
    Xor16,
    Xor32,
    Identity,
    Random,
    RoundRobin,
}

/// A CRC of up to 64 bits with chosen parameters.
#[derive(Clone, Debug)]
pub(crate) struct Crc {
    width: u32,
    init: u64,
    xor_out: u64,
    reflect_in: bool,
    reflect_out: bool,
    table: [u64; 256],
}

/// Parameters of a custom CRC, in the usual (Rocksoft) terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParams {
    /// Polynomial without its top bit.
    pub polynomial: u64,
    /// Initial remainder.
    pub init: u64,
    /// XORed to the result.
    pub xor_out: u64,
    /// Whether input bytes are reflected.
    pub reflect_in: bool,
    /// Whether the remainder is reflected.
    pub reflect_out: bool,
}

impl Crc {
    pub(crate) fn new(width: u32, p: CrcParams) -> Crc {
        let top = 1u64 << (width - 1);
        let mask = u64::MAX >> (64 - width);
        let mut table = [0u64; 256];
        for (i, t) in table.iter_mut().enumerate() {
            let mut r = (i as u64) << (width - 8);
            for _ in 0..8 {
                r = if r & top != 0 { r << 1 ^ p.polynomial } else { r << 1 } & mask;
            }
            *t = r;
        }
        let (init, xor_out) = (p.init & mask, p.xor_out & mask);
        Crc { width, init, xor_out, reflect_in: p.reflect_in, reflect_out: p.reflect_out, table }
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    fn run(&self, parts: [&[u8]; 2]) -> u64 {
        let mask = u64::MAX >> (64 - self.width);
        let mut r = self.init;
        for &b in parts.iter().flat_map(|p| p.iter()) {
            let b = if self.reflect_in { b.reverse_bits() } else { b };
            let i = (r >> (self.width - 8)) as u8 ^ b;
            r = (self.table[i as usize] ^ (r << 8)) & mask;
        }
        let r = if self.reflect_out { r.reverse_bits() >> (64 - self.width) } else { r };
        r ^ self.xor_out
    }
}

/// CRC-16/ARC, reflected, a byte at a time.
static CRC16: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut i = 0;
    while i < 256 {
        let (mut r, mut bit) = (i as u16, 0);
        while bit < 8 {
            r = if r & 1 != 0 { r >> 1 ^ 0xa001 } else { r >> 1 };
            bit += 1;
        }
        table[i] = r;
        i += 1;
    }
    table
};

static CCITT: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut i = 0;
    while i < 256 {
        let (mut r, mut bit) = ((i as u16) << 8, 0);
        while bit < 8 {
            r = if r & 0x8000 != 0 { r << 1 ^ 0x1021 } else { r << 1 };
            bit += 1;
        }
        table[i] = r;
        i += 1;
    }
    table
};

impl Algo {
    /// The algorithm of that name in the JSON.
    pub(crate) fn named(name: &str) -> Option<Algo> {
        let custom = |width, polynomial, ones: u64, reflect| {
            let p = CrcParams {
                polynomial,
                init: ones,
                xor_out: ones,
                reflect_in: reflect,
                reflect_out: reflect,
            };
            Algo::Custom(Box::new(Crc::new(width, p)))
        };
        Some(match name {
            "crc32" => Algo::Crc32(crc32fast::Hasher::new()),
            "crc16" => Algo::Crc16,
            "crcCCITT" => Algo::CrcCcitt,
            "crc8_custom" => custom(8, 0x07, 0, false),
            "crc16_custom" => custom(16, 0x8005, 0, true),
            "crc32_custom" => custom(32, 0x04c1_1db7, u64::MAX, true),
            "crc64_custom" => custom(64, 0x1b, 0, true),
            "csum16" | "cksum16" => Algo::Csum16,
            "xor16" => Algo::Xor16,
            "xor32" => Algo::Xor32,
            "identity" => Algo::Identity,
            "random" => Algo::Random,
            "round_robin" => Algo::RoundRobin,
            _ => return None,
        })
    }

    /// The result over two pieces of data as if they were one. `state` is the generator or the counter.
    pub(crate) fn run(&self, parts: [&[u8]; 2], state: &mut u64) -> u64 {
        match self {
            Algo::Crc32(fresh) => {
                let mut h = fresh.clone();
                h.update(parts[0]);
                if !parts[1].is_empty() {
                    h.update(parts[1]);
                }
                u64::from(h.finalize())
            }
            Algo::Crc16 => {
                let step = |r: u16, b: &u8| r >> 8 ^ CRC16[(r as u8 ^ b) as usize];
                u64::from(parts.iter().flat_map(|p| p.iter()).fold(0u16, step))
            }
            Algo::CrcCcitt => {
                let step = |r: u16, b: &u8| r << 8 ^ CCITT[((r >> 8) as u8 ^ b) as usize];
                u64::from(parts.iter().flat_map(|p| p.iter()).fold(0xffffu16, step))
            }
            Algo::Custom(c) => c.run(parts),
            Algo::Csum16 => u64::from(csum16(parts)),
            Algo::Xor16 => fold_words(parts, 2, |a, w| a ^ w),
            Algo::Xor32 => fold_words(parts, 4, |a, w| a ^ w),
            Algo::Identity => {
                parts.iter().flat_map(|p| p.iter()).take(8).fold(0, |v, &b| v << 8 | u64::from(b))
            }
            Algo::Random => zsr_random::split_mix(state),
            Algo::RoundRobin => {
                let v = *state;
                *state = v.wrapping_add(1);
                v
            }
        }
    }
}

/// Big-endian words of `n` bytes, the last padded with zeros.
fn fold_words(parts: [&[u8]; 2], n: usize, f: impl Fn(u64, u64) -> u64) -> u64 {
    let (mut acc, mut word, mut have) = (0, 0u64, 0);
    for &b in parts.iter().flat_map(|p| p.iter()) {
        word = word << 8 | u64::from(b);
        have += 1;
        if have == n {
            acc = f(acc, word);
            (word, have) = (0, 0);
        }
    }
    if have > 0 { f(acc, word << (8 * (n - have))) } else { acc }
}

/// Sum of big-endian 16-bit words, not folded; an odd last byte counts as the high one.
fn sum16(data: &[u8]) -> u64 {
    let mut sum = 0u64;
    let mut words = data.chunks_exact(8);
    for w in words.by_ref() {
        let v = u64::from_be_bytes([w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]]);
        sum += (v >> 48) + (v >> 32 & 0xffff) + (v >> 16 & 0xffff) + (v & 0xffff);
    }
    let mut pairs = words.remainder().chunks_exact(2);
    for p in pairs.by_ref() {
        sum += u64::from(u16::from_be_bytes([p[0], p[1]]));
    }
    sum + pairs.remainder().first().map_or(0, |&b| u64::from(b) << 8)
}

/// The internet checksum (RFC 1071).
pub(crate) fn csum16(parts: [&[u8]; 2]) -> u16 {
    let mut second = sum16(parts[1]);
    if parts[0].len() % 2 == 1 {
        // The second part starts in the low half of a word: its bytes change places.
        while second > 0xffff {
            second = (second >> 16) + (second & 0xffff);
        }
        second = u64::from((second as u16).swap_bytes());
    }
    let mut sum = sum16(parts[0]) + second;
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(name: &str, data: &[u8]) -> u64 {
        Algo::named(name).map_or(0, |a| a.run([data, &[]], &mut 0))
    }

    #[test]
    fn check_values_of_the_crc_catalogue() {
        let check = b"123456789";
        assert_eq!(run("crc32", check), 0xcbf4_3926);
        assert_eq!(run("crc32_custom", check), 0xcbf4_3926);
        assert_eq!(run("crc16", check), 0xbb3d);
        assert_eq!(run("crc16_custom", check), 0xbb3d);
        assert_eq!(run("crcCCITT", check), 0x29b1);
        assert_eq!(run("crc8_custom", check), 0xf4);
    }

    #[test]
    fn checksum_of_an_ipv4_header() {
        // The example of RFC 1071, section 3: the sum of these words is 0xddf2.
        assert_eq!(run("csum16", &[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), 0x220d);
        assert_eq!(run("csum16", &[]), 0xffff);
    }

    #[test]
    fn xor_and_identity() {
        assert_eq!(run("xor16", &[0x12, 0x34, 0x56]), 0x1234 ^ 0x5600);
        assert_eq!(run("identity", &[1, 2, 3]), 0x010203);
        assert_eq!(run("identity", &[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0x0102_0304_0506_0708);
    }

    proptest! {
        #[test]
        fn two_parts_are_like_one(data in prop::collection::vec(any::<u8>(), 0..100), cut in 0usize..100) {
            let cut = cut.min(data.len());
            for name in ["crc32", "crc16", "crcCCITT", "csum16", "xor16", "xor32", "identity", "crc64_custom"] {
                let algo = Algo::named(name).ok_or(TestCaseError::fail("unknown"))?;
                let whole = algo.run([&data, &[]], &mut 0);
                prop_assert_eq!(whole, algo.run([&data[..cut], &data[cut..]], &mut 0), "{}", name);
            }
        }
    }
}
