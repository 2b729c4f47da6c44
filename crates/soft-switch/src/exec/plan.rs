//! How a header's bytes and its slots map to each other: fixed big-endian loads and stores, computed at load.

use crate::load::layout::Layout;
use crate::op::R;

/// The slot array: as many slots as an operand can name.
pub(crate) type Slots = [u64; 65536];

/// Up to 64 bits that belong to one slot, in packet order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub slot: R,
    pub width: u8,
}

/// The pieces of a field that starts at `slot`, most significant first.
pub(crate) fn field_pieces(slot: R, width: u32, out: &mut Vec<Piece>) {
    let limbs = (width as usize).div_ceil(64);
    for l in (0..limbs).rev() {
        let w = if l + 1 == limbs { width - 64 * l as u32 } else { 64 };
        out.push(Piece { slot: slot + l as R, width: w as u8 });
    }
}

/// The pieces of a header's fixed fields.
pub(crate) fn header_pieces(layout: &Layout, header: usize) -> Vec<Piece> {
    let mut out = Vec::new();
    for f in 0..layout.header_type(header).fields.len() {
        let r = layout.field_at(header, f);
        if !r.varbit && r.width > 0 {
            field_pieces(r.slot, r.width, &mut out);
        }
    }
    out
}

#[inline]
fn mask(width: u8) -> u64 {
    u64::MAX >> (64 - u32::from(width)).min(63)
}

/// Reads `width` bits (1 to 64) at bit `pos`, which must lie within `data`.
#[inline]
pub(crate) fn read_bits(data: &[u8], pos: usize, width: u8) -> u64 {
    let (first, end) = (pos / 8, pos + width as usize);
    let last = end.div_ceil(8);
    let mut v: u128 = 0;
    for &b in data.get(first..last).unwrap_or_default() {
        v = v << 8 | u128::from(b);
    }
    (v >> (last * 8 - end)) as u64 & mask(width)
}

/// ORs `width` bits (1 to 64) into zeroed bits at `pos`, which must lie within `data`.
#[inline]
pub(crate) fn write_bits(data: &mut [u8], pos: usize, width: u8, value: u64) {
    let (first, end) = (pos / 8, pos + width as usize);
    let last = end.div_ceil(8);
    let mut v = u128::from(value & mask(width)) << (last * 8 - end);
    for b in data.get_mut(first..last).unwrap_or_default().iter_mut().rev() {
        *b |= v as u8;
        v >>= 8;
    }
}

#[derive(Clone, Copy, Debug)]
struct Load {
    mask: u64,
    slot: R,
    /// Byte at which the 8-byte window starts.
    off: u16,
    /// Bits below the piece in the window.
    shr: u8,
}

/// Bytes to slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unpack {
    loads: Box<[Load]>,
    /// Pieces that span nine bytes: slot, bit position, width.
    slow: Box<[(R, u32, u8)]>,
    bytes: usize,
}

impl Unpack {
    pub(crate) fn new(pieces: &[Piece]) -> Unpack {
        let bits: usize = pieces.iter().map(|p| p.width as usize).sum();
        let bytes = bits.div_ceil(8);
        let (mut loads, mut slow, mut pos) = (Vec::new(), Vec::new(), 0usize);
        for p in pieces {
            let end = pos + p.width as usize;
            let last = (end - 1) / 8;
            let off = last.saturating_sub(7);
            if pos / 8 < off {
                slow.push((p.slot, pos as u32, p.width));
            } else {
                let shr = ((off + 8) * 8 - end) as u8;
                loads.push(Load { slot: p.slot, off: off as u16, shr, mask: mask(p.width) });
            }
            pos = end;
        }
        Unpack { loads: loads.into(), slow: slow.into(), bytes }
    }

    /// Fills the slots from the first bytes of `data`, which holds at least [`bytes`](Self::bytes).
    #[inline]
    pub(crate) fn run(&self, data: &[u8], slots: &mut Slots) {
        let data = &data[..self.bytes];
        if self.bytes < 8 {
            let mut word = [0u8; 8];
            word[..self.bytes].copy_from_slice(data);
            let v = u64::from_be_bytes(word);
            for l in &self.loads {
                slots[l.slot as usize] = v >> l.shr & l.mask;
            }
            return;
        }
        for l in &self.loads {
            let v = match data[l.off as usize..].first_chunk::<8>() {
                Some(w) => u64::from_be_bytes(*w),
                None => 0,
            };
            slots[l.slot as usize] = v >> (l.shr & 63) & l.mask;
        }
        for &(slot, pos, width) in &self.slow {
            slots[slot as usize] = read_bits(data, pos as usize, width);
        }
    }
}

/// Part of an output word: a slot turned left and masked.
#[derive(Clone, Copy, Debug)]
struct Term {
    mask: u64,
    slot: R,
    turn: u8,
    /// Whether the output word is complete with it.
    last: bool,
}

/// Slots to bytes: each output word is the OR of a constant and of shifted slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pack {
    terms: Box<[Term]>,
    /// The constant part of each word.
    constants: Box<[u64]>,
    pub(crate) bytes: usize,
    pub(crate) bits: usize,
    pieces: Box<[Piece]>,
}

impl Pack {
    pub(crate) fn new(pieces: &[Piece]) -> Pack {
        Pack::with_constants(pieces, &|_| None)
    }

    /// A plan in which slots of known value are constants.
    fn with_constants(pieces: &[Piece], known: &dyn Fn(R) -> Option<u64>) -> Pack {
        let bits: usize = pieces.iter().map(|p| p.width as usize).sum();
        let mut words: Vec<(u64, Vec<Term>)> = vec![(0, Vec::new()); bits.div_ceil(64)];
        let mut pos = 0usize;
        for p in pieces {
            let end = pos + p.width as usize;
            for (w, (constant, terms)) in words.iter_mut().enumerate().take(end.div_ceil(64)).skip(pos / 64) {
                // The word's lowest bit has weight 0; the piece's lowest bit lies at `end - 1`.
                let shift = (w as i64 + 1) * 64 - end as i64;
                let value = mask(p.width);
                let mask = if shift >= 0 { value << shift } else { value >> -shift };
                let turn = shift.rem_euclid(64) as u8;
                match known(p.slot) {
                    Some(v) => *constant |= v.rotate_left(u32::from(turn)) & mask,
                    None => terms.push(Term { slot: p.slot, turn, mask, last: false }),
                }
            }
            pos = end;
        }
        for (_, terms) in &mut words {
            // A word of constants alone has a term too, to end it.
            if terms.is_empty() {
                terms.push(Term { slot: 0, turn: 0, mask: 0, last: true });
            }
            if let Some(t) = terms.last_mut() {
                t.last = true;
            }
        }
        let constants = words.iter().map(|(c, _)| *c).collect();
        let terms = words.into_iter().flat_map(|(_, t)| t).collect();
        Pack { terms, constants, bytes: bits.div_ceil(8), bits, pieces: pieces.into() }
    }

    /// Computes what is constant beforehand.
    pub(crate) fn fold(&mut self, known: &dyn Fn(R) -> Option<u64>) {
        *self = Pack::with_constants(&self.pieces, known);
    }

    /// The pieces that the plan writes, in order.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The slots that it reads.
    pub(crate) fn slots(&self) -> impl Iterator<Item = R> + '_ {
        self.pieces.iter().map(|p| p.slot)
    }

    /// Reads other slots instead.
    pub(crate) fn rename(&mut self, to: &dyn Fn(R) -> R) {
        self.pieces.iter_mut().for_each(|p| p.slot = to(p.slot));
        self.terms.iter_mut().for_each(|t| t.slot = to(t.slot));
    }

    /// Writes the bytes; `out` is at least [`bytes`](Self::bytes) long.
    #[inline]
    pub(crate) fn run(&self, slots: &Slots, out: &mut [u8]) {
        let mut chunks = out[..self.bytes].chunks_mut(8);
        let mut constants = self.constants.iter();
        let mut word = 0u64;
        for t in &self.terms {
            word |= slots[t.slot as usize].rotate_left(u32::from(t.turn)) & t.mask;
            if t.last {
                let (Some(chunk), Some(c)) = (chunks.next(), constants.next()) else { return };
                let bytes = (word | c).to_be_bytes();
                match chunk.first_chunk_mut::<8>() {
                    Some(whole) => *whole = bytes,
                    None => chunk.copy_from_slice(&bytes[..chunk.len()]),
                }
                word = 0;
            }
        }
    }

    /// Writes bit by bit at any bit position of a zeroed buffer.
    pub(crate) fn run_at(&self, slots: &Slots, out: &mut [u8], mut pos: usize) {
        for p in &self.pieces {
            write_bits(out, pos, p.width, slots[p.slot as usize]);
            pos += p.width as usize;
        }
    }
}

/// A header with a varbit: its field pieces before and after it, and where its bytes lie.
#[derive(Clone, Debug)]
pub(crate) struct VarPlan {
    /// Pieces before the varbit.
    pub before: Pack,
    /// Pieces behind it.
    pub after: Pack,
    /// Slot of the length in bytes; the bytes follow, eight per slot, big-endian.
    pub len: R,
    /// Most bytes of the varbit.
    pub max: usize,
}

impl VarPlan {
    pub(crate) fn new(layout: &Layout, header: usize, f: usize) -> VarPlan {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for i in 0..layout.header_type(header).fields.len() {
            let r = layout.field_at(header, i);
            if i != f && r.width > 0 {
                field_pieces(r.slot, r.width, if i < f { &mut before } else { &mut after });
            }
        }
        let var = layout.field_at(header, f);
        VarPlan {
            before: Pack::new(&before),
            after: Pack::new(&after),
            len: var.slot,
            max: var.width as usize / 8,
        }
    }

    /// Fills the slots; `data` holds the fixed part and `len` (at most `max`) bytes of varbit.
    pub(crate) fn unpack(&self, data: &[u8], len: usize, slots: &mut Slots) {
        let mut pos = 0;
        for p in &self.before.pieces {
            slots[p.slot as usize] = read_bits(data, pos, p.width);
            pos += p.width as usize;
        }
        self.unpack_var(data, pos, len, slots);
        pos += len * 8;
        for p in &self.after.pieces {
            slots[p.slot as usize] = read_bits(data, pos, p.width);
            pos += p.width as usize;
        }
    }

    fn unpack_var(&self, data: &[u8], pos: usize, len: usize, slots: &mut Slots) {
        slots[self.len as usize] = len as u64;
        for (i, at) in (0..len).step_by(8).enumerate() {
            let n = (len - at).min(8) as u8;
            let v = read_bits(data, pos + at * 8, n * 8);
            slots[self.len as usize + 1 + i] = v << (64 - u32::from(n) * 8);
        }
    }

    /// Writes the varbit alone; returns its bits.
    pub(crate) fn pack_var(&self, slots: &Slots, out: &mut [u8], pos: usize) -> usize {
        let len = (slots[self.len as usize] as usize).min(self.max);
        for (i, at) in (0..len).step_by(8).enumerate() {
            let n = (len - at).min(8) as u8;
            let v = slots[self.len as usize + 1 + i] >> (64 - u32::from(n) * 8);
            write_bits(out, pos + at * 8, n * 8, v);
        }
        len * 8
    }

    /// Writes the whole header into zeroed bytes at a bit position; returns its bits.
    pub(crate) fn pack(&self, slots: &Slots, out: &mut [u8], pos: usize) -> usize {
        self.before.run_at(slots, out, pos);
        let var = self.pack_var(slots, out, pos + self.before.bits);
        self.after.run_at(slots, out, pos + self.before.bits + var);
        self.before.bits + var + self.after.bits
    }

    /// Bytes of the header as it is now.
    pub(crate) fn bytes(&self, slots: &Slots) -> usize {
        (self.before.bits + self.after.bits) / 8 + (slots[self.len as usize] as usize).min(self.max)
    }
}

/// Everything that execution needs to know of one header.
#[derive(Clone, Debug)]
pub(crate) struct HeaderPlan {
    /// Slot of its validity, the first of its slots.
    pub base: R,
    /// Slots, validity included.
    pub slots: usize,
    pub ty: usize,
    pub metadata: bool,
    /// Bytes without a varbit.
    pub bytes: usize,
    pub unpack: Unpack,
    pub pack: Pack,
    pub var: Option<Box<VarPlan>>,
    /// Other members of its union.
    pub siblings: Box<[u16]>,
}

impl HeaderPlan {
    pub(crate) fn new(layout: &Layout, header: usize) -> HeaderPlan {
        let h = &layout.headers[header];
        let ty = layout.header_type(header);
        let pieces = header_pieces(layout, header);
        let siblings = h.union.map_or_else(Vec::new, |u| layout.unions[u].members.clone());
        HeaderPlan {
            base: h.base as R,
            slots: ty.slots,
            ty: h.ty,
            metadata: h.metadata,
            bytes: ty.fixed_bits as usize / 8,
            unpack: Unpack::new(&pieces),
            pack: Pack::new(&pieces),
            var: ty.varbit().map(|f| Box::new(VarPlan::new(layout, header, f))),
            siblings: siblings.into_iter().filter(|&s| s != header).map(|s| s as u16).collect(),
        }
    }

    /// Writes the header; `out` is exactly [`size`](Self::size) long.
    #[inline]
    pub(crate) fn write(&self, slots: &Slots, out: &mut [u8]) {
        match &self.var {
            None => self.pack.run(slots, out),
            Some(var) => {
                out.fill(0);
                var.pack(slots, out, 0);
            }
        }
    }

    /// Bytes that it takes in a packet now.
    #[inline]
    pub(crate) fn size(&self, slots: &Slots) -> usize {
        match &self.var {
            None => self.bytes,
            Some(v) => v.bytes(slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots() -> Box<Slots> {
        vec![0u64; 65536].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!())
    }

    proptest! {
        #[test]
        fn unpack_then_pack_is_the_identity(
            mut widths in prop::collection::vec(1u8..=64, 1..20),
            seed in any::<u64>(),
        ) {
            let bits: usize = widths.iter().map(|w| *w as usize).sum();
            if !bits.is_multiple_of(8) {
                widths.push(8 - (bits % 8) as u8);
            }
            let pieces: Vec<Piece> =
                widths.iter().enumerate().map(|(i, &width)| Piece { slot: i as R, width }).collect();
            let (unpack, pack) = (Unpack::new(&pieces), Pack::new(&pieces));
            let data: Vec<u8> =
                (0..pack.bytes as u64).map(|i| (seed.rotate_left(i as u32 * 7) ^ (i * 131)) as u8).collect();
            let mut s = slots();
            unpack.run(&data, &mut s);
            let mut pos = 0;
            for p in &pieces {
                prop_assert_eq!(s[p.slot as usize], read_bits(&data, pos, p.width));
                pos += p.width as usize;
            }
            let mut out = vec![0xaa; pack.bytes];
            pack.run(&s, &mut out);
            prop_assert_eq!(&out, &data);
            let mut shifted = vec![0; pack.bytes + 1];
            pack.run_at(&s, &mut shifted, 3);
            prop_assert_eq!(read_bits(&shifted, 3, widths[0]), s[0]);
        }
    }
}
