//! The headers of a connection, ready but for the few fields that differ from packet to packet.

use zsr_wire::roce::{BTH_AT, EXT_AT, IP_AT, Path, UDP_AT};
use zsr_wire::{Frame, Opcode, Psn, Qpn, bth, ethernet, icrc, ipv4, udp};

/// The fields that differ from packet to packet.
pub(crate) struct Head {
    pub(crate) opcode: Opcode,
    pub(crate) psn: Psn,
    pub(crate) ack_req: bool,
    pub(crate) payload_len: usize,
    pub(crate) ident: u16,
}

/// Ethernet, IPv4, UDP and BTH of one connection. The fields that the ICRC takes for ones *are* ones, until
/// [`Open::seal`] has computed it and puts their real values in. So an ICRC takes one run of the CRC and no copy.
#[derive(Clone)]
pub(crate) struct Template {
    bytes: [u8; EXT_AT],
    tos: u8,
    ttl: u8,
    /// Sum of the IPv4 header's words without length, identification and checksum.
    sum: u32,
}

/// A packet that is being made: headers and pad are in place, extension, payload and ICRC are not.
pub(crate) struct Open<'a> {
    packet: &'a mut [u8],
    tos: u8,
    ttl: u8,
    checksum: u16,
}

impl<'a> Open<'a> {
    /// The bytes behind the BTH: extension, payload, pad, room for the ICRC.
    #[inline]
    pub(crate) fn rest(&mut self) -> &mut [u8] {
        &mut self.packet[EXT_AT..]
    }

    /// Another queue pair than the template's.
    #[inline]
    pub(crate) fn goes_to(&mut self, qpn: Qpn) {
        self.packet[BTH_AT + 5..BTH_AT + 8].copy_from_slice(&qpn.get().to_be_bytes()[1..]);
    }

    /// Writes the ICRC and the fields that it does not cover.
    #[inline]
    pub(crate) fn seal(self) {
        if let Some((covered, trailer)) = self.packet[IP_AT..].split_last_chunk_mut::<{ icrc::LEN }>() {
            *trailer = icrc::compute_masked(covered).to_le_bytes();
        }
        if let Some(headers) = self.packet.first_chunk_mut::<EXT_AT>() {
            headers[IP_AT + 1] = self.tos;
            headers[IP_AT + 8] = self.ttl;
            headers[IP_AT + 10..IP_AT + 12].copy_from_slice(&self.checksum.to_be_bytes());
            headers[UDP_AT + 6..UDP_AT + 8].fill(0);
            headers[BTH_AT + 4] = 0;
        }
    }
}

impl Template {
    pub(crate) fn new(path: &Path, dest_qp: Qpn) -> Template {
        let mut t = [0u8; EXT_AT];
        t[0..6].copy_from_slice(&path.dst_mac.0);
        t[6..12].copy_from_slice(&path.src_mac.0);
        t[12..14].copy_from_slice(&ethernet::IPV4.to_be_bytes());
        t[IP_AT] = 0x45;
        t[IP_AT + 1] = path.tos;
        t[IP_AT + 6] = 0x40; // don't fragment
        t[IP_AT + 8] = path.ttl;
        t[IP_AT + 9] = ipv4::UDP;
        t[IP_AT + 12..IP_AT + 16].copy_from_slice(&path.src_ip.octets());
        t[IP_AT + 16..IP_AT + 20].copy_from_slice(&path.dst_ip.octets());
        t[UDP_AT..UDP_AT + 2].copy_from_slice(&path.src_port.to_be_bytes());
        t[UDP_AT + 2..UDP_AT + 4].copy_from_slice(&udp::ROCE_PORT.to_be_bytes());
        t[BTH_AT + 1] = 0x40; // migrated, as a QP without path migration says
        t[BTH_AT + 2..BTH_AT + 4].copy_from_slice(&bth::DEFAULT_PKEY.to_be_bytes());
        t[BTH_AT + 4..BTH_AT + 8].copy_from_slice(&dest_qp.get().to_be_bytes());
        let sum = t[IP_AT..UDP_AT].chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        for masked in [IP_AT + 1, IP_AT + 8, IP_AT + 10, IP_AT + 11, UDP_AT + 6, UDP_AT + 7, BTH_AT + 4] {
            t[masked] = 0xff;
        }
        Template { bytes: t, tos: path.tos, ttl: path.ttl, sum }
    }

    /// Appends a whole packet to `frame`, with headers and pad in place. `None` if it does not fit.
    #[inline]
    pub(crate) fn start<'a>(&self, frame: &'a mut Frame, head: &Head) -> Option<Open<'a>> {
        let pad = head.payload_len.wrapping_neg() & 3;
        let total = EXT_AT + head.opcode.extension_len() + head.payload_len + pad + icrc::LEN;
        let out = frame.grow_back(total)?;
        let (headers, rest) = out.split_first_chunk_mut::<EXT_AT>()?;
        *headers = self.bytes;
        let ip_len = (total - IP_AT) as u16;
        let sum = self.sum + u32::from(ip_len) + u32::from(head.ident);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        headers[IP_AT + 2..IP_AT + 4].copy_from_slice(&ip_len.to_be_bytes());
        headers[IP_AT + 4..IP_AT + 6].copy_from_slice(&head.ident.to_be_bytes());
        headers[UDP_AT + 4..UDP_AT + 6].copy_from_slice(&(ip_len - ipv4::LEN as u16).to_be_bytes());
        headers[BTH_AT] = head.opcode.code();
        headers[BTH_AT + 1] |= (pad as u8) << 4;
        let word = u32::from(head.ack_req) << 31 | head.psn.get();
        headers[BTH_AT + 8..BTH_AT + 12].copy_from_slice(&word.to_be_bytes());
        if pad != 0 {
            let end = rest.len() - icrc::LEN;
            rest[end - pad..end].fill(0);
        }
        Some(Open { packet: out, tos: self.tos, ttl: self.ttl, checksum: sum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use zsr_wire::message::Message;
    use zsr_wire::{Mac, roce};

    #[test]
    fn equals_what_wire_emits() {
        let path = Path {
            src_mac: Mac([2, 0, 0, 0, 0, 1]),
            dst_mac: Mac([2, 0, 0, 0, 0, 2]),
            src_ip: Ipv4Addr::new(255, 254, 253, 252),
            dst_ip: Ipv4Addr::new(192, 168, 7, 9),
            src_port: 0xc0de,
            tos: 0x6a,
            ttl: 64,
        };
        let template = Template::new(&path, Qpn::new(0xab_cdef));
        for len in [1usize, 2, 3, 4, 255, 1024, 4096] {
            for ident in [0u16, 1, 0x8000, 0xffff] {
                let mut repr =
                    roce::Repr::new(path, Qpn::new(0xab_cdef), Psn::new(0xff_fffe), Message::WriteLast);
                repr.ident = ident;
                repr.ack_req = ident & 1 == 1;
                let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
                let mut want = Frame::new();
                repr.emit(&payload, &mut want).unwrap();
                let mut got = Frame::new();
                let head = Head {
                    opcode: Opcode::WriteLast,
                    psn: repr.psn,
                    ack_req: repr.ack_req,
                    payload_len: len,
                    ident,
                };
                let mut open = template.start(&mut got, &head).unwrap();
                open.rest()[..len].copy_from_slice(&payload);
                open.seal();
                assert_eq!(got.bytes(), want.bytes());
            }
        }
    }
}
