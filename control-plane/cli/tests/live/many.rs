//! Many flows that are busy at once.

use zsr::pu;
use zsr_api::controller as proto;
use zsr_ring::{Cancel, PopError, PushError};

use super::churn::member;
use super::system::{HOSTS, System};

/// More than a tick's copies once had passes for, at the switch.
const FLOWS: u64 = 400;
/// Items that a ring has room for.
const RING: u64 = 16;
/// How many rings full of items each flow moves.
const ROUNDS: u64 = 20;
/// A flow that has moved nothing when another has moved so many rings full is starved.
const FAR_AHEAD: u64 = 1000;

#[test]
fn hundreds_of_busy_flows_all_move() {
    let system = System::up(HOSTS);
    let mut client = system.client();
    let (mut producers, mut consumers) = (Vec::new(), Vec::new());
    for n in 0..FLOWS {
        let request = proto::CreateFlowRequest {
            name: format!("f{n}"),
            item_size: 64,
            ring_size: 64 * RING as u32,
            producers: vec![member("p", n as usize % 2)],
            consumers: vec![member("c", 2)],
            ..Default::default()
        };
        let flow = client.call(async |c| c.create_flow(request).await);
        let (from, to) = (&flow.producers[0].rings[0], &flow.consumers[0].rings[0]);
        producers
            .push(pu::attach_producer(from.programs.as_ref(), &from.name, Cancel::new()).expect("there"));
        consumers.push(pu::attach_consumer(to.programs.as_ref(), &to.name, Cancel::new()).expect("there"));
    }
    let (mut pushed, mut popped) = (vec![0; FLOWS as usize], vec![0; FLOWS as usize]);
    let item = |n: usize, at: u64| [(n as u64).to_le_bytes(), at.to_le_bytes()].concat().repeat(4);
    // No flow runs out of work before the slowest has moved its rounds.
    while popped.iter().any(|&p| p < ROUNDS * RING) {
        let before: u64 = popped.iter().sum();
        for (n, (producer, consumer)) in producers.iter_mut().zip(&mut consumers).enumerate() {
            loop {
                match producer.try_push(&item(n, pushed[n])) {
                    Ok(()) => pushed[n] += 1,
                    Err(PushError::Full) => break,
                    Err(e) => panic!("f{n}: {e}"),
                }
            }
            let mut got = [0; 64];
            loop {
                match consumer.try_pop(&mut got) {
                    Ok(()) => assert_eq!(got[..], item(n, popped[n])[..]),
                    Err(PopError::Empty) => break,
                    Err(e) => panic!("f{n}: {e}"),
                }
                popped[n] += 1;
            }
        }
        let (least, most) = (popped.iter().min().expect("flows"), popped.iter().max().expect("flows"));
        assert!(
            *most < FAR_AHEAD * RING || *least > 0,
            "one has moved {most} items, another none: {popped:?}"
        );
        if popped.iter().sum::<u64>() == before {
            std::thread::yield_now();
        }
    }
    // Whatever is still under way comes, too.
    for (n, consumer) in consumers.iter_mut().enumerate() {
        let mut got = [0; 64];
        for at in popped[n]..pushed[n] {
            consumer.pop(&mut got).expect("it comes");
            assert_eq!(got[..], item(n, at)[..]);
        }
    }
    producers.into_iter().for_each(|p| p.detach());
    consumers.into_iter().for_each(|c| c.detach());
    for n in 0..FLOWS {
        let request = proto::DeleteFlowRequest { name: format!("f{n}"), force: false };
        client.call(async |c| c.delete_flow(request).await);
    }
    assert_eq!(system.switch()["workers"], 0);
    system.down();
}
