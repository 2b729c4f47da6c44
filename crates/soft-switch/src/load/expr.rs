//! Expressions as the JSON has them, typed.

use super::big::Big;
use super::layout::{FieldRef, Layout};
use super::node::{Node, Result};

/// Arithmetic with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bin {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// Casts to a width in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    TwoComp,
    SatUnsigned,
    SatSigned,
}

/// Comparisons of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rel {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A number. All arithmetic is exact; width comes from explicit masks and from the field assigned to.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Const(Big),
    Field(FieldRef),
    /// Runtime argument of the action.
    Arg(usize),
    /// Field of the last element of a stack.
    Last {
        stack: usize,
        field: usize,
    },
    /// Field of the element at an index.
    Elem {
        stack: usize,
        index: Box<Expr>,
        field: usize,
    },
    /// Field of a member of a union at an index.
    UnionElem {
        stack: usize,
        index: Box<Expr>,
        member: usize,
        field: usize,
    },
    Register {
        register: String,
        place: String,
        index: Box<Expr>,
    },
    Bin(Bin, Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Cast(Cast, Box<Expr>, u32),
    Cond(Box<Test>, Box<Expr>, Box<Expr>),
    FromBool(Box<Test>),
    LastIndex(usize),
    Size(usize),
    UnionStackSize(usize),
}

/// A truth value.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Const(bool),
    Rel(Rel, Expr, Expr),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    Not(Box<Test>),
    /// Equality of two truth values.
    Same(Box<Test>, Box<Test>),
    Cond(Box<Test>, Box<Test>, Box<Test>),
    NonZero(Expr),
    Valid(HeaderExpr),
    ValidUnion(UnionExpr),
    EqHeader(HeaderExpr, HeaderExpr),
    EqUnion(UnionExpr, UnionExpr),
    /// Equality of two varbits as numbers, which is how bmv2 compares them.
    EqVarbit(FieldRef, FieldRef),
}

/// A header, perhaps found by index at run time.
#[derive(Clone, Debug)]
pub(crate) enum HeaderExpr {
    Fixed(usize),
    Elem { stack: usize, index: Box<Expr> },
    Member { union: UnionExpr, member: usize },
}

/// A union, perhaps found by index at run time.
#[derive(Clone, Debug)]
pub(crate) enum UnionExpr {
    Fixed(usize),
    Elem { stack: usize, index: Box<Expr> },
}

/// Anything that an expression can be.
#[derive(Clone, Debug)]
pub(crate) enum Any {
    Num(Expr),
    Test(Test),
    Header(HeaderExpr),
    Stack(usize),
    Union(UnionExpr),
    UnionStack(usize),
    Varbit(FieldRef),
}

impl Any {
    fn kind(&self) -> &'static str {
        match self {
            Any::Num(_) => "number",
            Any::Test(_) => "truth value",
            Any::Header(_) => "header",
            Any::Stack(_) => "header stack",
            Any::Union(_) => "header union",
            Any::UnionStack(_) => "header union stack",
            Any::Varbit(_) => "varbit",
        }
    }
}

impl Layout {
    /// Reads an expression that must be a number.
    pub(crate) fn num(&self, n: &Node) -> Result<Expr> {
        match self.expr(n)? {
            Any::Num(e) => Ok(e),
            other => n.err(format!("a number was expected, not a {}", other.kind())),
        }
    }

    /// Reads an expression that must be a truth value.
    pub(crate) fn test(&self, n: &Node) -> Result<Test> {
        match self.expr(n)? {
            Any::Test(e) => Ok(e),
            other => n.err(format!("a truth value was expected, not a {}", other.kind())),
        }
    }

    /// Reads an expression that must be a header.
    pub(crate) fn header_expr(&self, n: &Node) -> Result<HeaderExpr> {
        match self.expr(n)? {
            Any::Header(e) => Ok(e),
            other => n.err(format!("a header was expected, not a {}", other.kind())),
        }
    }

    /// Reads any expression.
    pub(crate) fn expr(&self, n: &Node) -> Result<Any> {
        n.allow(&["type", "value", "bitwidth"])?;
        let value = n.get("value")?;
        let num = |e| Ok(Any::Num(e));
        match n.get("type")?.str()? {
            // Some writers wrap an expression's value in another typed object.
            "expression" if value.opt("op").is_none() => self.expr(&value),
            "expression" => self.operation(&value),
            // p4c writes the header as an expression where a stack's index is none it knows.
            "field" if value.at(0)?.is_object() => {
                let header = self.operation(&value.at(0)?)?;
                let (Any::Header(h), name) = (header, value.at(1)?) else {
                    return value.err("a header was expected");
                };
                if name.str()? == "$valid$" {
                    return num(Expr::FromBool(Box::new(Test::Valid(h))));
                }
                let field = self.type_field(self.header_expr_type(&h), &name)?;
                self.field_of(&value, h, field)
            }
            "field" => {
                let f = self.field(&value)?;
                if f.varbit {
                    return Ok(Any::Varbit(f));
                }
                num(Expr::Field(f))
            }
            "hexstr" => num(Expr::Const(Big::hex(&value)?)),
            "bool" => Ok(Any::Test(Test::Const(value.bool()?))),
            "local" | "runtime_data" => num(Expr::Arg(value.uint(65535)? as usize)),
            "header" => {
                let header = self.header(&value)?;
                Ok(self.as_varbit(header).map_or(Any::Header(HeaderExpr::Fixed(header)), Any::Varbit))
            }
            "header_stack" => Ok(Any::Stack(self.stack(&value)?)),
            "header_union" => Ok(Any::Union(UnionExpr::Fixed(self.union(&value)?))),
            "header_union_stack" => Ok(Any::UnionStack(self.union_stack(&value)?)),
            "stack_field" => {
                let stack = self.stack(&value.at(0)?)?;
                let ty = &self.types[self.stacks[stack].ty];
                if value.at(1)?.str()? == "last" && !ty.fields.iter().any(|f| f.name == "last") {
                    // The last element as a whole.
                    let index = Box::new(Expr::LastIndex(stack));
                    return Ok(Any::Header(HeaderExpr::Elem { stack, index }));
                }
                let field = self.type_field(self.stacks[stack].ty, &value.at(1)?)?;
                num(Expr::Last { stack, field })
            }
            "register" => {
                let index = Box::new(self.num(&value.at(1)?)?);
                let name = value.at(0)?;
                num(Expr::Register { register: name.str()?.to_string(), place: name.place(), index })
            }
            other => n.unsupported(format!("expression type '{other}'")),
        }
    }

    fn operation(&self, n: &Node) -> Result<Any> {
        n.allow(&["op", "left", "right", "cond"])?;
        let op = n.get("op")?.str()?;
        let (left, right) = (n.opt("left"), n.get("right")?);
        let need_left = || left.map_or_else(|| n.err(format!("'{op}' lacks its left operand")), Ok);
        let bin = |b| -> Result<Any> {
            // Unary plus and minus have no left operand.
            let l = match &left {
                Some(l) => self.num(l)?,
                None if matches!(b, Bin::Add | Bin::Sub) => Expr::Const(Big::from_u64(0)),
                None => return n.err(format!("'{op}' lacks its left operand")),
            };
            Ok(Any::Num(Expr::Bin(b, Box::new(l), Box::new(self.num(&right)?))))
        };
        let rel = |r| Ok(Any::Test(Test::Rel(r, self.num(&need_left()?)?, self.num(&right)?)));
        let cast = |c| -> Result<Any> {
            let Expr::Const(width) = self.num(&right)? else {
                return right.unsupported(format!("'{op}' to a width that is no constant"));
            };
            let Some(w) = width.to_u64().filter(|w| (1..=4096).contains(w)) else {
                return right.err("a width from 1 to 4096 was expected");
            };
            Ok(Any::Num(Expr::Cast(c, Box::new(self.num(&need_left()?)?), w as u32)))
        };
        let pair = || -> Result<(Box<Test>, Box<Test>)> {
            Ok((Box::new(self.test(&need_left()?)?), Box::new(self.test(&right)?)))
        };
        match op {
            "+" => bin(Bin::Add),
            "-" => bin(Bin::Sub),
            "*" => bin(Bin::Mul),
            "/" => bin(Bin::Div),
            "%" => bin(Bin::Mod),
            "&" => bin(Bin::And),
            "|" => bin(Bin::Or),
            "^" => bin(Bin::Xor),
            "<<" => bin(Bin::Shl),
            ">>" => bin(Bin::Shr),
            "~" => Ok(Any::Num(Expr::Not(Box::new(self.num(&right)?)))),
            "<" => rel(Rel::Lt),
            "<=" => rel(Rel::Le),
            ">" => rel(Rel::Gt),
            ">=" => rel(Rel::Ge),
            "==" | "!=" => self.equality(n, op, &need_left()?, &right),
            "and" => pair().map(|(a, b)| Any::Test(Test::And(a, b))),
            "or" => pair().map(|(a, b)| Any::Test(Test::Or(a, b))),
            "not" => Ok(Any::Test(Test::Not(Box::new(self.test(&right)?)))),
            "d2b" => Ok(Any::Test(Test::NonZero(self.num(&right)?))),
            "b2d" => Ok(Any::Num(Expr::FromBool(Box::new(self.test(&right)?)))),
            "two_comp_mod" => cast(Cast::TwoComp),
            "usat_cast" => cast(Cast::SatUnsigned),
            "sat_cast" => cast(Cast::SatSigned),
            "valid" => Ok(Any::Test(Test::Valid(self.header_expr(&right)?))),
            "valid_union" => match self.expr(&right)? {
                Any::Union(u) => Ok(Any::Test(Test::ValidUnion(u))),
                other => right.err(format!("a header union was expected, not a {}", other.kind())),
            },
            "?" => {
                let cond = Box::new(self.test(&n.get("cond")?)?);
                match (self.expr(&need_left()?)?, self.expr(&right)?) {
                    (Any::Num(a), Any::Num(b)) => Ok(Any::Num(Expr::Cond(cond, Box::new(a), Box::new(b)))),
                    (Any::Test(a), Any::Test(b)) => Ok(Any::Test(Test::Cond(cond, Box::new(a), Box::new(b)))),
                    (a, b) => n.unsupported(format!("'?' between a {} and a {}", a.kind(), b.kind())),
                }
            }
            "dereference_header_stack" => {
                let Any::Stack(stack) = self.expr(&need_left()?)? else {
                    return n.err("a header stack was expected on the left");
                };
                Ok(Any::Header(HeaderExpr::Elem { stack, index: Box::new(self.num(&right)?) }))
            }
            "dereference_union_stack" => {
                let Any::UnionStack(stack) = self.expr(&need_left()?)? else {
                    return n.err("a header union stack was expected on the left");
                };
                Ok(Any::Union(UnionExpr::Elem { stack, index: Box::new(self.num(&right)?) }))
            }
            "access_field" => self.access_field(n, &need_left()?, &right),
            "access_union_header" => {
                let Any::Union(union) = self.expr(&need_left()?)? else {
                    return n.err("a header union was expected on the left");
                };
                let ty = match &union {
                    UnionExpr::Fixed(u) => self.unions[*u].ty,
                    UnionExpr::Elem { stack, .. } => self.union_stacks[*stack].ty,
                };
                let members = self.union_types[ty].members.len() as u64;
                let member = right.uint(members.saturating_sub(1))? as usize;
                Ok(Any::Header(match union {
                    UnionExpr::Fixed(u) => HeaderExpr::Fixed(self.unions[u].members[member]),
                    union => HeaderExpr::Member { union, member },
                }))
            }
            "last_stack_index" | "size_stack" => match self.expr(&right)? {
                Any::Stack(s) if op == "size_stack" => Ok(Any::Num(Expr::Size(s))),
                Any::Stack(s) => Ok(Any::Num(Expr::LastIndex(s))),
                Any::UnionStack(s) if op == "size_stack" => Ok(Any::Num(Expr::UnionStackSize(s))),
                other => right.unsupported(format!("'{op}' of a {}", other.kind())),
            },
            other => n.unsupported(format!("operator '{other}'")),
        }
    }

    fn equality(&self, n: &Node, op: &str, left: &Node, right: &Node) -> Result<Any> {
        let rel = if op == "==" { Rel::Eq } else { Rel::Ne };
        let test = match (self.expr(left)?, self.expr(right)?) {
            (Any::Num(a), Any::Num(b)) => return Ok(Any::Test(Test::Rel(rel, a, b))),
            (Any::Test(a), Any::Test(b)) => Test::Same(Box::new(a), Box::new(b)),
            (Any::Header(a), Any::Header(b)) => Test::EqHeader(a, b),
            (Any::Union(a), Any::Union(b)) => Test::EqUnion(a, b),
            (Any::Varbit(a), Any::Varbit(b)) => Test::EqVarbit(a, b),
            (a, b) => return n.unsupported(format!("'{op}' between a {} and a {}", a.kind(), b.kind())),
        };
        Ok(Any::Test(if rel == Rel::Eq { test } else { Test::Not(Box::new(test)) }))
    }

    fn access_field(&self, n: &Node, left: &Node, right: &Node) -> Result<Any> {
        let header = self.header_expr(left)?;
        let fields = self.types[self.header_expr_type(&header)].fields.len() as u64;
        let field = right.uint(fields.saturating_sub(1))? as usize;
        self.field_of(n, header, field)
    }

    fn header_expr_type(&self, header: &HeaderExpr) -> usize {
        match header {
            HeaderExpr::Fixed(h) => self.headers[*h].ty,
            HeaderExpr::Elem { stack, .. } => self.stacks[*stack].ty,
            HeaderExpr::Member { union: UnionExpr::Fixed(u), member } => {
                self.headers[self.unions[*u].members[*member]].ty
            }
            HeaderExpr::Member { union: UnionExpr::Elem { stack, .. }, member } => {
                self.union_types[self.union_stacks[*stack].ty].members[*member].1
            }
        }
    }

    /// A field, by number, of a header that is perhaps found at run time.
    fn field_of(&self, n: &Node, header: HeaderExpr, field: usize) -> Result<Any> {
        let fields = &self.types[self.header_expr_type(&header)].fields;
        if fields.get(field).is_none_or(|f| f.varbit) {
            return n.unsupported("varbit field in an expression");
        }
        Ok(Any::Num(match header {
            HeaderExpr::Fixed(h) => Expr::Field(self.field_at(h, field)),
            HeaderExpr::Elem { stack, index } => Expr::Elem { stack, index, field },
            HeaderExpr::Member { union: UnionExpr::Fixed(u), member } => {
                Expr::Field(self.field_at(self.unions[u].members[member], field))
            }
            HeaderExpr::Member { union: UnionExpr::Elem { stack, index }, member } => {
                Expr::UnionElem { stack, index, member, field }
            }
        }))
    }
}
