//! TPC-H's text pool, 300 MiB of sentences that comments are cut from, made by several threads.
//!
//! The pool is the same for every scale. One generator makes it from its beginning to its end. So its state at some
//! places is written down here, and each thread goes on from one of them.

use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tpchgen::distribution::{Distribution, Distributions};

/// Bytes of the pool.
pub(super) const SIZE: usize = 300 << 20;
/// No sentence and no word is longer; both are far from it.
const SENTENCE: usize = 512;
const WORD: usize = 16;

/// Sentences that begin a section: their offsets, and the generator's state in front of them.
const SECTIONS: [(u32, u32); 32] = [
    (0, 933_588_178),
    (9_830_424, 1_925_335_473),
    (19_660_810, 563_391_851),
    (29_491_204, 2_096_013_216),
    (39_321_619, 374_858_592),
    (49_152_080, 138_671_338),
    (58_982_448, 1_037_153_816),
    (68_812_820, 1_524_107),
    (78_643_223, 123_793_686),
    (88_473_607, 1_628_772_256),
    (98_304_011, 181_171_974),
    (108_134_421, 764_823_328),
    (117_964_817, 1_062_410_537),
    (127_795_221, 1_546_339_090),
    (137_625_648, 652_432_975),
    (147_456_075, 2_144_846_129),
    (157_286_442, 400_078_567),
    (167_116_822, 1_027_504_690),
    (176_947_229, 46_453_828),
    (186_777_602, 1_724_970_504),
    (196_608_019, 1_105_413_057),
    (206_438_492, 1_689_164_023),
    (216_268_868, 1_956_087_994),
    (226_099_227, 1_380_217_445),
    (235_929_648, 1_407_925_218),
    (245_760_024, 75_277_368),
    (255_590_452, 1_660_456_561),
    (265_420_831, 569_786_304),
    (275_251_227, 42_055_684),
    (285_081_613, 1_039_810_711),
    (294_912_013, 2_013_011_059),
    (304_742_424, 788_345_060),
];

/// The text.
pub(super) struct Pool(Vec<u8>);

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool")
    }
}

/// The pool, which all that need it at a time share.
pub(super) fn pool() -> Arc<Pool> {
    static SHARED: Mutex<Weak<Pool>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let pool = Arc::new(Pool::new());
        *shared = Arc::downgrade(&pool);
        pool
    })
}

impl Pool {
    fn new() -> Self {
        let mut text = vec![0; SIZE];
        let mut sections = Vec::new();
        let mut rest = &mut text[..];
        for (n, (_, seed)) in SECTIONS.iter().enumerate() {
            let end = SECTIONS.get(n + 1).map_or(SIZE, |next| next.0 as usize);
            let (section, behind) = rest.split_at_mut(end - (SIZE - rest.len()));
            rest = behind;
            sections.push((section, *seed));
        }
        let grammar = Grammar::new(Distributions::static_default());
        let sections = Mutex::new(sections.into_iter());
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(SECTIONS.len());
        let work = || {
            let next = || sections.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some((section, seed)) = next() {
                grammar.fill(section, seed);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // Without them it takes longer.
                let _ = std::thread::Builder::new().name("zsr-text".into()).spawn_scoped(scope, work);
            }
            work();
        });
        Pool(text)
    }

    /// A part of the text.
    #[inline]
    pub fn text(&self, offset: usize, length: usize) -> &[u8] {
        &self.0[offset..offset + length]
    }
}

/// A word and what stands behind it.
#[derive(Clone, Copy)]
struct Word {
    bytes: [u8; WORD],
    length: usize,
}

/// A choice among a number of things, each as often as its weight says.
struct Choice<T>(Vec<T>);

impl<T: Copy> Choice<T> {
    fn new(distribution: &Distribution, make: impl Fn(&str) -> T) -> Self {
        let mut all = Vec::new();
        for n in 0..distribution.size() {
            // Weights are sums over all values so far.
            all.resize(distribution.get_weight(n) as usize, make(distribution.get_value(n)));
        }
        Choice(all)
    }
}

impl Choice<Word> {
    fn words(distribution: &Distribution, behind: &str) -> Self {
        Choice::new(distribution, |text| {
            let (mut bytes, length) = ([0; WORD], text.len() + behind.len());
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            bytes[text.len()..length].copy_from_slice(behind.as_bytes());
            Word { bytes, length }
        })
    }
}

/// The parts of a sentence or a phrase: places in the grammar's lists.
#[derive(Clone, Copy, Default)]
struct Syntax {
    parts: [u8; 6],
    count: usize,
}

impl Syntax {
    /// From letters, one per part, and a comma behind some; spaces between them mean nothing. `place` knows the letters.
    fn new(text: &str, place: impl Fn(&str) -> u8) -> Self {
        let mut syntax = Syntax::default();
        for letter in text.split(' ') {
            syntax.parts[syntax.count] = place(letter);
            syntax.count += 1;
        }
        syntax
    }

    fn parts(&self) -> &[u8] {
        &self.parts[..self.count]
    }
}

/// Parts of sentences.
const NOUNS: u8 = 0;
const VERBS: u8 = 1;
const PREPOSITION: u8 = 2;
const TERMINATOR: u8 = 3;

struct Grammar {
    sentences: Choice<Syntax>,
    nouns: Choice<Syntax>,
    verbs: Choice<Syntax>,
    prepositions: Choice<Word>,
    terminators: Choice<Word>,
    /// Words of phrases. Nobody can guess which list a part needs, so it is looked up, not branched on: that is most of
    /// the time.
    words: [Choice<Word>; 6],
}

impl Grammar {
    fn new(d: &Distributions) -> Self {
        // The letters of both kinds of phrases, in the order of `words`; a letter that is none fails, as does the test.
        let phrase = |letters: &'static str| {
            let place =
                move |letter: &str| letters.split(' ').position(|l| l == letter).unwrap_or(usize::MAX) as u8;
            move |text: &str| Syntax::new(text, place)
        };
        let sentence = |text: &str| {
            Syntax::new(text, |letter| match letter {
                "N" => NOUNS,
                "V" => VERBS,
                "P" => PREPOSITION,
                _ => TERMINATOR,
            })
        };
        Grammar {
            sentences: Choice::new(d.grammar(), sentence),
            nouns: Choice::new(d.noun_phrase(), phrase("N J J, D")),
            verbs: Choice::new(d.verb_phrase(), phrase("- - - D V X")),
            prepositions: Choice::words(d.prepositions(), " "),
            terminators: Choice::words(d.terminators(), " "),
            words: [
                Choice::words(d.nouns(), " "),
                Choice::words(d.adjectives(), " "),
                Choice::words(d.adjectives(), ", "),
                Choice::words(d.adverbs(), " "),
                Choice::words(d.verbs(), " "),
                Choice::words(d.auxiliaries(), " "),
            ],
        }
    }

    /// Writes sentences until `section` is full; the last one may be cut.
    fn fill(&self, section: &mut [u8], seed: u32) {
        let mut writer = Writer { random: Random::new(seed), at: 0 };
        let mut last = [0; SENTENCE];
        let mut begin = 0;
        while begin < section.len() {
            let room = &mut section[begin..];
            writer.at = 0;
            if room.len() >= SENTENCE {
                writer.sentence(self, room);
            } else {
                writer.sentence(self, &mut last);
                let length = room.len().min(writer.at);
                room[..length].copy_from_slice(&last[..length]);
            }
            begin += writer.at;
        }
    }
}

/// The generator of TPC-H: each seed is 16807 times the one before, modulo 2^31 - 1. Its values are computed ahead,
/// several at a time, as each would have to wait for the one before.
struct Random {
    /// Seeds as fractions of the modulus.
    ahead: [f64; AHEAD],
    next: usize,
    /// The seeds that follow.
    seeds: [u64; LANES],
}

const AHEAD: usize = 256;
const LANES: usize = 8;
const MODULUS: u64 = (1 << 31) - 1;

const fn product(a: u64, b: u64) -> u64 {
    let product = a * b;
    let folded = (product & MODULUS) + (product >> 31);
    if folded >= MODULUS { folded - MODULUS } else { folded }
}

impl Random {
    /// The seeds that come behind this one.
    fn new(seed: u32) -> Self {
        let (mut seeds, mut seed) = ([0; LANES], u64::from(seed));
        for place in &mut seeds {
            seed = product(seed, 16807);
            *place = seed;
        }
        Random { ahead: [0.0; AHEAD], next: AHEAD, seeds }
    }

    fn look_ahead(&mut self) {
        const STEP: u64 = {
            let (mut step, mut n) = (1, 0);
            while n < LANES {
                step = product(step, 16807);
                n += 1;
            }
            step
        };
        for ahead in self.ahead.chunks_exact_mut(LANES) {
            for (ahead, seed) in ahead.iter_mut().zip(&mut self.seeds) {
                // Below 2^31.
                *ahead = f64::from(*seed as i32) / MODULUS as f64;
                *seed = product(*seed, STEP);
            }
        }
        self.next = 0;
    }

    #[inline]
    fn choose<T: Copy>(&mut self, choice: &Choice<T>) -> T {
        if self.next == AHEAD {
            self.look_ahead();
        }
        let fraction = self.ahead[self.next];
        self.next += 1;
        choice.0[(fraction * choice.0.len() as f64) as usize]
    }
}

/// Writes one sentence after the other.
struct Writer {
    random: Random,
    /// Where the next byte of the sentence goes.
    at: usize,
}

impl Writer {
    #[inline]
    fn word(&mut self, choice: &Choice<Word>, out: &mut [u8]) {
        let word = self.random.choose(choice);
        // The bytes behind it are written over by the next word.
        out[self.at..self.at + WORD].copy_from_slice(&word.bytes);
        self.at += word.length;
    }

    #[inline]
    fn phrase(&mut self, grammar: &Grammar, of: &Choice<Syntax>, out: &mut [u8]) {
        for part in self.random.choose(of).parts() {
            self.word(&grammar.words[usize::from(*part)], out);
        }
    }

    fn sentence(&mut self, grammar: &Grammar, out: &mut [u8]) {
        for part in self.random.choose(&grammar.sentences).parts() {
            match *part {
                NOUNS => self.phrase(grammar, &grammar.nouns, out),
                VERBS => self.phrase(grammar, &grammar.verbs, out),
                PREPOSITION => {
                    self.word(&grammar.prepositions, out);
                    out[self.at..self.at + 4].copy_from_slice(b"the ");
                    self.at += 4;
                    self.phrase(grammar, &grammar.nouns, out);
                }
                _ => {
                    // In place of the last word's space.
                    self.at -= 1;
                    self.word(&grammar.terminators, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tpchgen::text::TextPool;

    #[test]
    fn the_text_is_that_of_tpch() {
        let pool = pool();
        let wanted = TextPool::get_or_init_default();
        assert!(pool.0 == wanted.text(0, wanted.size()).as_bytes(), "the text differs");
    }
}
