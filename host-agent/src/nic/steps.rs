//! The steps of a ring at a NIC. Each call of a [`NicBackend`](super::NicBackend) is some of them, all or nothing.

use std::sync::Arc;

use super::{NicError, QpTarget, RingPart};
use zsr_ring::memory::Memory;
use zsr_wire::{Qpn, Rkey};

/// A NIC that is in hand.
pub(super) trait Steps {
    /// Registers all of `memory` at I/O virtual address 0 for READ and WRITE by the peer.
    fn register(&mut self, memory: Arc<dyn Memory>) -> Result<Rkey, NicError>;
    /// Makes a key invalid and lets go of its memory.
    fn deregister(&mut self, rkey: Rkey) -> Result<(), NicError>;
    /// Makes a queue pair in state RESET.
    fn create_qp(&mut self) -> Result<Qpn, NicError>;
    /// Takes a queue pair from RESET to RTS, or leaves it in RESET.
    fn connect_qp(&mut self, qpn: Qpn, target: &QpTarget) -> Result<(), NicError>;
    /// Takes a queue pair to RESET from any state.
    fn reset_qp(&mut self, qpn: Qpn) -> Result<(), NicError>;
    /// Destroys a queue pair.
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), NicError>;

    /// [`NicBackend::make`](super::NicBackend::make).
    fn make(&mut self, memory: Arc<dyn Memory>) -> Result<RingPart, NicError> {
        let rkey = self.register(memory)?;
        let made = self.create_qp().and_then(|data| match self.create_qp() {
            Ok(poll) => Ok(RingPart { rkey, data, poll }),
            Err(error) => {
                let _ = self.destroy_qp(data);
                Err(error)
            }
        });
        made.inspect_err(|_| {
            let _ = self.deregister(rkey);
        })
    }

    /// [`NicBackend::connect`](super::NicBackend::connect).
    fn connect(&mut self, ring: RingPart, data: &QpTarget, poll: &QpTarget) -> Result<(), NicError> {
        self.connect_qp(ring.data, data)?;
        self.connect_qp(ring.poll, poll).inspect_err(|_| {
            let _ = self.reset_qp(ring.data);
        })
    }

    /// [`NicBackend::reset`](super::NicBackend::reset).
    fn reset(&mut self, ring: RingPart) -> Result<(), NicError> {
        self.reset_qp(ring.data).and(self.reset_qp(ring.poll))
    }

    /// [`NicBackend::destroy`](super::NicBackend::destroy).
    fn destroy(&mut self, ring: RingPart) -> Result<(), NicError> {
        let (data, poll) = (self.destroy_qp(ring.data), self.destroy_qp(ring.poll));
        data.and(poll).and(self.deregister(ring.rkey))
    }
}
