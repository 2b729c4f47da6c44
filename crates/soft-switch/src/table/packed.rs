//! Entries in few bytes.

use crate::control::TableEntry;

/// An entry as the control plane gave it, in one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Packed(Box<[u8]>);

impl Packed {
    pub(crate) fn new(entry: &TableEntry) -> Packed {
        // Fails only where a sequence has no length.
        Packed(postcard::to_allocvec(entry).expect("entries can be written").into())
    }

    pub(crate) fn unpacked(&self) -> TableEntry {
        postcard::from_bytes(&self.0).expect("it was written by `new`")
    }
}
