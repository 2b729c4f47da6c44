//! `cargo bench -p zsr-bench --bench rings`: push + pop of an item, against the crate rtrb with the same items.
//!
//! Rounds are short and take turns, so that a busy machine disturbs few of them, and all contenders alike.

use std::hint::black_box;
use zsr_bench::{compare, machine, pin};
use zsr_ring::{Ring, RingSpec};

const RING: u64 = 64 << 10;
const ROUNDS: usize = 501;

fn row<const N: usize>() {
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

    let (mut tx, mut rx) = rtrb::RingBuffer::<[u8; N]>::new(RING as usize / N);
    let mut base = || {
        for _ in 0..items {
            tx.push(*black_box(&item)).expect("there is room");
            let back = rx.pop().expect("an item is there");
            black_box(&back);
        }
    };

    let [bytes, base] = compare(ROUNDS, items, [&mut bytes, &mut base]);
    print!("{N:>6} B");
    for t in [bytes, base] {
        print!("   {:>6.2} {:>6.2} {:>6.1}", t.min, t.median, t.max);
    }
    println!("   {:>6.2} {:>6.2}", bytes.min / base.min, bytes.median / base.median);
}

fn main() {
    println!("push + pop of one item, ns (min median max), {ROUNDS} rounds in turn; {}", machine());
    println!("{:>55}   {:^13}", "", "ratio to rtrb");
    println!("    item   {:^20}   {:^20}    {:>6} {:>6}", "zsr", "rtrb", "min", "median");
    pin(0);
    row::<8>();
    row::<16>();
    row::<32>();
    row::<64>();
    row::<256>();
    row::<1024>();
    row::<4096>();
}
