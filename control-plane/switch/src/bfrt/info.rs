//! bf-rt.json: the tables of a program, or the driver's own, as the compiler or the driver describes them.

use super::BfrtError;
use serde::Deserialize;
use std::collections::HashMap;

/// Tables by number and by name.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// The source of the tables, for people.
    pub source: String,
    tables: Vec<Table>,
    by_id: HashMap<u32, usize>,
    /// From a table to its twin in another program of the chip.
    twins: HashMap<u32, u32>,
    filters: Vec<Filter>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The table's number.
    pub id: u32,
    /// The table's full name.
    pub name: String,
    /// The number of entries that the table has room for.
    pub size: u32,
    /// The table's keys, in order.
    pub keys: Vec<Field>,
    /// The table's actions, if it has any.
    pub actions: Vec<Action>,
    /// Data of all actions.
    pub data: Vec<Field>,
}

/// An action of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The action's number.
    pub id: u32,
    /// The action's name.
    pub name: String,
    /// The action's parameters, in order.
    pub data: Vec<Field>,
}

/// A key or a piece of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's number.
    pub id: u32,
    /// The field's name.
    pub name: String,
    /// Whether the field is a key that is not matched exactly.
    pub loose: bool,
    /// Whether the field is a list.
    pub repeated: bool,
    /// The form of its values.
    pub form: Form,
}

/// The form of a field's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number of this many bits.
    Bits(u32),
    /// Yes or no.
    Bool,
    /// A text from this list; empty: any text.
    Text(Vec<String>),
    /// A form that the controller never writes.
    Other(String),
}

/// A digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The filter's number.
    pub id: u32,
    /// The filter's full name.
    pub name: String,
    /// The filter's members, in order.
    pub fields: Vec<Field>,
}

impl Form {
    /// Bytes of a number.
    pub fn bytes(&self) -> Option<usize> {
        if let Form::Bits(bits) = self { Some(bits.div_ceil(8) as usize) } else { None }
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Form::Bits(bits) => write!(f, "a number of {bits} bits"),
            Form::Bool => f.write_str("yes or no"),
            Form::Text(words) if words.is_empty() => f.write_str("text"),
            Form::Text(words) => write!(f, "one of {}", words.join(", ")),
            Form::Other(name) => write!(f, "of type {name}"),
        }
    }
}

impl Info {
    /// Reads `json`, which is from `source`.
    ///
    /// # Errors
    /// When the text is no bf-rt.json.
    pub fn parse(json: &[u8], source: &str) -> Result<Self, BfrtError> {
        let bad =
            |e: serde_json::Error| BfrtError::Json { source_name: source.into(), reason: e.to_string() };
        let file: File = serde_json::from_slice(json).map_err(bad)?;
        let mut info = Info { source: source.into(), ..Default::default() };
        info.filters = file.learn_filters.into_iter().map(FilterText::read).collect();
        file.tables.into_iter().for_each(|t| info.add(t.read()));
        Ok(info)
    }

    /// The tables of `self` and of `other`.
    #[must_use]
    pub fn and(mut self, other: Info) -> Self {
        other.tables.into_iter().for_each(|t| self.add(t));
        self
    }

    fn add(&mut self, table: Table) {
        if let Some(first) = self.tables.iter().find(|t| t.is_twin(&table)) {
            self.twins.insert(first.id, table.id);
        }
        self.by_id.insert(table.id, self.tables.len());
        self.tables.push(table);
    }

    /// All tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// All digests.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Table number `id`.
    pub fn by_id(&self, id: u32) -> Option<&Table> {
        self.by_id.get(&id).map(|&at| &self.tables[at])
    }

    /// The twin of table number `id`, which takes the same entries: both programs of a Tofino 1 have egress
    /// (p4/arch/tna/main.p4).
    pub fn twin(&self, id: u32) -> Option<&Table> {
        self.by_id(*self.twins.get(&id)?)
    }

    /// Table number `id` and its twin, by their numbers.
    pub(super) fn both(&self, id: u32) -> impl Iterator<Item = u32> + use<> {
        std::iter::once(id).chain(self.twins.get(&id).copied())
    }

    /// The table whose name is `name`, or ends in it behind a dot; of twins the first.
    ///
    /// # Errors
    /// When there is none, or several.
    pub fn table(&self, name: &str) -> Result<&Table, BfrtError> {
        let is_second = |t: &Table| self.twins.values().any(|second| *second == t.id);
        let mut found = self.tables.iter().filter(|t| is_called(&t.name, name) && !is_second(t));
        let Some(first) = found.next() else { return Err(self.missing(format!("table `{name}`"))) };
        match found.next() {
            None => Ok(first),
            Some(second) => Err(BfrtError::Ambiguous {
                source_name: self.source.clone(),
                name: name.into(),
                found: format!("{}, {}", first.name, second.name),
            }),
        }
    }

    pub(super) fn missing(&self, missing: String) -> BfrtError {
        BfrtError::Missing { source_name: self.source.clone(), missing }
    }

    /// Whether program tables of both are the same.
    pub fn agrees(&self, other: &Info) -> bool {
        self.filters == other.filters && self.tables == other.tables
    }
}

impl Table {
    /// Whether `other` is the same table in another program: its name differs in the names of the program and the
    /// control only.
    fn is_twin(&self, other: &Table) -> bool {
        let parts = |t: &Table| {
            let (program, rest) = t.name.split_once('.')?;
            Some((program.to_owned(), behind(rest)?.to_owned()))
        };
        let (Some((program, name)), Some((others, same))) = (parts(self), parts(other)) else { return false };
        let actions = |t: &Table| {
            let one = |a: &Action| (behind(&a.name).map(str::to_owned), a.data.clone());
            t.actions.iter().map(one).collect::<Vec<_>>()
        };
        (program != others && name == same && self.keys == other.keys && self.data == other.data)
            && actions(self) == actions(other)
    }

    /// The table's action of that name.
    pub fn action(&self, name: &str) -> Option<&Action> {
        self.actions.iter().find(|a| is_called(&a.name, name))
    }

    /// The field with number `id` among the data of action `action`.
    pub fn data_field(&self, action: u32, id: u32) -> Option<&Field> {
        let of_action = self.actions.iter().find(|a| a.id == action).and_then(|a| by_number(&a.data, id));
        of_action.or_else(|| by_number(&self.data, id))
    }

    /// The key of that number.
    pub fn key_field(&self, id: u32) -> Option<&Field> {
        by_number(&self.keys, id)
    }
}

/// A name behind its first part.
fn behind(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, rest)| rest)
}

fn by_number(fields: &[Field], id: u32) -> Option<&Field> {
    fields.iter().find(|f| f.id == id)
}

/// Whether `name` means the object with full name `full`.
fn is_called(full: &str, name: &str) -> bool {
    full.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[derive(Deserialize)]
struct File {
    tables: Vec<TableText>,
    #[serde(default)]
    learn_filters: Vec<FilterText>,
}

#[derive(Deserialize)]
struct TableText {
    id: u32,
    name: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    key: Vec<FieldText>,
    #[serde(default)]
    action_specs: Vec<ActionText>,
    #[serde(default)]
    data: Vec<DataText>,
}

#[derive(Deserialize)]
struct ActionText {
    id: u32,
    name: String,
    #[serde(default)]
    data: Vec<DataText>,
}

#[derive(Deserialize)]
struct FilterText {
    id: u32,
    name: String,
    #[serde(default)]
    fields: Vec<FieldText>,
}

/// Data stands by itself, or in `singleton`, or is one of several forms, which the controller does not use.
#[derive(Deserialize)]
#[serde(untagged)]
enum DataText {
    Wrapped { singleton: FieldText },
    Bare(FieldText),
    Other(#[allow(dead_code, reason = "only told from the others")] serde_json::Value),
}

#[derive(Deserialize)]
struct FieldText {
    id: u32,
    name: String,
    #[serde(default)]
    repeated: bool,
    match_type: Option<String>,
    #[serde(rename = "type")]
    form: Option<FormText>,
}

#[derive(Deserialize)]
struct FormText {
    #[serde(rename = "type")]
    name: String,
    width: Option<u32>,
    #[serde(default)]
    choices: Vec<String>,
}

impl TableText {
    fn read(self) -> Table {
        Table {
            id: self.id,
            name: self.name,
            size: u32::try_from(self.size).unwrap_or(u32::MAX),
            keys: self.key.into_iter().map(FieldText::read).collect(),
            actions: self
                .action_specs
                .into_iter()
                .map(|a| Action { id: a.id, name: a.name, data: data(a.data) })
                .collect(),
            data: data(self.data),
        }
    }
}

impl FilterText {
    fn read(self) -> Filter {
        Filter {
            id: self.id,
            name: self.name,
            fields: self.fields.into_iter().map(FieldText::read).collect(),
        }
    }
}

impl FieldText {
    fn read(self) -> Field {
        let form = self.form.map_or(Form::Other("unknown".into()), FormText::read);
        let loose = self.match_type.is_some_and(|t| t != "Exact");
        Field { id: self.id, name: self.name, loose, repeated: self.repeated, form }
    }
}

impl FormText {
    fn read(self) -> Form {
        match (self.name.as_str(), self.width) {
            ("bytes", Some(bits)) => Form::Bits(bits),
            ("uint8", _) => Form::Bits(8),
            ("uint16", _) => Form::Bits(16),
            ("uint32", _) => Form::Bits(32),
            ("uint64", _) => Form::Bits(64),
            ("bool", _) => Form::Bool,
            ("string", _) => Form::Text(self.choices),
            _ => Form::Other(self.name),
        }
    }
}

fn data(all: Vec<DataText>) -> Vec<Field> {
    let field = |d| match d {
        DataText::Wrapped { singleton } => Some(singleton.read()),
        DataText::Bare(field) => Some(field.read()),
        DataText::Other(_) => None,
    };
    all.into_iter().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = br#"{"schema_version": "1.0.0", "tables": [
        {"name": "pipe.In.a.rows", "id": 7, "table_type": "MatchAction_Direct", "size": 9,
         "key": [{"id": 1, "name": "m.x", "match_type": "Exact", "type": {"type": "bytes", "width": 9}},
                 {"id": 2, "name": "m.y", "match_type": "Ternary", "type": {"type": "bytes", "width": 8}}],
         "action_specs": [{"id": 3, "name": "In.a.go", "data": [
             {"id": 1, "name": "v", "repeated": false, "type": {"type": "bytes", "width": 32}}]}],
         "data": [{"mandatory": false, "singleton": {"id": 65554, "name": "$ENTRY_TTL", "type": {"type": "uint32"}}},
                  {"mandatory": true, "oneof": []}]},
        {"name": "pipe.Out.b.rows", "id": 8, "size": 1, "key": [], "data": []}]}"#;

    #[test]
    fn tables_have_numbers_names_and_widths() {
        let info = Info::parse(TEXT, "x").unwrap();
        let t = info.table("a.rows").unwrap();
        assert_eq!((t.id, t.size, t.keys[0].form.bytes(), t.keys[1].loose), (7, 9, Some(2), true));
        assert_eq!(t.action("go").unwrap().data[0].form, Form::Bits(32));
        assert_eq!(t.data_field(3, 65554).unwrap().name, "$ENTRY_TTL");
        assert_eq!(info.by_id(8).unwrap().name, "pipe.Out.b.rows");
    }

    #[test]
    fn a_table_of_two_programs_is_one_with_a_twin() {
        let other = String::from_utf8_lossy(TEXT)
            .replace("pipe.In.", "fold.FoldIn.")
            .replace("\"In.a.go\"", "\"FoldIn.a.go\"")
            .replace("\"id\": 7", "\"id\": 17")
            .replace("\"id\": 3,", "\"id\": 13,")
            .replace("\"id\": 8", "\"id\": 18");
        let info = Info::parse(TEXT, "x").unwrap();
        let both = info.clone().and(Info::parse(other.as_bytes(), "y").unwrap());
        assert_eq!((both.table("a.rows").unwrap().id, info.twin(7)), (7, None));
        let twin = both.twin(7).unwrap();
        assert_eq!(
            (twin.id, twin.name.as_str(), twin.action("go").unwrap().id),
            (17, "fold.FoldIn.a.rows", 13)
        );
        // Tables of one name, but with other keys: nobody knows which one is meant.
        let narrower = Info::parse(other.replace("\"width\": 9", "\"width\": 8").as_bytes(), "y").unwrap();
        assert!(info.and(narrower).table("a.rows").is_err());
    }

    #[test]
    fn what_is_missing_or_not_one_is_named() {
        let info = Info::parse(TEXT, "x.json").unwrap();
        let e = info.table("ows").unwrap_err().to_string();
        assert!(e.contains("x.json") && e.contains("`ows`"), "{e}");
        let e = info.table("rows").unwrap_err().to_string();
        assert!(e.contains("pipe.In.a.rows") && e.contains("pipe.Out.b.rows"), "{e}");
        assert!(Info::parse(b"{", "x.json").unwrap_err().to_string().contains("x.json is no bf-rt.json"));
    }
}
