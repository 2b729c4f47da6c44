//! A loaded program as running needs it: code, plans, tables; immutable.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use crate::compile::calc::CalcPlan;
use crate::compile::parser::SetUse;
use crate::exec::core::{Entry, Register};
use crate::exec::plan::HeaderPlan;
use crate::info::ProgramInfo;
use crate::load::layout::FieldRef;
use crate::native::Native;
use crate::op::{Op, Pc, R};
use crate::table::TableDef;

/// Slots of the standard metadata; those that a program lacks are `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standard {
    pub ingress_port: R,
    pub egress_spec: R,
    pub egress_port: R,
    pub instance_type: R,
    pub packet_length: R,
    pub enq_timestamp: Option<R>,
    pub enq_qdepth: Option<R>,
    pub deq_timedelta: Option<R>,
    pub deq_qdepth: Option<R>,
    pub qid: Option<R>,
    pub ingress_timestamp: Option<FieldRef>,
    pub egress_timestamp: Option<FieldRef>,
    pub enq_timestamp_width: u32,
    pub mcast_grp: Option<R>,
    pub egress_rid: Option<R>,
    pub checksum_error: Option<R>,
    pub parser_error: Option<R>,
    pub priority: Option<R>,
}

impl Standard {
    /// All of them.
    pub(crate) fn slots(&self) -> impl Iterator<Item = R> {
        let some = [
            self.enq_timestamp,
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
            self.qid,
            self.ingress_timestamp.map(|f| f.slot),
            self.egress_timestamp.map(|f| f.slot),
            self.mcast_grp,
            self.egress_rid,
            self.checksum_error,
            self.parser_error,
            self.priority,
        ];
        let always =
            [self.ingress_port, self.egress_spec, self.egress_port, self.instance_type, self.packet_length];
        some.into_iter().flatten().chain(always)
    }
}

/// Numbers of the core library's parser errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreErrors {
    pub none: u64,
    pub too_short: u64,
    pub stack: u64,
    pub header_too_short: u64,
    pub timeout: u64,
    pub invalid_argument: u64,
}

/// A header stack: slot of the next index, header numbers.
#[derive(Clone, Debug)]
pub(crate) struct StackPlan {
    pub next: R,
    pub elems: Box<[u16]>,
}

/// A union stack: slot of the next index, header numbers of each union.
#[derive(Clone, Debug)]
pub(crate) struct UnionStackPlan {
    pub next: R,
    pub elems: Box<[Box<[u16]>]>,
}

/// By id: slots and limbs of the fields that survive a copy.
pub(crate) type FieldLists = HashMap<u64, Box<[(R, u8)]>>;

/// Everything that running needs; immutable.
pub(crate) struct Image {
    /// The JSON that it was loaded from.
    pub text: Box<str>,
    pub info: ProgramInfo,
    pub code: Vec<Op>,
    /// Pairs of slots that fused copies and arguments name.
    pub pairs: Vec<(R, R)>,
    /// The code as machine code, once it is compiled; `None` in it if this host can't have it.
    pub native: OnceLock<Option<Native>>,
    pub registers: Vec<Register>,
    pub counters: Vec<Range<usize>>,
    pub first_const: usize,
    pub consts: Vec<u64>,
    pub parser: Pc,
    pub verify: Pc,
    pub ingress: Pc,
    pub egress: Pc,
    /// Checksum updates, then the deparser's primitives.
    pub update: Pc,
    pub deparse: Pc,
    pub deparse_order: Vec<u16>,
    pub headers: Vec<HeaderPlan>,
    pub stacks: Vec<StackPlan>,
    pub union_stacks: Vec<UnionStackPlan>,
    pub calcs: Vec<CalcPlan>,
    pub asserts: Vec<AssertSite>,
    /// There if the program is traced.
    pub names: Option<crate::trace::Names>,
    pub actions: Vec<ActionPlan>,
    pub tables: Vec<TableDef>,
    /// Whether entries of any table can have an idle timeout: switches ask that in each of their rounds.
    pub has_idle_tables: bool,
    /// Selector hash of each profile: a calculation's number.
    pub selectors: Vec<Option<usize>>,
    /// Unit of each indirect meter.
    pub set_uses: Vec<SetUse>,
    /// By id: slots and limbs of the fields that survive a copy.
    pub field_lists: FieldLists,
    /// By learn list id: the digest's number, and slots and widths of its fields.
    pub learn_lists: HashMap<u64, (usize, Vec<(R, u32)>)>,
    pub standard: Standard,
    pub errors: CoreErrors,
    /// Slots of metadata whose values matter: what a new packet must find at 0. Machine code needs fewer of them.
    pub metadata_runs: Vec<std::ops::Range<usize>>,
    pub metadata_slots: usize,
    pub phv_slots: usize,
}

impl Image {
    /// Where an entry's code starts.
    pub(crate) fn entry(&self, entry: Entry) -> Pc {
        match entry {
            Entry::Parser => self.parser,
            Entry::Verify => self.verify,
            Entry::Ingress => self.ingress,
            Entry::Egress => self.egress,
            Entry::Update => self.update,
            Entry::Deparse => self.deparse,
        }
    }

    /// The value of a slot if it is a constant.
    pub(crate) fn const_value(&self, r: R) -> Option<u64> {
        self.consts.get((r as usize).checked_sub(self.first_const)?).copied()
    }
}

/// An `assert` or `assume`: as the program has it, and where.
#[derive(Clone, Debug)]
pub(crate) struct AssertSite {
    pub text: String,
    pub place: String,
}

/// Code and parameters of an action.
#[derive(Clone, Debug)]
pub(crate) struct ActionPlan {
    pub start: Pc,
    pub params: Vec<(usize, u32)>,
    pub words: usize,
    /// Whether it can exit.
    pub exits: bool,
}

/// By learn list id: the digest's number, and slots and widths of its fields.
pub(crate) type LearnLists = HashMap<u64, (usize, Vec<(R, u32)>)>;
