//! Names of one architecture's texts, and what they stand for.

use std::collections::BTreeMap;

use crate::ast::{Control, Program, Type};
use crate::parse::once;
use crate::run::constant;
use crate::value::{Form, Num};

/// A program whose names are known.
#[derive(Debug)]
pub struct Linked {
    pub program: Program,
    pub constants: BTreeMap<String, Num>,
    /// Fields of `m`, without `m.`.
    pub fields: BTreeMap<String, Form>,
}

impl Linked {
    pub fn new(program: Program) -> Result<Linked, String> {
        let mut linked = Linked { program, constants: BTreeMap::new(), fields: BTreeMap::new() };
        for (name, ty, value) in std::mem::take(&mut linked.program.constants) {
            let value = constant(&linked, &ty, &value)?;
            once(linked.constants.insert(name.clone(), value), &name)?;
        }
        let Some(fields) = linked.program.structs.get("meta_t") else {
            return Err("no meta_t".to_owned());
        };
        for (name, ty) in fields {
            // No state control reads fields of an architecture's own type; if one does, it has no such field.
            for (word, form) in linked.layout(ty).unwrap_or_default() {
                linked.fields.insert(format!("{name}{word}"), form);
            }
        }
        Ok(linked)
    }

    pub fn control(&self, name: &str) -> Result<&Control, String> {
        self.program.controls.get(name).ok_or_else(|| format!("no control {name}"))
    }

    pub fn form(&self, ty: &Type) -> Result<Form, String> {
        match ty {
            Type::Bits(width) => Ok(Form::Bits(*width)),
            Type::Signed(width) => Ok(Form::Signed(*width)),
            Type::Named(name, place) => match self.program.typedefs.get(name) {
                Some(ty) => self.form(ty),
                None => place.error(format_args!("no type {name}")),
            },
        }
    }

    /// The words that something of this type has: one without a name, or those of a struct.
    pub fn layout(&self, ty: &Type) -> Result<Vec<(String, Form)>, String> {
        let fields = match ty {
            Type::Named(name, _) => self.program.structs.get(name),
            _ => None,
        };
        match fields {
            None => Ok(vec![(String::new(), self.form(ty)?)]),
            Some(fields) => {
                fields.iter().map(|(name, ty)| Ok((format!(".{name}"), self.form(ty)?))).collect()
            }
        }
    }
}
