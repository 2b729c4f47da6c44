//! Headers as a packet passes: validity, copies, stacks, extraction.

use super::core::{Core, Stop};
use super::plan::Slots;
use crate::image::Image;
use zsr_wire::frame::Frame;

/// The number that stands for an element beyond the end of its stack.
pub(crate) const NO_HEADER: u64 = 0xffff;

#[inline]
fn mark(image: &Image, slots: &mut Slots, h: usize, valid: bool) {
    let plan = &image.headers[h];
    slots[plan.base as usize] = u64::from(valid);
    if valid {
        for &s in &plan.siblings {
            slots[image.headers[s as usize].base as usize] = 0;
        }
    }
}

/// Whether two varbits are equal as numbers.
pub(crate) fn equal_varbits(slots: &Slots, a: u16, b: u16) -> bool {
    // Byte `i` from the end, 0 beyond the start.
    let byte = |v: u16, i: usize| {
        let len = slots[v as usize] as usize;
        len.checked_sub(i + 1).map_or(0, |at| {
            let word = slots[(v as usize + 1 + at / 8) & 0xffff];
            (word >> (56 - at % 8 * 8)) as u8
        })
    };
    let longest = slots[a as usize].max(slots[b as usize]).min(9216) as usize;
    (0..longest).all(|i| byte(a, i) == byte(b, i))
}

impl Core {
    /// Makes a header valid, all fields 0, if it is not valid yet. One in metadata is no part of the packet's length.
    pub(crate) fn set_valid(&mut self, image: &Image, h: usize) {
        let Some(plan) = image.headers.get(h) else { return };
        let base = plan.base as usize;
        if self.slots[base] == 0 {
            self.slots[base..base + plan.slots].fill(0);
            mark(image, &mut self.slots, h, true);
            if !plan.metadata {
                self.packet_length = self.packet_length.wrapping_add(plan.size(&self.slots) as u64);
            }
        }
    }

    pub(crate) fn set_invalid(&mut self, image: &Image, h: usize) {
        let Some(plan) = image.headers.get(h) else { return };
        if self.slots[plan.base as usize] != 0 {
            if !plan.metadata {
                self.packet_length = self.packet_length.wrapping_sub(plan.size(&self.slots) as u64);
            }
            self.slots[plan.base as usize] = 0;
        }
    }

    pub(crate) fn is_valid(&self, image: &Image, h: usize) -> bool {
        image.headers.get(h).is_some_and(|p| p.metadata || self.slots[p.base as usize] != 0)
    }

    /// `d = s`, validity and all; both have the same type. Metadata may hold a struct, which is neither valid nor
    /// invalid, or a header with its validity. Only a header can be copied to or from a packet's.
    pub(crate) fn copy_header(&mut self, image: &Image, d: usize, s: usize) {
        let (Some(dp), Some(sp)) = (image.headers.get(d), image.headers.get(s)) else { return };
        if dp.ty != sp.ty || d == s {
            return;
        }
        let from = sp.base as usize;
        let valid = self.slots[from] != 0;
        let both_metadata = dp.metadata && sp.metadata;
        if !valid && !both_metadata {
            self.slots[dp.base as usize] = 0;
            return;
        }
        self.slots.copy_within(from..from + sp.slots, dp.base as usize);
        mark(image, &mut self.slots, d, valid);
    }

    /// Whether both are valid and equal.
    pub(crate) fn equal_headers(&self, image: &Image, a: usize, b: usize) -> bool {
        let (Some(p), Some(q)) = (image.headers.get(a), image.headers.get(b)) else { return false };
        if p.ty != q.ty || !self.is_valid(image, a) || !self.is_valid(image, b) {
            return false;
        }
        let fields =
            |base: u16, from: usize, to: usize| &self.slots[base as usize + from..base as usize + to];
        let same = |from, to| fields(p.base, from, to) == fields(q.base, from, to);
        let (Some(v), Some(w)) = (&p.var, &q.var) else { return same(1, p.slots) };
        let first = (v.len - p.base) as usize;
        let end = first + 1 + v.max.div_ceil(8);
        same(1, first) && equal_varbits(&self.slots, v.len, w.len) && same(end, p.slots)
    }

    /// Shifts a stack's elements up (`push`) or down by `n`.
    pub(crate) fn shift_stack(&mut self, image: &Image, elems: &[u16], next: u16, n: u64, push: bool) {
        let size = elems.len();
        let n = n.min(size as u64) as usize;
        let next = &mut self.slots[next as usize];
        *next = if push { (*next + n as u64).min(size as u64) } else { next.saturating_sub(n as u64) };
        if push {
            for i in (n..size).rev() {
                self.move_header(image, elems[i], elems[i - n]);
            }
        } else {
            for i in 0..size - n {
                self.move_header(image, elems[i], elems[i + n]);
            }
        }
        let gone = if push { 0..n } else { size - n..size };
        for &h in &elems[gone] {
            self.slots[image.headers[h as usize].base as usize] = 0;
        }
    }

    fn move_header(&mut self, image: &Image, d: u16, s: u16) {
        let (from, n) = (image.headers[s as usize].base as usize, image.headers[s as usize].slots);
        self.slots.copy_within(from..from + n, image.headers[d as usize].base as usize);
    }

    /// Shifts a stack of unions, member by member.
    pub(crate) fn shift_union_stack(&mut self, image: &Image, stack: usize, n: u64, push: bool) {
        let Some(s) = image.union_stacks.get(stack) else { return };
        let size = s.elems.len();
        let n = n.min(size as u64) as usize;
        let next = &mut self.slots[s.next as usize];
        *next = if push { (*next + n as u64).min(size as u64) } else { next.saturating_sub(n as u64) };
        let members = s.elems.first().map_or(0, |e| e.len());
        for m in 0..members {
            if push {
                for i in (n..size).rev() {
                    self.move_header(image, s.elems[i][m], s.elems[i - n][m]);
                }
            } else {
                for i in 0..size - n {
                    self.move_header(image, s.elems[i][m], s.elems[i + n][m]);
                }
            }
            let gone = if push { 0..n } else { size - n..size };
            for e in &s.elems[gone] {
                self.slots[image.headers[e[m] as usize].base as usize] = 0;
            }
        }
    }

    /// Updates checksums and puts the valid headers in front of the payload. `room` is given the frame, the cursor and
    /// the bytes of the headers. It makes the frame start with so many bytes in front of the payload, or returns
    /// `false`.
    #[inline]
    pub(crate) fn deparse(
        &mut self,
        image: &Image,
        frame: &mut Frame,
        room: impl FnOnce(&mut Frame, usize, usize) -> bool,
    ) -> bool {
        if let Some(native) = self.native_of(image) {
            return native.deparse(self, image, frame, room);
        }
        // Neither can fail as a parser does.
        let _ = self.interpret(image, image.update, frame.bytes());
        if self.interpret(image, image.deparse, frame.bytes()).is_err() {
            return false;
        }
        let valid = |h: &&u16| self.slots[image.headers[**h as usize].base as usize] != 0;
        let order = image.deparse_order.iter().filter(valid).map(|h| &image.headers[*h as usize]);
        let size = order.clone().map(|plan| plan.size(&self.slots)).sum();
        if !room(frame, self.cursor, size) {
            return false;
        }
        let mut rest = &mut frame.bytes_mut()[..size];
        for plan in order {
            let (this, behind) = rest.split_at_mut(plan.size(&self.slots));
            plan.write(&self.slots, this);
            rest = behind;
        }
        true
    }

    /// Extracts a header of fixed size at the cursor.
    #[inline]
    pub(crate) fn extract(&mut self, image: &Image, h: usize, data: &[u8]) -> Result<(), Stop> {
        let plan = &image.headers[h];
        let Some(bytes) = data.get(self.cursor..).filter(|d| d.len() >= plan.bytes) else {
            return Err(Stop::Error(image.errors.too_short));
        };
        plan.unpack.run(bytes, &mut self.slots);
        self.cursor += plan.bytes;
        mark(image, &mut self.slots, h, true);
        Ok(())
    }

    /// Extracts a header with a varbit of so many bits.
    pub(crate) fn extract_var(
        &mut self,
        image: &Image,
        h: usize,
        bits: u64,
        data: &[u8],
    ) -> Result<(), Stop> {
        let plan = &image.headers[h];
        let Some(var) = &plan.var else { return self.extract(image, h, data) };
        if !bits.is_multiple_of(8) {
            return Err(Stop::Error(image.errors.invalid_argument));
        }
        let len = (bits / 8) as usize;
        let rest = data.get(self.cursor..).unwrap_or_default();
        if bits > i32::MAX as u64 || rest.len() < plan.bytes + len {
            return Err(Stop::Error(image.errors.too_short));
        }
        if len > var.max {
            return Err(Stop::Error(image.errors.header_too_short));
        }
        var.unpack(rest, len, &mut self.slots);
        self.cursor += plan.bytes + len;
        mark(image, &mut self.slots, h, true);
        Ok(())
    }

    /// The header number of the next element of a stack.
    #[inline]
    pub(crate) fn next_elem(&self, image: &Image, stack: usize) -> Result<usize, Stop> {
        let s = &image.stacks[stack];
        match s.elems.get(self.slots[s.next as usize] as usize) {
            Some(&h) => Ok(h as usize),
            None => Err(Stop::Error(image.errors.stack)),
        }
    }

    /// The header number of a member of the next union of a stack.
    pub(crate) fn next_union(&self, image: &Image, stack: usize, member: usize) -> Result<usize, Stop> {
        let s = &image.union_stacks[stack];
        match s.elems.get(self.slots[s.next as usize] as usize).and_then(|e| e.get(member)) {
            Some(&h) => Ok(h as usize),
            None => Err(Stop::Error(image.errors.stack)),
        }
    }

    /// Bits ahead of the cursor.
    #[inline]
    pub(crate) fn lookahead(&self, image: &Image, bit: u32, width: u8, data: &[u8]) -> Result<u64, Stop> {
        let rest = data.get(self.cursor..).unwrap_or_default();
        if bit as usize + width as usize > rest.len() * 8 {
            return Err(Stop::Error(image.errors.too_short));
        }
        Ok(super::plan::read_bits(rest, bit as usize, width))
    }

    /// Moves the cursor on.
    pub(crate) fn advance(&mut self, image: &Image, bits: u64, data: &[u8]) -> Result<(), Stop> {
        if !bits.is_multiple_of(8) {
            return Err(Stop::Error(image.errors.invalid_argument));
        }
        if (data.len() - self.cursor) as u64 * 8 < bits {
            return Err(Stop::Error(image.errors.too_short));
        }
        self.cursor += (bits / 8) as usize;
        Ok(())
    }
}
