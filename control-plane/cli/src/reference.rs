//! docs/reference.md: every command with its options and help, as clap has them.

use super::args::Args;
use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write as _;

const HEAD: &str = "\
# Reference of the command line

`cargo xtask cli` writes this file from the help of each command: `zsr COMMAND --help`. [guide.md](guide.md) tells how
the commands go together. [json.md](json.md) describes the output of `--json`.
";

/// Most characters of a line.
const WIDTH: usize = 120;

/// The text of docs/reference.md, in Markdown.
pub fn reference() -> String {
    let mut zsr = Args::command();
    zsr.build();
    let mut out = HEAD.to_owned();
    describe(&zsr, &mut out);
    out
}

fn describe(command: &Command, out: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_about().map(|about| escaped(&about.to_string())).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "\n## {name}\n\n{}\n\n{}",
        wrapped("", "", &format!("{about}.")),
        wrapped("    ", "      ", usage)
    );
    let shown = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let (first, last): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(shown).partition(|a| a.is_positional());
    for (at, arg) in first.into_iter().chain(last).enumerate() {
        let _ = writeln!(out, "{}{}", if at == 0 { "\n" } else { "" }, option(arg));
    }
    let more = command.get_after_long_help().or(command.get_after_help());
    if let Some(more) = more {
        let _ = writeln!(out, "\n{}", more.to_string().trim_end());
    }
    let children = || command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    for (at, child) in children().enumerate() {
        let name = child.get_bin_name().unwrap_or_else(|| child.get_name());
        let about = child.get_about().map(|about| escaped(&about.to_string())).unwrap_or_default();
        let item = format!("[{name}](#{}): {about}", name.replace(' ', "-"));
        let _ = writeln!(out, "{}{}", if at == 0 { "\n" } else { "" }, wrapped("- ", "  ", &item));
    }
    for child in children() {
        describe(child, out);
    }
}

/// ``- `-n`, `--count <N>`: End after N (environment: X) [default: 3]``, and below it the values that it may have.
fn option(arg: &Arg) -> String {
    let mut text = String::new();
    if let Some(short) = arg.get_short() {
        let _ = write!(text, "`-{short}`, ");
    }
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let paragraphs = help.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    let _ = write!(text, "`{arg}`: {}", escaped(&paragraphs.collect::<Vec<_>>().join(". ")));
    if let Some(variable) = arg.get_env() {
        let _ = write!(text, " [environment: `{}`]", variable.to_string_lossy());
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, " [default: {}]", defaults.join(","));
    }
    let mut lines = vec![wrapped("- ", "  ", &text)];
    lines.extend(arg.get_possible_values().iter().map(|v| wrapped("  - ", "    ", &value(v))));
    lines.join("\n")
}

fn value(value: &PossibleValue) -> String {
    match value.get_help() {
        Some(help) => format!("`{}`: {}", value.get_name(), escaped(&help.to_string())),
        None => format!("`{}`", value.get_name()),
    }
}

/// Text that is no markup. Code between backquotes stays as it is.
fn escaped(text: &str) -> String {
    let escape = |(at, part): (usize, &str)| match at % 2 {
        0 => part.replace('*', "\\*").replace('<', "\\<"),
        _ => part.to_owned(),
    };
    text.split('`').enumerate().map(escape).collect::<Vec<_>>().join("`")
}

/// The text in lines of at most [`WIDTH`] characters, if its words allow that. `first` is in front of the first line,
/// `rest` in front of all others. No line begins within code, or with a word that Markdown would take for the beginning
/// of a list or heading.
fn wrapped(first: &str, rest: &str, text: &str) -> String {
    let mut pieces: Vec<String> = Vec::new();
    let mut in_code = false;
    for word in text.split_whitespace() {
        match pieces.last_mut() {
            Some(last) if in_code || begins_block(word) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
        in_code ^= word.matches('`').count() % 2 == 1;
    }
    let mut out = first.to_owned();
    let mut width = first.chars().count();
    for (at, piece) in pieces.iter().enumerate() {
        let length = piece.chars().count();
        if at > 0 && width + 1 + length > WIDTH {
            let _ = write!(out, "\n{rest}");
            width = rest.chars().count();
        } else if at > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(piece);
        width += length;
    }
    out
}

/// Whether Markdown takes a line that begins with this word for a list, a heading, a quotation or a table.
fn begins_block(word: &str) -> bool {
    let is_number = |n: &str| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit());
    word.chars().all(|c| "-+*=_".contains(c))
        || word.starts_with(['#', '>', '|'])
        || word.strip_suffix(['.', ')']).is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words_that_may_begin_a_line() {
        assert_eq!(wrapped("- ", "  ", "one  word\nafter another"), "- one word after another");
        let long = "w".repeat(100);
        let lines = |text: &str| wrapped("- ", "  ", &format!("{long} {text}"));
        // 2 + 100 + 1 + 17 characters fill a line.
        assert_eq!(lines("seventeen-letters next"), format!("- {long} seventeen-letters\n  next"));
        assert_eq!(lines("eighteen-letters-- next"), format!("- {long}\n  eighteen-letters-- next"));
        // Code, and words that would begin a list, stay where they are.
        assert_eq!(lines("one `zsr pcap h1-s1` two"), format!("- {long} one\n  `zsr pcap h1-s1` two"));
        assert_eq!(lines("12345678901234 or - here"), format!("- {long} 12345678901234\n  or - here"));
        assert_eq!(lines("1234567890123456 - here"), format!("- {long}\n  1234567890123456 - here"));
        assert!(begins_block("-") && begins_block("2.") && begins_block("#") && begins_block("|"));
        assert!(!begins_block("--csv") && !begins_block("`-`") && !begins_block("0.5") && !begins_block("."));
    }

    #[test]
    fn markup_is_escaped_outside_of_code() {
        assert_eq!(escaped("*, <N> and `etl-*` or `<N>`"), "\\*, \\<N> and `etl-*` or `<N>`");
    }

    #[test]
    fn the_lines_of_the_reference_are_short() {
        let long: Vec<_> =
            reference().lines().filter(|l| l.chars().count() > WIDTH).map(str::to_owned).collect();
        assert!(long.is_empty(), "{long:#?}");
    }
}
