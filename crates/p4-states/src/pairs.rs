//! Compares what both sides of a pair leave.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{Control, Register};
use crate::coverage::{Coverage, Seen, paths, possible};
use crate::inputs::Inputs;
use crate::known::{GIVEN, NEVER_WRAPS, UNREAD, Unread};
use crate::link::Linked;
use crate::mutate::{Mutant, TNA, mutants};
use crate::pipeline::Pipeline;
use crate::run::{Outcome, named, run, untouched};
use crate::sources::{Common, Sources};
use crate::value::{Form, Num};

/// The text that tna's is compared with.
const V1MODEL: &str = "p4/arch/v1model/state.p4";

/// The state controls of both architectures, and the operations that the pipeline asks them for.
#[derive(Debug)]
pub struct Pairs {
    v1model: Linked,
    tna: Linked,
    /// The texts that tna's state controls stand on.
    common: Common,
    pipeline: Pipeline,
    /// By control: the field that chooses the operation, and those that the pipeline asks for.
    asked: BTreeMap<String, (String, BTreeSet<String>)>,
    met: Coverage,
    /// Lines of `UNREAD` that were needed.
    unread: BTreeSet<usize>,
}

impl Pairs {
    /// Reads all that is needed. An error names what is not understood, or a control that only one architecture has.
    pub fn new(sources: &Sources) -> Result<Pairs, String> {
        let common = sources.common("tna")?;
        let tna = common.with_state(TNA, sources.text(TNA)?)?;
        let v1model = sources.common("v1model")?.with_state(V1MODEL, sources.text(V1MODEL)?)?;
        if !v1model.program.controls.keys().eq(tna.program.controls.keys()) {
            return Err("the architectures have different state controls".to_owned());
        }
        let pipeline = Pipeline::new(sources)?;
        let operations = pipeline.operations()?;
        let mut asked = BTreeMap::new();
        for (name, control) in &v1model.program.controls {
            let (field, other) = (chosen_by(name, control)?, chosen_by(name, tna.control(name)?)?);
            if field != other {
                return Err(format!("{name}: m.{field} chooses in v1model, m.{other} in tna"));
            }
            let found = operations.get(&field).ok_or_else(|| format!("{name}: nobody sets m.{field}"))?;
            asked.insert(name.clone(), (field, found.clone()));
        }
        match operations.keys().find(|field| !asked.values().any(|(chosen, _)| chosen == *field)) {
            Some(field) => Err(format!("no state control has m.{field}, which the pipeline sets")),
            None => {
                let (met, unread) = Default::default();
                Ok(Pairs { v1model, tna, common, pipeline, asked, met, unread })
            }
        }
    }

    /// Takes another text of tna's state controls, which may be less than all.
    pub fn put_tna(&mut self, text: &str) -> Result<(), String> {
        self.tna = self.common.with_state(TNA, text)?;
        Ok(())
    }

    /// Changes of `text` (tna's state controls) that make a pair differ, or should.
    pub fn mutants(&self, text: &str) -> Result<Vec<Mutant>, String> {
        mutants(text, &self.tna.fields)
    }

    /// Names of the controls.
    pub fn controls(&self) -> Vec<String> {
        self.asked.keys().cloned().collect()
    }

    fn asked(&self, control: &str) -> Result<&(String, BTreeSet<String>), String> {
        self.asked.get(control).ok_or_else(|| format!("no control {control}"))
    }

    /// Executes both sides of `control` on `cases` inputs for each operation that is in use. An error says what differs first.
    pub fn compare(&mut self, control: &str, cases: u64) -> Result<(), String> {
        self.same_registers(control)?;
        let (field, operations) = self.asked(control)?;
        let mut all = Vec::new();
        for op in operations {
            let code = self.v1model.constants.get(op).ok_or_else(|| format!("no constant {op}"))?;
            let mut fixed = BTreeMap::from([(field.clone(), code.n)]);
            let given = GIVEN.iter().filter(|g| g.control == control && g.op == *op);
            fixed.extend(given.map(|g| (g.field.to_owned(), g.value)));
            let mut for_tna = fixed.clone();
            for_tna.retain(|field, _| !self.pipeline.starts_anyhow(field));
            all.push((op.clone(), [Inputs { seed: 0, fixed }, Inputs { seed: 0, fixed: for_tna }]));
        }
        for seed in 0..cases {
            for (op, inputs) in &mut all {
                inputs.iter_mut().for_each(|i| i.seed = seed);
                self.case(control, op, inputs).map_err(|e| format!("{control}, {op}, case {seed}: {e}"))?;
            }
        }
        Ok(())
    }

    /// `inputs`: of v1model, and of tna.
    fn case(&mut self, name: &str, op: &str, inputs: &[Inputs; 2]) -> Result<(), String> {
        let [for_v1model, for_tna] = inputs;
        let left = run(&self.v1model, self.v1model.control(name)?, for_v1model, &mut self.met)?;
        let right = run(&self.tna, self.tna.control(name)?, for_tna, &mut self.met)?;
        for field in left.fields.keys().chain(right.fields.keys()) {
            let (a, b) = (self.left(&left, field, for_v1model), self.left(&right, field, for_tna));
            if a != b {
                let holds = |u: &Unread| {
                    u.only_if.is_none_or(|(field, value)| self.left(&left, field, for_v1model) == Some(value))
                };
                let line = UNREAD
                    .iter()
                    .position(|u| u.control == name && u.op == op && u.field == *field && holds(u));
                match line {
                    Some(line) => self.unread.insert(line),
                    None => return Err(format!("m.{field} is {a:x?} in v1model, {b:x?} in tna")),
                };
            }
        }
        let registers = &self.v1model.control(name)?.registers;
        let (left, right) = (words(&self.v1model, name, &left)?, words(&self.tna, name, &right)?);
        for key in left.keys().chain(right.keys()) {
            let (register, index) = key;
            // A second word that v1model has no register for is where the ALU works; it may begin with anything.
            let Some(found) = registers.get(register) else { continue };
            let form = self.v1model.form(&found.cell)?;
            let word = |all: &BTreeMap<(String, i128), Num>| {
                all.get(key).copied().unwrap_or_else(|| untouched(for_v1model, register, *index, form))
            };
            let (a, b) = (word(&left), word(&right));
            if a != b {
                return Err(format!("{register}[{index}] is {:x} in v1model, {:x} in tna", a.n, b.n));
            }
        }
        Ok(())
    }

    /// The value of a field in the end. Flags are narrower on one side, their values are the same.
    fn left(&self, outcome: &Outcome, field: &str, inputs: &Inputs) -> Option<i128> {
        match (outcome.fields.get(field), self.v1model.fields.get(field)) {
            (Some(value), _) => Some(value.n),
            (None, Some(Form::Bits(width))) => Some(inputs.field(field, *width)),
            (None, _) => None,
        }
    }

    /// Registers of one name, size and width of value, or words of one.
    fn same_registers(&self, control: &str) -> Result<(), String> {
        let known = &self.v1model.control(control)?.registers;
        let of = |linked: &Linked| -> Result<BTreeSet<_>, String> {
            let mut found = BTreeSet::new();
            for (register, Register { size, cell, .. }) in &linked.control(control)?.registers {
                let words = named(register, linked.layout(cell)?).into_iter();
                let words = words.filter(|(name, _)| name == register || known.contains_key(name));
                found.extend(words.map(|(name, form)| (name, size.clone(), format!("{form:?}"))));
            }
            Ok(found)
        };
        let (left, right) = (of(&self.v1model)?, of(&self.tna)?);
        if left == right {
            Ok(())
        } else {
            Err(format!("{control}: v1model has {left:?}, tna has {right:?}"))
        }
    }

    /// The events that no case has met so far: arms, outcomes of comparisons, sums that wrap.
    pub fn missed(&self) -> Vec<String> {
        let mut found = Vec::new();
        for linked in [&self.v1model, &self.tna] {
            for (name, control) in &linked.program.controls {
                let possible = possible(control);
                let missed = possible.difference(&self.met).filter(|(place, seen)| {
                    // Of what can wrap, only differences are to be met with equal sides, too.
                    let minus = possible.contains(&(place.clone(), Seen::Equal));
                    let sign = if minus { "-" } else { "+" };
                    !(*seen == Seen::Wraps && NEVER_WRAPS.contains(&(name.as_str(), sign)))
                });
                found.extend(missed.map(|(place, seen)| format!("{place}: {name}: {seen}")));
            }
        }
        found
    }

    /// Lines of `known.rs` that do not hold, or were not needed in any case so far.
    pub fn unfounded(&self) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for given in &GIVEN {
            let (field, _) = self.asked(given.control)?;
            found.extend(self.pipeline.gives(given.field, given.value, field, given.op).err());
        }
        for (number, unread) in UNREAD.iter().enumerate() {
            let readers = self.pipeline.readers(unread.field);
            if readers != unread.readers {
                found.push(format!("m.{} is read in {readers:?}, not in {:?}", unread.field, unread.readers));
            }
            if !self.unread.contains(&number) {
                found.push(format!("{}, {}: m.{} is the same", unread.control, unread.op, unread.field));
            }
        }
        Ok(found)
    }
}

/// The words that a control leaves, by name and index.
fn words(linked: &Linked, control: &str, left: &Outcome) -> Result<BTreeMap<(String, i128), Num>, String> {
    let mut all = BTreeMap::new();
    for ((register, index), cell) in &left.cells {
        let Some(found) = linked.control(control)?.registers.get(register) else { continue };
        for ((name, _), word) in named(register, linked.layout(&found.cell)?).into_iter().zip(cell) {
            all.insert((name, *index), *word);
        }
    }
    Ok(all)
}

/// The one field `do_*` that a control reads.
fn chosen_by(name: &str, control: &Control) -> Result<String, String> {
    let fields = paths(control);
    let mut chosen = fields.iter().filter_map(|f| f.strip_prefix("m.").filter(|f| f.starts_with("do_")));
    match (chosen.next(), chosen.next()) {
        (Some(field), None) => Ok(field.to_owned()),
        _ => Err(format!("{name} does not read one field m.do_* that chooses")),
    }
}
