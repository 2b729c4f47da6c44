//! What the controller asked a driver and what the driver answered, as lines of a file: by the names of tables and fields, as their
//! numbers are the compiler's.

use super::check::{Table, Tables};
use super::held::entity;
use bf::data_field::{BoolArray, IntArray, StrArray, Value};
use bf::entity::Entity;
use bf::table_entry::Value as Key;
use bf::update::Type;
use serde::{Deserialize, Serialize};
use zsr_switch::bfrt::proto as bf;

/// One exchange. Of each part of a request is said OK or what was wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Exchange {
    /// A client subscribes and binds.
    Comes,
    Goes,
    Write {
        pipe: u32,
        updates: Vec<bf::Update>,
        said: Vec<String>,
    },
    Read {
        asked: Vec<bf::Entity>,
        found: Vec<bf::Entity>,
        said: Vec<String>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// What rows have in common, which are behind its number in lines that follow: how many there were before it.
    Head(Head),
    Comes,
    Goes,
    Write {
        pipe: u32,
        updates: Vec<Rows>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        said: Vec<String>,
    },
    Read {
        asked: Vec<Rows>,
        found: Vec<Rows>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        said: Vec<String>,
    },
}

/// Entries that follow one another and have one head.
type Rows = (usize, Vec<Vec<Datum>>);

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Head {
    /// Of an update its kind, or the operation.
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    table: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    flag: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Vec<String>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Datum {
    Is(bool),
    Real(f32),
    /// In hexadecimal digits.
    Bytes(String),
    Word {
        word: String,
    },
    Ints {
        ints: Vec<u32>,
    },
    Bools {
        bools: Vec<bool>,
    },
    Words {
        words: Vec<String>,
    },
}

const FROM_CHIP: &str = "from_hw";
const LOSES: &str = "mod_del";
const DEFAULT: &str = "default";

fn hex(bytes: &[u8]) -> Datum {
    Datum::Bytes(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn bytes(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

fn datum(value: &Value) -> Datum {
    match value {
        Value::Stream(bytes) => hex(bytes),
        Value::BoolVal(is) => Datum::Is(*is),
        Value::StrVal(word) => Datum::Word { word: word.clone() },
        Value::IntArrVal(all) => Datum::Ints { ints: all.val.clone() },
        Value::BoolArrVal(all) => Datum::Bools { bools: all.val.clone() },
        Value::FloatVal(number) => Datum::Real(*number),
        Value::StrArrVal(all) => Datum::Words { words: all.val.clone() },
    }
}

fn value(datum: &Datum) -> Value {
    match datum {
        Datum::Bytes(text) => Value::Stream(bytes(text)),
        Datum::Is(is) => Value::BoolVal(*is),
        Datum::Word { word } => Value::StrVal(word.clone()),
        Datum::Ints { ints } => Value::IntArrVal(IntArray { val: ints.clone() }),
        Datum::Bools { bools } => Value::BoolArrVal(BoolArray { val: bools.clone() }),
        Datum::Real(number) => Value::FloatVal(*number),
        Datum::Words { words } => Value::StrArrVal(StrArray { val: words.clone() }),
    }
}

fn row(tables: &Tables, kind: &str, part: &bf::Entity) -> (Head, Vec<Datum>) {
    let entry = match part.entity.as_ref().expect("an entity") {
        Entity::TableEntry(entry) => entry,
        Entity::TableOperation(operation) => {
            let (kind, table) = (&operation.table_operations_type, tables.end_of_name(operation.table_id));
            return (Head { kind: kind.clone(), table: table.into(), ..Head::default() }, Vec::new());
        }
    };
    let table = &tables.0[&entry.table_id];
    let flags = entry.table_flags.unwrap_or_default();
    let flag = match (entry.is_default_entry, flags.from_hw, flags.mod_del) {
        (true, ..) => DEFAULT,
        (_, true, _) => FROM_CHIP,
        (.., true) => LOSES,
        _ => "",
    };
    let mut row = Vec::new();
    let name = tables.end_of_name(entry.table_id);
    let mut head = Head { kind: kind.into(), table: name.into(), flag: flag.into(), ..Head::default() };
    if let Some(Key::Key(key)) = &entry.value {
        let names = key.fields.iter().map(|field| table.key_name(field.field_id).into());
        head.key = Some(names.collect());
        row.extend(key.fields.iter().map(|field| match &field.match_type {
            Some(bf::key_field::MatchType::Exact(exact)) => hex(&exact.value),
            // As Table::key_field takes it.
            Some(bf::key_field::MatchType::Ternary(t)) => hex(&[&t.value[..], &t.mask].concat()),
            other => panic!("{}: there is no way to write {other:?} yet", table.name),
        }));
    }
    if let Some(data) = &entry.data {
        head.action = table.end_of_action(data.action_id).into();
        let names = data.fields.iter().map(|field| table.datum_name(data.action_id, field.field_id).into());
        head.data = Some(names.collect());
        row.extend(data.fields.iter().map(|field| datum(field.value.as_ref().expect("a value"))));
    }
    (head, row)
}

/// Writer of a file's lines, which leave out what rows before them have said.
struct Writer<'a> {
    tables: &'a Tables,
    heads: Vec<Head>,
    out: String,
}

impl Writer<'_> {
    fn line(&mut self, line: &Line) {
        self.out += &serde_json::to_string(line).expect("JSON");
        self.out.push('\n');
    }

    fn rows<'a>(&mut self, parts: impl Iterator<Item = (&'a str, &'a bf::Entity)>) -> Vec<Rows> {
        let mut out = Vec::<Rows>::new();
        for (kind, part) in parts {
            let (head, row) = row(self.tables, kind, part);
            let known = self.heads.iter().position(|h| *h == head);
            let number = known.unwrap_or_else(|| {
                self.line(&Line::Head(head.clone()));
                self.heads.push(head);
                self.heads.len() - 1
            });
            match out.last_mut().filter(|(last, _)| *last == number) {
                Some((_, rows)) => rows.push(row),
                None => out.push((number, vec![row])),
            }
        }
        out
    }

    fn entities(&mut self, all: &[bf::Entity]) -> Vec<Rows> {
        self.rows(all.iter().map(|e| ("", e)))
    }
}

/// The entry of a row. Of an answer, what the table does not have is left out: ours of the driver's own lack what no controller writes.
fn part(table_id: u32, table: &Table, of: &Head, row: &[Datum]) -> Result<bf::Entity, String> {
    let Head { kind, key, action, data, flag, .. } = of;
    let missing = |name: &str| format!("{}: no key {name}", table.name);
    let mut values = row.iter().map(value);
    let mut fields = Vec::new();
    for name in key.iter().flatten() {
        let Some(Value::Stream(bytes)) = values.next() else { return Err(missing(name)) };
        fields.push(table.key_field(name, bytes).ok_or_else(|| missing(name))?);
    }
    let data = match data {
        None => None,
        Some(names) => {
            let mut fields = Vec::new();
            for (name, value) in names.iter().zip(values) {
                match table.datum_known(action, name) {
                    Some(field_id) => fields.push(bf::DataField { field_id, value: Some(value) }),
                    None if kind.is_empty() => {}
                    None => return Err(format!("{}: no datum {name}", table.name)),
                }
            }
            Some(bf::TableData { action_id: table.action_number(action), fields })
        }
    };
    let table_flags =
        bf::TableFlags { from_hw: flag == FROM_CHIP, mod_del: flag == LOSES, ..Default::default() };
    Ok(entity(bf::TableEntry {
        table_id,
        value: key.is_some().then_some(Key::Key(bf::TableKey { fields })),
        data,
        is_default_entry: flag == DEFAULT,
        table_flags: Some(table_flags),
        ..Default::default()
    }))
}

fn parts(tables: &Tables, heads: &[Head], all: &[Rows]) -> Result<Vec<bf::Update>, String> {
    let mut out = Vec::new();
    for (number, rows) in all {
        let of = heads.get(*number).ok_or_else(|| format!("no head {number}"))?;
        let (table_id, table) = tables.named(&of.table).ok_or_else(|| format!("no table {}", of.table))?;
        let kind = Type::from_str_name(&of.kind);
        for row in rows {
            let entity = match kind {
                None if !of.kind.is_empty() => bf::Entity {
                    entity: Some(Entity::TableOperation(bf::TableOperation {
                        table_id,
                        table_operations_type: of.kind.clone(),
                    })),
                },
                _ => part(table_id, table, of, row)?,
            };
            out.push(bf::Update { r#type: kind.unwrap_or(Type::Insert).into(), entity: Some(entity) });
        }
    }
    Ok(out)
}

/// The file of these exchanges.
pub fn text(tables: &Tables, exchanges: &[Exchange]) -> String {
    let of = |update: &bf::Update| Type::try_from(update.r#type).expect("a kind").as_str_name();
    let short = |said: &[String]| match said.iter().all(|one| one == "OK") {
        true => Vec::new(),
        false => said.to_vec(),
    };
    let mut writer = Writer { tables, heads: Vec::new(), out: String::new() };
    for exchange in exchanges {
        let line = match exchange {
            Exchange::Comes => Line::Comes,
            Exchange::Goes => Line::Goes,
            Exchange::Write { pipe, updates, said } => {
                let updates = updates.iter().map(|u| (of(u), u.entity.as_ref().expect("an entity")));
                Line::Write { pipe: *pipe, updates: writer.rows(updates), said: short(said) }
            }
            Exchange::Read { asked, found, said } => {
                Line::Read { asked: writer.entities(asked), found: writer.entities(found), said: short(said) }
            }
        };
        writer.line(&line);
    }
    writer.out
}

/// What a file says, with the numbers of these tables and of its lines; else what they lack.
pub fn read(tables: &Tables, text: &str) -> Result<Vec<(usize, Exchange)>, String> {
    let whole = |said: Vec<String>, parts: usize| match said.is_empty() {
        true => vec!["OK".to_owned(); parts],
        false => said,
    };
    let (mut heads, mut out) = (Vec::new(), Vec::new());
    for (line, number) in text.lines().zip(1..) {
        let parts = |rows: &[Rows]| parts(tables, &heads, rows);
        let entities = |rows: &[Rows]| {
            parts(rows).map(|all| all.into_iter().filter_map(|part| part.entity).collect::<Vec<_>>())
        };
        let exchange = match serde_json::from_str(line).map_err(|e| e.to_string())? {
            Line::Head(head) => {
                heads.push(head);
                continue;
            }
            Line::Comes => Exchange::Comes,
            Line::Goes => Exchange::Goes,
            Line::Write { pipe, updates, said } => {
                let updates = parts(&updates)?;
                Exchange::Write { pipe, said: whole(said, updates.len()), updates }
            }
            Line::Read { asked, found, said } => {
                let (asked, found) = (entities(&asked)?, entities(&found)?);
                Exchange::Read { said: whole(said, asked.len()), asked, found }
            }
        };
        out.push((number, exchange));
    }
    Ok(out)
}
