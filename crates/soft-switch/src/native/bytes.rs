//! Machine code that moves header fields between bytes and slots.

use std::mem::offset_of;
use std::rc::Rc;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlags, Value, types};

use super::NoCode;
use super::emit::{Emitter, Fields};
use super::fixed::Fixed;
use super::runtime::{self, Env};
use crate::compile::calc::Segment;
use crate::exec::core::Entry;
use crate::exec::plan::{HeaderPlan, Piece};
use crate::op::R;

/// Headers of more slots are made valid by the interpreter.
const MOST_SLOTS: usize = 32;

fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width.clamp(1, 64))
}

/// Bits on their way to memory: a constant part, a computed part, and how many they are.
#[derive(Clone, Copy, Default)]
struct Bits {
    constant: u64,
    value: Option<Value>,
    len: u32,
}

/// Frames lie anywhere.
fn unaligned() -> MemFlags {
    MemFlags::new().with_notrap()
}

impl Emitter<'_> {
    /// Up to 64 bits of a header of `bytes` bytes at `base`.
    fn read_bits(&mut self, base: Value, bytes: usize, pos: usize, width: u8) -> Value {
        let (first, end) = (pos / 8, pos + width as usize);
        let (last, below) = (end.div_ceil(8), (8 - end % 8) % 8);
        let n = last - first;
        if n > 8 || (n > 4 && bytes < 8) || (n == 3 && bytes < 4) {
            // Byte by byte; of nine bytes the first and the last hold a part each.
            let mut v = self.b.ins().uload8(types::I64, unaligned(), base, first as i32);
            let first_bits = 8 - pos % 8;
            v = self.b.ins().band_imm(v, mask(first_bits as u32) as i64);
            for at in first + 1..last {
                let b = self.b.ins().uload8(types::I64, unaligned(), base, at as i32);
                let (up, down) = if at + 1 == last { (8 - below, below) } else { (8, 0) };
                let b = if down > 0 { self.b.ins().ushr_imm(b, down as i64) } else { b };
                v = self.b.ins().ishl_imm(v, up as i64);
                v = self.b.ins().bor(v, b);
            }
            return v;
        }
        // A window of 1, 2, 4 or 8 bytes that ends with the last byte, or starts with the header.
        let window = n.next_power_of_two();
        let at = last.saturating_sub(window);
        let (v, len) = match window {
            1 => (self.b.ins().uload8(types::I64, unaligned(), base, at as i32), 8),
            2 => {
                let v = self.b.ins().load(types::I16, unaligned(), base, at as i32);
                let v = self.b.ins().bswap(v);
                (self.b.ins().uextend(types::I64, v), 16)
            }
            4 => {
                let v = self.b.ins().load(types::I32, unaligned(), base, at as i32);
                let v = self.b.ins().bswap(v);
                (self.b.ins().uextend(types::I64, v), 32)
            }
            _ => {
                let v = self.b.ins().load(types::I64, unaligned(), base, at as i32);
                (self.b.ins().bswap(v), 64)
            }
        };
        let down = (at + window) * 8 - end;
        let v = if down > 0 { self.b.ins().ushr_imm(v, down as i64) } else { v };
        if usize::from(width) + down == len { v } else { self.b.ins().band_imm(v, mask(width.into()) as i64) }
    }

    /// Extracts a header of fixed size; `false` if that is left to the interpreter.
    pub(super) fn extract(&mut self, h: u16) -> bool {
        let image = self.image;
        let plan = &image.headers[h as usize];
        if plan.var.is_some() || plan.bytes > 4096 {
            return false;
        }
        let cursor = match self.known.cursor {
            Some(c) => c,
            None => self.field(types::I64, Fields::CURSOR),
        };
        let (len, end) = (self.env(offset_of!(Env, len)), self.b.ins().iadd_imm(cursor, plan.bytes as i64));
        let short = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, len);
        self.stop_if(short, image.errors.too_short);
        let data = self.env(offset_of!(Env, data));
        let base = self.b.ins().iadd(data, cursor);
        let mut pos = 0;
        for p in plan.pack.pieces() {
            let v = self.read_bits(base, plan.bytes, pos, p.width);
            self.set(p.slot, v);
            pos += usize::from(p.width);
        }
        self.set_field(Fields::CURSOR, end);
        self.known.cursor = Some(end);
        self.mark_valid(plan);
        true
    }

    fn mark_valid(&mut self, plan: &HeaderPlan) {
        self.set_constant(plan.base, 1);
        for &s in &plan.siblings {
            self.set_constant(self.image.headers[s as usize].base, 0);
        }
    }

    /// Makes a header valid; `false` if that is left to the interpreter.
    pub(super) fn set_valid(&mut self, h: u16) -> bool {
        let image = self.image;
        let plan = &image.headers[h as usize];
        if plan.var.is_some() || plan.slots > MOST_SLOTS {
            return false;
        }
        match self.constant(plan.base) {
            Some(0) => {
                self.make_valid(plan);
                return true;
            }
            Some(_) => return true,
            None => {}
        }
        let is = self.get(plan.base);
        let (fresh, end) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(is, end, &[], fresh, &[]);
        self.b.switch_to_block(fresh);
        let before = self.known.clone();
        self.make_valid(plan);
        self.b.ins().jump(end, &[]);
        self.b.switch_to_block(end);
        self.known = before;
        self.known.forget(plan.base, plan.slots);
        for &s in &plan.siblings {
            self.known.forget(image.headers[s as usize].base, 1);
        }
        true
    }

    /// Makes a header valid that is not.
    fn make_valid(&mut self, plan: &HeaderPlan) {
        for r in 1..plan.slots as R {
            self.set_constant(plan.base + r, 0);
        }
        self.mark_valid(plan);
        if !plan.metadata {
            self.add_length(plan.bytes as i64);
        }
    }

    /// Adds to the packet's length.
    fn add_length(&mut self, bytes: i64) {
        let length = self.field(types::I64, Fields::PACKET_LENGTH);
        let length = self.b.ins().iadd_imm(length, bytes);
        self.set_field(Fields::PACKET_LENGTH, length);
    }

    /// Makes a header invalid; `false` if that is left to the interpreter.
    pub(super) fn set_invalid(&mut self, h: u16) -> bool {
        let plan = &self.image.headers[h as usize];
        if plan.var.is_some() {
            return false;
        }
        let end = match self.constant(plan.base) {
            Some(0) => return true,
            Some(_) => None,
            None => {
                let is = self.get(plan.base);
                let (valid, end) = (self.b.create_block(), self.b.create_block());
                self.b.ins().brif(is, valid, &[], end, &[]);
                self.b.switch_to_block(valid);
                Some(end)
            }
        };
        if !plan.metadata {
            self.add_length(-(plan.bytes as i64));
        }
        if let Some(end) = end {
            self.b.ins().jump(end, &[]);
            self.b.switch_to_block(end);
        }
        self.set_constant(plan.base, 0);
        true
    }

    /// Adds a piece below the bits that are there.
    fn append(&mut self, bits: &mut Bits, slot: R, high: u32, width: u32) {
        // Bits `high - width..high` of the slot.
        let low = high - width;
        bits.constant = if width == 64 { 0 } else { bits.constant << width };
        bits.value = match bits.value {
            Some(v) if width < 64 => Some(self.b.ins().ishl_imm(v, i64::from(width))),
            _ => None,
        };
        bits.len += width;
        if let Some(c) = self.constant(slot) {
            bits.constant |= c >> low & mask(width);
            return;
        }
        let v = self.get(slot);
        let v = if low > 0 { self.b.ins().ushr_imm(v, i64::from(low)) } else { v };
        // The bits above the first piece are cut off when the bits are written.
        let whole = low + width == 64 || bits.len == width;
        let v = if whole { v } else { self.b.ins().band_imm(v, mask(width) as i64) };
        bits.value = Some(match bits.value {
            Some(above) => self.b.ins().bor(above, v),
            None => v,
        });
    }

    /// Writes bits, a whole number of bytes, at `base + at`.
    fn flush(&mut self, bits: &mut Bits, base: Value, at: &mut i32) {
        let Bits { constant, value, len } = std::mem::take(bits);
        let mut left = len;
        while left > 0 {
            let n = [64, 32, 16, 8].into_iter().find(|n| *n <= left).unwrap_or(8);
            left -= n;
            let ty = [types::I64, types::I32, types::I16, types::I8][n.leading_zeros() as usize - 25];
            let constant = constant >> left & mask(n);
            let v = match value {
                None => {
                    let swapped = constant.swap_bytes() >> (64 - n);
                    self.b.ins().iconst(ty, swapped as i64)
                }
                Some(v) => {
                    let v = if left > 0 { self.b.ins().ushr_imm(v, i64::from(left)) } else { v };
                    let v = if constant != 0 { self.b.ins().bor_imm(v, constant as i64) } else { v };
                    let v = if n < 64 { self.b.ins().ireduce(ty, v) } else { v };
                    if n > 8 { self.b.ins().bswap(v) } else { v }
                }
            };
            self.b.ins().store(unaligned(), v, base, *at);
            *at += (n / 8) as i32;
        }
    }

    /// Writes pieces one after the other, as words of 64 bits (`words`; for what is soon read again) or as they fall.
    /// Returns the bytes.
    fn pack(&mut self, pieces: &[Piece], base: Value, words: bool) -> i32 {
        let (mut bits, mut at) = (Bits::default(), 0);
        for (i, p) in pieces.iter().enumerate() {
            let width = u32::from(p.width);
            let room = 64 - bits.len;
            if width > room {
                if room > 0 {
                    self.append(&mut bits, p.slot, width, room);
                }
                self.flush(&mut bits, base, &mut at);
                self.append(&mut bits, p.slot, width - room, width - room);
            } else {
                self.append(&mut bits, p.slot, width, width);
            }
            let next = pieces.get(i + 1).map(|p| bits.len + u32::from(p.width));
            let even = matches!(bits.len, 8 | 16 | 32);
            let better = next.is_some_and(|n| matches!(n, 32 | 64)) && !even;
            let whole = bits.len % 8 == 0 && !words && (even || !better);
            if bits.len == 64 || whole {
                self.flush(&mut bits, base, &mut at);
            }
        }
        // An incomplete byte is padded with zeros.
        let odd = bits.len % 8;
        if odd > 0 {
            let pad = 8 - odd;
            bits.constant <<= pad;
            bits.value = bits.value.map(|v| self.b.ins().ishl_imm(v, i64::from(pad)));
            bits.len += pad;
        }
        self.flush(&mut bits, base, &mut at);
        at
    }

    /// A calculation's result; `None` if that is left to the interpreter.
    pub(super) fn calculate(&mut self, calc: u16) -> Option<Value> {
        let image = self.image;
        let plan = &image.calcs[calc as usize];
        let last = plan.segments.len().saturating_sub(1);
        let simple = |(i, s): (usize, &Segment)| matches!(s, Segment::Pack { pack, .. } if i == last || pack.bits % 8 == 0);
        if plan.segments.len() > 16 || !plan.segments.iter().enumerate().all(simple) {
            return None;
        }
        let scratch = self.env(offset_of!(Env, scratch));
        let mut at = scratch;
        for s in &plan.segments {
            let Segment::Pack { valid, pack } = s else { continue };
            let skip = match valid {
                Some(v) if self.constant(*v) == Some(0) => continue,
                Some(v) if self.constant(*v).is_none() => {
                    let v = self.get(*v);
                    let (there, end) = (self.b.create_block(), self.b.create_block());
                    self.b.append_block_param(end, types::I64);
                    self.b.ins().brif(v, there, &[], end, &[BlockArg::Value(at)]);
                    self.b.switch_to_block(there);
                    Some((end, self.known.clone()))
                }
                _ => None,
            };
            let bytes = self.pack(pack.pieces(), at, true);
            at = self.b.ins().iadd_imm(at, i64::from(bytes));
            if let Some((end, known)) = skip {
                self.b.ins().jump(end, &[BlockArg::Value(at)]);
                self.b.switch_to_block(end);
                at = self.b.block_params(end)[0];
                self.known = known;
            }
        }
        let bytes = self.b.ins().isub(at, scratch);
        let calc = self.number(u64::from(calc));
        Some(self.call(runtime::hash as *const (), &[calc, bytes]))
    }

    /// The function that updates checksums and adds up the bytes of all valid headers.
    pub(super) fn before_deparsing(&mut self, fixed: &Rc<Fixed>, budget: &mut usize) -> Result<(), NoCode> {
        let image = self.image;
        for entry in [Entry::Update, Entry::Deparse] {
            let behind = self.b.create_block();
            self.behind = Some(behind);
            self.program(image.entry(entry), &[], fixed, budget)?;
            self.b.switch_to_block(behind);
            self.known.forget_all();
        }
        let mut size = self.number(0);
        for &h in &image.deparse_order {
            let plan = &image.headers[h as usize];
            let valid = self.get(plan.base);
            if plan.var.is_some() {
                let (there, end) = (self.b.create_block(), self.b.create_block());
                self.b.append_block_param(end, types::I64);
                self.b.ins().brif(valid, there, &[], end, &[BlockArg::Value(size)]);
                self.b.switch_to_block(there);
                let number = self.number(u64::from(h));
                let bytes = self.call(runtime::var_size as *const (), &[number]);
                let more = self.b.ins().iadd(size, bytes);
                self.b.ins().jump(end, &[BlockArg::Value(more)]);
                self.b.switch_to_block(end);
                size = self.b.block_params(end)[0];
            } else {
                let bytes = self.b.ins().iadd_imm(size, plan.bytes as i64);
                size = self.b.ins().select(valid, bytes, size);
            }
        }
        self.b.ins().return_(&[size]);
        Ok(())
    }

    /// The function that writes all valid headers.
    pub(super) fn headers_write(&mut self) -> Result<(), NoCode> {
        let image = self.image;
        let Some(mut at) = self.out else { return Err(NoCode) };
        for &h in &image.deparse_order {
            let plan = &image.headers[h as usize];
            let valid = self.get(plan.base);
            let (there, end) = (self.b.create_block(), self.b.create_block());
            self.b.append_block_param(end, types::I64);
            self.b.ins().brif(valid, there, &[], end, &[BlockArg::Value(at)]);
            self.b.switch_to_block(there);
            self.known.forget_all();
            let next = if plan.var.is_some() {
                let number = self.number(u64::from(h));
                let bytes = self.call(runtime::var_write as *const (), &[number, at]);
                self.b.ins().iadd(at, bytes)
            } else {
                let bytes = self.pack(plan.pack.pieces(), at, false);
                self.b.ins().iadd_imm(at, i64::from(bytes))
            };
            self.known.forget_all();
            self.b.ins().jump(end, &[BlockArg::Value(next)]);
            self.b.switch_to_block(end);
            at = self.b.block_params(end)[0];
        }
        self.end();
        Ok(())
    }
}
