//! The doorbell: a datagram that tells the switch of items in a ring that was empty, so that it need not wait for its next poll.
//! It is a hint: nothing is lost when it gets lost.

use std::fmt;

/// UDP port of doorbells, at the switch (P4: `UDP_PORT_DOORBELL`).
pub const PORT: u16 = 50592;
/// Bytes of a doorbell's payload. The frame is then the shortest that there is, and so has no padding, with a VLAN tag or without.
pub const LEN: usize = 18;
/// What the check covers.
const SAID: usize = 12;

/// Payload: the ring's secret, its newest `head` and flags, each 32 bits in network byte order, the CRC-32 of these, least
/// significant byte first, and two zeros.
pub fn payload(secret: u32, head: u32, flags: u32) -> [u8; LEN] {
    let mut out = [0; LEN];
    for (bytes, value) in out.chunks_exact_mut(4).zip([secret, head, flags]) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
    let check = crc32fast::hash(&out[..SAID]);
    out[SAID..SAID + 4].copy_from_slice(&check.to_le_bytes());
    out
}

/// Rings for one producer ring.
pub trait Doorbell: Send {
    /// Says that the ring's `head` word now holds this counter, in bytes, and these flags. Must not block.
    fn ring(&mut self, head: u32, flags: u32);
}

/// A producer's doorbell, if it has one.
#[derive(Default)]
pub(super) struct Bell(pub(super) Option<Box<dyn Doorbell>>);

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Bell" } else { "no Bell" })
    }
}
