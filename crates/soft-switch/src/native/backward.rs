//! What holds in front of the places of a graph, found from what holds behind them. Facts are bits.

/// The least facts in front of each place. `nexts` are the places behind each, `words` the words of bits, and `through` makes of the facts
/// behind a place those in front of it.
pub(super) fn solve(
    nexts: &[Vec<usize>],
    words: usize,
    mut through: impl FnMut(usize, &mut [u64]),
) -> Vec<Vec<u64>> {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); nexts.len()];
    for (i, nexts) in nexts.iter().enumerate() {
        nexts.iter().for_each(|next| before[*next].push(i));
    }
    let mut facts = vec![vec![0u64; words]; nexts.len()];
    let mut todo: Vec<usize> = (0..nexts.len()).collect();
    let mut waits = vec![true; nexts.len()];
    while let Some(i) = todo.pop() {
        waits[i] = false;
        let mut now = joined(&nexts[i], &facts, words);
        through(i, &mut now);
        if now != facts[i] {
            facts[i] = now;
            for &b in &before[i] {
                if !std::mem::replace(&mut waits[b], true) {
                    todo.push(b);
                }
            }
        }
    }
    facts
}

/// The facts of any of these places.
pub(super) fn joined(places: &[usize], facts: &[Vec<u64>], words: usize) -> Vec<u64> {
    let mut all = vec![0; words];
    for place in places {
        all.iter_mut().zip(&facts[*place]).for_each(|(a, b)| *a |= b);
    }
    all
}
