//! Actions, both ways: with parameters, as member or group, or as a one-shot set (specification, "Action
//! Specification" and "One Shot Action Selector Programming").

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::table_action::Type;

use super::ports;
use super::refusal::{Outcome, Refusal};
use super::schema::{GroupSize, Profile, Schema, Scope, Table};
use super::updates::no_object;
use zsr_soft_switch::ActionId;
use zsr_soft_switch::{ActionCall, EntryAction, WeightedCall};

impl Schema {
    /// An action that an object can't have, because of the object or because there is none.
    pub fn no_action(&self, id: u32) -> Refusal {
        match self.actions.get(&id) {
            Some(action) => Refusal::invalid(format!("action '{}' is none that it can have", action.name)),
            None => no_object("action", id),
        }
    }

    /// An action with its parameters, as the copy `engine`.
    fn read_params(&self, given: &pb::Action, engine: ActionId) -> Outcome<ActionCall> {
        let action = self.actions.get(&given.action_id).ok_or_else(|| self.no_action(given.action_id))?;
        let extra = given.params.iter().find(|p| !action.params.iter().any(|param| param.id == p.param_id));
        if let Some(extra) = extra {
            return Err(Refusal::invalid(format!(
                "action '{}' has no parameter {}",
                action.name, extra.param_id
            )));
        }
        let params = action.params.iter().map(|param| {
            let place = || format!("parameter {} ('{}') of action '{}'", param.id, param.name, action.name);
            let mut values = given.params.iter().filter(|value| value.param_id == param.id);
            match (values.next(), values.next()) {
                (Some(one), None) => param.repr.read(&one.value).map_err(|refusal| refusal.at(place())),
                (None, _) => Err(Refusal::invalid("is missing").at(place())),
                _ => Err(Refusal::invalid("is given twice").at(place())),
            }
        });
        Ok(ActionCall { action: engine, params: params.collect::<Outcome<_>>()? })
    }

    /// The action of an entry or default entry of a table.
    pub fn read_table_action(&self, table: &Table, given: &pb::Action, default: bool) -> Outcome<ActionCall> {
        let of = table.actions.get(&given.action_id).ok_or_else(|| self.no_action(given.action_id))?;
        let allowed = match of.scope {
            Scope::Both => true,
            Scope::EntryOnly => !default,
            Scope::DefaultOnly => default,
            Scope::GroupOnly => false,
        };
        if !allowed {
            let name = self.actions.get(&given.action_id).map_or("", |action| &action.name);
            let use_as = if default { "the default action" } else { "an entry's action" };
            return Err(Refusal::denied(format!("action '{name}' can't be {use_as} there")));
        }
        self.read_params(given, of.engine)
    }

    /// The action of a member.
    pub fn read_member_action(&self, profile: &Profile, given: &pb::Action) -> Outcome<ActionCall> {
        let engine = profile.actions.get(&given.action_id).ok_or_else(|| self.no_action(given.action_id))?;
        self.read_params(given, *engine)
    }

    /// Writes an action.
    pub fn write_action(&self, call: &ActionCall) -> pb::Action {
        let Some(action) = self.action_of(call.action) else { return pb::Action::default() };
        let params = action.params.iter().zip(&call.params);
        let params = params
            .map(|(param, value)| pb::action::Param { param_id: param.id, value: param.repr.write(value) });
        pb::Action { action_id: action.id, params: params.collect() }
    }

    /// The action of a table's entry. Its kind must fit the table's implementation.
    pub fn read_entry_action(&self, table: &Table, given: &pb::TableAction) -> Outcome<EntryAction> {
        let profile = table.profile.and_then(|id| self.profiles.get(&id));
        match (&given.r#type, profile) {
            (Some(Type::Action(action)), None) => {
                Ok(EntryAction::Call(self.read_table_action(table, action, false)?))
            }
            (Some(Type::ActionProfileMemberId(id)), Some(_)) => Ok(EntryAction::Member(*id)),
            (Some(Type::ActionProfileGroupId(id)), Some(profile)) if profile.selector => {
                Ok(EntryAction::Group(*id))
            }
            (Some(Type::ActionProfileActionSet(set)), Some(profile)) if profile.selector => {
                Ok(EntryAction::Set(self.read_set(table, profile, set)?))
            }
            (None, _) => Err(Refusal::invalid("the action is empty")),
            (Some(_), None) => Err(Refusal::invalid("it takes actions only")),
            (Some(_), Some(profile)) if profile.selector => {
                Err(Refusal::invalid("it takes members, groups and action sets only"))
            }
            (Some(_), Some(_)) => Err(Refusal::invalid("it takes members only")),
        }
    }

    fn read_set(
        &self,
        table: &Table,
        profile: &Profile,
        set: &pb::ActionProfileActionSet,
    ) -> Outcome<Vec<WeightedCall>> {
        use pb::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
        if set.group_action.is_some() {
            return Err(Refusal::unimplemented("this switch has no group actions"));
        }
        // A v1model selector hashes, which is this switch's only mode.
        match ActionSelectionMode::try_from(set.action_selection_mode) {
            Ok(ActionSelectionMode::DefaultModeDeterminedByActionSelector | ActionSelectionMode::Hash) => {}
            Ok(ActionSelectionMode::Random) => {
                return Err(Refusal::unimplemented("this switch selects by hash, not at random"));
            }
            Err(_) => return Err(Refusal::invalid("unknown action_selection_mode")),
        }
        let measure = match (SizeSemantics::try_from(set.size_semantics), profile.group_size) {
            (Ok(SizeSemantics::DefaultSizeDeterminedByActionSelector), measure) => measure,
            (Ok(SizeSemantics::SumOfWeights), measure @ GroupSize::SumOfWeights) => measure,
            (Ok(SizeSemantics::SumOfMembers), measure @ GroupSize::SumOfMembers { .. }) => measure,
            (Ok(_), _) => {
                return Err(Refusal::unimplemented("this switch measures all groups of a selector alike"));
            }
            (Err(_), _) => return Err(Refusal::invalid("unknown size_semantics")),
        };
        let weights: Vec<i32> = set.action_profile_actions.iter().map(|action| action.weight).collect();
        profile.check_weights(measure, &weights, i64::from(profile.max_group_size), Refusal::invalid)?;
        let calls = set.action_profile_actions.iter().map(|one| {
            use pb::action_profile_action::WatchKind;
            let action =
                one.action.as_ref().ok_or_else(|| Refusal::invalid("an action of the set is empty"))?;
            let watch_port = match &one.watch_kind {
                None => None,
                Some(WatchKind::WatchPort(port)) => ports::read_watch(port)?,
                #[allow(deprecated)]
                Some(WatchKind::Watch(port)) => ports::read_old_watch(*port)?,
            };
            let call = self.read_table_action(table, action, false)?;
            Ok(WeightedCall { call, weight: one.weight.max(1).unsigned_abs(), watch_port })
        });
        calls.collect()
    }

    /// Writes what an entry does.
    pub fn write_entry_action(&self, table: &Table, action: &EntryAction) -> pb::TableAction {
        let no_weights =
            table.profile.and_then(|id| self.profiles.get(&id)).is_some_and(|p| p.weights_disallowed);
        let kind = match action {
            EntryAction::Call(call) => Type::Action(self.write_action(call)),
            EntryAction::Member(id) => Type::ActionProfileMemberId(*id),
            EntryAction::Group(id) => Type::ActionProfileGroupId(*id),
            EntryAction::Set(calls) => {
                let actions = calls.iter().map(|one| pb::ActionProfileAction {
                    action: Some(self.write_action(&one.call)),
                    weight: if no_weights { 0 } else { i32::try_from(one.weight).unwrap_or(i32::MAX) },
                    watch_kind: one
                        .watch_port
                        .map(|port| pb::action_profile_action::WatchKind::WatchPort(ports::write(port))),
                });
                Type::ActionProfileActionSet(pb::ActionProfileActionSet {
                    action_profile_actions: actions.collect(),
                    ..pb::ActionProfileActionSet::default()
                })
            }
        };
        pb::TableAction { r#type: Some(kind) }
    }
}

impl Profile {
    /// Weights of a group of at most `limit` (0: no limit); `too_big` makes the refusal for a larger group.
    pub fn check_weights(
        &self,
        measure: GroupSize,
        weights: &[i32],
        limit: i64,
        too_big: fn(String) -> Refusal,
    ) -> Outcome<()> {
        for weight in weights {
            if self.weights_disallowed && *weight != 0 {
                return Err(Refusal::invalid("it takes no weights"));
            }
            if !self.weights_disallowed && *weight < 1 {
                return Err(Refusal::invalid(format!("weight {weight} is not above 0")));
            }
        }
        let size = match measure {
            GroupSize::SumOfWeights => weights.iter().map(|weight| i64::from((*weight).max(1))).sum(),
            GroupSize::SumOfMembers { max_weight } => {
                let over = weights
                    .iter()
                    .find(|weight| max_weight > 0 && i64::from(**weight) > i64::from(max_weight));
                if let Some(weight) = over {
                    return Err(Refusal::invalid(format!("weight {weight} is above {max_weight}")));
                }
                i64::try_from(weights.len()).unwrap_or(i64::MAX)
            }
        };
        if limit > 0 && size > limit {
            return Err(too_big(format!("the group has size {size}, and {limit} is the most")));
        }
        Ok(())
    }
}
