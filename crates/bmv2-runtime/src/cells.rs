//! Counters, meters, registers, parser value sets, calculations.

use zsr_soft_switch::{ControlError, CounterValue, CrcParams, MatchField, MeterConfig};

use crate::error::{Error, Result, cell, other, refused};
use crate::session::{Session, padded};

/// One rate of a meter: units per microsecond, and the burst in units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    pub per_us: f64,
    pub burst: i32,
}

impl Session<'_> {
    /// A counter cell.
    pub(crate) fn counter(&self, name: &str, index: i32) -> Result<CounterValue> {
        let id = found(self.info().counter(name), "counter", name)?;
        self.switch.counter_read(id, at(index)?).map_err(at_cell)
    }

    /// Sets a counter cell.
    pub(crate) fn counter_set(&mut self, name: &str, index: i32, value: CounterValue) -> Result<()> {
        let id = found(self.info().counter(name), "counter", name)?;
        self.switch.counter_write(id, at(index)?, value).map_err(at_cell)
    }

    /// Sets all cells of a counter to 0.
    pub(crate) fn counter_reset(&mut self, name: &str) -> Result<()> {
        let id = found(self.info().counter(name), "counter", name)?;
        let size = self.info().counters[id.index()].size;
        let write = |index| self.switch.counter_write(id, index, CounterValue::default());
        (0..size).try_for_each(write).map_err(at_cell)
    }

    /// The rates of a meter cell; none if every packet is green.
    pub(crate) fn meter(&self, name: &str, index: i32) -> Result<Vec<Rate>> {
        let id = found(self.info().meter(name), "meter", name)?;
        Ok(rates(self.switch.meter_read(id, at(index)?).map_err(at_cell)?))
    }

    /// Sets the rates of a meter cell, or of all cells.
    pub(crate) fn meter_set(&mut self, name: &str, index: Option<i32>, config: MeterConfig) -> Result<()> {
        let id = found(self.info().meter(name), "meter", name)?;
        let cells = match index {
            Some(index) => at(index)?..at(index)? + 1,
            None => 0..self.info().meters[id.index()].size,
        };
        cells.into_iter().try_for_each(|i| self.switch.meter_write(id, i, Some(config))).map_err(
            |e| match e {
                ControlError::Invalid(why) => refused(cell::INVALID_RATE, why),
                e => at_cell(e),
            },
        )
    }

    /// The lowest 64 bits of a register cell.
    pub(crate) fn register(&self, name: &str, index: i32) -> Result<i64> {
        let id = found(self.info().register(name), "register", name)?;
        Ok(low_bits(&self.switch.register_read(id, at(index)?).map_err(at_cell)?))
    }

    /// All cells of a register.
    pub(crate) fn registers(&self, name: &str) -> Result<Vec<i64>> {
        let id = found(self.info().register(name), "register", name)?;
        let all = self.switch.register_read_all(id).map_err(at_cell)?;
        Ok(all.iter().map(|value| low_bits(value)).collect())
    }

    /// Sets the register cells of a range to a value, whose lowest bits count.
    pub(crate) fn register_set(&mut self, name: &str, cells: std::ops::Range<i32>, value: i64) -> Result<()> {
        let id = found(self.info().register(name), "register", name)?;
        let info = &self.info().registers[id.index()];
        let value = cut(&value.to_be_bytes(), info.width);
        let (from, to) = (at(cells.start)?, at(cells.end)?);
        if from > to || to > info.size {
            let why = format!("cells {from} to {to}: the register has {}", info.size);
            return Err(refused(cell::INVALID_INDEX, why));
        }
        (from..to).try_for_each(|i| self.switch.register_write(id, i, &value)).map_err(at_cell)
    }

    /// Sets all cells of a register to 0.
    pub(crate) fn register_reset(&mut self, name: &str) -> Result<()> {
        let id = found(self.info().register(name), "register", name)?;
        self.switch.register_fill(id, &[0]).map_err(at_cell)
    }

    /// The values of a parser value set.
    pub(crate) fn value_set(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let id = set(self.info().value_set(name), name)?;
        let info = &self.info().value_sets[id.index()];
        let members = self.switch.value_set(id).map_err(at_set)?;
        let joined = |member: &Vec<MatchField>| {
            let mut bits = Bits::default();
            for (field, width) in member.iter().zip(&info.widths) {
                if let MatchField::Exact(value) = field {
                    bits.push(value, *width);
                }
            }
            bits.into_bytes()
        };
        Ok(members.iter().map(joined).collect())
    }

    /// Puts a value into a parser value set, or takes one out. One that is there already, or is not there, changes
    /// nothing.
    pub(crate) fn value_set_change(&mut self, name: &str, value: &[u8], add: bool) -> Result<()> {
        let id = set(self.info().value_set(name), name)?;
        let info = &self.info().value_sets[id.index()];
        let value = padded(value, info.width);
        let unused = value.len() * 8 - info.width as usize;
        if (0..unused).any(|at| bit(&value, at)) {
            let why = format!("the value does not fit in {} bits", info.width);
            return Err(refused(other::VALUE_SET_ERROR, why));
        }
        let mut from = unused;
        let mut member = Vec::with_capacity(info.widths.len());
        for width in &info.widths {
            let mut bits = Bits::default();
            bits.take(&value, from, *width);
            from += *width as usize;
            member.push(MatchField::Exact(bits.into_bytes()));
        }
        let mut members = self.switch.value_set(id).map_err(at_set)?;
        let same = |one: &Vec<MatchField>| {
            one.iter().zip(&member).all(|(a, b)| match (a, b) {
                (MatchField::Exact(a), MatchField::Exact(b)) => trimmed(a) == trimmed(b),
                _ => false,
            })
        };
        let there = members.iter().position(same);
        match (there, add) {
            (None, true) => members.push(member),
            (Some(i), false) => drop(members.remove(i)),
            _ => return Ok(()),
        }
        self.switch.value_set_replace(id, members).map_err(at_set)
    }

    /// Empties a parser value set.
    pub(crate) fn value_set_clear(&mut self, name: &str) -> Result<()> {
        let id = set(self.info().value_set(name), name)?;
        self.switch.value_set_replace(id, Vec::new()).map_err(at_set)
    }

    /// Gives a calculation with a custom CRC of so many bits other parameters.
    pub(crate) fn crc(&mut self, calculation: &str, width: u32, params: CrcParams) -> Result<()> {
        if self.switch.crc_width(calculation).is_some_and(|other| other != width) {
            let why = format!("'{calculation}' is no custom CRC of {width} bits");
            return Err(refused(other::WRONG_CALCULATION, why));
        }
        self.switch.set_crc(calculation, params).map_err(|e| match e {
            ControlError::NotAvailable(why) => refused(other::WRONG_CALCULATION, why),
            e => refused(other::INVALID_CALCULATION, e.to_string()),
        })
    }
}

/// The two rates of a meter, committed and peak.
pub(crate) fn meter_config(rates: &[Rate]) -> Result<MeterConfig> {
    let [committed, peak] = rates else {
        return Err(refused(cell::BAD_RATES, format!("{} rates: meters here have two", rates.len())));
    };
    let per_second = |rate: &Rate| match rate.per_us * 1e6 {
        units if (0.0..1.8e19).contains(&units) => Ok(units.round() as u64),
        _ => Err(refused(cell::INVALID_RATE, format!("a rate of {} per microsecond is none", rate.per_us))),
    };
    let burst = |rate: &Rate| {
        u64::try_from(rate.burst)
            .map_err(|_| refused(cell::INVALID_BURST, format!("a burst of {}", rate.burst)))
    };
    Ok(MeterConfig {
        cir: per_second(committed)?,
        cburst: burst(committed)?,
        pir: per_second(peak)?,
        pburst: burst(peak)?,
    })
}

/// The rates of a meter; none if every packet is green.
pub(crate) fn rates(config: Option<MeterConfig>) -> Vec<Rate> {
    let rate = |per_s: u64, burst: u64| Rate {
        per_us: per_s as f64 / 1e6,
        burst: i32::try_from(burst).unwrap_or(i32::MAX),
    };
    config.map_or_else(Vec::new, |c| vec![rate(c.cir, c.cburst), rate(c.pir, c.pburst)])
}

fn found<T>(id: Option<T>, what: &str, name: &str) -> Result<T> {
    id.ok_or_else(|| refused(cell::INVALID_NAME, format!("there is no {what} '{name}'")))
}

fn set<T>(id: Option<T>, name: &str) -> Result<T> {
    id.ok_or_else(|| refused(other::INVALID_VALUE_SET, format!("there is no parser value set '{name}'")))
}

fn at(index: i32) -> Result<usize> {
    usize::try_from(index).map_err(|_| refused(cell::INVALID_INDEX, format!("cell {index}: below 0")))
}

fn at_cell(error: ControlError) -> Error {
    let code = match error {
        ControlError::NotFound { .. } => cell::INVALID_INDEX,
        _ => cell::ERROR,
    };
    refused(code, error.to_string())
}

fn at_set(error: ControlError) -> Error {
    refused(other::VALUE_SET_ERROR, error.to_string())
}

fn low_bits(value: &[u8]) -> i64 {
    value.iter().fold(0i64, |all, byte| all << 8 | i64::from(*byte))
}

fn trimmed(value: &[u8]) -> &[u8] {
    let zeros = value.iter().take_while(|byte| **byte == 0).count();
    &value[zeros..]
}

/// The lowest `width` bits of a number.
fn cut(value: &[u8], width: u32) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.push(value, width);
    bits.into_bytes()
}

/// A bit of a number (0: the highest).
fn bit(value: &[u8], at: usize) -> bool {
    value[at / 8] >> (7 - at % 8) & 1 == 1
}

/// A number that grows bit by bit.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    /// Appends `width` bits of `from`, which begin at bit `at` (0: the highest).
    fn take(&mut self, from: &[u8], at: usize, width: u32) {
        self.0.extend((at..at + width as usize).map(|at| bit(from, at)));
    }

    /// Appends a number of `width` bits.
    fn push(&mut self, value: &[u8], width: u32) {
        let value = padded(value, width);
        self.take(&value, value.len() * 8 - width as usize, width);
    }

    /// The bits as a big-endian number.
    fn into_bytes(self) -> Vec<u8> {
        let bits: Vec<bool> = self.0;
        let byte = |chunk: &[bool]| chunk.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        let mut bytes: Vec<u8> = bits.rchunks(8).map(byte).collect();
        bytes.reverse();
        bytes
    }
}
