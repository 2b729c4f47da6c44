//! Tuples of a flow `orders` from one producer to two consumers, all in this program. The flow is made with
//!
//! ```text
//! zsr flow create orders -p h1 -c h3 h4 --schema 'id: u64, cents: u32' --routing 'hash(id)'
//! ```

use std::error::Error;
use std::thread;

use zsr::{FlowConsumer, FlowProducer, Options, Place, ProgramError, Schema};

/// A tuple's columns lie side by side, numbers with their lowest byte first.
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) cents: u32,
}

impl Order {
    fn to_tuple(&self) -> [u8; 12] {
        let mut tuple = [0; 12];
        tuple[..8].copy_from_slice(&self.id.to_le_bytes());
        tuple[8..].copy_from_slice(&self.cents.to_le_bytes());
        tuple
    }

    fn from_tuple(tuple: &[u8; 12]) -> Self {
        let [id @ .., a, b, c, d] = *tuple;
        Order { id: u64::from_le_bytes(id), cents: u32::from_le_bytes([a, b, c, d]) }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let orders = pass_orders(&Place::find(None)?)?;
    for (number, orders) in orders.iter().enumerate() {
        let cents: u64 = orders.iter().map(|order| u64::from(order.cents)).sum();
        println!("consumer {number}: {} orders, {cents} cents", orders.len());
    }
    Ok(())
}

/// What each consumer has popped. A test runs it in a system of `zsr::testing`.
pub(crate) fn pass_orders(system: &Place) -> Result<Vec<Vec<Order>>, Box<dyn Error>> {
    // A flow with other tuples is refused.
    let options = Options { schema: Some(Schema::parse("id: u64, cents: u32")?), ..Options::default() };
    let mut producer = FlowProducer::attach(system, "orders", &options)?;
    let consumers = [
        FlowConsumer::attach(system, "orders", &options)?,
        FlowConsumer::attach(system, "orders", &options)?,
    ];
    let popped: Result<_, ProgramError> = thread::scope(|threads| {
        let popping = consumers.map(|consumer| threads.spawn(move || pop_all(consumer)));
        for id in 0..1000 {
            producer.push(&Order { id, cents: 5 }.to_tuple())?;
        }
        producer.close()?;
        popping.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    Ok(popped?)
}

fn pop_all(mut consumer: FlowConsumer) -> Result<Vec<Order>, ProgramError> {
    let mut orders = Vec::new();
    while let Some(batch) = consumer.pop()? {
        // All tuples of a batch lie side by side in the ring.
        let (tuples, _) = batch.as_they_lie();
        orders.extend(tuples.as_chunks().0.iter().map(Order::from_tuple));
    }
    Ok(orders)
}
