//! The interpreter is the oracle: the same code on the same state and frame, once native and once interpreted.

use std::sync::Arc;

use crate::control::*;
use crate::exec::core::{Core, Entry};
use crate::image::Image;
use crate::info::{MatchKind, TableId};
use crate::native::Native;
use crate::op::{Cmp, Op, Pc, R, WideOp};
use crate::program::load;
use crate::{Program, Recirculation, Switch, SwitchConfig};
use zsr_random::XorShift64;
use zsr_wire::frame::{Frame, FramePool};

const PROGRAMS: [&str; 6] =
    ["copies", "tables", "headers", "transport", "p4runtime", "../../../../p4/artifacts/zsr-v1model"];

/// Seeded, so that a failure can be repeated.
struct Random(XorShift64);

impl Random {
    fn new(seed: u64) -> Self {
        Random(XorShift64::new(seed))
    }

    fn next(&mut self, n: usize) -> usize {
        (self.0.bits() >> 11) as usize % n.max(1)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.next(of.len())]
    }

    /// A number in which few or many bits are set.
    fn number(&mut self) -> u64 {
        let all = (self.next(1 << 32) as u64) << 32 | self.next(1 << 32) as u64;
        match self.next(4) {
            0 => all,
            1 => all & 0xff,
            2 => self.next(4) as u64,
            _ => u64::MAX << self.next(64),
        }
    }

    fn bytes(&mut self, width: u32) -> Vec<u8> {
        let (n, small) = (width.div_ceil(8).max(1) as usize, self.next(2) == 0);
        let mut v: Vec<u8> = (0..n).map(|_| if small { 0 } else { self.next(256) as u8 }).collect();
        v[n - 1] = self.next(if small { 4 } else { 256 }) as u8;
        if !width.is_multiple_of(8) {
            v[0] &= (1 << (width % 8)) - 1;
        }
        v
    }

    /// Bytes in which numbers that the program knows are more frequent than by chance.
    fn frame(&mut self, image: &Image) -> Vec<u8> {
        let len = self.next(180);
        let mut bytes: Vec<u8> = (0..len).map(|_| self.next(256) as u8).collect();
        for at in [12, 14, 23, self.next(80), self.next(80), self.next(80)] {
            let known = self.pick(&image.consts);
            match (self.next(3), bytes.get_mut(at..at + 2)) {
                (0, Some(two)) => two.copy_from_slice(&(known as u16).to_be_bytes()),
                (1, Some(two)) => two[0] = known as u8,
                _ => {}
            }
        }
        bytes
    }
}

fn text(name: &str) -> String {
    let path = format!("{}/tests/programs/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn program(name: &str) -> Program {
    Program::from_json(&text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Native and interpreted.
fn both(program: &Program, config: &SwitchConfig) -> [Switch; 2] {
    [false, true].map(|interpret| Switch::new(program, SwitchConfig { interpret, ..config.clone() }))
}

/// Puts random entries, groups and members into a switch; what does not fit is refused alike in both.
fn fill(s: &mut Switch, random: &mut Random) {
    let info = s.info().clone();
    for (p, _) in info.profiles.iter().enumerate() {
        let Some(t) = info.tables.iter().find(|t| t.profile.map(|x| x.index()) == Some(p)) else { continue };
        for id in 1..4 {
            let call = call(s, random, &t.actions);
            let _ = s.member_insert(crate::ProfileId(p as u32), id, call);
        }
    }
    for (t, table) in info.tables.iter().enumerate() {
        let id = TableId(t as u32);
        // The program's own entries, of which P4Info may say that they can be changed.
        if table.const_entries && random.next(8) == 0 {
            s.table_unlock(id, 64).unwrap();
            for entry in s.table_entries(id).unwrap() {
                if random.next(2) == 0 {
                    s.table_delete(id, &entry.key, entry.priority).unwrap();
                }
            }
        }
        for _ in 0..random.next(12) {
            let mut key = Vec::new();
            for k in &table.keys {
                let v = random.bytes(k.width);
                let all = vec![0xff; v.len()];
                key.push(match k.kind {
                    MatchKind::Exact => MatchField::Exact(v),
                    MatchKind::Lpm => MatchField::Lpm { value: v, prefix_len: k.width },
                    MatchKind::Ternary if random.next(2) == 0 => MatchField::Optional(None),
                    MatchKind::Ternary => {
                        let mut mask = all;
                        mask[0] >>= (8 - k.width % 8) % 8;
                        MatchField::Ternary { value: v, mask }
                    }
                    MatchKind::Optional => MatchField::Optional((random.next(2) == 0).then_some(v)),
                    MatchKind::Range => MatchField::Range { low: vec![0], high: v },
                });
            }
            let action = match table.profile {
                Some(_) => EntryAction::Member(1 + random.next(4) as u32),
                None => EntryAction::Call(call(s, random, &table.actions)),
            };
            let priority = i32::from(table.has_priority) * (1 + random.next(4) as i32);
            let entry = TableEntry { key, priority, action, idle_timeout_ns: 0, metadata: Vec::new() };
            let _ = s.table_insert(id, entry);
        }
        if table.profile.is_none() && random.next(3) == 0 {
            let action = EntryAction::Call(call(s, random, &table.actions));
            let _ = s.set_default(id, action);
        }
    }
    for id in 0..8 {
        let replicas = (0..random.next(3)).map(|i| Replica { port: i as u16, instance: id as u16 }).collect();
        let _ = s.multicast_group_insert(id, replicas);
        let replicas = vec![Replica { port: 3, instance: 9 }];
        let session = CloneSession { replicas, packet_length_bytes: id * 20, class_of_service: 0 };
        let _ = s.clone_session_insert(id, session);
    }
}

fn call(s: &Switch, random: &mut Random, actions: &[crate::ActionId]) -> ActionCall {
    let action = random.pick(actions);
    let params = &s.info().actions[action.index()].params;
    ActionCall { action, params: params.iter().map(|p| random.bytes(p.width)).collect() }
}

/// Where two cores differ in what a program can see or change.
fn difference(image: &Image, a: &Core, b: &Core) -> Option<String> {
    let numbers = |c: &Core| {
        (
            (c.cursor, c.checksum_error, c.exit, c.packet_length, c.clone, c.resubmit, c.recirculate),
            (c.digest, c.truncate, c.loops, c.assert_failures, c.loop_limit_hits, c.bad_indices, c.random),
        )
    };
    if numbers(a) != numbers(b) {
        return Some(format!("{:?}, {:?}", numbers(a), numbers(b)));
    }
    // Machine code does not store what nothing reads.
    let visible = super::stores::visible(image);
    let slots: String = (0..=R::MAX)
        .filter(|r| visible.has(*r) && a.slots[usize::from(*r)] != b.slots[usize::from(*r)])
        .map(|r| format!("slot {r}: {:#x}, {:#x}; ", a.slots[usize::from(r)], b.slots[usize::from(r)]))
        .collect();
    if !slots.is_empty() {
        return Some(slots);
    }
    let counted = |c: &Core| c.tables.iter().map(|t| t.counters.clone()).collect::<Vec<_>>();
    let same = a.cells == b.cells && a.counters == b.counters && counted(a) == counted(b);
    (!same || a.algo_states != b.algo_states).then(|| "registers, counters or hashes".to_string())
}

#[test]
fn frames_through_whole_programs() {
    let config = SwitchConfig {
        max_passes: 5,
        loop_limit: 100,
        priority_queues: 8,
        recirculation: Recirculation::Inline,
        ..SwitchConfig::default()
    };
    let (mut sent, mut parsed) = (0, 0);
    for name in PROGRAMS {
        let program = program(name);
        for seed in 1..20 {
            let [mut native, mut oracle] = both(&program, &config);
            fill(&mut native, &mut Random::new(seed));
            fill(&mut oracle, &mut Random::new(seed));
            let mut random = Random::new(seed << 32 | 1);
            let (mut pool, mut out) = (FramePool::default(), [Vec::new(), Vec::new()]);
            for i in 0..60 {
                let mut bytes = random.frame(&program.image);
                // What a zsr program sends to itself: a pass of some event, of one of few workers and producers.
                if random.next(2) == 0 && bytes.len() > 24 {
                    let event = random.next(48) as u8;
                    let (worker, producer) = (random.next(2) as u8, random.next(2) as u8);
                    bytes[12..20].copy_from_slice(&[0x88, 0xb5, event, 0, 0, worker, 0, producer]);
                }
                let port = random.pick(&[0, 1, 2, 3, 4, 5, 500, 500]);
                for (s, out) in [&mut native, &mut oracle].into_iter().zip(&mut out) {
                    let frame = Frame::copy_from(&bytes).expect("short");
                    s.process(i * 1000, port, frame, &mut pool, out);
                }
                let [a, b] = out
                    .each_mut()
                    .map(|o| o.drain(..).map(|(port, f)| (port, f.bytes().to_vec())).collect::<Vec<_>>());
                let what = format!("{name}, seed {seed}, frame {i}: {bytes:02x?}");
                assert_eq!(a, b, "{what}");
                assert_eq!(difference(&program.image, &native.core, &oracle.core), None, "{what}");
                assert_eq!(native.stats(), oracle.stats(), "{what}");
                sent += a.len();
                parsed += usize::from(native.core.cursor > 14);
            }
        }
    }
    assert!(sent > 500 && parsed > 500, "{sent} frames sent, {parsed} parsed beyond Ethernet");
}

/// Appends random code to an image and makes it the ingress.
struct Writer<'a> {
    image: Image,
    random: &'a mut Random,
    /// Slots to read and write.
    slots: Vec<R>,
    constants: Vec<R>,
}

impl Writer<'_> {
    fn any(&mut self) -> R {
        if self.random.next(3) == 0 {
            self.random.pick(&self.constants)
        } else {
            self.random.pick(&self.slots)
        }
    }

    fn index(&mut self) -> R {
        if self.random.next(2) == 0 { self.any() } else { self.random.pick(&self.constants[..4]) }
    }

    fn op(&mut self, end: Pc) -> Op {
        let here = self.image.code.len() as Pc;
        let (d, a, b) = (self.random.pick(&self.slots), self.any(), self.any());
        let m = self.random.pick(&self.constants);
        let k = self.random.next(63) as u8 + 1;
        let t = here + 1 + self.random.next((end - here) as usize) as Pc;
        let cmp = self.random.pick(&[Cmp::Eq, Cmp::Ne, Cmp::LtU, Cmp::GeU, Cmp::LtS, Cmp::GeS]);
        let n = 1 + self.random.next(3) as u8;
        let w = 1 + self.random.next(usize::from(n) * 64) as u16;
        let fixed: Vec<u16> = (0..self.image.headers.len() as u16)
            .filter(|h| !self.image.headers[*h as usize].metadata)
            .collect();
        let h = self.random.pick(&fixed);
        let varbit = self.image.headers[h as usize].var.is_some();
        let stack = self.random.next(self.image.stacks.len()) as u16;
        let reg = self.random.next(self.image.registers.len()) as u16;
        let narrow = self.image.registers.get(reg as usize).is_some_and(|r| r.width <= 64);
        let counter = self.random.next(self.image.counters.len()) as u16;
        let calc = self.random.next(self.image.calcs.len()) as u16;
        let idx = self.index();
        match self.random.next(56) {
            0 => Op::Mov { d, a, m },
            1 => Op::Copy { d, a },
            2 => {
                let first = self.image.pairs.len() as u32;
                for _ in 0..n {
                    let pair = (self.random.pick(&self.slots), self.any());
                    self.image.pairs.push(pair);
                }
                Op::Copies { first, n: n.into() }
            }
            3 => Op::Add { d, a, b, m },
            4 => Op::Sub { d, a, b, m },
            5 => Op::Mul { d, a, b, m },
            6 => Op::And { d, a, b },
            7 => Op::Or { d, a, b, m },
            8 => Op::Xor { d, a, b, m },
            9 => Op::Not { d, a, m },
            10 => Op::Shl { d, a, b, m },
            11 => Op::ShrU { d, a, b, m },
            12 => Op::ShrS { d, a, b, m },
            13 => Op::ShlK { d, a, k, m },
            14 => Op::ShrK { d, a, k, m },
            15 => Op::Div { d, a, b, m },
            16 => Op::Rem { d, a, b, m },
            17 => Op::Sext { d, a, w: k, m },
            18 => Op::SatU { d, a, w: k, m },
            19 => Op::SatS { d, a, w: k, m },
            20 => Op::Set { d, a, b, cmp },
            21 => Op::Slice { d, a: self.random.pick(&self.slots), k, m },
            22 => Op::Jmp { t },
            23 => Op::JmpBack { t: here - self.random.next(4).min(here as usize) as Pc },
            24..=27 => Op::Br { a, b, cmp, t },
            28 => Op::BrEq { a, b, t },
            29 => Op::BrNe { a, b, t },
            30 => Op::BrZ { a, t },
            31 => Op::BrNz { a, t },
            32 => Op::Wide {
                op: self.random.pick(&[WideOp::Add, WideOp::Xor, WideOp::Shl]),
                d,
                a: d,
                b: a,
                n: 1,
            },
            33 => Op::WideStore { d, a: d, n: 1, w: w.min(63) },
            34 => Op::WideSet { d, a, b, n: 1, cmp },
            35 => Op::LoadIdx { d, base: self.slots[0], idx, stride: self.constants[1], count: 4 },
            36 => Op::StoreIdx { a, base: self.slots[0], idx, stride: self.constants[1], count: 4 },
            37 => Op::SetValid { h },
            38 => Op::SetInvalid { h },
            39 => Op::CopyHeader { d: h, s: self.random.pick(&fixed) },
            40 if narrow => Op::RegRead { d, reg, idx, m },
            41 if narrow => Op::RegWrite { reg, idx, a },
            42 if !self.image.counters.is_empty() => Op::Count { counter, idx },
            43 if !self.image.calcs.is_empty() => Op::Hash { d, calc, base: a, size: b, m },
            44 | 45 if !self.image.calcs.is_empty() => Op::Calc { d, calc, m },
            46 if !self.image.calcs.is_empty() => Op::CheckSum { a, calc },
            47 => Op::Random { d, lo: a, hi: b, m },
            48 => Op::Drop,
            49 => self.random.pick(&[Op::Exit, Op::BrExit { t }, Op::End, Op::ParseError { a }, Op::Guard]),
            50 | 51 if !varbit => Op::Extract { h },
            50 => Op::ExtractVar { h, len: a },
            52 if !self.image.stacks.is_empty() => Op::ExtractNext { stack },
            53 => Op::Lookahead { d, bit: self.random.next(100) as u32, width: k },
            54 => Op::Advance { a },
            55 if self.random.next(4) == 0 => {
                Op::Apply { t: self.random.next(self.image.tables.len()) as u16 }
            }
            _ => Op::Digest { a },
        }
    }
}

#[test]
fn random_code() {
    let mut ran = 0;
    for seed in 1..=300 {
        let mut random = Random::new(seed);
        // The last one takes long to compile.
        let name = random.pick(&PROGRAMS[..5]);
        let mut image = load(&text(name), false).expect("a sound program");
        let first = image.first_const + image.consts.len();
        image.consts.extend([0, 1, 2, 3, 8, 64, 65, 0xff, 0xffff, 0xff_ffff, 0xffff_ffff, u64::MAX, 1 << 63]);
        let constants = (first as R..(first + 13) as R).collect();
        let mut slots: Vec<R> = (60_000..60_012).collect();
        slots.extend(image.metadata_slots as R..image.phv_slots.min(image.metadata_slots + 60) as R);
        // Validity is 0 or 1, whatever happens.
        let bases: Vec<R> = image.headers.iter().map(|h| h.base).collect();
        slots.retain(|s| !bases.contains(s));
        let start = image.code.len() as Pc;
        let end = start + 4 + random.next(60) as Pc;
        let mut w = Writer { image, random: &mut random, slots, constants };
        while (w.image.code.len() as Pc) < end {
            let op = w.op(end);
            w.image.code.push(op);
        }
        w.image.code.push(Op::End);
        let Writer { mut image, slots, .. } = w;
        image.ingress = start;
        // In every second program a further pass keeps all fields, so that none is known to be 0.
        if seed % 2 == 0 {
            image.field_lists.insert(u64::MAX, (0..image.phv_slots).map(|r| (r as R, 1)).collect());
        }
        let zeros = super::facts::zeros(&image, Entry::Ingress).unwrap();
        let native = Native::compile(&image).ok();
        assert!(image.native.set(native).is_ok());
        let program = Program { image: Arc::new(image) };
        let image = &program.image;
        let config = SwitchConfig { loop_limit: 20, ..SwitchConfig::default() };
        let mut switches = both(&program, &config);
        let fill_seed = seed | 1 << 40;
        switches.iter_mut().for_each(|s| fill(s, &mut Random::new(fill_seed)));
        for round in 0..10 {
            let frame = random.frame(image);
            let values: Vec<u64> = slots.iter().map(|_| random.number()).collect();
            let cursor = random.next(frame.len().min(20) + 1);
            let [a, b] = switches.each_mut().map(|s| {
                let c = &mut s.core;
                slots.iter().zip(&values).for_each(|(r, v)| c.slots[*r as usize] = *v);
                zeros.iter().for_each(|r| c.slots[*r as usize] = 0);
                (c.cursor, c.loops, c.exit) = (cursor, 0, false);
                let result = c.run(image, Entry::Ingress, &frame);
                let mut written = Frame::new();
                c.deparse(image, &mut written, |f, _, size| f.grow_back(size).is_some());
                (result, written.bytes().to_vec())
            });
            let [native, oracle] = &switches;
            let what = format!("{name}, seed {seed}, round {round}: {:?}", &image.code[start as usize..]);
            assert_eq!(a, b, "{what}");
            assert_eq!(difference(image, &native.core, &oracle.core), None, "{what}");
            ran += usize::from(a.0.is_ok());
        }
    }
    assert!(ran > 1500, "{ran}");
}

#[test]
fn this_host_has_native_code() {
    let known = cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));
    for name in PROGRAMS {
        assert!(!known || program(name).is_native(), "{name}");
    }
}

#[test]
fn a_program_beyond_the_limit_is_interpreted() {
    let mut image = load(&text("tables"), false).expect("a sound program");
    image.code.extend(vec![Op::Exit; super::MAX_OPS]);
    image.code.push(Op::End);
    image.ingress = (image.code.len() - super::MAX_OPS) as Pc;
    assert!(Native::compile(&image).is_err());
}
