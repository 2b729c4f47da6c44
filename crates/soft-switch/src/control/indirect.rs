//! Counters, meters, registers, value sets, multicast groups, clone sessions, CRC parameters.

use super::*;
use crate::error::ControlError;
use crate::exec::hash::{Algo, Crc, CrcParams};
use crate::info::{CounterId, MeterId, RegisterId, ValueSetId};
use crate::switch::Switch;
use crate::table::key::{canonical, to_bytes, to_limbs};

fn missing(kind: &'static str, id: u64) -> ControlError {
    ControlError::NotFound { kind, id }
}

pub(super) fn check_meter(config: Option<MeterConfig>) -> Result<(), ControlError> {
    match config {
        Some(c) if c.cir > c.pir => {
            Err(ControlError::Invalid(format!("committed rate {} is above peak rate {}", c.cir, c.pir)))
        }
        _ => Ok(()),
    }
}

impl Switch {
    /// A counter cell.
    pub fn counter_read(&self, id: CounterId, index: usize) -> Result<CounterValue, ControlError> {
        let cell = self.counter_cell(id, index)?;
        Ok(self.core.counters[cell])
    }

    /// Sets a counter cell.
    pub fn counter_write(
        &mut self,
        id: CounterId,
        index: usize,
        value: CounterValue,
    ) -> Result<(), ControlError> {
        let cell = self.counter_cell(id, index)?;
        self.core.counters[cell] = value;
        Ok(())
    }

    fn counter_cell(&self, id: CounterId, index: usize) -> Result<usize, ControlError> {
        let cells = self.program.image.counters.get(id.index()).ok_or(missing("counter", u64::from(id.0)))?;
        let cell = (index < cells.len()).then(|| cells.start + index);
        cell.ok_or(missing("counter cell", index as u64))
    }

    /// A meter cell's rates, `None` if every packet is green.
    pub fn meter_read(&self, id: MeterId, index: usize) -> Result<Option<MeterConfig>, ControlError> {
        let cells = self.core.meters.get(id.index()).ok_or(missing("meter", u64::from(id.0)))?;
        cells.get(index).map(|m| m.config()).ok_or(missing("meter cell", index as u64))
    }

    /// Sets a meter cell's rates; `None` makes every packet green.
    pub fn meter_write(
        &mut self,
        id: MeterId,
        index: usize,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        check_meter(config)?;
        let cells = self.core.meters.get_mut(id.index()).ok_or(missing("meter", u64::from(id.0)))?;
        cells.get_mut(index).ok_or(missing("meter cell", index as u64))?.set(config);
        Ok(())
    }

    /// A register cell of the first pipe: big-endian, all bytes of its width.
    pub fn register_read(&self, id: RegisterId, index: usize) -> Result<Vec<u8>, ControlError> {
        self.register_read_in(0, id, index)
    }

    /// A register cell of a pipe.
    pub fn register_read_in(&self, pipe: u8, id: RegisterId, index: usize) -> Result<Vec<u8>, ControlError> {
        let cells = self.core.cells_of(pipe).ok_or(missing("pipe", pipe.into()))?;
        let r = self.program.image.registers.get(id.index()).ok_or(missing("register", u64::from(id.0)))?;
        let cell = r.cell(index).ok_or(missing("register cell", index as u64))?;
        Ok(to_bytes(&cells[cell], r.width))
    }

    /// All cells of a register, as [`register_read`](Self::register_read) gives each.
    pub fn register_read_all(&self, id: RegisterId) -> Result<Vec<Vec<u8>>, ControlError> {
        let r = self.program.image.registers.get(id.index()).ok_or(missing("register", u64::from(id.0)))?;
        let cells = self.core.cells_of(0).ok_or(missing("pipe", 0))?;
        Ok(cells[r.words()].chunks_exact(r.limbs).map(|c| to_bytes(c, r.width)).collect())
    }

    /// Sets a register cell, in all pipes, to a big-endian value that fits its width.
    pub fn register_write(&mut self, id: RegisterId, index: usize, value: &[u8]) -> Result<(), ControlError> {
        let r = self.program.image.registers.get(id.index()).ok_or(missing("register", u64::from(id.0)))?;
        let wide = ControlError::TooWide { what: "register value", index, width: r.width };
        let limbs = to_limbs(value, r.width).ok_or(wide)?;
        let cell = r.cell(index).ok_or(missing("register cell", index as u64))?;
        self.core.all_cells().for_each(|cells| cells[cell.clone()].copy_from_slice(&limbs));
        Ok(())
    }

    /// Sets all cells of a register, in all pipes, to one value.
    pub fn register_fill(&mut self, id: RegisterId, value: &[u8]) -> Result<(), ControlError> {
        let r = self.program.image.registers.get(id.index()).ok_or(missing("register", u64::from(id.0)))?;
        let wide = ControlError::TooWide { what: "register value", index: 0, width: r.width };
        let limbs = to_limbs(value, r.width).ok_or(wide)?;
        let (words, limbs_each) = (r.words(), r.limbs);
        for cells in self.core.all_cells() {
            cells[words.clone()].chunks_exact_mut(limbs_each).for_each(|c| c.copy_from_slice(&limbs));
        }
        Ok(())
    }

    /// Members of a parser value set.
    pub fn value_set(&self, id: ValueSetId) -> Result<Vec<Vec<MatchField>>, ControlError> {
        let members = self.core.value_sets.get(id.index()).ok_or(missing("value set", u64::from(id.0)))?;
        let widths = &self.program.image.info.value_sets[id.index()].widths;
        let field = |(limbs, w): (&Vec<u64>, &u32)| MatchField::Exact(canonical(to_bytes(limbs, *w)));
        Ok(members.iter().map(|m| m.iter().zip(widths).map(field).collect()).collect())
    }

    /// Replaces the members of a parser value set. A member has one exact field per width of the set.
    pub fn value_set_replace(
        &mut self,
        id: ValueSetId,
        members: Vec<Vec<MatchField>>,
    ) -> Result<(), ControlError> {
        let Some(info) = self.program.image.info.value_sets.get(id.index()) else {
            return Err(missing("value set", u64::from(id.0)));
        };
        let mut all = Vec::with_capacity(members.len());
        for m in &members {
            if m.len() != info.widths.len() {
                return Err(ControlError::KeyCount { got: m.len(), expected: info.widths.len() });
            }
            let mut fields = Vec::new();
            for (i, (f, w)) in m.iter().zip(&info.widths).enumerate() {
                let MatchField::Exact(v) = f else {
                    let expected = crate::info::MatchKind::Exact;
                    return Err(ControlError::KeyKind { field: i, expected });
                };
                let wide = ControlError::TooWide { what: "value set field", index: i, width: *w };
                fields.push(to_limbs(v, *w).ok_or(wide)?);
            }
            if all.contains(&fields) {
                return Err(ControlError::Duplicate { kind: "value set member" });
            }
            all.push(fields);
        }
        self.core.value_sets[id.index()] = all;
        Ok(())
    }

    fn check_replicas(&self, replicas: &[Replica]) -> Result<(), ControlError> {
        for (i, r) in replicas.iter().enumerate() {
            if r.port > 511 {
                return Err(ControlError::TooWide { what: "replica port", index: i, width: 9 });
            }
        }
        let mut seen = std::collections::HashSet::new();
        if !replicas.iter().all(|r| seen.insert(*r)) {
            return Err(ControlError::Duplicate { kind: "replica (port and instance)" });
        }
        Ok(())
    }

    /// Makes a multicast group. Its id is what `mcast_grp` names, from 1.
    pub fn multicast_group_insert(&mut self, id: u32, replicas: Vec<Replica>) -> Result<(), ControlError> {
        if id == 0 {
            return Err(ControlError::Invalid("multicast group 0 means no multicast".into()));
        }
        self.check_replicas(&replicas)?;
        self.replication.groups.insert(id, replicas)
    }

    /// Changes a multicast group.
    pub fn multicast_group_modify(&mut self, id: u32, replicas: Vec<Replica>) -> Result<(), ControlError> {
        self.check_replicas(&replicas)?;
        self.replication.groups.modify(id, replicas)
    }

    /// Removes a multicast group.
    pub fn multicast_group_delete(&mut self, id: u32) -> Result<(), ControlError> {
        self.replication.groups.delete(id)
    }

    /// A multicast group's replicas.
    pub fn multicast_group(&self, id: u32) -> Result<&[Replica], ControlError> {
        self.replication.groups.get(id).map(|g| g.as_slice())
    }

    /// All multicast groups.
    pub fn multicast_groups(&self) -> Vec<(u32, Vec<Replica>)> {
        self.replication.groups.iter().map(|(id, g)| (id, g.clone())).collect()
    }

    fn check_session(&self, id: u32, session: &CloneSession) -> Result<(), ControlError> {
        if id > 0x7fff {
            return Err(ControlError::Invalid(format!("clone session {id} is above 32767")));
        }
        self.check_replicas(&session.replicas)
    }

    /// Makes a clone session, id 0 to 32767.
    pub fn clone_session_insert(&mut self, id: u32, session: CloneSession) -> Result<(), ControlError> {
        self.check_session(id, &session)?;
        self.replication.sessions.insert(id, session)
    }

    /// Changes a clone session.
    pub fn clone_session_modify(&mut self, id: u32, session: CloneSession) -> Result<(), ControlError> {
        self.check_session(id, &session)?;
        self.replication.sessions.modify(id, session)
    }

    /// Removes a clone session.
    pub fn clone_session_delete(&mut self, id: u32) -> Result<(), ControlError> {
        self.replication.sessions.delete(id)
    }

    /// A clone session.
    pub fn clone_session(&self, id: u32) -> Result<&CloneSession, ControlError> {
        self.replication.sessions.get(id)
    }

    /// All clone sessions.
    pub fn clone_sessions(&self) -> Vec<(u32, CloneSession)> {
        self.replication.sessions.iter().map(|(id, s)| (id, s.clone())).collect()
    }

    /// The bits of a calculation's custom CRC; `None` if it has none.
    pub fn crc_width(&self, calculation: &str) -> Option<u32> {
        let i = self.program.image.calcs.iter().position(|c| c.name == calculation)?;
        match &self.core.algos[i] {
            Algo::Custom(crc) => Some(crc.width()),
            _ => None,
        }
    }

    /// Gives a calculation with a custom CRC other parameters. Calculations are named as in the JSON.
    pub fn set_crc(&mut self, calculation: &str, params: CrcParams) -> Result<(), ControlError> {
        let calcs = &self.program.image.calcs;
        let Some(i) = calcs.iter().position(|c| c.name == calculation) else {
            return Err(ControlError::Invalid(format!("there is no calculation '{calculation}'")));
        };
        let Algo::Custom(old) = &self.core.algos[i] else {
            return Err(ControlError::NotAvailable("this calculation's algorithm is no custom CRC"));
        };
        self.core.algos[i] = Algo::Custom(Box::new(Crc::new(old.width(), params)));
        Ok(())
    }
}
