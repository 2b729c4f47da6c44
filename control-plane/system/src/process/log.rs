//! The log of a process: lines of the crate `tracing` on standard error. Messages to the person who started the process
//! are lines, too, so that a log in JSON has nothing else.

use super::roles::RoleError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Write;
use std::str::FromStr;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// The target of messages to people. They are written whatever the level of the filter is.
const TOLD: &str = "process";
/// Libraries write much, and write nothing unless a filter names them.
const ALWAYS: &str = "process=info,h2=off,hyper=off,hyper_util=off,rustls=off,tonic=off,tower=off";
/// The filter of processes that were not told what to log.
const TROUBLES: &str = "warn";

/// Which lines a process writes. The default is warnings and errors, without time and level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter(String);

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected off, error, warn, info, debug or trace, or parts with a level, such as warn,zsr_controller=debug";
        // To the library, a lone word that is no level would be the name of a part.
        let is_level = |word: &str| word.contains(['=', '[']) || word.parse::<LevelFilter>().is_ok();
        if let Some(wrong) = text.split(',').filter(|word| !word.is_empty()).find(|word| !is_level(word)) {
            return Err(format!("`{wrong}` is no level: {expected}"));
        }
        EnvFilter::builder().parse(text).map_err(|e| format!("{e}: {expected}"))?;
        Ok(Filter(text.to_owned()))
    }
}

/// How a line of a log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// What a process logs, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// Which lines.
    pub filter: Filter,
    /// How they are written.
    pub format: Format,
}

impl Log {
    /// Logs from now on, until the process ends.
    pub fn start(&self) {
        let Filter(asked) = &self.filter;
        let asked_for_nothing = asked.is_empty();
        let filter = format!("{ALWAYS},{}", if asked_for_nothing { TROUBLES } else { asked });
        let lines = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(filter))
            .with_writer(std::io::stderr)
            .with_ansi(false)
            // A full disk has no room for them, and a closed standard error takes none.
            .log_internal_errors(false);
        // Fails only in a process that logs already.
        let _ = match self.format {
            Format::Json => lines.json().flatten_event(true).try_init(),
            Format::Text if asked_for_nothing => {
                lines.without_time().with_level(false).with_target(false).try_init()
            }
            Format::Text => lines.try_init(),
        };
    }

    /// The options that have another process log like this.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        if *self == Log::default() {
            return Vec::new();
        }
        let format = match self.format {
            Format::Text => "text",
            Format::Json => "json",
        };
        vec![format!("--log={}", self.filter.0).into(), "--log-format".into(), format.into()]
    }

    /// Writes why the process ends.
    pub fn failed(&self, why: &RoleError) {
        match self.format {
            // As all commands do.
            Format::Text => drop(writeln!(std::io::stderr(), "error: {why}")),
            Format::Json => tracing::error!(target: TOLD, "{why}"),
        }
    }
}

/// Tells the person who started the process something.
pub fn tell(text: &str) {
    tracing::info!(target: TOLD, "{text}");
}

/// The message of a log's line.
pub(super) fn message(line: &str) -> String {
    #[derive(Deserialize)]
    struct Line {
        message: String,
    }
    let in_json = serde_json::from_str(line).map(|Line { message }| message);
    in_json.unwrap_or_else(|_| line.trim_start_matches("error: ").to_owned())
}
