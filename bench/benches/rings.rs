//! `cargo bench -p zsr-bench --bench rings`: push + pop of an item, against the crate rtrb with the same items.

use std::hint::black_box;
use zsr_bench::{Times, machine, measure, pin};
use zsr_host_agent::ring::{Ring, RingSpec};

const RING: u64 = 64 << 10;
const ITEMS: u64 = 1 << 20;
const ROUNDS: usize = 21;

fn ours<const N: usize>() -> Times {
    let spec = RingSpec::new(N as u64, RING).expect("sizes are powers of two");
    let (mut tx, mut rx) = Ring::loopback(spec).expect("64 KiB of memory");
    let item = [7u8; N];
    let mut back = [0u8; N];
    measure(ROUNDS, ITEMS, || {
        for _ in 0..ITEMS {
            tx.try_push(black_box(&item)).expect("there is room");
            rx.try_pop(&mut back).expect("an item is there");
            black_box(&back);
        }
    })
}

fn typed<T: bytemuck::Pod>() -> Times {
    let spec = RingSpec::new(size_of::<T>() as u64, RING).expect("sizes are powers of two");
    let (tx, rx) = Ring::loopback(spec).expect("64 KiB of memory");
    let mut tx = tx.typed::<T>().expect("the item size is the type's");
    let mut rx = rx.typed::<T>().expect("the item size is the type's");
    let item = T::zeroed();
    measure(ROUNDS, ITEMS, || {
        for _ in 0..ITEMS {
            tx.try_push(*black_box(&item)).expect("there is room");
            let back = rx.try_pop().expect("an item is there");
            black_box(&back);
        }
    })
}

fn theirs<const N: usize>() -> Times {
    let (mut tx, mut rx) = rtrb::RingBuffer::<[u8; N]>::new(RING as usize / N);
    let item = [7u8; N];
    measure(ROUNDS, ITEMS, || {
        for _ in 0..ITEMS {
            tx.push(*black_box(&item)).expect("there is room");
            let back = rx.pop().expect("an item is there");
            black_box(&back);
        }
    })
}

fn row<const N: usize>()
where
    [u8; N]: bytemuck::Pod,
{
    // Alternating, so that a change of clock rate hits all.
    let (bytes, values, base) = (ours::<N>(), typed::<[u8; N]>(), theirs::<N>());
    print!("{N:>6} B");
    for t in [bytes, values, base] {
        print!("   {:>6.2} {:>6.2} {:>6.2}", t.min, t.median, t.max);
    }
    println!("   {:>5.2} {:>5.2}", bytes.median / base.median, values.median / base.median);
}

fn main() {
    println!("push + pop of one item, ns (min median max), {ROUNDS} rounds of {ITEMS} items; {}", machine());
    println!(
        "    item   {:^20}   {:^20}   {:^20}   ratio (bytes, values)",
        "zsr bytes", "zsr values", "rtrb"
    );
    pin(0);
    row::<8>();
    row::<16>();
    row::<64>();
    row::<256>();
    row::<1024>();
    row::<4096>();
}
