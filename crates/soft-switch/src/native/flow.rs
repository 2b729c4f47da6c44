//! From instructions to a graph of blocks. Each action is compiled once per table that can run it. So its end is a
//! plain jump to the table's next node, and its arguments are loads at a known place. A place that is reached in
//! several ways is compiled once for each set of facts that matters there (`facts`).

use std::collections::HashMap;
use std::rc::Rc;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, types};
use cranelift_frontend::Switch;

use super::NoCode;
use super::emit::{Args, Content, Emitter, Fields, Known};
use super::facts::Deciding;
use super::fixed::{self, Fixed, FixedTable};
use super::runtime;
use crate::image::Image;
use crate::op::{Cmp, Op, Pc, R};
use crate::table::NO_ACTION;
use crate::table::lookup::is_exact;

/// So often a place is compiled for facts of its own; once more for all others.
const MOST_COPIES: usize = 48;
/// So many rules of a fixed table are tested one after the other; of more the table is asked.
const MOST_TESTS: usize = 8;
/// Instructions of an entry's code after which no further place gets copies.
const MOST_COPIED: usize = 60_000;

/// A place: an instruction, and of which table's action it is a part (0: of none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct At {
    pub frame: u32,
    pub pc: Pc,
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
pub(super) struct Graph<'a> {
    pub image: &'a Image,
    frames: Vec<Frame>,
    numbers: HashMap<(usize, usize), u32>,
    /// Ways into each place.
    ways: HashMap<At, u32>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(image: &'a Image, start: Pc, budget: &mut usize) -> Result<Graph<'a>, NoCode> {
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

    /// All places of the graph.
    pub(super) fn places(&self) -> Vec<At> {
        self.ways.keys().copied().collect()
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

    pub(super) fn successors(&mut self, at: At, out: &mut Vec<At>) {
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

/// Code to come: a place, its block, and what is known there.
struct Todo {
    at: At,
    block: Block,
    known: Known,
    args: Args,
    /// Whether the arguments have to be looked for again: they were found elsewhere.
    finds_args: bool,
    /// Whether the code is for all packets.
    plain: bool,
}

/// A place, and the facts that its code is for: constants in slots, arguments of the running action.
type Copy = (At, Box<[(R, u64)]>, Option<Rc<[u64]>>);

/// The blocks of an entry.
struct Blocks<'a> {
    graph: Graph<'a>,
    deciding: Deciding,
    fixed: Rc<Fixed>,
    /// Blocks of places with several ways in.
    shared: HashMap<Copy, Block>,
    /// How many copies each of these places has.
    copies: HashMap<At, usize>,
    /// Blocks of tables that are asked, though they were fixed.
    plain_blocks: HashMap<At, Block>,
    /// Instructions so far.
    ops: usize,
    /// Whether what is compiled now is for all packets, and so is all behind it.
    plain: bool,
    todo: Vec<Todo>,
}

impl Blocks<'_> {
    /// The facts known of slots that decide something behind a place.
    fn facts(&self, at: At, known: &Known) -> Box<[(R, u64)]> {
        let fact = |(r, content): (&R, &Content)| match content {
            Content::Constant(v) if self.deciding.is(at, *r) => Some((*r, *v)),
            _ => None,
        };
        let mut facts: Box<[(R, u64)]> = known.slots().filter_map(fact).collect();
        facts.sort_unstable();
        facts
    }
}

impl Emitter<'_> {
    /// The code from an entry on; slots `zeros` are 0 there.
    pub(super) fn program(
        &mut self,
        start: Pc,
        zeros: &[R],
        fixed: &Rc<Fixed>,
        budget: &mut usize,
    ) -> Result<(), NoCode> {
        let mut graph = Graph::new(self.image, start, budget)?;
        let deciding = Deciding::new(&mut graph, fixed);
        let mut blocks = Blocks {
            graph,
            deciding,
            fixed: fixed.clone(),
            shared: HashMap::new(),
            plain_blocks: HashMap::new(),
            copies: HashMap::new(),
            ops: 0,
            plain: false,
            todo: Vec::new(),
        };
        self.known.forget_all();
        for &r in zeros {
            self.known.learn(r, 0);
        }
        let first = self.block(&mut blocks, At { frame: 0, pc: start });
        self.b.ins().jump(first, &[]);
        while let Some(Todo { at, block, known, args, finds_args, plain }) = blocks.todo.pop() {
            self.b.switch_to_block(block);
            (self.known, self.args, blocks.plain) = (known, args, plain);
            if finds_args && let Some(f) = (at.frame as usize).checked_sub(1).map(|i| blocks.graph.frames[i])
            {
                self.args = self.arguments(self.image.actions[f.action].words);
            }
            self.straight(&mut blocks, at);
        }
        Ok(())
    }

    /// The block of a place to jump to, with what is known now: all of it if there is no other way there.
    fn block(&mut self, blocks: &mut Blocks, at: At) -> Block {
        let args = if at.frame == 0 { Args::Unknown } else { self.args.clone() };
        self.block_with_args(blocks, at, args)
    }

    fn block_with_args(&mut self, blocks: &mut Blocks, at: At, args: Args) -> Block {
        if blocks.graph.ways.get(&at) == Some(&1) {
            let block = self.b.create_block();
            let finds_args = at.frame != 0 && matches!(args, Args::Unknown);
            let plain = blocks.plain;
            blocks.todo.push(Todo { at, block, known: self.known.clone(), args, finds_args, plain });
            return block;
        }
        let constants = match &args {
            Args::Constants(words) => Some(words.clone()),
            Args::Unknown | Args::At(_) => None,
        };
        let finds_args = at.frame != 0 && constants.is_none();
        let args = constants.clone().map_or(Args::Unknown, Args::Constants);
        let facts = if blocks.plain { Box::default() } else { blocks.facts(at, &self.known) };
        let mut copy: Copy = (at, facts, constants);
        if let Some(&block) = blocks.shared.get(&copy) {
            return block;
        }
        let copies = blocks.copies.entry(at).or_default();
        if *copies >= MOST_COPIES || blocks.ops >= MOST_COPIED {
            copy.1 = Box::default();
            if let Some(&block) = blocks.shared.get(&copy) {
                return block;
            }
        }
        *copies += 1;
        self.copy_of(blocks, copy, args, finds_args)
    }

    fn copy_of(&mut self, blocks: &mut Blocks, copy: Copy, args: Args, finds_args: bool) -> Block {
        let block = self.b.create_block();
        let mut known = Known::default();
        for &(r, v) in &copy.1 {
            known.learn(r, v);
        }
        let (at, plain) = (copy.0, blocks.plain);
        blocks.shared.insert(copy, block);
        blocks.todo.push(Todo { at, block, known, args, finds_args, plain });
        block
    }

    /// The block of a place for all packets.
    fn plain_block(&mut self, blocks: &mut Blocks, at: At) -> Block {
        if let Some(&block) = blocks.plain_blocks.get(&at) {
            return block;
        }
        let block = self.b.create_block();
        let todo =
            Todo { at, block, known: Known::default(), args: Args::Unknown, finds_args: false, plain: true };
        blocks.todo.push(todo);
        blocks.plain_blocks.insert(at, block);
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
        loop {
            blocks.ops += 1;
            let Some(&op) = self.image.code.get(at.pc as usize) else {
                self.end();
                return;
            };
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
                    let (t, fixed) = (t as usize, blocks.fixed.clone());
                    match fixed.get(t).filter(|_| !blocks.plain) {
                        Some(table) => self.apply_fixed(blocks, at, t, table),
                        None => self.apply(blocks, t),
                    }
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

    /// Applies a table whose entries are known. Should they have been unlocked, it is asked all the same.
    fn apply_fixed(&mut self, blocks: &mut Blocks, at: At, t: usize, table: &FixedTable) {
        let unlocked = self.field8(Fields::UNLOCKED);
        let (ask, go) = (self.plain_block(blocks, at), self.b.create_block());
        self.b.ins().brif(unlocked, ask, &[], go, &[]);
        self.b.switch_to_block(go);
        let all: Vec<usize> = (0..table.rules.len()).collect();
        self.decide(blocks, t, table, &all);
    }

    /// Goes to the action of the first of these rules that the key matches.
    fn decide(&mut self, blocks: &mut Blocks, t: usize, table: &FixedTable, rules: &[usize]) {
        let plan = &self.image.tables[t].key;
        let (rules, sure) = table.possible(plan, rules, |r| self.constant(r));
        let Some((&first, others)) = rules.split_first() else {
            return self.decided(blocks, t, table.default.as_ref(), false);
        };
        if sure && others.is_empty() {
            return self.decided(blocks, t, Some(&table.rules[first].1), true);
        }
        if let Some(part) = table.exact_part(plan, &rules, |r| self.constant(r)) {
            let part = plan.parts[part];
            let mut by_value: Vec<(u64, Vec<usize>)> = Vec::new();
            for &rule in &rules {
                let (value, _) = fixed::in_part(&table.rules[rule].0, part.word, part.shift, part.mask);
                match by_value.iter_mut().find(|(v, _)| *v == value) {
                    Some((_, same)) => same.push(rule),
                    None => by_value.push((value, vec![rule])),
                }
            }
            let v = self.get(part.slot);
            let v = self.b.ins().band_imm(v, part.mask as i64);
            let (mut switch, other) = (Switch::new(), self.b.create_block());
            let blocks_of: Vec<Block> = by_value.iter().map(|_| self.b.create_block()).collect();
            for ((value, _), block) in by_value.iter().zip(&blocks_of) {
                switch.set_entry(u128::from(*value), *block);
            }
            switch.emit(&mut self.b, v, other);
            let known = self.known.clone();
            for ((value, rules), block) in by_value.iter().zip(blocks_of) {
                self.b.switch_to_block(block);
                self.known = known.clone();
                self.known.learn(part.slot, *value);
                self.decide(blocks, t, table, rules);
            }
            self.b.switch_to_block(other);
            self.known = known;
            return self.decided(blocks, t, table.default.as_ref(), false);
        }
        if rules.len() > MOST_TESTS {
            return self.apply(blocks, t);
        }
        let mut fits = None;
        let mut facts = Vec::new();
        for part in &plan.parts {
            let (value, mask) = fixed::in_part(&table.rules[first].0, part.word, part.shift, part.mask);
            if mask == 0 || self.constant(part.slot).is_some() {
                continue;
            }
            let v = self.get(part.slot);
            let v = self.b.ins().band_imm(v, mask as i64);
            let is = self.b.ins().icmp_imm(IntCC::Equal, v, value as i64);
            fits = Some(match fits {
                Some(fits) => self.b.ins().band(fits, is),
                None => is,
            });
            if part.whole && mask == part.mask {
                facts.push((part.slot, value));
            }
        }
        let Some(fits) = fits else { return self.apply(blocks, t) };
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(fits, yes, &[], no, &[]);
        let known = self.known.clone();
        self.b.switch_to_block(yes);
        for (r, v) in facts {
            self.known.learn(r, v);
        }
        self.decided(blocks, t, Some(&table.rules[first].1), true);
        self.b.switch_to_block(no);
        self.known = known;
        self.decide(blocks, t, table, others);
    }

    /// Goes on in an action that a fixed table has said, or behind the table.
    fn decided(&mut self, blocks: &mut Blocks, t: usize, call: Option<&fixed::Call>, hit: bool) {
        let action = call.map(|call| call.action);
        if matches!(blocks.graph.next(t, None), Next::HitOrMiss(..)) {
            let next = self.image.tables[t].behind(action, hit);
            let next = self.b.ins().iconst(types::I32, i64::from(next));
            self.set_field(Fields::NEXT, next);
        }
        let next = match call {
            Some(call) => {
                let (frame, pc) = (blocks.graph.frame(t, call.action), self.image.actions[call.action].start);
                Some(self.block_with_args(blocks, At { frame, pc }, Args::Constants(call.words.clone())))
            }
            None => self.go_on(blocks, t, None).map(|next| self.block(blocks, next)),
        };
        if let Some(block) = next {
            self.b.ins().jump(block, &[]);
        }
    }

    /// Applies a table and goes on in the action that it says.
    fn apply(&mut self, blocks: &mut Blocks, t: usize) {
        let def = &self.image.tables[t];
        let is_plain = def.is_plain() && def.profile.is_none();
        let asks_next = matches!(blocks.graph.next(t, None), Next::HitOrMiss(..));
        let action = if is_plain && matches!(def.key.words, 1 | 2) && is_exact(&def.key) {
            self.find_here(t, asks_next)
        } else {
            self.find(t, asks_next)
        };
        let mut switch = Switch::new();
        for a in &self.image.info.tables[t].actions {
            let pc = self.image.actions[a.index()].start;
            let frame = blocks.graph.frame(t, a.index());
            // An action can be named twice; the first counts, as both are the same.
            if !switch.entries().contains_key(&u128::from(pc)) {
                let block = self.block_with_args(blocks, At { frame, pc }, Args::Unknown);
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
