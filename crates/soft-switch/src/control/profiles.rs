//! Action profiles: members, groups, one-shot action sets.

use super::tables::canonical_call;
use super::*;
use crate::error::ControlError;
use crate::info::ProfileId;
use crate::profile::{GroupState, HotMember, ImplicitGroup, Member, Profile};
use crate::switch::Switch;

/// Sum of the weights of one group.
const MAX_WEIGHTS: u64 = 65536;

impl Switch {
    fn profile(&self, p: ProfileId) -> Result<&Profile, ControlError> {
        let missing = ControlError::NotFound { kind: "action profile", id: u64::from(p.0) };
        self.core.profiles.get(p.index()).ok_or(missing)
    }

    fn no_member(id: u32) -> ControlError {
        ControlError::NotFound { kind: "member", id: u64::from(id) }
    }

    fn no_group(id: u32) -> ControlError {
        ControlError::NotFound { kind: "group", id: u64::from(id) }
    }

    /// Puts an action into a member slot.
    fn hot_member(&mut self, p: ProfileId, call: &ActionCall) -> Result<(HotMember, usize), ControlError> {
        let words = self.action_words(call, &self.profile_actions(p))?;
        let args = self.core.arena.put(&words);
        Ok((HotMember { action: call.action.index(), args }, words.len()))
    }

    fn new_member_slot(&mut self, p: ProfileId, hot: HotMember) -> u32 {
        let profile = &mut self.core.profiles[p.index()];
        let slot = profile.free_members.pop().unwrap_or_else(|| {
            profile.hot_members.push(None);
            profile.hot_members.len() as u32 - 1
        });
        profile.hot_members[slot as usize] = Some(hot);
        slot
    }

    fn free_member_slot(&mut self, p: ProfileId, slot: u32) {
        let profile = &mut self.core.profiles[p.index()];
        let Some(hot) = profile.hot_members[slot as usize].take() else { return };
        profile.free_members.push(slot);
        let words = self.program.image.actions[hot.action].words;
        self.core.arena.free(hot.args, words);
    }

    /// Adds a member.
    pub fn member_insert(&mut self, p: ProfileId, id: u32, mut call: ActionCall) -> Result<(), ControlError> {
        let profile = self.profile(p)?;
        if profile.members.contains_key(&id) {
            return Err(ControlError::Duplicate { kind: "member" });
        }
        let size = self.program.image.info.profiles[p.index()].size;
        if size > 0 && profile.members.len() + profile.implicit_members >= size {
            return Err(ControlError::Full { kind: "action profile", size });
        }
        let (hot, _) = self.hot_member(p, &call)?;
        let slot = self.new_member_slot(p, hot);
        canonical_call(&mut call);
        self.core.profiles[p.index()].members.insert(id, Member { call, slot, users: 0 });
        Ok(())
    }

    /// Changes a member's action; entries and groups that use it follow.
    pub fn member_modify(&mut self, p: ProfileId, id: u32, mut call: ActionCall) -> Result<(), ControlError> {
        let slot = self.profile(p)?.members.get(&id).ok_or(Self::no_member(id))?.slot;
        let (hot, _) = self.hot_member(p, &call)?;
        canonical_call(&mut call);
        let profile = &mut self.core.profiles[p.index()];
        let old = profile.hot_members[slot as usize].replace(hot);
        if let Some(m) = profile.members.get_mut(&id) {
            m.call = call;
        }
        if let Some(old) = old {
            let words = self.program.image.actions[old.action].words;
            self.core.arena.free(old.args, words);
        }
        Ok(())
    }

    /// Removes a member that nothing uses.
    pub fn member_delete(&mut self, p: ProfileId, id: u32) -> Result<(), ControlError> {
        let m = self.profile(p)?.members.get(&id).ok_or(Self::no_member(id))?;
        if m.users > 0 {
            return Err(ControlError::InUse { kind: "member" });
        }
        let slot = m.slot;
        self.core.profiles[p.index()].members.remove(&id);
        self.free_member_slot(p, slot);
        Ok(())
    }

    /// A member's action.
    pub fn member(&self, p: ProfileId, id: u32) -> Result<ActionCall, ControlError> {
        self.profile(p)?.members.get(&id).map(|m| m.call.clone()).ok_or(Self::no_member(id))
    }

    /// All members, by id.
    pub fn members(&self, p: ProfileId) -> Result<Vec<(u32, ActionCall)>, ControlError> {
        let mut all: Vec<_> = self.profile(p)?.members.iter().map(|(id, m)| (*id, m.call.clone())).collect();
        all.sort_by_key(|(id, _)| *id);
        Ok(all)
    }

    fn check_group(&self, p: ProfileId, group: &Group) -> Result<(), ControlError> {
        let profile = self.profile(p)?;
        if !self.program.image.info.profiles[p.index()].selector {
            return Err(ControlError::NotAvailable("this action profile has no selector, so no groups"));
        }
        let mut seen = std::collections::HashSet::new();
        for m in &group.members {
            if !profile.members.contains_key(&m.member) {
                return Err(Self::no_member(m.member));
            }
            if !seen.insert(m.member) {
                return Err(ControlError::Duplicate { kind: "member in the group" });
            }
        }
        let weights = group.members.iter().map(|m| m.weight);
        check_weights(weights, group.max_size)
    }

    /// Adds a group; its members must exist.
    pub fn group_insert(&mut self, p: ProfileId, id: u32, group: Group) -> Result<(), ControlError> {
        self.check_group(p, &group)?;
        let profile = &mut self.core.profiles[p.index()];
        if profile.groups.contains_key(&id) {
            return Err(ControlError::Duplicate { kind: "group" });
        }
        let slot = new_group_slot(profile);
        for m in &group.members {
            count_use(profile, m.member, true);
        }
        profile.groups.insert(id, GroupState { group, slot, users: 0 });
        self.refresh_groups();
        Ok(())
    }

    /// Changes a group's members.
    pub fn group_modify(&mut self, p: ProfileId, id: u32, group: Group) -> Result<(), ControlError> {
        if !self.profile(p)?.groups.contains_key(&id) {
            return Err(Self::no_group(id));
        }
        self.check_group(p, &group)?;
        let profile = &mut self.core.profiles[p.index()];
        for m in &group.members {
            count_use(profile, m.member, true);
        }
        let old = profile.groups.get_mut(&id).map(|g| std::mem::replace(&mut g.group, group));
        for m in old.iter().flat_map(|g| &g.members) {
            count_use(profile, m.member, false);
        }
        self.refresh_groups();
        Ok(())
    }

    /// Removes a group that no entry uses.
    pub fn group_delete(&mut self, p: ProfileId, id: u32) -> Result<(), ControlError> {
        let g = self.profile(p)?.groups.get(&id).ok_or(Self::no_group(id))?;
        if g.users > 0 {
            return Err(ControlError::InUse { kind: "group" });
        }
        let profile = &mut self.core.profiles[p.index()];
        if let Some(g) = profile.groups.remove(&id) {
            profile.hot_groups[g.slot as usize].clear();
            profile.free_groups.push(g.slot);
            for m in &g.group.members {
                count_use(profile, m.member, false);
            }
        }
        Ok(())
    }

    /// A group.
    pub fn group(&self, p: ProfileId, id: u32) -> Result<Group, ControlError> {
        self.profile(p)?.groups.get(&id).map(|g| g.group.clone()).ok_or(Self::no_group(id))
    }

    /// All groups, by id.
    pub fn groups(&self, p: ProfileId) -> Result<Vec<(u32, Group)>, ControlError> {
        let mut all: Vec<_> = self.profile(p)?.groups.iter().map(|(id, g)| (*id, g.group.clone())).collect();
        all.sort_by_key(|(id, _)| *id);
        Ok(all)
    }

    pub(super) fn use_member(&mut self, p: ProfileId, id: u32) -> Result<u32, ControlError> {
        let m = self.core.profiles[p.index()].members.get_mut(&id).ok_or(Self::no_member(id))?;
        m.users += 1;
        Ok(m.slot)
    }

    pub(super) fn drop_member_use(&mut self, p: ProfileId, id: u32) {
        count_use(&mut self.core.profiles[p.index()], id, false);
    }

    pub(super) fn use_group(&mut self, p: ProfileId, id: u32) -> Result<u32, ControlError> {
        let g = self.core.profiles[p.index()].groups.get_mut(&id).ok_or(Self::no_group(id))?;
        g.users += 1;
        Ok(g.slot)
    }

    pub(super) fn drop_group_use(&mut self, p: ProfileId, id: u32) {
        if let Some(g) = self.core.profiles[p.index()].groups.get_mut(&id) {
            g.users = g.users.saturating_sub(1);
        }
    }

    /// Makes the unnamed group of a one-shot action set.
    pub(super) fn make_implicit(&mut self, p: ProfileId, set: &[WeightedCall]) -> Result<u32, ControlError> {
        let info = &self.program.image.info.profiles[p.index()];
        if !info.selector {
            return Err(ControlError::NotAvailable("this action profile has no selector, so no action sets"));
        }
        check_weights(set.iter().map(|w| w.weight), 0)?;
        let (size, profile) = (info.size, &self.core.profiles[p.index()]);
        if size > 0 && profile.members.len() + profile.implicit_members + set.len() > size {
            return Err(ControlError::Full { kind: "action profile", size });
        }
        let legal = self.profile_actions(p);
        for w in set {
            self.action_words(&w.call, &legal)?;
        }
        let mut members = Vec::new();
        for w in set {
            let (hot, _) = self.hot_member(p, &w.call)?;
            members.push((self.new_member_slot(p, hot), w.weight, w.watch_port));
        }
        let profile = &mut self.core.profiles[p.index()];
        profile.implicit_members += set.len();
        let slot = new_group_slot(profile);
        profile.implicit.insert(slot, ImplicitGroup { members });
        self.refresh_groups();
        Ok(slot)
    }

    pub(super) fn drop_implicit(&mut self, p: ProfileId, slot: u32) {
        let profile = &mut self.core.profiles[p.index()];
        let Some(g) = profile.implicit.remove(&slot) else { return };
        profile.hot_groups[slot as usize].clear();
        profile.free_groups.push(slot);
        profile.implicit_members -= g.members.len();
        for (m, ..) in g.members {
            self.free_member_slot(p, m);
        }
    }

    /// Recomputes which members groups choose among, after a change of members or ports.
    pub(crate) fn refresh_groups(&mut self) {
        let down = &self.ports_down;
        let up = |w: Option<u16>| w.is_none_or(|p| !down.contains(&p));
        for profile in &mut self.core.profiles {
            let Profile { hot_groups, members, groups, implicit, .. } = profile;
            for g in groups.values() {
                let mut sorted: Vec<&GroupMember> =
                    g.group.members.iter().filter(|m| up(m.watch_port)).collect();
                sorted.sort_by_key(|m| m.member);
                let slots = sorted.iter().filter_map(|m| members.get(&m.member).map(|s| (s.slot, m.weight)));
                hot_groups[g.slot as usize] =
                    slots.flat_map(|(s, w)| std::iter::repeat_n(s, w as usize)).collect();
            }
            for (slot, g) in implicit.iter() {
                let live = g.members.iter().filter(|(_, _, watch)| up(*watch));
                hot_groups[*slot as usize] =
                    live.flat_map(|(s, w, _)| std::iter::repeat_n(*s, *w as usize)).collect();
            }
        }
    }
}

fn new_group_slot(profile: &mut Profile) -> u32 {
    profile.free_groups.pop().unwrap_or_else(|| {
        profile.hot_groups.push(Vec::new());
        profile.hot_groups.len() as u32 - 1
    })
}

fn count_use(profile: &mut Profile, member: u32, more: bool) {
    if let Some(m) = profile.members.get_mut(&member) {
        m.users = if more { m.users + 1 } else { m.users.saturating_sub(1) };
    }
}

fn check_weights(weights: impl Iterator<Item = u32>, max_size: u32) -> Result<(), ControlError> {
    let mut sum = 0u64;
    for w in weights {
        if w == 0 {
            return Err(ControlError::Invalid("a weight must be above 0".into()));
        }
        sum += u64::from(w);
    }
    let max = if max_size > 0 { u64::from(max_size) } else { MAX_WEIGHTS };
    if sum > max {
        return Err(ControlError::Invalid(format!("weights add up to {sum}; the group takes {max}")));
    }
    Ok(())
}
