//! `cargo bench -p zsr-bench --bench rings`: push + pop of an item, against the crate rtrb with the same items.
//!
//! Rounds are short and take turns, so that a busy machine disturbs few of them, and all contenders alike.

use std::hint::black_box;
use zsr_bench::{compare, machine, pin};
use zsr_ring::{Ring, RingSpec};

const RING: u64 = 64 << 10;
const ROUNDS: usize = 501;

fn row<const N: usize>()
where
    [u8; N]: bytemuck::Pod,
{
    // About 200 us.
    let items = (1 << 22) / (N as u64).max(128);
    let spec = RingSpec::new(N as u64, RING).expect("sizes are powers of two");
    let item = [7u8; N];

    let (mut tx, mut rx) = Ring::loopback(spec).expect("64 KiB of memory");
    let mut back = [0u8; N];
    let mut bytes = || {
        for _ in 0..items {
            // As an array, or the black box would also hide its length, which the contenders know.
            tx.try_push(black_box(&item).as_slice()).expect("there is room");
            rx.try_pop(&mut back).expect("an item is there");
            black_box(&back);
        }
    };

    let (tx, rx) = Ring::loopback(spec).expect("64 KiB of memory");
    let mut tx = tx.typed::<[u8; N]>().expect("the item size is the type's");
    let mut rx = rx.typed::<[u8; N]>().expect("the item size is the type's");
    let mut values = || {
        for _ in 0..items {
            tx.try_push(*black_box(&item)).expect("there is room");
            let back = rx.try_pop().expect("an item is there");
            black_box(&back);
        }
    };

    let (mut tx, mut rx) = rtrb::RingBuffer::<[u8; N]>::new(RING as usize / N);
    let mut base = || {
        for _ in 0..items {
            tx.push(*black_box(&item)).expect("there is room");
            let back = rx.pop().expect("an item is there");
            black_box(&back);
        }
    };

    let [bytes, values, base] = compare(ROUNDS, items, [&mut bytes, &mut values, &mut base]);
    print!("{N:>6} B");
    for t in [bytes, values, base] {
        print!("   {:>6.2} {:>6.2} {:>6.1}", t.min, t.median, t.max);
    }
    print!("   {:>5.2} {:>5.2}", bytes.min / base.min, values.min / base.min);
    println!("   {:>5.2} {:>5.2}", bytes.median / base.median, values.median / base.median);
}

fn main() {
    println!("push + pop of one item, ns (min median max), {ROUNDS} rounds in turn; {}", machine());
    println!("{:>52}{:>27}{:>17}", "", "", "ratio to rtrb");
    println!(
        "    item   {:^20}   {:^20}   {:^20}   {:^11}   {:^11}",
        "zsr bytes", "zsr values", "rtrb", "of min", "of median"
    );
    println!("{:>81}   bytes value   bytes value", "");
    pin(0);
    row::<8>();
    row::<16>();
    row::<32>();
    row::<64>();
    row::<256>();
    row::<1024>();
    row::<4096>();
}
