//! Aggregates of tuples by group, at the consumer of a flow (DFI's combiner flow).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::accumulate::Accumulator;
use crate::columns::fixed_width;
use crate::fault::Fault;
use crate::model::{Column, ColumnType};
use crate::schema::{Schema, TupleError};
use crate::value::{signed, unsigned};
use crate::words::nearest;

/// The aggregates that [`Combiner::new`] takes, for messages.
pub const AGGREGATES_HELP: &str =
    "count, sum(COLUMN), min(COLUMN), max(COLUMN), avg(COLUMN), with commas between them";

/// Tuples that are worked on at a time, so that they stay in cache between two columns.
const AT_ONCE: usize = 1024;

/// A sum that its type can't hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sum of column `{column}` is {sum} in one of its groups, and is not a whole number of 64 bits")]
pub struct SumError {
    /// The column.
    pub column: String,
    /// The sum.
    pub sum: i128,
}

/// A column of tuples: where it lies in each, and what it is.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    pub(crate) at: usize,
    pub(crate) width: usize,
}

/// Groups tuples that are equal in some columns. For each group it keeps their number, and sums, least, largest and
/// mean values of other columns. Its memory grows with the number of groups, not with that of tuples.
///
/// ```
/// # use zsr_records::{Combiner, Schema};
/// let sales = Schema::parse("shop: u16, price: f64")?;
/// let mut combiner = Combiner::new(&sales, "shop", "count, sum(price)")?;
/// let mut tuple = Vec::new();
/// for line in ["2,1.5", "1,4", "2,0.25"] {
///     sales.encode(line.as_bytes(), b',', &mut tuple)?;
///     combiner.add(&tuple)?;
/// }
/// assert_eq!(combiner.schema().to_string(), "shop: u16, count: u64, sum_price: f64");
/// let mut lines = Vec::new();
/// for result in combiner.results()? {
///     combiner.schema().decode(&result, b',', &mut lines)?;
///     lines.push(b'\n');
/// }
/// assert_eq!(lines, b"1,1,4\n2,2,1.75\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Combiner {
    of: Schema,
    size: usize,
    key: Vec<Field>,
    aggregates: Vec<Accumulator>,
    groups: Groups,
    counts: Vec<u64>,
    schema: Schema,
    /// The groups of the tuples that are worked on.
    numbers: Vec<u32>,
}

impl Combiner {
    /// A combiner of tuples of `of`, whose columns all have a width. `group_by` names columns of whole numbers or
    /// bytes, with commas between them; none: all tuples are one group. `aggregates` is as [`AGGREGATES_HELP`] says.
    ///
    /// # Errors
    /// The fault of an argument, in words.
    pub fn new(of: &Schema, group_by: &str, aggregates: &str) -> Result<Self, Fault> {
        let Some(size) = of.tuple_size() else {
            return Err(Fault::new(
                format!("tuples of ({of}) are lines of text"),
                "columns that have a width: i8 to i64, u8 to u64, f32, f64, bytes(N)",
            ));
        };
        let fields = fields(of);
        let mut key = Vec::new();
        for name in group_by.split(',').map(str::trim).filter(|_| !group_by.trim().is_empty()) {
            let field = find(&fields, name)?;
            if matches!(field.kind, ColumnType::Float(_)) {
                let text = format!("column `{name}` of the group is a fraction");
                return Err(Fault::new(text, "columns of whole numbers or bytes"));
            }
            key.push(field.clone());
        }
        let aggregates = aggregates.split(',').map(|text| aggregate(&fields, text.trim()));
        let aggregates = aggregates.collect::<Result<Vec<_>, _>>()?;
        let mut columns: Vec<Column> =
            key.iter().map(|f| Column { name: f.name.clone(), kind: f.kind }).collect();
        for column in aggregates.iter().map(Accumulator::column) {
            if columns.iter().any(|c| c.name == column.name) {
                let text = format!("two columns of the result are called `{}`", column.name);
                return Err(Fault::new(text, "each group column and aggregate once"));
            }
            columns.push(column);
        }
        let width = key.iter().map(|f| f.width).sum();
        let mut combiner = Combiner {
            of: of.clone(),
            size: size as usize,
            groups: Groups::new(width),
            key,
            aggregates,
            counts: Vec::new(),
            schema: Schema::of(&columns),
            numbers: Vec::with_capacity(AT_ONCE),
        };
        if combiner.key.is_empty() {
            combiner.groups.number(&[]);
            combiner.grow();
        }
        Ok(combiner)
    }

    /// The schema of the results: the columns of the group, then the aggregates, called `count`, `sum_COLUMN` and so
    /// on. Sums of whole numbers are `i64` or `u64`. Sums of fractions and mean values are `f64`. Least and largest
    /// values have the type of their column.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether no tuple has come. Without columns of a group there is one group from the beginning.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Takes tuples that lie side by side.
    ///
    /// # Errors
    /// [`TupleError::Size`]: they are not a whole number of tuples; nothing was taken.
    pub fn add(&mut self, tuples: &[u8]) -> Result<(), TupleError> {
        if self.size == 0 || !tuples.len().is_multiple_of(self.size) {
            let (found, wanted) = (tuples.len(), self.size as u32);
            return Err(TupleError::Size { found, wanted, schema: self.of.to_string() });
        }
        for some in tuples.chunks(AT_ONCE * self.size) {
            self.number(some);
            self.grow();
            for number in &self.numbers {
                self.counts[*number as usize] += 1;
            }
            for aggregate in &mut self.aggregates {
                aggregate.add(some, self.size, &self.numbers);
            }
        }
        Ok(())
    }

    /// Finds the groups of tuples, and makes those that are new.
    fn number(&mut self, tuples: &[u8]) {
        self.numbers.clear();
        let tuples = tuples.chunks_exact(self.size);
        let groups = &mut self.groups;
        match &self.key[..] {
            [] => self.numbers.resize(tuples.len(), 0),
            [key] => {
                let keys = tuples.map(|tuple| &tuple[key.at..key.at + key.width]);
                self.numbers.extend(keys.map(|key| groups.number(key)));
            }
            several => {
                let mut whole = vec![0; groups.width];
                for tuple in tuples {
                    let mut to = 0;
                    for key in several {
                        whole[to..to + key.width].copy_from_slice(&tuple[key.at..key.at + key.width]);
                        to += key.width;
                    }
                    self.numbers.push(groups.number(&whole));
                }
            }
        }
    }

    fn grow(&mut self) {
        let groups = self.groups.len();
        self.counts.resize(groups, 0);
        self.aggregates.iter_mut().for_each(|a| a.grow(groups));
    }

    /// The results, one tuple of [`schema`](Self::schema) per group, in the order of their groups: numbers by value, bytes as they are.
    /// Of no tuples at all, sums are 0, mean values are not numbers, and least values are the largest that there are.
    ///
    /// # Errors
    /// [`SumError`].
    pub fn results(&self) -> Result<Vec<Vec<u8>>, SumError> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_unstable_by(|a, b| self.compare(self.groups.key(*a), self.groups.key(*b)));
        let mut results = Vec::with_capacity(order.len());
        for group in order {
            let mut tuple = self.groups.key(group).to_vec();
            for aggregate in &self.aggregates {
                aggregate.result(group, self.counts[group], &mut tuple)?;
            }
            results.push(tuple);
        }
        Ok(results)
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let mut at = 0;
        for Field { kind, width, .. } in &self.key {
            let (one, other) = (&a[at..at + width], &b[at..at + width]);
            let order = match kind {
                ColumnType::Int(bits) => signed(one, *bits).cmp(&signed(other, *bits)),
                ColumnType::Uint(_) => unsigned(one).cmp(&unsigned(other)),
                _ => one.cmp(other),
            };
            if order != Ordering::Equal {
                return order;
            }
            at += width;
        }
        Ordering::Equal
    }
}

fn fields(of: &Schema) -> Vec<Field> {
    let mut at = 0;
    let columns = of.columns().iter().map(|column| {
        let width = fixed_width(column.kind).unwrap_or(0) as usize;
        at += width;
        Field { name: column.name.clone(), kind: column.kind, at: at - width, width }
    });
    columns.collect()
}

fn find<'f>(fields: &'f [Field], name: &str) -> Result<&'f Field, Fault> {
    fields.iter().find(|f| f.name == name).ok_or_else(|| {
        let names = || fields.iter().map(|f| f.name.as_str());
        let expected = match nearest(name, names()) {
            Some(like) => format!("`{like}`?"),
            None => format!("one of {}", names().collect::<Vec<_>>().join(", ")),
        };
        Fault::new(format!("there is no column `{name}`"), expected)
    })
}

fn aggregate(fields: &[Field], text: &str) -> Result<Accumulator, Fault> {
    if text == "count" {
        return Ok(Accumulator::count());
    }
    let inner = text.split_once('(').and_then(|(f, rest)| Some((f.trim(), rest.strip_suffix(')')?.trim())));
    let Some((function @ ("sum" | "min" | "max" | "avg"), name)) = inner else {
        return Err(Fault::new(format!("`{text}` is no aggregate"), AGGREGATES_HELP));
    };
    let field = find(fields, name)?.clone();
    if matches!(field.kind, ColumnType::Bytes(_)) && matches!(function, "sum" | "avg") {
        return Err(Fault::new(format!("{text}: column `{name}` is bytes"), "a column of numbers"));
    }
    Ok(match function {
        "sum" => Accumulator::sum(field),
        "avg" => Accumulator::mean(field),
        "min" => Accumulator::least(field),
        _ => Accumulator::largest(field),
    })
}

/// The groups by their keys, numbered in the order in which they came.
struct Groups {
    width: usize,
    numbers: HashMap<Box<[u8]>, u32, Seeded>,
    keys: Vec<u8>,
}

impl Groups {
    fn new(width: usize) -> Self {
        // Keys come from others: nobody is to know which of them collide.
        let numbers = HashMap::with_hasher(Seeded(RandomState::new().hash_one(0)));
        Groups { width, numbers, keys: Vec::new() }
    }

    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn key(&self, group: usize) -> &[u8] {
        &self.keys[group * self.width..(group + 1) * self.width]
    }

    fn number(&mut self, key: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(key.into(), number);
        self.keys.extend_from_slice(key);
        number
    }
}

#[derive(Clone, Copy)]
struct Seeded(u64);

struct Hash(u64);

impl BuildHasher for Seeded {
    type Hasher = Hash;

    fn build_hasher(&self) -> Hash {
        Hash(self.0)
    }
}

impl Hasher for Hash {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    // The length of a key, which is that of all.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const OF: &str = "g: i16, h: bytes(2), a: i64, b: u8, c: f64, d: f32";

    fn lines(of: &str, group_by: &str, aggregates: &str, lines: &[&str]) -> Vec<String> {
        let of = Schema::parse(of).unwrap();
        let mut combiner = Combiner::new(&of, group_by, aggregates).unwrap();
        let (mut tuple, mut tuples) = (Vec::new(), Vec::new());
        for line in lines {
            of.encode(line.as_bytes(), b',', &mut tuple).unwrap();
            tuples.extend_from_slice(&tuple);
        }
        combiner.add(&tuples).unwrap();
        let text = |tuple: Vec<u8>| {
            let mut line = Vec::new();
            combiner.schema().decode(&tuple, b',', &mut line).unwrap();
            String::from_utf8(line).unwrap()
        };
        combiner.results().unwrap().into_iter().map(text).collect()
    }

    #[test]
    fn groups_come_in_the_order_of_their_values() {
        let rows = ["2,x,1,1,1,1", "-1,x,2,1,1,1", "2,a,3,1,1,1", "2,x,4,1,1,1"];
        assert_eq!(lines(OF, "g, h", "sum(a), count", &rows), ["-1,x,2,1", "2,a,3,1", "2,x,5,2"]);
        assert_eq!(lines(OF, "", "count, min(h), max(h), max(b)", &rows), ["4,a,x,1"]);
    }

    #[test]
    fn no_tuples_are_no_groups_but_the_whole() {
        assert!(lines(OF, "g", "count", &[]).is_empty());
        assert_eq!(lines(OF, "", "count, sum(a), sum(c)", &[]), ["0,0,0"]);
    }

    #[test]
    fn what_is_not_a_number_is_the_largest() {
        let rows = ["1,x,0,0,NaN,0", "1,x,0,0,-1,0", "2,x,0,0,NaN,0", "3,x,0,0,-inf,0", "3,x,0,0,inf,0"];
        let want = ["1,-1,NaN,NaN", "2,NaN,NaN,NaN", "3,-inf,inf,NaN"];
        assert_eq!(lines(OF, "g", "min(c), max(c), sum(c)", &rows), want);
    }

    #[test]
    fn rounding_does_not_depend_on_the_order() {
        let rows = ["1,x,0,0,1e16,0", "1,x,0,0,1,0", "1,x,0,0,-1e16,0"];
        assert_eq!(lines(OF, "g", "sum(c)", &rows), ["1,1"]);
    }

    #[test]
    fn a_sum_that_no_column_holds_is_an_error() {
        let of = Schema::parse("a: u64").unwrap();
        let mut combiner = Combiner::new(&of, "", "sum(a)").unwrap();
        combiner.add(&u64::MAX.to_le_bytes()).unwrap();
        assert!(combiner.results().is_ok());
        combiner.add(&1u64.to_le_bytes()).unwrap();
        let why = combiner.results().unwrap_err().to_string();
        assert!(why.contains("column `a` is 18446744073709551616"), "{why}");
    }

    #[test]
    fn what_makes_no_sense_says_why() {
        let why = |of: &str, group_by: &str, aggregates: &str| {
            let of = Schema::parse(of).unwrap();
            Combiner::new(&of, group_by, aggregates).err().map(|e| e.to_string()).unwrap()
        };
        assert!(why("a: text", "", "count").contains("lines of text: expected columns that have a width"));
        assert!(why("price: i64", "", "sum(prize)").contains("no column `prize`: expected `price`?"));
        assert!(why("a: i64", "", "median(a)").contains("`median(a)` is no aggregate: expected count, sum("));
        assert!(why("a: i64", "", "").contains("`` is no aggregate"));
        assert!(why("a: f64", "a", "count").contains("column `a` of the group is a fraction"));
        assert!(why("a: bytes(3)", "", "avg(a)").contains("column `a` is bytes"));
        assert!(why("a: i64", "a", "count, count").contains("two columns of the result are called `count`"));
        let of = Schema::parse("a: i64").unwrap();
        let mut combiner = Combiner::new(&of, "", "count").unwrap();
        assert!(combiner.add(&[0; 9]).is_err());
        assert_eq!(combiner.results().unwrap(), [0u64.to_le_bytes()]);
    }

    proptest! {
        /// Against the plain definition, in any division into batches.
        #[test]
        fn results_are_those_of_the_definition(
            rows in prop::collection::vec((-2i16..3, 0u8..2, any::<i32>(), any::<u8>(), -1e6f64..1e6, any::<f32>()), 0..3000),
            cut in 1usize..3000,
        ) {
            let of = Schema::parse(OF).unwrap();
            let text = "count, sum(a), avg(a), min(a), max(a), sum(b), min(b), max(b), sum(c), min(c), max(c), min(d), max(h)";
            let mut combiner = Combiner::new(&of, "h, g", text).unwrap();
            let mut groups: BTreeMap<([u8; 2], i16), Vec<_>> = BTreeMap::new();
            let mut tuples = Vec::new();
            for (g, h, a, b, c, d) in rows {
                let h = [b'k', h];
                let a = i64::from(a);
                tuples.extend_from_slice(&g.to_le_bytes());
                tuples.extend_from_slice(&h);
                tuples.extend_from_slice(&a.to_le_bytes());
                tuples.push(b);
                tuples.extend_from_slice(&c.to_le_bytes());
                tuples.extend_from_slice(&d.to_le_bytes());
                groups.entry((h, g)).or_default().push((a, b, c, d));
            }
            for some in tuples.chunks(cut * 25) {
                combiner.add(some).unwrap();
            }
            let results = combiner.results().unwrap();
            prop_assert_eq!(results.len(), groups.len());
            for (((h, g), rows), result) in groups.into_iter().zip(results) {
                let mut want = [&h[..], &g.to_le_bytes()].concat();
                let n = rows.len() as u64;
                let sum: i64 = rows.iter().map(|r| r.0).sum();
                want.extend(n.to_le_bytes());
                want.extend(sum.to_le_bytes());
                want.extend((sum as f64 / n as f64).to_le_bytes());
                want.extend(rows.iter().map(|r| r.0).min().unwrap().to_le_bytes());
                want.extend(rows.iter().map(|r| r.0).max().unwrap().to_le_bytes());
                want.extend(rows.iter().map(|r| u64::from(r.1)).sum::<u64>().to_le_bytes());
                want.push(rows.iter().map(|r| r.1).min().unwrap());
                want.push(rows.iter().map(|r| r.1).max().unwrap());
                let (left, rest) = result.split_at(want.len());
                prop_assert_eq!(left, &want[..]);
                let at = |from: usize| f64::from_le_bytes(rest[from..from + 8].try_into().unwrap());
                let exact: f64 = rows.iter().map(|r| r.2).sum();
                prop_assert!((at(0) - exact).abs() <= 1e-9 * rows.iter().map(|r| r.2.abs()).sum::<f64>());
                prop_assert_eq!(at(8), rows.iter().map(|r| r.2).fold(f64::INFINITY, f64::min));
                prop_assert_eq!(at(16), rows.iter().map(|r| r.2).fold(f64::NEG_INFINITY, f64::max));
                let least = rows.iter().map(|r| r.3).fold(f32::NAN, f32::min);
                let found = f32::from_le_bytes(rest[24..28].try_into().unwrap());
                prop_assert!(found == least || (found.is_nan() && least.is_nan()));
                prop_assert_eq!(&rest[28..], &h);
            }
        }
    }
}
