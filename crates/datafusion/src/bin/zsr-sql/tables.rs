//! Tables of one's own: files, or folders of files, that all workers read.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use datafusion::datasource::file_format::options::{CsvReadOptions, JsonReadOptions, ParquetReadOptions};
use datafusion::prelude::SessionContext;

/// A table's name and where its rows are.
#[derive(Clone, Debug)]
pub(crate) struct OwnTable {
    name: String,
    path: PathBuf,
}

impl FromStr for OwnTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once('=').ok_or("expected NAME=PATH")?;
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("a table called `{name}`: expected a letter, then letters, digits and `_`"));
        }
        Ok(OwnTable { name: name.to_ascii_lowercase(), path: path.into() })
    }
}

/// What files of a table hold, by the end of their names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Csv,
    Json,
    Parquet,
}

impl Kind {
    const ENDS: [(&str, Kind); 5] = [
        (".parquet", Kind::Parquet),
        (".csv", Kind::Csv),
        (".json", Kind::Json),
        (".jsonl", Kind::Json),
        (".ndjson", Kind::Json),
    ];

    fn of(path: &Path) -> Option<(&'static str, Kind)> {
        let name = path.file_name()?.to_str()?;
        Kind::ENDS.into_iter().find(|(end, _)| name.ends_with(end))
    }
}

impl OwnTable {
    /// Finds out what the files hold, and makes them a table of `context`. It hides a table that has the name already.
    ///
    /// # Errors
    /// What is wrong with the files, and which.
    pub(crate) async fn register(&self, context: &SessionContext) -> Result<(), String> {
        let fail = |why: String| format!("table `{}`, {}: {why}", self.name, self.path.display());
        let path = self.path.canonicalize().map_err(|e| fail(e.to_string()))?;
        let (end, kind) = self.kind(&path).map_err(fail)?;
        // A folder's URL ends so.
        let slash = if path.is_dir() { "/" } else { "" };
        let url = format!("{}{slash}", path.to_str().ok_or_else(|| fail("no UTF-8".to_owned()))?);
        let name = self.name.as_str();
        let _ = context.deregister_table(name);
        let done = match kind {
            Kind::Csv => context.register_csv(name, &url, CsvReadOptions::new().file_extension(end)).await,
            Kind::Json => {
                context.register_json(name, &url, JsonReadOptions::default().file_extension(end)).await
            }
            Kind::Parquet => {
                context.register_parquet(name, &url, ParquetReadOptions::new().file_extension(end)).await
            }
        };
        done.map_err(|e| fail(e.strip_backtrace()))?;
        let table = context.table(name).await.map_err(|e| fail(e.strip_backtrace()))?;
        if table.schema().fields().is_empty() { Err(fail("no columns".to_owned())) } else { Ok(()) }
    }

    fn kind(&self, path: &Path) -> Result<(&'static str, Kind), String> {
        let ends = Kind::ENDS.map(|(end, _)| end).join(", ");
        if !path.is_dir() {
            return Kind::of(path).ok_or_else(|| format!("expected a name that ends in {ends}"));
        }
        let entries = std::fs::read_dir(path).map_err(|e| e.to_string())?;
        let mut found: Vec<_> = entries.flatten().filter_map(|entry| Kind::of(&entry.path())).collect();
        found.sort_unstable_by_key(|(end, _)| *end);
        found.dedup_by_key(|(end, _)| *end);
        match found[..] {
            [] => Err(format!("no file in it ends in {ends}")),
            [one] => Ok(one),
            [(one, _), (other, _), ..] => Err(format!("it has files that end in {one} and in {other}")),
        }
    }
}
