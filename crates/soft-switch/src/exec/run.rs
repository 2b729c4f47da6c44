//! The interpreter.

use super::core::{Core, Stop};
use super::headers::NO_HEADER;
use super::wide;
use crate::image::Image;
use crate::op::{Cmp, Op, Pc};
use crate::table::NO_ACTION;

#[inline(always)]
pub(crate) fn holds(cmp: Cmp, a: u64, b: u64) -> bool {
    match cmp {
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
        Cmp::LtU => a < b,
        Cmp::GeU => a >= b,
        Cmp::LtS => (a as i64) < b as i64,
        Cmp::GeS => a as i64 >= b as i64,
    }
}

/// The low `w` bits (1 to 64), sign-extended.
#[inline(always)]
pub(crate) fn sext(v: u64, w: u8) -> u64 {
    let s = 64 - u32::from(w);
    ((v << s) as i64 >> s) as u64
}

impl Core {
    /// Runs code from `pc` to its end. `data` is the whole frame; the payload is what lies behind the cursor.
    /// `Err` is a parser error.
    pub(crate) fn interpret(&mut self, image: &Image, pc: Pc, data: &[u8]) -> Result<(), Stop> {
        let code = &image.code[..];
        let mut pc = pc as usize;
        let mut next: Pc = 0;
        macro_rules! s {
            ($r:expr) => {
                self.slots[$r as usize]
            };
        }
        loop {
            let Some(op) = code.get(pc) else { return Ok(()) };
            pc += 1;
            match *op {
                Op::Jmp { t } => pc = t as usize,
                Op::JmpBack { t } => {
                    if !self.spend_loop() {
                        return Ok(());
                    }
                    pc = t as usize;
                }
                Op::Br { a, b, cmp, t } => {
                    if holds(cmp, s!(a), s!(b)) {
                        pc = t as usize;
                    }
                }
                Op::BrEq { a, b, t } => {
                    if s!(a) == s!(b) {
                        pc = t as usize;
                    }
                }
                Op::BrNe { a, b, t } => {
                    if s!(a) != s!(b) {
                        pc = t as usize;
                    }
                }
                Op::BrZ { a, t } => {
                    if s!(a) == 0 {
                        pc = t as usize;
                    }
                }
                Op::BrNz { a, t } => {
                    if s!(a) != 0 {
                        pc = t as usize;
                    }
                }

                Op::Apply { t } => {
                    let (action, then, at) = match image.names {
                        None => self.apply(image, t as usize),
                        Some(_) => self.apply_and_tell(image, t as usize),
                    };
                    if action == NO_ACTION {
                        pc = then as usize;
                    } else {
                        (pc, next, self.args) = (action as usize, then, at);
                    }
                }
                Op::Ret => {
                    if self.exit {
                        return Ok(());
                    }
                    pc = next as usize;
                }
                Op::BrExit { t } => {
                    if self.exit {
                        pc = t as usize;
                    }
                }
                Op::End => return Ok(()),
                Op::BrSet { set, t } => {
                    if self.in_set(image, set as usize) {
                        pc = t as usize;
                    }
                }
                _ => self.step(image, op, data)?,
            }
        }
    }

    /// Executes an instruction that goes on to the next one.
    #[inline(always)]
    pub(crate) fn step(&mut self, image: &Image, op: &Op, data: &[u8]) -> Result<(), Stop> {
        macro_rules! s {
            ($r:expr) => {
                self.slots[$r as usize]
            };
        }
        macro_rules! put {
            ($d:expr, $m:expr, $v:expr) => {{
                let v = $v;
                self.slots[$d as usize] = v & self.slots[$m as usize];
            }};
        }
        match *op {
            Op::Mov { d, a, m } => put!(d, m, s!(a)),
            Op::Copy { d, a } => s!(d) = s!(a),
            Op::Copies { first, n } => {
                for &(d, a) in &image.pairs[first as usize..][..n as usize] {
                    s!(d) = s!(a);
                }
            }
            Op::Args { first, n } => {
                let words = self.arena.words.get(self.args as usize..).unwrap_or_default();
                for &(d, i) in &image.pairs[first as usize..][..n as usize] {
                    s!(d) = words.get(i as usize).copied().unwrap_or(0);
                }
            }
            Op::Add { d, a, b, m } => put!(d, m, s!(a).wrapping_add(s!(b))),
            Op::Sub { d, a, b, m } => put!(d, m, s!(a).wrapping_sub(s!(b))),
            Op::Mul { d, a, b, m } => put!(d, m, s!(a).wrapping_mul(s!(b))),
            Op::And { d, a, b } => s!(d) = s!(a) & s!(b),
            Op::Or { d, a, b, m } => put!(d, m, s!(a) | s!(b)),
            Op::Xor { d, a, b, m } => put!(d, m, s!(a) ^ s!(b)),
            Op::Not { d, a, m } => put!(d, m, !s!(a)),
            Op::Shl { d, a, b, m } => {
                put!(d, m, if s!(b) < 64 { s!(a) << s!(b) } else { 0 });
            }
            Op::ShrU { d, a, b, m } => {
                put!(d, m, if s!(b) < 64 { s!(a) >> s!(b) } else { 0 });
            }
            Op::ShrS { d, a, b, m } => put!(d, m, (s!(a) as i64 >> s!(b).min(63)) as u64),
            Op::ShlK { d, a, k, m } => put!(d, m, s!(a) << (k & 63)),
            Op::ShrK { d, a, k, m } => put!(d, m, s!(a) >> (k & 63)),
            Op::Div { d, a, b, m } => put!(d, m, s!(a).checked_div(s!(b)).unwrap_or(0)),
            Op::Rem { d, a, b, m } => put!(d, m, s!(a).checked_rem(s!(b)).unwrap_or(0)),
            Op::Sext { d, a, w, m } => put!(d, m, sext(s!(a), w)),
            Op::SatU { d, a, w, m } => {
                let v = (s!(a) as i64).clamp(0, (u64::MAX >> (64 - u32::from(w))) as i64);
                put!(d, m, v as u64);
            }
            Op::SatS { d, a, w, m } => {
                let top = i64::MAX >> (64 - u32::from(w));
                put!(d, m, (s!(a) as i64).clamp(!top, top) as u64);
            }
            Op::Set { d, a, b, cmp } => s!(d) = u64::from(holds(cmp, s!(a), s!(b))),
            Op::Slice { d, a, k, m } => {
                let high = self.slots[(a as usize + 1) & 0xffff] << (64 - k);
                put!(d, m, s!(a) >> k | high);
            }

            Op::WideLoad { d, a, s, n, w } => {
                wide::load(&mut self.slots, d, a, s as usize, n as usize, w as usize);
            }
            Op::Wide { op, d, a, b, n } => wide::binary(&mut self.slots, op, d, a, b, n as usize),
            Op::WideNot { d, a, n } => wide::not(&mut self.slots, d, a, n as usize),
            Op::WideStore { d, a, n, w } => {
                wide::store(&mut self.slots, d, a, n as usize, w as usize);
            }
            Op::WideSext { d, a, n, w } => {
                wide::load(&mut self.slots, d, a, n as usize, n as usize, w as usize);
            }
            Op::WideSat { d, a, n, w, signed } => {
                wide::saturate(&mut self.slots, d, a, n as usize, w as usize, signed);
            }
            Op::WideSet { d, a, b, n, cmp } => {
                s!(d) = u64::from(wide::compare(&self.slots, a, b, n as usize, cmp));
            }

            Op::Arg { d, i, m } => {
                let v = self.arena.words.get(self.args as usize + i as usize).copied().unwrap_or(0);
                put!(d, m, v);
            }
            Op::LoadIdx { d, base, idx, stride, count } => {
                s!(d) = match self.element(base, s!(idx), s!(stride), count) {
                    Some(at) => self.slots[at],
                    None => 0,
                };
            }
            Op::StoreIdx { a, base, idx, stride, count } => {
                if let Some(at) = self.element(base, s!(idx), s!(stride), count) {
                    self.slots[at] = s!(a);
                }
            }
            Op::Elem { d, stack, idx } => {
                let elems = &image.stacks[stack as usize].elems;
                let h = usize::try_from(s!(idx)).ok().and_then(|i| elems.get(i));
                s!(d) = h.map_or(NO_HEADER, |h| u64::from(*h));
            }
            Op::UnionElem { d, stack, idx, member } => {
                let elems = &image.union_stacks[stack as usize].elems;
                let union = usize::try_from(s!(idx)).ok().and_then(|i| elems.get(i));
                let h = union.and_then(|u| u.get(member as usize));
                s!(d) = h.map_or(NO_HEADER, |h| u64::from(*h));
            }

            Op::SetValid { h } => self.set_valid(image, h as usize),
            Op::SetInvalid { h } => self.set_invalid(image, h as usize),
            Op::SetValidDyn { a } => self.set_valid(image, s!(a) as usize),
            Op::SetInvalidDyn { a } => self.set_invalid(image, s!(a) as usize),
            Op::ValidDyn { d, a } => s!(d) = u64::from(self.is_valid(image, s!(a) as usize)),
            Op::CopyHeader { d, s } => self.copy_header(image, d as usize, s as usize),
            Op::CopyHeaderDyn { d, s } => self.copy_header(image, s!(d) as usize, s!(s) as usize),
            Op::EqHeader { d, a, b } => {
                s!(d) = u64::from(self.equal_headers(image, s!(a) as usize, s!(b) as usize));
            }
            Op::CopyVarbit { d, a } => {
                let n = (s!(a) as usize).div_ceil(8).min(2048);
                let from = a as usize;
                let end = (from + 1 + n).min(self.slots.len());
                self.slots.copy_within(from..end, (d as usize).min(65536 - (end - from)));
            }
            Op::EqVarbit { d, a, b } => {
                s!(d) = u64::from(super::headers::equal_varbits(&self.slots, a, b));
            }
            Op::Push { stack, n } | Op::Pop { stack, n } => {
                let st = &image.stacks[stack as usize];
                let push = matches!(*op, Op::Push { .. });
                self.shift_stack(image, &st.elems, st.next, s!(n), push);
            }
            Op::PushUnion { stack, n } => self.shift_union_stack(image, stack as usize, s!(n), true),
            Op::PopUnion { stack, n } => self.shift_union_stack(image, stack as usize, s!(n), false),

            Op::RegRead { d, reg, idx, m } => {
                let r = &image.registers[reg as usize];
                match usize::try_from(s!(idx)).ok().and_then(|i| r.cell(i)) {
                    Some(cell) => put!(d, m, self.cells[cell.start]),
                    None => self.bad_indices += 1,
                }
            }
            Op::RegWrite { reg, idx, a } => {
                let v = s!(a);
                let i = s!(idx);
                let r = &image.registers[reg as usize];
                match usize::try_from(i).ok().and_then(|i| r.cell(i)) {
                    Some(cell) => self.cells[cell.start] = v & u64::MAX >> (64 - r.width.min(64)),
                    None => self.bad_indices += 1,
                }
            }
            Op::RegReadWide { d, reg, idx, n } => self.read_wide(image, reg, s!(idx), d, n),
            Op::RegWriteWide { reg, idx, a, n } => self.write_wide(image, reg, s!(idx), a, n),
            Op::Count { counter, idx } => {
                let i = s!(idx);
                let length = self.ingress_length;
                let cells = image.counters[counter as usize].clone();
                let cell = usize::try_from(i).ok().filter(|i| *i < cells.len());
                match cell.and_then(|i| self.counters.get_mut(cells.start + i)) {
                    Some(c) => {
                        c.packets += 1;
                        c.bytes += length;
                    }
                    None => self.bad_indices += 1,
                }
            }
            Op::Meter { d, meter, idx, m } => {
                let i = s!(idx);
                let cost = if self.meter_bytes[meter as usize] { self.ingress_length } else { 1 };
                let cells = &mut self.meters[meter as usize];
                match usize::try_from(i).ok().and_then(|i| cells.get_mut(i)) {
                    Some(cell) => {
                        let colour = cell.execute(self.now_ns / 1000, cost);
                        put!(d, m, colour);
                    }
                    None => self.bad_indices += 1,
                }
            }
            Op::Hash { d, calc, base, size, m } => {
                let hash = self.calculate(image, calc as usize, self.payload(data));
                put!(d, m, (hash % s!(size).max(1)).wrapping_add(s!(base)));
            }
            Op::Calc { d, calc, m } => {
                let v = self.calculate(image, calc as usize, self.payload(data));
                put!(d, m, v);
            }
            Op::CheckSum { a, calc } => {
                let v = self.calculate(image, calc as usize, self.payload(data));
                self.checksum_error |= v != s!(a);
            }
            Op::Random { d, lo, hi, m } => {
                let (lo, hi) = (s!(lo), s!(hi));
                if lo <= hi {
                    let r = zsr_random::split_mix(&mut self.random);
                    let span = (hi - lo).wrapping_add(1);
                    put!(d, m, if span == 0 { r } else { lo + r % span });
                }
            }
            Op::Digest { a } => self.digest = s!(a) & 0xffff,
            Op::Clone { session, list } => {
                self.clone = Some((s!(session) as u16 & 0x7fff, s!(list) & 0xffff));
            }
            Op::Resubmit { list } => self.resubmit = s!(list) & 0xffff,
            Op::Recirculate { list } => self.recirculate = s!(list) & 0xffff,
            Op::Truncate { a } => {
                self.truncate = self.truncate.min(usize::try_from(s!(a)).unwrap_or(usize::MAX));
            }
            Op::Drop => {
                self.slots[image.standard.egress_spec as usize] = self.drop_port;
                if let Some(g) = image.standard.mcast_grp {
                    self.slots[g as usize] = 0;
                }
            }
            Op::AssertFailed { site } => {
                self.assert_failures += 1;
                if let Some(count) = self.assert_counts.get_mut(site as usize) {
                    *count += 1;
                }
                if self.assert_drops {
                    self.condemned = true;
                    return Err(Stop::Error(0));
                }
            }

            Op::Note { site } => self.note(image, site),
            Op::Exit => self.exit = true,
            Op::Guard => {
                if !self.spend_loop() {
                    return Err(Stop::Error(image.errors.timeout));
                }
            }
            Op::Extract { h } => self.extract(image, h as usize, data)?,
            Op::ExtractNext { stack } => {
                let h = self.next_elem(image, stack as usize)?;
                self.extract(image, h, data)?;
                s!(image.stacks[stack as usize].next) += 1;
            }
            Op::ExtractNextUnion { stack, member } => {
                let h = self.next_union(image, stack as usize, member as usize)?;
                self.extract(image, h, data)?;
                s!(image.union_stacks[stack as usize].next) += 1;
            }
            Op::ExtractVar { h, len } => self.extract_var(image, h as usize, s!(len), data)?,
            Op::ExtractVarNext { stack, len } => {
                let h = self.next_elem(image, stack as usize)?;
                self.extract_var(image, h, s!(len), data)?;
                s!(image.stacks[stack as usize].next) += 1;
            }
            Op::ExtractVarNextUnion { stack, member, len } => {
                let h = self.next_union(image, stack as usize, member as usize)?;
                self.extract_var(image, h, s!(len), data)?;
                s!(image.union_stacks[stack as usize].next) += 1;
            }
            Op::Lookahead { d, bit, width } => s!(d) = self.lookahead(image, bit, width, data)?,
            Op::Advance { a } => self.advance(image, s!(a), data)?,
            Op::ParseError { a } => return Err(Stop::Error(s!(a))),
            // Control flow is the caller's.
            Op::Jmp { .. }
            | Op::JmpBack { .. }
            | Op::Br { .. }
            | Op::BrEq { .. }
            | Op::BrNe { .. }
            | Op::BrZ { .. }
            | Op::BrNz { .. }
            | Op::BrSet { .. }
            | Op::BrExit { .. }
            | Op::Apply { .. }
            | Op::Ret
            | Op::End => {}
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn payload<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        let rest = data.get(self.cursor..).unwrap_or_default();
        &rest[..rest.len().min(self.truncate)]
    }

    pub(crate) fn spend_loop(&mut self) -> bool {
        if self.loops >= self.loop_limit {
            self.loop_limit_hits += 1;
            return false;
        }
        self.loops += 1;
        true
    }

    #[inline]
    fn element(&self, base: u16, idx: u64, stride: u64, count: u8) -> Option<usize> {
        (idx < u64::from(count)).then(|| (base as usize + (idx * stride) as usize) & 0xffff)
    }

    fn read_wide(&mut self, image: &Image, reg: u16, idx: u64, d: u16, n: u8) {
        let cell = usize::try_from(idx).ok().and_then(|i| image.registers[reg as usize].cell(i));
        let Some(cell) = cell else {
            self.bad_indices += 1;
            self.slots[d as usize..][..n as usize].fill(0);
            return;
        };
        for (i, v) in self.cells[cell].iter().take(n as usize).enumerate() {
            self.slots[(d as usize + i) & 0xffff] = *v;
        }
    }

    fn write_wide(&mut self, image: &Image, reg: u16, idx: u64, a: u16, n: u8) {
        let r = image.registers[reg as usize];
        let width = r.width as usize;
        let Some(cell) = usize::try_from(idx).ok().and_then(|i| r.cell(i)) else {
            self.bad_indices += 1;
            return;
        };
        for (i, v) in self.cells[cell].iter_mut().take(n as usize).enumerate() {
            let keep = if (i + 1) * 64 > width { u64::MAX >> (64 - width % 64).min(63) } else { u64::MAX };
            *v = self.slots[(a as usize + i) & 0xffff] & keep;
        }
    }
}
