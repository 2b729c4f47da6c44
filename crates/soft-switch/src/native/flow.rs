//! From instructions to a graph of blocks. Each action is compiled once per table that can run it. So its end is a
//! plain jump to the table's next node, and its arguments are loads at a known place.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Switch;

use super::NoCode;
use super::emit::{Emitter, Fields, Known};
use super::runtime;
use crate::image::Image;
use crate::op::{Cmp, Op, Pc, R};
use crate::table::NO_ACTION;
use crate::table::key::KeyPlan;

/// A place: an instruction, and of which table's action it is a part (0: of none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct At {
    frame: u32,
    pc: Pc,
}

/// An action as a table runs it.
#[derive(Clone, Copy, Debug)]
struct Frame {
    table: usize,
    action: usize,
}

/// Where control goes behind a table.
enum Next {
    Always(Pc),
    /// To one of two places, as the table said when it was applied.
    HitOrMiss(Pc, Pc),
}

/// The graph of what can be reached from an entry.
struct Graph<'a> {
    image: &'a Image,
    frames: Vec<Frame>,
    numbers: HashMap<(usize, usize), u32>,
    /// Ways into each place.
    ways: HashMap<At, u32>,
}

impl<'a> Graph<'a> {
    fn new(image: &'a Image, start: Pc, budget: &mut usize) -> Result<Graph<'a>, NoCode> {
        let mut g = Graph { image, frames: Vec::new(), numbers: HashMap::new(), ways: HashMap::new() };
        let start = At { frame: 0, pc: start };
        let mut todo = vec![start];
        g.ways.insert(start, 1);
        let mut after = Vec::new();
        while let Some(at) = todo.pop() {
            *budget = budget.checked_sub(1).ok_or(NoCode)?;
            g.successors(at, &mut after);
            for next in after.drain(..) {
                let ways = g.ways.entry(next).or_insert(0);
                *ways += 1;
                if *ways == 1 {
                    todo.push(next);
                }
            }
        }
        Ok(g)
    }

    /// The number of an action as a table runs it.
    fn frame(&mut self, table: usize, action: usize) -> u32 {
        *self.numbers.entry((table, action)).or_insert_with(|| {
            self.frames.push(Frame { table, action });
            self.frames.len() as u32
        })
    }

    /// Where control goes behind a table after an action of it (`None`: after none).
    fn next(&self, table: usize, action: Option<usize>) -> Next {
        let def = &self.image.tables[table];
        match def.hit_miss {
            Some((hit, miss)) if hit != miss => Next::HitOrMiss(hit, miss),
            Some((hit, _)) => Next::Always(hit),
            None => {
                let own = action.and_then(|a| def.next[a]);
                Next::Always(own.unwrap_or(def.next_default))
            }
        }
    }

    fn successors(&mut self, at: At, out: &mut Vec<At>) {
        let on = At { pc: at.pc + 1, ..at };
        let main = |pc| At { frame: 0, pc };
        let next = |n: Next, out: &mut Vec<At>| match n {
            Next::Always(pc) => out.push(main(pc)),
            Next::HitOrMiss(hit, miss) => out.extend([main(hit), main(miss)]),
        };
        let Some(op) = self.image.code.get(at.pc as usize) else { return };
        match *op {
            Op::End | Op::ParseError { .. } => {}
            Op::Jmp { t } | Op::JmpBack { t } => out.push(At { pc: t, ..at }),
            Op::Apply { t } => {
                let t = t as usize;
                for a in &self.image.info.tables[t].actions {
                    let (frame, pc) = (self.frame(t, a.index()), self.image.actions[a.index()].start);
                    out.push(At { frame, pc });
                }
                next(self.next(t, None), out);
            }
            Op::Ret => {
                if let Some(f) = (at.frame as usize).checked_sub(1).map(|i| self.frames[i]) {
                    next(self.next(f.table, Some(f.action)), out);
                }
            }
            op => {
                if let Some(t) = op.target() {
                    out.push(At { pc: t, ..at });
                }
                out.push(on);
            }
        }
    }
}

/// Code to come: a place, its block, and what is known of slots there.
struct Todo {
    at: At,
    block: Block,
    known: Known,
}

/// The blocks of an entry.
struct Blocks<'a> {
    graph: Graph<'a>,
    /// Blocks of places with several ways in.
    shared: HashMap<At, Block>,
    todo: Vec<Todo>,
    /// Where each frame's arguments lie.
    args: HashMap<u32, Option<Value>>,
}

impl Emitter<'_> {
    /// The code from an entry on.
    pub(super) fn program(&mut self, start: Pc, budget: &mut usize) -> Result<(), NoCode> {
        let graph = Graph::new(self.image, start, budget)?;
        let mut blocks = Blocks { graph, shared: HashMap::new(), todo: Vec::new(), args: HashMap::new() };
        let first = self.block(&mut blocks, At { frame: 0, pc: start });
        self.b.ins().jump(first, &[]);
        while let Some(Todo { at, block, known }) = blocks.todo.pop() {
            self.b.switch_to_block(block);
            self.known = known;
            self.straight(&mut blocks, at);
        }
        Ok(())
    }

    /// The block of a place to jump to, with what is known now if there is no other way there.
    fn block(&mut self, blocks: &mut Blocks, at: At) -> Block {
        let alone = blocks.graph.ways.get(&at) == Some(&1);
        if let Some(&block) = blocks.shared.get(&at).filter(|_| !alone) {
            return block;
        }
        let block = self.b.create_block();
        let known = if alone { self.known.clone() } else { Known::default() };
        if !alone {
            blocks.shared.insert(at, block);
        }
        blocks.todo.push(Todo { at, block, known });
        block
    }

    /// The block of a place where a slot is known to hold a constant.
    fn block_with(&mut self, blocks: &mut Blocks, at: At, fact: Option<(R, u64)>) -> Block {
        let before = fact.map(|(r, v)| (r, self.known.learn(r, v)));
        let block = self.block(blocks, at);
        if let Some((r, old)) = before {
            self.known.put_back(r, old);
        }
        block
    }

    /// Code from a place to the end of its block.
    fn straight(&mut self, blocks: &mut Blocks, mut at: At) {
        if let Some(f) = (at.frame as usize).checked_sub(1).map(|i| blocks.graph.frames[i])
            && at.pc == self.image.actions[f.action].start
        {
            let args = self.arguments(self.image.actions[f.action].words);
            blocks.args.insert(at.frame, args);
        }
        loop {
            let Some(&op) = self.image.code.get(at.pc as usize) else {
                self.end();
                return;
            };
            self.args = blocks.args.get(&at.frame).copied().flatten();
            let on = At { pc: at.pc + 1, ..at };
            let to = |t: Pc| At { pc: t, ..at };
            let next = match op {
                Op::Jmp { t } => to(t),
                Op::JmpBack { t } => {
                    let more = self.call(runtime::spend_loop as *const (), &[]);
                    let (go, stop) = (self.block(blocks, to(t)), self.b.create_block());
                    self.b.ins().brif(more, go, &[], stop, &[]);
                    self.b.switch_to_block(stop);
                    self.end();
                    return;
                }
                Op::Br { a, b, cmp, t } => match self.branch(blocks, a, b, cmp, to(t), on) {
                    Some(next) => next,
                    None => return,
                },
                Op::BrEq { a, b, t } => match self.branch(blocks, a, b, Cmp::Eq, to(t), on) {
                    Some(next) => next,
                    None => return,
                },
                Op::BrNe { a, b, t } => match self.branch(blocks, a, b, Cmp::Ne, to(t), on) {
                    Some(next) => next,
                    None => return,
                },
                Op::BrZ { a, t } | Op::BrNz { a, t } => {
                    let zero = matches!(op, Op::BrZ { .. });
                    let (if_zero, if_not) = if zero { (to(t), on) } else { (on, to(t)) };
                    match self.constant(a) {
                        Some(0) => if_zero,
                        Some(_) => if_not,
                        None => {
                            let v = self.get(a);
                            let yes = self.block(blocks, if_not);
                            let no = self.block_with(blocks, if_zero, Some((a, 0)));
                            self.b.ins().brif(v, yes, &[], no, &[]);
                            return;
                        }
                    }
                }
                Op::BrSet { set, t } => {
                    let set = self.number(u64::from(set));
                    let has = self.call(runtime::in_set as *const (), &[set]);
                    let (yes, no) = (self.block(blocks, to(t)), self.block(blocks, on));
                    self.b.ins().brif(has, yes, &[], no, &[]);
                    return;
                }
                Op::BrExit { t } => {
                    let exit = self.field8(Fields::EXIT);
                    let (yes, no) = (self.block(blocks, to(t)), self.block(blocks, on));
                    self.b.ins().brif(exit, yes, &[], no, &[]);
                    return;
                }
                Op::Apply { t } => {
                    self.apply(blocks, t as usize);
                    return;
                }
                Op::Ret => match self.leave(blocks, at) {
                    Some(next) => next,
                    None => return,
                },
                Op::End => {
                    self.end();
                    return;
                }
                Op::ParseError { a } => {
                    let error = self.get(a);
                    self.stop_with(error);
                    return;
                }
                op => {
                    self.op(at.pc, op);
                    on
                }
            };
            if blocks.graph.ways.get(&next) != Some(&1) {
                let block = self.block(blocks, next);
                self.b.ins().jump(block, &[]);
                return;
            }
            at = next;
        }
    }

    /// A branch to `yes` if the comparison holds, else to `no`. Where to go on, if that is known now.
    fn branch(&mut self, blocks: &mut Blocks, a: R, b: R, cmp: Cmp, yes: At, no: At) -> Option<At> {
        if let (Some(x), Some(y)) = (self.constant(a), self.constant(b)) {
            return Some(if crate::exec::run::holds(cmp, x, y) { yes } else { no });
        }
        let condition = self.compare(a, b, cmp);
        // Where two slots are equal and one is a constant, so is the other.
        let same = match (self.constant(a), self.constant(b)) {
            (_, Some(v)) => Some((a, v)),
            (Some(v), _) => Some((b, v)),
            _ => None,
        };
        let yes = self.block_with(blocks, yes, same.filter(|_| cmp == Cmp::Eq));
        let no = self.block_with(blocks, no, same.filter(|_| cmp == Cmp::Ne));
        self.b.ins().brif(condition, yes, &[], no, &[]);
        None
    }

    /// Applies a table and goes on in the action that it says.
    fn apply(&mut self, blocks: &mut Blocks, t: usize) {
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
        if matches!(blocks.graph.next(t, None), Next::HitOrMiss(..)) {
            let next = self.b.ins().ushr_imm(found, 32);
            let next = self.b.ins().ireduce(types::I32, next);
            self.set_field(Fields::NEXT, next);
        }
        let action = self.b.ins().ireduce(types::I32, found);
        let mut switch = Switch::new();
        for a in &self.image.info.tables[t].actions {
            let pc = self.image.actions[a.index()].start;
            let frame = blocks.graph.frame(t, a.index());
            // An action can be named twice; the first counts, as both are the same.
            if !switch.entries().contains_key(&u128::from(pc)) {
                let block = self.block(blocks, At { frame, pc });
                switch.set_entry(u128::from(pc), block);
            }
        }
        let (none, other) = (self.b.create_block(), self.b.create_block());
        switch.set_entry(u128::from(NO_ACTION), none);
        switch.emit(&mut self.b, action, other);
        // Entries have actions of their table only, so nothing comes here.
        self.b.switch_to_block(other);
        self.end();
        self.b.switch_to_block(none);
        if let Some(next) = self.go_on(blocks, t, None) {
            let block = self.block(blocks, next);
            self.b.ins().jump(block, &[]);
        }
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

    /// The end of an action.
    fn leave(&mut self, blocks: &mut Blocks, at: At) -> Option<At> {
        let Some(f) = (at.frame as usize).checked_sub(1).map(|i| blocks.graph.frames[i]) else {
            self.end();
            return None;
        };
        if self.image.actions[f.action].exits {
            let exit = self.field8(Fields::EXIT);
            let (leave, stay) = (self.b.create_block(), self.b.create_block());
            self.b.ins().brif(exit, leave, &[], stay, &[]);
            self.b.switch_to_block(leave);
            self.end();
            self.b.switch_to_block(stay);
        }
        self.go_on(blocks, f.table, Some(f.action))
    }

    /// Goes on behind a table; where to, if that is known now.
    fn go_on(&mut self, blocks: &mut Blocks, table: usize, action: Option<usize>) -> Option<At> {
        let main = |pc| At { frame: 0, pc };
        match blocks.graph.next(table, action) {
            Next::Always(pc) => Some(main(pc)),
            Next::HitOrMiss(hit, miss) => {
                let next = self.field(types::I32, Fields::NEXT);
                let is_hit = self.b.ins().icmp_imm(IntCC::Equal, next, i64::from(hit));
                let (yes, no) = (self.block(blocks, main(hit)), self.block(blocks, main(miss)));
                self.b.ins().brif(is_hit, yes, &[], no, &[]);
                None
            }
        }
    }
}
