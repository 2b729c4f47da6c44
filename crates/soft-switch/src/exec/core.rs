//! The state that programs read and write: slots, tables, registers, counters, meters.

use std::ops::Range;

use super::hash::Algo;
use super::plan::Slots;
use crate::compile::calc::Segment;
use crate::control::CounterValue;
use crate::image::Image;
use crate::info::{CounterInfo, RegisterInfo};
use crate::meter::Meter;
use crate::native::Native;
use crate::op::Pc;
use crate::profile::Profile;
use crate::table::{Arena, Hot, NO_ACTION, Tables};

/// Why the parser ended early. A control ends so only with the packet: [`Core::condemned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// With a parser error.
    Error(u64),
}

/// Where code can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Parser,
    Verify,
    Ingress,
    Egress,
    Update,
    Deparse,
}

impl Entry {
    /// The entries that [`Core::run`] starts, in their order.
    pub(crate) const PACKET: [Entry; 4] = [Entry::Parser, Entry::Verify, Entry::Ingress, Entry::Egress];
}

/// A register array: where its words lie among [`Core::cells`], and how many make a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub first: usize,
    pub size: usize,
    pub limbs: usize,
    pub width: u32,
}

impl Register {
    /// The words of all its cells.
    pub(crate) fn words(&self) -> Range<usize> {
        self.first..self.first + self.size * self.limbs
    }

    /// The words of a cell.
    #[inline]
    pub(crate) fn cell(&self, index: usize) -> Option<Range<usize>> {
        let first = (index < self.size).then(|| self.first + index * self.limbs)?;
        Some(first..first + self.limbs)
    }

    /// The registers of a program, one after the other.
    pub(crate) fn layout(infos: &[RegisterInfo]) -> Vec<Register> {
        let mut first = 0;
        let place = |r: &RegisterInfo| {
            let limbs = (r.width as usize).div_ceil(64);
            let register = Register { first, size: r.size, limbs, width: r.width };
            first += r.size * limbs;
            register
        };
        infos.iter().map(place).collect()
    }
}

/// Where the cells of each counter lie among [`Core::counters`].
pub(crate) fn counter_layout(infos: &[CounterInfo]) -> Vec<Range<usize>> {
    let mut first = 0;
    let place = |c: &CounterInfo| {
        let cells = first..first + c.size;
        first = cells.end;
        cells
    };
    infos.iter().map(place).collect()
}

/// All state of a running program, and that of the packet at hand.
pub(crate) struct Core {
    pub slots: Box<Slots>,
    pub tables: Tables,
    pub profiles: Vec<Profile>,
    pub arena: Arena,
    /// The words of all registers, of the pipe at hand; never more or fewer.
    pub cells: Vec<u64>,
    /// The pipe at hand.
    pipe: u8,
    /// The words of all pipes, but for the one at hand, whose place is empty. Empty where there is one pipe.
    other_cells: Vec<Vec<u64>>,
    /// The cells of all counters; never more or fewer.
    pub counters: Vec<CounterValue>,
    pub meters: Vec<Vec<Meter>>,
    pub meter_bytes: Vec<bool>,
    /// Members of each value set: limbs per element.
    pub value_sets: Vec<Vec<Vec<Vec<u64>>>>,
    /// Algorithms of the calculations, which the control plane may give other parameters.
    pub algos: Vec<Algo>,
    pub algo_states: Vec<u64>,
    pub scratch: Vec<u8>,
    pub random: u64,
    pub drop_port: u64,
    pub loop_limit: u32,
    /// Whether the program's native code runs, if it has any.
    pub native: bool,
    /// Whether the entries of some table that the program gives entries may be changed.
    pub unlocked: bool,

    // The packet at hand.
    pub now_ns: u64,
    /// Bytes parsed: where the payload starts in the frame.
    pub cursor: usize,
    pub checksum_error: bool,
    pub exit: bool,
    /// First argument word of the action that runs.
    pub args: u32,
    /// Node to go on with behind it, if that depends on the look-up (native code only).
    pub next: Pc,
    /// The error that ended the parser (native code only).
    pub stop: u64,
    /// bmv2's packet length register: what headers added and removed make of it.
    pub packet_length: u64,
    pub ingress_length: u64,
    pub clone: Option<(u16, u64)>,
    pub resubmit: u64,
    pub recirculate: u64,
    pub digest: u64,
    pub truncate: usize,
    pub loops: u32,

    pub assert_failures: u64,
    /// Failures by assertion.
    pub assert_counts: Vec<u64>,
    /// Whether a packet is dropped for which one does not hold.
    pub assert_drops: bool,
    /// Whether that became of the packet at hand.
    pub condemned: bool,
    pub loop_limit_hits: u64,
    pub bad_indices: u64,
    /// What a traced program has told.
    pub trace: Vec<String>,
}

impl Core {
    /// From now on registers are those of `pipe`.
    pub(crate) fn enter(&mut self, pipe: u8) {
        if pipe != self.pipe && usize::from(pipe) < self.other_cells.len() {
            std::mem::swap(&mut self.cells, &mut self.other_cells[usize::from(self.pipe)]);
            self.pipe = pipe;
            std::mem::swap(&mut self.cells, &mut self.other_cells[usize::from(pipe)]);
        }
    }

    /// The words of all registers of `pipe`.
    pub(crate) fn cells_of(&self, pipe: u8) -> Option<&[u64]> {
        if pipe == self.pipe {
            Some(&self.cells)
        } else {
            self.other_cells.get(usize::from(pipe)).map(Vec::as_slice)
        }
    }

    /// The words of all registers, pipe by pipe.
    pub(crate) fn all_cells(&mut self) -> impl Iterator<Item = &mut Vec<u64>> {
        let others = self.other_cells.iter_mut().filter(|cells| !cells.is_empty());
        std::iter::once(&mut self.cells).chain(others)
    }

    pub(crate) fn new(image: &Image, seed: u64, drop_port: u64, loop_limit: u32, pipes: &[u8]) -> Core {
        let words = image.registers.last().map_or(0, |r| r.words().end);
        let last_pipe = pipes.iter().copied().max().unwrap_or(0);
        let slots = vec![0u64; 65536].into_boxed_slice();
        let mut slots: Box<Slots> = match slots.try_into() {
            Ok(s) => s,
            Err(_) => Box::new([0; 65536]),
        };
        slots[image.first_const..][..image.consts.len()].copy_from_slice(&image.consts);
        Core {
            slots,
            tables: Tables::new(&image.tables),
            profiles: image.info.profiles.iter().map(|_| Profile::default()).collect(),
            arena: Arena::default(),
            cells: vec![0; words],
            pipe: 0,
            other_cells: match last_pipe {
                0 => Vec::new(),
                last => (0..=last).map(|pipe| vec![0; if pipe == 0 { 0 } else { words }]).collect(),
            },
            counters: vec![CounterValue::default(); image.counters.last().map_or(0, |c| c.end)],
            meters: image.info.meters.iter().map(|m| vec![Meter::default(); m.size]).collect(),
            meter_bytes: image.info.meters.iter().map(|m| m.unit == crate::info::MeterUnit::Bytes).collect(),
            value_sets: image.info.value_sets.iter().map(|_| Vec::new()).collect(),
            algos: image.calcs.iter().map(|c| c.algo.clone()).collect(),
            algo_states: image
                .calcs
                .iter()
                .map(|c| if matches!(c.algo, Algo::Random) { seed } else { 0 })
                .collect(),
            scratch: vec![0; image.calcs.iter().map(|c| c.max_bytes).max().unwrap_or(0)],
            random: seed,
            drop_port,
            loop_limit,
            native: true,
            unlocked: false,
            now_ns: 0,
            cursor: 0,
            checksum_error: false,
            exit: false,
            args: 0,
            next: 0,
            stop: 0,
            packet_length: 0,
            ingress_length: 0,
            clone: None,
            resubmit: 0,
            recirculate: 0,
            digest: 0,
            truncate: usize::MAX,
            loops: 0,
            assert_failures: 0,
            assert_counts: vec![0; image.asserts.len()],
            assert_drops: false,
            condemned: false,
            loop_limit_hits: 0,
            bad_indices: 0,
            trace: Vec::new(),
        }
    }

    /// Runs code of [`Entry::PACKET`] to its end. `data` is the whole frame; the payload is what lies behind the cursor.
    /// `Err` is a parser error.
    #[inline]
    pub(crate) fn run(&mut self, image: &Image, entry: Entry, data: &[u8]) -> Result<(), Stop> {
        match self.native_of(image) {
            Some(native) => native.run(self, image, entry, data),
            None if image.names.is_some() => self.run_and_tell(image, entry, data),
            None => self.interpret(image, image.entry(entry), data),
        }
    }

    /// Clears the metadata.
    #[inline]
    pub(crate) fn clear_metadata(&mut self, image: &Image) {
        for r in self.native_of(image).map_or(&image.metadata_runs[..], Native::cleared) {
            self.slots[r.clone()].fill(0);
        }
    }

    /// The machine code that runs.
    #[inline]
    pub(crate) fn native_of<'i>(&self, image: &'i Image) -> Option<&'i Native> {
        image.native.get()?.as_ref().filter(|_| self.native)
    }

    /// Clears metadata and headers: a packet that has not been parsed yet.
    #[inline]
    pub(crate) fn clear_packet(&mut self, image: &Image) {
        self.clear_metadata(image);
        self.slots[image.metadata_slots..image.phv_slots].fill(0);
    }

    /// Looks a table up; returns the action's code, the next node's, and the first argument word.
    #[inline]
    pub(crate) fn apply(&mut self, image: &Image, t: usize) -> (Pc, Pc, u32) {
        let found = self.tables[t].lookup.find(&image.tables[t].key, &self.slots);
        self.found(image, t, found)
    }

    /// [`apply`](Self::apply) once the entry is known by its number plus 1 (0: there is none).
    #[inline(always)]
    pub(crate) fn found(&mut self, image: &Image, t: usize, found: u32) -> (Pc, Pc, u32) {
        let table = &self.tables[t];
        let hot = table.hot[found as usize];
        if found != 0 && !table.plain {
            self.note_hit(image, t, found as usize - 1);
        }
        match hot {
            Hot::Call { action, next, args } => (action, next, args),
            indirect => self.indirect(image, t, indirect, found != 0),
        }
    }

    /// The changes that a hit makes besides its action.
    #[inline(never)]
    fn note_hit(&mut self, image: &Image, t: usize, i: usize) {
        let def = &image.tables[t];
        let table = self.tables.hit(t);
        if def.counter
            && let Some(c) = table.counters.get_mut(i)
        {
            c.packets += 1;
            c.bytes += self.ingress_length;
        }
        if def.idle
            && let Some(t) = table.last_hit.get_mut(i)
        {
            *t = self.now_ns;
        }
        if let Some((target, bytes)) = def.meter
            && let Some(m) = table.meters.get_mut(i)
        {
            let cost = if bytes { self.ingress_length } else { 1 };
            self.slots[target as usize] = m.execute(self.now_ns / 1000, cost);
        }
    }

    /// Follows an entry to a member of its action profile.
    #[inline(never)]
    fn indirect(&mut self, image: &Image, t: usize, hot: Hot, hit: bool) -> (Pc, Pc, u32) {
        let def = &image.tables[t];
        let nothing = def.behind(None, hit);
        let Some(p) = def.profile else { return (NO_ACTION, nothing, 0) };
        let member = match hot {
            Hot::Member(m) => Some(m),
            Hot::Group(g) => {
                let hash = image.selectors[p].map_or(0, |c| self.calculate(image, c, &[]));
                self.profiles[p].choose(g, hash)
            }
            Hot::Call { .. } => None,
        };
        let Some(m) = member.and_then(|m| self.profiles[p].hot(m)) else {
            // An empty group does nothing, like PSA's `psa_empty_group_action` where the program sets none.
            return (NO_ACTION, nothing, 0);
        };
        (image.actions[m.action].start, def.behind(Some(m.action), hit), m.args)
    }

    /// Runs a calculation over the fields as they are, and the payload.
    #[inline]
    pub(crate) fn calculate(&mut self, image: &Image, calc: usize, payload: &[u8]) -> u64 {
        let plan = &image.calcs[calc];
        let buf = &mut self.scratch[..];
        let mut bits = 0;
        // Only bit-wise writes need zeroed bytes; they come after something unaligned, or with a varbit.
        let mut zeroed = false;
        for s in &plan.segments {
            match s {
                Segment::Pack { valid, pack } => {
                    if valid.is_some_and(|v| self.slots[v as usize] == 0) {
                        continue;
                    }
                    if bits % 8 == 0 {
                        pack.run(&self.slots, &mut buf[bits / 8..]);
                    } else {
                        zero_rest(buf, bits, &mut zeroed);
                        pack.run_at(&self.slots, buf, bits);
                    }
                    bits += pack.bits;
                    zeroed = false;
                }
                Segment::Var { valid, header } | Segment::Header { valid, header } => {
                    if valid.is_some_and(|v| self.slots[v as usize] == 0) {
                        continue;
                    }
                    let Some(var) = &image.headers[*header as usize].var else { continue };
                    zero_rest(buf, bits, &mut zeroed);
                    bits += match s {
                        Segment::Var { .. } => var.pack_var(&self.slots, buf, bits),
                        _ => var.pack(&self.slots, buf, bits),
                    };
                }
            }
        }
        let payload = if plan.payload { payload } else { &[] };
        let input = &self.scratch[..bits.div_ceil(8)];
        self.algos[calc].run([input, payload], &mut self.algo_states[calc])
    }

    /// Whether a value set has the key that one of its uses sees.
    pub(crate) fn in_set(&self, image: &Image, set_use: usize) -> bool {
        let u = &image.set_uses[set_use];
        self.value_sets[u.set].iter().any(|member| {
            u.elements.iter().zip(member).all(|((slot, _, mask), value)| {
                let key = self.slots[*slot as usize..].iter();
                value.iter().zip(mask).zip(key).all(|((v, m), k)| (v ^ k) & m == 0)
            })
        })
    }
}

/// Clears everything from a bit position on.
fn zero_rest(buf: &mut [u8], bits: usize, zeroed: &mut bool) {
    if *zeroed {
        return;
    }
    *zeroed = true;
    if !bits.is_multiple_of(8) {
        buf[bits / 8] &= 0xffu8 << (8 - bits % 8);
    }
    buf[bits.div_ceil(8)..].fill(0);
}
