//! Doorbells by the host's own UDP socket, for NICs that are interfaces of the operating system too.

use std::net::{Ipv4Addr, UdpSocket};

use super::{NicError, NicErrorKind};
use zsr_ring::doorbell::{self, Doorbell};

/// A connected UDP socket that never blocks.
pub struct UdpBell {
    socket: UdpSocket,
    secret: u32,
}

impl UdpBell {
    /// Rings from address `from` at the switch's address `to`.
    ///
    /// # Errors
    /// [`NicErrorKind::Other`] when there is no such local address or no way to the switch.
    pub fn new(from: Ipv4Addr, to: Ipv4Addr, secret: u32) -> Result<UdpBell, NicError> {
        let open = || {
            let socket = UdpSocket::bind((from, 0))?;
            socket.connect((to, doorbell::PORT))?;
            socket.set_nonblocking(true)?;
            Ok(UdpBell { socket, secret })
        };
        open().map_err(|e: std::io::Error| NicError {
            kind: NicErrorKind::Other,
            message: format!("no doorbell from {from} to the switch at {to}: {e}"),
        })
    }
}

impl Doorbell for UdpBell {
    fn ring(&mut self, head: u32, flags: u32) {
        // A doorbell that can't be sent is one that got lost: the switch polls.
        let _ = self.socket.send(&doorbell::payload(self.secret, head, flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_says_secret_head_and_flags() {
        let (local, other) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 77));
        let switch = UdpSocket::bind((other, doorbell::PORT)).expect("a port of our own");
        UdpBell::new(local, other, 0x0102_0304).expect("a socket").ring(0x100, 1);
        let mut bytes = [0; 64];
        let length = switch.recv(&mut bytes).expect("a datagram");
        // And zlib's crc32 of that.
        assert_eq!(bytes[..length], [1, 2, 3, 4, 0, 0, 1, 0, 0, 0, 0, 1, 0xfd, 0x3a, 0x9c, 0xb2, 0, 0]);
    }

    #[test]
    fn a_foreign_address_is_refused() {
        let error =
            UdpBell::new(Ipv4Addr::new(203, 0, 113, 9), Ipv4Addr::LOCALHOST, 1).err().expect("refused");
        assert!(error.message.contains("203.0.113.9"), "{error}");
    }
}
