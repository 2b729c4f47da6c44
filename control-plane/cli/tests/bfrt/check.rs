//! A table as bf-rt.json has it, and whether an entry is one of it. Reads the file by itself: nothing here is the controller's.

use serde_json::Value as Json;
use std::collections::HashMap;
use zsr_switch::bfrt::proto as bf;

use bf::data_field::Value;

/// All tables by number.
#[derive(Debug)]
pub struct Tables(pub HashMap<u32, Table>);

#[derive(Debug)]
pub struct Table {
    pub name: String,
    keys: Vec<Field>,
    data: Vec<Field>,
    actions: Vec<(u32, String, Vec<Field>)>,
    pub size: u64,
}

#[derive(Clone, Debug)]
struct Field {
    id: u32,
    name: String,
    kind: String,
    width: u32,
    repeated: bool,
    mandatory: bool,
    /// A key that is compared under a mask.
    masked: bool,
    words: Vec<String>,
}

fn field(json: &Json) -> Field {
    let f = json.get("singleton").unwrap_or(json);
    let is = |key: &str| [json, f].iter().any(|j| j[key].as_bool().unwrap_or(false));
    let kind = f["type"]["type"].as_str().expect("a type").to_owned();
    let width = match kind.as_str() {
        "bytes" => f["type"]["width"].as_u64().expect("a width") as u32,
        other => other.strip_prefix("uint").map_or(0, |bits| bits.parse().expect("bits")),
    };
    let words = f["type"]["choices"].as_array().into_iter().flatten();
    Field {
        id: f["id"].as_u64().expect("an id") as u32,
        name: f["name"].as_str().expect("a name").to_owned(),
        kind,
        width,
        repeated: is("repeated"),
        mandatory: is("mandatory"),
        masked: f["match_type"] == "Ternary",
        words: words.map(|w| w.as_str().expect("a word").to_owned()).collect(),
    }
}

fn fields(json: &Json) -> Vec<Field> {
    let all = json.as_array().into_iter().flatten();
    all.filter(|f| f.get("singleton").unwrap_or(f).get("type").is_some()).map(field).collect()
}

impl Tables {
    /// The table whose name ends in `name`, with its number; that of program `pipe`, if program `fold` has the same.
    pub fn named(&self, name: &str) -> Option<(u32, &Table)> {
        let found = self.0.iter().filter(|(_, t)| t.name.ends_with(name));
        found.max_by_key(|(_, t)| &t.name).map(|(id, t)| (*id, t))
    }

    /// The end of a table's name that no other has.
    pub fn end_of_name(&self, id: u32) -> &str {
        let name = &self.0[&id].name;
        let end = name.rfind('.').map_or(name.as_str(), |at| &name[at..]);
        if self.0.values().filter(|t| t.name.ends_with(end)).count() == 1 { end } else { name }
    }

    pub fn read(files: &[&str]) -> Self {
        let mut out = HashMap::new();
        for file in files {
            let json: Json = serde_json::from_str(file).expect("JSON");
            for t in json["tables"].as_array().expect("tables") {
                let actions = t["action_specs"].as_array().into_iter().flatten();
                let action = |a: &Json| {
                    let name = a["name"].as_str().expect("a name").to_owned();
                    (a["id"].as_u64().expect("an id") as u32, name, fields(&a["data"]))
                };
                let table = Table {
                    name: t["name"].as_str().expect("a name").to_owned(),
                    keys: fields(&t["key"]),
                    data: fields(&t["data"]),
                    actions: actions.map(action).collect(),
                    size: t["size"].as_u64().unwrap_or(0),
                };
                out.insert(t["id"].as_u64().expect("an id") as u32, table);
            }
        }
        Tables(out)
    }
}

/// The packets of a counter.
const COUNTED: &str = "$COUNTER_SPEC_PKTS";

/// A field of a key that is matched by a mask.
fn masked(field_id: u32, value: Vec<u8>, mask: Vec<u8>) -> bf::KeyField {
    let ternary = bf::key_field::Ternary { value, mask };
    bf::KeyField { field_id, match_type: Some(bf::key_field::MatchType::Ternary(ternary)) }
}

/// A field of a key.
pub fn exactly(field_id: u32, value: Vec<u8>) -> bf::KeyField {
    let exact = bf::key_field::Exact { value };
    bf::KeyField { field_id, match_type: Some(bf::key_field::MatchType::Exact(exact)) }
}

impl Table {
    /// Whether it is one of the program's, in which nothing may be left out.
    pub fn of_program(&self) -> bool {
        self.name.starts_with("pipe.") || self.name.starts_with("fold.")
    }

    /// Whether its rows are there from the beginning, and stay.
    pub fn has_fixed_rows(&self) -> bool {
        self.name.contains("pktgen.") || self.is_counter()
    }

    /// Whether its rows are values that a parser knows, and nothing else.
    pub fn is_value_set(&self) -> bool {
        self.of_program() && self.data.is_empty() && self.actions.is_empty()
    }

    /// Whether it counts packets.
    pub fn is_counter(&self) -> bool {
        self.data.iter().any(|f| f.name == COUNTED)
    }

    /// A counter's cell with so many packets.
    pub fn counted(&self, table_id: u32, cell: u32, packets: u64) -> bf::TableEntry {
        let field = self.data.iter().find(|f| f.name == COUNTED).expect("a counter");
        let value = Some(Value::Stream(packets.to_be_bytes().to_vec()));
        let data = bf::TableData { action_id: 0, fields: vec![bf::DataField { field_id: field.id, value }] };
        let value = Some(bf::table_entry::Value::Key(self.key_of(cell)));
        bf::TableEntry { table_id, value, data: Some(data), ..Default::default() }
    }

    /// Entry `number` of many that differ in their keys, with zeros for data; none where nobody adds entries.
    pub fn one_of_many(&self, table_id: u32, number: u64) -> Option<bf::TableEntry> {
        let (action_id, _, data) = self.actions.first()?;
        // Secrets and queue pairs' numbers are drawn, workers and what they go through are counted.
        let width: u32 = self.keys.iter().map(|f| f.width).sum();
        let drawn =
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) >> 64_u32.saturating_sub(width);
        let counted = if self.keys.iter().any(|f| f.name == "m.index") {
            number >> 1 << 16 | number & 1
        } else {
            number
        };
        let mut left = if width > 32 { drawn } else { counted };
        let mut key: Vec<bf::KeyField> = Vec::new();
        for f in self.keys.iter().rev() {
            let bits = f.width.min(48);
            let value = left & ((1 << bits) - 1);
            left >>= bits;
            let bytes = f.width.div_ceil(8) as usize;
            let mut exact = vec![0; bytes.saturating_sub(8)];
            exact.extend_from_slice(&value.to_be_bytes()[8 - bytes.min(8)..]);
            key.push(exactly(f.id, exact));
        }
        if left != 0 {
            return None;
        }
        let zero = |f: &Field| bf::DataField {
            field_id: f.id,
            value: Some(Value::Stream(vec![0; f.width.div_ceil(8) as usize])),
        };
        let data = bf::TableData { action_id: *action_id, fields: data.iter().map(zero).collect() };
        let value = Some(bf::table_entry::Value::Key(bf::TableKey { fields: key }));
        Some(bf::TableEntry { table_id, value, data: Some(data), ..Default::default() })
    }

    /// The field `name` of a key; the bytes of one that is matched by a mask have the mask behind the value.
    pub fn key_field(&self, name: &str, mut value: Vec<u8>) -> Option<bf::KeyField> {
        let field = self.keys.iter().find(|f| f.name == name)?;
        Some(match field.masked {
            true => {
                let mask = value.split_off(value.len() / 2);
                masked(field.id, value, mask)
            }
            false => exactly(field.id, value),
        })
    }

    pub fn key_name(&self, number: u32) -> &str {
        self.keys.iter().find(|f| f.id == number).map_or("?", |f| &f.name)
    }

    /// Number of the action whose name ends in `name`; none is 0.
    pub fn action_number(&self, name: &str) -> u32 {
        let found = self.actions.iter().find(|(_, n, _)| !name.is_empty() && n.ends_with(name));
        found.map_or(0, |(id, ..)| *id)
    }

    /// The end of that action's name, by which `action_number` finds it.
    pub fn end_of_action(&self, number: u32) -> &str {
        let name = self.actions.iter().find(|(id, ..)| *id == number).map_or("", |(_, name, _)| name);
        name.rfind('.').map_or(name, |at| &name[at..])
    }

    fn data_of(&self, action: u32) -> impl Iterator<Item = &Field> {
        let of_action = self.actions.iter().filter(move |(id, ..)| *id == action).flat_map(|(.., data)| data);
        of_action.chain(&self.data)
    }

    pub fn datum_known(&self, action: &str, name: &str) -> Option<u32> {
        self.data_of(self.action_number(action)).find(|f| f.name == name).map(|f| f.id)
    }

    pub fn datum_number(&self, action: &str, name: &str) -> u32 {
        self.datum_known(action, name).unwrap_or_else(|| panic!("{}: no datum {name}", self.name))
    }

    pub fn datum_name(&self, action: u32, number: u32) -> &str {
        self.data_of(action).find(|f| f.id == number).map_or("?", |f| &f.name)
    }

    /// Whether its rows say what to do: registers' and counters' do not.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// The key of one number.
    pub fn key_of(&self, number: u32) -> bf::TableKey {
        bf::TableKey { fields: vec![exactly(self.keys[0].id, number.to_be_bytes().to_vec())] }
    }

    /// What a fixed row has before anybody writes it. Local ports 68 to 71 of a Tofino 1 always recirculate.
    pub fn initial(&self, key: &[u64]) -> Option<bf::TableData> {
        let recirculates = self.name.starts_with("tf1.") && key[0] & 127 >= 68;
        let field = |f: &Field| bf::DataField {
            field_id: f.id,
            value: Some(Value::BoolVal(f.name == "recirculation_enable" && recirculates)),
        };
        let fields = self.name.ends_with("pktgen.port_cfg").then(|| self.data.iter().map(field).collect());
        fields.map(|fields| bf::TableData { action_id: 0, fields })
    }

    /// What is done where no entry matches: whoever reads a whole table is told, too. The driver has no such entry in its own.
    pub fn default_entry(&self, table_id: u32) -> Option<bf::TableEntry> {
        let (action_id, ..) = self.actions.last().filter(|_| self.of_program())?;
        let data = Some(bf::TableData { action_id: *action_id, fields: Vec::new() });
        Some(bf::TableEntry { table_id, data, is_default_entry: true, ..Default::default() })
    }

    /// The key's values in the order of their fields.
    pub fn key(&self, key: &bf::TableKey) -> Result<Vec<u64>, String> {
        let mut out = Vec::new();
        for f in &self.keys {
            let mut given = key.fields.iter().filter(|k| k.field_id == f.id);
            let Some(one) = given.next() else { return Err(format!("{}: no key `{}`", self.name, f.name)) };
            if given.next().is_some() {
                return Err(format!("{}: key `{}` twice", self.name, f.name));
            }
            let value = match &one.match_type {
                Some(bf::key_field::MatchType::Exact(exact)) if !f.masked => &exact.value,
                Some(bf::key_field::MatchType::Ternary(ternary)) if f.masked => {
                    let mask = self.number(f, &ternary.mask)?;
                    if mask != (1 << f.width) - 1 {
                        return Err(format!("{}: key `{}` has mask {mask:#x}", self.name, f.name));
                    }
                    &ternary.value
                }
                other => return Err(format!("{}: key `{}` got {other:?}", self.name, f.name)),
            };
            out.push(self.number(f, value)?);
        }
        match key.fields.iter().find(|k| self.keys.iter().all(|f| f.id != k.field_id)) {
            Some(k) => Err(format!("{}: no key has number {}", self.name, k.field_id)),
            None => Ok(out),
        }
    }

    fn number(&self, f: &Field, bytes: &[u8]) -> Result<u64, String> {
        let value = bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b));
        let (expected, found) = (f.width.div_ceil(8) as usize, bytes.len());
        if expected != found || (f.width < 64 && value >> f.width != 0) {
            let width = f.width;
            return Err(format!("{}: `{}` has {width} bits, and got {bytes:?}", self.name, f.name));
        }
        Ok(value)
    }

    /// Name of the action, and every datum by name.
    pub fn data(
        &self,
        data: &bf::TableData,
        whole: bool,
    ) -> Result<(String, HashMap<String, Value>), String> {
        let action = self.actions.iter().find(|(id, ..)| *id == data.action_id);
        let (name, of_action) = match action {
            Some((_, name, of_action)) => (name.clone(), of_action.as_slice()),
            None if data.action_id == 0 && !self.of_program() => (String::new(), &[][..]),
            None if data.action_id == 0 && self.actions.is_empty() => (String::new(), &[][..]),
            None => return Err(format!("{}: no action has number {}", self.name, data.action_id)),
        };
        let known: Vec<&Field> = of_action.iter().chain(&self.data).collect();
        let mut out = HashMap::new();
        for d in &data.fields {
            let Some(f) = known.iter().find(|f| f.id == d.field_id) else {
                return Err(format!("{}: `{name}` has no datum number {}", self.name, d.field_id));
            };
            let value = d.value.clone().ok_or(format!("{}: `{}` without value", self.name, f.name))?;
            self.datum(f, &value)?;
            if out.insert(f.name.clone(), value).is_some() {
                return Err(format!("{}: `{}` twice", self.name, f.name));
            }
        }
        let lacks = |f: &&&Field| whole && !out.contains_key(&f.name);
        let must = |f: &&&Field| f.mandatory || (self.of_program() && of_action.iter().any(|a| a.id == f.id));
        match known.iter().filter(must).find(lacks) {
            Some(f) => Err(format!("{}: no datum `{}`", self.name, f.name)),
            None => Ok((name, out)),
        }
    }

    fn datum(&self, f: &Field, value: &Value) -> Result<(), String> {
        let fits = |n: &u32| f.width >= 32 || n >> f.width == 0;
        let is_number = f.kind == "bytes" || f.kind.starts_with("uint");
        let right = match value {
            Value::Stream(bytes) if is_number && !f.repeated => return self.number(f, bytes).map(|_| ()),
            Value::Stream(_) => f.kind == "bytes" && f.repeated,
            Value::BoolVal(_) => f.kind == "bool" && !f.repeated,
            Value::StrVal(s) => f.kind == "string" && (f.words.is_empty() || f.words.contains(s)),
            Value::IntArrVal(all) => f.kind.starts_with("uint") && f.repeated && all.val.iter().all(fits),
            Value::BoolArrVal(_) => f.kind == "bool" && f.repeated,
            _ => false,
        };
        if right { Ok(()) } else { Err(format!("{}: `{}` got {value:?}", self.name, f.name)) }
    }
}
