//! The events that the cases have met: arms, outcomes of comparisons, sums that wrap.

use std::collections::BTreeSet;
use std::fmt;

use crate::ast::{Control, Expr, ExprKind, Stmt, StmtKind};
use crate::token::Place;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    True,
    False,
    Less,
    Equal,
    Greater,
    Wraps,
    Fits,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Seen::True => "is never true",
            Seen::False => "is never false",
            Seen::Less => "never has a smaller left side",
            Seen::Equal => "never has equal sides",
            Seen::Greater => "never has a larger left side",
            Seen::Wraps => "never wraps",
            Seen::Fits => "always wraps",
        })
    }
}

pub type Coverage = BTreeSet<(Place, Seen)>;

/// The events that can be met at a binary operation.
pub fn of_binary(sign: &str) -> &'static [Seen] {
    match sign {
        "==" | "!=" | "&&" | "||" => &[Seen::True, Seen::False],
        "<" | "<=" | ">" | ">=" => &[Seen::True, Seen::False, Seen::Less, Seen::Equal, Seen::Greater],
        "|-|" => &[Seen::Less, Seen::Equal, Seen::Greater],
        "-" => &[Seen::Equal, Seen::Wraps, Seen::Fits],
        "+" => &[Seen::Wraps, Seen::Fits],
        _ => &[],
    }
}

/// The events that can be met in a control: both arms of each condition, written or not, and those of its operations.
/// An arm's place is that of its condition.
pub fn possible(control: &Control) -> Coverage {
    let mut walk = Walk::default();
    walk.control(control);
    let operations = walk.operations.iter().flat_map(|(place, sign)| {
        let place = place.clone();
        of_binary(sign).iter().map(move |seen| (place.clone(), *seen))
    });
    let arms = walk.conditions.iter().flat_map(|place| [Seen::True, Seen::False].map(|s| (place.clone(), s)));
    operations.chain(arms).collect()
}

/// Everything that a control reads: fields, variables, constants.
pub fn paths(control: &Control) -> BTreeSet<&str> {
    let mut walk = Walk::default();
    walk.control(control);
    walk.paths
}

#[derive(Default)]
struct Walk<'a> {
    conditions: Vec<Place>,
    operations: Vec<(Place, &'static str)>,
    paths: BTreeSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn control(&mut self, control: &'a Control) {
        let bodies = control.register_actions.values().map(|action| &action.body);
        for body in bodies.chain(control.actions.values()).chain([&control.apply]) {
            self.statements(body);
        }
        control.tables.values().for_each(|table| self.expr(&table.key));
    }

    fn statements(&mut self, body: &'a [Stmt]) {
        for statement in body {
            match &statement.kind {
                StmtKind::If(condition, then, otherwise) => {
                    self.conditions.push(condition.place.clone());
                    self.expr(condition);
                    self.statements(then);
                    self.statements(otherwise);
                }
                StmtKind::Declare(_, _, Some(value))
                | StmtKind::Assign(_, value)
                | StmtKind::Execute(value)
                | StmtKind::Read(_, _, value) => self.expr(value),
                StmtKind::Write(_, index, value) => {
                    self.expr(index);
                    self.expr(value);
                }
                StmtKind::Declare(_, _, None) | StmtKind::Apply(_) | StmtKind::Call(_) => {}
            }
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Number(_) => {}
            ExprKind::Path(path) => {
                self.paths.insert(path);
            }
            ExprKind::Not(inner)
            | ExprKind::Invert(inner)
            | ExprKind::Slice(inner, _, _)
            | ExprKind::Cast(_, inner)
            | ExprKind::Execute(_, inner) => self.expr(inner),
            ExprKind::Binary(sign, left, right) => {
                self.operations.push((expr.place.clone(), sign));
                self.expr(left);
                self.expr(right);
            }
        }
    }
}
