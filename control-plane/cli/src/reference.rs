//! docs/reference.md: every command with its options and help, as clap has them.

use super::args::Args;
use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write as _;

const HEAD: &str = "\
# Reference of the command line

`cargo xtask cli` writes this file from the help of each command: `zsr COMMAND --help`. [guide.md](guide.md) tells how the commands
go together; [json.md](json.md) describes the output of `--json`.
";

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
    let _ = writeln!(out, "\n## {name}\n\n{about}.\n\n    {usage}");
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
        let _ = writeln!(
            out,
            "{}- [{name}](#{}): {about}",
            if at == 0 { "\n" } else { "" },
            name.replace(' ', "-")
        );
    }
    for child in children() {
        describe(child, out);
    }
}

/// ``- `-n`, `--count <N>`: End after so many (environment: X) [default: 3]``, with the values that it may have.
fn option(arg: &Arg) -> String {
    let mut out = String::from("- ");
    if let Some(short) = arg.get_short() {
        let _ = write!(out, "`-{short}`, ");
    }
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let paragraphs = help.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    let _ = write!(out, "`{arg}`: {}", escaped(&paragraphs.collect::<Vec<_>>().join(". ")));
    if let Some(variable) = arg.get_env() {
        let _ = write!(out, " [environment: `{}`]", variable.to_string_lossy());
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(out, " [default: {}]", defaults.join(","));
    }
    let values: Vec<String> = arg.get_possible_values().iter().map(value).collect();
    if !values.is_empty() {
        let _ = write!(out, ": {}", values.join("; "));
    }
    out
}

fn value(value: &PossibleValue) -> String {
    match value.get_help() {
        Some(help) => format!("`{}` ({})", value.get_name(), escaped(&help.to_string())),
        None => format!("`{}`", value.get_name()),
    }
}

/// Text that is no markup.
fn escaped(text: &str) -> String {
    text.replace('*', "\\*").replace('<', "\\<")
}
