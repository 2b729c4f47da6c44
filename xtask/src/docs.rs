//! `cargo xtask docs --check`: checks that files named in documents and comments exist.
//!
//! - Links of Markdown files lead to files of the repository, and to headings that are there.
//! - Names of source files, wherever they stand in a document or a comment, end the path of a file
//!   (`controller/state.rs`).
//! - Paths in backticks that begin with one of the repository's folders end the path of a file or a folder, too.
//! - Documents have lines and sentences that can be read ([`crate::words`]), and name commands that `zsr` has.

use crate::cli::REFERENCE;
use crate::mutants::files_of;
use crate::words;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Endings of file names that documents and comments may name.
const NAMES: [&str; 8] = [".rs", ".md", ".p4", ".proto", ".sv", ".cuh", ".cu", ".py"];
/// File types in which comments are looked at, and the beginnings of their comments.
const COMMENTS: [(&str, &str); 11] = [
    (".rs", "//"),
    (".p4", "//"),
    (".proto", "//"),
    (".sv", "//"),
    (".cuh", "//"),
    (".cu", "//"),
    (".hpp", "//"),
    (".cpp", "//"),
    (".py", "#"),
    ("/run", "#"),
    (".yaml", "#"),
];
/// Files of others.
const FOREIGN: [&str; 1] = ["core.p4"];
/// This file is left out: its tests name files that do not exist.
const THIS: &str = "xtask/src/docs.rs";

/// Reports names of files that do not exist.
pub fn check(root: &Path) -> Result<(), String> {
    let tree = Tree::new(files_of(root)?);
    let mut texts = BTreeMap::new();
    for file in tree.files.iter().filter(|file| is_read(file)) {
        if let Ok(text) = std::fs::read_to_string(root.join(file)) {
            texts.insert(file.as_str(), text);
        }
    }
    let mut problems = tree.problems(&texts);
    let known = words::commands(texts.get(REFERENCE).map_or("", String::as_str));
    for (file, text) in texts.iter().filter(|(file, _)| file.ends_with(".md")) {
        problems.extend(words::problems(file, text));
        problems.extend(words::unknown_commands(file, text, &known));
    }
    if problems.is_empty() {
        println!("{} documents and sources can be read, and name nothing that is not there", texts.len());
        return Ok(());
    }
    Err(format!("hard to read, or named and not there:\n{}", problems.join("\n")))
}

fn is_read(file: &str) -> bool {
    let is_ours = file != THIS && !file.contains("/generated/");
    is_ours && (file.ends_with(".md") || comment_mark(file).is_some())
}

fn comment_mark(file: &str) -> Option<&'static str> {
    COMMENTS.iter().find(|(end, _)| file.ends_with(end)).map(|(_, mark)| *mark)
}

/// Files of the repository, and the folders that they are in.
struct Tree {
    files: BTreeSet<String>,
    /// Every path, and every end of a path behind a `/`.
    ends: BTreeSet<String>,
    top: BTreeSet<String>,
    paths: BTreeSet<String>,
}

impl Tree {
    fn new(files: BTreeSet<String>) -> Self {
        let paths: BTreeSet<String> = files
            .iter()
            .flat_map(|file| file.match_indices('/').map(|(at, _)| &file[..at]).chain([file.as_str()]))
            .map(str::to_owned)
            .collect();
        let ends = paths
            .iter()
            .flat_map(|path| path.match_indices('/').map(|(at, _)| &path[at + 1..]).chain([path.as_str()]))
            .map(str::to_owned)
            .collect();
        let top = files.iter().filter_map(|file| Some(file.split_once('/')?.0.to_owned())).collect();
        Self { files, ends, top, paths }
    }

    fn problems(&self, texts: &BTreeMap<&str, String>) -> Vec<String> {
        let mut problems = Vec::new();
        let headings: BTreeMap<&str, BTreeSet<String>> = texts
            .iter()
            .filter(|(file, _)| file.ends_with(".md"))
            .map(|(file, text)| (*file, anchors(text)))
            .collect();
        for (file, text) in texts {
            let is_document = file.ends_with(".md");
            if is_document {
                for (line, link) in links(text) {
                    if let Some(why) = self.broken(file, &link, &headings) {
                        problems.push(format!("{file}:{line}: link `{link}`: {why}"));
                    }
                }
            }
            // The changelog tells of the past.
            if *file == "CHANGELOG.md" {
                continue;
            }
            for (at, line) in text.lines().enumerate() {
                let said = match comment_mark(file) {
                    None => line,
                    Some(mark) => line.find(mark).map_or("", |at| &line[at + mark.len()..]),
                };
                let named = names(said).chain(self.paths_in_backticks(said));
                for name in named.filter(|name| !self.ends.contains(*name)).collect::<BTreeSet<_>>() {
                    problems.push(format!("{file}:{}: `{name}`: no such file", at + 1));
                }
            }
        }
        problems
    }

    /// Paths that begin with one of the repository's folders.
    fn paths_in_backticks<'a>(&self, said: &'a str) -> impl Iterator<Item = &'a str> {
        let words = said.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
        words.map(|word| word.trim_end_matches(['/', '.', ',', ':', ';'])).filter(|word| {
            word.split_once('/').is_some_and(|(first, _)| self.top.contains(first))
                && word.chars().all(in_path)
        })
    }

    /// The reason why a link of `file` leads nowhere.
    fn broken(&self, file: &str, link: &str, headings: &BTreeMap<&str, BTreeSet<String>>) -> Option<String> {
        if link.contains("://") {
            return None;
        }
        let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
        let path = if path.is_empty() { file.to_owned() } else { beside(file, path) };
        if !self.paths.contains(&path) {
            return Some(format!("no file `{path}`"));
        }
        let anchor = anchor?;
        let there = headings.get(path.as_str())?;
        (!there.contains(anchor)).then(|| format!("`{path}` has no heading `#{anchor}`"))
    }
}

fn in_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./".contains(c)
}

/// Names of source files in a line.
fn names(said: &str) -> impl Iterator<Item = &str> {
    let words = said.split(|c: char| !in_path(c) && !"*<>{}$".contains(c));
    words.filter_map(|word| {
        let word = word.trim_end_matches('.');
        let is_name = NAMES.iter().any(|end| word.strip_suffix(end).is_some_and(|stem| !stem.is_empty()));
        // A pattern, a path from where the reader is, an upper-case stand-in for a name.
        let is_known = word.chars().all(in_path) && !word.starts_with(['.', '/']) && !word.contains("..");
        let stem = word.rsplit('/').next()?.split('.').next()?;
        let stands_in = stem.chars().all(|c| c.is_ascii_uppercase()) && word.ends_with(".p4");
        (is_name && is_known && !stands_in && !stem.is_empty() && !FOREIGN.contains(&word)).then_some(word)
    })
}

/// A path that stands in `file`, from the root.
fn beside(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

pub fn events(text: &str) -> impl Iterator<Item = (Event<'_>, std::ops::Range<usize>)> {
    Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter()
}

/// Numbers of the lines, from 0, that are code.
pub fn code_lines(text: &str) -> BTreeSet<usize> {
    let blocks = events(text).filter(|(event, _)| matches!(event, Event::Start(Tag::CodeBlock(_))));
    let lines = blocks.flat_map(|(_, range)| {
        let first = text[..range.start].matches('\n').count();
        first..=first + text[range].matches('\n').count()
    });
    lines.collect()
}

fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (event, range) in events(text) {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            let line = 1 + text[..range.start].matches('\n').count();
            found.push((line, dest_url.into_string()));
        }
    }
    found
}

/// Headings as GitHub makes anchors of them.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut found, mut heading) = (BTreeSet::new(), None);
    for (event, _) in events(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let text = heading.take().unwrap_or_default().to_lowercase();
                let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
                let again = (1..).map(|n| format!("{anchor}-{n}"));
                let free = std::iter::once(anchor.clone()).chain(again).find(|name| !found.contains(name));
                found.extend(free);
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(file: &str, text: &str) -> Vec<String> {
        let files = ["README.md", "docs/a.md", "crates/x/src/lib.rs", "bench/run"].map(str::to_owned);
        let a = "# One `two`\n## Half-way, and on\n".to_owned();
        let texts = BTreeMap::from([("docs/a.md", a), (file, text.to_owned())]);
        Tree::new(files.into()).problems(&texts)
    }

    #[test]
    fn what_is_there_may_be_named() {
        for text in [
            "[a](docs/a.md) [b](docs/a.md#one-two) [c](docs/a.md#half-way-and-on) [d](docs) [e](https://a.b/c.md)",
            "`bench/run 7`, `crates/x/src`, x/src/lib.rs, `src/lib.rs`, NAME.p4, *.rs, `NAME.md.in`, `and/or`, .rs",
        ] {
            assert_eq!(problems("README.md", text), [""; 0]);
        }
        assert_eq!(problems("crates/x/src/lib.rs", "// As in a.md.\nlet gone = \"b.md\";\n"), [""; 0]);
        assert_eq!(problems("CHANGELOG.md", "docs/gone.md was there"), [""; 0]);
    }

    #[test]
    fn what_is_not_there_is_told_with_its_line() {
        for (file, text, said) in [
            ("README.md", "\n[a](docs/b.md)", "README.md:2: link `docs/b.md`: no file `docs/b.md`"),
            (
                "README.md",
                "[a](docs/a.md#two)",
                "README.md:1: link `docs/a.md#two`: `docs/a.md` has no heading `#two`",
            ),
            ("README.md", "see src/lab.rs.", "README.md:1: `src/lab.rs`: no such file"),
            ("README.md", "`bench/runs 7`", "README.md:1: `bench/runs`: no such file"),
            (
                "crates/x/src/lib.rs",
                "\n//! (protocol.md, \"Losses\")",
                "crates/x/src/lib.rs:2: `protocol.md`: no such file",
            ),
        ] {
            let found = problems(file, text);
            assert!(found.iter().any(|problem| problem == said), "{text}: {found:?}");
        }
    }
}
