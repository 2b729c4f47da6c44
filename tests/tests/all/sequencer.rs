//! Tickets of a sequencer in the switch, and of FETCH_ADD at a host, under contention: unique, without gaps, in the
//! order of real time. With and without faults on the links.

use zsr_plan::p4::names;
use zsr_simnet::{FaultRates, LinkConfig};
use zsr_tests::system::drops;
use zsr_tests::tickets::{Counter, Spec, Taken, Tickets, check};

const SPEC: Spec = Spec {
    counter: Counter::Switch,
    clients: 8,
    requests: 100,
    most: 1,
    first: 0,
    link: LinkConfig::FAST,
    seed: 1,
};

const HOST: Counter = Counter::Host { atomic_ns: 300 };

fn run(spec: Spec) -> Tickets {
    let mut tickets = Tickets::new(spec);
    tickets.run(|_| ());
    tickets.check().unwrap_or_else(|e| panic!("{spec:?}: {e}"));
    tickets
}

#[test]
fn tickets_are_given_once_each_without_gaps() {
    for counter in [Counter::Switch, HOST] {
        for clients in [1, 2, 8, 32] {
            let mut tickets = run(Spec { counter, clients, ..SPEC });
            assert_eq!(tickets.next(), 100 * clients as u64);
            assert_eq!(drops(tickets.switch(), names::DROP_STALE.into()), 0);
        }
    }
}

/// Also where the lower word of the counter begins anew.
#[test]
fn a_request_may_take_many_tickets() {
    for counter in [Counter::Switch, HOST] {
        for first in [7, (1 << 32) - 1000, (5 << 32) - 1, u64::from(u32::MAX) - 3] {
            run(Spec { counter, first, most: 9, ..SPEC });
            run(Spec { counter, first, most: u64::from(u32::MAX), requests: 20, ..SPEC });
        }
    }
}

#[test]
fn faults_on_links_take_no_ticket_and_give_none_twice() {
    let none = FaultRates::NONE;
    let faults = [
        FaultRates { loss: 0.1, ..none },
        FaultRates { duplicate: 0.2, ..none },
        FaultRates { reorder: 0.2, reorder_ns: 5_000, duplicate: 0.2, ..none },
        FaultRates { loss: 0.05, duplicate: 0.1, reorder: 0.1, reorder_ns: 100_000, corrupt: 0.05, ..none },
    ];
    for counter in [Counter::Switch, HOST] {
        for (seed, faults) in faults.into_iter().enumerate() {
            let link = LinkConfig::FAST.with_faults(faults);
            let mut tickets = run(Spec {
                counter,
                link,
                seed: seed as u64,
                most: 3,
                first: u64::from(u32::MAX) - 900,
                ..SPEC
            });
            if counter == Counter::Switch {
                // Repeats of earlier requests than the last one.
                let stale = drops(tickets.switch(), names::DROP_STALE.into());
                assert_eq!(stale > 0, faults.reorder > 0.0, "{stale} with {faults:?}");
                let damaged = drops(tickets.switch(), names::DROP_BAD_ICRC.into());
                assert_eq!(damaged > 0, faults.corrupt > 0.0, "{damaged} with {faults:?}");
            }
        }
    }
}

#[test]
fn what_is_wrong_with_tickets_is_found() {
    let taken = |ticket, asked_ns, got_ns| Taken { ticket, amount: 2, asked_ns, got_ns };
    let right = [vec![taken(4, 1, 2), taken(8, 3, 5)], vec![taken(6, 2, 4)]];
    let found = |clients: &[Vec<Taken>], next| {
        let clients: Vec<&[Taken]> = clients.iter().map(Vec::as_slice).collect();
        check(&clients, 4, next).err().unwrap_or_default()
    };
    assert_eq!(found(&right, 10), "");
    let mut twice = right.clone();
    twice[1][0].ticket = 4;
    let mut left_out = right.clone();
    left_out[0][1].ticket = 9;
    for wrong in [twice, left_out] {
        assert!(found(&wrong, 10).contains("was left out"), "{wrong:?}");
    }
    assert!(found(&right, 12).contains("nobody has got"));
    assert!(found(&[vec![taken(6, 1, 2), taken(4, 3, 4)]], 8).contains("do not grow"));
    let late = [vec![taken(6, 1, 2)], vec![taken(4, 3, 4)]];
    assert!(found(&late, 8).contains("was asked for after"), "{late:?}");
}
