//! Whether what arrived is what was sent.

use super::tally::Tally;

/// Discrepancies that are kept word for word; all are counted.
const KEPT: usize = 10;

/// A fault of what a consumer received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discrepancy {
    /// The consumer ring.
    pub ring: String,
    /// The producer, if the item names one of the flow's.
    pub producer: Option<String>,
    /// The fault, for people.
    pub what: String,
}

/// The verdict over a flow or a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Items and records that producers pushed.
    pub pushed: Tally,
    /// Items and records that consumers popped.
    pub delivered: Tally,
    /// Items that never came, by the numbers of those around them and at the end of streams.
    pub lost: u64,
    /// Items that came again or behind later ones.
    pub repeated: u64,
    /// Items or records at the wrong consumer.
    pub misrouted: u64,
    /// Items whose contents are not those pushed.
    pub altered: u64,
    /// The first discrepancies.
    pub first: Vec<Discrepancy>,
}

impl Verification {
    /// Every item exactly once, at the right consumer, in order per producer, with its contents.
    pub fn is_exact(&self) -> bool {
        self.discrepancies() == 0
            && self.pushed.items == self.delivered.items
            && self.pushed.records == self.delivered.records
            && self.pushed.bytes == self.delivered.bytes
    }

    /// How many things are wrong.
    pub fn discrepancies(&self) -> u64 {
        self.lost + self.repeated + self.misrouted + self.altered
    }

    /// Keeps a discrepancy for the report, if there is room.
    pub(crate) fn note(&mut self, ring: &str, producer: Option<&str>, what: impl FnOnce() -> String) {
        if self.first.len() < KEPT {
            self.first.push(Discrepancy {
                ring: ring.to_owned(),
                producer: producer.map(str::to_owned),
                what: what(),
            });
        }
    }

    /// Adds what one consumer saw.
    pub(crate) fn merge(&mut self, other: Verification) {
        self.pushed.add(&other.pushed);
        self.delivered.add(&other.delivered);
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.misrouted += other.misrouted;
        self.altered += other.altered;
        self.first.extend(other.first);
        self.first.truncate(KEPT);
    }

    /// Compares both ends of a pair whose streams have ended; `missed` of its items were found missing on the way.
    pub(crate) fn close_pair(
        &mut self,
        ring: &str,
        producer: &str,
        pushed: &Tally,
        delivered: &Tally,
        missed: u64,
    ) {
        self.pushed.add(pushed);
        self.delivered.add(delivered);
        if delivered.items < pushed.items {
            // Items missed in the middle were counted when the next one came.
            let missing = pushed.items - delivered.items;
            if missing > missed {
                self.lost += missing - missed;
                self.note(ring, Some(producer), || {
                    format!("{} of {} items did not arrive", missing, pushed.items)
                });
            }
        } else if delivered.items == pushed.items && delivered.chain != pushed.chain {
            self.altered += 1;
            self.note(ring, Some(producer), || {
                format!(
                    "the contents differ: hash {:016x} pushed, {:016x} delivered",
                    pushed.chain, delivered.chain
                )
            });
        } else if delivered.items > pushed.items && self.repeated == 0 {
            self.repeated += delivered.items - pushed.items;
            self.note(ring, Some(producer), || {
                format!("{} items arrived, {} were pushed", delivered.items, pushed.items)
            });
        }
    }
}
