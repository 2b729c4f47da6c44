//! The part of the preprocessor that the P4 texts use: conditions, and macros with and without parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::token::{Kind, Place, Token, tokens, without_comments};

/// Deeper nesting of macros is taken for a circle.
const MAX_DEPTH: usize = 16;

#[derive(Clone, Debug)]
pub struct Macro {
    parameters: Option<Vec<String>>,
    body: Vec<Token>,
}

pub type Macros = BTreeMap<String, Macro>;

/// A text behind the preprocessor.
#[derive(Debug)]
pub struct Preprocessed {
    pub tokens: Vec<Token>,
    /// Files that the text would include. None is included.
    pub includes: Vec<String>,
}

/// `macros` are those defined before it, and then its own, too. A macro of the text holds in all of it.
pub fn preprocess(file: &str, text: &str, macros: &mut Macros) -> Result<Preprocessed, String> {
    let file: Arc<str> = file.into();
    let text = without_comments(text);
    let mut found = Vec::new();
    let mut includes = Vec::new();
    // Of every condition around this line: does it hold?
    let mut held: Vec<bool> = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let place = Place { file: file.clone(), line: number, column: 0 };
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            if held.iter().all(|h| *h) {
                found.extend(tokens(&file, number, line)?);
            }
            continue;
        };
        let mut whole = tokens(&file, number, directive.trim_end_matches('\\'))?;
        let mut last = line;
        while last.ends_with('\\') {
            let Some((line, number)) = lines.next() else { break };
            whole.extend(tokens(&file, number, line.trim_end_matches('\\'))?);
            last = line;
        }
        let name = |at: usize| whole.get(at).and_then(Token::word).unwrap_or_default();
        match name(0) {
            "ifdef" => held.push(macros.contains_key(name(1))),
            "ifndef" => held.push(!macros.contains_key(name(1))),
            "if" => held.push(equals(&place, &whole[1..], macros)?),
            "else" => match held.last_mut() {
                Some(h) => *h = !*h,
                None => return place.error("#else without a condition"),
            },
            "endif" => {
                if held.pop().is_none() {
                    return place.error("#endif without a condition");
                }
            }
            "elif" => return place.error("#elif is not understood"),
            _ if !held.iter().all(|h| *h) => {}
            "define" => {
                let (name, defined) = definition(&place, &whole)?;
                if macros.insert(name.clone(), defined).is_some() {
                    return place.error(format_args!("{name} is defined twice"));
                }
            }
            "include" => includes.push(line.trim().to_owned()),
            other => return place.error(format_args!("#{other} is not understood")),
        }
    }
    Ok(Preprocessed { tokens: expand(&found, macros, 0)?, includes })
}

/// `#if NAME == 1`.
fn equals(place: &Place, condition: &[Token], macros: &Macros) -> Result<bool, String> {
    let condition = expand(condition, macros, 0)?;
    match condition.as_slice() {
        [left, equal, right] if equal.is("==") => Ok(left.kind == right.kind),
        _ => place.error("a condition that is not understood"),
    }
}

/// `define NAME body`, `define NAME(a, b) body`; parameters only where the parenthesis follows at once.
fn definition(place: &Place, line: &[Token]) -> Result<(String, Macro), String> {
    let Some((word, name)) = line.get(1).and_then(|token| Some((token, token.word()?))) else {
        return place.error("a macro without a name");
    };
    let behind = word.place.column + name.len();
    if !line.get(2).is_some_and(|next| next.is("(") && next.place.column == behind) {
        return Ok((name.to_owned(), Macro { parameters: None, body: line[2..].to_vec() }));
    }
    let Some(end) = line.iter().position(|token| token.is(")")) else {
        return place.error("parameters without end");
    };
    let parameters = line[3..end].iter().filter_map(Token::word).map(str::to_owned).collect();
    Ok((name.to_owned(), Macro { parameters: Some(parameters), body: line[end + 1..].to_vec() }))
}

fn expand(found: &[Token], macros: &Macros, depth: usize) -> Result<Vec<Token>, String> {
    let mut out = Vec::with_capacity(found.len());
    let mut at = 0;
    while let Some(token) = found.get(at) {
        at += 1;
        let Some(called) = token.word().and_then(|word| macros.get(word)) else {
            out.push(token.clone());
            continue;
        };
        if depth == MAX_DEPTH {
            return token.place.error(format_args!("macro {token} contains itself"));
        }
        // Tokens of the macro stand where it is used; arguments stay where they are.
        let moved = |t: &Token| Token { kind: t.kind.clone(), place: token.place.clone() };
        let replaced: Vec<Token> = match &called.parameters {
            None => called.body.iter().map(moved).collect(),
            Some(parameters) => {
                if !found.get(at).is_some_and(|next| next.is("(")) {
                    out.push(token.clone());
                    continue;
                }
                let (arguments, behind) = arguments(&token.place, found, at)?;
                at = behind;
                if arguments.len() != parameters.len() {
                    return token.place.error(format_args!("{token} takes {} arguments", parameters.len()));
                }
                let argument = |t: &Token| {
                    let number = parameters.iter().position(|p| Some(p.as_str()) == t.word());
                    number.map_or_else(|| vec![moved(t)], |number| arguments[number].clone())
                };
                called.body.iter().flat_map(argument).collect()
            }
        };
        out.extend(expand(&replaced, macros, depth + 1)?);
    }
    Ok(out)
}

/// From the opening parenthesis at `at`: what stands between commas outside of further parentheses; and what is behind.
fn arguments(place: &Place, found: &[Token], at: usize) -> Result<(Vec<Vec<Token>>, usize), String> {
    let mut all = vec![Vec::new()];
    let mut depth = 0;
    for (number, token) in found.iter().enumerate().skip(at) {
        match &token.kind {
            Kind::Sign("(") => depth += 1,
            Kind::Sign(")") if depth == 1 => return Ok((all, number + 1)),
            Kind::Sign(")") => depth -= 1,
            Kind::Sign(",") if depth == 1 => {
                all.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if number > at
            && let Some(last) = all.last_mut()
        {
            last.push(token.clone());
        }
    }
    place.error("arguments without end")
}
