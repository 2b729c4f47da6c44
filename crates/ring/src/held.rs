//! Which items are held, of those that are given back in any order.

use std::collections::VecDeque;

use super::consumer::Consumer;

/// Numbers of items that were [held](crate::View::hold), oldest first. A ring gives items back in order only: what is behind one that is
/// held stays as it is in memory, too.
#[derive(Debug, Default)]
pub struct Held(VecDeque<u64>);

impl Held {
    /// The item with this number, behind all others, is held.
    pub fn add(&mut self, number: u64) {
        self.0.push_back(number);
    }

    /// An item is held no more, and `ring` gives back what is in front of the oldest one that still is. A number that is not there
    /// changes nothing.
    pub fn give_back(&mut self, number: u64, ring: &mut Consumer) {
        if let Some(at) = self.0.iter().position(|held| *held == number) {
            self.0.remove(at);
            ring.give_back(self.0.front().copied());
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::{PushError, Ring, RingSpec};

    /// All orders of `left`.
    fn orders(left: Vec<usize>) -> Vec<Vec<usize>> {
        if left.is_empty() {
            return vec![Vec::new()];
        }
        let begin = |first: &usize| {
            let rest = left.iter().copied().filter(|other| other != first).collect();
            orders(rest).into_iter().map(|rest| [vec![*first], rest].concat()).collect::<Vec<_>>()
        };
        left.iter().flat_map(begin).collect()
    }

    #[test]
    fn in_whatever_order_items_are_given_back_what_is_held_stays_as_it_is() {
        const ITEMS: usize = 4;
        for order in orders((0..ITEMS).collect()) {
            let (mut tx, mut rx) = Ring::loopback(RingSpec::new(8, 8 * ITEMS as u64).unwrap()).unwrap();
            let mut held = Held::default();
            let items: Vec<(u64, *const u8)> = (0..ITEMS as u64)
                .map(|n| {
                    tx.try_push(&n.to_le_bytes()).unwrap();
                    let view = rx.peek().unwrap();
                    let begin = view.bytes().as_ptr();
                    let number = view.hold();
                    held.add(number);
                    (number, begin)
                })
                .collect();
            let mut given = [false; ITEMS];
            for now in order.clone() {
                held.give_back(items[now].0, &mut rx);
                held.give_back(items[now].0, &mut rx);
                given[now] = true;
                let first = given.iter().position(|given| !given).unwrap_or(ITEMS);
                assert_eq!(rx.held(), ITEMS - first, "{order:?}: {given:?}");
                // Whoever pushes takes all the room there is.
                while tx.try_push(&u64::MAX.to_le_bytes()).is_ok() {}
                assert_eq!(tx.try_push(&[0; 8]), Err(PushError::Full));
                for (n, (_, begin)) in items.iter().enumerate().filter(|(n, _)| !given[*n]) {
                    // SAFETY: the item lies in the ring, which the handles keep; nobody writes while it is read.
                    let found = unsafe { begin.cast::<u64>().read_unaligned() };
                    assert_eq!(u64::from_le(found), n as u64, "{order:?}: {given:?}");
                }
            }
            assert_eq!(rx.held(), 0);
        }
    }
}
