//! An open-addressing hash map from keys of a fixed number of words to non-zero numbers.

/// What a word of a key is multiplied with.
pub(crate) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// By how many bits the hash is rotated before the next word comes in.
pub(crate) const ROTATION: u32 = 23;

/// Linear probing, at most half full.
#[derive(Clone, Debug)]
pub(crate) struct FlatMap {
    words: usize,
    keys: Vec<u64>,
    values: Vec<u32>,
    len: usize,
    shift: u32,
}

impl FlatMap {
    /// An empty map of keys of `words` words, with room for `capacity` (it grows beyond).
    pub(crate) fn new(words: usize, capacity: usize) -> FlatMap {
        let buckets = (capacity.max(4) * 2).next_power_of_two();
        FlatMap {
            words,
            keys: vec![0; buckets * words],
            values: vec![0; buckets],
            len: 0,
            shift: 64 - buckets.trailing_zeros(),
        }
    }

    #[inline]
    fn bucket(&self, key: &[u64]) -> usize {
        let mut h = key[0].wrapping_mul(FACTOR);
        for &w in &key[1..] {
            h = (h.rotate_left(ROTATION) ^ w).wrapping_mul(FACTOR);
        }
        (h >> self.shift) as usize
    }

    /// The words of all keys, the numbers, by how much a hash is shifted to be a place among them, and the last place.
    pub(crate) fn parts(&self) -> (&[u64], &[u32], u32, usize) {
        (&self.keys, &self.values, self.shift, self.values.len() - 1)
    }

    /// The value of a key, 0 if there is none.
    #[inline]
    pub(crate) fn get(&self, key: &[u64]) -> u32 {
        let key = &key[..self.words];
        let mut i = self.bucket(key);
        let last = self.values.len() - 1;
        loop {
            let v = self.values[i];
            if v == 0 || self.keys[i * self.words..][..self.words] == *key {
                return v;
            }
            i = (i + 1) & last;
        }
    }

    /// [`get`](Self::get) for keys of one word.
    #[inline]
    pub(crate) fn get1(&self, key: u64) -> u32 {
        let mut i = (key.wrapping_mul(FACTOR) >> self.shift) as usize;
        let last = self.values.len() - 1;
        loop {
            let v = self.values[i];
            if v == 0 || self.keys[i] == key {
                return v;
            }
            i = (i + 1) & last;
        }
    }

    /// [`get`](Self::get) for keys of two words.
    #[inline]
    pub(crate) fn get2(&self, key: [u64; 2]) -> u32 {
        let mut i = self.bucket(&key);
        let last = self.values.len() - 1;
        loop {
            let v = self.values[i];
            if v == 0 || self.keys[i * 2..][..2] == key {
                return v;
            }
            i = (i + 1) & last;
        }
    }

    /// Sets the value (not 0) of a key.
    pub(crate) fn insert(&mut self, key: &[u64], value: u32) {
        if (self.len + 1) * 2 > self.values.len() {
            let mut bigger = FlatMap::new(self.words, self.values.len());
            for (i, &v) in self.values.iter().enumerate() {
                if v != 0 {
                    bigger.insert(&self.keys[i * self.words..][..self.words], v);
                }
            }
            *self = bigger;
        }
        let key = &key[..self.words];
        let mut i = self.bucket(key);
        let last = self.values.len() - 1;
        while self.values[i] != 0 && self.keys[i * self.words..][..self.words] != *key {
            i = (i + 1) & last;
        }
        self.len += usize::from(self.values[i] == 0);
        self.keys[i * self.words..][..self.words].copy_from_slice(key);
        self.values[i] = value;
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: &[u64]) {
        let key = &key[..self.words];
        let last = self.values.len() - 1;
        let mut i = self.bucket(key);
        loop {
            if self.values[i] == 0 {
                return;
            }
            if self.keys[i * self.words..][..self.words] == *key {
                break;
            }
            i = (i + 1) & last;
        }
        self.len -= 1;
        // Shift later keys of the same run back, so that no probe ends early.
        let mut hole = i;
        let mut j = i;
        loop {
            j = (j + 1) & last;
            if self.values[j] == 0 {
                break;
            }
            let home = self.bucket(&self.keys[j * self.words..][..self.words]);
            if (j.wrapping_sub(home) & last) >= (j.wrapping_sub(hole) & last) {
                self.values[hole] = self.values[j];
                let (from, to) = (j * self.words, hole * self.words);
                self.keys.copy_within(from..from + self.words, to);
                hole = j;
            }
        }
        self.values[hole] = 0;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_like_a_hash_map(ops in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..3), 1..300)) {
            let mut flat = FlatMap::new(2, 4);
            let mut model = HashMap::new();
            for (i, (insert, a, b)) in ops.into_iter().enumerate() {
                let key = [a, b << 60];
                if insert {
                    flat.insert(&key, i as u32 + 1);
                    model.insert(key, i as u32 + 1);
                } else {
                    flat.remove(&key);
                    model.remove(&key);
                }
                prop_assert_eq!(flat.len(), model.len());
                for a in 0..40 {
                    for b in 0..3 {
                        let key = [a, b << 60];
                        prop_assert_eq!(flat.get(&key), model.get(&key).copied().unwrap_or(0));
                    }
                }
            }
        }
    }
}
