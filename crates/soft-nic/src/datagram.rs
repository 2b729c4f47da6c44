//! UDP datagrams of the host's own, beside RoCE: doorbells.

use std::net::Ipv4Addr;

use zsr_wire::{Frame, FramePool, Mac, ethernet, ipv4};

use crate::nic::Nic;

/// Datagrams that wait at most; a full queue drops, as UDP may.
pub(crate) const QUEUE: usize = 64;
/// Bytes of payload at most.
pub const MAX_PAYLOAD: usize = 32;

/// A short UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// MAC address of the next hop.
    pub mac: Mac,
    /// Destination.
    pub ip: Ipv4Addr,
    /// UDP port, source and destination.
    pub port: u16,
    /// Payload, of which `len` bytes count.
    pub payload: [u8; MAX_PAYLOAD],
    /// Bytes of payload, at most [`MAX_PAYLOAD`].
    pub len: usize,
}

impl Nic {
    /// Queues a datagram; it leaves in front of everything else. False if the queue is full.
    pub fn send_datagram(&mut self, datagram: Datagram) -> bool {
        let room = self.datagrams.len() < QUEUE;
        if room {
            self.datagrams.push_back(datagram);
        }
        room
    }

    /// The next datagram as a frame.
    pub(crate) fn datagram(&mut self, pool: &mut FramePool) -> Option<Frame> {
        const IP: usize = ethernet::LEN;
        const UDP: usize = IP + ipv4::LEN;
        const DATA: usize = UDP + 8;
        let d = self.datagrams.pop_front()?;
        let payload = d.payload.get(..d.len)?;
        let mut frame = pool.take();
        let out = frame.grow_back(ethernet::MIN_FRAME.max(DATA + payload.len()))?;
        out.fill(0);
        ethernet::Repr { dst: d.mac, src: self.config.mac, ethertype: ethernet::IPV4 }.emit(out).ok()?;
        let udp_len = (8 + payload.len()) as u16;
        out[IP] = 0x45;
        out[IP + 2..IP + 4].copy_from_slice(&(ipv4::LEN as u16 + udp_len).to_be_bytes());
        out[IP + 6] = 0x40; // don't fragment
        out[IP + 8] = 64;
        out[IP + 9] = ipv4::UDP;
        out[IP + 12..IP + 16].copy_from_slice(&self.config.ip.octets());
        out[IP + 16..IP + 20].copy_from_slice(&d.ip.octets());
        if let Some(header) = out[IP..UDP].first_chunk::<{ ipv4::LEN }>() {
            let sum = ipv4::checksum(header);
            out[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
        }
        out[UDP..UDP + 2].copy_from_slice(&d.port.to_be_bytes());
        out[UDP + 2..UDP + 4].copy_from_slice(&d.port.to_be_bytes());
        out[UDP + 4..UDP + 6].copy_from_slice(&udp_len.to_be_bytes());
        // A UDP checksum of 0 is none.
        out[DATA..DATA + payload.len()].copy_from_slice(payload);
        self.stats.tx_frames += 1;
        self.stats.tx_bytes += frame.len() as u64;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NicConfig;

    #[test]
    fn a_datagram_leaves_first_and_whole() {
        let mut nic = Nic::new(NicConfig::new(Mac([2; 6]), Ipv4Addr::new(10, 0, 0, 1)));
        let mut pool = FramePool::with_frames(1);
        let mut payload = [0; MAX_PAYLOAD];
        payload[..3].copy_from_slice(b"abc");
        let d = Datagram { mac: Mac([4; 6]), ip: Ipv4Addr::new(10, 0, 0, 9), port: 7, payload, len: 3 };
        assert!((0..QUEUE).all(|_| nic.send_datagram(d)));
        assert!(!nic.send_datagram(d), "a full queue drops");
        let frame = nic.poll_transmit(0, &mut pool).expect("a frame");
        let bytes = frame.bytes();
        assert_eq!(bytes.len(), ethernet::MIN_FRAME);
        assert_eq!(&bytes[..6], &[4; 6]);
        let header: &[u8; ipv4::LEN] = bytes[14..].first_chunk().expect("a header");
        assert_eq!(ipv4::checksum(header), 0, "the sum over a header with its checksum");
        assert_eq!(&bytes[16..18], &31u16.to_be_bytes());
        assert_eq!(&bytes[34..45], [0, 7, 0, 7, 0, 11, 0, 0, b'a', b'b', b'c']);
    }
}
