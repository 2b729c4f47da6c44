//! Machine code that looks a table up: where all fields are matched exactly and fit two words, without a call.

use std::mem::offset_of;

use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlags, Value, types};

use super::emit::{Emitter, Fields};
use super::runtime::{self, Env};
use crate::table::flat::{FACTOR, ROTATION};
use crate::table::key::KeyPlan;
use crate::table::lookup::is_direct;
use crate::table::{Hot, Place};

impl Emitter<'_> {
    /// The code of the action that a table says, which the switch looks up. `asks_next`: the next node depends on that.
    pub(super) fn find(&mut self, t: usize, asks_next: bool) -> Value {
        let def = &self.image.tables[t];
        let number = self.number(t as u64);
        let found = match def.key.words {
            0 => self.call(runtime::apply_0 as *const (), &[number]),
            1 => {
                let key = self.key_word(&def.key, 0);
                self.call(runtime::apply_1 as *const (), &[number, key])
            }
            2 => {
                let key = [0, 1].map(|w| self.key_word(&def.key, w));
                self.call(runtime::apply_2 as *const (), &[number, key[0], key[1]])
            }
            _ => self.call(runtime::apply as *const (), &[number]),
        };
        if let Some((target, _)) = def.meter {
            self.known.forget(target, 1);
        }
        if asks_next {
            let next = self.b.ins().ushr_imm(found, 32);
            let next = self.b.ins().ireduce(types::I32, next);
            self.set_field(Fields::NEXT, next);
        }
        self.b.ins().ireduce(types::I32, found)
    }

    /// The same of a table with a direct index, or a hash of one or two words, whose hits change nothing.
    pub(super) fn find_here(&mut self, t: usize, asks_next: bool) -> Value {
        let plan = &self.image.tables[t].key;
        let entry = if is_direct(plan) {
            let key = self.key_word(plan, 0);
            let numbers = self.place(t, offset_of!(Place, numbers));
            self.number_at(numbers, key)
        } else {
            self.find_hashed(t)
        };
        let hot = self.place(t, offset_of!(Place, hot));
        const { assert!(size_of::<Hot>() == 16) };
        let offset = self.b.ins().ishl_imm(entry, 4);
        let hot = self.b.ins().iadd(hot, offset);
        let args = self.b.ins().load(types::I32, MemFlags::trusted(), hot, Hot::ARGS);
        self.set_field(Fields::ARGS, args);
        if asks_next {
            let next = self.b.ins().load(types::I32, MemFlags::trusted(), hot, Hot::NEXT);
            self.set_field(Fields::NEXT, next);
        }
        self.b.ins().load(types::I32, MemFlags::trusted(), hot, Hot::ACTION)
    }

    /// The entry's number plus 1 in a hash, as [`FlatMap::get`](crate::table::flat::FlatMap::get) finds it.
    fn find_hashed(&mut self, t: usize) -> Value {
        let plan = &self.image.tables[t].key;
        let key: Vec<Value> = (0..plan.words).map(|w| self.key_word(plan, w as u8)).collect();
        let fields = [
            offset_of!(Place, numbers),
            offset_of!(Place, keys),
            offset_of!(Place, shift),
            offset_of!(Place, last),
        ];
        let [numbers, keys, shift, last] = fields.map(|field| self.place(t, field));
        let factor = self.number(FACTOR);
        let mut hash = self.b.ins().imul(key[0], factor);
        for &word in &key[1..] {
            hash = self.b.ins().rotl_imm(hash, i64::from(ROTATION));
            hash = self.b.ins().bxor(hash, word);
            hash = self.b.ins().imul(hash, factor);
        }
        let first = self.b.ins().ushr(hash, shift);
        let [look, compare, on, found] = [(); 4].map(|()| self.b.create_block());
        let place = self.b.append_block_param(look, types::I64);
        let number = self.b.append_block_param(found, types::I64);
        self.b.ins().jump(look, &[BlockArg::Value(first)]);

        self.b.switch_to_block(look);
        let there = self.number_at(numbers, place);
        self.b.ins().brif(there, compare, &[], found, &[BlockArg::Value(there)]);

        self.b.switch_to_block(compare);
        let offset = self.b.ins().imul_imm(place, 8 * key.len() as i64);
        let at = self.b.ins().iadd(keys, offset);
        let mut differs = self.number(0);
        for (i, &word) in key.iter().enumerate() {
            let has = self.b.ins().load(types::I64, MemFlags::trusted(), at, 8 * i as i32);
            let bits = self.b.ins().bxor(has, word);
            differs = self.b.ins().bor(differs, bits);
        }
        self.b.ins().brif(differs, on, &[], found, &[BlockArg::Value(there)]);

        self.b.switch_to_block(on);
        let next = self.b.ins().iadd_imm(place, 1);
        let next = self.b.ins().band(next, last);
        self.b.ins().jump(look, &[BlockArg::Value(next)]);

        self.b.switch_to_block(found);
        number
    }

    /// A field of the [`Place`] of a table.
    fn place(&mut self, t: usize, field: usize) -> Value {
        let places = self.env(offset_of!(Env, places));
        let at = (t * size_of::<Place>() + field) as i32;
        self.b.ins().load(types::I64, MemFlags::trusted(), places, at)
    }

    /// The number at a place of an index.
    fn number_at(&mut self, numbers: Value, place: Value) -> Value {
        let offset = self.b.ins().ishl_imm(place, 2);
        let at = self.b.ins().iadd(numbers, offset);
        self.b.ins().uload32(MemFlags::trusted(), at, 0)
    }

    /// A word of a table's key.
    fn key_word(&mut self, plan: &KeyPlan, word: u8) -> Value {
        let mut key = None;
        for p in plan.parts.iter().filter(|p| p.word == word) {
            let v = self.get(p.slot);
            let v = self.b.ins().band_imm(v, p.mask as i64);
            let v = if p.shift > 0 { self.b.ins().ishl_imm(v, i64::from(p.shift)) } else { v };
            key = Some(match key {
                Some(k) => self.b.ins().bor(k, v),
                None => v,
            });
        }
        key.unwrap_or_else(|| self.number(0))
    }
}
