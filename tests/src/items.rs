//! Items that say where they come from and show any damage.

/// Fills `item` (at least 4 bytes) with the number of its producer ring (below 256) and its sequence number (below
/// 2^24). The other bytes follow from both.
pub fn fill(ring: u32, sequence: u32, item: &mut [u8]) {
    let name = ring << 24 | sequence;
    let (first, rest) = item.split_at_mut(4);
    first.copy_from_slice(&name.to_le_bytes());
    let mut state = name;
    for byte in rest {
        state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x85eb_ca6b);
        *byte = (state >> 24) as u8;
    }
}

/// Items that a consumer has got from each producer ring.
#[derive(Debug)]
pub struct Received {
    /// Next sequence number, by producer ring; `None` for rings that feed other consumers.
    next: Vec<Option<u32>>,
    /// Items taken, by producer ring.
    counts: Vec<u32>,
    /// Whether other consumers get items of the same rings, so that numbers may be left out.
    shared: bool,
    /// (ring, number) of every item, in the order of arrival.
    pub order: Vec<u32>,
    expected: Vec<u8>,
}

impl Received {
    /// No items yet, from the rings for which `mine` holds; `shared`: with other consumers.
    pub fn new(rings: usize, item_size: u32, shared: bool, mine: impl Fn(usize) -> bool) -> Received {
        let next = (0..rings).map(|r| mine(r).then_some(0)).collect();
        let expected = vec![0; item_size as usize];
        Received { next, counts: vec![0; rings], shared, order: Vec::new(), expected }
    }

    /// Takes an item. Panics unless it is the next one of a ring that feeds this consumer, to the byte.
    pub fn take(&mut self, item: &[u8]) {
        let name = u32::from_le_bytes(item[..4].try_into().expect("4 bytes"));
        let (ring, sequence) = (name >> 24, name & 0xff_ffff);
        let next = self.next.get_mut(ring as usize).and_then(Option::as_mut);
        let next =
            next.unwrap_or_else(|| panic!("item {sequence} of ring {ring} came to the wrong consumer"));
        let good = if self.shared { sequence >= *next } else { sequence == *next };
        assert!(good, "ring {ring}: {sequence} came where {next} was next: lost, repeated or out of order");
        fill(ring, sequence, &mut self.expected);
        assert!(item == self.expected, "item {sequence} of ring {ring} is damaged");
        *next = sequence + 1;
        self.counts[ring as usize] += 1;
        self.order.push(name);
    }

    /// Items taken from each ring that feeds this consumer.
    pub fn counts(&self) -> impl Iterator<Item = u32> {
        self.counts.iter().zip(&self.next).filter_map(|(c, n)| n.map(|_| *c))
    }
}
