//! Compiles calculations (field lists with an algorithm) and checksums.

use super::asm::Asm;
use crate::exec::hash::Algo;
use crate::exec::plan::{Pack, Piece, field_pieces};
use crate::load::big::Big;
use crate::load::layout::Layout;
use crate::load::node::{Node, Result};
use crate::op::R;

/// A run of a calculation's input that is there, or not, as one.
#[derive(Clone, Debug)]
pub(crate) enum Segment {
    /// Fields and constants; `valid` is the slot of their header's validity (`None`: always there).
    Pack { valid: Option<R>, pack: Pack },
    /// A varbit field of a header; `valid` as above.
    Var { valid: Option<R>, header: u16 },
    /// A whole header with varbit.
    Header { valid: Option<R>, header: u16 },
}

/// A named calculation.
#[derive(Clone, Debug)]
pub(crate) struct CalcPlan {
    pub name: String,
    pub algo: Algo,
    pub segments: Vec<Segment>,
    pub payload: bool,
    /// Most bytes of its input without the payload.
    pub max_bytes: usize,
}

impl CalcPlan {
    pub(crate) fn load(n: &Node, layout: &Layout, asm: &mut Asm) -> Result<CalcPlan> {
        n.allow(&["name", "id", "algo", "input"])?;
        let name = n.get("name")?.str()?.to_string();
        Self::build(name, &n.get("algo")?, &n.get("input")?, layout, asm)
    }

    /// A calculation without name, such as a selector's.
    pub(crate) fn build(
        name: String,
        algo: &Node,
        input: &Node,
        layout: &Layout,
        asm: &mut Asm,
    ) -> Result<CalcPlan> {
        let Some(parsed) = Algo::named(algo.str()?) else {
            return algo.unsupported(format!("hash algorithm '{}'", algo.str()?));
        };
        let mut b = Builder { layout, segments: Vec::new(), pieces: Vec::new(), valid: None };
        let mut payload = false;
        for i in input.array()? {
            i.allow(&["type", "value", "bitwidth"])?;
            match i.get("type")?.str()? {
                "field" => {
                    let f = layout.field(&i.get("value")?)?;
                    let h = &layout.headers[f.header];
                    // A header's validity bit can be read at any time.
                    let hidden = f.slot as usize == h.base;
                    let valid = (!h.metadata && !hidden).then_some(h.base as R);
                    if f.varbit {
                        b.flush();
                        b.segments.push(Segment::Var { valid, header: f.header as u16 });
                    } else {
                        b.field(valid, f.slot, f.width);
                    }
                }
                "hexstr" => {
                    let width = i.get("bitwidth")?.uint(4096)? as u32;
                    let value = Big::hex(&i.get("value")?)?;
                    if width > 0 {
                        let limbs = value.twos((width as usize).div_ceil(64));
                        let slot = asm.konst_wide(limbs);
                        b.constant(slot, width);
                    }
                }
                "header" => b.header(layout.header(&i.get("value")?)?),
                "payload" => payload = true,
                other => return i.unsupported(format!("calculation input '{other}'")),
            }
        }
        b.flush();
        let bits = |s: &Segment| match s {
            Segment::Pack { pack, .. } => pack.bits,
            Segment::Var { header, .. } | Segment::Header { header, .. } => {
                let ty = layout.header_type(*header as usize);
                ty.fixed_bits as usize
                    + ty.fields.iter().filter(|f| f.varbit).map(|f| f.width as usize).sum::<usize>()
            }
        };
        let total: usize = b.segments.iter().map(bits).sum();
        Ok(CalcPlan { name, algo: parsed, segments: b.segments, payload, max_bytes: total.div_ceil(8) + 8 })
    }
}

struct Builder<'a> {
    layout: &'a Layout,
    segments: Vec<Segment>,
    pieces: Vec<Piece>,
    valid: Option<R>,
}

impl Builder<'_> {
    fn flush(&mut self) {
        if !self.pieces.is_empty() {
            self.segments.push(Segment::Pack { valid: self.valid, pack: Pack::new(&self.pieces) });
            self.pieces.clear();
        }
    }

    fn field(&mut self, valid: Option<R>, slot: R, width: u32) {
        if self.valid != valid {
            self.flush();
            self.valid = valid;
        }
        if width > 0 {
            field_pieces(slot, width, &mut self.pieces);
        }
    }

    fn constant(&mut self, slot: R, width: u32) {
        // Constants are in the input whether or not a header next to them is.
        self.field(None, slot, width);
    }

    fn header(&mut self, h: usize) {
        let header = &self.layout.headers[h];
        let valid = (!header.metadata).then_some(header.base as R);
        if self.layout.header_type(h).varbit().is_some() {
            self.flush();
            self.segments.push(Segment::Header { valid, header: h as u16 });
            return;
        }
        for f in 0..self.layout.header_type(h).fields.len() {
            let r = self.layout.field_at(h, f);
            self.field(valid, r.slot, r.width);
        }
    }
}
