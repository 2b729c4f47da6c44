//! Many flows that are busy at once.

use zsr::pu;
use zsr_api::controller as proto;
use zsr_ring::{Cancel, PushError};

use super::churn::member;
use super::system::{HOSTS, System};

/// More than a tick's copies once had passes for, at the switch.
const FLOWS: u64 = 400;

#[test]
fn hundreds_of_busy_flows_all_move() {
    let system = System::up(HOSTS);
    let mut client = system.client();
    let (mut producers, mut consumers) = (Vec::new(), Vec::new());
    for n in 0..FLOWS {
        let request = proto::CreateFlowRequest {
            name: format!("f{n}"),
            item_size: 64,
            ring_size: 1024,
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
    // Full rings, so that every worker has something to do at every tick.
    for (n, producer) in producers.iter_mut().enumerate() {
        for item in 0u64.. {
            match producer.try_push(&[(n as u64).to_le_bytes(), item.to_le_bytes()].concat().repeat(4)) {
                Ok(()) => {}
                Err(PushError::Full) => break,
                Err(e) => panic!("{e}"),
            }
        }
    }
    for (n, consumer) in consumers.iter_mut().enumerate() {
        let mut item = [0; 64];
        for expected in 0..16u64 {
            consumer.pop(&mut item).expect("it comes");
            assert_eq!(item[..], [(n as u64).to_le_bytes(), expected.to_le_bytes()].concat().repeat(4)[..]);
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
