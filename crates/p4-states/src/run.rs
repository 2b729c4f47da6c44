//! Executes one control on one case's inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::ast::{Control, Expr, ExprKind, Stmt, StmtKind, Type};
use crate::coverage::{Coverage, Seen, of_binary};
use crate::inputs::Inputs;
use crate::link::Linked;
use crate::token::Place;
use crate::value::{Form, Num};

/// The state that a control leaves: fields of `m`, and cells by register and index. Words that it did not write are not
/// here.
#[derive(Debug, Default)]
pub struct Outcome {
    pub fields: BTreeMap<String, Num>,
    pub cells: BTreeMap<(String, i128), Vec<Num>>,
}

/// Executes `control` and notes in `met` what it met.
pub fn run(
    linked: &Linked,
    control: &Control,
    inputs: &Inputs,
    met: &mut Coverage,
) -> Result<Outcome, String> {
    let mut run = Run::new(linked, control, inputs, met);
    run.statements(&control.apply)?;
    Ok(run.outcome)
}

/// A word that nobody wrote. `name` is its register's, or, of a cell's second word, its own.
pub fn untouched(inputs: &Inputs, name: &str, index: i128, form: Form) -> Num {
    let n = match form {
        Form::Bits(width) => inputs.cell(name, index, width),
        _ => 0,
    };
    Num { form, n }
}

/// The value of a constant, which may name those that `linked` knows.
pub fn constant(linked: &Linked, ty: &Type, value: &Expr) -> Result<Num, String> {
    let (control, inputs, mut met) = Default::default();
    let found = Run::new(linked, &control, &inputs, &mut met).expr(value)?;
    located(&value.place, found.fit(linked.form(ty)?))
}

struct Run<'a> {
    linked: &'a Linked,
    control: &'a Control,
    inputs: &'a Inputs,
    met: &'a mut Coverage,
    /// Variables, and words of those that are structs.
    locals: BTreeMap<String, (Form, Option<Num>)>,
    executed: BTreeSet<&'a str>,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(linked: &'a Linked, control: &'a Control, inputs: &'a Inputs, met: &'a mut Coverage) -> Run<'a> {
        let (locals, executed) = Default::default();
        Run { linked, control, inputs, met, locals, executed, outcome: Outcome::default() }
    }

    fn statements(&mut self, statements: &'a [Stmt]) -> Result<(), String> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'a Stmt) -> Result<(), String> {
        let place = &statement.place;
        match &statement.kind {
            StmtKind::Declare(ty, name, value) => {
                let form = self.linked.form(ty)?;
                self.locals.insert(name.clone(), (form, None));
                if let Some(value) = value {
                    let value = self.expr(value)?;
                    self.assign(place, name, value)?;
                }
            }
            StmtKind::Assign(path, value) => {
                let value = self.expr(value)?;
                self.assign(place, path, value)?;
            }
            StmtKind::If(condition, then, otherwise) => {
                let holds = located(place, self.expr(condition)?.truth())?;
                self.met.insert((condition.place.clone(), if holds { Seen::True } else { Seen::False }));
                self.statements(if holds { then } else { otherwise })?;
            }
            StmtKind::Read(register, path, index) => {
                let index = self.index(place, register, index)?;
                let cell = self.cell(place, register, index)?;
                let &[value] = cell.as_slice() else { return place.error("a struct is not understood here") };
                self.assign(place, path, value)?;
            }
            StmtKind::Write(register, index, value) => {
                let index = self.index(place, register, index)?;
                let value = self.expr(value)?;
                let [(_, form)] = self.words(place, register)?[..] else {
                    return place.error("a struct is not understood here");
                };
                let value = located(place, value.fit(form))?;
                self.outcome.cells.insert((register.clone(), index), vec![value]);
            }
            StmtKind::Execute(call) => {
                self.expr(call)?;
            }
            StmtKind::Apply(table) => {
                let table = known(place, self.control.tables.get(table), table)?;
                let key = self.expr(&table.key)?;
                let mut chosen = &table.default;
                for (value, action) in &table.entries {
                    if self.expr(value)?.n == key.n {
                        chosen = action;
                        break;
                    }
                }
                self.call(place, chosen)?;
            }
            StmtKind::Call(action) => self.call(place, action)?,
        }
        Ok(())
    }

    fn call(&mut self, place: &Place, action: &str) -> Result<(), String> {
        if action == "NoAction" {
            return Ok(());
        }
        let body = known(place, self.control.actions.get(action), action)?;
        self.statements(body)
    }

    fn assign(&mut self, place: &Place, path: &str, value: Num) -> Result<(), String> {
        if let Some((form, held)) = self.locals.get_mut(path) {
            *held = Some(located(place, value.fit(*form))?);
            return Ok(());
        }
        let field = path.strip_prefix("m.").unwrap_or_default();
        let form = known(place, self.linked.fields.get(field), path)?;
        let value = located(place, value.fit(*form))?;
        self.outcome.fields.insert(field.to_owned(), value);
        Ok(())
    }

    fn expr(&mut self, expr: &'a Expr) -> Result<Num, String> {
        let place = &expr.place;
        match &expr.kind {
            ExprKind::Number(number) => Ok(*number),
            ExprKind::Path(path) => self.path(place, path),
            ExprKind::Not(inner) => Ok(Num::bool(!located(place, self.expr(inner)?.truth())?)),
            ExprKind::Invert(inner) => located(place, self.expr(inner)?.invert()),
            ExprKind::Slice(inner, high, low) => located(place, self.expr(inner)?.slice(*high, *low)),
            ExprKind::Cast(ty, inner) => {
                let form = self.linked.form(ty)?;
                located(place, self.expr(inner)?.cast(form))
            }
            ExprKind::Binary(sign, left, right) => self.binary(place, sign, left, right),
            ExprKind::Execute(action, index) => self.execute(place, action, index),
        }
    }

    fn binary(&mut self, place: &Place, sign: &str, left: &'a Expr, right: &'a Expr) -> Result<Num, String> {
        let left = self.expr(left)?;
        let (value, order, wraps) = if matches!(sign, "&&" | "||") {
            let decided = located(place, left.truth())? == (sign == "||");
            let value = if decided { left } else { self.expr(right)? };
            located(place, value.truth())?;
            (value, None, false)
        } else {
            let right = self.expr(right)?;
            let result = located(place, left.binary(sign, right))?;
            (result.value, Some(result.order), result.wraps)
        };
        for seen in of_binary(sign) {
            let met = match seen {
                Seen::True => value.n == 1,
                Seen::False => value.n == 0,
                Seen::Less => order.is_some_and(|o| o.is_lt()),
                Seen::Equal => order.is_some_and(|o| o.is_eq()),
                Seen::Greater => order.is_some_and(|o| o.is_gt()),
                Seen::Wraps => wraps,
                Seen::Fits => !wraps,
            };
            if met {
                self.met.insert((place.clone(), *seen));
            }
        }
        Ok(value)
    }

    fn path(&mut self, place: &Place, path: &str) -> Result<Num, String> {
        if let Some((_, held)) = self.locals.get(path) {
            return held.map_or_else(|| place.error(format_args!("{path} has no value yet")), Ok);
        }
        if let Some(field) = path.strip_prefix("m.") {
            if let Some(value) = self.outcome.fields.get(field) {
                return Ok(*value);
            }
            return match known(place, self.linked.fields.get(field), path)? {
                Form::Bits(width) => Ok(Num::bits(*width, self.inputs.field(field, *width))),
                form => place.error(format_args!("{path} is {form:?}")),
            };
        }
        known(place, self.linked.constants.get(path), path).copied()
    }

    fn words(&self, place: &Place, register: &str) -> Result<Vec<(String, Form)>, String> {
        let found = known(place, self.control.registers.get(register), register)?;
        self.linked.layout(&found.cell)
    }

    /// Evaluated and of the type that the register wants. Sizes are not looked at: the controller hands out numbers that fit.
    fn index(&mut self, place: &Place, register: &str, index: &'a Expr) -> Result<i128, String> {
        let found = known(place, self.control.registers.get(register), register)?;
        let form = self.linked.form(&found.index)?;
        Ok(located(place, self.expr(index)?.fit(form))?.n)
    }

    fn cell(&self, place: &Place, register: &str, index: i128) -> Result<Vec<Num>, String> {
        if let Some(cell) = self.outcome.cells.get(&(register.to_owned(), index)) {
            return Ok(cell.clone());
        }
        let words = named(register, self.words(place, register)?);
        Ok(words.iter().map(|(name, form)| untouched(self.inputs, name, index, *form)).collect())
    }

    /// Does the work of a stateful ALU: reads a cell, runs the action, writes the cell back, gives `out`.
    fn execute(&mut self, place: &Place, name: &str, index: &'a Expr) -> Result<Num, String> {
        let action = known(place, self.control.register_actions.get(name), name)?;
        let register = &action.register;
        if !self.executed.insert(register) {
            return place.error(format_args!("{register} is used twice in a pass"));
        }
        let index = self.index(place, register, index)?;
        let cell = self.cell(place, register, index)?;
        let words = self.words(place, register)?;
        let given: Vec<_> = self.linked.layout(&action.value.1)?;
        if given != words {
            return action.place.error(format_args!("{name} takes another type than {register} has"));
        }
        let variable = |word: &str| format!("{}{word}", action.value.0);
        let mut locals = BTreeMap::new();
        for ((word, form), value) in words.iter().zip(cell) {
            locals.insert(variable(word), (*form, Some(value)));
        }
        locals.insert(action.out.0.clone(), (self.linked.form(&action.out.1)?, None));
        let outside = std::mem::replace(&mut self.locals, locals);
        self.statements(&action.body)?;
        let locals = std::mem::replace(&mut self.locals, outside);
        let held = |name: &str| locals.get(name).and_then(|(_, held)| *held);
        let left = words.iter().filter_map(|(word, _)| held(&variable(word))).collect();
        self.outcome.cells.insert((register.clone(), index), left);
        let out = held(&action.out.0);
        out.map_or_else(|| action.place.error(format_args!("{name} gives nothing")), Ok)
    }
}

/// The words of a register's cell: the first has the register's name, others that of their field.
pub fn named(register: &str, words: Vec<(String, Form)>) -> Vec<(String, Form)> {
    let name = |(number, (field, form)): (usize, (String, Form))| match number {
        0 => (register.to_owned(), form),
        _ => (field.trim_start_matches('.').to_owned(), form),
    };
    words.into_iter().enumerate().map(name).collect()
}

fn located<T>(place: &Place, result: Result<T, impl Display>) -> Result<T, String> {
    result.or_else(|e| place.error(e))
}

fn known<'b, T>(place: &Place, found: Option<&'b T>, name: &str) -> Result<&'b T, String> {
    found.map_or_else(|| place.error(format_args!("`{name}` is not known here")), Ok)
}
