//! Header types and instances, and where each field lives in the slot array.
//!
//! A header takes one slot for its validity, then its fields: one slot up to 64 bits, else 64-bit limbs, least
//! significant first. A varbit takes a slot for its length in bytes, then its bytes, eight to a slot. Metadata
//! comes first and in one piece. Elements of a stack follow each other, so that a slot can be found by index.

use std::collections::HashMap;

use super::node::{Node, Result};
use crate::info::HeaderTypeInfo;

/// Slots that headers may take; the rest of the array is for constants and temporaries.
const MAX_PHV: usize = 48 * 1024;
/// Widest field in bits.
pub(crate) const MAX_FIELD: u64 = 4096;

/// A field of a header type.
#[derive(Clone, Debug)]
pub(crate) struct FieldDef {
    pub name: String,
    /// Width in bits; for a varbit its largest.
    pub width: u32,
    pub signed: bool,
    pub varbit: bool,
    /// First slot, counted from the header's first.
    pub offset: usize,
}

/// A header type.
#[derive(Clone, Debug)]
pub(crate) struct HeaderType {
    pub name: String,
    pub fields: Vec<FieldDef>,
    /// Bits of all fields but a varbit.
    pub fixed_bits: u32,
    /// Slots of an instance, validity included.
    pub slots: usize,
}

impl HeaderType {
    pub(crate) fn varbit(&self) -> Option<usize> {
        self.fields.iter().position(|f| f.varbit)
    }
}

/// A header or metadata instance.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub name: String,
    pub ty: usize,
    pub metadata: bool,
    /// First slot: validity.
    pub base: usize,
    /// The union it belongs to.
    pub union: Option<usize>,
}

/// A stack of headers or of unions: slot of the next index, elements by index.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub name: String,
    pub ty: usize,
    pub next: usize,
    pub elems: Vec<usize>,
}

/// A header union.
#[derive(Clone, Debug)]
pub(crate) struct Union {
    pub name: String,
    pub ty: usize,
    pub members: Vec<usize>,
}

/// A union type: member names and header types.
#[derive(Clone, Debug)]
pub(crate) struct UnionType {
    pub name: String,
    pub members: Vec<(String, usize)>,
}

/// A field's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldRef {
    pub header: usize,
    pub slot: u16,
    pub width: u32,
    pub signed: bool,
    pub varbit: bool,
}

impl FieldRef {
    pub(crate) fn limbs(&self) -> usize {
        (self.width as usize).div_ceil(64).max(1)
    }
}

/// All headers and their places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub types: Vec<HeaderType>,
    pub headers: Vec<Header>,
    pub stacks: Vec<Stack>,
    pub unions: Vec<Union>,
    pub union_types: Vec<UnionType>,
    pub union_stacks: Vec<Stack>,
    aliases: HashMap<String, (String, String)>,
    header_names: HashMap<String, usize>,
    header_ids: HashMap<i64, usize>,
    /// Slots of metadata, which come first.
    pub metadata_slots: usize,
    /// Slots of everything that belongs to a packet.
    pub phv_slots: usize,
}

impl Layout {
    pub(crate) fn load(root: &Node) -> Result<Layout> {
        let mut l = Layout::default();
        l.load_types(root)?;
        l.load_instances(root)?;
        l.load_stacks(root)?;
        l.load_unions(root)?;
        l.place(root)?;
        for a in root.list("field_aliases")? {
            let target = a.at(1)?;
            let to = (target.at(0)?.str()?.to_string(), target.at(1)?.str()?.to_string());
            l.field(&target)?;
            l.aliases.insert(a.at(0)?.str()?.to_string(), to);
        }
        Ok(l)
    }

    pub(crate) fn fixed_types(&self) -> Vec<HeaderTypeInfo> {
        let fixed = self.types.iter().filter(|t| t.varbit().is_none());
        let fields = |t: &HeaderType| t.fields.iter().map(|f| (f.name.clone(), f.width)).collect();
        fixed.map(|t| HeaderTypeInfo { name: t.name.clone(), fields: fields(t) }).collect()
    }

    fn load_types(&mut self, root: &Node) -> Result<()> {
        for t in root.get("header_types")?.array()? {
            t.allow(&["name", "id", "fields", "length_exp", "max_length"])?;
            if t.opt("length_exp").is_some() {
                return t.unsupported("length_exp (P4_14 variable length)");
            }
            let max_bytes = t.opt("max_length").map_or(Ok(0), |n| n.uint(9216))? as usize;
            let mut ty = HeaderType {
                name: t.get("name")?.str()?.to_string(),
                fields: Vec::new(),
                fixed_bits: 0,
                slots: 1,
            };
            for f in t.get("fields")?.array()? {
                let parts = f.array()?;
                let Some(width) = parts.get(1) else { return f.err("a name and a width were expected") };
                let varbit = width.is_str();
                if varbit && (width.str()? != "*" || ty.varbit().is_some()) {
                    return f.err("at most one field, of width '*', may be variable");
                }
                let width = if varbit { 0 } else { width.uint(MAX_FIELD)? as u32 };
                let flag = |i: usize| parts.get(i).map_or(Ok(false), Node::flag);
                if flag(3)? {
                    return f.unsupported("saturating field");
                }
                let def = FieldDef {
                    name: parts[0].str()?.to_string(),
                    width,
                    signed: flag(2)?,
                    varbit,
                    offset: 0,
                };
                ty.fixed_bits += width;
                ty.fields.push(def);
            }
            let var_bytes = max_bytes.saturating_sub(ty.fixed_bits as usize / 8);
            for f in &mut ty.fields {
                f.offset = ty.slots;
                if f.varbit {
                    f.width = var_bytes as u32 * 8;
                    ty.slots += 1 + var_bytes.div_ceil(8);
                } else {
                    ty.slots += (f.width as usize).div_ceil(64).max(1);
                }
            }
            self.types.push(ty);
        }
        Ok(())
    }

    fn type_named(&self, n: &Node) -> Result<usize> {
        let name = n.str()?;
        let found = self.types.iter().position(|t| t.name == name);
        found.map_or_else(|| n.err(format!("there is no header type '{name}'")), Ok)
    }

    fn load_instances(&mut self, root: &Node) -> Result<()> {
        for h in root.get("headers")?.array()? {
            h.allow(&["name", "id", "header_type", "metadata", "pi_omit"])?;
            let name = h.get("name")?.str()?.to_string();
            let ty = self.type_named(&h.get("header_type")?)?;
            let metadata = h.get("metadata")?.bool()?;
            if !metadata && !self.types[ty].fixed_bits.is_multiple_of(8) {
                return h.err(format!("a header of {} bits is not whole bytes", self.types[ty].fixed_bits));
            }
            let index = self.headers.len();
            if self.header_names.insert(name.clone(), index).is_some()
                || self.header_ids.insert(h.get("id")?.int()?, index).is_some()
            {
                return h.err("another header has the same name or id");
            }
            self.headers.push(Header { name, ty, metadata, base: 0, union: None });
        }
        Ok(())
    }

    fn header_ids(&self, n: &Node, ty: Option<usize>) -> Result<Vec<usize>> {
        let mut out = Vec::new();
        for id in n.array()? {
            match self.header_ids.get(&id.int()?) {
                Some(&h) if ty.is_none_or(|t| self.headers[h].ty == t) => out.push(h),
                Some(_) => return id.err("this header has another type"),
                None => return id.err("no header has this id"),
            }
        }
        if out.is_empty() || out.len() > 255 {
            return n.err("1 to 255 elements were expected");
        }
        Ok(out)
    }

    fn load_stacks(&mut self, root: &Node) -> Result<()> {
        for s in root.list("header_stacks")? {
            s.allow(&["name", "id", "header_type", "header_ids", "size"])?;
            let ty = self.type_named(&s.get("header_type")?)?;
            let elems = self.header_ids(&s.get("header_ids")?, Some(ty))?;
            self.stacks.push(Stack { name: s.get("name")?.str()?.to_string(), ty, next: 0, elems });
        }
        Ok(())
    }

    fn load_unions(&mut self, root: &Node) -> Result<()> {
        for t in root.list("header_union_types")? {
            t.allow(&["name", "id", "headers"])?;
            let mut members = Vec::new();
            for m in t.get("headers")?.array()? {
                members.push((m.at(0)?.str()?.to_string(), self.type_named(&m.at(1)?)?));
            }
            self.union_types.push(UnionType { name: t.get("name")?.str()?.to_string(), members });
        }
        let type_of = |l: &Layout, n: &Node| {
            let name = n.str()?;
            let found = l.union_types.iter().position(|t| t.name == name);
            found.map_or_else(|| n.err(format!("there is no union type '{name}'")), Ok)
        };
        let mut ids = HashMap::new();
        for u in root.list("header_unions")? {
            u.allow(&["name", "id", "union_type", "header_ids", "pi_omit"])?;
            let ty = type_of(self, &u.get("union_type")?)?;
            let members = self.header_ids(&u.get("header_ids")?, None)?;
            let same = |(m, (_, t)): (&usize, &(String, usize))| self.headers[*m].ty == *t;
            if members.len() != self.union_types[ty].members.len()
                || !members.iter().zip(&self.union_types[ty].members).all(same)
            {
                return u.err("its headers are not those of its type");
            }
            let index = self.unions.len();
            ids.insert(u.get("id")?.int()?, index);
            for &m in &members {
                if self.headers[m].union.replace(index).is_some() {
                    return u.err("a header belongs to two unions");
                }
            }
            self.unions.push(Union { name: u.get("name")?.str()?.to_string(), ty, members });
        }
        for s in root.list("header_union_stacks")? {
            s.allow(&["name", "id", "union_type", "header_union_ids", "size"])?;
            let ty = type_of(self, &s.get("union_type")?)?;
            let mut elems = Vec::new();
            for id in s.get("header_union_ids")?.array()? {
                match ids.get(&id.int()?) {
                    Some(&u) if self.unions[u].ty == ty => elems.push(u),
                    _ => return id.err("no union of the right type has this id"),
                }
            }
            if elems.is_empty() || elems.len() > 255 {
                return s.err("1 to 255 elements were expected");
            }
            self.union_stacks.push(Stack { name: s.get("name")?.str()?.to_string(), ty, next: 0, elems });
        }
        Ok(())
    }

    /// Gives every header its slots.
    fn place(&mut self, root: &Node) -> Result<()> {
        let mut order: Vec<usize> = (0..self.headers.len()).filter(|&h| self.headers[h].metadata).collect();
        let metadata = order.len();
        for s in &self.stacks {
            order.extend(&s.elems);
        }
        for s in &self.union_stacks {
            for &u in &s.elems {
                order.extend(&self.unions[u].members);
            }
        }
        let mut seen = vec![false; self.headers.len()];
        for &h in &order {
            if std::mem::replace(&mut seen[h], true) {
                return root.err(format!("header '{}' is an element of two stacks", self.headers[h].name));
            }
        }
        order.extend((0..self.headers.len()).filter(|&h| !seen[h]));
        let mut next = 0;
        for (i, &h) in order.iter().enumerate() {
            if i == metadata {
                self.metadata_slots = next;
            }
            self.headers[h].base = next;
            next += self.types[self.headers[h].ty].slots;
        }
        if order.len() == metadata {
            self.metadata_slots = next;
        }
        for s in self.stacks.iter_mut().chain(&mut self.union_stacks) {
            s.next = next;
            next += 1;
        }
        if next > MAX_PHV {
            return root.unsupported(format!("headers of {next} slots; this switch has {MAX_PHV}"));
        }
        self.phv_slots = next;
        Ok(())
    }

    pub(crate) fn header_type(&self, header: usize) -> &HeaderType {
        &self.types[self.headers[header].ty]
    }

    /// The header that a string names.
    pub(crate) fn header(&self, n: &Node) -> Result<usize> {
        let name = n.str()?;
        let found = self.header_names.get(name).copied();
        found.map_or_else(|| n.err(format!("there is no header '{name}'")), Ok)
    }

    fn named(list: &[Stack], n: &Node, kind: &str) -> Result<usize> {
        let name = n.str()?;
        let found = list.iter().position(|s| s.name == name);
        found.map_or_else(|| n.err(format!("there is no {kind} '{name}'")), Ok)
    }

    pub(crate) fn stack(&self, n: &Node) -> Result<usize> {
        Self::named(&self.stacks, n, "header stack")
    }

    pub(crate) fn union_stack(&self, n: &Node) -> Result<usize> {
        Self::named(&self.union_stacks, n, "header union stack")
    }

    pub(crate) fn union(&self, n: &Node) -> Result<usize> {
        let name = n.str()?;
        let found = self.unions.iter().position(|s| s.name == name);
        found.map_or_else(|| n.err(format!("there is no header union '{name}'")), Ok)
    }

    /// The place of field number `f` of a header.
    pub(crate) fn field_at(&self, header: usize, f: usize) -> FieldRef {
        let def = &self.header_type(header).fields[f];
        let slot = (self.headers[header].base + def.offset) as u16;
        FieldRef { header, slot, width: def.width, signed: def.signed, varbit: def.varbit }
    }

    /// The field that a pair `[header, field]` names; `$valid$` is a header's validity.
    pub(crate) fn field(&self, n: &Node) -> Result<FieldRef> {
        let (h, f) = (n.at(0)?, n.at(1)?);
        let (hn, fname) = (h.str()?, f.str()?);
        if let Some(r) = self.find(hn, fname) {
            return Ok(r);
        }
        self.header(&h)?;
        f.err(format!("header '{hn}' has no field '{fname}'"))
    }

    /// The field of that name, or what an alias of that name stands for.
    pub(crate) fn find(&self, header: &str, field: &str) -> Option<FieldRef> {
        let (header, field) = match self.aliases.get(&format!("{header}.{field}")) {
            Some((h, f)) => (h.as_str(), f.as_str()),
            None => (header, field),
        };
        let &h = self.header_names.get(header)?;
        if field == "$valid$" {
            let slot = self.headers[h].base as u16;
            return Some(FieldRef { header: h, slot, width: 1, signed: false, varbit: false });
        }
        let f = self.header_type(h).fields.iter().position(|f| f.name == field)?;
        Some(self.field_at(h, f))
    }

    /// The varbit that a metadata header stands for. p4c makes one such header of each varbit of the user's metadata,
    /// and names it where it means the field.
    pub(crate) fn as_varbit(&self, header: usize) -> Option<FieldRef> {
        let made =
            self.headers[header].metadata && self.header_type(header).name.starts_with("struct$varbit");
        made.then(|| self.field_at(header, 0)).filter(|f| f.varbit)
    }

    /// The field number in a header type.
    pub(crate) fn type_field(&self, ty: usize, n: &Node) -> Result<usize> {
        let name = n.str()?;
        let found = self.types[ty].fields.iter().position(|f| f.name == name);
        found.map_or_else(|| n.err(format!("type '{}' has no field '{name}'", self.types[ty].name)), Ok)
    }
}
