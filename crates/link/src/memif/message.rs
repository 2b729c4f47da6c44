//! Messages of memif's control channel, version 2.0: one packet of 128 bytes each, in the machine's byte order, with at
//! most one descriptor beside it (memif.h of VPP's libmemif).

/// Bytes of each message.
pub(super) const SIZE: usize = 128;
/// Version 2.0.
pub(super) const VERSION: u16 = 2 << 8;
const NAME: usize = 32;
const SECRET: usize = 24;
const TEXT: usize = 96;
const ETHERNET: u8 = 0;
const SLAVE_TO_MASTER: u16 = 1;

/// What the listening side allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) versions: (u16, u16),
    /// The highest index of a region.
    pub(super) max_region: u16,
    /// The highest index of a ring, in each direction.
    pub(super) max_rings: (u16, u16),
    pub(super) max_log2_ring_size: u8,
}

/// A ring in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddRing {
    /// Whether frames go from the side that owns the memory to the side that listens.
    pub(super) from_owner: bool,
    pub(super) index: u16,
    pub(super) region: u16,
    pub(super) offset: u32,
    pub(super) log2_size: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Ack,
    Hello(Hello),
    Init { version: u16, id: u32, is_ethernet: bool },
    AddRegion { index: u16, size: u64 },
    AddRing(AddRing),
    Connect,
    Connected,
    Disconnect { text: String },
}

struct Writer([u8; SIZE], usize);

impl Writer {
    fn put(mut self, bytes: &[u8]) -> Writer {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
        self
    }

    fn u16(self, value: u16) -> Writer {
        self.put(&value.to_ne_bytes())
    }

    fn u32(self, value: u32) -> Writer {
        self.put(&value.to_ne_bytes())
    }

    fn text(self, text: &str, len: usize) -> Writer {
        let at = self.1;
        // One byte stays zero: the other side may take it for a C string.
        let bytes = &text.as_bytes()[..text.len().min(len - 1)];
        Writer(self.put(bytes).0, at + len)
    }
}

struct Reader<'m>(&'m [u8]);

impl<'m> Reader<'m> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        // A message has 128 bytes, and no kind of message asks for more.
        self.bytes(N).try_into().unwrap_or([0; N])
    }

    fn bytes(&mut self, len: usize) -> &'m [u8] {
        let (first, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        first
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }
}

impl Message {
    pub(super) fn encode(&self) -> [u8; SIZE] {
        let name = env!("CARGO_PKG_NAME");
        let kind = |kind: u16| Writer([0; SIZE], 0).u16(kind);
        match self {
            Message::Ack => kind(1),
            Message::Hello(h) => kind(2)
                .text(name, NAME)
                .u16(h.versions.0)
                .u16(h.versions.1)
                .u16(h.max_region)
                .u16(h.max_rings.0)
                .u16(h.max_rings.1)
                .put(&[h.max_log2_ring_size]),
            Message::Init { version, id, is_ethernet } => kind(3)
                .u16(*version)
                .u32(*id)
                .put(&[if *is_ethernet { ETHERNET } else { !ETHERNET }])
                .put(&[0; SECRET])
                .text(name, NAME),
            Message::AddRegion { index, size } => kind(4).u16(*index).put(&size.to_ne_bytes()),
            Message::AddRing(ring) => kind(5)
                .u16(if ring.from_owner { SLAVE_TO_MASTER } else { 0 })
                .u16(ring.index)
                .u16(ring.region)
                .u32(ring.offset)
                .put(&[ring.log2_size])
                .u16(0),
            Message::Connect => kind(6).text(name, NAME),
            Message::Connected => kind(7).text(name, NAME),
            Message::Disconnect { text } => kind(8).u32(0).text(text, TEXT),
        }
        .0
    }

    /// `None`: of no kind that there is, or not of the right length.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        if bytes.len() != SIZE {
            return None;
        }
        let mut from = Reader(bytes);
        Some(match from.u16() {
            1 => Message::Ack,
            2 => {
                from.bytes(NAME);
                Message::Hello(Hello {
                    versions: (from.u16(), from.u16()),
                    max_region: from.u16(),
                    max_rings: (from.u16(), from.u16()),
                    max_log2_ring_size: from.u8(),
                })
            }
            3 => Message::Init { version: from.u16(), id: from.u32(), is_ethernet: from.u8() == ETHERNET },
            4 => Message::AddRegion { index: from.u16(), size: u64::from_ne_bytes(from.take()) },
            5 => Message::AddRing(AddRing {
                from_owner: from.u16() & SLAVE_TO_MASTER != 0,
                index: from.u16(),
                region: from.u16(),
                offset: from.u32(),
                log2_size: from.u8(),
            }),
            6 => Message::Connect,
            7 => Message::Connected,
            8 => {
                from.u32();
                let text = from.bytes(TEXT).split(|&b| b == 0).next().unwrap_or_default();
                Message::Disconnect { text: String::from_utf8_lossy(text).into_owned() }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_are_laid_out_as_in_memif_h() {
        let ring = AddRing { from_owner: true, index: 2, region: 3, offset: 0x0405_0607, log2_size: 8 };
        let bytes = Message::AddRing(ring).encode();
        let expected =
            [&5u16.to_ne_bytes()[..], &[1, 0, 2, 0, 3, 0], &0x0405_0607u32.to_ne_bytes(), &[8, 0, 0]]
                .concat();
        assert_eq!(bytes[..expected.len()], expected);
        let init = Message::Init { version: VERSION, id: 7, is_ethernet: true }.encode();
        assert_eq!(init[..9], [3, 0, 0, 2, 7, 0, 0, 0, 0]);
        assert_eq!(&init[9 + SECRET..9 + SECRET + 8], b"zsr-link");
        let region = Message::AddRegion { index: 1, size: 0x1122 }.encode();
        assert_eq!(region[..12], [4, 0, 1, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_long_text_is_cut_and_stays_a_c_string() {
        let text = "x".repeat(200);
        let bytes = Message::Disconnect { text }.encode();
        assert_eq!(bytes[6 + TEXT - 1], 0);
        assert_eq!(Message::decode(&bytes), Some(Message::Disconnect { text: "x".repeat(TEXT - 1) }));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..10) {
            let mut bytes = bytes;
            if bytes.len() > 1 {
                bytes[..2].copy_from_slice(&[kind, 0]);
            }
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(bytes.len(), SIZE);
                let again = Message::decode(&message.encode());
                if !matches!(message, Message::Disconnect { .. }) {
                    prop_assert_eq!(again, Some(message));
                }
            }
        }
    }
}
