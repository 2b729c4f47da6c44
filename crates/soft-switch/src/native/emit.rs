//! Machine code for single instructions.

use std::collections::HashMap;
use std::mem::offset_of;
use std::rc::Rc;

use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{AbiParam, Block, InstBuilder, MemFlags, SigRef, Signature, Type, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;

use super::fold::fold;
use super::runtime::{self, Env, ZEROS};
use crate::compile::operands::Writes;
use crate::control::CounterValue;
use crate::exec::core::Core;
use crate::image::Image;
use crate::op::{Cmp, Op, Pc, R};

/// Where fields of [`Core`] lie.
pub(super) struct Fields;

impl Fields {
    pub(super) const SLOTS: i32 = offset_of!(Core, slots) as i32;
    pub(super) const EXIT: i32 = offset_of!(Core, exit) as i32;
    pub(super) const NEXT: i32 = offset_of!(Core, next) as i32;
    pub(super) const ARGS: i32 = offset_of!(Core, args) as i32;
    pub(super) const STOP: i32 = offset_of!(Core, stop) as i32;
    pub(super) const CURSOR: i32 = offset_of!(Core, cursor) as i32;
    pub(super) const CHECKSUM_ERROR: i32 = offset_of!(Core, checksum_error) as i32;
    pub(super) const PACKET_LENGTH: i32 = offset_of!(Core, packet_length) as i32;
    pub(super) const INGRESS_LENGTH: i32 = offset_of!(Core, ingress_length) as i32;
    pub(super) const BAD_INDICES: i32 = offset_of!(Core, bad_indices) as i32;
    pub(super) const UNLOCKED: i32 = offset_of!(Core, unlocked) as i32;
    pub(super) const DROP_PORT: i32 = offset_of!(Core, drop_port) as i32;
}

/// A slot's content, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Constant(u64),
    Value(Value),
}

/// The arguments of the running action.
#[derive(Clone, Debug)]
pub(super) enum Args {
    /// Where they lie is not known.
    Unknown,
    /// The address of the arguments.
    At(Value),
    Constants(Rc<[u64]>),
}

/// The facts known at a place in code.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    slots: HashMap<R, Content>,
    /// [`Core::cursor`].
    pub(super) cursor: Option<Value>,
}

impl Known {
    /// The slots of which something is known, and what it is.
    pub(super) fn slots(&self) -> impl Iterator<Item = (&R, &Content)> {
        self.slots.iter()
    }

    /// A slot holds a constant. Returns what to [put back](Self::put_back) where that no longer holds.
    pub(super) fn learn(&mut self, r: R, v: u64) -> Option<Content> {
        self.slots.insert(r, Content::Constant(v))
    }

    pub(super) fn put_back(&mut self, r: R, old: Option<Content>) {
        match old {
            Some(old) => self.slots.insert(r, old),
            None => self.slots.remove(&r),
        };
    }

    pub(super) fn forget(&mut self, first: R, n: usize) {
        for r in first..=first.saturating_add((n.max(1) - 1) as R) {
            self.slots.remove(&r);
        }
    }

    pub(super) fn forget_all(&mut self) {
        self.slots.clear();
        self.cursor = None;
    }

    /// A call happened. Values would have to be saved across it, and are in memory already.
    fn call(&mut self) {
        self.slots.retain(|_, c| matches!(c, Content::Constant(_)));
        self.cursor = None;
    }
}

/// Emits one function.
pub(super) struct Emitter<'a> {
    pub(super) image: &'a Image,
    pub(super) b: FunctionBuilder<'a>,
    pub(super) known: Known,
    pub(super) args: Args,
    core: Value,
    env: Value,
    pub(super) slots: Value,
    /// The third parameter, if the function has one.
    pub(super) out: Option<Value>,
    convention: CallConv,
    /// Signatures of functions by their number of parameters.
    signatures: HashMap<usize, SigRef>,
    /// Blocks that end the parser, by error.
    stops: HashMap<u64, Block>,
    stopped: Option<Block>,
    /// Where code goes on at its end; `None`: the function returns.
    pub(super) behind: Option<Block>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        image: &'a Image,
        mut b: FunctionBuilder<'a>,
        entry: Block,
        convention: CallConv,
    ) -> Emitter<'a> {
        let params = b.block_params(entry);
        let (core, env, out) = (params[0], params[1], params.get(2).copied());
        let slots = b.ins().load(types::I64, MemFlags::trusted().with_readonly(), core, Fields::SLOTS);
        Emitter {
            image,
            b,
            known: Known::default(),
            args: Args::Unknown,
            core,
            env,
            slots,
            out,
            convention,
            signatures: HashMap::new(),
            stops: HashMap::new(),
            stopped: None,
            behind: None,
        }
    }

    pub(super) fn number(&mut self, v: u64) -> Value {
        self.b.ins().iconst(types::I64, v as i64)
    }

    pub(super) fn field(&mut self, ty: Type, at: i32) -> Value {
        self.b.ins().load(ty, MemFlags::trusted(), self.core, at)
    }

    /// A truth value.
    pub(super) fn field8(&mut self, at: i32) -> Value {
        self.b.ins().uload8(types::I64, MemFlags::trusted(), self.core, at)
    }

    pub(super) fn set_field(&mut self, at: i32, v: Value) {
        self.b.ins().store(MemFlags::trusted(), v, self.core, at);
    }

    /// A field of [`Env`], which never changes.
    pub(super) fn env(&mut self, at: usize) -> Value {
        self.b.ins().load(types::I64, MemFlags::trusted().with_readonly(), self.env, at as i32)
    }

    /// The value of a slot if it is known now.
    pub(super) fn constant(&self, r: R) -> Option<u64> {
        match self.known.slots.get(&r) {
            Some(Content::Constant(v)) => Some(*v),
            Some(Content::Value(_)) => None,
            None => self.image.const_value(r),
        }
    }

    /// A slot's content.
    pub(super) fn get(&mut self, r: R) -> Value {
        if let Some(v) = self.constant(r) {
            return self.number(v);
        }
        if let Some(Content::Value(v)) = self.known.slots.get(&r) {
            return *v;
        }
        let v = self.b.ins().load(types::I64, MemFlags::trusted(), self.slots, i32::from(r) * 8);
        self.known.slots.insert(r, Content::Value(v));
        v
    }

    pub(super) fn set(&mut self, r: R, v: Value) {
        self.b.ins().store(MemFlags::trusted(), v, self.slots, i32::from(r) * 8);
        self.known.slots.insert(r, Content::Value(v));
    }

    pub(super) fn set_constant(&mut self, r: R, v: u64) {
        let value = self.number(v);
        self.set(r, value);
        self.known.slots.insert(r, Content::Constant(v));
    }

    fn copy(&mut self, d: R, a: R) {
        match self.constant(a) {
            Some(v) => self.set_constant(d, v),
            None => {
                let v = self.get(a);
                self.set(d, v);
            }
        }
    }

    /// Calls a function of [`runtime`] with the core, the environment, and what is given.
    pub(super) fn call(&mut self, function: *const (), args: &[Value]) -> Value {
        let all: Vec<Value> = [self.core, self.env].into_iter().chain(args.iter().copied()).collect();
        let signature = match self.signatures.get(&all.len()) {
            Some(s) => *s,
            None => {
                let mut s = Signature::new(self.convention);
                s.params.extend(vec![AbiParam::new(types::I64); all.len()]);
                s.returns.push(AbiParam::new(types::I64));
                let s = self.b.import_signature(s);
                self.signatures.insert(all.len(), s);
                s
            }
        };
        let address = self.number(function as usize as u64);
        let call = self.b.ins().call_indirect(signature, address, &all);
        self.known.call();
        self.b.inst_results(call)[0]
    }

    /// The end of an entry's code.
    pub(super) fn end(&mut self) {
        match self.behind {
            Some(block) => {
                self.b.ins().jump(block, &[]);
            }
            None => self.ret(0),
        }
    }

    fn ret(&mut self, v: u64) {
        let v = self.number(v);
        self.b.ins().return_(&[v]);
    }

    /// Ends the parser with an error.
    pub(super) fn stop_with(&mut self, error: Value) {
        self.set_field(Fields::STOP, error);
        self.ret(1);
    }

    /// Goes on unless the condition holds; then the parser ends with an error.
    pub(super) fn stop_if(&mut self, condition: Value, error: u64) {
        let stop = *self.stops.entry(error).or_insert_with(|| self.b.create_block());
        self.go_unless(condition, stop);
    }

    fn go_unless(&mut self, condition: Value, stop: Block) {
        let on = self.b.create_block();
        self.b.ins().brif(condition, stop, &[], on, &[]);
        self.b.switch_to_block(on);
    }

    /// Fills the blocks that end the parser, and the function with it.
    pub(super) fn finish(mut self) {
        for (error, block) in std::mem::take(&mut self.stops) {
            self.b.switch_to_block(block);
            self.b.set_cold_block(block);
            let error = self.number(error);
            self.stop_with(error);
        }
        if let Some(block) = self.stopped.take() {
            self.b.switch_to_block(block);
            self.b.set_cold_block(block);
            self.ret(1);
        }
        self.b.seal_all_blocks();
        self.b.finalize();
    }

    /// The arguments of the action that a table has named; of more than are worth it is not known where they lie.
    pub(super) fn arguments(&mut self, words: usize) -> Args {
        if words == 0 || words > ZEROS.len() {
            return Args::Unknown;
        }
        let first = self.b.ins().uload32(MemFlags::trusted(), self.core, Fields::ARGS);
        let all = self.env(offset_of!(Env, words));
        let count = self.env(offset_of!(Env, word_count));
        let offset = self.b.ins().ishl_imm(first, 3);
        let here = self.b.ins().iadd(all, offset);
        let end = self.b.ins().iadd_imm(first, words as i64);
        let beyond = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, count);
        let zeros = self.number(ZEROS.as_ptr() as u64);
        Args::At(self.b.ins().select(beyond, zeros, here))
    }

    /// Puts an argument into a slot; `false` if it is not known where it lies.
    fn put_argument(&mut self, d: R, i: u16, m: Option<R>) -> bool {
        let v = match &self.args {
            Args::Unknown => return false,
            Args::At(args) => self.b.ins().load(types::I64, MemFlags::trusted(), *args, i32::from(i) * 8),
            Args::Constants(words) => {
                let v = words.get(i as usize).copied().unwrap_or(0);
                match m.map_or(Some(u64::MAX), |m| self.constant(m)) {
                    Some(m) => {
                        self.set_constant(d, v & m);
                        return true;
                    }
                    None => self.number(v),
                }
            }
        };
        match m {
            Some(m) => self.put(d, v, m),
            None => self.set(d, v),
        }
        true
    }

    /// A value ANDed with a slot that holds a mask.
    fn masked(&mut self, v: Value, m: R) -> Value {
        match self.constant(m) {
            Some(u64::MAX) => v,
            Some(m) => self.b.ins().band_imm(v, m as i64),
            None => {
                let m = self.get(m);
                self.b.ins().band(v, m)
            }
        }
    }

    fn put(&mut self, d: R, v: Value, m: R) {
        let v = self.masked(v, m);
        self.set(d, v);
    }

    /// A comparison's outcome, as a condition.
    pub(super) fn compare(&mut self, a: R, b: R, cmp: Cmp) -> Value {
        let code = match cmp {
            Cmp::Eq => IntCC::Equal,
            Cmp::Ne => IntCC::NotEqual,
            Cmp::LtU => IntCC::UnsignedLessThan,
            Cmp::GeU => IntCC::UnsignedGreaterThanOrEqual,
            Cmp::LtS => IntCC::SignedLessThan,
            Cmp::GeS => IntCC::SignedGreaterThanOrEqual,
        };
        match (self.constant(a), self.constant(b)) {
            (_, Some(y)) => {
                let x = self.get(a);
                self.b.ins().icmp_imm(code, x, y as i64)
            }
            (Some(x), _) => {
                let y = self.get(b);
                self.b.ins().icmp_imm(code.swap_args(), y, x as i64)
            }
            _ => {
                let (x, y) = (self.get(a), self.get(b));
                self.b.ins().icmp(code, x, y)
            }
        }
    }

    /// A shift by a slot's content: by 64 or more nothing is left.
    fn shift(&mut self, a: R, b: R, left: bool) -> Value {
        let (x, by) = (self.get(a), self.get(b));
        let shifted = if left { self.b.ins().ishl(x, by) } else { self.b.ins().ushr(x, by) };
        let inside = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, by, 64);
        let zero = self.number(0);
        self.b.ins().select(inside, shifted, zero)
    }

    /// A signed number, or the next one between `low` and `high`.
    fn clamp(&mut self, x: Value, low: i64, high: i64) -> Value {
        let (low, high) = (self.number(low as u64), self.number(high as u64));
        let below = self.b.ins().icmp(IntCC::SignedLessThan, x, low);
        let x = self.b.ins().select(below, low, x);
        let above = self.b.ins().icmp(IntCC::SignedGreaterThan, x, high);
        self.b.ins().select(above, high, x)
    }

    /// An instruction that goes on to the next one.
    pub(super) fn op(&mut self, pc: Pc, op: Op) {
        if let Some((d, v)) = fold(op, |r| self.constant(r)) {
            return self.set_constant(d, v);
        }
        match op {
            Op::Copy { d, a } => self.copy(d, a),
            Op::Copies { first, n } => {
                for &(d, a) in &self.image.pairs[first as usize..][..n as usize] {
                    self.copy(d, a);
                }
            }
            Op::Mov { d, a, m } => {
                let v = self.get(a);
                self.put(d, v, m);
            }
            Op::Args { first, n } if !matches!(self.args, Args::Unknown) => {
                for &(d, i) in &self.image.pairs[first as usize..][..n as usize] {
                    self.put_argument(d, i, None);
                }
            }
            Op::Arg { d, i, m } if self.put_argument(d, i, Some(m)) => {}
            Op::Add { d, a, b, m } => {
                let v = match self.constant(b) {
                    Some(k) => {
                        let x = self.get(a);
                        self.b.ins().iadd_imm(x, k as i64)
                    }
                    None => {
                        let (x, y) = (self.get(a), self.get(b));
                        self.b.ins().iadd(x, y)
                    }
                };
                self.put(d, v, m);
            }
            Op::Sub { d, a, b, m } => {
                let (x, y) = (self.get(a), self.get(b));
                let v = self.b.ins().isub(x, y);
                self.put(d, v, m);
            }
            Op::Mul { d, a, b, m } => {
                let (x, y) = (self.get(a), self.get(b));
                let v = self.b.ins().imul(x, y);
                self.put(d, v, m);
            }
            Op::And { d, a, b } => {
                let x = self.get(a);
                let v = self.masked(x, b);
                self.set(d, v);
            }
            Op::Or { d, a, b, m } => {
                let (x, y) = (self.get(a), self.get(b));
                let v = self.b.ins().bor(x, y);
                self.put(d, v, m);
            }
            Op::Xor { d, a, b, m } => {
                let (x, y) = (self.get(a), self.get(b));
                let v = self.b.ins().bxor(x, y);
                self.put(d, v, m);
            }
            Op::Not { d, a, m } => {
                let x = self.get(a);
                let v = self.b.ins().bnot(x);
                self.put(d, v, m);
            }
            Op::Shl { d, a, b, m } | Op::ShrU { d, a, b, m } => {
                let v = self.shift(a, b, matches!(op, Op::Shl { .. }));
                self.put(d, v, m);
            }
            Op::ShlK { d, a, k, m } => {
                let x = self.get(a);
                let v = self.b.ins().ishl_imm(x, i64::from(k & 63));
                self.put(d, v, m);
            }
            Op::ShrK { d, a, k, m } => {
                let x = self.get(a);
                let v = self.b.ins().ushr_imm(x, i64::from(k & 63));
                self.put(d, v, m);
            }
            Op::Sext { d, a, w, m } => {
                let (x, by) = (self.get(a), 64 - i64::from(w));
                let up = self.b.ins().ishl_imm(x, by);
                let v = self.b.ins().sshr_imm(up, by);
                self.put(d, v, m);
            }
            Op::SatU { d, a, w, m } => {
                let x = self.get(a);
                let v = self.clamp(x, 0, (u64::MAX >> (64 - u32::from(w))) as i64);
                self.put(d, v, m);
            }
            Op::SatS { d, a, w, m } => {
                let (x, top) = (self.get(a), i64::MAX >> (64 - u32::from(w)));
                let v = self.clamp(x, !top, top);
                self.put(d, v, m);
            }
            Op::Set { d, a, b, cmp } => {
                let v = self.compare(a, b, cmp);
                let v = self.b.ins().uextend(types::I64, v);
                self.set(d, v);
            }
            Op::Slice { d, a, k, m } if (1..64).contains(&k) && a < R::MAX => {
                let (low, high) = (self.get(a), self.get(a + 1));
                let low = self.b.ins().ushr_imm(low, i64::from(k));
                let high = self.b.ins().ishl_imm(high, 64 - i64::from(k));
                let v = self.b.ins().bor(low, high);
                self.put(d, v, m);
            }
            Op::RegRead { d, reg, idx, m } => self.reg_read(d, reg, idx, m),
            Op::RegWrite { reg, idx, a } => self.reg_write(reg, idx, a),
            Op::Count { counter, idx } => self.count(counter, idx),
            Op::Exit => {
                let yes = self.b.ins().iconst(types::I8, 1);
                self.set_field(Fields::EXIT, yes);
            }
            Op::Drop => {
                let port = self.field(types::I64, Fields::DROP_PORT);
                self.set(self.image.standard.egress_spec, port);
                if let Some(g) = self.image.standard.mcast_grp {
                    self.set_constant(g, 0);
                }
            }
            Op::SetValid { h } if self.set_valid(h) => {}
            Op::SetInvalid { h } if self.set_invalid(h) => {}
            Op::Extract { h } if self.extract(h) => {}
            Op::Calc { d, calc, m } => match self.calculate(calc) {
                Some(v) => self.put(d, v, m),
                None => self.step(pc, op),
            },
            Op::CheckSum { a, calc } => match self.calculate(calc) {
                Some(v) => {
                    let (wanted, before) = (self.get(a), self.field(types::I8, Fields::CHECKSUM_ERROR));
                    let wrong = self.b.ins().icmp(IntCC::NotEqual, v, wanted);
                    let now = self.b.ins().bor(before, wrong);
                    self.set_field(Fields::CHECKSUM_ERROR, now);
                }
                None => self.step(pc, op),
            },
            _ => self.step(pc, op),
        }
    }

    /// Has the interpreter execute an instruction.
    fn step(&mut self, pc: Pc, op: Op) {
        let number = self.number(u64::from(pc));
        let stopped = self.call(runtime::step as *const (), &[number]);
        match op.writes() {
            Writes::None => {}
            Writes::Pure(d, n) | Writes::Slots(d, n) => self.known.forget(d, n),
            Writes::Unknown => self.known.forget_all(),
        }
        let may_stop = matches!(
            op,
            Op::Guard
                | Op::Extract { .. }
                | Op::ExtractNext { .. }
                | Op::ExtractNextUnion { .. }
                | Op::ExtractVar { .. }
                | Op::ExtractVarNext { .. }
                | Op::ExtractVarNextUnion { .. }
                | Op::Lookahead { .. }
                | Op::Advance { .. }
                | Op::ParseError { .. }
                | Op::AssertFailed { .. }
        );
        if may_stop {
            let stop = *self.stopped.get_or_insert_with(|| self.b.create_block());
            self.go_unless(stopped, stop);
        }
    }

    /// The address of a cell behind `first` cells of `1 << size` bytes. For an index that is not below `count`, the
    /// code counts a bad index and goes to the returned block, which the caller has to end in.
    fn cell(&mut self, base: Value, first: usize, count: usize, idx: R, size: i64) -> (Value, Option<Block>) {
        if let Some(i) = self.constant(idx).filter(|i| *i < count as u64) {
            let at = (first as u64 + i) << size;
            return (self.b.ins().iadd_imm(base, at as i64), None);
        }
        let i = self.get(idx);
        let (good, bad, end) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let inside = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, i, count as i64);
        self.b.ins().brif(inside, good, &[], bad, &[]);
        self.b.switch_to_block(bad);
        self.b.set_cold_block(bad);
        let counted = self.field(types::I64, Fields::BAD_INDICES);
        let counted = self.b.ins().iadd_imm(counted, 1);
        self.set_field(Fields::BAD_INDICES, counted);
        self.b.ins().jump(end, &[]);
        self.b.switch_to_block(good);
        let offset = self.b.ins().ishl_imm(i, size);
        let base = self.b.ins().iadd_imm(base, (first as i64) << size);
        (self.b.ins().iadd(base, offset), Some(end))
    }

    fn end_cell(&mut self, end: Option<Block>) {
        if let Some(end) = end {
            self.b.ins().jump(end, &[]);
            self.b.switch_to_block(end);
        }
    }

    fn reg_read(&mut self, d: R, reg: u16, idx: R, m: R) {
        let r = self.image.registers[reg as usize];
        let cells = self.env(offset_of!(Env, cells));
        let (at, end) = self.cell(cells, r.first, r.size, idx, 3);
        let v = self.b.ins().load(types::I64, MemFlags::trusted(), at, 0);
        self.put(d, v, m);
        self.end_cell(end);
        if end.is_some() {
            self.known.forget(d, 1);
        }
    }

    fn reg_write(&mut self, reg: u16, idx: R, a: R) {
        let r = self.image.registers[reg as usize];
        let (v, keep) = (self.get(a), u64::MAX >> (64 - r.width.min(64)));
        let v = if keep == u64::MAX { v } else { self.b.ins().band_imm(v, keep as i64) };
        let cells = self.env(offset_of!(Env, cells));
        let (at, end) = self.cell(cells, r.first, r.size, idx, 3);
        self.b.ins().store(MemFlags::trusted(), v, at, 0);
        self.end_cell(end);
    }

    fn count(&mut self, counter: u16, idx: R) {
        const { assert!(size_of::<CounterValue>() == 16) };
        let place = self.image.counters[counter as usize].clone();
        let length = self.field(types::I64, Fields::INGRESS_LENGTH);
        let cells = self.env(offset_of!(Env, counters));
        let (at, end) = self.cell(cells, place.start, place.len(), idx, 4);
        let packets_at = offset_of!(CounterValue, packets) as i32;
        let bytes_at = offset_of!(CounterValue, bytes) as i32;
        let packets = self.b.ins().load(types::I64, MemFlags::trusted(), at, packets_at);
        let packets = self.b.ins().iadd_imm(packets, 1);
        self.b.ins().store(MemFlags::trusted(), packets, at, packets_at);
        let bytes = self.b.ins().load(types::I64, MemFlags::trusted(), at, bytes_at);
        let bytes = self.b.ins().iadd(bytes, length);
        self.b.ins().store(MemFlags::trusted(), bytes, at, bytes_at);
        self.end_cell(end);
    }
}
