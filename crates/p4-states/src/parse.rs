//! Declarations. A text that is not understood is an error that says where.

use crate::ast::{Control, Program, Register, RegisterAction, Table, Type};
use crate::cursor::Cursor;
use crate::token::Token;

impl Program {
    /// Adds what a text declares.
    pub fn add(&mut self, tokens: &[Token]) -> Result<(), String> {
        let mut cursor = Cursor::new(tokens);
        while let Some(place) = cursor.skip_annotations()? {
            match cursor.word()?.as_str() {
                "const" => {
                    let ty = cursor.ty()?;
                    let name = cursor.word()?;
                    cursor.sign("=")?;
                    let value = cursor.expr()?;
                    cursor.sign(";")?;
                    self.constants.push((name, ty, value));
                }
                "typedef" => {
                    let ty = cursor.ty()?;
                    let name = cursor.word()?;
                    cursor.sign(";")?;
                    once(self.typedefs.insert(name.clone(), ty), &name)?;
                }
                "struct" | "header" => {
                    let name = cursor.word()?;
                    let mut fields = Vec::new();
                    cursor.sign("{")?;
                    while !cursor.takes("}") {
                        cursor.skip_annotations()?;
                        let ty = cursor.ty()?;
                        fields.push((cursor.word()?, ty));
                        cursor.sign(";")?;
                    }
                    once(self.structs.insert(name.clone(), fields), &name)?;
                }
                "control" => {
                    let name = cursor.word()?;
                    cursor.all(&["(", "inout", "meta_t", "m", ")", "{"])?;
                    let mut control = Control::default();
                    while !cursor.takes("}") {
                        local(&mut cursor, &mut control)?;
                    }
                    once(self.controls.insert(name.clone(), control), &name)?;
                }
                other => return place.error(format_args!("`{other}` is not understood")),
            }
        }
        Ok(())
    }
}

pub fn once<T>(before: Option<T>, name: &str) -> Result<(), String> {
    if before.is_some() { Err(format!("{name} is declared twice")) } else { Ok(()) }
}

/// Reads a declaration within a control.
fn local(cursor: &mut Cursor<'_>, control: &mut Control) -> Result<(), String> {
    let Some(place) = cursor.skip_annotations()? else { return cursor.ends() };
    match cursor.word()?.as_str() {
        "register" | "Register" => {
            let mut types = types(cursor)?.into_iter();
            let (Some(cell), index, None) = (types.next(), types.next(), types.next()) else {
                return place.error("a register of more than a value and an index");
            };
            cursor.sign("(")?;
            let size = cursor.word()?;
            cursor.sign(")")?;
            let name = cursor.word()?;
            cursor.sign(";")?;
            let register = Register { cell, index: index.unwrap_or(Type::Bits(32)), size };
            once(control.registers.insert(name.clone(), register), &name)
        }
        // <cell, index, out>(register) name = { void apply(inout cell v, out out o) { ... } };
        "RegisterAction" => {
            types(cursor)?;
            cursor.sign("(")?;
            let register = cursor.word()?;
            cursor.sign(")")?;
            let name = cursor.word()?;
            cursor.all(&["=", "{", "void", "apply", "(", "inout"])?;
            let ty = cursor.ty()?;
            let value = (cursor.word()?, ty);
            cursor.all(&[",", "out"])?;
            let ty = cursor.ty()?;
            let out = (cursor.word()?, ty);
            cursor.sign(")")?;
            let body = cursor.block()?;
            cursor.all(&["}", ";"])?;
            let action = RegisterAction { place, register, value, out, body };
            once(control.register_actions.insert(name.clone(), action), &name)
        }
        "action" => {
            let name = cursor.word()?;
            cursor.all(&["(", ")"])?;
            let body = cursor.block()?;
            once(control.actions.insert(name.clone(), body), &name)
        }
        "table" => {
            let name = cursor.word()?;
            let table = table(cursor)?;
            once(control.tables.insert(name.clone(), table), &name)
        }
        "apply" => {
            control.apply = cursor.block()?;
            Ok(())
        }
        other => place.error(format_args!("`{other}` is not understood in a control")),
    }
}

/// `<type, type>`
fn types(cursor: &mut Cursor<'_>) -> Result<Vec<Type>, String> {
    cursor.sign("<")?;
    let mut found = vec![cursor.ty()?];
    while cursor.takes(",") {
        found.push(cursor.ty()?);
    }
    cursor.sign(">")?;
    Ok(found)
}

/// Reads a table: one key, matched exactly; constant entries; a constant default.
fn table(cursor: &mut Cursor<'_>) -> Result<Table, String> {
    cursor.all(&["{", "key", "=", "{"])?;
    let key = cursor.expr()?;
    cursor.all(&[":", "exact", ";", "}", "actions", "=", "{"])?;
    let mut actions = Vec::new();
    while !cursor.takes("}") {
        actions.push(cursor.word()?);
        cursor.sign(";")?;
    }
    let named = |cursor: &mut Cursor<'_>| {
        let place = cursor.place();
        let name = cursor.word()?;
        cursor.all(&["(", ")", ";"])?;
        if actions.contains(&name) {
            Ok(name)
        } else {
            place.error(format_args!("{name} is none of the table's actions"))
        }
    };
    cursor.all(&["const", "default_action", "="])?;
    let default = named(cursor)?;
    cursor.all(&["const", "entries", "=", "{"])?;
    let mut entries = Vec::new();
    while !cursor.takes("}") {
        let value = cursor.expr()?;
        cursor.sign(":")?;
        entries.push((value, named(cursor)?));
    }
    cursor.sign("}")?;
    Ok(Table { key, entries, default })
}
