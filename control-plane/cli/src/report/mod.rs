//! The report of a run: the typed figures, the table on the terminal, the JSON object, and progress.

mod columns;
mod connections;
mod figures;
mod json;
mod progress;
mod table;

pub use columns::{Column, Columns, Room, not_shown, numbers, words};
pub use connections::ConnectionCounts;
pub use figures::{FlowReport, LinkReport, Outcome, Report, RingReport, SwitchCounts};
pub use json::{JSON_VERSION, to_json};
pub use progress::{Lines, Progress, Silent, Snapshot, Terminal, progress};
pub use table::to_text;

#[cfg(test)]
mod tests;
