//! Expressions and statements, token by token.

use crate::ast::{Expr, ExprKind, Stmt, StmtKind, Type};
use crate::token::{Kind, Place, Token};
use crate::value::{Form, Num};

/// Binary operations, from the loosest on. Bits bind closer than comparisons, unlike in C.
const LEVELS: [&[&str]; 8] =
    [&["||"], &["&&"], &["==", "!="], &["<", "<=", ">", ">="], &["|"], &["^"], &["&"], &["+", "-", "|-|"]];

pub struct Cursor<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(tokens: &'a [Token]) -> Cursor<'a> {
        Cursor { tokens, at: 0 }
    }

    fn peek(&self, ahead: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + ahead)
    }

    /// The place of the next token, or of the last one.
    pub fn place(&self) -> Place {
        let token = self.peek(0).or(self.tokens.last());
        token.map_or_else(|| Place { file: "".into(), line: 0, column: 0 }, |token| token.place.clone())
    }

    pub fn ends<T>(&self) -> Result<T, String> {
        self.place().error("the text ends here")
    }

    pub fn takes(&mut self, sign: &str) -> bool {
        let found = self.peek(0).is_some_and(|token| token.is(sign));
        self.at += usize::from(found);
        found
    }

    pub fn sign(&mut self, sign: &str) -> Result<(), String> {
        self.all(&[sign])
    }

    /// These signs and words, in this order.
    pub fn all(&mut self, wanted: &[&str]) -> Result<(), String> {
        for wanted in wanted {
            match self.peek(0) {
                Some(token) if token.is(wanted) || token.word() == Some(wanted) => self.at += 1,
                Some(token) => {
                    return token.place.error(format_args!("`{token}` where `{wanted}` is wanted"));
                }
                None => return self.ends(),
            }
        }
        Ok(())
    }

    pub fn word(&mut self) -> Result<String, String> {
        let Some(token) = self.peek(0) else { return self.ends() };
        let Some(word) = token.word() else {
            return token.place.error(format_args!("`{token}` is no name"));
        };
        self.at += 1;
        Ok(word.to_owned())
    }

    fn number(&mut self) -> Result<u32, String> {
        match self.peek(0).map(|token| &token.kind) {
            Some(Kind::Number { value, .. }) => {
                self.at += 1;
                u32::try_from(*value).or_else(|_| self.place().error("too large"))
            }
            _ => self.place().error("a number is wanted"),
        }
    }

    /// Skips `@name` and `@name(...)`. The place behind, if the text goes on.
    pub fn skip_annotations(&mut self) -> Result<Option<Place>, String> {
        while self.takes("@") {
            self.word()?;
            if self.takes("(") {
                let mut depth = 1;
                while depth > 0 {
                    let Some(token) = self.peek(0) else { return self.ends() };
                    depth += i32::from(token.is("(")) - i32::from(token.is(")"));
                    self.at += 1;
                }
            }
        }
        Ok(self.peek(0).map(|token| token.place.clone()))
    }

    pub fn ty(&mut self) -> Result<Type, String> {
        let place = self.place();
        let name = self.word()?;
        if name != "bit" && name != "int" {
            return Ok(Type::Named(name, place));
        }
        self.sign("<")?;
        let width = self.number()?;
        self.sign(">")?;
        if !(1..=64).contains(&width) {
            return place.error(format_args!("{width} bits are not understood"));
        }
        Ok(if name == "bit" { Type::Bits(width) } else { Type::Signed(width) })
    }

    pub fn expr(&mut self) -> Result<Expr, String> {
        self.level(0)
    }

    fn level(&mut self, level: usize) -> Result<Expr, String> {
        let Some(signs) = LEVELS.get(level) else { return self.prefixed() };
        let mut left = self.level(level + 1)?;
        loop {
            let place = self.place();
            let Some(sign) = signs.iter().find(|sign| self.takes(sign)) else { return Ok(left) };
            let right = self.level(level + 1)?;
            left = Expr { place, kind: ExprKind::Binary(sign, Box::new(left), Box::new(right)) };
        }
    }

    fn prefixed(&mut self) -> Result<Expr, String> {
        let place = self.place();
        let kind = if self.takes("!") {
            ExprKind::Not(Box::new(self.prefixed()?))
        } else if self.takes("~") {
            ExprKind::Invert(Box::new(self.prefixed()?))
        } else if self.is_cast() {
            self.sign("(")?;
            let ty = self.ty()?;
            self.sign(")")?;
            ExprKind::Cast(ty, Box::new(self.prefixed()?))
        } else {
            return self.primary();
        };
        Ok(Expr { place, kind })
    }

    /// `(bit<` and `(int<`; or `(name)` in front of an operand.
    fn is_cast(&self) -> bool {
        let word = self.peek(1).and_then(Token::word);
        if !self.peek(0).is_some_and(|token| token.is("(")) || word.is_none() {
            return false;
        }
        let operand = self.peek(3).is_some_and(|token| token.is("(") || !matches!(token.kind, Kind::Sign(_)));
        matches!(word, Some("bit" | "int")) || operand && self.peek(2).is_some_and(|token| token.is(")"))
    }

    fn primary(&mut self) -> Result<Expr, String> {
        let place = self.place();
        let mut expr = if self.takes("(") {
            let inner = self.expr()?;
            self.sign(")")?;
            inner
        } else {
            Expr { place: place.clone(), kind: self.atom()? }
        };
        while self.takes("[") {
            let high = self.number()?;
            self.sign(":")?;
            let low = self.number()?;
            self.sign("]")?;
            expr = Expr { place: place.clone(), kind: ExprKind::Slice(Box::new(expr), high, low) };
        }
        Ok(expr)
    }

    /// A literal, a name, or an action's value.
    fn atom(&mut self) -> Result<ExprKind, String> {
        let place = self.place();
        if let Some(Kind::Number { width, value }) = self.peek(0).map(|token| &token.kind) {
            self.at += 1;
            let number = match width {
                None => Ok(Num::whole(*value)),
                Some(width) => Num::whole(*value).fit(Form::Bits(*width)),
            };
            return Ok(ExprKind::Number(number.or_else(|e| place.error(e))?));
        }
        let path = self.path()?;
        match path.strip_suffix(".execute") {
            Some(action) if self.takes("(") => {
                let index = self.expr()?;
                self.sign(")")?;
                Ok(ExprKind::Execute(action.to_owned(), Box::new(index)))
            }
            _ => Ok(ExprKind::Path(path)),
        }
    }

    fn path(&mut self) -> Result<String, String> {
        let mut path = self.word()?;
        while self.takes(".") {
            path.push('.');
            path.push_str(&self.word()?);
        }
        Ok(path)
    }

    pub fn block(&mut self) -> Result<Vec<Stmt>, String> {
        self.sign("{")?;
        let mut statements = Vec::new();
        while !self.takes("}") {
            statements.push(self.statement()?);
        }
        Ok(statements)
    }

    /// Reads the arm behind a condition: a block, or one statement.
    fn arm(&mut self) -> Result<Vec<Stmt>, String> {
        let braced = self.peek(0).is_some_and(|token| token.is("{"));
        if braced { self.block() } else { Ok(vec![self.statement()?]) }
    }

    fn statement(&mut self) -> Result<Stmt, String> {
        let place = self.place();
        let Some(word) = self.peek(0).and_then(Token::word) else {
            return place.error("a statement that is not understood");
        };
        let two_names = self.peek(1).and_then(Token::word).is_some();
        let kind = if word == "if" {
            self.all(&["if", "("])?;
            let condition = self.expr()?;
            self.sign(")")?;
            let then = self.arm()?;
            let otherwise = self.peek(0).and_then(Token::word) == Some("else");
            self.at += usize::from(otherwise);
            let otherwise = if otherwise { self.arm()? } else { Vec::new() };
            return Ok(Stmt { place, kind: StmtKind::If(condition, then, otherwise) });
        } else if matches!(word, "bit" | "int") || two_names {
            let ty = self.ty()?;
            let name = self.word()?;
            let value = if self.takes("=") { Some(self.expr()?) } else { None };
            StmtKind::Declare(ty, name, value)
        } else {
            let from = self.at;
            let path = self.path()?;
            if self.takes("=") {
                StmtKind::Assign(path, self.expr()?)
            } else {
                self.sign("(")?;
                self.called(from, &path)?
            }
        };
        self.sign(";")?;
        Ok(Stmt { place, kind })
    }

    /// A call as a statement, behind its opening parenthesis; `from` is where it begins.
    fn called(&mut self, from: usize, path: &str) -> Result<StmtKind, String> {
        let kind = match path.split_once('.') {
            None => StmtKind::Call(path.to_owned()),
            Some((table, "apply")) => StmtKind::Apply(table.to_owned()),
            Some((register, "read")) => {
                let target = self.path()?;
                self.sign(",")?;
                StmtKind::Read(register.to_owned(), target, self.expr()?)
            }
            Some((register, "write")) => {
                let index = self.expr()?;
                self.sign(",")?;
                StmtKind::Write(register.to_owned(), index, self.expr()?)
            }
            Some((_, "execute")) => {
                self.at = from;
                return Ok(StmtKind::Execute(self.expr()?));
            }
            _ => return self.place().error(format_args!("a call of {path} is not understood")),
        };
        self.sign(")")?;
        Ok(kind)
    }
}
