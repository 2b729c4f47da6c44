//! Declarations. What is not understood is an error that says where.

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
                    once(self.constants.insert(name.clone(), (ty, value)), &name)?;
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
                    let mut control = Control {
                        place,
                        registers: Default::default(),
                        register_actions: Default::default(),
                        actions: Default::default(),
                        tables: Default::default(),
                        apply: Vec::new(),
                    };
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

fn once<T>(before: Option<T>, name: &str) -> Result<(), String> {
    if before.is_some() { Err(format!("{name} is declared twice")) } else { Ok(()) }
}

/// One declaration within a control.
fn local(cursor: &mut Cursor<'_>, control: &mut Control) -> Result<(), String> {
    let Some(place) = cursor.skip_annotations()? else { return cursor.ends() };
    match cursor.word()?.as_str() {
        "register" => {
            cursor.sign("<")?;
            let cell = cursor.ty()?;
            cursor.sign(">")?;
            register(cursor, control, cell, Type::Bits(32))
        }
        "Register" => {
            cursor.sign("<")?;
            let cell = cursor.ty()?;
            cursor.sign(",")?;
            let index = cursor.ty()?;
            cursor.sign(">")?;
            register(cursor, control, cell, index)
        }
        // <cell, index, out>(register) name = { void apply(inout cell v, out out o) { ... } };
        "RegisterAction" => {
            cursor.sign("<")?;
            cursor.ty()?;
            cursor.sign(",")?;
            cursor.ty()?;
            cursor.sign(",")?;
            cursor.ty()?;
            cursor.all(&[">", "("])?;
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

fn register(cursor: &mut Cursor<'_>, control: &mut Control, cell: Type, index: Type) -> Result<(), String> {
    cursor.sign("(")?;
    let size = cursor.word()?;
    cursor.sign(")")?;
    let name = cursor.word()?;
    cursor.sign(";")?;
    once(control.registers.insert(name.clone(), Register { cell, index, size }), &name)
}

/// One key, matched exactly; constant entries; a constant default.
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
