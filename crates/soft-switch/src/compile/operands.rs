//! Which slots an instruction reads and writes: what the optimizer needs to know.

use crate::op::{Op, R, WideOp};

/// The effect of an instruction on slots, besides its single-slot reads.
pub(crate) enum Writes {
    /// Nothing.
    None,
    /// One slot or a few in a row, and nothing else happens: the instruction is useless if they are never read.
    Pure(R, usize),
    /// One slot or a few in a row, and state besides.
    Slots(R, usize),
    /// Slots that are not known here (headers, or whatever an action does).
    Unknown,
}

impl Op {
    /// Calls `f` on every slot that is read by itself, constant masks apart; `f` may rename it.
    pub(crate) fn reads(&mut self, f: &mut dyn FnMut(&mut R)) {
        match self {
            Op::Mov { a, .. }
            | Op::Copy { a, .. }
            | Op::Not { a, .. }
            | Op::ShlK { a, .. }
            | Op::ShrK { a, .. }
            | Op::Sext { a, .. }
            | Op::SatU { a, .. }
            | Op::SatS { a, .. }
            | Op::BrZ { a, .. }
            | Op::BrNz { a, .. }
            | Op::SetValidDyn { a }
            | Op::SetInvalidDyn { a }
            | Op::ValidDyn { a, .. }
            | Op::Digest { a }
            | Op::Truncate { a }
            | Op::Advance { a }
            | Op::ParseError { a }
            | Op::CheckSum { a, .. } => f(a),
            Op::Add { a, b, .. }
            | Op::Sub { a, b, .. }
            | Op::Mul { a, b, .. }
            | Op::And { a, b, .. }
            | Op::Or { a, b, .. }
            | Op::Xor { a, b, .. }
            | Op::Shl { a, b, .. }
            | Op::ShrU { a, b, .. }
            | Op::ShrS { a, b, .. }
            | Op::Div { a, b, .. }
            | Op::Rem { a, b, .. }
            | Op::Set { a, b, .. }
            | Op::EqHeader { a, b, .. }
            | Op::Br { a, b, .. }
            | Op::BrEq { a, b, .. }
            | Op::BrNe { a, b, .. } => {
                f(a);
                f(b);
            }
            Op::LoadIdx { idx, .. }
            | Op::Elem { idx, .. }
            | Op::UnionElem { idx, .. }
            | Op::RegRead { idx, .. }
            | Op::RegReadWide { idx, .. }
            | Op::RegWriteWide { idx, .. }
            | Op::Count { idx, .. }
            | Op::Meter { idx, .. } => f(idx),
            Op::StoreIdx { a, idx, .. } | Op::RegWrite { a, idx, .. } => {
                f(a);
                f(idx);
            }
            Op::CopyHeaderDyn { d, s } => {
                f(d);
                f(s);
            }
            Op::Push { n, .. } | Op::Pop { n, .. } | Op::PushUnion { n, .. } | Op::PopUnion { n, .. } => f(n),
            Op::Hash { base, size, .. } => {
                f(base);
                f(size);
            }
            Op::Random { lo, hi, .. } => {
                f(lo);
                f(hi);
            }
            Op::Clone { session, list } => {
                f(session);
                f(list);
            }
            Op::Resubmit { list } | Op::Recirculate { list } => f(list),
            Op::ExtractVar { len, .. }
            | Op::ExtractVarNext { len, .. }
            | Op::ExtractVarNextUnion { len, .. } => {
                f(len);
            }
            Op::Wide { op: WideOp::Shl | WideOp::Shr, b, .. } => f(b),
            _ => {}
        }
    }

    /// Calls `f` with the runs of slots that are read together.
    pub(crate) fn range_reads(&self, f: &mut dyn FnMut(R, usize)) {
        match *self {
            Op::WideLoad { a, s, .. } => f(a, s as usize),
            Op::Wide { a, b, n, .. } => {
                f(a, n as usize);
                f(b, n as usize);
            }
            Op::WideNot { a, n, .. }
            | Op::WideStore { a, n, .. }
            | Op::WideSext { a, n, .. }
            | Op::WideSat { a, n, .. }
            | Op::RegWriteWide { a, n, .. } => f(a, n as usize),
            Op::WideSet { a, b, n, .. } => {
                f(a, n as usize);
                f(b, n as usize);
            }
            Op::Slice { a, .. } => f(a, 2),
            // Varbits are as long as a header can be.
            Op::CopyVarbit { a, .. } => f(a, 1200),
            Op::EqVarbit { a, b, .. } => {
                f(a, 1200);
                f(b, 1200);
            }
            _ => {}
        }
    }

    /// Whether the instruction reads slots that neither [`reads`](Self::reads) nor [`range_reads`](Self::range_reads) nor
    /// its calculation names: those of headers and stacks, by their numbers, or by the program's lists.
    pub(crate) fn reads_others(&self) -> bool {
        match self {
            Op::Args { .. } | Op::Drop => false,
            Op::LoadIdx { .. }
            | Op::Elem { .. }
            | Op::UnionElem { .. }
            | Op::ValidDyn { .. }
            | Op::EqHeader { .. }
            | Op::EqVarbit { .. }
            | Op::BrSet { .. }
            | Op::Note { .. } => true,
            // What writes such slots reads them, too.
            op => matches!(op.writes(), Writes::Unknown),
        }
    }

    /// The slots that the instruction writes.
    pub(crate) fn writes(&self) -> Writes {
        match *self {
            Op::Mov { d, .. }
            | Op::Copy { d, .. }
            | Op::Add { d, .. }
            | Op::Sub { d, .. }
            | Op::Mul { d, .. }
            | Op::And { d, .. }
            | Op::Or { d, .. }
            | Op::Xor { d, .. }
            | Op::Not { d, .. }
            | Op::Shl { d, .. }
            | Op::ShrU { d, .. }
            | Op::ShrS { d, .. }
            | Op::ShlK { d, .. }
            | Op::ShrK { d, .. }
            | Op::Div { d, .. }
            | Op::Rem { d, .. }
            | Op::Sext { d, .. }
            | Op::SatU { d, .. }
            | Op::SatS { d, .. }
            | Op::Set { d, .. }
            | Op::Slice { d, .. }
            | Op::Arg { d, .. }
            | Op::LoadIdx { d, .. }
            | Op::Elem { d, .. }
            | Op::UnionElem { d, .. }
            | Op::ValidDyn { d, .. }
            | Op::EqHeader { d, .. }
            | Op::EqVarbit { d, .. }
            | Op::WideSet { d, .. } => Writes::Pure(d, 1),
            Op::WideLoad { d, n, .. }
            | Op::Wide { d, n, .. }
            | Op::WideNot { d, n, .. }
            | Op::WideStore { d, n, .. }
            | Op::WideSext { d, n, .. }
            | Op::WideSat { d, n, .. } => Writes::Pure(d, n as usize),
            Op::RegRead { d, .. }
            | Op::Meter { d, .. }
            | Op::Hash { d, .. }
            | Op::Calc { d, .. }
            | Op::Random { d, .. }
            | Op::Lookahead { d, .. } => Writes::Slots(d, 1),
            Op::RegReadWide { d, n, .. } => Writes::Slots(d, n as usize),
            Op::Jmp { .. }
            | Op::JmpBack { .. }
            | Op::Br { .. }
            | Op::BrEq { .. }
            | Op::BrNe { .. }
            | Op::BrZ { .. }
            | Op::BrNz { .. }
            | Op::BrExit { .. }
            | Op::BrSet { .. }
            | Op::RegWrite { .. }
            | Op::RegWriteWide { .. }
            | Op::Count { .. }
            | Op::Digest { .. }
            | Op::Clone { .. }
            | Op::Resubmit { .. }
            | Op::Recirculate { .. }
            | Op::Truncate { .. }
            | Op::AssertFailed { .. }
            | Op::Note { .. }
            | Op::Exit
            | Op::End
            | Op::Ret
            | Op::Guard
            | Op::Advance { .. }
            | Op::ParseError { .. }
            | Op::CheckSum { .. } => Writes::None,
            // Made from copies when all else is done.
            Op::Copies { .. } | Op::Args { .. } => Writes::Unknown,
            Op::StoreIdx { .. }
            | Op::SetValid { .. }
            | Op::SetInvalid { .. }
            | Op::SetValidDyn { .. }
            | Op::SetInvalidDyn { .. }
            | Op::CopyHeader { .. }
            | Op::CopyHeaderDyn { .. }
            | Op::CopyVarbit { .. }
            | Op::Push { .. }
            | Op::Pop { .. }
            | Op::PushUnion { .. }
            | Op::PopUnion { .. }
            | Op::Drop
            | Op::Apply { .. }
            | Op::Extract { .. }
            | Op::ExtractNext { .. }
            | Op::ExtractNextUnion { .. }
            | Op::ExtractVar { .. }
            | Op::ExtractVarNext { .. }
            | Op::ExtractVarNextUnion { .. } => Writes::Unknown,
        }
    }

    /// Where the instruction may jump to (a label, until the code is finished).
    pub(crate) fn target_mut(&mut self) -> Option<&mut crate::op::Pc> {
        match self {
            Op::Jmp { t }
            | Op::JmpBack { t }
            | Op::Br { t, .. }
            | Op::BrEq { t, .. }
            | Op::BrNe { t, .. }
            | Op::BrZ { t, .. }
            | Op::BrNz { t, .. }
            | Op::BrSet { t, .. }
            | Op::BrExit { t } => Some(t),
            _ => None,
        }
    }

    /// Where the instruction may jump to.
    pub(crate) fn target(mut self) -> Option<crate::op::Pc> {
        self.target_mut().copied()
    }

    /// The calculation that the instruction runs.
    pub(crate) fn calc(&mut self) -> Option<&mut u16> {
        match self {
            Op::Hash { calc, .. } | Op::Calc { calc, .. } | Op::CheckSum { calc, .. } => Some(calc),
            _ => None,
        }
    }
}
