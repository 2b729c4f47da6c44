use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const DEVICE: u64 = 3;

fn bid(election: Option<u128>) -> pb::MasterArbitrationUpdate {
    pb::MasterArbitrationUpdate {
        device_id: DEVICE,
        election_id: election.map(to_uint128),
        ..Default::default()
    }
}

fn bid_as(name: &str, election: u128) -> pb::MasterArbitrationUpdate {
    let role = pb::Role { name: name.into(), ..Default::default() };
    pb::MasterArbitrationUpdate { role: Some(role), ..bid(Some(election)) }
}

fn code(notice: &pb::MasterArbitrationUpdate) -> Code {
    Code::from_i32(notice.status.as_ref().unwrap().code)
}

fn now(verdict: &Verdict) -> Vec<(StreamId, Code)> {
    verdict.now.iter().map(|(to, notice)| (*to, code(notice))).collect()
}

#[test]
fn the_highest_election_id_wins_and_all_are_told() {
    let mut arbiter = Arbiter::new(DEVICE);
    let verdict = arbiter.update(1, &bid(None)).unwrap();
    assert_eq!(now(&verdict), [(1, Code::NotFound)]);
    assert_eq!(verdict.now[0].1.election_id, None, "unset before there was any primary");
    let verdict = arbiter.update(2, &bid(Some(5))).unwrap();
    assert_eq!((now(&verdict), verdict.primary), (vec![(1, Code::AlreadyExists)], Some(2)));
    let (to, notice) = arbiter.confirm(2).unwrap();
    assert_eq!((to, code(&notice), notice.election_id), (2, Code::Ok, Some(to_uint128(5))));
    assert_eq!(notice.role, None);

    let verdict = arbiter.update(3, &bid(Some(4))).unwrap();
    assert_eq!((now(&verdict), verdict.primary), (vec![(3, Code::AlreadyExists)], None));
    let verdict = arbiter.update(3, &bid(Some(1 << 64))).unwrap();
    assert_eq!(now(&verdict), [(1, Code::AlreadyExists), (2, Code::AlreadyExists)]);
    assert!(arbiter.confirm(2).is_none(), "no longer");
    assert!(arbiter.confirm(3).is_some());
}

#[test]
fn nobody_follows_a_primary_that_leaves() {
    let mut arbiter = Arbiter::new(DEVICE);
    arbiter.update(1, &bid(Some(9))).unwrap();
    arbiter.update(2, &bid(Some(5))).unwrap();
    let told: Vec<_> = arbiter.leave(1).iter().map(|(to, notice)| (*to, code(notice))).collect();
    assert_eq!(told, [(2, Code::NotFound)]);
    let verdict = arbiter.update(2, &bid(Some(8))).unwrap();
    assert_eq!((now(&verdict), verdict.primary), (vec![(2, Code::NotFound)], None));
    assert_eq!(verdict.now[0].1.election_id, Some(to_uint128(9)), "the highest ever");
    assert_eq!(arbiter.update(2, &bid(Some(9))).unwrap().primary, Some(2));
    assert!(arbiter.leave(7).is_empty());
}

#[test]
fn a_primary_may_step_down() {
    let mut arbiter = Arbiter::new(DEVICE);
    arbiter.update(1, &bid(Some(9))).unwrap();
    arbiter.update(2, &bid(None)).unwrap();
    let verdict = arbiter.update(1, &bid(Some(3))).unwrap();
    assert_eq!(now(&verdict), [(1, Code::NotFound), (2, Code::NotFound)]);
    let verdict = arbiter.update(1, &bid(None)).unwrap();
    assert_eq!(now(&verdict), [(1, Code::NotFound)]);
}

#[test]
fn what_ends_a_stream() {
    let mut arbiter = Arbiter::new(DEVICE);
    let other = pb::MasterArbitrationUpdate { device_id: 4, ..bid(Some(1)) };
    assert_eq!(arbiter.update(1, &other).unwrap_err().code, Code::NotFound);
    assert_eq!(arbiter.update(1, &pb::MasterArbitrationUpdate::default()).unwrap_err().code, Code::NotFound);
    arbiter.update(1, &bid(Some(1))).unwrap();
    assert_eq!(arbiter.update(1, &other).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(arbiter.update(1, &bid_as("r", 1)).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(arbiter.update(2, &bid(Some(1))).unwrap_err().code, Code::InvalidArgument);
    let role = pb::Role { config: Some(prost_types::Any::default()), ..Default::default() };
    let configured = pb::MasterArbitrationUpdate { role: Some(role), ..bid(Some(7)) };
    assert_eq!(arbiter.update(2, &configured).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(arbiter.update(2, &bid_as(&"r".repeat(257), 1)).unwrap_err().code, Code::InvalidArgument);
    for stream in 2..=MAX_CONTROLLERS as u64 {
        arbiter.update(stream, &bid(None)).unwrap();
    }
    assert_eq!(arbiter.update(1000, &bid(None)).unwrap_err().code, Code::ResourceExhausted);
    assert!(arbiter.update(1000, &bid_as("r", 1)).is_ok(), "the limit is per role");
}

#[test]
fn roles_have_primaries_of_their_own() {
    let mut arbiter = Arbiter::new(DEVICE);
    arbiter.update(1, &bid(Some(1))).unwrap();
    arbiter.update(2, &bid_as("r", 1)).unwrap();
    assert!(arbiter.is_primary(1) && arbiter.is_primary(2));
    assert_eq!(arbiter.primaries().count(), 2);
    let (_, notice) = arbiter.confirm(2).unwrap();
    assert_eq!(notice.role.unwrap().name, "r");
}

#[test]
fn unary_calls() {
    let mut arbiter = Arbiter::new(DEVICE);
    let one = to_uint128(1);
    let default = RoleKey::default();
    let code = |outcome: Outcome<()>| outcome.unwrap_err().code;
    assert_eq!(code(arbiter.check(4, &default, Some(&one))), Code::NotFound);
    assert_eq!(code(arbiter.check(DEVICE, &RoleKey::new("r", 0), Some(&one))), Code::NotFound);
    assert_eq!(code(arbiter.check(DEVICE, &default, Some(&one))), Code::PermissionDenied);
    arbiter.update(1, &bid(Some(1))).unwrap();
    assert!(arbiter.check(DEVICE, &default, Some(&one)).is_ok());
    assert_eq!(code(arbiter.check(DEVICE, &default, None)), Code::PermissionDenied);
    assert_eq!(code(arbiter.check(DEVICE, &default, Some(&to_uint128(2)))), Code::PermissionDenied);
    arbiter.leave(1);
    assert_eq!(code(arbiter.check(DEVICE, &default, Some(&one))), Code::PermissionDenied);
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// Against the rule itself: the primary is who holds the highest id ever seen.
    #[test]
    fn primary_is_who_holds_the_highest_id(steps in proptest::collection::vec(
        (0u64..5, proptest::option::of(0u128..8), any::<bool>()), 1..60,
    )) {
        let mut arbiter = Arbiter::new(DEVICE);
        let mut ids: BTreeMap<StreamId, Option<u128>> = BTreeMap::new();
        let mut highest = None;
        for (stream, election, leave) in steps {
            if leave {
                arbiter.leave(stream);
                ids.remove(&stream);
            } else if arbiter.update(stream, &bid(election)).is_ok() {
                ids.insert(stream, election);
                highest = highest.max(election);
            } else {
                prop_assert!(ids.iter().any(|(other, id)| *other != stream && *id == election));
            }
            let expected: Vec<_> = ids.iter()
                .filter(|(_, id)| id.is_some() && **id == highest).map(|(stream, _)| *stream).collect();
            prop_assert!(expected.len() <= 1);
            prop_assert_eq!(arbiter.primaries().collect::<Vec<_>>(), expected.clone());
            for stream in 0..5 {
                prop_assert_eq!(arbiter.is_primary(stream), expected.contains(&stream));
                prop_assert_eq!(arbiter.confirm(stream).is_some(), expected.contains(&stream));
            }
        }
    }
}
