//! Members, groups and one-shot action sets.

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;
use tonic::Code;

use super::rig::*;

fn member(ids: &Ids, profile: &str, member_id: u32, port: u8) -> Entity {
    Entity::ActionProfileMember(pb::ActionProfileMember {
        action_profile_id: ids.profile(profile),
        member_id,
        action: Some(action(ids.action("forward"), &[&[port]])),
    })
}

fn group(ids: &Ids, profile: &str, group_id: u32, max_size: i32, members: &[(u32, i32)]) -> Entity {
    let members = members.iter().map(|(member_id, weight)| pb::action_profile_group::Member {
        member_id: *member_id,
        weight: *weight,
        watch_kind: None,
    });
    Entity::ActionProfileGroup(pb::ActionProfileGroup {
        action_profile_id: ids.profile(profile),
        group_id,
        members: members.collect(),
        max_size,
    })
}

fn entry(ids: &Ids, table: &str, key: u8, action: Option<pb::TableAction>) -> Entity {
    table_entry(pb::TableEntry {
        table_id: ids.table(table),
        r#match: vec![exact(1, &[key])],
        action,
        ..Default::default()
    })
}

fn any_member(action_profile_id: u32, member_id: u32) -> Entity {
    Entity::ActionProfileMember(pb::ActionProfileMember { action_profile_id, member_id, action: None })
}

#[tokio::test]
async fn members() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let profile = ids.profile("next_hops");
    assert_eq!(code(c.insert(entry(ids, "indirect", 1, as_member(1))).await), Code::NotFound);
    assert_eq!(code(c.modify(member(ids, "next_hops", 1, 3)).await), Code::NotFound);
    c.insert(member(ids, "next_hops", 1, 3)).await.unwrap();
    assert_eq!(code(c.insert(member(ids, "next_hops", 1, 3)).await), Code::AlreadyExists);
    c.insert(entry(ids, "indirect", 1, as_member(1))).await.unwrap();
    assert_eq!(rig.owner.inject(1, 1, ethernet(0x55, 1, 1)).await.len(), 0, "l2 drops in the end");
    c.modify(member(ids, "next_hops", 1, 4)).await.unwrap();
    c.insert(member(ids, "next_hops", 2, 5)).await.unwrap();
    assert_eq!(c.read(any_member(profile, 1)).await, [member(ids, "next_hops", 1, 4)]);
    assert_eq!(c.read(any_member(0, 0)).await.len(), 2);
    assert_eq!(c.read_error(any_member(0, 1)).await.canonical_code, Code::InvalidArgument as i32);
    assert_eq!(c.read_error(any_member(1, 0)).await.canonical_code, Code::InvalidArgument as i32);
    assert!(c.read(any_member(profile, 9)).await.is_empty());
    assert_eq!(code(c.delete(any_member(profile, 1)).await), Code::FailedPrecondition);
    c.delete(entry(ids, "indirect", 1, None)).await.unwrap();
    c.delete(any_member(profile, 1)).await.unwrap();
    assert_eq!(code(c.delete(any_member(profile, 1)).await), Code::NotFound);

    assert_eq!(code(c.insert(member(ids, "next_hops", 0, 1)).await), Code::InvalidArgument);
    assert_eq!(code(c.insert(any_member(profile, 7)).await), Code::InvalidArgument, "no action");
    assert_eq!(code(c.insert(any_member(3, 7)).await), Code::InvalidArgument);
    let foreign = pb::ActionProfileMember {
        action_profile_id: profile,
        member_id: 7,
        action: Some(action(ids.action("learn"), &[])),
    };
    assert_eq!(code(c.insert(Entity::ActionProfileMember(foreign)).await), Code::InvalidArgument);
    for id in 3..6 {
        c.insert(member(ids, "next_hops", id, 1)).await.unwrap();
    }
    assert_eq!(code(c.insert(member(ids, "next_hops", 6, 1)).await), Code::ResourceExhausted);
    assert_eq!(code(c.insert(entry(ids, "indirect", 1, as_group(1))).await), Code::InvalidArgument);
    let plain = direct(action(ids.action("forward"), &[&[1]]));
    assert_eq!(code(c.insert(entry(ids, "indirect", 1, plain)).await), Code::InvalidArgument);
    rig.shut_down().await;
}

#[tokio::test]
async fn groups() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    assert_eq!(
        code(c.insert(group(ids, "balance", 1, 0, &[(1, 1)])).await),
        Code::NotFound,
        "no such member"
    );
    for id in 1..4 {
        c.insert(member(ids, "balance", id, id as u8)).await.unwrap();
    }
    c.insert(group(ids, "balance", 1, 8, &[(1, 1), (2, 2)])).await.unwrap();
    assert_eq!(code(c.insert(group(ids, "balance", 1, 8, &[])).await), Code::AlreadyExists);
    assert_eq!(code(c.modify(group(ids, "balance", 1, 7, &[])).await), Code::InvalidArgument, "max_size");
    assert_eq!(code(c.modify(group(ids, "balance", 2, 8, &[])).await), Code::NotFound);
    c.modify(group(ids, "balance", 1, 8, &[(2, 1), (3, 1)])).await.unwrap();
    let all = group(ids, "balance", 0, 0, &[]);
    assert_eq!(c.read(all.clone()).await, [group(ids, "balance", 1, 8, &[(2, 1), (3, 1)])]);
    assert_eq!(code(c.delete(member(ids, "balance", 2, 0)).await), Code::FailedPrecondition);
    c.delete(member(ids, "balance", 1, 0)).await.unwrap();
    c.insert(entry(ids, "spread", 1, as_group(1))).await.unwrap();
    assert_eq!(code(c.insert(entry(ids, "spread", 2, as_group(2))).await), Code::NotFound);
    assert_eq!(code(c.delete(group(ids, "balance", 1, 0, &[])).await), Code::FailedPrecondition);
    // Both members are chosen, and nothing else.
    let mut ports = std::collections::BTreeSet::new();
    for source in 0..64u32 {
        ports.extend(
            rig.owner.inject(1, 1, ipv4(1, source.wrapping_mul(0x9e37_79b9), 9)).await.iter().map(|f| f.0),
        );
    }
    assert_eq!(ports.into_iter().collect::<Vec<_>>(), [2, 3]);
    c.delete(entry(ids, "spread", 1, None)).await.unwrap();
    c.delete(group(ids, "balance", 1, 0, &[])).await.unwrap();
    assert!(c.read(all).await.is_empty());

    for (what, bad, expected) in [
        ("id 0", group(ids, "balance", 0, 0, &[]), Code::InvalidArgument),
        ("weight 0", group(ids, "balance", 5, 0, &[(2, 0)]), Code::InvalidArgument),
        ("negative weight", group(ids, "balance", 5, 0, &[(2, -1)]), Code::InvalidArgument),
        ("twice", group(ids, "balance", 5, 0, &[(2, 1), (2, 1)]), Code::InvalidArgument),
        ("negative size", group(ids, "balance", 5, -1, &[]), Code::InvalidArgument),
        ("no selector", group(ids, "next_hops", 5, 0, &[]), Code::InvalidArgument),
        ("above its size", group(ids, "balance", 5, 2, &[(2, 3)]), Code::ResourceExhausted),
        ("above P4Info's size", group(ids, "limited", 5, 5, &[]), Code::InvalidArgument),
        ("member 0", group(ids, "balance", 5, 0, &[(0, 1)]), Code::InvalidArgument),
    ] {
        assert_eq!(code(c.insert(bad).await), expected, "{what}");
    }
    let error = c.read_error(group(ids, "next_hops", 0, 0, &[])).await;
    assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
    rig.shut_down().await;
}

fn set(ids: &Ids, ports_and_weights: &[(u8, i32)]) -> pb::ActionProfileActionSet {
    let actions = ports_and_weights.iter().map(|(port, weight)| pb::ActionProfileAction {
        action: Some(action(ids.action("forward"), &[&[*port]])),
        weight: *weight,
        watch_kind: Some(pb::action_profile_action::WatchKind::WatchPort(vec![*port])),
    });
    pb::ActionProfileActionSet { action_profile_actions: actions.collect(), ..Default::default() }
}

fn one_shot(set: pb::ActionProfileActionSet) -> Option<pb::TableAction> {
    Some(pb::TableAction { r#type: Some(pb::table_action::Type::ActionProfileActionSet(set)) })
}

/// As `reset_state` of simple_switch_CLI does.
#[tokio::test]
async fn a_reset_beside_the_server_leaves_nothing_of_what_was_written() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let groups = || super::replication::multicast(pb::MulticastGroupEntry::default());
    let mut group = pb::MulticastGroupEntry { multicast_group_id: 7, ..Default::default() };
    group.metadata = b"tag".to_vec();
    let group = super::replication::multicast(group);
    for _ in 0..2 {
        c.insert(group.clone()).await.unwrap();
        c.insert(entry(ids, "spread", 1, one_shot(set(ids, &[(4, 1)])))).await.unwrap();
        assert_eq!(c.read(groups()).await, std::slice::from_ref(&group));
        assert_eq!(code(c.insert(member(ids, "balance", 1, 1)).await), Code::InvalidArgument);
        rig.owner.handle.call(zsr_soft_switch::Switch::reset).await.unwrap();
        assert!(c.read(groups()).await.is_empty());
        c.insert(member(ids, "balance", 1, 1)).await.unwrap();
        c.delete(member(ids, "balance", 1, 1)).await.unwrap();
    }
    rig.shut_down().await;
}

#[tokio::test]
async fn one_shot_sets() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    // Equal actions are not merged, and come back in their order.
    let written = entry(ids, "spread", 1, one_shot(set(ids, &[(4, 1), (5, 2), (4, 1)])));
    c.insert(written.clone()).await.unwrap();
    assert_eq!(c.read(entry(ids, "spread", 1, None)).await, [written]);
    let mut ports = std::collections::BTreeSet::new();
    for source in 0..64u32 {
        ports.extend(
            rig.owner.inject(1, 1, ipv4(1, source.wrapping_mul(0x9e37_79b9), 9)).await.iter().map(|f| f.0),
        );
    }
    assert_eq!(ports.into_iter().collect::<Vec<_>>(), [4, 5]);
    use pb::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
    let by_hash = pb::ActionProfileActionSet {
        action_selection_mode: ActionSelectionMode::Hash as i32,
        size_semantics: SizeSemantics::SumOfWeights as i32,
        ..set(ids, &[(6, 1)])
    };
    let changed = entry(ids, "spread", 1, one_shot(by_hash));
    c.modify(changed.clone()).await.unwrap();
    assert_eq!(c.read(entry(ids, "spread", 1, None)).await, std::slice::from_ref(&changed));
    c.modify(entry(ids, "spread", 1, None)).await.unwrap();
    assert_eq!(c.read(entry(ids, "spread", 1, None)).await, [changed], "as it was, modes and all");
    assert!(c.read(any_member(0, 0)).await.is_empty(), "no member shows");

    // Either style, never both.
    assert_eq!(code(c.insert(member(ids, "balance", 1, 1)).await), Code::InvalidArgument);
    assert_eq!(code(c.insert(group(ids, "balance", 1, 0, &[])).await), Code::InvalidArgument);
    c.delete(entry(ids, "spread", 1, None)).await.unwrap();
    c.insert(member(ids, "balance", 1, 1)).await.unwrap();
    let again = entry(ids, "spread", 1, one_shot(set(ids, &[(6, 1)])));
    assert_eq!(code(c.insert(again).await), Code::InvalidArgument);

    let base = || set(ids, &[(1, 1)]);
    for (what, bad, expected) in [
        ("weight 0", set(ids, &[(1, 0)]), Code::InvalidArgument),
        ("too big", set(ids, &[(1, 3), (2, 2)]), Code::InvalidArgument),
        (
            "group action",
            pb::ActionProfileActionSet { group_action: Some(Default::default()), ..base() },
            Code::Unimplemented,
        ),
        (
            "random",
            pb::ActionProfileActionSet {
                action_selection_mode: ActionSelectionMode::Random as i32,
                ..base()
            },
            Code::Unimplemented,
        ),
        (
            "semantics",
            pb::ActionProfileActionSet { size_semantics: SizeSemantics::SumOfMembers as i32, ..base() },
            Code::Unimplemented,
        ),
        (
            "no such mode",
            pb::ActionProfileActionSet { action_selection_mode: 9, ..base() },
            Code::InvalidArgument,
        ),
    ] {
        assert_eq!(code(c.insert(entry(ids, "spread2", 1, one_shot(bad))).await), expected, "{what}");
    }
    assert_eq!(code(c.insert(entry(ids, "indirect", 1, one_shot(base()))).await), Code::InvalidArgument);
    let mut far = base();
    far.action_profile_actions[0].watch_kind =
        Some(pb::action_profile_action::WatchKind::WatchPort(vec![2, 0]));
    assert_eq!(code(c.insert(entry(ids, "spread2", 1, one_shot(far))).await), Code::InvalidArgument);
    rig.shut_down().await;
}
