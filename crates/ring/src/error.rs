//! What push and pop can answer besides success.

/// Who gave up on a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AbortOrigin {
    /// The switch set ABORTED in the word that it writes: the flow failed and cannot be repaired.
    Switch,
    /// This host's agent aborted the ring, usually because the controller said so.
    Agent,
    /// The other end of a loopback ring went away without closing it.
    Peer,
}

impl std::fmt::Display for AbortOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Switch => "the switch",
            Self::Agent => "the host agent",
            Self::Peer => "the other end of the ring, which went away without closing it",
        })
    }
}

/// Why an item was not pushed. The ring is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// No room now (only the `try_` calls say this).
    #[error("the ring is full")]
    Full,
    /// No room within the time given.
    #[error("the ring stayed full until the time given was over")]
    TimedOut,
    /// The handle's [`Cancel`](super::Cancel) token was triggered while waiting for room.
    #[error("cancelled while waiting for room in the ring")]
    Cancelled,
    /// The data has the wrong length for this ring.
    #[error("{got} B of data do not make whole items: this ring's items have {item} B")]
    ItemSize {
        /// The ring's item size, bytes.
        item: u32,
        /// What was passed, bytes.
        got: usize,
    },
    /// The flow failed; items still in the ring will not be delivered.
    #[error("the ring was aborted by {0}")]
    Aborted(AbortOrigin),
    /// The `tail` word holds a value that no correct peer writes.
    #[error("the ring's tail word is corrupt: tail {tail} does not belong to head {head}")]
    Corrupt {
        /// This side's head, bytes.
        head: u32,
        /// The tail that was read, bytes.
        tail: u32,
    },
}

/// Why no item was popped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PopError {
    /// Nothing there now (only the `try_` calls and `peek` say this).
    #[error("the ring is empty")]
    Empty,
    /// Nothing came within the time given.
    #[error("the ring stayed empty until the time given was over")]
    TimedOut,
    /// The handle's [`Cancel`](super::Cancel) token was triggered while waiting for items.
    #[error("cancelled while waiting for items in the ring")]
    Cancelled,
    /// The buffer has the wrong length for this ring.
    #[error("a buffer of {got} B does not hold whole items: this ring's items have {item} B")]
    ItemSize {
        /// The ring's item size, bytes.
        item: u32,
        /// What was passed, bytes.
        got: usize,
    },
    /// End of stream: every item was delivered and no more will come.
    #[error("the ring is closed and drained")]
    Closed,
    /// The flow failed. Everything committed before was delivered; more may have been pushed.
    #[error("the ring was aborted by {0}")]
    Aborted(AbortOrigin),
    /// The `head` word holds a value that no correct peer writes.
    #[error("the ring's head word is corrupt: head {head} does not belong to tail {tail}")]
    Corrupt {
        /// The head that was read, bytes.
        head: u32,
        /// This side's tail, bytes.
        tail: u32,
    },
}

impl PopError {
    /// Whether this is the regular end of the stream.
    pub fn is_end_of_stream(self) -> bool {
        self == Self::Closed
    }
}
