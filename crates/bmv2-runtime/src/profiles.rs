//! Action profiles: members and groups by handle.

use std::collections::HashMap;

use zsr_soft_switch::{ActionCall, EntryAction, Group, GroupMember, ProfileId};

use crate::error::{Result, refused, table};
use crate::session::Session;

impl Session<'_> {
    /// Adds a member, and gives its handle.
    pub(crate) fn member_add(&mut self, p: ProfileId, call: ActionCall) -> Result<u32> {
        let handle = free(&mut self.state.members, p, |id| self.switch.member(p, id).is_ok());
        self.switch.member_insert(p, handle, call)?;
        Ok(handle)
    }

    /// Changes the action of a member.
    pub(crate) fn member_modify(&mut self, p: ProfileId, member: i32, call: ActionCall) -> Result<()> {
        Ok(self.switch.member_modify(p, member as u32, call)?)
    }

    /// Removes a member that nothing uses.
    pub(crate) fn member_delete(&mut self, p: ProfileId, member: i32) -> Result<()> {
        self.switch.member_delete(p, member as u32)?;
        given_back(&mut self.state.members, p, member);
        Ok(())
    }

    /// The action of a member.
    pub(crate) fn member(&self, p: ProfileId, member: i32) -> Result<ActionCall> {
        Ok(self.switch.member(p, member as u32)?)
    }

    /// All members, by handle.
    pub(crate) fn members(&self, p: ProfileId) -> Result<Vec<(u32, ActionCall)>> {
        Ok(self.switch.members(p)?)
    }

    /// Adds a group without members, and gives its handle.
    pub(crate) fn group_create(&mut self, p: ProfileId) -> Result<u32> {
        self.check_selection(p)?;
        let handle = free(&mut self.state.groups, p, |id| self.switch.group(p, id).is_ok());
        self.switch.group_insert(p, handle, Group { max_size: 0, members: Vec::new() })?;
        Ok(handle)
    }

    /// Removes a group that nothing uses.
    pub(crate) fn group_delete(&mut self, p: ProfileId, group: i32) -> Result<()> {
        self.check_selection(p)?;
        self.switch.group_delete(p, group as u32)?;
        given_back(&mut self.state.groups, p, group);
        Ok(())
    }

    /// Puts a member into a group.
    pub(crate) fn group_join(&mut self, p: ProfileId, member: i32, group: i32) -> Result<()> {
        self.check_selection(p)?;
        let mut changed = self.switch.group(p, group as u32)?;
        changed.members.push(GroupMember { member: member as u32, weight: 1, watch_port: None });
        Ok(self.switch.group_modify(p, group as u32, changed)?)
    }

    /// Takes a member out of a group.
    pub(crate) fn group_leave(&mut self, p: ProfileId, member: i32, group: i32) -> Result<()> {
        self.check_selection(p)?;
        self.switch.member(p, member as u32)?;
        let mut changed = self.switch.group(p, group as u32)?;
        let before = changed.members.len();
        changed.members.retain(|one| one.member != member as u32);
        if changed.members.len() == before {
            let why = format!("member {member} is not in group {group}");
            return Err(refused(table::MEMBER_NOT_IN_GROUP, why));
        }
        Ok(self.switch.group_modify(p, group as u32, changed)?)
    }

    /// The members of a group, by handle.
    pub(crate) fn group(&self, p: ProfileId, group: i32) -> Result<Vec<u32>> {
        self.check_selection(p)?;
        Ok(members(&self.switch.group(p, group as u32)?))
    }

    /// All groups with their members, by handle.
    pub(crate) fn groups(&self, p: ProfileId) -> Result<Vec<(u32, Vec<u32>)>> {
        self.check_selection(p)?;
        let all = self.switch.groups(p)?;
        Ok(all.into_iter().map(|(handle, group)| (handle, members(&group))).collect())
    }

    /// The action of an entry that names a group. As at bmv2, the group has members.
    pub(crate) fn group_action(&self, p: Option<ProfileId>, group: i32) -> Result<EntryAction> {
        if let Some(p) = p
            && self.group(p, group)?.is_empty()
        {
            return Err(refused(table::EMPTY_GROUP, format!("group {group} has no members")));
        }
        Ok(EntryAction::Group(group as u32))
    }

    fn check_selection(&self, p: ProfileId) -> Result<()> {
        let selects = self.info().profiles[p.index()].selector;
        let none = || refused(table::NO_SELECTION, "this action profile has no selector, so no groups");
        selects.then_some(()).ok_or_else(none)
    }
}

fn members(group: &Group) -> Vec<u32> {
    let mut all: Vec<u32> = group.members.iter().map(|one| one.member).collect();
    all.sort_unstable();
    all
}

/// The smallest number that is free; `known` has, for each profile, one below which none is.
fn free(known: &mut HashMap<ProfileId, u32>, p: ProfileId, is_taken: impl Fn(u32) -> bool) -> u32 {
    let from = known.entry(p).or_default();
    while is_taken(*from) {
        *from += 1;
    }
    *from
}

fn given_back(known: &mut HashMap<ProfileId, u32>, p: ProfileId, handle: i32) {
    let from = known.entry(p).or_default();
    *from = (*from).min(handle as u32);
}
