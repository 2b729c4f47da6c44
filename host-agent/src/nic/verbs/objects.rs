//! The objects that the library made for a NIC.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::Arc;

use zsr_wire::{Qpn, Rkey};

use super::abi::{Mr, Opaque, Qp};
use super::library::Verbs;
use crate::nic::QpTarget;
use zsr_ring::memory::Memory;

/// Pointers into the library, all belonging to one opened device.
pub(super) struct Objects {
    /// Null when the device has been taken away; then all else is gone, too.
    pub context: *mut Opaque,
    pub pd: *mut Opaque,
    pub cq: *mut Opaque,
    pub regions: HashMap<Rkey, (*mut Mr, Arc<dyn Memory>)>,
    pub queue_pairs: HashMap<Qpn, QueuePair>,
    /// Where the GID was last.
    pub gid_index: u8,
    /// Whether the port was of no use when it was looked at last.
    pub troubled: bool,
}

pub(super) struct QueuePair {
    pub qp: *mut Qp,
    /// The far end, and the index of the GID that it knows this end by.
    pub connected: Option<(QpTarget, u8)>,
}

// SAFETY: the library's objects may be used from any thread; ours are only reached with the lock held.
unsafe impl Send for Objects {}

impl Objects {
    /// Lets go of everything, the device included.
    pub fn release(&mut self, verbs: &Verbs) {
        // SAFETY: in the reverse order of their making, each once; what was not made is null.
        unsafe {
            for (_, pair) in self.queue_pairs.drain() {
                (verbs.destroy_qp)(pair.qp);
            }
            for (_, (region, memory)) in self.regions.drain() {
                if (verbs.dereg_mr)(region) != 0 {
                    std::mem::forget(memory);
                }
            }
            if !self.cq.is_null() {
                (verbs.destroy_cq)(self.cq);
            }
            if !self.pd.is_null() {
                (verbs.dealloc_pd)(self.pd);
            }
            if !self.context.is_null() {
                (verbs.close_device)(self.context);
            }
        }
        (self.context, self.pd, self.cq) = (null_mut(), null_mut(), null_mut());
    }
}
