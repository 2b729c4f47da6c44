//! How documents are written: lines of at most 120 columns, sentences of at most 30 words, and commands that `zsr` has.

use crate::docs::{code_lines, events};
use pulldown_cmark::{Event, Tag, TagEnd};
use std::collections::BTreeSet;

/// Most columns of a line. Tables and code have as many as they need.
const COLUMNS: usize = 120;
/// Most words of a sentence; most have fewer than 25.
const WORDS: usize = 30;
/// Documents of other kinds: a log of changes, and the output of `fpga/sizes`.
const EXEMPT: [&str; 2] = ["CHANGELOG.md", "fpga/sizes.md"];

/// Lines that are too wide and sentences that are too long, in `text` of the Markdown file `file`.
pub fn problems(file: &str, text: &str) -> Vec<String> {
    if EXEMPT.contains(&file) {
        return Vec::new();
    }
    let code = code_lines(text);
    let wide = text.lines().enumerate().filter(|(at, line)| {
        let columns = line.chars().count();
        columns > COLUMNS && !code.contains(at) && !line.starts_with('|') && !line.contains("://")
    });
    let wide = wide.map(|(at, line)| format!("{file}:{}: {} columns", at + 1, line.chars().count()));
    let long = sentences(text).into_iter().filter_map(|(line, sentence)| {
        let words = sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
        let begin: String = sentence.chars().take(60).collect();
        (words > WORDS).then(|| format!("{file}:{line}: a sentence of {words} words: {begin}"))
    });
    wide.chain(long).collect()
}

/// Sentences of paragraphs, list items and cells, with the line that their block begins in. Code is one word.
fn sentences(text: &str) -> Vec<(usize, String)> {
    let (mut out, mut block, mut line, mut in_code) = (Vec::new(), String::new(), 1, false);
    for (event, range) in events(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(part) if !in_code => {
                if block.is_empty() {
                    line = 1 + text[..range.start].matches('\n').count();
                }
                block.push_str(&part);
            }
            Event::Code(_) => block.push('X'),
            Event::SoftBreak | Event::HardBreak => block.push(' '),
            Event::Start(
                Tag::Paragraph | Tag::Item | Tag::List(_) | Tag::TableCell | Tag::Heading { .. },
            )
            | Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell | TagEnd::Heading(_)) => {
                out.extend(split(&std::mem::take(&mut block)).map(|sentence| (line, sentence)));
            }
            _ => {}
        }
    }
    out
}

/// A sentence ends behind a mark that a blank and a capital follow.
fn split(block: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = block.split_whitespace().collect();
    let ends = |at: usize| {
        let next = words.get(at + 1).and_then(|next| next.chars().find(|c| c.is_alphanumeric()));
        words[at].ends_with(['.', '?', '!', ':']) && next.is_none_or(|c| c.is_uppercase() || c.is_numeric())
    };
    let mut sentences = vec![Vec::new()];
    for (at, word) in words.iter().enumerate() {
        sentences.last_mut().expect("one at least").push(*word);
        if ends(at) {
            sentences.push(Vec::new());
        }
    }
    sentences.into_iter().filter(|words| !words.is_empty()).map(|words| words.join(" "))
}

/// Commands of `zsr` in code of `text` that are not among `known`, with their lines.
pub fn unknown_commands(file: &str, text: &str, known: &BTreeSet<String>) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let named = code_lines(text).into_iter().filter_map(|at| Some((at, command(lines.get(at)?)?)));
    let unknown = named.filter(|(_, command)| !known.contains(command));
    unknown.map(|(at, command)| format!("{file}:{}: `zsr` has no command `{command}`", at + 1)).collect()
}

/// The command of `zsr` that a line of a shell runs.
fn command(line: &str) -> Option<String> {
    let line = line.trim_start().trim_start_matches("$ ");
    let rest =
        line.strip_prefix("zsr ").or_else(|| line.split_once("--bin zsr -- ").map(|(_, rest)| rest))?;
    let word = rest.split_whitespace().next()?;
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-').then(|| word.to_owned())
}

/// The commands that the reference has a chapter of.
pub fn commands(reference: &str) -> BTreeSet<String> {
    let chapters =
        reference.lines().filter_map(|line| line.trim_start_matches('#').trim().strip_prefix("zsr "));
    let mut known: BTreeSet<String> =
        chapters.filter_map(|name| name.split_whitespace().next()).map(str::to_owned).collect();
    known.insert("help".to_owned());
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_sentences_that_are_too_long_are_told() {
        let long = format!("It has {} `code, many words in it` ends.", "word ".repeat(29));
        let fits =
            format!("It has {} ends. And so has this one: {} ends.", "word ".repeat(25), "word ".repeat(20));
        assert_eq!(problems("a.md", &fits), [format!("a.md:1: {} columns", fits.len())]);
        let found = problems(
            "a.md",
            &format!("# Head\n\n- one\n- {}\n", long.replace(" word word", "\n  word word")),
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a.md:4: a sentence of 33 words: It has word"), "{found:?}");
        let code = format!("```\n{}\n```\n\n    {0}\n\n| {0} |\n|---|\n", "word-".repeat(40));
        assert_eq!(problems("a.md", &code), [""; 0]);
    }

    #[test]
    fn commands_that_are_not_there_are_told() {
        let known = commands("# Reference\n## zsr up\n### zsr flow create\n");
        let text = "zsr nothing\n\n    zsr up T\n    zsr flow list | zsr gone\n    $ zsr flown x\n    cargo run --bin zsr -- gone\n";
        let found = unknown_commands("a.md", text, &known);
        assert_eq!(found, ["a.md:5: `zsr` has no command `flown`", "a.md:6: `zsr` has no command `gone`"]);
    }
}
