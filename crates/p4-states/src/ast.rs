//! The subset of P4 that state controls use.

use std::collections::BTreeMap;

use crate::token::Place;
use crate::value::Num;

#[derive(Clone, Debug)]
pub enum Type {
    Bits(u32),
    Signed(u32),
    Named(String, Place),
}

#[derive(Clone, Debug)]
pub struct Expr {
    /// The place of the expression; of a binary operation, that of its sign.
    pub place: Place,
    pub kind: ExprKind,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Number(Num),
    /// A constant, a variable or a field, such as `m.b.worker`.
    Path(String),
    Not(Box<Expr>),
    Invert(Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, u32, u32),
    Cast(Type, Box<Expr>),
    /// `action.execute(index)`
    Execute(String, Box<Expr>),
}

#[derive(Clone, Debug)]
pub struct Stmt {
    pub place: Place,
    pub kind: StmtKind,
}

#[derive(Clone, Debug)]
pub enum StmtKind {
    Declare(Type, String, Option<Expr>),
    Assign(String, Expr),
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// `register.read(path, index)`
    Read(String, String, Expr),
    /// `register.write(index, value)`
    Write(String, Expr, Expr),
    /// `action.execute(index)`, whose value nobody wants
    Execute(Expr),
    /// `table.apply()`
    Apply(String),
    /// `action()`
    Call(String),
}

#[derive(Clone, Debug)]
pub struct Register {
    pub cell: Type,
    /// 32 bits where the declaration does not say it.
    pub index: Type,
    /// Name of the macro that says how many cells there are.
    pub size: String,
}

#[derive(Clone, Debug)]
pub struct RegisterAction {
    pub place: Place,
    pub register: String,
    /// Name and type of what `apply` changes, and of what it gives.
    pub value: (String, Type),
    pub out: (String, Type),
    pub body: Vec<Stmt>,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub key: Expr,
    pub entries: Vec<(Expr, String)>,
    pub default: String,
}

#[derive(Clone, Debug, Default)]
pub struct Control {
    pub registers: BTreeMap<String, Register>,
    pub register_actions: BTreeMap<String, RegisterAction>,
    pub actions: BTreeMap<String, Vec<Stmt>>,
    pub tables: BTreeMap<String, Table>,
    pub apply: Vec<Stmt>,
}

/// Texts of one architecture.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub typedefs: BTreeMap<String, Type>,
    pub structs: BTreeMap<String, Vec<(String, Type)>>,
    /// A constant may name those before it.
    pub constants: Vec<(String, Type, Expr)>,
    pub controls: BTreeMap<String, Control>,
}
