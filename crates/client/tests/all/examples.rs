//! The examples do what they say.

#![allow(dead_code, reason = "examples have a main, which looks for a system")]

#[path = "../../examples/aggregate.rs"]
mod aggregate;
#[path = "../../examples/tuples.rs"]
mod tuples;

use std::thread;

use zsr::testing;

#[test]
fn tuples_come_to_two_consumers_by_their_key() {
    let orders = testing::shuffle(1, 2).named("orders").schema("id: u64, cents: u32").routing("hash(id)");
    let orders = orders.start().unwrap();
    let popped = tuples::pass_orders(orders.place()).unwrap();
    assert!(popped.iter().all(|orders| orders.len() > 300), "a hash divides them into halves");
    let mut all: Vec<_> = popped.iter().flatten().map(|order| (order.id, order.cents)).collect();
    all.sort();
    assert!(all.into_iter().eq((0..1000).map(|id| (id, 5))));
}

#[test]
fn an_operator_groups_tuples_between_two_flows() {
    let sales = testing::shuffle(2, 1).named("sales").schema("shop: u16, cents: u32").start().unwrap();
    let totals = testing::shuffle(1, 1).named("totals").schema("shop: u16, count: u64, sum_cents: u64");
    let totals = totals.start_beside(&sales).unwrap();
    thread::scope(|threads| {
        threads.spawn(|| aggregate::group_by_shop(sales.place()).unwrap());
        for number in 0..2u16 {
            let mut producer = sales.producer(number.into()).unwrap();
            for cents in [10, 30u32] {
                for shop in [7, 8 + number] {
                    producer.push(&[&shop.to_le_bytes()[..], &cents.to_le_bytes()].concat()).unwrap();
                }
            }
            producer.close().unwrap();
        }
    });
    let mut consumer = totals.consumer(0).unwrap();
    let mut groups = Vec::new();
    while let Some(batch) = consumer.pop().unwrap() {
        for group in batch.records() {
            let (shop, sums) = group.unwrap().split_at(2);
            let (count, cents) = sums.split_at(8);
            let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
            groups.push((u16::from_le_bytes(shop.try_into().unwrap()), word(count), word(cents)));
        }
    }
    groups.sort();
    assert_eq!(groups, [(7, 4, 80), (8, 2, 40), (9, 2, 40)]);
}
