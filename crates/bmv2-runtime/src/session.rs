//! A switch and what the interface remembers of it.

use std::collections::HashMap;

use zsr_soft_switch::{ActionCall, ActionId, ProfileId, ProgramInfo, Switch, TableId};

use crate::error::{Result, refused, table};
use crate::multicast::Multicast;

/// What the interface remembers between calls. It begins anew when the switch runs another program.
#[derive(Debug, Default)]
pub struct State {
    incarnation: u64,
    pub(crate) multicast: Multicast,
    /// For each profile, a number below which each member, and each group, exists.
    pub(crate) members: HashMap<ProfileId, u32>,
    pub(crate) groups: HashMap<ProfileId, u32>,
}

/// A switch, with the operations of bmv2's interface. Names are those of the program's JSON. Numbers in byte strings
/// are big-endian, and as wide as bmv2 has them or shorter.
pub struct Session<'a> {
    pub(crate) switch: &'a mut Switch,
    pub(crate) state: &'a mut State,
}

impl<'a> Session<'a> {
    /// A session with the switch, and with what earlier ones remembered.
    pub fn new(switch: &'a mut Switch, state: &'a mut State) -> Session<'a> {
        if state.incarnation != switch.incarnation() {
            *state = State { incarnation: switch.incarnation(), ..State::default() };
        }
        Session { switch, state }
    }

    pub(crate) fn info(&self) -> &ProgramInfo {
        self.switch.info()
    }

    pub(crate) fn table(&self, name: &str) -> Result<TableId> {
        let none = || refused(table::INVALID_TABLE_NAME, format!("there is no table '{name}'"));
        self.info().table(name).ok_or_else(none)
    }

    pub(crate) fn profile(&self, name: &str) -> Result<ProfileId> {
        let none = || refused(table::INVALID_PROFILE_NAME, format!("there is no action profile '{name}'"));
        self.info().profile(name).ok_or_else(none)
    }

    pub(crate) fn table_call(&self, t: TableId, action: &str, params: Vec<Vec<u8>>) -> Result<ActionCall> {
        let owner = &self.info().tables[t.index()].name;
        named(self.info().table_action(t, action), owner, action, params)
    }

    pub(crate) fn profile_call(
        &self,
        p: ProfileId,
        action: &str,
        params: Vec<Vec<u8>>,
    ) -> Result<ActionCall> {
        let owner = &self.info().profiles[p.index()].name;
        named(self.info().profile_action(p, action), owner, action, params)
    }

    /// Puts everything back to what the program says: entries, cells, multicast, mirroring.
    pub fn reset(&mut self) {
        self.switch.reset();
        *self.state = State { incarnation: self.switch.incarnation(), ..State::default() };
    }
}

fn named(id: Option<ActionId>, owner: &str, action: &str, params: Vec<Vec<u8>>) -> Result<ActionCall> {
    let none = || refused(table::INVALID_ACTION_NAME, format!("'{owner}' has no action '{action}'"));
    Ok(ActionCall { action: id.ok_or_else(none)?, params })
}

/// A big-endian number with as many bytes as `width` bits take; longer if it does not fit.
pub(crate) fn padded(value: &[u8], width: u32) -> Vec<u8> {
    let bytes = width.div_ceil(8) as usize;
    let mut all = vec![0; bytes.saturating_sub(value.len())];
    all.extend_from_slice(value);
    all
}
