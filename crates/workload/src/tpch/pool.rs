//! TPC-H's text pool, 300 MiB of sentences that comments are cut from, made by several threads.
//!
//! The pool is the same for every scale. One generator makes it from its beginning to its end, so where it stands at some places
//! is written down here, and each thread goes on from one of them.

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

/// A word and the space behind it.
#[derive(Clone, Copy)]
struct Word {
    bytes: [u8; WORD],
    length: usize,
}

/// One of a number of things, each as often as its weight says.
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

/// What sentences and phrases are made of, a letter per part; spaces between them mean nothing.
type Syntax = [u8; 12];

struct Grammar {
    sentences: Choice<Syntax>,
    nouns_in: Choice<Syntax>,
    verbs_in: Choice<Syntax>,
    articles: Choice<Word>,
    adjectives: Choice<Word>,
    adverbs: Choice<Word>,
    auxiliaries: Choice<Word>,
    nouns: Choice<Word>,
    prepositions: Choice<Word>,
    terminators: Choice<Word>,
    verbs: Choice<Word>,
}

impl Grammar {
    fn new(d: &Distributions) -> Self {
        let syntax = |text: &str| {
            let mut parts = Syntax::default();
            let letters = text.bytes().filter(|b| *b != b' ');
            parts.iter_mut().zip(letters).for_each(|(part, letter)| *part = letter);
            parts
        };
        let word = |text: &str| {
            let mut bytes = [b' '; WORD];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            Word { bytes, length: text.len() + 1 }
        };
        Grammar {
            sentences: Choice::new(d.grammar(), syntax),
            nouns_in: Choice::new(d.noun_phrase(), syntax),
            verbs_in: Choice::new(d.verb_phrase(), syntax),
            articles: Choice::new(d.articles(), word),
            adjectives: Choice::new(d.adjectives(), word),
            adverbs: Choice::new(d.adverbs(), word),
            auxiliaries: Choice::new(d.auxiliaries(), word),
            nouns: Choice::new(d.nouns(), word),
            prepositions: Choice::new(d.prepositions(), word),
            terminators: Choice::new(d.terminators(), word),
            verbs: Choice::new(d.verbs(), word),
        }
    }

    /// Writes sentences until `section` is full; the last one may be cut.
    fn fill(&self, section: &mut [u8], seed: u32) {
        let mut writer = Writer { seed: u64::from(seed), at: 0 };
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

/// Writes one sentence after the other.
struct Writer {
    seed: u64,
    /// Where the next byte of the sentence goes.
    at: usize,
}

impl Writer {
    /// The next random one: the generator of TPC-H, seed × 16807 modulo 2^31 - 1.
    #[inline]
    fn choose<T: Copy>(&mut self, choice: &Choice<T>) -> T {
        const MODULUS: u64 = (1 << 31) - 1;
        let product = self.seed * 16807;
        let folded = (product & MODULUS) + (product >> 31);
        self.seed = if folded >= MODULUS { folded - MODULUS } else { folded };
        choice.0[(self.seed as f64 / MODULUS as f64 * choice.0.len() as f64) as usize]
    }

    #[inline]
    fn word(&mut self, choice: &Choice<Word>, out: &mut [u8]) {
        let word = self.choose(choice);
        // The bytes behind it are written over by the next word.
        out[self.at..self.at + WORD].copy_from_slice(&word.bytes);
        self.at += word.length;
    }

    #[inline]
    fn literal<const N: usize>(&mut self, text: &[u8; N], out: &mut [u8]) {
        out[self.at..self.at + N].copy_from_slice(text);
        self.at += N;
    }

    fn sentence(&mut self, grammar: &Grammar, out: &mut [u8]) {
        for part in self.choose(&grammar.sentences) {
            match part {
                b'V' => self.verbs(grammar, out),
                b'N' => self.nouns(grammar, out),
                b'P' => {
                    self.word(&grammar.prepositions, out);
                    self.literal(b"the ", out);
                    self.nouns(grammar, out);
                }
                b'T' => {
                    // In place of the last word's space.
                    self.at -= 1;
                    self.word(&grammar.terminators, out);
                }
                _ => break,
            }
        }
    }

    fn verbs(&mut self, grammar: &Grammar, out: &mut [u8]) {
        for part in self.choose(&grammar.verbs_in) {
            match part {
                b'D' => self.word(&grammar.adverbs, out),
                b'V' => self.word(&grammar.verbs, out),
                b'X' => self.word(&grammar.auxiliaries, out),
                _ => break,
            }
        }
    }

    fn nouns(&mut self, grammar: &Grammar, out: &mut [u8]) {
        for part in self.choose(&grammar.nouns_in) {
            match part {
                b'A' => self.word(&grammar.articles, out),
                b'J' => self.word(&grammar.adjectives, out),
                b'D' => self.word(&grammar.adverbs, out),
                b'N' => self.word(&grammar.nouns, out),
                b',' => {
                    self.at -= 1;
                    self.literal(b", ", out);
                }
                _ => break,
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
