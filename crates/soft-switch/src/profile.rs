//! Action profiles at run time: members, groups, and the choice among a group's members.

use std::collections::HashMap;

use crate::control::{ActionCall, Group};

/// A member as the packet path needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HotMember {
    pub action: usize,
    pub args: u32,
}

/// A member as the control plane knows it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub call: ActionCall,
    pub slot: u32,
    /// Groups (with multiplicity) and entries that use it.
    pub users: usize,
}

/// A group as the control plane knows it.
#[derive(Clone, Debug)]
pub(crate) struct GroupState {
    pub group: Group,
    pub slot: u32,
    /// Entries that use it.
    pub users: usize,
}

/// State of one profile. Members and groups have slots, which entries name, and ids, which the controller names.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    pub hot_members: Vec<Option<HotMember>>,
    /// Member slots of each group, repeated by weight, in the order of their ids.
    pub hot_groups: Vec<Vec<u32>>,
    pub free_members: Vec<u32>,
    pub free_groups: Vec<u32>,
    pub members: HashMap<u32, Member>,
    pub groups: HashMap<u32, GroupState>,
    /// Members and groups that one-shot action sets made; they have no id.
    pub implicit: HashMap<u32, ImplicitGroup>,
    pub implicit_members: usize,
}

/// A group that a one-shot action set made, by its slot.
#[derive(Clone, Debug)]
pub(crate) struct ImplicitGroup {
    /// Member slot, weight and watched port.
    pub members: Vec<(u32, u32, Option<u16>)>,
}

impl Profile {
    #[inline]
    pub(crate) fn hot(&self, slot: u32) -> Option<HotMember> {
        self.hot_members.get(slot as usize).copied().flatten()
    }

    /// The member slot that a hash chooses, `None` if the group is empty.
    #[inline]
    pub(crate) fn choose(&self, group: u32, hash: u64) -> Option<u32> {
        let members = self.hot_groups.get(group as usize)?;
        if members.is_empty() {
            return None;
        }
        members.get((hash % members.len() as u64) as usize).copied()
    }
}
